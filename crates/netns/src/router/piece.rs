//! What of a datagram an IP packet carries: all of it, or a fragment.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use netrig_core::{PacketMeta, protocol};

use super::parcel::Parcel;

/// IPv6's extension header of a fragment (RFC 8200 section 4.5).
const FRAGMENT: u8 = 44;

/// Datagrams of which fragments have come that are remembered: a kernel gives up one when more than 64 others of its sender
/// have come since (`ipfrag_max_dist`).
const INCOMPLETE: usize = 1024;

/// What an IP packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub src: IpAddr,
    pub dst: IpAddr,
    /// Of what is in the datagram.
    pub protocol: u8,
    /// Tells the datagram from others between these addresses, if it was cut.
    pub id: u32,
    /// Where in the datagram it begins, bytes.
    pub offset: u32,
    /// Its length without the headers of IP: cutting a packet does not change the sum of these.
    pub len: u32,
    /// Whether more of the datagram follows.
    pub more: bool,
    /// Whether a router may cut it.
    pub may_be_cut: bool,
    /// Hops that it may still take.
    pub hops: u8,
    /// How many bytes of headers of IP are before it.
    pub(super) headers: u32,
}

impl Piece {
    /// What is in `parcel`, of which the header was read: it is whole.
    pub fn of(parcel: &Parcel) -> Option<Self> {
        let (header, packet) = (parcel.header(), parcel.packet());
        let (src, dst, ip_len) = (header.flow.src, header.flow.dst, header.ip_len);
        if src.is_ipv4() {
            let fixed: &[u8; 20] = packet.first_chunk()?;
            let headers = u32::from(fixed[0] & 0x0f) * 4;
            return Some(Self {
                src,
                dst,
                protocol: fixed[9],
                id: u16::from_be_bytes([fixed[4], fixed[5]]).into(),
                offset: u32::from(u16::from_be_bytes([fixed[6] & 0x1f, fixed[7]])) * 8,
                len: ip_len.checked_sub(headers)?,
                more: fixed[6] & 0x20 != 0,
                may_be_cut: fixed[6] & 0x40 == 0,
                hops: fixed[8],
                headers,
            });
        }
        let fixed: &[u8; 48] = match packet.first_chunk() {
            Some(fixed) if fixed[6] == FRAGMENT => fixed,
            _ => {
                let hops = *packet.get(7)?;
                let len = ip_len.checked_sub(40)?;
                let protocol = header.flow.protocol;
                let (id, offset, more, may_be_cut, headers) = (0, 0, false, false, 40);
                return Some(Self { src, dst, protocol, id, offset, len, more, may_be_cut, hops, headers });
            }
        };
        let place = u16::from_be_bytes([fixed[42], fixed[43]]);
        Some(Self {
            src,
            dst,
            protocol: fixed[40],
            id: u32::from_be_bytes([fixed[44], fixed[45], fixed[46], fixed[47]]),
            offset: u32::from(place & !7),
            len: ip_len.checked_sub(48)?,
            more: place & 1 != 0,
            may_be_cut: false,
            hops: fixed[7],
            headers: 48,
        })
    }

    /// Whether it is the first of its datagram, or all of it.
    pub fn is_first(&self) -> bool {
        self.offset == 0
    }

    /// The ends of the datagram of UDP that begins here, which `parcel` has.
    pub fn ends(&self, parcel: &Parcel) -> Option<Ends> {
        let ports = parcel.packet().get(self.headers as usize..)?;
        let [a, b, c, d] = *ports.first_chunk()?;
        (self.protocol == protocol::UDP && self.is_first()).then(|| Ends {
            from: SocketAddr::from((self.src, u16::from_be_bytes([a, b]))),
            to: SocketAddr::from((self.dst, u16::from_be_bytes([c, d]))),
        })
    }

    /// What is behind the header of UDP of the datagram that begins here.
    pub fn content<'a>(&self, parcel: &'a Parcel) -> Option<&'a [u8]> {
        parcel.packet().get(self.headers as usize + 8..)
    }
}

/// Between which sockets a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub from: SocketAddr,
    pub to: SocketAddr,
}

/// Tells when all fragments of a datagram have passed a place.
#[derive(Debug, Default)]
pub(super) struct Fragments(VecDeque<Incomplete>);

#[derive(Debug)]
struct Incomplete {
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    ends: Option<Ends>,
    /// Where fragments began that have passed: one that comes twice counts once.
    offsets: Vec<u32>,
    len: u32,
    whole: Option<u32>,
}

impl Fragments {
    /// A piece of a datagram of UDP passes; the datagram's ends, if all of it has passed now.
    pub fn passes(&mut self, piece: &Piece, parcel: &Parcel) -> Option<Ends> {
        if piece.protocol != protocol::UDP {
            return None;
        }
        if piece.is_first() && !piece.more {
            return piece.ends(parcel);
        }
        let known = |other: &Incomplete| (other.src, other.dst, other.id) == (piece.src, piece.dst, piece.id);
        let place = self.0.iter().rposition(known).unwrap_or_else(|| {
            if self.0.len() == INCOMPLETE {
                self.0.pop_front();
            }
            let Piece { src, dst, id, .. } = *piece;
            self.0.push_back(Incomplete {
                src,
                dst,
                id,
                ends: None,
                offsets: Vec::new(),
                len: 0,
                whole: None,
            });
            self.0.len() - 1
        });
        let datagram = &mut self.0[place];
        if !datagram.offsets.contains(&piece.offset) {
            datagram.offsets.push(piece.offset);
            datagram.len += piece.len;
        }
        datagram.ends = datagram.ends.or_else(|| piece.ends(parcel));
        if !piece.more {
            datagram.whole = Some(piece.offset + piece.len);
        }
        if datagram.whole != Some(datagram.len) {
            return None;
        }
        let ends = datagram.ends;
        self.0.remove(place);
        ends
    }
}
