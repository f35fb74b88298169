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

/// Longer than any run: the load is stopped when the last test case is over.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Bytes of session descriptions.
const DESCRIPTION: usize = 300;

/// What became of the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackgroundReport {
    /// How many were to begin per second.
    pub rate: f64,
    /// `register`, `call` or `redirect`.
    pub what: String,
    /// That began.
    pub begun: u64,
    /// That succeeded.
    pub succeeded: u64,
    /// That failed.
    pub failed: u64,
    /// Why, with how many of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// Why the load was not what was ordered, in sentences; empty if it was.
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

    /// Runs `cases` while the load goes on. The load starts before the first case, and ends behind the last.
    ///
    /// # Errors
    /// The load cannot be what was ordered, or its users cannot be registered.
    pub fn beside<T>(
        self,
        plan: &ConformancePlan,
        cases: impl FnOnce() -> T,
    ) -> Result<(T, BackgroundReport), LoadError> {
        let order = self.order(plan);
        let stop = AtomicBool::new(false);
        let (told, started) = channel();
        let told = Mutex::new(told);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                let stage = |stage: LoadStage<'_>| {
                    if let (LoadStage::Starting, Ok(told)) = (stage, told.lock()) {
                        // Who waits is gone only if the cases have panicked.
                        let _ = told.send(());
                    }
                };
                let report = run(&order, &stop, stage, |_, _| ());
                drop(told);
                report
            });
            let has_started = started.recv().is_ok();
            let done = has_started.then(cases);
            stop.store(true, Ordering::Relaxed);
            let report = load.join().unwrap_or(Err(LoadError::Interrupted))?;
            let done = done.ok_or(LoadError::Interrupted)?;
            let what = order.plan.work.what();
            let outcome = report.outcome(what);
            let count = |of: fn(&netrig_sip_net::load::OutcomeRow) -> u64| outcome.map_or(0, of);
            Ok((
                done,
                BackgroundReport {
                    rate: self.rate,
                    what: outcome.map_or("call", |outcome| outcome.what).to_owned(),
                    begun: count(|outcome| outcome.begun),
                    succeeded: count(|outcome| outcome.succeeded),
                    failed: count(|outcome| outcome.failed),
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
