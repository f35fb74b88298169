//! What an end tells of itself when a run is over.

use serde::{Deserialize, Serialize};

use crate::order::EndOrder;
use crate::sctp::SctpReport;
use crate::side::Side;
use crate::udp::{SocketPassage, UdpReport};
use netrig_host::Interruptions;
use netrig_host::Lateness;
use netrig_host::SourceReport;
use netrig_sip_net::tap::KeptMessages;

/// What an end did in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndReport {
    /// The flow's place in the scenario.
    pub flow: u32,
    /// Which of its ends.
    pub side: Side,
    /// How well it kept to the schedule of its datagrams, if it sent any.
    pub source: Option<SourceReport>,
    /// What became of the other end's datagrams, if it takes any.
    pub datagrams: Option<UdpReport>,
    /// What passed its socket, if that is one for datagrams.
    #[serde(default)]
    pub passed: Option<SocketPassage>,
    /// How well it kept to its work, if it has associations of SCTP.
    #[serde(default)]
    pub sctp: Option<SctpReport>,
    /// What kept its thread from running.
    #[serde(default)]
    pub interruptions: Interruptions,
    /// How late its application was told of the moments for which it waited, if it has connections.
    #[serde(default)]
    pub deadlines: Lateness,
    /// Connections that it opened and accepted.
    pub connections: u32,
    /// Connections that ended before everything had arrived.
    pub failed: u32,
    /// Connections of MPTCP that fell back to TCP.
    pub fallbacks: u32,
    /// The most subflows that a connection of MPTCP had at once, as far as it was looked at: once per sampling interval.
    #[serde(default)]
    pub subflows: u32,
    /// Why the run must not be trusted: each a sentence.
    pub faults: Vec<String>,
    /// What its own host did to it: each a sentence, and a fault unless the host is part of what is measured.
    #[serde(default)]
    pub strains: Vec<String>,
    /// What is no fault and worth knowing: each a sentence.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What must stand beside its figures, which count nevertheless.
    #[serde(default)]
    pub remarks: Vec<EndRemark>,
    /// Messages that were kept.
    #[serde(default)]
    pub kept: Option<KeptMessages>,
}

/// Something that must stand beside the figures of an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndRemark {
    /// A sentence, which is the same in each run in which the same happens.
    pub text: String,
    /// What was observed, in lines.
    pub details: Vec<String>,
}

impl EndReport {
    /// Of an end that has done nothing.
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
