//! An application that reads more slowly than the network delivers, in the simulator and over the kernel's TCP.
#![cfg(target_os = "linux")]

use std::sync::atomic::AtomicBool;

use netrig_core::{Frame, Heading, Instant, Sample, Sink, Subject, quantity};
use netrig_experiment::Substrate as _;
use netrig_sim::Simulator;
use netrig_test_support::{ExperimentText, skip_unless};

use crate::common::carried_out::{carry_out, run};
use crate::common::machine::{can, skipped};

/// The observations of a transfer: reads at the receiver, and segments at the sender's node.
#[derive(Default)]
struct WatchedTransfer {
    /// Times at which the application has read, and numbers of bytes.
    read: Vec<(Instant, f64)>,
    segments: Vec<PassedSegment>,
}

/// A TCP segment that passed the sender's node.
struct PassedSegment {
    at: Instant,
    /// Whether the sender of the data sent this segment.
    is_sent: bool,
    payload: usize,
    window: u16,
    is_syn: bool,
}

impl Sink for WatchedTransfer {
    fn sample(&mut self, _: Subject, sample: Sample) {
        if sample.quantity.name == quantity::RECEIVED_BYTES.name {
            self.read.push((sample.at, sample.value));
        }
    }

    fn wants_frames(&self, node: u32) -> bool {
        node == 0
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        let bytes = frame.bytes;
        let header = usize::from(bytes[0] & 15) * 4;
        if bytes[9] != 6 {
            return;
        }
        let tcp = &bytes[header..];
        self.segments.push(PassedSegment {
            at: frame.at,
            is_sent: frame.heading == Heading::Outbound,
            payload: frame.original_len as usize - header - usize::from(tcp[12] >> 4) * 4,
            window: u16::from_be_bytes([tcp[14], tcp[15]]),
            is_syn: tcp[13] & 2 != 0,
        });
    }
}

/// A pause of the transfer, from the segment that closed the window to the segment that opened it.
#[derive(Clone, Copy, Debug)]
struct Pause {
    lasted_s: f64,
    /// Number of window probes during the pause: segments with at most one byte of data.
    probes: u32,
    /// Time from the opening of the window to the next data, s.
    resumed_s: f64,
}

impl WatchedTransfer {
    /// Rate of the reads between the times `from` and `to` (s), B/s.
    fn rate(&self, from: f64, to: f64) -> f64 {
        let within = |at: Instant| (from..to).contains(&(at.as_secs_f64() - 1e-6));
        self.read.iter().filter(|(at, _)| within(*at)).map(|(_, bytes)| bytes).sum::<f64>() / (to - from)
    }

    /// The pauses that have ended.
    fn pauses(&self) -> Vec<Pause> {
        let (mut pauses, mut closed, mut opened) = (Vec::new(), None, None);
        for segment in self.segments.iter().filter(|segment| !segment.is_syn) {
            match (segment.is_sent, closed, opened) {
                (false, None, _) if segment.window == 0 => closed = Some((segment.at, 0)),
                (false, Some(_), None) if segment.window > 0 => opened = Some(segment.at),
                (true, Some((at, probes)), None) if segment.payload <= 1 => closed = Some((at, probes + 1)),
                (true, Some((at, probes)), Some(open)) if segment.payload > 1 => {
                    pauses.push(Pause {
                        lasted_s: open.since(at).as_secs_f64(),
                        probes,
                        resumed_s: segment.at.since(open).as_secs_f64(),
                    });
                    (closed, opened) = (None, None);
                }
                _ => {}
            }
        }
        pauses
    }
}

/// The observations of a transfer over a line of 10 Mbit/s with a round-trip time of 20 ms, with the TCP of each
/// substrate. `reads` specifies how the application reads. If no real run is valid, the reason is printed to stderr and
/// `None` is returned.
fn watch(reads: &str) -> Option<[WatchedTransfer; 2]> {
    let text = ExperimentText::new("slow-reader", "14 s")
        .with(r#"sample_every = "100 ms""#)
        .nodes("a b")
        .fifo("line", "a b", ("10 Mbit/s", "10 ms", 100), "")
        .table(
            "transport.tcp",
            r#"kind = "tcp", profile = "linux", congestion = "reno", receive_buffer = "60 KB""#,
        )
        .flow(
            "data",
            "a b",
            &format!(r#"transport = "tcp", application = {{ kind = "bulk" }}, reads = {reads}"#),
        )
        .response("goodput", "flow.data", "goodput")
        .build();
    let run = run(&text, 0);
    let stop = AtomicBool::new(false);
    let mut modelled = WatchedTransfer::default();
    Simulator::default().run(&run, &mut modelled, &stop).unwrap_or_else(|error| panic!("{error}"));
    // An invalid run, in which this machine was the limit, is repeated.
    for _ in 0..4 {
        let mut real = WatchedTransfer::default();
        let outcome = carry_out(&run, &mut real, &stop).unwrap_or_else(|error| panic!("{error}"));
        match outcome.invalid {
            None => return Some([modelled, real]),
            Some(why) => eprintln!("the run is repeated: {why}"),
        }
    }
    skipped("a machine that has time for the router");
    None
}

/// The application reads 2 Mbit/s, which are 250 kB/s. The line carries 1.2 MB/s.
#[test]
fn a_slow_reader_is_as_fast_by_the_kernel_as_modelled() {
    skip_unless!(can(&[]));
    let Some(seen) = watch("\"2 Mbit/s\"") else { return };
    for (substrate, seen) in ["sim", "netns"].into_iter().zip(seen) {
        let rate = seen.rate(2.0, 14.0);
        assert!((rate / 250_000.0 - 1.0).abs() < 0.01, "{rate} B/s on {substrate}");
    }
}

/// The application reads all waiting data every 3 s. The window of 60 KB is full after 50 ms, or, if less than a
/// segment of it was left, after a time-out and two round trips. The sender probes the window after its time-out of 200
/// ms plus the round-trip time, and then at doubled intervals, so there are three probes. The sender sends new data
/// less than half a round-trip time (10 ms) after the window update has arrived.
#[test]
fn a_window_that_is_closed_for_seconds_is_probed_as_the_kernel_does() {
    skip_unless!(can(&[]));
    let Some(seen) = watch("{ bytes = \"1 MB\", every = \"3 s\" }") else { return };
    let [modelled, real] = seen.map(|seen| seen.pauses());
    for (substrate, pauses) in [("sim", &modelled), ("netns", &real)] {
        assert!(pauses.len() >= 3, "{substrate}: {pauses:?}");
        for Pause { lasted_s, probes, resumed_s } in pauses {
            assert!((2.5..3.1).contains(lasted_s), "{substrate}: {pauses:?}");
            assert!((3..=4).contains(probes), "{substrate}: {pauses:?}");
            assert!(*resumed_s < 0.01, "{substrate}: {pauses:?}");
        }
    }
}
