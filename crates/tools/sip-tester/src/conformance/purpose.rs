//! What a test purpose is.

pub use netrig_sip::settings::TestedRole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::capability::Capability;
use super::case::TestCase;
use super::outcome::PurposeOutcome;

/// How strong a requirement is (RFC 2119).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RequirementLevel {
    /// MUST, MUST NOT, and what the RFC tells as the way in which a server works.
    Must,
    /// SHOULD and SHOULD NOT. A server may have reasons not to follow, so a deviation is inconclusive and no failure.
    Should,
}

/// Which transports a purpose can be tried over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurposeCarrier {
    /// All.
    Any,
    /// UDP only: retransmissions, and where a response is sent.
    Datagrams,
    /// TCP and TLS only: how messages are found in a stream, and connections.
    Connections,
}

/// One rule, and how a server is held against it.
#[derive(Clone, Copy, Debug)]
pub struct TestPurpose {
    /// Unique, such as `REG-CONTACT-03`.
    pub id: &'static str,
    /// The role whose rule it is.
    pub role: TestedRole,
    /// The part of the role that it belongs to, such as `contacts`.
    pub group: &'static str,
    /// RFC and section, such as `RFC 3261 section 10.3`.
    pub section: &'static str,
    /// How strong the requirement is.
    pub level: RequirementLevel,
    /// The requirement in our words.
    pub requirement: &'static str,
    /// What the server has to offer, or to be configured to do.
    pub needs: &'static [Capability],
    /// Over which transports it can be tried.
    pub carrier: PurposeCarrier,
    /// Whether it belongs to the set `basic-call`.
    pub is_basic: bool,
    /// Carries it out.
    pub procedure: fn(&mut TestCase<'_>) -> PurposeOutcome,
}

/// A table of purposes of a role, whose ids begin with the prefix: for each group its name and its rows of id, level, section, requirement
/// and procedure. Behind the procedure may
/// stand `needs [Capability, ..]`, `over Datagrams` or `over Connections`, and `in basic`.
macro_rules! purposes {
    ($role:ident $prefix:literal; $($group:literal { $($id:literal $level:ident $section:literal $requirement:literal => $procedure:path
        $(, needs [$($need:ident),+])? $(, over $carrier:ident)? $(, in $basic:ident)?;)+ })+) => {
        pub(in crate::conformance) const PURPOSES: &[$crate::conformance::TestPurpose] = &[$($($crate::conformance::TestPurpose {
            id: concat!($prefix, "-", $id),
            role: $crate::conformance::TestedRole::$role,
            group: $group,
            section: $section,
            level: $crate::conformance::RequirementLevel::$level,
            requirement: $requirement,
            needs: &[$($($crate::conformance::Capability::$need),+)?],
            carrier: purposes!(@carrier $($carrier)?),
            is_basic: purposes!(@basic $($basic)?),
            procedure: $procedure,
        },)+)+];
    };
    (@carrier) => { $crate::conformance::PurposeCarrier::Any };
    (@carrier $carrier:ident) => { $crate::conformance::PurposeCarrier::$carrier };
    (@basic) => { false };
    (@basic basic) => { true };
}

pub(super) use purposes;
