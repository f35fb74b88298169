//! Builds the order of a load from the user's settings of the load and of the tester.
//!
//! [`LoadRequest::order`] makes the order of a load, and of a step of a capacity search.

mod carrier;
mod error;
mod location;
mod order;
mod server_text;
mod tester;

pub use error::RequestError;
pub use order::{LoadPeriod, LoadRequest, with_scenario};
pub use server_text::TestedServer;
pub use tester::{ReachPart, ReachSettings, ResolverAddress, TesterSettings};
