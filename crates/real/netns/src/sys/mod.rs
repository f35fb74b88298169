//! Safe functions for system calls that have no safe wrapper in a library, and for memory that is shared with the
//! kernel.

mod packet_socket;
mod slots;
mod starting;

pub(crate) use packet_socket::PacketSocket;
pub(crate) use slots::{FilledSlot, Slots};
pub(crate) use starting::{bind_to, die_with_starter, join, start_in, unshare_mounts, unshare_network};
