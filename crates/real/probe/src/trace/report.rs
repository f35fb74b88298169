//! The results of a trace, for each hop and as a sentence.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use netrig_core::number::{counted, rate};
use netrig_stats::path::Delays;
use serde::Serialize;

use super::super::error::ProbeResult;
use super::super::flow::ResponseKind;
use super::super::flow::packet::{AnswerKind, FlowMethod};
use super::super::icmp_error::{IcmpError, Label, Unreachable};
use super::super::report::{CONFIDENCE, Measure, Stamps, as_map};
use super::course::{SentTraceProbe, TraceCourse, TraceEnd};
use super::settings::TraceSettings;
use super::speed::{SpeedSample, along};
use super::wire::TraceAccount;
use netrig_host::HostAddress;

/// Results of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceReport {
    /// Name of the probe: `trace`.
    pub probe: &'static str,
    /// The target.
    pub target: HostAddress,
    /// Type of the packets: `udp`, `icmp` or `tcp`.
    pub method: &'static str,
    /// Source and destination port of the UDP or TCP packets; `None` for ICMP.
    pub ports: Option<[u16; 2]>,
    /// Confidence level of all intervals.
    pub confidence: f64,
    /// Whether the results are valid: this host did not limit the measurement.
    pub valid: bool,
    /// Reasons why the results are not valid.
    pub faults: Vec<String>,
    /// Whether the trace was interrupted.
    pub interrupted: bool,
    /// Whether the target was reached.
    pub reached: bool,
    /// The result as a sentence.
    pub found: String,
    /// The hops in the order of their TTL, up to the last hop that responded.
    pub hops: Vec<TraceHop>,
    /// Further remarks.
    pub notes: Vec<String>,
    /// How many packets have time stamps of the kernel.
    pub stamps: Stamps,
}

/// One hop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceHop {
    /// TTL of the hop.
    pub ttl: u8,
    /// Addresses that responded, the most frequent first. There are several if packets of the flow took different
    /// paths, or if the path changed.
    pub addresses: Vec<HopAddress>,
    /// Why this hop cannot reach the target, in the notation of traceroute, such as `!H`.
    pub unreachable: Vec<String>,
    /// Round-trip times of the packets that were sent to find the path, in the order of sending, s; `None` for a lost
    /// packet.
    pub round_trips: Vec<Option<f64>>,
    /// Loss and delay of the packets that were sent to find the path, and the link rate if it was estimated.
    #[serde(serialize_with = "as_map")]
    pub measures: Vec<Measure>,
}

/// An address that responded at a hop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HopAddress {
    /// The address.
    pub address: IpAddr,
    /// Number of responses from this address.
    pub answers: usize,
    /// MPLS labels that packets had on arrival at this hop, outermost label first. They are those of the last response
    /// with labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Label>,
}

/// Builds the report of a trace.
pub fn report(
    target: SocketAddr,
    settings: &TraceSettings,
    course: &TraceCourse,
    account: &TraceAccount,
) -> ProbeResult<TraceReport> {
    let counted = || course.sent().iter().filter(|sent| !sent.void);
    let last = counted().filter(|sent| sent.response.is_some()).map(|sent| sent.probe.ttl).max().unwrap_or(0);
    let last = course.end().map_or(last, |(ttl, _)| ttl.min(last));
    let ttls = || settings.first..=last;
    let of = |ttl: u8| -> Vec<&SentTraceProbe> { counted().filter(|sent| sent.probe.ttl == ttl).collect() };
    let mut hops = ttls().map(|ttl| hop(course, ttl, &of(ttl))).collect::<Result<Vec<_>, _>>()?;
    if settings.speed {
        let samples: Vec<_> = ttls().map(|ttl| samples(course, &of(ttl))).collect();
        for (hop, speed) in hops.iter_mut().zip(along(&samples)?) {
            hop.measures.extend([speed.per_byte, speed.speed]);
        }
    }
    let response = || counted().filter_map(|sent| sent.response.as_ref());
    let stamps = Stamps {
        sent: counted().count(),
        sent_by_kernel: counted().filter(|sent| sent.stamped.is_some()).count(),
        received: response().count(),
        received_by_kernel: response().filter(|response| response.stamped).count(),
    };
    let has_ports = settings.method != FlowMethod::Icmp;
    Ok(TraceReport {
        probe: "trace",
        target: target.into(),
        method: settings.method.name(),
        ports: has_ports.then(|| [account.source.port(), target.port()]),
        confidence: CONFIDENCE,
        valid: account.faults.is_empty(),
        faults: account.faults.clone(),
        interrupted: account.interrupted,
        reached: matches!(course.end(), Some((_, TraceEnd::Reached))),
        found: found(target.into(), course, &hops),
        notes: notes(course, &hops, last),
        hops,
        stamps,
    })
}

/// Builds the results of a hop from all packets with its TTL.
fn hop(course: &TraceCourse, ttl: u8, packets: &[&SentTraceProbe]) -> ProbeResult<TraceHop> {
    let wait = course.plan().wait;
    let of_way = packets.iter().filter(|sent| !sent.for_speed);
    let round_trips: Vec<_> = of_way.map(|sent| sent.round_trip(wait)).collect();
    let delays = Delays::new(round_trips.iter().copied())?;
    let n = delays.sent();
    let mut measures = Vec::new();
    if n > 0 {
        measures.push(Measure::interval("loss_ratio", "1", &delays.loss_ratio(CONFIDENCE)?));
    }
    let median = delays.quantile(0.5, CONFIDENCE).ok().and_then(|quantile| quantile.value);
    measures.push(Measure::exact("delay_min", "s", delays.minimum(), n));
    measures.push(Measure::exact("delay_p50", "s", median, n));
    measures.push(Measure::exact("delay_max_of_arrived", "s", delays.maximum(), delays.arrived().len()));
    let mut unreachable: Vec<_> =
        packets.iter().filter_map(|sent| why(sent)).map(|why| why.to_string()).collect();
    unreachable.sort();
    unreachable.dedup();
    unreachable.retain(|why| !why.is_empty());
    Ok(TraceHop { ttl, addresses: addresses(packets), unreachable, round_trips, measures })
}

fn why(sent: &SentTraceProbe) -> Option<Unreachable> {
    match sent.response.as_ref()?.kind {
        ResponseKind::IcmpError(IcmpError::Unreachable(why)) => Some(why),
        _ => None,
    }
}

/// The addresses that responded, the most frequent first.
fn addresses(packets: &[&SentTraceProbe]) -> Vec<HopAddress> {
    let mut by_address = BTreeMap::<IpAddr, HopAddress>::new();
    for response in packets.iter().filter_map(|sent| sent.response.as_ref()) {
        let known = by_address.entry(response.from).or_insert_with(|| HopAddress {
            address: response.from,
            answers: 0,
            labels: Vec::new(),
        });
        known.answers += 1;
        if !response.labels.is_empty() {
            known.labels.clone_from(&response.labels);
        }
    }
    let mut addresses: Vec<_> = by_address.into_values().collect();
    addresses.sort_by_key(|address| std::cmp::Reverse(address.answers));
    addresses
}

/// Samples for the estimation of rates. If packets took different paths there are none, because the fastest packets of
/// different paths cannot be compared.
fn samples(course: &TraceCourse, packets: &[&SentTraceProbe]) -> Vec<SpeedSample> {
    if addresses(packets).len() > 1 {
        return Vec::new();
    }
    let of_speed =
        packets.iter().filter(|sent| sent.for_speed && why(sent).is_none_or(|why| !why.is_of_length()));
    let sample = |sent: &&SentTraceProbe| {
        let answer = sent.response.as_ref()?.length;
        Some(SpeedSample {
            length: sent.probe.length,
            round_trip: sent.round_trip(course.plan().wait)?,
            answer,
        })
    };
    of_speed.filter_map(sample).collect()
}

/// Why packets of one flow got responses from several addresses at a hop. `None` if there is a single address.
fn parting(course: &TraceCourse, ttl: u8) -> Option<&'static str> {
    let of_hop = course.sent().iter().filter(|sent| sent.probe.ttl == ttl && !sent.void);
    let mut from: Vec<_> = of_hop.filter_map(|sent| Some(sent.response.as_ref()?.from)).collect();
    from.dedup();
    let several = from.len();
    let changes = several.saturating_sub(1);
    from.sort();
    from.dedup();
    match (changes, from.len()) {
        (0, _) => None,
        (changes, addresses) if changes + 1 == addresses => Some("the path changed meanwhile"),
        _ => Some("packets of one flow take different paths"),
    }
}

/// The result of the trace as a sentence.
fn found(target: HostAddress, course: &TraceCourse, hops: &[TraceHop]) -> String {
    let hop = |ttl: u8| counted(ttl.into(), "hop", "hops");
    let by =
        |hop: Option<&TraceHop>| hop.and_then(|hop| hop.addresses.first()).map(|by| by.address.to_string());
    let mut text = match (course.end(), hops.last()) {
        (Some((ttl, TraceEnd::Reached)), _) => {
            format!("{target} is {} away{}", hop(ttl), port_state(course, ttl))
        }
        (Some((ttl, TraceEnd::Unreachable(Unreachable::TooLong(mtu)))), last) => format!(
            "packets of {} B end at hop {ttl}: {} reports that the next link carries {}",
            course.plan().length,
            by(last).unwrap_or_default(),
            if mtu == 0 { "less".to_owned() } else { format!("{mtu} B") }
        ),
        (Some((ttl, TraceEnd::Unreachable(why))), last) => {
            let by = by(last).unwrap_or_default();
            format!("the path ends at hop {ttl}: {by} reports {why}, {}", in_words(why))
        }
        (None, Some(last)) => format!(
            "{target} was not reached: no host answers behind hop {}, up to a TTL of {}",
            last.ttl,
            course.plan().last
        ),
        (None, None) => {
            format!("no host on the path to {target} answers, up to a TTL of {}", course.plan().last)
        }
    };
    let parted: Vec<_> = hops.iter().filter_map(|hop| Some((hop, parting(course, hop.ttl)?))).collect();
    if let Some((hop, how)) = parted.first() {
        text += &format!("; hop {} has {} addresses: {how}", hop.ttl, hop.addresses.len());
    }
    let measure = |hop: &TraceHop| {
        hop.measures.iter().find(|measure| measure.name == "speed").and_then(|speed| speed.value)
    };
    let slowest = hops.iter().filter_map(|hop| Some((hop.ttl, measure(hop)?)));
    if let Some((ttl, speed)) = slowest.min_by(|a, b| a.1.total_cmp(&b.1)) {
        text += &format!("; the slowest measurable link is the one to hop {ttl}, with {}", rate(speed));
    }
    text
}

/// A phrase about the state of the target's port. Empty if the answers do not show the state.
fn port_state(course: &TraceCourse, ttl: u8) -> &'static str {
    let is_answered = |how: AnswerKind| {
        let mut of_end = course.sent().iter().filter(|sent| sent.probe.ttl == ttl);
        of_end.any(|sent| {
            sent.response.as_ref().is_some_and(|response| response.kind == ResponseKind::Answer(how))
        })
    };
    // A second SYN of the flow resets the half-open connection (RFC 9293 section 3.10.7.4). This does not mean that the
    // port is closed.
    if is_answered(AnswerKind::Open) {
        ", and the port is open"
    } else if is_answered(AnswerKind::Closed) {
        ", and the port is closed"
    } else {
        ""
    }
}

const fn in_words(why: Unreachable) -> &'static str {
    match why {
        Unreachable::Network => "it has no route to that network",
        Unreachable::Host => "the host does not answer there",
        Unreachable::Protocol => "the protocol is not supported",
        Unreachable::Port => "no program listens on the port",
        Unreachable::TooLong(_) => "the packet is too long",
        Unreachable::SourceRoute => "the source route failed",
        Unreachable::Prohibited => "a filter rule forbids it",
        Unreachable::Code(_) => "for an unknown reason",
    }
}

/// Notes for the report: hops that did not answer all packets, and the likely reasons.
fn notes(course: &TraceCourse, hops: &[TraceHop], last: u8) -> Vec<String> {
    let mut notes = Vec::new();
    let mut is_limited = false;
    let answers = |hop: &TraceHop| hop.addresses.iter().map(|address| address.answers).sum::<usize>();
    let asked = |ttl: u8| course.sent().iter().filter(|sent| sent.probe.ttl == ttl && !sent.void).count();
    for hop in hops {
        let (answered, asked) = (answers(hop), asked(hop.ttl));
        // A packet that was answered by a later hop has passed through this one.
        let behind = hops.iter().any(|other| other.ttl > hop.ttl && answers(other) > answered);
        if answered == 0 || answered == asked {
            continue;
        }
        is_limited = true;
        let why = if behind {
            "and a hop behind it answered more: it limits its answers, and loses nothing"
        } else {
            "which need not be loss on the path: it may limit its answers"
        };
        notes.push(format!("hop {} answered {answered} of {asked} packets, {why}", hop.ttl));
    }
    let silent: Vec<_> = hops
        .iter()
        .filter(|hop| answers(hop) == 0 && hop.ttl < last)
        .map(|hop| hop.ttl.to_string())
        .collect();
    if !silent.is_empty() {
        is_limited = true;
        notes.push(format!("hops without an answer: {}", silent.join(", ")));
    }
    if is_limited {
        notes.push(
            "a host that limits its ICMP messages looks like this (of Linux: net.ipv4.icmp_ratelimit and icmp_msgs_per_sec; of \
             routers: often 1 or 100 per second): a longer --gap shows whether this is the reason, and `netrig probe loss` measures the loss \
             of the whole path without ICMP"
                .into(),
        );
    }
    for hop in hops {
        if let Some(how) = parting(course, hop.ttl) {
            notes.push(format!("hop {} has {} addresses: {how}", hop.ttl, hop.addresses.len()));
        }
    }
    if course.unnamed() > 0 {
        let messages = course.unnamed();
        notes.push(format!(
            "{messages} ICMP messages quote too little of a packet to identify it: packets were sent one at a time"
        ));
    }
    if let Some(speed) = &course.plan().speed {
        let [shortest, longest] = speed.ends();
        notes.push(format!("speed is estimated from packets of {shortest} B to {longest} B"));
    }
    notes
}
