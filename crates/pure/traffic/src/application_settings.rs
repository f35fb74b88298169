//! The trait that the settings of every application implement.

use netrig_core::{Duration, Rate, Size, SpanDistribution};

use crate::{Ends, FlowContext, UDP_IPV4_HEADERS};

/// An invalid value in an application's settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {why}")]
pub struct SettingsError {
    /// The key in the experiment file.
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

/// Returns an error for a distribution with invalid parameters. `field` is its key in the file.
pub(crate) fn check_spans(field: &'static str, spans: &SpanDistribution) -> Result<(), SettingsError> {
    spans.check().map_err(|error| SettingsError::new(field, error.to_string()))
}

/// Datagrams with a mean gap or a mean rate of IP packets. The experiment file sets one of the two.
#[derive(Clone, Copy, Debug)]
pub struct PacedDatagrams {
    pub(crate) gap: Option<Duration>,
    pub(crate) rate: Option<Rate>,
    /// Mean payload, bytes.
    pub(crate) payload: f64,
}

impl PacedDatagrams {
    fn pace(&self, headers: u32) -> Option<f64> {
        match (self.gap, self.rate) {
            (Some(gap), _) => Some(1.0 / gap.as_secs_f64()),
            (None, Some(rate)) => Some(rate.bits_per_s() as f64 / 8.0 / (self.payload + f64::from(headers))),
            (None, None) => None,
        }
    }

    pub(crate) fn offered_load(&self) -> Option<f64> {
        let (payload, headers) = (self.payload, f64::from(UDP_IPV4_HEADERS));
        match (self.gap, self.rate) {
            (Some(gap), _) => Some(payload / gap.as_secs_f64()),
            (None, Some(rate)) => Some(rate.bits_per_s() as f64 / 8.0 * payload / (payload + headers)),
            (None, None) => None,
        }
    }
}

/// The settings of one kind of application: its properties that are known before it runs, and its creation.
pub trait ApplicationSettings {
    /// Returns an error for invalid values.
    ///
    /// # Errors
    /// Names the key of the first invalid value, and the reason.
    fn check(&self) -> Result<(), SettingsError>;

    /// Creates the two ends of a flow. The settings must have passed [`ApplicationSettings::check`].
    ///
    /// Both ends draw from the same named random streams. The receiving end therefore knows which data is sent and
    /// when, without messages over the measured network.
    fn ends(&self, flow: &FlowContext) -> Ends;

    /// The gap or rate and the payload of its datagrams, if it sends datagrams in one direction with a configured gap
    /// or rate.
    fn paced(&self) -> Option<PacedDatagrams> {
        None
    }

    /// Mean payload of its datagrams, bytes; `None` if it opens connections.
    fn datagram(&self) -> Option<f64> {
        self.paced().map(|paced| paced.payload)
    }

    /// Payload of the largest datagram, bytes. If it is unbounded, the mean payload.
    fn largest_datagram(&self) -> Option<u64> {
        self.datagram().map(|mean| mean as u64)
    }

    /// Mean number of datagrams per second while it sends. `headers` is the length of the headers of each datagram,
    /// bytes. `None` if it opens connections or the rate is not defined.
    fn pace(&self, headers: u32) -> Option<f64> {
        self.paced()?.pace(headers)
    }

    /// Whether datagrams are sent only from the flow's first end to its second, which only counts them. The sender then
    /// never waits for the receiver to read a datagram.
    fn is_one_way(&self) -> bool {
        self.paced().is_some()
    }

    /// Whether all data that it sends is without content.
    fn sends_fill_only(&self) -> bool {
        self.paced().is_some()
    }

    /// Whether most data is sent from the flow's second end to its first, in response to requests.
    fn answers(&self) -> bool {
        false
    }

    /// Mean number of application bytes per second that the flow's first end offers. `None` if the rate depends on the
    /// network.
    fn offered_load(&self) -> Option<f64> {
        self.paced()?.offered_load()
    }

    /// Whether it ends without a stop of the flow.
    fn has_an_end(&self) -> bool {
        false
    }

    /// Whether it draws sizes from a distribution with infinite variance. Means over objects are then not reliable.
    fn has_infinite_variance(&self) -> bool {
        false
    }

    /// Whether its receiving end may read slower than data arrives ([`Reads`](crate::Reads)).
    fn may_read_slowly(&self) -> bool {
        false
    }

    /// Number of streams that it uses, if the connection has that many.
    fn streams(&self) -> u16 {
        1
    }

    /// Size of the messages that it sends, if the file sets it.
    fn message(&self) -> Option<Size> {
        None
    }
}
