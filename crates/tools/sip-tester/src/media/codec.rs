//! Voice codecs: their description in SDP, and their packets.

use std::str::FromStr;

use netrig_core::named;
use netrig_traffic::VoiceCodec;

/// Duration of speech in a packet, ms.
pub const PACKET_MS: u64 = 20;

named! {
    /// A codec of voice.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum MediaCodec {
        /// ITU-T G.711 µ-law (RFC 3551 section 4.5.14).
        Pcmu = "pcmu",
        /// ITU-T G.711 A-law.
        Pcma = "pcma",
        /// ITU-T G.729 (RFC 3551 section 4.5.6).
        G729 = "g729",
        /// Opus (RFC 7587).
        Opus = "opus",
    }
}

/// A text that is not the name of a codec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a codec: expected pcmu, pcma, g729 or opus")]
pub struct ParseMediaCodecError(String);

impl MediaCodec {
    /// The static payload type (RFC 3551 section 6), or the dynamic payload type that the tester offers.
    pub const fn payload_type(self) -> u8 {
        match self {
            Self::Pcmu => 0,
            Self::Pcma => 8,
            Self::G729 => 18,
            Self::Opus => 111,
        }
    }

    /// Encoding name, clock rate and channels of `a=rtpmap` (RFC 8866 section 6.6).
    pub const fn rtpmap(self) -> &'static str {
        match self {
            Self::Pcmu => "PCMU/8000",
            Self::Pcma => "PCMA/8000",
            Self::G729 => "G729/8000",
            Self::Opus => "opus/48000/2",
        }
    }

    /// Time stamp units per second.
    pub const fn clock_rate(self) -> u32 {
        match self {
            Self::Opus => 48_000,
            _ => 8000,
        }
    }

    /// Payload of a packet of 20 ms, bytes. For Opus, the payload of a packet of silence.
    pub const fn packet_bytes(self) -> usize {
        match self {
            Self::Pcmu | Self::Pcma => 160,
            Self::G729 => 20,
            Self::Opus => 3,
        }
    }

    /// The codec in the tables of the E-model; `None` for Opus, since the model is for narrowband.
    pub const fn voice_codec(self) -> Option<VoiceCodec> {
        match self {
            Self::Pcmu | Self::Pcma => Some(VoiceCodec::G711Concealed),
            Self::G729 => Some(VoiceCodec::G729a),
            Self::Opus => None,
        }
    }

    /// The payload of a packet of silence.
    pub fn silence(self) -> Vec<u8> {
        match self {
            Self::Pcmu => vec![0xFF; 160],
            Self::Pcma => vec![0xD5; 160],
            Self::G729 => vec![0; 20],
            // A CELT frame without energy (RFC 6716 section 3.1: configuration 31, mono, one frame).
            Self::Opus => vec![0xF8, 0xFF, 0xFE],
        }
    }

    /// 20 ms of a tone of 400 Hz, 8 whole periods; `None` for codecs without a sample table.
    pub fn tone(self) -> Option<Vec<u8>> {
        const HERTZ: f64 = 400.0;
        const AMPLITUDE: f64 = 8000.0;
        let sample = |place: u32| {
            let phase = std::f64::consts::TAU * HERTZ * f64::from(place) / 8000.0;
            (AMPLITUDE * libm::sin(phase)) as i16
        };
        match self {
            Self::Pcmu => Some((0..160).map(|place| mu_law(sample(place))).collect()),
            Self::Pcma => Some((0..160).map(|place| a_law(sample(place))).collect()),
            Self::G729 | Self::Opus => None,
        }
    }
}

/// ITU-T G.711 µ-law of a 16-bit sample.
fn mu_law(sample: i16) -> u8 {
    const BIAS: i32 = 0x84;
    const MOST: i32 = 32_635;
    let sign = if sample < 0 { 0x80 } else { 0 };
    let magnitude = i32::from(sample).abs().min(MOST) + BIAS;
    let exponent = (31 - magnitude.leading_zeros() as i32 - 7).clamp(0, 7);
    let mantissa = (magnitude >> (exponent + 3)) & 0x0F;
    !(sign | ((exponent << 4) | mantissa) as u8)
}

/// ITU-T G.711 A-law of a 16-bit sample.
fn a_law(sample: i16) -> u8 {
    let sign = if sample < 0 { 0 } else { 0x80 };
    let magnitude = (i32::from(sample).abs() >> 3).min(0xFFF);
    let exponent = (31 - magnitude.max(1).leading_zeros() as i32 - 4).clamp(0, 7);
    let mantissa = if exponent == 0 { magnitude >> 1 } else { magnitude >> exponent } & 0x0F;
    (sign | ((exponent << 4) | mantissa) as u8) ^ 0x55
}

impl FromStr for MediaCodec {
    type Err = ParseMediaCodecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|codec| codec.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| ParseMediaCodecError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the tables of G.711 (µ-law and A-law): a sample of 0 is coded as 0xFF and 0xD5, the largest sample as 0x80
    /// and 0xAA, and the smallest one as 0x00 and 0x2A.
    #[test]
    fn samples_are_coded_as_the_tables_say() {
        assert_eq!([0, i16::MAX, i16::MIN + 1].map(mu_law), [0xFF, 0x80, 0x00]);
        assert_eq!([0, i16::MAX, i16::MIN + 1].map(a_law), [0xD5, 0xAA, 0x2A]);
        for codec in [MediaCodec::Pcmu, MediaCodec::Pcma] {
            let tone = codec.tone().unwrap();
            assert_eq!(tone.len(), 160);
            // The tone has a whole number of periods, so packets follow each other without a jump.
            assert_eq!(tone[..20], tone[20..40]);
        }
    }

    #[test]
    fn codecs_have_their_names() {
        for codec in MediaCodec::ALL {
            assert_eq!(codec.to_string().parse(), Ok(codec));
            assert!(codec.silence().len() == codec.packet_bytes());
        }
        assert!("gsm".parse::<MediaCodec>().unwrap_err().to_string().contains("expected pcmu"));
    }
}
