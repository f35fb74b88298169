//! Patterns of datagrams: their sending times and sizes, and the two ends of a flow with such a pattern.

use std::net::SocketAddr;

use netrig_core::{Data, Duration, Instant, Size, SpanDistribution, Stream, quantity};

use crate::{AppAction, AppEvent, Application, Ends, FlowContext, SizeDistribution, Trace, TracedDatagram};

/// The largest payload of a simulated datagram. Packet lengths, headers included, have 32 bits.
pub(crate) const LARGEST: Size = Size::from_bytes(4_000_000_000);

/// Times and sizes of datagrams.
pub(crate) struct Pattern {
    gap: Gap,
    size: SizeDistribution,
    gaps: Stream,
    sizes: Stream,
    /// Datagrams sent so far.
    sent: u64,
}

/// The model of the time to the next datagram.
enum Gap {
    Drawn(SpanDistribution),
    /// Constant during on periods.
    InBursts(Duration, Box<Bursts>),
    /// From the trace, by the number of the datagram.
    Traced(Trace),
}

/// Alternating on and off periods.
struct Bursts {
    on: SpanDistribution,
    off: SpanDistribution,
    spans: Stream,
    /// End of the current on period.
    until: Instant,
}

impl Bursts {
    /// The time at which the on periods after `now` add up to `gap`. If an on period ends before that, the gap
    /// continues in the next on period.
    fn after(&mut self, now: Instant, gap: Duration) -> Instant {
        let mut at = now + gap;
        while at >= self.until {
            let rest = at.since(self.until);
            let resumes = self.until + self.off.draw(&mut self.spans);
            self.until = resumes + self.on.draw(&mut self.spans);
            at = resumes + rest;
        }
        at
    }
}

impl Pattern {
    fn new(gap: Gap, size: SizeDistribution, flow: &FlowContext) -> Self {
        Self { gap, size, gaps: flow.stream("gaps"), sizes: flow.stream("sizes"), sent: 0 }
    }

    /// Gaps drawn from one distribution, payloads from another.
    pub(crate) fn drawn(gap: SpanDistribution, size: SizeDistribution, flow: &FlowContext) -> Self {
        Self::new(Gap::Drawn(gap), size, flow)
    }

    /// A constant gap during on periods. The first on period begins when the flow starts.
    pub(crate) fn in_bursts(
        gap: Duration,
        (on, off): (&SpanDistribution, &SpanDistribution),
        size: Size,
        flow: &FlowContext,
    ) -> Self {
        let mut spans = flow.stream("bursts");
        let until = flow.start + on.draw(&mut spans);
        let bursts = Bursts { on: on.clone(), off: off.clone(), spans, until };
        Self::new(Gap::InBursts(gap, Box::new(bursts)), SizeDistribution::Constant(size), flow)
    }

    /// Gaps and payloads of a trace.
    pub(crate) fn trace(trace: &Trace, flow: &FlowContext) -> Self {
        Self::new(Gap::Traced(trace.clone()), SizeDistribution::Constant(Size::from_bytes(0)), flow)
    }

    /// The time of the next datagram. `now` is the time of the previous one, or the start of the flow. `None` if the
    /// pattern has ended.
    fn next(&mut self, now: Instant) -> Option<Instant> {
        Some(match &mut self.gap {
            Gap::Drawn(gap) => now + gap.draw(&mut self.gaps),
            Gap::InBursts(gap, bursts) => bursts.after(now, *gap),
            Gap::Traced(trace) => now + traced(trace, self.sent)?.0,
        })
    }

    /// The payload of the next datagram, bytes.
    fn size(&mut self) -> u64 {
        let number = self.sent;
        self.sent += 1;
        match &self.gap {
            Gap::Traced(trace) => traced(trace, number).map_or(0, |(_, size)| size.bytes()),
            Gap::Drawn(_) | Gap::InBursts(..) => {
                self.size.draw_nth(number, &mut self.sizes).min(LARGEST.bytes())
            }
        }
    }
}

/// Datagram `number` of a trace. `None` if the trace is shorter and does not repeat.
fn traced(trace: &Trace, number: u64) -> Option<TracedDatagram> {
    let len = trace.datagrams.len() as u64;
    let place = if trace.repeat { number % len.max(1) } else { number };
    trace.datagrams.get(usize::try_from(place).ok()?).copied()
}

/// The source of a flow with this pattern, and its receiver.
pub(crate) fn pattern_ends(pattern: Pattern, flow: &FlowContext) -> Ends {
    let source = PatternSource { server: flow.server, pattern, next: None };
    Ends { client: Box::new(source), server: Box::new(PatternSink) }
}

struct PatternSource {
    server: SocketAddr,
    pattern: Pattern,
    next: Option<Instant>,
}

impl Application for PatternSource {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        match event {
            AppEvent::Started => self.next = self.pattern.next(now),
            AppEvent::Timeout => {
                // Computed from the due time, not from `now`: if the carrier is late, the offered rate does not fall.
                let Some(at) = self.next.filter(|at| *at <= now) else { return };
                let data = Data::Fill(self.pattern.size());
                act(AppAction::Datagram { to: self.server, data });
                self.next = self.pattern.next(at);
            }
            AppEvent::Stopped => self.next = None,
            _ => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

/// Records the delay of each datagram.
struct PatternSink;

impl Application for PatternSink {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        if let AppEvent::Datagram { sent, .. } = event {
            act(AppAction::took(now, &quantity::ONE_WAY_DELAY, sent));
            act(AppAction::record(sent, &quantity::DATAGRAMS_RECEIVED, 1.0));
        }
    }
}
