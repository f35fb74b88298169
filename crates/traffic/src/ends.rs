//! From settings to the two applications of a flow.

use std::net::SocketAddr;

use netrig_core::{Instant, Seeds, Stream};

use crate::{Application, Settings, SettingsError, WebExchange, bulk, datagrams, file, web};

/// What the applications of a flow need to know of it.
#[derive(Clone, Debug)]
pub struct FlowContext {
    /// The flow's name, `web` or `web#3`: its random streams are named after it.
    pub name: String,
    /// The run's seeds.
    pub seeds: Seeds,
    /// Where the second end listens.
    pub server: SocketAddr,
    /// When the flow starts.
    pub start: Instant,
}

impl FlowContext {
    /// The flow's own random stream for one `purpose`.
    pub(crate) fn stream(&self, purpose: &str) -> Stream {
        self.seeds.stream(&format!("flow/{}/{purpose}", self.name))
    }
}

/// A flow's applications. Each lives where its end is: on another host, in another process.
pub struct Ends {
    /// At the flow's `from`.
    pub client: Box<dyn Application>,
    /// At the flow's `to`.
    pub server: Box<dyn Application>,
}

impl Settings {
    /// Makes the two ends of a flow.
    ///
    /// Both draw from the same named streams, so the receiving end knows what was meant to be sent, and
    /// when, without being told over the network that it measures.
    pub fn ends(&self, flow: &FlowContext) -> Ends {
        match self {
            Self::Bulk(settings) => bulk::ends(settings, flow),
            Self::Web(settings) => web::ends(settings, flow),
            Self::Poisson(settings) => datagrams::ends(datagrams::Pattern::poisson(settings, flow), flow),
            Self::Cbr(settings) => datagrams::ends(datagrams::Pattern::cbr(settings, flow), flow),
            Self::OnOff(settings) => datagrams::ends(datagrams::Pattern::on_off(settings, flow), flow),
            Self::File(settings) => file::ends(settings, flow),
        }
    }

    /// Whether it sends datagrams, so that a flow's `transport` must be UDP.
    pub const fn sends_datagrams(&self) -> bool {
        matches!(self, Self::Poisson(_) | Self::Cbr(_) | Self::OnOff(_))
    }

    /// Whether most data goes from the flow's second end to its first, in answer to requests.
    pub fn answers(&self) -> bool {
        matches!(self, Self::Web(web) if web.exchange != WebExchange::Push)
    }

    /// Application bytes per second that it offers from the flow's first end to its second, on average; `None`
    /// if it takes what it gets.
    pub fn offered_load(&self) -> Option<f64> {
        match self {
            Self::Bulk(_) | Self::File(_) => None,
            Self::Web(web) => web.offered_load(),
            Self::Poisson(p) => {
                let packet = p.size.mean() + datagrams::HEADERS;
                match (p.interarrival, p.rate) {
                    (Some(gap), _) => Some(p.size.mean() / gap.as_secs_f64()),
                    (None, Some(rate)) => Some(rate.bits_per_s() as f64 / 8.0 * p.size.mean() / packet),
                    (None, None) => None,
                }
            }
            Self::Cbr(c) => {
                let size = c.size.bytes() as f64;
                match (c.interval, c.rate) {
                    (Some(gap), _) => Some(size / gap.as_secs_f64()),
                    (None, Some(rate)) => {
                        Some(rate.bits_per_s() as f64 / 8.0 * size / (size + datagrams::HEADERS))
                    }
                    (None, None) => None,
                }
            }
            Self::OnOff(o) => {
                let size = o.size.bytes() as f64;
                let (on, off) = (o.on.mean().as_secs_f64(), o.off.mean().as_secs_f64());
                Some(o.rate.bits_per_s() as f64 / 8.0 * size / (size + datagrams::HEADERS) * on / (on + off))
            }
        }
    }

    /// Refuses values that the application cannot work with.
    ///
    /// # Errors
    /// Names the key and says what is wrong.
    pub fn check(&self) -> Result<(), SettingsError> {
        match self {
            Self::Bulk(s) => s.check(),
            Self::Web(s) => s.check(),
            Self::Poisson(s) => s.check(),
            Self::Cbr(s) => s.check(),
            Self::OnOff(s) => s.check(),
            Self::File(s) => s.check(),
        }
    }

    /// Whether sizes are drawn from a distribution of infinite variance, so that means over objects must
    /// not be trusted.
    pub fn has_infinite_variance(&self) -> bool {
        match self {
            Self::Web(s) => s.size.has_infinite_variance(),
            Self::Poisson(s) => s.size.has_infinite_variance(),
            Self::File(s) => s.size.has_infinite_variance(),
            Self::Bulk(_) | Self::Cbr(_) | Self::OnOff(_) => false,
        }
    }
}
