//! The contract of an application's settings.

use netrig_core::{Size, SpanDistribution};

use crate::{Ends, FlowContext};

/// A value that an application cannot work with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {why}")]
pub struct SettingsError {
    /// The key in the file.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl SettingsError {
    /// An error about `field`.
    pub fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self { field, why: why.into() }
    }
}

/// Refuses spans that cannot be drawn, which the file has at `field`.
pub(crate) fn check_spans(field: &'static str, spans: &SpanDistribution) -> Result<(), SettingsError> {
    spans.check().map_err(|error| SettingsError::new(field, error.to_string()))
}

/// The settings of one kind of application, as they stand in the file: what can be known of it before it runs,
/// and how it is made.
pub(crate) trait ApplicationSettings {
    /// Refuses values that the application cannot work with.
    fn check(&self) -> Result<(), SettingsError>;

    /// Makes the two ends of a flow from settings that were checked.
    fn ends(&self, flow: &FlowContext) -> Ends;

    /// Payload of the datagrams that it sends, bytes, on average; `None` if it opens connections.
    fn datagram(&self) -> Option<f64> {
        None
    }

    /// Payload of the largest of them, bytes, or of one on average where nothing bounds them.
    fn largest_datagram(&self) -> Option<u64> {
        self.datagram().map(|mean| mean as u64)
    }

    /// Datagrams per second while it sends, on average, where headers add `headers` bytes to a payload; `None` if it opens
    /// connections.
    fn pace(&self, _headers: u32) -> Option<f64> {
        None
    }

    /// Whether datagrams go from the flow's first end to its second only, where they are counted, so that nobody waits
    /// for one to be read.
    fn is_one_way(&self) -> bool {
        false
    }

    /// Whether all that it sends is fill, whose bytes nobody reads.
    fn sends_fill_only(&self) -> bool {
        false
    }

    /// Whether most data goes from the flow's second end to its first.
    fn answers(&self) -> bool {
        false
    }

    /// Application bytes per second from the flow's first end to its second, on average; `None` if it takes what
    /// it gets.
    fn offered_load(&self) -> Option<f64> {
        None
    }

    /// Whether it comes to an end by itself; otherwise it goes on until its flow stops.
    fn has_an_end(&self) -> bool {
        false
    }

    /// Whether sizes are drawn from a distribution of infinite variance.
    fn has_infinite_variance(&self) -> bool {
        false
    }

    /// Whether its receiving end may read slower than data come.
    fn may_read_slowly(&self) -> bool {
        false
    }

    /// Streams of a connection that it uses, if there are as many.
    fn streams(&self) -> u16 {
        1
    }

    /// The size of the messages that it gives to its transport, if the file says so.
    fn message(&self) -> Option<Size> {
        None
    }
}
