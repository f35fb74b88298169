//! What travels over simulated lines: the header that links look at, and a ticket for the rest.

use netrig_core::{DropReason, Header, Instant, Observer, PacketMeta};
use netrig_transport::Payload;

/// A packet on its way. One cache line: queues and lines move it several times per hop, so the payload,
/// which only the two ends look at, stays in the [`Depot`].
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    header: Header,
    /// Place of its way in the world's list of ways.
    pub way: u32,
    /// Lines of the way that it has passed.
    pub hop: u32,
    ticket: u32,
}

impl PacketMeta for Parcel {
    fn header(&self) -> &Header {
        &self.header
    }
    fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }
}

/// What the two ends know of a packet.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    pub payload: Payload,
    /// The connection it belongs to, by the number that both ends know it by; `None` for a datagram.
    pub conn: Option<u32>,
}

/// Keeps the contents of packets that are on their way.
#[derive(Default)]
pub(crate) struct Depot {
    shelves: Vec<Shelf>,
    free: Vec<u32>,
}

struct Shelf {
    contents: Option<Contents>,
    /// Parcels with this ticket: more than one if a line made duplicates.
    copies: u32,
}

impl Depot {
    /// A packet sets out on `way`.
    pub fn send(&mut self, header: Header, contents: Contents, way: u32) -> Parcel {
        let ticket = match self.free.pop() {
            Some(ticket) => {
                self.shelves[ticket as usize] = Shelf { contents: Some(contents), copies: 1 };
                ticket
            }
            None => {
                self.shelves.push(Shelf { contents: Some(contents), copies: 1 });
                (self.shelves.len() - 1) as u32
            }
        };
        Parcel { header, way, hop: 0, ticket }
    }

    /// A packet arrived.
    pub fn collect(&mut self, parcel: &Parcel) -> Option<Contents> {
        let shelf = &mut self.shelves[parcel.ticket as usize];
        shelf.copies -= 1;
        if shelf.copies > 0 {
            return shelf.contents.clone();
        }
        self.free.push(parcel.ticket);
        shelf.contents.take()
    }
}

impl Observer<Parcel> for Depot {
    fn dropped(&mut self, _at: Instant, parcel: &Parcel, _why: DropReason) {
        let shelf = &mut self.shelves[parcel.ticket as usize];
        shelf.copies -= 1;
        if shelf.copies == 0 {
            shelf.contents = None;
            self.free.push(parcel.ticket);
        }
    }

    fn duplicated(&mut self, _at: Instant, parcel: &Parcel) {
        self.shelves[parcel.ticket as usize].copies += 1;
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::{Data, Dscp, Ecn, FiveTuple};
    use netrig_transport::Datagram;

    use super::*;

    #[test]
    fn a_parcel_fits_a_cache_line() {
        assert!(size_of::<Parcel>() <= 64, "{}", size_of::<Parcel>());
    }

    #[test]
    fn duplicates_share_a_shelf() {
        let mut depot = Depot::default();
        let ip = std::net::IpAddr::from([10, 0, 0, 1]);
        let flow = FiveTuple { src: ip, dst: ip, src_port: 1, dst_port: 2, protocol: 17 };
        let header = Header { flow, ip_len: 100, dscp: Dscp(0), ecn: Ecn::NotEct };
        let payload = Payload::Udp(Datagram { number: 7, sent: Instant::ZERO, data: Data::Fill(72) });
        let parcel = depot.send(header, Contents { payload, conn: None }, 0);
        depot.duplicated(Instant::ZERO, &parcel);
        let copy = parcel.clone();
        depot.dropped(Instant::ZERO, &parcel, DropReason::Loss);
        assert!(depot.free.is_empty());
        let Some(Contents { payload: Payload::Udp(datagram), .. }) = depot.collect(&copy) else { panic!() };
        assert_eq!((datagram.number, depot.free.len()), (7, 1));
    }
}
