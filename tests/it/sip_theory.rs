//! SIP users in virtual time compared with computed values: link delays, the timers of RFC 3261 under loss, and a
//! server with a known service time.

use netrig_stats::interval::{Interval, student};
use netrig_test_support::ExperimentText;
use netrig_tests::{Measured, record, simulate};

/// A tester and a server with a line of 10 ms between them.
fn network(line: &str, server: &str, flow: &str, responses: &[&str], duration: &str) -> String {
    let responses: String = responses
        .iter()
        .map(|metric| format!("[response.{metric}]\nof = \"flow.users\"\nmetric = \"{metric}\"\n"))
        .collect();
    ExperimentText::new("sip", duration)
        .nodes("tester")
        .table("node.server", server)
        .fifo("line", "tester server", ("1 Gbit/s", "10 ms", 10000), line)
        .flow("users", "tester server", flow)
        .text(&responses)
        .build()
}

fn mean(runs: &[Measured], response: &str) -> f64 {
    runs.iter().map(|run| run.responses[response]).sum::<f64>() / runs.len() as f64
}

/// Probability that none of this number of transmissions is answered, if each is answered independently with
/// probability `q`.
fn unanswered(q: f64, many: usize) -> f64 {
    std::iter::repeat_n(1.0 - q, many).product()
}

fn half(interval: &Interval) -> f64 {
    interval.half_width().expect("there are several runs")
}

/// Whether a delay is the round-trip time of the line plus the transmission times of two messages, less than 16 µs each
/// for 2 KB at 1 Gbit/s.
fn is_round_trip(delay: f64) -> bool {
    (0.020..0.020_032).contains(&delay)
}

#[test]
fn registrations_take_a_round_trip() {
    let flow = r#"
stop = "10 s"
application = { kind = "sip", scenario = "register", interval = "10 ms", server = { role = "registrar" } }"#;
    let responses =
        ["registration_success", "registration_delay", "registrations_per_second", "attempts_begun"];
    let runs = simulate(&network("", "", flow, &responses, "12 s"), None, 2, |_| true);
    for run in &runs {
        assert_eq!(run.responses["registration_success"], 1.0);
        assert!(is_round_trip(run.responses["registration_delay"]), "{:?}", run.responses);
        assert_eq!(run.responses["registrations_per_second"] * 10.0, run.responses["attempts_begun"]);
    }
    // The mean of the Poisson process is 1000. The tolerance is five standard deviations. Two replications have
    // different numbers.
    assert!((mean(&runs, "attempts_begun") - 1000.0).abs() < 5.0 * 1000_f64.sqrt());
    assert_ne!(runs[0].responses["attempts_begun"], runs[1].responses["attempts_begun"]);
}

/// The challenge takes an additional round trip. Users that were registered before the load do nothing.
#[test]
fn a_challenge_is_a_round_trip_more() {
    let flow = r#"
start = "3 s"
application = { kind = "sip", scenario = "re-register", rate = 50, users = 200, population = 300, password = "zanzibar", server = { role = "registrar", digest = "sha-256" } }"#;
    let responses = ["registration_success", "registration_delay", "attempts_begun"];
    let runs = simulate(&network("", "", flow, &responses, "13 s"), None, 1, |_| true);
    let delay = mean(&runs, "registration_delay");
    assert!((0.040..0.040_064).contains(&delay), "{delay}");
    assert!((mean(&runs, "attempts_begun") - 500.0).abs() < 5.0 * 500_f64.sqrt());
    assert!(mean(&runs, "registration_success") > 0.99);
}

/// Calls through a proxy whose users belong to the tester: the 180 arrives after two round trips, and the 200 after 300
/// ms of ringing.
#[test]
fn calls_go_through_a_proxy() {
    for record_route in [false, true] {
        let flow = format!(
            r#"
start = "2 s"
stop = "12 s"
application = {{ kind = "sip", scenario = "call", arrivals = "constant", rate = 20, users = 40, callee = "own", ring = "300 ms", hold = "1 s", server = {{ role = "proxy", record_route = {record_route} }} }}"#
        );
        let responses = [
            "call_success",
            "connection_delay",
            "session_request_delay",
            "answer_signal_delay",
            "disconnect_delay",
            "session_duration",
            "calls_per_second",
            "session_establishment_ratio",
            "session_completion_ratio",
            "retransmissions_per_attempt",
        ];
        let runs = simulate(&network("", "", &flow, &responses, "20 s"), None, 1, |_| true);
        let of = |response: &str| mean(&runs, response);
        for ratio in ["call_success", "session_establishment_ratio", "session_completion_ratio"] {
            assert_eq!(of(ratio), 1.0, "{ratio}");
        }
        assert_eq!((of("calls_per_second"), of("retransmissions_per_attempt")), (20.0, 0.0));
        assert!((of("connection_delay") - 0.040).abs() < 1e-4, "{}", of("connection_delay"));
        assert_eq!(of("connection_delay"), of("session_request_delay"));
        assert!((of("session_duration") - 1.0).abs() < 1e-3, "{}", of("session_duration"));
        // Without Record-Route, the two sides, which are at the same node, send requests directly to each other.
        let within = if record_route { 0.040 } else { 0.0 };
        assert!((of("disconnect_delay") - within).abs() < 1e-4, "{}", of("disconnect_delay"));
        // The 200 passes the server. The ACK passes it too, or arrives immediately.
        let signal = 0.020 + if record_route { 0.020 } else { 0.0 };
        assert!((of("answer_signal_delay") - signal).abs() < 1e-4, "{}", of("answer_signal_delay"));
    }
}

#[test]
fn callers_are_sent_elsewhere() {
    let flow = r#"
start = "2 s"
stop = "7 s"
application = { kind = "sip", scenario = "redirect", rate = 20, users = 40, callee = "own", server = { role = "redirect" } }"#;
    let responses = ["redirect_success", "redirect_delay", "redirects_per_second"];
    let runs = simulate(&network("", "", flow, &responses, "9 s"), None, 1, |_| true);
    assert_eq!(mean(&runs, "redirect_success"), 1.0);
    assert!(is_round_trip(mean(&runs, "redirect_delay")));
}

/// REGISTER is sent at 0, 0.5, 1.5, 3.5 s and then every 4 s until 31.5 s (timer E, RFC 3261 section 17.1.2.2): eleven
/// times before timer F expires at 32 s. With loss p in each direction, a transmission succeeds with probability q = (1
/// − p)², independently of the others, because the server answers each of them. The registration fails with probability
/// (1 − q)¹¹. Its delay is that of the first successful transmission.
#[test]
fn registrations_under_loss_are_as_computed() {
    const SENT: [f64; 11] = [0.0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5, 31.5];
    for p in [0.1_f64, 0.5] {
        let line = format!(r#"loss = {{ kind = "bernoulli", probability = {p} }}"#);
        let flow = r#"
stop = "100 s"
application = { kind = "sip", scenario = "register", rate = 40, users = 6000, server = { role = "registrar" } }"#;
        let responses = ["registration_success", "registration_delay", "retransmissions_per_attempt"];
        let text = network(&line, "", flow, &responses, "140 s");
        let runs = simulate(&text, None, 10, |_| true);
        let q = (1.0 - p) * (1.0 - p);
        let lost = unanswered(q, SENT.len());
        let (mut delay, mut again) = (0.0, 0.0);
        for (number, at) in (0..).zip(SENT) {
            let first = q * unanswered(q, number);
            delay += first * (at + 0.020) / (1.0 - lost);
            again += number as f64 * first;
        }
        again += lost * (SENT.len() - 1) as f64;
        let theory = [
            ("registration_success", 1.0 - lost),
            ("registration_delay", delay),
            ("retransmissions_per_attempt", again),
        ];
        for (response, theory) in theory {
            let values: Vec<f64> = runs.iter().map(|run| run.responses[response]).collect();
            let interval = student(&values, 0.999).unwrap();
            assert!(
                (interval.estimate - theory).abs() <= half(&interval).max(2e-5),
                "p = {p}, {response}: theory {theory}, measured {interval:?}"
            );
        }
    }
}

/// A server that takes 5 ms for each packet and gets 100 Poisson requests per second is M/D/1 with ρ = 0.5: a request
/// waits ρ/(2(1 − ρ)) · 5 ms = 2.5 ms and is served in 5 ms.
#[test]
fn a_server_that_takes_its_time_is_md1() {
    let flow = r#"
stop = "200 s"
application = { kind = "sip", scenario = "options", rate = 100, server = { role = "uas" } }"#;
    let server = r#"receive = { per_packet = "5 ms", queue = 100000 }"#;
    let runs = simulate(&network("", server, flow, &["options_delay"], "201 s"), None, 10, |_| true);
    let values: Vec<f64> = runs.iter().map(|run| run.responses["options_delay"]).collect();
    let interval = student(&values, 0.99).unwrap();
    // The transmission of a message on the line takes a few microseconds.
    let theory = 0.020 + 0.0075 + 0.000_005;
    assert!((interval.estimate - theory).abs() <= half(&interval) + 5e-6, "{interval:?}");
}

/// Above its capacity, each request is retransmitted before it is answered, and the throughput of the server falls
/// below that of a lower load: the overload of RFC 5390.
#[test]
fn overload_makes_retransmissions() {
    let carried = |rate: u32| {
        let flow = format!(
            r#"
stop = "60 s"
application = {{ kind = "sip", scenario = "options", rate = {rate}, most_calls = 1000000, users = 100000, server = {{ role = "uas" }} }}"#
        );
        let server = r#"receive = { per_packet = "5 ms", queue = 1000 }"#;
        let responses = ["attempts_per_second", "retransmissions_per_attempt"];
        let runs = simulate(&network("", server, &flow, &responses, "100 s"), None, 1, |_| true);
        (mean(&runs, "attempts_per_second"), mean(&runs, "retransmissions_per_attempt"))
    };
    let (below, above) = (carried(150), carried(400));
    assert!((below.0 - 150.0).abs() < 5.0 && below.1 < 0.01, "{below:?}");
    assert!(above.0 < 150.0 && above.1 > 2.0, "{above:?}");
}

/// The same file and seed give the same samples.
#[test]
fn the_same_seed_is_the_same_run() {
    let flow = r#"
start = "10 s"
application = { kind = "sip", scenario = "call", rate = 20, users = 40, callee = "own", ring = "50 ms", server = { role = "proxy", record_route = true } }"#;
    let line = r#"loss = { kind = "bernoulli", probability = "5 %" }"#;
    let text = network(line, "", flow, &["call_success"], "20 s");
    let both = [record(&text), record(&text)].map(|runs| format!("{:?}", runs[0].1.samples()));
    assert!(both[0].contains("sip_connection_delay"));
    assert_eq!(both[0], both[1]);
}
