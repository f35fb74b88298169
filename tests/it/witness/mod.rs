//! The reports of ten runs with fixed seeds are compared with their packets: the window, the timer that expired, and
//! where packets were dropped.
//!
//! tshark reads the packets from captures at the nodes. From them, this test computes by the RFCs the retransmission
//! timer (from round-trip times), the bytes in the network (from sent and acknowledged data), and the fate of each
//! packet (from the rate, delay and queue of its line). It does not use the state of the endpoints or links.

mod line;
mod sctp;
mod tcp;
mod timer;

use std::collections::BTreeMap;

use netrig_core::quantity::{
    CWND, FAST_RETRANSMISSIONS, FLIGHT, LINK_DROPPED, PATH_TIMEOUT, RTO, SRTT, TIMEOUT_RETRANSMISSIONS,
    TIMEOUTS, link_dropped,
};
use netrig_core::{Direction, DropReason, Heading, Instant, Quantity, Subject};
use netrig_test_support::{ExperimentText, has, skip_unless};
use netrig_tests::{Tape, watch};

use line::Line;
use tcp::{Counts, Sampling};
use timer::{Moment, Story};

/// The nodes, in the order of the file.
const NODES: [&str; 3] = ["near", "middle", "far"];
const NEAR: u32 = 0;

/// Ordinal numbers of the packets that `access` drops in each direction, in the order in which their transmission
/// starts.
const LISTED: [u64; 8] = [7, 40, 41, 42, 200, 201, 430, 1000];

/// A run: the sender, and the properties of its path.
struct Case {
    seed: u32,
    transport: Transport,
    application: &'static str,
    /// Number of packets that may wait for `access`.
    room: usize,
    /// Loss on `core` and `second`, in each direction.
    loss: &'static str,
    /// Start and end of an outage of `access`, s.
    outage: Option<(u64, u64)>,
}

const CASES: [Case; 10] = [
    // The only losses are those of a full queue and of the list.
    Case { seed: 1, transport: SACK, application: BULK, room: 12, loss: "0 %", outage: None },
    Case { seed: 2, transport: PER_ACK, application: BULK, room: 30, loss: "3 %", outage: None },
    Case { seed: 3, transport: NEWRENO, application: BULK, room: 20, loss: "2 %", outage: None },
    // The receiver's window of 16 KB is the limit, not the congestion window.
    Case { seed: 4, transport: NARROW_TCP, application: BULK, room: 50, loss: "0.5 %", outage: None },
    // The SYN of this run is lost.
    Case { seed: 38, transport: RACK, application: BULK, room: 30, loss: "5 %", outage: Some((20, 31)) },
    Case { seed: 6, transport: SCTP, application: BULK, room: 12, loss: "0 %", outage: None },
    Case { seed: 7, transport: SCTP, application: FIVE, room: 30, loss: "5 %", outage: None },
    Case { seed: 8, transport: NARROW_SCTP, application: SMALL, room: 50, loss: "0.5 %", outage: None },
    Case { seed: 9, transport: TWO_PATHS, application: FIVE, room: 30, loss: "5 %", outage: None },
    Case {
        seed: 10,
        transport: HASTY_SCTP,
        application: SMALL,
        room: 30,
        loss: "10 %",
        outage: Some((20, 31)),
    },
];

/// A transport, and the rules for its replay.
#[derive(Clone, Copy)]
struct Transport {
    /// Its settings in the experiment file.
    settings: &'static str,
    rules: Rules,
    /// Names of the links of each path.
    paths: &'static [&'static str],
    /// Whether the receiver's window is the limit, not the congestion window.
    is_narrow: bool,
}

#[derive(Clone, Copy)]
enum Rules {
    Tcp(tcp::Rules),
    /// SCTP with this minimum RTO, ns.
    Sctp(u64),
}

const SECOND: u64 = 1_000_000_000;
const FIFTH: u64 = SECOND / 5;
const ONE_PATH: &[&str] = &["[\"access\", \"core\"]"];

const fn tcp(settings: &'static str, rto_min: u64, sampling: Sampling, counts: Counts) -> Transport {
    let rules = Rules::Tcp(tcp::Rules { rto_min, sampling, counts });
    Transport { settings, rules, paths: ONE_PATH, is_narrow: false }
}

const fn sctp(settings: &'static str, rto_min: u64) -> Transport {
    Transport { settings, rules: Rules::Sctp(rto_min), paths: ONE_PATH, is_narrow: false }
}

// Without time stamps, a retransmitted segment gives no round-trip time sample (RFC 6298 section 3).
const SACK: Transport = tcp("recovery = \"sack\"", SECOND, Sampling::PerRound, Counts::Pipe);
const PER_ACK: Transport = tcp(
    "recovery = \"sack\"\nrtt_sampling = \"per-ack\"\ncongestion = \"cubic\"",
    FIFTH,
    Sampling::PerAck,
    Counts::Pipe,
);
const NEWRENO: Transport = tcp(
    "recovery = \"newreno\"\nnewreno_timer = \"slow-but-steady\"\nsack = false",
    FIFTH,
    Sampling::PerRound,
    Counts::Outstanding,
);
const NARROW_TCP: Transport =
    Transport { settings: "recovery = \"sack\"\nreceive_buffer = \"16 KB\"", is_narrow: true, ..SACK };
// A suppressed probe restarts the timer (RFC 8985 section 7.3), which is not visible in packets. With this setting no
// probe is suppressed.
const RACK: Transport =
    tcp("recovery = \"rack\"\nprobe_needs_sample = false", FIFTH, Sampling::PerRound, Counts::OpenOnly);
const SCTP: Transport = sctp("", SECOND);
const NARROW_SCTP: Transport = Transport { settings: "receive_buffer = \"16 KB\"", is_narrow: true, ..SCTP };
const HASTY_SCTP: Transport = sctp("", FIFTH);
const TWO_PATHS: Transport = Transport { paths: &["[\"access\", \"core\"]", "[\"second\"]"], ..SCTP };
const BULK: &str = "{ kind = \"bulk\" }";
const FIVE: &str = "{ kind = \"bulk\", streams = 5, message = \"4 KB\" }";
const SMALL: &str = "{ kind = \"bulk\", message = \"365 B\" }";

impl Transport {
    /// Its table in the experiment file, with its paths.
    fn file(&self) -> String {
        let (kind, rto_min) = match self.rules {
            Rules::Tcp(rules) => ("kind = \"tcp\"\ntimestamps = false\nfrto = false", rules.rto_min),
            Rules::Sctp(rto_min) => ("kind = \"sctp\"", rto_min),
        };
        let Self { settings, paths, .. } = self;
        format!(
            "{kind}\n{settings}\nrto_min = \"{} ms\"\npaths = [{}]",
            rto_min / 1_000_000,
            paths.join(", ")
        )
    }

    fn paths(&self) -> u8 {
        self.paths.len() as u8
    }
}

const DURATION: u64 = 60_000_000_000;

impl Case {
    fn file(&self) -> String {
        let Self { application, room, loss, .. } = self;
        let transport = self.transport.file();
        let outage = self.outage.map_or(String::new(), |(from, to)| {
            let down = "queue = \"drop\", in_flight = \"lose\"";
            format!(
                "[[event]]\nat = \"{from} s\"\nlink = \"access\"\ndo = {{ down_for = \"{} s\", {down} }}",
                to - from
            )
        });
        ExperimentText::new("witnessed", "60 s")
            .nodes("near middle far")
            .link(
                "access",
                "near middle",
                &format!(
                    r#"rate = "2 Mbit/s", delay = "10 ms", queue = {{ kind = "fifo", packets = {room} }},
                drop = {LISTED:?}"#
                ),
            )
            .fifo(
                "core",
                "middle far",
                ("10 Mbit/s", "30 ms", 100),
                &format!(r#"loss = {{ kind = "bernoulli", probability = "{loss}" }}"#),
            )
            .fifo(
                "second",
                "near far",
                ("1 Mbit/s", "60 ms", 20),
                &format!(r#"loss = {{ kind = "bernoulli", probability = "{loss}" }}"#),
            )
            .table("transport.subject", &transport)
            .flow("data", "near far", &format!(r#"transport = "subject", application = {application}"#))
            .response("drops", "link.access", "drops_queue_full")
            .text(&outage)
            .build()
    }

    fn run(&self) -> Tape {
        watch(&self.file(), self.seed, &NODES).1
    }

    fn lines(&self) -> [Line; 3] {
        let outage = self.outage.map(|(from, to)| (from * 1_000_000_000, to * 1_000_000_000));
        let (access, core, second) = ([0, 1], [1, 2], [0, 2]);
        let line = |ends, bits_per_s: u64, delay_ms: u64, room| Line {
            ends,
            nanos_per_byte: 8_000_000_000 / bits_per_s,
            delay: delay_ms * 1_000_000,
            room,
            listed: &[],
            outage: None,
        };
        [
            Line { listed: &LISTED, outage, ..line(access, 2_000_000, 10, self.room) },
            line(core, 10_000_000, 30, 100),
            line(second, 1_000_000, 60, 20),
        ]
    }

    /// Replays the packets at the sender.
    fn story(&self, tape: &Tape) -> Story {
        let capture = tape.capture(NEAR);
        match self.transport.rules {
            Rules::Tcp(rules) => tcp::replay(&tcp::read(&capture), rules),
            Rules::Sctp(rto_min) => sctp::replay(&sctp::read(&capture), rto_min),
        }
    }
}

/// The reported samples of one quantity of one path.
struct Told(Vec<(Instant, f64)>);

impl Told {
    fn of(tape: &Tape, path: u8, quantity: &'static Quantity) -> Self {
        Self(tape.series(Subject::Path(0, path), quantity))
    }

    fn at(&self, at: u64) -> Option<f64> {
        let behind = self.0.partition_point(|(told, _)| told.as_nanos() <= at);
        Some(self.0.get(behind.checked_sub(1)?)?.1)
    }
}

fn total(tape: &Tape, subject: Subject, quantity: &'static Quantity) -> u64 {
    tape.values(subject, quantity).iter().sum::<f64>() as u64
}

/// The reported bytes in flight are those that were sent and not acknowledged. When new data are sent, they do not
/// exceed the windows. Whenever more data wait, they reach one of the two windows.
#[test]
fn the_window_is_what_the_packets_show() {
    skip_unless!(has("tshark"));
    for case in &CASES {
        let tape = case.run();
        let story = case.story(&tape);
        assert_eq!(story.unheeded, None, "seed {}", case.seed);
        let (mut sent, mut filled, mut held_back) = (0_u32, 0_u32, 0_u32);
        for path in 0..case.transport.paths() {
            let (cwnd, flight) = (Told::of(&tape, path, &CWND), Told::of(&tape, path, &FLIGHT));
            for moment in story.moments.iter().filter(|moment| moment.path == path) {
                let &Moment { at, in_network, .. } = moment;
                let what = || format!("seed {} path {path} at {at} ns: {moment:?}", case.seed);
                assert_eq!(flight.at(at), Some(moment.flight as f64), "{}", what());
                let window = cwnd.at(at).expect("a window is told with the bytes in flight") as u64;
                if moment.sent_new {
                    sent += 1;
                    let window = window + moment.allowance;
                    assert!(moment.before_last < window, "{window} B: {}", what());
                    assert!(in_network <= window + moment.overshoot, "{window} B: {}", what());
                    assert!(moment.room_at_receiver >= 0, "{}", what());
                }
                if moment.backlogged {
                    let by_receiver = moment.room_at_receiver < moment.packet as i64;
                    let by_sender = in_network + moment.slack > window;
                    assert!(by_receiver || by_sender, "{window} B: {}", what());
                    filled += u32::from(by_sender);
                    held_back += u32::from(by_receiver);
                }
            }
        }
        println!("seed {}: {sent} moments of sending, full {filled}, receiver's {held_back}", case.seed);
        let which = if case.transport.is_narrow { held_back } else { filled };
        assert!(sent > 100 && which > 100, "seed {}", case.seed);
    }
}

/// At each reported time-out there is a retransmission, and RFC 6298's timer, computed from the round-trip times of the
/// packets, expires. There are no other time-outs.
#[test]
fn the_timer_that_fired_is_the_one_that_the_packets_set() {
    skip_unless!(has("tshark"));
    let mut most_in_a_row = 0;
    for case in &CASES {
        let tape = case.run();
        let story = case.story(&tape);
        for path in 0..case.transport.paths() {
            let (rto, srtt) = (Told::of(&tape, path, &RTO), Told::of(&tape, path, &SRTT));
            for moment in story.moments.iter().filter(|moment| moment.path == path) {
                let what = || format!("seed {} path {path}: {moment:?}", case.seed);
                let told = rto.at(moment.at).expect("an RTO is told");
                assert!((told - moment.rto as f64 / 1e9).abs() < 1e-6, "RTO {told} s: {}", what());
                let told = srtt.at(moment.at).unwrap_or(0.0);
                assert!((told - moment.srtt).abs() < 1e-6, "SRTT {told} s: {}", what());
            }
            assert_eq!(story.unheeded, None, "seed {}", case.seed);
            let marks = tape.series(Subject::Path(0, path), &PATH_TIMEOUT);
            let fired: Vec<_> = story.time_outs.iter().filter(|fired| fired.path == path).collect();
            let moments: Vec<_> = marks.iter().map(|(at, _)| at.as_nanos()).collect();
            assert_eq!(moments, fired.iter().map(|fired| fired.at).collect::<Vec<_>>(), "seed {}", case.seed);
            for ((at, in_a_row), fired) in marks.iter().zip(&fired) {
                assert_eq!(*in_a_row as u32, fired.in_a_row, "seed {} at {at}", case.seed);
                most_in_a_row = most_in_a_row.max(fired.in_a_row);
            }
        }
        assert_words(case, &tape, &story);
        let counts = [&TIMEOUTS, &TIMEOUT_RETRANSMISSIONS, &FAST_RETRANSMISSIONS]
            .map(|quantity| total(&tape, Subject::Flow(0), quantity));
        println!("seed {}: time-outs, retransmissions after them, fast ones: {counts:?}", case.seed);
        assert_eq!(
            counts,
            [
                (story.openings.len() + story.time_outs.len()) as u64,
                story.sent_after_time_outs,
                story.sent_again_fast
            ],
            "seed {}",
            case.seed
        );
        assert!(counts[0] > 0 || case.loss == "0 %", "seed {}: no time-out", case.seed);
    }
    println!("time-outs in a row: {most_in_a_row}");
    assert!(most_in_a_row >= 4, "the timer never backed off further than {most_in_a_row}");
}

/// The time line has each time-out with the RTO and the new window: one packet (RFC 5681 section 3.1, RFC 9260 section
/// 7.2.3), plus the bytes that RACK still considers in flight.
fn assert_words(case: &Case, tape: &Tape, story: &Story) {
    let notes = tape.notes().iter().filter(|note| note.text.contains(", RTO "));
    let words: Vec<_> = notes.map(|note| (note.at.as_nanos(), note.text.as_str())).collect();
    assert_eq!(words.iter().filter(|(_, text)| text.contains(": cwnd ")).count(), story.time_outs.len());
    let all: Vec<_> = story.openings.iter().chain(&story.time_outs).collect();
    assert_eq!(words.len(), all.len(), "seed {}", case.seed);
    for ((at, text), fired) in words.iter().zip(all) {
        let seconds = text.split(", RTO ").nth(1).and_then(|rest| rest.split(" s: ").next());
        let told: f64 = seconds.and_then(|told| told.parse().ok()).expect("seconds");
        assert_eq!(*at, fired.at, "seed {}: {text}", case.seed);
        assert!((told - fired.rto as f64 / 1e9).abs() <= 0.000_5, "seed {}: {text}, {fired:?}", case.seed);
        let Some((_, rest)) = text.split_once(": cwnd ") else { continue };
        let window: f64 = rest.split(' ').next().and_then(|told| told.parse().ok()).expect("bytes");
        assert_eq!(Told::of(tape, fired.path, &CWND).at(*at), Some(window), "seed {}: {text}", case.seed);
        // If losses are detected by time, some outstanding data may still be in flight at a time-out, and the window
        // includes them.
        let (packet, alone) = match case.transport.rules {
            Rules::Tcp(rules) => (1460.0, rules.counts != Counts::OpenOnly),
            Rules::Sctp(_) => (1468.0, true),
        };
        assert!(window == packet || !alone, "seed {}: {text}", case.seed);
    }
}

/// A packet that entered a link and did not leave it was dropped there, for the reason that follows from the line's
/// rate, queue, loss list and outage.
#[test]
fn packets_were_dropped_where_they_vanish() {
    let mut all = BTreeMap::<&str, u64>::new();
    for case in &CASES {
        let tape = case.run();
        for (line, number) in case.lines().iter().zip(0..) {
            for direction in [Direction::Forward, Direction::Backward] {
                let [near, far] = line.towards(direction);
                let offered = tape.frames(near, number, Heading::Outbound);
                let arrived = tape.frames(far, number, Heading::Inbound);
                let (fates, under_way) = line.replay(&offered, &arrived, DURATION);
                let subject = Subject::Link(number, direction);
                for why in DropReason::ALL {
                    let told = total(&tape, subject, link_dropped(why));
                    let seen = fates.get(why.name()).copied().unwrap_or(0);
                    // A line counts a lost packet when its transmission starts.
                    let unseen = if why == DropReason::Loss { under_way } else { 0 };
                    let what = || format!("seed {}, link {number} {direction}: {why:?}", case.seed);
                    assert!((seen..=seen + unseen).contains(&told), "{told} told, {seen} seen: {}", what());
                    assert_eq!(told, in_words(&tape, subject, why), "seed {}, in words: {why:?}", case.seed);
                    *all.entry(why.name()).or_default() += told;
                }
                let by_reason = DropReason::ALL.map(|why| total(&tape, subject, link_dropped(why)));
                assert_eq!(
                    total(&tape, subject, &LINK_DROPPED),
                    by_reason.iter().sum::<u64>(),
                    "seed {}",
                    case.seed
                );
            }
        }
    }
    println!("{all:?}");
    for why in [DropReason::QueueFull, DropReason::Loss, DropReason::Listed, DropReason::LinkDown] {
        assert!(all[why.name()] > 10, "{all:?}");
    }
}

/// Number of drops in the time line.
fn in_words(tape: &Tape, subject: Subject, why: DropReason) -> u64 {
    let notes = tape.notes().iter().filter(|note| note.subject == subject);
    let counts = notes.filter_map(|note| {
        let (what, reason) = note.text.rsplit_once(": ")?;
        let (_, count) = what.split_once(" dropped ")?;
        (reason == why.name()).then(|| count.split(' ').next()?.parse::<u64>().ok())?
    });
    counts.sum()
}
