//! Shared code of the tests: a packet with a number, an observer that records all events, and a player that drives a line
//! through a schedule.

use netrig_core::{
    Backlog, Colour, Delivery, DropReason, Dscp, Duration, Ecn, FiveTuple, Header, Instant, Lane, Link,
    LinkEvent, Observer, PacketMeta, Rate, Seeds,
};
use netrig_link::queue::fifo::Fifo;
use netrig_link::{Line, LineCounters, LineSettings, Queue};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub header: Header,
    pub id: u64,
}

impl PacketMeta for Packet {
    fn header(&self) -> &Header {
        &self.header
    }
    fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }
}

pub fn header(ip_len: u32) -> Header {
    let flow = FiveTuple {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        src_port: 5000,
        dst_port: 80,
        protocol: 17,
    };
    Header { flow, ip_len, dscp: Dscp(0), ecn: Ecn::NotEct }
}

pub fn packet(id: u64, ip_len: u32) -> Packet {
    Packet { header: header(ip_len), id }
}

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub const fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

pub fn at_ms(n: u64) -> Instant {
    Instant::ZERO + ms(n)
}

pub fn at_us(n: u64) -> Instant {
    Instant::ZERO + us(n)
}

pub fn fifo(packets: u64) -> Queue {
    Queue::Fifo(Fifo { packets: Some(packets), ..Fifo::default() })
}

/// A line of 8 Mbit/s, so that 1000 B take 1 ms.
pub fn plain(delay: Duration, packets: u64) -> LineSettings {
    LineSettings::new(Rate::from_bits_per_s(8_000_000), delay, fifo(packets))
}

pub fn line(settings: &LineSettings) -> Line<Packet> {
    Line::new(settings, &Seeds::new(1), "test/forward").unwrap()
}

/// All events that an observer receives, in order, one list for each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub offered: Vec<(Instant, u64)>,
    pub served: Vec<(Instant, u64, Duration)>,
    pub delivered: Vec<(Instant, u64)>,
    pub dropped: Vec<(Instant, u64, DropReason)>,
    pub duplicated: Vec<(Instant, u64)>,
    pub marked: Vec<(Instant, u64)>,
    pub queued: Vec<(Instant, Backlog)>,
    pub conditioned: Vec<(Instant, u64, usize, Colour)>,
    pub classified: Vec<(Instant, u64, usize)>,
}

impl Record {
    /// Sorts the drops by time. If a line is polled late, it may report a corrupted packet after a later drop of its
    /// queue.
    pub fn sorted(mut self) -> Self {
        self.dropped.sort();
        self
    }
}

impl Observer<Packet> for Record {
    fn offered(&mut self, at: Instant, packet: &Packet) {
        self.offered.push((at, packet.id));
    }
    fn conditioned(&mut self, at: Instant, packet: &Packet, rule: usize, colour: Colour) {
        self.conditioned.push((at, packet.id, rule, colour));
    }
    fn classified(&mut self, at: Instant, packet: &Packet, class: usize) {
        self.classified.push((at, packet.id, class));
    }
    fn queued(&mut self, at: Instant, backlog: Backlog) {
        self.queued.push((at, backlog));
    }
    fn marked(&mut self, at: Instant, packet: &Packet) {
        self.marked.push((at, packet.id));
    }
    fn served(&mut self, at: Instant, packet: &Packet, waited: Duration) {
        self.served.push((at, packet.id, waited));
    }
    fn delivered(&mut self, at: Instant, packet: &Packet) {
        self.delivered.push((at, packet.id));
    }
    fn dropped(&mut self, at: Instant, packet: &Packet, why: DropReason) {
        self.dropped.push((at, packet.id, why));
    }
    fn duplicated(&mut self, at: Instant, packet: &Packet) {
        self.duplicated.push((at, packet.id));
    }
}

/// An input of a line: a packet of this length in bytes, or an event.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Offer(u32),
    Apply(LinkEvent),
}

/// When a line is polled.
#[derive(Clone, Copy, Debug)]
pub enum Polling {
    /// Only at the end.
    AtTheEnd,
    /// At this interval in nanoseconds.
    Every(u64),
    /// At its own deadlines, as a simulator polls it. Then no packet may arrive late.
    WhenAsked,
}

/// Later than the end of every schedule, but earlier than [`Instant::NEVER`].
pub const END: Instant = Instant::from_nanos(1 << 60);

/// Plays a schedule and empties the line. Packets are numbered in the order in which they are offered. The balance is
/// checked at each step.
pub fn play(
    settings: &LineSettings,
    schedule: &[(Instant, Step)],
    polling: Polling,
) -> (Record, LineCounters) {
    let mut line = line(settings);
    let mut obs = (Record::default(), LineCounters::new());
    let (mut deliveries, mut next_poll, mut id) = (Vec::new(), Instant::ZERO, 0);
    for &(now, step) in schedule {
        match polling {
            Polling::AtTheEnd => {}
            Polling::Every(nanos) => {
                while next_poll < now {
                    take(&mut line, next_poll, &mut obs, &mut deliveries);
                    next_poll += Duration::from_nanos(nanos.max(1));
                }
            }
            Polling::WhenAsked => drive(&mut line, now, &mut obs, &mut deliveries),
        }
        match step {
            Step::Offer(ip_len) => {
                line.offer(now, Lane::ONLY, packet(id, ip_len), &mut obs);
                id += 1;
            }
            Step::Apply(event) => line.apply(now, Lane::ONLY, event, &mut obs),
        }
        obs.1.balance(line.inside(Lane::ONLY)).unwrap();
    }
    if matches!(polling, Polling::WhenAsked) {
        drive(&mut line, END, &mut obs, &mut deliveries);
    }
    take(&mut line, END, &mut obs, &mut deliveries);
    obs.1.balance(line.inside(Lane::ONLY)).unwrap();
    assert_eq!(deliveries, obs.0.delivered, "the reported deliveries are those returned");
    (obs.0, obs.1)
}

fn take(
    line: &mut Line<Packet>,
    now: Instant,
    obs: &mut (Record, LineCounters),
    out: &mut Vec<(Instant, u64)>,
) {
    while let Some(Delivery { at, packet, .. }) = line.poll_deliver(now, obs) {
        assert!(at <= now, "nothing comes out before its time");
        out.push((at, packet.id));
    }
}

/// Polls the line at its deadlines before `until`.
fn drive(
    line: &mut Line<Packet>,
    until: Instant,
    obs: &mut (Record, LineCounters),
    out: &mut Vec<(Instant, u64)>,
) {
    while let Some(now) = line.poll_timeout().filter(|now| *now < until) {
        while let Some(Delivery { at, packet, .. }) = line.poll_deliver(now, obs) {
            assert_eq!(at, now, "a line that is polled when it asks is never late");
            out.push((at, packet.id));
        }
    }
}
