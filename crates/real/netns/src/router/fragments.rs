//! Datagrams in the packets that carry them: whole, or in fragments.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use netrig_core::protocol;

use super::parcel::Parcel;

/// Datagrams of which fragments have come that are remembered: a kernel gives up one when more than 64 others of its sender
/// have come since (`ipfrag_max_dist`).
const INCOMPLETE: usize = 1024;

/// The ends of the datagram of UDP that begins in this packet.
pub(super) fn ends(parcel: &Parcel) -> Option<SocketPair> {
    let ip = parcel.ip();
    let [a, b, c, d] = *parcel.payload().first_chunk()?;
    (ip.protocol == protocol::UDP && ip.is_first()).then(|| SocketPair {
        from: SocketAddr::from((ip.src, u16::from_be_bytes([a, b]))),
        to: SocketAddr::from((ip.dst, u16::from_be_bytes([c, d]))),
    })
}

/// What is behind the header of UDP of the datagram that begins in this packet.
pub(super) fn content(parcel: &Parcel) -> Option<&[u8]> {
    parcel.payload().get(8..)
}

/// Between which sockets a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SocketPair {
    pub from: SocketAddr,
    pub to: SocketAddr,
}

/// Tells when all fragments of a datagram have passed a place.
#[derive(Debug, Default)]
pub(super) struct Fragments(VecDeque<IncompleteDatagram>);

#[derive(Debug)]
struct IncompleteDatagram {
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    ends: Option<SocketPair>,
    /// Where fragments began that have passed: one that comes twice counts once.
    offsets: Vec<u32>,
    len: u32,
    whole: Option<u32>,
}

impl Fragments {
    /// A datagram of UDP passes, or a fragment of one; the datagram's ends, if all of it has passed now.
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
