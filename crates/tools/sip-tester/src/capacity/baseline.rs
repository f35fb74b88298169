//! The baseline: the highest rate that the tester sustains against its own answering side (RFC 7502, section 6.1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::observation::{StepObservation, TesterSeen};

/// Number of bisections, at the geometric mean, of the interval between a sustained and an unsustained rate. They
/// reduce the ratio of its ends from 2 to 1.2.
const HALVINGS: u32 = 2;

/// The tester sustains a rate although it starts fewer calls than intended, if the shortfall is at most this share or
/// at most this number of standard deviations of Poisson arrivals.
const FEWER: f64 = 0.02;
const DEVIATIONS: f64 = 4.0;

/// The largest allowed ratio of retransmitted requests to started calls.
const AGAIN: f64 = 0.001;

/// The limit of the tester, measured against its own answering side with the same transport, the same number of threads and the
/// same processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// The highest rate that the tester sustained, per second; `None` if it sustained none.
    pub carried: Option<f64>,
    /// The lowest rate above it that the tester did not sustain, per second; `None` if it sustained every allowed rate.
    pub not_carried: Option<f64>,
    /// Why it did not sustain that rate.
    pub why: Option<String>,
}

impl Baseline {
    /// The observations of a step at this rate (per second) if the tester cannot sustain it; `None` if it can.
    pub fn refuses(&self, rate: f64) -> Option<StepObservation> {
        // The tester sustained every allowed rate.
        let not_carried = self.not_carried?;
        if self.carried.is_some_and(|carried| rate <= carried) {
            return None;
        }
        let carried = self.carried.map_or_else(|| "none".to_owned(), |carried| format!("{carried:.0}/s"));
        let why = self.why.as_deref().unwrap_or("its answering side did not respond");
        let fault = format!("the tester alone sustained {carried}, but not {not_carried:.0}/s: {why}");
        let tester = TesterSeen { faults: vec![fault], ..TesterSeen::default() };
        Some(StepObservation { tester, ..StepObservation::default() })
    }

    /// The baseline in a sentence. `unit` is the name of what is counted (`calls`).
    pub fn sentence(&self, unit: &str) -> String {
        let carried =
            self.carried.map_or_else(|| format!("no {unit}"), |carried| format!("{carried:.0} {unit}/s"));
        match (self.not_carried, &self.why) {
            (Some(rate), Some(why)) => {
                format!("the tester alone sustains {carried}; at {rate:.0}/s: {why}")
            }
            _ => format!("the tester alone sustains {carried}, the highest allowed rate"),
        }
    }
}

/// The search for a baseline: a ramp by factors of two, then a bisection. Like [`CapacitySearch`](super::CapacitySearch), it opens
/// no socket and reads no clock.
///
/// ```
/// use netrig_sip_tester::capacity::{BaselineSearch, CallCounts, StepObservation};
/// let mut search = BaselineSearch::new(100.0, (1.0, 1e6));
/// // A tester whose own limit is 9000 calls per second.
/// while let Some(rate) = search.next() {
///     let begun = (rate * BaselineSearch::SPAN_S) as u64;
///     let failed = if rate > 9000.0 { begun / 10 } else { 0 };
///     let counts = CallCounts { begun, succeeded: begun - failed, failed, ..CallCounts::default() };
///     search.observe(&StepObservation { span_s: BaselineSearch::SPAN_S, counts, ..StepObservation::default() });
/// }
/// assert_eq!(search.found().carried, Some(8409.0));
/// ```
#[derive(Clone, Debug)]
pub struct BaselineSearch {
    lowest: f64,
    highest: f64,
    /// The rate to be offered next, per second.
    rate: Option<f64>,
    /// Whether this rate has failed once.
    again: bool,
    halvings: u32,
    found: Baseline,
}

impl BaselineSearch {
    /// The first rate, per second, unless the search for the capacity starts higher. At lower rates the faults that the
    /// tester reports suffice to detect its limit.
    pub const FIRST: f64 = 2500.0;

    /// How long each rate is offered, s.
    pub const SPAN_S: f64 = 2.0;

    /// A search for the baseline of a capacity search that starts at `start` and is limited to the given range, per second.
    pub fn new(start: f64, (lowest, highest): (f64, f64)) -> Self {
        let rate = Some(start.max(Self::FIRST).min(highest));
        Self { lowest, highest, rate, again: false, halvings: HALVINGS, found: Baseline::default() }
    }

    /// The rate to offer now, per second; `None` if the search is finished. It does not change until
    /// [`observe`](Self::observe) is called.
    pub const fn next(&self) -> Option<f64> {
        self.rate
    }

    /// Reports the observations of the current rate, at its end.
    pub fn observe(&mut self, seen: &StepObservation) {
        let Some(rate) = self.rate else { return };
        match fault(rate, seen) {
            // A short disturbance of the machine is not a limit of the tester.
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

    /// The result so far; it is final when the search is finished.
    pub fn found(&self) -> Baseline {
        self.found.clone()
    }

    /// The rate after the current one.
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

/// Why the tester did not sustain a rate; `None` if it did.
fn fault(rate: f64, seen: &StepObservation) -> Option<String> {
    let all = [seen.unprepared.as_ref(), seen.tester.faults.first()];
    if let Some(fault) = all.into_iter().flatten().next() {
        return Some(fault.clone());
    }
    let (counts, asked) = (seen.counts, rate * seen.span_s);
    if (counts.begun as f64) < asked - (FEWER * asked).max(DEVIATIONS * asked.sqrt()) {
        return Some(format!("{} of about {asked:.0} were started", counts.begun));
    }
    if counts.failed > 0 || counts.again as f64 > AGAIN * counts.begun as f64 {
        let (failed, begun, again) = (counts.failed, counts.begun, counts.again);
        return Some(format!("{failed} of {begun} failed, {again} requests were retransmitted"));
    }
    None
}
