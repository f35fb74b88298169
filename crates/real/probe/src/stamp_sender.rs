//! `probe stamp`: a STAMP Session-Sender (RFC 8762), against a reflector of anybody.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use netrig_core::Seeds;
use netrig_stats::path::Delays;

use super::error::ProbeError;
use super::offset::ClockOffset;
use super::report::{CONFIDENCE, Measure, ProbeReport, Section};
use super::socket::ProbeSocket;
use super::stamp::packet::base;
use super::stamp::tlv::{self, ClassOfService, Tlv, kind};
use super::stamp::{ErrorEstimate, Format, HmacKey, ReflectedPacket, TestPacket};
use super::two_way::{Exchange, NoAnswer, ProbeCourse, ProbePlan, ReflectorRecord, SentProbe, TwoWay};
use super::{path_sections, seconds_between};
use netrig_host::HostAddress;
use netrig_host::random;
use netrig_host::socket::LONGEST_DATAGRAM;
use netrig_host::sys::{Incoming, KernelClock};

/// What a STAMP session is to do.
#[derive(Clone, Debug)]
pub struct StampOrder {
    /// The reflector.
    pub target: SocketAddr,
    /// How many packets, and when.
    pub plan: ProbePlan,
    /// Octets of UDP payload: more than the base packet's are padding (RFC 8972 section 4.1). The base packet's if not given.
    pub size: Option<usize>,
    /// Code point that packets are sent with.
    pub dscp: u8,
    /// Code point that answers are asked to be sent with, by the extension for the class of service (RFC 8972 section 4.4);
    /// with it the reflector tells the class that arrived.
    pub answer_dscp: Option<u8>,
    /// The key of authenticated mode.
    pub key: Option<HmacKey>,
    /// The format of this end's timestamps.
    pub format: Format,
    /// The reflector is known to count its answers (RFC 8762 section 4: stateful), so that loss there can be told from loss on
    /// the way back.
    pub stateful: bool,
}

impl StampOrder {
    /// Octets of a packet without padding.
    fn unpadded(&self) -> usize {
        let class = self.answer_dscp.map_or(0, |_| tlv::HEADER + ClassOfService::LEN);
        // RFC 8972 section 4.8: in authenticated mode extensions but padding alone carry an HMAC.
        let tag =
            self.key.as_ref().filter(|_| class > 0).map_or(0, |_| tlv::HEADER + super::stamp::packet::HMAC);
        base(self.key.as_ref()) + class + tag
    }

    fn check(&self) -> Result<(), ProbeError> {
        self.plan.check()?;
        let least = self.unpadded();
        let padded = self.size.unwrap_or(least);
        if padded != least && !(least + tlv::HEADER..=LONGEST_DATAGRAM).contains(&padded) {
            return Err(ProbeError::Request(format!(
                "--size {padded} B: a packet of these settings has {least} B, or {} B to {LONGEST_DATAGRAM} B with padding",
                least + tlv::HEADER
            )));
        }
        Ok(())
    }
}

/// Measures there and back.
///
/// # Errors
/// If the order cannot be carried out; an answer that does not come is a measurement, not an error.
pub fn stamp(order: &StampOrder, cancel: &AtomicBool) -> Result<ProbeReport, ProbeError> {
    order.check()?;
    let socket = ProbeSocket::asking(HostAddress::unspecified_for(order.target).at(0), order.dscp)?;
    socket.connect(order.target).map_err(|error| ProbeError::send(order.target, error))?;
    let local = socket.local().map_err(ProbeError::kernel("getsockname"))?;
    let entropy = u64::from_ne_bytes(random().map_err(ProbeError::kernel("/dev/urandom"))?);
    let exchange =
        StampSender::new(order, Seeds::new(entropy).stream("probe/session").below(0xFFFF) as u16 + 1);
    let course = TwoWay { socket, target: order.target, exchange, cancel }.run(order.plan)?;
    report(order, local, &course)
}

/// The sender's side of the protocol.
struct StampSender {
    key: Option<HmacKey>,
    format: Format,
    session: u16,
    extensions: Vec<u8>,
    answer_dscp: Option<u8>,
    padding: Option<usize>,
    /// The timestamps that were sent, by which answers are known.
    timestamps: Vec<u64>,
}

impl StampSender {
    /// The session's identifier is any number but 0 (RFC 8972 section 3).
    fn new(order: &StampOrder, session: u16) -> Self {
        let padding = order.size.and_then(|size| size.checked_sub(order.unpadded() + tlv::HEADER));
        let mut extensions = Vec::new();
        if let Some(asked) = order.answer_dscp {
            let class = ClassOfService { asked, ..ClassOfService::default() };
            Tlv::append(kind::CLASS_OF_SERVICE, &class.encode(), &mut extensions);
        }
        Self {
            key: order.key.clone(),
            format: order.format,
            session,
            extensions,
            answer_dscp: order.answer_dscp,
            padding,
            timestamps: Vec::new(),
        }
    }
}

impl Exchange for StampSender {
    fn packet(&mut self, number: u32, now: u64) -> Vec<u8> {
        let clock = KernelClock::read();
        let error = ErrorEstimate::new(clock.synchronised, self.format, clock.error_ns);
        let timestamp = self.format.encode(now);
        self.timestamps.push(timestamp);
        let test = TestPacket { sequence: number, timestamp, error, session: self.session };
        let mut packet = test.encode(self.key.as_ref());
        packet.extend(&self.extensions);
        if let Some(key) = self.key.as_ref().filter(|_| !self.extensions.is_empty()) {
            let tag = key.tag(&[&number.to_be_bytes(), &self.extensions]);
            Tlv::append(kind::HMAC, &tag, &mut packet);
        }
        if let Some(padding) = self.padding {
            Tlv::append(kind::EXTRA_PADDING, &vec![0; padding], &mut packet);
        }
        packet
    }

    fn answer(&mut self, incoming: &Incoming<'_>) -> Result<(u32, Option<ReflectorRecord>), NoAnswer> {
        let key = self.key.as_ref();
        let reflected =
            ReflectedPacket::decode(incoming.head, key).ok().filter(|reflected| self.is_to_ours(reflected));
        let reflected = reflected.ok_or_else(|| self.mistaken(incoming.head))?;
        let format = reflected.own.error.format;
        // RFC 5905 section 6: zero is no time, but that none is known.
        let time = |bits: u64| format.decode(bits).filter(|_| bits != 0);
        let extensions = incoming.head.get(base(key)..).filter(|_| self.answer_dscp.is_some()).unwrap_or(&[]);
        let trusted = key.is_none_or(|key| tlv::is_genuine(extensions, reflected.own.sequence, key));
        let class = tlv::parse(extensions).find(|tlv| tlv.kind == kind::CLASS_OF_SERVICE);
        // RFC 8972 section 4: what is marked is not used.
        let class =
            class.filter(|tlv| trusted && tlv.flags == 0).and_then(|tlv| ClassOfService::decode(tlv.value));
        let far = ReflectorRecord {
            times: time(reflected.received).zip(time(reflected.own.timestamp)).map(<[u64; 2]>::from),
            number: reflected.own.sequence,
            ttl: reflected.sender_ttl,
            error: reflected.own.error,
            class,
        };
        Ok((reflected.sender.sequence, Some(far)))
    }
}

impl StampSender {
    /// Whether an answer repeats what was sent; a reflector of TWAMP Light has no session to repeat.
    fn is_to_ours(&self, reflected: &ReflectedPacket) -> bool {
        self.timestamps.get(reflected.sender.sequence as usize) == Some(&reflected.sender.timestamp)
            && [0, self.session].contains(&reflected.own.session)
    }

    /// What a packet is that is no answer as it should be. A reflector of the other mode takes for our timestamp what stands in
    /// its place there: zeros.
    fn mistaken(&self, head: &[u8]) -> NoAnswer {
        let is_ours = |reflected: &ReflectedPacket, zeros: bool| {
            let sent = self.timestamps.get(reflected.sender.sequence as usize);
            sent.is_some_and(|sent| {
                *sent == reflected.sender.timestamp || zeros && reflected.sender.timestamp == 0
            })
        };
        let [open, authenticated] = [false, true].map(|mode| ReflectedPacket::claimed(head, mode));
        match self.key {
            Some(_) if authenticated.is_some_and(|reflected| is_ours(&reflected, false)) => {
                NoAnswer::OtherKey
            }
            Some(_) if open.is_some_and(|reflected| is_ours(&reflected, true)) => NoAnswer::Open,
            None if authenticated.is_some_and(|reflected| is_ours(&reflected, true)) => {
                NoAnswer::Authenticated
            }
            _ => NoAnswer::Foreign,
        }
    }
}

/// A reflector of whose answers a larger share tells times that cannot be is not to be believed.
const IMPOSSIBLE: f64 = 0.01;

/// What a time that was sent may lack by its format: NTP and PTP have better than a nanosecond, and both are rounded.
const ROUNDING_S: f64 = 2e-9;

/// Whether the reflector held a packet for no less than nothing and no longer than it was away, ns since 1970.
fn is_possible(sent: u64, [received, answered]: [u64; 2], back: u64) -> bool {
    let held = seconds_between(received, answered);
    (-ROUNDING_S..=seconds_between(sent, back) + ROUNDING_S).contains(&held)
}

fn report(order: &StampOrder, local: SocketAddr, course: &ProbeCourse) -> Result<ProbeReport, ProbeError> {
    let wait = order.plan.wait;
    let in_time =
        |packet: &SentProbe| packet.answer_within(wait).and_then(|answer| Some((answer, answer.far?)));
    let exchange = |packet: &SentProbe| {
        let (answer, far) = in_time(packet)?;
        let [received, answered] = far.times.filter(|times| is_possible(packet.at(), *times, answer.at))?;
        Some([packet.at(), received, answered, answer.at])
    };
    let exchanges: Vec<_> = course.sent.iter().filter_map(exchange).collect();
    let one_address = local.ip() == order.target.ip();
    let offset = if one_address {
        ClockOffset::of_one_address(&exchanges, ROUNDING_S)
    } else {
        ClockOffset::of(&exchanges)
    };
    // RFC 2681 with the time at the reflector taken out: T4 - T1 less T3 - T2, where that can be believed.
    let round_trip = |packet: &SentProbe| {
        let held =
            exchange(packet).map_or(0.0, |[_, received, answered, _]| seconds_between(received, answered));
        in_time(packet).map(|(answer, _)| seconds_between(packet.at(), answer.at) - held)
    };
    let there =
        |packet: &SentProbe| exchange(packet).map(|[sent, received, ..]| seconds_between(sent, received));
    let back = |packet: &SentProbe| exchange(packet).map(|[.., answered, at]| seconds_between(answered, at));
    let column = |of: &dyn Fn(&SentProbe) -> Option<f64>| course.sent.iter().map(of).collect::<Vec<_>>();

    let mut report = ProbeReport::of_course("stamp", order.target.to_string(), course);
    let mut sections = Vec::from(path_sections::round_trip(course, &column(&round_trip))?);
    let residence = Delays::new(exchanges.iter().map(|times| Some(seconds_between(times[1], times[2]))))?;
    sections[0].push(Measure::exact("at_reflector", "s", residence.median(), residence.sent()));
    report.sections.append(&mut sections);
    report.sections.push(one_way("there", &column(&there), &offset, 1.0)?);
    report.sections.push(one_way("back", &column(&back), &offset, -1.0)?);
    if order.stateful {
        report.sections.push(by_direction(course)?);
    }
    report.note_path_fields(course, order.dscp, order.answer_dscp);
    let answered: Vec<ReflectorRecord> =
        course.sent.iter().filter_map(|packet| Some(in_time(packet)?.1)).collect();
    note_times(&mut report, &answered, exchanges.len());
    note_foreign_packets(&mut report, course, order.key.is_some());
    if one_address && offset != ClockOffset::Same && !exchanges.is_empty() {
        let text = "the reflector's address is this host's, and its clock is another: packets would have taken less than no time";
        report.notes.push(text.into());
    }
    report.offset(&offset);
    Ok(report)
}

/// Says of how many answers the times are not used, and why.
fn note_times(report: &mut ProbeReport, answered: &[ReflectorRecord], used: usize) {
    let of = answered.len();
    let timeless = answered.iter().filter(|far| far.times.is_none()).count();
    let impossible = of - timeless - used;
    for (count, text) in [
        (
            timeless,
            "do not tell when the reflector received the packet and sent the answer; the time between is part of their round \
             trip",
        ),
        (
            impossible,
            "tell that the reflector held the packet for less than nothing, or for longer than the whole round trip took; its \
             times are not used",
        ),
    ] {
        let text = format!("{count} of {of} answers {text}");
        // A clock that is stepped once spoils what is on its way then.
        if count as f64 > IMPOSSIBLE * of as f64 {
            report.fault(text);
        } else if count > 0 {
            report.notes.push(text);
        }
    }
}

/// Says what arrived that was no answer; and of one that authenticates that it answers nobody else, if nothing did.
fn note_foreign_packets(report: &mut ProbeReport, course: &ProbeCourse, with_key: bool) {
    for (why, count) in &course.foreign {
        report.notes.push(format!("{count} packets that arrived were {why}"));
    }
    if course.foreign.is_empty() && course.icmp_errors.is_empty() && !report.is_answered() {
        let sent = if with_key { "with the HMAC of this key" } else { "without an HMAC" };
        report.notes.push(format!(
            "a reflector that authenticates answers no packet without its key's HMAC: these were sent {sent}"
        ));
    }
}

/// Delay in one direction, and its variation, which needs no clock. Loss is of both directions: a packet whose answer did not
/// come is not counted as delayed in either.
fn one_way(
    name: &'static str,
    raw: &[Option<f64>],
    offset: &ClockOffset,
    sign: f64,
) -> Result<Section, ProbeError> {
    let answered: Vec<_> = raw.iter().copied().filter(Option::is_some).collect();
    let mut section = Section::new(name);
    path_sections::one_way_delay(&mut section, &answered, offset, sign)?;
    path_sections::variation(&mut section, raw)?;
    Ok(section)
}

/// Loss there and back apart, by the numbers of a stateful reflector.
fn by_direction(course: &ProbeCourse) -> Result<Section, ProbeError> {
    let mut section = Section::new("by_direction");
    if course.interrupted {
        section.push(Measure::undefined("loss_there", "1", "it was interrupted, with packets on their way"));
        return Ok(section);
    }
    let answered: Vec<bool> = course.sent.iter().map(|packet| packet.answer.is_some()).collect();
    let losses = match Losses::split(&answered, &course.numbered) {
        Ok(Some(losses)) => losses,
        Ok(None) => return Ok(section),
        Err(why) => {
            section.push(Measure::undefined("loss_there", "1", why));
            return Ok(section);
        }
    };
    let ratio = |lost, of| Delays::new((0..of).map(|n| (n >= lost).then_some(0.0)))?.loss_ratio(CONFIDENCE);
    section.push(Measure::interval("loss_there", "1", &ratio(losses.there, losses.sent)?));
    section.push(Measure::interval("loss_back", "1", &ratio(losses.back, losses.sent - losses.there)?));
    Ok(section)
}

/// Packets without an answer, up to the last one that has one, by where they were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Losses {
    sent: usize,
    there: usize,
    /// Packets that reached the reflector, of which no answer came back.
    back: usize,
}

impl Losses {
    /// A stateful reflector numbers what it sends (RFC 8762 section 4), one number for each packet that reaches it, copies
    /// too (RFC 5560). A number that is missing among those that came back is an answer that was lost: it was to a packet
    /// that has no answer, between those whose answers have the numbers before and behind it; or if there is none, to a
    /// copy, whose loss is none of a packet. `told` has, of each answer in any order, the packet's number and the
    /// reflector's. Nothing if there was no answer.
    fn split(answered: &[bool], numbered: &[[u32; 2]]) -> Result<Option<Self>, &'static str> {
        // What was copied on the way back has one number of the reflector's.
        let mut by_reflector: Vec<(u32, u32)> =
            numbered.iter().map(|[ours, theirs]| (*theirs, *ours)).collect();
        by_reflector.sort_unstable();
        by_reflector.dedup_by_key(|(theirs, _)| *theirs);
        let Some(highest) = by_reflector.iter().map(|(_, ours)| *ours).max() else { return Ok(None) };
        let sent = highest as usize + 1;
        // Of the packets up to each one, those without an answer.
        let lost_before: Vec<usize> = std::iter::once(0)
            .chain(answered.iter().scan(0, |lost, answered| {
                *lost += usize::from(!answered);
                Some(*lost)
            }))
            .collect();
        let lost = *lost_before.get(sent).ok_or(NOT_OF_THIS_SESSION)?;
        let (mut back, mut missing_in_all, mut missing, mut next_theirs, mut next_ours) = (0, 0, 0, 0, 0);
        let (mut seen, mut copies, mut is_reordered) = (vec![false; sent], 0, false);
        for (theirs, ours) in by_reflector {
            missing += (theirs - next_theirs) as usize;
            next_theirs = theirs + 1;
            let ours = ours as usize;
            if std::mem::replace(&mut seen[ours], true) {
                copies += 1;
            } else if ours < next_ours {
                is_reordered = true;
            }
            if ours >= next_ours {
                back += missing.min(lost_before[ours] - lost_before[next_ours]);
                missing_in_all += missing;
                (missing, next_ours) = (0, ours + 1);
            }
        }
        let most = missing_in_all.min(lost);
        if copies == 0 {
            // Each missing number is a packet's, in whichever order they arrived.
            back = most;
        } else if is_reordered && back != most {
            return Err(
                "packets were copied and reordered on the way there: which answers are missing is unknown",
            );
        }
        if missing_in_all - back > copies + back {
            return Err(NOT_OF_THIS_SESSION);
        }
        Ok(Some(Self { sent, there: lost - back, back }))
    }
}

/// Numbers of another session, or of none.
const NOT_OF_THIS_SESSION: &str = "the reflector's numbers are not those of this session";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Gaps;
    use crate::stamp::HmacKey;
    use netrig_core::Duration;

    /// A sender that has sent packet 0, and the packet.
    fn sent(key: Option<&[u8]>) -> (StampSender, Vec<u8>) {
        let gaps = Gaps::Periodic(Duration::from_millis(1));
        let order = StampOrder {
            target: ([127, 0, 0, 1], 862).into(),
            plan: ProbePlan { count: 1, gaps, wait: Duration::from_secs(1), seed: 1 },
            size: Some(200),
            dscp: 0,
            answer_dscp: None,
            key: key.map(|octets| HmacKey::new(octets).unwrap()),
            format: Format::Ntp,
            stateful: false,
        };
        let mut sender = StampSender::new(&order, 7);
        let packet = sender.packet(0, 1_790_000_000_000_000_000);
        (sender, packet)
    }

    /// What a reflector makes of a packet if it believes any HMAC: RFC 8762 figures 5 and 6.
    fn reflection(packet: &[u8], key: Option<&HmacKey>) -> Vec<u8> {
        let mut seen = packet.to_vec();
        if key.is_some() {
            // What it takes to be zeros it does not look at.
            seen[4..16].fill(0);
        }
        let own = ReflectedPacket::claimed(&seen, key.is_some()).unwrap().own;
        let time = Format::Ntp.encode(1_790_000_000_000_100_000);
        let reflected = ReflectedPacket {
            own: TestPacket { timestamp: time, ..own },
            received: time,
            sender: own,
            sender_ttl: 64,
        };
        let mut bytes = reflected.encode(key);
        bytes.extend(&packet[bytes.len()..]);
        bytes
    }

    /// Each end as it may be set up, and what the sender takes the other's answers for.
    #[test]
    fn answers_of_the_other_mode_are_known_for_what_they_are() {
        let (right, wrong) = (&b"0123456789abcdef"[..], &b"fedcba9876543210"[..]);
        for (ours, theirs, expected) in [
            (None, None, None),
            (Some(right), Some(right), None),
            (Some(right), Some(wrong), Some(NoAnswer::OtherKey)),
            (Some(right), None, Some(NoAnswer::Open)),
            (None, Some(right), Some(NoAnswer::Authenticated)),
        ] {
            let (sender, packet) = sent(ours);
            let bytes = reflection(&packet, theirs.and_then(HmacKey::new).as_ref());
            let reflected = ReflectedPacket::decode(&bytes, sender.key.as_ref());
            let is_answer = reflected.is_ok_and(|reflected| sender.is_to_ours(&reflected));
            let known = (!is_answer).then(|| sender.mistaken(&bytes));
            assert_eq!(known, expected, "{ours:?} and {theirs:?}");
            // What is to somebody else's packet is nobody's fault.
            let mut strange = bytes;
            [24, 48].into_iter().for_each(|at| strange[at] = 9);
            assert_eq!(sender.mistaken(&strange), NoAnswer::Foreign);
            assert_eq!(sender.mistaken(&strange[..40]), NoAnswer::Foreign);
        }
    }

    /// What a path does to packets 0 to `count`: those of `there` are lost there, those of `copied` arrive twice, and of the
    /// reflector's numbers those of `back` are lost on the way back, where each answer in `echoed` arrives twice.
    fn split(count: u32, [there, copied, back, echoed]: [&[u32]; 4]) -> Result<Option<Losses>, &'static str> {
        let arrive = |ours: &u32| 1 + usize::from(copied.contains(ours));
        let reached = (0..count).filter(|ours| !there.contains(ours));
        let reached = reached.flat_map(|ours| std::iter::repeat_n(ours, arrive(&ours)));
        let mut numbered = Vec::new();
        for (ours, theirs) in reached.zip(0..).filter(|(_, theirs)| !back.contains(theirs)) {
            numbered.extend(std::iter::repeat_n([ours, theirs], 1 + usize::from(echoed.contains(&theirs))));
        }
        let answered: Vec<bool> =
            (0..count).map(|ours| numbered.iter().any(|[known, _]| *known == ours)).collect();
        Losses::split(&answered, &numbered)
    }

    #[test]
    fn loss_by_direction_is_defined_with_copies_too() {
        let of = |sent, there, back| Ok(Some(Losses { sent, there, back }));
        let dropped = [30, 31, 32, 60];
        // Four of 200 are lost there; of the 196 that reach the reflector four answers are lost.
        assert_eq!(split(200, [&dropped, &[], &dropped, &[]]), of(200, 4, 4));
        // Each copy has a number of its own: the answer with number 30 is that to packet 28 now.
        let copied = [2, 9, 77, 150];
        for echoed in [&[][..], &[1, 40, 41, 100]] {
            assert_eq!(split(200, [&dropped, &copied, &dropped, echoed]), of(200, 4, 4), "{echoed:?}");
        }
        // More arrive there than were sent, which is no fault of the reflector's.
        let many: Vec<u32> = (0..200).filter(|ours| ours % 5 == 0).collect();
        assert_eq!(split(200, [&dropped, &many, &[], &[]]), of(200, 4, 0));
        // Of packet 10, which arrived twice as numbers 10 and 11, one answer is lost: the packet is not.
        for lost in [10, 11] {
            assert_eq!(split(200, [&[], &[10, 20], &[lost], &[]]), of(200, 0, 0), "{lost}");
        }
        assert_eq!(split(200, [&[], &[10, 20], &[10, 11], &[]]), of(200, 0, 1), "both are lost");
        assert_eq!(split(3, [&[0, 1, 2], &[], &[], &[]]), Ok(None));
    }

    #[test]
    fn reordering_leaves_loss_by_direction_defined_and_foreign_numbers_do_not() {
        let all = [true, true, false, true];
        // Packets 1 and 2 change places on the way there, and the answer to 2, which is number 1, is lost.
        let numbered = [[0, 0], [1, 2], [3, 3]];
        assert_eq!(Losses::split(&all, &numbered), Ok(Some(Losses { sent: 4, there: 0, back: 1 })));
        // The reflector began to count long before.
        let later = numbered.map(|[ours, theirs]| [ours, theirs + 5000]);
        assert_eq!(Losses::split(&all, &later), Err(NOT_OF_THIS_SESSION));
        // A number that belongs to no packet of ours.
        assert_eq!(Losses::split(&all, &[[4, 0]]), Err(NOT_OF_THIS_SESSION));
    }
}
