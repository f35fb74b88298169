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
    // SIP users, measured at the user agent. An attempt counts when it ends, except for SIP_BEGUN.
    /// Attempts of users that were started, each counted at its scheduled start.
    SIP_BEGUN = "sip_begun", "1", Count;
    /// Attempts of users that succeeded.
    SIP_SUCCEEDED = "sip_succeeded", "1", Count;
    /// Attempts of users that failed.
    SIP_FAILED = "sip_failed", "1", Count;
    /// Attempts of users that found no server; they count neither as succeeded nor as failed.
    SIP_UNLOCATED = "sip_unlocated", "1", Count;
    /// Registrations that ended, renewals included.
    SIP_REGISTRATIONS = "sip_registrations", "1", Count;
    /// Registrations that succeeded.
    SIP_REGISTERED = "sip_registered", "1", Count;
    /// Registrations that were refused, timed out, or lost their connection (RFC 6076 section 4.2).
    SIP_REGISTRATIONS_INEFFECTIVE = "sip_registrations_ineffective", "1", Count;
    /// Ended calls with a scenario that answers and hangs up.
    SIP_CALLS = "sip_calls", "1", Count;
    /// Calls of these scenarios that were answered and hung up.
    SIP_CALLS_COMPLETED = "sip_calls_completed", "1", Count;
    /// Ended calls with a scenario that redirects.
    SIP_REDIRECTS = "sip_redirects", "1", Count;
    /// Calls of these scenarios that were redirected.
    SIP_REDIRECTED = "sip_redirected", "1", Count;
    /// INVITEs that ended. Retransmissions and challenges of an INVITE do not count again.
    SIP_SESSIONS = "sip_sessions", "1", Count;
    /// INVITEs that were answered with 2xx.
    SIP_SESSIONS_ESTABLISHED = "sip_sessions_established", "1", Count;
    /// INVITEs that were answered with 3xx.
    SIP_SESSIONS_REDIRECTED = "sip_sessions_redirected", "1", Count;
    /// INVITEs that the callee refused: 480, 486, 600, 603.
    SIP_SESSIONS_REFUSED = "sip_sessions_refused", "1", Count;
    /// INVITEs that a server failed or that timed out (RFC 6076 section 4.8).
    SIP_SESSIONS_INEFFECTIVE = "sip_sessions_ineffective", "1", Count;
    /// INVITEs whose session was established and ended by an answered BYE.
    SIP_SESSIONS_COMPLETED = "sip_sessions_completed", "1", Count;
    /// Requests that users retransmitted because no response arrived in time.
    SIP_REQUESTS_AGAIN = "sip_requests_again", "1", Count;
    /// Provisional responses that arrived after later ones.
    SIP_REORDERED = "sip_reordered", "1", Count;
    /// From REGISTER to its 2xx, challenges included.
    SIP_REGISTRATION_DELAY = "sip_registration_delay", "s", Value;
    /// From the REGISTER that removes a registration to its 2xx, challenges included.
    SIP_UNREGISTRATION_DELAY = "sip_unregistration_delay", "s", Value;
    /// From INVITE to the first provisional response except 100, of calls that succeeded.
    SIP_CONNECTION_DELAY = "sip_connection_delay", "s", Value;
    /// From INVITE to the first provisional response except 100, or else to the 2xx, of answered calls.
    SIP_SESSION_REQUEST_DELAY = "sip_session_request_delay", "s", Value;
    /// From INVITE to the first provisional response except 100, or else to the refusal, of refused calls.
    SIP_SESSION_REQUEST_FAILED_DELAY = "sip_session_request_failed_delay", "s", Value;
    /// From the callee's 2xx to the receipt of its ACK.
    SIP_ANSWER_SIGNAL_DELAY = "sip_answer_signal_delay", "s", Value;
    /// From BYE to its 2xx.
    SIP_DISCONNECT_DELAY = "sip_disconnect_delay", "s", Value;
    /// From BYE to the expiry of timer F, if no response arrived.
    SIP_DISCONNECT_FAILED_DELAY = "sip_disconnect_failed_delay", "s", Value;
    /// From BYE to the final response that refused it.
    SIP_DISCONNECT_REFUSED_DELAY = "sip_disconnect_refused_delay", "s", Value;
    /// From the 2xx of the INVITE to the BYE.
    SIP_SESSION_DURATION = "sip_session_duration", "s", Value;
    /// From INVITE to its 3xx.
    SIP_REDIRECT_DELAY = "sip_redirect_delay", "s", Value;
    /// From INVITE to the 2xx of the BYE, minus the time from the answer to the BYE.
    SIP_TOTAL_CALL_DELAY = "sip_total_call_delay", "s", Value;
    /// From INVITE to its final response of any class.
    SIP_INVITE_DELAY = "sip_invite_delay", "s", Value;
    /// From CANCEL to the final response of its INVITE.
    SIP_CANCEL_DELAY = "sip_cancel_delay", "s", Value;
    /// From OPTIONS to its 2xx.
    SIP_OPTIONS_DELAY = "sip_options_delay", "s", Value;
    /// From MESSAGE to its 2xx.
    SIP_MESSAGE_DELAY = "sip_message_delay", "s", Value;
    /// From PRACK to its 2xx.
    SIP_PRACK_DELAY = "sip_prack_delay", "s", Value;
    /// From the INVITE that puts a call on hold to its 2xx.
    SIP_REINVITE_DELAY = "sip_reinvite_delay", "s", Value;
    /// From SUBSCRIBE to its 2xx.
    SIP_SUBSCRIPTION_DELAY = "sip_subscription_delay", "s", Value;
    /// From SUBSCRIBE to the first NOTIFY.
    SIP_NOTIFICATION_DELAY = "sip_notification_delay", "s", Value;
    /// From the first request to the first response, except 100, of the server that took over.
    SIP_FAIL_OVER_DELAY = "sip_fail_over_delay", "s", Value;
    /// Duration of the DNS lookup of the server, for attempts with a lookup.
    SIP_LOOKUP_DELAY = "sip_lookup_delay", "s", Value;
    /// The server was tested before the first user started; the value is the number of executed test purposes.
    SIP_CONFORMANCE_RUN = "sip_conformance_run", "1", Mark;
    /// The server was tested before the first user started; the value is the number of failed test purposes.
    SIP_CONFORMANCE_FAILED = "sip_conformance_failed", "1", Mark;
    /// The first response time that the flow's own scenario measures.
    SIP_RESPONSE_TIME_1 = "sip_response_time_1", "s", Value;
    /// The second response time that the flow's own scenario measures.
    SIP_RESPONSE_TIME_2 = "sip_response_time_2", "s", Value;
    /// The third response time that the flow's own scenario measures.
    SIP_RESPONSE_TIME_3 = "sip_response_time_3", "s", Value;
    /// From the first to the last step of a call of the flow's own scenario, of calls that succeeded.
    SIP_SCENARIO_TIME = "sip_scenario_time", "s", Value;
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
