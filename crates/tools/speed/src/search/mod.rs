//! The search for the capacity of a line. It measures the metric of RFC 9097, with a method that does not take random
//! loss for congestion.
//!
//! RFC 9097 section 8.1 adjusts the sending rate to the reported loss and delay, and reports the highest rate received
//! in one of its intervals. Random loss keeps such a search below the capacity. [`LineSearch`] raises the rate until
//! the offered load exceeds the capacity. An excess shows as a standing queue, or as loss that grows *with the rate*.
//! The search then offers slightly more than the capacity and counts the received datagrams: a busy line delivers its
//! full rate in spite of random loss. Finally it offers slightly less than the capacity and measures the loss, which is
//! then not caused by congestion.
//!
//! The search does not send datagrams or read a clock. Its input is the counts of the receiver, and its output is the
//! sending rate in datagrams per second.

mod feedback;

use netrig_core::Duration;
use schemars::JsonSchema;
use serde::Serialize;

use feedback::ArrivalSpan;
pub use feedback::Feedback;

/// The parameters of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchOrder {
    /// The first rate, datagrams per second.
    pub first: f64,
    /// Maximum rate, datagrams per second.
    pub most: f64,
    /// Minimum time for which received datagrams are counted while the line is saturated.
    pub counts: Duration,
    /// The time for which the loss below the capacity is measured.
    pub beneath: Duration,
    /// A rate that the line has carried before, datagrams per second, if known. Loss at or below this rate does not
    /// count as congestion.
    pub known: Option<f64>,
    /// The round-trip time of the idle path. Feedback that arrives sooner than this after a change of the rate belongs
    /// to the previous rate.
    pub round_trip: Duration,
}

/// The stage of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStage {
    /// The rate increases.
    Climbing,
    /// The line is saturated, and received datagrams are counted.
    Counting,
    /// The queue empties.
    Draining,
    /// The rate is below the capacity, and lost datagrams are counted.
    Beneath,
    /// The search has ended.
    Over,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct FoundCapacity {
    /// Datagrams per second received while the line was saturated. If it was not yet saturated, the highest rate that
    /// both halves of an interval confirm.
    pub arrived: f64,
    /// Start and end of that interval by the receiver's clock, ns.
    #[serde(skip)]
    pub within_ns: [u64; 2],
    /// Datagrams per second offered in that interval.
    pub offered: f64,
    /// Whether the line was saturated. If not, the sender was at its limit, or the highest allowed rate arrived.
    pub saturated: bool,
    /// How much the shortest delay in that interval exceeded the shortest of the search, ns: the standing queue of the line. About zero
    /// if the line has none (a policer).
    pub queue_ns: i64,
    /// Share of the datagrams lost while the line was saturated.
    pub loss_above: f64,
    /// Share of the datagrams lost slightly below the capacity, if measured.
    pub loss_beneath: Option<f64>,
    /// Datagrams sent below the capacity.
    pub sent_beneath: u64,
}

/// Minimum time between two decisions.
const STEP: Duration = Duration::from_millis(50);

/// Time that the sender needs to apply a new rate, and the receiver to encode feedback.
const REACTION: Duration = Duration::from_millis(5);

/// Minimum number of datagrams for a decision.
const LEAST: u64 = 10;

/// Minimum number of datagrams for the estimate of the rate at which counting starts. With fewer datagrams, a single
/// random loss would change the estimate too much.
const FIRST_GUESS: u64 = 50;

/// Number of datagrams, or time, after which loss without a queue shows congestion. Losses occur in bursts, and a
/// single burst may be random.
const SURE: u64 = 1000;
const SURE_BY: Duration = Duration::from_secs(1);

/// Minimum number of datagrams for a result, unless they take longer than [`PATIENCE`] permits. With a random loss of 1
/// %, the error of the received share is then 0.2 %.
const ENOUGH: u64 = 2000;

/// Counting ends at the latest after this multiple of [`SearchOrder::counts`]: the first if there are few datagrams,
/// the second if there are enough datagrams but the halves of the count disagree.
const PATIENCE: u64 = 20;
const PATIENCE_WITH_ENOUGH: u64 = 2;

/// If the offered rate exceeds the capacity by a tenth, the excess shows after this number of datagrams. If no excess
/// shows, the rate is raised, at most [`MOST_RAISED`] times.
const FULL_BY: u64 = 100;
const MOST_RAISED: u32 = 5;

/// Maximum number of counts. If the hosts limit the rate, their capacity changes continuously, and more counts would
/// not help.
const MOST_COUNTS: u32 = 3;

/// Factor by which the rate is increased in each step.
const CLIMB: f64 = 2.0;

/// High loss at the first rate may be random, or the line may be slower than this rate. The rate is then lowered to
/// this share of the received rate, at which only random loss remains.
const LOWER: f64 = 0.5;

/// Offered load as a multiple of the capacity while counting.
const ABOVE: f64 = 1.1;

/// If the loss exceeds the random loss by this share, the rate is far too high. It is then reduced to slightly above
/// the received rate.
const FAR_ABOVE: f64 = 0.2;

/// Offered load as a share of the capacity while the queue empties, and while the loss below the capacity is measured.
const DRAINING: f64 = 0.25;
const BELOW: f64 = 0.9;

/// The line is saturated if the loss exceeds the loss at lower rates by this share plus three standard deviations of a
/// count.
const EXCESS: f64 = 0.05;

/// A sender that offers less than this share of the requested rate is limited by its host.
const WILLING: f64 = 0.75;

/// Minimum number of readings for a comparison of their halves.
const FEW: usize = 4;

/// A datagram was queued if its delay exceeds the shortest one by more than this time and by more than the line needs
/// for this number of datagrams.
const QUEUED: Duration = Duration::from_millis(1);
const QUEUED_DATAGRAMS: f64 = 4.0;

/// Maximum relative difference between the halves of a count. A larger difference shows a token bucket that passed a
/// burst in the first half. With few datagrams, three standard deviations of a count are allowed.
const STEADY: f64 = 0.02;

/// A capacity search.
#[derive(Clone, Debug)]
pub struct LineSearch {
    order: SearchOrder,
    stage: SearchStage,
    rate: f64,
    /// Datagrams sent from this time on, ns by the sender's clock, belong to the current rate. Earlier datagrams were
    /// in flight when the rate changed.
    felt_ns: u64,
    /// The last feedback.
    last: Option<Feedback>,
    /// The feedback for the current rate.
    spans: Vec<ArrivalSpan>,
    /// The shortest delay of the search, ns. It includes the offset between the two clocks.
    floor: Option<i64>,
    /// Sum of the feedback while the line was not saturated.
    calm: ArrivalSpan,
    /// Whether the first rate was lowered because it may have been above the capacity.
    lowered: bool,
    /// Number of times that the rate was raised while counting.
    raised: u32,
    /// Number of completed counts.
    counted: u32,
    found: FoundCapacity,
}

impl LineSearch {
    /// A search at its first rate.
    pub fn new(order: SearchOrder) -> Self {
        Self {
            order,
            stage: SearchStage::Climbing,
            rate: order.first.min(order.most),
            felt_ns: 0,
            last: None,
            spans: Vec::new(),
            floor: None,
            calm: ArrivalSpan::default(),
            lowered: false,
            raised: 0,
            counted: 0,
            found: FoundCapacity::default(),
        }
    }

    /// The current sending rate, datagrams per second. The value is valid until the next call of
    /// [`heard`](Self::heard).
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// The current stage. The value is valid until the next call of [`heard`](Self::heard).
    pub const fn stage(&self) -> SearchStage {
        self.stage
    }

    /// The current result. It is complete in [`SearchStage::Over`].
    pub const fn found(&self) -> &FoundCapacity {
        &self.found
    }

    /// Handles feedback of the receiver.
    pub fn heard(&mut self, feedback: Feedback) {
        if let Some(least) = feedback.least_passage_ns {
            self.floor = Some(self.floor.map_or(least, |floor| floor.min(least)));
        }
        let felt = |last: &Feedback| last.expected > 0 && last.last_sent_ns >= self.felt_ns;
        let Some(last) = self.last.replace(feedback).filter(felt) else {
            return;
        };
        self.spans.push(ArrivalSpan::between(&last, &feedback));
        let all = ArrivalSpan::sum(&self.spans);
        let few = all.sent < LEAST || all.sending_ns < STEP.as_nanos();
        if few && self.stage != SearchStage::Draining {
            return;
        }
        match self.stage {
            SearchStage::Climbing => self.climb(all),
            SearchStage::Counting => self.count(all),
            SearchStage::Draining => self.drain(),
            SearchStage::Beneath => self.see_beneath(all),
            SearchStage::Over => {}
        }
    }

    fn climb(&mut self, all: ArrivalSpan) {
        self.keep_what_arrived_for_sure(&all);
        let has_carried = self.order.known.is_some_and(|known| all.offered() <= known);
        if has_carried && all.lost() > FAR_ABOVE {
            if !is_sure(&all) {
                return;
            }
            if halves(&self.spans).iter().all(|half| half.lost() > FAR_ABOVE) {
                return self.begin_anew(&all);
            }
        }
        let queued = self.is_queued(&all);
        if queued || self.loses_more(&all) {
            if all.sent >= FIRST_GUESS && (queued || is_sure(&all)) {
                self.go(SearchStage::Counting, self.above(&all));
            }
            return;
        }
        let unknown = self.calm.sent == 0 && self.order.known.is_none();
        if unknown && all.lost() > EXCESS && !std::mem::replace(&mut self.lowered, true) {
            return self.go(SearchStage::Climbing, LOWER * all.arrived());
        }
        let is_at_its_limit = self.is_at_its_limit(&all);
        // A single reading below the requested rate may be random.
        if is_at_its_limit && !self.is_steadily_at_its_limit() {
            return;
        }
        self.calm = ArrivalSpan::sum(&[self.calm, all]);
        if self.rate >= self.order.most || is_at_its_limit {
            return self.go(SearchStage::Counting, self.rate);
        }
        self.go(SearchStage::Climbing, self.rate * CLIMB);
    }

    fn count(&mut self, felt: ArrivalSpan) {
        self.keep_what_arrived_for_sure(&felt);
        let busy = self.while_busy();
        let all = ArrivalSpan::sum(&busy);
        if let Some(latest) = self.far_above().filter(|_| !self.is_at_its_limit(&felt)) {
            let carries_less = self.order.known.is_some_and(|known| latest.arrived() < BELOW * known);
            return if carries_less {
                self.begin_anew(&latest)
            } else {
                self.go(SearchStage::Counting, self.above(&latest))
            };
        }
        let took = Duration::from_nanos(all.arriving_ns);
        let has_idled = took * 2 >= self.order.counts && !self.is_full(&felt);
        if (!self.is_too_much(&felt) || has_idled) && self.can_offer_more(&felt) && self.raised < MOST_RAISED
        {
            self.raised += 1;
            return self.go(SearchStage::Counting, self.rate * ABOVE);
        }
        let enough = all.sent >= ENOUGH;
        let patience = if enough { PATIENCE_WITH_ENOUGH } else { PATIENCE };
        let impatient = Duration::from_nanos(felt.arriving_ns) >= self.order.counts * patience;
        if !impatient && (took < self.order.counts || !enough) {
            return;
        }
        let steady = self.is_steady(&busy).then_some(all);
        let Some(kept) = steady.or_else(|| impatient.then(|| second_half(&busy))) else { return };
        let too_much = self.is_full(&kept);
        self.counted += 1;
        let goes_on =
            self.counted < MOST_COUNTS && self.rate < self.order.most && !self.is_at_its_limit(&kept);
        if !too_much && goes_on {
            // All offered datagrams arrived: the capacity is higher than estimated.
            self.calm = ArrivalSpan::sum(&[self.calm, kept]);
            return self.go(SearchStage::Climbing, self.rate * ABOVE);
        }
        self.found = FoundCapacity {
            arrived: kept.arrived(),
            within_ns: kept.within_ns,
            offered: kept.offered(),
            saturated: too_much,
            queue_ns: self.waited_ns(&kept),
            loss_above: kept.lost(),
            ..FoundCapacity::default()
        };
        if too_much {
            self.go(SearchStage::Draining, DRAINING * kept.arrived());
        } else {
            self.go(SearchStage::Over, 0.0);
        }
    }

    /// Updates the result that is valid if the search is aborted. If both halves of an interval confirm a rate, the
    /// rate is not that of a burst after a pause.
    fn keep_what_arrived_for_sure(&mut self, all: &ArrivalSpan) {
        let halves = halves(&self.spans);
        let arrived = halves[0].arrived().min(halves[1].arrived());
        let is_sure = self.spans.len() > 1 && halves.iter().all(|half| half.received >= LEAST);
        if is_sure && arrived > self.found.arrived {
            (self.found.arrived, self.found.within_ns) = (arrived, all.within_ns);
        }
    }

    fn drain(&mut self) {
        let empty = self.spans.last().is_none_or(|span| !self.is_queued(span));
        if empty {
            self.go(SearchStage::Beneath, BELOW * self.found.arrived / (1.0 - self.calm.lost()).max(0.1));
        }
    }

    fn see_beneath(&mut self, all: ArrivalSpan) {
        if Duration::from_nanos(all.arriving_ns) < self.order.beneath {
            return;
        }
        self.found.loss_beneath = Some(all.lost());
        self.found.sent_beneath = all.sent;
        self.go(SearchStage::Over, 0.0);
    }

    /// Restarts the search because the line carries less than before, for example if it is a radio link or if a token
    /// bucket is empty. The loss at earlier rates is then not random, and the known rate no longer applies.
    fn begin_anew(&mut self, latest: &ArrivalSpan) {
        self.order.known = None;
        self.calm = ArrivalSpan::default();
        self.go(SearchStage::Climbing, LOWER * latest.arrived());
    }

    fn go(&mut self, stage: SearchStage, rate: f64) {
        self.stage = stage;
        self.rate = rate.min(self.order.most);
        let all = ArrivalSpan::sum(&self.spans);
        let apart_ns = (1e9 / all.arrived().max(1.0)) as u64;
        let age_ns = self.waited_ns(&all).max(0).unsigned_abs() + apart_ns;
        let takes_ns = (self.order.round_trip + REACTION).as_nanos();
        let sent_ns = self.last.map_or(0, |last| last.last_sent_ns);
        self.felt_ns = sent_ns.saturating_add(age_ns).saturating_add(takes_ns);
        self.spans.clear();
    }

    /// A rate slightly above the capacity, which is estimated from the received rate.
    fn above(&self, span: &ArrivalSpan) -> f64 {
        let least = BELOW * self.order.known.unwrap_or(0.0);
        span.arrived().max(least) * ABOVE / (1.0 - self.calm.lost()).max(0.1)
    }

    /// The sum of the latest feedback, if both of its halves show that the rate is far too high.
    fn far_above(&self) -> Option<ArrivalSpan> {
        let latest = self.latest();
        let all = ArrivalSpan::sum(latest);
        let most = self.calm.lost() + FAR_ABOVE;
        let says = all.sent >= LEAST && halves(latest).iter().all(|half| half.lost() > most);
        (is_sure(&all) && says).then_some(all)
    }

    /// The feedback while the line was busy. The line becomes idle if the sender has no processor for longer than it
    /// takes to empty the queue. If the line has no queue, all feedback is returned.
    fn while_busy(&self) -> Vec<ArrivalSpan> {
        if !self.is_mostly_queued() {
            return self.spans.clone();
        }
        self.spans.iter().filter(|span| self.is_queued(span)).copied().collect()
    }

    /// Whether datagrams were queued most of the time.
    fn is_mostly_queued(&self) -> bool {
        let queued = self.spans.iter().filter(|span| self.is_queued(span)).count();
        2 * queued > self.spans.len()
    }

    /// Whether the line was saturated most of the time.
    fn is_full(&self, span: &ArrivalSpan) -> bool {
        self.is_mostly_queued() || self.loses_more(span)
    }

    /// Whether the halves of the count agree.
    fn is_steady(&self, counted: &[ArrivalSpan]) -> bool {
        let second = second_half(counted);
        let first = ArrivalSpan::sum(&counted[..counted.len() / 2]);
        let chance = 3.0 / (second.received.max(1) as f64).sqrt() * self.calm.lost().sqrt();
        let apart = (second.arrived() / first.arrived().max(f64::MIN_POSITIVE) - 1.0).abs();
        apart <= STEADY.max(chance)
    }

    /// The latest feedback, as much as [`is_sure`] requires, or all feedback if there is not enough.
    fn latest(&self) -> &[ArrivalSpan] {
        let enough = |begins: &usize| is_sure(&ArrivalSpan::sum(&self.spans[*begins..]));
        let begins = (0..self.spans.len()).rev().find(enough);
        &self.spans[begins.unwrap_or(0)..]
    }

    /// Whether the line is saturated: datagrams are queued, or the loss is higher than at lower rates.
    fn is_too_much(&self, span: &ArrivalSpan) -> bool {
        self.is_queued(span) || self.loses_more(span)
    }

    /// Whether the rate can increase and the feedback for the current rate suffices.
    fn can_offer_more(&self, span: &ArrivalSpan) -> bool {
        span.sent >= FULL_BY && self.rate < self.order.most && !self.is_at_its_limit(span)
    }

    /// Whether the sender offered much less than the requested rate.
    fn is_at_its_limit(&self, span: &ArrivalSpan) -> bool {
        span.offered() < WILLING * self.rate
    }

    /// Whether the sender was at its limit in both halves of the feedback.
    fn is_steadily_at_its_limit(&self) -> bool {
        self.spans.len() >= FEW && halves(&self.spans).iter().all(|half| self.is_at_its_limit(half))
    }

    /// Shortest delay of the span minus the shortest delay of the search, ns.
    fn waited_ns(&self, span: &ArrivalSpan) -> i64 {
        span.passage_ns.zip(self.floor).map_or(0, |(passage, floor)| passage - floor)
    }

    /// Whether even the shortest delay of the span includes a queueing delay.
    fn is_queued(&self, span: &ArrivalSpan) -> bool {
        let datagram_ns = 1e9 / span.arrived().max(1.0);
        self.waited_ns(span) as f64 > (QUEUED_DATAGRAMS * datagram_ns).max(QUEUED.as_nanos() as f64)
    }

    /// Whether the loss is higher than at lower rates, in both halves of the feedback. False for the first rate, which
    /// cannot be compared, and for a rate that the line has carried before.
    fn loses_more(&self, span: &ArrivalSpan) -> bool {
        let calm = self.calm.lost();
        let more = |span: &ArrivalSpan| {
            let chance = 3.0 * (calm * (1.0 - calm) / span.sent.max(1) as f64).sqrt();
            span.lost() > calm + EXCESS + chance
        };
        let compares = self.calm.sent > 0 || self.order.known.is_some();
        let carried = self.order.known.is_some_and(|known| span.offered() <= known);
        compares && !carried && more(span) && halves(&self.spans).iter().all(more)
    }
}

/// Whether the span is so long that its loss is not a single burst.
fn is_sure(span: &ArrivalSpan) -> bool {
    span.sent >= SURE || span.sending_ns >= SURE_BY.as_nanos()
}

fn second_half(spans: &[ArrivalSpan]) -> ArrivalSpan {
    ArrivalSpan::sum(&spans[spans.len() / 2..])
}

/// The sum of the first half of the readings, and the sum of the second half.
fn halves(spans: &[ArrivalSpan]) -> [ArrivalSpan; 2] {
    let (first, second) = spans.split_at(spans.len() / 2);
    if first.is_empty() {
        [ArrivalSpan::sum(second); 2]
    } else {
        [ArrivalSpan::sum(first), ArrivalSpan::sum(second)]
    }
}

#[cfg(test)]
mod tests;
