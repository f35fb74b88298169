//! Packets of one flow, and what is heard of each: what a trace and a search for the path's MTU are made of.
//!
//! What packets are is in [`packet`], without a socket. A socket takes what hosts on the way say from the kernel's error queue
//! (ip(7), `IP_RECVERR`), which needs no rights, in the place of reading all ICMP that comes to this host.

pub mod packet;
mod socket;

use std::net::IpAddr;

use super::icmp_error::{IcmpError, Label};
use packet::AnswerKind;

pub(crate) use socket::{FlowEvent, FlowSendOutcome, FlowSocket};

/// What is said of a packet, or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseKind {
    /// By a message of ICMP that repeats it.
    IcmpError(IcmpError),
    /// By who it was for, to it.
    Answer(AnswerKind),
}

/// What was heard of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowResponse {
    /// Who says it.
    pub from: IpAddr,
    /// What.
    pub kind: ResponseKind,
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
