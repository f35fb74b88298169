//! What an end of a flow is made of: its application, its paths, and how it opens and answers connections.

use std::net::IpAddr;
use std::sync::Arc;

use netrig_core::{Dscp, FiveTuple, Seeds, Size};
use netrig_experiment::{Carrier, Host};
use netrig_traffic::{Application, Reads};
use netrig_transport::sctp::{Listener, PathAddresses};
use netrig_transport::{PathId, tcp};

use crate::actor::{EndId, FlowSide};

/// Of IPv4 and TCP without options, bytes.
const HEADERS: u64 = 20 + 20;

/// One of the flow's paths as this end sees it.
pub(crate) struct FlowPath {
    pub name: String,
    pub local: IpAddr,
    pub remote: IpAddr,
    /// The link of this end's own interface.
    pub link: usize,
    /// The way to the other end.
    pub way: u32,
}

/// What an end is made of. The order of the fields is that of the memory: what each packet needs comes first.
#[repr(C)]
pub(crate) struct Blueprint {
    pub id: EndId,
    pub flow: u32,
    /// Whether the flow's data leaves from here: then this end's view of the paths is told, and what the other end
    /// gets is what counts.
    pub sends_data: bool,
    /// Whether changes of the window are traced, at this end.
    pub traces: bool,
    /// Whether there are times at which the application only offers data ([`Application::only_offers`]).
    pub offers: bool,
    /// Whether somebody wants to know what it offers then.
    pub counts_offers: bool,
    pub side: FlowSide,
    pub paths: Box<[FlowPath]>,
    pub name: String,
    pub carrier: Carrier,
    /// The longest segment that its TCP announces to take, if its host says so.
    pub announced_mss: Option<u16>,
    /// DiffServ code point of all packets that it sends.
    pub dscp: Dscp,
    /// How fast its application reads; at once, if nothing is said.
    pub reads: Option<Reads>,
    pub acceptor: ConnectionAcceptor,
    /// Own port and the other end's; of several connections the first's.
    pub ports: [u16; 2],
    pub seeds: Seeds,
    pub application: Box<dyn Application>,
}

/// The two ways in which an end answers a call, by its flow's transport.
pub(crate) enum ConnectionAcceptor {
    Tcp(Arc<tcp::Config>),
    Sctp(Box<Listener>),
    /// Datagrams need no answer.
    Nothing,
}

/// The addresses of an end's paths.
pub(crate) fn pairs(paths: &[FlowPath]) -> Vec<PathAddresses> {
    paths.iter().map(|path| PathAddresses { local: path.local, remote: path.remote }).collect()
}

/// A flow's carrier as a host has it: it sends and takes no longer segments than its MTU leaves, and offers its window.
pub(crate) fn carrier_at(host: &Host, carrier: &Carrier) -> Carrier {
    let Carrier::Tcp(config) = carrier else { return carrier.clone() };
    if host.mtu.is_none() && host.window.is_none() {
        return carrier.clone();
    }
    // Of the least MTU, 68 B, 28 B are left; over IPv6 the transport takes off what its header is longer.
    let segment = host.mtu.map(|mtu| Size::from_bytes(mtu.bytes() - HEADERS));
    Carrier::Tcp(Arc::new(tcp::Config {
        mss: segment.map_or(config.mss, |segment| segment.min(config.mss)),
        receive_buffer: host.receive_buffer(config),
        ..(**config).clone()
    }))
}

/// How an end with these paths answers calls.
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

/// The way of the path that a packet's addresses name.
#[inline(always)]
pub(crate) fn way_of(paths: &[FlowPath], flow: &FiveTuple) -> u32 {
    if let [only] = paths {
        return only.way;
    }
    let named = |path: &&FlowPath| path.local == flow.src && path.remote == flow.dst;
    // An association may pair any two addresses of its ends; the source decides where such a packet leaves.
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
