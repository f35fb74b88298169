//! What was measured.

use std::net::SocketAddr;

use netrig_probe::transfer::Framework;
use schemars::JsonSchema;
use serde::Serialize;

use super::beside::Watched;
use super::call::Carriage;
use crate::carry::Outcome;
use crate::cause::{Verdict, is_by_hosts};
use crate::meter::{
    AddedDelay, Connections, Course, Delays, Layers, OneWay, Packet, RoundTrips, Series, Throughput, TooShort,
};
use crate::protocol::{Carrier, ECHO_LEN, EndReport, Way};
use crate::responsiveness::Responsiveness;
use crate::search::Found;

/// What was measured.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Report {
    /// The version of the document.
    pub format: u32,
    /// The server.
    pub server: SocketAddr,
    /// This host, as the server sees it unless addresses are translated.
    pub client: SocketAddr,
    /// The path before anything was carried.
    pub idle: Option<Delays>,
    /// The same in each direction.
    pub idle_ways: Option<OneWay>,
    /// Each phase, once for each way that it went.
    pub phases: Vec<PhaseReport>,
    /// The path after all was carried.
    pub after: Option<Delays>,
    /// The same in each direction.
    pub after_ways: Option<OneWay>,
    /// Why nothing is told of directions, if that is so.
    pub no_ways: Option<&'static str>,
    /// What the server holds each direction to, payload bits per second, if it does.
    pub held_to: Option<f64>,
    /// What limited each way, and what proves it.
    pub verdicts: Vec<Verdict>,
    /// Somebody or something ended it before its time: what was measured until then.
    pub partial: bool,
    /// Why, if something did.
    pub broken: Option<String>,
    /// What both ends have counted of each phase.
    #[serde(skip)]
    pub carriages: Vec<Carriage>,
}

/// One way of a phase.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct PhaseReport {
    /// Which way.
    pub way: Way,
    /// What carried it.
    pub carrier: Carrier,
    /// What arrived at the end that receives; nothing if next to nothing did, and of a search.
    pub throughput: Option<Throughput>,
    /// What both ends have read of it.
    pub series: Series,
    /// The same at every layer.
    pub layers: Option<Layers>,
    /// What the kernel of the end that sends told of its connections, after the warm-up.
    pub connections: Option<Connections>,
    /// The transfer beside an ideal one.
    pub transfer: Option<Framework>,
    /// What a search has found.
    pub capacity: Option<Capacity>,
    /// The path's delay meanwhile, after the warm-up.
    pub delays: Option<Delays>,
    /// The same in each direction.
    pub ways: Option<OneWay>,
    /// What the connections that carried took for their own round trips, after the warm-up.
    pub loaded: Option<RoundTrips>,
    /// How much longer than the shortest the datagrams took that carried, after the warm-up; nothing of a search, whose rate changes
    /// all the time.
    pub added_delay: Option<AddedDelay>,
    /// How the path responded meanwhile, after the warm-up; nothing where no connections carried, or nobody wanted to know.
    pub responsiveness: Option<Responsiveness>,
    /// Why there is no number of how the path responded, if somebody wanted one and connections carried.
    pub no_responsiveness: Option<&'static str>,
    /// Set if the phase was too short to tell of the path under load.
    pub too_short: Option<TooShort>,
    /// The end that sends.
    pub sender: EndReport,
    /// The end that receives.
    pub receiver: EndReport,
}

/// What a line carries of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Capacity {
    /// What arrived while more was offered than the line carries, at every layer; the echoes that watch the path are part of
    /// it, and so is what the two ends tell each other. If no more was offered the line carries so much at least, and these are
    /// no part of it, since they may have come at another time.
    pub layers: Layers,
    /// What was found.
    pub found: Found,
    /// Whether the search came to its end.
    pub complete: bool,
    /// A host dropped what had arrived, or had no processor left: what was found is not the line's.
    pub by_hosts: bool,
}

impl Capacity {
    /// Whether it is what the line carries, and not only what it carries at least.
    pub const fn is_exact(&self) -> bool {
        self.found.saturated && !self.by_hosts
    }
}

impl Report {
    /// The version of the document.
    pub const FORMAT: u32 = 1;
}

/// What a phase comes to, each way.
pub(super) fn phases(
    carriage: &Carriage,
    found: Option<(Found, bool)>,
    watched: &Watched,
    v4: bool,
) -> Vec<PhaseReport> {
    let (near, far) = (&carriage.near, &carriage.far);
    let one = |way, sender, receiver| phase(carriage, found, watched, v4, (way, sender, receiver));
    match carriage.phase.way() {
        None => Vec::new(),
        Some(Way::Down) => vec![one(Way::Down, far, near)],
        Some(Way::Up) => vec![one(Way::Up, near, far)],
        Some(Way::Both) => vec![one(Way::Down, far, near), one(Way::Up, near, far)],
    }
}

fn phase(
    carriage: &Carriage,
    found: Option<(Found, bool)>,
    watched: &Watched,
    v4: bool,
    (way, sender, receiver): (Way, &Outcome, &Outcome),
) -> PhaseReport {
    let carrier = &carriage.phase.carrier;
    let (course, series) = match carrier {
        Carrier::Udp { .. } => (Course::of_datagrams(&receiver.heard), Series::of_datagrams(&receiver.heard)),
        _ => {
            let course = carriage.course(way);
            let series = Series::of_streams(&sender.counted, &course);
            (course, series)
        }
    };
    // Of a search, whose rate changes all the time, the mean means nothing.
    let throughput = course.throughput().filter(|_| found.is_none());
    let packet = match carrier {
        Carrier::Udp { size, .. } => Some(Packet::datagram((*size).into(), v4)),
        Carrier::Sctp { .. } => sender.report.segment.map(|payload| Packet::chunk(payload, v4)),
        _ => sender.report.segment.map(|segment| Packet::segment(segment, sender.report.timestamps, v4)),
    };
    let warm_up_s = throughput.map_or(0.0, |told| told.warm_up_s);
    let connections = Connections::of(&sender.counted, warm_up_s);
    let capacity = found.zip(packet).map(|((found, complete), packet)| {
        let layers = packet.layers(found.arrived * 8.0 * f64::from(packet.payload));
        Capacity { layers, found, complete, by_hosts: false }
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
            capacity.layers = capacity.layers + echoes(watched, within, v4) + talk(carriage, way, v4);
        }
    }
    phase
}

/// What the control connection took of the line in a way: a slow one's acknowledgements alone are up to a hundredth of it.
fn talk(carriage: &Carriage, way: Way, v4: bool) -> Layers {
    let seconds = carriage.lasted_s();
    let took = carriage.talked.map(|talked| {
        let place = usize::from(way != Way::Up);
        let (segments, bytes) = (talked.segments[place], talked.bytes[place]);
        let payload = u32::try_from(bytes / segments.max(1)).unwrap_or(u32::MAX);
        Packet::segment(payload, talked.timestamps, v4).at(segments as f64 / seconds)
    });
    took.unwrap_or_else(|| Packet::datagram(0, v4).at(0.0))
}

/// What echoes took of the line in a time, each way: those that came back in it, wherever they waited before.
fn echoes(watched: &Watched, within: [u64; 2], v4: bool) -> Layers {
    let came = watched.came_back_within(within).count();
    let bits = came as f64 * 8.0 * ECHO_LEN as f64;
    let seconds = within[1].saturating_sub(within[0]).max(1) as f64 * 1e-9;
    Packet::datagram(ECHO_LEN as u32, v4).layers(bits / seconds)
}

/// What needs more than one phase: the transfers beside the line that was found.
pub(super) fn complete(report: &mut Report) {
    let idle_s = report.idle.and_then(|idle| idle.least_s);
    let capacities: Vec<_> =
        report.phases.iter().filter_map(|phase| Some((phase.way, phase.capacity?))).collect();
    for phase in &mut report.phases {
        let (Some(connections), Some(throughput), Some(layers)) =
            (&phase.connections, &phase.throughput, &phase.layers)
        else {
            continue;
        };
        // What a line that carries so many bits of IP packets carries of their payload.
        let ideal = capacities.iter().find(|(way, capacity)| *way == phase.way && capacity.is_exact());
        let ideal = ideal.map(|(_, capacity)| capacity.layers.ip * layers.payload / layers.ip);
        let round_trips = [connections.round_trip_s, idle_s];
        phase.transfer = connections
            .sent_again
            .map(|again| Framework::of(throughput.bits_per_s, ideal, again, round_trips));
    }
}
