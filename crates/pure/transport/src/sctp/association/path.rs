//! One path of an association: a pair of addresses with its reachability, timers and congestion control.

use std::net::IpAddr;

use netrig_core::{Duration, FiveTuple, Instant, protocol};

use crate::sctp::config::{
    Config, Counted, CwndUnit, Encapsulation, IdleCwnd, InitialCwnd, InitialCwndRule, InitialSsthresh,
    InitialSsthreshRule,
};
use crate::sctp::packet::COMMON_HEADER;
use crate::sctp::packet::chunk::DATA_HEADER;
use crate::sctp::packet::tlv::padded;
use crate::sctp::tx::{Congestion, SentChunk, SentState};
use crate::{PathState, PathStatus, RtoEstimator, RtoFloor, RtoRules, Serial};

/// The pair of addresses of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathAddresses {
    /// This host's address.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: IpAddr,
}

/// A heartbeat that has not been answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingHeartbeat {
    pub(super) nonce: u64,
    pub(super) sent: Instant,
}

/// Transmission state of one path (RFC 9260 section 14.3).
#[derive(Debug)]
pub(super) struct AssociationPath {
    /// Addresses and ports in the packet headers.
    pub(super) flow: FiveTuple,
    pub(super) state: PathState,
    /// Whether the peer did not list the address, so that the path does not belong to this association.
    pub(super) foreign: bool,
    /// Whether the user named the address when the association was opened.
    pub(super) by_user: bool,
    pub(super) rto: RtoEstimator,
    pub(super) congestion: Congestion,
    /// Bytes in flight. `Config::counted` decides whether headers are included.
    pub(super) flight: u64,
    /// Bytes lost on this path and not yet retransmitted.
    pub(super) lost: u64,
    /// Consecutive time-outs and unanswered heartbeats.
    pub(super) errors: u32,
    /// Time at which T3-rtx expires.
    pub(super) t3: Instant,
    /// The duration to which T3-rtx was last set, for the time line.
    pub(super) t3_span: Duration,
    /// The TSN that is used to measure the round-trip time, and its send time. One TSN is timed at a time (RFC 9260
    /// section 6.3.1 rule C4).
    pub(super) timed: Option<(Serial, Instant)>,
    /// Time of the next heartbeat if no data is sent.
    pub(super) heartbeat_at: Instant,
    /// The interval that ends at `heartbeat_at`.
    pub(super) heartbeat_span: Duration,
    pub(super) beat: Option<PendingHeartbeat>,
    /// Time at which `beat` counts as lost.
    pub(super) beat_lost_at: Instant,
    /// Time at which DATA was last sent.
    pub(super) last_data: Instant,
    /// Time until which the decay of the window has been applied since DATA was last sent. `None` if it has not been
    /// applied.
    pub(super) decayed_until: Option<Instant>,
    /// Whether only one packet may be in flight, from a time-out until an acknowledgement (RFC 9260 section 7.2.1).
    pub(super) one_packet: bool,
    /// Whether this host's interface is down.
    pub(super) interface_down: bool,
    /// Length of the IP header, the encapsulation header and the common header, bytes.
    pub(super) overhead: u32,
    /// Effect of the SACK that is being handled on this path.
    pub(super) sack: SackEffect,
}

/// Effect of one SACK on one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SackEffect {
    pub(super) outstanding_before: u64,
    /// Newly acknowledged bytes for which the window may grow.
    pub(super) newly: u64,
    /// Whether data in flight was acknowledged, which proves that the path works.
    pub(super) works: bool,
    /// Whether the earliest outstanding chunk of the path was acknowledged.
    pub(super) earliest: bool,
    /// Whether a loss was detected.
    pub(super) lost: bool,
}

impl AssociationPath {
    pub(super) fn new(addresses: PathAddresses, ports: (u16, u16), config: &Config) -> Self {
        let (protocol, (src_port, dst_port)) = match config.encapsulation {
            Encapsulation::Ip => (protocol::SCTP, ports),
            Encapsulation::Udp => (protocol::UDP, (Encapsulation::UDP_PORT, Encapsulation::UDP_PORT)),
        };
        let flow = FiveTuple { src: addresses.local, dst: addresses.remote, src_port, dst_port, protocol };
        // RFC 6951 section 5.6: the UDP header reduces the path's MTU.
        let overhead = flow.ip_header_len() + config.encapsulation.header_len() + COMMON_HEADER;
        let mtu = config.mtu.bytes();
        let pmdcs = mtu.saturating_sub(u64::from(overhead));
        let unit = if config.cwnd_unit == CwndUnit::Pmdcs { pmdcs } else { mtu };
        let cwnd = match config.initial_cwnd {
            InitialCwnd::Size(size) => size.bytes(),
            InitialCwnd::Rule(InitialCwndRule::Rfc9260) => {
                // RFC 9260 section 7.2.1: 4404 bytes for IPv4, and 4344 bytes for IPv6.
                let floor = if flow.dst.is_ipv4() { 4404 } else { 4344 };
                (4 * pmdcs).min(floor.max(2 * pmdcs))
            }
            InitialCwnd::Rule(InitialCwndRule::Rfc4960) => (4 * mtu).min(4380.max(2 * mtu)),
        };
        let ssthresh = match config.initial_ssthresh {
            InitialSsthresh::Size(size) => size.bytes(),
            InitialSsthresh::Rule(_) => u64::MAX,
        };
        Self {
            flow,
            state: PathState::Unconfirmed,
            foreign: false,
            by_user: false,
            rto: RtoEstimator::new(rto_rules(config)),
            congestion: Congestion::new(cwnd, ssthresh, unit, config),
            flight: 0,
            lost: 0,
            errors: 0,
            t3: Instant::NEVER,
            t3_span: Duration::ZERO,
            timed: None,
            heartbeat_at: Instant::NEVER,
            heartbeat_span: Duration::ZERO,
            beat: None,
            beat_lost_at: Instant::NEVER,
            last_data: Instant::ZERO,
            decayed_until: None,
            one_packet: false,
            interface_down: false,
            overhead,
            sack: SackEffect::default(),
        }
    }

    /// Takes the peer's initial window as the slow-start threshold, if so configured.
    pub(super) const fn peer_window(&mut self, window: u32, config: &Config) {
        if let InitialSsthresh::Rule(InitialSsthreshRule::PeerWindow) = config.initial_ssthresh {
            self.congestion.set_ssthresh(window as u64);
        }
    }

    /// Whether the window allows another packet with retransmissions.
    pub(super) const fn may_resend(&self) -> bool {
        if self.one_packet { self.flight == 0 } else { self.flight < self.congestion.cwnd() }
    }

    /// Whether the window allows another packet with new data. The packet may exceed cwnd if less than cwnd is
    /// outstanding (RFC 9260 section 6.1 B).
    pub(super) const fn may_send_new(&self, config: &Config) -> bool {
        if self.one_packet { self.flight == 0 } else { self.outstanding(config) < self.congestion.cwnd() }
    }

    /// Outstanding bytes: those in flight, plus lost ones if `Config::lost_is_outstanding` is set.
    pub(super) const fn outstanding(&self, config: &Config) -> u64 {
        if config.lost_is_outstanding { self.flight + self.lost } else { self.flight }
    }

    /// Applies the decay of the window until `now`, for the time without new data (RFC 9260 section 7.2.1). A path with
    /// lost data is not idle: its timer decides when the data is retransmitted.
    pub(super) fn decay(&mut self, now: Instant, config: &Config) {
        let decays = matches!(config.idle_cwnd, IdleCwnd::HalvePerRto | IdleCwnd::HalveWindowPerRto);
        if !decays || self.flight > 0 || self.lost > 0 {
            return;
        }
        let rto = self.rto.rto();
        let rtos = (now - self.decayed_until.unwrap_or(self.last_data)).as_nanos() / rto.as_nanos().max(1);
        if rtos > 0 {
            let threshold_too = config.idle_cwnd == IdleCwnd::HalvePerRto && self.decayed_until.is_none();
            self.congestion.idle(rtos, threshold_too);
            self.decayed_until = Some(self.decayed_until.unwrap_or(self.last_data) + rto * rtos);
        }
    }

    /// Records that idle time starts at `now`, because DATA is sent or the association is established.
    pub(super) const fn begin_idleness(&mut self, now: Instant) {
        self.last_data = now;
        self.decayed_until = None;
    }

    /// Handles the first acknowledgement of `sent`, which was last sent over this path.
    pub(super) fn newly_acknowledged(&mut self, now: Instant, sent: &SentChunk, config: &Config) {
        let bytes = u64::from(sent.counted);
        if sent.state == SentState::InFlight {
            self.flight -= bytes;
            self.sack.newly += bytes;
            self.sack.works = true;
        } else {
            // The acknowledgement of a chunk that counts as lost does not prove that the path works: the chunk may have
            // arrived before the path failed, and only its SACK was lost. Linux and ns-2 do the same. RFC 9260 section
            // 8.2 mentions this ambiguity.
            self.lost -= bytes;
            if config.lost_is_outstanding {
                self.sack.newly += bytes;
            }
        }
        if let Some((_, since)) = self.timed.filter(|(tsn, _)| *tsn == sent.chunk.tsn) {
            self.timed = None;
            // RFC 9260 section 6.3.1 C5 (Karn's algorithm): a retransmitted chunk is not measured.
            if !sent.retransmitted {
                self.rto.measured(now - since);
            }
        }
    }

    /// Records that a chunk that was lost on this path is retransmitted, possibly over another path.
    pub(super) fn leaves(&mut self, sent: &SentChunk) {
        self.lost -= u64::from(sent.counted);
        if self.timed.is_some_and(|(tsn, _)| tsn == sent.chunk.tsn) {
            self.timed = None;
        }
    }

    /// RFC 9260 section 6.3.1 C5: "RTT measurements SHOULD only be made using a DATA chunk with TSN r if no DATA chunk
    /// with TSN less than or equal to r was retransmitted since the DATA chunk with TSN r was sent first".
    pub(super) fn lower_was_sent_again(&mut self, tsn: Serial) {
        if self.timed.is_some_and(|(timed, _)| tsn.before(timed)) {
            self.timed = None;
        }
    }

    /// Restarts T3-rtx with the current RTO (RFC 9260 section 6.3.2).
    pub(super) fn start_t3(&mut self, now: Instant, config: &Config) {
        self.t3_span = if self.probes_locally(config) { config.local_probe_interval } else { self.rto.rto() };
        self.t3 = config.timer_wheel.fires(now, self.t3_span);
    }

    pub(super) const fn stop_t3(&mut self) {
        self.t3 = Instant::NEVER;
    }

    pub(super) const fn t3_runs(&self) -> bool {
        self.t3.as_nanos() != Instant::NEVER.as_nanos()
    }

    /// Whether this host's interface is down and `Config::local_drop` is `probe`: the path is then retried at a
    /// constant interval.
    pub(super) fn probes_locally(&self, config: &Config) -> bool {
        self.interface_down && config.local_drop == crate::sctp::config::LocalDrop::Probe
    }

    pub(super) fn is(&self, state: PathState) -> bool {
        self.state == state && !self.foreign
    }

    pub(super) fn status(&self) -> PathStatus {
        PathStatus {
            state: self.state,
            cwnd: self.congestion.cwnd(),
            ssthresh: self.congestion.ssthresh(),
            flight: self.flight,
            srtt: self.rto.srtt(),
            rto: self.rto.rto(),
            errors: self.errors,
        }
    }

    /// The earliest deadline of the path's timers.
    pub(super) fn deadline(&self) -> Instant {
        self.t3.min(self.heartbeat_at).min(self.beat_lost_at)
    }
}

fn rto_rules(config: &Config) -> RtoRules {
    RtoRules {
        initial: config.rto_initial,
        // With a time-out of zero, the simulated time would not advance.
        min: config.rto_min.max(Duration::from_millis(1)),
        max: config.rto_max,
        floor: RtoFloor::Whole,
        // RFC 9260 section 16: RTO.Alpha is 1/8 and RTO.Beta is 1/4. Section 6.3.1: the variance is multiplied by four.
        alpha: 0.125,
        beta: 0.25,
        k: 4.0,
        granularity: config.rto_granularity,
        tick: Duration::ZERO,
    }
}

/// The size in a window of a chunk with `user_bytes` user bytes, bytes.
pub(super) const fn counted(how: Counted, user_bytes: u64) -> u32 {
    match how {
        Counted::Chunks => padded(DATA_HEADER + user_bytes as u32),
        Counted::UserData => user_bytes as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> AssociationPath {
        let config = config();
        let local = IpAddr::from([10, 0, 0, 1]);
        let remote = IpAddr::from([10, 0, 0, 2]);
        AssociationPath::new(PathAddresses { local, remote }, (1, 2), &config)
    }

    /// A window of 40 packets, and a time-out of one second.
    fn config() -> Config {
        Config {
            initial_cwnd: InitialCwnd::Size(netrig_core::Size::from_bytes(40 * 1468)),
            rto_initial: Duration::from_secs(1),
            ..Config::of(crate::Profile::Rfc)
        }
    }

    fn at_ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// RFC 9260 section 7.2.1: "once per RTO", and the threshold "before the first cwnd adjustment".
    #[test]
    fn an_idle_window_is_halved_once_for_each_time_out() {
        let (mut path, config) = (path(), config());
        let mut packets = |ms| {
            path.decay(at_ms(ms), &config);
            (path.congestion.cwnd() / 1468, path.congestion.ssthresh() / 1468)
        };
        assert_eq!(packets(999).0, 40);
        let series = [1000, 1500, 2500, 2600, 2700, 3200, 60_000].map(&mut packets);
        assert_eq!(series, [(20, 40), (20, 40), (10, 40), (10, 40), (10, 40), (5, 40), (4, 40)]);
    }

    /// RFC 9260 section 7.2.1: min(4 P, max(2 P, 4404)) over IPv4. Over IPv6, 4344 replaces 4404. P is the MTU without
    /// headers.
    #[test]
    fn the_first_window_depends_on_the_family() {
        let window = |host: fn(u8) -> IpAddr, mtu| {
            let addresses = PathAddresses { local: host(1), remote: host(2) };
            let mtu = netrig_core::Size::from_bytes(mtu);
            let config = Config { mtu, ..Config::of(crate::Profile::Rfc) };
            AssociationPath::new(addresses, (1, 2), &config).congestion.cwnd()
        };
        let v4 = |mtu| window(|n| [10, 0, 0, n].into(), mtu);
        let v6 = |mtu| window(|n| [0xfd00, 0, 0, 0, 0, 0, 0, u16::from(n)].into(), mtu);
        assert_eq!([500, 1500, 9000].map(v4), [4 * 468, 4404, 2 * 8968]);
        assert_eq!([500, 1500, 9000].map(v6), [4 * 448, 4344, 2 * 8948]);
    }

    /// Lost data waits until the timer causes its retransmission.
    #[test]
    fn a_path_that_lost_data_is_not_idle() {
        let (mut path, config) = (path(), config());
        path.lost = 1468;
        path.decay(at_ms(60_000), &config);
        assert_eq!((path.congestion.cwnd(), path.congestion.ssthresh()), (40 * 1468, u64::MAX));
    }
}
