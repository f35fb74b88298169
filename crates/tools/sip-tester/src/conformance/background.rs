//! A load on the server while test cases run.

use netrig_sip::settings::Connections;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use netrig_core::Duration;
use netrig_sip::header::Transport;
use netrig_sip::load::{Arrivals, CalleeOrder, Directory, Gaps, Pace, Plan, Scenario, Work};
use netrig_sip_net::load::{Carrier, LoadError, LoadOrder, LoadStage, LoadTls, run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plan::{BackgroundLoad, ConformancePlan, USERS_OF_A_CASE};
use super::purpose::TestedRole;

/// The duration of the load, longer than any run: the load is stopped after the last test case.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Size of session descriptions, bytes.
const DESCRIPTION: usize = 300;

/// The result of the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackgroundReport {
    /// The intended number of starts per second.
    pub rate: f64,
    /// `register`, `call` or `redirect`.
    pub what: String,
    /// Started attempts.
    pub begun: u64,
    /// Successful attempts.
    pub succeeded: u64,
    /// Failed attempts.
    pub failed: u64,
    /// The reasons of failures, with their counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// Why the load deviated from its order, in sentences; empty if it did not.
    pub faults: Vec<String>,
}

impl BackgroundLoad {
    fn order(self, plan: &ConformancePlan) -> LoadOrder {
        let work = match plan.role {
            TestedRole::Registrar => Work::ReRegister,
            TestedRole::Redirect => Work::Call(Scenario::Redirect),
            TestedRole::Proxy | TestedRole::Uas => Work::Call(Scenario::Call { hold: Duration::ZERO }),
        };
        let own = CalleeOrder::Own { ringing: Duration::ZERO };
        let target = &plan.target;
        let users = &plan.users[(plan.jobs * USERS_OF_A_CASE).min(plan.users.len())..];
        let domain = match target.domain_port {
            Some(port) => format!("{}:{port}", target.domain),
            None => target.domain.to_string(),
        };
        let load = Plan {
            users: self.users,
            names: Directory::list(users.iter().map(|user| user.name.as_str())),
            passwords: Directory::list(users.iter().map(|user| user.password.as_deref().unwrap_or_default())),
            domain: Some(domain),
            callee: if plan.role == TestedRole::Uas { CalleeOrder::Foreign } else { own },
            description: DESCRIPTION,
            seed: plan.seed,
            ..Plan::new(work, Pace::Open(Arrivals::at(self.rate, Gaps::Poisson)), LONGEST)
        };
        let carrier = match (target.address.transport, &target.address.tls) {
            (Transport::Tcp, _) => Carrier::Tcp(Connections::default()),
            (Transport::Tls, Some((config, name))) => Carrier::Tls(
                Connections::default(),
                LoadTls { client: config.clone(), name: name.clone(), server: None },
            ),
            _ => Carrier::Udp,
        };
        LoadOrder { carrier, may_test: true, shards: 1, ..LoadOrder::new(target.address.server, load) }
    }

    /// Runs `cases` during the load. The load starts before the first case and ends after the last.
    ///
    /// # Errors
    /// If the load cannot be as ordered, or its users cannot be registered.
    pub fn beside<T>(
        self,
        plan: &ConformancePlan,
        cases: impl FnOnce() -> T,
    ) -> Result<(T, BackgroundReport), LoadError> {
        let order = self.order(plan);
        let stop = AtomicBool::new(false);
        let (start, started) = channel();
        let start = Mutex::new(start);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                let stage = |stage: LoadStage<'_>| {
                    if let (LoadStage::Starting, Ok(start)) = (stage, start.lock()) {
                        // The receiver is gone only if the cases have panicked.
                        let _ = start.send(());
                    }
                };
                let report = run(&order, &stop, stage, |_, _| ());
                drop(start);
                report
            });
            let has_started = started.recv().is_ok();
            let done = has_started.then(cases);
            stop.store(true, Ordering::Relaxed);
            let report = load.join().unwrap_or(Err(LoadError::Interrupted))?;
            let done = done.ok_or(LoadError::Interrupted)?;
            let what = order.plan.work.what();
            let outcome = report.outcome(what);
            let counts = outcome.map(|outcome| outcome.counts).unwrap_or_default();
            Ok((
                done,
                BackgroundReport {
                    rate: self.rate,
                    what: outcome.map_or("call", |outcome| outcome.what).to_owned(),
                    begun: counts.begun,
                    succeeded: counts.succeeded,
                    failed: counts.failed,
                    failures: report
                        .failures
                        .iter()
                        .map(|row| format!("{} of {}: {}", row.count, row.what, row.why))
                        .collect(),
                    faults: report.faults,
                },
            ))
        })
    }
}
