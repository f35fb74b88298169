//! Test purposes as data.

pub use netrig_sip::settings::TestedRole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::capability::Capability;
use super::case::TestCase;
use super::outcome::PurposeOutcome;

/// The strength of a requirement (RFC 2119).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RequirementLevel {
    /// MUST, MUST NOT, and behaviour that the RFC describes without a keyword.
    Must,
    /// SHOULD and SHOULD NOT. A server may have reasons to deviate, so a deviation is inconclusive.
    Should,
}

/// The transports over which a purpose can be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurposeCarrier {
    /// All transports.
    Any,
    /// UDP only: retransmissions, and the destination of responses.
    Datagrams,
    /// TCP and TLS only: framing in a stream, and connections.
    Connections,
}

/// One rule, and a procedure that tests a server against it.
#[derive(Clone, Copy, Debug)]
pub struct TestPurpose {
    /// The unique id, such as `REG-CONTACT-03`.
    pub id: &'static str,
    /// The role with this rule.
    pub role: TestedRole,
    /// The part of the role, such as `contacts`.
    pub group: &'static str,
    /// RFC and section, such as `RFC 3261 section 10.3`.
    pub section: &'static str,
    /// The strength of the requirement.
    pub level: RequirementLevel,
    /// The requirement in our words.
    pub requirement: &'static str,
    /// Capabilities that the server needs.
    pub needs: &'static [Capability],
    /// The transports over which it can be tried.
    pub carrier: PurposeCarrier,
    /// Whether it belongs to the set `basic-call`.
    pub is_basic: bool,
    /// The procedure.
    pub procedure: fn(&mut TestCase<'_>) -> PurposeOutcome,
}

/// A table of purposes of a role. All ids have the prefix. Each group has a name and rows of id, level, section,
/// requirement and procedure. After the procedure, `needs [Capability, ..]`, `over Datagrams` or `over Connections`,
/// and `in basic` may follow. After the prefix, `of SUBJECT` may name the request that all procedures use. If the
/// server does not answer this request, the purposes are inconclusive.
macro_rules! purposes {
    ($role:ident $prefix:literal; $($group:literal { $($id:literal $level:ident $section:literal $requirement:literal => $procedure:expr
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
    ($role:ident $prefix:literal of $subject:path; $($group:literal { $($id:literal $level:ident $section:literal $requirement:literal => $procedure:expr
        $(, over $carrier:ident)? $(, in $basic:ident)?;)+ })+) => {
        purposes! { $role $prefix; $($group { $($id $level $section $requirement => |case| {
            $crate::conformance::purposes::tried(case, $subject, $procedure)
        } $(, over $carrier)? $(, in $basic)?;)+ })+ }
    };
    (@carrier) => { $crate::conformance::PurposeCarrier::Any };
    (@carrier $carrier:ident) => { $crate::conformance::PurposeCarrier::$carrier };
    (@basic) => { false };
    (@basic basic) => { true };
}

pub(super) use purposes;
