//! The state of an SCTP sender, computed from the packets at its interfaces.

use std::collections::BTreeMap;

use netrig_tests::dissect;

use super::tcp::{is_outbound, nanos};
use super::timer::{Moment, Story, TimeOut, Timer, is_due, is_overdue, openings};

/// A packet at one of the sender's interfaces.
pub struct Packet {
    at: u64,
    sent: bool,
    path: usize,
    /// Types of the chunks.
    types: Vec<u32>,
    /// TSN and user bytes of each DATA chunk.
    data: Vec<(u32, u64)>,
    sack: Option<Sack>,
    /// The information of a HEARTBEAT or HEARTBEAT ACK, and whether it is the latter.
    beat: Option<(bool, String)>,
}

struct Sack {
    cumulative: u32,
    /// First and last TSN of each gap block, as offsets from the cumulative TSN.
    gaps: Vec<(u32, u32)>,
    window: u64,
}

/// Reads a capture at the sender. The sender initiated the association over its first path.
pub fn read(capture: &[u8]) -> Vec<Packet> {
    let fields = [
        "frame.time_epoch",
        "ip.src",
        "ip.dst",
        "sctp.chunk_type",
        "sctp.chunk_length",
        "sctp.data_tsn_raw",
        "sctp.sack_cumulative_tsn_ack_raw",
        "sctp.sack_gap_block_start",
        "sctp.sack_gap_block_end",
        "sctp.sack_a_rwnd",
        "sctp.parameter_heartbeat_information",
        "sctp.initack_credit",
        "frame.packet_flags_direction",
    ];
    let packets = dissect(capture, "sctp", &fields);
    // The addresses of the sender, by path.
    let mut ours: Vec<String> = Vec::new();
    for packet in &packets {
        let own = packet[if is_outbound(&packet[12]) { 1 } else { 2 }][0].clone();
        if !ours.contains(&own) {
            ours.push(own);
        }
    }
    packets.iter().map(|packet| one(packet, &ours)).collect()
}

fn one(packet: &[Vec<String>], ours: &[String]) -> Packet {
    let numbers = |field: usize| -> Vec<u32> {
        packet[field].iter().map(|value| value.parse().expect("a number")).collect()
    };
    let place = |field: usize| ours.iter().position(|address| *address == packet[field][0]);
    let (types, lengths) = (numbers(3), numbers(4));
    // The type of DATA is 0. Its header has 16 bytes.
    let sizes =
        types.iter().zip(&lengths).filter(|(kind, _)| **kind == 0).map(|(_, len)| u64::from(len - 16));
    let gaps = numbers(7).into_iter().zip(numbers(8)).collect();
    // The first window is that of the INIT ACK.
    let window = numbers(9).first().or(numbers(11).first()).map(|window| u64::from(*window));
    let beat = types.iter().find(|kind| [4, 5].contains(kind)).map(|kind| (*kind == 5, packet[10].concat()));
    Packet {
        at: nanos(&packet[0][0]),
        sent: is_outbound(&packet[12]),
        path: place(1).or(place(2)).expect("one end is ours"),
        data: numbers(5).into_iter().zip(sizes).collect(),
        sack: window.map(|window| Sack {
            cumulative: numbers(6).first().copied().unwrap_or(0),
            gaps,
            window,
        }),
        beat,
        types,
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    InFlight,
    /// Reported missing three times, and to be retransmitted.
    Missing,
    /// Marked for retransmission by a time-out.
    TimedOut,
    /// Acknowledged by a gap block.
    Acked,
}

/// A DATA chunk above the cumulative TSN.
struct Chunk {
    user: u64,
    path: usize,
    state: State,
    misses: u32,
    again: bool,
    fast: bool,
}

impl Chunk {
    /// The length with header and padding, bytes.
    fn counted(&self) -> u64 {
        16 + self.user.next_multiple_of(4)
    }
}

struct Path {
    timer: Timer,
    t3: Option<u64>,
    /// The duration to which the running T3-rtx was set.
    span: u64,
    in_a_row: u32,
    /// The TSN whose round-trip time is measured, and its sending time.
    timed: Option<(i64, u64)>,
    /// The outstanding heartbeat: its information, its sending time, and the time at which it counts as lost.
    beat: Option<(String, u64, u64)>,
    /// Whether nothing was acknowledged since the time-out, so only one packet may be in flight (RFC 9260 section
    /// 7.2.1).
    one_packet: bool,
    before_last: u64,
    new_packets: u32,
}

/// The state of the sender. TSNs are relative to the first one.
struct Sender {
    first: u32,
    cumulative: i64,
    next: i64,
    chunks: BTreeMap<i64, Chunk>,
    paths: Vec<Path>,
    /// Fast recovery ends when this TSN is acknowledged.
    recovery: Option<i64>,
    window: u64,
    most_user: u64,
    room: i64,
    /// The path of the last new data.
    data_path: usize,
    story: Story,
}

/// Computes the states of the sender from its packets.
pub fn replay(packets: &[Packet], rto_min: u64) -> Story {
    let first = packets.iter().find_map(|packet| packet.data.first()).expect("data").0;
    let window =
        packets.iter().find_map(|packet| packet.sack.as_ref()).expect("INIT ACK tells a window").window;
    let paths = packets.iter().map(|packet| packet.path).max().unwrap_or(0) + 1;
    let mut sender = Sender {
        first,
        cumulative: -1,
        next: 0,
        chunks: BTreeMap::new(),
        paths: (0..paths).map(|_| Path::new(rto_min)).collect(),
        recovery: None,
        window,
        most_user: packets.iter().flat_map(|packet| &packet.data).map(|(_, user)| *user).max().unwrap_or(0),
        room: i64::MAX,
        data_path: 0,
        story: Story::default(),
    };
    // The association is established with the COOKIE ACK. Before it, INIT and COOKIE ECHO may have been retransmitted.
    let opened = packets.iter().position(|packet| packet.types.contains(&11)).expect("it opened");
    for opening in [1, 10] {
        let theirs = packets[..opened].iter().filter(|packet| packet.sent && packet.types.contains(&opening));
        let sent: Vec<_> = theirs.map(|packet| packet.at).collect();
        sender.story.openings.extend(openings(&sent));
    }
    let behind = &packets[opened..];
    for (packet, next) in behind.iter().zip(behind[1..].iter().map(Some).chain([None])) {
        let overdue = |path: &Path| path.t3.filter(|t3| is_overdue(t3, packet.at));
        sender.story.unheeded = sender.paths.iter().find_map(overdue);
        if sender.story.unheeded.is_some() {
            break;
        }
        sender.take(packet);
        if next.is_none_or(|next| next.at > packet.at) {
            sender.end_of_moment(packet.at);
        }
    }
    sender.story
}

impl Path {
    fn new(rto_min: u64) -> Self {
        Self {
            timer: Timer::new(rto_min),
            t3: None,
            span: 0,
            in_a_row: 0,
            timed: None,
            beat: None,
            one_packet: false,
            before_last: 0,
            new_packets: 0,
        }
    }

    /// RFC 9260 section 8.3: a lost heartbeat doubles the RTO, unless data are outstanding on the path.
    fn heartbeat_lost(&mut self) {
        self.beat = None;
        if self.t3.is_none() {
            self.timer.back_off();
            self.in_a_row += 1;
        }
    }

    fn start_t3(&mut self, at: u64) {
        self.span = self.timer.rto();
        self.t3 = Some(at + self.span);
    }
}

impl Sender {
    fn take(&mut self, packet: &Packet) {
        let at = packet.at;
        self.let_heartbeats_be_lost(at);
        if let Some(sack) = packet.sack.as_ref().filter(|_| !packet.sent) {
            self.acknowledged(at, sack);
        }
        // RFC 7829 section 3.2: after a time-out the path is probed immediately.
        let probes = matches!(&packet.beat, Some((false, _)));
        let repeats = packet.data.first().is_some_and(|(tsn, _)| self.distance(*tsn) < self.next);
        if packet.sent && (probes || repeats) {
            self.fire(at);
        }
        if let Some((answer, info)) = &packet.beat {
            self.heartbeat(at, packet, *answer, info);
        }
        if packet.sent && !packet.data.is_empty() {
            self.sent(packet);
        }
    }

    fn distance(&self, tsn: u32) -> i64 {
        let last = self.first.wrapping_add(self.cumulative as u32);
        self.cumulative + i64::from(tsn.wrapping_sub(last) as i32)
    }

    fn flight(&self, path: usize) -> u64 {
        let in_flight = self.chunks.values().filter(|c| c.path == path && c.state == State::InFlight);
        in_flight.map(Chunk::counted).sum()
    }

    /// User bytes in flight on all paths.
    fn user_bytes(&self) -> u64 {
        self.chunks.values().filter(|chunk| chunk.state == State::InFlight).map(|chunk| chunk.user).sum()
    }

    fn sent(&mut self, packet: &Packet) {
        let (at, number) = (packet.at, packet.path);
        let places: Vec<_> = packet.data.iter().map(|(tsn, user)| (self.distance(*tsn), *user)).collect();
        if places[0].0 < self.next {
            return self.sent_again(at, number, &places);
        }
        let before = self.flight(number);
        let alone = self.chunks.is_empty();
        for (place, user) in &places {
            assert_eq!(*place, self.next, "nothing is left out");
            self.next += 1;
            let (state, path) = (State::InFlight, number);
            self.chunks
                .insert(*place, Chunk { user: *user, path, state, misses: 0, again: false, fast: false });
        }
        if !alone {
            self.room = self.room.min(self.window as i64 - self.user_bytes() as i64);
        }
        self.data_path = number;
        let path = &mut self.paths[number];
        path.before_last = path.before_last.max(before);
        path.new_packets += 1;
        // RFC 9260 section 6.3.1 C4: one measurement per round trip.
        path.timed.get_or_insert((places[0].0, at));
        // Section 6.3.2 R1.
        if path.t3.is_none() {
            path.start_t3(at);
        }
    }

    fn sent_again(&mut self, at: u64, number: usize, places: &[(i64, u64)]) {
        let lowest = *self.chunks.keys().next().expect("something is outstanding");
        for (place, _) in places {
            let chunk = self.chunks.get_mut(place).expect("what is sent again is outstanding");
            match chunk.state {
                State::TimedOut => self.story.sent_after_time_outs += 1,
                State::Missing => self.story.sent_again_fast += 1,
                State::InFlight | State::Acked => panic!("TSN {place} was not lost, at {at}"),
            }
            // RFC 9260 section 7.2.4 (4): the first outstanding chunk starts T3-rtx anew.
            if *place == lowest && chunk.state == State::Missing {
                self.paths[number].t3 = None;
            }
            (chunk.state, chunk.path, chunk.again, chunk.misses) = (State::InFlight, number, true, 0);
            // Section 6.3.1 C5: after a retransmission, no measurement of this or a later chunk is used.
            for path in &mut self.paths {
                path.timed = path.timed.filter(|(timed, _)| timed < place);
            }
        }
        let path = &mut self.paths[number];
        if path.t3.is_none() {
            path.start_t3(at);
        }
    }

    /// RFC 9260 section 6.3.3: handles the timer that expires now, if there is one.
    fn fire(&mut self, at: u64) {
        for number in 0..self.paths.len() {
            let path = &mut self.paths[number];
            if !is_due(path.t3, at) {
                continue;
            }
            path.in_a_row += 1;
            let (rto, in_a_row) = (path.span, path.in_a_row);
            self.story.time_outs.push(TimeOut { at, path: number as u8, rto, in_a_row });
            path.timer.back_off();
            (path.t3, path.timed, path.one_packet) = (None, None, true);
            self.recovery = None;
            for chunk in self.chunks.values_mut().filter(|chunk| chunk.path == number) {
                if chunk.state != State::Acked {
                    (chunk.state, chunk.misses) = (State::TimedOut, 0);
                }
            }
        }
    }

    fn acknowledged(&mut self, at: u64, sack: &Sack) {
        let cumulative = self.distance(sack.cumulative);
        if cumulative < self.cumulative {
            return;
        }
        self.window = sack.window;
        let advanced = cumulative > self.cumulative;
        self.cumulative = cumulative;
        let behind = self.chunks.split_off(&(cumulative + 1));
        let done = std::mem::replace(&mut self.chunks, behind);
        // RFC 9260 section 6.3.2 R3, as Linux implements it (net/sctp/outqueue.c, sctp_check_transmitted): a chunk that
        // the cumulative TSN passes counts as the earliest outstanding chunk of its path, even if a gap block had
        // acknowledged it.
        let earliest: Vec<_> = done.values().map(|chunk| chunk.path).collect();
        let mut newly = Vec::new();
        for (place, chunk) in done.into_iter().filter(|(_, chunk)| chunk.state != State::Acked) {
            newly.push(place);
            self.newly(at, place, &chunk);
        }
        for (from, to) in &sack.gaps {
            for place in cumulative + i64::from(*from)..=cumulative + i64::from(*to) {
                let mut chunk = self.chunks.remove(&place).expect("what is acknowledged was sent");
                if chunk.state != State::Acked {
                    newly.push(place);
                    self.newly(at, place, &chunk);
                    chunk.state = State::Acked;
                }
                self.chunks.insert(place, chunk);
            }
        }
        let reported = |place: i64| {
            let from = |(from, to): &(u32, u32)| (cumulative + i64::from(*from), cumulative + i64::from(*to));
            sack.gaps.iter().map(from).any(|(from, to)| (from..=to).contains(&place))
        };
        // RFC 9260 section 6.2.1 D iii): a chunk that is no longer reported is not acknowledged any more. This occurs
        // when SACKs are reordered on two paths.
        for (_, chunk) in self.chunks.iter_mut().filter(|(place, _)| !reported(**place)) {
            if chunk.state == State::Acked {
                chunk.state = State::InFlight;
            }
        }
        self.count_misses(advanced, newly.iter().max().copied(), sack, cumulative);
        if self.recovery.is_some_and(|exit| exit <= cumulative) {
            self.recovery = None;
        }
        for number in 0..self.paths.len() {
            // R2 and R3.
            let flight = self.flight(number);
            let path = &mut self.paths[number];
            if flight == 0 {
                path.t3 = None;
            } else if path.t3.is_none() || earliest.contains(&number) {
                path.start_t3(at);
            }
        }
    }

    fn newly(&mut self, at: u64, place: i64, chunk: &Chunk) {
        let path = &mut self.paths[chunk.path];
        if chunk.state == State::InFlight {
            (path.in_a_row, path.one_packet) = (0, false);
        }
        if let Some((timed, since)) = path.timed
            && timed == place
        {
            path.timed = None;
            if !chunk.again {
                path.timer.measured(at - since);
            }
        }
    }

    /// RFC 9260 section 7.2.4: counts the misses of chunks below the highest newly acknowledged TSN. In fast recovery,
    /// if the cumulative TSN has advanced, the misses of all chunks that are reported missing are counted.
    fn count_misses(&mut self, advanced: bool, highest: Option<i64>, sack: &Sack, cumulative: i64) {
        let last = sack.gaps.iter().map(|(_, to)| cumulative + i64::from(*to)).max().unwrap_or(cumulative);
        let limit = match (self.recovery.is_some() && advanced, highest) {
            (true, _) => last,
            (false, Some(highest)) => highest.min(last),
            (false, None) => return,
        };
        let mut found = false;
        for (_, chunk) in self.chunks.range_mut(..limit) {
            if chunk.state == State::InFlight && !chunk.fast {
                chunk.misses += 1;
                if chunk.misses == 3 {
                    (chunk.state, chunk.fast, found) = (State::Missing, true, true);
                }
            }
        }
        if found && self.recovery.is_none() {
            self.recovery = Some(self.next - 1);
        }
    }

    fn heartbeat(&mut self, at: u64, packet: &Packet, answer: bool, info: &str) {
        let path = &mut self.paths[packet.path];
        match (packet.sent, answer) {
            (true, false) => {
                // RFC 9260 section 8.3: the previous heartbeat was not answered.
                if path.beat.is_some() {
                    path.heartbeat_lost();
                }
                path.beat = Some((info.to_owned(), at, at + path.timer.rto()));
            }
            (false, true) => {
                if let Some((sent, since, _)) = path.beat.take_if(|(sent, ..)| *sent == info) {
                    assert_eq!(sent, info);
                    path.timer.measured(at - since);
                    path.in_a_row = 0;
                }
            }
            _ => {}
        }
    }

    /// RFC 9260 section 8.2: heartbeats without an answer within the RTO count as lost.
    fn let_heartbeats_be_lost(&mut self, until: u64) {
        for path in &mut self.paths {
            if path.beat.as_ref().is_some_and(|(.., lost)| *lost < until) {
                path.heartbeat_lost();
            }
        }
    }

    fn end_of_moment(&mut self, at: u64) {
        let lost = self.chunks.values().any(|c| matches!(c.state, State::Missing | State::TimedOut));
        for number in 0..self.paths.len() {
            let flight = self.flight(number);
            let path = &self.paths[number];
            // RFC 9260 section 6.1 D: at most Max.Burst packets at a time.
            let free = number == self.data_path && !lost && !path.one_packet && path.new_packets < 4;
            self.story.moments.push(Moment {
                at,
                path: number as u8,
                flight,
                in_network: flight,
                before_last: path.before_last,
                allowance: 0,
                // A packet may be sent while the bytes in flight are one less than the window.
                overshoot: 1467,
                slack: 1,
                packet: self.most_user,
                room_at_receiver: if path.new_packets > 0 {
                    self.room
                } else {
                    self.window as i64 - self.user_bytes() as i64
                },
                sent_new: path.new_packets > 0,
                backlogged: free && self.next > 0,
                rto: path.timer.rto(),
                srtt: path.timer.srtt(),
            });
        }
        for path in &mut self.paths {
            (path.before_last, path.new_packets) = (0, 0);
        }
        self.room = i64::MAX;
    }
}
