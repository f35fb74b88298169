//! How long messages wait for lost ones before them in their stream, against the closed form.
//!
//! Messages at a constant rate below capacity, one every `D` seconds, given to n streams in turn; each packet is lost with
//! probability p, and a lost message arrives R later than it would have. A message waits longer than x < R if it was lost
//! itself, or one of those ⌊(R − x)/(nD)⌋ before it in its stream that are still missing then:
//! P(wait > x) = 1 − (1 − p)^(1 + ⌊(R − x)/(nD)⌋).

use netrig_core::{Subject, quantity};
use netrig_tests::record;

/// Between two messages.
const D: f64 = 0.02;
/// One way.
const DELAY: f64 = 0.05;
/// A message of 100 B in a packet of 148 B, and a SACK with one gap of 52 B, at 10 Mbit/s.
const DATA_TIME: f64 = 148.0 * 8.0 / 10e6;
const SACK_TIME: f64 = 52.0 * 8.0 / 10e6;

/// Three later messages arrive before the loss is known (RFC 9260 section 7.2.4), and a round trip after that.
const RECOVERY: f64 = 3.0 * D + 2.0 * DELAY + DATA_TIME + SACK_TIME;

fn messages(streams: u16, loss: f64) -> Vec<f64> {
    let text = format!(
        r#"
format = 1
name = "head-of-line"
duration = "6000 s"
[node.phone]
[node.server]
[link.line]
between = ["phone", "server"]
rate = "10 Mbit/s"
delay = "50 ms"
queue = {{ kind = "fifo", packets = 100 }}
loss = {{ kind = "bernoulli", probability = "{} %" }}
reverse = {{ loss = {{ kind = "bernoulli", probability = "0 %" }} }}
[transport.sctp]
kind = "sctp"
streams = {streams}
heartbeat_interval = "0 s"
[flow.messages]
from = "phone"
to = "server"
transport = "sctp"
[flow.messages.application]
kind = "web"
interarrival = {{ constant = "20 ms" }}
size = {{ constant = "100 B" }}
streams = {streams}
[response.delay]
of = "flow.messages"
metric = "object_time"
"#,
        100.0 * loss
    );
    let [(_, tape)]: [_; 1] = record(&text).try_into().ok().expect("one point");
    tape.values(Subject::Flow(0), &quantity::OBJECT_TIME)
}

/// Probability that at least one of so many is lost.
fn any_lost(messages: u32, loss: f64) -> f64 {
    1.0 - (0..messages).map(|_| 1.0 - loss).product::<f64>()
}

fn longer_than(x: f64, n: u16, loss: f64) -> f64 {
    let before = ((RECOVERY - x) / (f64::from(n) * D)).floor();
    any_lost(1 + before as u32, loss)
}

/// Bounds of the share that waits for a timer: for a message that was lost twice, its own or one before it in its stream
/// that is still missing. The timer takes its least value, 1 s, from where the retransmission would have arrived, and what
/// gathered meanwhile leaves within two round trips more, for the window begins anew. 6000 s hold some 30 such
/// events at least, so 3 standard deviations are half of them.
fn timer_share(n: u16, loss: f64) -> (f64, f64) {
    let share = |lasting: f64| any_lost(1 + (lasting / (f64::from(n) * D)).floor() as u32, loss * loss);
    (0.5 * share(1.0), 1.5 * share(1.0 + 4.0 * DELAY))
}

/// The mean of the closed form: its integral from 0 to R, whose steps lie R − k·nD.
fn mean_wait(n: u16, loss: f64) -> f64 {
    let step = f64::from(n) * D;
    let mut below = RECOVERY;
    let (mut mean, mut lost) = (0.0, 1);
    while below > 0.0 {
        let to = (below - step).max(0.0);
        mean += (below - to) * any_lost(lost, loss);
        (below, lost) = (to, lost + 1);
    }
    mean
}

#[test]
fn streams_bound_the_wait_for_lost_messages() {
    for loss in [0.01, 0.02] {
        for n in [1, 2, 5, 10] {
            let delays = messages(n, loss);
            let least = delays.iter().copied().fold(f64::INFINITY, f64::min);
            assert!((least - (DELAY + DATA_TIME)).abs() < 2e-9, "nothing is faster than the line: {least}");
            let waits: Vec<f64> = delays.iter().map(|delay| delay - least).collect();
            // What is sent again may be lost again, and then waits for the timer: counted apart.
            let (plain, twice): (Vec<f64>, Vec<f64>) =
                waits.into_iter().partition(|wait| *wait < RECOVERY + 0.001);
            let count = plain.len() as f64;
            let share = |x: f64| plain.iter().filter(|wait| **wait > x).count() as f64 / count;
            let timers = twice.len() as f64 / delays.len() as f64;
            let (low, high) = timer_share(n, loss);
            let mean = plain.iter().sum::<f64>() / count;
            println!(
                "{n} streams, loss {} %: waits {:.4} (theory {:.4}), mean {:.3} ms (theory {:.3}), waits for a timer {timers:.5} ({low:.5} to {high:.5})",
                100.0 * loss,
                share(1e-6),
                longer_than(0.0, n, loss),
                1e3 * mean,
                1e3 * mean_wait(n, loss),
            );
            assert!(low < timers && timers < high);
            assert!((share(1e-6) / longer_than(0.0, n, loss) - 1.0).abs() < 0.1);
            assert!((mean / mean_wait(n, loss) - 1.0).abs() < 0.1);
            for x in [0.25, 0.5, 0.75].map(|part| part * RECOVERY) {
                assert!(
                    (share(x) / longer_than(x, n, loss) - 1.0).abs() < 0.1,
                    "{n} streams, longer than {x} s: {}",
                    share(x)
                );
            }
        }
    }
}
