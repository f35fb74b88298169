//! The quantities that every substrate can measure, so that one reduction serves them all.
//!
//! An application that measures something of its own declares its quantities beside itself.

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

        /// All of them, in the order of this page.
        pub static ALL: &[&$crate::Quantity] = &[$(&$id),+];
    };
}

quantities! {
    // Flows, counted per sampling interval.
    /// Application bytes that the application gave to its transport.
    OFFERED_BYTES = "offered_bytes", "B", Count;
    /// Application bytes handed to the receiving application, in order and once.
    RECEIVED_BYTES = "received_bytes", "B", Count;
    /// IP bytes of packets with user data that reached the receiving host, duplicates included.
    WIRE_BYTES = "wire_bytes", "B", Count;
    /// Packets with user data that reached the receiving host, duplicates included.
    DATA_PACKETS_RECEIVED = "data_packets_received", "packets", Count;
    /// Packets with user data that the sending host sent, first time or again.
    DATA_PACKETS_SENT = "data_packets_sent", "packets", Count;
    /// Packets of any kind sent by both ends.
    PACKETS_SENT = "packets_sent", "packets", Count;
    /// User bytes that the sending host sent again.
    RETRANSMITTED_BYTES = "retransmitted_bytes", "B", Count;
    /// Segments or chunks sent again in fast recovery.
    FAST_RETRANSMISSIONS = "fast_retransmissions", "segments", Count;
    /// Segments or chunks sent again after a time-out.
    TIMEOUT_RETRANSMISSIONS = "timeout_retransmissions", "segments", Count;
    /// Times a retransmission timer ran out, at either end.
    TIMEOUTS = "timeouts", "1", Count;
    /// Probes of a closed window that the sending host sent, those sent again left out.
    WINDOW_PROBES = "window_probes", "1", Count;
    // Flows, moments.
    /// The handshake was done at the opening end.
    ESTABLISHED = "established", "s", Mark;
    /// User data that had not arrived before reached the receiving host: the first of the run, and the first after each pause
    /// of more than one sampling interval. A copy is none.
    DATA_RESUMED = "data_resumed", "s", Mark;
    /// User data that had not arrived before reached the receiving host: the last before each pause of more than one
    /// sampling interval, and the last of the run.
    DATA_PAUSED = "data_paused", "s", Mark;
    /// The connection ended; the value is 0 if everything had arrived, 1 aborted, 2 timed out, 3 refused.
    CLOSED = "closed", "s", Mark;
    // Paths of a flow, moments; the subject is the path.
    /// The sender's retransmission timer ran out on this path; the value is the count in a row.
    PATH_TIMEOUT = "path_timeout", "s", Mark;
    /// The sender gave the path up (inactive) or set it aside (potentially failed).
    PATH_FAILED = "path_failed", "s", Mark;
    /// The sender takes the path for usable again.
    PATH_ACTIVE = "path_active", "s", Mark;
    /// New data goes over this path from now on.
    DATA_PATH = "data_path", "s", Mark;
    // Paths of a flow, traced at each change if a trace is wanted.
    /// Congestion window.
    CWND = "cwnd", "B", Level;
    /// Slow-start threshold, while it is bounded.
    SSTHRESH = "ssthresh", "B", Level;
    /// User bytes outstanding.
    FLIGHT = "flight", "B", Level;
    /// Retransmission timer, back-off included.
    RTO = "rto", "s", Level;
    /// Smoothed round-trip time.
    SRTT = "srtt", "s", Level;
    // Messages and objects, one observation each.
    /// From the moment the application meant to send an object until its last byte was delivered.
    OBJECT_TIME = "object_time", "s", Value;
    /// From the request until the last byte of the response.
    RESPONSE_TIME = "response_time", "s", Value;
    /// From sending a datagram until its delivery.
    ONE_WAY_DELAY = "one_way_delay", "s", Value;
    /// Objects that were sent completely.
    OBJECTS_SENT = "objects_sent", "objects", Count;
    /// Objects that arrived completely.
    OBJECTS_RECEIVED = "objects_received", "objects", Count;
    /// Datagrams sent.
    DATAGRAMS_SENT = "datagrams_sent", "packets", Count;
    /// Datagrams received, each at the moment of its sending, so that sent and received can be compared over any window.
    DATAGRAMS_RECEIVED = "datagrams_received", "packets", Count;
    /// From sending a datagram until its answer came.
    ROUND_TRIP_TIME = "round_trip_time", "s", Value;
    /// Pings that have waited for their answers as long as they do, whether these came or not.
    PINGS = "pings", "packets", Count;
    /// Those of them whose answer came.
    PINGS_ANSWERED = "pings_answered", "packets", Count;
    // Voice and video, at the receiver: one mark of each for every datagram.
    /// A datagram of voice or video arrived; the value is its place among all that were sent, from 0.
    MEDIA_NUMBER = "media_number", "1", Mark;
    /// A datagram of voice or video arrived; the value is its delay in seconds.
    MEDIA_DELAY = "media_delay", "s", Mark;
    // Users of SIP, at their end: each attempt counts at the moment of its end, but for its beginning.
    /// Attempts of users that were begun, each at the moment at which it was to begin.
    SIP_BEGUN = "sip_begun", "1", Count;
    /// Attempts of users that went as they should.
    SIP_SUCCEEDED = "sip_succeeded", "1", Count;
    /// Attempts of users that did not.
    SIP_FAILED = "sip_failed", "1", Count;
    /// Attempts of users that found no server to ask: they neither went as they should nor failed.
    SIP_UNLOCATED = "sip_unlocated", "1", Count;
    /// Registrations that came to an end, renewals among them.
    SIP_REGISTRATIONS = "sip_registrations", "1", Count;
    /// Those of them that succeeded.
    SIP_REGISTERED = "sip_registered", "1", Count;
    /// Those of them that were refused, given up, or left without a connection (RFC 6076 section 4.2).
    SIP_REGISTRATIONS_INEFFECTIVE = "sip_registrations_ineffective", "1", Count;
    /// Calls that came to an end, of those that are to be answered and hung up.
    SIP_CALLS = "sip_calls", "1", Count;
    /// Those of them that were.
    SIP_CALLS_COMPLETED = "sip_calls_completed", "1", Count;
    /// Calls that came to an end, of those that are to be sent elsewhere.
    SIP_REDIRECTS = "sip_redirects", "1", Count;
    /// Those of them that were.
    SIP_REDIRECTED = "sip_redirected", "1", Count;
    /// INVITEs that came to an end, each once however often it was sent or challenged.
    SIP_SESSIONS = "sip_sessions", "1", Count;
    /// Those of them that were answered with 2xx.
    SIP_SESSIONS_ESTABLISHED = "sip_sessions_established", "1", Count;
    /// Those of them that were answered with 3xx.
    SIP_SESSIONS_REDIRECTED = "sip_sessions_redirected", "1", Count;
    /// Those of them that the user refused: 480, 486, 600, 603.
    SIP_SESSIONS_REFUSED = "sip_sessions_refused", "1", Count;
    /// Those of them that a server let go, or nobody answered (RFC 6076 section 4.8).
    SIP_SESSIONS_INEFFECTIVE = "sip_sessions_ineffective", "1", Count;
    /// Those of them that were established, and ended by a BYE that was answered.
    SIP_SESSIONS_COMPLETED = "sip_sessions_completed", "1", Count;
    /// Requests that users sent again because nobody answered in time.
    SIP_REQUESTS_AGAIN = "sip_requests_again", "1", Count;
    /// Provisional responses that came behind those sent after them.
    SIP_REORDERED = "sip_reordered", "1", Count;
    /// REGISTER to its 2xx, challenges included.
    SIP_REGISTRATION_DELAY = "sip_registration_delay", "s", Value;
    /// The same of a registration that is taken back.
    SIP_UNREGISTRATION_DELAY = "sip_unregistration_delay", "s", Value;
    /// INVITE to the first provisional response but 100, of calls that went as they should.
    SIP_CONNECTION_DELAY = "sip_connection_delay", "s", Value;
    /// INVITE to the first provisional response but 100 or, without one, the 2xx, of answered calls.
    SIP_SESSION_REQUEST_DELAY = "sip_session_request_delay", "s", Value;
    /// The same of refused calls, where it may be the refusal.
    SIP_SESSION_REQUEST_FAILED_DELAY = "sip_session_request_failed_delay", "s", Value;
    /// 2xx sent by who is called to its ACK received.
    SIP_ANSWER_SIGNAL_DELAY = "sip_answer_signal_delay", "s", Value;
    /// BYE to its 2xx.
    SIP_DISCONNECT_DELAY = "sip_disconnect_delay", "s", Value;
    /// BYE to the expiry of timer F, where nothing answered it.
    SIP_DISCONNECT_FAILED_DELAY = "sip_disconnect_failed_delay", "s", Value;
    /// BYE to the final response that refused it.
    SIP_DISCONNECT_REFUSED_DELAY = "sip_disconnect_refused_delay", "s", Value;
    /// 2xx of the INVITE to the BYE.
    SIP_SESSION_DURATION = "sip_session_duration", "s", Value;
    /// INVITE to the 3xx.
    SIP_REDIRECT_DELAY = "sip_redirect_delay", "s", Value;
    /// INVITE to the 2xx of its BYE, less what lies between the answer and the BYE.
    SIP_TOTAL_CALL_DELAY = "sip_total_call_delay", "s", Value;
    /// INVITE to its final response, whatever that is.
    SIP_INVITE_DELAY = "sip_invite_delay", "s", Value;
    /// CANCEL to the final response of its INVITE.
    SIP_CANCEL_DELAY = "sip_cancel_delay", "s", Value;
    /// OPTIONS to its 2xx.
    SIP_OPTIONS_DELAY = "sip_options_delay", "s", Value;
    /// MESSAGE to its 2xx.
    SIP_MESSAGE_DELAY = "sip_message_delay", "s", Value;
    /// PRACK to its 2xx.
    SIP_PRACK_DELAY = "sip_prack_delay", "s", Value;
    /// The INVITE that puts a call on hold to its 2xx.
    SIP_REINVITE_DELAY = "sip_reinvite_delay", "s", Value;
    /// SUBSCRIBE to its 2xx.
    SIP_SUBSCRIPTION_DELAY = "sip_subscription_delay", "s", Value;
    /// SUBSCRIBE to the first NOTIFY.
    SIP_NOTIFICATION_DELAY = "sip_notification_delay", "s", Value;
    /// The first request to the first response but 100 of the server that took over.
    SIP_FAIL_OVER_DELAY = "sip_fail_over_delay", "s", Value;
    /// Looking for the server in the DNS, of attempts that did.
    SIP_LOOKUP_DELAY = "sip_lookup_delay", "s", Value;
    /// The server was tested before the first user began; the value is how many test purposes were carried out.
    SIP_CONFORMANCE_RUN = "sip_conformance_run", "1", Mark;
    /// The same; the value is how many of them failed.
    SIP_CONFORMANCE_FAILED = "sip_conformance_failed", "1", Mark;
    /// The first response time that the flow's own scenario measures.
    SIP_RESPONSE_TIME_1 = "sip_response_time_1", "s", Value;
    /// The second.
    SIP_RESPONSE_TIME_2 = "sip_response_time_2", "s", Value;
    /// The third.
    SIP_RESPONSE_TIME_3 = "sip_response_time_3", "s", Value;
    /// From the first step of a call of the flow's own scenario to its last, of calls that succeeded.
    SIP_SCENARIO_TIME = "sip_scenario_time", "s", Value;
    // Links, one direction; of a class of it the same, where what is offered is what comes to its queue, and what is
    // delivered what goes onto the line.
    /// Packets offered to the line.
    LINK_OFFERED = "link_offered", "packets", Count;
    /// Packets that came out of the far end.
    LINK_DELIVERED = "link_delivered", "packets", Count;
    /// IP bytes that came out of the far end.
    LINK_BYTES = "link_bytes", "B", Count;
    /// Packets dropped, for whatever reason.
    LINK_DROPPED = "link_dropped", "packets", Count;
    /// Packets dropped because the queue had no room.
    LINK_DROPPED_QUEUE_FULL = "link_dropped_queue_full", "packets", Count;
    /// Packets that active queue management dropped early.
    LINK_DROPPED_EARLY = "link_dropped_early", "packets", Count;
    /// Packets lost on the line at random.
    LINK_DROPPED_LOSS = "link_dropped_loss", "packets", Count;
    /// Packets lost on the line because the file lists them.
    LINK_DROPPED_LISTED = "link_dropped_listed", "packets", Count;
    /// Packets that the far end's frame check threw away.
    LINK_DROPPED_CORRUPTED = "link_dropped_corrupted", "packets", Count;
    /// Packets dropped because the link was down.
    LINK_DROPPED_LINK_DOWN = "link_dropped_link_down", "packets", Count;
    /// Packets with nowhere to go, or longer than the link carries.
    LINK_DROPPED_UNDELIVERABLE = "link_dropped_undeliverable", "packets", Count;
    /// Packets that the link layer gave up after having sent them as often as it does.
    LINK_DROPPED_RETRY_LIMIT = "link_dropped_retry_limit", "packets", Count;
    /// Packets that a policer found out of profile.
    LINK_DROPPED_POLICED = "link_dropped_policed", "packets", Count;
    /// Packets that left the queue for the line.
    LINK_SERVED = "link_served", "packets", Count;
    /// Time that the packets served had waited, added up.
    LINK_WAITED = "link_waited", "s", Count;
    /// Time during which the line was sending; of WiFi, during which frames of this direction and the answers to them
    /// were on the air.
    LINK_BUSY = "link_busy", "s", Count;
    /// Packets that the link layer sent once more, each time counted.
    LINK_REPEATED = "link_repeated", "packets", Count;
    /// Packets that wait, averaged over time; the one on the line is not among them.
    QUEUE_LENGTH = "queue_length", "packets", Level;
    /// Time one packet waited in the queue before it was sent.
    WAITING_TIME = "waiting_time", "s", Value;
    // Rules of a traffic conditioner.
    /// Packets for which the rule held and whose stream was in profile.
    RULE_GREEN_PACKETS = "rule_green_packets", "packets", Count;
    /// Packets for which the rule held and whose stream was beyond its profile by no more than is put up with.
    RULE_YELLOW_PACKETS = "rule_yellow_packets", "packets", Count;
    /// Packets for which the rule held and whose stream was beyond all that was agreed.
    RULE_RED_PACKETS = "rule_red_packets", "packets", Count;
    /// The IP lengths of the rule's green packets.
    RULE_GREEN_BYTES = "rule_green_bytes", "B", Count;
    /// The IP lengths of the rule's yellow packets.
    RULE_YELLOW_BYTES = "rule_yellow_bytes", "B", Count;
    /// The IP lengths of the rule's red packets.
    RULE_RED_BYTES = "rule_red_bytes", "B", Count;
    // Nodes.
    /// Time that a host spent on packets that it received.
    HOST_BUSY = "host_busy", "s", Count;
    /// Packets that a host had no room for.
    HOST_DROPPED = "host_dropped", "packets", Count;
    /// Packets that a node was to send on and dropped, for their hop limit ran out there.
    HOP_LIMIT_DROPS = "hop_limit_drops", "packets", Count;
    /// Processors that the programs of a node kept busy, on average since the last sample: 1 is all of one.
    PROGRAM_CPU = "program_cpu", "1", Level;
    /// Memory of a node's programs: that of each process alone, and once what they share.
    PROGRAM_MEMORY = "program_memory", "B", Level;
    /// Bytes, with what the kernel keeps beside them, that wait in the UDP sockets of a node's programs.
    PROGRAM_UDP_QUEUE = "program_udp_queue", "B", Level;
    /// Datagrams that reached the UDP sockets of a node's programs, which had no room for them.
    PROGRAM_UDP_DROPS = "program_udp_drops", "packets", Count;
    /// Share of a node's processors that its load had, on average since the last sample.
    HOST_LOAD = "host_load", "1", Level;
    /// Processors that a node's agent and programs kept busy, on average since the last sample: 1 is all of one.
    HOST_CPU = "host_cpu", "1", Level;
    /// Processors that threads of a node's agent and programs waited for, on average since the last sample.
    HOST_CPU_WAIT = "host_cpu_wait", "1", Level;
    /// Time for which all that runs on a node was kept from its processors because it had had its quota.
    HOST_THROTTLED = "host_throttled", "s", Count;
    /// Memory that all that runs on a node has of what it may have.
    HOST_MEMORY = "host_memory", "B", Level;
    /// By how much a counter of a node's programs grew.
    COUNTER_GROWTH = "counter_growth", "1", Count;
    // The run as a whole: what the tester itself did.
    /// Time a real-time driver was late, at most, since the last sample.
    LATENESS = "lateness", "s", Value;
    /// Time by which one frame left the router of a real-time substrate after its link had delivered it.
    FORWARDING_LATENESS = "forwarding_lateness", "s", Value;
}

/// What counts the packets that a link dropped for this reason.
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

/// What counts the packets that a rule's meter found to be of this colour.
pub const fn rule_packets(colour: Colour) -> &'static Quantity {
    match colour {
        Colour::Green => &RULE_GREEN_PACKETS,
        Colour::Yellow => &RULE_YELLOW_PACKETS,
        Colour::Red => &RULE_RED_PACKETS,
    }
}

/// What counts their bytes.
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
