//! Datagrams as somebody else's were: the gaps and sizes of a trace.

use netrig_core::{Duration, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::datagrams::{LARGEST, Pattern, pattern_ends};
use crate::settings::Description;
use crate::{Ends, FlowContext, SettingsError};

/// A datagram of a trace: how long after the one before it leaves (the first: after the flow's start), and its payload.
pub type TracedDatagram = (Duration, Size);

/// The datagrams of a trace, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Each with the gap before it and its payload: `["1.5 ms", "512 B"]`.
    pub datagrams: Vec<TracedDatagram>,
    /// Whether it begins anew when it is over; otherwise nothing more is sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat: bool,
}

impl Trace {
    /// How long it takes from its start to its last datagram.
    fn span(&self) -> Duration {
        self.datagrams.iter().fold(Duration::ZERO, |span, (gap, _)| span + *gap)
    }

    fn payload(&self) -> f64 {
        self.datagrams.iter().map(|(_, size)| size.bytes() as f64).sum()
    }
}

impl Description for Trace {
    fn check(&self) -> Result<(), SettingsError> {
        let wrong = |why: String| Err(SettingsError::new("datagrams", why));
        if self.datagrams.is_empty() {
            return wrong("at least one is needed".into());
        }
        if self.repeat && self.span().is_zero() {
            return wrong("all leave at once, so that to repeat them would never end".into());
        }
        match self.datagrams.iter().find(|(_, size)| *size > LARGEST) {
            Some((_, size)) => wrong(format!("a datagram of {size} cannot be: give at most {LARGEST}")),
            None => Ok(()),
        }
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        pattern_ends(Pattern::trace(self, flow), flow)
    }

    fn datagram(&self) -> Option<f64> {
        Some(self.payload() / self.datagrams.len() as f64)
    }

    fn pace(&self, _headers: u32) -> Option<f64> {
        Some(self.datagrams.len() as f64 / self.span().as_secs_f64()).filter(|rate| rate.is_finite())
    }

    fn is_one_way(&self) -> bool {
        true
    }

    fn sends_fill_only(&self) -> bool {
        true
    }

    fn has_an_end(&self) -> bool {
        !self.repeat
    }

    fn offered_load(&self) -> Option<f64> {
        Some(self.payload() / self.span().as_secs_f64()).filter(|load| self.repeat && load.is_finite())
    }
}
