//! What users do, by the names that files and commands have for it.

use std::fmt;
use std::str::FromStr;

use netrig_core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::load::{Scenario, Work};

/// Declares the scenarios, each with its name and a sentence that says what its users do.
macro_rules! scenarios {
    ($($(#[doc = $about:literal])+ $scenario:ident = $name:literal;)+) => {
        /// What a user does.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        pub enum ScenarioName {
            $($(#[doc = $about])+ #[serde(rename = $name)] $scenario,)+
        }

        impl ScenarioName {
            /// All that there are.
            pub const ALL: &'static [Self] = &[$(Self::$scenario,)+];

            /// As files and commands say it: `early-media`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$scenario => $name,)+ }
            }

            /// What its users do, in a sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$scenario => concat!($($about,)+),)+ }
            }
        }
    };
}

scenarios! {
    /// Each user registers, once.
    Register = "register";
    /// Registered users register again.
    ReRegister = "re-register";
    /// Registered users take that back, once each.
    Unregister = "unregister";
    /// A call that is answered, held and hung up.
    Call = "call";
    /// A call that is answered behind a 183 with a session description.
    EarlyMedia = "early-media";
    /// A call whose offer is made by who is called: INVITE without a session description.
    DelayedOffer = "delayed-offer";
    /// A call that is put on hold after a third of its time, and taken up again after two.
    ReInvite = "re-invite";
    /// A call whose provisional responses are acknowledged by PRACK (100rel).
    Prack = "prack";
    /// A call that a server forks, and that is answered twice: users' own peers with several contacts.
    Fork = "fork";
    /// A call that is taken back while it rings.
    Cancel = "cancel";
    /// A call to one who is busy: 486 or 600 is what is wanted.
    Busy = "busy";
    /// A call that nobody answers and that is given up.
    NoAnswer = "no-answer";
    /// A call that is sent elsewhere: 3xx is what is wanted, and not followed.
    Redirect = "redirect";
    /// OPTIONS.
    Options = "options";
    /// MESSAGE.
    Message = "message";
    /// A subscription to presence: SUBSCRIBE and NOTIFY, renewed in time, taken back after it was held.
    Subscribe = "subscribe";
}

/// How long what users do takes by itself.
#[derive(Clone, Copy, Debug)]
pub struct Spans {
    /// A call or a subscription, once it stands.
    pub hold: Duration,
    /// Ringing, of what is given up.
    pub patience: Duration,
    /// What is asked for of a subscription, s.
    pub expires: u32,
}

impl ScenarioName {
    /// What users do, with these spans.
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

    /// Whether it is of registrations.
    pub const fn registers(self) -> bool {
        matches!(self, Self::Register | Self::ReRegister | Self::Unregister)
    }
}

impl fmt::Display for ScenarioName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ScenarioName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|scenario| scenario.name() == text);
        found.ok_or_else(|| format!("`{text}` is no scenario"))
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
