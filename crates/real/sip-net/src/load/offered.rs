//! A description of the offered load. Results of loads with different descriptions cannot be compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use netrig_sip::load::{Arrivals, Gaps, Pace, Plan, Portion, Work};
use netrig_sip::settings::UserOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::order::LoadOrder;

/// A description of the offered load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Offered {
    /// Attempts of users by name (`call`, `register`), with their shares of all starts, 0 to 1.
    pub scenario: BTreeMap<String, f64>,
    /// `udp`, `tcp` or `tls`.
    pub transport: String,
    /// When the server is looked up: `once`, `per-attempt` or `cached`; absent without a look-up.
    pub lookup: Option<String>,
    /// Which requests share a connection: `one`, `per-user` or `per-attempt`; absent over UDP.
    pub connections: Option<String>,
    /// When a lost connection may be reopened: after a time, or `never`; absent over UDP.
    pub reconnect: Option<String>,
    /// Number of servers that take over when the first fails.
    pub others: usize,
    /// Starting times of users, as text.
    pub pace: String,
    /// Number of users.
    pub users: u32,
    /// Users that are registered before the load and are otherwise idle.
    pub population: u32,
    /// Whether users have passwords, for a server that challenges requests.
    pub digest: bool,
    /// Duration of registrations, s.
    pub expires: u32,
    /// Whether the tester provides the callees.
    pub own_callees: bool,
    /// Number of contacts of each callee.
    pub contacts: u8,
    /// Number of provisional responses of a callee before its answer.
    pub provisionals: u16,
    /// The session interval that callers request, s (RFC 4028); absent if they request none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_expires: Option<u32>,
    /// Holding time of an answered call, or its distribution: `30 s`, `exponential:30 s`; absent without calls.
    pub hold: Option<String>,
    /// Own duration of the longest attempt, s: ringing, hold or patience.
    pub own_span: f64,
    /// Size of the session descriptions, bytes.
    pub description: usize,
    /// T1 of RFC 3261, s.
    pub t1: f64,
    /// T2, s.
    pub t2: f64,
    /// T4, s.
    pub t4: f64,
    /// Whether threads spin before each arrival.
    pub punctual: bool,
    /// Time during which attempts start, s.
    pub duration: f64,
    /// First part of that time, which is not measured, s.
    pub warm_up: f64,
    /// Other settings of the users by their keys in files, without those that have their defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, Value>,
}

impl Offered {
    /// The offered load of an order.
    pub fn of(order: &LoadOrder) -> Self {
        let LoadOrder { plan, carrier, location, .. } = order;
        let seconds = |span: netrig_core::Duration| span.as_secs_f64();
        Self {
            scenario: shares(plan),
            transport: carrier.transport().name().to_lowercase(),
            lookup: location.as_ref().map(|location| location.lookup.name().to_owned()),
            connections: carrier.connecting().map(|connecting| connecting.name().to_owned()),
            reconnect: carrier.connecting().map(|_| order.reconnecting.to_string()),
            others: order.others.len(),
            pace: pace_words(&plan.pace),
            users: plan.users,
            population: plan.population,
            digest: !plan.passwords.is_empty(),
            expires: plan.expires,
            own_callees: plan.has_own_callees(),
            contacts: plan.options.contacts,
            provisionals: plan.options.provisionals,
            session_expires: Some(plan.options.session_interval()).filter(|interval| *interval > 0),
            hold: hold(plan),
            own_span: seconds(plan.own_span()),
            description: plan.description,
            t1: seconds(plan.timing.t1),
            t2: seconds(plan.timing.t2),
            t4: seconds(plan.timing.t4),
            punctual: order.punctual,
            duration: seconds(plan.duration),
            warm_up: seconds(plan.warm_up),
            options: options(&plan.options),
        }
    }
}

/// The settings that have no field in [`Offered`] and differ from their defaults.
fn options(given: &UserOptions) -> BTreeMap<String, Value> {
    const WITH_FIELD: [&str; 3] = ["contacts", "provisionals", "session_expires"];
    let [given, usual] = [given, &UserOptions::default()].map(|options| serde_json::to_value(options).ok());
    let (Some(Value::Object(given)), Some(usual)) = (given, usual) else { return BTreeMap::new() };
    given.into_iter().filter(|(key, value)| !WITH_FIELD.contains(&&**key) && usual[key] != *value).collect()
}

/// Shares of the attempts, by name.
fn shares(plan: &Plan) -> BTreeMap<String, f64> {
    let name = |work| match work {
        // Its record does not differ from that of a first registration.
        Work::ReRegister => "re-register",
        other => other.what().name(),
    };
    if plan.mix.is_empty() {
        return BTreeMap::from([(name(plan.work).to_owned(), 1.0)]);
    }
    let mut shares = BTreeMap::new();
    for Portion { work, share } in &plan.mix {
        *shares.entry(name(*work).to_owned()).or_default() += share;
    }
    shares
}

/// The holding time, if there are calls.
fn hold(plan: &Plan) -> Option<String> {
    let held = |work| match work {
        Work::Call(scenario) => scenario.hold(),
        _ => None,
    };
    let span = plan.works().find_map(held)?;
    Some(plan.hold.as_ref().map_or_else(|| span.to_string(), ToString::to_string))
}

/// The start times of users as text, such as `100/s..500/s in 30 s, 500/s; poisson`.
pub fn pace_words(pace: &Pace) -> String {
    let (gaps, stages) = match pace {
        Pace::Closed(pause) => return format!("each again after {pause}"),
        Pace::Open(Arrivals::Trace(moments)) => {
            let last = moments.last().map_or(0.0, |last| last.as_secs_f64());
            return format!("a trace of {} moments in {last} s", moments.len());
        }
        Pace::Open(Arrivals::Rate { gaps, stages }) => (gaps, stages),
    };
    let mut text = String::new();
    for (place, stage) in stages.iter().enumerate() {
        let comma = if place > 0 { ", " } else { "" };
        // Writing to a string cannot fail.
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
    use netrig_core::{Duration, SpanDistribution};
    use netrig_sip::load::{CalleeOrder, Directory, RateStage, Scenario};
    use netrig_sip::settings::{Connections, LargeRequests};
    use netrig_sip::transaction::Timing;

    use super::super::order::{Carrier, Reconnecting};
    use super::*;

    #[test]
    fn a_pace_has_its_words() {
        let stage = |from, to| RateStage { from, to, lasts: Duration::from_secs(30) };
        let ramp =
            Arrivals::Rate { gaps: Gaps::Poisson, stages: vec![stage(100.0, 500.0), stage(500.0, 500.0)] };
        assert_eq!(pace_words(&Pace::Open(ramp)), "100/s..500/s in 30 s, 500/s in 30 s; poisson");
        let level = Pace::Open(Arrivals::at(3.3, Gaps::Burst(5)));
        assert_eq!(pace_words(&level), "3.3/s; bursts of 5");
        let pause = SpanDistribution::Uniform { min: Duration::from_secs(1), max: Duration::from_secs(2) };
        assert_eq!(pace_words(&Pace::Closed(pause)), "each again after uniform:1 s..2 s");
        let order = order(Plan::new(Work::Register, level, Duration::from_secs(9)));
        let offered = Offered::of(&order);
        assert_eq!((&*offered.transport, offered.connections, offered.hold), ("udp", None, None));
        assert_eq!(offered.scenario, BTreeMap::from([("register".to_owned(), 1.0)]));
    }

    fn order(plan: Plan) -> LoadOrder {
        LoadOrder::new("[::1]:5060".parse().unwrap(), plan)
    }

    /// If a server can distinguish two loads, their descriptions differ.
    #[test]
    fn what_differs_for_a_server_differs_here() {
        let second = Duration::from_secs(1);
        let call = |hold| Work::Call(Scenario::Call { hold });
        let pace = || Pace::Open(Arrivals::at(5.0, Gaps::Poisson));
        let plan = Plan { description: 300, ..Plan::new(call(second), pace(), Duration::from_secs(9)) };
        let own = CalleeOrder::Own { ringing: Duration::ZERO };
        let portion = |work, share| Portion { work, share };
        let mean = SpanDistribution::Exponential(second);
        let base = Timing::default();
        let of = |change: fn(&mut LoadOrder)| {
            let mut order = order(plan.clone());
            change(&mut order);
            order
        };
        let plans = [
            Plan { work: Work::Register, ..plan.clone() },
            Plan { work: Work::ReRegister, ..plan.clone() },
            Plan { mix: vec![portion(call(second), 0.7), portion(Work::Register, 0.3)], ..plan.clone() },
            Plan { mix: vec![portion(call(second), 0.8), portion(Work::Register, 0.2)], ..plan.clone() },
            Plan { hold: Some(mean), ..plan.clone() },
            Plan { hold: Some(SpanDistribution::Pareto { mean: second, shape: 1.5 }), ..plan.clone() },
            Plan { work: call(second * 2), ..plan.clone() },
            Plan { callee: own, ..plan.clone() },
            Plan {
                callee: own,
                options: UserOptions { contacts: 2, ..UserOptions::default() },
                ..plan.clone()
            },
            Plan {
                callee: own,
                options: UserOptions { provisionals: 2, ..UserOptions::default() },
                ..plan.clone()
            },
            Plan { callee: CalleeOrder::Own { ringing: second }, ..plan.clone() },
            Plan {
                options: UserOptions {
                    session_expires: Some(Duration::from_secs(90)),
                    ..UserOptions::default()
                },
                ..plan.clone()
            },
            Plan {
                options: UserOptions { follow_redirects: true, ..UserOptions::default() },
                ..plan.clone()
            },
            Plan { options: UserOptions { retries: 3, ..UserOptions::default() }, ..plan.clone() },
            Plan {
                options: UserOptions { large_requests: LargeRequests::Tcp, ..UserOptions::default() },
                ..plan.clone()
            },
            Plan { population: 1, ..plan.clone() },
            Plan { passwords: Directory::list(["", "secret"]), ..plan.clone() },
            Plan { expires: 60, ..plan.clone() },
            Plan { users: 7, ..plan.clone() },
            Plan { description: 0, ..plan.clone() },
            Plan { timing: Timing { t1: second, ..base }, ..plan.clone() },
            Plan { timing: Timing { t2: second, ..base }, ..plan.clone() },
            Plan { timing: Timing { t4: second, ..base }, ..plan.clone() },
        ];
        let orders = [
            of(|_| {}),
            of(|order| order.others = vec![order.target]),
            of(|order| order.punctual = true),
            of(|order| order.carrier = Carrier::Tcp(Connections::One)),
            of(|order| order.carrier = Carrier::Tcp(Connections::PerUser)),
            of(|order| {
                order.carrier = Carrier::Tcp(Connections::One);
                order.reconnecting = Reconnecting::Never;
            }),
        ];
        let all: Vec<_> =
            orders.into_iter().chain(plans.map(order)).map(|order| Offered::of(&order)).collect();
        for (place, one) in all.iter().enumerate() {
            let same = all[place + 1..].iter().find(|other| *other == one);
            assert!(same.is_none(), "{place}: {same:?}");
        }
    }
}
