//! Profiles: named sources of an endpoint's constants.

use netrig_core::{Duration, SettingsError, named};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

named! {
    /// A named set of constants and behaviours. Code reads the constants and does not depend on the study.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Profile {
        /// The recommendations of the standards-track RFCs. The exception is TCP's initial window of ten: RFC 6928 is
        /// Experimental, but every system implements it and RFC 9002 section 7.2 adopts it.
        Rfc = "rfc",
        /// The Linux kernel with its default settings.
        Linux = "linux",
        /// ns-2: TCP as in 2.35, SCTP as in 2.29, because SCTP of 2.35 stalls after a fail-over.
        Ns2 = "ns2",
    }
}

/// A constant of an endpoint, as `netrig show profile` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Its name in the experiment file.
    pub name: &'static str,
    /// Its meaning, in one or two sentences.
    pub doc: &'static str,
    /// Its value in the requested profile, as an experiment file writes it.
    pub value: String,
    /// The source of the value.
    pub source: &'static str,
}

/// The rule that the smallest retransmission time-out must not exceed the largest. Every profile satisfies it, so a
/// violation means that the file sets at least one of the two. The error names `rto_max` if the file sets it, and
/// otherwise `rto_min`.
pub(crate) fn rto_order(
    min: Duration,
    max: Duration,
    max_is_set: bool,
) -> (bool, &'static str, &'static str) {
    let (bound, why) = if max_is_set {
        ("rto_max", "must not be below `rto_min`")
    } else {
        ("rto_min", "must not be above `rto_max`")
    };
    (min <= max, bound, why)
}

/// Returns an error for the first rule that is violated. A rule consists of whether it is satisfied, the constant, and
/// the reason.
pub(crate) fn ensure_all(rules: &[(bool, &'static str, &'static str)]) -> Result<(), SettingsError> {
    match rules.iter().find(|(holds, ..)| !holds) {
        Some(&(_, field, why)) => Err(SettingsError::new(field, why)),
        None => Ok(()),
    }
}

/// A value as an experiment file writes it.
pub(crate) fn written<T: Serialize>(value: &T) -> String {
    // A constant is a number, a switch, a quantity or a name, so serialising it cannot fail.
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    }
}

/// Declares an endpoint's constants once: the resolved structure that the endpoint reads, the settings of the
/// experiment file (each constant is optional), and the table that `netrig show profile` prints.
macro_rules! constants {
    (
        $(#[$meta:meta])*
        pub struct $config:ident, $settings:ident {
            $(
                $(#[doc = $doc:literal])+
                $name:ident: $type:ty {
                    rfc: $rfc:expr, $rfc_source:literal;
                    linux: $linux:expr, $linux_source:literal;
                    ns2: $ns2:expr, $ns2_source:literal;
                }
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $config {
            $( $(#[doc = $doc])+ pub $name: $type, )+
        }

        /// The constants that an experiment file sets; the profile gives the others.
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $settings {
            $(
                $(#[doc = $doc])+
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $name: Option<$type>,
            )+
        }

        impl $config {
            /// The constants of a profile.
            pub fn of(profile: $crate::Profile) -> Self {
                match profile {
                    $crate::Profile::Rfc => Self { $( $name: $rfc, )+ },
                    $crate::Profile::Linux => Self { $( $name: $linux, )+ },
                    $crate::Profile::Ns2 => Self { $( $name: $ns2, )+ },
                }
            }

            /// These constants, with those in `settings` replaced.
            #[must_use]
            pub fn with(mut self, settings: &$settings) -> Self {
                $( if let Some(value) = &settings.$name { self.$name = value.clone(); } )+
                self
            }

            /// Every constant of `profile` with its value, meaning and source.
            pub fn constants(profile: $crate::Profile) -> Vec<$crate::Constant> {
                let values = Self::of(profile);
                vec![$(
                    $crate::Constant {
                        name: stringify!($name),
                        doc: concat!($($doc),+).trim(),
                        value: $crate::profile::written(&values.$name),
                        source: match profile {
                            $crate::Profile::Rfc => $rfc_source,
                            $crate::Profile::Linux => $linux_source,
                            $crate::Profile::Ns2 => $ns2_source,
                        },
                    },
                )+]
            }
        }
    };
}
pub(crate) use constants;
