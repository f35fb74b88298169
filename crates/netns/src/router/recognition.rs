//! Which flow a frame belongs to, for what only the network can count of a connection.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use netrig_core::{Instant, PacketMeta, Sample, Sink, Subject, protocol, quantity};
use netrig_experiment::{Carrier, Scenario};

use super::parcel::Parcel;
use crate::orders::server_port;

/// Counts the IP bytes of TCP segments with data that reach the receiving hosts of flows; a socket counts only what is in
/// them.
pub(crate) struct Recognition {
    /// By the address that the flow's second end listens on.
    flows: BTreeMap<SocketAddr, Watched>,
    wire_bytes: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Watched {
    flow: u32,
    /// The node that receives the flow's data.
    receiver: usize,
}

impl Recognition {
    /// Recognises the connections of `scenario`.
    pub fn new(scenario: &Scenario) -> Self {
        let mut flows = BTreeMap::new();
        for (flow, number) in scenario.flows.iter().zip(0..) {
            if !matches!(flow.carrier, Carrier::Tcp(_) | Carrier::Mptcp(_)) {
                continue;
            }
            let receiver = if flow.application.answers() { flow.from } else { flow.to };
            for path in &flow.paths {
                let last = path.hops.last().and_then(|hop| scenario.address(flow.to, hop.link));
                let listens = last.map(|address: IpAddr| SocketAddr::from((address, server_port(number))));
                flows.extend(listens.map(|at| (at, Watched { flow: number, receiver })));
            }
        }
        Self { flows, wire_bytes: vec![0; scenario.flows.len()] }
    }

    /// A frame reaches a node.
    pub fn delivered(&mut self, node: usize, parcel: &Parcel) {
        let header = parcel.header();
        if self.flows.is_empty() || header.flow.protocol != protocol::TCP {
            return;
        }
        let to_server = SocketAddr::from((header.flow.dst, header.flow.dst_port));
        let from_server = SocketAddr::from((header.flow.src, header.flow.src_port));
        let watched = self.flows.get(&to_server).or_else(|| self.flows.get(&from_server));
        if let Some(Watched { flow, .. }) = watched.filter(|watched| watched.receiver == node)
            && has_data(parcel)
        {
            self.wire_bytes[*flow as usize] += u64::from(header.ip_len);
        }
    }

    /// Reports what was counted since the last tick.
    pub fn tick(&mut self, at: Instant, sink: &mut dyn Sink) {
        for (bytes, flow) in self.wire_bytes.iter_mut().zip(0..).filter(|(bytes, _)| **bytes > 0) {
            let value = std::mem::take(bytes) as f64;
            sink.sample(Subject::Flow(flow), Sample { at, quantity: &quantity::WIRE_BYTES, value });
        }
    }
}

/// Whether a TCP segment carries data: it is longer than its headers.
fn has_data(parcel: &Parcel) -> bool {
    let header = parcel.header();
    let ip = if header.flow.src.is_ipv4() {
        usize::from(parcel.packet()[0] & 0x0f) * 4
    } else {
        header.flow.ip_header_len() as usize
    };
    // "Data Offset: The number of 32-bit words in the TCP header" (RFC 9293 section 3.1).
    let offset = parcel.packet().get(ip + 12).map_or(0, |octet| usize::from(octet >> 4) * 4);
    header.ip_len as usize > ip + offset
}
