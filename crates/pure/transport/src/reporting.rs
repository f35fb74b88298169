//! Reports of connections as quantities that are the same on every substrate.

use netrig_core::{CloseReason, Quantity, Subject, quantity};

use crate::{Counters, Incident, PathId, PathState, PathStatus};

/// The ends of a flow whose counts are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportingEnds {
    /// The end that sends the flow's data. Data in the other direction is not counted.
    Sender,
    /// Both ends.
    Both,
}

/// Reads one of an endpoint's counters.
pub type CounterReader = fn(&Counters) -> u64;

impl Counters {
    /// The counters that are reported once per sampling interval: quantity, the ends that count, and how to read the
    /// counter.
    pub const REPORTED: [(&'static Quantity, ReportingEnds, CounterReader); 7] = [
        (&quantity::PACKETS_SENT, ReportingEnds::Both, |c| c.packets_sent),
        (&quantity::DATA_PACKETS_SENT, ReportingEnds::Sender, |c| c.data_packets_sent),
        (&quantity::RETRANSMITTED_BYTES, ReportingEnds::Sender, |c| c.bytes_retransmitted),
        (&quantity::FAST_RETRANSMISSIONS, ReportingEnds::Sender, |c| c.fast_retransmissions),
        (&quantity::TIMEOUT_RETRANSMISSIONS, ReportingEnds::Sender, |c| c.timeout_retransmissions),
        (&quantity::TIMEOUTS, ReportingEnds::Both, |c| c.timeouts),
        (&quantity::WINDOW_PROBES, ReportingEnds::Sender, |c| c.window_probes),
    ];
}

impl PathStatus {
    /// The values in a trace of a path. A quantity without a value is left out.
    pub fn levels(self) -> impl Iterator<Item = (&'static Quantity, f64)> {
        [
            (&quantity::CWND, Some(self.cwnd as f64)),
            (&quantity::FLIGHT, Some(self.flight as f64)),
            (&quantity::RTO, Some(self.rto.as_secs_f64())),
            (&quantity::SSTHRESH, (self.ssthresh != u64::MAX).then_some(self.ssthresh as f64)),
            (&quantity::SRTT, self.srtt.map(|span| span.as_secs_f64())),
        ]
        .into_iter()
        .filter_map(|(quantity, value)| Some((quantity, value?)))
    }
}

impl Incident {
    /// The sample for this incident, if it has one: subject, quantity and value. `flow` is the number of the flow.
    pub fn moment(&self, flow: u32) -> Option<(Subject, &'static Quantity, f64)> {
        let path = |path: PathId| Subject::Path(flow, path.0);
        Some(match *self {
            Self::Established => (Subject::Flow(flow), &quantity::ESTABLISHED, 0.0),
            Self::Timeout { path: on, errors, .. } => (path(on), &quantity::PATH_TIMEOUT, f64::from(errors)),
            Self::PathChanged { path: on, state: PathState::Active } => {
                (path(on), &quantity::PATH_ACTIVE, 0.0)
            }
            Self::PathChanged { path: on, state } if state != PathState::Unconfirmed => {
                (path(on), &quantity::PATH_FAILED, f64::from(u8::from(state == PathState::Inactive)))
            }
            Self::DataPathChanged { path: on } => (path(on), &quantity::DATA_PATH, f64::from(on.0)),
            Self::Closed(reason) => (Subject::Flow(flow), &quantity::CLOSED, f64::from(reason as u8)),
            _ => return None,
        })
    }

    /// The text for the time line of a run. `path` returns the name of a path. `timer` is the protocol's name of the
    /// retransmission timer (`T3-rtx` in SCTP).
    pub fn words<'a>(&self, timer: &str, path: impl Fn(PathId) -> &'a str) -> String {
        match *self {
            Self::Established => "connection established".to_owned(),
            Self::Timeout { path: on, rto, errors, limit, cwnd } => {
                let (path, rto) = (path(on), rto.as_secs_f64());
                format!("{timer} on {path}, RTO {rto:.3} s: cwnd {cwnd} B, error count {errors} of {limit}")
            }
            Self::ControlTimeout { timer, rto, errors, limit } => {
                format!("{timer}, RTO {:.3} s: error count {errors} of {limit}", rto.as_secs_f64())
            }
            Self::FastRetransmit { path: on, cwnd } => {
                format!("fast retransmit on {}: cwnd {cwnd} B", path(on))
            }
            Self::Recovered { path: on, cwnd } => format!("recovered on {}: cwnd {cwnd} B", path(on)),
            Self::SpuriousTimeout { path: on } => format!("the time-out on {} was spurious", path(on)),
            Self::TailLossProbe { path: on } => format!("tail loss probe on {}", path(on)),
            Self::PathChanged { path: on, state } => format!("{} is {state}", path(on)),
            Self::DataPathChanged { path: on } => format!("new data goes over {}", path(on)),
            Self::PrimaryChanged { path: on } => format!("the primary path is {}", path(on)),
            Self::EcnReduction { path: on, cwnd } => {
                format!("ECN: congestion on {}, cwnd {cwnd} B", path(on))
            }
            Self::Closed(CloseReason::Finished) => "connection closed".to_owned(),
            Self::Closed(CloseReason::Aborted) => "connection aborted by the peer".to_owned(),
            Self::Closed(CloseReason::TimedOut) => {
                "connection given up: retransmissions exhausted".to_owned()
            }
            Self::Closed(CloseReason::Refused) => "connection refused".to_owned(),
        }
    }
}
