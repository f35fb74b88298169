//! The search for what a line carries of datagrams: RFC 9097's metric, by a method that does not take random loss for
//! congestion.
//!
//! RFC 9097 section 8.1 changes the sending rate by what comes back of loss and delay, and reports the most that was received
//! in one of its intervals. Loss that has nothing to do with the rate keeps such a search below the line. [`Search`] goes up
//! until more is offered than comes through, which shows as a queue that stays or as loss that grows *with the rate*; it then
//! offers a little more than the line carries and counts what arrives. A line that always has something to send delivers its
//! rate, whatever is lost at random. At last it goes a little below and sees what is lost there: that is the line's own.
//!
//! It sends nothing and asks no clock: it is told what the receiver counted, and says at how many datagrams per second to go
//! on.

mod feedback;

use netrig_core::{Duration, Instant};

pub use feedback::Feedback;
use feedback::Span;

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
    /// The round trip of the idle path: what comes back sooner than that after a change tells of the rate before.
    pub round_trip: Duration,
}

/// Where a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found {
    /// Datagrams per second that arrived while more was offered than the line carries. If it never was, the most that arrived.
    pub arrived: f64,
    /// Whether more was offered than came through.
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

/// Datagrams that a judgement is of at least.
const LEAST: u64 = 10;

/// Datagrams that a result is of at least, unless that takes longer than [`PATIENCE`]: with one in a hundred lost at random,
/// the share that arrives is then known to 0.3 %.
const ENOUGH: u64 = 1000;

/// It counts for no longer than so many times what was asked for.
const PATIENCE: u64 = 4;

/// By what it goes up.
const CLIMB: f64 = 2.0;

/// It offers so many times what the line carries while it counts.
const ABOVE: f64 = 1.1;

/// So much of it while the queue empties, and so much beneath.
const DRAINING: f64 = 0.25;
const BELOW: f64 = 0.9;

/// Of what was added to the rate less than this share came through: the line carries no more.
const MARGINAL: f64 = 0.5;

/// A sender that offers less than this share of what it was asked for is at its own limit.
const WILLING: f64 = 0.75;

/// A datagram has waited in a queue if it took longer than the quickest by more than this, or than so many datagrams take.
const QUEUED: Duration = Duration::from_millis(1);
const QUEUED_DATAGRAMS: f64 = 4.0;

/// The two halves of what was counted may differ by so much: a bucket that lets a burst through has run empty by then. Of few
/// datagrams the halves differ by chance; then by three standard deviations of a count.
const STEADY: f64 = 0.02;

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    order: SearchOrder,
    stage: Stage,
    rate: f64,
    /// When the rate was changed last.
    since: Instant,
    last: Option<Feedback>,
    /// What happened since the rate was changed and that was felt.
    spans: Vec<Span>,
    /// The quickest passage so far, ns between two clocks.
    floor: Option<i64>,
    /// What came of the rate before.
    before: Option<Span>,
    /// Sent and received while the line carried all that was offered.
    calm: Span,
    found: Found,
}

impl Search {
    /// One that begins now.
    pub fn new(now: Instant, order: SearchOrder) -> Self {
        Self {
            order,
            stage: Stage::Climbing,
            rate: order.first.min(order.most),
            since: now,
            last: None,
            spans: Vec::new(),
            floor: None,
            before: None,
            calm: Span::default(),
            found: Found::default(),
        }
    }

    /// Datagrams per second at which to send now. Stale after the next call of [`heard`](Self::heard).
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Where it is. Stale after the next call of [`heard`](Self::heard).
    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// What it has found so far; all of it once it is over.
    pub const fn found(&self) -> &Found {
        &self.found
    }

    /// The receiver has told what it counted.
    pub fn heard(&mut self, now: Instant, feedback: Feedback) {
        if let Some(least) = feedback.least_passage_ns {
            self.floor = Some(self.floor.map_or(least, |floor| floor.min(least)));
        }
        let last = self.last.replace(feedback);
        // What was on its way when the rate changed tells of the rate before.
        let Some(last) = last.filter(|_| now.since(self.since) >= self.order.round_trip + STEP) else {
            return;
        };
        self.spans.push(Span::between(&last, &feedback));
        let all = Span::sum(&self.spans);
        if all.sent < LEAST || all.took_ns < STEP.as_nanos() {
            return;
        }
        match self.stage {
            Stage::Climbing => self.climb(now, all),
            Stage::Counting => self.count(now, all),
            Stage::Draining => self.drain(now),
            Stage::Beneath => self.see_beneath(now, all),
            Stage::Over => {}
        }
    }

    fn climb(&mut self, now: Instant, all: Span) {
        self.found.arrived = self.found.arrived.max(all.arrived());
        let queued = self.is_queued(&all);
        let lossy = self.loses_with_the_rate(&all);
        if queued || lossy {
            return self.go(now, Stage::Counting, self.above(&all));
        }
        self.calm = Span::sum(&[self.calm, all]);
        if self.rate >= self.order.most || all.offered() < WILLING * self.rate {
            return self.go(now, Stage::Over, 0.0);
        }
        self.before = Some(all);
        self.go(now, Stage::Climbing, self.rate * CLIMB);
    }

    fn count(&mut self, now: Instant, all: Span) {
        let took = Duration::from_nanos(all.took_ns);
        let impatient = took >= self.order.counts * PATIENCE;
        if took < self.order.counts || (all.sent < ENOUGH && !impatient) {
            return;
        }
        let (first, second) = self.spans.split_at(self.spans.len() / 2);
        let (first, second) = (Span::sum(first), Span::sum(second));
        let chance = 3.0 / (second.received.max(1) as f64).sqrt() * self.calm.lost().sqrt();
        let apart = (second.arrived() / first.arrived().max(1.0) - 1.0).abs();
        let steady = apart <= STEADY.max(chance);
        if !steady && !impatient {
            return;
        }
        let kept = if steady { all } else { second };
        if !self.is_queued(&kept) && !self.loses_with_the_rate(&kept) {
            // All came that was offered: the line carries more than was thought.
            self.before = Some(kept);
            return self.go(now, Stage::Climbing, self.rate * ABOVE);
        }
        self.found.arrived = kept.arrived();
        self.found.saturated = true;
        self.found.loss_above = kept.lost();
        self.found.queue_ns = kept.least_passage_ns.zip(self.floor).map_or(0, |(least, floor)| least - floor);
        self.go(now, Stage::Draining, DRAINING * kept.arrived());
    }

    fn drain(&mut self, now: Instant) {
        let empty = self.spans.last().is_none_or(|span| !self.is_queued(span));
        if empty {
            self.go(now, Stage::Beneath, BELOW * self.found.arrived / (1.0 - self.calm.lost()));
        }
    }

    fn see_beneath(&mut self, now: Instant, all: Span) {
        if Duration::from_nanos(all.took_ns) < self.order.beneath {
            return;
        }
        self.found.loss_beneath = Some(all.lost());
        self.found.sent_beneath = all.sent;
        self.go(now, Stage::Over, 0.0);
    }

    fn go(&mut self, now: Instant, stage: Stage, rate: f64) {
        self.stage = stage;
        self.rate = rate.min(self.order.most);
        self.since = now;
        self.spans.clear();
    }

    /// The rate that is a little more than the line carries of which so much came through.
    fn above(&self, span: &Span) -> f64 {
        span.arrived() * ABOVE / (1.0 - self.calm.lost()).max(0.1)
    }

    /// Whether even the quickest datagram has waited.
    fn is_queued(&self, span: &Span) -> bool {
        let (Some(least), Some(floor)) = (span.least_passage_ns, self.floor) else { return false };
        let datagram_ns = 1e9 / span.arrived().max(1.0);
        (least - floor) as f64 > (QUEUED_DATAGRAMS * datagram_ns).max(QUEUED.as_nanos() as f64)
    }

    /// Whether most of what was added to the rate did not come through, beyond what is lost at any rate.
    fn loses_with_the_rate(&self, span: &Span) -> bool {
        let Some(before) = &self.before else { return false };
        let more = (span.offered() - before.offered()) * (1.0 - self.calm.lost());
        more > 0.1 * before.offered() && span.arrived() - before.arrived() < MARGINAL * more
    }
}

#[cfg(test)]
mod tests;
