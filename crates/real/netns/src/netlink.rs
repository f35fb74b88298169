//! What a testbed asks of the kernel by netlink; the conversation itself is the agent's.

pub(crate) mod path_manager;
pub(crate) mod route;

pub(crate) use netrig_host::netlink::{Ethtool, NetlinkError};
