//! The few system calls that no library wraps safely, each behind a function that cannot be misused.

mod messages;
mod options;

pub(crate) use messages::{MESSAGES, Outgoing, ReceiveBatch, send_many, send_one};
pub(crate) use options::{option_bytes, option_int, set_option_int};
