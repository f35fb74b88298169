//! The scenarios of users, by their names in files and commands.

use netrig_core::{Duration, choices};

use crate::load::{Scenario, Work};

choices! {
    /// What a user does.
    pub enum ScenarioName {
        /// Each user registers once.
        Register = "register",
        /// Registered users register again.
        ReRegister = "re-register",
        /// Each registered user unregisters once.
        Unregister = "unregister",
        /// A call that is answered, held and hung up.
        Call = "call",
        /// A call that is answered after a 183 with a session description.
        EarlyMedia = "early-media",
        /// A call whose offer comes from the callee: INVITE without a session description.
        DelayedOffer = "delayed-offer",
        /// A call that is put on hold after a third of its time, and resumed after two thirds.
        ReInvite = "re-invite",
        /// A call whose provisional responses are acknowledged by PRACK (100rel).
        Prack = "prack",
        /// A call that a server forks and that two contacts answer: users have peers with several contacts.
        Fork = "fork",
        /// A call that is cancelled while it rings.
        Cancel = "cancel",
        /// A call to a busy callee: 486 or 600 is a success.
        Busy = "busy",
        /// A call that is not answered and is cancelled.
        NoAnswer = "no-answer",
        /// A call that is redirected: 3xx is a success, and is not followed.
        Redirect = "redirect",
        /// OPTIONS.
        Options = "options",
        /// MESSAGE.
        Message = "message",
        /// A subscription to presence: SUBSCRIBE and NOTIFY, renewed in time, and terminated at the end of its hold
        /// time.
        Subscribe = "subscribe",
    }
}

/// Durations of scenarios.
#[derive(Clone, Copy, Debug)]
pub struct Spans {
    /// Duration of an answered call or a subscription.
    pub hold: Duration,
    /// Time that a call rings before it is cancelled.
    pub patience: Duration,
    /// Requested duration of a subscription, s.
    pub expires: u32,
}

impl ScenarioName {
    /// The scenario with these durations.
    pub const fn work(self, spans: Spans) -> Work {
        let Spans { hold, patience, expires } = spans;
        let scenario = match self {
            Self::Register => return Work::Register,
            Self::ReRegister => return Work::ReRegister,
            Self::Unregister => return Work::Unregister,
            Self::Call => Scenario::Call { hold },
            Self::EarlyMedia => Scenario::EarlyMedia { hold },
            Self::DelayedOffer => Scenario::DelayedOffer { hold },
            Self::ReInvite => Scenario::Reinvite { hold },
            Self::Prack => Scenario::Prack { hold },
            Self::Fork => Scenario::Fork { hold },
            Self::Cancel => Scenario::Cancel { after: patience },
            Self::Busy => Scenario::Busy,
            Self::NoAnswer => Scenario::NoAnswer { patience },
            Self::Redirect => Scenario::Redirect,
            Self::Options => Scenario::Options,
            Self::Message => Scenario::Message,
            Self::Subscribe => Scenario::Subscribe { hold, expires },
        };
        Work::Call(scenario)
    }

    /// Whether the scenario adds or removes registrations.
    pub const fn registers(self) -> bool {
        matches!(self, Self::Register | Self::ReRegister | Self::Unregister)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_what_its_name_says() {
        let second = Duration::from_secs(1);
        let spans = Spans { hold: second, patience: second * 2, expires: 3 };
        for scenario in ScenarioName::ALL {
            assert_eq!(scenario.name().parse(), Ok(*scenario));
            let work = scenario.work(spans);
            assert_eq!(work.registers(), scenario.registers(), "{scenario}");
        }
        assert!("calls".parse::<ScenarioName>().is_err());
    }
}
