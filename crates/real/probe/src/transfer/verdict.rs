//! Detects limits at the ends of a transfer. If a limit at an end is possible, the transfer is not a valid measurement
//! of the path.

use netrig_bulk::{EndReport, LimitThresholds, PathDelays};
use netrig_core::Duration;
use netrig_host::InterruptionCounts;
use netrig_host::Precedence;
use netrig_host::TcpInfo;

/// The resource of an end that limits a transfer.
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

/// The reason why an end, and not the path, limited a transfer.
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
    counts: InterruptionCounts,
}

/// Observations of a transfer. Shares are shares of the transfer time, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct TransferObservation {
    /// Share of the time for which the threads ran or waited for a processor, if it was nearly all the time.
    starved: Option<f64>,
    /// Share of the time for which the path could have carried more, but the socket's buffer had no more data.
    buffer: f64,
    /// Share of the time for which TCP had more to send, but the far end's window was full.
    window: f64,
    /// The mean round-trip time and the round-trip time of the idle path, if they were measured.
    delays: Option<PathDelays>,
}

impl TransferWatch {
    /// Starts the observation.
    pub fn start() -> Self {
        Self { counts: InterruptionCounts::read() }
    }

    /// Reasons why a transfer does not measure the path. `connections` has the last reading of each connection.
    /// `delays` has the mean round-trip time and the round-trip time of the idle path, if measured.
    pub fn limits(
        &self,
        end: &EndReport,
        connections: &[TcpInfo],
        delays: Option<PathDelays>,
    ) -> Vec<TransferLimit> {
        let stolen = InterruptionCounts::read().since(&self.counts, Precedence::None, false).fault();
        let stolen = stolen.map(|why| TransferLimit { by: LimitedBy::Host, why });
        // Each connection has a thread, so the sum over the threads is the sum over the connections.
        let lasted_s = end.threads_ns.max(1) as f64 * 1e-9;
        let share = |of: fn(&TcpInfo) -> Duration| {
            connections.iter().map(|info| of(info).as_secs_f64()).sum::<f64>() / lasted_s
        };
        let seen = TransferObservation {
            starved: end.is_starved().then(|| end.thread_shares().iter().sum()),
            buffer: share(|info| info.buffer_limited),
            window: share(|info| info.window_limited),
            delays,
        };
        seen.limits().chain(stolen).collect()
    }
}

impl TransferObservation {
    fn limits(self) -> impl Iterator<Item = TransferLimit> {
        let thresholds = LimitThresholds::POSSIBLE;
        let is_queued = self.delays.is_some_and(|delays| thresholds.is_queued(delays));
        let held = |share: f64| Some(share).filter(|share| !is_queued && thresholds.is_held_back(*share));
        let percent = |share: f64| 100.0 * share;
        let busy = self.starved.map(|share| {
            format!(
                "this end ran, or waited for a processor, for {:.0} % of the time: the transfer could not have been faster",
                percent(share)
            )
        });
        let buffer = held(self.buffer).map(|share| {
            format!(
                "for {:.0} % of the time the path had room for more than the sending socket's buffer held (net.ipv4.tcp_wmem)",
                percent(share)
            )
        });
        let window = held(self.window).map(|share| {
            format!(
                "for {:.0} % of the time the path had room for more than the far end's window let through: it reads too \
                 slowly, or its buffer is too small (net.ipv4.tcp_rmem)",
                percent(share)
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
        seen.limits().map(|limit| limit.why).collect()
    }

    fn delays(loaded_s: f64, idle_s: f64) -> Option<PathDelays> {
        Some(PathDelays { loaded_s, idle_s })
    }

    #[test]
    fn a_transfer_that_the_path_holds_up_is_the_paths() {
        let quiet =
            TransferObservation { buffer: 0.1, window: 0.1, delays: delays(0.1, 0.1), ..Default::default() };
        assert!(faults(quiet).is_empty(), "{:?}", faults(quiet));
        // Full buffers while the path's queue is full do not show a limit of the ends.
        let queued = TransferObservation { buffer: 0.9, window: 0.9, delays: delays(0.127, 0.1), ..quiet };
        assert!(faults(queued).is_empty(), "{:?}", faults(queued));
        let end = EndReport { ran_ns: 84, threads_ns: 100, ..EndReport::default() };
        let idle = TransferWatch::start().limits(&end, &[], None);
        assert!(!idle.iter().any(|limit| limit.by == LimitedBy::Processor), "{idle:?}");
    }

    #[test]
    fn what_an_end_did_is_told_each_in_its_words() {
        let none = TransferObservation::default();
        for (seen, expected) in [
            (
                TransferObservation { starved: Some(0.91), ..none },
                "waited for a processor, for 91 % of the time",
            ),
            (
                TransferObservation { buffer: 0.2, ..none },
                "for 20 % of the time the path had room for more than the sending",
            ),
            (
                TransferObservation { window: 0.3, delays: delays(0.12, 0.1), ..none },
                "than the far end's window let through",
            ),
            // Two programs on one host: the increase of the round-trip time is their wake-up time, not a queue.
            (
                TransferObservation { window: 0.9, delays: delays(2.5e-4, 5e-6), ..none },
                "than the far end's window let through",
            ),
        ] {
            let faults_found = faults(seen);
            assert!(faults_found.len() == 1 && faults_found[0].contains(expected), "{faults_found:?}");
        }
        let all = TransferObservation { starved: Some(1.0), buffer: 0.5, window: 0.5, delays: None };
        assert_eq!(faults(all).len(), 3);
        let end = EndReport { ran_ns: 60, waited_ns: 31, threads_ns: 100, ..EndReport::default() };
        let busy = TransferWatch::start().limits(&end, &[], None);
        assert!(busy[0].by == LimitedBy::Processor && busy[0].why.contains("91 %"), "{busy:?}");
    }
}
