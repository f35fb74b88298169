//! Packets of one flow and the responses to them: the basis of traces and of path MTU searches.
//!
//! The packet formats are in [`packet`], without a socket. The socket reads ICMP errors from the kernel's error queue
//! (ip(7), `IP_RECVERR`). That needs no privileges, unlike reading all ICMP messages of this host.

pub mod packet;
mod socket;

use std::net::IpAddr;

use super::icmp_error::{IcmpError, Label};
use packet::AnswerKind;

pub(crate) use socket::{FlowEvent, FlowSendOutcome, FlowSocket};

/// How a host responded to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseKind {
    /// With an ICMP error that quotes the packet.
    IcmpError(IcmpError),
    /// With an answer from the target.
    Answer(AnswerKind),
}

/// A response to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowResponse {
    /// Address of the responding host.
    pub from: IpAddr,
    /// ICMP error or answer.
    pub kind: ResponseKind,
    /// Time of arrival, ns since 1970.
    pub at: u64,
    /// The time stamp is the kernel's.
    pub stamped: bool,
    /// TTL of the response on arrival.
    pub ttl: Option<u8>,
    /// Octets that the response quotes or contains.
    pub length: usize,
    /// MPLS labels of the packet at the responding host.
    pub labels: Vec<Label>,
}
