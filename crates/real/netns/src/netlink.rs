//! Netlink requests that a testbed needs. The sockets are in `netrig_host`.

pub(crate) mod path_manager;
pub(crate) mod route;

pub(crate) use netrig_host::netlink::{Ethtool, NetlinkError};
