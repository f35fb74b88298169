//! The orders for the agents of a run, computed from its scenario.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use netrig_agent::{CarrierOptions, EndOrder, RunOrder, SctpOptions, SctpPath, TimedControl};
use netrig_core::{Duration, Size};
use netrig_experiment::{
    Action, ArrivesAt, Carrier, Flow, Fragmentation, LinkSettings, Route, Run, Scenario, Sockets, TimedEvent,
    Unsupported,
};
use netrig_host::SHORT_LEN;
use netrig_host::socket::{Buffers, UdpOptions};
use netrig_traffic::FlowSide;
use netrig_transport::sctp::Encapsulation;
use netrig_transport::{Control, PathId, tcp};

use crate::error::unsupported;
use crate::ftp;
use crate::host;
use crate::interfaces::TOO_LATE;
use crate::kernel_tcp::KernelTcp;
use crate::multipath;
use crate::processors;
use crate::sip;
use crate::sysctl::agree;

/// Receive buffer of a datagram socket, bytes. It is larger than the amount of data that arrives while the scheduler
/// delays the reader.
const DATAGRAM_BUFFER: u32 = 8 << 20;

/// Length of the IPv4 and TCP headers without options, bytes.
const TCP_IPV4_HEADERS: u64 = 20 + 20;

/// The minimum of TCP_WINDOW_CLAMP, which is half of SOCK_MIN_RCVBUF (include/net/sock.h, on 64 bits).
const LEAST_WINDOW: Size = Size::from_bytes((2048 + 256) / 2);

/// The orders of a run, by the index of the node. A node without an end of a flow has no order.
///
/// # Errors
/// If the kernel does not support the scenario.
pub(crate) fn orders(run: &Run) -> Result<BTreeMap<usize, RunOrder>, Unsupported> {
    sip::check_tests(&run.scenario)?;
    let scenario = &*run.scenario;
    check_topology(scenario)?;
    multipath::multipath(scenario)?;
    check_datagrams_of_sctp(scenario)?;
    let mut orders: BTreeMap<usize, RunOrder> = BTreeMap::new();
    for (flow, number) in scenario.flows.iter().zip(0..) {
        check_lengths(scenario, flow)?;
        let has_server = match flow.application.sip() {
            Some(sip) => sip::has_server(scenario, number, flow, sip)?,
            None => ftp::of(flow).is_none(),
        };
        if ftp::of(flow).is_some() {
            serve(run, flow, &mut orders)?;
        }
        for (side, node) in [(FlowSide::Server, flow.to), (FlowSide::Client, flow.from)] {
            let (carrier, sysctls) = carrier_of(scenario, flow, side)?;
            let order = orders.entry(node).or_insert_with(|| idle(run, node));
            if has_server || side == FlowSide::Client {
                let names = sip::names(scenario, flow)?.map(|(_, names)| names);
                order.ends.push(EndOrder { names, ..end(scenario, flow, number, side, carrier)? });
            }
            let name = &scenario.nodes[node].name;
            sysctls.iter().try_for_each(|setting| agree(&mut order.sysctls, setting, name))?;
        }
        if let Some((node, names)) = sip::name_server(scenario, number, flow)? {
            let (carrier, _) = carrier_of(scenario, flow, FlowSide::Server)?;
            let own = end(scenario, flow, number, FlowSide::Server, carrier)?;
            let order = orders.entry(node).or_insert_with(|| idle(run, node));
            order.ends.push(EndOrder { names: Some(names), ..own });
        }
    }
    Ok(orders)
}

/// Adds the settings of an FTP server's transport to the order of its node.
fn serve(run: &Run, flow: &Flow, orders: &mut BTreeMap<usize, RunOrder>) -> Result<(), Unsupported> {
    let (CarrierOptions::Tcp(options), _) = carrier_of(&run.scenario, flow, FlowSide::Server)? else {
        return Ok(());
    };
    let sysctls = ftp::server_sysctls(flow, options.buffers.receive, options.congestion.as_deref())?;
    let order = orders.entry(flow.to).or_insert_with(|| idle(run, flow.to));
    let name = &run.scenario.nodes[flow.to].name;
    sysctls.iter().try_for_each(|setting| agree(&mut order.sysctls, setting, name))
}

/// An order for a node, without ends of flows.
fn idle(run: &Run, node: usize) -> RunOrder {
    let Scenario { duration, sample_every, .. } = *run.scenario;
    let host = &run.scenario.nodes[node].host;
    RunOrder {
        seed: run.seed,
        duration_ns: duration.as_nanos(),
        grace_ns: grace(&run.scenario).as_nanos(),
        sample_every_ns: sample_every.as_nanos(),
        // The testbed has already set these sysctls. A transport that needs another value is refused.
        sysctls: host::sysctls(host).map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        constrained: host.is_constrained(),
        ends: Vec::new(),
    }
}

/// How long datagrams may be in transit after the end of the run: the delay of the longest path plus 1 s for queues.
pub(crate) fn grace(scenario: &Scenario) -> Duration {
    let delay = |flow: &Flow| {
        let of_path = |path: &Route| {
            path.hops.iter().fold(Duration::ZERO, |sum, hop| {
                sum + scenario.links[hop.link].towards(hop.direction).delay()
            })
        };
        flow.paths.iter().map(of_path).fold(Duration::ZERO, Duration::max)
    };
    Duration::from_secs(1) + scenario.flows.iter().map(delay).fold(Duration::ZERO, Duration::max)
}

/// Checks that the kernel and the router support the links, nodes and events of a scenario.
///
/// # Errors
/// If one of them is not supported.
pub(crate) fn check_topology(scenario: &Scenario) -> Result<(), Unsupported> {
    let wifi = |settings: &LinkSettings| matches!(settings, LinkSettings::Wifi(_));
    if let Some(link) = scenario.links.iter().find(|link| wifi(&link.forward) || wifi(&link.backward)) {
        return unsupported(format!("link `{}` is WiFi, which only the simulator has", link.name));
    }
    processors::check(scenario)?;
    host::check(scenario)?;
    if let Some(node) = scenario.nodes.iter().find(|node| node.receive.is_some()) {
        return unsupported(format!(
            "node `{}` has a time for receiving packets, which only the simulator can set",
            node.name
        ));
    }
    Ok(())
}

/// Checks that no two flows use SCTP in UDP between the same addresses. A host has only one UDP port for SCTP, and the
/// kernel delivers all datagrams between two addresses to one socket.
fn check_datagrams_of_sctp(scenario: &Scenario) -> Result<(), Unsupported> {
    let mut known = BTreeMap::new();
    let in_udp = |flow: &&Flow| matches!(&flow.carrier, Carrier::Sctp(config) if config.encapsulation == Encapsulation::Udp);
    for flow in scenario.flows.iter().filter(in_udp) {
        for addresses in multipath::addresses(scenario, flow) {
            if let Some(other) = known.insert(addresses, &flow.name) {
                return unsupported(format!(
                    "flows `{other}` and `{}` have SCTP in UDP between {} and {}, but a host has one port for it",
                    flow.name, addresses.0, addresses.1
                ));
            }
        }
    }
    Ok(())
}

/// The options of a flow's sockets, and the sysctls for the kernels of both ends.
fn carrier_of(
    scenario: &Scenario,
    flow: &Flow,
    side: FlowSide,
) -> Result<(CarrierOptions, Vec<(String, String)>), Unsupported> {
    let datagram = flow.application.datagram();
    match &flow.carrier {
        Carrier::Udp { headers: false } => unsupported(format!(
            "flow `{}` has datagrams without headers, which a kernel cannot send (transport `{}`)",
            flow.name, flow.transport
        )),
        Carrier::Udp { .. } if datagram.is_none() => unsupported(format!(
            "flow `{}` needs a connection, but its transport `{}` is UDP",
            flow.name, flow.transport
        )),
        Carrier::Udp { .. } if datagram.is_some_and(|mean| mean < SHORT_LEN as f64) => unsupported(format!(
            "the datagrams of flow `{}` have no room for their {SHORT_LEN} B of sequence number and time stamp",
            flow.name
        )),
        Carrier::Udp { .. } => {
            let Sockets { send_buffer, receive_buffer, arrives_at } = flow.sockets;
            let receive = receive_buffer.map_or(Some(DATAGRAM_BUFFER), in_bytes);
            let options = UdpOptions {
                buffers: Buffers { send: send_buffer.and_then(in_bytes), receive },
                limited: receive_buffer.is_some(),
                until_read: arrives_at == ArrivesAt::Program,
                uncut: false,
            };
            Ok((CarrierOptions::Udp(options), Vec::new()))
        }
        Carrier::Tcp(config) => {
            let KernelTcp { options, sysctls } = tcp_at(scenario, flow, side, config)?;
            Ok((CarrierOptions::Tcp(options), sysctls))
        }
        Carrier::Sctp(config) => {
            let path =
                |(path, (client, server)): (&Route, _)| SctpPath { name: path.name.clone(), client, server };
            let paths = flow.paths.iter().zip(multipath::addresses(scenario, flow)).map(path).collect();
            let options = SctpOptions { config: (**config).clone(), paths, controls: Vec::new() };
            Ok((CarrierOptions::Sctp(Box::new(options)), Vec::new()))
        }
        Carrier::Mptcp(_) if switches_primary(scenario, flow) => unsupported(format!(
            "flow `{}` is Multipath TCP (transport `{}`), which has no primary path to switch",
            flow.name, flow.transport
        )),
        // The kernels of both nodes have been configured for Multipath TCP when the testbed was built.
        Carrier::Mptcp(mptcp) => {
            let KernelTcp { mut options, sysctls } = tcp_at(scenario, flow, side, &mptcp.tcp)?;
            options.multipath = true;
            // The window is not clamped, because only the sockets of subflows have a window.
            options.window_clamp = None;
            Ok((CarrierOptions::Tcp(options), sysctls))
        }
    }
}

/// The settings of TCP at one end of a flow. The window is that of this host, and the receive buffer has room for
/// segments of the length that the peer sends.
fn tcp_at(
    scenario: &Scenario,
    flow: &Flow,
    side: FlowSide,
    config: &tcp::Config,
) -> Result<KernelTcp, Unsupported> {
    let [own, peer] = match side {
        FlowSide::Client => [flow.from, flow.to],
        FlowSide::Server => [flow.to, flow.from],
    }
    .map(|place| &scenario.nodes[place]);
    let of_mtu = |mtu: Size| Size::from_bytes(mtu.bytes().saturating_sub(TCP_IPV4_HEADERS));
    let longest = [own.host.mss, own.host.mtu.map(of_mtu), peer.host.mtu.map(of_mtu)];
    let segment = longest.into_iter().flatten().fold(config.mss, Size::min);
    let window = own.host.receive_buffer(config);
    if window < LEAST_WINDOW {
        return unsupported(format!(
            "node `{}` offers a window of {window} in flow `{}`, below the minimum of {LEAST_WINDOW} (TCP_WINDOW_CLAMP)",
            own.name, flow.name
        ));
    }
    let config = tcp::Config { receive_buffer: window, ..config.clone() };
    let mut tcp = KernelTcp::of(&config, segment, &flow.transport)?;
    tcp.options.buffers.send = flow.sockets.send_buffer.and_then(in_bytes);
    Ok(tcp)
}

/// A size as the value of a socket option. The parser of the experiment file refuses sizes that do not fit.
fn in_bytes(size: Size) -> Option<u32> {
    u32::try_from(size.bytes()).ok()
}

/// Checks that the packets of an association fit into the MTU of its nodes. The packets must not be fragmented, and a
/// kernel refuses longer packets.
fn check_lengths(scenario: &Scenario, flow: &Flow) -> Result<(), Unsupported> {
    let Carrier::Sctp(config) = &flow.carrier else { return Ok(()) };
    for node in [flow.from, flow.to].map(|place| &scenario.nodes[place]) {
        if let Some(mtu) = node.host.mtu.filter(|mtu| *mtu < config.mtu) {
            return unsupported(format!(
                "node `{}` sends packets up to {mtu}, but transport `{}` makes them up to {}: give the transport that `mtu`",
                node.name, flow.transport, config.mtu
            ));
        }
    }
    Ok(())
}

/// Whether an event switches the primary path of a flow.
fn switches_primary(scenario: &Scenario, flow: &Flow) -> bool {
    FlowSide::BOTH.into_iter().any(|side| {
        let controls = controls(scenario, flow, side);
        controls.iter().any(|timed| matches!(timed.control, Control::SetPrimary(_)))
    })
}

/// The scheduled events for the associations at one end of a flow. They come from the scenario's events at the node of
/// this end that concern the first link of a path.
fn controls(scenario: &Scenario, flow: &Flow, side: FlowSide) -> Vec<TimedControl> {
    let (here, first): (usize, fn(&Route) -> Option<usize>) = match side {
        FlowSide::Client => (flow.from, |path| path.hops.first().map(|hop| hop.link)),
        FlowSide::Server => (flow.to, |path| path.hops.last().map(|hop| hop.link)),
    };
    let control_of = |action: &Action| {
        let (node, link, control): (_, _, fn(PathId) -> Control) = match *action {
            Action::Link { .. } => return None,
            Action::SetPrimary { node, link } => (node, link, Control::SetPrimary),
            Action::Interface { node, link, up: true } => (node, link, Control::InterfaceUp),
            Action::Interface { node, link, up: false } => (node, link, Control::InterfaceDown),
        };
        let path = flow.paths.iter().position(|path| first(path) == Some(link)).filter(|_| node == here)?;
        Some(control(PathId(path as u8)))
    };
    let timed = |event: &TimedEvent| {
        let control = control_of(&event.action)?;
        // The association may send immediately, so the interface must already be up. After the time `TOO_LATE`, either
        // the kernel has set it up, or the run is invalid.
        let after = if matches!(control, Control::InterfaceUp(_)) { TOO_LATE } else { Duration::ZERO };
        Some(TimedControl { at_ns: (event.at + after).as_nanos(), control })
    };
    scenario.events.iter().filter_map(timed).collect()
}

fn end(
    scenario: &Scenario,
    flow: &Flow,
    number: u32,
    side: FlowSide,
    mut carrier: CarrierOptions,
) -> Result<EndOrder, Unsupported> {
    let paths = multipath::addresses(scenario, flow);
    let Some(&(client, server)) = paths.first() else {
        return unsupported(format!("flow `{}` has no path", flow.name));
    };
    match &mut carrier {
        CarrierOptions::Tcp(options) if options.multipath => {
            let seen_from =
                |(near, far): (_, _)| if side == FlowSide::Client { (near, far) } else { (far, near) };
            options.paths = paths.into_iter().map(seen_from).collect();
        }
        CarrierOptions::Sctp(options) => options.controls = controls(scenario, flow, side),
        CarrierOptions::Udp(options) => {
            let node = if side == FlowSide::Client { flow.from } else { flow.to };
            options.uncut = scenario.nodes[node].host.fragmentation == Fragmentation::Never;
        }
        CarrierOptions::Tcp(_) => {}
    }
    Ok(EndOrder {
        flow: number,
        name: flow.name.clone(),
        side,
        application: flow.application.clone(),
        carrier,
        client,
        server: SocketAddr::from((server, flow.server_port(number))),
        dscp: flow.code_points()[side as usize].0,
        start_ns: flow.start.as_nanos(),
        stop_ns: flow.stop.as_nanos(),
        datagram_headers: flow.rate_headers(),
        names: None,
        keep: None,
        // Only the receiving end reads slowly.
        reads: flow.reads.filter(|_| (side == FlowSide::Client) == flow.application.answers()),
    })
}
