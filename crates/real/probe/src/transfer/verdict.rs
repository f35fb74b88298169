//! Limits at the ends of a transfer. Each possible one makes the transfer invalid as a measurement of the path. The
//! causes in the speed meter, which name one limit, use higher thresholds.

use netrig_core::Duration;
use netrig_host::InterruptionCounts;
use netrig_host::Precedence;
use netrig_host::{TcpInfo, monotonic_nanos};

/// Share of the time for which threads ran or waited for a processor, above which the processor may be the limit.
const BUSY: f64 = 0.9;

/// Share of the time above which the buffer of an end may be the limit.
const HELD_UP: f64 = 0.1;

/// While a queue of the path is full, the buffers of the ends are full too and are not the limit. Then the round-trip
/// time exceeds that of the idle path by more than this share of it plus the wake-up time of a busy host, s.
const QUEUED: f64 = 0.25;
const WAKING_S: f64 = 1e-3;

/// The limit of a transfer at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedBy {
    /// The processor of this end.
    Processor,
    /// The buffer of the sending socket.
    Buffer,
    /// The window of the receiving end.
    Window,
    /// Other virtual machines on the same hardware.
    Host,
}

/// Why an end, and not the path, was the limit of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferLimit {
    /// The limiting resource.
    pub by: LimitedBy,
    /// The reason as a sentence.
    pub why: String,
}

/// Observes this host during a transfer.
#[derive(Debug)]
pub(super) struct TransferWatch {
    begun: u64,
    counts: InterruptionCounts,
}

/// Observations of a transfer, in seconds, summed over all its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct TransferObservation {
    /// Threads ran or waited for a processor.
    wanted_s: f64,
    /// The path had room, but the socket's buffer had no more data.
    buffer_s: f64,
    /// TCP had more to send, but the far end's window was full.
    window_s: f64,
    /// The mean round-trip time and that of the idle path, if they were measured, s.
    trips: [Option<f64>; 2],
}

impl TransferWatch {
    /// Starts the observation.
    pub fn start() -> Self {
        Self { begun: monotonic_nanos(), counts: InterruptionCounts::read() }
    }

    /// Reasons why a transfer does not measure the path. Its threads ran, or waited for a processor, for `wanted_s`; `connections` are
    /// the last readings of its sending ends; `trips` are the mean round-trip time and that of the idle path, s, if measured.
    pub fn limits(
        &self,
        wanted_s: f64,
        connections: &[TcpInfo],
        trips: [Option<f64>; 2],
    ) -> Vec<TransferLimit> {
        let span_s = (monotonic_nanos() - self.begun) as f64 * 1e-9;
        let stolen = InterruptionCounts::read().since(&self.counts, Precedence::None, false).fault();
        let stolen = stolen.map(|why| TransferLimit { by: LimitedBy::Host, why });
        let sum = |of: fn(&TcpInfo) -> Duration| connections.iter().map(|info| of(info).as_secs_f64()).sum();
        let (buffer_s, window_s) = (sum(|info| info.buffer_limited), sum(|info| info.window_limited));
        let seen = TransferObservation { wanted_s, buffer_s, window_s, trips };
        seen.limits(span_s * connections.len() as f64).chain(stolen).collect()
    }
}

impl TransferObservation {
    fn limits(&self, span_s: f64) -> impl Iterator<Item = TransferLimit> {
        let share = |seconds: f64| if span_s > 0.0 { seconds / span_s } else { 0.0 };
        let [wanted, buffer, window] = [self.wanted_s, self.buffer_s, self.window_s].map(share);
        let [mean, idle] = self.trips;
        let is_queued = mean.zip(idle).is_some_and(|(mean, idle)| mean > idle * (1.0 + QUEUED) + WAKING_S);
        let percent = |share: f64| 100.0 * share;
        let busy = (wanted > BUSY).then(|| {
            format!(
                "this end ran, or waited for a processor, for {:.0} % of the time: the transfer could not have been faster",
                percent(wanted)
            )
        });
        let buffer = (buffer > HELD_UP && !is_queued).then(|| {
            format!(
                "for {:.0} % of the time the path had room for more than the sending socket's buffer held (net.ipv4.tcp_wmem)",
                percent(buffer)
            )
        });
        let window = (window > HELD_UP && !is_queued).then(|| {
            format!(
                "for {:.0} % of the time the path had room for more than the far end's window let through: it reads too \
                 slowly, or its buffer is too small (net.ipv4.tcp_rmem)",
                percent(window)
            )
        });
        let by = [LimitedBy::Processor, LimitedBy::Buffer, LimitedBy::Window];
        by.into_iter()
            .zip([busy, buffer, window])
            .filter_map(|(by, why)| Some(TransferLimit { by, why: why? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(seen: TransferObservation) -> Vec<String> {
        seen.limits(10.0).map(|limit| limit.why).collect()
    }

    #[test]
    fn a_transfer_that_the_path_holds_up_is_the_paths() {
        let quiet =
            TransferObservation { wanted_s: 9.0, buffer_s: 1.0, window_s: 1.0, trips: [Some(0.1); 2] };
        assert!(faults(quiet).is_empty(), "{:?}", faults(quiet));
        // Full buffers while the path's queue is full say nothing about the ends.
        let queued =
            TransferObservation { buffer_s: 9.0, window_s: 9.0, trips: [Some(0.127), Some(0.1)], ..quiet };
        assert!(faults(queued).is_empty(), "{:?}", faults(queued));
        assert_eq!(TransferObservation::default().limits(0.0).count(), 0, "of no time nothing is said");
    }

    #[test]
    fn what_an_end_did_is_told_each_in_its_words() {
        for (seen, expected) in [
            (
                TransferObservation { wanted_s: 9.1, ..TransferObservation::default() },
                "waited for a processor, for 91 % of the time",
            ),
            (
                TransferObservation { buffer_s: 2.0, ..TransferObservation::default() },
                "for 20 % of the time the path had room for more than the sending",
            ),
            (
                TransferObservation {
                    window_s: 3.0,
                    trips: [Some(0.12), Some(0.1)],
                    ..TransferObservation::default()
                },
                "than the far end's window let through",
            ),
            // Two programs on one host: the longer time is their wake-up.
            (
                TransferObservation {
                    window_s: 9.0,
                    trips: [Some(2.5e-4), Some(5e-6)],
                    ..TransferObservation::default()
                },
                "than the far end's window let through",
            ),
        ] {
            let faults_found = faults(seen);
            assert!(faults_found.len() == 1 && faults_found[0].contains(expected), "{faults_found:?}");
        }
        let all = TransferObservation { wanted_s: 10.0, buffer_s: 5.0, window_s: 5.0, trips: [None; 2] };
        assert_eq!(faults(all).len(), 3);
    }
}
