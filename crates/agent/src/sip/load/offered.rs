//! What a load offers, in words: loads that differ in it have nothing to say about each other's servers.

use std::fmt::Write as _;

use netrig_sip::load::{Arrivals, Gaps, Pace};
use serde::{Deserialize, Serialize};

use super::order::{Connecting, LoadOrder};
use super::report::name_of;

/// What a load offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// What users do: `call`, `register`.
    pub scenario: String,
    /// `udp`, `tcp` or `tls`.
    pub transport: String,
    /// How often the server is looked for: `once`, `per-attempt` or `cached`; nothing if it is not.
    pub lookup: Option<String>,
    /// Which requests share a connection: `one`, `per-user` or `per-attempt`; nothing over UDP.
    pub connections: Option<String>,
    /// When users begin, in words.
    pub pace: String,
    /// How many users there are.
    pub users: u32,
    /// Whether who is called is the tester's.
    pub own_callees: bool,
    /// How long one lasts by itself, s.
    pub own_span: f64,
    /// The size of the session descriptions, bytes.
    pub description: usize,
    /// T1 of RFC 3261, s.
    pub t1: f64,
    /// How long users begin, s.
    pub duration: f64,
    /// Of that, what is not measured, s.
    pub warm_up: f64,
}

impl Offered {
    /// What an order offers.
    pub fn of(order: &LoadOrder) -> Self {
        let connecting = |connecting| match connecting {
            Connecting::One => "one",
            Connecting::PerUser => "per-user",
            Connecting::PerAttempt => "per-attempt",
        };
        Self {
            scenario: name_of(order.plan.work.what()).to_owned(),
            transport: order.carrier.transport().name().to_lowercase(),
            lookup: order.location.as_ref().map(|location| location.lookup.name().to_owned()),
            connections: order.carrier.connecting().map(connecting).map(str::to_owned),
            pace: words(&order.plan.pace),
            users: order.plan.users,
            own_callees: order.plan.has_own_callees(),
            own_span: order.plan.own_span().as_secs_f64(),
            description: order.plan.description,
            t1: order.plan.timing.t1.as_secs_f64(),
            duration: order.plan.duration.as_secs_f64(),
            warm_up: order.plan.warm_up.as_secs_f64(),
        }
    }
}

/// `100/s..500/s in 30 s, 500/s; poisson`.
fn words(pace: &Pace) -> String {
    let (gaps, stages) = match pace {
        Pace::Closed(pause) => return format!("each again after {pause:?}"),
        Pace::Open(Arrivals::Trace(moments)) => {
            let last = moments.last().map_or(0.0, |last| last.as_secs_f64());
            return format!("a trace of {} moments in {last} s", moments.len());
        }
        Pace::Open(Arrivals::Rate { gaps, stages }) => (gaps, stages),
    };
    let mut text = String::new();
    for (place, stage) in stages.iter().enumerate() {
        let comma = if place > 0 { ", " } else { "" };
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}{}/s", stage.from);
        if stage.to != stage.from {
            let _ = write!(text, "..{}/s", stage.to);
        }
        if stages.len() > 1 || stage.to != stage.from {
            let _ = write!(text, " in {} s", stage.lasts.as_secs_f64());
        }
    }
    let _ = match gaps {
        Gaps::Poisson => write!(text, "; poisson"),
        Gaps::Constant => write!(text, "; constant"),
        Gaps::Uniform => write!(text, "; uniform"),
        Gaps::Burst(size) => write!(text, "; bursts of {size}"),
    };
    text
}

#[cfg(test)]
mod tests {
    use netrig_core::Duration;
    use netrig_sip::load::{Plan, Stage, Work};

    use super::*;

    #[test]
    fn a_pace_has_its_words() {
        let stage = |from, to| Stage { from, to, lasts: Duration::from_secs(30) };
        let ramp =
            Arrivals::Rate { gaps: Gaps::Poisson, stages: vec![stage(100.0, 500.0), stage(500.0, 500.0)] };
        assert_eq!(words(&Pace::Open(ramp)), "100/s..500/s in 30 s, 500/s in 30 s; poisson");
        let level = Pace::Open(Arrivals::at(3.3, Gaps::Burst(5)));
        assert_eq!(words(&level), "3.3/s; bursts of 5");
        let order = LoadOrder::new(
            "[::1]:5060".parse().unwrap(),
            Plan::new(Work::Register, level, Duration::from_secs(9)),
        );
        let offered = Offered::of(&order);
        assert_eq!((&*offered.scenario, &*offered.transport, offered.connections), ("register", "udp", None));
    }
}
