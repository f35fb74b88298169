//! The report of a measurement.

use std::net::SocketAddr;

use netrig_probe::transfer::Framework;
use schemars::JsonSchema;
use serde::Serialize;

use super::call::CarriedPhase;
use crate::cause::LimitVerdict;
use crate::meter::{
    AddedDelay, ConnectionSummary, Delays, Layers, OneWay, RoundTrips, Series, Throughput, TooShort,
};
use crate::protocol::{Carrier, DataDirection, EndReport};
use crate::responsiveness::Responsiveness;
use crate::search::FoundCapacity;

/// What was measured.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct SpeedReport {
    /// The version of the document.
    pub format: u32,
    /// The server.
    pub server: SocketAddr,
    /// This host, as the server sees it unless addresses are translated.
    pub client: SocketAddr,
    /// The path before anything was carried.
    pub idle: Option<Delays>,
    /// The same in each direction.
    pub idle_ways: Option<OneWay>,
    /// Each phase, once for each way that it went.
    pub phases: Vec<PhaseReport>,
    /// The path after all was carried.
    pub after: Option<Delays>,
    /// The same in each direction.
    pub after_ways: Option<OneWay>,
    /// Why nothing is told of directions, if that is so.
    pub no_ways: Option<&'static str>,
    /// What the server holds each direction to, payload bits per second, if it does.
    pub held_to: Option<f64>,
    /// What limited each way, and what proves it.
    pub verdicts: Vec<LimitVerdict>,
    /// Somebody or something ended it before its time: what was measured until then.
    pub partial: bool,
    /// Why, if something did.
    pub broken: Option<String>,
    /// What both ends have counted of each phase.
    #[serde(skip)]
    pub carriages: Vec<CarriedPhase>,
}

/// One way of a phase.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct PhaseReport {
    /// Which way.
    pub way: DataDirection,
    /// What carried it.
    pub carrier: Carrier,
    /// What arrived at the end that receives; nothing if next to nothing did, and of a search.
    pub throughput: Option<Throughput>,
    /// What both ends have read of it.
    pub series: Series,
    /// The same at every layer.
    pub layers: Option<Layers>,
    /// What the kernel of the end that sends told of its connections, after the warm-up.
    pub connections: Option<ConnectionSummary>,
    /// The transfer beside an ideal one.
    pub transfer: Option<Framework>,
    /// What a search has found.
    pub capacity: Option<LineCapacity>,
    /// The path's delay meanwhile, after the warm-up.
    pub delays: Option<Delays>,
    /// The same in each direction.
    pub ways: Option<OneWay>,
    /// What the connections that carried took for their own round trips, after the warm-up.
    pub loaded: Option<RoundTrips>,
    /// How much longer than the shortest the datagrams took that carried, after the warm-up; nothing of a search, whose rate changes
    /// all the time.
    pub added_delay: Option<AddedDelay>,
    /// How the path responded meanwhile, after the warm-up; nothing where no connections carried, or nobody wanted to know.
    pub responsiveness: Option<Responsiveness>,
    /// Why there is no number of how the path responded, if somebody wanted one and connections carried.
    pub no_responsiveness: Option<&'static str>,
    /// Set if the phase was too short to tell of the path under load.
    pub too_short: Option<TooShort>,
    /// The end that sends.
    pub sender: EndReport,
    /// The end that receives.
    pub receiver: EndReport,
}

/// What a line carries of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct LineCapacity {
    /// What arrived while more was offered than the line carries, at every layer; the echoes that watch the path are part of
    /// it, and so is what the two ends tell each other. If no more was offered the line carries so much at least, and these are
    /// no part of it, since they may have come at another time.
    pub layers: Layers,
    /// What was found.
    pub found: FoundCapacity,
    /// Whether the search came to its end.
    pub complete: bool,
    /// A host dropped what had arrived, or had no processor left: what was found is not the line's.
    pub by_hosts: bool,
}

impl LineCapacity {
    /// Whether it is what the line carries, and not only what it carries at least.
    pub const fn is_exact(&self) -> bool {
        self.found.saturated && !self.by_hosts
    }
}

impl SpeedReport {
    /// The version of the document.
    pub const FORMAT: u32 = 1;
}
