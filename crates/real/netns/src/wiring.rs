//! The plan of a testbed, computed from the scenario alone: interfaces, addresses, neighbours and routes. It
//! is pure and can be tested without a kernel.

mod link;
mod routes;

use netrig_core::Size;
use netrig_experiment::Scenario;

use self::link::wire;
pub(crate) use self::link::{LARGEST_MTU, SMALLEST_IPV6_MTU, prefix};
pub use self::link::{LinkEnd, LinkWiring, WiringError};
pub use self::routes::NodeRoute;

/// The plan of a testbed. Nodes and links are in the scenario's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wiring {
    /// One per node of the scenario.
    pub nodes: Vec<NodeWiring>,
    /// One per link of the scenario.
    pub links: Vec<LinkWiring>,
}

/// A node as the kernel is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeWiring {
    /// Its name in the scenario: `client`, or `client#3`.
    pub name: String,
    /// Whether it forwards packets: a path leads through it.
    pub forwards: bool,
    /// Routes to addresses that are not at the far end of one of its own links.
    pub routes: Vec<NodeRoute>,
    /// The processors to which its programs are bound. Empty: any processor.
    pub cpus: Vec<u32>,
    /// The longest IP packet that it sends, bytes. `None` if its links set no smaller limit.
    pub mtu: Option<u32>,
    /// The maximum segment size that its TCP announces, bytes, if the experiment sets one.
    pub mss: Option<u32>,
}

impl Wiring {
    /// Computes how `scenario` is built.
    ///
    /// # Errors
    /// If a kernel cannot be configured so.
    pub fn new(scenario: &Scenario) -> Result<Self, WiringError> {
        let links: Vec<_> =
            scenario.links.iter().enumerate().map(|(n, link)| wire(n, link)).collect::<Result<_, _>>()?;
        let names: Vec<_> = scenario.nodes.iter().map(|node| node.name.as_str()).collect();
        let paths =
            scenario.flows.iter().flat_map(|flow| flow.paths.iter().map(move |path| (flow.from, path)));
        let table = routes::RoutingTables::new(&names, &links, paths)?;
        let bytes = |size: Option<Size>| size.map(|size| size.bytes().min(LARGEST_MTU) as u32);
        let nodes = table.into_nodes().zip(&scenario.nodes).map(|((forwards, routes), node)| NodeWiring {
            name: node.name.clone(),
            forwards,
            routes,
            cpus: node.cpus.clone(),
            mtu: bytes(node.host.mtu),
            mss: bytes(node.host.mss),
        });
        Ok(Self { nodes: nodes.collect(), links })
    }

    /// The interfaces of a node: the index of the link, and the end at the node.
    pub fn ends_of(&self, node: usize) -> impl Iterator<Item = (usize, &LinkEnd)> {
        let ends =
            self.links.iter().enumerate().flat_map(|(n, wire)| wire.ends.iter().map(move |end| (n, end)));
        ends.filter(move |(_, end)| end.node == node)
    }
}

#[cfg(test)]
mod tests;
