//! Checks the values of an SCTP endpoint's constants.

use netrig_core::{Duration, Size};

use super::config::{Config, InitialCwnd, InitialSsthresh, Scheduler, Settings};
use crate::profile::{ensure_all, rto_order};
use crate::{Profile, SettingsError};

/// The headers of IPv6 (40 bytes), of SCTP (12 bytes) and of a DATA chunk (16 bytes), and four bytes of data.
const SMALLEST_PACKET: Size = Size::from_bytes(72);
/// The length field in the IP header has 16 bits.
const LARGEST_PACKET: Size = Size::from_bytes(65_535);
/// Largest number of user bytes that the length field of a DATA chunk allows (RFC 9260 section 3.3.1). A `max_chunk` of
/// this size has no effect.
pub const LARGEST_CHUNK: Size = Size::from_bytes(65_519);
/// An INIT with a smaller window is answered with an ABORT (RFC 9260 section 3.3.2).
const SMALLEST_WINDOW: Size = Size::from_bytes(1500);
/// The advertised window has 32 bits.
const LARGEST_WINDOW: Size = Size::from_bytes(u32::MAX as u64);
/// RFC 9260 section 6.2: "an implementation MAY lower the value of 'SACK.Delay' below 500 ms but MUST NOT raise it
/// above 500 ms".
const LONGEST_SACK_DELAY: Duration = Duration::from_millis(500);

impl Config {
    /// The constants of `profile`, with those in `settings` replaced.
    ///
    /// # Errors
    /// Names the first constant whose value makes SCTP impossible.
    pub fn checked(profile: Profile, settings: &Settings) -> Result<Self, SettingsError> {
        let config = Self::of(profile).with(settings);
        ensure_all(&config.sizes())?;
        ensure_all(&config.counts())?;
        ensure_all(&[config.switchover(settings)])?;
        ensure_all(&config.timers(settings))?;
        Ok(config)
    }

    /// Largest number of user bytes in a DATA chunk that is alone in a packet of `mtu` over IPv4, if `max_chunk` does
    /// not limit it. The headers take 48 B, or 56 B with UDP encapsulation. A chunk is padded to a multiple of four
    /// bytes (RFC 9260 section 3.2).
    pub fn room_of_a_packet(&self) -> Size {
        let headers = 48 + u64::from(self.encapsulation.header_len());
        Size::from_bytes(self.mtu.bytes().saturating_sub(headers) / 4 * 4)
    }

    fn sizes(&self) -> [(bool, &'static str, &'static str); 7] {
        const ABOVE_ZERO: &str = "must be above zero, or nothing can be sent";
        let none = Size::default();
        [
            (
                (SMALLEST_PACKET..=LARGEST_PACKET).contains(&self.mtu),
                "mtu",
                "must be from 72 B, which hold the headers and four bytes, to 65535 B, the longest IP packet",
            ),
            (self.max_chunk > none, "max_chunk", ABOVE_ZERO),
            (
                self.max_chunk <= LARGEST_CHUNK,
                "max_chunk",
                "must be at most 65519 B, the longest DATA chunk (RFC 9260 section 3.3.1)",
            ),
            (self.initial_cwnd != InitialCwnd::Size(none), "initial_cwnd", ABOVE_ZERO),
            (self.initial_ssthresh != InitialSsthresh::Size(none), "initial_ssthresh", "must be above zero"),
            (
                (SMALLEST_WINDOW..=LARGEST_WINDOW).contains(&self.receive_buffer),
                "receive_buffer",
                "must be from 1500 B (RFC 9260 section 3.3.2) to 4294967295 B, the largest window that can be advertised",
            ),
            (self.send_buffer > none, "send_buffer", ABOVE_ZERO),
        ]
    }

    fn counts(&self) -> [(bool, &'static str, &'static str); 5] {
        const ONE: &str = "must be at least 1";
        let weighted = self.scheduler == Scheduler::WeightedFair;
        [
            (self.streams > 0, "streams", ONE),
            (
                self.sack_frequency > 0,
                "sack_frequency",
                "must be at least 1, which acknowledges every packet",
            ),
            (self.fast_retransmit_threshold > 0, "fast_retransmit_threshold", ONE),
            (self.ssthresh_floor > 0, "ssthresh_floor", ONE),
            (
                !(weighted && self.stream_values.contains(&0)),
                "stream_values",
                "must be at least 1 each: a weight of 0 is no share",
            ),
        ]
    }

    /// RFC 7829 section 5: the primary path must not lose its role before data uses another path. The threshold of the
    /// profile `ns2` is not checked, because it is ns-2's own value.
    fn switchover(&self, settings: &Settings) -> (bool, &'static str, &'static str) {
        let least = if self.potentially_failed { self.pf_threshold } else { self.path_max_retrans };
        let given = settings.primary_switchover_threshold.is_some();
        (
            !(given && self.primary_switchover) || self.primary_switchover_threshold >= least,
            "primary_switchover_threshold",
            "must be at least `pf_threshold` or, with `potentially_failed = false`, `path_max_retrans` (RFC 7829 section 5)",
        )
    }

    fn timers(&self, settings: &Settings) -> [(bool, &'static str, &'static str); 6] {
        const ABOVE_ZERO: &str = "must be above zero, or the timer expires at once";
        [
            (!self.rto_initial.is_zero(), "rto_initial", ABOVE_ZERO),
            (
                self.rto_max >= Duration::from_millis(1),
                "rto_max",
                "must be at least 1 ms, as `rto_min` always is",
            ),
            rto_order(self.rto_min, self.rto_max, settings.rto_max.is_some()),
            (
                self.sack_delay <= LONGEST_SACK_DELAY,
                "sack_delay",
                "must be at most 500 ms (RFC 9260 section 6.2)",
            ),
            (!self.local_probe_interval.is_zero(), "local_probe_interval", ABOVE_ZERO),
            (!self.cookie_life.is_zero(), "cookie_life", "must be above zero, or no association can open"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(settings: &str) -> Option<String> {
        let settings = serde_json::from_str(settings).expect("settings of SCTP");
        Config::checked(Profile::Rfc, &settings).err().map(|error| error.field)
    }

    #[test]
    fn every_profile_of_sctp_is_possible() {
        for profile in Profile::ALL {
            assert_eq!(Config::checked(profile, &Settings::default()), Ok(Config::of(profile)));
        }
    }

    #[test]
    fn values_that_sctp_cannot_have_are_refused_by_name() {
        for (name, value) in [
            ("mtu", r#""71 B""#),
            ("mtu", r#""65536 B""#),
            ("max_chunk", r#""0 B""#),
            ("max_chunk", r#""65520 B""#),
            ("initial_cwnd", r#""0 B""#),
            ("initial_ssthresh", r#""0 B""#),
            ("receive_buffer", r#""1499 B""#),
            ("receive_buffer", r#""4 GiB""#),
            ("send_buffer", r#""0 B""#),
            ("streams", "0"),
            ("sack_frequency", "0"),
            ("fast_retransmit_threshold", "0"),
            ("ssthresh_floor", "0"),
            ("rto_initial", r#""0 s""#),
            ("rto_max", r#""999 us""#),
            ("rto_max", r#""999 ms""#),
            ("rto_min", r#""61 s""#),
            ("local_probe_interval", r#""0 s""#),
            ("cookie_life", r#""0 s""#),
            ("sack_delay", r#""501 ms""#),
            ("sack_delay", r#""2 s""#),
        ] {
            assert_eq!(
                refused(&format!("{{\"{name}\": {value}}}")).as_deref(),
                Some(name),
                "{name} = {value}"
            );
        }
        assert_eq!(refused(r#"{"rto_min": "2 s", "rto_max": "1 s"}"#).as_deref(), Some("rto_max"));
        for (settings, possible) in [
            (r#"{"primary_switchover": true, "primary_switchover_threshold": 1, "pf_threshold": 2}"#, false),
            (r#"{"primary_switchover": true, "primary_switchover_threshold": 2, "pf_threshold": 2}"#, true),
            (
                r#"{"primary_switchover": true, "primary_switchover_threshold": 4, "potentially_failed": false}"#,
                false,
            ),
            (
                r#"{"primary_switchover": true, "primary_switchover_threshold": 5, "potentially_failed": false}"#,
                true,
            ),
            (r#"{"primary_switchover_threshold": 1, "pf_threshold": 2}"#, true),
        ] {
            let expected = (!possible).then_some("primary_switchover_threshold");
            assert_eq!(refused(settings).as_deref(), expected, "{settings}");
        }
        let weights = r#"{"scheduler": "weighted-fair", "stream_values": [1, 0]}"#;
        assert_eq!(refused(weights).as_deref(), Some("stream_values"));
    }

    /// 1500 B minus 20 of IP, 12 of SCTP and 16 of the chunk. With 1501 B, the additional byte cannot be used because
    /// of padding.
    #[test]
    fn a_packet_has_room_for_a_chunk() {
        for (mtu, room) in [(1500, 1452), (1501, 1452), (576, 528), (65_535, 65_484)] {
            let config = Config { mtu: Size::from_bytes(mtu), ..Config::of(Profile::Rfc) };
            assert_eq!(config.room_of_a_packet().bytes(), room);
        }
    }

    #[test]
    fn values_of_sctp_at_the_edge_are_not() {
        for settings in [
            r#"{"mtu": "72 B", "max_chunk": "1 B", "receive_buffer": "1500 B", "send_buffer": "1 B"}"#,
            r#"{"mtu": "65535 B", "max_chunk": "65519 B", "receive_buffer": "4294967295 B"}"#,
            r#"{"path_max_retrans": 0, "association_max_retrans": 0, "init_max_retrans": 0, "max_burst": 0}"#,
            r#"{"rto_min": "0 s", "rto_max": "1 ms", "sack_delay": "0 s", "heartbeat_interval": "0 s"}"#,
            r#"{"scheduler": "priority", "stream_values": [0, 1]}"#,
            r#"{"sack_delay": "500 ms"}"#,
        ] {
            assert_eq!(refused(settings), None, "{settings}");
        }
    }
}
