//! The report of an end of a flow after a run.

use netrig_traffic::FlowSide;
use serde::{Deserialize, Serialize};

use crate::order::EndOrder;
use netrig_host::ArrivalCounts;
use netrig_host::Interruptions;
use netrig_host::Lateness;
use netrig_host::SourceReport;
use netrig_sip_net::tap::KeptMessages;

/// The report of one end of a flow after a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndReport {
    /// The flow's index in the scenario.
    pub flow: u32,
    /// Which end of the flow.
    pub side: FlowSide,
    /// How precisely it followed the schedule of its datagrams, if it sent any.
    pub source: Option<SourceReport>,
    /// Counts of the received datagrams of the other end, if it receives any.
    pub datagrams: Option<UdpReport>,
    /// Counts of its UDP socket, if it has one.
    #[serde(default)]
    pub passed: Option<SocketPassage>,
    /// Lateness and drops of its SCTP endpoint, if it has one.
    #[serde(default)]
    pub sctp: Option<SctpReport>,
    /// Interruptions of its thread.
    #[serde(default)]
    pub interruptions: Interruptions,
    /// Lateness with which its application got its deadlines, if it has connections.
    #[serde(default)]
    pub deadlines: Lateness,
    /// Connections that it opened or accepted.
    pub connections: u32,
    /// Connections that ended before all data had arrived.
    pub failed: u32,
    /// MPTCP connections that fell back to TCP.
    pub fallbacks: u32,
    /// The most simultaneous subflows of an MPTCP connection, read once per sampling interval.
    #[serde(default)]
    pub subflows: u32,
    /// Why the run is invalid: one sentence each.
    pub faults: Vec<String>,
    /// Effects of its own host: one sentence each. Each is a fault unless the host is part of what is measured.
    #[serde(default)]
    pub strains: Vec<String>,
    /// Remarkable facts that are no faults: one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Remarks to be shown with its figures, which stay valid.
    #[serde(default)]
    pub remarks: Vec<EndRemark>,
    /// The SIP messages that were kept.
    #[serde(default)]
    pub kept: Option<KeptMessages>,
}

/// Counts of the datagrams that a UDP socket received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpReport {
    /// The flow's datagrams.
    pub arrivals: ArrivalCounts,
    /// Datagrams that reached the host, but for which the receive buffer had no room.
    pub socket_dropped: u32,
    /// Datagrams of other flows, or with numbers that the flow cannot have.
    pub foreign: u64,
    /// Datagrams without the kernel's stamp. Their arrival time is the time of reading.
    pub unstamped: u64,
    /// Size of the socket's receive buffer as it reads back, bytes, including the kernel's overhead.
    pub receive_buffer: u32,
}

/// Counts of a UDP socket. A datagram that was on a wire and is missing here was lost in a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketPassage {
    /// Datagrams that were passed to the socket and left it.
    pub sent: u64,
    /// Datagrams that were due, but were not passed to the socket before the run was over.
    #[serde(default)]
    pub unsent: u64,
    /// Datagrams that were passed to the socket, but were too long to be sent unfragmented.
    #[serde(default)]
    pub refused: u64,
    /// Datagrams that were read from the socket, of any sender.
    pub received: u64,
    /// Datagrams that reached the socket, but for which it had no room.
    pub dropped: u64,
}

/// Drops and lateness of an end with SCTP associations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SctpReport {
    /// Received packets that the receive buffers had no room for.
    pub socket_dropped: u32,
    /// Packets that the send buffers had no room for.
    pub no_room: u64,
    /// Time from the kernel's arrival stamp of a packet until the endpoint handled it.
    pub lateness: Lateness,
}

/// A remark to be shown with the figures of an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndRemark {
    /// A sentence, identical in all runs with the same observation.
    pub text: String,
    /// The observations, one per line.
    pub details: Vec<String>,
}

impl EndReport {
    /// The report of an end that has done nothing.
    pub(crate) fn empty(order: &EndOrder, interruptions: Interruptions) -> Self {
        Self {
            flow: order.flow,
            side: order.side,
            source: None,
            datagrams: None,
            passed: None,
            sctp: None,
            interruptions,
            deadlines: Lateness::default(),
            connections: 0,
            failed: 0,
            fallbacks: 0,
            subflows: 0,
            faults: Vec::new(),
            strains: Vec::new(),
            notes: Vec::new(),
            remarks: Vec::new(),
            kept: None,
        }
    }
}
