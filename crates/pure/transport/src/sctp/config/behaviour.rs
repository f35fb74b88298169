//! What the constants of an SCTP endpoint choose between.

use netrig_core::Size;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sctp::packet::chunk::DATA_HEADER;

/// What carries SCTP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Encapsulation {
    /// IP itself, as protocol 132.
    #[default]
    Ip,
    /// UDP datagrams from port 9899 to port 9899 (RFC 6951). Their header takes its 8 bytes from the MTU.
    Udp,
}

impl Encapsulation {
    /// The port on which hosts take SCTP in UDP (RFC 6951 section 7: sctp-tunneling).
    pub const UDP_PORT: u16 = 9899;

    /// What it puts between the IP header and the packet, bytes.
    pub const fn header_len(self) -> u32 {
        match self {
            Self::Ip => 0,
            Self::Udp => 8,
        }
    }
}

/// Where lost DATA is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RetransmitTo {
    /// The path that it was lost on, as long as that one is usable.
    SamePath,
    /// Another active path, if there is one (RFC 9260 section 6.4).
    AlternatePath,
    /// After a time-out another active path; in fast retransmit the same.
    TimeoutsToAlternate,
}

/// Where the congestion window starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum InitialCwnd {
    /// By a rule of the MTU.
    Rule(InitialCwndRule),
    /// So many bytes.
    Size(Size),
}

/// Rules for the first congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InitialCwndRule {
    /// min(4 P, max(2 P, 4404)), 4344 for IPv6, where P is the largest DATA chunk (RFC 9260 section 7.2.1).
    Rfc9260,
    /// min(4 MTU, max(2 MTU, 4380)) (RFC 4960 section 7.2.1).
    Rfc4960,
}

/// Where the slow-start threshold starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum InitialSsthresh {
    /// By a rule.
    Rule(InitialSsthreshRule),
    /// So many bytes.
    Size(Size),
}

/// Rules for the first slow-start threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InitialSsthreshRule {
    /// None: slow start goes on until something is lost.
    Unbounded,
    /// The peer's first advertised window.
    PeerWindow,
}

/// What congestion control takes for "one packet".
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
    /// The user's bytes in them.
    UserData,
}

/// What a DATA chunk takes of the send buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChunkCharge {
    /// Its user bytes.
    UserBytes,
    /// What Linux 3.2 to 6.2 allocates for it on a machine of 64 bits: a block of a power of two bytes that holds the
    /// chunk and what describes the block, the socket buffer and the chunk's own record.
    KernelBuffer,
}

impl ChunkCharge {
    /// For a chunk of `user` bytes, bytes.
    pub(crate) const fn of(self, user: u64) -> u64 {
        /// A cache line, to which the kernel aligns.
        const LINE: u64 = 64;
        /// struct skb_shared_info, which ends each block (include/linux/skbuff.h).
        const SHARED_INFO: u64 = 320;
        /// The smallest block that holds it and a chunk (mm/slab_common.c).
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

/// What becomes of the congestion window of a path that no data is sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdleCwnd {
    /// Nothing.
    Keep,
    /// Halved once per RTO, down to four packets; before the first time the threshold takes its value (RFC
    /// 9260 section 7.2.1).
    HalvePerRto,
    /// Halved once per RTO; the threshold stays.
    HalveWindowPerRto,
    /// Halved at each heartbeat that finds the path unused for an RTO.
    HalveAtHeartbeat,
}

/// What happens to packets while this host's own interface is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LocalDrop {
    /// They are lost without a word; the timers run and back off as if the loss were far away.
    BackOff,
    /// The sender tries again every `local_probe_interval`; neither back-off nor error counters.
    Probe,
    /// The path is inactive at once.
    FailOver,
}

/// When a heartbeat that nobody answers counts as an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HeartbeatLoss {
    /// One RTO after it was sent (RFC 9260 section 8.2).
    AfterRto,
    /// When the next one is due.
    AtNext,
}

/// Which stream may send next, by the names of RFC 8260 section 3. A message once begun is finished first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// In the order in which messages were given (SCTP_SS_FCFS).
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
