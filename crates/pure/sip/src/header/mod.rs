//! Header fields: names, lists of fields, and types for the values that the SIP stack interprets.

mod address;
mod authentication;
mod list;
mod name;
mod parameters;
mod sequence;
mod via;

pub use address::NameAddr;
pub(crate) use address::NameAddrView;
pub use authentication::{AuthScheme, AuthenticationInfo, Challenge, Credentials};
pub use list::{HeaderValues, Headers};
pub use name::Name;
pub use parameters::Parameters;
pub(crate) use parameters::{ParameterGrammar, ParametersView};
pub(crate) use sequence::number as sequence_number;
pub use sequence::{CSeq, RAck};
pub(crate) use via::ViaView;
pub use via::{MAGIC_COOKIE, Transport, Via};
