//! Finds complete UDP datagrams in packets and in IP fragments.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use netrig_core::protocol;

use super::parcel::Parcel;

/// Maximum number of incomplete datagrams that are remembered. A kernel drops an incomplete datagram after more than 64
/// later datagrams of the same sender (`ipfrag_max_dist`).
const INCOMPLETE: usize = 1024;

/// The source and destination of the UDP datagram that begins in this packet.
pub(super) fn ends(parcel: &Parcel) -> Option<SocketPair> {
    let ip = parcel.ip();
    let [a, b, c, d] = *parcel.payload().first_chunk()?;
    (ip.protocol == protocol::UDP && ip.is_first()).then(|| SocketPair {
        from: SocketAddr::from((ip.src, u16::from_be_bytes([a, b]))),
        to: SocketAddr::from((ip.dst, u16::from_be_bytes([c, d]))),
    })
}

/// The payload of the UDP datagram that begins in this packet.
pub(super) fn content(parcel: &Parcel) -> Option<&[u8]> {
    parcel.payload().get(8..)
}

/// Source and destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SocketPair {
    pub from: SocketAddr,
    pub to: SocketAddr,
}

/// Detects when all fragments of a datagram have been recorded.
#[derive(Debug, Default)]
pub(super) struct Fragments(VecDeque<IncompleteDatagram>);

#[derive(Debug)]
struct IncompleteDatagram {
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    ends: Option<SocketPair>,
    /// Offsets of the fragments that have been recorded. A duplicate counts once.
    offsets: Vec<u32>,
    len: u32,
    whole: Option<u32>,
}

impl Fragments {
    /// Records a UDP datagram or a fragment of a datagram. Returns the source and destination if the datagram is now
    /// complete.
    pub fn passes(&mut self, parcel: &Parcel) -> Option<SocketPair> {
        let ip = parcel.ip();
        if ip.protocol != protocol::UDP {
            return None;
        }
        if ip.is_first() && !ip.more {
            return ends(parcel);
        }
        let known = |other: &IncompleteDatagram| (other.src, other.dst, other.id) == (ip.src, ip.dst, ip.id);
        let place = self.0.iter().rposition(known).unwrap_or_else(|| {
            if self.0.len() == INCOMPLETE {
                self.0.pop_front();
            }
            self.0.push_back(IncompleteDatagram {
                src: ip.src,
                dst: ip.dst,
                id: ip.id,
                ends: None,
                offsets: Vec::new(),
                len: 0,
                whole: None,
            });
            self.0.len() - 1
        });
        let datagram = &mut self.0[place];
        if !datagram.offsets.contains(&ip.offset) {
            datagram.offsets.push(ip.offset);
            datagram.len += ip.payload_len();
        }
        datagram.ends = datagram.ends.or_else(|| ends(parcel));
        if !ip.more {
            datagram.whole = Some(ip.offset + ip.payload_len());
        }
        if datagram.whole != Some(datagram.len) {
            return None;
        }
        let ends = datagram.ends;
        self.0.remove(place);
        ends
    }
}
