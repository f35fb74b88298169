//! The table of congestion controls, and their names in files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The algorithms that a file can name, handed to the macro `$declare`: those modelled here, each with the type that
/// implements [`CongestionControl`](super::CongestionControl) and is made by `new(&Config) -> Self`, and those that only
/// kernels have.
macro_rules! algorithms {
    ($declare:ident) => {
        $declare! {
            /// Slow start and congestion avoidance; every loss begins again at one segment (Jacobson 1988).
            Tahoe => tahoe::Tahoe;
            /// Additive increase, multiplicative decrease (RFC 5681). With `recovery = "newreno"` this is what is called
            /// NewReno.
            Reno => reno::Reno;
            /// CUBIC (RFC 9438).
            Cubic => cubic::Cubic;
            /// Scalable TCP: growth and reduction both in proportion to the window (Kelly 2003).
            Scalable => scalable::Scalable;
            kernels:
            /// BBR: by the rate and the round-trip time that it measures (draft-ietf-ccwg-bbr). Only kernels have it.
            Bbr;
        }
    };
}
pub(super) use algorithms;

macro_rules! names {
    (
        $($(#[doc = $doc:literal])+ $name:ident => $algorithm:ty;)+
        kernels: $($(#[doc = $kernel_doc:literal])+ $kernel:ident;)+
    ) => {
        /// How the congestion window grows and by how much a loss reduces it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum Congestion {
            $($(#[doc = $doc])+ $name,)+
            $($(#[doc = $kernel_doc])+ $kernel,)+
        }

        impl Congestion {
            /// Those that connections of this crate have.
            pub const MODELLED: &[Self] = &[$(Self::$name),+];
        }

        /// As in a file.
        impl std::fmt::Display for Congestion {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                // Each is one word.
                f.write_str(&format!("{self:?}").to_lowercase())
            }
        }
    };
}

algorithms!(names);
