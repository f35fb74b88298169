//! The rules of basic calls and registrations, tested before the performance of a server is measured.

use netrig_core::Duration;
use netrig_sip::load::Directory;
use netrig_sip::settings::RuleTest;
use netrig_sip::{Host, Uri};
use netrig_sip_net::EndAddress;
use netrig_sip_net::load::{Carrier, LoadOrder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::capability::CapabilityClaims;
use super::plan::{ConformancePlan, PurposeSelection, USERS_OF_A_CASE};
use super::purpose::TestedRole;
use super::run::{ConformanceResult, PurposeVerdict};
use super::target::{ConformanceTarget, TestUser};

/// How long to wait for a response. The server has no other load.
const PATIENCE: Duration = Duration::from_secs(4);

/// How long to wait if no message is expected.
const SILENCE: Duration = Duration::from_millis(500);

/// The largest number of cases at the same time.
const MOST_JOBS: usize = 4;

/// Why the rules cannot be tested before a load.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The domain of the users is not a host.
    #[error("the domain `{0}` is not a host")]
    Domain(String),
    /// The server cannot be reached.
    #[error("the server cannot be reached: {0}")]
    Way(#[from] std::io::Error),
    /// A case needs three users.
    #[error(
        "a conformance test of the server needs three users, peers included, but there are {0}: give it more users"
    )]
    Users(u32),
}

/// The conformance of a server before its load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateReport {
    /// The tested role.
    pub role: TestedRole,
    /// Purposes that were run.
    pub run: usize,
    /// PASS.
    pub pass: usize,
    /// Purposes that failed, each with the server's behaviour.
    pub failed: Vec<String>,
    /// Purposes without a verdict, with the reason.
    pub inconclusive: Vec<String>,
}

impl ConformancePlan {
    /// Tests the set `basic-call` on the server of a load with the users of the load. The load decides the role: registrar,
    /// proxy, redirect server or user agent.
    ///
    /// # Errors
    /// If the load has fewer than three users, or the server cannot be reached.
    pub fn before_load(order: &LoadOrder) -> Result<Self, GateError> {
        let load = &order.plan;
        let RuleTest { role, users } = load.rule_test();
        let tls = match &order.carrier {
            Carrier::Tls(_, tls) => Some((tls.client.clone(), tls.name.clone())),
            _ => None,
        };
        let transport = order.carrier.transport();
        let address = EndAddress::towards(order.target, transport, order.local, tls)?;
        let default_domain = order.target.to_string();
        let domain = load.domain.as_deref().unwrap_or(&default_domain);
        let uri: Option<Uri> = format!("sip:{domain}").parse().ok();
        let uri = uri.as_ref().and_then(Uri::as_sip).ok_or_else(|| GateError::Domain(domain.to_owned()))?;
        let (domain, domain_port): (Host, Option<u16>) =
            (uri.host.clone(), uri.port.filter(|port| load.domain.is_some() || *port != 5060));
        let jobs = (users as usize / USERS_OF_A_CASE).min(MOST_JOBS);
        if jobs == 0 {
            return Err(GateError::Users(users));
        }
        let text = |directory: &Directory, user: u32| {
            String::from_utf8_lossy(directory.of(user).as_bytes()).into_owned()
        };
        let user = |number: usize| {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let password = text(&load.passwords, number);
            TestUser { name: text(&load.names, number), password: (!password.is_empty()).then_some(password) }
        };
        let purposes = PurposeSelection { only_basic: true, ..PurposeSelection::default() };
        Ok(Self {
            target: ConformanceTarget {
                address,
                domain,
                domain_port,
                callee: None,
                patience: PATIENCE,
                silence: SILENCE,
                names: None,
            },
            role,
            // Each role has purposes in the set.
            purposes: purposes.of(role).unwrap_or_default(),
            users: (0..jobs * USERS_OF_A_CASE).map(user).collect(),
            jobs,
            seed: load.seed,
            claims: CapabilityClaims::default(),
            background: None,
        })
    }
}

impl GateReport {
    /// The report of a run.
    pub fn of(role: TestedRole, result: &ConformanceResult) -> Self {
        let with = |verdict: PurposeVerdict| {
            let rows = result.purposes.iter().filter(move |row| row.verdict == Some(verdict));
            rows.map(|row| format!("{} ({}): {}", row.purpose.id, row.purpose.section, row.observation))
                .collect()
        };
        let passed: Vec<String> = with(PurposeVerdict::Pass);
        Self {
            role,
            run: result.purposes.iter().filter(|row| row.verdict.is_some()).count(),
            pass: passed.len(),
            failed: with(PurposeVerdict::Fail),
            inconclusive: with(PurposeVerdict::Inconclusive),
        }
    }

    /// The report in lines; the first says whether the server follows the rules.
    pub fn lines(&self) -> Vec<String> {
        let Self { role, run, pass, failed, inconclusive } = self;
        let role = role.name();
        let counts = format!("{pass} of {run} test purposes of basic calls and registrations pass");
        let first = match failed.len() {
            0 if *run == inconclusive.len() => format!("conformance as {role}: no verdict"),
            0 => format!("conformance as {role}: breaks none of the tried rules; {counts}"),
            1 => format!(
                "conformance as {role}: BREAKS 1 RULE, so the rates are those of a faulty server; {counts}"
            ),
            n => format!(
                "conformance as {role}: BREAKS {n} RULES, so the rates are those of a faulty server; {counts}"
            ),
        };
        let failed = failed.iter().map(|line| format!("  FAIL {line}"));
        let inconclusive = inconclusive.iter().map(|line| format!("  INCONC {line}"));
        std::iter::once(first).chain(failed).chain(inconclusive).collect()
    }
}

#[cfg(test)]
mod tests {
    use netrig_sip::load::{Arrivals, CalleeOrder, Gaps, Pace, Plan, Portion, Scenario, Work};

    use super::*;

    fn before(plan: Plan) -> Result<ConformancePlan, GateError> {
        ConformancePlan::before_load(&LoadOrder::new(([127, 0, 0, 1], 5060).into(), plan))
    }

    #[test]
    fn a_mix_of_registrations_and_calls_has_the_peers_of_its_users_for_its_test() {
        let call = Work::Call(Scenario::Call { hold: Duration::ZERO });
        let pace = Pace::Open(Arrivals::at(1.0, Gaps::default()));
        let registers = Plan { users: 2, ..Plan::new(Work::Register, pace, Duration::from_secs(1)) };
        assert!(matches!(before(registers.clone()), Err(GateError::Users(2))));
        let callee = CalleeOrder::Own { ringing: Duration::ZERO };
        let mix = [Work::Register, call].map(|work| Portion { work, share: 0.5 }).to_vec();
        let plan = before(Plan { mix, callee, ..registers }).unwrap();
        assert_eq!((plan.role, plan.jobs), (TestedRole::Registrar, 1));
        let names: Vec<_> = plan.users.iter().map(|user| user.name.as_str()).collect();
        assert_eq!(names, ["user000000", "user000001", "user000002"]);
    }
}
