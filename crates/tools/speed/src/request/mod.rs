//! Requests: the settings of a measurement and of a server, and the translation of the former into orders.

mod error;
mod measurement;
mod server;

pub use error::MeasureRequestError;
pub use measurement::{MeasuredPart, SpeedSettings};
pub use server::SpeedServerSettings;
