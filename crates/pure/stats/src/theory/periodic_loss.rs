//! AIMD under periodic loss, exact for windows of whole segments. Every n-th segment is lost.
//!
//! The model: time has rounds of one round trip. In a round the sender sends its window of w segments. Segments are
//! numbered in the order of sending, and every n-th segment is lost. After a round with one or more losses the window
//! is max(1, floor(w / 2)). After b consecutive rounds with the same window and without loss, the window grows by one
//! segment (b segments per acknowledgement), up to the limit. There are no timeouts.
//!
//! The rounds after a loss depend only on the window and on the number of segments sent since the loss. Both have a
//! finite number of values, so the sequence of windows enters a cycle. The mean over one cycle is exact, a ratio of
//! integers.
//!
//! If n is b (h + ... + W) with h = W / 2, the cycle is one saw tooth: it sends n = 3 b W (W + 2) / 8 segments in b (W
//! / 2 + 1) rounds, hence 3 W / 4 per round. As W grows, this approaches Mathis's sqrt(3 / (2 b p)) at p = 1 / n.
//! Source of the idea: Mathis, Semke, Mahdavi and Ott (1997), section 2, which uses a continuous window.

use std::collections::BTreeMap;

use super::TheoryError;
use super::curve::{CurveParameter, TheoryCurve};
use super::positive;
use super::tcp::{LOSS, RTT, SEGMENT};

/// Totals over one cycle of the sender's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// Segments sent, including lost segments.
    pub sent: u64,
    /// Segments lost.
    pub lost: u64,
    /// Round trips.
    pub rounds: u64,
}

impl Cycle {
    /// Mean number of segments delivered per round trip. Each lost segment is retransmitted once.
    #[must_use]
    pub fn delivered_per_round(&self) -> f64 {
        (self.sent - self.lost) as f64 / self.rounds as f64
    }
}

/// The state of the sender: the window of the next round, and the segments sent since the last loss.
type SenderState = (u64, u64);

/// AIMD with windows of whole segments and one loss in every `loss_every` segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeriodicLoss {
    loss_every: u64,
    rounds_per_increase: u64,
    window_limit: u64,
}

impl PeriodicLoss {
    /// Every `loss_every`-th segment is lost, and the window grows by one after `rounds_per_increase` rounds (the
    /// segments per acknowledgement, b), up to `window_limit` segments.
    ///
    /// # Errors
    /// A parameter of 0, or `loss_every` of 1, at which no segment arrives.
    pub fn new(loss_every: u32, rounds_per_increase: u32, window_limit: u32) -> Result<Self, TheoryError> {
        if loss_every < 2 {
            let value = f64::from(loss_every);
            return Err(TheoryError::OutOfRange { parameter: "loss_every", range: "at least 2", value });
        }
        positive("segments_per_ack", f64::from(rounds_per_increase))?;
        positive("window_segments", f64::from(window_limit))?;
        Ok(Self {
            loss_every: loss_every.into(),
            rounds_per_increase: rounds_per_increase.into(),
            window_limit: window_limit.into(),
        })
    }

    /// The cycle that a sender reaches from a window of one segment.
    #[must_use]
    pub fn cycle(&self) -> Cycle {
        let mut seen: BTreeMap<SenderState, Cycle> = BTreeMap::new();
        let mut total = Cycle { sent: 0, lost: 0, rounds: 0 };
        let mut state = (1, 0);
        loop {
            if let Some(before) = seen.insert(state, total) {
                return Cycle {
                    sent: total.sent - before.sent,
                    lost: total.lost - before.lost,
                    rounds: total.rounds - before.rounds,
                };
            }
            state = self.until_loss(state, &mut total);
        }
    }

    /// Adds the rounds up to and including the next round with a loss: a ramp of growing windows, then the last
    /// window.
    fn until_loss(&self, (window, since_loss): SenderState, total: &mut Cycle) -> SenderState {
        let ramp = self.increases(window, since_loss);
        let ramp_sent = self.rounds_per_increase * (ramp * window + ramp * ramp.saturating_sub(1) / 2);
        let (window, since_loss) = (window + ramp, since_loss + ramp_sent);
        let rounds = (self.loss_every - since_loss).div_ceil(window);
        let after = since_loss + rounds * window;
        total.rounds += ramp * self.rounds_per_increase + rounds;
        total.sent += ramp_sent + rounds * window;
        total.lost += after / self.loss_every;
        ((window / 2).max(1), after % self.loss_every)
    }

    /// Number of increases of the window before the next loss: the largest k, within the limit, for which the rounds
    /// with windows w, w + 1, ..., w + k - 1 end before the loss.
    fn increases(&self, window: u64, since_loss: u64) -> u64 {
        let ends_before_loss = |k: u64| {
            let (k, window) = (u128::from(k), u128::from(window));
            let sent = u128::from(self.rounds_per_increase) * (k * window + k * k.saturating_sub(1) / 2);
            u128::from(since_loss) + sent < u128::from(self.loss_every)
        };
        let (mut fits, mut too_many) = (0, self.window_limit - window + 1);
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            if ends_before_loss(middle) { fits = middle } else { too_many = middle }
        }
        fits
    }
}

/// The integer nearest to 1 / loss, as the period of losses.
fn period(loss: f64) -> Result<u32, TheoryError> {
    let every = (1.0 / loss).round();
    if every >= 2.0 && every <= f64::from(u32::MAX) {
        return Ok(every as u32);
    }
    let range = "at most 1/2 and at least 2.4e-10";
    Err(TheoryError::OutOfRange { parameter: "loss", range, value: loss })
}

/// The curves of this model.
pub(super) const CURVES: &[TheoryCurve] = &[TheoryCurve {
    name: "periodic_loss",
    title: "AIMD under periodic loss, exact",
    parameters: &[
        LOSS,
        SEGMENT,
        RTT,
        CurveParameter::optional(
            "segments_per_ack",
            "1",
            "segments covered by one acknowledgement, whole",
            1.0,
        ),
        CurveParameter::optional(
            "window_segments",
            "1",
            "limit of the window in segments, whole",
            4_294_967_295.0,
        ),
    ],
    unit: "B/s",
    source: "derived after Mathis, Semke, Mahdavi and Ott (1997), section 2",
    formula: |a| {
        let (b, limit) = (a.count("segments_per_ack", 1)?, a.count("window_segments", 1)?);
        let cycle = PeriodicLoss::new(period(a.get("loss")?)?, b, limit)?.cycle();
        let segments_per_s = cycle.delivered_per_round() / positive("rtt_s", a.get("rtt_s")?)?;
        Ok(positive("segment_bytes", a.get("segment_bytes")?)? * segments_per_s)
    },
}];
