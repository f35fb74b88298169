//! A clip of H.264 video for an RTP sender: pictures, and the packets of each.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use netrig_core::Duration;

use crate::rtp::{AccessUnit, Packet, Packetizer, access_units};

/// RTP's clock for video (RFC 6184 section 8.2.1), ticks per second.
const TICKS_PER_S: u32 = 90_000;
/// The first dynamic payload type (RFC 3551 section 6).
const PAYLOAD_TYPE: u8 = 96;
/// The longest RTP payload, bytes. With the RTP, UDP and IPv6 headers it fits into 1280 bytes, the smallest MTU of IPv6
/// (RFC 8200 section 5).
const LONGEST_PAYLOAD: usize = 1_200;

/// A clip with its packets.
#[derive(Debug)]
pub struct Clip {
    pictures: Vec<Picture>,
    packets: Vec<Vec<u8>>,
    frames_per_s: u32,
}

/// One picture of a clip.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its NAL units.
    pub unit: AccessUnit,
    /// Indices of its packets in [`Clip::packets`].
    pub packets: Range<usize>,
}

/// Reason why bytes cannot be sent as a clip.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClipError {
    /// It contains no NAL unit of a picture.
    #[error("it contains no H.264 picture; a byte stream with start codes is expected (ffmpeg -f h264)")]
    Empty,
    /// The first picture depends on an earlier one.
    #[error("it does not begin with a key picture")]
    NoKey,
    /// The picture rate is out of range.
    #[error("a rate of {0} pictures per second is out of range: it must be from 1 to 1000")]
    Rate(u32),
}

impl Clip {
    /// The built-in clip: three seconds of ffmpeg's moving test picture, 320 x 180, 25 pictures per second at about 256
    /// kbit/s. It has a key picture each second and four slices per picture, and each picture shows its number.
    pub fn moving() -> Arc<Self> {
        static MOVING: OnceLock<Arc<Clip>> = OnceLock::new();
        let clip = MOVING.get_or_init(|| {
            let stream = include_bytes!("../clips/moving.h264");
            #[expect(
                clippy::expect_used,
                reason = "the bytes are part of the program, and a test reads them"
            )]
            Arc::new(Self::read(stream, 25).expect("the clip can be sent"))
        });
        clip.clone()
    }

    /// A clip from an H.264 byte stream (Annex B). The decoding order must be the display order.
    ///
    /// # Errors
    /// If the rate is out of range, or the stream contains no picture or does not begin with a key picture.
    pub fn read(stream: &[u8], frames_per_s: u32) -> Result<Self, ClipError> {
        if !(1..=1000).contains(&frames_per_s) {
            return Err(ClipError::Rate(frames_per_s));
        }
        let units = access_units(stream);
        if !units.first().ok_or(ClipError::Empty)?.is_key() {
            return Err(ClipError::NoKey);
        }
        let mut sender =
            Packetizer { payload_type: PAYLOAD_TYPE, source: 1, sequence: 0, limit: LONGEST_PAYLOAD };
        let mut clip = Self { pictures: Vec::new(), packets: Vec::new(), frames_per_s };
        for unit in units {
            let from = clip.packets.len();
            clip.packets.extend(sender.packets(&unit, clip.timestamp(clip.pictures.len())));
            clip.pictures.push(Picture { unit, packets: from..clip.packets.len() });
        }
        Ok(clip)
    }

    /// The pictures, in display order.
    pub fn pictures(&self) -> &[Picture] {
        &self.pictures
    }

    /// Its RTP packets, numbered from 0.
    pub fn packets(&self) -> &[Vec<u8>] {
        &self.packets
    }

    /// Pictures per second.
    pub const fn frames_per_s(&self) -> u32 {
        self.frames_per_s
    }

    /// RTP timestamp of a picture of the clip.
    pub fn timestamp(&self, picture: usize) -> u32 {
        (picture as u64 * u64::from(TICKS_PER_S) / u64::from(self.frames_per_s)) as u32
    }

    /// The picture with this RTP timestamp; `None` if the clip has none.
    pub fn picture_at(&self, timestamp: u32) -> Option<usize> {
        let nearest = (u64::from(timestamp) * u64::from(self.frames_per_s)).div_ceil(TICKS_PER_S.into());
        usize::try_from(nearest)
            .ok()
            .filter(|at| *at < self.pictures.len() && self.timestamp(*at) == timestamp)
    }

    /// Duration, s.
    pub fn seconds(&self) -> f64 {
        self.pictures.len() as f64 / f64::from(self.frames_per_s)
    }

    /// Whether each picture can be shown undamaged: all its packets arrived, and so did all packets of all pictures
    /// back to the last key picture. `came[i]` states whether packet `i` arrived. Packets after the end of `came` did
    /// not arrive.
    pub fn intact(&self, came: &[bool]) -> Vec<bool> {
        let whole =
            |picture: &Picture| picture.packets.clone().all(|at| came.get(at).copied().unwrap_or(false));
        let mut sound = false;
        let intact = |picture: &Picture| {
            sound = whole(picture) && (sound || picture.unit.is_key());
            sound
        };
        self.pictures.iter().map(intact).collect()
    }

    /// Packet `number`, counted from 0, of a stream that repeats the clip. Sequence numbers and timestamps continue
    /// over the repetitions, and wrap around.
    pub fn streamed(&self, number: u64) -> Vec<u8> {
        let mut packet = self.packets[(number % self.packets.len() as u64) as usize].clone();
        let ticks = u128::from(self.picture_of(number)) * u128::from(TICKS_PER_S);
        let timestamp = (ticks / u128::from(self.frames_per_s)) as u32;
        // The sequence number and the timestamp in the fixed header (RFC 3550 section 5.1).
        packet[2..4].copy_from_slice(&(number as u16).to_be_bytes());
        packet[4..8].copy_from_slice(&timestamp.to_be_bytes());
        packet
    }

    /// The packet number of a received packet in a stream that repeats the clip. It is near `expected`. `None` if the
    /// packet differs from the packet with this number.
    pub fn number_of(&self, packet: &[u8], expected: u64) -> Option<u64> {
        let ahead = Packet::parse(packet).ok()?.sequence.wrapping_sub(expected as u16).cast_signed();
        let number = expected.checked_add_signed(ahead.into())?;
        (self.streamed(number) == packet).then_some(number)
    }

    /// Due time of packet `number` of such a stream, from the start of the stream. It is the due time of its picture.
    pub fn due(&self, number: u64) -> Duration {
        self.due_of_picture(self.picture_of(number))
    }

    /// Due time of picture `number` of such a stream, from the start of the stream. Rounding errors do not accumulate.
    pub fn due_of_picture(&self, number: u64) -> Duration {
        let nanos = u128::from(number) * 1_000_000_000 / u128::from(self.frames_per_s);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The number of the picture that packet `number` of such a stream belongs to.
    fn picture_of(&self, number: u64) -> u64 {
        let (round, place) =
            (number / self.packets.len() as u64, (number % self.packets.len() as u64) as usize);
        round * self.pictures.len() as u64
            + self.pictures.partition_point(|picture| picture.packets.end <= place) as u64
    }

    /// Mean RTP packet length, which is the payload of a UDP datagram, bytes.
    pub fn mean_packet(&self) -> f64 {
        self.bytes() as f64 / self.packets.len() as f64
    }

    /// Length of the longest RTP packet, bytes.
    pub fn largest_packet(&self) -> u64 {
        self.packets.iter().map(|packet| packet.len() as u64).max().unwrap_or(0)
    }

    /// Total length of all RTP packets, bytes.
    pub fn bytes(&self) -> u64 {
        self.packets.iter().map(|packet| packet.len() as u64).sum()
    }

    /// Index of a received packet in [`Clip::packets`]. `None` if the packet does not belong to the clip.
    pub fn place_of(&self, packet: &Packet<'_>) -> Option<usize> {
        let picture = self.picture_at(packet.timestamp)?;
        let places = self.pictures[picture].packets.clone();
        // Within one picture sequence numbers do not repeat.
        let place = places.clone().find(|at| *at as u16 == packet.sequence)?;
        (packet.payload_type == PAYLOAD_TYPE).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtp::Assembler;

    #[test]
    fn the_clip_is_three_seconds_with_a_key_picture_each() {
        let clip = Clip::moving();
        assert_eq!((clip.pictures().len(), clip.seconds()), (75, 3.0));
        let keys = clip.pictures().iter().enumerate().filter(|(_, picture)| picture.unit.is_key());
        assert_eq!(keys.map(|(at, _)| at).collect::<Vec<_>>(), [0, 25, 50]);
        let rate = clip.bytes() as f64 * 8.0 / clip.seconds();
        assert!((200e3..320e3).contains(&rate), "{rate} bit/s");
        assert!(clip.packets().iter().all(|packet| packet.len() <= 1_212));
    }

    /// Each picture is reassembled unchanged from its packets. Every packet is identified by its header alone.
    #[test]
    fn packets_carry_the_pictures() {
        let clip = Clip::moving();
        for (at, picture) in clip.pictures().iter().enumerate() {
            let mut assembler = Assembler::default();
            for place in picture.packets.clone() {
                let packet = Packet::parse(&clip.packets()[place]).unwrap();
                assert_eq!(
                    (clip.place_of(&packet), clip.picture_at(packet.timestamp)),
                    (Some(place), Some(at))
                );
                assert_eq!(packet.marker, place + 1 == picture.packets.end);
                assembler.take(place as u64, packet.payload);
            }
            assert_eq!(assembler.finish(), picture.unit);
        }
        assert_eq!(clip.picture_at(1), None);
        assert_eq!(clip.picture_at(u32::MAX), None);
    }

    /// A packet of picture 30 is lost. This picture and all pictures before the next key picture, 50, are damaged.
    #[test]
    fn damage_lasts_until_the_next_key_picture() {
        let clip = Clip::moving();
        let mut came = vec![true; clip.packets().len()];
        came[clip.pictures()[30].packets.start] = false;
        let damaged: Vec<usize> =
            clip.intact(&came).iter().enumerate().filter(|(_, intact)| !**intact).map(|(at, _)| at).collect();
        assert_eq!(damaged, (30..50).collect::<Vec<_>>());
        assert!(clip.intact(&[]).iter().all(|intact| !intact));
    }

    /// The fifth repetition equals the clip, except for sequence numbers and timestamps, which continue in steps of 1
    /// and of 3600 ticks (at 25 pictures per second). Packets are identified even after the sequence number has wrapped
    /// around at 16 bits. Changed packets are not.
    #[test]
    fn a_stream_goes_on_where_the_clip_begins_again() {
        let clip = Clip::moving();
        let round = clip.packets().len() as u64;
        for number in [0, 1, round - 1, round, 4 * round + 7, 70_000] {
            let bytes = clip.streamed(number);
            let (packet, original) =
                (Packet::parse(&bytes).unwrap(), &clip.packets()[(number % round) as usize]);
            assert_eq!(packet.sequence, number as u16);
            assert_eq!(packet.payload, Packet::parse(original).unwrap().payload);
            assert_eq!(clip.due(number).as_nanos(), u64::from(packet.timestamp) * 1_000_000_000 / 90_000);
            for expected in [number, number + 900, number.saturating_sub(900)] {
                assert_eq!(clip.number_of(&bytes, expected), Some(number));
            }
            let mut changed = bytes.clone();
            *changed.last_mut().unwrap() ^= 1;
            assert_eq!(clip.number_of(&changed, number), None);
        }
        assert_eq!(clip.due(round), Duration::from_secs(3));
        assert_eq!(clip.number_of(b"nothing", 0), None);
        assert_eq!(clip.number_of(&clip.streamed(65_535), 0), None, "before the start there is nothing");
    }

    #[test]
    fn what_is_no_clip() {
        assert_eq!(Clip::read(b"nothing", 25).unwrap_err(), ClipError::Empty);
        assert_eq!(Clip::read(&[0, 0, 1, 0x41, 0x80], 25).unwrap_err(), ClipError::NoKey);
        assert_eq!(Clip::read(&[0, 0, 1, 0x65, 0x80], 0).unwrap_err(), ClipError::Rate(0));
    }
}
