//! SIP in an experiment file: a load of users at one end of a flow, and their server at the other.
//!
//! Start from [`LoadSettings::plan`] and [`ServerSettings::order`], which make checked plans and servers from the
//! settings.

mod drawn_time;
mod error;
mod load;
mod location;
mod plan;
mod rule_test;
mod scenario;
mod script;
mod server;
mod server_order;

pub use drawn_time::DrawnTime;
pub use error::SettingError;
pub use load::{Called, Connections, LargeRequests, LoadSettings, StageSettings, UserOptions};
pub use location::{LocationSettings, LookupSettings, NameService};
pub use rule_test::{RuleTest, TESTED_USERS, TestedRole};
pub use scenario::{ScenarioName, Spans};
pub use server::{Digest, ServerRole, ServerSettings, Serving};
