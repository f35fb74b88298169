//! Which end of a transfer was its limit, from what the kernels of both ends have counted.

use super::{LimitingFactor, MeasuredHost, PathDelays};
use crate::{ConnectionSummary, EndReport};

/// A thread that runs or waits for a processor for more than this share of the time is saturated.
const BUSY: f64 = 0.85;

/// A window or a buffer was the limit if it stopped the sender for more than this share of the time.
const HELD_BACK: f64 = 0.3;

/// A processor that handles packets (softirq) for more than this share of the time has no time left for programs.
const SOFTIRQ: f64 = 0.9;

/// Share of stolen processor time above which the hypervisor is the limit.
const STOLEN: f64 = 0.1;

/// If TCP had nothing to send for more than this share of the time, the sending program wrote too late.
const IDLE: f64 = 0.15;

/// A cause explains a waiting time if it accounts for this share of it.
const MOST: f64 = 0.5;

/// Thresholds for a paced sender, for which the kernel counts most of the time as pacing. The window was the limit if
/// it limited the sender for the share `HELD_BACK_AT_TIMES` of the time, and the share `FILLED` of it was used per
/// round trip.
const HELD_BACK_AT_TIMES: f64 = 0.05;
const FILLED: f64 = 0.7;

/// If the congestion window exceeds the data in flight by the factor `LET`, something else limits the sender. The send
/// buffer is that limit if the data in flight exceed the share `HELD` of its size as the kernel counts it.
const LET: f64 = 1.5;
const HELD: f64 = 0.5;

impl EndReport {
    /// Shares of time (0 to 1) for which the threads of this end ran, and for which they waited for a processor.
    pub fn thread_shares(&self) -> [f64; 2] {
        // A thread may run slightly longer than its measured lifetime.
        let share = |nanos: u64| (nanos as f64 / self.threads_ns.max(1) as f64).min(1.0);
        [share(self.ran_ns), share(self.waited_ns)]
    }

    /// Whether the threads that carried data ran or waited for a processor nearly all the time.
    pub fn is_starved(&self) -> bool {
        self.thread_shares().iter().sum::<f64>() > BUSY
    }

    /// Whether the data were delayed for a large share of the time, and the threads waited for a processor for most of
    /// it. In the rest of the time, a thread may sleep while the requested data are in flight.
    fn is_waiting(&self, held_back: f64) -> bool {
        let [_, waited] = self.thread_shares();
        held_back > HELD_BACK && waited > MOST * held_back
    }

    fn softirq(&self) -> f64 {
        self.host.processors.iter().map(|share| share.softirq).fold(0.0, f64::max)
    }
}

/// The two ends of a transfer in one direction.
#[derive(Clone, Copy, Debug)]
pub struct TransferEnds<'a> {
    /// The host that sends. The other one receives.
    pub sends: MeasuredHost,
    /// The report of the sender.
    pub sender: &'a EndReport,
    /// The report of the receiver.
    pub receiver: &'a EndReport,
    /// The kernel counters of the sender's connections, if connections carried the data and the sender reports them.
    pub connections: Option<&'a ConnectionSummary>,
    /// Number of connections.
    pub streams: u16,
    /// Payload that arrived, bits per second.
    pub payload: Option<f64>,
    /// The delays of the path in the direction of the data, if they are known.
    pub delays: Option<PathDelays>,
}

impl TransferEnds<'_> {
    /// The limit at one of the ends. `None` if the path was the limit, or if the counters show no limit.
    ///
    /// While a queue of the path is full, the windows and buffers of the ends are full too, and are not the limit.
    pub fn limit(&self) -> Option<LimitingFactor> {
        let full = || self.window().or_else(|| self.send_buffer()).filter(|_| !self.is_queued());
        self.processor().or_else(full).or_else(|| self.starved())
    }

    /// The host that receives.
    pub const fn receives(&self) -> MeasuredHost {
        match self.sends {
            MeasuredHost::Client => MeasuredHost::Server,
            MeasuredHost::Server => MeasuredHost::Client,
        }
    }

    /// Whether the path queued packets in the direction of the data.
    pub fn is_queued(&self) -> bool {
        self.delays.is_some_and(PathDelays::is_queued)
    }

    /// A processor slowed the connections: the receiver read too late, so that the window closed, or the sender wrote
    /// too late.
    pub fn processor(&self) -> Option<LimitingFactor> {
        let connections = self.connections?;
        let closed = connections.window_limited.unwrap_or(0.0);
        let idle = connections.busy.map_or(0.0, |share| 1.0 - share);
        let (sender, receiver) = (self.sender, self.receiver);
        let takes = closed > HELD_BACK_AT_TIMES && receiver.is_starved() || receiver.is_waiting(closed);
        let gives = idle > IDLE && sender.is_starved() || sender.is_waiting(idle);
        (takes || gives).then(|| self.of_processor(!takes))
    }

    /// The limit is the processor of the sending or the receiving host, or the hypervisor of this host.
    pub fn of_processor(&self, sends: bool) -> LimitingFactor {
        let (report, end) = if sends { (self.sender, self.sends) } else { (self.receiver, self.receives()) };
        let stolen = report.host.processors.iter().map(|share| share.steal).fold(0.0, f64::max);
        let [ran, waited] = report.thread_shares();
        // The part of the wait that is not stolen time is due to other programs on the host.
        if stolen > STOLEN.max(MOST * waited) {
            return LimitingFactor::Stolen { end, share: stolen };
        }
        LimitingFactor::Processor { end, sends, ran, waited, softirq: report.softirq() }
    }

    /// A host has saturated processors, and no other limit was found. If both hosts are saturated, the limit is the one
    /// with the higher demand.
    pub fn starved(&self) -> Option<LimitingFactor> {
        let wanted = |report: &EndReport| report.thread_shares().iter().sum::<f64>();
        let flooded = |report: &EndReport| report.softirq() > SOFTIRQ;
        let (sender, receiver) = (self.sender, self.receiver);
        let sends = wanted(sender) >= wanted(receiver);
        match (sender.is_starved() || receiver.is_starved(), flooded(receiver), flooded(sender)) {
            (true, ..) => Some(self.of_processor(sends)),
            (_, true, _) => Some(self.of_processor(false)),
            (.., true) => Some(self.of_processor(true)),
            _ => None,
        }
    }

    /// The receive window is the limit.
    pub fn window(&self) -> Option<LimitingFactor> {
        let connections = self.connections?;
        let (share, bytes) = connections.window_limited.zip(connections.window)?;
        let in_flight = self.underway().unwrap_or(0.0);
        let filled = share > HELD_BACK_AT_TIMES && in_flight > FILLED * bytes;
        (filled || share > HELD_BACK).then_some(LimitingFactor::Window {
            end: self.receives(),
            bytes,
            round_trip_s: connections.round_trip_s.unwrap_or(0.0),
            share,
            connections: self.streams,
            told: self.receiver.window.is_some(),
            chosen: self.receiver.chosen_buffers[1],
            needed: 2.0 * in_flight,
        })
    }

    /// The send buffer is the limit. The kernel counts the time for which the buffer limited the sender, except for a
    /// paced sender. For a paced sender, a buffer whose size an option set is the limit if the data in flight are far
    /// below the congestion window.
    pub fn send_buffer(&self) -> Option<LimitingFactor> {
        let connections = self.connections?;
        let share = connections.buffer_limited?;
        let (chosen, bytes) = (self.sender.chosen_buffers[0], self.sender.buffers.map(|[send, _]| send));
        let underway = self.underway().unwrap_or(0.0);
        let filled = bytes.is_some_and(|bytes| underway > HELD * bytes as f64);
        let let_be = connections.cwnd.unwrap_or(0.0);
        let is_short = chosen && filled && let_be > LET * underway;
        let is_held_back = share > HELD_BACK;
        (is_held_back || is_short).then_some(LimitingFactor::SendBuffer {
            end: self.sends,
            bytes,
            share: if is_held_back { share } else { 0.0 },
            chosen,
            underway: [underway, let_be],
        })
    }

    /// Mean data in flight per connection, bytes.
    fn underway(&self) -> Option<f64> {
        Some(self.payload? / 8.0 * self.connections?.round_trip_s? / f64::from(self.streams))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostReport, ProcessorShare};

    /// The limit of an upload of 8 Mbit/s over one connection, after `change` has modified the report of the sender and
    /// the counters of its connections. Without a change, nothing limited it.
    fn limit(
        delays: [f64; 2],
        change: impl FnOnce(&mut EndReport, &mut ConnectionSummary),
    ) -> Option<LimitingFactor> {
        let mut sender = EndReport { threads_ns: 1000, ..EndReport::default() };
        let mut connections = ConnectionSummary {
            busy: Some(1.0),
            window_limited: Some(0.0),
            buffer_limited: Some(0.0),
            window: Some(1e6),
            round_trip_s: Some(0.02),
            ..ConnectionSummary::default()
        };
        change(&mut sender, &mut connections);
        let ends = TransferEnds {
            sends: MeasuredHost::Client,
            sender: &sender,
            receiver: &EndReport::default(),
            connections: Some(&connections),
            streams: 1,
            payload: Some(8e6),
            delays: PathDelays::of(Some(delays[0]), Some(delays[1])),
        };
        ends.limit()
    }

    #[test]
    fn a_transfer_that_the_path_holds_up_is_the_paths() {
        let quiet = limit([0.1; 2], |sender, connections| {
            (connections.window_limited, connections.buffer_limited) = (Some(0.3), Some(0.3));
            (sender.ran_ns, sender.waited_ns) = (600, 240);
        });
        assert_eq!(quiet, None);
        // Full buffers while the path's queue is full do not show a limit of the ends.
        let queued = limit([0.111, 0.1], |_, connections| {
            (connections.window_limited, connections.buffer_limited) = (Some(0.9), Some(0.9));
        });
        assert_eq!(queued, None);
    }

    #[test]
    fn what_an_end_did_is_told_each_in_its_words() {
        let busy = |sender: &mut EndReport| (sender.ran_ns, sender.waited_ns) = (600, 310);
        for (found, expected) in [
            (
                limit([0.1; 2], |sender, _| busy(sender)),
                "the transfer is limited by the processor of this host, which sends: the thread that carries the data ran for \
                 60 % of the time and waited for a processor for 31 %",
            ),
            (
                limit([0.1; 2], |sender, _| {
                    busy(sender);
                    let stolen = ProcessorShare { steal: 0.2, ..ProcessorShare::default() };
                    sender.host = HostReport { processors: vec![stolen], ..HostReport::default() };
                }),
                "the transfer is limited by the hypervisor of this host",
            ),
            (
                limit([0.1; 2], |_, connections| connections.buffer_limited = Some(0.4)),
                "the transfer is limited by the send buffer of this host: the path had room and the buffer held no unsent data \
                 for 40 % of the time",
            ),
            (
                limit([0.109, 0.1], |_, connections| connections.window_limited = Some(0.4)),
                "the transfer is limited by the receive window of the server",
            ),
            // Two programs on one host: the increase of the round-trip time is their wake-up time, not a queue.
            (
                limit([2.5e-4, 5e-6], |_, connections| connections.window_limited = Some(0.9)),
                "the transfer is limited by the receive window of the server",
            ),
        ] {
            let words = found.map(|limit| limit.explanation("the transfer")).unwrap_or_default();
            assert!(words.starts_with(expected), "{words}");
        }
        // A processor slows the transfer even if the path has a queue.
        let limit = limit([0.2, 0.1], |sender, _| busy(sender));
        assert!(matches!(limit, Some(LimitingFactor::Processor { sends: true, .. })), "{limit:?}");
    }
}
