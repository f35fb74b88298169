//! The report of a measurement.

use std::net::SocketAddr;

use netrig_bulk::{ConnectionSummary, Layers, LimitingFactor};
use netrig_probe::transfer::Framework;
use schemars::JsonSchema;
use serde::Serialize;

use super::call::CarriedPhase;
use crate::meter::{AddedDelay, Delays, OneWay, RoundTrips, Series, Throughput, TooShort};
use crate::protocol::{Carrier, DataDirection, EndReport};
use crate::responsiveness::Responsiveness;
use crate::search::FoundCapacity;

/// The report of a measurement.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct SpeedReport {
    /// The version of the document.
    pub format: u32,
    /// The server.
    pub server: SocketAddr,
    /// The address of this host. The server sees another one behind an address translator.
    pub client: SocketAddr,
    /// Round-trip delays of the idle path before the tasks.
    pub idle: Option<Delays>,
    /// One-way delays of the idle path before the tasks.
    pub idle_ways: Option<OneWay>,
    /// The phases, one entry per direction.
    pub phases: Vec<PhaseReport>,
    /// Round-trip delays of the idle path after the tasks.
    pub after: Option<Delays>,
    /// One-way delays of the idle path after the tasks.
    pub after_ways: Option<OneWay>,
    /// Why there are no one-way delays; absent if there are.
    pub no_ways: Option<&'static str>,
    /// The rate limit of the server in each direction, payload bits per second, if there is one.
    pub held_to: Option<f64>,
    /// The limit of each direction, with its proof.
    pub verdicts: Vec<LimitVerdict>,
    /// Whether the measurement ended early, so that the results are partial.
    pub partial: bool,
    /// The error that ended it, if any.
    pub broken: Option<String>,
    /// The counts of both ends in each phase.
    #[serde(skip)]
    pub carriages: Vec<CarriedPhase>,
}

/// One direction of a phase.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct PhaseReport {
    /// The direction.
    pub way: DataDirection,
    /// What carried the data.
    pub carrier: Carrier,
    /// Throughput at the receiver. Absent for a search, and if almost no data arrived.
    pub throughput: Option<Throughput>,
    /// The readings of both ends.
    pub series: Series,
    /// The throughput at every layer.
    pub layers: Option<Layers>,
    /// Kernel counters of the sender's connections, after the warm-up.
    pub connections: Option<ConnectionSummary>,
    /// The transfer compared with an ideal one.
    pub transfer: Option<Framework>,
    /// The result of a search.
    pub capacity: Option<LineCapacity>,
    /// Round-trip delays during the phase, after the warm-up.
    pub delays: Option<Delays>,
    /// One-way delays during the phase, after the warm-up.
    pub ways: Option<OneWay>,
    /// Round-trip times of the loading connections, after the warm-up.
    pub loaded: Option<RoundTrips>,
    /// Delay of the loading datagrams above the shortest one, after the warm-up. Absent for a search, whose rate
    /// changes continuously.
    pub added_delay: Option<AddedDelay>,
    /// Responsiveness during the phase, after the warm-up. Absent without connections, or if it was not requested.
    pub responsiveness: Option<Responsiveness>,
    /// Why there is no responsiveness although it was requested and connections carried data.
    pub no_responsiveness: Option<&'static str>,
    /// Present if the phase was too short to show the path under load.
    pub too_short: Option<TooShort>,
    /// The report of the sender.
    pub sender: EndReport,
    /// The report of the receiver.
    pub receiver: EndReport,
}

/// The verdict on one direction.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct LimitVerdict {
    /// The direction.
    pub way: DataDirection,
    /// Whether the other direction was loaded at the same time.
    pub at_once: bool,
    /// The limit.
    pub limit: LimitingFactor,
    /// The limit as a sentence.
    pub sentence: String,
    /// The counts that prove it.
    pub proof: String,
    /// How to remove the limit, if possible.
    pub advice: Option<String>,
}

/// The capacity of a line.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct LineCapacity {
    /// The rate received while the line was saturated, at every layer, including echoes and the control connection. If
    /// the line was not saturated, this is a lower bound without the echoes and the control connection, whose packets
    /// may have been sent at another time.
    pub layers: Layers,
    /// The result of the search.
    pub found: FoundCapacity,
    /// Whether the search finished.
    pub complete: bool,
    /// Whether a host was the limit: it dropped received datagrams or had no processor time left. The result is then
    /// not the capacity of the line.
    pub by_hosts: bool,
}

impl LineCapacity {
    /// Whether the result is the capacity itself, not only a lower bound.
    pub const fn is_exact(&self) -> bool {
        self.found.saturated && !self.by_hosts
    }
}

impl SpeedReport {
    /// The version of the document.
    pub const FORMAT: u32 = 1;
}
