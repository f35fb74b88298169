//! Times and sizes of IEEE 802.11. Clauses are those of IEEE Std 802.11-2016.

use netrig_core::{Duration, Rate, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SettingsError;
use crate::error::ensure;

/// The generation of a WiFi link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Standard {
    /// ERP-OFDM at 2.4 GHz without older stations (clause 18): 6 to 54 Mbit/s.
    #[serde(rename = "802.11g")]
    G,
    /// HT at 2.4 GHz, 20 MHz, one spatial stream, long guard interval, mixed format (clause 19): 6.5 to 65 Mbit/s.
    #[serde(rename = "802.11n")]
    N,
    /// The same at 5 GHz.
    #[serde(rename = "802.11n-5ghz")]
    N5Ghz,
}

/// One symbol of OFDM, guard interval included (clauses 17.3.2.3 and 19.3.6).
const SYMBOL: Duration = Duration::from_micros(4);
/// SERVICE and tail bits around the data (clauses 17.3.5.2, 17.3.5.3).
const SERVICE_AND_TAIL: u64 = 16 + 6;
/// Preamble and SIGNAL field of every frame that is not HT (clause 17.3.2.3).
const PREAMBLE: Duration = Duration::from_micros(20);
/// Addition of the HT-mixed format to `PREAMBLE`: HT-SIG 8 µs, HT-STF and one HT-LTF of 4 µs each (clause 19.3.4).
const HT_PREAMBLE: Duration = Duration::from_micros(16);
/// Idle time at the end of each frame at 2.4 GHz for decoders of older stations (clause 18.3.2.4).
const SIGNAL_EXTENSION: Duration = Duration::from_micros(6);
/// ACK (clause 9.3.1.4) and compressed BlockAck (clause 9.3.1.9) frames, bytes.
const ACK: u64 = 14;
const BLOCK_ACK: u64 = 32;
/// Basic rates, at which ACKs are sent, highest first (clause 10.7.6.5.2; bit/s).
const BASIC_RATES: [u64; 3] = [24_000_000, 12_000_000, 6_000_000];

impl Standard {
    /// Bit rates of data, lowest first (tables 17-4 and 19-27).
    pub fn rates(self) -> [Rate; 8] {
        let mbit_s: [f64; 8] = match self {
            Self::G => [6.0, 9.0, 12.0, 18.0, 24.0, 36.0, 48.0, 54.0],
            Self::N | Self::N5Ghz => [6.5, 13.0, 19.5, 26.0, 39.0, 52.0, 58.5, 65.0],
        };
        mbit_s.map(|rate| Rate::from_bits_per_s((rate * 1e6) as u64))
    }

    /// Whether frames are HT frames, with quality of service and aggregation.
    pub const fn is_ht(self) -> bool {
        matches!(self, Self::N | Self::N5Ghz)
    }

    /// aSlotTime: the short slot, which requires that no older stations are present (tables 17-21, 18-5, 19-25).
    pub const fn slot(self) -> Duration {
        Duration::from_micros(9)
    }

    /// aSIFSTime: the time between a frame and its acknowledgement (the same tables).
    pub const fn sifs(self) -> Duration {
        match self {
            Self::G | Self::N => Duration::from_micros(10),
            Self::N5Ghz => Duration::from_micros(16),
        }
    }

    /// The time for which the medium must be idle before a station counts down its backoff. It is DIFS, the sum of SIFS
    /// and two slots (clause 10.3.2.3.5). For HT stations it is AIFS of best effort, the sum of SIFS and three slots
    /// (table 9-137).
    pub fn idle(self) -> Duration {
        self.sifs() + self.slot().saturating_mul(if self.is_ht() { 3 } else { 2 })
    }

    /// MAC header (24, with QoS 26), frame check sequence (4) and LLC/SNAP (8) around an IP packet, bytes (clauses
    /// 9.2.3 and 9.3.2.1, RFC 1042).
    pub const fn overhead(self) -> u64 {
        (if self.is_ht() { 26 } else { 24 }) + 4 + 8
    }

    /// Airtime of a frame of `bytes` at `rate`, which must be one of [`Standard::rates`].
    pub fn airtime(self, bytes: u64, rate: Rate) -> Duration {
        let preamble = if self.is_ht() { PREAMBLE + HT_PREAMBLE } else { PREAMBLE };
        preamble + payload_time(bytes, rate) + self.extension()
    }

    /// Airtime of the response to data at `rate`: an ACK, or a BlockAck for an aggregate.
    pub fn response_airtime(self, rate: Rate, to_aggregate: bool) -> Duration {
        // The highest basic rate that is not above the data rate. MCS 0 to 7 have reference rates of 6 to 54 Mbit/s
        // (clause 10.7.6.5.3). Each reference rate is below the rate of its MCS and gives the same basic rate.
        let basic = BASIC_RATES.into_iter().find(|basic| *basic <= rate.bits_per_s());
        let basic = Rate::from_bits_per_s(basic.unwrap_or(BASIC_RATES[2]));
        self.response_at(if to_aggregate { BLOCK_ACK } else { ACK }, basic)
    }

    /// The time within which a response must start: SIFS, a slot and aRxPHYStartDelay, which is the preamble (clause
    /// 10.3.2.9).
    pub fn response_timeout(self) -> Duration {
        self.sifs() + self.slot() + PREAMBLE
    }

    /// The additional wait after a frame that was not received. [`Standard::idle`] follows it. It is the sum of SIFS
    /// and an ACK at the lowest rate (EIFS minus DIFS, clause 10.3.2.3.7).
    pub fn after_error(self) -> Duration {
        self.sifs() + self.response_at(ACK, Rate::from_bits_per_s(BASIC_RATES[2]))
    }

    fn response_at(self, bytes: u64, rate: Rate) -> Duration {
        PREAMBLE + payload_time(bytes, rate) + self.extension()
    }

    fn extension(self) -> Duration {
        if self == Self::N5Ghz { Duration::ZERO } else { SIGNAL_EXTENSION }
    }

    /// A lower bound for the airtime of any frame.
    pub(super) fn shortest(self) -> Duration {
        PREAMBLE + SYMBOL
    }

    /// Refuses a rate that the standard does not define.
    pub(super) fn check_rate(self, rate: Rate) -> Result<(), SettingsError> {
        let rates = self.rates();
        let names = || rates.map(|rate| rate.to_string()).join(", ");
        ensure(rates.contains(&rate), "rate", &format!("must be a rate of this standard: {}", names()))
    }
}

/// Airtime of the data, the SERVICE field and the tail bits, in whole symbols.
fn payload_time(bytes: u64, rate: Rate) -> Duration {
    // A symbol carries rate × 4 µs bits (N_DBPS), a whole number for every rate.
    let bits_per_symbol = (rate.bits_per_s() * 4 / 1_000_000).max(1);
    let symbols = (SERVICE_AND_TAIL + 8 * bytes).div_ceil(bits_per_symbol);
    Duration::from_nanos(SYMBOL.as_nanos().saturating_mul(symbols))
}

/// Aggregation: several packets to one station in one frame. Each has its own frame check, and they are acknowledged together
/// (A-MPDU and BlockAck, clauses 9.7 and 10.13).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Aggregation {
    /// Largest number of packets in a frame, 1 to 64 (the window of a BlockAck). 64 if not given.
    pub packets: u32,
    /// Largest size of a frame, up to 65,535 B (clause 9.4.2.56.3). 65,535 B if not given.
    pub bytes: Size,
    /// Longest airtime of a frame, up to 5.484 ms (aPPDUMaxTime, table 19-25). 5.484 ms if not given.
    pub time: Duration,
}

impl Default for Aggregation {
    fn default() -> Self {
        Self { packets: MOST_PACKETS, bytes: Size::from_bytes(MOST_BYTES), time: LONGEST }
    }
}

const MOST_PACKETS: u32 = 64;
const MOST_BYTES: u64 = 65_535;
const LONGEST: Duration = Duration::from_micros(5_484);

impl Aggregation {
    /// Bytes in front of each MPDU of an aggregate (clause 9.7.1).
    pub(super) const DELIMITER: u64 = 4;

    /// Bytes that an MPDU of `mpdu` bytes adds to an aggregate: the delimiter and the MPDU, padded to a multiple of
    /// four.
    pub(super) const fn subframe(mpdu: u64) -> u64 {
        Self::DELIMITER + mpdu.next_multiple_of(4)
    }

    pub(super) fn check(&self) -> Result<(), SettingsError> {
        ensure((1..=MOST_PACKETS).contains(&self.packets), "packets", "must be from 1 to 64")?;
        let bytes = (1..=MOST_BYTES).contains(&self.bytes.bytes());
        ensure(bytes, "bytes", "must be from 1 to 65535 B")?;
        let time = !self.time.is_zero() && self.time <= LONGEST;
        ensure(time, "time", "must be above zero and at most 5.484 ms, the longest frame")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn mbit(rate: f64) -> Rate {
        Rate::from_bits_per_s((rate * 1e6) as u64)
    }

    /// Bits per symbol of tables 17-4 and 19-27. The code computes them and does not contain these tables.
    #[test]
    fn a_symbol_carries_what_the_tables_say() {
        let bits = |standard: Standard| standard.rates().map(|rate| rate.bits_per_s() * 4 / 1_000_000);
        assert_eq!(bits(Standard::G), [24, 36, 48, 72, 96, 144, 192, 216]);
        assert_eq!(bits(Standard::N), [26, 52, 78, 104, 156, 208, 234, 260]);
    }

    #[test]
    fn frames_of_802_11g() {
        // An IP packet of 1500 B is an MPDU of 1536 B: (22 + 12288) bits fill 57 symbols of 216 bits, 228 µs. Preamble
        // 20 µs, extension 6 µs.
        assert_eq!(Standard::G.airtime(1500 + 36, mbit(54.0)), micros(20 + 228 + 6));
        // An ACK has 134 bits: two symbols of 96 bits at 24 Mbit/s, or six of 24 bits at 6 Mbit/s.
        assert_eq!(Standard::G.response_airtime(mbit(54.0), false), micros(34));
        assert_eq!(Standard::G.response_airtime(mbit(9.0), false), micros(50));
        // EIFS is SIFS, DIFS and the ACK at the lowest rate.
        assert_eq!(Standard::G.after_error(), micros(10 + 50));
    }

    #[test]
    fn frames_of_802_11n() {
        // 1538 B: 12326 bits fill 48 symbols of 260 bits, 192 µs, after a preamble of 36 µs.
        assert_eq!(Standard::N5Ghz.airtime(1538, mbit(65.0)), micros(36 + 192));
        assert_eq!(Standard::N.airtime(1538, mbit(65.0)), micros(36 + 192 + 6));
        // A BlockAck: 278 bits fill three symbols of 96 bits.
        assert_eq!(Standard::N5Ghz.response_airtime(mbit(65.0), true), micros(20 + 12));
        // Reference rates of MCS 0 to 7 are 6, 12, 18, 24, 36, 48, 54, 54 Mbit/s.
        let basic = Standard::N5Ghz.rates().map(|rate| Standard::N5Ghz.response_airtime(rate, false));
        assert_eq!(basic, [44, 32, 32, 28, 28, 28, 28, 28].map(micros));
    }

    #[test]
    fn other_rates_are_refused_with_those_that_are() {
        let error = Standard::G.check_rate(mbit(11.0)).unwrap_err();
        assert!(error.to_string().contains("6 Mbit/s, 9 Mbit/s"), "{error}");
        assert_eq!(Standard::N.check_rate(mbit(65.0)), Ok(()));
    }

    #[test]
    fn subframes_are_padded() {
        assert_eq!([1, 4, 1538].map(Aggregation::subframe), [8, 8, 1544]);
    }
}
