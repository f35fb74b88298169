//! The report of RFC 7502, section 5: the setup and the results.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::journal::SearchJournal;
use super::settings::Mode;
use super::verdict::CapacityVerdict;

/// The reporting format of RFC 7502, sections 5.1 to 5.3. A field that does not apply or is unknown is `None` and is shown as `-`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rfc7502Form {
    /// SIP transport protocol: TCP, UDP, TLS, SCTP, websockets; both protocols if the two sides differ.
    pub transport: Option<String>,
    /// Whether the server receives all requests on one connection; only for connections.
    pub receives_on_one_connection: Option<bool>,
    /// Whether the server sends all requests on one connection; only for connections.
    pub sends_on_one_connection: Option<bool>,
    /// Session attempt rate: the first value of `r`, per second.
    pub session_attempt_rate: Option<f64>,
    /// The baseline of the tester (section 6.1), per second.
    pub baseline_rate: Option<f64>,
    /// The duration of a session, s.
    pub session_duration_s: Option<f64>,
    /// Sessions attempted in the whole test.
    pub total_sessions_attempted: Option<u64>,
    /// Media streams per session.
    pub media_streams: Option<u32>,
    /// Associated media protocol: RTP, SRTP.
    pub media_protocol: Option<String>,
    /// The codec.
    pub codec: Option<String>,
    /// The size of an audio packet, bytes.
    pub media_packet_size: Option<u32>,
    /// The longest set-up time of a successful session, s.
    pub establishment_threshold_s: Option<f64>,
    /// The cipher suite, if TLS was used.
    pub tls_ciphersuite: Option<String>,
    /// The profile, if IPsec was used.
    pub ipsec_profile: Option<String>,
    /// Session establishment rate, "R", as text without its unit.
    pub session_establishment_rate: Option<String>,
    /// Whether the server relays media.
    pub is_media_relay: Option<bool>,
    /// Registration rate, as text without its unit.
    pub registration_rate: Option<String>,
    /// Re-registration rate, as text without its unit.
    pub re_registration_rate: Option<String>,
    /// Configuration of the server and anything else that may affect the rate.
    pub notes: Option<String>,
}

impl Rfc7502Form {
    /// The form with the facts of the search: the first rate, the sessions attempted, and the deviation from the RFC's algorithm.
    /// The caller adds the measured rates: see [`measured`](Self::measured).
    pub fn of(journal: &SearchJournal) -> Self {
        let notes = match journal.settings.mode {
            Mode::Rfc7502(_) => None,
            _ => Some("the rate was not found by the algorithm of section 4.10".to_owned()),
        };
        Self {
            session_attempt_rate: Some(journal.settings.start),
            total_sessions_attempted: Some(journal.calls()),
            notes,
            ..Self::default()
        }
    }

    /// The text of a verdict for a rate field of the form: a number, or words if the verdict is not a number.
    pub fn measured(verdict: &CapacityVerdict) -> String {
        match verdict {
            CapacityVerdict::Capacity(capacity) => format!("{}", (capacity.rate * 10.0).round() / 10.0),
            CapacityVerdict::MoreThan { rate } => format!("more than {rate}"),
            CapacityVerdict::LessThan { rate } => format!("less than {rate}"),
            CapacityVerdict::TesterLimit { rate, .. } => {
                format!("not found: the tester is the limit at {rate}")
            }
            CapacityVerdict::Unanswered { .. }
            | CapacityVerdict::NotRecovered { .. }
            | CapacityVerdict::Unsettled { .. } => "not found".to_owned(),
        }
    }
}

impl fmt::Display for Rfc7502Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Test Setup Report (RFC 7502, section 5.1)")?;
        line(f, "SIP Transport Protocol", self.transport.as_ref())?;
        line(f, "DUT receives requests on one connection", yes(self.receives_on_one_connection))?;
        line(f, "DUT sends requests on one connection", yes(self.sends_on_one_connection))?;
        line(f, "Session Attempt Rate (attempts/s, initial \"r\")", self.session_attempt_rate)?;
        line(f, "Baseline of the tester (section 6.1, sessions/s)", self.baseline_rate)?;
        line(f, "Session Duration (s)", self.session_duration_s)?;
        line(f, "Total Sessions Attempted", self.total_sessions_attempted)?;
        line(f, "Media Streams per Session", self.media_streams)?;
        line(f, "Associated Media Protocol", self.media_protocol.as_ref())?;
        line(f, "Codec", self.codec.as_ref())?;
        line(f, "Media Packet Size (audio only, bytes)", self.media_packet_size)?;
        line(f, "Establishment Threshold time (s)", self.establishment_threshold_s)?;
        line(f, "TLS ciphersuite used", self.tls_ciphersuite.as_ref())?;
        line(f, "IPsec profile used", self.ipsec_profile.as_ref())?;
        writeln!(f, "\nDevice Benchmarks for Session Setup (section 5.2)")?;
        line(f, "Session Establishment Rate, \"R\" (sessions/s)", self.session_establishment_rate.as_ref())?;
        line(f, "Is DUT acting as a media relay?", yes(self.is_media_relay))?;
        writeln!(f, "\nDevice Benchmarks for Registrations (section 5.3)")?;
        line(f, "Registration Rate (registrations/s)", self.registration_rate.as_ref())?;
        line(f, "Re-registration Rate (registrations/s)", self.re_registration_rate.as_ref())?;
        line(f, "Notes", self.notes.as_ref())
    }
}

fn yes(value: Option<bool>) -> Option<&'static str> {
    value.map(|yes| if yes { "yes" } else { "no" })
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    match value {
        Some(value) => writeln!(f, "  {name:<47} = {value}"),
        None => writeln!(f, "  {name:<47} = -"),
    }
}
