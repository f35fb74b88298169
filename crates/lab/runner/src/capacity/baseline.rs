//! What a tester carries against itself (RFC 7502, section 6.1), and how that is looked for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::observation::{Seen, TesterSeen};

/// How often the interval between a rate that was carried and one that was not is halved, in the ratio: from a factor of two to
/// one of a fifth.
const HALVINGS: u32 = 2;

/// So much less than was asked for may begin: this share, or what is left to chance in Poisson arrivals, in standard deviations.
const FEWER: f64 = 0.02;
const DEVIATIONS: f64 = 4.0;

/// More requests than this share of those begun must not be sent again.
const AGAIN: f64 = 0.001;

/// What a tester carries against itself: its load against its own answering side, with the same transport, as many threads and
/// on the same processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// The highest rate that it carried, per second; none if it carried none.
    pub carried: Option<f64>,
    /// The lowest above it that it did not; none if no rate that the search may offer was too high.
    pub not_carried: Option<f64>,
    /// Why it did not.
    pub why: Option<String>,
}

impl Baseline {
    /// What is seen of a step at this rate, per second, that the tester itself does not carry; `None` of one that it does.
    pub fn refuses(&self, rate: f64) -> Option<Seen> {
        // No rate that may be offered was too high.
        let not_carried = self.not_carried?;
        if self.carried.is_some_and(|carried| rate <= carried) {
            return None;
        }
        let carried = self.carried.map_or_else(|| "none".to_owned(), |carried| format!("{carried:.0}/s"));
        let why = self.why.as_deref().unwrap_or("its own answers did not come");
        let fault = format!("against itself it carried {carried}, and not {not_carried:.0}/s: {why}");
        let tester = TesterSeen { faults: vec![fault], ..TesterSeen::default() };
        Some(Seen { tester, ..Seen::default() })
    }

    /// In a sentence, of `unit` per second (`calls`).
    pub fn sentence(&self, unit: &str) -> String {
        let carried =
            self.carried.map_or_else(|| format!("no {unit}"), |carried| format!("{carried:.0} {unit}/s"));
        match (self.not_carried, &self.why) {
            (Some(rate), Some(why)) => {
                format!("the tester carries {carried} against itself; at {rate:.0}/s: {why}")
            }
            _ => format!("the tester carries {carried} against itself, the most that may be offered"),
        }
    }
}

/// The search for a baseline: a ramp by factors of two, and a bisection of what it leaves open. As
/// [`CapacitySearch`](super::CapacitySearch) it opens no socket and asks no clock.
///
/// ```
/// use netrig_runner::capacity::{BaselineSearch, CallCounts, Seen};
/// let mut search = BaselineSearch::new(100.0, (1.0, 1e6));
/// // A tester that carries 9000 calls per second against itself.
/// while let Some(rate) = search.next() {
///     let begun = (rate * BaselineSearch::SPAN_S) as u64;
///     let failed = if rate > 9000.0 { begun / 10 } else { 0 };
///     let counts = CallCounts { begun, succeeded: begun - failed, failed, ..CallCounts::default() };
///     search.told(&Seen { span_s: BaselineSearch::SPAN_S, counts, ..Seen::default() });
/// }
/// assert_eq!(search.found().carried, Some(8409.0));
/// ```
#[derive(Clone, Debug)]
pub struct BaselineSearch {
    lowest: f64,
    highest: f64,
    /// What is to be offered, per second.
    rate: Option<f64>,
    /// It was not carried once.
    again: bool,
    halvings: u32,
    found: Baseline,
}

impl BaselineSearch {
    /// The first rate, per second, unless the search for the capacity begins higher. At lower rates the tester's own faults say enough.
    pub const FIRST: f64 = 2500.0;

    /// How long each rate is offered, s.
    pub const SPAN_S: f64 = 2.0;

    /// Of a search for a capacity that begins at a rate and may offer those from the lowest to the highest, per second.
    pub fn new(start: f64, (lowest, highest): (f64, f64)) -> Self {
        let rate = Some(start.max(Self::FIRST).min(highest));
        Self { lowest, highest, rate, again: false, halvings: HALVINGS, found: Baseline::default() }
    }

    /// The rate that is to be offered now, per second; `None` if it is finished. It stays the same until [`told`](Self::told).
    pub const fn next(&self) -> Option<f64> {
        self.rate
    }

    /// Tells what was seen of the rate that was to be offered, to its end.
    pub fn told(&mut self, seen: &Seen) {
        let Some(rate) = self.rate else { return };
        match fault(rate, seen) {
            // One who disturbs the machine for a moment is no limit of the tester's.
            Some(_) if !self.again => {
                self.again = true;
                return;
            }
            Some(why) => (self.found.not_carried, self.found.why) = (Some(rate), Some(why)),
            None => self.found.carried = Some(rate),
        }
        self.again = false;
        self.rate = self.after();
    }

    /// What was found; when it is finished, all that there is to find.
    pub fn found(&self) -> Baseline {
        self.found.clone()
    }

    /// The next rate.
    fn after(&mut self) -> Option<f64> {
        match (self.found.carried, self.found.not_carried) {
            (Some(carried), None) => (carried < self.highest).then(|| (2.0 * carried).min(self.highest)),
            (None, Some(not)) => (not > self.lowest).then(|| (not / 2.0).max(self.lowest)),
            (Some(carried), Some(not)) if self.halvings > 0 => {
                self.halvings -= 1;
                Some((carried * not).sqrt().round().max(carried))
            }
            _ => None,
        }
    }
}

/// Why a rate was not carried; `None` if it was.
fn fault(rate: f64, seen: &Seen) -> Option<String> {
    let all = [seen.unprepared.as_ref(), seen.tester.faults.first()];
    if let Some(fault) = all.into_iter().flatten().next() {
        return Some(fault.clone());
    }
    let (counts, asked) = (seen.counts, rate * seen.span_s);
    if (counts.begun as f64) < asked - (FEWER * asked).max(DEVIATIONS * asked.sqrt()) {
        return Some(format!("{} of about {asked:.0} began", counts.begun));
    }
    if counts.failed > 0 || counts.again as f64 > AGAIN * counts.begun as f64 {
        let (failed, begun, again) = (counts.failed, counts.begun, counts.again);
        return Some(format!("{failed} of {begun} failed, {again} requests were sent again"));
    }
    None
}
