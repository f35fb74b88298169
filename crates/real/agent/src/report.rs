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
    /// Whether the end is the client or the server of the flow.
    pub side: FlowSide,
    /// How precisely the end followed the schedule of its datagrams, if it sends datagrams.
    pub source: Option<SourceReport>,
    /// Counts of the datagrams that the end received from the other end, if it receives datagrams.
    pub datagrams: Option<UdpReport>,
    /// Counts of the end's UDP socket, if it has one.
    #[serde(default)]
    pub passed: Option<SocketPassage>,
    /// Lateness and drops of the end's SCTP endpoint, if it has one.
    #[serde(default)]
    pub sctp: Option<SctpReport>,
    /// Interruptions of the thread that ran the end.
    #[serde(default)]
    pub interruptions: Interruptions,
    /// Time from each timer deadline of the application until the application got the timeout. Measured only if the
    /// flow has connections.
    #[serde(default)]
    pub deadlines: Lateness,
    /// Number of connections that the end opened or accepted.
    pub connections: u32,
    /// Number of connections that ended before all data had arrived.
    pub failed: u32,
    /// Number of MPTCP connections that fell back to TCP.
    pub fallbacks: u32,
    /// Largest number of simultaneous subflows of an MPTCP connection. The number is read once per sampling interval.
    #[serde(default)]
    pub subflows: u32,
    /// Reasons why the run is invalid, one sentence each.
    pub faults: Vec<String>,
    /// Limits that the end's own host imposed on the run (such as a late thread or a full socket buffer), one sentence
    /// each. Each makes the run invalid, unless the host is part of what is measured.
    #[serde(default)]
    pub strains: Vec<String>,
    /// Facts worth knowing that do not make the run invalid, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Remarks that are shown with the results of the end. The results stay valid.
    #[serde(default)]
    pub remarks: Vec<EndRemark>,
    /// The SIP messages that were kept.
    #[serde(default)]
    pub kept: Option<KeptMessages>,
}

/// Counts of the datagrams that a UDP socket received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpReport {
    /// Counts of the flow's datagrams.
    pub arrivals: ArrivalCounts,
    /// Datagrams that reached the host and were dropped because the receive buffer was full.
    pub socket_dropped: u32,
    /// Datagrams of other flows, and datagrams with sequence numbers that the flow cannot have.
    pub foreign: u64,
    /// Datagrams without a time stamp of the kernel. Their arrival time is the time at which they were read.
    pub unstamped: u64,
    /// Size of the socket's receive buffer as it reads back, bytes, including the kernel's overhead.
    pub receive_buffer: u32,
}

/// Counts of a UDP socket. A datagram that was captured on the link and is missing in these counts was lost in a
/// kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketPassage {
    /// Datagrams that were passed to the socket and left it.
    pub sent: u64,
    /// Datagrams that were due, but were not passed to the socket before the run was over.
    #[serde(default)]
    pub unsent: u64,
    /// Datagrams that were passed to the socket, but were too long to be sent without fragmentation.
    #[serde(default)]
    pub refused: u64,
    /// Datagrams that were read from the socket, from any sender.
    pub received: u64,
    /// Datagrams that reached the socket and were dropped because its buffer was full.
    pub dropped: u64,
}

/// Drops and lateness of an end with SCTP associations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SctpReport {
    /// Received packets that were dropped because a receive buffer was full.
    pub socket_dropped: u32,
    /// Outgoing packets that were dropped because a send buffer was full.
    pub no_room: u64,
    /// Time from the kernel's arrival stamp of a packet until the endpoint handled it.
    pub lateness: Lateness,
}

/// A remark that is shown with the results of an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndRemark {
    /// A sentence. Runs with the same observation have the same sentence.
    pub text: String,
    /// The single observations, one per line.
    pub details: Vec<String>,
}

impl EndReport {
    /// A report with all counts zero.
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
