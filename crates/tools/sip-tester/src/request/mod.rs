//! A load as a user asks for it: the settings of a load and of the tester become an order.
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
