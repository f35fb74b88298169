//! The trait that the settings of every application implement.

use netrig_core::{Size, SpanDistribution};

use crate::{Ends, FlowContext};

/// An invalid value in an application's settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {why}")]
pub struct SettingsError {
    /// The key in the file.
    pub field: &'static str,
    /// The reason.
    pub why: String,
}

impl SettingsError {
    /// An error about `field`.
    pub fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self { field, why: why.into() }
    }
}

/// Refuses a distribution that cannot be drawn from; `field` is its key in the file.
pub(crate) fn check_spans(field: &'static str, spans: &SpanDistribution) -> Result<(), SettingsError> {
    spans.check().map_err(|error| SettingsError::new(field, error.to_string()))
}

/// The settings of one kind of application: its properties before it runs, and its creation.
pub(crate) trait ApplicationSettings {
    /// Refuses invalid values.
    fn check(&self) -> Result<(), SettingsError>;

    /// Creates the two ends of a flow. The settings must be checked.
    fn ends(&self, flow: &FlowContext) -> Ends;

    /// Mean payload of its datagrams, bytes; `None` if it opens connections.
    fn datagram(&self) -> Option<f64> {
        None
    }

    /// Payload of the largest datagram, bytes; the mean if it is unbounded.
    fn largest_datagram(&self) -> Option<u64> {
        self.datagram().map(|mean| mean as u64)
    }

    /// Mean datagrams per second while it sends, with `headers` bytes of headers each; `None` if it opens connections
    /// or the rate is not defined.
    fn pace(&self, _headers: u32) -> Option<f64> {
        None
    }

    /// Whether datagrams are sent only from the flow's first end to its second, which only counts them. The sender then
    /// never waits until the receiver has read a datagram.
    fn is_one_way(&self) -> bool {
        false
    }

    /// Whether it sends only fill, data without content.
    fn sends_fill_only(&self) -> bool {
        false
    }

    /// Whether most data is sent from the flow's second end to its first.
    fn answers(&self) -> bool {
        false
    }

    /// Mean application bytes per second from the flow's first end to its second; `None` if the rate depends on the
    /// network.
    fn offered_load(&self) -> Option<f64> {
        None
    }

    /// Whether it ends by itself. Otherwise it lasts until its flow stops.
    fn has_an_end(&self) -> bool {
        false
    }

    /// Whether sizes are drawn from a distribution of infinite variance.
    fn has_infinite_variance(&self) -> bool {
        false
    }

    /// Whether its receiving end may read slower than data arrives.
    fn may_read_slowly(&self) -> bool {
        false
    }

    /// Streams that it uses, if the connection has as many.
    fn streams(&self) -> u16 {
        1
    }

    /// Size of the messages that it sends, if the file sets it.
    fn message(&self) -> Option<Size> {
        None
    }
}
