//! Timestamps of 64 bits and their error estimate.

use netrig_core::choices;

/// Seconds from 1900, the origin of NTP, to 1970 (RFC 5905 section 6).
const NTP_AHEAD: u64 = 2_208_988_800;

/// Start of NTP's era 1, 7 February 2036, in seconds since 1970.
const SECOND_ERA: u64 = (1 << 32) - NTP_AHEAD;

const NANOS: u64 = 1_000_000_000;

choices! {
    /// Format of a timestamp (RFC 8762 section 4.2.1; the Z flag of the error estimate). The NTP format is that of RFC
    /// 5905 section 6, with a fraction in 2⁻³² s. The PTP format is the truncated one of RFC 8186 section 2; its time
    /// is that of the host's own clock, which keeps UTC.
    #[derive(Default)]
    pub enum Format {
        /// Seconds since 1900 and a fraction.
        [default]
        Ntp = "ntp",
        /// Seconds since 1970 and nanoseconds.
        Ptp = "ptp",
    }
}

impl Format {
    /// Encodes nanoseconds since 1970.
    pub const fn encode(self, unix_ns: u64) -> u64 {
        let (seconds, nanos) = (unix_ns / NANOS, unix_ns % NANOS);
        match self {
            // Both formats count seconds modulo 2³².
            Self::Ntp => {
                let fraction = ((nanos << 32) + NANOS / 2) / NANOS;
                (((seconds + NTP_AHEAD) & 0xFFFF_FFFF) << 32) | fraction
            }
            Self::Ptp => ((seconds & 0xFFFF_FFFF) << 32) | nanos,
        }
    }

    /// Decodes a timestamp to the nearest nanosecond since 1970. `None` if it is invalid. An NTP timestamp lies between
    /// 1968 and 2104 (RFC 4330 section 3). A timestamp before 1970 is invalid here.
    pub const fn decode(self, bits: u64) -> Option<u64> {
        let (seconds, fraction) = (bits >> 32, bits & 0xFFFF_FFFF);
        match self {
            Self::Ptp if fraction >= NANOS => None,
            Self::Ptp => Some(seconds * NANOS + fraction),
            Self::Ntp => {
                let since_1970 = if seconds >= 1 << 31 {
                    match seconds.checked_sub(NTP_AHEAD) {
                        Some(seconds) => seconds,
                        None => return None,
                    }
                } else {
                    seconds + SECOND_ERA
                };
                Some(since_1970 * NANOS + ((fraction * NANOS + (1 << 31)) >> 32))
            }
        }
    }
}

/// The error estimate of a clock: two octets (RFC 4656 section 4.1.2, RFC 8186 section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorEstimate {
    /// S: the clock is synchronised to UTC by an external source.
    pub synchronised: bool,
    /// Z: the format of the timestamps of this packet.
    pub format: Format,
    scale: u8,
    multiplier: u8,
}

impl ErrorEstimate {
    /// An estimate of `error_ns` nanoseconds, rounded up to the next value that the field can represent; at least 2⁻³²
    /// s.
    pub fn new(synchronised: bool, format: Format, error_ns: u64) -> Self {
        // In units of 2⁻³² s, rounded up.
        let units = ((u128::from(error_ns) << 32).div_ceil(u128::from(NANOS))).max(1);
        let scale = (units.ilog2() + 1).saturating_sub(8);
        let rounded = units.div_ceil(1 << scale);
        // Rounding up may make the multiplier exceed 8 bits.
        let (scale, multiplier) =
            if rounded > 255 { (scale + 1, rounded.div_ceil(2)) } else { (scale, rounded) };
        // Both values fit into their fields: 2⁶⁴ ns are below 2⁶⁷ units, and the multiplier has 8 bits.
        Self { synchronised, format, scale: scale as u8 & 0x3F, multiplier: multiplier.min(255) as u8 }
    }

    /// The estimate in nanoseconds, rounded up. `None` if the multiplier is zero, which RFC 4656 section 4.1.2 does not
    /// allow.
    #[cfg(test)]
    fn error_ns(self) -> Option<u64> {
        let units = u128::from(self.multiplier) << self.scale;
        let nanos = (units * u128::from(NANOS)).div_ceil(1 << 32);
        (self.multiplier > 0).then(|| u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Encodes the field of a packet.
    pub const fn encode(self) -> [u8; 2] {
        let z = matches!(self.format, Format::Ptp) as u8;
        [((self.synchronised as u8) << 7) | (z << 6) | self.scale, self.multiplier]
    }

    /// Decodes the field of a packet.
    pub const fn decode(bytes: [u8; 2]) -> Self {
        let format = if bytes[0] & 0x40 == 0 { Format::Ntp } else { Format::Ptp };
        Self { synchronised: bytes[0] & 0x80 != 0, format, scale: bytes[0] & 0x3F, multiplier: bytes[1] }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ntp_counts_from_1900_in_fractions_of_two() {
        // RFC 5905 figure 4: 1 January 1970 is second 2,208,988,800 of era 0.
        assert_eq!(Format::Ntp.encode(0), 2_208_988_800 << 32);
        assert_eq!(Format::Ntp.encode(500_000_000), (2_208_988_800 << 32) | 1 << 31);
        // Era 1 begins on 7 February 2036 at 06:28:16: second 2,085,978,496 since 1970.
        assert_eq!(Format::Ntp.encode(2_085_978_496 * NANOS), 0);
        assert_eq!(Format::Ntp.decode(0), Some(2_085_978_496 * NANOS));
    }

    #[test]
    fn ptp_counts_nanoseconds_of_which_there_are_not_more_than_a_second_has() {
        assert_eq!(Format::Ptp.encode(3 * NANOS + 7), (3 << 32) | 7);
        assert_eq!(Format::Ptp.decode((3 << 32) | 1_000_000_000), None);
    }

    #[test]
    fn an_estimate_is_multiplier_times_two_to_the_scale_less_32() {
        // RFC 4656 section 4.1.2: the error is Multiplier · 2⁻³² · 2^Scale seconds. Here: 1 · 2⁻³² · 2³² = 1 s.
        let second = ErrorEstimate::decode([0x80 | 32, 1]);
        assert_eq!((second.error_ns(), second.synchronised, second.format), (Some(NANOS), true, Format::Ntp));
        assert_eq!(ErrorEstimate::decode([0x40, 0]).error_ns(), None);
        assert_eq!(ErrorEstimate::decode([0x40, 0]).format, Format::Ptp);
        assert_eq!(ErrorEstimate::new(false, Format::Ntp, 0).encode(), [0, 1], "never zero");
    }

    proptest! {
        #[test]
        fn a_time_survives_both_formats_to_the_nanosecond(unix_ns in 0..4_294_967_295 * NANOS) {
            prop_assert_eq!(Format::Ptp.decode(Format::Ptp.encode(unix_ns)), Some(unix_ns));
            // The era of an NTP timestamp is unambiguous until 2104.
            let ntp = unix_ns % (4_233_462_144 * NANOS);
            prop_assert_eq!(Format::Ntp.decode(Format::Ntp.encode(ntp)), Some(ntp));
        }

        #[test]
        fn an_estimate_is_never_less_than_the_error_nor_much_more(error_ns: u64, synchronised: bool, ptp: bool) {
            let format = if ptp { Format::Ptp } else { Format::Ntp };
            let estimate = ErrorEstimate::new(synchronised, format, error_ns);
            prop_assert_eq!(ErrorEstimate::decode(estimate.encode()), estimate);
            let decoded = estimate.error_ns().unwrap();
            prop_assert!(decoded >= error_ns);
            // With a multiplier of eight bits, the relative rounding error is at most 1/128.
            prop_assert!(decoded - error_ns <= error_ns / 128 + 1);
        }

        #[test]
        fn any_octets_are_an_estimate_or_none(bytes: [u8; 2], bits: u64) {
            prop_assert_eq!(ErrorEstimate::decode(bytes).encode(), bytes);
            let _ = (ErrorEstimate::decode(bytes).error_ns(), Format::Ntp.decode(bits), Format::Ptp.decode(bits));
        }
    }
}
