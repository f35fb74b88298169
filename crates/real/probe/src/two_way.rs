//! Two-way measurements: packets sent by a schedule and matched with their answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Dscp, Duration, Instant, settings};

use super::error::{ProbeError, ProbeResult};
use super::icmp_error::IcmpErrors;
use super::pacing::{self, PacketReceiver, PacketSender};
use super::schedule::{Gaps, GapsKind, Schedule, source_fault};
use super::socket::ProbeSocket;
use super::stamp::{ErrorEstimate, tlv::ClassOfService};
use netrig_host::RealtimeOffset;
use netrig_host::sys::{Incoming, TransmitStamp};
use netrig_host::{Clock, SPIN, realtime_nanos};
use netrig_host::{SourceMeter, SourceReport};

/// Maximum number of packets in one measurement. Each is recorded in memory.
pub const MOST_PACKETS: u32 = 1_000_000;

/// When all packets are answered, the probe still waits for copies of the last answer. This wait is the longest
/// round-trip time multiplied by this factor, at least [`LEAST_LINGER`] and at most the waiting time of an answer.
const LINGER: u64 = 3;
const LEAST_LINGER: Duration = Duration::from_millis(100);

/// Maximum number of batches of answers that are received before the schedule is checked again.
const LOOK: usize = 8;

/// Heading of the packet settings in help texts.
pub(super) const PACKETS: &str = "Packets";

settings! {
    /// How many packets a probe sends, and when.
    #[derive(Clone, Debug)]
    pub struct PacketSettings with defaults {
        /// Packets to send, 1 to 1000000.
        count: u32 { heading: PACKETS } = 100;
        /// Mean time between two packets.
        interval: Duration { heading: PACKETS } = Duration::from_millis(100);
        /// Distribution of the gaps.
        gaps: GapsKind { heading: PACKETS, value_name: "GAPS" } = GapsKind::Poisson;
        /// Time after which a packet counts as lost (RFC 7680 section 2.6).
        wait: Duration { heading: PACKETS } = Duration::from_secs(2);
        /// Seed of the gaps; the same seed gives the same schedule.
        seed: u64 { heading: PACKETS } = 1;
        /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63.
        dscp: Dscp { heading: PACKETS } = Dscp::BE;
    }
}

impl PacketSettings {
    /// The settings in the form that the schedule needs.
    pub const fn plan(&self) -> ProbePlan {
        let gaps = match self.gaps {
            GapsKind::Poisson => Gaps::Poisson(self.interval),
            GapsKind::Periodic => Gaps::Periodic(self.interval),
        };
        ProbePlan { count: self.count, gaps, wait: self.wait, seed: self.seed }
    }
}

/// Number of packets, their gaps and the waiting time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// Packets, 1 to [`MOST_PACKETS`].
    pub count: u32,
    /// Gaps between the packets.
    pub gaps: Gaps,
    /// A packet without an answer within this time is lost (RFC 6673 section 4.2: Tmax).
    pub wait: Duration,
    /// Seed of the gaps.
    pub seed: u64,
}

impl ProbePlan {
    /// Checks the plan.
    ///
    /// Fails with the first invalid value.
    pub fn check(&self) -> ProbeResult {
        let wrong = |why: String| Err(ProbeError::Request(why));
        if self.count == 0 || self.count > MOST_PACKETS {
            return wrong(format!("{} packets: expected 1 to {MOST_PACKETS}", self.count));
        }
        if self.gaps.mean().is_zero() {
            return wrong("an interval of 0 s: expected more than 0 s between packets".into());
        }
        if self.wait.is_zero() || self.wait > Duration::from_secs(3600) {
            return wrong(format!(
                "a waiting time of {} s: expected more than 0 s, at most 1 h",
                self.wait.as_secs_f64()
            ));
        }
        Ok(())
    }
}

/// A reflector's record of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReflectorRecord {
    /// Times of reception and of the answer by the reflector's clock, ns since 1970; `None` if the reflector does not
    /// state them.
    pub times: Option<[u64; 2]>,
    /// The reflector's number of the answer.
    pub number: u32,
    /// TTL with which the packet arrived at the reflector.
    pub ttl: u8,
    /// Error estimate of the reflector's clock.
    pub error: ErrorEstimate,
    /// Class of service with which the packet arrived at the reflector.
    pub class: Option<ClassOfService>,
}

/// Why a packet is not an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// The packet is unrelated to the sent packets.
    #[error("not answers to these packets")]
    Foreign,
    /// This end has a key, and the reflector does not authenticate.
    #[error(
        "answers without an HMAC, which are not used: the reflector does not authenticate; give it the key \
         (`probe reflect --key FILE --authenticated`), or measure without --key"
    )]
    Open,
    /// This end has a key, and the reflector has a different key.
    #[error(
        "answers whose HMAC is wrong, which are not used: the reflector's key is another one, or they were changed"
    )]
    OtherKey,
    /// This end has no key, and the reflector authenticates.
    #[error("answers with an HMAC, which are not used: the reflector authenticates; give its key with --key")]
    Authenticated,
}

/// The first answer to a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProbeAnswer {
    /// Time of arrival, ns since 1970.
    pub at: u64,
    /// Whether the kernel stamped the arrival. Otherwise this program read the clock.
    pub stamped: bool,
    pub ttl: Option<u8>,
    /// DSCP and ECN.
    pub class: Option<u8>,
    pub far: Option<ReflectorRecord>,
}

/// A sent packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SentProbe {
    /// Time at which the packet was given to the kernel, ns since 1970.
    pub given: u64,
    /// Time at which the kernel gave the packet to the device, ns since 1970.
    pub stamped: Option<u64>,
    pub answer: Option<ProbeAnswer>,
}

impl SentProbe {
    /// The best known time of sending: the kernel's if there is one, ns since 1970.
    pub fn at(&self) -> u64 {
        self.stamped.unwrap_or(self.given)
    }

    /// The answer, if it arrived within the time `wait`.
    pub fn answer_within(&self, wait: Duration) -> Option<ProbeAnswer> {
        self.answer.filter(|answer| answer.at.saturating_sub(self.at()) <= wait.as_nanos())
    }
}

/// The record of a two-way measurement.
pub(crate) struct ProbeCourse {
    pub plan: ProbePlan,
    pub sent: Vec<SentProbe>,
    /// For each answer in the order of arrival, including copies: the packet's number.
    pub arrivals: Vec<u64>,
    /// For each answer, including copies: the packet's number and the far end's number.
    pub numbered: Vec<[u32; 2]>,
    /// Answers that arrived after the maximum number of recorded arrivals, which is two per packet of the plan.
    pub uncounted: u64,
    /// Number of answered packets.
    pub answered: usize,
    pub source: SourceReport,
    /// Number of packets that were not answers, by reason.
    pub foreign: BTreeMap<NoAnswer, u64>,
    /// ICMP errors about the packets.
    pub icmp_errors: IcmpErrors,
    /// Packets for which the sending socket had no room. They count as sent and make the run invalid.
    pub no_room: u64,
    /// Reasons why this host limited the measurement.
    pub faults: Vec<String>,
    pub interrupted: bool,
}

impl ProbeCourse {
    /// An empty record of a plan.
    fn new(plan: ProbePlan) -> Self {
        Self {
            plan,
            sent: Vec::new(),
            arrivals: Vec::new(),
            numbered: Vec::new(),
            uncounted: 0,
            answered: 0,
            source: SourceMeter::new(plan.gaps.asked()).report(),
            foreign: BTreeMap::new(),
            icmp_errors: IcmpErrors::default(),
            no_room: 0,
            faults: Vec::new(),
            interrupted: false,
        }
    }
}

/// The packet format of a two-way measurement.
pub(crate) trait Exchange {
    /// Builds packet `number`, to be sent at `now`, ns since 1970.
    fn packet(&mut self, number: u32, now: u64) -> Vec<u8>;

    /// Parses an answer: the packet's number and the reflector's record, or why the packet is not an answer.
    fn answer(&mut self, incoming: &Incoming<'_>) -> Result<(u32, Option<ReflectorRecord>), NoAnswer>;

    /// Whether the packet quoted in an ICMP error belongs to this measurement. Raw sockets also get errors about
    /// packets of other sockets.
    fn is_quoted(&self, _: &[u8]) -> bool {
        true
    }
}

/// A two-way measurement over a connected socket.
pub(crate) struct TwoWay<'a, E> {
    pub socket: ProbeSocket,
    pub target: SocketAddr,
    pub exchange: E,
    pub cancel: &'a AtomicBool,
}

impl<E: Exchange> TwoWay<'_, E> {
    /// Sends all packets and waits for the last answer and its copies.
    pub fn run(self, plan: ProbePlan) -> ProbeResult<ProbeCourse> {
        let Self { socket, target, exchange, cancel } = self;
        let offset = RealtimeOffset::measure();
        let is_over = || cancel.load(Ordering::Relaxed);
        let mut run =
            TwoWayRun { socket, target, exchange, course: ProbeCourse::new(plan), longest: Duration::ZERO };
        let schedule = Schedule::new(plan.gaps, plan.count, plan.seed);
        let (_, meter) = pacing::keep(&mut run, schedule, plan.gaps.asked(), is_over)?;
        let mut copies = None;
        pacing::linger(
            &mut run,
            SPIN,
            |run, now| {
                if is_over() { now } else { run.listens_until(now, &mut copies) }
            },
        )?;
        run.course.interrupted = is_over();
        run.course.source = meter.report();
        run.judge(&offset)?;
        Ok(run.course)
    }
}

/// A two-way measurement in progress.
struct TwoWayRun<E> {
    socket: ProbeSocket,
    target: SocketAddr,
    exchange: E,
    course: ProbeCourse,
    /// The longest round-trip time so far.
    longest: Duration,
}

impl<E: Exchange> PacketSender for TwoWayRun<E> {
    fn send(&mut self, _: &Clock) -> ProbeResult {
        let course = &mut self.course;
        let now = realtime_nanos();
        let bytes = self.exchange.packet(course.sent.len() as u32, now);
        let had_room = self.socket.offer(self.target, &bytes);
        let had_room = had_room.map_err(|error| ProbeError::send(self.target, error))?;
        course.no_room += u64::from(!had_room);
        course.sent.push(SentProbe { given: now, stamped: None, answer: None });
        Ok(())
    }
}

impl<E: Exchange> PacketReceiver for TwoWayRun<E> {
    fn socket(&self) -> &ProbeSocket {
        &self.socket
    }

    /// Receives up to [`LOOK`] batches of answers and reads the transmit time stamps.
    fn take(&mut self) -> ProbeResult<bool> {
        let mut more = true;
        for _ in 0..LOOK {
            more = self.answers()?;
            if !more {
                break;
            }
        }
        let Self { socket, exchange, course, .. } = self;
        let ProbeCourse { sent, icmp_errors, .. } = course;
        let stamped = |stamp: TransmitStamp| {
            let packet = sent.get_mut(stamp.number as usize);
            // A time stamp that is earlier than the construction of the packet belongs to another packet.
            packet.filter(|packet| stamp.at >= packet.given).into_iter().for_each(|packet| {
                packet.stamped.get_or_insert(stamp.at);
            });
        };
        let taken = socket.stamps_and_errors(stamped, icmp_errors, |quoted| exchange.is_quoted(quoted));
        taken.map_err(ProbeError::kernel("the error queue"))?;
        Ok(more)
    }
}

impl<E: Exchange> TwoWayRun<E> {
    /// The time at which the wait for answers ends. `now` is the time since the last packet was sent. While answers are
    /// missing, the wait is the waiting time of an answer. When all have arrived, the wait for copies of the last
    /// answer begins; `copies` keeps its end.
    fn listens_until(&self, now: Instant, copies: &mut Option<Instant>) -> Instant {
        if self.course.answered == self.course.sent.len() {
            copies.get_or_insert(now + LEAST_LINGER.max(self.longest * LINGER));
        }
        let last = Instant::ZERO + self.course.plan.wait;
        copies.map_or(last, |copies| last.min(copies))
    }

    /// Receives a batch of answers. Returns whether there may be more.
    fn answers(&mut self) -> ProbeResult<bool> {
        let Self { socket, exchange, course, longest, .. } = self;
        let most = 2 * course.plan.count as usize;
        let ProbeCourse { sent, arrivals, numbered, uncounted, answered, foreign, .. } = course;
        let took = socket.receive(|incoming| {
            let now = realtime_nanos();
            let answer = exchange.answer(incoming).and_then(|(number, far)| {
                Ok((number, far, sent.get_mut(number as usize).ok_or(NoAnswer::Foreign)?))
            });
            let (number, far, packet) = match answer {
                Ok(answer) => answer,
                Err(why) => return *foreign.entry(why).or_default() += 1,
            };
            if arrivals.len() < most {
                arrivals.push(number.into());
                numbered.extend(far.map(|far| [number, far.number]));
            } else {
                *uncounted += 1;
            }
            if packet.answer.is_none() {
                let at = incoming.stamp.unwrap_or(now);
                *answered += 1;
                *longest = (*longest).max(Duration::from_nanos(at.saturating_sub(packet.at())));
                packet.answer = Some(ProbeAnswer {
                    at,
                    stamped: incoming.stamp.is_some(),
                    ttl: incoming.ttl,
                    class: incoming.class,
                    far,
                });
            }
        });
        took.map_err(ProbeError::kernel("recvmmsg"))
    }

    /// Records the reasons why this host limited the measurement.
    fn judge(&mut self, offset: &RealtimeOffset) -> ProbeResult {
        let Self { socket, course, .. } = self;
        if course.no_room > 0 {
            let packets = course.no_room;
            course
                .faults
                .push(format!("the sending socket had no room for {packets} packets: send more slowly"));
        }
        if course.uncounted > 0 {
            let copies = course.uncounted;
            course.faults.push(format!("{copies} copies of answers arrived beyond the recorded ones"));
        }
        course.faults.extend(source_fault(&course.source, course.plan.gaps));
        let drops = socket.drops().map_err(ProbeError::kernel("SO_MEMINFO"))?;
        if drops > 0 {
            course
                .faults
                .push(format!("{drops} answers reached this host, but the socket had no room for them"));
        }
        if let Some(step) = RealtimeOffset::measure().stepped_since(offset) {
            course.faults.push(format!("the wall clock was stepped by {} s", step.as_secs_f64()));
        }
        if course.interrupted {
            // The last packets may still be answered. They count neither as lost nor as answered.
            let still = realtime_nanos().saturating_sub(course.plan.wait.as_nanos());
            course.sent.retain(|packet| packet.answer.is_some() || packet.at() < still);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// Packets that contain only their numbers.
    struct NumberPackets;

    impl Exchange for NumberPackets {
        fn packet(&mut self, number: u32, _: u64) -> Vec<u8> {
            number.to_be_bytes().into()
        }

        fn answer(&mut self, incoming: &Incoming<'_>) -> Result<(u32, Option<ReflectorRecord>), NoAnswer> {
            let number = incoming.head.first_chunk().ok_or(NoAnswer::Foreign)?;
            Ok((u32::from_be_bytes(*number), None))
        }
    }

    /// A far end that answers every packet five times. The memory for answers is bounded, and the copies are reported.
    #[test]
    fn copies_of_answers_are_kept_up_to_a_bound() {
        const COUNT: u32 = 20;
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = far.local_addr().unwrap();
        let socket = ProbeSocket::udp("127.0.0.1:0".parse().unwrap(), 0).unwrap();
        socket.connect(target).unwrap();
        let plan = ProbePlan {
            count: COUNT,
            gaps: Gaps::Periodic(Duration::from_millis(2)),
            wait: Duration::from_secs(10),
            seed: 1,
        };
        let cancel = AtomicBool::new(false);
        let course = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut packet = [0; 4];
                for _ in 0..COUNT {
                    let (_, from) = far.recv_from(&mut packet).unwrap();
                    (0..5).for_each(|_| assert_eq!(far.send_to(&packet, from).unwrap(), 4));
                }
            });
            TwoWay { socket, target, exchange: NumberPackets, cancel: &cancel }.run(plan).unwrap()
        });
        assert_eq!((course.answered, course.arrivals.len()), (COUNT as usize, 2 * COUNT as usize));
        // All answers have arrived, except perhaps some copies of the last one.
        assert!(course.uncounted > 0 && course.uncounted <= u64::from(3 * COUNT), "{}", course.uncounted);
        assert!(course.faults.iter().any(|fault| fault.contains("copies of answers")), "{:?}", course.faults);
    }

    /// A measurement over loopback with `count` sent packets, and the far end that has received them.
    fn sent(count: u32) -> (TwoWayRun<NumberPackets>, UdpSocket) {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = far.local_addr().unwrap();
        let socket = ProbeSocket::udp("127.0.0.1:0".parse().unwrap(), 0).unwrap();
        socket.connect(target).unwrap();
        far.connect(socket.local().unwrap()).unwrap();
        let gaps = Gaps::Periodic(Duration::from_millis(1));
        let plan = ProbePlan { count, gaps, wait: Duration::from_secs(10), seed: 1 };
        let course = ProbeCourse::new(plan);
        let mut run = TwoWayRun { socket, target, exchange: NumberPackets, course, longest: Duration::ZERO };
        let clock = Clock::starting_in(Duration::ZERO);
        for number in 0..count {
            run.send(&clock).unwrap();
            let mut packet = [0; 4];
            far.recv(&mut packet).unwrap();
            assert_eq!(u32::from_be_bytes(packet), number);
        }
        (run, far)
    }

    /// Until all packets are answered, the wait is the waiting time of an answer, here 10 s. Afterwards it is three
    /// times the longest round-trip time, at least 100 ms, but it does not exceed the waiting time of an answer.
    #[test]
    fn copies_of_the_last_answer_are_waited_for_by_the_longest_round_trip() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let (mut run, _far) = sent(5);
        run.course.answered = 4;
        let mut copies = None;
        assert_eq!(run.listens_until(at(300), &mut copies), at(10_000));
        run.course.answered = 5;
        for (longest, all_there, until) in
            [(200, 300, 900), (200, 9_700, 10_000), (33, 300, 400), (34, 300, 402)]
        {
            (run.longest, copies) = (Duration::from_millis(longest), None);
            assert_eq!(run.listens_until(at(all_there), &mut copies), at(until));
            // Once all answers have arrived, the end of the wait does not change.
            assert_eq!(run.listens_until(at(all_there + 50), &mut copies), at(until));
        }
    }

    /// A late copy is counted. It changes neither the answers nor the longest round-trip time.
    #[test]
    fn a_copy_of_the_last_answer_is_heard() {
        let (mut run, far) = sent(5);
        let receive = |run: &mut TwoWayRun<NumberPackets>, arrivals: usize| {
            while run.course.arrivals.len() < arrivals {
                run.take().unwrap();
            }
        };
        (0..5_u32).for_each(|number| assert_eq!(far.send(&number.to_be_bytes()).unwrap(), 4));
        receive(&mut run, 5);
        let (answered, longest) = (run.course.answered, run.longest);
        assert_eq!(far.send(&4_u32.to_be_bytes()).unwrap(), 4);
        receive(&mut run, 6);
        assert_eq!((answered, run.course.answered, run.longest), (5, 5, longest));
        assert_eq!(run.course.arrivals, [0, 1, 2, 3, 4, 4]);
    }
}
