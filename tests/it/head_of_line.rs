//! How long messages wait for earlier lost messages of their stream, compared with the closed form.
//!
//! Messages are sent at a constant rate below capacity, one every `D` seconds, on n streams in turn. Each packet is
//! lost with probability p, and a lost message arrives R later than without the loss. If the k-th message before it in
//! its stream is lost, a message waits R − k·nD for it. So it waits longer than x < R if it is lost itself, or if one of
//! the ⌊(R − x)/(nD)⌋ messages before it in its stream is lost: P(wait > x) = 1 − (1 − p)^(1 + ⌊(R − x)/(nD)⌋).

use netrig_core::{Subject, quantity};
use netrig_test_support::ExperimentText;
use netrig_tests::record;

/// Duration of a run, s.
const DURATION: f64 = 6000.0;
/// Time between two messages, s.
const D: f64 = 0.02;
/// One-way delay, s.
const DELAY: f64 = 0.05;
/// Transmission time at 10 Mbit/s of a packet with a message of 100 B, which has 148 B, s.
const DATA_TIME: f64 = 148.0 * 8.0 / 10e6;
/// Transmission time at 10 Mbit/s of a SACK with one gap block, which has 52 B, s.
const SACK_TIME: f64 = 52.0 * 8.0 / 10e6;

/// R: the delay of a lost message beyond its normal arrival, s. The third later message is sent 3 D after it. The SACK
/// of that message and the retransmission take one round-trip time more (RFC 9260 section 7.2.4).
const RECOVERY: f64 = 3.0 * D + 2.0 * DELAY + DATA_TIME + SACK_TIME;

fn messages(streams: u16, loss: f64) -> Vec<f64> {
    let percent = 100.0 * loss;
    let text = ExperimentText::new("head-of-line", &format!("{DURATION} s"))
        .nodes("phone server")
        .fifo(
            "line",
            "phone server",
            ("10 Mbit/s", "50 ms", 100),
            &format!(
                r#"loss = {{ kind = "bernoulli", probability = "{percent} %" }},
            reverse = {{ loss = {{ kind = "bernoulli", probability = "0 %" }} }}"#
            ),
        )
        .table(
            "transport.sctp",
            &format!(r#"kind = "sctp", streams = {streams}, heartbeat_interval = "0 s""#),
        )
        .flow("messages", "phone server", r#"transport = "sctp""#)
        .table(
            "flow.messages.application",
            &format!(
                r#"kind = "web", interarrival = {{ constant = "20 ms" }}, size = {{ constant = "100 B" }},
            streams = {streams}"#
            ),
        )
        .response("delay", "flow.messages", "object_time")
        .build();
    let [(_, tape)]: [_; 1] = record(&text).try_into().ok().expect("one point");
    tape.values(Subject::Flow(0), &quantity::OBJECT_TIME)
}

/// Probability that at least one of this number of messages is lost.
fn any_lost(messages: u32, loss: f64) -> f64 {
    1.0 - (0..messages).map(|_| 1.0 - loss).product::<f64>()
}

fn longer_than(x: f64, n: u16, loss: f64) -> f64 {
    let before = ((RECOVERY - x) / (f64::from(n) * D)).floor();
    any_lost(1 + before as u32, loss)
}

/// The share of messages that wait longer than R, which the closed form does not include:
/// - A message that is lost twice waits 1 s longer, until T3-rtx expires. One that is lost three times waits 1 s + 2 s
///   longer, because the timer is doubled. Messages behind it in its stream also wait longer than R, except those that
///   are sent less than R before its arrival.
/// - If one of the next three messages is lost too, the third miss indication arrives one message later.
fn share_beyond(n: u16, loss: f64) -> f64 {
    let held_back = |seconds: f64| (seconds / (f64::from(n) * D) - 1e-9).ceil() as u32;
    let (twice, thrice) = (held_back(1.0), held_back(3.0));
    let found_late = loss * any_lost(3, loss);
    let within = (1.0 - any_lost(twice, loss * loss)) * (1.0 - any_lost(thrice - twice, loss * loss * loss));
    1.0 - within * (1.0 - found_late)
}

/// The mean of the closed form: its integral from 0 to R, with steps at R − k·nD.
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
            assert!(
                (least - (DELAY + DATA_TIME)).abs() < 2e-9,
                "the fastest message took {least} s, and not the delay and the transmission time"
            );
            let waits: Vec<f64> = delays.iter().map(|delay| delay - least).collect();
            let (plain, beyond): (Vec<f64>, Vec<f64>) =
                waits.into_iter().partition(|wait| *wait < RECOVERY + 0.001);
            let count = plain.len() as f64;
            let share = |x: f64| plain.iter().filter(|wait| **wait > x).count() as f64 / count;
            let beyond = beyond.len() as f64 / delays.len() as f64;
            // The tolerance is three standard deviations of the number of messages that are lost twice.
            let noise = 3.0 / (DURATION / D * loss * loss).sqrt();
            let mean = plain.iter().sum::<f64>() / count;
            println!(
                "{n} streams, loss {} %: waits {:.4} (theory {:.4}), mean {:.3} ms (theory {:.3}), beyond R {beyond:.5} (theory {:.5})",
                100.0 * loss,
                share(1e-6),
                longer_than(0.0, n, loss),
                1e3 * mean,
                1e3 * mean_wait(n, loss),
                share_beyond(n, loss),
            );
            assert!((beyond / share_beyond(n, loss) - 1.0).abs() < noise);
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
