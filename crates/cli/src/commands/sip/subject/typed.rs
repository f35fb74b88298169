//! Values of the common arguments as they are typed.

use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use netrig_core::Fraction;
use netrig_sip::settings::ScenarioName;
use netrig_sip_net::load::Reconnecting;

/// Reads the name of a scenario; help says of each what its users do.
pub fn scenarios() -> impl TypedValueParser<Value = ScenarioName> {
    let all = ScenarioName::ALL.iter();
    let told = all.map(|one| PossibleValue::new(one.name()).help(one.about().trim().trim_end_matches('.')));
    PossibleValuesParser::new(told).try_map(|name| name.parse::<ScenarioName>())
}

/// `call=70%,busy=30%`: each scenario with its share, 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedMix(pub Vec<(ScenarioName, f64)>);

impl FromStr for TypedMix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let portion = |part: &str| {
            let wrong = || format!("`{part}` is no part of a mix: expected one such as call=70%");
            let (name, share) = part.split_once('=').ok_or_else(wrong)?;
            let scenario = name.trim().parse()?;
            let share: Fraction = share.trim().parse().map_err(|_| wrong())?;
            Ok((scenario, share.get()))
        };
        text.split(',').map(portion).collect::<Result<_, String>>().map(Self)
    }
}

/// When a connection is opened again: `5s`, `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedReconnect(pub Reconnecting);

impl FromStr for TypedReconnect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("`{text}` is no delay: expected a time such as 5s, or never");
        match text {
            "never" => Ok(Self(Reconnecting::Never)),
            delay => delay.parse().map_err(wrong).map(|delay| Self(Reconnecting::After(delay))),
        }
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::Duration;

    use super::*;

    #[test]
    fn a_mix_names_scenarios_and_their_shares() {
        let mix: TypedMix = "call=70%, busy=25 %,re-invite=5%".parse().unwrap();
        let shares = [(ScenarioName::Call, 0.7), (ScenarioName::Busy, 0.25), (ScenarioName::ReInvite, 0.05)];
        assert!(
            mix.0
                .iter()
                .zip(shares)
                .all(|(own, (name, share))| own.0 == name && (own.1 - share).abs() < 1e-12)
        );
        for wrong in ["call", "call=x", "nobody=100%", ""] {
            assert!(wrong.parse::<TypedMix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_connection_is_opened_again_after_a_delay_or_never() {
        assert_eq!("never".parse(), Ok(TypedReconnect(Reconnecting::Never)));
        let after = Reconnecting::After(Duration::from_secs(5));
        assert_eq!("5s".parse(), Ok(TypedReconnect(after)));
        assert!("soon".parse::<TypedReconnect>().is_err());
    }
}
