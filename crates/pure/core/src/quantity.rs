//! The quantities that substrates report. All substrates share them, so that one reduction serves every substrate.
//!
//! An application with quantities of its own declares them in its own file.

use crate::sample::Quantity;
use crate::{Colour, DropReason};

/// Declares quantities, each a `static` with its name, unit, kind and doc, and `ALL` of them.
#[macro_export]
macro_rules! quantities {
    ($($(#[doc = $doc:literal])+ $id:ident = $name:literal, $unit:literal, $kind:ident;)+) => {
        $(
            $(#[doc = $doc])+
            pub static $id: $crate::Quantity =
                $crate::Quantity { name: $name, unit: $unit, kind: $crate::QuantityKind::$kind, doc: concat!($($doc),+) };
        )+

        /// All quantities, in the order of their declarations.
        pub static ALL: &[&$crate::Quantity] = &[$(&$id),+];
    };
}

quantities! {
    // Flows, counted per sampling interval.
    /// Application bytes that the application handed to its transport.
    OFFERED_BYTES = "offered_bytes", "B", Count;
    /// Application bytes delivered to the receiving application, in order and once.
    RECEIVED_BYTES = "received_bytes", "B", Count;
    /// IP bytes of packets with user data that reached the receiving host, duplicates included.
    WIRE_BYTES = "wire_bytes", "B", Count;
    /// Packets with user data that reached the receiving host, duplicates included.
    DATA_PACKETS_RECEIVED = "data_packets_received", "packets", Count;
    /// Packets with user data that the sending host sent, retransmissions included.
    DATA_PACKETS_SENT = "data_packets_sent", "packets", Count;
    /// Packets of any kind sent by both ends.
    PACKETS_SENT = "packets_sent", "packets", Count;
    /// User bytes that the sending host retransmitted.
    RETRANSMITTED_BYTES = "retransmitted_bytes", "B", Count;
    /// Segments or chunks retransmitted in fast recovery.
    FAST_RETRANSMISSIONS = "fast_retransmissions", "segments", Count;
    /// Segments or chunks retransmitted after a time-out.
    TIMEOUT_RETRANSMISSIONS = "timeout_retransmissions", "segments", Count;
    /// Expiries of retransmission timers, at both ends.
    TIMEOUTS = "timeouts", "1", Count;
    /// Probes of a closed window that the sending host sent, without retransmissions.
    WINDOW_PROBES = "window_probes", "1", Count;
    // Flows: events.
    /// The opening end completed the handshake.
    ESTABLISHED = "established", "s", Mark;
    /// New user data reached the receiving host: the first of the run, and the first after each pause of more than one
    /// sampling interval. Duplicates do not count.
    DATA_RESUMED = "data_resumed", "s", Mark;
    /// New user data reached the receiving host: the last before each pause of more than one sampling interval, and the
    /// last of the run.
    DATA_PAUSED = "data_paused", "s", Mark;
    /// The connection ended; the value is 0 if all data had arrived, 1 aborted, 2 timed out, 3 refused.
    CLOSED = "closed", "s", Mark;
    // Paths of a flow: events; the subject is the path.
    /// The sender's retransmission timer expired on this path; the value is the number of consecutive expiries.
    PATH_TIMEOUT = "path_timeout", "s", Mark;
    /// The sender marked the path inactive or potentially failed.
    PATH_FAILED = "path_failed", "s", Mark;
    /// The sender marked the path active again.
    PATH_ACTIVE = "path_active", "s", Mark;
    /// The sender sends new data over this path from this time.
    DATA_PATH = "data_path", "s", Mark;
    // Paths of a flow: traced at each change if the sink wants a trace.
    /// Congestion window.
    CWND = "cwnd", "B", Gauge;
    /// Slow-start threshold, while it is finite.
    SSTHRESH = "ssthresh", "B", Gauge;
    /// User bytes outstanding.
    FLIGHT = "flight", "B", Gauge;
    /// Retransmission timer, back-off included.
    RTO = "rto", "s", Gauge;
    /// Smoothed round-trip time.
    SRTT = "srtt", "s", Gauge;
    // Messages and objects, one observation each.
    /// From the scheduled sending time of an object to the delivery of its last byte.
    OBJECT_TIME = "object_time", "s", Value;
    /// From the request to the last byte of the response.
    RESPONSE_TIME = "response_time", "s", Value;
    /// From the sending of a datagram to its delivery.
    ONE_WAY_DELAY = "one_way_delay", "s", Value;
    /// Objects sent completely.
    OBJECTS_SENT = "objects_sent", "objects", Count;
    /// Objects received completely.
    OBJECTS_RECEIVED = "objects_received", "objects", Count;
    /// Datagrams sent.
    DATAGRAMS_SENT = "datagrams_sent", "packets", Count;
    /// Datagrams received, each counted at its sending time, so that sent and received agree over any window.
    DATAGRAMS_RECEIVED = "datagrams_received", "packets", Count;
    /// From the sending of a datagram to the receipt of its answer.
    ROUND_TRIP_TIME = "round_trip_time", "s", Value;
    /// Pings whose answer time has expired, answered or not.
    PINGS = "pings", "packets", Count;
    /// Pings that were answered in time.
    PINGS_ANSWERED = "pings_answered", "packets", Count;
    // Voice and video, at the receiver: one mark of each kind per datagram.
    /// A datagram of voice or video arrived; the value is its number in the order of sending, from 0.
    MEDIA_NUMBER = "media_number", "1", Mark;
    /// A datagram of voice or video arrived; the value is its delay in seconds.
    MEDIA_DELAY = "media_delay", "s", Mark;
    // One direction of a link, or one class of a direction. For a class, `offered` counts packets that arrive at its
    // queue, and `delivered` counts packets that the line starts to send.
    /// Packets offered to the line.
    LINK_OFFERED = "link_offered", "packets", Count;
    /// Packets that left the far end.
    LINK_DELIVERED = "link_delivered", "packets", Count;
    /// IP bytes that left the far end.
    LINK_BYTES = "link_bytes", "B", Count;
    /// Packets dropped, for any reason.
    LINK_DROPPED = "link_dropped", "packets", Count;
    /// Packets dropped because the queue had no room.
    LINK_DROPPED_QUEUE_FULL = "link_dropped_queue_full", "packets", Count;
    /// Packets dropped early by active queue management.
    LINK_DROPPED_EARLY = "link_dropped_early", "packets", Count;
    /// Packets lost on the line at random.
    LINK_DROPPED_LOSS = "link_dropped_loss", "packets", Count;
    /// Packets lost on the line because the file lists them.
    LINK_DROPPED_LISTED = "link_dropped_listed", "packets", Count;
    /// Packets dropped by the far end's frame check.
    LINK_DROPPED_CORRUPTED = "link_dropped_corrupted", "packets", Count;
    /// Packets dropped because the link was down.
    LINK_DROPPED_LINK_DOWN = "link_dropped_link_down", "packets", Count;
    /// Packets without a route, or longer than the link's MTU.
    LINK_DROPPED_UNDELIVERABLE = "link_dropped_undeliverable", "packets", Count;
    /// Packets dropped by the link layer at its limit of transmissions.
    LINK_DROPPED_RETRY_LIMIT = "link_dropped_retry_limit", "packets", Count;
    /// Packets dropped by a policer because they were out of profile.
    LINK_DROPPED_POLICED = "link_dropped_policed", "packets", Count;
    /// Packets that left the queue for the line.
    LINK_SERVED = "link_served", "packets", Count;
    /// Sum of the queueing times of the served packets.
    LINK_WAITED = "link_waited", "s", Count;
    /// Time during which the line was sending; on WiFi, air time of the frames of this direction and of the answers to
    /// them.
    LINK_BUSY = "link_busy", "s", Count;
    /// Retransmissions of packets by the link layer.
    LINK_REPEATED = "link_repeated", "packets", Count;
    /// Queued packets, averaged over time, without the packet on the line.
    QUEUE_LENGTH = "queue_length", "packets", Gauge;
    /// Time of one packet in the queue.
    WAITING_TIME = "waiting_time", "s", Value;
    // Rules of a traffic conditioner.
    /// Packets that matched the rule and whose stream was in profile.
    RULE_GREEN_PACKETS = "rule_green_packets", "packets", Count;
    /// Packets that matched the rule and whose stream was above its committed rate, within the tolerated excess.
    RULE_YELLOW_PACKETS = "rule_yellow_packets", "packets", Count;
    /// Packets that matched the rule and whose stream was out of profile.
    RULE_RED_PACKETS = "rule_red_packets", "packets", Count;
    /// IP bytes of the rule's green packets.
    RULE_GREEN_BYTES = "rule_green_bytes", "B", Count;
    /// IP bytes of the rule's yellow packets.
    RULE_YELLOW_BYTES = "rule_yellow_bytes", "B", Count;
    /// IP bytes of the rule's red packets.
    RULE_RED_BYTES = "rule_red_bytes", "B", Count;
    // Nodes.
    /// Processing time of received packets in a host.
    HOST_BUSY = "host_busy", "s", Count;
    /// Packets that a host dropped because its queue was full.
    HOST_DROPPED = "host_dropped", "packets", Count;
    /// Packets that a node did not forward because their hop limit expired.
    HOP_LIMIT_DROPS = "hop_limit_drops", "packets", Count;
    /// Processors kept busy by the programs of a node, averaged since the last sample; 1 is one whole processor.
    PROGRAM_CPU = "program_cpu", "1", Gauge;
    /// Memory of a node's programs: the private memory of each process, and shared memory once.
    PROGRAM_MEMORY = "program_memory", "B", Gauge;
    /// Bytes queued in the UDP sockets of a node's programs, with the kernel's overhead.
    PROGRAM_UDP_QUEUE = "program_udp_queue", "B", Gauge;
    /// Datagrams dropped because the UDP sockets of a node's programs were full.
    PROGRAM_UDP_DROPS = "program_udp_drops", "packets", Count;
    /// Share of a node's processors that its load used, averaged since the last sample.
    HOST_LOAD = "host_load", "1", Gauge;
    /// Processors kept busy by a node's agent and programs, averaged since the last sample; 1 is one whole processor.
    HOST_CPU = "host_cpu", "1", Gauge;
    /// Processors that threads of a node's agent and programs waited for, averaged since the last sample.
    HOST_CPU_WAIT = "host_cpu_wait", "1", Gauge;
    /// Time during which a node's processes were throttled because their processor quota was used up.
    HOST_THROTTLED = "host_throttled", "s", Count;
    /// Memory of a node's processes that counts against the node's limit.
    HOST_MEMORY = "host_memory", "B", Gauge;
    /// Increase of a counter of a node's programs.
    COUNTER_GROWTH = "counter_growth", "1", Count;
    // The run as a whole: the tester itself.
    /// Greatest lateness of a real-time driver since the last sample.
    LATENESS = "lateness", "s", Value;
    /// Time from the delivery of a frame by its link to its departure from the router of a real-time substrate.
    FORWARDING_LATENESS = "forwarding_lateness", "s", Value;
}

/// The quantity that counts packets dropped for this reason.
pub const fn link_dropped(why: DropReason) -> &'static Quantity {
    match why {
        DropReason::QueueFull => &LINK_DROPPED_QUEUE_FULL,
        DropReason::Early => &LINK_DROPPED_EARLY,
        DropReason::Loss => &LINK_DROPPED_LOSS,
        DropReason::Listed => &LINK_DROPPED_LISTED,
        DropReason::Corrupted => &LINK_DROPPED_CORRUPTED,
        DropReason::LinkDown => &LINK_DROPPED_LINK_DOWN,
        DropReason::Undeliverable => &LINK_DROPPED_UNDELIVERABLE,
        DropReason::RetryLimit => &LINK_DROPPED_RETRY_LIMIT,
        DropReason::Policed => &LINK_DROPPED_POLICED,
    }
}

/// The quantity that counts a rule's packets of this colour.
pub const fn rule_packets(colour: Colour) -> &'static Quantity {
    match colour {
        Colour::Green => &RULE_GREEN_PACKETS,
        Colour::Yellow => &RULE_YELLOW_PACKETS,
        Colour::Red => &RULE_RED_PACKETS,
    }
}

/// The quantity that counts a rule's bytes of this colour.
pub const fn rule_bytes(colour: Colour) -> &'static Quantity {
    match colour {
        Colour::Green => &RULE_GREEN_BYTES,
        Colour::Yellow => &RULE_YELLOW_BYTES,
        Colour::Red => &RULE_RED_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_for_a_drop_is_in_the_name_of_what_counts_it() {
        for why in DropReason::ALL {
            assert_eq!(link_dropped(why).name, format!("link_dropped_{}", why.name().replace('-', "_")));
        }
    }

    #[test]
    fn the_colour_is_in_the_name_of_what_counts_it() {
        for colour in Colour::ALL {
            assert_eq!(rule_packets(colour).name, format!("rule_{}_packets", colour.name()));
            assert_eq!(rule_bytes(colour).name, format!("rule_{}_bytes", colour.name()));
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|q| q.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
