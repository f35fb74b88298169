//! What at either end, and not the path between them, held a transfer up: whatever may have done so spoils what the transfer says
//! of the path. What was the limit, if one is to be named, is asked less strictly (the meter's causes).

use netrig_host::InterruptionCounts;
use netrig_host::Precedence;
use netrig_host::{TcpInfo, monotonic_nanos};

/// A transfer whose threads wanted a processor for more than this share of it could not have been faster.
const BUSY: f64 = 0.9;

/// For so large a share of a transfer an end's buffer may be what held it up.
const HELD_UP: f64 = 0.1;

/// While a queue of the path is full, buffers of the ends are, too, and hold nothing up: then the round trip is longer than
/// the idle path's by more than this share of it, and by more than it takes a busy host to wake up, s.
const QUEUED: f64 = 0.25;
const WAKING_S: f64 = 1e-3;

/// What at an end held a transfer up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedBy {
    /// The processor of this end.
    Processor,
    /// The buffer of the sending socket.
    Buffer,
    /// What the receiving end took.
    Window,
    /// Others on this machine's hardware.
    Host,
}

/// Why an end, and not the path, was the limit of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferLimit {
    /// What held it up.
    pub by: LimitedBy,
    /// A sentence.
    pub why: String,
}

/// Watches one transfer.
#[derive(Debug)]
pub(super) struct TransferWatch {
    begun: u64,
    counts: InterruptionCounts,
}

/// What was seen of a transfer, in seconds of all of its connections together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TransferObservation {
    /// Threads ran, or waited until they might.
    pub wanted_s: f64,
    /// TCP had room for more on the path, and no more in the buffer of its socket.
    pub buffer_s: f64,
    /// TCP had more to send, and the far end took no more.
    pub window_s: f64,
    /// The mean round trip, and that of the idle path, if they were measured.
    pub trips: [Option<f64>; 2],
}

impl TransferWatch {
    /// From now on.
    pub fn start() -> Self {
        Self { begun: monotonic_nanos(), counts: InterruptionCounts::read() }
    }

    /// Why the transfer over so many connections says nothing of the path.
    pub fn limits(&self, connections: usize, seen: &TransferObservation) -> Vec<TransferLimit> {
        let span_s = (monotonic_nanos() - self.begun) as f64 * 1e-9;
        let stolen = InterruptionCounts::read().since(&self.counts, Precedence::None, false).fault();
        let stolen = stolen.map(|why| TransferLimit { by: LimitedBy::Host, why });
        seen.limits(span_s * connections as f64).chain(stolen).collect()
    }
}

impl TransferObservation {
    /// What TCP says at the sending end of a connection.
    pub fn add(&mut self, info: &TcpInfo) {
        self.buffer_s += info.buffer_limited.as_secs_f64();
        self.window_s += info.window_limited.as_secs_f64();
    }

    fn limits(&self, span_s: f64) -> impl Iterator<Item = TransferLimit> {
        let share = |seconds: f64| if span_s > 0.0 { seconds / span_s } else { 0.0 };
        let [wanted, buffer, window] = [self.wanted_s, self.buffer_s, self.window_s].map(share);
        let [mean, idle] = self.trips;
        let is_queued = mean.zip(idle).is_some_and(|(mean, idle)| mean > idle * (1.0 + QUEUED) + WAKING_S);
        let percent = |share: f64| 100.0 * share;
        let busy = (wanted > BUSY).then(|| {
            format!(
                "this end ran, or waited for a processor, for {:.0} % of the time: it could not have been faster",
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
        // What an end has no room for while the path's queue is full tells of the path.
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
            // Between two programs of one host: what takes longer is their waking.
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
