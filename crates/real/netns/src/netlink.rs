//! Netlink requests of a testbed. `netrig_host` has the transport.

pub(crate) mod path_manager;
pub(crate) mod route;

pub(crate) use netrig_host::netlink::{Ethtool, NetlinkError};
