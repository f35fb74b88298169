//! The state of a TCP sender, computed from the packets at its interface.

use std::collections::BTreeMap;

use netrig_tests::dissect;

use super::timer::{Moment, Story, TimeOut, Timer, is_due, is_overdue, openings};

/// A segment at the sender's interface.
pub struct Segment {
    at: u64,
    /// Whether the observed sender sent it.
    sent: bool,
    syn: bool,
    seq: u32,
    ack: u32,
    len: u64,
    window: u64,
    scale: u32,
    sacks: Vec<(u32, u32)>,
}

/// The properties of the sender that the experiment file specifies.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Minimum RTO, ns.
    pub rto_min: u64,
    pub sampling: Sampling,
    pub counts: Counts,
}

/// Which acknowledgements give a round-trip time sample.
#[derive(Clone, Copy, PartialEq)]
pub enum Sampling {
    /// Each acknowledgement of data that were sent only once.
    PerAck,
    /// Of these, only the first one of data sent after the last sample or retransmission.
    PerRound,
}

/// The number of bytes that is compared with the congestion window during loss recovery.
#[derive(Clone, Copy, PartialEq)]
pub enum Counts {
    /// The pipe of RFC 6675 (SetPipe).
    Pipe,
    /// All outstanding bytes, because duplicates inflate the window (RFC 5681 section 3.2).
    Outstanding,
    /// Not computed, because losses are detected by time. Only states without recovery are compared.
    OpenOnly,
}

/// Reads a capture at the sender. The sender opened the connection.
pub fn read(capture: &[u8]) -> Vec<Segment> {
    let fields = [
        "frame.time_epoch",
        "frame.packet_flags_direction",
        "tcp.flags",
        "tcp.seq_raw",
        "tcp.ack_raw",
        "tcp.len",
        "tcp.window_size_value",
        "tcp.options.wscale.shift",
        "tcp.options.sack_le",
        "tcp.options.sack_re",
    ];
    let packets = dissect(capture, "tcp", &fields);
    packets.iter().map(|packet| segment(packet)).collect()
}

fn segment(packet: &[Vec<String>]) -> Segment {
    let number = |field: usize| packet[field].first().map_or(0, |value| value.parse().expect("a number"));
    let edges = |field: usize| packet[field].iter().map(|edge| edge.parse::<u32>().expect("an edge"));
    let flags = u32::from_str_radix(packet[2][0].trim_start_matches("0x"), 16).expect("flags");
    Segment {
        at: nanos(&packet[0][0]),
        sent: is_outbound(&packet[1]),
        syn: flags & 2 != 0,
        seq: number(3),
        ack: number(4),
        len: u64::from(number(5)),
        window: u64::from(number(6)),
        scale: number(7),
        sacks: edges(8).zip(edges(9)).collect(),
    }
}

/// Whether the flags of a captured packet mark it as outbound.
pub fn is_outbound(flags: &[String]) -> bool {
    flags[0].ends_with('2')
}

/// A time such as `0.021792000` (s), in ns.
pub fn nanos(seconds: &str) -> u64 {
    let (whole, rest) = seconds.split_once('.').expect("nine decimals");
    assert_eq!(rest.len(), 9, "{seconds}");
    whole.parse::<u64>().expect("seconds") * 1_000_000_000 + rest.parse::<u64>().expect("nanoseconds")
}

/// A segment that was sent and is not yet acknowledged.
#[derive(Clone, Copy, Default)]
struct Flying {
    end: u64,
    sent_at: u64,
    /// Whether it was sent more than once.
    again: bool,
    sacked: bool,
    /// Whether a time-out has marked it as lost.
    lost: bool,
    /// Whether it was retransmitted since the last time-out.
    resent: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Open,
    /// Fast recovery until this sequence number is acknowledged.
    Recovery(u64),
    /// Recovery after a time-out, until this sequence number is acknowledged.
    Loss(u64),
}

/// The state of the sender. Sequence numbers are relative to the SYN.
struct Sender {
    rules: Rules,
    first: u32,
    una: u64,
    nxt: u64,
    /// The right edge of the receiver's window: the first sequence number beyond it.
    edge: u64,
    shift: u32,
    smss: u64,
    flying: BTreeMap<u64, Flying>,
    timer: Timer,
    fires: Option<u64>,
    in_a_row: u32,
    /// Segments that end at or before this sequence number give no further sample.
    timed_beyond: u64,
    phase: Phase,
    /// Time of the last acknowledgement.
    heard: u64,
    sent_new: bool,
    before_last: u64,
    story: Story,
}

/// Computes the states of the sender from its packets.
pub fn replay(segments: &[Segment], rules: Rules) -> Story {
    let answered = segments.iter().position(|segment| segment.syn && !segment.sent).expect("it opened");
    let (syns, answer) = (&segments[..answered], &segments[answered]);
    let sent: Vec<_> = syns.iter().map(|syn| syn.at).collect();
    let openings = openings(&sent);
    // RFC 6298 section 3; section 5.7 if the SYN was sent more than once.
    let mut timer = Timer::new(rules.rto_min);
    match sent[..] {
        [once] => timer.measured(answer.at - once),
        _ => timer.fall_back(),
    }
    let mut sender = Sender {
        rules,
        first: syns[0].seq,
        una: 1,
        nxt: 1,
        edge: 1 + answer.window,
        shift: answer.scale,
        smss: segments.iter().map(|segment| segment.len).max().unwrap_or(0),
        flying: BTreeMap::new(),
        timer,
        fires: None,
        in_a_row: 0,
        timed_beyond: 1,
        phase: Phase::Open,
        heard: answer.at,
        sent_new: false,
        before_last: 0,
        story: Story { openings, ..Story::default() },
    };
    let behind = &segments[answered + 1..];
    for (segment, next) in behind.iter().zip(behind[1..].iter().map(Some).chain([None])) {
        sender.story.unheeded = sender.fires.filter(|fires| is_overdue(fires, segment.at));
        if sender.story.unheeded.is_some() {
            break;
        }
        sender.take(segment);
        if next.is_none_or(|next| next.at > segment.at) {
            sender.end_of_moment(segment.at);
        }
    }
    sender.story
}

impl Sender {
    fn take(&mut self, segment: &Segment) {
        if !segment.sent {
            self.heard = segment.at;
            self.acknowledged(segment);
        } else if segment.len > 0 {
            self.sent(segment);
        }
    }

    fn offset(&self, number: u32) -> u64 {
        let una = self.first.wrapping_add(self.una as u32);
        self.una.saturating_add_signed(i64::from(number.wrapping_sub(una) as i32))
    }

    fn sent(&mut self, segment: &Segment) {
        let (at, start) = (segment.at, self.offset(segment.seq));
        // RFC 8985 section 7.2: a probe that is not due before the time-out replaces it.
        let probes = self.rules.counts == Counts::OpenOnly && start >= self.nxt;
        if is_due(self.fires, at) && !probes {
            self.fire(at, start);
        }
        let unasked = self.heard != at;
        if start >= self.nxt {
            assert_eq!(start, self.nxt, "nothing is left out");
            // RFC 8985 section 7.3: a probe may be sent beyond the window.
            self.sent_new = !unasked;
            self.before_last = self.in_network();
            self.nxt = start + segment.len;
            let (end, sent_at) = (self.nxt, at);
            self.flying.insert(start, Flying { end, sent_at, ..Flying::default() });
            // RFC 8985 section 7.3: a segment without a cause is a probe, which restarts the timer.
            if unasked && self.fires.is_some() {
                self.restart(at);
            }
        } else {
            self.sent_again(at, start);
        }
        // RFC 6298 (5.1)
        if self.fires.is_none() {
            self.restart(at);
        }
    }

    fn sent_again(&mut self, at: u64, start: u64) {
        match self.phase {
            Phase::Loss(_) => self.story.sent_after_time_outs += 1,
            Phase::Recovery(_) => self.story.sent_again_fast += 1,
            Phase::Open => {
                self.story.sent_again_fast += 1;
                self.phase = Phase::Recovery(self.nxt);
                // The timer is restarted with the first retransmission of recovery, which RFC 6675 section 6 permits.
                self.restart(at);
            }
        }
        self.timed_beyond = self.nxt;
        let flying = self.flying.get_mut(&start).expect("what is sent again was sent, cut as it was then");
        (flying.again, flying.resent) = (true, true);
    }

    /// RFC 6298 (5.4) to (5.6).
    fn fire(&mut self, at: u64, start: u64) {
        assert_eq!(start, self.una, "the earliest segment goes again, at {at}");
        self.in_a_row += 1;
        let (path, in_a_row) = (0, self.in_a_row);
        self.story.time_outs.push(TimeOut { at, path, rto: self.timer.rto(), in_a_row });
        self.timer.back_off();
        self.restart(at);
        self.phase = Phase::Loss(self.nxt);
        self.flying.values_mut().for_each(|flying| (flying.lost, flying.resent) = (true, false));
    }

    fn restart(&mut self, at: u64) {
        self.fires = Some(at + self.timer.rto());
    }

    fn acknowledged(&mut self, segment: &Segment) {
        let (at, number) = (segment.at, self.offset(segment.ack));
        let advanced = number > self.una;
        let behind = self.flying.split_off(&number);
        let before = std::mem::replace(&mut self.flying, behind);
        let mut newly: Vec<_> = before.into_values().filter(|flying| !flying.sacked).collect();
        self.una = self.una.max(number);
        self.edge = self.edge.max(number + (segment.window << self.shift));
        let blocks: Vec<_> =
            segment.sacks.iter().map(|(from, to)| (self.offset(*from), self.offset(*to))).collect();
        for (start, flying) in &mut self.flying {
            let reported = blocks.iter().any(|(from, to)| from <= start && flying.end <= *to);
            if reported && !flying.sacked {
                flying.sacked = true;
                newly.push(*flying);
            }
        }
        self.measure(at, &newly);
        if advanced {
            self.in_a_row = 0;
            if let Phase::Recovery(until) | Phase::Loss(until) = self.phase
                && self.una >= until
            {
                self.phase = Phase::Open;
            }
        }
        // RFC 6298 (5.2), (5.3)
        if self.flying.is_empty() {
            self.fires = None;
        } else if advanced {
            self.restart(at);
        }
    }

    /// RFC 6298 section 3: Karn's rule.
    fn measure(&mut self, at: u64, newly: &[Flying]) {
        if newly.iter().any(|flying| flying.again) {
            return;
        }
        let timed =
            |flying: &&Flying| self.rules.sampling == Sampling::PerAck || flying.end > self.timed_beyond;
        if let Some(sent_at) = newly.iter().filter(timed).map(|flying| flying.sent_at).min() {
            self.timer.measured(at - sent_at);
            self.timed_beyond = self.nxt;
        }
    }

    fn outstanding(&self) -> u64 {
        self.nxt - self.una
    }

    fn in_network(&self) -> u64 {
        if self.phase == Phase::Open && !self.flying.values().any(|flying| flying.sacked)
            || self.rules.counts == Counts::Outstanding && !matches!(self.phase, Phase::Loss(_))
        {
            return self.outstanding();
        }
        self.pipe()
    }

    /// RFC 6675 section 4, SetPipe: the bytes that are neither acknowledged nor lost, plus the retransmitted bytes.
    fn pipe(&self) -> u64 {
        let (mut pipe, mut sacked_above, mut segments_above) = (0, 0, 0);
        for (start, flying) in self.flying.iter().rev() {
            let len = flying.end - start;
            if flying.sacked {
                sacked_above += len;
                segments_above += 1;
                continue;
            }
            // IsLost of RFC 6675 with a DupThresh of 3.
            let lost = flying.lost || segments_above >= 3 || sacked_above > 2 * self.smss;
            pipe += (u64::from(!lost) + u64::from(flying.resent)) * len;
        }
        pipe
    }

    fn end_of_moment(&mut self, at: u64) {
        let gaps = self.flying.values().any(|flying| flying.sacked);
        let undisturbed = self.phase == Phase::Open && !gaps;
        let followed = undisturbed || self.rules.counts != Counts::OpenOnly;
        // RFC 3042: for each of the first two duplicates, a segment may be sent beyond the window.
        let limited_transmit = if self.rules.counts == Counts::Outstanding { 2 * self.smss } else { 0 };
        self.story.moments.push(Moment {
            at,
            path: 0,
            flight: self.outstanding(),
            in_network: self.in_network(),
            before_last: self.before_last,
            allowance: limited_transmit,
            overshoot: 0,
            slack: self.smss,
            packet: self.smss,
            room_at_receiver: self.edge as i64 - self.nxt as i64,
            sent_new: self.sent_new && followed,
            backlogged: undisturbed,
            rto: self.timer.rto(),
            srtt: self.timer.srtt(),
        });
        (self.sent_new, self.before_last) = (false, 0);
    }
}
