//! Assigns delivered frames to flows, for quantities that a socket cannot measure.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use netrig_core::{Duration, Instant, PacketMeta, Quantity, Sample, Sink, Subject, protocol, quantity};
use netrig_experiment::{Carrier, Flow, Route, Scenario};

use super::parcel::Parcel;
use crate::ftp;

/// Counts the IP bytes of TCP data segments that reach the receivers of flows, and records pauses of the data. A
/// socket counts only payload, and it reports a segment only after all earlier segments have arrived.
pub(crate) struct Recognition {
    /// The watched flows, by the address at which the flow's server listens for data.
    flows: BTreeMap<SocketAddr, WatchedFlow>,
    wire_bytes: Vec<u64>,
    /// When data last arrived, for each flow.
    last_data: Vec<Option<Instant>>,
    /// Starts and ends of pauses since the last sampling tick.
    marks: Vec<(Subject, Sample)>,
    /// If no data arrives for longer than this, the flow has a pause.
    pause: Duration,
}

#[derive(Clone, Copy)]
struct WatchedFlow {
    flow: u32,
    receiver: usize,
}

impl Recognition {
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

    /// Whether a flow is watched: it must use TCP, and the last link before its receiver must not be direct.
    pub fn watches(scenario: &Scenario, flow: &Flow) -> bool {
        let answers = flow.application.answers();
        let comes_by = |path: &Route| if answers { path.hops.first() } else { path.hops.last() }.copied();
        let mut last = flow.paths.iter().filter_map(comes_by);
        is_tcp(flow) && !last.any(|hop| scenario.links[hop.link].is_direct())
    }

    /// Records a frame that was delivered to a node.
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

    /// Records a data segment of a flow that was delivered to the receiver.
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

    /// Ends the run: the last pause of each flow starts with its last data segment.
    pub fn finish(&mut self) {
        for flow in 0..self.last_data.len() {
            if let Some(last) = self.last_data[flow] {
                // At most 10,000 flows.
                self.mark(last, flow as u32, &quantity::DATA_PAUSED);
            }
        }
    }

    /// Reports the bytes and pauses since the last sampling tick.
    pub fn tick(&mut self, at: Instant, sink: &mut dyn Sink) {
        self.marks.drain(..).for_each(|(subject, sample)| sink.sample(subject, sample));
        for (bytes, flow) in self.wire_bytes.iter_mut().zip(0..).filter(|(bytes, _)| **bytes > 0) {
            let value = std::mem::take(bytes) as f64;
            sink.sample(Subject::Flow(flow), Sample { at, quantity: &quantity::WIRE_BYTES, value });
        }
    }
}

/// Whether the kernel's TCP or MPTCP carries a flow.
pub(crate) fn is_tcp(flow: &Flow) -> bool {
    matches!(flow.carrier, Carrier::Tcp(_) | Carrier::Mptcp(_))
}

fn receiver(flow: &Flow) -> usize {
    if flow.application.answers() { flow.from } else { flow.to }
}

/// Whether a TCP segment carries data: it is longer than its headers.
fn has_data(parcel: &Parcel) -> bool {
    // "Data Offset: The number of 32-bit words in the TCP header" (RFC 9293 section 3.1).
    let header = parcel.payload().get(12).map_or(0, |octet| u32::from(octet >> 4) * 4);
    parcel.ip().payload_len() > header
}
