//! Which flow a frame belongs to, for what only the network can count of a connection.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use netrig_core::{Duration, Instant, PacketMeta, Quantity, Sample, Sink, Subject, protocol, quantity};
use netrig_experiment::{Carrier, Flow, Route, Scenario};

use super::parcel::Parcel;
use crate::ftp;

/// Counts the IP bytes of TCP segments with data that reach the receiving hosts of flows, and tells when they pause: a
/// socket counts only what is in them, and hears of it when all that was sent before is there.
pub(crate) struct Recognition {
    /// By the address that the flow's second end listens on for data.
    flows: BTreeMap<SocketAddr, WatchedFlow>,
    wire_bytes: Vec<u64>,
    /// When data last came, by flow.
    last_data: Vec<Option<Instant>>,
    /// Moments since the last tick.
    marks: Vec<(Subject, Sample)>,
    /// Data that stays away for longer has paused.
    pause: Duration,
}

#[derive(Clone, Copy)]
struct WatchedFlow {
    flow: u32,
    /// The node that receives the flow's data.
    receiver: usize,
}

impl Recognition {
    /// Recognises the connections of `scenario`.
    pub fn new(scenario: &Scenario) -> Self {
        let mut flows = BTreeMap::new();
        for (flow, number) in scenario.flows.iter().zip(0..) {
            if !Self::watches(scenario, flow) {
                continue;
            }
            let receiver = receiver(flow);
            for path in &flow.paths {
                let last = path.hops.last().and_then(|hop| scenario.address(flow.to, hop.link));
                let port =
                    if ftp::of(flow).is_some() { ftp::data_port(number) } else { flow.server_port(number) };
                let listens = last.map(|address: IpAddr| SocketAddr::from((address, port)));
                flows.extend(listens.map(|at| (at, WatchedFlow { flow: number, receiver })));
            }
        }
        Self {
            flows,
            wire_bytes: vec![0; scenario.flows.len()],
            last_data: vec![None; scenario.flows.len()],
            marks: Vec::new(),
            pause: scenario.sample_every,
        }
    }

    /// Whether it counts what comes of a flow, and tells when that pauses: not if that comes out of a cable.
    pub fn watches(scenario: &Scenario, flow: &Flow) -> bool {
        let answers = flow.application.answers();
        let comes_by = |path: &Route| if answers { path.hops.first() } else { path.hops.last() }.copied();
        let mut last = flow.paths.iter().filter_map(comes_by);
        is_tcp(flow) && !last.any(|hop| scenario.links[hop.link].is_direct())
    }

    /// A frame reaches a node.
    pub fn delivered(&mut self, at: Instant, node: usize, parcel: &Parcel) {
        let header = parcel.header();
        if self.flows.is_empty() || header.flow.protocol != protocol::TCP {
            return;
        }
        let to_server = SocketAddr::from((header.flow.dst, header.flow.dst_port));
        let from_server = SocketAddr::from((header.flow.src, header.flow.src_port));
        let watched = self.flows.get(&to_server).or_else(|| self.flows.get(&from_server));
        if let Some(WatchedFlow { flow, .. }) = watched.filter(|watched| watched.receiver == node)
            && has_data(parcel)
        {
            let flow = *flow;
            self.wire_bytes[flow as usize] += u64::from(header.ip_len);
            self.data_arrived(at, flow);
        }
    }

    /// A segment with data reached its host.
    fn data_arrived(&mut self, at: Instant, flow: u32) {
        let last = self.last_data[flow as usize].replace(at);
        let paused = last.filter(|last| at.since(*last) > self.pause);
        if let Some(last) = paused {
            self.mark(last, flow, &quantity::DATA_PAUSED);
        }
        if last.is_none() || paused.is_some() {
            self.mark(at, flow, &quantity::DATA_RESUMED);
        }
    }

    fn mark(&mut self, at: Instant, flow: u32, quantity: &'static Quantity) {
        self.marks.push((Subject::Flow(flow), Sample { at, quantity, value: 0.0 }));
    }

    /// The run is over: the last that came was the last.
    pub fn finish(&mut self) {
        for flow in 0..self.last_data.len() {
            if let Some(last) = self.last_data[flow] {
                // At most 10,000 flows.
                self.mark(last, flow as u32, &quantity::DATA_PAUSED);
            }
        }
    }

    /// Reports what was counted since the last tick.
    pub fn tick(&mut self, at: Instant, sink: &mut dyn Sink) {
        self.marks.drain(..).for_each(|(subject, sample)| sink.sample(subject, sample));
        for (bytes, flow) in self.wire_bytes.iter_mut().zip(0..).filter(|(bytes, _)| **bytes > 0) {
            let value = std::mem::take(bytes) as f64;
            sink.sample(Subject::Flow(flow), Sample { at, quantity: &quantity::WIRE_BYTES, value });
        }
    }
}

/// Whether a kernel's TCP carries a flow.
pub(crate) fn is_tcp(flow: &Flow) -> bool {
    matches!(flow.carrier, Carrier::Tcp(_) | Carrier::Mptcp(_))
}

/// The node that receives the data of a flow.
fn receiver(flow: &Flow) -> usize {
    if flow.application.answers() { flow.from } else { flow.to }
}

/// Whether a TCP segment carries data: it is longer than its headers.
fn has_data(parcel: &Parcel) -> bool {
    // "Data Offset: The number of 32-bit words in the TCP header" (RFC 9293 section 3.1).
    let header = parcel.payload().get(12).map_or(0, |octet| u32::from(octet >> 4) * 4);
    parcel.ip().payload_len() > header
}
