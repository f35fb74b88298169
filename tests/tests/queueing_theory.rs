//! Simulated queues against their closed forms: the theory lies in the 99 % interval, whose half-width is at most 1 %,
//! at fixed seeds.

use netrig_stats::interval::student;
use netrig_tests::simulate;

/// A line that sends 1000 B in 8 ms, fed by a Poisson process.
fn queue(interarrival: &str, size: &str, buffer: &str, seconds: u32) -> String {
    format!(
        r#"
format = 1
name = "queue"
duration = "{seconds} s"
warm_up = "200 s"
sample_every = "100 s"
[node.source]
[node.sink]
[link.line]
between = ["source", "sink"]
rate = "1 Mbit/s"
delay = "0 s"
queue = {{ kind = "fifo", {buffer} }}
[transport.packets]
kind = "udp"
headers = "none"
[flow.arrivals]
from = "source"
to = "sink"
transport = "packets"
application = {{ kind = "poisson", interarrival = "{interarrival}", size = {{ {size} }} }}
[response.waiting]
of = "link.line"
metric = "waiting_time"
[response.queue]
of = "link.line"
metric = "queue_length"
[response.utilisation]
of = "link.line"
metric = "utilisation"
[response.loss]
of = "link.line"
metric = "loss_ratio"
"#
    )
}

fn expect(text: &str, response: &str, theory: f64) {
    let values: Vec<f64> =
        simulate(text, None, 10, |_| true).iter().map(|run| run.responses[response]).collect();
    let interval = student(&values, 0.99).expect("ten runs make an interval");
    let half = interval.relative_half_width().expect("an interval has a width");
    assert!(half <= 0.01, "{response}: the interval is ±{:.2} %: {interval:?}", 100.0 * half);
    assert!(interval.contains(theory), "{response}: theory says {theory}, not in {interval:?}");
}

const UNLIMITED: &str = "unlimited = true";

/// M/M/1 at a load of 0.5: W = ρ/(μ − λ) = 0.5/62.5 = 8 ms.
#[test]
fn mm1_waits_as_long_as_theory_says() {
    let text = queue("16 ms", r#"exponential = "1 KB""#, UNLIMITED, 10_000);
    expect(&text, "waiting", 0.008);
}

/// The same queue's mean length, by Little's law λW = 62.5 × 0.008 = 0.5, and its load.
#[test]
fn mm1_is_as_long_as_littles_law_says() {
    let text = queue("16 ms", r#"exponential = "1 KB""#, UNLIMITED, 10_000);
    expect(&text, "queue", 0.5);
    expect(&text, "utilisation", 0.5);
}

/// M/D/1 at a load of 0.5: half of M/M/1's wait, 4 ms.
#[test]
fn md1_waits_half_as_long() {
    let text = queue("16 ms", r#"constant = "1 KB""#, UNLIMITED, 6_000);
    expect(&text, "waiting", 0.004);
}

/// M/G/1, Pollaczek and Khinchine: sizes uniform in 500..1500 B, E[x²] = 8²(1 + 1/12) ms², λ = 62.5/s:
/// W = λE[x²]/(2(1 − ρ)) = 4.333 ms.
#[test]
fn mg1_obeys_pollaczek_and_khinchine() {
    let text = queue("16 ms", r#"uniform = { min = "500 B", max = "1500 B" }"#, UNLIMITED, 6_000);
    expect(&text, "waiting", 62.5 * 64e-6 * (1.0 + 1.0 / 12.0) / (2.0 * 0.5));
}

/// M/M/1/K at a load of 0.8 with K = 5 places, one of them the server's: P = (1 − ρ)ρ⁵/(1 − ρ⁶).
#[test]
fn mm1k_loses_what_theory_says() {
    let text = queue("10 ms", r#"exponential = "1 KB""#, "packets = 4", 10_000);
    let rho = 0.8;
    let fifth = rho * rho * rho * rho * rho;
    expect(&text, "loss", (1.0 - rho) * fifth / (1.0 - rho * fifth));
}
