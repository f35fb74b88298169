//! `probe stamp`: a STAMP Session-Sender (RFC 8762) that works with any reflector.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use netrig_core::{Dscp, Seeds, Size, settings};
use netrig_stats::path::Delays;

use super::error::{ProbeError, ProbeResult};
use super::offset::ClockOffset;
use super::report::{CONFIDENCE, Measure, ProbeReport, Section};
use super::socket::ProbeSocket;
use super::stamp::packet::base;
use super::stamp::tlv::{self, ClassOfService, Tlv, kind};
use super::stamp::{ErrorEstimate, Format, HmacKey, ReflectedPacket, TestPacket};
use super::two_way::{
    Exchange, NoAnswer, PACKETS, PacketSettings, ProbeCourse, ReflectorRecord, SentProbe, TwoWay,
};
use super::{path_sections, seconds_between};
use netrig_host::HostAddress;
use netrig_host::random;
use netrig_host::socket::LONGEST_DATAGRAM;
use netrig_host::sys::{Incoming, KernelClock};

settings! {
    /// The settings of a STAMP session.
    #[derive(Clone, Debug)]
    pub struct StampSettings with defaults {
        /// UDP payload of each packet, filled up with padding (RFC 8972 section 4.1). By default the shortest possible.
        size: Option<Size> { heading: PACKETS };
        /// Ask the reflector to answer with this code point, and to report the code point that it received (RFC 8972 section
        /// 4.4).
        answer_dscp: Option<Dscp> { heading: PACKETS };
        /// Format of this end's time stamps.
        timestamps: Format { value_name: "TIMESTAMPS" };
        /// Measure the loss of each direction; the reflector must number its answers (RFC 8762: stateful).
        stateful: bool {};
    }
}

/// The order of a STAMP session.
#[derive(Clone, Debug)]
pub struct StampOrder {
    /// The reflector.
    pub target: SocketAddr,
    /// Number, schedule and waiting time of the packets.
    pub packets: PacketSettings,
    /// Its settings.
    pub settings: StampSettings,
    /// The key of authenticated mode.
    pub key: Option<HmacKey>,
}

impl StampOrder {
    /// Octets of a packet without padding.
    fn unpadded(&self) -> usize {
        let class = self.settings.answer_dscp.map_or(0, |_| tlv::HEADER + ClassOfService::LEN);
        // RFC 8972 section 4.8: in authenticated mode, extensions other than padding need an HMAC.
        let tag =
            self.key.as_ref().filter(|_| class > 0).map_or(0, |_| tlv::HEADER + super::stamp::packet::HMAC);
        base(self.key.as_ref()) + class + tag
    }

    fn check(&self) -> ProbeResult {
        self.packets.plan().check()?;
        let least = self.unpadded();
        let padded = self.settings.size.map_or(least, Size::to_usize);
        if padded != least && !(least + tlv::HEADER..=LONGEST_DATAGRAM).contains(&padded) {
            return Err(ProbeError::Request(format!(
                "--size {padded} B: a packet of these settings has {least} B, or {} B to {LONGEST_DATAGRAM} B with padding",
                least + tlv::HEADER
            )));
        }
        Ok(())
    }
}

/// Measures the round trip and both one-way directions.
///
/// Fails if the order is invalid. A missing answer is a measurement, not an error.
pub fn stamp(order: &StampOrder, cancel: &AtomicBool) -> ProbeResult<ProbeReport> {
    order.check()?;
    let socket = ProbeSocket::asking(HostAddress::unspecified_for(order.target).at(0), order.packets.dscp.0)?;
    socket.connect(order.target).map_err(|error| ProbeError::send(order.target, error))?;
    let local = socket.local().map_err(ProbeError::kernel("getsockname"))?;
    let entropy = u64::from_ne_bytes(random().map_err(ProbeError::kernel("/dev/urandom"))?);
    let exchange =
        StampSender::new(order, Seeds::new(entropy).stream("probe/session").below(0xFFFF) as u16 + 1);
    let course = TwoWay { socket, target: order.target, exchange, cancel }.run(order.packets.plan())?;
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
    /// Timestamps of the sent packets. A reflector copies them into its answers.
    timestamps: Vec<u64>,
}

impl StampSender {
    /// `session` is the session identifier, which is not 0 (RFC 8972 section 3).
    fn new(order: &StampOrder, session: u16) -> Self {
        let padding =
            order.settings.size.and_then(|size| size.to_usize().checked_sub(order.unpadded() + tlv::HEADER));
        let answer_dscp = order.settings.answer_dscp.map(|dscp| dscp.0);
        let mut extensions = Vec::new();
        if let Some(asked) = answer_dscp {
            let class = ClassOfService { asked, ..ClassOfService::default() };
            Tlv::append(kind::CLASS_OF_SERVICE, &class.encode(), &mut extensions);
        }
        Self {
            key: order.key.clone(),
            format: order.settings.timestamps,
            session,
            extensions,
            answer_dscp,
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
        // RFC 5905 section 6: zero means that the time is not known.
        let time = |bits: u64| format.decode(bits).filter(|_| bits != 0);
        let extensions = incoming.head.get(base(key)..).filter(|_| self.answer_dscp.is_some()).unwrap_or(&[]);
        let trusted = key.is_none_or(|key| tlv::is_genuine(extensions, reflected.own.sequence, key));
        let class = tlv::parse(extensions).find(|tlv| tlv.kind == kind::CLASS_OF_SERVICE);
        // RFC 8972 section 4: an extension with flags is not used.
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
    /// Whether an answer contains the number and the timestamp of a sent packet. A TWAMP Light reflector does not copy
    /// the session identifier.
    fn is_to_ours(&self, reflected: &ReflectedPacket) -> bool {
        self.timestamps.get(reflected.sender.sequence as usize) == Some(&reflected.sender.timestamp)
            && [0, self.session].contains(&reflected.own.session)
    }

    /// Classifies a packet that is not a valid answer. A reflector of the other mode copies the timestamp from the
    /// offset of its own format, where our packet has zeros.
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

/// Maximum share of answers with impossible times. Above it, the report is not valid.
const IMPOSSIBLE: f64 = 0.01;

/// Rounding error of the difference of two timestamps, s. Both formats resolve a nanosecond or less, and both times are
/// rounded.
const ROUNDING_S: f64 = 2e-9;

/// Whether the reflector held a packet for a time that is neither negative nor longer than the round trip. All times
/// are in ns since 1970.
fn is_possible(sent: u64, [received, answered]: [u64; 2], back: u64) -> bool {
    let held = seconds_between(received, answered);
    (-ROUNDING_S..=seconds_between(sent, back) + ROUNDING_S).contains(&held)
}

fn report(order: &StampOrder, local: SocketAddr, course: &ProbeCourse) -> ProbeResult<ProbeReport> {
    let wait = order.packets.wait;
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
    // The round-trip time without the time at the reflector: (T4 - T1) - (T3 - T2). If T2 and T3 are not plausible, T4
    // - T1.
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
    if order.settings.stateful {
        report.sections.push(by_direction(course)?);
    }
    report.note_path_fields(course, order.packets.dscp.0, order.settings.answer_dscp.map(|dscp| dscp.0));
    let answered: Vec<ReflectorRecord> =
        course.sent.iter().filter_map(|packet| Some(in_time(packet)?.1)).collect();
    note_times(&mut report, &answered, exchanges.len());
    note_foreign_packets(&mut report, course, order.key.is_some());
    if one_address && offset != ClockOffset::Same && !exchanges.is_empty() {
        let text = "the reflector's address is this host's, and its clock is another: packets would have negative delays";
        report.notes.push(text.into());
    }
    report.offset(&offset);
    Ok(report)
}

/// Reports how many answers have unusable times, and why.
fn note_times(report: &mut ProbeReport, answered: &[ReflectorRecord], used: usize) {
    let of = answered.len();
    let timeless = answered.iter().filter(|far| far.times.is_none()).count();
    let impossible = of - timeless - used;
    for (count, text) in [
        (
            timeless,
            "do not state when the reflector received the packet and sent the answer; the time between is part of their round \
             trip",
        ),
        (
            impossible,
            "state that the reflector held the packet for a negative time, or for longer than the whole round trip; its \
             times are not used",
        ),
    ] {
        let text = format!("{count} of {of} answers {text}");
        // A single clock step affects only the packets in flight.
        if count as f64 > IMPOSSIBLE * of as f64 {
            report.fault(text);
        } else if count > 0 {
            report.notes.push(text);
        }
    }
}

/// Reports packets that were not answers. If nothing arrived at all, notes that an authenticating reflector ignores
/// packets with another key.
fn note_foreign_packets(report: &mut ProbeReport, course: &ProbeCourse, with_key: bool) {
    for (why, count) in &course.foreign {
        report.notes.push(format!("{count} packets that arrived were {why}"));
    }
    if course.foreign.is_empty() && course.icmp_errors.is_empty() && !report.is_answered() {
        let sent = if with_key { "with the HMAC of this key" } else { "without an HMAC" };
        report.notes.push(format!(
            "a reflector in authenticated mode answers only packets with the HMAC of its key: these were sent {sent}"
        ));
    }
}

/// Section on the delay in one direction and its variation. The variation does not depend on the clocks. A packet
/// without an answer counts in neither direction, because the direction of its loss is unknown.
fn one_way(name: &'static str, raw: &[Option<f64>], offset: &ClockOffset, sign: f64) -> ProbeResult<Section> {
    let answered: Vec<_> = raw.iter().copied().filter(Option::is_some).collect();
    let mut section = Section::new(name);
    path_sections::one_way_delay(&mut section, &answered, offset, sign)?;
    path_sections::variation(&mut section, raw)?;
    Ok(section)
}

/// Section on the loss in each direction, derived from the numbers of a stateful reflector.
fn by_direction(course: &ProbeCourse) -> ProbeResult<Section> {
    let mut section = Section::new("by_direction");
    if course.interrupted {
        section.push(Measure::undefined(
            "loss_there",
            "1",
            "the probe was interrupted with packets in flight",
        ));
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

/// Packets without an answer, up to the last answered packet, by the direction in which they were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Losses {
    sent: usize,
    there: usize,
    /// Packets that reached the reflector and whose answers were all lost.
    back: usize,
}

impl Losses {
    /// A stateful reflector numbers its answers (RFC 8762 section 4), one for each packet that arrives, including
    /// copies (RFC 5560). A missing number is therefore a lost answer. If there is an unanswered packet between the
    /// packets whose answers have the previous and the next number, the lost answer belongs to that packet. Otherwise
    /// it belongs to a copy, and no packet is lost. `numbered` has the packet's number and the reflector's number of
    /// each answer, in any order. Returns `Ok(None)` if there was no answer.
    fn split(answered: &[bool], numbered: &[[u32; 2]]) -> Result<Option<Self>, &'static str> {
        // Copies of one answer have the same number.
        let mut by_reflector: Vec<(u32, u32)> =
            numbered.iter().map(|[ours, theirs]| (*theirs, *ours)).collect();
        by_reflector.sort_unstable();
        by_reflector.dedup_by_key(|(theirs, _)| *theirs);
        let Some(highest) = by_reflector.iter().map(|(_, ours)| *ours).max() else { return Ok(None) };
        let sent = highest as usize + 1;
        // For each packet, the number of unanswered packets before it.
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
            // Without copies, each missing number belongs to an unanswered packet, in any order of arrival.
            back = most;
        } else if is_reordered && back != most {
            return Err(
                "packets were duplicated and reordered on the forward path: which answers are missing is unknown",
            );
        }
        if missing_in_all - back > copies + back {
            return Err(NOT_OF_THIS_SESSION);
        }
        Ok(Some(Self { sent, there: lost - back, back }))
    }
}

/// Error text for numbers that are impossible in this session.
const NOT_OF_THIS_SESSION: &str = "the reflector's numbers are not those of this session";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::HmacKey;

    /// Returns a sender that has sent packet 0, and the octets of that packet.
    fn sent(key: Option<&[u8]>) -> (StampSender, Vec<u8>) {
        let order = StampOrder {
            target: ([127, 0, 0, 1], 862).into(),
            packets: PacketSettings { count: 1, ..PacketSettings::default() },
            settings: StampSettings { size: Some(Size::from_bytes(200)), ..StampSettings::default() },
            key: key.map(|octets| HmacKey::new(octets).unwrap()),
        };
        let mut sender = StampSender::new(&order, 7);
        let packet = sender.packet(0, 1_790_000_000_000_000_000);
        (sender, packet)
    }

    /// The answer of a reflector that accepts any HMAC: RFC 8762 figures 5 and 6.
    fn reflection(packet: &[u8], key: Option<&HmacKey>) -> Vec<u8> {
        let mut seen = packet.to_vec();
        if key.is_some() {
            // The reflector does not check the MBZ fields.
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

    /// Checks how the sender classifies an answer, for each combination of keys.
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
            // An answer to another packet is foreign.
            let mut strange = bytes;
            [24, 48].into_iter().for_each(|at| strange[at] = 9);
            assert_eq!(sender.mistaken(&strange), NoAnswer::Foreign);
            assert_eq!(sender.mistaken(&strange[..40]), NoAnswer::Foreign);
        }
    }

    /// Simulates a path for packets 0 to `count`. Packets in `there` are lost on the forward path; those in `copied`
    /// arrive twice. Of the reflector's numbers, those in `back` are lost on the return path; those in `echoed` arrive
    /// twice.
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
        // Four of 200 packets are lost on the forward path, and four of the 196 answers.
        assert_eq!(split(200, [&dropped, &[], &dropped, &[]]), of(200, 4, 4));
        // Each copy has its own number: answer number 30 now belongs to packet 28.
        let copied = [2, 9, 77, 150];
        for echoed in [&[][..], &[1, 40, 41, 100]] {
            assert_eq!(split(200, [&dropped, &copied, &dropped, echoed]), of(200, 4, 4), "{echoed:?}");
        }
        // Because of copies, more packets arrive than were sent. This is not an error of the reflector.
        let many: Vec<u32> = (0..200).filter(|ours| ours % 5 == 0).collect();
        assert_eq!(split(200, [&dropped, &many, &[], &[]]), of(200, 4, 0));
        // Packet 10 arrived twice, as numbers 10 and 11. One of its answers is lost, but the packet counts as answered.
        for lost in [10, 11] {
            assert_eq!(split(200, [&[], &[10, 20], &[lost], &[]]), of(200, 0, 0), "{lost}");
        }
        assert_eq!(split(200, [&[], &[10, 20], &[10, 11], &[]]), of(200, 0, 1), "both are lost");
        assert_eq!(split(3, [&[0, 1, 2], &[], &[], &[]]), Ok(None));
    }

    #[test]
    fn reordering_leaves_loss_by_direction_defined_and_foreign_numbers_do_not() {
        let all = [true, true, false, true];
        // Packets 1 and 2 are reordered on the forward path. The answer to 2, with number 1, is lost.
        let numbered = [[0, 0], [1, 2], [3, 3]];
        assert_eq!(Losses::split(&all, &numbered), Ok(Some(Losses { sent: 4, there: 0, back: 1 })));
        // The reflector began to count long before this session.
        let later = numbered.map(|[ours, theirs]| [ours, theirs + 5000]);
        assert_eq!(Losses::split(&all, &later), Err(NOT_OF_THIS_SESSION));
        // The answer is to a packet that was not sent.
        assert_eq!(Losses::split(&all, &[[4, 0]]), Err(NOT_OF_THIS_SESSION));
    }
}
