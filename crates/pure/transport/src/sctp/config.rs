//! The constants of an SCTP endpoint.

mod behaviour;

use netrig_core::{Duration, Size};

pub use self::behaviour::{
    ChunkCharge, Counted, CwndUnit, Encapsulation, HeartbeatLoss, IdleCwnd, InitialCwnd, InitialCwndRule,
    InitialSsthresh, InitialSsthreshRule, LocalDrop, RetransmitTo, Scheduler,
};
use super::wire::Checksum;
use crate::TimerWheel;
use crate::profile::constants;

const MS: fn(u64) -> Duration = Duration::from_millis;
const S: fn(u64) -> Duration = Duration::from_secs;
const B: fn(u64) -> Size = Size::from_bytes;

constants! {
    /// All constants of an SCTP endpoint. Where ns-2 2.29 and 2.35 differ, those of 2.29 are used, because SCTP of 2.35
    /// stalls once its application has been idle.
    pub struct Config, Settings {
        /// Retransmission time-out before the first measurement.
        rto_initial: Duration {
            rfc: S(1), "RFC 9260 section 16, RTO.Initial";
            linux: S(3), "net.sctp.rto_initial";
            ns2: S(3), "tcl/lib/ns-default.tcl, initialRto_";
        }
        /// Smallest retransmission time-out; never below 1 ms.
        rto_min: Duration {
            rfc: S(1), "RFC 9260 section 16, RTO.Min";
            linux: S(1), "net.sctp.rto_min";
            ns2: S(1), "tcl/lib/ns-default.tcl, minRto_";
        }
        /// Largest retransmission time-out, back-off included.
        rto_max: Duration {
            rfc: S(60), "RFC 9260 section 16, RTO.Max";
            linux: S(60), "net.sctp.rto_max";
            ns2: S(60), "tcl/lib/ns-default.tcl, maxRto_";
        }
        /// Smallest variance term of the retransmission time-out (clock granularity G).
        rto_granularity: Duration {
            rfc: MS(1), "RFC 9260 section 6.3.1 rule G1: any value is allowed";
            linux: MS(4), "one jiffy at HZ = 250 (sctp_transport_update_rto, net/sctp/transport.c)";
            ns2: Duration::ZERO, "sctp/sctp.cc, RttUpdate: no granularity";
        }
        /// Whether a chunk measures the round-trip time even if a chunk with a lower TSN was retransmitted meanwhile.
        measures_past_retransmissions: bool {
            rfc: false, "RFC 9260 section 6.3.1 rule C5";
            linux: true, "net/sctp/outqueue.c, sctp_check_transmitted: unless the chunk itself was retransmitted";
            ns2: true, "sctp/sctp.cc, ProcessSackChunk: unless the chunk itself was retransmitted";
        }
        /// Granularity of timers.
        timer_wheel: TimerWheel {
            rfc: TimerWheel::Exact, "RFC 9260 section 6.3 has no granularity";
            linux: TimerWheel::Linux250, "kernel/time/timer.c, HZ = 250";
            ns2: TimerWheel::Exact, "common/scheduler.cc: timers are exact";
        }
        /// Consecutive time-outs that a path may have; one more makes it inactive.
        path_max_retrans: u32 {
            rfc: 5, "RFC 9260 section 16, Path.Max.Retrans";
            linux: 5, "net.sctp.path_max_retrans";
            ns2: 5, "tcl/lib/ns-default.tcl, pathMaxRetrans_";
        }
        /// Consecutive time-outs that an association may have over all paths; one more ends it.
        association_max_retrans: u32 {
            rfc: 10, "RFC 9260 section 16, Association.Max.Retrans";
            linux: 10, "net.sctp.association_max_retrans";
            ns2: 10, "tcl/lib/ns-default.tcl, associationMaxRetrans_";
        }
        /// Whether unanswered heartbeats count for the association even if another path carries the data.
        association_counts_spare_paths: bool {
            rfc: false, "RFC 9260 section 8.1";
            linux: true, "net/sctp/sm_sideeffect.c, sctp_do_8_2_transport_strike";
            ns2: true, "sctp/sctp.cc, Timeout: iAssocErrorCount";
        }
        /// Retransmissions of INIT and COOKIE ECHO before the peer counts as unreachable.
        init_max_retrans: u32 {
            rfc: 8, "RFC 9260 section 16, Max.Init.Retransmits";
            linux: 8, "net.sctp.max_init_retransmits";
            ns2: 8, "sctp/sctp.h, MAX_INIT_RETRANS";
        }
        /// Whether idle paths are probed.
        heartbeats: bool {
            rfc: true, "RFC 9260 section 8.3";
            linux: true, "net/sctp/associola.c, SPP_HB_ENABLE by default";
            ns2: true, "tcl/lib/ns-default.tcl, heartbeatInterval_ is not zero";
        }
        /// Time between heartbeats of an idle path, plus one RTO with a jitter of ± 50 %.
        heartbeat_interval: Duration {
            rfc: S(30), "RFC 9260 section 16, HB.interval";
            linux: S(30), "net.sctp.hb_interval";
            ns2: S(30), "tcl/lib/ns-default.tcl, heartbeatInterval_";
        }
        /// When an unanswered heartbeat counts as an error.
        heartbeat_loss: HeartbeatLoss {
            rfc: HeartbeatLoss::AfterRto, "RFC 9260 section 8.2";
            linux: HeartbeatLoss::AtNext, "net/sctp/sm_statefuns.c, sctp_sf_sendbeat_8_3";
            ns2: HeartbeatLoss::AtNext, "sctp/sctp.cc, HeartbeatGenTimerExpiration";
        }
        /// Whether a potentially failed path is probed by heartbeats even while data is outstanding on it. Then
        /// unanswered heartbeats and time-outs of data both count as errors, and an answer ends the back-off.
        heartbeats_beside_data: bool {
            rfc: false, "RFC 9260 section 8.3: only an idle address is probed";
            linux: true, "net/sctp/sm_sideeffect.c, sctp_do_8_2_transport_strike";
            ns2: false, "unused: no potentially failed state";
        }
        /// Whether a path that the handshake did not use must answer a heartbeat before it carries data.
        path_verification: bool {
            rfc: true, "RFC 9260 section 5.4";
            linux: true, "net/sctp/associola.c, sctp_assoc_add_peer: SCTP_UNCONFIRMED";
            ns2: false, "sctp/sctp.cc: all destinations are active from the start";
        }
        /// Whether a path that times out is avoided before it becomes inactive (RFC 7829).
        potentially_failed: bool {
            rfc: true, "RFC 7829 section 3";
            linux: true, "net.sctp.pf_enable";
            ns2: false, "sctp/sctp.cc knows no such state";
        }
        /// Consecutive time-outs that an active path may have; one more makes it potentially failed.
        pf_threshold: u32 {
            rfc: 0, "RFC 7829 section 3.2, PotentiallyFailed.Max.Retrans: recommended 0";
            linux: 0, "net.sctp.pf_retrans";
            ns2: 0, "unused";
        }
        /// Whether a primary path that fails for long loses its role permanently (RFC 7829 section 5).
        primary_switchover: bool {
            rfc: false, "RFC 7829 section 5: optional";
            linux: false, "net.sctp.ps_retrans is 65535 by default";
            ns2: true, "tcl/lib/ns-default.tcl, changePrimaryThresh_ -1, compared as errors > -1";
        }
        /// Consecutive time-outs that the primary path may have; one more makes it lose its role.
        primary_switchover_threshold: u32 {
            rfc: 5, "RFC 7829 section 5, Primary.Switchover.Max.Retrans: here Path.Max.Retrans";
            linux: 65_535, "net.sctp.ps_retrans";
            ns2: 0, "tcl/lib/ns-default.tcl, changePrimaryThresh_ -1: at every time-out";
        }
        /// Whether new data returns to the primary path once that path works again.
        return_to_primary: bool {
            rfc: true, "RFC 9260 section 6.4: by default data goes to the primary path";
            linux: true, "net/sctp/associola.c, sctp_select_active_and_retran_path";
            ns2: true, "sctp/sctp.cc: to the primary, but see primary_switchover";
        }
        /// Path of retransmissions.
        retransmit_to: RetransmitTo {
            rfc: RetransmitTo::TimeoutsToAlternate, "RFC 9260 section 6.4";
            linux: RetransmitTo::TimeoutsToAlternate, "net/sctp/outqueue.c, sctp_retransmit";
            ns2: RetransmitTo::AlternatePath, "tcl/lib/ns-default.tcl, rtxToAlt_ 1";
        }
        /// Handling of packets while this host's interface is down.
        local_drop: LocalDrop {
            rfc: LocalDrop::BackOff, "RFC 9260 section 8.2 knows time-outs only";
            linux: LocalDrop::BackOff, "net/sctp/output.c, sctp_packet_transmit: a packet without route is dropped, T3-rtx continues";
            ns2: LocalDrop::BackOff, "link/dynalink.cc: drops silently";
        }
        /// Time between two retries on a path whose interface is down, if `local_drop` is `probe`.
        local_probe_interval: Duration {
            rfc: MS(500), "as Linux's TCP: include/net/tcp.h, TCP_RESOURCE_PROBE_INTERVAL";
            linux: MS(500), "include/net/tcp.h, TCP_RESOURCE_PROBE_INTERVAL";
            ns2: MS(500), "unused";
        }
        /// Largest IP packet, bytes.
        mtu: Size {
            rfc: B(1500), "Ethernet (RFC 894); RFC 9260 section 7.3 leaves it to path MTU discovery";
            linux: B(1500), "Ethernet (RFC 894)";
            ns2: B(1500), "tcl/lib/ns-default.tcl, mtu_";
        }
        /// Encapsulation of packets.
        encapsulation: Encapsulation {
            rfc: Encapsulation::Ip, "RFC 9260 section 3; RFC 6951 is for networks that block SCTP over IP";
            linux: Encapsulation::Ip, "net.sctp.udp_port is 0";
            ns2: Encapsulation::Ip, "unused";
        }
        /// Most user bytes in one DATA chunk (SCTP_MAXSEG), in addition to the limit of the MTU.
        max_chunk: Size {
            rfc: B(65_519), "RFC 9260 section 3.3.1: the limit of the 16-bit length";
            linux: B(65_519), "net/sctp/socket.c, SCTP_MAXSEG 0: the MTU decides";
            ns2: B(1452), "tcl/lib/ns-default.tcl, dataChunkSize_ 1468 with its header of 16";
        }
        /// Size of the messages that data is cut into; 0 B for one message per send call of the user.
        message_size: Size {
            rfc: B(0), "RFC 9260 section 6.9: messages are the user's";
            linux: B(0), "net/sctp/socket.c, sctp_sendmsg: a message per call";
            ns2: B(1452), "sctp/sctp.cc, GenChunk: every chunk is a message of its own";
        }
        /// Whether bulk data of several send calls is one stream of bytes, cut without regard to the calls.
        join_sends: bool {
            rfc: false, "RFC 9260 section 6.9: messages are the user's";
            linux: false, "net/sctp/socket.c, sctp_sendmsg: a message per call";
            ns2: true, "sctp/sctp.cc: full chunks as long as the application has data";
        }
        /// Outbound streams.
        streams: u16 {
            rfc: 10, "RFC 9260 leaves it to the user; as Linux";
            linux: 10, "net/sctp/socket.c, sctp_init_sock: SCTP_DEFAULT_OUTSTREAMS";
            ns2: 1, "tcl/lib/ns-default.tcl, numOutStreams_";
        }
        /// Whether messages keep their order within a stream.
        ordered: bool {
            rfc: true, "RFC 9260 section 6.6";
            linux: true, "net/sctp/socket.c: SCTP_UNORDERED is not set";
            ns2: true, "tcl/lib/ns-default.tcl, unordered_ 0";
        }
        /// Scheduler of streams.
        scheduler: Scheduler {
            rfc: Scheduler::Fcfs, "RFC 8260 section 3.1: the usual default";
            linux: Scheduler::Fcfs, "net/sctp/stream_sched.c, SCTP_SS_DEFAULT";
            ns2: Scheduler::RoundRobin, "sctp/sctp.cc, GenChunk: streams in turn";
        }
        /// Priorities or weights of the streams, by number; a stream beyond the list has 1.
        stream_values: Vec<u16> {
            rfc: Vec::new(), "RFC 8260 section 4.3.3, SCTP_STREAM_SCHEDULER_VALUE";
            linux: Vec::new(), "net/sctp/stream_sched_prio.c: all the same";
            ns2: Vec::new(), "unused";
        }
        /// Whether several chunks may share a packet.
        bundling: bool {
            rfc: true, "RFC 9260 section 6.10";
            linux: true, "net/sctp/outqueue.c";
            ns2: true, "sctp/sctp.cc, SendPacket bundles up to mtu_";
        }
        /// Whether a small amount of data waits for more while other data is outstanding (Nagle).
        nagle: bool {
            rfc: false, "RFC 9260 section 6.1: allowed, and the user may disable it";
            linux: true, "net/sctp/output.c, sctp_packet_can_append_data; SCTP_NODELAY is off";
            ns2: false, "sctp/sctp.cc has no such rule";
        }
        /// Whether SACKs may be delayed.
        delayed_sack: bool {
            rfc: true, "RFC 9260 section 6.2";
            linux: true, "net.sctp.sack_timeout is not zero";
            ns2: true, "tcl/lib/ns-default.tcl, useDelayedSacks_ 1";
        }
        /// Longest delay of a SACK; 500 ms at most.
        sack_delay: Duration {
            rfc: MS(200), "RFC 9260 section 16, SACK.Delay";
            linux: MS(200), "net.sctp.sack_timeout";
            ns2: MS(200), "tcl/lib/ns-default.tcl, sackDelay_";
        }
        /// Packets with data per SACK, at most.
        sack_frequency: u32 {
            rfc: 2, "RFC 9260 section 6.2";
            linux: 2, "net/sctp/socket.c, sctp_init_sock: sackfreq";
            ns2: 2, "sctp/sctp.cc, DELAYED_SACK_TRIGGER";
        }
        /// Whether the first data of an association is acknowledged at once.
        first_sack_at_once: bool {
            rfc: true, "RFC 9260 section 5.1";
            linux: true, "net/sctp/associola.c: sack_needed starts as 1";
            ns2: false, "sctp/sctp.cc, ProcessDataChunk";
        }
        /// Whether the I bit requests an immediate SACK when the sender waits for it: for window probes, and for the
        /// last data before SHUTDOWN.
        sack_immediately: bool {
            rfc: true, "RFC 9260 section 6.1 (RFC 7053)";
            linux: true, "net/sctp/outqueue.c, SCTP_DATA_SACK_IMM in SHUTDOWN-PENDING";
            ns2: false, "sctp/sctp.cc has no such bit";
        }
        /// Miss indications that cause a fast retransmit.
        fast_retransmit_threshold: u32 {
            rfc: 3, "RFC 9260 section 7.2.4";
            linux: 3, "net/sctp/outqueue.c, sctp_mark_missing";
            ns2: 4, "tcl/lib/ns-default.tcl of 2.29, fastRtxTrigger_; 2.35 has 3";
        }
        /// Most packets with new data that are sent at one time; 0 for no limit.
        max_burst: u32 {
            rfc: 4, "RFC 9260 section 16, Max.Burst";
            linux: 4, "net.sctp.max_burst";
            ns2: 0, "sctp/sctp.cc: useMaxBurst_ 1 limits only what follows the acknowledgement of a retransmission";
        }
        /// Initial congestion window of a path.
        initial_cwnd: InitialCwnd {
            rfc: InitialCwnd::Rule(InitialCwndRule::Rfc9260), "RFC 9260 section 7.2.1";
            linux: InitialCwnd::Rule(InitialCwndRule::Rfc4960), "net/sctp/associola.c, sctp_assoc_add_peer";
            ns2: InitialCwnd::Size(B(2936)), "tcl/lib/ns-default.tcl, initialCwnd_ 2 chunks of 1468 B";
        }
        /// Initial slow-start threshold of a path.
        initial_ssthresh: InitialSsthresh {
            rfc: InitialSsthresh::Rule(InitialSsthreshRule::Unbounded), "RFC 9260 section 7.2.1: arbitrarily high";
            linux: InitialSsthresh::Rule(InitialSsthreshRule::PeerWindow), "net/sctp/sm_make_chunk.c, sctp_process_init";
            ns2: InitialSsthresh::Size(B(65_536)), "tcl/lib/ns-default.tcl, initialSsthresh_";
        }
        /// Size of a packet in congestion control.
        cwnd_unit: CwndUnit {
            rfc: CwndUnit::Pmdcs, "RFC 9260 section 7.2";
            linux: CwndUnit::Mtu, "net/sctp/transport.c, sctp_transport_raise_cwnd";
            ns2: CwndUnit::Pmdcs, "sctp/sctp.cc: 1468 B";
        }
        /// Which bytes count as outstanding in the congestion window.
        counted: Counted {
            rfc: Counted::Chunks, "RFC 9260 sections 1.3 and 7.2.2: with header and padding";
            linux: Counted::UserData, "include/net/sctp/sctp.h, sctp_data_size";
            ns2: Counted::Chunks, "sctp/sctp.cc, iOutstandingBytes: 1468 B for a chunk of 1452 B";
        }
        /// Whether lost data that is not yet retransmitted is still outstanding on its path, so that its T3-rtx
        /// continues.
        lost_is_outstanding: bool {
            rfc: false, "RFC 9260 section 1.3, Outstanding Data";
            linux: false, "net/sctp/outqueue.c, sctp_retransmit_mark";
            ns2: true, "sctp/sctp.cc, iOutstandingBytes at a time-out";
        }
        /// Whether new data, like lost data, waits for a SACK after a time-out.
        timeout_holds_new_data: bool {
            rfc: false, "RFC 9260 section 6.3.3 concerns sent data only";
            linux: false, "net/sctp/outqueue.c, sctp_outq_flush";
            ns2: true, "sctp/sctp.cc, Timeout sends one packet";
        }
        /// Whether data that the user has just sent is transmitted before lost data, if the windows allow it.
        send_passes_losses: bool {
            rfc: false, "RFC 9260 section 6.1 C: lost data first";
            linux: false, "net/sctp/outqueue.c, sctp_outq_flush";
            ns2: true, "sctp/sctp.cc of 2.29, sendmsg calls SendMuch";
        }
        /// Which bytes count as outstanding in the receiver's window.
        window_counts: Counted {
            rfc: Counted::UserData, "RFC 9260 section 6.2.1: a_rwnd counts the receiver's buffered data";
            linux: Counted::UserData, "include/net/sctp/sctp.h, sctp_data_size";
            ns2: Counted::Chunks, "sctp/sctp.cc, uiPeerRwnd: 1468 B for a chunk of 1452 B";
        }
        /// Smallest slow-start threshold after a loss, packets. It is also the smallest window after a fast retransmit.
        ssthresh_floor: u32 {
            rfc: 4, "RFC 9260 section 7.2.3";
            linux: 4, "net/sctp/transport.c, sctp_transport_lower_cwnd";
            ns2: 2, "sctp/sctp.cc of 2.29; 2.35 has 4";
        }
        /// Whether a time-out keeps the slow-start threshold if the window is already one packet.
        backoff_keeps_ssthresh: bool {
            rfc: false, "RFC 9260 section 7.2.3";
            linux: false, "net/sctp/transport.c, sctp_transport_lower_cwnd";
            ns2: true, "sctp/sctp.cc, AdjustCwnd at a time-out";
        }
        /// Whether the window grows only with SACKs that advance the cumulative TSN.
        growth_needs_cumulative_ack: bool {
            rfc: false, "RFC 9260 section 7.2.1, without the third condition of RFC 4960";
            linux: false, "net/sctp/transport.c, sctp_transport_raise_cwnd";
            ns2: true, "sctp/sctp.cc, ProcessSackChunk";
        }
        /// Change of the congestion window while no data is sent on a path.
        idle_cwnd: IdleCwnd {
            rfc: IdleCwnd::HalvePerRto, "RFC 9260 section 7.2.1";
            linux: IdleCwnd::HalveAtHeartbeat, "net/sctp/transport.c, SCTP_LOWER_CWND_INACTIVE";
            ns2: IdleCwnd::HalveWindowPerRto, "sctp/sctp.cc, the cwnd degrade timer";
        }
        /// Receive buffer, bytes: the window that is advertised to the peer.
        receive_buffer: Size {
            rfc: B(262_144), "RFC 9260 leaves it to the host; as usrsctp's default";
            linux: B(106_496), "half of net.core.rmem_default (net/sctp/associola.c)";
            ns2: B(65_536), "tcl/lib/ns-default.tcl, initialRwnd_";
        }
        /// Send buffer, bytes. The first chunk of a message is sent only if it fits in addition to the outstanding
        /// data. Messages enter the buffer whole, so the last one may exceed it; a message larger than the buffer
        /// enters in fragments.
        send_buffer: Size {
            rfc: B(262_144), "RFC 9260 leaves it to the host; as usrsctp's default";
            linux: B(212_992), "net.core.wmem_default";
            ns2: B(1_000_000_000), "sctp/sctp.cc: the application is asked whenever the window allows";
        }
        /// Space in the send buffer that a chunk occupies.
        chunk_charge: ChunkCharge {
            rfc: ChunkCharge::UserBytes, "RFC 9260 leaves it to the host";
            linux: ChunkCharge::KernelBuffer, "net/sctp/socket.c, sctp_set_owner_w: truesize of the socket buffer and struct sctp_chunk";
            ns2: ChunkCharge::UserBytes, "unused";
        }
        /// Number of received bytes of a message after which its delivery begins before its end.
        partial_delivery: Size {
            rfc: B(131_072), "RFC 9260 section 6.9 allows it; as usrsctp: half of the receive buffer";
            linux: B(53_248), "net/sctp/ulpqueue.c, sctp_ulpq_partial_delivery: when the buffer runs short";
            ns2: B(32_768), "unused: every chunk is a message of its own";
        }
        /// Life of a state cookie.
        cookie_life: Duration {
            rfc: S(60), "RFC 9260 section 16, Valid.Cookie.Life";
            linux: S(60), "net.sctp.valid_cookie_life";
            ns2: S(60), "sctp/sctp.cc does not check cookies";
        }
        /// The checksum of packets on a real wire.
        checksum: Checksum {
            rfc: Checksum::Crc32c, "RFC 9260 section 6.8";
            linux: Checksum::Crc32c, "net/sctp/output.c";
            ns2: Checksum::Crc32c, "unused: no bytes on a wire";
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    #[test]
    fn settings_change_the_constants_that_they_name() {
        let text = r#"{"path_max_retrans": 2, "retransmit_to": "same-path", "initial_cwnd": "3000 B",
            "initial_ssthresh": "peer-window", "rto_min": "200 ms", "scheduler": "weighted-fair",
            "stream_values": [3, 1], "checksum": "zero", "timer_wheel": "linux250"}"#;
        let settings: Settings = serde_json::from_str(text).expect("all of these are constants");
        let expected = Config {
            path_max_retrans: 2,
            retransmit_to: RetransmitTo::SamePath,
            initial_cwnd: InitialCwnd::Size(B(3000)),
            initial_ssthresh: InitialSsthresh::Rule(InitialSsthreshRule::PeerWindow),
            rto_min: MS(200),
            scheduler: Scheduler::WeightedFair,
            stream_values: vec![3, 1],
            checksum: Checksum::Zero,
            timer_wheel: TimerWheel::Linux250,
            ..Config::of(Profile::Rfc)
        };
        assert_eq!(Config::of(Profile::Rfc).with(&settings), expected);
        assert!(serde_json::from_str::<Settings>(r#"{"path_max_retran": 2}"#).is_err());
    }

    #[test]
    fn every_constant_has_a_value_and_a_source() {
        for profile in Profile::ALL {
            for constant in Config::constants(profile) {
                assert!(constant.source.len() > 3 && constant.doc.len() > 10, "{constant:?}");
                assert!(!constant.value.is_empty(), "{constant:?}");
            }
        }
    }
}
