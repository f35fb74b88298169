//! What connections tell, in the words of a run's time line.

use netrig_core::CloseReason;
use netrig_transport::{Incident, PathId};

/// What a connection tells; `path` names its paths, and `timer` its retransmission timer (`T3-rtx` in SCTP).
pub(crate) fn incident<'a>(incident: &Incident, timer: &str, path: impl Fn(PathId) -> &'a str) -> String {
    match *incident {
        Incident::Established => "connection established".to_owned(),
        Incident::Timeout { path: on, rto, errors, limit, cwnd } => {
            let (path, rto) = (path(on), rto.as_secs_f64());
            format!("{timer} on {path}, RTO {rto:.3} s: cwnd {cwnd} B, error count {errors} of {limit}")
        }
        Incident::ControlTimeout { timer, rto, errors, limit } => {
            format!("{timer}, RTO {:.3} s: error count {errors} of {limit}", rto.as_secs_f64())
        }
        Incident::FastRetransmit { path: on, cwnd } => {
            format!("fast retransmit on {}: cwnd {cwnd} B", path(on))
        }
        Incident::Recovered { path: on, cwnd } => format!("recovered on {}: cwnd {cwnd} B", path(on)),
        Incident::SpuriousTimeout { path: on } => format!("the time-out on {} was spurious", path(on)),
        Incident::TailLossProbe { path: on } => format!("tail loss probe on {}", path(on)),
        Incident::PathChanged { path: on, state } => format!("{} is {state}", path(on)),
        Incident::DataPathChanged { path: on } => format!("new data goes over {}", path(on)),
        Incident::PrimaryChanged { path: on } => format!("the primary path is {}", path(on)),
        Incident::EcnReduction { path: on, cwnd } => {
            format!("ECN: congestion on {}, cwnd {cwnd} B", path(on))
        }
        Incident::Closed(CloseReason::Finished) => "connection closed".to_owned(),
        Incident::Closed(CloseReason::Aborted) => "connection aborted by the peer".to_owned(),
        Incident::Closed(CloseReason::TimedOut) => {
            "connection given up: retransmissions exhausted".to_owned()
        }
        Incident::Closed(CloseReason::Refused) => "connection refused".to_owned(),
    }
}
