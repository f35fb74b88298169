//! What an experiment file says of an application.

use netrig_core::{Duration, Rate, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{SizeDistribution, SpanDistribution};

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

/// An application of a flow, by its `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-tag" = "kind"))]
pub enum Settings {
    /// As much as the transport takes, up to a size or a time, over one connection.
    Bulk(Bulk),
    /// Web objects: pushed into one connection, or requested and answered.
    Web(Web),
    /// Datagrams as a Poisson process.
    Poisson(Poisson),
    /// Datagrams at a constant rate.
    Cbr(Cbr),
    /// Datagrams at a constant rate while on, none while off.
    OnOff(OnOff),
    /// Files, one after the other, each over a connection of its own.
    File(File),
}

/// As much as the transport takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// How much; without it the flow sends until it stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// For how long new data is given; without it until `bytes` are sent or the flow stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Duration>,
    /// Streams over which the data is spread in turn; a transport without streams ignores it.
    #[serde(default = "one_stream")]
    pub streams: u16,
}

fn one_stream() -> u16 {
    1
}

/// Web objects, with exponential or other gaps and Pareto or other sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Web {
    /// Gaps between the objects of one source.
    pub interarrival: SpanDistribution,
    /// Size of an object.
    pub size: SizeDistribution,
    /// Independent sources that share the flow's connection.
    #[serde(default = "one_source")]
    pub sources: u32,
    /// Streams over which objects are spread in turn; a transport without streams ignores it.
    #[serde(default = "one_stream")]
    pub streams: u16,
    /// Who sends the objects.
    #[serde(default)]
    pub exchange: WebExchange,
    /// Size of a request, for request and response.
    #[serde(default = "request_size")]
    pub request: Size,
}

fn one_source() -> u32 {
    1
}

fn request_size() -> Size {
    Size::from_bytes(400)
}

/// Who sends a web object, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WebExchange {
    /// The flow's first end sends objects at their arrival times, whether or not earlier ones arrived.
    #[default]
    Push,
    /// The flow's first end requests an object at its arrival time, the other end answers with it: open loop.
    Request,
    /// A user: requests an object, waits for all of it, thinks for a gap, requests the next: closed loop.
    Think,
}

/// Datagrams as a Poisson process (MGEN's `POISSON`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Poisson {
    /// Mean gap between datagrams. Either this or `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interarrival: Option<Duration>,
    /// Mean rate of IP packets. Either this or `interarrival`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Payload of a datagram.
    pub size: SizeDistribution,
}

/// Datagrams at a constant rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cbr {
    /// Gap between datagrams. Either this or `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// Rate of IP packets. Either this or `interval`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Payload of a datagram.
    pub size: Size,
}

/// Datagrams at a constant rate while on; spans of on and off as given (exponential, Pareto).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnOff {
    /// How long it is on.
    pub on: SpanDistribution,
    /// How long it is off.
    pub off: SpanDistribution,
    /// Rate of IP packets while on.
    pub rate: Rate,
    /// Payload of a datagram.
    pub size: Size,
}

/// Files, one after the other, each over a connection of its own: the handshake counts, the close too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Size of a file.
    pub size: SizeDistribution,
    /// How many; without it as many as there is time for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Pause between the end of one and the start of the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<SpanDistribution>,
}
