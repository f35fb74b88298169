//! TCP in the simulator compared with closed forms. The experiments use a path with a round-trip time of 100 ms whose
//! rate is never the limit, so the results depend on the rules of the sender only.

use netrig_core::{Duration, Instant, Subject, quantity};
use netrig_stats::theory::cubic::Cubic;
use netrig_stats::theory::padhye::Padhye;
use netrig_stats::theory::periodic_loss::PeriodicLoss;
use netrig_stats::theory::retransmission::Backoff;
use netrig_stats::theory::tcp::{SlowStart, mathis_bytes_per_s};
use netrig_test_support::ExperimentText;
use netrig_tests::{Tape, record, simulate};

/// Data in a full packet of 1500 B with timestamps.
const SEGMENT: f64 = 1448.0;
/// Round-trip time of the path without transmission times (0.1 µs), s.
const RTT: f64 = 0.1;
const FLOW: Subject = Subject::Flow(0);
const PATH: Subject = Subject::Path(0, 0);

/// A bulk transfer with the profile `rfc`. `line` has keys of the link in the direction of the data, and `tcp` has
/// constants of the endpoint.
fn path(seconds: u32, line: &str, tcp: &str) -> String {
    ExperimentText::new("path", &format!("{seconds} s"))
        .with(r#"sample_every = "100 ms""#)
        .nodes("client server")
        .link(
            "line",
            "client server",
            &format!(
                r#"rate = "100 Gbit/s", delay = "50 ms", queue = {{ kind = "fifo", unlimited = true }},
            {line}, reverse = {{ loss = {{ kind = "bernoulli", probability = 0 }} }}"#
            ),
        )
        .table("transport.tcp", &format!(r#"kind = "tcp", profile = "rfc", {tcp}"#))
        .flow("bulk", "client server", r#"transport = "tcp", application = { kind = "bulk" }"#)
        .response("received", "flow.bulk", "received")
        .build()
}

fn tape(text: &str) -> Tape {
    record(text).remove(0).1
}

/// Number of data packets sent in each round trip, starting with the first that has any. Each round is a burst that
/// begins at a multiple of 100 ms, so a sampling interval is a round.
fn rounds(text: &str) -> Vec<u64> {
    let sent = tape(text).values(FLOW, &quantity::DATA_PACKETS_SENT);
    sent.into_iter().map(|n| n as u64).skip_while(|n| *n == 0).collect()
}

/// The rate of a metric after the first `settle` seconds.
fn per_round(text: &str, settle: u32, metric: &str) -> f64 {
    let response =
        format!("[response.rate]\nof = \"flow.bulk\"\nmetric = \"{metric}\"\nafter = \"{settle} s\"\n");
    simulate(&format!("{text}{response}"), None, 1, |_| true)[0].responses["rate"]
}

fn periodic(every: u64) -> String {
    format!("loss = {{ kind = \"periodic\", every = {every} }}")
}

/// Prints a line of the validation table, and checks that the deviation is within its bound.
#[track_caller]
fn within(what: &str, measured: f64, theory: f64, bound: f64) {
    let off = measured / theory - 1.0;
    println!("{what}: theory {theory:.3}, measured {measured:.3} ({:+.2} %)", 100.0 * off);
    assert!(off.abs() < bound, "{what}: {measured} for {theory}");
}

/// Slow start (RFC 5681 section 3.1, RFC 6928): the window is ten segments, and grows by one for each acknowledgement.
/// With one acknowledgement per segment, or with L = 2 of RFC 3465 and delayed acknowledgements, the window after k
/// round trips is 10·2^k, and 10·(2^k − 1) segments have been sent before: the series of Cardwell, Savage and Anderson
/// (2000) section III.
#[test]
fn slow_start_of_tcp_doubles() {
    for tcp in ["ack_every = 1", "ack_every = 2\nslow_start_limit = 2"] {
        let series = rounds(&path(2, "", tcp));
        let theory = SlowStart::new(10.0 * SEGMENT, 1.0).expect("a window");
        let mut sent = 0;
        for (k, n) in series.iter().take(10).enumerate() {
            assert_eq!(*n as f64 * SEGMENT, theory.window_bytes(k as u32), "{tcp}: round {k} of {series:?}");
            assert_eq!(sent as f64 * SEGMENT, theory.sent_bytes(k as u32));
            sent += n;
        }
        println!("slow start, {}: {:?}", tcp.replace('\n', ", "), &series[..10]);
    }
}

/// Slow start with an acknowledgement for every second segment: w segments cause ⌊w/2⌋ acknowledgements. An odd last
/// segment is acknowledged together with the first segment of the next round, which arrives before the timer of 200 ms.
/// The window therefore grows from w to ⌊3w/2⌋, and a round has one segment less if the previous round left one
/// unacknowledged. The geometric series 10·1.5^k is an upper bound. 9·1.5^k + 1 is a lower bound, because at most half
/// a segment is lost per round: Σ ½·1.5^i = 1.5^k − 1.
#[test]
fn slow_start_with_delayed_acknowledgements_grows_by_half() {
    let series = rounds(&path(3, "", "ack_every = 2"));
    let theory = SlowStart::new(10.0, 2.0).expect("a window");
    let (mut window, mut left_over) = (10, 0);
    for (k, n) in series.iter().take(16).enumerate() {
        assert_eq!(*n, window - left_over, "round {k} of {series:?}");
        let geometric = theory.window_bytes(k as u32);
        assert!((0.9 * geometric..=geometric).contains(&(window as f64)), "{window} for {geometric}");
        (window, left_over) = (window * 3 / 2, window % 2);
    }
    println!("slow start, delayed: {:?}", &series[..16]);
}

/// The transfer time of a file in slow start: one round trip for the handshake, one less than
/// [`SlowStart::round_trips`] for the data, and half a round trip for the last segment. Transmission times are added:
/// each round begins when the first acknowledgement of the previous round has arrived, and its packets are sent back to
/// back.
#[test]
fn a_file_takes_the_rounds_of_slow_start() {
    let time = |bytes: f64| bytes * 8.0 / 1e9;
    for segments in [1u32, 10, 11, 30, 31, 70, 71, 1000, 5000] {
        let text = path(5, "", "ack_every = 1").replace("100 Gbit/s", "1 Gbit/s");
        let text = text.replace(r#""bulk" }"#, &format!(r#""bulk", bytes = "{} B" }}"#, 1448 * segments));
        let measured = per_round(&text, 0, "transfer_time");
        let theory = SlowStart::new(10.0, 1.0).expect("a window");
        let n = theory.round_trips(f64::from(segments)).expect("a number of segments");
        let in_last_round = f64::from(segments) - theory.sent_bytes(n - 1);
        // SYN and SYN-ACK have 60 B, and acknowledgements 52 B. The last acknowledgement of the handshake is sent with
        // the first data.
        let handshake = RTT + 2.0 * time(60.0);
        let expected = handshake
            + f64::from(n - 1) * (RTT + time(1500.0) + time(52.0))
            + in_last_round * time(1500.0)
            + RTT / 2.0;
        println!("file of {segments}: {n} rounds, theory {expected:.9} s, measured {measured:.9} s");
        assert!((measured - expected).abs() < 1e-8, "{segments} segments: {measured} s for {expected}");
    }
}

/// The sawtooth of the window under periodic loss, computed exactly packet by packet.
///
/// One packet in n is lost. If the j-th of the W packets of a round is lost, the loss is detected in the next round
/// (RFC 6675, without PRR). This round has j − 1 packets sent upon acknowledgements of earlier packets, two upon the
/// first duplicates (RFC 3042), and the retransmission. No further packets may be sent, because j + 2 ≥ W/2 packets are
/// in flight. When the retransmission is acknowledged a round trip later, the window is h = W/2, and grows by one in
/// each round. With W = 2h the tooth repeats if
///
///   n = (W − j) + (j + 2) + [h + (h + 1) + … + (W − 1)] + j = 3h(h + 1)/2 + j + 2, for h − 2 ≤ j ≤ 2h − 3,
///
/// in h + 2 rounds that send j + 2, h, h + 1, …, 2h packets. Without the round in which the loss is detected, this is
/// the tooth of Mathis, Semke, Mahdavi and Ott (1997) in whole segments, with h + 1 rounds (`periodic_loss` of the
/// theory curves).
#[test]
fn the_sawtooth_is_the_sum_of_its_windows() {
    for (h, j) in [(25, 30), (81, 100), (258, 300)] {
        let n = 3 * h * (h + 1) / 2 + j + 2;
        let ideal = PeriodicLoss::new((n - j - 2) as u32, 1, u32::MAX).expect("a period").cycle();
        assert_eq!(ideal.sent * (h + 1), (n - j - 2) * ideal.rounds, "{ideal:?}");
        let tcp = format!("recovery = \"sack\"\nprr = false\nack_every = 1\ninitial_ssthresh = {h}");
        // After each tooth, an initial error of W is reduced by three quarters. The last six of fifteen teeth are
        // compared.
        let series = rounds(&path(15 * (h as u32 + 2) / 10, &periodic(n), &tcp));
        let tooth: Vec<u64> = [j + 2].into_iter().chain(h..=2 * h).collect();
        let teeth = &series[series.len() - 6 * tooth.len()..];
        let start = teeth.windows(2).position(|pair| pair == &tooth[..2]).expect("a tooth begins");
        let whole: Vec<&[u64]> = teeth[start..].chunks_exact(tooth.len()).collect();
        assert!(whole.len() >= 4 && whole.iter().all(|found| *found == &tooth[..]), "1 in {n}: {teeth:?}");
        let rate = tooth.iter().sum::<u64>() as f64 / tooth.len() as f64;
        println!("sawtooth, 1 in {n}: {} rounds, {rate:.3} packets each; measured the same", tooth.len());
        assert_eq!(tooth.iter().sum::<u64>(), n);
    }
}

/// Mathis, Semke, Mahdavi and Ott (1997): rate = MSS/RTT·C/√p, C = √(3/2b), under periodic loss.
///
/// b is the number of rounds in which the window grows by one segment. RFC 5681 has two methods: with byte counting
/// (section 3.1, recommended), b = 1 with and without delayed acknowledgements; with SMSS²/cwnd for each
/// acknowledgement (equation 3), b is the number of segments per acknowledgement. The law is valid for large windows.
/// Three effects reduce the rate: a tooth of W/2 rounds has an additional round in which the loss is detected, windows
/// are whole segments, and a delayed acknowledgement holds back half a segment on average. The reduction is 1.6 to 2.3
/// % at p = 10⁻⁴ and falls as √p. Variants with more than 2 % therefore start at p = 1/20000.
#[test]
fn light_periodic_loss_obeys_mathis() {
    let variants = [
        ("sack, b = 1", 1.0, 10_000, "recovery = \"sack\"\nack_every = 1"),
        ("rack, b = 1", 1.0, 10_000, "recovery = \"rack\"\nack_every = 1"),
        ("newreno, b = 1", 1.0, 20_000, "recovery = \"newreno\"\nack_every = 1"),
        ("sack, delayed, bytes counted, b = 1", 1.0, 20_000, "recovery = \"sack\""),
        ("sack, delayed, b = 2", 2.0, 10_000, "recovery = \"sack\"\navoidance = \"per-ack\""),
        ("newreno, delayed, b = 2", 2.0, 20_000, "recovery = \"newreno\"\navoidance = \"per-ack\""),
    ];
    for (name, b, least, tcp) in variants {
        for every in [10_000, 20_000, 100_000].into_iter().filter(|every| *every >= least) {
            let seconds = if every == 100_000 { 600 } else { 400 };
            let text = path(seconds, &periodic(every), &format!("initial_ssthresh = 64\n{tcp}"));
            let theory =
                mathis_bytes_per_s(SEGMENT, RTT, 1.0 / every as f64, b).expect("parameters in range");
            let measured = per_round(&text, 100, "goodput");
            within(&format!("Mathis, {name}, p = 1/{every}"), measured, theory, 0.02);
        }
    }
}

/// Padhye, Firoiu, Towsley and Kurose (1998), the full model (section 2.3, no window limit): packets sent per second.
///
/// Conditions: b = 2 with equation 3 of RFC 5681; T0 = 1 s, the minimum RTO, because the path would give less; and a
/// sender of 1998 without limited transmit, F-RTO and PRR, which avoid time-outs that are in the model. In the model,
/// all packets after a loss in the same round are lost; here each packet is lost independently.
#[test]
fn random_loss_obeys_padhye() {
    for recovery in ["newreno", "sack"] {
        for p in [0.001, 0.003, 0.01, 0.03, 0.1] {
            let tcp = format!(
                "recovery = \"{recovery}\"\navoidance = \"per-ack\"\nlimited_transmit = \"off\"\nfrto = false\n\
                 prr = false\ndata_retries = \"unbounded\"\ninitial_ssthresh = 64"
            );
            let line = format!("loss = {{ kind = \"bernoulli\", probability = {p} }}");
            let seconds = 4000.0;
            let text = path(seconds as u32 + 100, &line, &tcp);
            let theory = Padhye::new(1.0, RTT, 1.0, f64::INFINITY, 2.0).expect("parameters in range");
            let theory = theory.full_bytes_per_s(p).expect("a loss");
            let measured = per_round(&text, 100, "data_packets_sent") / seconds;
            within(&format!("Padhye, {recovery}, b = 2, T0 = 1 s, p = {p}"), measured, theory, 0.2);
        }
    }
}

/// CUBIC's response function (RFC 9438 section 5.1), C = 0.4, β = 0.7: mean window
/// (C·(3 + β)/(4·(1 − β)))^(1/4)·(RTT/p)^(3/4) segments, 187 and 1054 here.
///
/// It is the mean of a cycle that starts and ends at W_max. After a cycle from any W_max, the next one is W_max + C(T −
/// K)³, where T is the time in which n = 1/p packets are sent. The window has its plateau at T = K, so W_max changes
/// with the third power of the distance, and a cycle with another W_max stays there for thousands of losses. Therefore
/// the first loss occurs when slow start has reached W_max = 4/(3 + β) times the mean.
#[test]
fn cubic_has_the_window_of_its_response_function() {
    for (every, first, seconds) in [(10_000u32, 700, 1000), (100_000, 3000, 800)] {
        let theory =
            Cubic::default().window_segments(1.0 / f64::from(every), RTT).expect("parameters in range");
        let w_max = (theory * 4.0 / 3.7).round();
        for (name, tcp) in
            [("sack, no prr", "recovery = \"sack\"\nprr = false"), ("rack, prr", "recovery = \"rack\"")]
        {
            let line = format!("loss = {{ kind = \"periodic\", every = {every}, first = {first} }}");
            let tcp = format!(
                "congestion = \"cubic\"\nhystart = \"off\"\ncubic_fast_convergence = false\nack_every = 1\n\
                 initial_ssthresh = {w_max}\n{tcp}"
            );
            let measured = per_round(&path(seconds, &line, &tcp), 100, "goodput") * RTT / SEGMENT;
            within(&format!("CUBIC, {name}, p = 1/{every}"), measured, theory, 0.05);
        }
    }
}

/// The path fails permanently after ten seconds. Data are retransmitted without end.
fn dead(tcp: &str) -> Tape {
    let outage = "[[event]]\nat = \"10 s\"\nlink = \"line\"\ndo = { down_for = \"900 s\" }\n";
    tape(&(path(800, "", &format!("data_retries = \"unbounded\"\nsend_window = 100\n{tcp}")) + outage))
}

/// RTO at the last start of the retransmission timer before the outage, s, and the times of the expiries after this
/// start, s.
fn expiries(tape: &Tape) -> (f64, Vec<f64>) {
    let expiries = tape.series(PATH, &quantity::PATH_TIMEOUT);
    // The sender reports its state after each event. The last event before the first expiry (re)started the timer.
    let timer = tape.series(PATH, &quantity::RTO);
    let (started, rto) =
        *timer.iter().rfind(|(at, _)| *at < expiries[0].0).expect("a state before the outage");
    (rto, expiries.iter().map(|(at, _)| at.since(started).as_secs_f64()).collect())
}

/// RFC 6298 section 5: the n-th retransmission is sent RTO·(2ⁿ − 1) after the start of the timer, with intervals of at
/// most 60 s: 1, 3, 7, 15, 31, 63, 123, 183 … s, to the nanosecond.
#[test]
fn retransmissions_follow_the_doubling_timer() {
    let tape = dead("recovery = \"sack\"");
    let (rto, found) = expiries(&tape);
    assert_eq!(rto, 1.0);
    let theory = Backoff::new(rto, 60.0).expect("times");
    assert!(found.len() >= 15, "{found:?}");
    for (n, expiry) in (1..).zip(&found) {
        assert!((expiry - theory.elapsed_s(n)).abs() < 1e-9, "expiry {n} at {expiry} s");
    }
    println!("RTO series, theory and measured: {:?}", &found[..9]);
    // After the outage, packets are sent at the expiries only.
    let first = tape.series(PATH, &quantity::PATH_TIMEOUT)[0].0;
    let sent = tape.series(FLOW, &quantity::DATA_PACKETS_SENT);
    let moments: Vec<Instant> =
        sent.iter().filter(|(at, n)| *at >= first && *n > 0.0).map(|(at, _)| *at).collect();
    let expected: Vec<Instant> = tape
        .series(PATH, &quantity::PATH_TIMEOUT)
        .iter()
        .map(|(at, _)| Instant::ZERO + at.since(Instant::ZERO).round_up(Duration::from_millis(100)))
        .collect();
    assert_eq!(moments, expected);
}

/// RFC 8985 section 7.3: a tail loss probe is sent two round trips after the last acknowledgement, and restarts the
/// timer. The series after it is the same.
#[test]
fn the_doubling_timer_starts_with_the_tail_loss_probe() {
    let tape = dead("recovery = \"rack\"");
    let (rto, found) = expiries(&tape);
    let theory = Backoff::new(rto, 60.0).expect("times");
    for (n, expiry) in (1..).zip(&found) {
        assert!((expiry - theory.elapsed_s(n)).abs() < 1e-9, "expiry {n} at {expiry} s");
    }
    let probe = tape.notes().iter().find(|note| note.text.contains("tail loss probe")).expect("a probe").at;
    let first = tape.series(PATH, &quantity::PATH_TIMEOUT)[0].0;
    assert_eq!(first.since(probe), Duration::from_secs(1));
}

/// The same series for the SYN (RFC 6298 section 5.7, RFC 9293 section 3.8.3): 0, 1, 3, 7, 15, 31, 63, 123 s. After
/// seven retransmissions, the opening fails at the eighth expiry, at 183 s.
#[test]
fn a_syn_without_answer_follows_the_doubling_timer() {
    let outage = "[[event]]\nat = \"0 s\"\nlink = \"line\"\ndo = { down_for = \"900 s\" }\n";
    let tape = tape(&(path(300, "", "") + outage));
    let sent = tape.series(FLOW, &quantity::PACKETS_SENT);
    let seconds: Vec<u64> =
        sent.iter().filter(|(_, n)| *n > 0.0).map(|(at, _)| at.as_nanos() / 1_000_000_000).collect();
    let theory = Backoff::new(1.0, 60.0).expect("times");
    let expected: Vec<u64> = (0..=7).map(|n| theory.elapsed_s(n) as u64).collect();
    assert_eq!(seconds, expected);
    let closed = tape.series(FLOW, &quantity::CLOSED);
    assert_eq!(closed, [(Instant::ZERO + Duration::from_secs_f64(theory.elapsed_s(8)), 2.0)]);
}

/// Objects of 100 KB every 100 ms over a path whose round-trip time grows from 50 to 230 ms after half a minute, with
/// the profile `linux`. A Linux kernel needed 1570 ms for an object between 31 and 35 s, because the clock of CUBIC
/// stops while the application is the limit. If the clock did not stop, the window would jump, and an object would take
/// 194 ms.
#[test]
fn an_application_limited_cubic_is_as_slow_as_that_of_the_kernel() {
    let text = ExperimentText::new("application-limited", "36 s")
        .nodes("a b")
        .fifo("line", "a b", ("100 Mbit/s", "25 ms", 10000), "drop = [80], reverse = { drop = [] }")
        .table("transport.tcp", r#"kind = "tcp", profile = "linux""#)
        .flow(
            "web",
            "a b",
            r#"transport = "tcp",
            application = { kind = "web", interarrival = { constant = "100 ms" },
            size = { constant = "100 KB" } }"#,
        )
        .table("[event]", r#"at = "30 s", link = "line", do = { delay = "115 ms" }"#)
        .table("response.time", r#"of = "flow.web", metric = "object_time", after = "31 s", until = "35 s""#)
        .build();
    let seconds = simulate(&text, None, 1, |_| true)[0].responses["time"];
    assert!((seconds - 1.57).abs() < 0.25, "{seconds} s");
}
