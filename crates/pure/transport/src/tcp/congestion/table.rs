//! The table of congestion controls, and their names in files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Passes the algorithms that a file can name to the macro `$declare`. The first group is modelled: each algorithm has
/// a type that implements [`CongestionControl`](super::CongestionControl) and has `new(&Config) -> Self`. The
/// algorithms of the second group exist in kernels only.
macro_rules! algorithms {
    ($declare:ident) => {
        $declare! {
            /// Slow start and congestion avoidance. After every loss the window is one segment (Jacobson 1988).
            Tahoe => tahoe::Tahoe;
            /// Additive increase, multiplicative decrease (RFC 5681). With `recovery = "newreno"` it is known as
            /// NewReno.
            Reno => reno::Reno;
            /// CUBIC (RFC 9438).
            Cubic => cubic::Cubic;
            /// Scalable TCP: growth and reduction both in proportion to the window (Kelly 2003).
            Scalable => scalable::Scalable;
            kernels:
            /// BBR: based on measured rate and round-trip time (draft-ietf-ccwg-bbr). Only kernels have it.
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
        /// A congestion control algorithm.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum Congestion {
            $($(#[doc = $doc])+ $name,)+
            $($(#[doc = $kernel_doc])+ $kernel,)+
        }

        impl Congestion {
            /// The algorithms that this crate's connections implement.
            pub const MODELLED: &[Self] = &[$(Self::$name),+];
        }

        /// The name in a file.
        impl std::fmt::Display for Congestion {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                // The name of each algorithm is one word.
                f.write_str(&format!("{self:?}").to_lowercase())
            }
        }
    };
}

algorithms!(names);
