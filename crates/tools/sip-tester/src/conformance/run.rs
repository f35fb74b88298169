//! Runs the purposes of a plan.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use netrig_core::{Duration, Seeds, named};
use netrig_host::realtime_nanos;
use netrig_sip_net::dns::RecordedQuestion;
use netrig_sip_net::load::LoadError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::background::BackgroundReport;
use super::capability::{Capability, CapabilityRow};
use super::case::TestCase;
use super::check::check;
use super::messages::EvidenceMessage;
use super::outcome::PurposeEnd;
use super::plan::{ConformancePlan, USERS_OF_A_CASE};
use super::purpose::{PurposeCarrier, RequirementLevel, TestPurpose};
use super::target::TestUser;

named! {
    /// The verdict of a purpose.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    pub enum PurposeVerdict {
        /// The server followed the rule.
        #[serde(rename = "PASS")]
        Pass = "PASS",
        /// It broke the rule.
        #[serde(rename = "FAIL")]
        Fail = "FAIL",
        /// The run did not show whether the server follows the rule.
        #[serde(rename = "INCONC")]
        Inconclusive = "INCONC",
    }
}

/// A selected purpose and its result.
#[derive(Clone, Debug)]
pub struct PurposeResult {
    /// The purpose.
    pub purpose: &'static TestPurpose,
    /// The verdict; `None` if it was not run: see `observation`.
    pub verdict: Option<PurposeVerdict>,
    /// The behaviour of the server, or the reason why the purpose was not run. Empty for a pass.
    pub observation: String,
    /// All its messages.
    pub evidence: Vec<EvidenceMessage>,
    /// The DNS questions that the tester received for names of the purpose.
    pub questions: Vec<RecordedQuestion>,
    /// Duration.
    pub took: Duration,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct ConformanceResult {
    /// Start time, ns since 1970.
    pub began_ns: u64,
    /// Duration.
    pub took: Duration,
    /// Capabilities of the role that a selected purpose needs.
    pub capabilities: Vec<CapabilityRow>,
    /// The results, in the order of the plan.
    pub purposes: Vec<PurposeResult>,
    /// Whether it was stopped early.
    pub is_interrupted: bool,
    /// The load during the run, if there was one.
    pub background: Option<BackgroundReport>,
}

impl ConformancePlan {
    /// Runs all purposes, and the background load at the same time if there is one. `each` is called after each
    /// purpose.
    ///
    /// # Errors
    /// If the load cannot be as ordered.
    pub fn run(
        &self,
        stop: &AtomicBool,
        each: &(dyn Fn(&PurposeResult) + Sync),
    ) -> Result<ConformanceResult, LoadError> {
        let Some(load) = self.background else { return Ok(self.run_cases(stop, each)) };
        let (result, report) = load.beside(self, || self.run_cases(stop, each))?;
        Ok(ConformanceResult { background: Some(report), ..result })
    }

    fn run_cases(&self, stop: &AtomicBool, each: &(dyn Fn(&PurposeResult) + Sync)) -> ConformanceResult {
        let began_ns = realtime_nanos();
        let seeds = Seeds::new(self.seed);
        let capabilities = self.check_capabilities(&seeds, stop);
        let next = AtomicUsize::new(0);
        let done: Mutex<BTreeMap<usize, PurposeResult>> = Mutex::default();
        std::thread::scope(|scope| {
            for job in 0..self.jobs.max(1) {
                let (next, done, seeds, capabilities) = (&next, &done, &seeds, &capabilities);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let place = next.fetch_add(1, Ordering::Relaxed);
                        let Some(purpose) = self.purposes.get(place) else { return };
                        let result = self.carry_out(purpose, capabilities, seeds, job);
                        each(&result);
                        if let Ok(mut done) = done.lock() {
                            done.insert(place, result);
                        }
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_default();
        let is_interrupted = stop.load(Ordering::Relaxed) && done.len() < self.purposes.len();
        let result = |(place, purpose): (usize, &&'static TestPurpose)| {
            done.remove(&place)
                .unwrap_or_else(|| not_carried_out(purpose, "the run was stopped earlier".to_owned()))
        };
        let purposes = self.purposes.iter().enumerate().map(result).collect();
        let took = Duration::from_nanos(realtime_nanos().saturating_sub(began_ns));
        ConformanceResult { began_ns, took, capabilities, purposes, is_interrupted, background: None }
    }

    /// The users of a job's user agents.
    fn users_of(&self, job: usize) -> [TestUser; USERS_OF_A_CASE] {
        std::array::from_fn(|place| self.users[(job * USERS_OF_A_CASE + place) % self.users.len()].clone())
    }

    fn check_capabilities(&self, seeds: &Seeds, stop: &AtomicBool) -> Vec<CapabilityRow> {
        let needed = |capability: &&Capability| {
            let is_needed = self.purposes.iter().any(|purpose| purpose.needs.contains(capability));
            capability.roles().contains(&self.role) && (is_needed || capability.is_mandatory())
        };
        let rows = Capability::ALL.iter().filter(needed).map(|capability| {
            let claimed = self.claims.claimed(*capability);
            let (name, mandatory) = (*capability, capability.is_mandatory());
            let mut row = CapabilityRow { name, mandatory, claimed, shown: None, why: String::new() };
            if claimed == Some(false) || stop.load(Ordering::Relaxed) {
                return row;
            }
            let mut case = TestCase::new(&self.target, self.users_of(0), seeds, capability.name());
            let end = check(*capability, &mut case);
            case.clean_up();
            row.shown = Some(end.is_ok());
            if let Err(PurposeEnd::Fail(why) | PurposeEnd::Inconclusive(why)) = end {
                row.why = why;
            }
            row
        });
        rows.collect()
    }

    fn carry_out(
        &self,
        purpose: &'static TestPurpose,
        capabilities: &[CapabilityRow],
        seeds: &Seeds,
        job: usize,
    ) -> PurposeResult {
        let is_over_datagrams = self.target.address.transport == netrig_sip::header::Transport::Udp;
        match (purpose.carrier, is_over_datagrams) {
            (PurposeCarrier::Datagrams, false) => return not_carried_out(purpose, "it needs UDP".to_owned()),
            (PurposeCarrier::Connections, true) => {
                return not_carried_out(purpose, "it needs TCP or TLS".to_owned());
            }
            _ => {}
        }
        let needed = |row: &&CapabilityRow| row.mandatory || purpose.needs.contains(&row.name);
        for row in capabilities.iter().filter(needed) {
            let name = row.name.name();
            match (row.claimed, row.shown) {
                (Some(false), _) => {
                    return not_carried_out(purpose, format!("the server does not claim {name}"));
                }
                (None, Some(false)) if !row.mandatory => {
                    return not_carried_out(purpose, format!("the server does not show {name}: {}", row.why));
                }
                // A claimed capability is tested even if it was not shown.
                (Some(true), Some(false)) => {}
                (None, Some(false)) => {
                    let why =
                        format!("the role requires {name}, but the server does not show it: {}", row.why);
                    return PurposeResult {
                        verdict: Some(PurposeVerdict::Inconclusive),
                        ..not_carried_out(purpose, why)
                    };
                }
                _ => {}
            }
        }
        let mut case = TestCase::new(&self.target, self.users_of(job), seeds, purpose.id);
        let end = (purpose.procedure)(&mut case);
        let took = case.now().since(netrig_core::Instant::ZERO);
        case.clean_up();
        let (verdict, observation) = match end {
            Ok(()) => (PurposeVerdict::Pass, String::new()),
            Err(PurposeEnd::Inconclusive(text)) => (PurposeVerdict::Inconclusive, text),
            Err(PurposeEnd::Fail(text)) => match purpose.level {
                RequirementLevel::Must => (PurposeVerdict::Fail, text),
                RequirementLevel::Should => {
                    (PurposeVerdict::Inconclusive, format!("only recommended (SHOULD): {text}"))
                }
            },
        };
        let questions = case.questions();
        let evidence = case.into_evidence();
        PurposeResult { purpose, verdict: Some(verdict), observation, evidence, questions, took }
    }
}

fn not_carried_out(purpose: &'static TestPurpose, why: String) -> PurposeResult {
    let (evidence, questions) = (Vec::new(), Vec::new());
    PurposeResult { purpose, verdict: None, observation: why, evidence, questions, took: Duration::ZERO }
}
