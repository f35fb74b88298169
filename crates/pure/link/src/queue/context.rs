//! The properties of a line that its queue discipline may use.

use std::borrow::Cow;

use netrig_core::{Duration, Rate, Seeds, Size, Stream};

use crate::Framing;

/// The properties of a line that a discipline may use when it is made.
#[derive(Clone, Debug)]
pub struct QueueContext<'a> {
    seeds: &'a Seeds,
    line: Cow<'a, str>,
    rate: Rate,
    framing: Framing,
    /// The rate that drains the queue, and the framing that this rate counts.
    drain: (Rate, Framing),
}

impl<'a> QueueContext<'a> {
    /// The context of the line called `line`, with this rate and framing.
    pub fn new(seeds: &'a Seeds, line: &'a str, rate: Rate, framing: Framing) -> Self {
        Self { seeds, line: line.into(), rate, framing, drain: (rate, framing) }
    }

    /// The same context for a queue in front of a shaper with this rate, which counts packets as `framing` does.
    #[must_use]
    pub(super) fn drained_at(&self, rate: Rate, framing: Framing) -> Self {
        Self { drain: (rate, framing), line: self.line.clone(), ..*self }
    }

    /// The initial rate that drains the queue, and the framing that this rate counts.
    pub(super) fn drain(&self) -> (Rate, Framing) {
        self.drain
    }

    /// The context of the queue of the class called `class`.
    pub(super) fn of_class(&self, class: &str) -> Self {
        Self { line: format!("{}/class/{class}", self.line).into(), ..*self }
    }

    /// The random stream `link/<line>/<what>`. For the queue of a class it is `link/<line>/class/<class>/<what>`.
    pub fn stream(&self, what: &str) -> Stream {
        self.seeds.stream(&format!("link/{}/{what}", self.line))
    }

    /// Time that an IP packet of this size takes on the line.
    pub fn packet_time(&self, size: Size) -> Duration {
        let ip_len = u32::try_from(size.bytes()).unwrap_or(u32::MAX);
        self.rate.time_for(self.framing.line_bytes(ip_len))
    }

    /// The initial rate of the line.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The line's framing.
    pub fn framing(&self) -> Framing {
        self.framing
    }
}
