//! Runs a trace over a socket of this host.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Duration, Instant};

use super::super::error::{ProbeError, ProbeResult};
use super::super::flow::{FlowEvent, FlowSendOutcome, FlowSocket};
use super::super::pacing::watching;
use super::course::{TraceCourse, TraceProbe, TraceStep};
use netrig_host::{Clock, realtime_nanos};

/// Properties of a completed trace that the sent and received packets do not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceAccount {
    /// Source address and port of the flow.
    pub source: SocketAddr,
    /// Reasons why this host limited the measurement.
    pub faults: Vec<String>,
    /// Whether the trace was interrupted.
    pub interrupted: bool,
}

/// Runs a trace: sends its packets and passes the responses to it.
pub fn carry_out(
    mut socket: FlowSocket,
    course: &mut TraceCourse,
    cancel: &AtomicBool,
) -> ProbeResult<TraceAccount> {
    let clock = Clock::starting_in(Duration::ZERO);
    let mut pacer = watching(socket.fd(), clock, Duration::ZERO)?;
    let mut interrupted = false;
    loop {
        if cancel.load(Ordering::Relaxed) && !interrupted {
            interrupted = true;
            course.stop();
        }
        socket.take(|event| record(course, event, clock.now()))?;
        match course.next(clock.now(), realtime_nanos()) {
            TraceStep::Send(probe) => send(&mut socket, course, probe, clock.now())?,
            // The wait ends after at most 50 ms, so that `cancel` is checked.
            TraceStep::Wait(until) if !interrupted => {
                pacer.wait(until).map_err(ProbeError::kernel("ppoll"))?;
            }
            TraceStep::Wait(_) | TraceStep::Over => break,
        }
    }
    Ok(TraceAccount { source: socket.flow().source, faults: socket.faults()?, interrupted })
}

fn record(course: &mut TraceCourse, event: FlowEvent, now: Instant) {
    match event {
        FlowEvent::Left(number, at) => course.left(number, at),
        FlowEvent::Response(number, response) => {
            // Copies of a response are ignored.
            course.record(number, response);
        }
        FlowEvent::Unnamed(response) => course.record_unnamed(now, response),
    }
}

fn send(socket: &mut FlowSocket, course: &mut TraceCourse, probe: TraceProbe, now: Instant) -> ProbeResult {
    socket.set_ttl(probe.ttl)?;
    match socket.send(probe.number, probe.length, |event| record(course, event, now))? {
        FlowSendOutcome::Sent => Ok(()),
        FlowSendOutcome::TooLong(mtu) if course.sent()[probe.number as usize].for_speed => {
            course.is_too_long(probe.number, mtu);
            Ok(())
        }
        FlowSendOutcome::TooLong(mtu) => Err(ProbeError::Request(format!(
            "packets of {} B: the interface carries {mtu} B, and packets are not fragmented",
            probe.length
        ))),
    }
}
