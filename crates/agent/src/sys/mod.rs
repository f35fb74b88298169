//! The few system calls that no library wraps safely, each behind a function that cannot be misused.

mod kernel_clock;
mod messages;
mod options;

pub(crate) use kernel_clock::KernelClock;
pub(crate) use messages::{Incoming, ReceiveBatch, SendBatch, TransmitStamp};
pub(crate) use options::{option_bytes, option_int, set_option_int};
