//! The possible limits of a transfer.

use schemars::JsonSchema;
use serde::Serialize;

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeasuredHost {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// The limit of a measurement, with its proof. Rates are bits per second of IP packets, shares are 0 to 1.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LimitingFactor {
    /// The slowest link of the path.
    Line {
        /// Its capacity.
        bits_per_s: f64,
        /// The rate of the transfer.
        reached: f64,
        /// Queueing delay, s.
        queue_s: f64,
    },
    /// The other direction: acknowledgements are delayed or lost on the way back (RFC 3449 section 2).
    WayBack {
        /// The rate of the transfer.
        reached: f64,
        /// Queueing delay of the other direction, s.
        queue_s: f64,
    },
    /// The Wi-Fi of one of the hosts.
    Wifi {
        /// The host.
        end: MeasuredHost,
        /// Its capacity.
        bits_per_s: f64,
        /// Bit rate of its frames.
        radio_bits_per_s: Option<f64>,
        /// Signal strength of the peer station, dBm.
        signal_dbm: Option<i8>,
        /// Share of the frames that were retransmitted.
        sent_again: f64,
        /// Share of the frames that were given up.
        failed: f64,
    },
    /// A policer: it drops packets above a rate and has no queue.
    Policer {
        /// Rate of the policer.
        bits_per_s: f64,
        /// The rate of the transfer.
        reached: f64,
        /// Share of packets lost above that rate.
        lost: f64,
    },
    /// Packet loss on the path, without a queue.
    Loss {
        /// Share of packets lost.
        share: f64,
        /// The rate of the transfer.
        reached: f64,
        /// Whether a search found the loss below the capacity, too. If not, a policer may cause the loss.
        beneath: bool,
        /// Whether there was a search. A search that the hosts limited, or that did not finish, does not decide `beneath`.
        searched: bool,
        /// Whether connections carried the transfer: their congestion control takes the loss for congestion.
        adapts: bool,
        /// Whether the delay is known to be no longer than on the idle path.
        unqueued: bool,
    },
    /// The receive window.
    Window {
        /// The receiving host.
        end: MeasuredHost,
        /// Mean window, bytes.
        bytes: f64,
        /// Round-trip time, s.
        round_trip_s: f64,
        /// Share of the time in which the window limited the sender.
        share: f64,
        /// Number of connections; each has a window of its own.
        connections: u16,
        /// Whether the window was set by an option or is netrig's own (SCTP), instead of the kernel's choice.
        told: bool,
        /// Whether an option set the receive buffer of which the window is a part.
        chosen: bool,
        /// The window needed for twice the rate, bytes.
        needed: f64,
    },
    /// The buffer of the sending socket.
    SendBuffer {
        /// The sending host.
        end: MeasuredHost,
        /// Size of the buffer as the kernel counts it, bytes.
        bytes: Option<u64>,
        /// Share of the time in which the buffer limited the sender. Zero for a paced sender, for which the kernel counts none.
        share: f64,
        /// Whether an option set the size, so that no kernel setting changes it.
        chosen: bool,
        /// Data in flight per connection, and its congestion window, bytes.
        underway: [f64; 2],
    },
    /// A processor: a thread that carries data ran, or waited for a processor, nearly all the time.
    Processor {
        /// The host.
        end: MeasuredHost,
        /// Whether the host sent. Otherwise it received.
        sends: bool,
        /// Share of the time in which the thread ran.
        ran: f64,
        /// Share of the time in which the thread waited for a processor.
        waited: f64,
        /// Share of the time in which the busiest processor handled packets (softirq).
        softirq: f64,
    },
    /// A hypervisor gave the processors to other guests.
    Stolen {
        /// The host.
        end: MeasuredHost,
        /// Largest share of stolen time of a processor.
        share: f64,
    },
    /// A full receive buffer dropped datagrams.
    SocketBuffer {
        /// The host.
        end: MeasuredHost,
        /// Datagrams dropped.
        dropped: u64,
        /// Datagrams received.
        arrived: u64,
        /// Bytes that the socket may hold, as the kernel counts them.
        bytes: Option<u64>,
        /// Whether an option set the size.
        chosen: bool,
    },
    /// The line, with a high share of headers because packets are short.
    PacketSize {
        /// The path MTU, bytes.
        mtu: u32,
        /// Capacity of the line.
        bits_per_s: f64,
        /// Share of headers.
        headers: f64,
    },
    /// A path MTU black hole: long packets are dropped without an ICMP message, short ones pass.
    BlackHole {
        /// The path MTU that the sender assumes, bytes.
        mtu: Option<u32>,
        /// Bytes retransmitted without success.
        sent_again: u64,
    },
    /// The rate limit of the server.
    Server {
        /// The rate limit of a session, payload bits per second.
        bits_per_s: f64,
        /// The rate of the transfer.
        reached: f64,
    },
    /// No limit: all offered data arrived.
    Offered {
        /// The offered rate.
        bits_per_s: f64,
        /// Share of packets lost.
        lost: f64,
    },
    /// The capacity search did not finish.
    Unfinished,
    /// The counts prove no limit.
    Unknown {
        /// Whether the received rate was steady. If not, a longer measurement helps.
        steady: bool,
    },
}
