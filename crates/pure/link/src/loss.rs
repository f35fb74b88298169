//! Loss on the line, random or periodic.

use netrig_core::{Fraction, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SettingsError;
use crate::error::ensure;

/// The loss process of a line. Packets count in the order in which they start onto the line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(extend("x-tag" = "kind"))]
pub enum Loss {
    /// Independent loss of each packet.
    Bernoulli(Bernoulli),
    /// Every n-th packet.
    Periodic(Periodic),
    /// A good and a bad state, each with a probability of loss (Gilbert 1960, Elliott 1963).
    GilbertElliott(GilbertElliott),
    /// The Gilbert-Elliott process without loss in the good state and with certain loss in the bad state. It is described by
    /// measurable values: the mean loss and the mean length of a burst.
    Bursts(Bursts),
}

/// Each packet is lost with the same probability, independently of the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bernoulli {
    /// Probability of loss.
    pub probability: Fraction,
}

/// Exactly one packet in `every` is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Periodic {
    /// The period in packets, at least 1.
    pub every: u64,
    /// The first lost packet, between 1 and `every`. The last of the period if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
}

/// Before each packet the line may change its state. Then the packet is lost with the probability of the state. The
/// first state is drawn from the long-run shares of the states, so the mean loss applies from the first packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// Probability per packet to change from the good state to the bad state.
    pub p: Fraction,
    /// Probability per packet to change from the bad state to the good state. The mean stay in the bad state is 1/r packets.
    pub r: Fraction,
    /// Probability of loss in the good state: 0 if not given.
    #[serde(default)]
    pub loss_in_good: Fraction,
    /// Probability of loss in the bad state: 1 if not given.
    #[serde(default = "certainty")]
    pub loss_in_bad: Fraction,
}

/// Losses in bursts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Share of packets lost in the long run, below 1.
    pub mean_loss: Fraction,
    /// Mean number of packets lost in a row, at least 1 (1/(1 − `mean_loss`) would be independent loss).
    pub mean_burst: f64,
}

fn certainty() -> Fraction {
    share(1.0)
}

/// A computed share, limited to 0..=1.
fn share(value: f64) -> Fraction {
    Fraction::new(value.clamp(0.0, 1.0)).unwrap_or_default()
}

impl Loss {
    /// Share of packets lost in the long run.
    pub fn mean_loss(&self) -> f64 {
        match self {
            Self::Bernoulli(loss) => loss.probability.get(),
            Self::Periodic(loss) => 1.0 / loss.every as f64,
            Self::GilbertElliott(loss) => loss.mean_loss(),
            Self::Bursts(loss) => loss.mean_loss.get(),
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self) -> Result<(), SettingsError> {
        match self {
            Self::Bernoulli(_) => Ok(()),
            Self::Periodic(loss) => {
                ensure(loss.every >= 1, "every", "must be at least 1")?;
                let phase = loss.first.is_none_or(|first| (1..=loss.every).contains(&first));
                ensure(phase, "first", "must lie between 1 and `every`")
            }
            Self::GilbertElliott(loss) => ensure(
                loss.p.get() + loss.r.get() > 0.0,
                "p",
                "and `r` must not both be zero: no state would ever end",
            ),
            Self::Bursts(loss) => {
                ensure(loss.mean_loss.get() < 1.0, "mean_loss", "must be below 1")?;
                let at_least_one = loss.mean_burst >= 1.0 && loss.mean_burst.is_finite();
                ensure(at_least_one, "mean_burst", "must be at least 1 packet")?;
                // A value slightly above 1 is a rounding error and is limited to 1 later.
                let why =
                    "is too short: this loss needs bursts of at least mean_loss/(1 − mean_loss) packets";
                ensure(loss.leaving_good() <= 1.0 + 1e-9, "mean_burst", why)
            }
        }
    }
}

impl GilbertElliott {
    /// Share of packets lost in the long run: π_good·`loss_in_good` + π_bad·`loss_in_bad`, where
    /// π_bad = p/(p + r).
    pub fn mean_loss(&self) -> f64 {
        let bad = self.share_of_bad();
        (1.0 - bad) * self.loss_in_good.get() + bad * self.loss_in_bad.get()
    }

    /// Long-run share of packets that find the process in the bad state.
    fn share_of_bad(&self) -> f64 {
        self.p.get() / (self.p.get() + self.r.get())
    }
}

impl Bursts {
    /// Probability of leaving the good state. With r = 1/`mean_burst` and π_bad = `mean_loss` the balance π_good·p =
    /// π_bad·r gives p = r·mean_loss/(1 − mean_loss).
    fn leaving_good(&self) -> f64 {
        let loss = self.mean_loss.get();
        loss / (1.0 - loss) / self.mean_burst
    }
}

impl From<Bursts> for GilbertElliott {
    fn from(bursts: Bursts) -> Self {
        Self {
            p: share(bursts.leaving_good()),
            r: share(1.0 / bursts.mean_burst),
            loss_in_good: Fraction::default(),
            loss_in_bad: certainty(),
        }
    }
}

/// The state of a loss process. A process draws the same number of random numbers for each packet, whatever its
/// parameters and outcomes. So all points of a sweep use the same random numbers for a packet.
#[derive(Clone, Debug)]
pub(crate) enum LossProcess {
    Never,
    Bernoulli { probability: f64 },
    Periodic { every: u64, until_next: u64 },
    GilbertElliott { model: GilbertElliott, bad: bool },
}

impl LossProcess {
    pub(crate) fn new(loss: Option<&Loss>, luck: &mut Stream) -> Self {
        match loss {
            None => Self::Never,
            Some(Loss::Bernoulli(loss)) => Self::Bernoulli { probability: loss.probability.get() },
            Some(Loss::Periodic(loss)) => {
                Self::Periodic { every: loss.every, until_next: loss.first.unwrap_or(loss.every) }
            }
            Some(Loss::GilbertElliott(model)) => Self::stationary(*model, luck),
            Some(Loss::Bursts(bursts)) => Self::stationary((*bursts).into(), luck),
        }
    }

    fn stationary(model: GilbertElliott, luck: &mut Stream) -> Self {
        Self::GilbertElliott { model, bad: luck.chance(model.share_of_bad()) }
    }

    /// Whether the next packet is lost.
    pub(crate) fn loses(&mut self, luck: &mut Stream) -> bool {
        match self {
            Self::Never => false,
            Self::Bernoulli { probability } => luck.chance(*probability),
            Self::Periodic { every, until_next } => {
                *until_next -= 1;
                let lost = *until_next == 0;
                if lost {
                    *until_next = *every;
                }
                lost
            }
            Self::GilbertElliott { model, bad } => {
                let change = if *bad { model.r } else { model.p };
                *bad ^= luck.chance(change.get());
                let loss = if *bad { model.loss_in_bad } else { model.loss_in_good };
                luck.chance(loss.get())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::Seeds;

    use super::*;

    fn fraction(value: f64) -> Fraction {
        Fraction::new(value).unwrap()
    }

    fn pattern(loss: &Loss, n: usize) -> Vec<bool> {
        let mut luck = Seeds::new(11).stream("link/test/loss");
        let mut process = LossProcess::new(Some(loss), &mut luck);
        (0..n).map(|_| process.loses(&mut luck)).collect()
    }

    fn count(pattern: &[bool]) -> f64 {
        pattern.iter().filter(|lost| **lost).count() as f64
    }

    /// Bursts of consecutive losses: their number and their mean length.
    fn bursts(pattern: &[bool]) -> (f64, f64) {
        let bursts: Vec<usize> =
            pattern.split(|lost| !lost).map(<[bool]>::len).filter(|len| *len > 0).collect();
        (bursts.len() as f64, bursts.iter().sum::<usize>() as f64 / bursts.len() as f64)
    }

    #[test]
    fn independent_loss_has_its_rate_and_its_bursts() {
        let (n, p) = (1_000_000, 0.03);
        let pattern = pattern(&Loss::Bernoulli(Bernoulli { probability: fraction(p) }), n);
        // Five standard errors of a binomial count, and of the mean of a geometric length with success probability 1 −
        // p.
        let n = n as f64;
        assert!((count(&pattern) - n * p).abs() < 5.0 * (n * p * (1.0 - p)).sqrt());
        let (bursts, mean) = bursts(&pattern);
        assert!((mean - 1.0 / (1.0 - p)).abs() < 5.0 * (p.sqrt() / (1.0 - p)) / bursts.sqrt());
    }

    #[test]
    fn periodic_loss_is_exactly_one_in_n() {
        let lost = |every, first| {
            let pattern = pattern(&Loss::Periodic(Periodic { every, first }), 100);
            (1..).zip(pattern).filter(|(_, lost)| *lost).map(|(ordinal, _)| ordinal).collect::<Vec<u64>>()
        };
        assert_eq!(lost(30, None), [30, 60, 90]);
        assert_eq!(lost(30, Some(1)), [1, 31, 61, 91]);
        assert_eq!(lost(1, None).len(), 100);
    }

    #[test]
    fn gilbert_elliott_has_the_loss_of_its_closed_form() {
        let model = GilbertElliott {
            p: fraction(0.02),
            r: fraction(0.25),
            loss_in_good: fraction(0.01),
            loss_in_bad: fraction(0.6),
        };
        let n = 2_000_000;
        let pattern = pattern(&Loss::GilbertElliott(model), n);
        // π_bad = 0.02/0.27; the loss is 0.01·π_good + 0.6·π_bad.
        let expected = (0.25 * 0.01 + 0.02 * 0.6) / 0.27;
        assert!((model.mean_loss() - expected).abs() < 1e-15);
        // The states of two consecutive packets have a correlation of 1 − p − r = 0.73, so the variance of the mean is
        // at most (1 + 0.73)/(1 − 0.73) = 6.4 times the binomial variance. Five standard errors.
        let error = (6.4 * expected * (1.0 - expected) / n as f64).sqrt();
        assert!((count(&pattern) / n as f64 - expected).abs() < 5.0 * error);
    }

    #[test]
    fn the_first_packet_is_lost_as_often_as_any() {
        // Here good states last 1000 packets and bad states 250. A fixed first state would bias the result.
        let model = GilbertElliott {
            p: fraction(0.001),
            r: fraction(0.004),
            loss_in_good: fraction(0.0),
            loss_in_bad: fraction(1.0),
        };
        let n = 20_000;
        let first = |seed| {
            let mut luck = Seeds::new(seed).stream("link/test/loss");
            LossProcess::new(Some(&Loss::GilbertElliott(model)), &mut luck).loses(&mut luck)
        };
        let lost = (0..n).filter(|seed| first(*seed)).count() as f64 / n as f64;
        assert!((lost - 0.2).abs() < 5.0 * (0.16 / n as f64).sqrt());
    }

    #[test]
    fn bursts_have_their_mean_loss_and_mean_length() {
        let settings = Bursts { mean_loss: fraction(0.05), mean_burst: 4.0 };
        let n = 2_000_000;
        let pattern = pattern(&Loss::Bursts(settings), n);
        let (bursts, mean) = bursts(&pattern);
        // A burst ends with probability r = 1/4. Its length is geometric with the standard deviation √(1 − r)/r.
        assert!((mean - 4.0).abs() < 5.0 * 12f64.sqrt() / bursts.sqrt());
        // Correlation 1 − p − r between consecutive packets, with p = r·0.05/0.95.
        let correlation = 1.0 - 0.25 - 0.25 * 0.05 / 0.95;
        let error = ((1.0 + correlation) / (1.0 - correlation) * 0.05 * 0.95 / n as f64).sqrt();
        assert!((count(&pattern) / n as f64 - 0.05).abs() < 5.0 * error);
    }

    #[test]
    fn bursts_of_independent_length_are_independent_loss() {
        // With a mean burst of 1/(1 − L) the bad state is equally likely after a loss and after a delivery: p = 1 − r = L.
        let model = GilbertElliott::from(Bursts { mean_loss: fraction(0.2), mean_burst: 1.25 });
        assert!((model.p.get() - 0.2).abs() < 1e-12 && (model.r.get() - 0.8).abs() < 1e-12);
    }

    #[test]
    fn a_likelier_loss_of_a_line_loses_the_same_packets_and_more() {
        let lost = |p| pattern(&Loss::Bernoulli(Bernoulli { probability: fraction(p) }), 10_000);
        let (few, many) = (lost(0.01), lost(0.02));
        assert!(few.iter().zip(&many).all(|(few, many)| *many || !few));
        assert!(count(&few) > 0.0 && count(&few) < count(&many));
    }

    #[test]
    fn impossible_processes_are_refused() {
        let field = |loss: Loss| loss.check().unwrap_err().field;
        assert_eq!(field(Loss::Periodic(Periodic { every: 0, first: None })), "every");
        assert_eq!(field(Loss::Periodic(Periodic { every: 5, first: Some(6) })), "first");
        assert_eq!(field(Loss::Periodic(Periodic { every: 5, first: Some(0) })), "first");
        let stuck = GilbertElliott {
            p: fraction(0.0),
            r: fraction(0.0),
            loss_in_good: fraction(0.0),
            loss_in_bad: fraction(1.0),
        };
        assert_eq!(field(Loss::GilbertElliott(stuck)), "p");
        let bursts = |loss, mean_burst| Loss::Bursts(Bursts { mean_loss: fraction(loss), mean_burst });
        assert_eq!(field(bursts(1.0, 4.0)), "mean_loss");
        assert_eq!(field(bursts(0.1, 0.5)), "mean_burst");
        assert_eq!(field(bursts(0.1, f64::NAN)), "mean_burst");
        // A loss of 90 % is impossible with bursts of two packets: the good states would be shorter than a packet.
        assert_eq!(field(bursts(0.9, 2.0)), "mean_burst");
        assert_eq!(bursts(0.9, 9.0).check(), Ok(()));
    }
}
