//! Packets of one flow and the responses to them. Traces and path MTU searches are built on this module.
//!
//! The packet formats are in [`packet`], which uses no socket. The socket of a flow reads ICMP errors from the kernel's
//! error queue (ip(7), `IP_RECVERR`). That needs no privileges, unlike reading all ICMP messages of this host.

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
    /// Whether the kernel stamped the arrival. Otherwise this program read the clock.
    pub stamped: bool,
    /// TTL with which the response arrived.
    pub ttl: Option<u8>,
    /// Octets of the packet that an ICMP error quotes, or octets of an answer.
    pub length: usize,
    /// MPLS labels with which the packet arrived at the responding host.
    pub labels: Vec<Label>,
}
