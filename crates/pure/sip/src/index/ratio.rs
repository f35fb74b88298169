//! The ratios of RFC 6076.

use netrig_core::CountRatio;
use schemars::JsonSchema;
use serde::Serialize;

use super::quantity::{
    IndexMetric, SIP_REGISTRATIONS, SIP_REGISTRATIONS_INEFFECTIVE, SIP_SESSIONS, SIP_SESSIONS_COMPLETED,
    SIP_SESSIONS_ESTABLISHED, SIP_SESSIONS_INEFFECTIVE, SIP_SESSIONS_REDIRECTED, SIP_SESSIONS_REFUSED,
};
use super::tally::Tally;

/// A ratio of RFC 6076.
#[derive(Debug)]
pub struct Ratio {
    /// The abbreviation in RFC 6076.
    pub rfc_name: &'static str,
    /// The counts of which it is computed.
    pub counts: CountRatio,
    /// The metric of an experiment that reports it.
    pub metric: IndexMetric,
}

/// Declares the ratios. A row has the key in the report of a load, the abbreviation, the counts, the reason for a missing
/// value, and the metric.
macro_rules! ratios {
    ($(
        $(#[doc = $doc:literal])+
        $key:ident $rfc_name:literal
            = [$($part:ident),+] of [$($whole:ident),+] without [$($without:ident),*] else $nothing:literal,
        metric $metric:literal: $definition:literal;
    )+) => {
        /// The ratios of RFC 6076, 0 to 1; absent without a denominator.
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
        pub struct Ratios {
            $($(#[doc = $doc])+ pub $key: Option<f64>,)+
        }

        /// All ratios, in the order of the fields of [`Ratios`].
        pub static RATIOS: [Ratio; [$($rfc_name),+].len()] = [$(
            Ratio {
                rfc_name: $rfc_name,
                counts: CountRatio {
                    part: &[$(&$part),+],
                    whole: &[$(&$whole),+],
                    without: &[$(&$without),*],
                    nothing: $nothing,
                },
                metric: IndexMetric { name: $metric, definition: $definition },
            },
        )+];

        impl Ratios {
            /// The ratios of a tally.
            pub fn of(tally: &Tally) -> Self {
                let ratio = |ratio: &Ratio| ratio.counts.of(|count| tally.total(count) as f64);
                let [$($key),+] = RATIOS.each_ref().map(ratio);
                Self { $($key),+ }
            }

            /// The ratios with a value, by their abbreviations.
            pub fn known(&self) -> impl Iterator<Item = (&'static str, f64)> {
                let values = [$(self.$key),+];
                RATIOS.iter().zip(values).filter_map(|(ratio, value)| Some((ratio.rfc_name, value?)))
            }
        }
    };
}

ratios! {
    /// Session establishment ratio.
    ser "SER"
        = [SIP_SESSIONS_ESTABLISHED] of [SIP_SESSIONS] without [SIP_SESSIONS_REDIRECTED]
        else "no call ended without a redirection",
        metric "session_establishment_ratio":
        "Share of calls that were answered with 2xx, of those that ended in the measuring window and were \
         not redirected (SER of RFC 6076).";
    /// Session establishment effectiveness ratio.
    seer "SEER"
        = [SIP_SESSIONS_ESTABLISHED, SIP_SESSIONS_REFUSED] of [SIP_SESSIONS] without [SIP_SESSIONS_REDIRECTED]
        else "no call ended without a redirection",
        metric "session_establishment_effectiveness_ratio":
        "Share of calls that were answered with 2xx, or that the callee refused with 480, 486, 600 or \
         603, of those that ended in the measuring window and were not redirected (SEER of RFC 6076).";
    /// Ineffective session attempts.
    isa "ISA"
        = [SIP_SESSIONS_INEFFECTIVE] of [SIP_SESSIONS] without [] else "no call ended",
        metric "ineffective_session_attempts":
        "Share of calls that ended with 408, 500, 503 or 504, without a response, or because their \
         connection broke, of those that ended in the measuring window (ISA of RFC 6076).";
    /// Session completion ratio.
    scr "SCR"
        = [SIP_SESSIONS_COMPLETED] of [SIP_SESSIONS] without [] else "no call ended",
        metric "session_completion_ratio":
        "Share of calls that were answered and whose BYE was answered, of those that ended in the \
         measuring window (SCR of RFC 6076).";
    /// Ineffective registration attempts.
    ira "IRA"
        = [SIP_REGISTRATIONS_INEFFECTIVE] of [SIP_REGISTRATIONS] without [] else "no registration ended",
        metric "ineffective_registration_attempts":
        "Share of registrations that were refused (a challenge is no refusal), had no response, or lost \
         their connection, of those that ended in the measuring window (IRA of RFC 6076).";
}
