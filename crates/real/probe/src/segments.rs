//! Sizes of TCP segments (MSS, RFC 9293 section 3.7.1, RFC 6691): the MSS that each end announces, and the MSS that
//! arrives at the other end. Some routers reduce it so that the packets fit into a tunnel on the path (clamping).

use std::io;
use std::os::fd::AsFd;

use serde::{Deserialize, Serialize};

use netrig_host::TcpInfo;
use netrig_host::sys::option_bytes;

/// Maximum octets of the IP and TCP headers with their options.
const LONGEST_SYN: usize = 60 + 40 + 60;

/// Octets of the time stamps option with padding (RFC 7323).
const TIMESTAMPS: u32 = 12;

/// Segment sizes at one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentEnd {
    /// MSS that this end announced, bytes.
    pub announced: u32,
    /// MSS that the other end announced, as it arrived here, bytes.
    pub received: u32,
    /// Whether the received MSS is exact. Otherwise it is a lower bound, because the path MTU or a window limits the
    /// segments.
    pub exactly: bool,
    /// User bytes in a full segment of this end.
    pub segment: u32,
    /// The kernel's estimate of the path MTU, octets of IP.
    pub path_mtu: u32,
}

impl SegmentEnd {
    /// Reads the sizes of this end of a connection. The received MSS is exact if the listener saved the SYN
    /// (`TCP_SAVE_SYN`), which can be read once. Otherwise it is derived from the length of the segments that this end
    /// sends.
    ///
    /// Fails if the socket is not a TCP socket.
    pub fn read(socket: impl AsFd, v4: bool) -> io::Result<Self> {
        let info = TcpInfo::read(&socket)?;
        let mut syn = [0; LONGEST_SYN];
        let kept = option_bytes(&socket, libc::IPPROTO_TCP, libc::TCP_SAVED_SYN, &mut syn);
        let exact = kept.ok().and_then(|len| of_syn(&syn[..len.min(LONGEST_SYN)]));
        let (received, exactly) = match exact {
            Some(received) => (received, true),
            None => derived(&info, v4),
        };
        let TcpInfo { segment, path_mtu, .. } = info;
        Ok(Self { announced: info.announced + options(&info), received, exactly, segment, path_mtu })
    }
}

/// The MSS derived from the length of a segment, and whether it is exact. It is a lower bound if the path MTU or the
/// first window of the other end limits the segments.
fn derived(info: &TcpInfo, v4: bool) -> (u32, bool) {
    let own = info.segment + options(info);
    (own, own + headers(v4) < info.path_mtu && !is_of_half_a_window(info))
}

/// Whether segments may be short because a window must hold two of them (`tcp_bound_to_half_wnd` in Linux's
/// include/net/tcp.h). The limit depends on the window in the handshake, which cannot be read later. The estimate of
/// that window is the current window, limited to the maximum of the header field (RFC 9293 section 3.1), with a margin
/// for the rounding of windows.
fn is_of_half_a_window(info: &TcpInfo) -> bool {
    const ROUNDED: u64 = 128;
    let offered = if info.window == 0 { u64::MAX } else { info.window };
    2 * u64::from(info.segment) + ROUNDED > offered.min(u16::MAX.into())
}

/// Octets of the options in every segment. The kernel excludes them from the announced MSS and from the segment size
/// that it reports.
const fn options(info: &TcpInfo) -> u32 {
    if info.has_timestamps { TIMESTAMPS } else { 0 }
}

/// Octets of the IP and TCP headers without options.
pub const fn headers(v4: bool) -> u32 {
    if v4 { 40 } else { 60 }
}

/// Parses the MSS of a SYN. `packet` begins with the IP header. A SYN without an MSS option has the default MSS (RFC
/// 9293 section 3.7.1). Returns `None` if the packet is not a TCP packet.
pub fn of_syn(packet: &[u8]) -> Option<u32> {
    const NEXT_HEADER: usize = 6;
    let (v4, tcp) = match packet.first()? >> 4 {
        4 => (true, packet.get(usize::from(packet[0] & 0xF) * 4..)?),
        6 if *packet.get(NEXT_HEADER)? == libc::IPPROTO_TCP as u8 => (false, packet.get(40..)?),
        _ => return None,
    };
    let end = usize::from(tcp.get(12)? >> 4) * 4;
    let mut options = tcp.get(20..end)?;
    loop {
        match *options {
            [] | [0, ..] => return Some(if v4 { 536 } else { 1220 }),
            [1, ..] => options = &options[1..],
            [2, 4, high, low, ..] => return Some(u16::from_be_bytes([high, low]).into()),
            [_, len, ..] if len >= 2 => options = options.get(usize::from(len)..)?,
            _ => return None,
        }
    }
}

/// Segment sizes at both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEnds {
    /// This end.
    pub near: SegmentEnd,
    /// The far end, if it is a far end of netrig.
    pub far: Option<SegmentEnd>,
}

/// An MSS that was reduced on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Clamped {
    /// MSS as announced, bytes.
    pub announced: u32,
    /// MSS on arrival, bytes.
    pub received: u32,
}

/// Compares the announced and the received MSS. Returns `None` if the MSS was not reduced.
pub fn clamped(announcing: &SegmentEnd, receiving: &SegmentEnd) -> Option<Clamped> {
    let (announced, received) = (announcing.announced, receiving.received);
    (receiving.exactly && received < announced).then_some(Clamped { announced, received })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use proptest::prelude::*;

    use super::*;
    use netrig_host::sys::set_option_int;

    fn syn(v4: bool, options: &[u8]) -> Vec<u8> {
        let mut packet = if v4 { vec![0x45; 20] } else { vec![0x60; 40] };
        if !v4 {
            packet[6] = 6;
        }
        let mut tcp = vec![0; 20];
        tcp.extend(options);
        tcp[12] = (tcp.len() as u8 / 4) << 4;
        packet.extend(tcp);
        packet
    }

    #[test]
    fn the_mss_stands_among_the_options_of_a_syn() {
        let among = [1, 3, 3, 7, 4, 2, 2, 4, 0x05, 0xB4, 0, 0];
        for v4 in [true, false] {
            assert_eq!(of_syn(&syn(v4, &among)), Some(1460));
            assert_eq!(of_syn(&syn(v4, &[])), Some(if v4 { 536 } else { 1220 }));
        }
        assert_eq!(of_syn(&syn(true, &[4, 0, 2, 4])), None, "an option of no length");
        assert_eq!(of_syn(&syn(true, &[4, 9, 2, 4])), None, "an option that is longer than the header");
        assert_eq!(of_syn(&syn(true, &among)[..39]), None, "cut");
    }

    /// A listener that saves SYNs reads the MSS that its peer announced. The other end derives the MSS of the listener
    /// from its own segments.
    #[test]
    fn both_ends_of_a_connection_know_what_was_announced() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(at).unwrap();
            set_option_int(&listener, libc::IPPROTO_TCP, libc::TCP_SAVE_SYN, 1).unwrap();
            set_option_int(&listener, libc::IPPROTO_TCP, libc::TCP_MAXSEG, 1000).unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (far, _) = listener.accept().unwrap();
            let v4 = at.starts_with('1');
            let [near, far] = [&near, &far].map(|end| SegmentEnd::read(end, v4).unwrap());
            assert_eq!((far.announced, near.received, near.exactly), (1000, 1000, true));
            assert_eq!((far.received, far.exactly), (near.announced, true));
            assert_eq!((clamped(&near, &far), clamped(&far, &near)), (None, None));
            let less = SegmentEnd { received: 900, ..near };
            assert_eq!(clamped(&far, &less), Some(Clamped { announced: 1000, received: 900 }));
            assert_eq!(clamped(&far, &SegmentEnd { exactly: false, ..less }), None);
        }
    }

    #[test]
    fn a_segment_that_the_path_keeps_short_tells_the_least() {
        let info = |segment| {
            let mut info = TcpInfo::default();
            (info.segment, info.path_mtu, info.has_timestamps) = (segment, 1400, true);
            info
        };
        assert_eq!(derived(&info(1348), true), (1360, false));
        assert_eq!(derived(&info(1248), true), (1260, true));
        assert_eq!(derived(&info(1328), false), (1340, false));
        let mut narrow = info(1248);
        narrow.window = 2500;
        assert_eq!(derived(&narrow, true), (1260, false), "a window has two segments");
    }

    /// The window of a loopback connection is smaller than two segments of the interface's MTU.
    #[test]
    fn segments_that_a_window_keeps_short_are_not_clamped() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_option_int(&listener, libc::IPPROTO_TCP, libc::TCP_SAVE_SYN, 1).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let [near, far] = [&near, &far].map(|end| SegmentEnd::read(end, true).unwrap());
        assert_eq!((clamped(&near, &far), clamped(&far, &near)), (None, None), "{near:?} {far:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_syn_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..LONGEST_SYN)) {
            prop_assert!(of_syn(&bytes).is_none_or(|mss| mss <= 0xFFFF));
        }
    }
}
