//! The plan of a testbed: interfaces, addresses, neighbours and routes. It is computed only from the scenario,
//! without system calls.

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

/// The configuration of a node's kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeWiring {
    /// The name of the node in the scenario, such as `client` or `client#3`.
    pub name: String,
    /// Whether the node forwards packets, because a path leads through it.
    pub forwards: bool,
    /// Routes to addresses that are not at the far end of one of the node's own links.
    pub routes: Vec<NodeRoute>,
    /// The processors to which the node's programs are bound. If empty, they may run on any processor.
    pub cpus: Vec<u32>,
    /// The longest IP packet that the node sends, bytes, if the experiment limits it. `None`: only the links limit it.
    pub mtu: Option<u32>,
    /// The maximum segment size that the node's TCP announces, bytes, if the experiment sets it.
    pub mss: Option<u32>,
}

impl Wiring {
    /// Computes the plan for `scenario`.
    ///
    /// # Errors
    /// If a kernel cannot be configured according to the scenario.
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

    /// The interfaces of a node. Each item is the index of the link and the end of the link at this node.
    pub fn ends_of(&self, node: usize) -> impl Iterator<Item = (usize, &LinkEnd)> {
        let ends =
            self.links.iter().enumerate().flat_map(|(n, wire)| wire.ends.iter().map(move |end| (n, end)));
        ends.filter(move |(_, end)| end.node == node)
    }
}

#[cfg(test)]
mod tests;
