//! The far end of a path MTU search. It answers each datagram that has the token of the search. The answer consists of
//! the first octets of the datagram.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Duration, Instant};

use super::super::control::FromFarEnd;
use super::super::error::{ProbeError, ProbeResult};
use super::super::flow::packet::MARK;
use super::super::pacing::watching;
use super::super::segments::SegmentEnd;
use super::super::socket::ProbeSocket;
use netrig_host::frames::write_frame;
use netrig_host::{Clock, HostAddress, is_readable};

/// Maximum duration of a search.
const LONGEST: Duration = Duration::from_secs(600);

/// Answers datagrams until the control connection is readable or closed. Answers go only to the host of this
/// connection, and only after a datagram with the token arrived from it. They are never longer than the datagram.
pub fn serve(control: &mut TcpStream, token: u64, from: SocketAddr, cancel: &AtomicBool) -> ProbeResult {
    let local = control.local_addr().map_err(ProbeError::kernel("getsockname"))?;
    let mut socket = ProbeSocket::udp(HostAddress::from(local).at(0), 0)?;
    let port = socket.local().map_err(ProbeError::kernel("getsockname"))?.port();
    write_frame(control, &FromFarEnd::Ready { port })?;
    let segments = SegmentEnd::read(&*control, local.is_ipv4()).map_err(ProbeError::kernel("TCP_INFO"))?;
    write_frame(control, &FromFarEnd::Segments(segments))?;
    let clock = Clock::starting_in(Duration::ZERO);
    let mut pacer = watching(socket.fd(), clock, Duration::ZERO)?;
    let (mut arrived, mut more) = (Vec::new(), false);
    let end = Instant::ZERO + LONGEST;
    while !is_readable(control) && !cancel.load(Ordering::Relaxed) && clock.now() < end {
        if !more {
            // The wait ends after at most 50 ms, so that `cancel` and the connection are checked.
            pacer.wait(Instant::NEVER).map_err(ProbeError::kernel("ppoll"))?;
        }
        let took = socket.receive(|incoming| {
            let mark = incoming.head.first_chunk::<MARK>().filter(|mark| mark[..8] == token.to_be_bytes());
            if let Some(mark) = mark.filter(|_| incoming.from.ip() == from.ip()) {
                arrived.push((incoming.from, *mark));
            }
        });
        more = took.map_err(ProbeError::kernel("recvmmsg"))?;
        for (to, mark) in arrived.drain(..) {
            // If the socket has no room or there is no route, the answer counts as lost, like any packet.
            let _ = socket.offer(to, &mark);
        }
        // Transmit time stamps are discarded, because no times are measured here.
        socket.transmit_stamps(|_| {}).map_err(ProbeError::kernel("the error queue"))?;
    }
    Ok(())
}
