//! Builds a testbed from its wiring.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use netlink_packet_route::link::LinkFlags;

use crate::error::TestbedError;
use crate::namespace::NetworkNamespace;
use crate::netlink::Ethtool;
use crate::netlink::route::{NewRoute, RouteLengths, Rtnetlink, VethEnd};
use crate::sysctl;
use crate::wiring::{LARGEST_MTU, LinkEnd, LinkWiring, NodeWiring, SMALLEST_IPV6_MTU, Wiring, prefix};

/// The interface group of all interfaces of a testbed, so that one request can remove them all. It is used only in
/// namespaces of testbeds.
pub(crate) const GROUP: u32 = 0x6e72;

/// The index of the loopback interface in every namespace (LOOPBACK_IFINDEX of Linux's `net_namespace.h`).
const LOOPBACK: u32 = 1;
/// The number of the first routing table for packets from a certain source. It is also the priority of the rules
/// for these tables. The rule for the main table has priority 32766.
const SOURCE_TABLES: u32 = 1000;

/// How long interfaces may take to become operational (a kernel takes about 1 s), and the interval at which their
/// state is read.
const OPERATION: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(5);

/// Configures the new namespaces according to `wiring`. The journal must already contain all interfaces.
pub(crate) fn build(
    router: &NetworkNamespace,
    nodes: &[NetworkNamespace],
    wiring: &Wiring,
) -> Result<(), TestbedError> {
    sysctl::prepare_router(router)?;
    for (namespace, node) in nodes.iter().zip(&wiring.nodes) {
        sysctl::prepare_node(namespace, node.forwards)?;
        raise(namespace, LOOPBACK, LinkFlags::empty(), LinkFlags::empty())?;
    }
    for wire in &wiring.links {
        let [near, far] = &wire.ends;
        for end in &wire.ends {
            if let Some(name) = &end.router_interface {
                make_pair(router, name, &nodes[end.node], wire, end)?;
            }
        }
        if near.router_interface.is_none() {
            lay_cable(&nodes[near.node], &nodes[far.node], wire)?;
        }
    }
    for wire in &wiring.links {
        let [a, b] = &wire.ends;
        for (end, far) in [(a, b), (b, a)] {
            connect(&nodes[end.node], end, far)?;
        }
    }
    for (place, namespace) in nodes.iter().enumerate() {
        sysctl::set_ipv6_forwarding(namespace, wiring.nodes[place].forwards)?;
        add_ways(namespace, place, wiring)?;
    }
    await_operation(router, nodes, wiring)
}

/// Makes a veth pair between the router and a node, switches its offloads off, and sets the router's end up.
fn make_pair(
    router: &NetworkNamespace,
    router_interface: &str,
    node: &NetworkNamespace,
    wire: &LinkWiring,
    end: &LinkEnd,
) -> Result<(), TestbedError> {
    let action = || format!("make the interfaces {router_interface} and {}", end.interface);
    let file = node.as_fd().try_clone_to_owned();
    let (near, name, mtu) = (end.clone(), router_interface.to_owned(), wire.mtu);
    router.ask(action, move || {
        // The router's end accepts frames of any length, because the node's MTU and the link limit the length.
        let here = VethEnd { name: &name, index: near.index, mtu: LARGEST_MTU as u32, mac: None };
        let there = VethEnd { name: &near.interface, index: near.index, mtu, mac: Some(near.mac) };
        Rtnetlink::open()?.make_veth(&here, &there, file?.as_fd(), GROUP)
    })?;
    switch_off_offloads(router, router_interface)?;
    switch_off_offloads(node, &end.interface)?;
    raise(router, end.index, LinkFlags::empty(), LinkFlags::empty())
}

/// Makes a veth pair between two nodes for a direct link. It keeps its offloads, because only the two kernels
/// handle its frames.
fn lay_cable(
    node: &NetworkNamespace,
    peer: &NetworkNamespace,
    wire: &LinkWiring,
) -> Result<(), TestbedError> {
    let [near, far] = wire.ends.clone();
    let (file, mtu) = (peer.as_fd().try_clone_to_owned(), wire.mtu);
    node.ask(
        || format!("make both interfaces of {}", wire.link),
        move || {
            let here = VethEnd { name: &near.interface, index: near.index, mtu, mac: Some(near.mac) };
            let there = VethEnd { name: &far.interface, index: far.index, mtu, mac: Some(far.mac) };
            Rtnetlink::open()?.make_veth(&here, &there, file?.as_fd(), GROUP)
        },
    )
}

/// Switches off the offloads of an interface. The router forwards frames between veth interfaces, and no hardware
/// completes them. Their checksums must therefore be complete, and they must not be longer than on a wire.
fn switch_off_offloads(namespace: &NetworkNamespace, interface: &str) -> Result<(), TestbedError> {
    let name = interface.to_owned();
    let left = namespace.ask(
        || format!("switch off the offloads of {interface}"),
        move || {
            let mut ethtool = Ethtool::open()?;
            let on = ethtool.offloads(&name)?;
            ethtool.switch_off(&name, &on)?;
            ethtool.offloads(&name)
        },
    )?;
    if left.is_empty() {
        return Ok(());
    }
    let (interface, place) = (interface.to_owned(), namespace.name().to_owned());
    Err(TestbedError::Offloads { interface, place, offloads: left })
}

/// Changes flags of an interface and sets it up.
fn raise(
    namespace: &NetworkNamespace,
    index: u32,
    on: LinkFlags,
    off: LinkFlags,
) -> Result<(), TestbedError> {
    namespace.ask(
        || format!("set interface {index} up"),
        move || {
            let mut kernel = Rtnetlink::open()?;
            if !(on | off).is_empty() {
                kernel.set_flags(index, on, off)?;
            }
            kernel.set_flags(index, LinkFlags::Up, LinkFlags::empty())
        },
    )
}

/// Adds the addresses and the permanent neighbours of a node's interface.
fn connect(node: &NetworkNamespace, end: &LinkEnd, far: &LinkEnd) -> Result<(), TestbedError> {
    let has_ipv6 = end.addresses.iter().any(IpAddr::is_ipv6);
    sysctl::prepare_interface(node, &end.interface, has_ipv6)?;
    // ARP is off, because neighbours are permanent. Multicast is off, so that the kernel announces no group
    // membership.
    raise(node, end.index, LinkFlags::Noarp, LinkFlags::Multicast)?;
    let (near, far) = (end.clone(), far.clone());
    node.ask(
        || format!("give {} its addresses", end.interface),
        move || {
            let mut kernel = Rtnetlink::open()?;
            for address in &near.addresses {
                kernel.add_address(near.index, *address, prefix(address))?;
            }
            far.addresses.iter().try_for_each(|address| kernel.add_neighbour(near.index, *address, far.mac))
        },
    )
}

/// Waits until every interface is operational. Before that, IPv6 is not ready on the interface, and the state of
/// the interface could change during a run.
fn await_operation(
    router: &NetworkNamespace,
    nodes: &[NetworkNamespace],
    wiring: &Wiring,
) -> Result<(), TestbedError> {
    let begun = Instant::now();
    for end in wiring.links.iter().flat_map(|wire| &wire.ends) {
        let routers = end.router_interface.as_ref().map(|name| (router, name));
        for (namespace, name) in routers.into_iter().chain([(&nodes[end.node], &end.interface)]) {
            let index = end.index;
            let action = || format!("read the state of interface {name}");
            while !namespace.ask(action, move || Rtnetlink::open()?.is_running(index))? {
                if begun.elapsed() > OPERATION {
                    return Err(TestbedError::NotTaken {
                        setting: format!("the state of interface {name}"),
                        place: namespace.name().to_owned(),
                        asked: "up".into(),
                        found: format!("not operational after {} s", OPERATION.as_secs()),
                    });
                }
                sleep(GLANCE);
            }
        }
    }
    Ok(())
}

/// Adds the routes of a node, and the rules for the routing tables of certain sources.
fn add_ways(namespace: &NetworkNamespace, node: usize, wiring: &Wiring) -> Result<(), TestbedError> {
    let (routes, sources) = routes(node, wiring);
    for (source, table) in sources.into_iter().zip(SOURCE_TABLES..) {
        let action = || format!("add the rule for packets from {source}");
        namespace.ask(action, move || Rtnetlink::open()?.add_rule(source, table, SOURCE_TABLES))?;
    }
    for route in routes {
        let action = || match route.via {
            Some(via) => format!("add the route to {} by {via}", route.to),
            None => format!("add the route to the neighbour {}", route.to),
        };
        namespace.ask(action, move || Rtnetlink::open()?.add_route(&route))?;
        if !route.lengths.are_usual() && route.table.is_none() {
            check_lengths(namespace, &route)?;
        }
    }
    Ok(())
}

/// Checks that the kernel reports the length limits of a route as they were set.
fn check_lengths(namespace: &NetworkNamespace, route: &NewRoute) -> Result<(), TestbedError> {
    let (to, asked) = (route.to, route.lengths);
    let action = || format!("read the length limits of the route to {to}");
    let found = namespace.ask(action, move || Rtnetlink::open()?.lengths_to(to, None))?;
    if found == asked {
        return Ok(());
    }
    Err(TestbedError::NotTaken {
        setting: format!("the length limits of the route to {to}"),
        place: namespace.name().to_owned(),
        asked: format!("{asked:?}"),
        found: format!("{found:?}"),
    })
}

/// The routes of a node, and the source addresses that have their own routing table. The tables are numbered from
/// [`SOURCE_TABLES`] in the order of the sources.
pub(crate) fn routes(node: usize, wiring: &Wiring) -> (Vec<NewRoute>, Vec<IpAddr>) {
    let (mut routes, mut sources) = (Vec::new(), Vec::new());
    for way in &wiring.nodes[node].routes {
        let Some((_, end)) = wiring.ends_of(node).find(|(link, _)| *link == way.link) else { continue };
        let table = way.from.map(|source| {
            let place = sources.iter().position(|known| *known == source).unwrap_or_else(|| {
                sources.push(source);
                sources.len() - 1
            });
            SOURCE_TABLES + place as u32
        });
        let lengths = lengths(node, way.link, &way.to, wiring);
        routes.push(NewRoute { to: way.to, via: Some(way.via), index: end.index, table, lengths });
    }
    // A neighbour needs a route only if lengths to it are limited.
    for (link, end) in wiring.ends_of(node) {
        let far = wiring.links[link].ends.iter().find(|far| far.node != node);
        for to in far.into_iter().flat_map(|far| far.addresses.iter().copied()) {
            let lengths = lengths(node, link, &to, wiring);
            if !lengths.are_usual() {
                routes.push(NewRoute { to, via: None, index: end.index, table: None, lengths });
            }
        }
    }
    (routes, sources)
}

/// Length limits for packets from a node to `to` over a link. Only limits below the MTU of the link are set.
fn lengths(node: usize, link: usize, to: &IpAddr, wiring: &Wiring) -> RouteLengths {
    let NodeWiring { mtu, mss, .. } = wiring.nodes[node];
    let shorter = mtu.filter(|mtu| *mtu < wiring.links[link].mtu);
    // IPv6 has a minimum MTU. If an IPv4 experiment sets a smaller MTU, IPv6 keeps the MTU of the link.
    let mtu = shorter.filter(|mtu| to.is_ipv4() || u64::from(*mtu) >= SMALLEST_IPV6_MTU);
    RouteLengths { mtu, mss }
}
