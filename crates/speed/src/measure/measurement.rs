//! A whole measurement: the idle path, then one phase after the other, with the path's delay watched all the time.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use netrig_core::Duration;
use serde::Serialize;

use super::call::{Call, CallOrder, Carriage, News, PhaseOrder};
use super::error::SpeedError;
use super::latency::Latency;
use crate::carry::{Live, Outcome};
use crate::meter::{Course, Delays, Layers, Packet, Round, Throughput};
use crate::protocol::{Carrier, EndReport, Way};

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct MeasureOrder {
    /// Of whom.
    pub call: CallOrder,
    /// For how long the idle path is watched first.
    pub idle: Duration,
    /// What is carried after that, one after the other.
    pub phases: Vec<PhaseOrder>,
    /// Time between two echoes.
    pub echo_every: Duration,
}

/// What becomes known while it goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// Others are served first.
    Waits {
        /// How many stand before us.
        before: usize,
        /// How many wait.
        of: usize,
    },
    /// The next phase, by its place; the idle path is none.
    Phase(usize),
    /// So much has arrived at the end that receives.
    Arrived {
        /// Which way.
        way: Way,
        /// Since the phase began, s.
        at_s: f64,
        /// Bytes.
        bytes: u64,
    },
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The version of the document.
    pub format: u32,
    /// The server.
    pub server: SocketAddr,
    /// This host, as the server sees it unless addresses are translated.
    pub client: SocketAddr,
    /// The idle path.
    pub idle: Option<Delays>,
    /// Each phase, once for each way that it went.
    pub phases: Vec<PhaseReport>,
    /// Somebody or something ended it before its time: what was measured until then.
    pub partial: bool,
    /// What both ends have counted of each phase that carried something.
    #[serde(skip)]
    pub carriages: Vec<Carriage>,
}

/// One way of a phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseReport {
    /// Which way.
    pub way: Way,
    /// What carried it.
    pub carrier: Carrier,
    /// What arrived at the end that receives; nothing if next to nothing did.
    pub throughput: Option<Throughput>,
    /// The same at every layer.
    pub layers: Option<Layers>,
    /// Share of the bytes given to the path that had been sent before.
    pub sent_again: Option<f64>,
    /// The path's delay meanwhile, after the warm-up.
    pub delays: Option<Delays>,
    /// The end that sends.
    pub sender: EndReport,
    /// The end that receives.
    pub receiver: EndReport,
}

impl Report {
    /// The version of the document.
    pub const FORMAT: u32 = 1;
}

/// Calls the server, and measures what was ordered.
///
/// # Errors
/// If nothing could be measured. What was measured before something broke is told as partial.
pub fn measure(
    order: MeasureOrder,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, SpeedError> {
    let mut call = Call::connect(order.call.clone(), cancel, &mut |before, of| {
        progress(Progress::Waits { before, of })
    })?;
    let [client, server] = call.ends();
    let local = SocketAddr::new(client.ip(), 0);
    let latency = Latency::begin(local, server, call.budget().token, order.echo_every);
    let latency = latency.map_err(SpeedError::Carrying)?;
    let idle = PhaseOrder { carrier: Carrier::Idle, lasts: order.idle, every: order.idle };
    let mut carried = Vec::new();
    let mut broken = None;
    for (place, phase) in std::iter::once(idle).chain(order.phases).enumerate() {
        if place > 0 {
            progress(Progress::Phase(place - 1));
        }
        let way = way(&phase.carrier);
        let watched = call.carry(phase, cancel, &mut |news| tell(way, &news, progress));
        match watched {
            Ok(carriage) => {
                let is_over = carriage.cut_short;
                carried.push(carriage);
                if is_over {
                    break;
                }
            }
            Err(error) => {
                broken = Some(error);
                break;
            }
        }
    }
    let rounds = latency.end().map_err(SpeedError::Carrying)?;
    let partial = broken.is_some() || carried.iter().any(|carriage| carriage.cut_short);
    match broken {
        // Nothing but the idle path at most: there is no measurement to tell of.
        Some(error) if carried.len() < 2 => return Err(error),
        None => call.hang_up(),
        Some(_) => {}
    }
    let mut carried = carried.into_iter();
    let idle = carried.next().and_then(|idle| Delays::of(within(&rounds, idle.span, 0.0)));
    let carriages: Vec<_> = carried.collect();
    let phases = carriages.iter().flat_map(|carriage| phases(carriage, &rounds, server.is_ipv4())).collect();
    Ok(Report { format: Report::FORMAT, server, client, idle, phases, partial, carriages })
}

const fn way(carrier: &Carrier) -> Option<Way> {
    match carrier {
        Carrier::Idle => None,
        Carrier::Tcp { way, .. } | Carrier::Udp { way, .. } => Some(*way),
    }
}

/// What of the news is progress: that of the end which receives.
fn tell(way: Option<Way>, news: &News<'_>, progress: &mut dyn FnMut(Progress)) {
    let (way, live) = match (way, news) {
        (Some(Way::Down | Way::Both), News::Near(live)) => (Way::Down, live),
        (Some(Way::Up), News::Far(live)) => (Way::Up, live),
        _ => return,
    };
    let (at_ns, bytes) = match live {
        Live::Bytes { at_ns, received, .. } => (*at_ns, *received),
        Live::Datagrams(heard) => (heard.at_ns, heard.bytes),
    };
    progress(Progress::Arrived { way, at_s: at_ns as f64 * 1e-9, bytes });
}

/// The echoes that were sent in a span, without its first seconds.
fn within(rounds: &[Round], [begun, ended]: [u64; 2], without_s: f64) -> impl Iterator<Item = &Round> {
    let from = begun + (without_s * 1e9) as u64;
    rounds.iter().filter(move |round| (from..=ended).contains(&round.sent))
}

/// What a phase comes to, each way.
pub(super) fn phases(carriage: &Carriage, rounds: &[Round], v4: bool) -> Vec<PhaseReport> {
    let one = |way, sender: &Outcome, receiver: &Outcome| {
        let course = match carriage.phase.carrier {
            Carrier::Udp { .. } => Course::of_datagrams(&receiver.heard),
            _ => Course::of_streams(&receiver.counted),
        };
        let throughput = course.throughput();
        let packet = match carriage.phase.carrier {
            Carrier::Udp { size, .. } => Some(Packet::datagram(size.into(), v4)),
            _ => sender.report.segment.map(|segment| Packet::segment(segment, sender.report.path_mtu, v4)),
        };
        let layers = throughput.zip(packet).map(|(told, packet)| packet.layers(told.bits_per_s));
        let warm_up_s = throughput.map_or(0.0, |told| told.warm_up_s);
        PhaseReport {
            way,
            carrier: carriage.phase.carrier.clone(),
            throughput,
            layers,
            sent_again: sent_again(sender),
            delays: Delays::of(within(rounds, carriage.span, warm_up_s)),
            sender: sender.report.clone(),
            receiver: receiver.report.clone(),
        }
    };
    let (near, far) = (&carriage.near, &carriage.far);
    match way(&carriage.phase.carrier) {
        None => Vec::new(),
        Some(Way::Down) => vec![one(Way::Down, far, near)],
        Some(Way::Up) => vec![one(Way::Up, near, far)],
        Some(Way::Both) => vec![one(Way::Down, far, near), one(Way::Up, near, far)],
    }
}

/// Share of what the connections have put on the path that was there before.
fn sent_again(sender: &Outcome) -> Option<f64> {
    let last = sender.counted.iter().map(|counted| counted.at_ns).max()?;
    let last = || sender.counted.iter().filter(|counted| counted.at_ns == last);
    let sent: u64 = last().map(|counted| counted.sent).sum();
    let again: u64 = last().map(|counted| counted.sent_again).sum();
    (sent > 0).then(|| again as f64 / (sent + again) as f64)
}
