//! How long TCP's segments may be (MSS, RFC 9293 section 3.7.1, RFC 6691): what each end announces, and what of it arrives. Some
//! routers make it smaller on the way, so that packets fit a tunnel behind them (clamping).

use std::io;
use std::os::fd::AsFd;

use serde::{Deserialize, Serialize};

use netrig_host::TcpInfo;
use netrig_host::sys::option_bytes;

/// The longest headers of IP and TCP with their options.
const LONGEST_SYN: usize = 60 + 40 + 60;

/// Octets of the time stamps' option, filled up (RFC 7323).
const TIMESTAMPS: u32 = 12;

/// What one end of a connection knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentEnd {
    /// The MSS that it announced, bytes.
    pub announced: u32,
    /// The MSS of the other end, as it arrived here, bytes.
    pub received: u32,
    /// It is that; else it is that or more, and the path's MTU is what keeps segments shorter.
    pub exactly: bool,
    /// User bytes of the segments that it sends.
    pub segment: u32,
    /// What its kernel takes the path to carry, octets of IP.
    pub path_mtu: u32,
}

impl SegmentEnd {
    /// Of this end of a connection: exactly if its listener kept the SYN (`TCP_SAVE_SYN`), which can be asked for once; else
    /// from the segments that it sends.
    ///
    /// # Errors
    /// If the socket is none of TCP.
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

/// The MSS that a segment of this length must have come from: that, or more if the path is what keeps it short, or the window
/// that the other end offered first.
fn derived(info: &TcpInfo, v4: bool) -> (u32, bool) {
    let own = info.segment + options(info);
    (own, own + headers(v4) < info.path_mtu && !is_of_half_a_window(info))
}

/// Whether segments may be as short as they are because a window has to have two of them (`tcp_bound_to_half_wnd` in Linux's
/// include/net/tcp.h). What the handshake offered decides, which nobody tells later: as many bytes as are offered now, or as
/// its field can say (RFC 9293 section 3.1), less what makes them a multiple of something.
fn is_of_half_a_window(info: &TcpInfo) -> bool {
    const ROUNDED: u64 = 128;
    let offered = if info.window == 0 { u64::MAX } else { info.window };
    2 * u64::from(info.segment) + ROUNDED > offered.min(u16::MAX.into())
}

/// Octets of the options that every segment has, which the kernel leaves out of both.
const fn options(info: &TcpInfo) -> u32 {
    if info.has_timestamps { TIMESTAMPS } else { 0 }
}

/// Octets of IP's header and of TCP's without options.
pub const fn headers(v4: bool) -> u32 {
    if v4 { 40 } else { 60 }
}

/// The MSS of a SYN, which is given from IP's header on; what RFC 9293 section 3.7.1 takes it for if it has none. Nothing of what
/// is no such packet.
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

/// What is known of both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEnds {
    /// This end.
    pub near: SegmentEnd,
    /// The other, if it is ours too.
    pub far: Option<SegmentEnd>,
}

/// What became of one direction's announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Clamped {
    /// The MSS as it was announced.
    pub announced: u32,
    /// The MSS as it arrived.
    pub received: u32,
}

/// Whether an announcement was made smaller on its way.
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

    /// A listener that keeps SYNs knows the other's announcement; the other end takes it from its segments.
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

    /// Over loopback no window has two segments of what the interface carries.
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
