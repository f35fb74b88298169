//! Look-ups of the server of a load: before the load starts, and for each attempt.

use netrig_sip::settings::LookupSettings;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Instant, Seeds};

use super::order::{LoadError, LoadOrder, Span};
use crate::dns::{Finder, LocateError, locate};
use netrig_host::Clock;

/// Looks up the server of a load, unless the result is known or each attempt has its own look-up. In a run of an
/// experiment, the look-up is made between the start of the run and the start of the load.
pub(super) fn look_for_server(
    order: &mut LoadOrder,
    clock: Clock,
    within: Option<Span>,
    stop: &AtomicBool,
) -> Result<(), LoadError> {
    let Some(location) = order.location.as_ref().filter(|location| location.lookup == LookupSettings::Once)
    else {
        return Ok(());
    };
    if order.located.is_some() {
        return Ok(());
    }
    if within.is_some() {
        // The network carries nothing before the run starts.
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

/// The finder of a thread; `None` unless each attempt has its own look-up.
pub(super) fn finder(order: &LoadOrder, number: u16) -> Result<Option<Finder>, LoadError> {
    let Some(location) = order.location.as_ref().filter(|_| order.plan.looks_up) else { return Ok(None) };
    let seed = Seeds::new(order.plan.seed).stream(&format!("sip/location/{number}")).bits();
    Ok(Some(Finder::open(location, order.reach(), Seeds::new(seed))?))
}
