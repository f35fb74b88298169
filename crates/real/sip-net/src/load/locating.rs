//! Where the server of a load is: before it begins, and for each attempt.

use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Instant, Seeds};
use netrig_sip::location::Hop;
use schemars::JsonSchema;
use serde::Serialize;

use super::order::{LoadError, LoadOrder};
use super::report::micros;
use super::run::Span;
use crate::dns::{Finder, LocateError, Lookup, locate};
use netrig_host::Clock;

/// How a load's server was looked for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LocationRow {
    /// What was looked for.
    pub uri: String,
    /// When: `once`, `per-attempt` or `cached`.
    pub lookup: &'static str,
    /// What was found before the load, in the order in which it is tried.
    pub hops: Vec<String>,
    /// How long that took, µs.
    pub took_us: Option<f64>,
}

impl LocationRow {
    /// Of a load, if its server is looked for.
    pub(super) fn of(order: &LoadOrder) -> Option<Self> {
        let location = order.location.as_ref()?;
        let found = order.located.as_ref();
        let hop = |hop: &Hop| format!("{}:{}", hop.transport.name().to_lowercase(), hop.address);
        Some(Self {
            uri: location.uri.to_string(),
            lookup: location.lookup.name(),
            hops: found.map(|found| found.hops.iter().map(hop).collect()).unwrap_or_default(),
            took_us: found.map(|found| micros(found.took)),
        })
    }
}

/// Looks for the server of a load, if nobody has and it is not every attempt's affair: of a part of a run when that is under way,
/// and before its users begin.
pub(super) fn look_for_server(
    order: &mut LoadOrder,
    clock: Clock,
    within: Option<Span>,
    stop: &AtomicBool,
) -> Result<(), LoadError> {
    let Some(location) = order.location.as_ref().filter(|location| location.lookup == Lookup::Once) else {
        return Ok(());
    };
    if order.located.is_some() {
        return Ok(());
    }
    if within.is_some() {
        // Nothing passes before the run begins.
        std::thread::sleep(clock.left_until(Instant::ZERO).into());
    }
    let is_late = || within.is_some_and(|within| clock.now() >= within.begins);
    let has_to_stop = || stop.load(Ordering::Relaxed) || is_late();
    let found = match locate(location, order.reach(), Seeds::new(order.plan.seed), has_to_stop) {
        Err(LocateError::Interrupted) if is_late() => return Err(LoadError::Late),
        Err(LocateError::Interrupted) => return Err(LoadError::Interrupted),
        found => found.map_err(|why| LoadError::Unlocated { name: location.uri.to_string(), why })?,
    };
    if let Some((first, servers)) = found.servers() {
        order.target = first.address;
        order.others = servers.into_iter().skip(1).collect();
    }
    order.located = Some(found);
    order.check()
}

/// Who looks for the servers of a thread's attempts, if each does.
pub(super) fn finder(order: &LoadOrder, number: u16) -> Result<Option<Finder>, LoadError> {
    let Some(location) = order.location.as_ref().filter(|_| order.plan.looks_up) else { return Ok(None) };
    let seed = Seeds::new(order.plan.seed).stream(&format!("sip/location/{number}")).bits();
    Ok(Some(Finder::open(location, order.reach(), Seeds::new(seed))?))
}
