//! Values of the common arguments as they are typed.

use std::str::FromStr;

use clap::ValueEnum;
use netrig_agent::sip::load::Reconnecting;
use netrig_core::{Duration, Fraction, SpanDistribution};

use super::arguments::ScenarioName;

/// `call=70%,busy=30%`: each scenario with its share, 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedMix(pub Vec<(ScenarioName, f64)>);

impl FromStr for TypedMix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let portion = |part: &str| {
            let wrong = || format!("`{part}` is no part of a mix: expected one such as call=70%");
            let (name, share) = part.split_once('=').ok_or_else(wrong)?;
            let scenario = ScenarioName::from_str(name.trim(), false);
            let scenario = scenario.map_err(|_| format!("`{}` is no scenario", name.trim()))?;
            let share: Fraction = share.trim().parse().map_err(|_| wrong())?;
            Ok((scenario, share.get()))
        };
        text.split(',').map(portion).collect::<Result<_, String>>().map(Self)
    }
}

/// How long something is held: `30s`, `exponential:30s`, `uniform:10s..50s`, `pareto:30s,1.5`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedHold(pub SpanDistribution);

impl FromStr for TypedHold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no time: expected one such as 30s, exponential:30s, uniform:10s..50s or pareto:30s,1.5"
            )
        };
        let span = |text: &str| text.trim().parse::<Duration>().map_err(|_| wrong());
        let hold = match text.split_once(':') {
            None => SpanDistribution::Constant(span(text)?),
            Some(("exponential", mean)) => SpanDistribution::Exponential(span(mean)?),
            Some(("uniform", ends)) => {
                let (min, max) = ends.split_once("..").ok_or_else(wrong)?;
                SpanDistribution::Uniform { min: span(min)?, max: span(max)? }
            }
            Some(("pareto", rest)) => {
                let (mean, shape) = rest.split_once(',').ok_or_else(wrong)?;
                SpanDistribution::Pareto {
                    mean: span(mean)?,
                    shape: shape.trim().parse().map_err(|_| wrong())?,
                }
            }
            Some(_) => return Err(wrong()),
        };
        Ok(Self(hold))
    }
}

impl TypedHold {
    /// What is to be drawn from, if it is not always the same.
    pub fn drawn(&self) -> Option<SpanDistribution> {
        match &self.0 {
            SpanDistribution::Constant(_) => None,
            other => Some(other.clone()),
        }
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
        assert_eq!("30s".parse(), Ok(TypedHold(SpanDistribution::Constant(seconds(30)))));
        assert_eq!("exponential:30 s".parse(), Ok(TypedHold(SpanDistribution::Exponential(seconds(30)))));
        let uniform = SpanDistribution::Uniform { min: seconds(1), max: seconds(5) };
        assert_eq!("uniform:1s..5s".parse(), Ok(TypedHold(uniform)));
        let pareto = SpanDistribution::Pareto { mean: seconds(3), shape: 1.5 };
        assert_eq!("pareto:3s,1.5".parse(), Ok(TypedHold(pareto)));
        for wrong in ["30", "normal:1s", "uniform:1s", "pareto:1s"] {
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
