//! Computes the report of a measurement, and of each of its phases, from the counts of both ends.

use std::net::SocketAddr;

use netrig_bulk::{ConnectionSummary, Layers, PacketShape};
use netrig_probe::transfer::Framework;

use super::beside::PathObservations;
use super::call::CarriedPhase;
use super::report::{LineCapacity, PhaseReport, SpeedReport};
use crate::carry::PhaseOutcome;
use crate::cause::{self, is_by_hosts};
use crate::meter::{AddedDelay, ArrivalCourse, RoundTrips, Series, TooShort};
use crate::protocol::{Carrier, DataDirection, ECHO_LEN};
use crate::search::FoundCapacity;

/// A finished task. For a search, `found` has its result and whether the search finished.
pub(super) struct CompletedTask {
    pub carriage: CarriedPhase,
    pub found: Option<(FoundCapacity, bool)>,
}

impl CompletedTask {
    /// Whether any data arrived.
    pub fn has_carried(&self) -> bool {
        let ends = || [&self.carriage.near, &self.carriage.far].into_iter();
        let streams = ends().flat_map(|end| &end.counted).map(|counted| counted.received);
        let datagrams = ends().flat_map(|end| &end.heard).map(|heard| heard.bytes);
        streams.chain(datagrams).any(|bytes| bytes > 0)
    }
}

/// The report of a measurement. `watched` has the observations beside the tasks; there are none with a server of iperf3.
pub(super) fn report(
    [client, server]: [SocketAddr; 2],
    done: Vec<CompletedTask>,
    watched: Option<&PathObservations>,
    held_to: Option<f64>,
    broken: Option<String>,
) -> SpeedReport {
    let (no_ways, nothing) = (watched.and_then(PathObservations::no_ways), PathObservations::nothing());
    let watched = watched.unwrap_or(&nothing);
    let idle = |at: Option<&CompletedTask>| {
        at.filter(|done| done.carriage.phase.carrier == Carrier::Idle).map(|done| done.carriage.span)
    };
    let (before, after) = (idle(done.first()), idle(done.get(1..).and_then(<[CompletedTask]>::last)));
    let mut report = SpeedReport {
        format: SpeedReport::FORMAT,
        server,
        client,
        idle: before.and_then(|span| watched.delays(span, 0.0)),
        idle_ways: before.and_then(|span| watched.ways(span, 0.0)),
        phases: done.iter().flat_map(|done| phases(done, watched, server.is_ipv4())).collect(),
        after: after.and_then(|span| watched.delays(span, 0.0)),
        after_ways: after.and_then(|span| watched.ways(span, 0.0)),
        no_ways,
        held_to,
        verdicts: Vec::new(),
        partial: broken.is_some() || done.iter().any(|done| done.carriage.cut_short),
        broken,
        carriages: Vec::new(),
    };
    complete(&mut report);
    report.verdicts = cause::verdicts(&report);
    report.carriages = done.into_iter().map(|done| done.carriage).collect();
    report
}

/// Computes the reports of a phase, one per direction.
fn phases(done: &CompletedTask, watched: &PathObservations, v4: bool) -> Vec<PhaseReport> {
    let CompletedTask { carriage, found } = done;
    let (near, far) = (&carriage.near, &carriage.far);
    let one = |way, sender, receiver| phase(carriage, *found, watched, v4, (way, sender, receiver));
    match carriage.phase.way() {
        None => Vec::new(),
        Some(DataDirection::Down) => vec![one(DataDirection::Down, far, near)],
        Some(DataDirection::Up) => vec![one(DataDirection::Up, near, far)],
        Some(DataDirection::Both) => {
            vec![one(DataDirection::Down, far, near), one(DataDirection::Up, near, far)]
        }
    }
}

fn phase(
    carriage: &CarriedPhase,
    found: Option<(FoundCapacity, bool)>,
    watched: &PathObservations,
    v4: bool,
    (way, sender, receiver): (DataDirection, &PhaseOutcome, &PhaseOutcome),
) -> PhaseReport {
    let carrier = &carriage.phase.carrier;
    let (course, series) = match carrier {
        Carrier::Udp { .. } => {
            (ArrivalCourse::of_datagrams(&receiver.heard), Series::of_datagrams(&receiver.heard))
        }
        _ => {
            let course = carriage.course(way);
            let series = Series::of_streams(&sender.counted, &course);
            (course, series)
        }
    };
    // The rate of a search changes continuously, so its mean is not reported.
    let throughput = course.throughput().filter(|_| found.is_none());
    let packet = match carrier {
        Carrier::Udp { size, .. } => Some(PacketShape::datagram((*size).into(), v4)),
        Carrier::Sctp { .. } => sender.report.segment.map(|payload| PacketShape::chunk(payload, v4)),
        _ => sender.report.segment.map(|segment| PacketShape::segment(segment, sender.report.timestamps, v4)),
    };
    let warm_up_s = throughput.map_or(0.0, |told| told.warm_up_s);
    let connections = ConnectionSummary::of(&sender.counted, warm_up_s);
    let capacity = found.zip(packet).map(|((found, complete), packet)| {
        let layers = packet.layers(found.arrived * 8.0 * f64::from(packet.payload));
        LineCapacity { layers, found, complete, by_hosts: false }
    });
    let (responsiveness, no_responsiveness) =
        watched.responsiveness(&sender.counted, carriage.span, warm_up_s);
    let mut phase = PhaseReport {
        way,
        carrier: carrier.clone(),
        throughput,
        series,
        layers: throughput.zip(packet).map(|(told, packet)| packet.layers(told.bits_per_s)),
        connections,
        transfer: None,
        capacity,
        delays: watched.delays(carriage.span, warm_up_s),
        ways: watched.ways(carriage.span, warm_up_s),
        loaded: RoundTrips::of(&sender.counted, warm_up_s),
        added_delay: AddedDelay::of(&receiver.heard, warm_up_s).filter(|_| found.is_none()),
        responsiveness,
        no_responsiveness: no_responsiveness.filter(|_| carrier.adapts()),
        too_short: TooShort::of(&sender.counted, warm_up_s, carriage.lasted_s()).filter(|_| carrier.adapts()),
        sender: sender.report.clone(),
        receiver: receiver.report.clone(),
    };
    let by_hosts = is_by_hosts(&phase);
    if let Some(capacity) = &mut phase.capacity {
        capacity.by_hosts = by_hosts;
        if capacity.is_exact() {
            let within = capacity.found.within_ns.map(|ns| carriage.span[0].saturating_add(ns));
            capacity.layers =
                capacity.layers + echoes(watched, within, v4) + control_traffic(carriage, way, v4);
        }
    }
    phase
}

/// The rate of the control connection in a direction. On a slow line, its acknowledgements alone may be one hundredth
/// of the capacity.
fn control_traffic(carriage: &CarriedPhase, way: DataDirection, v4: bool) -> Layers {
    let seconds = carriage.lasted_s();
    let took = carriage.talked.map(|talked| {
        let place = usize::from(way != DataDirection::Up);
        let (segments, bytes) = (talked.segments[place], talked.bytes[place]);
        let payload = u32::try_from(bytes / segments.max(1)).unwrap_or(u32::MAX);
        PacketShape::segment(payload, talked.timestamps, v4).at(segments as f64 / seconds)
    });
    took.unwrap_or_else(|| PacketShape::datagram(0, v4).at(0.0))
}

/// The rate of echoes in each direction. It counts the echoes that came back in the interval, whenever they were sent.
fn echoes(watched: &PathObservations, within: [u64; 2], v4: bool) -> Layers {
    let came = watched.came_back_within(within).count();
    let bits = came as f64 * 8.0 * ECHO_LEN as f64;
    let seconds = within[1].saturating_sub(within[0]).max(1) as f64 * 1e-9;
    PacketShape::datagram(ECHO_LEN as u32, v4).layers(bits / seconds)
}

/// Adds the results that need several phases: each transfer is compared with the capacity of the line.
fn complete(report: &mut SpeedReport) {
    let idle_s = report.idle.and_then(|idle| idle.least_s);
    let capacities: Vec<_> =
        report.phases.iter().filter_map(|phase| Some((phase.way, phase.capacity?))).collect();
    for phase in &mut report.phases {
        let (Some(connections), Some(throughput), Some(layers)) =
            (&phase.connections, &phase.throughput, &phase.layers)
        else {
            continue;
        };
        // The payload rate at the capacity of the line.
        let ideal = capacities.iter().find(|(way, capacity)| *way == phase.way && capacity.is_exact());
        let ideal = ideal.map(|(_, capacity)| capacity.layers.ip * layers.payload / layers.ip);
        let round_trips = [connections.round_trip_s, idle_s];
        phase.transfer = connections
            .sent_again
            .map(|again| Framework::of(throughput.bits_per_s, ideal, again, round_trips));
    }
}
