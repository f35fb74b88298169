//! Simulated queues compared with their closed forms. With fixed seeds, the theoretical value is in the 99 % confidence
//! interval, whose half-width is at most 1 %.

use netrig_stats::interval::{Interval, student};
use netrig_stats::theory::queue::{EqualLines, Mg1, Mm1, Mm1k, Tandem};
use netrig_test_support::ExperimentText;
use netrig_tests::simulate;

/// A line that sends 1000 B in 8 ms, with Poisson arrivals.
fn queue(interarrival: &str, size: &str, buffer: &str, seconds: u32) -> String {
    ExperimentText::new("queue", &format!("{seconds} s"))
        .with(r#"warm_up = "200 s", sample_every = "100 s""#)
        .nodes("source sink")
        .link(
            "line",
            "source sink",
            &format!(r#"rate = "1 Mbit/s", delay = "0 s", queue = {{ kind = "fifo", {buffer} }}"#),
        )
        .table("transport.packets", r#"kind = "udp", headers = "none""#)
        .flow(
            "arrivals",
            "source sink",
            &format!(
                r#"transport = "packets",
            application = {{ kind = "poisson", interarrival = "{interarrival}",
            size = {{ {size} }} }}"#
            ),
        )
        .response("waiting", "link.line", "waiting_time")
        .response("queue", "link.line", "queue_length")
        .response("utilisation", "link.line", "utilisation")
        .response("loss", "link.line", "loss_ratio")
        .build()
}

/// Checks that the theoretical value of each response is in the 99 % confidence interval over ten runs, whose
/// half-width is at most 1 %. Returns the intervals.
fn expect<const N: usize>(text: &str, theory: [(&str, f64); N]) -> [Interval; N] {
    let runs = simulate(text, None, 10, |_| true);
    theory.map(|(response, theory)| {
        let values: Vec<f64> = runs.iter().map(|run| run.responses[response]).collect();
        let interval = student(&values, 0.99).expect("ten runs make an interval");
        let half = interval.relative_half_width().expect("an interval has a width");
        println!("{response}: theory {theory:.7}, measured {:.7} ± {:.2} %", interval.estimate, 100.0 * half);
        assert!(half <= 0.01, "{response}: the interval is ±{:.2} %: {interval:?}", 100.0 * half);
        assert!(interval.contains(theory), "{response}: theory says {theory}, not in {interval:?}");
        interval
    })
}

const UNLIMITED: &str = "unlimited = true";

/// M/M/1 at a load of 0.5: W = ρ/(μ − λ) = 0.5/62.5 = 8 ms.
#[test]
fn mm1_waits_as_long_as_theory_says() {
    let text = queue("16 ms", r#"exponential = "1 KB""#, UNLIMITED, 10_000);
    expect(&text, [("waiting", Mm1::new(62.5, 125.0).expect("a load below 1").waiting_s())]);
}

/// The same queue's mean length, by Little's law λW = 62.5 × 0.008 = 0.5, and its load.
#[test]
fn mm1_is_as_long_as_littles_law_says() {
    let text = queue("16 ms", r#"exponential = "1 KB""#, UNLIMITED, 10_000);
    expect(&text, [("queue", 0.5), ("utilisation", 0.5)]);
}

/// M/D/1 at a load of 0.5: the waiting time is 4 ms, half of that of M/M/1.
#[test]
fn md1_waits_half_as_long() {
    let text = queue("16 ms", r#"constant = "1 KB""#, UNLIMITED, 6_000);
    expect(&text, [("waiting", Mg1::constant(62.5, 0.008).expect("a load below 1").waiting_s())]);
}

/// M/G/1, Pollaczek and Khinchine: sizes uniform in 500..1500 B, E[x²] = 8²(1 + 1/12) ms², λ = 62.5/s:
/// W = λE[x²]/(2(1 − ρ)) = 4.333 ms.
#[test]
fn mg1_obeys_pollaczek_and_khinchine() {
    let text = queue("16 ms", r#"uniform = { min = "500 B", max = "1500 B" }"#, UNLIMITED, 6_000);
    let scv = 1.0 / 12.0;
    expect(&text, [("waiting", Mg1::new(62.5, 0.008, scv).expect("a load below 1").waiting_s())]);
}

/// M/M/1/K at a load of 0.8 with K = 5 places including the server: P = (1 − ρ)ρ⁵/(1 − ρ⁶).
#[test]
fn mm1k_loses_what_theory_says() {
    let text = queue("10 ms", r#"exponential = "1 KB""#, "packets = 4", 10_000);
    expect(&text, [("loss", Mm1k::new(100.0, 125.0, 5).expect("five places").loss())]);
}

/// Two lines in a row without delay. Both have this `service`.
fn tandem(rates: [&str; 2], service: &str, size: &str, seconds: u32) -> String {
    let line = |rate: &str| {
        format!(r#"rate = "{rate}", service = "{service}", queue = {{ kind = "fifo", unlimited = true }}"#)
    };
    ExperimentText::new("tandem", &format!("{seconds} s"))
        .with(r#"warm_up = "200 s", sample_every = "100 s""#)
        .nodes("source router sink")
        .link("first", "source router", &line(rates[0]))
        .link("second", "router sink", &line(rates[1]))
        .table("transport.packets", r#"kind = "udp", headers = "none""#)
        .flow(
            "arrivals",
            "source sink",
            &format!(
                r#"transport = "packets",
            application = {{ kind = "poisson", interarrival = "16 ms", size = {{ {size} }} }}"#
            ),
        )
        .response("first", "link.first", "waiting_time")
        .response("second", "link.second", "waiting_time")
        .response("through", "flow.arrivals", "one_way_delay")
        .build()
}

/// Tandem of M/M/1: packets of 1000 B whose service times are drawn independently on each line (Kleinrock's
/// independence assumption), with means of 8 ms and 10 ms. The departures of the first queue are Poisson (Burke 1956),
/// so the second is also an M/M/1 (Jackson 1957): loads of 0.5 and 0.625, sojourn times of 1/(125 − 62.5) and 1/(100 −
/// 62.5) s.
#[test]
fn tandem_of_mm1_is_mm1_twice() {
    let text = tandem(["1 Mbit/s", "0.8 Mbit/s"], "exponential", r#"constant = "1 KB""#, 16_000);
    let [first, second] = [125.0, 100.0].map(|services| Mm1::new(62.5, services).expect("a load below 1"));
    let through = Tandem::new(62.5, &[125.0, 100.0]).expect("loads below 1").sojourn_s();
    expect(&text, [("first", first.waiting_s()), ("second", second.waiting_s()), ("through", through)]);
}

/// Packets keep their sizes over two equal lines. The first queue is M/M/1, and the second is not, although its load is
/// the same. The exact solution is by Boxma (1979), derived at [`EqualLines`]. The waiting time is 14 % longer than
/// that of M/M/1, which the interval excludes.
#[test]
fn a_tandem_that_keeps_sizes_is_boxmas() {
    let text = tandem(["1 Mbit/s"; 2], "constant", r#"exponential = "1 KB""#, 10_000);
    let theory = EqualLines::new(62.5, 125.0).expect("a load below 1");
    let [second, _] = expect(&text, [("second", theory.second_waiting_s()), ("through", theory.sojourn_s())]);
    let independent = Mm1::new(62.5, 125.0).expect("a load below 1").waiting_s();
    assert!(!second.contains(independent));
}
