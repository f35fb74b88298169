//! `probe ping`: ICMP echo requests.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use netrig_core::{Seeds, Size, settings};
use rustix::net::{Protocol, SocketType, ipproto};

use super::error::{ProbeError, ProbeResult};
use super::icmp::{HEADER, IcmpEcho, IcmpVersion, MARK};
use super::rate_limit::LimitedRate;
use super::report::ProbeReport;
use super::socket::{ProbeSocket, may_not};
use super::two_way::{
    Exchange, NoAnswer, PACKETS, PacketSettings, ProbeCourse, ProbePlan, ReflectorRecord, SentProbe, TwoWay,
};
use super::{path_sections, seconds_between};
use netrig_host::HostAddress;
use netrig_host::random;
use netrig_host::socket::LONGEST_DATAGRAM;
use netrig_host::socket::SocketError;
use netrig_host::sys::Incoming;

settings! {
    /// The settings of a ping.
    #[derive(Clone, Debug)]
    pub struct PingSettings with defaults {
        /// Data of each packet: 12 B at least.
        size: Size { heading: PACKETS } = Size::from_bytes(56);
    }
}

impl PingSettings {
    /// The order for a ping of `target`.
    pub fn order(&self, packets: &PacketSettings, target: SocketAddr) -> PingOrder {
        PingOrder { target, plan: packets.plan(), size: self.size.to_usize(), dscp: packets.dscp.0 }
    }
}

/// The order of a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingOrder {
    /// The host to probe. The port is ignored.
    pub target: SocketAddr,
    /// Number of packets, their gaps and the waiting time.
    pub plan: ProbePlan,
    /// Octets of data in each packet, at least [`MARK`].
    pub size: usize,
    /// DSCP of the packets.
    pub dscp: u8,
}

/// Measures the round-trip time and the two-way loss.
///
/// Fails if the order is invalid. A missing answer is a measurement, not an error.
pub fn ping(order: &PingOrder, cancel: &AtomicBool) -> ProbeResult<ProbeReport> {
    let (course, delays) = exchange(order, cancel)?;
    let mut report = report("ping", order, &course);
    report.sections = path_sections::round_trip(&course, &delays)?.into();
    Ok(report)
}

/// Sends echo requests. Returns the record of the measurement, and the round-trip time of each packet, `None` if it was
/// not answered in time.
pub(super) fn exchange(
    order: &PingOrder,
    cancel: &AtomicBool,
) -> ProbeResult<(ProbeCourse, Vec<Option<f64>>)> {
    order.plan.check()?;
    if !(MARK..=LONGEST_DATAGRAM - HEADER).contains(&order.size) {
        return Err(ProbeError::Request(format!(
            "--size {} B: expected {MARK} B to {} B of data",
            order.size,
            LONGEST_DATAGRAM - HEADER
        )));
    }
    let target = HostAddress::from(order.target).at(0);
    let socket = open(target, order.dscp, ProbeSocket::open)?;
    socket.connect(target).map_err(|error| ProbeError::send(target, error))?;
    let version = if target.is_ipv4() { IcmpVersion::V4 } else { IcmpVersion::V6 };
    let entropy = u64::from_ne_bytes(random().map_err(ProbeError::kernel("/dev/urandom"))?);
    let token = Seeds::new(entropy).stream("probe/token").bits();
    let exchange = Pings { version, token, size: order.size };
    let course = TwoWay { socket, target, exchange, cancel }.run(order.plan)?;
    let delay = |packet: &SentProbe| {
        packet.answer_within(order.plan.wait).map(|answer| seconds_between(packet.at(), answer.at))
    };
    let delays = course.sent.iter().map(delay).collect();
    Ok((course, delays))
}

/// The part that the reports of all probes with echo requests have in common.
pub(super) fn report(probe: &'static str, order: &PingOrder, course: &ProbeCourse) -> ProbeReport {
    let mut report = ProbeReport::of_course(probe, HostAddress::from(order.target).to_string(), course);
    report.note_path_fields(course, order.dscp, None);
    let unanswered = course.sent.iter().filter(|packet| packet.answer.is_none()).count();
    if let Some(limited) = LimitedRate::of(course) {
        report.notes.push(format!(
            "{:.1} of {:.1} echo requests per second were answered, at even intervals. A target that limits its ICMP messages looks \
             like this (of Linux: net.ipv4.icmp_ratelimit and icmp_msgs_per_sec; of routers: often 1 or 100 per second), and the \
             path need not lose a packet. Send fewer, with --interval {} or more, or use `netrig probe stamp` towards `netrig probe \
             reflect`, which has no such limit",
            limited.answered,
            limited.sent,
            longer_interval(limited.answered)
        ));
    } else if unanswered > 0 && report.is_answered() {
        report.notes.push(format!(
            "{unanswered} of {} echo requests were not answered. Many hosts answer a limited number of echo requests per second, \
             which looks like loss on the path. A longer --interval shows whether this is the reason; `netrig probe stamp` towards `netrig \
             probe reflect` has no such limit",
            course.sent.len()
        ));
    }
    report
}

/// A value for --interval with which a target that answers at this rate can answer every echo request. It is twice the
/// mean time between answers, because random gaps are sometimes shorter than their mean.
fn longer_interval(answered_per_s: f64) -> String {
    let seconds = 2.0 / answered_per_s;
    if seconds < 1.0 { format!("{:.0}ms", (seconds * 1e3).ceil()) } else { format!("{:.0}s", seconds.ceil()) }
}

/// Opens a socket for echo requests: an unprivileged one if the system allows it, otherwise a raw one.
pub(super) fn open(
    target: SocketAddr,
    dscp: u8,
    open: fn(SocketType, Protocol, SocketAddr, u8) -> Result<ProbeSocket, SocketError>,
) -> ProbeResult<ProbeSocket> {
    let any = HostAddress::unspecified_for(target).at(0);
    let protocol = if target.is_ipv4() { ipproto::ICMP } else { ipproto::ICMPV6 };
    match open(SocketType::DGRAM, protocol, any, dscp) {
        Err(error) if may_not(&error) => {}
        other => return Ok(other?),
    }
    match open(SocketType::RAW, protocol, any, dscp) {
        Err(error) if may_not(&error) => Err(ProbeError::Request(
            "no permission to open a socket for ICMP: allow it for every group with `sysctl -w \
             net.ipv4.ping_group_range='0 2147483647'`, or run netrig with CAP_NET_RAW"
                .into(),
        )),
        other => Ok(other?),
    }
}

/// The echo requests of one measurement.
struct Pings {
    version: IcmpVersion,
    token: u64,
    size: usize,
}

impl Exchange for Pings {
    fn packet(&mut self, number: u32, _: u64) -> Vec<u8> {
        IcmpEcho { token: self.token, number }.request(self.version, self.size)
    }

    fn answer(&mut self, incoming: &Incoming<'_>) -> Result<(u32, Option<ReflectorRecord>), NoAnswer> {
        let echo = IcmpEcho::reply(self.version, incoming.head).filter(|echo| echo.token == self.token);
        echo.map(|echo| (echo.number, None)).ok_or(NoAnswer::Foreign)
    }

    /// Raw sockets receive the ICMP errors about the echo requests of all processes to this target.
    fn is_quoted(&self, quoted: &[u8]) -> bool {
        IcmpEcho::is_request(self.version, self.token, quoted)
    }
}
