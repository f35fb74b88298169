//! Rates of arrivals as they are typed.

use std::str::FromStr;

use netrig_core::Duration;
use netrig_sip::load::{Gaps, RateStage};

/// So many per second, minute or hour: `1000/s`, `60/min`, `36000/h`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no rate: expected one such as 1000/s, 60/min or 36000/h");
        let (number, unit) = text.split_once('/').ok_or_else(wrong)?;
        let seconds = match unit.trim() {
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        if number.is_finite() && number >= 0.0 { Ok(Self(number / seconds)) } else { Err(wrong()) }
    }
}

/// A stage: `100/s,30s` at one rate, `100/s..500/s,30s` from one to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TypedStage(pub RateStage);

impl FromStr for TypedStage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no stage: expected one such as 100/s,30s or, from one rate to another, 100/s..500/s,30s"
            )
        };
        let (rates, lasts) = text.split_once(',').ok_or_else(wrong)?;
        let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
        let lasts: Duration = lasts.trim().parse().map_err(|error| format!("{error}"))?;
        let [from, to] = [from, to].map(str::parse::<Rate>);
        Ok(Self(RateStage { from: from?.0, to: to?.0, lasts }))
    }
}

/// How gaps are distributed: `poisson`, `constant`, `uniform`, `burst:10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedGaps(pub Gaps);

impl FromStr for TypedGaps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let gaps = match text {
            "poisson" => Some(Gaps::Poisson),
            "constant" => Some(Gaps::Constant),
            "uniform" => Some(Gaps::Uniform),
            _ => {
                let size = text.strip_prefix("burst:").and_then(|size| size.parse().ok());
                size.filter(|size| *size > 0).map(Gaps::Burst)
            }
        };
        let wrong = || format!("`{text}` are no arrivals: expected poisson, constant, uniform or burst:N");
        gaps.map(Self).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_their_unit() {
        for (text, rate) in
            [("1000/s", 1000.0), ("3.3/s", 3.3), ("60/min", 1.0), ("36000 / h", 10.0), ("0/s", 0.0)]
        {
            assert_eq!(text.parse(), Ok(Rate(rate)), "{text}");
        }
        for wrong in ["1000", "1000/d", "x/s", "-1/s", "inf/s", "/s"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_stage_is_a_rate_or_goes_from_one_to_another() {
        let stage = |from, to| TypedStage(RateStage { from, to, lasts: Duration::from_secs(30) });
        assert_eq!("100/s,30s".parse(), Ok(stage(100.0, 100.0)));
        assert_eq!("100/s..500/s,30s".parse(), Ok(stage(100.0, 500.0)));
        assert!("100/s".parse::<TypedStage>().is_err() && "1,30s".parse::<TypedStage>().is_err());
    }

    #[test]
    fn arrivals_have_names() {
        assert_eq!("burst:10".parse(), Ok(TypedGaps(Gaps::Burst(10))));
        assert_eq!("poisson".parse(), Ok(TypedGaps(Gaps::Poisson)));
        assert!("burst:0".parse::<TypedGaps>().is_err() && "random".parse::<TypedGaps>().is_err());
    }
}
