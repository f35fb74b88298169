//! Values of the common arguments as they are typed.

use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use netrig_agent::sip::load::Reconnecting;
use netrig_core::{Duration, Fraction, SpanDistribution};
use netrig_sip::settings::{Hold, ScenarioName};

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

/// How long something is held: `30s`, `exponential:30s`, `uniform:10s..50s`, `pareto:30s,1.5`, `lognormal:90s,1`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedHold(pub Hold);

impl FromStr for TypedHold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no time: expected one such as 30s, exponential:30s, uniform:10s..50s, pareto:30s,1.5 or \
                 lognormal:90s,1"
            )
        };
        let span = |text: &str| text.trim().parse::<Duration>().map_err(|_| wrong());
        let with_number = |text: &str| {
            let (mean, number) = text.split_once(',').ok_or_else(wrong)?;
            Ok::<_, String>((span(mean)?, number.trim().parse::<f64>().map_err(|_| wrong())?))
        };
        let hold = match text.split_once(':') {
            None => SpanDistribution::Constant(span(text)?),
            Some(("exponential", mean)) => SpanDistribution::Exponential(span(mean)?),
            Some(("uniform", ends)) => {
                let (min, max) = ends.split_once("..").ok_or_else(wrong)?;
                SpanDistribution::Uniform { min: span(min)?, max: span(max)? }
            }
            Some(("pareto", rest)) => {
                let (mean, shape) = with_number(rest)?;
                SpanDistribution::Pareto { mean, shape }
            }
            Some(("lognormal", rest)) => {
                let (mean, sigma) = with_number(rest)?;
                SpanDistribution::Lognormal { mean, sigma }
            }
            Some(_) => return Err(wrong()),
        };
        Ok(Self(Hold(hold)))
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
    fn holds_are_spans_or_drawn() {
        let seconds = Duration::from_secs;
        let held = |span| Ok(TypedHold(Hold(span)));
        assert_eq!("30s".parse(), held(SpanDistribution::Constant(seconds(30))));
        assert_eq!("exponential:30 s".parse(), held(SpanDistribution::Exponential(seconds(30))));
        let uniform = SpanDistribution::Uniform { min: seconds(1), max: seconds(5) };
        assert_eq!("uniform:1s..5s".parse(), held(uniform));
        let pareto = SpanDistribution::Pareto { mean: seconds(3), shape: 1.5 };
        assert_eq!("pareto:3s,1.5".parse(), held(pareto));
        let lognormal = SpanDistribution::Lognormal { mean: seconds(90), sigma: 1.0 };
        assert_eq!("lognormal:90s,1".parse(), held(lognormal));
        for wrong in ["30", "normal:1s", "uniform:1s", "pareto:1s", "lognormal:1s,x"] {
            assert!(wrong.parse::<TypedHold>().is_err(), "{wrong}");
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
