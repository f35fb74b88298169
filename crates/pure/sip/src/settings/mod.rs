//! SIP in an experiment file: a load of users at one end of a flow, and their server at the other.
//!
//! Start from [`LoadSettings::plan`] and [`ServerSettings::order`], which make checked plans and servers of the
//! settings.

mod drawn_time;
mod load;
mod location;
mod plan;
mod rule_test;
mod scenario;
mod script;
mod server;
mod server_order;

pub use drawn_time::DrawnTime;
pub use load::{Called, Connections, LargeRequests, LoadSettings, StageSettings, UserOptions};
pub use location::{LocationSettings, LookupSettings, NameService};
pub use rule_test::{RuleTest, TESTED_USERS, TestedRole};
pub use scenario::{ScenarioName, Spans};
pub use server::{Digest, ServerRole, ServerSettings, Serving};

/// An invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {why}")]
pub struct SettingError {
    /// The key in the file, below that of the application.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
}

fn wrong(field: &'static str, why: impl Into<String>) -> Result<(), SettingError> {
    Err(SettingError { field, why: why.into() })
}
