//! The constants of a TCP endpoint.

mod behaviour;

use netrig_core::{Duration, Fraction, Size};

pub use self::behaviour::{
    Avoidance, BackoffSsthresh, CubicGrowth, EcnMode, Framing, Growth, Handshake, HyStart, IdleRestart,
    Limit, LimitedTransmit, Nagle, NewrenoTimer, OptionBytes, Recovery, RtoArithmetic, RttSampling,
    SsthreshFrom, Unbounded, WindowCounts,
};
use super::congestion::Congestion;
use crate::profile::constants;
use crate::{RtoFloor, TimerWheel};

/// The largest window that can be advertised, a little less than 1 GiB (RFC 7323 section 2.2).
pub(super) const LARGEST_WINDOW: Size = Size::from_bytes(65_535 << 14);

constants! {
    /// The constants of a TCP endpoint, resolved.
    pub struct Config, Settings {
        /// The congestion control algorithm.
        congestion: Congestion {
            rfc: Congestion::Reno, "RFC 5681 section 3";
            linux: Congestion::Cubic, "CONFIG_DEFAULT_CUBIC, net/ipv4/Kconfig; tcp_congestion_control in ip-sysctl";
            ns2: Congestion::Tahoe, "ns-2 class Agent/TCP is Tahoe, tcp.cc; Agent/TCP/Newreno is `reno` with `recovery = \"newreno\"`";
        }
        /// How losses are detected and repaired: `none`, `reno`, `newreno`, `sack` or `rack`.
        recovery: Recovery {
            rfc: Recovery::Rack, "RFC 8985 (proposed standard); RFC 6675 is `sack`";
            linux: Recovery::Rack, "tcp_recovery = 1 in ip-sysctl";
            ns2: Recovery::Newreno, "ns-2 class Agent/TCP/Newreno, tcp-newreno.cc; unused by Tahoe, which only retransmits";
        }
        /// Proportional rate reduction: in SACK-based recovery, and after a congestion signal by ECN, the
        /// window shrinks in proportion to the delivered data instead of at once.
        prr: bool {
            rfc: true, "RFC 9937 section 6";
            linux: true, "tcp_cwnd_reduction, net/ipv4/tcp_input.c";
            ns2: false, "absent from ns-2 2.35";
        }
        /// Duplicate acknowledgements that indicate a loss.
        dup_ack_threshold: u32 {
            rfc: 3, "RFC 5681 section 3.2; DupThresh in RFC 6675 section 2 and RFC 8985 section 6.2";
            linux: 3, "tcp_reordering = 3 in ip-sysctl; not adapted to reordering here";
            ns2: 3, "Agent/TCP numdupacks_ 3, ns-default.tcl";
        }
        /// Segments that the first two duplicate acknowledgements allow beyond the window: `off`, `new-data` or
        /// `any-data`.
        limited_transmit: LimitedTransmit {
            rfc: LimitedTransmit::NewData, "RFC 3042";
            linux: LimitedTransmit::NewData, "tcp_limited_transmit is part of the packet-conserving rule, net/ipv4/tcp_input.c";
            ns2: LimitedTransmit::AnyData, "Agent/TCP singledup_ 1, ns-default.tcl; TcpAgent::send_one goes on from t_seqno_ in every state";
        }
        /// When NewReno restarts its timer: `impatient` or `slow-but-steady`.
        newreno_timer: NewrenoTimer {
            rfc: NewrenoTimer::Impatient, "RFC 6582 section 3.2 step 3";
            linux: NewrenoTimer::SlowButSteady, "tcp_rearm_rto at every advance, net/ipv4/tcp_input.c";
            ns2: NewrenoTimer::Impatient, "Agent/TCP/Newreno as measured: the timer runs out one RTO after the first partial acknowledgement";
        }
        /// Forward RTO-recovery: detects spurious time-outs and undoes their effect.
        frto: bool {
            rfc: true, "RFC 5682";
            linux: true, "tcp_frto = 2 in ip-sysctl";
            ns2: false, "Agent/TCP frto_ 0, ns-default.tcl";
        }
        /// Whether a reduction of the window is undone if timestamps or reports of duplicates show that
        /// every retransmission was spurious.
        undo: bool {
            rfc: false, "RFC 3522 and RFC 3708 are experimental";
            linux: true, "tcp_may_undo, net/ipv4/tcp_input.c";
            ns2: false, "absent from ns-2's one-way TCP";
        }
        /// Tail loss probe; only with `recovery = "rack"`.
        tail_loss_probe: bool {
            rfc: true, "RFC 8985 section 7";
            linux: true, "tcp_early_retrans = 3 in ip-sysctl";
            ns2: false, "absent from ns-2 2.35";
        }
        /// Whether a tail loss probe needs a round-trip time measured since the last probe, or since the start of the
        /// connection.
        probe_needs_sample: bool {
            rfc: true, "RFC 8985 section 7.3, the second condition";
            linux: false, "tcp_send_loss_probe asks for tlp_high_seq only, net/ipv4/tcp_output.c";
            ns2: false, "absent from ns-2 2.35";
        }
        /// Explicit congestion notification: `off`, `accept` or `request`.
        ecn: EcnMode {
            rfc: EcnMode::Request, "RFC 3168; RFC 9293 section 3.8.2 (SHLD-8)";
            linux: EcnMode::Accept, "tcp_ecn = 2 in ip-sysctl";
            ns2: EcnMode::Off, "Agent/TCP ecn_ 0, ns-default.tcl";
        }
        /// Selective acknowledgement, if the peer supports it.
        sack: bool {
            rfc: true, "RFC 2018";
            linux: true, "tcp_sack = 1 in ip-sysctl";
            ns2: false, "ns-2 class Agent/TCP; Agent/TCP/Sack1 with Agent/TCPSink/Sack1 is `true`";
        }
        /// Whether duplicates are reported in the SACK option.
        dsack: bool {
            rfc: true, "RFC 2883";
            linux: true, "tcp_dsack = 1 in ip-sysctl";
            ns2: false, "Agent/TCPSink generateDSacks_ false, ns-default.tcl";
        }
        /// Timestamps option, if the peer supports it.
        timestamps: bool {
            rfc: true, "RFC 7323 section 3";
            linux: true, "tcp_timestamps = 1 in ip-sysctl";
            ns2: false, "Agent/TCP timestamps_ false, ns-default.tcl";
        }
        /// Window scale option, if the peer supports it. The shift follows from the receive buffer.
        window_scaling: bool {
            rfc: true, "RFC 7323 section 2";
            linux: true, "tcp_window_scaling = 1 in ip-sysctl";
            ns2: true, "ns-2's one-way TCP has no receive window: scaled so that it never limits";
        }
        /// Largest segment that this end accepts over IPv4, without headers and options. Over IPv6 it is 20
        /// bytes less.
        mss: Size {
            rfc: Size::from_bytes(1460), "RFC 9293 section 3.7.1 with an MTU of 1500 bytes";
            linux: Size::from_bytes(1460), "tcp_advertise_mss with an MTU of 1500 bytes";
            ns2: Size::from_bytes(1000), "Agent/TCP packetSize_ 1000, ns-default.tcl";
        }
        /// Initial congestion window, segments.
        initial_window: u32 {
            rfc: 10, "RFC 6928 section 2";
            linux: 10, "TCP_INIT_CWND, include/net/tcp.h";
            ns2: 2, "Agent/TCP windowInit_ 2, ns-default.tcl";
        }
        /// Initial slow-start threshold, segments. It is never above the send window limit.
        initial_ssthresh: Limit {
            rfc: Limit::UNBOUNDED, "RFC 5681 section 3.1: arbitrarily high";
            linux: Limit::UNBOUNDED, "TCP_INFINITE_SSTHRESH, include/net/tcp.h";
            ns2: Limit::UNBOUNDED, "ssthresh_ = window_ in TcpAgent::reset, tcp.cc";
        }
        /// Most outstanding segments, independent of the windows.
        send_window: Limit {
            rfc: Limit::UNBOUNDED, "RFC 9293 knows only the peer's window and the congestion window";
            linux: Limit::UNBOUNDED, "the socket's send buffer is not modelled";
            ns2: Limit::Count(20), "Agent/TCP window_ 20, ns-default.tcl";
        }
        /// Receive buffer: the largest window that this end advertises, at most 65,535 B times 2^14.
        receive_buffer: Size {
            rfc: LARGEST_WINDOW, "RFC 7323 section 2.2: the largest that can be advertised, so that it never limits";
            linux: Size::from_bytes(3_145_728), "half of tcp_rmem[2] = 6291456 (tcp_adv_win_scale = 1): where automatic tuning ends";
            ns2: LARGEST_WINDOW, "ns-2's one-way TCP has no receive window";
        }
        /// What the congestion window counts: `bytes` or `packets`.
        window_counts: WindowCounts {
            rfc: WindowCounts::Bytes, "RFC 5681 section 2: cwnd, FlightSize and SMSS are bytes";
            linux: WindowCounts::Packets, "snd_cwnd and tcp_packets_in_flight, include/net/tcp.h";
            ns2: WindowCounts::Packets, "cwnd_ in tcp.h counts packets";
        }
        /// Most segments that slow start adds for one acknowledgement: L of RFC 3465.
        slow_start_limit: Limit {
            rfc: Limit::Count(1), "RFC 5681 equation 2: min(N, SMSS)";
            linux: Limit::UNBOUNDED, "tcp_slow_start adds all acknowledged segments, net/ipv4/tcp_cong.c";
            ns2: Limit::Count(1), "TcpAgent::opencwnd adds 1 for each acknowledgement, tcp.cc";
        }
        /// How congestion avoidance grows: `byte-counting` or `per-ack`.
        avoidance: Avoidance {
            rfc: Avoidance::ByteCounting, "RFC 5681 section 3.1, the recommended way";
            linux: Avoidance::ByteCounting, "tcp_cong_avoid_ai counts acknowledged packets, net/ipv4/tcp_cong.c";
            ns2: Avoidance::PerAck, "TcpAgent::opencwnd with wnd_option_ 1 adds 1/cwnd_, tcp.cc";
        }
        /// The quantity that a loss halves: `flight-size` or `cwnd`.
        ssthresh_from: SsthreshFrom {
            rfc: SsthreshFrom::FlightSize, "RFC 5681 equation 4; RFC 9438 section 4.6";
            linux: SsthreshFrom::Cwnd, "tcp_reno_ssthresh, cubictcp_recalc_ssthresh";
            ns2: SsthreshFrom::Cwnd, "TcpAgent::slowdown halves window(), the smaller of cwnd_ and wnd_, tcp.cc";
        }
        /// Whether each back-off of the timer reduces ssthresh again: `once`, `once-per-loss` or `every`.
        backoff_ssthresh: BackoffSsthresh {
            rfc: BackoffSsthresh::Once, "RFC 5681 section 3.1: held constant when a retransmission times out";
            linux: BackoffSsthresh::OncePerLoss, "tcp_enter_loss reduces it in the states Open and Disorder, or after progress";
            ns2: BackoffSsthresh::Every, "TcpAgent::timeout calls slowdown(CLOSE_SSTHRESH_HALF) each time, tcp.cc";
        }
        /// Whether an unused window grows: `always` or `when-limited`.
        growth: Growth {
            rfc: Growth::WhenLimited, "RFC 9438 section 5.8; RFC 7661 section 4.4.1";
            linux: Growth::WhenLimited, "tcp_is_cwnd_limited, include/net/tcp.h";
            ns2: Growth::Always, "TcpAgent::recv_newack_helper always calls opencwnd (control_increase_ 0), tcp.cc";
        }
        /// Window after an idle period: `none`, `initial-window` or `decay`.
        idle_restart: IdleRestart {
            rfc: IdleRestart::InitialWindow, "RFC 5681 section 4.1";
            linux: IdleRestart::Decay, "tcp_slow_start_after_idle = 1 in ip-sysctl; tcp_cwnd_restart";
            ns2: IdleRestart::None, "the timer does not run while nothing is outstanding, TcpAgent::newtimer, tcp.cc";
        }
        /// End of slow start before a loss: `off`, `linux` or `plus-plus`; only with `congestion = "cubic"`.
        hystart: HyStart {
            rfc: HyStart::PlusPlus, "RFC 9438 section 4.10, RFC 9406";
            linux: HyStart::Linux, "hystart = 1 in net/ipv4/tcp_cubic.c";
            ns2: HyStart::Off, "absent from ns-2 2.35";
        }
        /// CUBIC's C: window units per second cubed.
        cubic_c: f64 {
            rfc: 0.4, "RFC 9438 section 5";
            linux: 0.4, "bic_scale = 41: 41 × 10/1024, net/ipv4/tcp_cubic.c";
            ns2: 0.4, "Agent/TCP/Linux is not modelled; as RFC 9438";
        }
        /// Share of the window that CUBIC keeps after a loss.
        cubic_beta: Fraction {
            rfc: share(0.7), "RFC 9438 section 4.6";
            linux: share(0.7001953125), "beta = 717 of 1024, net/ipv4/tcp_cubic.c";
            ns2: share(0.7), "Agent/TCP/Linux is not modelled; as RFC 9438";
        }
        /// CUBIC releases bandwidth for new flows if its window shrinks twice in a row.
        cubic_fast_convergence: bool {
            rfc: true, "RFC 9438 section 4.7";
            linux: true, "fast_convergence = 1, net/ipv4/tcp_cubic.c";
            ns2: true, "Agent/TCP/Linux is not modelled; as RFC 9438";
        }
        /// CUBIC is never slower than Reno.
        cubic_reno_friendly: bool {
            rfc: true, "RFC 9438 section 4.3";
            linux: true, "tcp_friendliness = 1, net/ipv4/tcp_cubic.c";
            ns2: true, "Agent/TCP/Linux is not modelled; as RFC 9438";
        }
        /// How CUBIC computes growth from its function: `continuous` or `counted`.
        cubic_growth: CubicGrowth {
            rfc: CubicGrowth::Continuous, "RFC 9438 sections 4.2 to 4.5 and 4.8";
            linux: CubicGrowth::Counted, "bictcp_update and cubictcp_state, net/ipv4/tcp_cubic.c; tcp_cong_avoid_ai, net/ipv4/tcp_cong.c";
            ns2: CubicGrowth::Continuous, "Agent/TCP/Linux is not modelled; as RFC 9438";
        }
        /// When small segments wait: `off`, `nagle` or `minshall`.
        nagle: Nagle {
            rfc: Nagle::Nagle, "RFC 9293 section 3.7.4 (SHLD-7)";
            linux: Nagle::Minshall, "tcp_minshall_check, net/ipv4/tcp_output.c";
            ns2: Nagle::Off, "absent from ns-2's one-way TCP";
        }
        /// Full segments per acknowledgement; 1 for no delay.
        ack_every: u32 {
            rfc: 2, "RFC 9293 section 3.8.6.3 (SHLD-19), RFC 5681 section 4.2";
            linux: 2, "__tcp_ack_snd_check: more than one full segment, net/ipv4/tcp_input.c";
            ns2: 1, "Agent/TCPSink; Agent/TCPSink/DelAck is 2";
        }
        /// Longest delay of an acknowledgement; less than 500 ms.
        ack_delay: Duration {
            rfc: Duration::from_millis(200), "RFC 9293 section 3.8.6.3 asks for less than 500 ms; 200 ms is RFC 8985's WCDelAckT";
            linux: Duration::from_millis(40), "TCP_DELACK_MIN = HZ/25, include/net/tcp.h; not stretched here";
            ns2: Duration::from_millis(100), "Agent/TCPSink/DelAck interval_ 100ms, ns-default.tcl";
        }
        /// Acknowledgements at the start, and after an idle period, that are not delayed.
        quick_acks: u32 {
            rfc: 0, "not in the RFCs";
            linux: 16, "TCP_MAX_QUICKACKS, include/net/tcp.h";
            ns2: 0, "absent from ns-2's sinks";
        }
        /// How a connection opens: `full` or `none`.
        handshake: Handshake {
            rfc: Handshake::Full, "RFC 9293 section 3.5";
            linux: Handshake::Full, "RFC 9293 section 3.5";
            ns2: Handshake::Full, "Agent/TCP syn_ true, ns-default.tcl: packet 0 is a SYN of 40 bytes";
        }
        /// Whether options make packets longer: `counted` or `free`.
        option_bytes: OptionBytes {
            rfc: OptionBytes::Counted, "RFC 9293 section 3.1";
            linux: OptionBytes::Counted, "RFC 9293 section 3.1";
            ns2: OptionBytes::Free, "Agent/TCP tcpip_base_hdr_size_ 40, Agent/TCPSink packetSize_ 40, ns-default.tcl";
        }
        /// How data is cut into packets: `stream` or `whole-packets`.
        framing: Framing {
            rfc: Framing::Stream, "RFC 9293 section 3.7";
            linux: Framing::Stream, "RFC 9293 section 3.7";
            ns2: Framing::WholePackets, "TcpAgent::sendmsg rounds each message up to packets, TcpAgent::output sends size_ bytes, tcp.cc";
        }
        /// Retransmission time-out before the first measurement.
        rto_initial: Duration {
            rfc: Duration::from_secs(1), "RFC 6298 section 2.1";
            linux: Duration::from_secs(1), "TCP_TIMEOUT_INIT, include/net/tcp.h";
            ns2: Duration::from_secs(3), "Agent/TCP rtxcur_init_ 3.0, ns-default.tcl";
        }
        /// Retransmission time-out for data if a SYN was retransmitted and no round-trip time was measured.
        rto_after_syn_loss: Duration {
            rfc: Duration::from_secs(3), "RFC 6298 section 5.7";
            linux: Duration::from_secs(3), "TCP_TIMEOUT_FALLBACK, include/net/tcp.h";
            ns2: Duration::from_secs(3), "Agent/TCP rtxcur_init_ 3.0, ns-default.tcl";
        }
        /// Smallest retransmission time-out, or smallest variance term: see `rto_floor`.
        rto_min: Duration {
            rfc: Duration::from_secs(1), "RFC 6298 section 2.4";
            linux: Duration::from_millis(200), "TCP_RTO_MIN, include/net/tcp.h";
            ns2: Duration::from_millis(200), "Agent/TCP minrto_ 0.2, ns-default.tcl";
        }
        /// What `rto_min` bounds: `whole` or `variance`.
        rto_floor: RtoFloor {
            rfc: RtoFloor::Whole, "RFC 6298 section 2.4";
            linux: RtoFloor::Variance, "tcp_rtt_estimator: mdev_max_us and rttvar_us start from tcp_rto_min_us, net/ipv4/tcp_input.c";
            ns2: RtoFloor::Whole, "TcpAgent::rtt_timeout, tcp.cc";
        }
        /// Largest retransmission time-out.
        rto_max: Duration {
            rfc: Duration::from_secs(60), "RFC 6298 section 2.5: at least 60 s";
            linux: Duration::from_secs(120), "TCP_RTO_MAX, include/net/tcp.h";
            ns2: Duration::from_secs(60), "Agent/TCP maxrto_ 60, ns-default.tcl";
        }
        /// Clock granularity G: the variance term is at least this.
        rto_granularity: Duration {
            rfc: Duration::from_millis(1), "RFC 6298 section 4: 100 ms or finer; RFC 7323 section 5.4: 1 ms";
            linux: Duration::from_millis(4), "a jiffy at 250 Hz";
            ns2: Duration::ZERO, "TcpAgent::rtt_update has no such term, tcp.cc";
        }
        /// Round-trip times and the time-out are rounded up to multiples of this; `0 ns` for no rounding.
        rto_tick: Duration {
            rfc: Duration::ZERO, "RFC 6298 asks for none";
            linux: Duration::ZERO, "srtt_us counts microseconds; see `timer_wheel`";
            ns2: Duration::from_millis(10), "Agent/TCP tcpTick_ 0.01, ns-default.tcl";
        }
        /// Arithmetic of the estimate: `real` or `fixed-point`.
        rto_arithmetic: RtoArithmetic {
            rfc: RtoArithmetic::Real, "RFC 6298 section 2";
            linux: RtoArithmetic::Real, "tcp_rtt_estimator counts microseconds: close to real numbers";
            ns2: RtoArithmetic::FixedPoint, "T_SRTT_BITS 3, T_RTTVAR_BITS 2, rttvar_exp_ 2 and TcpAgent::rtt_backoff, tcp.cc";
        }
        /// Which acknowledgements are measured: `per-ack` or `per-round`.
        rtt_sampling: RttSampling {
            rfc: RttSampling::PerRound, "RFC 6298 section 3: at least once per round trip";
            linux: RttSampling::PerAck, "tcp_ack_update_rtt, net/ipv4/tcp_input.c";
            ns2: RttSampling::PerRound, "rtt_active_ in TcpAgent::output, tcp.cc";
        }
        /// How late timers fire: `exact` or `linux250`.
        timer_wheel: TimerWheel {
            rfc: TimerWheel::Exact, "no model of a clock";
            linux: TimerWheel::Linux250, "calc_wheel_index, kernel/time/timer.c with CONFIG_HZ_250";
            ns2: TimerWheel::Exact, "ns-2's timers are exact";
        }
        /// Extra delay before a tail loss probe is sent and before a gap counts as a loss.
        loss_timer_margin: Duration {
            rfc: Duration::ZERO, "RFC 8985 sections 6.2 and 7.2 have none";
            linux: Duration::from_millis(8), "TCP_TIMEOUT_MIN_US, two jiffies, include/net/tcp.h; tcp_rack_mark_lost, tcp_schedule_loss_probe";
            ns2: Duration::ZERO, "absent from ns-2 2.35";
        }
        /// Retransmissions of a SYN before the opening fails.
        syn_retries: Limit {
            rfc: Limit::Count(7), "RFC 9293 section 3.8.3 (MUST-23): R2 for a SYN is at least 3 minutes";
            linux: Limit::Count(6), "tcp_syn_retries = 6 in ip-sysctl";
            ns2: Limit::UNBOUNDED, "ns-2 never gives up";
        }
        /// Retransmissions of a SYN with the same time-out, before the back-off starts.
        syn_linear_timeouts: u32 {
            rfc: 0, "RFC 6298 section 5.5";
            linux: 0, "kernels before 6.5; tcp_syn_linear_timeouts = 4 since";
            ns2: 0, "TcpAgent::timeout backs off each time, tcp.cc";
        }
        /// Consecutive retransmission time-outs of data before the connection fails.
        data_retries: Limit {
            rfc: Limit::Count(7), "RFC 9293 section 3.8.3 (SHLD-11): R2 is at least 100 s; 8 time-outs of 1 to 60 s are 183 s";
            linux: Limit::Count(15), "tcp_retries2 = 15 in ip-sysctl";
            ns2: Limit::UNBOUNDED, "ns-2 never gives up";
        }
        /// Retransmission time-out, without back-off, while this host's interface is down; `0 ns`: as usual.
        local_drop_retry: Duration {
            rfc: Duration::ZERO, "the RFCs do not distinguish a local drop from another";
            linux: Duration::from_millis(500), "TCP_RESOURCE_PROBE_INTERVAL = HZ/2, include/net/tcp.h, unconditionally since 5.1";
            ns2: Duration::ZERO, "ns-2's agents do not notice drops";
        }
        /// Duration of TIME-WAIT.
        time_wait: Duration {
            rfc: Duration::from_secs(240), "RFC 9293 section 3.4.2: 2 MSL with an MSL of 2 minutes";
            linux: Duration::from_secs(60), "TCP_TIMEWAIT_LEN, include/net/tcp.h";
            ns2: Duration::ZERO, "ns-2's one-way TCP has no closing handshake";
        }
    }
}

/// A share; `value` must lie between 0 and 1.
fn share(value: f64) -> Fraction {
    Fraction::new(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    #[test]
    fn settings_override_the_profile() {
        let settings: Settings = serde_json::from_str(
            r#"{"congestion": "cubic", "send_window": 45, "initial_ssthresh": "unbounded", "timer_wheel": "linux250"}"#,
        )
        .unwrap();
        let config = Config::of(Profile::Ns2).with(&settings);
        assert_eq!(config.send_window, Limit::Count(45));
        assert_eq!(config.congestion, Congestion::Cubic);
        assert_eq!(config.timer_wheel, TimerWheel::Linux250);
        assert_eq!(config.recovery, Config::of(Profile::Ns2).recovery);
        assert!(serde_json::from_str::<Settings>(r#"{"window": 45}"#).is_err());
    }

    #[test]
    fn a_profile_prints_as_it_would_be_written() {
        let constants = Config::constants(Profile::Linux);
        let value = |name| constants.iter().find(|c| c.name == name).map(|c| c.value.as_str());
        assert_eq!(value("rto_min"), Some("200 ms"));
        assert_eq!(value("send_window"), Some("unbounded"));
        assert_eq!(value("congestion"), Some("cubic"));
        assert_eq!(value("idle_restart"), Some("decay"));
    }
}
