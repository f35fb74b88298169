//! A socket that sends and receives the packets of one flow.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use netrig_core::Seeds;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};

use super::super::error::{ProbeError, ProbeResult};
use super::super::icmp_error::Extension;
use super::super::ping;
use super::super::socket::{ProbeSocket, icmp, may_not};
use super::packet::{FlowMethod, ProbeFlow, Quote};
use super::{FlowResponse, ResponseKind};
use netrig_host::RealtimeOffset;
use netrig_host::random;
use netrig_host::socket::SocketError;
use netrig_host::sys::{ErrorOrigin, QueuedError};
use netrig_host::{HostAddress, realtime_nanos};

/// Maximum number of batches of answers that are received before the next packet may be sent.
const LOOK: usize = 8;

/// Result of sending a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowSendOutcome {
    /// The packet was sent, or dropped because the socket had no room.
    Sent,
    /// The packet is longer than the MTU of the interface. The value is this MTU; 0 if it is not known.
    TooLong(u32),
}

/// An event of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowEvent {
    /// The kernel passed the packet with this number to the device at this time, ns since 1970.
    Left(u32, u64),
    /// A response to the packet with this number.
    Response(u32, FlowResponse),
    /// A response that does not identify its packet.
    Unnamed(FlowResponse),
}

/// A socket whose packets all belong to one flow.
pub struct FlowSocket {
    flow: ProbeFlow,
    /// The target as the socket needs it: raw sockets need port 0.
    target: SocketAddr,
    socket: ProbeSocket,
    /// Packet number of each sent datagram, in the order of sending.
    datagrams: Vec<u32>,
    /// MTU of the interface that the kernel reported in the last local error.
    local_mtu: u32,
    no_room: u64,
    wall: RealtimeOffset,
    /// Keeps other programs from using the TCP port of the flow.
    _port: Option<OwnedFd>,
}

impl FlowSocket {
    /// Opens the socket for this type of packets, with a random token.
    pub fn open(method: FlowMethod, target: SocketAddr, dscp: u8) -> ProbeResult<Self> {
        let entropy = u64::from_ne_bytes(random().map_err(ProbeError::kernel("/dev/urandom"))?);
        let token = Seeds::new(entropy).stream("probe/token").bits();
        Self::open_from(HostAddress::unspecified_for(target).at(0), method, target, dscp, token)
    }

    /// Opens the socket for this type of packets, with this token and this local address.
    pub fn open_from(
        local: SocketAddr,
        method: FlowMethod,
        target: SocketAddr,
        dscp: u8,
        token: u64,
    ) -> ProbeResult<Self> {
        let (socket, held) = match method {
            FlowMethod::Udp => (ProbeSocket::searching(SocketType::DGRAM, ipproto::UDP, local, dscp)?, None),
            FlowMethod::Icmp => (ping::open(local, dscp, ProbeSocket::searching)?, None),
            FlowMethod::Tcp => (raw_tcp(local, dscp)?, Some(hold_port(local)?)),
        };
        let port = if method == FlowMethod::Udp { target.port() } else { 0 };
        let to = HostAddress::from(target).at(port);
        socket.connect(to).map_err(|error| ProbeError::send(target, error))?;
        let mut source = socket.local().map_err(ProbeError::kernel("getsockname"))?;
        if let Some((_, port)) = held {
            source.set_port(port);
        }
        Ok(Self {
            flow: ProbeFlow { method, source, target, token },
            target: to,
            socket,
            datagrams: Vec::new(),
            local_mtu: 0,
            no_room: 0,
            wall: RealtimeOffset::measure(),
            _port: held.map(|(socket, _)| socket),
        })
    }

    pub const fn flow(&self) -> &ProbeFlow {
        &self.flow
    }

    /// The descriptor. It is readable when an event is pending.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    /// The kernel's estimate of the path MTU, octets of IP.
    pub fn mtu(&self) -> ProbeResult<usize> {
        self.socket.mtu().map_err(ProbeError::kernel("IP_MTU"))
    }

    /// Sets the TTL of the following packets.
    pub fn set_ttl(&mut self, ttl: u8) -> ProbeResult {
        self.socket.set_ttl(ttl).map_err(ProbeError::kernel("IP_TTL"))
    }

    /// Sends packet `number` with `length` octets of IP. Passes events that were pending to `each`.
    pub fn send(
        &mut self,
        number: u32,
        length: usize,
        mut each: impl FnMut(FlowEvent),
    ) -> ProbeResult<FlowSendOutcome> {
        let bytes = self.flow.packet(number, length);
        let mut sent = self.socket.send(self.target, &bytes);
        if sent.is_err() {
            // If a pending error about an earlier packet made the send fail, the error is read here, and the packet is
            // sent again.
            self.take(&mut each)?;
            sent = self.socket.send(self.target, &bytes);
        }
        let Err(error) = sent else {
            self.datagrams.push(number);
            return Ok(FlowSendOutcome::Sent);
        };
        match error.raw_os_error() {
            Some(libc::EMSGSIZE) => {
                self.local_mtu = 0;
                self.take(each)?;
                Ok(FlowSendOutcome::TooLong(self.local_mtu))
            }
            Some(libc::EAGAIN | libc::ENOBUFS) => {
                self.no_room += 1;
                Ok(FlowSendOutcome::Sent)
            }
            _ => Err(ProbeError::send(self.flow.target, error)),
        }
    }

    /// Passes all pending events to `each`: time stamps, ICMP errors and answers.
    pub fn take(&mut self, mut each: impl FnMut(FlowEvent)) -> ProbeResult {
        let Self { flow, socket, datagrams, local_mtu, .. } = self;
        let (mut left, mut responses) = (Vec::new(), Vec::new());
        let taken = socket.errors(
            |stamp| {
                let number = datagrams.get(stamp.number as usize);
                left.extend(number.map(|number| FlowEvent::Left(*number, stamp.at)));
            },
            |objection| match objection.error.origin {
                ErrorOrigin::Local if objection.error.errno == libc::EMSGSIZE => {
                    *local_mtu = objection.error.info
                }
                _ => responses.extend(event(flow, objection)),
            },
        );
        taken.map_err(ProbeError::kernel("the error queue"))?;
        left.into_iter().chain(responses).for_each(&mut each);
        self.answers(each)
    }

    /// Receives answers of the target.
    fn answers(&mut self, mut each: impl FnMut(FlowEvent)) -> ProbeResult {
        let Self { flow, socket, .. } = self;
        for _ in 0..LOOK {
            let took = socket.receive(|incoming| {
                let Some((number, how)) = flow.answered(incoming.head) else { return };
                each(FlowEvent::Response(
                    number,
                    FlowResponse {
                        from: incoming.from.ip(),
                        kind: ResponseKind::Answer(how),
                        at: incoming.stamp.unwrap_or_else(realtime_nanos),
                        stamped: incoming.stamp.is_some(),
                        ttl: incoming.ttl,
                        length: incoming.len,
                        labels: Vec::new(),
                    },
                ));
            });
            if !took.map_err(ProbeError::kernel("recvmmsg"))? {
                break;
            }
        }
        Ok(())
    }

    /// Reasons why this host limited the measurement.
    pub fn faults(&self) -> ProbeResult<Vec<String>> {
        let mut faults = Vec::new();
        if self.no_room > 0 {
            let packets = self.no_room;
            faults.push(format!("the sending socket had no room for {packets} packets: send more slowly"));
        }
        let drops = self.socket.drops().map_err(ProbeError::kernel("SO_MEMINFO"))?;
        if drops > 0 {
            faults.push(format!("{drops} answers reached this host, but the socket had no room for them"));
        }
        if let Some(step) = RealtimeOffset::measure().stepped_since(&self.wall) {
            faults.push(format!("the wall clock was stepped by {} s", step.as_secs_f64()));
        }
        Ok(faults)
    }
}

/// The event of an ICMP error. `None` if it quotes a packet of another flow.
fn event(flow: &ProbeFlow, objection: &QueuedError<'_>) -> Option<FlowEvent> {
    let error = objection.error;
    let (from, icmp_error) = icmp(&error)?;
    let extension = Extension::find(objection.head, error.extension(), flow.unrepeated());
    let response = FlowResponse {
        from,
        kind: ResponseKind::IcmpError(icmp_error),
        at: objection.stamp.unwrap_or_else(realtime_nanos),
        stamped: objection.stamp.is_some(),
        ttl: objection.ttl,
        length: objection.len,
        labels: extension.map_or_else(Vec::new, |extension| extension.labels),
    };
    match flow.quoted(objection.head) {
        Quote::Of(number) => Some(FlowEvent::Response(number, response)),
        Quote::Unnamed => Some(FlowEvent::Unnamed(response)),
        Quote::Foreign => None,
    }
}

/// Opens a raw TCP socket.
fn raw_tcp(any: SocketAddr, dscp: u8) -> ProbeResult<ProbeSocket> {
    match ProbeSocket::searching(SocketType::RAW, ipproto::TCP, any, dscp) {
        Err(error) if may_not(&error) => Err(ProbeError::Request(
            "a trace by TCP writes its own headers: run it with CAP_NET_RAW, or use --method udp".into(),
        )),
        other => Ok(other?),
    }
}

/// Reserves a TCP port. Returns the port and a socket that is bound to it.
fn hold_port(any: SocketAddr) -> ProbeResult<(OwnedFd, u16)> {
    let failed =
        |error: rustix::io::Errno| SocketError::Refused { what: "bind", address: any, source: error.into() };
    let family = if any.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(family, kind, flags, Some(ipproto::TCP)).map_err(failed)?;
    rustix::net::bind(&socket, &any).map_err(failed)?;
    let bound: SocketAddr = rustix::net::getsockname(&socket).and_then(TryInto::try_into).map_err(failed)?;
    Ok((socket, bound.port()))
}
