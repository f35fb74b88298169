//! From what was typed to an order.

use std::path::Path;

use netrig_core::Duration;
use netrig_sip::load::{Arrivals, Gaps, Pace, moments_of};
use netrig_sip_net::load::LoadOrder;

use super::arguments::{ArrivalArguments, Load};
use crate::commands::sip::subject::{Span, order_of};
use crate::failure::Failure;
use crate::input::read;

/// What is offered if nothing else is said, 1/s.
const RATE: f64 = 10.0;

/// How long, if neither that is said nor what is offered has an end.
const LASTS: Duration = Duration::from_secs(10);

/// What was typed, as the agent takes it.
pub fn order(arguments: &Load) -> Result<LoadOrder, Failure> {
    let ArrivalArguments { count, warm_up, seed, .. } = arguments.arrivals;
    let pace = pace(&arguments.arrivals)?;
    let own = if let Pace::Open(arrivals) = &pace { arrivals.lasts() } else { None };
    let lasts = arguments.arrivals.lasts.or(own).unwrap_or(LASTS);
    let span = Span { lasts, count, warm_up, seed, is_step: false };
    let mut order = order_of(&arguments.subject, pace, span)?;
    if let Some(attempts) = arguments.arrivals.bhca {
        // How many users there are is known now.
        let rate = attempts * f64::from(order.plan.users) / 3600.0;
        order.plan.pace = Pace::Open(Arrivals::at(rate, arguments.arrivals.arrivals.0));
    }
    Ok(order)
}

/// When users begin.
pub fn pace(typed: &ArrivalArguments) -> Result<Pace, Failure> {
    let gaps = typed.arrivals.0;
    let is_drawn = gaps != Gaps::default();
    if let Some(pause) = &typed.pause {
        if is_drawn {
            return Err(Failure::request(
                "--arrivals: of a closed loop --pause says how the times are distributed",
            ));
        }
        return Ok(Pace::Closed(pause.clone()));
    }
    if let Some(path) = &typed.trace {
        if is_drawn {
            return Err(Failure::request(
                "--arrivals: the moments are given, nothing is distributed around a mean",
            ));
        }
        return Ok(Pace::Open(Arrivals::Trace(trace(path)?)));
    }
    if !typed.stage.is_empty() {
        let stages = typed.stage.iter().map(|stage| stage.0).collect();
        return Ok(Pace::Open(Arrivals::Rate { gaps, stages }));
    }
    let rate = match (typed.interval, typed.rate) {
        (Some(mean), _) => 1.0 / mean.as_secs_f64(),
        (None, rate) => rate.map_or(RATE, |rate| rate.0),
    };
    Ok(Pace::Open(Arrivals::at(rate, gaps)))
}

/// The moments of a trace.
fn trace(path: &Path) -> Result<Vec<Duration>, Failure> {
    moments_of(&read(path)?).map_err(|error| Failure::request(format!("{}: {error}", path.display())))
}
