//! The search for what a line carries of datagrams: RFC 9097's metric, by a method that does not take random loss for
//! congestion.
//!
//! RFC 9097 section 8.1 changes the sending rate by what comes back of loss and delay, and reports the most that was received
//! in one of its intervals. Loss that has nothing to do with the rate keeps such a search below the line. [`LineSearch`] goes up
//! until more is offered than comes through, which shows as a queue that stays or as loss that grows *with the rate*; it then
//! offers a little more than the line carries and counts what arrives. A line that always has something to send delivers its
//! rate, whatever is lost at random. At last it goes a little below and sees what is lost there: that is the line's own.
//!
//! It sends nothing and asks no clock: it is told what the receiver counted, and says at how many datagrams per second to go
//! on.

mod feedback;

use netrig_core::Duration;
use schemars::JsonSchema;
use serde::Serialize;

use feedback::ArrivalSpan;
pub use feedback::Feedback;

/// How a search goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchOrder {
    /// The rate that it begins with, datagrams per second.
    pub first: f64,
    /// The rate that it never exceeds.
    pub most: f64,
    /// For how long it counts what arrives while more is offered than the line carries, at least.
    pub counts: Duration,
    /// For how long it sees what is lost below that.
    pub beneath: Duration,
    /// What the line has carried before, datagrams per second, if that is known: so much or less is not too much for it, whatever is
    /// lost.
    pub known: Option<f64>,
    /// The round trip of the idle path: what comes back sooner than that after a change tells of the rate before.
    pub round_trip: Duration,
}

/// Where a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStage {
    /// It offers more and more.
    Climbing,
    /// It offers more than the line carries, and counts what arrives.
    Counting,
    /// It waits until the queue that it has made is empty.
    Draining,
    /// It offers less, and counts what is lost.
    Beneath,
    /// It is over.
    Over,
}

/// What a search has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct FoundCapacity {
    /// Datagrams per second that arrived while more was offered than the line carries; if it never was, or until the search has
    /// come so far, what arrived for sure: in both halves of a time.
    pub arrived: f64,
    /// When that time began and ended, by the receiver's clock, ns.
    #[serde(skip)]
    pub within_ns: [u64; 2],
    /// Datagrams per second that were offered meanwhile.
    pub offered: f64,
    /// Whether more was offered than came through. If not, the sender could do no more, or the most that it may send came
    /// through.
    pub saturated: bool,
    /// By how much the quickest datagram took longer then than at best, ns: what stayed in the line's queue. Where a line
    /// has none (a policer), about zero.
    pub queue_ns: i64,
    /// Share of what was sent that was lost while more was offered than the line carries.
    pub loss_above: f64,
    /// The same a little below, if it was seen.
    pub loss_beneath: Option<f64>,
    /// Datagrams that were sent there.
    pub sent_beneath: u64,
}

/// Between two judgements, at least.
const STEP: Duration = Duration::from_millis(50);

/// So long a sender takes to look at its rate, and feedback to be put into words.
const REACTION: Duration = Duration::from_millis(5);

/// Datagrams that a judgement is of at least.
const LEAST: u64 = 10;

/// Datagrams that the rate is of at which it counts: of fewer, one that is lost at random makes too much of a difference.
const FIRST_GUESS: u64 = 50;

/// Datagrams that show by their loss alone that there are too many of them, or the time for which they do: losses come in bursts,
/// and one of those says nothing of the rate.
const SURE: u64 = 1000;
const SURE_BY: Duration = Duration::from_secs(1);

/// Datagrams that a result is of at least, unless that takes longer than [`PATIENCE`]: with one in a hundred lost at random,
/// the share that arrives is then known to 0.2 %.
const ENOUGH: u64 = 2000;

/// It counts for no longer than so many times what was asked for: while there are few datagrams, and while there are enough that
/// do not tell the same.
const PATIENCE: u64 = 20;
const PATIENCE_WITH_ENOUGH: u64 = 2;

/// What is a tenth too much is seen after so many datagrams; if it is not, it offers a little more, so often at most.
const FULL_BY: u64 = 100;
const MOST_RAISED: u32 = 5;

/// It counts so often at most: where hosts are the limit, what they can changes all the time.
const MOST_COUNTS: u32 = 3;

/// By what it goes up.
const CLIMB: f64 = 2.0;

/// Much that is lost of the first rate may be lost at random, or because the line is slower: at this share of what came through
/// only the former is.
const LOWER: f64 = 0.5;

/// It offers so many times what the line carries while it counts.
const ABOVE: f64 = 1.1;

/// So much more than chance takes is lost of what is far too much: it comes down to a little more than arrives.
const FAR_ABOVE: f64 = 0.2;

/// So much of it while the queue empties, and so much beneath.
const DRAINING: f64 = 0.25;
const BELOW: f64 = 0.9;

/// More is offered than the line carries if the share that is lost exceeds that of a lower rate by this and by three standard
/// deviations of a count.
const EXCESS: f64 = 0.05;

/// A sender that offers less than this share of what it was asked for is at its own limit.
const WILLING: f64 = 0.75;

/// Of fewer readings the halves say nothing of how it is all the time.
const FEW: usize = 4;

/// A datagram has waited in a queue if it took longer than the quickest by more than this, and than so many datagrams take.
const QUEUED: Duration = Duration::from_millis(1);
const QUEUED_DATAGRAMS: f64 = 4.0;

/// The two halves of what was counted may differ by so much: a bucket that lets a burst through has run empty by then. Of few
/// datagrams the halves differ by chance; then by three standard deviations of a count.
const STEADY: f64 = 0.02;

/// A search.
#[derive(Clone, Debug)]
pub struct LineSearch {
    order: SearchOrder,
    stage: SearchStage,
    rate: f64,
    /// What was sent from then on, by the sender's clock, tells of the rate: what was on its way when it changed tells of the
    /// rate before.
    felt_ns: u64,
    /// The last feedback.
    last: Option<Feedback>,
    /// What happened since the rate was changed and that was felt.
    spans: Vec<ArrivalSpan>,
    /// The quickest passage so far, ns between two clocks.
    floor: Option<i64>,
    /// Sent and received while the line carried all that was offered.
    calm: ArrivalSpan,
    /// Whether the first rate may have been above the line, and was lowered.
    lowered: bool,
    /// How often it has offered more while it counted.
    raised: u32,
    /// How often it has counted to the end.
    counted: u32,
    found: FoundCapacity,
}

impl LineSearch {
    /// One that begins.
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

    /// Datagrams per second at which to send now. Stale after the next call of [`heard`](Self::heard).
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Where it is. Stale after the next call of [`heard`](Self::heard).
    pub const fn stage(&self) -> SearchStage {
        self.stage
    }

    /// What it has found so far; all of it once it is over.
    pub const fn found(&self) -> &FoundCapacity {
        &self.found
    }

    /// The receiver has told what it counted.
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
        // Once it may have been kept from sending by chance.
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
            // All came that was offered: the line carries more than was thought.
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

    /// A search that is broken off has this: what both halves of a time have shown is no burst behind a pause.
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

    /// It carries less than it has before (a radio, or a bucket that has run empty): what was lost of the rates that it had carried
    /// is not chance, and nothing is known of it.
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

    /// The rate that is a little more than the line carries of which so much came through.
    fn above(&self, span: &ArrivalSpan) -> f64 {
        let least = BELOW * self.order.known.unwrap_or(0.0);
        span.arrived().max(least) * ABOVE / (1.0 - self.calm.lost()).max(0.1)
    }

    /// The latest of what was felt, if it says that far too much is offered, all the time.
    fn far_above(&self) -> Option<ArrivalSpan> {
        let latest = self.latest();
        let all = ArrivalSpan::sum(latest);
        let most = self.calm.lost() + FAR_ABOVE;
        let says = all.sent >= LEAST && halves(latest).iter().all(|half| half.lost() > most);
        (is_sure(&all) && says).then_some(all)
    }

    /// What was felt while the line had something to send, if that shows: a sender that was kept from its processor for longer than
    /// the line's queue lasts has offered nothing meanwhile. Of a line without a queue, all.
    fn while_busy(&self) -> Vec<ArrivalSpan> {
        if !self.is_mostly_queued() {
            return self.spans.clone();
        }
        self.spans.iter().filter(|span| self.is_queued(span)).copied().collect()
    }

    /// Whether what has come has waited in a queue for most of the time.
    fn is_mostly_queued(&self) -> bool {
        let queued = self.spans.iter().filter(|span| self.is_queued(span)).count();
        2 * queued > self.spans.len()
    }

    /// Whether more was offered than the line carries for most of the time.
    fn is_full(&self, span: &ArrivalSpan) -> bool {
        self.is_mostly_queued() || self.loses_more(span)
    }

    /// Whether the halves of what was counted tell the same.
    fn is_steady(&self, counted: &[ArrivalSpan]) -> bool {
        let second = second_half(counted);
        let first = ArrivalSpan::sum(&counted[..counted.len() / 2]);
        let chance = 3.0 / (second.received.max(1) as f64).sqrt() * self.calm.lost().sqrt();
        let apart = (second.arrived() / first.arrived().max(f64::MIN_POSITIVE) - 1.0).abs();
        apart <= STEADY.max(chance)
    }

    /// The last of what was felt: enough of it to be sure, or all.
    fn latest(&self) -> &[ArrivalSpan] {
        let enough = |begins: &usize| is_sure(&ArrivalSpan::sum(&self.spans[*begins..]));
        let begins = (0..self.spans.len()).rev().find(enough);
        &self.spans[begins.unwrap_or(0)..]
    }

    /// Whether more was offered than the line carries: it waits in a queue, or it is lost where a lower rate was not.
    fn is_too_much(&self, span: &ArrivalSpan) -> bool {
        self.is_queued(span) || self.loses_more(span)
    }

    /// Whether more could be offered, and enough of this rate has come to say what becomes of it.
    fn can_offer_more(&self, span: &ArrivalSpan) -> bool {
        span.sent >= FULL_BY && self.rate < self.order.most && !self.is_at_its_limit(span)
    }

    /// Whether the sender offered much less than it was asked for.
    fn is_at_its_limit(&self, span: &ArrivalSpan) -> bool {
        span.offered() < WILLING * self.rate
    }

    /// The same in both halves of what was felt.
    fn is_steadily_at_its_limit(&self) -> bool {
        self.spans.len() >= FEW && halves(&self.spans).iter().all(|half| self.is_at_its_limit(half))
    }

    /// How much longer than at best the quickest of the latest took, ns.
    fn waited_ns(&self, span: &ArrivalSpan) -> i64 {
        span.passage_ns.zip(self.floor).map_or(0, |(passage, floor)| passage - floor)
    }

    /// Whether even the quickest of the latest has waited.
    fn is_queued(&self, span: &ArrivalSpan) -> bool {
        let datagram_ns = 1e9 / span.arrived().max(1.0);
        self.waited_ns(span) as f64 > (QUEUED_DATAGRAMS * datagram_ns).max(QUEUED.as_nanos() as f64)
    }

    /// Whether more is lost than at the rates below, all the time: of the first rate nobody knows, and of one that the line has
    /// carried before it is chance.
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

/// Whether its loss is of more than a burst.
fn is_sure(span: &ArrivalSpan) -> bool {
    span.sent >= SURE || span.sending_ns >= SURE_BY.as_nanos()
}

fn second_half(spans: &[ArrivalSpan]) -> ArrivalSpan {
    ArrivalSpan::sum(&spans[spans.len() / 2..])
}

/// The halves of what happened, by their readings.
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
