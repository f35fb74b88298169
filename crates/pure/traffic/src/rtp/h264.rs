//! H.264 in RTP packets (RFC 6184), packetization mode 1. A packet has one whole NAL unit, several units (STAP-A), or a
//! fragment of one unit (FU-A).

use super::Packet;

/// Types of NAL units (ITU-T H.264 Table 7-1, RFC 6184 Table 1).
const SLICE: u8 = 1;
const IDR_SLICE: u8 = 5;
const SEQUENCE_PARAMETERS: u8 = 7;
const PICTURE_PARAMETERS: u8 = 8;
const DELIMITER: u8 = 9;
const LAST_SINGLE: u8 = 23;
const STAP_A: u8 = 24;
const FU_A: u8 = 28;

/// Start and end bits in the header of a fragment (RFC 6184 section 5.8).
const START: u8 = 0x80;
const END: u8 = 0x40;

/// The largest NAL unit that is reassembled from fragments, bytes. No picture of a test clip is as large. It limits the
/// memory that a hostile sender can use.
pub const LARGEST_UNIT: usize = 1 << 20;

/// The NAL units of one picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessUnit {
    /// The units, each without a start code.
    pub units: Vec<Vec<u8>>,
}

impl AccessUnit {
    /// Whether decoding can begin here: whether it has a slice of an IDR picture.
    pub fn is_key(&self) -> bool {
        self.units.iter().any(|unit| kind(unit) == IDR_SLICE)
    }

    /// The units as a byte stream with start codes (H.264 Annex B).
    pub fn byte_stream(&self) -> Vec<u8> {
        self.units.iter().flat_map(|unit| [&[0, 0, 0, 1], unit.as_slice()].concat()).collect()
    }
}

/// The type of a NAL unit; 0 for an empty unit.
fn kind(unit: &[u8]) -> u8 {
    unit.first().map_or(0, |header| header & 0x1F)
}

/// The NAL units of a byte stream (H.264 Annex B), without start codes.
#[derive(Clone, Debug)]
pub struct NalUnits<'a> {
    rest: &'a [u8],
}

impl<'a> NalUnits<'a> {
    /// The units of `stream`. Bytes before the first start code are skipped.
    pub fn of(stream: &'a [u8]) -> Self {
        let rest = start_code(stream).map_or(&stream[..0], |at| &stream[at + 3..]);
        Self { rest }
    }
}

impl<'a> Iterator for NalUnits<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let (unit, rest) = match start_code(self.rest) {
                Some(at) => (&self.rest[..at], &self.rest[at + 3..]),
                None => (self.rest, &self.rest[..0]),
            };
            self.rest = rest;
            // Zeros before a start code or at the end of the stream belong to no unit, because a unit never ends with a
            // zero byte.
            let length = unit.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            if length > 0 {
                return Some(&unit[..length]);
            }
        }
    }
}

/// Index of the next start code, 00 00 01.
fn start_code(bytes: &[u8]) -> Option<usize> {
    bytes.windows(3).position(|three| three == [0, 0, 1])
}

/// The pictures of a byte stream, in decoding order.
///
/// A picture begins with a unit that cannot occur inside a picture (delimiter or parameter sets, H.264 section
/// 7.4.1.2.3), or with a slice whose first macroblock is number 0.
pub fn access_units(stream: &[u8]) -> Vec<AccessUnit> {
    let mut pictures: Vec<AccessUnit> = Vec::new();
    let mut has_slice = true;
    for unit in NalUnits::of(stream) {
        let is_slice = matches!(kind(unit), SLICE | IDR_SLICE);
        // `first_mb_in_slice` is the first Exp-Golomb number of the slice. The number 0 is coded as a single 1 bit.
        let starts_picture = is_slice && unit.get(1).is_some_and(|byte| byte & 0x80 != 0);
        let before_picture = matches!(kind(unit), 6 | SEQUENCE_PARAMETERS | PICTURE_PARAMETERS | DELIMITER);
        if has_slice && (starts_picture || before_picture) || pictures.is_empty() {
            pictures.push(AccessUnit::default());
            has_slice = false;
        }
        has_slice |= is_slice;
        if let Some(picture) = pictures.last_mut() {
            picture.units.push(unit.to_vec());
        }
    }
    pictures
}

/// Creates the RTP packets of pictures.
#[derive(Clone, Debug)]
pub struct Packetizer {
    /// Payload type, below 128.
    pub payload_type: u8,
    /// Synchronisation source.
    pub source: u32,
    /// Sequence number of the next packet.
    pub sequence: u16,
    /// Largest RTP payload, bytes; at least 3.
    pub limit: usize,
}

impl Packetizer {
    /// The packets of one picture, in order. The last packet has the marker bit.
    pub fn packets(&mut self, picture: &AccessUnit, timestamp: u32) -> Vec<Vec<u8>> {
        let mut payloads: Vec<Vec<u8>> = Vec::new();
        let mut together: Vec<&[u8]> = Vec::new();
        for unit in picture.units.iter().filter(|unit| !unit.is_empty()) {
            let fits = aggregate_len(&together) + 2 + unit.len() <= self.limit
                && unit.len() <= usize::from(u16::MAX);
            if !fits {
                payloads.extend(aggregate(&together));
                together.clear();
            }
            if unit.len() > self.limit {
                payloads.extend(fragments(unit, self.limit));
            } else {
                together.push(unit);
            }
        }
        payloads.extend(aggregate(&together));
        let count = payloads.len();
        let packet = |(at, payload): (usize, Vec<u8>)| {
            let sequence = self.sequence;
            self.sequence = self.sequence.wrapping_add(1);
            let (marker, payload_type) = (at + 1 == count, self.payload_type);
            Packet { marker, payload_type, sequence, timestamp, source: self.source, payload: &payload }
                .encode()
        };
        payloads.into_iter().enumerate().map(packet).collect()
    }
}

/// Length of the payload that contains these units, bytes.
fn aggregate_len(units: &[&[u8]]) -> usize {
    1 + units.iter().map(|unit| 2 + unit.len()).sum::<usize>()
}

/// The payload that contains these units. A single unit is the payload itself (section 5.6); several units form a
/// STAP-A (section 5.7.1).
fn aggregate(units: &[&[u8]]) -> Option<Vec<u8>> {
    match units {
        [] => None,
        [only] => Some(only.to_vec()),
        _ => {
            // NRI is the highest NRI of the units (section 5.7).
            let importance = units.iter().map(|unit| unit[0] & 0x60).max().unwrap_or(0);
            let mut payload = vec![importance | STAP_A];
            for unit in units {
                payload.extend((unit.len() as u16).to_be_bytes());
                payload.extend(*unit);
            }
            Some(payload)
        }
    }
}

/// The payloads that contain one unit in fragments (FU-A, section 5.8). The two header bytes of each fragment contain
/// the bits of the unit's header byte.
fn fragments(unit: &[u8], limit: usize) -> Vec<Vec<u8>> {
    let header = unit[0];
    let indicator = header & 0xE0 | FU_A;
    let body = &unit[1..];
    let pieces: Vec<&[u8]> = body.chunks(limit.saturating_sub(2).max(1)).collect();
    let last = pieces.len() - 1;
    let fragment = |(at, piece): (usize, &&[u8])| {
        let ends = if at == 0 { START } else { 0 } | if at == last { END } else { 0 };
        [&[indicator, ends | header & 0x1F], *piece].concat()
    };
    pieces.iter().enumerate().map(fragment).collect()
}

/// Reassembles the complete units of one picture from the payloads of its packets, taken in the order of their sequence
/// numbers.
///
/// A gap in the numbers means a loss. If a fragment of a unit is lost, the unit is dropped, because a decoder could not
/// locate the gap.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    unit: AccessUnit,
    fragment: Option<Vec<u8>>,
    expected: Option<u64>,
}

impl Assembler {
    /// Takes one payload. `number` is its extended sequence number, which must be larger than all earlier ones.
    pub fn take(&mut self, number: u64, payload: &[u8]) {
        if self.expected != Some(number) {
            self.fragment = None;
        }
        self.expected = number.checked_add(1);
        match kind(payload) {
            1..=LAST_SINGLE => {
                self.fragment = None;
                self.unit.units.push(payload.to_vec());
            }
            STAP_A => {
                self.fragment = None;
                self.take_aggregate(&payload[1..]);
            }
            FU_A => self.take_fragment(payload),
            // Other types are undefined or belong to the interleaved mode.
            _ => self.fragment = None,
        }
    }

    fn take_aggregate(&mut self, mut rest: &[u8]) {
        while let Some((length, after)) = rest.split_first_chunk::<2>() {
            let Some((unit, after)) = after.split_at_checked(u16::from_be_bytes(*length).into()) else {
                return;
            };
            if !unit.is_empty() {
                self.unit.units.push(unit.to_vec());
            }
            rest = after;
        }
    }

    fn take_fragment(&mut self, payload: &[u8]) {
        let [indicator, header, piece @ ..] = payload else {
            self.fragment = None;
            return;
        };
        if header & START != 0 {
            self.fragment = Some(vec![indicator & 0xE0 | header & 0x1F]);
        }
        let Some(mut unit) = self.fragment.take() else { return };
        if unit.len() + piece.len() > LARGEST_UNIT {
            return;
        }
        unit.extend(piece);
        if header & END != 0 {
            self.unit.units.push(unit);
        } else {
            self.fragment = Some(unit);
        }
    }

    /// Ends the picture, and returns its complete units.
    pub fn finish(&mut self) -> AccessUnit {
        self.fragment = None;
        std::mem::take(&mut self.unit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packetizer(limit: usize) -> Packetizer {
        Packetizer { payload_type: 96, source: 7, sequence: 0xFFFE, limit }
    }

    fn assemble(packets: &[Vec<u8>], lost: impl Fn(usize) -> bool) -> AccessUnit {
        let mut assembler = Assembler::default();
        for (number, bytes) in packets.iter().enumerate().filter(|(number, _)| !lost(*number)) {
            assembler.take(number as u64, Packet::parse(bytes).unwrap().payload);
        }
        assembler.finish()
    }

    /// By hand from RFC 6184 sections 5.7.1 and 5.8: parameter sets of 3 and 2 bytes in one packet, and a slice of 11
    /// bytes in two.
    #[test]
    fn units_are_aggregated_and_fragmented() {
        let units = vec![vec![0x67, 1, 2], vec![0x68, 3], vec![0x65, 1, 2, 3, 4, 5, 6]];
        let picture = AccessUnit { units };
        // The limit of 10 bytes fits both parameter sets in one packet: 1 + 2 + 3 + 2 + 2. A slice of 11 bytes does not
        // fit.
        let mut sender = packetizer(10);
        let picture = AccessUnit {
            units: [&picture.units[..2], &[[0x65, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].to_vec()]].concat(),
        };
        let packets = sender.packets(&picture, 3000);
        let payloads: Vec<&[u8]> =
            packets.iter().map(|bytes| Packet::parse(bytes).unwrap().payload).collect();
        assert_eq!(
            payloads,
            [
                &[0x78, 0, 3, 0x67, 1, 2, 0, 2, 0x68, 3][..],
                &[0x7C, 0x85, 1, 2, 3, 4, 5, 6, 7, 8],
                &[0x7C, 0x45, 9, 10],
            ]
        );
        let headers: Vec<_> = packets.iter().map(|bytes| Packet::parse(bytes).unwrap()).collect();
        assert_eq!(headers.iter().map(|packet| packet.marker).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(headers.iter().map(|packet| packet.sequence).collect::<Vec<_>>(), [0xFFFE, 0xFFFF, 0]);
        assert!(headers.iter().all(|packet| packet.timestamp == 3000));
        assert_eq!(assemble(&packets, |_| false), picture);
        assert_eq!(
            assemble(&packets, |number| number == 2).units.len(),
            2,
            "of a unit in pieces all or nothing"
        );
        assert_eq!(assemble(&packets, |number| number == 0).units, picture.units[2..]);
    }

    /// Annex B: start codes of three and four bytes, and zeros after a unit.
    #[test]
    fn a_byte_stream_has_units() {
        let stream = [9, 0, 0, 0, 1, 0x67, 5, 0, 0, 1, 0x68, 0, 0, 0, 0, 1, 0x65, 0x80, 0, 3, 0, 0];
        let units: Vec<&[u8]> = NalUnits::of(&stream).collect();
        assert_eq!(units, [&[0x67, 5][..], &[0x68], &[0x65, 0x80, 0, 3]]);
        assert_eq!(NalUnits::of(&[1, 2, 3]).count(), 0);
    }

    /// Two slices form a picture. The next picture begins with macroblock 0, or with parameter sets.
    #[test]
    fn slices_make_pictures() {
        let slice = |first: u8| vec![0x41, first];
        let units = [
            vec![0x67, 1],
            vec![0x68, 1],
            vec![0x65, 0x80],
            vec![0x65, 0x40],
            slice(0x88),
            slice(0x30),
            slice(0x80),
        ];
        let stream = AccessUnit { units: units.to_vec() }.byte_stream();
        let pictures = access_units(&stream);
        assert_eq!(pictures.iter().map(|picture| picture.units.len()).collect::<Vec<_>>(), [4, 2, 1]);
        assert_eq!(pictures.iter().map(AccessUnit::is_key).collect::<Vec<_>>(), [true, false, false]);
    }

    #[test]
    fn endless_fragments_are_not_kept() {
        let mut assembler = Assembler::default();
        let piece = [&[FU_A, START | 5], &[1; 60_000][..]].concat();
        assembler.take(0, &piece);
        for number in 1..100 {
            assembler.take(number, &[&[FU_A, 5], &[1; 60_000][..]].concat());
            assert!(assembler.fragment.as_ref().is_none_or(|unit| unit.len() <= LARGEST_UNIT));
        }
        assembler.take(100, &[FU_A, END | 5]);
        assert!(assembler.finish().units.is_empty());
    }

    proptest! {
        /// Whatever packets are lost, every returned unit is a unit of the input. Without loss, all units are returned.
        #[test]
        fn what_comes_out_went_in(
            units in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..200), 1..20),
            limit in 3..100_usize,
            lost in proptest::collection::vec(any::<bool>(), 64),
        ) {
            let single = |mut unit: Vec<u8>| { unit[0] = unit[0] & 0x60 | 1; unit };
            let picture = AccessUnit { units: units.into_iter().map(single).collect() };
            let packets = packetizer(limit).packets(&picture, 0);
            prop_assert!(packets.iter().all(|packet| packet.len() <= 12 + limit));
            prop_assert_eq!(&assemble(&packets, |_| false), &picture);
            let rest = assemble(&packets, |number| lost[number % lost.len()]);
            prop_assert!(rest.units.iter().all(|unit| picture.units.contains(unit)));
        }

        #[test]
        fn any_payloads_are_taken(payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20)) {
            let mut assembler = Assembler::default();
            for (number, payload) in payloads.iter().enumerate() {
                assembler.take(number as u64, payload);
            }
            let taken: usize = payloads.iter().map(Vec::len).sum();
            prop_assert!(assembler.finish().units.iter().map(Vec::len).sum::<usize>() <= taken);
        }

        #[test]
        fn any_bytes_are_a_stream(bytes in proptest::collection::vec(prop_oneof![Just(0), Just(1), any::<u8>()], 0..200)) {
            let units: usize = access_units(&bytes).iter().flat_map(|picture| &picture.units).map(Vec::len).sum();
            prop_assert!(units <= bytes.len());
        }
    }
}
