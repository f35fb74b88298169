//! Checks the values of a TCP endpoint's constants.

use netrig_core::{Duration, Size};

use super::config::{Config, LARGEST_WINDOW, Limit, Settings};
use crate::profile::{ensure_all, rto_order};
use crate::{Profile, SettingsError};

/// Largest segment that fits an IP packet of 68 bytes. Every link supports packets of this length (RFC 791 section
/// 3.2).
const SMALLEST_SEGMENT: Size = Size::from_bytes(28);
/// Largest segment that fits the longest IP packet, 65,535 bytes.
const LARGEST_SEGMENT: Size = Size::from_bytes(65_495);
/// The delay of an acknowledgement must be less than this (RFC 9293 section 3.8.6.3, MUST-40).
const ACK_DELAY_BOUND: Duration = Duration::from_millis(500);

impl Config {
    /// The constants of `profile`, with those in `settings` replaced.
    ///
    /// # Errors
    /// Names the first constant whose value makes TCP impossible.
    pub fn checked(profile: Profile, settings: &Settings) -> Result<Self, SettingsError> {
        let config = Self::of(profile).with(settings);
        ensure_all(&config.windows())?;
        ensure_all(&config.timers(settings))?;
        Ok(config)
    }

    fn windows(&self) -> [(bool, &'static str, &'static str); 11] {
        const ONE: &str = "must be at least 1";
        let bounded = |limit: Limit| limit.count() > 0;
        [
            (
                (SMALLEST_SEGMENT..=LARGEST_SEGMENT).contains(&self.mss),
                "mss",
                "must be from 28 B to 65495 B: an IP packet has 68 to 65535 B, 40 of them headers",
            ),
            (self.initial_window > 0, "initial_window", ONE),
            (bounded(self.initial_ssthresh), "initial_ssthresh", ONE),
            (bounded(self.send_window), "send_window", "must be at least 1, or nothing can be sent"),
            (
                bounded(self.slow_start_limit),
                "slow_start_limit",
                "must be at least 1, or slow start adds nothing",
            ),
            (self.dup_ack_threshold > 0, "dup_ack_threshold", ONE),
            (self.ack_every > 0, "ack_every", "must be at least 1, which acknowledges every segment"),
            (self.receive_buffer > Size::default(), "receive_buffer", "must be above zero"),
            (
                self.receive_buffer <= LARGEST_WINDOW,
                "receive_buffer",
                "must be at most 1073725440 B, the largest window that can be advertised (RFC 7323 section 2.2)",
            ),
            (self.cubic_c.is_finite() && self.cubic_c > 0.0, "cubic_c", "must be above zero"),
            (
                0.0 < self.cubic_beta.get() && self.cubic_beta.get() < 1.0,
                "cubic_beta",
                "must lie between 0 and 1, both excluded: a loss keeps a part of the window",
            ),
        ]
    }

    fn timers(&self, settings: &Settings) -> [(bool, &'static str, &'static str); 6] {
        const ABOVE_ZERO: &str = "must be above zero, or the timer expires at once";
        [
            (!self.rto_initial.is_zero(), "rto_initial", ABOVE_ZERO),
            (!self.rto_after_syn_loss.is_zero(), "rto_after_syn_loss", ABOVE_ZERO),
            (!self.rto_max.is_zero(), "rto_max", ABOVE_ZERO),
            rto_order(self.rto_min, self.rto_max, settings.rto_max.is_some()),
            (self.rto_tick <= self.rto_max, "rto_tick", "must not be above `rto_max`"),
            (
                self.ack_delay < ACK_DELAY_BOUND,
                "ack_delay",
                "must be below 500 ms (RFC 9293 section 3.8.6.3)",
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(settings: &str) -> Option<String> {
        let settings = serde_json::from_str(settings).expect("settings of TCP");
        Config::checked(Profile::Rfc, &settings).err().map(|error| error.field)
    }

    #[test]
    fn every_profile_is_possible() {
        for profile in Profile::ALL {
            assert_eq!(Config::checked(profile, &Settings::default()), Ok(Config::of(profile)));
        }
    }

    #[test]
    fn values_that_cannot_be_are_refused_by_name() {
        for (name, value) in [
            ("mss", r#""0 B""#),
            ("mss", r#""27 B""#),
            ("mss", r#""64 KiB""#),
            ("initial_window", "0"),
            ("initial_ssthresh", "0"),
            ("send_window", "0"),
            ("slow_start_limit", "0"),
            ("dup_ack_threshold", "0"),
            ("ack_every", "0"),
            ("receive_buffer", r#""0 B""#),
            ("receive_buffer", r#""1 GiB""#),
            ("cubic_c", "0.0"),
            ("cubic_c", "-0.4"),
            ("cubic_beta", r#""0 %""#),
            ("cubic_beta", r#""100 %""#),
            ("rto_initial", r#""0 s""#),
            ("rto_after_syn_loss", r#""0 s""#),
            ("rto_max", r#""0 s""#),
            ("rto_tick", r#""61 s""#),
            ("rto_min", r#""61 s""#),
            ("rto_max", r#""999 ms""#),
            ("ack_delay", r#""500 ms""#),
            ("ack_delay", r#""2 s""#),
        ] {
            assert_eq!(
                refused(&format!("{{\"{name}\": {value}}}")).as_deref(),
                Some(name),
                "{name} = {value}"
            );
        }
        assert_eq!(refused(r#"{"rto_min": "2 s", "rto_max": "1 s"}"#).as_deref(), Some("rto_max"));
    }

    #[test]
    fn values_at_the_edge_are_not() {
        for settings in [
            r#"{"mss": "28 B", "initial_window": 1, "initial_ssthresh": 1, "send_window": 1}"#,
            r#"{"mss": "65495 B", "receive_buffer": "1073725440 B", "ack_every": 1, "dup_ack_threshold": 1}"#,
            r#"{"rto_min": "0 s", "rto_max": "10 s", "rto_granularity": "0 s", "ack_delay": "0 s"}"#,
            r#"{"rto_min": "60 s", "data_retries": 0, "syn_retries": 0, "time_wait": "0 s"}"#,
            r#"{"ack_delay": "499 ms"}"#,
        ] {
            assert_eq!(refused(settings), None, "{settings}");
        }
    }
}
