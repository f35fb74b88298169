//! Lines with traffic conditioning in whole experiments, compared with queueing theory and with values computed from
//! RFCs and ATM cells.

use netrig_stats::interval::student;
use netrig_test_support::ExperimentText;
use netrig_tests::{Measured, simulate};

/// Checks that the theoretical value of each response is in the 99 % confidence interval over these runs, whose
/// half-width is at most 1 %.
fn expect<const N: usize>(runs: &[Measured], theory: [(&str, f64); N]) {
    for (response, theory) in theory {
        let values: Vec<f64> = runs.iter().map(|run| run.responses[response]).collect();
        let interval = student(&values, 0.99).expect("several runs make an interval");
        let half = interval.relative_half_width().expect("an interval has a width");
        println!("{response}: theory {theory:.7}, measured {:.7} ± {:.2} %", interval.estimate, 100.0 * half);
        assert!(half <= 0.01, "{response}: the interval is ±{:.2} %: {interval:?}", 100.0 * half);
        assert!(interval.contains(theory), "{response}: theory says {theory}, not in {interval:?}");
    }
}

/// Three Poisson streams with different ports into a line that sends 1000 B in 8 ms.
fn three_streams(queue: &str, sizes: [&str; 3], seconds: u32) -> String {
    let flow = |name: &str, interarrival: &str, size: &str| {
        format!(
            r#"
[flow.{name}]
from = "source"
to = "sink"
transport = "packets"
application = {{ kind = "poisson", interarrival = "{interarrival}", size = {{ {size} }} }}
[response.{name}]
of = "link.line.class.{name}"
metric = "waiting_time"
[response.{name}-queue]
of = "link.line.class.{name}"
metric = "queue_length"
"#
        )
    };
    let flows = flow("first", "40 ms", sizes[0])
        + &flow("second", "32 ms", sizes[1])
        + &flow("third", "32 ms", sizes[2]);
    ExperimentText::new("classes", &format!("{seconds} s"))
        .with(r#"warm_up = "200 s", sample_every = "100 s""#)
        .nodes("source sink")
        .link(
            "line",
            "source sink",
            &format!(
                r#"rate = "1 Mbit/s",
            classes = [{{ name = "first", match = {{ dst_port = 5001 }} }}, {{ name = "second",
            match = {{ src = "source", dst = "sink", protocol = "udp", dst_port = "5002-5002" }} }},
            {{ name = "third" }}, ], queue = {{ {queue} }}"#
            ),
        )
        .table("transport.packets", r#"kind = "udp", headers = "none""#)
        .response("all", "link.line", "waiting_time")
        .text(&flows)
        .build()
}

/// The packet sizes of the streams, all with a mean of 1000 B.
const SIZES: [&str; 3] =
    [r#"constant = "1 KB""#, r#"exponential = "1 KB""#, r#"uniform = { min = "500 B", max = "1500 B" }"#];

/// The loads λE[x] and the mean residual work λE[x²]/2 (in s) of the three streams. E[x²] is twice the square of the
/// mean for an exponential time, and 13/12 of it for a time uniform between half and one and a half of the mean.
const STREAMS: [(f64, f64); 3] = [
    (0.2, 25.0 * 0.008 * 0.008 / 2.0),
    (0.25, 31.25 * 0.008 * 0.008),
    (0.25, 31.25 * 0.008 * 0.008 * 13.0 / 24.0),
];

/// Cobham (1954): a packet of class k waits W₀/((1 − σₖ₋₁)(1 − σₖ)), where W₀ is the mean residual work and σₖ is the
/// load of the classes 1 to k.
fn cobham() -> [f64; 3] {
    let residual: f64 = STREAMS.iter().map(|(_, residual)| residual).sum();
    let mut sigma = 0.0;
    STREAMS.map(|(load, _)| {
        let before = sigma;
        sigma += load;
        residual / ((1.0 - before) * (1.0 - sigma))
    })
}

#[test]
fn strict_priority_waits_as_cobham_says() {
    let runs =
        simulate(&three_streams(r#"kind = "priority", packets = 100000"#, SIZES, 16_000), None, 10, |_| true);
    let [first, second, third] = cobham();
    expect(&runs, [("first", first), ("second", second), ("third", third)]);
    // The queue lengths follow from Little's law, λW, for each class.
    expect(
        &runs,
        [("first-queue", 25.0 * first), ("second-queue", 31.25 * second), ("third-queue", 31.25 * third)],
    );
}

/// In a common queue all classes wait W₀/(1 − ρ), because Poisson arrivals see time averages (Wolff 1982).
#[test]
fn classes_that_share_a_queue_wait_alike() {
    let runs =
        simulate(&three_streams(r#"kind = "fifo", unlimited = true"#, SIZES, 12_000), None, 10, |_| true);
    let residual: f64 = STREAMS.iter().map(|(_, residual)| residual).sum();
    let load: f64 = STREAMS.iter().map(|(load, _)| load).sum();
    let fifo = residual / (1.0 - load);
    expect(&runs, [("all", fifo), ("first", fifo), ("second", fifo), ("third", fifo)]);
}

/// Kleinrock's conservation law (1965): independently of the order of service, the waiting times of all classes,
/// weighted by their loads, add up to ρW₀/(1 − ρ). The law requires that the scheduler does not use packet lengths.
/// Here all packets have the same length.
#[test]
fn what_one_class_gains_the_others_wait() {
    let sizes = [r#"constant = "1 KB""#; 3];
    let load: f64 = STREAMS.iter().map(|(load, _)| load).sum();
    let conserved = load * (load * 0.008 / 2.0) / (1.0 - load);
    for kind in ["priority", "class-wfq", "drr", "wfq"] {
        let queue = format!(r#"kind = "{kind}", packets = 100000"#);
        let mut runs = simulate(&three_streams(&queue, sizes, 6_000), None, 10, |_| true);
        for run in &mut runs {
            let weighed = ["first", "second", "third"].iter().zip(STREAMS);
            let sum = weighed.map(|(class, (load, _))| load * run.responses[*class]).sum();
            run.responses.insert(kind.to_owned(), sum);
        }
        expect(&runs, [(kind, conserved)]);
    }
}

/// A host sends packets of 512 B to another host over the line of a router.
fn through_a_router(line: &str, kind: &str, headers: &str, offered: &str, seconds: u32) -> String {
    let size = if kind == "cbr" { r#""512 B""# } else { r#"{ constant = "512 B" }"# };
    ExperimentText::new("policing", &format!("{seconds} s"))
        .with(r#"warm_up = "1 s", sample_every = "1 s""#)
        .table("factors", &format!("offered = {offered}"))
        .nodes("Qs R1 Qr")
        .fifo("access", "Qs R1", ("1 Gbit/s", "0 s", 100000), "")
        .link("line", "R1 Qr", &format!(r#"rate = "25 Mbit/s", {line}"#))
        .table("transport.packets", &format!(r#"kind = "udp", headers = "{headers}""#))
        .flow(
            "premium",
            "Qs Qr",
            &format!(
                r#"transport = "packets",
            application = {{ kind = "{kind}", rate = "${{offered}}", size = {size} }}"#
            ),
        )
        .table("response.goodput", r#"of = "flow.premium", metric = "goodput", unit = "Mbit/s""#)
        .response("loss", "flow.premium", "datagram_loss")
        .response("policed", "link.line", "drops_policed")
        .build()
}

/// The offered rate of IP packets in a run, Mbit/s.
fn offered(run: &Measured) -> f64 {
    run.levels["offered"].trim_end_matches(" Mbit/s").parse().expect("a rate")
}

const RATES: &str =
    r#"["3 Mbit/s", "6 Mbit/s", "8.9 Mbit/s", "9 Mbit/s", "9.1 Mbit/s", "12 Mbit/s", "20 Mbit/s"]"#;

/// The received rate of IP packets, Mbit/s. A packet has 540 B, of which 512 B are payload.
fn passed(run: &Measured) -> f64 {
    run.responses["goodput"] * 540.0 / 512.0
}

/// The profile of premium traffic: 9 Mbit/s of IP packets with this burst size. `red` is the action for excess packets.
fn profile(burst: &str, red: &str) -> String {
    format!(
        r#"
queue = {{ kind = "priority", packets = 64 }}
classes = [{{ phb = "ef" }}, {{ phb = "be" }}]
condition = [
  {{ match = {{ src = "Qs", protocol = "udp" }}, meter = {{ kind = "token-bucket", rate = "9 Mbit/s", burst = "{burst}" }}, green = "ef", red = "{red}" }},
]
"#
    )
}

/// The excess is dropped: at a constant rate of x Mbit/s, min(x, 9) Mbit/s pass. Both rates are counted at the layer of
/// the profile, IP packets. The bucket has room for ten packets.
#[test]
fn a_policer_lets_nine_megabits_pass() {
    let text = through_a_router(&profile("5400 B", "drop"), "cbr", "udp", RATES, 21);
    for run in simulate(&text, None, 1, |_| true) {
        let (x, passed) = (offered(&run), passed(&run));
        println!("{x} Mbit/s offered, {passed:.4} passed");
        assert!((passed / x.min(9.0) - 1.0).abs() < 0.01, "of {x} Mbit/s {passed} passed");
    }
}

/// The excess loses its mark and continues as best effort. As long as the line is not full, all of it arrives.
#[test]
fn a_remarker_lets_all_pass_while_there_is_room() {
    let text = through_a_router(&profile("5400 B", "be"), "cbr", "udp", RATES, 21);
    for run in simulate(&text, None, 1, |_| true) {
        let (x, passed) = (offered(&run), passed(&run));
        assert!((passed / x - 1.0).abs() < 0.001, "of {x} Mbit/s {passed} passed");
        assert_eq!(run.responses["policed"], 0.0);
    }
}

/// Loss of M/D/1/K at a load of 1, from the Markov chain that is embedded at departures (Kleinrock, Queueing Systems I,
/// section 5.3; the arrivals in a service are Poisson of mean 1): 1 − 1/(π₀ + 1).
fn md1k_loss(places: usize) -> f64 {
    let mut arrivals = vec![1.0 / std::f64::consts::E];
    for k in 1..=places {
        arrivals.push(arrivals[k - 1] / k as f64);
    }
    let mut states = vec![1.0];
    for n in 0..places - 1 {
        let reached: f64 = (1..=n).map(|j| states[j] * arrivals[n - j + 1]).sum();
        states.push((states[n] - reached - states[0] * arrivals[n]) / arrivals[0]);
    }
    let empty = 1.0 / states.iter().sum::<f64>();
    1.0 - 1.0 / (empty + 1.0)
}

/// Poisson traffic at exactly the rate of its profile. A token bucket of K packets corresponds to a queue with K places
/// that is served at the rate of the profile: missing tokens correspond to unfinished work, and a packet conforms if at
/// most K − 1 places are taken. The loss is therefore that of M/D/1/K.
#[test]
fn poisson_traffic_loses_what_the_token_bucket_model_says() {
    for (packets, passes) in [(10, 0.949), (25, 0.980), (100, 0.995)] {
        let theory = md1k_loss(packets);
        assert!((1.0 - theory - passes).abs() < 0.0005, "{packets}: {theory}");
        let line = profile(&format!("{} B", 512 * packets), "drop");
        let text = through_a_router(&line, "poisson", "none", r#""9 Mbit/s""#, 601);
        let runs = simulate(&text, None, 10, |_| true);
        let losses: Vec<f64> = runs.iter().map(|run| run.responses["loss"]).collect();
        let interval = student(&losses, 0.99).expect("ten runs make an interval");
        let goodput = runs.iter().map(|run| run.responses["goodput"]).sum::<f64>() / 10.0;
        println!("{packets} packets: theory {theory:.5}, lost {interval:?}, {goodput:.4} Mbit/s passed");
        assert!(interval.contains(theory), "{packets}: theory says {theory}, not in {interval:?}");
        assert!((goodput / (9.0 * passes) - 1.0).abs() < 0.01, "{packets}: {goodput} Mbit/s passed");
    }
}

/// 512 B of payload, 28 B of headers, 8 B of LLC/SNAP and 8 B of AAL5 trailer fill 12 cells, which are 636 B on the
/// line. A line of 25 Mbit/s is therefore full at 25 × 512/636 = 20.126 Mbit/s of payload.
#[test]
fn cells_take_a_fifth_of_the_line() {
    let line = r#"
framing = "atm-llc"
queue = { kind = "fifo", packets = 64 }
"#;
    let rates = r#"["15 Mbit/s", "20 Mbit/s", "21.2 Mbit/s", "21.3 Mbit/s", "23 Mbit/s", "25 Mbit/s"]"#;
    let knee = 25.0 * 512.0 / 636.0;
    for run in simulate(&through_a_router(line, "cbr", "udp", rates, 21), None, 1, |_| true) {
        let (x, passed) = (offered(&run) * 512.0 / 540.0, run.responses["goodput"]);
        println!("{x:.3} Mbit/s of payload offered, {passed:.4} passed, the knee at {knee:.4}");
        assert!((passed / x.min(knee) - 1.0).abs() < 0.001, "of {x} Mbit/s {passed} passed");
        assert_eq!(run.responses["loss"] > 0.0, x > knee, "{x} Mbit/s");
    }
}

/// RFC 2698 section 3: in a stream without pauses, the rate of green packets is CIR, the rate of yellow packets is PIR
/// − CIR, and all other packets are red. The deviation is at most the contents of the buckets. Each flow is marked by
/// its host and matched by a separate rule.
#[test]
fn rules_count_what_their_meters_find() {
    let text = ExperimentText::new("colours", "100 s")
        .nodes("a b")
        .fifo("line", "a b", ("100 Mbit/s", "0 s", 100), "")
        .table(
            "[link.line.condition]",
            r#"match = { dscp = "af11" },
            meter = { kind = "trtcm", cir = "1 Mbit/s", cbs = "5 KB", pir = "2.5 Mbit/s",
            pbs = "5 KB" }, green = "af11", yellow = "af12", red = "drop""#,
        )
        .table("[link.line.condition]", r#"name = "voice", match = { dscp = "ef" }"#)
        .flow(
            "video",
            "a b",
            r#"dscp = "AF11", application = { kind = "cbr", rate = "4 Mbit/s", size = "472 B" }"#,
        )
        .flow(
            "voice",
            "a b",
            r#"dscp = 46, application = { kind = "cbr", rate = "80 kbit/s", size = "172 B" }"#,
        )
        .response("green", "link.line.rule.1", "rate_green")
        .response("yellow", "link.line.rule.1", "rate_yellow")
        .response("red", "link.line.rule.1", "rate_red")
        .response("share", "link.line.rule.1", "share_green")
        .response("dropped", "link.line.rule.1", "drops_policed")
        .response("reds", "link.line.rule.1", "packets_red")
        .response("voice", "link.line.rule.voice", "packets_green")
        .response("beyond", "link.line.rule.voice", "packets_red")
        .build();
    let runs = simulate(&text, None, 1, |_| true);
    let found = &runs[0].responses;
    // 5 KB in 100 s are 400 bit/s, and a packet of 500 B is 40 bit/s.
    for (colour, theory) in [("green", 1.0e6), ("yellow", 1.5e6), ("red", 1.5e6)] {
        assert!((found[colour] - theory).abs() <= 900.0, "{colour}: {} of {theory} bit/s", found[colour]);
    }
    assert!((found["share"] - 0.25).abs() < 0.001, "{}", found["share"]);
    assert_eq!(found["dropped"], found["reds"]);
    // The voice flow sends IP packets of 200 B every 20 ms.
    assert!((found["voice"] - 5000.0).abs() <= 1.0, "{}", found["voice"]);
    assert_eq!(found["beyond"], 0.0);
}
