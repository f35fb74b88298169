//! Values of an SCTP endpoint's constants.

use netrig_core::Size;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sctp::packet::chunk::DATA_HEADER;

/// The protocol that carries SCTP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Encapsulation {
    /// IP itself, as protocol 132.
    #[default]
    Ip,
    /// UDP datagrams from port 9899 to port 9899 (RFC 6951). The UDP header takes 8 bytes of the MTU.
    Udp,
}

impl Encapsulation {
    /// The port for SCTP in UDP (RFC 6951 section 7: sctp-tunneling).
    pub const UDP_PORT: u16 = 9899;

    /// Bytes between the IP header and the SCTP packet.
    pub const fn header_len(self) -> u32 {
        match self {
            Self::Ip => 0,
            Self::Udp => 8,
        }
    }
}

/// Path of retransmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RetransmitTo {
    /// The path of the loss, as long as it is usable.
    SamePath,
    /// Another active path, if there is one (RFC 9260 section 6.4).
    AlternatePath,
    /// Another active path after a time-out; the same path in fast retransmit.
    TimeoutsToAlternate,
}

/// Initial congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum InitialCwnd {
    /// Computed from the MTU by a rule.
    Rule(InitialCwndRule),
    /// A size in bytes.
    Size(Size),
}

/// Rules for the initial congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InitialCwndRule {
    /// min(4 P, max(2 P, 4404)), 4344 for IPv6, where P is the largest DATA chunk (RFC 9260 section 7.2.1).
    Rfc9260,
    /// min(4 MTU, max(2 MTU, 4380)) (RFC 4960 section 7.2.1).
    Rfc4960,
}

/// Initial slow-start threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum InitialSsthresh {
    /// Computed by a rule.
    Rule(InitialSsthreshRule),
    /// A size in bytes.
    Size(Size),
}

/// Rules for the initial slow-start threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InitialSsthreshRule {
    /// Unbounded: slow start lasts until the first loss.
    Unbounded,
    /// The peer's first advertised window.
    PeerWindow,
}

/// Size of a packet in congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CwndUnit {
    /// The largest DATA chunk that fits the path's MTU, its header included (PMDCS, RFC 9260 section 1.3).
    Pmdcs,
    /// The MTU.
    Mtu,
}

/// Which bytes count as outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// DATA chunks with header and padding.
    Chunks,
    /// User bytes in DATA chunks.
    UserData,
}

/// Space in the send buffer that a DATA chunk occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChunkCharge {
    /// Its user bytes.
    UserBytes,
    /// The memory that Linux 3.2 to 6.2 allocates on a machine of 64 bits: a block of a power of two bytes for the
    /// chunk and its `skb_shared_info`, the socket buffer, and the chunk's own record.
    KernelBuffer,
}

impl ChunkCharge {
    /// Bytes for a chunk of `user` user bytes.
    pub(crate) const fn of(self, user: u64) -> u64 {
        /// A cache line, to which the kernel aligns.
        const LINE: u64 = 64;
        /// struct skb_shared_info, which ends each block (include/linux/skbuff.h).
        const SHARED_INFO: u64 = 320;
        /// The smallest block that is large enough for `SHARED_INFO` and a chunk (mm/slab_common.c).
        const SMALLEST: u64 = 512;
        /// struct sk_buff (include/linux/skbuff.h), aligned.
        const SOCKET_BUFFER: u64 = 256;
        /// struct sctp_chunk (include/net/sctp/structs.h).
        const RECORD: u64 = 248;
        match self {
            Self::UserBytes => user,
            Self::KernelBuffer => {
                let chunk = (DATA_HEADER as u64 + user).next_multiple_of(LINE);
                let block = (chunk + SHARED_INFO).next_power_of_two();
                (if block < SMALLEST { SMALLEST } else { block }) + SOCKET_BUFFER + RECORD
            }
        }
    }
}

/// Change of the congestion window while no data is sent on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdleCwnd {
    /// No change.
    Keep,
    /// Halved once per RTO, down to four packets. Before the first halving, ssthresh is set to cwnd (RFC 9260 section
    /// 7.2.1).
    HalvePerRto,
    /// Halved once per RTO; the threshold is unchanged.
    HalveWindowPerRto,
    /// Halved at each heartbeat if the path was unused for an RTO.
    HalveAtHeartbeat,
}

/// Handling of packets while this host's interface is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LocalDrop {
    /// They are lost silently. Timers expire and back off as for a loss in the network.
    BackOff,
    /// The sender retries every `local_probe_interval`, without back-off and error counts.
    Probe,
    /// The path becomes inactive at once.
    FailOver,
}

/// When an unanswered heartbeat counts as an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HeartbeatLoss {
    /// One RTO after it is sent (RFC 9260 section 8.2).
    AfterRto,
    /// When the next one is due.
    AtNext,
}

/// Stream scheduler, by the names of RFC 8260 section 3. A started message is finished first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// In the order in which the user sent the messages (SCTP_SS_FCFS).
    Fcfs,
    /// The streams in turn, a message each (SCTP_SS_RR).
    RoundRobin,
    /// The streams in turn, a packet each (SCTP_SS_RR_PKT).
    RoundRobinPacket,
    /// The lowest of `stream_values` first (SCTP_SS_PRIO).
    Priority,
    /// The stream that has sent the fewest bytes first (SCTP_SS_FB).
    Fair,
    /// Bytes in proportion to `stream_values` (SCTP_SS_WFQ).
    WeightedFair,
}
