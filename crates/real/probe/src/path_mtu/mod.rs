//! `probe mtu`: finds the path MTU to another host. It shows whether longer packets are reported by an ICMP error or
//! vanish, and whether TCP segments fit.
//!
//! [`search`] decides which sizes are probed. It uses no socket and no clock. The packets are echo requests, or
//! datagrams to netrig's far end. The far end answers with a few octets, so that only the forward path limits the size.

mod far_end;
mod order;
mod report;
pub mod search;
#[cfg(test)]
mod tests;

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Duration, Instant, Size};

use super::control::{self, ControlConnection, FromFarEnd, FromProbe, unexpected};
use super::error::{ProbeError, ProbeResult};
use super::flow::packet::FlowMethod;
use super::flow::{FlowEvent, FlowSendOutcome, FlowSocket, ResponseKind};
use super::icmp_error::{IcmpError, IcmpErrors, Unreachable};
use super::pacing::watching;
use super::segments::{SegmentEnd, SegmentEnds};
use super::stamp::HmacKey;
use super::trace::{TraceSettings, trace};
use netrig_host::frames::{read_frame, write_frame};
use netrig_host::random;
use netrig_host::{Clock, HostAddress};
use report::PathMtuFindings;
use search::{PathMtuSearch, PathMtuStep, TooLongReason};

pub(super) use far_end::serve;
pub use order::{MtuResponder, PathMtuOrder, PathMtuSettings};
pub use report::{BlackHolePlace, PathMtuReport, SegmentSizes, SizeOutcome, TooLongSize};

/// Time-out of a TCP connection attempt.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Finds the path MTU.
///
/// Fails if the order is invalid or a far end cannot be reached.
pub fn path_mtu(order: &PathMtuOrder, cancel: &AtomicBool) -> ProbeResult<PathMtuReport> {
    let ResponderConnection { socket, segments, control } = match &order.responder {
        MtuResponder::Echo(port) => ResponderConnection {
            segments: port.map(|port| segments_to(HostAddress::from(order.target).at(port))),
            socket: FlowSocket::open(FlowMethod::Icmp, order.target, order.settings.dscp.0)?,
            control: None,
        },
        MtuResponder::FarEnd(key) => call(order, key.as_ref())?,
    };
    let mut search = PathMtuSearch::new(order.plan(socket.flow())?);
    let kernel = socket.mtu()?;
    let mut icmp_errors = IcmpErrors::default();
    let (faults, interrupted) = carry_out(socket, &mut search, &mut icmp_errors, cancel)?;
    if let Some(mut control) = control {
        // If this write fails, the connection is closed, which also ends the far end's part.
        let _ = write_frame(&mut control, &FromProbe::Finish);
    }
    let vanished = matches!(search.refused(), (_, TooLongReason::Vanished)) && search.confirmed().is_some();
    let place = if vanished && order.settings.locate && !interrupted {
        Some(place(order, search.refused().0, cancel)?)
    } else {
        None
    };
    Ok(PathMtuFindings { search: &search, kernel, faults, interrupted, icmp_errors, segments, place }
        .report(order))
}

/// Runs a search: sends its packets and passes the responses to it. Returns the reasons why this host limited the
/// measurement, and whether the search was interrupted.
fn carry_out(
    mut socket: FlowSocket,
    search: &mut PathMtuSearch,
    icmp_errors: &mut IcmpErrors,
    cancel: &AtomicBool,
) -> ProbeResult<(Vec<String>, bool)> {
    let clock = Clock::starting_in(Duration::ZERO);
    let mut pacer = watching(socket.fd(), clock, Duration::ZERO)?;
    let is_over = || cancel.load(Ordering::Relaxed);
    while !is_over() {
        socket.take(|event| record(search, icmp_errors, &event, clock.now()))?;
        match search.next(clock.now()) {
            PathMtuStep::Send { number, size } => {
                let given =
                    socket.send(number, size, |event| record(search, icmp_errors, &event, clock.now()))?;
                if let FlowSendOutcome::TooLong(mtu) = given {
                    search.refused_here(number, mtu);
                }
            }
            // The wait ends after at most 50 ms, so that `cancel` is checked.
            PathMtuStep::Wait(until) => {
                pacer.wait(until).map_err(ProbeError::kernel("ppoll"))?;
            }
            PathMtuStep::Over => break,
        }
    }
    let interrupted = is_over();
    if interrupted {
        search.stop();
    }
    Ok((socket.faults()?, interrupted))
}

fn record(search: &mut PathMtuSearch, icmp_errors: &mut IcmpErrors, event: &FlowEvent, now: Instant) {
    // A message that quotes too little to identify its packet cannot be trusted (RFC 8899 section 4.6.1).
    let FlowEvent::Response(number, response) = event else { return };
    match response.kind {
        ResponseKind::Answer(_) => {
            search.answered(*number, now);
        }
        ResponseKind::IcmpError(IcmpError::Unreachable(Unreachable::TooLong(mtu))) => {
            search.too_long(*number, mtu, response.from)
        }
        ResponseKind::IcmpError(error) => icmp_errors.count(response.from, error),
    }
}

/// Finds the last hop that answers packets of `size`, a size that does not arrive at the target.
fn place(order: &PathMtuOrder, size: usize, cancel: &AtomicBool) -> ProbeResult<BlackHolePlace> {
    let PathMtuSettings { count, wait, dscp, .. } = order.settings;
    let way = TraceSettings {
        method: FlowMethod::Icmp,
        count,
        size: Some(Size::from_bytes(size as u64)),
        wait,
        gap: Duration::from_millis(20),
        dscp,
        ..TraceSettings::default()
    };
    let found = trace(order.target, &way, cancel)?;
    let last = found.hops.iter().rev().find_map(|hop| Some((hop.ttl, hop.addresses.first()?.address)));
    Ok(match last {
        Some((hop, address)) => BlackHolePlace::Behind { hop, address },
        None => BlackHolePlace::BeforeAnybody,
    })
}

/// The segment sizes of a connection to the target, or why there is no connection.
fn segments_to(target: SocketAddr) -> Result<SegmentEnds, String> {
    let stream = TcpStream::connect_timeout(&target, PATIENCE);
    let near = stream.and_then(|stream| SegmentEnd::read(&stream, target.is_ipv4()));
    near.map(|near| SegmentEnds { near, far: None }).map_err(|error| format!("{target}: {error}"))
}

/// The sockets of a search, and the segment sizes of its TCP connection.
struct ResponderConnection {
    socket: FlowSocket,
    /// The segment sizes of a TCP connection to the target, or why there is none.
    segments: Option<Result<SegmentEnds, String>>,
    /// The control connection to netrig's far end.
    control: Option<TcpStream>,
}

/// Connects to netrig's far end. Requests the UDP port that answers, and the segment sizes at the far end.
fn call(order: &PathMtuOrder, key: Option<&HmacKey>) -> ProbeResult<ResponderConnection> {
    let target = order.target;
    let ControlConnection { stream: mut control, .. } = control::call(target, key)?;
    let token = u64::from_ne_bytes(random().map_err(ProbeError::kernel("/dev/urandom"))?);
    write_frame(&mut control, &FromProbe::PathMtu { token })?;
    let port = match read_frame(&mut control)? {
        Some(FromFarEnd::Ready { port }) => port,
        Some(FromFarEnd::Refused { why }) => return Err(ProbeError::Refused { target, why }),
        _ => return Err(unexpected(target)),
    };
    let Some(FromFarEnd::Segments(far)) = read_frame(&mut control)? else {
        return Err(unexpected(target));
    };
    let near = SegmentEnd::read(&control, target.is_ipv4()).map_err(ProbeError::kernel("TCP_INFO"))?;
    let local = control.local_addr().map_err(ProbeError::kernel("getsockname"))?;
    let (local, to) = (HostAddress::from(local).at(0), HostAddress::from(target).at(port));
    let socket = FlowSocket::open_from(local, FlowMethod::Udp, to, order.settings.dscp.0, token)?;
    Ok(ResponderConnection {
        socket,
        segments: Some(Ok(SegmentEnds { near, far: Some(far) })),
        control: Some(control),
    })
}
