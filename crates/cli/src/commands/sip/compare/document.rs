//! Results as they were written.

use std::path::Path;

use netrig_agent::sip::load::Offered;
use netrig_runner::capacity::Verdict;
use serde::Deserialize;
use serde_json::Value;

use crate::commands::sip::subject::read as read_file;
use crate::failure::Failure;

/// A result.
#[derive(Clone, Debug)]
pub enum Document {
    /// Of a load.
    Load(Load),
    /// Of a search.
    Capacity(Capacity),
}

/// A load, as far as it is compared.
#[derive(Clone, Debug, Deserialize)]
pub struct Load {
    pub target: String,
    pub offered: Offered,
    pub valid: bool,
    pub interrupted: bool,
    pub interventions: Vec<Value>,
    pub outcomes: Vec<Outcome>,
    pub delays: Vec<Delay>,
    pub seconds: Vec<Second>,
}

/// What became of things of one kind.
#[derive(Clone, Debug, Deserialize)]
pub struct Outcome {
    pub what: String,
    pub succeeded: usize,
    pub failed: usize,
}

/// A delay.
#[derive(Clone, Debug, Deserialize)]
pub struct Delay {
    pub name: String,
    pub n: u64,
    pub mean_us: f64,
    pub p95_us: f64,
}

/// A second.
#[derive(Clone, Debug, Deserialize)]
pub struct Second {
    pub second: u64,
    pub begun: u64,
    pub succeeded: usize,
    pub failed: usize,
    pub retransmissions: u64,
    pub delays: Vec<Delay>,
}

/// A search, as far as it is compared.
#[derive(Clone, Debug, Deserialize)]
pub struct Capacity {
    pub target: String,
    pub offered: Offered,
    pub verdict: Option<Verdict>,
    pub journal: Journal,
}

/// Of its journal only the settings.
#[derive(Clone, Debug, Deserialize)]
pub struct Journal {
    pub settings: Value,
}

/// Reads a result.
pub fn read(file: &Path) -> Result<Document, Failure> {
    let refuse = |why: &dyn std::fmt::Display| {
        Failure::request(format!(
            "{} is no result of `netrig sip load --json` or `netrig sip capacity --json`: {why}",
            file.display()
        ))
    };
    let value: Value = serde_json::from_str(&read_file(file)?).map_err(|error| refuse(&error))?;
    if value.get("journal").is_some() {
        serde_json::from_value(value).map(Document::Capacity).map_err(|error| refuse(&error))
    } else {
        serde_json::from_value(value).map(Document::Load).map_err(|error| refuse(&error))
    }
}

impl Document {
    /// What was tested.
    pub fn target(&self) -> &str {
        match self {
            Self::Load(load) => &load.target,
            Self::Capacity(capacity) => &capacity.target,
        }
    }

    /// Why they have nothing to say about each other, in sentences.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        match (self, now) {
            (Self::Load(before), Self::Load(now)) => {
                let mut differ = offered(&before.offered, &now.offered);
                differs(&mut differ, "when users begin", &before.offered.pace, &now.offered.pace);
                differs(&mut differ, "the number of users", before.offered.users, now.offered.users);
                for (which, load) in [("before", before), ("now", now)] {
                    differ.extend(load.doubts().into_iter().map(|doubt| format!("{which}: {doubt}")));
                }
                differ
            }
            (Self::Capacity(before), Self::Capacity(now)) => {
                let mut differ = offered(&before.offered, &now.offered);
                let modes = [before, now].map(|capacity| capacity.journal.settings["mode"].to_string());
                let [before, now] = modes;
                differs(&mut differ, "how the rate was looked for", before, now);
                differ
            }
            // Which is said of its own.
            _ => Vec::new(),
        }
    }
}

impl Load {
    fn doubts(&self) -> Vec<&'static str> {
        let all = [
            (!self.valid, "the tester was the limit"),
            (self.interrupted, "it was interrupted"),
            (!self.interventions.is_empty(), "it was changed by hand"),
        ];
        all.into_iter().filter(|(holds, _)| *holds).map(|(_, doubt)| doubt).collect()
    }
}

fn offered(before: &Offered, now: &Offered) -> Vec<String> {
    let mut differ = Vec::new();
    let all = &mut differ;
    differs(all, "the scenario", &before.scenario, &now.scenario);
    differs(all, "the transport", &before.transport, &now.transport);
    differs(all, "which requests share a connection", &before.connections, &now.connections);
    differs(all, "whether who is called is netrig's", before.own_callees, now.own_callees);
    differs(all, "how long one lasts by itself, in s,", before.own_span, now.own_span);
    differs(all, "the size of session descriptions, in bytes,", before.description, now.description);
    differs(all, "T1, in s,", before.t1, now.t1);
    differ
}

fn differs<T: PartialEq + std::fmt::Debug>(into: &mut Vec<String>, what: &str, before: T, now: T) {
    if before != now {
        into.push(format!("{what} was {before:?} and is {now:?}"));
    }
}
