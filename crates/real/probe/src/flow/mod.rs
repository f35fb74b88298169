//! Packets of one flow, and what is heard of each: what a trace and a search for the path's MTU are made of.
//!
//! What packets are is in [`packet`], without a socket. A socket takes what hosts on the way say from the kernel's error queue
//! (ip(7), `IP_RECVERR`), which needs no rights, in the place of reading all ICMP that comes to this host.

pub mod packet;
mod socket;

use std::net::IpAddr;

use super::icmp_error::{Label, Said};
use packet::How;

pub(crate) use socket::{Event, FlowSocket, Given};

/// What is said of a packet, or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// By a message of ICMP that repeats it.
    Said(Said),
    /// By who it was for, to it.
    Answered(How),
}

/// What was heard of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Who says it.
    pub from: IpAddr,
    /// What.
    pub what: What,
    /// When it came, ns since 1970.
    pub at: u64,
    /// That the kernel stamped it.
    pub stamped: bool,
    /// TTL with which it came.
    pub ttl: Option<u8>,
    /// Octets that it repeats or answers with.
    pub length: usize,
    /// Labels of MPLS with which the packet came there.
    pub labels: Vec<Label>,
}
