//! Packets that somebody answers: sent by a schedule, matched with their answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Duration, Instant};

use super::error::ProbeError;
use super::icmp_error::IcmpErrors;
use super::pacing::{self, PacketReceiver, PacketSender};
use super::schedule::{Gaps, Schedule, source_fault};
use super::socket::ProbeSocket;
use super::stamp::{ErrorEstimate, tlv::ClassOfService};
use netrig_host::RealtimeOffset;
use netrig_host::sys::{Incoming, TransmitStamp};
use netrig_host::{Clock, SPIN, realtime_nanos};
use netrig_host::{SourceMeter, SourceReport};

/// Packets in one measurement, at most: each is remembered.
pub const MOST_PACKETS: u32 = 1_000_000;

/// Once all packets have an answer, copies of the last are waited for so many times the longest round trip, and no less than
/// this; but never longer than for an answer.
const LINGER: u64 = 3;
const LEAST_LINGER: Duration = Duration::from_millis(100);

/// Batches of answers that are taken before it is seen whether a packet is due.
const LOOK: usize = 8;

/// How many packets, when, and how long an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// Packets, 1 to [`MOST_PACKETS`].
    pub count: u32,
    /// The gaps between them.
    pub gaps: Gaps,
    /// A packet without an answer after so long is lost (RFC 6673 section 4.2: Tmax).
    pub wait: Duration,
    /// Seed of the gaps.
    pub seed: u64,
}

impl ProbePlan {
    /// That it can be carried out.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), ProbeError> {
        let wrong = |why: String| Err(ProbeError::Request(why));
        if self.count == 0 || self.count > MOST_PACKETS {
            return wrong(format!("{} packets: expected 1 to {MOST_PACKETS}", self.count));
        }
        if self.gaps.mean().is_zero() {
            return wrong("an interval of 0 s: expected more than nothing between packets".into());
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

/// What a far end says of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReflectorRecord {
    /// When it received the packet and when it sent the answer, by its clock, ns since 1970; nothing if it does not tell.
    pub times: Option<[u64; 2]>,
    /// The number that it gave the answer.
    pub number: u32,
    /// TTL with which the packet arrived.
    pub ttl: u8,
    /// How far its clock may be wrong.
    pub error: ErrorEstimate,
    /// Class of service as it says it arrived.
    pub class: Option<ClassOfService>,
}

/// Why what arrived is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// It has nothing to do with what was sent.
    #[error("no answers to these packets")]
    Foreign,
    /// We have a key, and the reflector answers as those do that have none.
    #[error(
        "answers without an HMAC, which are not used: the reflector does not authenticate; give it the key \
         (`probe reflect --key FILE --authenticated`), or measure without --key"
    )]
    Open,
    /// We have a key, and the reflector signs with another one.
    #[error(
        "answers whose HMAC is wrong, which are not used: the reflector's key is another one, or they were changed"
    )]
    OtherKey,
    /// We have no key, and the reflector answers as those do that have one.
    #[error("answers with an HMAC, which are not used: the reflector authenticates; give its key with --key")]
    Authenticated,
}

/// The first answer to a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProbeAnswer {
    /// When it arrived, ns since 1970.
    pub at: u64,
    /// That the kernel stamped it, not this program.
    pub stamped: bool,
    pub ttl: Option<u8>,
    /// DSCP and ECN.
    pub class: Option<u8>,
    pub far: Option<ReflectorRecord>,
}

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SentProbe {
    /// When it was given to the kernel, ns since 1970.
    pub given: u64,
    /// When the kernel gave it to the device.
    pub stamped: Option<u64>,
    pub answer: Option<ProbeAnswer>,
}

impl SentProbe {
    /// When it was sent, as well as is known.
    pub fn at(&self) -> u64 {
        self.stamped.unwrap_or(self.given)
    }

    /// The answer, if it came in time.
    pub fn answer_within(&self, wait: Duration) -> Option<ProbeAnswer> {
        self.answer.filter(|answer| answer.at.saturating_sub(self.at()) <= wait.as_nanos())
    }
}

/// What happened.
pub(crate) struct ProbeCourse {
    pub plan: ProbePlan,
    pub sent: Vec<SentProbe>,
    /// The numbers of the packets that answers were to, as they arrived, copies too.
    pub arrivals: Vec<u64>,
    /// Of each of these, copies too, the packet's number and the far end's own number of the answer.
    pub numbered: Vec<[u32; 2]>,
    /// Arrivals beyond those that are kept: two for each packet of the plan.
    pub uncounted: u64,
    /// Packets with an answer.
    pub answered: usize,
    pub source: SourceReport,
    /// Packets that were no answers, by what they were.
    pub foreign: BTreeMap<NoAnswer, u64>,
    /// What hosts on the way, and the target, said of packets by ICMP.
    pub icmp_errors: IcmpErrors,
    /// Packets for which the sending socket had no room: they count as sent, and the run as invalid.
    pub no_room: u64,
    /// Why the tester was the limit.
    pub faults: Vec<String>,
    pub interrupted: bool,
}

impl ProbeCourse {
    /// Of a plan of which nothing has happened yet.
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

/// The words that are exchanged.
pub(crate) trait Exchange {
    /// Packet `number`, to be sent at `now` (ns since 1970).
    fn packet(&mut self, number: u32, now: u64) -> Vec<u8>;

    /// Which packet this is the answer to, and what the far end says of it; or why it is none.
    fn answer(&mut self, incoming: &Incoming<'_>) -> Result<(u32, Option<ReflectorRecord>), NoAnswer>;

    /// Whether what an ICMP error repeats is of these packets, where the kernel gives this socket those of others too.
    fn is_quoted(&self, _: &[u8]) -> bool {
        true
    }
}

/// Carries a plan out over a connected socket.
pub(crate) struct TwoWay<'a, E> {
    pub socket: ProbeSocket,
    pub target: SocketAddr,
    pub exchange: E,
    pub cancel: &'a AtomicBool,
}

impl<E: Exchange> TwoWay<'_, E> {
    /// Sends, and waits for the last answer and copies of it.
    pub fn run(self, plan: ProbePlan) -> Result<ProbeCourse, ProbeError> {
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

/// An exchange under way.
struct TwoWayRun<E> {
    socket: ProbeSocket,
    target: SocketAddr,
    exchange: E,
    course: ProbeCourse,
    /// The longest round trip until now.
    longest: Duration,
}

impl<E: Exchange> PacketSender for TwoWayRun<E> {
    fn send(&mut self, _: &Clock) -> Result<(), ProbeError> {
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

    /// Takes some batches of answers, and the stamps of what was sent.
    fn take(&mut self) -> Result<bool, ProbeError> {
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
            // A stamp from before the packet was made is another packet's.
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
    /// Until when answers are waited for, `now` after the last packet was sent: as long as one may take, or from the moment at
    /// which all had come, which `copies` keeps, as long as a copy of the last may.
    fn listens_until(&self, now: Instant, copies: &mut Option<Instant>) -> Instant {
        if self.course.answered == self.course.sent.len() {
            copies.get_or_insert(now + LEAST_LINGER.max(self.longest * LINGER));
        }
        let last = Instant::ZERO + self.course.plan.wait;
        copies.map_or(last, |copies| last.min(copies))
    }

    /// Takes a batch of answers; whether there may be more.
    fn answers(&mut self) -> Result<bool, ProbeError> {
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

    /// Whether the tester was the limit.
    fn judge(&mut self, offset: &RealtimeOffset) -> Result<(), ProbeError> {
        let Self { socket, course, .. } = self;
        if course.no_room > 0 {
            let packets = course.no_room;
            course
                .faults
                .push(format!("the sending socket had no room for {packets} packets: send more slowly"));
        }
        if course.uncounted > 0 {
            let copies = course.uncounted;
            course.faults.push(format!("{copies} copies of answers arrived beyond those that are counted"));
        }
        course.faults.extend(source_fault(&course.source, course.plan.gaps));
        let drops = socket.drops().map_err(ProbeError::kernel("SO_MEMINFO"))?;
        if drops > 0 {
            course
                .faults
                .push(format!("{drops} answers reached this host, and the socket had no room for them"));
        }
        if let Some(step) = RealtimeOffset::measure().stepped_since(offset) {
            course.faults.push(format!("the wall clock was stepped by {} s", step.as_secs_f64()));
        }
        if course.interrupted {
            // What was sent so lately may still be answered: it is neither lost nor not.
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

    /// Its packets are their numbers.
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

    /// A far end that answers everything five times does not fill our memory, and is told of.
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
        // All have come, but perhaps copies of the last.
        assert!(course.uncounted > 0 && course.uncounted <= u64::from(3 * COUNT), "{}", course.uncounted);
        assert!(course.faults.iter().any(|fault| fault.contains("copies of answers")), "{:?}", course.faults);
    }

    /// A talk over loopback of so many packets that were sent, and the far end that has taken them.
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

    /// Until all packets have an answer as long as one may take; then three times the longest round trip, 100 ms at least,
    /// and no longer than that. The time is told here, not taken.
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
            // Once all are there the end does not move.
            assert_eq!(run.listens_until(at(all_there + 50), &mut copies), at(until));
        }
    }

    /// What comes then is counted, and moves neither the answers nor the longest round trip.
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
