//! The report of one end on a transfer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{HostReport, LossPeriods, RadioReport, SinkReading};
use netrig_core::Duration;

/// Totals of the datagrams of a phase in one direction, at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Datagrams {
    /// Datagrams sent by this end.
    pub sent: u64,
    /// Datagrams that were due and could not be sent.
    pub skipped: u64,
    /// Datagrams received by this end, without duplicates.
    pub received: u64,
    /// Duplicates received. Absent at the sender, and if not reported.
    pub duplicated: Option<u64>,
    /// Reordered datagrams: received after one with a higher number (RFC 4737 section 3.3). Absent at the sender, and if not reported.
    pub reordered: Option<u64>,
    /// Datagrams that never arrived.
    pub lost: u64,
    /// The distribution of losses. Absent at the sender, and if not reported.
    pub loss_periods: Option<LossPeriods>,
    /// Datagrams that reached this host and were dropped because the socket buffer was full. Absent at the sender, and
    /// if not reported.
    pub dropped: Option<u64>,
    /// Jitter at the last datagram (RFC 3550 section 6.4.1), s. Absent if fewer than two arrived.
    pub jitter_s: Option<f64>,
    /// The largest step of this host's wall clock during the phase, s. Arrivals are stamped with this clock. Absent at
    /// the sender, and if the clock was not stepped.
    pub clock_set_s: Option<f64>,
}

/// The report of one end on a whole phase.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndReport {
    /// Counters of the host during the phase.
    pub host: HostReport,
    /// Processor time of the threads that carried data, ns.
    pub ran_ns: u64,
    /// Time for which these threads waited for a processor, ns.
    pub waited_ns: u64,
    /// Sum of the lifetimes of these threads, ns.
    pub threads_ns: u64,
    /// Payload of a full sent segment or SCTP packet, bytes. Absent for datagrams at a rate.
    pub segment: Option<u32>,
    /// Whether sent segments have time stamps (RFC 7323), which lengthen the header.
    pub timestamps: bool,
    /// The path MTU that the kernel assumes, bytes.
    pub path_mtu: Option<u32>,
    /// Whether options set the send and the receive buffer, so that kernel settings do not apply.
    pub chosen_buffers: [bool; 2],
    /// Sizes of the send and the receive buffer, bytes.
    pub buffers: Option<[u64; 2]>,
    /// The largest receive window, bytes, if the kernel does not choose it.
    pub window: Option<u32>,
    /// The congestion control of the sender.
    pub congestion: Option<String>,
    /// Statistics of the outgoing interface, if it is wireless.
    pub radio: Option<RadioReport>,
    /// Totals of datagrams.
    pub datagrams: Option<Datagrams>,
    /// Faults that make the phase invalid as a measurement of the path.
    pub faults: Vec<String>,
}

impl Datagrams {
    /// Adds the final counts of a sink.
    pub(super) fn receive(&mut self, taken: &SinkReading) {
        self.received += taken.arrivals.received;
        self.lost += taken.losses.lost;
        *self.duplicated.get_or_insert_default() += taken.arrivals.duplicated;
        *self.reordered.get_or_insert_default() += taken.arrivals.reordered;
        *self.dropped.get_or_insert_default() += taken.dropped;
        *self.loss_periods.get_or_insert_default() += &taken.losses;
        self.jitter_s = taken.known_jitter().or(self.jitter_s);
        let step = taken.clock_set.map(Duration::as_secs_f64);
        self.clock_set_s = self.clock_set_s.into_iter().chain(step).reduce(f64::max);
    }
}

impl EndReport {
    /// Adds the report of another part of the same end.
    pub(super) fn add(&mut self, part: Self) {
        let least = |one: Option<u32>, other| one.into_iter().chain(other).min();
        self.ran_ns += part.ran_ns;
        self.waited_ns += part.waited_ns;
        self.segment = least(self.segment, part.segment);
        self.path_mtu = least(self.path_mtu, part.path_mtu);
        self.timestamps |= part.timestamps;
        self.buffers = match (self.buffers, part.buffers) {
            (Some(one), Some(other)) => Some([one[0].max(other[0]), one[1].max(other[1])]),
            (one, other) => one.or(other),
        };
        self.window = self.window.or(part.window);
        self.congestion = self.congestion.take().or(part.congestion);
        if let Some(sent) = part.datagrams {
            let all = self.datagrams.get_or_insert_default();
            all.sent += sent.sent;
            all.skipped += sent.skipped;
        }
        self.faults.extend(part.faults);
    }
}
