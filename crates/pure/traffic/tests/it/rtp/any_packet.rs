//! No bytes from a network may cause a panic. The fuzz target runs this file too.

use netrig_traffic::Clip;
use netrig_traffic::rtp::{Assembler, LARGEST_UNIT, Packet, SequenceExtender, access_units};

/// Splits the bytes into RTP packets, each preceded by its length in two bytes, and reassembles their content.
pub fn check(mut bytes: &[u8]) {
    let clip = Clip::moving();
    let mut extender = SequenceExtender::default();
    let mut assembler = Assembler::default();
    let mut taken = 0;
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let (packet, rest) = rest.split_at(rest.len().min(u16::from_be_bytes(*length).into()));
        bytes = rest;
        let Ok(packet) = Packet::parse(packet) else { continue };
        assert_eq!(Packet::parse(&packet.encode()), Ok(packet));
        if let Some(place) = clip.place_of(&packet) {
            assert!(place < clip.packets().len());
        }
        assembler.take(extender.extend(packet.sequence), packet.payload);
        taken += packet.payload.len();
        if packet.marker {
            let picture = assembler.finish();
            assert!(picture.units.iter().all(|unit| (1..=LARGEST_UNIT).contains(&unit.len())));
            assert!(picture.units.iter().map(Vec::len).sum::<usize>() <= taken);
            let again = access_units(&picture.byte_stream());
            assert!(again.iter().flat_map(|picture| &picture.units).all(|unit| !unit.is_empty()));
            taken = 0;
        }
    }
}
