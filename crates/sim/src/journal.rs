//! A run's time line in words.

use netrig_core::{CloseReason, Direction, InFlight, Instant, LinkEvent, Note, Sink, Subject, Waiting};
use netrig_transport::{Incident, PathId};

/// Writes notes if anybody wants them.
pub(crate) struct Journal {
    wanted: bool,
}

impl Journal {
    /// Asks `sink` whether it wants notes.
    pub fn new(sink: &dyn Sink) -> Self {
        Self { wanted: sink.wants_notes() }
    }

    /// Writes a line; `words` is asked for only if somebody reads it.
    pub fn note(&self, at: Instant, subject: Subject, words: impl FnOnce() -> String, sink: &mut dyn Sink) {
        if self.wanted {
            sink.note(Note { at, subject, text: words() });
        }
    }
}

/// One direction of a link: `primary (forward)`.
pub(crate) fn direction_of(link: &str, direction: Direction) -> String {
    format!("{link} ({direction})")
}

/// What was dropped somewhere since a moment, and why.
pub(crate) fn drops(place: &str, packets: u64, why: &str, since: Instant) -> String {
    let plural = if packets == 1 { "" } else { "s" };
    format!("{place} dropped {packets} packet{plural} since {since}: {why}")
}

/// What happened to one direction of a link.
pub(crate) fn link_event(link: &str, direction: Direction, event: &LinkEvent) -> String {
    let name = direction_of(link, direction);
    match event {
        LinkEvent::Down { queue, in_flight } => {
            let queue = if *queue == Waiting::Keep { "kept" } else { "dropped" };
            let in_flight = if *in_flight == InFlight::Deliver { "delivered" } else { "lost" };
            format!("{name} down: queue {queue}, packets in flight {in_flight}")
        }
        LinkEvent::Up => format!("{name} up"),
        LinkEvent::Rate { bits_per_s } => {
            format!("{name}: rate {}", netrig_core::Rate::from_bits_per_s(*bits_per_s))
        }
        LinkEvent::Delay(delay) => format!("{name}: delay {delay}"),
        LinkEvent::Loss { probability } => format!("{name}: loss {} %", probability * 100.0),
    }
}

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
