//! Safe functions for the few system calls that have no safe wrapper in a library.

mod extended_error;
mod kernel_clock;
mod messages;
mod options;
mod scheduling;
mod socket_name;
mod stream;

pub use extended_error::{ErrorOrigin, ExtendedError};
pub use kernel_clock::KernelClock;
pub use messages::{
    Incoming, MESSAGES, Outgoing, QueuedError, ReceiveBatch, TransmitStamp, send_many, send_one,
};
pub use options::{option_bytes, option_int, set_option_int};
pub use scheduling::{become_real_time, leave_real_time};
pub use stream::{receive_stamped, stamp_received};
