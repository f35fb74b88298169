//! The compared fields of result documents.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::str::FromStr;

use crate::capacity::CapacityVerdict;
use crate::conformance::ConformanceDocument;
use netrig_core::text;
use netrig_sip_net::load::{LoadReport, Offered};
use serde::Deserialize;
use serde_json::Value;

use super::error::ComparisonError;
use crate::capacity::CAPACITY_FORMAT;

/// The result of a measurement, read from its JSON document.
#[derive(Clone, Debug)]
pub enum ResultDocument {
    /// A load.
    Load(ComparedLoad),
    /// A search.
    Capacity(ComparedCapacity),
    /// A conformance test.
    Conformance(Box<ConformanceDocument>),
}

/// The compared fields of a load.
#[derive(Clone, Debug, Deserialize)]
pub struct ComparedLoad {
    pub target: String,
    pub offered: Offered,
    pub valid: bool,
    pub interrupted: bool,
    pub interventions: Vec<Value>,
    pub outcomes: Vec<ComparedOutcome>,
    pub delays: Vec<ComparedDelay>,
    pub seconds: Vec<ComparedSecond>,
}

/// The results of attempts of one kind.
#[derive(Clone, Debug, Deserialize)]
pub struct ComparedOutcome {
    pub what: String,
    pub succeeded: usize,
    pub failed: usize,
}

/// The statistics of a delay.
#[derive(Clone, Debug, Deserialize)]
pub struct ComparedDelay {
    pub name: String,
    pub n: u64,
    pub mean_us: f64,
    pub p95_us: f64,
}

/// The counters of one second of a load.
#[derive(Clone, Debug, Deserialize)]
pub struct ComparedSecond {
    pub second: u64,
    pub begun: u64,
    pub succeeded: usize,
    pub failed: usize,
    pub retransmissions: u64,
    pub delays: Vec<ComparedDelay>,
}

/// The compared fields of a search.
#[derive(Clone, Debug, Deserialize)]
pub struct ComparedCapacity {
    pub target: String,
    pub offered: Offered,
    pub verdict: Option<CapacityVerdict>,
    pub journal: ComparedJournal,
}

/// The settings in the journal of a search.
#[derive(Clone, Debug, Deserialize)]
pub struct ComparedJournal {
    pub settings: Value,
}

impl FromStr for ResultDocument {
    type Err = ComparisonError;

    fn from_str(text: &str) -> Result<Self, ComparisonError> {
        let refuse = |error: serde_json::Error| ComparisonError::NoResult(error.to_string());
        let value: Value = serde_json::from_str(text).map_err(refuse)?;
        let is_search = value.get("journal").is_some();
        let is_conformance = value.get("purposes").is_some();
        let format = match (is_search, is_conformance) {
            (true, _) => CAPACITY_FORMAT,
            (_, true) => ConformanceDocument::FORMAT,
            _ => LoadReport::FORMAT,
        };
        if value["format"] != format {
            let why = format!("its `format` is {}, and this netrig knows {format}", value["format"]);
            return Err(ComparisonError::NoResult(why));
        }
        let document = match (is_search, is_conformance) {
            (true, _) => serde_json::from_value(value).map(Self::Capacity),
            (_, true) => serde_json::from_value(value).map(Self::Conformance),
            _ => serde_json::from_value(value).map(Self::Load),
        };
        document.map_err(refuse)
    }
}

impl ResultDocument {
    /// The kind of result.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Load(_) => "a load",
            Self::Capacity(_) => "a search for a capacity",
            Self::Conformance(_) => "a test of conformance",
        }
    }

    /// The target, as typed.
    pub fn target(&self) -> &str {
        match self {
            Self::Load(load) => &load.target,
            Self::Capacity(capacity) => &capacity.target,
            Self::Conformance(document) => &document.target,
        }
    }

    /// Why this result and `now` cannot be compared, in sentences.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        match (self, now) {
            (Self::Load(before), Self::Load(now)) => {
                let mut differ = offered(&before.offered, &now.offered, &OF_ONE_LOAD);
                for (which, load) in [("before", before), ("now", now)] {
                    differ.extend(load.doubts().into_iter().map(|doubt| format!("{which}: {doubt}")));
                }
                differ
            }
            (Self::Capacity(before), Self::Capacity(now)) => {
                let mut differ = offered(&before.offered, &now.offered, &OF_ONE_SEARCH);
                let [before, now] = [before, now].map(|capacity| &capacity.journal.settings["mode"]);
                differs(&mut differ, "how the rate was searched", before, now);
                differ
            }
            // The comparison itself reports other roles.
            _ => Vec::new(),
        }
    }
}

impl ComparedLoad {
    fn doubts(&self) -> Vec<&'static str> {
        let all = [
            (!self.valid, "the tester was the limit"),
            (self.interrupted, "it was interrupted"),
            (!self.interventions.is_empty(), "its rate was changed by hand"),
        ];
        all.into_iter().filter(|(holds, _)| *holds).map(|(_, doubt)| doubt).collect()
    }
}

/// Offered settings that may differ between two loads: the duration changes the evidence, not the result.
const OF_ONE_LOAD: [&str; 2] = ["duration", "warm_up"];

/// Offered settings that may differ between two searches: a search also selects the rate and the number of users.
const OF_ONE_SEARCH: [&str; 4] = ["duration", "warm_up", "pace", "users"];

/// The key of the object with all other settings.
const OPTIONS: &str = "options";

/// The keys in which the offered loads of two results differ. The keys in `but` are not compared.
fn offered(before: &Offered, now: &Offered, but: &[&str]) -> Vec<String> {
    let [before, now] = [before, now].map(|offered| serde_json::to_value(offered).unwrap_or_default());
    let mut differ = Vec::new();
    for (key, now) in now.as_object().into_iter().flatten().filter(|(key, _)| !but.contains(&&***key)) {
        if key != OPTIONS {
            differs(&mut differ, &words(key), &before[key], now);
        }
    }
    let keys = |offered: &Value| -> Vec<String> {
        offered[OPTIONS].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    };
    let options: BTreeSet<String> = [&before, &now].into_iter().flat_map(keys).collect();
    for key in &options {
        differs(&mut differ, &words(key), &before[OPTIONS][key], &now[OPTIONS][key]);
    }
    differ
}

/// The words for a key of the offered load.
fn words(key: &str) -> Cow<'_, str> {
    let known = match key {
        "scenario" => "the scenario",
        "transport" => "the transport",
        "lookup" => "how the server is located",
        "connections" => "which requests share a connection",
        "reconnect" => "when a connection is opened again",
        "others" => "the number of backup servers",
        "pace" => "when users start",
        "users" => "the number of users",
        "population" => "the number of idle users",
        "digest" => "whether users have passwords",
        "expires" => "the registration interval, in s,",
        "own_callees" => "whether the callees are netrig's",
        "contacts" => "the number of contacts of each callee",
        "provisionals" => "the number of provisional responses",
        "session_expires" => "the session interval that callers ask for, in s,",
        "hold" => "how long a call is held",
        "own_span" => "the duration of a call without holding, in s,",
        "description" => "the size of session descriptions, in bytes,",
        "t1" => "T1, in s,",
        "t2" => "T2, in s,",
        "t4" => "T4, in s,",
        "punctual" => "whether users start punctually",
        other => return Cow::Owned(text::words(other)),
    };
    Cow::Borrowed(known)
}

fn differs(into: &mut Vec<String>, what: &str, before: &Value, now: &Value) {
    if before != now {
        let word = |value: &Value| if value.is_null() { "none".to_owned() } else { value.to_string() };
        into.push(format!("{what} was {} and is {}", word(before), word(now)));
    }
}

#[cfg(test)]
pub mod tests {
    use netrig_core::Duration;
    use netrig_sip::load::{Arrivals, Gaps, Pace, Plan, Scenario, Work};
    use netrig_sip_net::load::LoadOrder;

    use super::*;

    /// An example of an offered load with this duration.
    pub fn some_offer(seconds: u64) -> Offered {
        let pace = Pace::Open(Arrivals::at(100.0, Gaps::Poisson));
        let work = Work::Call(Scenario::Call { hold: Duration::ZERO });
        let plan = Plan::new(work, pace, Duration::from_secs(seconds));
        Offered::of(&LoadOrder::new(([192, 0, 2, 1], 5060).into(), plan))
    }

    /// Every reported key of the offered load is compared.
    #[test]
    fn what_is_offered_is_compared_key_by_key() {
        let before = some_offer(10);
        assert_eq!(offered(&before, &some_offer(60), &OF_ONE_LOAD), Vec::<String>::new());
        let all = serde_json::to_value(&before).unwrap();
        for (key, value) in all.as_object().unwrap() {
            let mut other = all.clone();
            other[key] = match value {
                Value::Bool(is) => Value::Bool(!is),
                Value::Number(_) => Value::from(9),
                Value::Object(_) => serde_json::json!({ "options": 1.0 }),
                _ => Value::from("other"),
            };
            let now: Offered = serde_json::from_value(other).unwrap();
            let differences = offered(&before, &now, &OF_ONE_LOAD);
            assert_eq!(
                differences.len(),
                usize::from(!OF_ONE_LOAD.contains(&&**key)),
                "{key}: {differences:?}"
            );
            assert!(OF_ONE_LOAD.contains(&&**key) || matches!(words(key), Cow::Borrowed(_)), "{key}");
        }
    }
}
