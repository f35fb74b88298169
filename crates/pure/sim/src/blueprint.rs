//! The parts of an end of a flow: its application, its paths, and how it accepts connections.

use std::net::IpAddr;
use std::sync::Arc;

use netrig_core::{Dscp, FiveTuple, Seeds, Size};
use netrig_experiment::{Carrier, Host};
use netrig_traffic::{Application, FlowSide, Reads};
use netrig_transport::sctp::{Listener, PathAddresses};
use netrig_transport::{PathId, tcp};

use crate::actor::EndId;

/// IPv4 and TCP headers without options, bytes.
const HEADERS: u64 = 20 + 20;

/// One of the flow's paths as seen from this end.
pub(crate) struct FlowPath {
    pub name: String,
    pub local: IpAddr,
    pub remote: IpAddr,
    /// Index of the link at this end's own interface.
    pub link: usize,
    /// Index of the first stop towards the other end, in the network's list of stops.
    pub way: u32,
}

/// The fixed parts of an end. The order of the fields is the order in memory: the fields that each packet needs come
/// first.
#[repr(C)]
pub(crate) struct Blueprint {
    pub id: EndId,
    pub flow: u32,
    /// Whether this end sends the flow's data. The sending end reports the state of the paths. The other end counts the
    /// received data.
    pub sends_data: bool,
    /// Whether this end traces changes of the congestion window.
    pub traces: bool,
    /// Whether the application has phases in which it only produces data to send ([`Application::only_offers`]).
    pub offers: bool,
    /// Whether the sink wants the quantities that the application records in these phases.
    pub counts_offers: bool,
    pub side: FlowSide,
    pub paths: Box<[FlowPath]>,
    pub name: String,
    pub carrier: Carrier,
    /// The MSS that TCP announces at this end, if the host sets it.
    pub announced_mss: Option<u16>,
    /// DiffServ code point of all packets from this end.
    pub dscp: Dscp,
    /// Reading rate of the application. `None` if it reads data as soon as it arrives.
    pub reads: Option<Reads>,
    pub acceptor: ConnectionAcceptor,
    /// The port of this end and the port of the other end, for the first connection.
    pub ports: [u16; 2],
    pub seeds: Seeds,
    pub application: Box<dyn Application>,
}

/// How an end accepts connections, by the transport of its flow.
pub(crate) enum ConnectionAcceptor {
    Tcp(Arc<tcp::Config>),
    Sctp(Box<Listener>),
    /// Datagrams have no connections.
    Nothing,
}

/// The address pair of each path, as seen from this end.
pub(crate) fn pairs(paths: &[FlowPath]) -> Vec<PathAddresses> {
    paths.iter().map(|path| PathAddresses { local: path.local, remote: path.remote }).collect()
}

/// A flow's carrier at a host. The MTU of the host limits the MSS, and its window limits the receive buffer.
pub(crate) fn carrier_at(host: &Host, carrier: &Carrier) -> Carrier {
    let Carrier::Tcp(config) = carrier else { return carrier.clone() };
    if host.mtu.is_none() && host.window.is_none() {
        return carrier.clone();
    }
    // The smallest MTU, 68 B, leaves 28 B. Over IPv6 the transport subtracts the additional length of its header.
    let segment = host.mtu.map(|mtu| Size::from_bytes(mtu.bytes() - HEADERS));
    Carrier::Tcp(Arc::new(tcp::Config {
        mss: segment.map_or(config.mss, |segment| segment.min(config.mss)),
        receive_buffer: host.receive_buffer(config),
        ..(**config).clone()
    }))
}

/// The acceptor of an end with these paths. `port` and `dscp` are those of this end.
pub(crate) fn acceptor(
    carrier: &Carrier,
    (port, dscp): (u16, Dscp),
    paths: &[FlowPath],
    seeds: &Seeds,
    name: &str,
) -> ConnectionAcceptor {
    match carrier {
        Carrier::Tcp(config) => ConnectionAcceptor::Tcp(config.clone()),
        Carrier::Sctp(config) => {
            let random = seeds.stream(&format!("flow/{name}/listener"));
            ConnectionAcceptor::Sctp(Box::new(Listener::new(
                config.clone(),
                port,
                pairs(paths),
                dscp,
                random,
            )))
        }
        Carrier::Udp { .. } | Carrier::Mptcp(_) => ConnectionAcceptor::Nothing,
    }
}

/// The first stop for a packet, from the path with the packet's addresses.
#[inline(always)]
pub(crate) fn way_of(paths: &[FlowPath], flow: &FiveTuple) -> u32 {
    if let [only] = paths {
        return only.way;
    }
    let named = |path: &&FlowPath| path.local == flow.src && path.remote == flow.dst;
    // An association may use any pair of addresses of its two ends. The source address decides the path of such a
    // packet.
    paths
        .iter()
        .find(named)
        .or_else(|| paths.iter().find(|path| path.local == flow.src))
        .unwrap_or(&paths[0])
        .way
}

pub(crate) fn name_of(paths: &[FlowPath], path: PathId) -> &str {
    paths.get(usize::from(path.0)).map_or("?", |path| &path.name)
}
