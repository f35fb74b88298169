//! The control protocol: what an agent and who controls it say to each other, over any stream of bytes.
//!
//! Each [frame](netrig_host::frames) is one [`Request`] or one [`Reply`]. The controller begins with [`Request::Hello`]; an agent of another version answers with an error and
//! ends. The stream must come from somebody who may command this machine: the protocol itself has no key.
//!
//! A node may have ten thousand ends of flows, so nothing that grows with their number goes in one frame: each end has its
//! own, when it is ordered ([`order_frames`]) and when it is reported, and what is measured is cut by its bytes
//! ([`sample_frames`], [`note_frames`]).

mod cut;

use netrig_core::{Instant, Note, Sample, Subject};
use serde::{Deserialize, Serialize};

pub(crate) use self::cut::ToldEnds;
pub use self::cut::{note_frames, order_frames, sample_frames};
use crate::meter::Samples;
use crate::{EndOrder, EndReport, RunOrder, Side, TimedControl};
use netrig_host::frames::FrameError;
use netrig_host::quantity;

/// The version of the protocol: both sides must have the same.
pub const VERSION: u32 = 2;

/// What an agent is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// The first words.
    Hello {
        /// The controller's [`VERSION`].
        version: u32,
    },
    /// An end of a flow of the run that is prepared next.
    End {
        /// The end.
        end: Box<EndOrder>,
    },
    /// What else the associations of the end that was told last are told.
    Controls {
        /// In the order of time.
        controls: Vec<TimedControl>,
    },
    /// Open all sockets of a run, whose ends have been told.
    Prepare {
        /// The run.
        run: RunOrder,
    },
    /// Start the run that was prepared.
    Start {
        /// When.
        at: Epoch,
    },
    /// End the run that lasts, and report.
    Stop,
    /// Nothing follows.
    Bye,
}

/// The moment at which a run starts: its [`Instant::ZERO`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Epoch {
    /// Nanoseconds of `CLOCK_MONOTONIC`, which all agents of one host share.
    Monotonic(u64),
    /// Nanoseconds of the agent's `CLOCK_REALTIME`.
    Realtime(u64),
}

/// What an agent tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    /// To [`Request::Hello`].
    Hello {
        /// The agent's [`VERSION`].
        version: u32,
    },
    /// The sockets stand. The agent's clocks, so that the controller can choose a start for all of its agents.
    Prepared {
        /// `CLOCK_MONOTONIC` now, ns.
        monotonic_ns: u64,
        /// `CLOCK_REALTIME` at that moment, ns.
        realtime_ns: u64,
        /// How far apart the two readings may be, ns.
        error_ns: u64,
    },
    /// What was measured.
    Samples {
        /// Samples of one subject and quantity each.
        columns: Vec<Column>,
    },
    /// What happened, in words.
    Notes {
        /// In the order of time.
        lines: Vec<NoteLine>,
    },
    /// An end has nothing more to do, as far as it knows: its application wants nothing and its connections have closed; or
    /// it has again.
    Idle {
        /// The flow's place in the scenario.
        flow: u32,
        /// Which of its ends.
        side: Side,
        /// Whether it is so.
        idle: bool,
    },
    /// The run is over: what one end did in it.
    Report {
        /// The end's report.
        end: Box<EndReport>,
    },
    /// All ends have reported.
    Reported,
    /// Something that was asked for could not be done. Of a run that lasts nothing more is told after it.
    Error {
        /// What.
        what: String,
    },
}

/// Samples of one subject and quantity, in the order of time of their making.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// What they are about.
    pub subject: Subject,
    /// The quantity's name.
    pub quantity: String,
    /// When, ns since the start of the run.
    pub at_ns: Vec<u64>,
    /// How much, in the quantity's unit; as many as there are moments.
    pub values: Vec<f64>,
}

impl Column {
    /// The samples in it.
    ///
    /// # Errors
    /// If nobody has declared the quantity, or moments and values do not go together.
    pub fn samples(&self) -> Result<Samples, ControlError> {
        let quantity = quantity::by_name(&self.quantity)
            .ok_or_else(|| ControlError::UnknownQuantity(self.quantity.clone()))?;
        let (moments, values) = (self.at_ns.len(), self.values.len());
        if moments != values {
            return Err(ControlError::Uneven { quantity: self.quantity.clone(), moments, values });
        }
        let sample = |(at, value): (&u64, &f64)| {
            (self.subject, Sample { at: Instant::from_nanos(*at), quantity, value: *value })
        };
        Ok(self.at_ns.iter().zip(&self.values).map(sample).collect())
    }
}

/// A line of the run's time line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoteLine {
    /// When, ns since the start of the run.
    pub at_ns: u64,
    /// About what.
    pub subject: Subject,
    /// The words.
    pub text: String,
}

impl From<&Note> for NoteLine {
    fn from(note: &Note) -> Self {
        Self { at_ns: note.at.as_nanos(), subject: note.subject, text: note.text.clone() }
    }
}

impl From<NoteLine> for Note {
    fn from(line: NoteLine) -> Self {
        Self { at: Instant::from_nanos(line.at_ns), subject: line.subject, text: line.text }
    }
}

/// What is wrong with what the other side said.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A frame could not be read or written.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The other side is of another version.
    #[error("the other side speaks version {0} of the control protocol, and this one version {VERSION}")]
    Version(u32),
    /// Something was said at a moment at which it means nothing.
    #[error("{said} means nothing {when}")]
    OutOfOrder {
        /// What was said.
        said: &'static str,
        /// When.
        when: &'static str,
    },
    /// A sample of a quantity that nobody has declared.
    #[error("there is no quantity `{0}`")]
    UnknownQuantity(String),
    /// A column with more moments than values, or fewer.
    #[error("{moments} moments and {values} values of `{quantity}`")]
    Uneven {
        /// The quantity's name.
        quantity: String,
        /// How many moments there are.
        moments: usize,
        /// How many values there are.
        values: usize,
    },
}

#[cfg(test)]
mod tests {
    use netrig_core::quantity as shared;
    use proptest::prelude::*;

    use super::*;
    use netrig_host::frames::{read_frame, write_frame};

    pub(super) fn framed(words: &impl Serialize) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, words).unwrap();
        bytes
    }

    proptest! {
        #[test]
        fn any_bytes_are_frames_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut stream = &bytes[..];
            while let Ok(Some(_)) = read_frame::<Request>(&mut stream) {}
        }

        #[test]
        fn any_text_in_a_frame_is_understood_or_an_error(text in ".{0,80}") {
            let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
            bytes.extend(text.as_bytes());
            prop_assert!(!matches!(read_frame::<Request>(&mut &bytes[..]), Ok(None)));
        }

        /// A frame with one byte changed is another frame or an error.
        #[test]
        fn a_damaged_frame_breaks_nothing(at in 0_usize..60, with: u8) {
            let mut bytes = framed(&Request::Start { at: Epoch::Monotonic(123_456_789_012) });
            let at = at % bytes.len();
            bytes[at] = with;
            let _ = read_frame::<Request>(&mut &bytes[..]);
        }

        #[test]
        fn samples_survive_the_way(values in proptest::collection::vec((any::<u32>(), -1e12..1e12_f64, 0..3_u32), 0..50)) {
            let samples: Samples = values.into_iter().map(|(at, value, flow)| {
                let sample = Sample { at: Instant::from_nanos(at.into()), quantity: &shared::ONE_WAY_DELAY, value };
                (Subject::Flow(flow), sample)
            }).collect();
            let mut back = Samples::new();
            for frame in sample_frames(&samples) {
                let Some(Reply::Samples { columns }) = read_frame(&mut &framed(&frame)[..]).unwrap() else { panic!() };
                for column in columns { back.extend(column.samples().unwrap()); }
            }
            let bits = |samples: &Samples, flow| -> Vec<_> {
                let of = samples.iter().filter(|(subject, _)| *subject == Subject::Flow(flow));
                of.map(|(_, sample)| (sample.at, sample.value.to_bits())).collect()
            };
            for flow in 0..3 {
                prop_assert_eq!(bits(&samples, flow), bits(&back, flow));
            }
        }
    }

    #[test]
    fn a_frame_is_its_length_and_its_words() {
        assert_eq!(framed(&Request::Stop), b"\0\0\0\x06\"stop\"");
        assert_eq!(framed(&Request::Hello { version: 1 }), b"\0\0\0\x17{\"hello\":{\"version\":1}}");
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        let words = serde_json::json!({ "hello": { "version": 1, "name": "x" } });
        assert!(matches!(read_frame::<Request>(&mut &framed(&words)[..]), Err(FrameError::Malformed(_))));
        let column = |quantity: &str, at_ns| Column {
            subject: Subject::Run,
            quantity: quantity.into(),
            at_ns,
            values: vec![1.0],
        };
        assert!(matches!(column("nonesuch", vec![1]).samples(), Err(ControlError::UnknownQuantity(_))));
        assert!(matches!(column("lateness", vec![]).samples(), Err(ControlError::Uneven { .. })));
    }
}
