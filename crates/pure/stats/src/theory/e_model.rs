//! The E-model: the quality of a telephone call from the impairments of the network.
//!
//! A call without delay and loss has a transmission rating R of 93.2. At 70 many users are dissatisfied, at 50 nearly all.
//! Impairments are additive: each one is subtracted from R.
//!
//! Source: ITU-T Recommendation G.107 (06/2015), *The E-model: a computational model for use in transmission planning*;
//! codecs: ITU-T G.113 (11/2007) Appendix I. Narrowband (300 to 3400 Hz) only; telephones, rooms and noise have the
//! values of G.107 Table 2.

use libm::{exp, log2, log10, pow};

use super::curve::{Arguments, CurveParameter, TheoryCurve};
use super::{TheoryError, not_negative, positive};

/// The impairment that a codec causes, from ITU-T G.113 Appendix I.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Codec {
    /// Equipment impairment factor without loss, Ie.
    pub impairment: f64,
    /// Packet-loss robustness factor, Bpl: the percentage of random loss that causes half of the largest impairment by
    /// loss.
    pub robustness: f64,
}

/// The largest impairment of a codec: the limit of the formula for high loss.
const WORST: f64 = 95.0;

impl Codec {
    /// G.711, 64 kbit/s, with silence for lost packets.
    pub const G711: Self = Self { impairment: 0.0, robustness: 4.3 };
    /// G.711 with the packet loss concealment of G.711 Appendix I.
    pub const G711_CONCEALED: Self = Self { impairment: 0.0, robustness: 25.1 };
    /// G.729 Annex A, 8 kbit/s, with voice activity detection.
    pub const G729A: Self = Self { impairment: 11.0, robustness: 19.0 };

    /// Effective equipment impairment factor, Ie-eff, for a share of lost packets and their burst ratio (G.107 section
    /// 7.5). The formula was fitted to a loss of a few per cent. For long bursts at high loss it would exceed the
    /// largest impairment of a codec, so the result is limited to that.
    ///
    /// # Errors
    /// A share outside 0 to 1, a burst ratio or a robustness that is not positive, a negative impairment.
    pub fn effective_impairment(&self, loss: f64, burst_ratio: f64) -> Result<f64, TheoryError> {
        let range = "from 0 to 1";
        if !(0.0..=1.0).contains(&loss) {
            return Err(TheoryError::OutOfRange { parameter: "loss", range, value: loss });
        }
        let percent = 100.0 * loss;
        let burst_ratio = positive("burst_ratio", burst_ratio)?;
        let robustness = positive("robustness", self.robustness)?;
        let impairment = not_negative("impairment", self.impairment)?;
        let effective = impairment + (WORST - impairment) * percent / (percent / burst_ratio + robustness);
        Ok(effective.min(WORST))
    }
}

/// A telephone call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TelephoneCall {
    /// The codec.
    pub codec: Codec,
    /// Delay from mouth to ear, s: Ta. Echo returns on the same path, so T = Ta and Tr = 2 Ta.
    pub delay_s: f64,
    /// Share of the packets that are lost or late for play-out, 0 to 1: Ppl.
    pub loss: f64,
    /// Mean length of loss bursts divided by the mean length at independent losses: BurstR.
    pub burst_ratio: f64,
    /// Advantage factor, A, 0 to 20: the loss of quality that users accept in exchange for an advantage such as
    /// mobility.
    pub advantage: f64,
}

// G.107 Table 2, default values; loudness ratings in dB, noise in dBm0p and dB(A).
const SLR: f64 = 8.0;
const RLR: f64 = 2.0;
const OLR: f64 = SLR + RLR;
const STMR: f64 = 15.0;
const LSTR: f64 = 18.0;
const DS: f64 = 3.0;
const TELR: f64 = 65.0;
const WEPL: f64 = 110.0;
const QDU: f64 = 1.0;
const NC: f64 = -70.0;
const NFOR: f64 = -64.0;
const PS: f64 = 35.0;
const PR: f64 = 35.0;
/// Table 1, defaults: delay sensitivity sT, and the shortest perceived delay mT, ms.
const DELAY_SENSITIVITY: f64 = 1.0;
const PERCEIVED_MS: f64 = 100.0;

impl TelephoneCall {
    /// A call with this codec, without delay and loss.
    #[must_use]
    pub const fn new(codec: Codec) -> Self {
        Self { codec, delay_s: 0.0, loss: 0.0, burst_ratio: 1.0, advantage: 0.0 }
    }

    /// The transmission rating R = Ro - Is - Id - Ie-eff + A (equation 7-1). It may be negative.
    ///
    /// # Errors
    /// A delay that is negative or not finite, a loss outside 0 to 1, a burst ratio that is not positive, an advantage
    /// that is negative.
    pub fn rating(&self) -> Result<f64, TheoryError> {
        let delay_ms = 1000.0 * not_negative("delay_s", self.delay_s)?;
        let delayed = talker_echo(delay_ms) + listener_echo(2.0 * delay_ms) + absolute_delay(delay_ms);
        let coded = self.codec.effective_impairment(self.loss, self.burst_ratio)?;
        let advantage = not_negative("advantage", self.advantage)?;
        Ok(signal_to_noise() - simultaneous(delay_ms) - delayed - coded + advantage)
    }

    /// The expected mean opinion score of the call, 1 (bad) to 4.5.
    ///
    /// # Errors
    /// As [`rating`](Self::rating).
    pub fn opinion(&self) -> Result<f64, TheoryError> {
        self.rating().map(opinion)
    }
}

/// The mean opinion score in conversation, MOS-CQE, 1 to 4.5, of a rating R (Annex B, equation B-4).
#[must_use]
pub fn opinion(rating: f64) -> f64 {
    if rating <= 0.0 {
        return 1.0;
    }
    if rating >= 100.0 {
        return 4.5;
    }
    // For a rating just above 0 the polynomial is slightly below the worst score of 1.
    (1.0 + 0.035 * rating + rating * (rating - 60.0) * (100.0 - rating) * 7e-6).max(1.0)
}

/// Noise at the 0 dBr point, No (equations 7-3 to 7-7).
fn noise() -> f64 {
    let from_sender = PS - SLR - DS - 100.0 + 0.004 * square(PS - OLR - DS - 14.0);
    let room = PR + 10.0 * log10(1.0 + decibels((10.0 - LSTR) / 10.0));
    let from_receiver = RLR - 121.0 + room + 0.008 * square(room - 35.0);
    let powers = [NC, from_sender, from_receiver, NFOR + RLR].map(|level| decibels(level / 10.0));
    10.0 * log10(powers.iter().sum())
}

/// Basic signal-to-noise ratio, Ro (equation 7-2).
fn signal_to_noise() -> f64 {
    15.0 - 1.5 * (SLR + noise())
}

/// Simultaneous impairment, Is: excess loudness, sidetone, quantisation (equations 7-8 to 7-17).
fn simultaneous(echo_ms: f64) -> f64 {
    let loud = (OLR + 0.2 * (64.0 + noise() - RLR)) / 8.0;
    let loudness = 20.0 * (root(1.0 + pow(loud, 8.0), 8.0) - loud);

    let side = -10.0 * log10(decibels(-STMR / 10.0) + exp(-echo_ms / 4.0) * decibels(-TELR / 10.0));
    let sidetone = 12.0 * root(1.0 + pow((side - 13.0) / 6.0, 8.0), 8.0)
        - 28.0 * root(1.0 + pow((side + 1.0) / 19.4, 35.0), 35.0)
        - 13.0 * root(1.0 + pow((side - 3.0) / 33.0, 13.0), 13.0)
        + 29.0;

    let q = 37.0 - 15.0 * log10(QDU);
    let g = 1.07 + 0.258 * q + 0.0602 * q * q;
    let y = (signal_to_noise() - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0;
    let z = 46.0 / 30.0 - g / 40.0;
    let quantisation = 15.0 * log10(1.0 + decibels(y) + decibels(z));
    loudness + sidetone + quantisation
}

/// Impairment by talker echo, Idte (equations 7-20 to 7-23; STMR is in the range without correction).
fn talker_echo(echo_ms: f64) -> f64 {
    // Below 1 ms echo is sidetone.
    if echo_ms < 1.0 {
        return 0.0;
    }
    let audible = 40.0 * log10((1.0 + echo_ms / 10.0) / (1.0 + echo_ms / 150.0));
    let level = TELR - audible + 6.0 * exp(-0.3 * echo_ms * echo_ms);
    let silent = -1.5 * (noise() - RLR);
    let half = (silent - (80.0 + 2.5 * (level - 14.0))) / 2.0;
    (half + (square(half) + 100.0).sqrt() - 1.0) * (1.0 - exp(-echo_ms))
}

/// Impairment by listener echo, Idle (equations 7-26 and 7-27).
fn listener_echo(round_trip_ms: f64) -> f64 {
    let rated = 10.5 * (WEPL + 7.0) * pow(round_trip_ms + 1.0, -0.25);
    let half = (signal_to_noise() - rated) / 2.0;
    half + (square(half) + 169.0).sqrt()
}

/// Impairment by absolute delay, Idd (equations 7-28 and 7-29).
fn absolute_delay(delay_ms: f64) -> f64 {
    if delay_ms <= PERCEIVED_MS {
        return 0.0;
    }
    let doublings = log2(delay_ms / PERCEIVED_MS);
    let power = 6.0 * DELAY_SENSITIVITY;
    let term = |x: f64| root(1.0 + pow(x, power), power);
    25.0 * (term(doublings) - 3.0 * term(doublings / 3.0) + 2.0)
}

fn square(x: f64) -> f64 {
    x * x
}

/// Converts bels to a ratio of powers.
fn decibels(bels: f64) -> f64 {
    pow(10.0, bels)
}

fn root(x: f64, degree: f64) -> f64 {
    pow(x, 1.0 / degree)
}

const PARAMETERS: &[CurveParameter] = &[
    CurveParameter::required("delay_s", "s", "delay from mouth to ear"),
    CurveParameter::optional("loss", "1", "share of the packets that are lost or too late", 0.0),
    CurveParameter::optional(
        "burst_ratio",
        "1",
        "mean length of bursts of loss over that of random loss",
        1.0,
    ),
    CurveParameter::optional(
        "impairment",
        "1",
        "equipment impairment factor Ie of the codec",
        Codec::G711.impairment,
    ),
    CurveParameter::optional("robustness", "1", "packet-loss robustness factor Bpl", Codec::G711.robustness),
    CurveParameter::optional("advantage", "1", "advantage factor A", 0.0),
];

fn call(a: &Arguments) -> Result<TelephoneCall, TheoryError> {
    Ok(TelephoneCall {
        codec: Codec { impairment: a.get("impairment")?, robustness: a.get("robustness")? },
        delay_s: a.get("delay_s")?,
        loss: a.get("loss")?,
        burst_ratio: a.get("burst_ratio")?,
        advantage: a.get("advantage")?,
    })
}

/// The curves of this model.
pub(super) const CURVES: &[TheoryCurve] = &[
    TheoryCurve {
        name: "e_model_rating",
        title: "E-model, transmission rating R",
        parameters: PARAMETERS,
        unit: "1",
        source: "ITU-T G.107 (06/2015)",
        formula: |a| call(a)?.rating(),
    },
    TheoryCurve {
        name: "e_model_opinion",
        title: "E-model, mean opinion score",
        parameters: PARAMETERS,
        unit: "1",
        source: "ITU-T G.107 (06/2015), Annex B",
        formula: |a| call(a)?.opinion(),
    },
];
