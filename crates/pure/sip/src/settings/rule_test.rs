//! The test of a server against rules of SIP before its load: its role and users.

use netrig_core::choices;

use crate::load::{Plan, Scenario, Work};

/// Number of users that a test case needs.
pub const TESTED_USERS: u32 = 3;

choices! {
    /// The role that the server has in a test.
    pub enum TestedRole {
        /// It accepts registrations (RFC 3261 section 10).
        Registrar = "registrar",
        /// It forwards requests (RFC 3261 section 16).
        Proxy = "proxy",
        /// It redirects requests to other addresses (RFC 3261 section 8.3).
        Redirect = "redirect",
        /// It answers calls (RFC 3261 sections 8.2, 11 to 15).
        Uas = "uas",
    }
}

/// The test of the server of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleTest {
    /// The role that the load needs. For a mix, the role that most attempts need.
    pub role: TestedRole,
    /// Number of users that the server knows: those of the load, followed by their peers.
    pub users: u32,
}

impl RuleTest {
    /// Whether there are enough users for a test case.
    pub const fn has_users(&self) -> bool {
        self.users >= TESTED_USERS
    }
}

impl Plan {
    /// The test of its server against rules of SIP.
    pub fn rule_test(&self) -> RuleTest {
        let redirects = self.work == Work::Call(Scenario::Redirect);
        let is_call = matches!(self.work, Work::Call(_));
        let has_peers = self.has_own_callees() || redirects;
        let role = match self.work {
            work if work.registers() => TestedRole::Registrar,
            // A redirect server forwards no calls: callers send to the contacts of its 3xx.
            _ if redirects || (is_call && self.options.follow_redirects) => TestedRole::Redirect,
            _ if self.has_own_callees() => TestedRole::Proxy,
            _ => TestedRole::Uas,
        };
        let users = if has_peers { self.users.saturating_mul(2) } else { self.users };
        RuleTest { role, users }
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::Duration;

    use super::super::load::UserOptions;
    use super::*;
    use crate::load::{Arrivals, CalleeOrder, Gaps, Pace, Portion};

    fn plan(work: Work) -> Plan {
        let pace = Pace::Open(Arrivals::at(1.0, Gaps::default()));
        Plan { users: 2, ..Plan::new(work, pace, Duration::from_secs(1)) }
    }

    fn call() -> Work {
        Work::Call(Scenario::Call { hold: Duration::ZERO })
    }

    const OWN: CalleeOrder = CalleeOrder::Own { ringing: Duration::ZERO };

    #[test]
    fn registrations_need_a_registrar() {
        let test = plan(Work::Register).rule_test();
        assert_eq!(test, RuleTest { role: TestedRole::Registrar, users: 2 });
        assert!(!test.has_users());
    }

    #[test]
    fn calls_of_peers_need_a_proxy() {
        let test = Plan { callee: OWN, ..plan(call()) }.rule_test();
        assert_eq!(test, RuleTest { role: TestedRole::Proxy, users: 4 });
        assert!(test.has_users());
    }

    #[test]
    fn calls_that_follow_3xx_need_a_redirect_server() {
        let test = Plan {
            callee: OWN,
            options: UserOptions { follow_redirects: true, ..UserOptions::default() },
            ..plan(call())
        }
        .rule_test();
        assert_eq!(test, RuleTest { role: TestedRole::Redirect, users: 4 });
        let test = plan(Work::Call(Scenario::Redirect)).rule_test();
        assert_eq!(test, RuleTest { role: TestedRole::Redirect, users: 4 });
    }

    #[test]
    fn calls_of_the_server_itself_need_a_user_agent() {
        let test = plan(call()).rule_test();
        assert_eq!(test, RuleTest { role: TestedRole::Uas, users: 2 });
    }

    #[test]
    fn the_peers_of_a_mix_are_users_of_its_test_whatever_the_role() {
        let mix = [Work::Register, call()].map(|work| Portion { work, share: 0.5 }).to_vec();
        let test = Plan { mix, callee: OWN, ..plan(Work::Register) }.rule_test();
        assert_eq!(test, RuleTest { role: TestedRole::Registrar, users: 4 });
    }
}
