//! Sockets whose options are verified.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, ipproto, sockopt};
use serde::{Deserialize, Serialize};

use crate::sys::{option_bytes, option_int, set_option_int};

/// The longest payload of UDP over IPv4 (RFC 768, RFC 791), bytes: 65535 minus 28 bytes of headers.
pub const LONGEST_DATAGRAM: usize = 65_507;

/// Indices of the 32-bit words of SO_MEMINFO for the memory of received data and for the count of drops
/// (include/uapi/linux/sock_diag.h).
const SK_MEMINFO_RMEM_ALLOC: usize = 0;
const SK_MEMINFO_DROPS: usize = 8;

/// Why a socket could not be opened as requested.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The kernel refused a step.
    #[error("{what} on {address}: {source}")]
    Refused {
        /// The step: `open`, `bind`, `listen` or the name of an option.
        what: &'static str,
        /// The local address of the socket.
        address: SocketAddr,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The value of an option that was read back is not the value that was set.
    #[error("{option} did not take effect: requested {asked}, read back {got}")]
    DidNotTake {
        /// The option's name in the manual.
        option: &'static str,
        /// The requested value.
        asked: String,
        /// The value that was read back.
        got: String,
    },
}

/// Requested sizes of a socket's buffers, bytes. The kernel doubles a requested size to allow for its overhead
/// (socket(7)). The size that is read back must be this doubled size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffers {
    /// `SO_SNDBUF`. If not given, the kernel chooses the size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<u32>,
    /// `SO_RCVBUF`. If not given, the kernel chooses the size, but a receiver of datagrams gets room for 100 ms of its
    /// flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive: Option<u32>,
}

/// Options of UDP sockets. An option that is not given has the kernel's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpOptions {
    /// The buffers.
    #[serde(default)]
    pub buffers: Buffers,
    /// Whether the receive buffer is under test. If so, a datagram that is dropped because the buffer is full is not a
    /// fault.
    #[serde(default)]
    pub limited: bool,
    /// Whether the arrival time of a datagram is the time at which it is read, instead of the time at which the kernel
    /// received it.
    #[serde(default)]
    pub until_read: bool,
    /// Whether fragmentation of datagrams is forbidden, both on this host and on the path (`IP_PMTUDISC_DO`, ip(7)). A
    /// datagram that is longer than the known path MTU is not sent.
    #[serde(default)]
    pub uncut: bool,
}

/// Options of TCP sockets. An option that is not given has the kernel's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpOptions {
    /// `IPPROTO_MPTCP`: Multipath TCP (RFC 8684).
    #[serde(default)]
    pub multipath: bool,
    /// The local and remote address of each path that the subflows of Multipath TCP may take. The index of a path in
    /// this list identifies it in the measurements of subflows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<(IpAddr, IpAddr)>,
    /// `TCP_CONGESTION`: the name of a congestion control of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// `TCP_MAXSEG`: the largest segment that is sent and announced, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_segment: Option<u16>,
    /// `TCP_WINDOW_CLAMP`: the largest window that is announced, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_clamp: Option<u32>,
    /// `TCP_NODELAY`: switches Nagle's algorithm off (RFC 9293 section 3.7.4).
    #[serde(default)]
    pub no_delay: bool,
    /// The buffers.
    #[serde(default)]
    pub buffers: Buffers,
}

/// Builds a socket. Every option is set and read back, and the two values are compared.
pub struct SocketBuilder {
    socket: OwnedFd,
    local: SocketAddr,
}

impl SocketBuilder {
    /// Opens a non-blocking socket for the IP version of `local`. IPv6 sockets do not accept IPv4.
    pub fn open(
        kind: SocketType,
        protocol: Option<Protocol>,
        local: SocketAddr,
    ) -> Result<Self, SocketError> {
        let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, kind, flags, protocol)
            .map_err(|error| refused("open", local, error))?;
        let making = Self { socket, local };
        // A raw socket has only one IP version and refuses the option.
        if local.is_ipv6() && kind != SocketType::RAW {
            making.option(
                "IPV6_V6ONLY",
                true,
                |s, v| sockopt::set_ipv6_v6only(s, v),
                |s| sockopt::ipv6_v6only(s),
            )?;
        }
        Ok(making)
    }

    /// A TCP or MPTCP socket.
    pub fn tcp(options: &TcpOptions, dscp: u8, local: SocketAddr) -> Result<Self, SocketError> {
        let protocol = if options.multipath { ipproto::MPTCP } else { ipproto::TCP };
        let making = Self::open(SocketType::STREAM, Some(protocol), local)?;
        if let Some(congestion) = &options.congestion {
            making.option(
                "TCP_CONGESTION",
                congestion.clone(),
                |socket, name| sockopt::set_tcp_congestion(socket, &name),
                |socket| sockopt::tcp_congestion(socket),
            )?;
        }
        if let Some(bytes) = options.max_segment {
            making.number("TCP_MAXSEG", libc::IPPROTO_TCP, libc::TCP_MAXSEG, bytes.into())?;
        }
        if let Some(bytes) = options.window_clamp {
            let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
            making.number("TCP_WINDOW_CLAMP", libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes)?;
        }
        // Nagle's algorithm and the best-effort DSCP are the kernel's defaults, so only other values are set.
        if options.no_delay {
            making.option(
                "TCP_NODELAY",
                true,
                |s, v| sockopt::set_tcp_nodelay(s, v),
                |s| sockopt::tcp_nodelay(s),
            )?;
        }
        making.buffers(options.buffers)?;
        if dscp != 0 {
            making.dscp(dscp)?;
        }
        Ok(making)
    }

    /// Sets an option, reads it back and compares.
    pub fn option<T: PartialEq + Clone + std::fmt::Debug>(
        &self,
        option: &'static str,
        asked: T,
        set: impl Fn(&OwnedFd, T) -> Result<(), Errno>,
        get: impl Fn(&OwnedFd) -> Result<T, Errno>,
    ) -> Result<(), SocketError> {
        set(&self.socket, asked.clone()).map_err(|error| refused(option, self.local, error))?;
        let got = get(&self.socket).map_err(|error| refused(option, self.local, error))?;
        took(option, asked, got)
    }

    /// Sets an option that is a whole number, by its level and name.
    pub fn number(&self, option: &'static str, level: i32, name: i32, asked: i32) -> Result<(), SocketError> {
        let failed = |source| SocketError::Refused { what: option, address: self.local, source };
        set_option_int(&self.socket, level, name, asked).map_err(failed)?;
        let got = option_int(&self.socket, level, name).map_err(failed)?;
        took(option, asked, got)
    }

    /// Sets the differentiated services code point of sent packets.
    pub fn dscp(&self, dscp: u8) -> Result<(), SocketError> {
        let (option, level, name) = class_option(self.local.is_ipv4());
        self.number(option, level, name, class_of(dscp))
    }

    /// Switches on the kernel's software time stamps of datagrams (Documentation/networking/timestamping).
    pub fn stamped(&self, which: TimestampMode) -> Result<(), SocketError> {
        let received = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        let flags = match which {
            TimestampMode::Received => received,
            TimestampMode::Both => {
                received
                    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
                    | libc::SOF_TIMESTAMPING_OPT_ID
                    | libc::SOF_TIMESTAMPING_OPT_TSONLY
            }
        };
        self.number("SO_TIMESTAMPING", libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as i32)
    }

    /// Allows other sockets of the same kind to bind to the same address. The kernel distributes the peers among these
    /// sockets (`SO_REUSEPORT`, socket(7)).
    pub fn share_address(&self) -> Result<(), SocketError> {
        self.option(
            "SO_REUSEPORT",
            true,
            |s, v| sockopt::set_socket_reuseport(s, v),
            |s| sockopt::socket_reuseport(s),
        )
    }

    /// Makes the kernel coalesce received datagrams of the same length and the same sender (`UDP_GRO`, udp(7)).
    pub fn coalesce_received(&self) -> Result<(), SocketError> {
        self.number("UDP_GRO", libc::SOL_UDP, libc::UDP_GRO, 1)
    }

    /// Forbids fragmentation, both on this host and on the path (ip(7), ipv6(7): `IP_MTU_DISCOVER`).
    pub fn never_fragment(&self) -> Result<(), SocketError> {
        match self.local.is_ipv4() {
            true => {
                self.number("IP_MTU_DISCOVER", libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
            }
            false => {
                let (level, how) = (libc::IPPROTO_IPV6, libc::IPV6_PMTUDISC_DO);
                self.number("IPV6_MTU_DISCOVER", level, libc::IPV6_MTU_DISCOVER, how)?;
                self.number("IPV6_DONTFRAG", level, libc::IPV6_DONTFRAG, 1)
            }
        }
    }

    /// Makes the kernel queue ICMP errors about sent datagrams (ip(7): `IP_RECVERR`).
    pub fn report_errors(&self) -> Result<(), SocketError> {
        match self.local.is_ipv4() {
            true => self.number("IP_RECVERR", libc::IPPROTO_IP, libc::IP_RECVERR, 1),
            false => self.number("IPV6_RECVERR", libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
        }
    }

    /// Sets the sizes of the buffers. They may exceed the system's limits if the process has CAP_NET_ADMIN.
    pub fn buffers(&self, buffers: Buffers) -> Result<(), SocketError> {
        if let Some(bytes) = buffers.send {
            self.option(
                "SO_SNDBUF",
                RequestedSize(bytes),
                |s, RequestedSize(bytes)| set_send_buffer(s, bytes as usize),
                |s| sockopt::socket_send_buffer_size(s).map(RequestedSize::from_kernel),
            )?;
        }
        if let Some(bytes) = buffers.receive {
            self.option(
                "SO_RCVBUF",
                RequestedSize(bytes),
                |s, RequestedSize(bytes)| set_receive_buffer(s, bytes as usize),
                |s| sockopt::socket_recv_buffer_size(s).map(RequestedSize::from_kernel),
            )?;
        }
        Ok(())
    }

    /// Enlarges the receive buffer to at least `bytes`. Without CAP_NET_ADMIN, the system's limit may make it smaller.
    pub fn receive_at_least(&self, bytes: usize) -> Result<(), SocketError> {
        let failed = |error| refused("SO_RCVBUF", self.local, error);
        if sockopt::socket_recv_buffer_size(&self.socket).map_err(failed)? / 2 >= bytes {
            return Ok(());
        }
        set_receive_buffer(&self.socket, bytes).map_err(failed)
    }

    /// The receive buffer's size as the kernel reports it, bytes: twice the requested size.
    pub fn receive_buffer(&self) -> Result<u32, SocketError> {
        let bytes = sockopt::socket_recv_buffer_size(&self.socket)
            .map_err(|error| refused("SO_RCVBUF", self.local, error))?;
        Ok(u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// Binds to the local address. An address at which an earlier run listened can be used again immediately. If the
    /// kernel chooses the port of a TCP connection, it chooses it when the socket connects. Connections to different
    /// peers can then share a port, so the number of connections is limited only by the pairs of ports.
    pub fn bound(self) -> Result<OwnedFd, SocketError> {
        let local = self.local;
        if local.port() != 0 {
            self.option(
                "SO_REUSEADDR",
                true,
                |s, v| sockopt::set_socket_reuseaddr(s, v),
                |s| sockopt::socket_reuseaddr(s),
            )?;
        } else if sockopt::socket_type(&self.socket) == Ok(SocketType::STREAM)
            && sockopt::socket_protocol(&self.socket) == Ok(Some(ipproto::TCP))
        {
            self.number("IP_BIND_ADDRESS_NO_PORT", libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        }
        self.bound_alone()
    }

    /// Binds to the local address without sharing it. The kernel refuses if another datagram socket is bound to the
    /// address, or if a connection at this address has ended recently.
    pub fn bound_alone(self) -> Result<OwnedFd, SocketError> {
        rustix::net::bind(&self.socket, &self.local).map_err(|error| refused("bind", self.local, error))?;
        Ok(self.socket)
    }
}

impl AsFd for SocketBuilder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether an error may mean that the kernel cannot segment a message (`UDP_SEGMENT`). The kernel returns EINVAL or
/// EMSGSIZE if the segments would need fragmentation, and EIO if the interface has no checksum offload.
pub fn is_segmentation_refused(error: &io::Error) -> bool {
    const REFUSALS: [i32; 4] = [libc::EINVAL, libc::EMSGSIZE, libc::EIO, libc::EOPNOTSUPP];
    error.raw_os_error().is_some_and(|code| REFUSALS.contains(&code))
}

/// Which datagrams of a socket get the kernel's time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampMode {
    /// Received datagrams.
    Received,
    /// Received and sent datagrams. The time stamps of sent datagrams arrive in the error queue, with the number of the
    /// datagram but without its bytes.
    Both,
}

/// The socket option for the traffic class of sent packets: its name in the manual, its level and its number.
pub const fn class_option(v4: bool) -> (&'static str, i32, i32) {
    if v4 {
        ("IP_TOS", libc::IPPROTO_IP, libc::IP_TOS)
    } else {
        ("IPV6_TCLASS", libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
    }
}

/// The traffic class octet with the DSCP in its upper six bits (RFC 2474).
pub fn class_of(dscp: u8) -> i32 {
    i32::from(dscp << 2)
}

fn set_send_buffer(socket: &OwnedFd, bytes: usize) -> Result<(), Errno> {
    sockopt::set_socket_send_buffer_size_force(socket, bytes)
        .or_else(|_| sockopt::set_socket_send_buffer_size(socket, bytes))
}

fn set_receive_buffer(socket: &OwnedFd, bytes: usize) -> Result<(), Errno> {
    sockopt::set_socket_recv_buffer_size_force(socket, bytes)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, bytes))
}

/// Number of datagrams or packets that a socket dropped because its receive buffer was full, since it was opened.
/// SO_RXQ_OVFL gives the same number, but only together with the next received datagram.
pub fn drops(socket: impl AsFd) -> io::Result<u32> {
    memory(socket, SK_MEMINFO_DROPS)
}

/// Whether segments of a connection have arrived that cannot be read because an earlier segment is missing. While data
/// is readable, this is unknown, and the result is `false`.
pub fn has_hole(socket: impl AsFd) -> bool {
    // The order of the calls matters. If data is readable at the second call, either it was readable at the first call,
    // or a segment has filled the hole in between.
    let takes_memory = memory(&socket, SK_MEMINFO_RMEM_ALLOC).is_ok_and(|bytes| bytes > 0);
    takes_memory && rustix::io::ioctl_fionread(&socket).is_ok_and(|bytes| bytes == 0)
}

fn memory(socket: impl AsFd, word: usize) -> io::Result<u32> {
    let mut info = [0; (SK_MEMINFO_DROPS + 1) * size_of::<u32>()];
    let len = option_bytes(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut info)?;
    let bytes = info[..len].get(word * size_of::<u32>()..).and_then(|bytes| bytes.first_chunk());
    bytes.map(|bytes| u32::from_ne_bytes(*bytes)).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Restores the window clamp of a connection after a read. Linux 6.12 and later change the clamp when they estimate
/// again which part of the receive buffer is data (tcp_measure_rcv_mss).
pub fn hold_window(socket: impl AsFd, clamp: Option<u32>) {
    let Some(clamp) = clamp.and_then(|bytes| i32::try_from(bytes).ok()) else { return };
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP);
    // Reading or setting the option fails only if the connection is closed.
    if option_int(&socket, level, name).is_ok_and(|now| now != clamp) {
        let _ = set_option_int(&socket, level, name, clamp);
    }
}

/// Whether an error only means that a packet was lost: no route, a link that is down, a full queue, or an absent peer.
pub fn is_loss(error: &io::Error) -> bool {
    const LOSSES: [i32; 6] = [
        libc::ENETUNREACH,
        libc::EHOSTUNREACH,
        libc::ENETDOWN,
        libc::ENOBUFS,
        libc::ECONNREFUSED,
        libc::EPERM,
    ];
    error.raw_os_error().is_some_and(|code| LOSSES.contains(&code))
}

/// Whether an error means that a packet is longer than the known path MTU and must not be fragmented.
pub fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// A requested buffer size, bytes. The kernel reports twice this size.
#[derive(Clone, Copy, PartialEq)]
struct RequestedSize(u32);

impl RequestedSize {
    /// The requested size that corresponds to the size that the kernel reports.
    fn from_kernel(bytes: usize) -> Self {
        Self(u32::try_from(bytes / 2).unwrap_or(u32::MAX))
    }
}

impl std::fmt::Debug for RequestedSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} B", self.0)
    }
}

/// Checks that the value that was read back is the requested value.
fn took<T: PartialEq + std::fmt::Debug>(option: &'static str, asked: T, got: T) -> Result<(), SocketError> {
    if asked == got {
        return Ok(());
    }
    Err(SocketError::DidNotTake { option, asked: format!("{asked:?}"), got: format!("{got:?}") })
}

/// The error for a step `what` that the kernel refused for a socket at `address`.
pub fn refused(what: &'static str, address: SocketAddr, error: Errno) -> SocketError {
    SocketError::Refused { what, address, source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

    fn tcp(options: &TcpOptions, local: &str) -> Result<OwnedFd, SocketError> {
        SocketBuilder::tcp(options, 46, local.parse().unwrap())?.bound()
    }

    #[test]
    fn options_take_over_both_versions_of_ip() {
        let options = TcpOptions {
            congestion: Some("reno".into()),
            max_segment: Some(1000),
            window_clamp: Some(30_000),
            no_delay: true,
            buffers: Buffers { send: Some(50_000), receive: Some(60_000) },
            ..TcpOptions::default()
        };
        for local in LOOPBACK {
            let socket = tcp(&options, local).unwrap();
            assert_eq!(
                sockopt::socket_send_buffer_size(&socket).unwrap(),
                100_000,
                "socket(7): twice as much"
            );
        }
    }

    #[test]
    fn an_option_that_is_changed_by_the_kernel_is_an_error() {
        // The size is below SOCK_MIN_SNDBUF, the kernel's minimum.
        let buffers = Buffers { send: Some(1), receive: None };
        let error = tcp(&TcpOptions { buffers, ..TcpOptions::default() }, LOOPBACK[0]).unwrap_err();
        assert!(matches!(error, SocketError::DidNotTake { option: "SO_SNDBUF", .. }), "{error}");
    }

    #[test]
    fn a_congestion_control_that_is_not_there_is_named() {
        let options = TcpOptions { congestion: Some("nonesuch".into()), ..TcpOptions::default() };
        let error = tcp(&options, LOOPBACK[0]).unwrap_err();
        assert!(error.to_string().starts_with("TCP_CONGESTION on 127.0.0.1:0:"), "{error}");
    }
}
