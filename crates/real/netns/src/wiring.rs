//! What is to be built, worked out from the scenario alone: interfaces, addresses, neighbours and routes. Pure: it can be
//! looked at, and tested, without a kernel.

mod link;
mod routes;

use netrig_core::Size;
use netrig_experiment::Scenario;

use self::link::wire;
pub(crate) use self::link::{LARGEST_MTU, SMALLEST_IPV6_MTU, prefix};
pub use self::link::{LinkEnd, LinkWiring, WiringError};
pub use self::routes::NodeRoute;

/// Everything that a testbed is built of. Nodes and links stand in the order of the scenario's nodes and links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wiring {
    /// One for each node of the scenario.
    pub nodes: Vec<NodeWiring>,
    /// One for each link of the scenario.
    pub links: Vec<LinkWiring>,
}

/// A node as the kernel shall have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeWiring {
    /// Its name in the scenario: `client`, or `client#3`.
    pub name: String,
    /// Whether it forwards packets of others: a path leads through it.
    pub forwards: bool,
    /// Where it sends packets for addresses that are not at the other end of one of its own links.
    pub routes: Vec<NodeRoute>,
    /// The processors to which what runs on it is bound; any if empty.
    pub cpus: Vec<u32>,
    /// The longest IP packet that it sends, if that is less than its links carry, bytes.
    pub mtu: Option<u32>,
    /// The longest segment that its TCP announces to take, if that is said, bytes.
    pub mss: Option<u32>,
}

impl Wiring {
    /// Works out how `scenario` is built.
    ///
    /// # Errors
    /// If a kernel cannot have it so.
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

    /// The interfaces of a node, as pairs of a wire's place and the end that is the node's.
    pub fn ends_of(&self, node: usize) -> impl Iterator<Item = (usize, &LinkEnd)> {
        let ends =
            self.links.iter().enumerate().flat_map(|(n, wire)| wire.ends.iter().map(move |end| (n, end)));
        ends.filter(move |(_, end)| end.node == node)
    }
}

#[cfg(test)]
mod tests;
