//! What a measurement may be limited by.

use schemars::JsonSchema;
use serde::Serialize;

use crate::protocol::DataDirection;

/// What limited one way, in words.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct LimitVerdict {
    /// Which way.
    pub way: DataDirection,
    /// Whether the other way was full meanwhile.
    pub at_once: bool,
    /// What limited it.
    pub limit: LimitingFactor,
    /// The same as a sentence.
    pub sentence: String,
    /// What was counted that proves it.
    pub proof: String,
    /// What mends it, if something does.
    pub advice: Option<String>,
}

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeasuredHost {
    /// Who measures.
    Client,
    /// Whom it measures with.
    Server,
}

/// What limited a measurement, with what proves it. Rates are bits per second of IP packets, shares are 0 to 1.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LimitingFactor {
    /// The slowest link of the path.
    Line {
        /// What it carries.
        bits_per_s: f64,
        /// What of that the transfer got.
        reached: f64,
        /// For how long packets waited in its queue, s.
        queue_s: f64,
    },
    /// The other direction: what tells the sender that its data has come is late, or lost, on the way back (RFC 3449 section 2).
    WayBack {
        /// What the transfer got.
        reached: f64,
        /// For how long packets waited in the queue of the way back, s.
        queue_s: f64,
    },
    /// A radio of one of the hosts.
    Wifi {
        /// Of which host.
        end: MeasuredHost,
        /// What it carries.
        bits_per_s: f64,
        /// What its frames are sent at.
        radio_bits_per_s: Option<f64>,
        /// How strong the other station is heard, dBm.
        signal_dbm: Option<i8>,
        /// Share of the frames that were sent again.
        sent_again: f64,
        /// Share of the frames that were given up.
        failed: f64,
    },
    /// Something drops what exceeds a rate and keeps no queue.
    Policer {
        /// What it lets through.
        bits_per_s: f64,
        /// What of that the transfer got.
        reached: f64,
        /// What was lost when more was offered.
        lost: f64,
    },
    /// Packets are lost on the way, and none waits there.
    Loss {
        /// Share of packets.
        share: f64,
        /// What the transfer got.
        reached: f64,
        /// Whether a search has found that they are lost beneath what the line carries, too; else a policer may be what loses
        /// them.
        beneath: bool,
        /// Whether there was a search at all; one that hosts spoilt, or that was not finished, tells nothing of that.
        searched: bool,
        /// Whether the transfer is of connections, whose congestion control takes that for congestion.
        adapts: bool,
        /// Whether it is known that packets waited no longer meanwhile than on the idle path.
        unqueued: bool,
    },
    /// The window that the receiver offers.
    Window {
        /// Whose window it is.
        end: MeasuredHost,
        /// How much it offered, bytes.
        bytes: f64,
        /// The round trip, s.
        round_trip_s: f64,
        /// Share of the time in which it held data back.
        share: f64,
        /// Connections that had one each.
        connections: u16,
        /// Whether that is not its kernel's choice: it was told to offer no more, or offers it itself (SCTP).
        told: bool,
        /// Whether the program has chosen the buffer that it is a part of.
        chosen: bool,
        /// The window with which the rate would be twice as high, bytes.
        needed: f64,
    },
    /// The buffer of the sending socket.
    SendBuffer {
        /// Whose it is.
        end: MeasuredHost,
        /// Bytes that it may hold, as the kernel counts them.
        bytes: Option<u64>,
        /// Share of the time in which it held nothing more to send; of a sender that paces the kernel counts none.
        share: f64,
        /// Whether the program has chosen it: no setting of the kernel changes it.
        chosen: bool,
        /// Data of a connection that was underway, and what its congestion control would have let be, bytes.
        underway: [f64; 2],
    },
    /// A processor: a thread that carries data ran, or waited to run, nearly all the time.
    Processor {
        /// Of which host.
        end: MeasuredHost,
        /// Whether its host sent or received.
        sends: bool,
        /// Share of the time in which the thread ran.
        ran: f64,
        /// Share of the time in which it could have run and had no processor.
        waited: f64,
        /// Share of the time in which the busiest processor handled packets.
        softirq: f64,
    },
    /// A hypervisor gave the processors to others.
    Stolen {
        /// Of which host.
        end: MeasuredHost,
        /// Share of the time of its most stolen processor.
        share: f64,
    },
    /// A socket without room dropped datagrams that had arrived.
    SocketBuffer {
        /// Of which host.
        end: MeasuredHost,
        /// Datagrams.
        dropped: u64,
        /// Datagrams that arrived in all.
        arrived: u64,
        /// Bytes that the socket may hold, as the kernel counts them.
        bytes: Option<u64>,
        /// Whether the program has chosen that.
        chosen: bool,
    },
    /// The line, of which headers take much because its packets are short.
    PacketSize {
        /// The longest IP packet that the path carries, bytes.
        mtu: u32,
        /// What the line carries.
        bits_per_s: f64,
        /// Share of it that headers take.
        headers: f64,
    },
    /// Long packets vanish and nobody says so, short ones pass.
    BlackHole {
        /// The IP packets that the sender takes the path to carry, bytes.
        mtu: Option<u32>,
        /// Bytes that were sent again in vain.
        sent_again: u64,
    },
    /// The server, which lets a session have no more.
    Server {
        /// What it lets it have, payload.
        bits_per_s: f64,
        /// What of that the transfer got.
        reached: f64,
    },
    /// Nothing: all that was offered arrived.
    Offered {
        /// What was offered.
        bits_per_s: f64,
        /// What of it was lost.
        lost: f64,
    },
    /// The search for what the line carries did not come to its end.
    Unfinished,
    /// What was counted proves nothing.
    Unknown {
        /// Whether what arrived was steady; if not, a longer measurement tells more.
        steady: bool,
    },
}
