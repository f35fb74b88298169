//! The control protocol between an agent and its controller, over any stream of bytes.
//!
//! Each [frame](netrig_host::frames) contains one [`ControlRequest`] or one [`ControlReply`]. The controller starts
//! with [`ControlRequest::Hello`]. If the agent has another version of the protocol, it answers with an error and ends.
//! The protocol has no authentication: the caller must make sure that the peer is allowed to command this machine.
//!
//! A node may have ten thousand ends of flows. To limit the length of a frame, each end has its own frame in the order
//! ([`order_frames`]) and in the report. Samples and notes are split into frames of limited length ([`sample_frames`],
//! [`note_frames`]).

mod cut;

use netrig_core::{Instant, Note, Quantity, Sample, Subject, quantity};
use netrig_traffic::FlowSide;
use serde::{Deserialize, Serialize};

pub(crate) use self::cut::PendingEnds;
pub use self::cut::{note_frames, order_frames, sample_frames};
use crate::carrier::Samples;
use crate::{EndOrder, EndReport, RunOrder, TimedControl};
use netrig_host::frames::FrameError;
use netrig_host::quantity as agents;

/// The version of the protocol. Both sides must have the same version.
pub const VERSION: u32 = 2;

/// A message from the controller to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlRequest {
    /// The first message.
    Hello {
        /// The controller's [`VERSION`].
        version: u32,
    },
    /// One end of a flow, for the run that the next [`ControlRequest::Prepare`] prepares.
    End {
        /// The end.
        end: Box<EndOrder>,
    },
    /// Further scheduled events for the associations of the most recently sent end.
    Controls {
        /// The events, in the order of time.
        controls: Vec<TimedControl>,
    },
    /// Open all sockets of a run. Its ends have been sent before.
    Prepare {
        /// The run.
        run: RunOrder,
    },
    /// Start the prepared run.
    Start {
        /// The start of the run.
        at: Epoch,
    },
    /// End the run in progress and report.
    Stop,
    /// The last message.
    Bye,
}

/// The moment at which a run starts, which is [`Instant::ZERO`] of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Epoch {
    /// Nanoseconds of `CLOCK_MONOTONIC`, which all agents of one host share.
    Monotonic(u64),
    /// Nanoseconds of the agent's `CLOCK_REALTIME`.
    Realtime(u64),
}

/// A message from an agent to its controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlReply {
    /// The answer to [`ControlRequest::Hello`].
    Hello {
        /// The agent's [`VERSION`].
        version: u32,
    },
    /// The sockets are open. The controller uses the clock readings to choose a common start time for all agents.
    Prepared {
        /// `CLOCK_MONOTONIC` now, ns.
        monotonic_ns: u64,
        /// `CLOCK_REALTIME` at that moment, ns.
        realtime_ns: u64,
        /// Upper bound of the time between the two readings, ns.
        error_ns: u64,
    },
    /// Measured samples.
    Samples {
        /// The samples, one column for each subject and quantity.
        columns: Vec<Column>,
    },
    /// Events, as sentences.
    Notes {
        /// The events, in the order of time.
        lines: Vec<NoteLine>,
    },
    /// An end has become idle (all its connections have closed and its application has no timer running), or is no
    /// longer idle.
    Idle {
        /// The flow's index in the scenario.
        flow: u32,
        /// Which end of the flow.
        side: FlowSide,
        /// Whether the end is idle now.
        idle: bool,
    },
    /// The report of one end after the run.
    Report {
        /// The end's report.
        end: Box<EndReport>,
    },
    /// All ends have reported.
    Reported,
    /// A request failed. If a run was in progress, no further message about that run follows.
    Error {
        /// The reason.
        what: String,
    },
}

/// Samples of one subject and quantity, in the order of their creation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The subject of the samples.
    pub subject: Subject,
    /// The quantity's name.
    pub quantity: String,
    /// Times, ns since the start of the run.
    pub at_ns: Vec<u64>,
    /// Values in the quantity's unit: one for each entry of `at_ns`.
    pub values: Vec<f64>,
}

impl Column {
    /// The samples of the column.
    ///
    /// # Errors
    /// If the quantity is not declared, or the numbers of times and values differ.
    pub fn samples(&self) -> Result<Samples, ControlError> {
        let quantity = quantity_of(&self.quantity)
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

/// The quantity of this name, among those of all substrates, of agents and of SIP.
fn quantity_of(name: &str) -> Option<&'static Quantity> {
    let mut all = quantity::ALL.iter().chain(agents::ALL).copied().chain(netrig_sip::index::quantities());
    all.find(|quantity| quantity.name == name)
}

/// An entry of the run's time line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoteLine {
    /// The time, ns since the start of the run.
    pub at_ns: u64,
    /// The subject.
    pub subject: Subject,
    /// The sentence.
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

/// Why a message of the peer was refused.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A frame could not be read or written.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The peer has another version of the protocol.
    #[error("the peer has version {0} of the control protocol, but this netrig has version {VERSION}")]
    Version(u32),
    /// A message that is not allowed in the present state.
    #[error("{message} is not allowed {when}")]
    OutOfOrder {
        /// The message.
        message: &'static str,
        /// The state.
        when: &'static str,
    },
    /// A sample of a quantity that is not declared.
    #[error("unknown quantity `{0}`")]
    UnknownQuantity(String),
    /// In a column, the number of times and the number of values differ.
    #[error("the column of `{quantity}` has {moments} times, but {values} values")]
    Uneven {
        /// The quantity's name.
        quantity: String,
        /// Number of times.
        moments: usize,
        /// Number of values.
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
            while let Ok(Some(_)) = read_frame::<ControlRequest>(&mut stream) {}
        }

        #[test]
        fn any_text_in_a_frame_is_understood_or_an_error(text in ".{0,80}") {
            let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
            bytes.extend(text.as_bytes());
            prop_assert!(!matches!(read_frame::<ControlRequest>(&mut &bytes[..]), Ok(None)));
        }

        /// A frame with one byte changed is another frame or an error.
        #[test]
        fn a_damaged_frame_breaks_nothing(at in 0_usize..60, with: u8) {
            let mut bytes = framed(&ControlRequest::Start { at: Epoch::Monotonic(123_456_789_012) });
            let at = at % bytes.len();
            bytes[at] = with;
            let _ = read_frame::<ControlRequest>(&mut &bytes[..]);
        }

        #[test]
        fn samples_survive_the_way(values in proptest::collection::vec((any::<u32>(), -1e12..1e12_f64, 0..3_u32), 0..50)) {
            let samples: Samples = values.into_iter().map(|(at, value, flow)| {
                let sample = Sample { at: Instant::from_nanos(at.into()), quantity: &shared::ONE_WAY_DELAY, value };
                (Subject::Flow(flow), sample)
            }).collect();
            let mut back = Samples::new();
            for frame in sample_frames(&samples) {
                let Some(ControlReply::Samples { columns }) = read_frame(&mut &framed(&frame)[..]).unwrap() else { panic!() };
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
        assert_eq!(framed(&ControlRequest::Stop), b"\0\0\0\x06\"stop\"");
        assert_eq!(framed(&ControlRequest::Hello { version: 1 }), b"\0\0\0\x17{\"hello\":{\"version\":1}}");
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        let words = serde_json::json!({ "hello": { "version": 1, "name": "x" } });
        assert!(matches!(
            read_frame::<ControlRequest>(&mut &framed(&words)[..]),
            Err(FrameError::Malformed(_))
        ));
        let column = |quantity: &str, at_ns| Column {
            subject: Subject::Run,
            quantity: quantity.into(),
            at_ns,
            values: vec![1.0],
        };
        assert!(matches!(column("nonesuch", vec![1]).samples(), Err(ControlError::UnknownQuantity(_))));
        assert!(column("sip_total_call_delay", vec![1]).samples().is_ok());
        assert!(matches!(column("lateness", vec![]).samples(), Err(ControlError::Uneven { .. })));
    }
}
