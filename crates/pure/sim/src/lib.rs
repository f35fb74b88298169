//! The simulator: a run in virtual time, on netrig's own models of links and transports.
//!
//! It never reads a clock, draws random numbers only from named streams, and does no I/O. So the same run produces the
//! same output bytes on any machine.
//!
//! Start from [`Simulator`], which is a [`Substrate`]. Inside, [`agenda`] is the event queue. [`network`] moves packets
//! over wires, [`air`] over WiFi channels, [`cables`] over cables without delay, and [`host`] through nodes with a
//! receive service time. [`tap`] captures the packets that pass a node. [`flow_end`] connects an application to its
//! connections, and [`simulation`] runs the whole scenario.
#![forbid(unsafe_code)]

mod actor;
mod agenda;
mod air;
mod blueprint;
mod cables;
mod datagrams;
mod flow_end;
mod flow_record;
mod host;
mod merge;
mod network;
mod opening;
mod parcel;

mod simulation;
mod tap;
mod transport_endpoint;

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use netrig_core::{Sink, Size};
use netrig_experiment::{Carrier, Flow, Route, Run, RunError, RunOutcome, Scenario, Substrate, Unsupported};
use netrig_sip::settings::{LargeRequests, LoadSettings};
use netrig_traffic::{Settings, UDP_IPV4_HEADERS};
use netrig_transport::tcp::Congestion;

/// Checks that the SIP users need no feature that only a real substrate has.
fn check_sip(flow: &Flow, sip: &LoadSettings) -> Result<(), Unsupported> {
    let name = &flow.name;
    if !matches!(flow.carrier, Carrier::Udp { .. }) {
        return Err(Unsupported(format!(
            "the simulator has SIP over UDP only, and flow `{name}` uses `{}`; `--on netns` has TCP and TLS",
            flow.transport
        )));
    }
    if sip.located_by().is_some() {
        return Err(Unsupported(format!(
            "the users of flow `{name}` resolve the name of their server, and the simulator has no DNS; use `--on netns`, or set \
             `dns = \"none\"`"
        )));
    }
    if sip.large_requests == LargeRequests::Tcp {
        return Err(Unsupported(format!(
            "the simulator has SIP over UDP only, and flow `{name}` sends large requests over TCP (`large_requests`); use `--on \
             netns`"
        )));
    }
    if !sip.fail_over.is_empty() {
        return Err(Unsupported(format!(
            "flow `{name}` needs a server for fail-over (`fail_over`), and the simulator has only one server for each flow; use \
             `--on netns`"
        )));
    }
    if sip.script().is_some() {
        return Err(Unsupported(format!(
            "the calls of flow `{name}` follow a scenario file (`scenario_file`, `scenario_text`), and the simulator has only the \
             named scenarios (`scenario`); use `--on netns`"
        )));
    }
    if sip.conform {
        return Err(Unsupported(format!(
            "flow `{name}` tests its server for conformance before the load (`conform`), and the simulator has no such test; use \
             `--on netns`"
        )));
    }
    if sip.server.own().is_none() {
        return Err(Unsupported(format!(
            "an external program serves the users of flow `{name}`, and the simulator runs no programs; use `--on netns`"
        )));
    }
    Ok(())
}

/// The substrate `sim`.
#[derive(Clone, Copy, Debug)]
pub struct Simulator {
    /// Approximate memory limit of one run, for its packets, connections, events and kept samples. If a run exceeds it,
    /// the run fails.
    pub most_memory: Size,
}

impl Simulator {
    /// The default memory limit of a run: 1 GB, about five million packets in the network at the same time.
    pub const MOST_MEMORY: Size = Size::from_bytes(1_000_000_000);
}

impl Default for Simulator {
    fn default() -> Self {
        Self { most_memory: Self::MOST_MEMORY }
    }
}

impl Substrate for Simulator {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn check(&self, run: &Run) -> Result<(), Unsupported> {
        if let Some((node, program)) = run.scenario.first_program() {
            return Err(Unsupported(format!(
                "node `{}` runs `{}`, and the simulator runs no programs; use `--on netns`",
                node.name,
                program.name()
            )));
        }
        // A host that is not an end of a flow only forwards packets.
        let hosts = run.scenario.flows.iter().flat_map(|flow| [flow.from, flow.to]);
        let mut nodes = hosts.map(|node| &run.scenario.nodes[node]);
        if let Some((node, key)) = nodes.find_map(|node| Some((node, node.host.only_real()?))) {
            return Err(Unsupported(format!(
                "node `{}` sets `{key}`, and the simulator's hosts have no processors, memory or kernels of their own; use \
                 `--on netns`",
                node.name
            )));
        }
        for flow in &run.scenario.flows {
            check_pace(&run.scenario, flow)?;
            check_lengths(&run.scenario, flow)?;
            // Datagrams never wait in a buffer: they are sent and read at once.
            if flow.sockets.send_buffer.is_some() && !matches!(flow.carrier, Carrier::Udp { .. }) {
                return Err(Unsupported(format!(
                    "transport `{}` sets the send buffer of kernel sockets, and the simulator has no kernel sockets; use \
                     `--on netns`",
                    flow.transport
                )));
            }
            if let Some(sip) = flow.application.sip() {
                check_sip(flow, sip)?;
                continue;
            }
            let datagrams = flow.application.sends_datagrams();
            match flow.carrier {
                Carrier::Udp { .. } if !datagrams => {
                    return Err(Unsupported(format!(
                        "flow `{}` needs a connection and its transport `{}` is UDP",
                        flow.name, flow.transport
                    )));
                }
                Carrier::Mptcp(_) => {
                    return Err(Unsupported(format!(
                        "the simulator has no Multipath TCP, and flow `{}` wants it (transport `{}`)",
                        flow.name, flow.transport
                    )));
                }
                Carrier::Tcp(ref config) if !Congestion::MODELLED.contains(&config.congestion) => {
                    let names = Congestion::MODELLED.iter().map(ToString::to_string);
                    return Err(Unsupported(format!(
                        "the simulator has no congestion control `{}` (transport `{}`); it has {}",
                        config.congestion,
                        flow.transport,
                        names.collect::<Vec<_>>().join(", ")
                    )));
                }
                Carrier::Tcp(_) | Carrier::Sctp(_) | Carrier::Udp { .. } => {}
            }
        }
        Ok(())
    }

    fn identity(&self, _run: &Run) -> Result<String, RunError> {
        // The models are part of netrig's build, and the store already records the build.
        Ok(String::new())
    }

    fn parallelism(&self) -> NonZeroUsize {
        NonZeroUsize::MAX
    }

    fn run(&self, run: &Run, sink: &mut dyn Sink, cancel: &AtomicBool) -> Result<RunOutcome, RunError> {
        simulation::Simulation::new(run, self.most_memory, sink)?.run(sink, cancel)
    }
}

/// Checks that no host has to fragment the packets of a flow.
fn check_lengths(scenario: &Scenario, flow: &Flow) -> Result<(), Unsupported> {
    let longest = match &flow.carrier {
        Carrier::Tcp(_) | Carrier::Mptcp(_) => return Ok(()),
        Carrier::Sctp(config) => config.mtu.bytes(),
        Carrier::Udp { headers } => {
            let headers = if *headers { u64::from(UDP_IPV4_HEADERS) } else { 0 };
            flow.application.largest_datagram().unwrap_or(0) + headers
        }
    };
    for node in [flow.from, flow.to].map(|node| &scenario.nodes[node]) {
        if let Some(mtu) = node.host.mtu.filter(|mtu| mtu.bytes() < longest) {
            return Err(Unsupported(format!(
                "node `{}` sends packets of up to {mtu}, flow `{}` has packets of {longest} B, and the simulator does not fragment; \
                 use `--on netns`",
                node.name, flow.name
            )));
        }
    }
    Ok(())
}

/// Checks that a flow cannot send an unlimited amount of data without the virtual time advancing. If its path has only
/// cables, acknowledgements arrive at the time at which the data is sent.
fn check_pace(scenario: &Scenario, flow: &Flow) -> Result<(), Unsupported> {
    let unbounded = matches!(&flow.application, Settings::Bulk(bulk) if bulk.bytes.is_none());
    let on_cables = |path: &Route| path.hops.iter().all(|hop| scenario.links[hop.link].is_direct());
    match flow.paths.iter().find(|path| unbounded && on_cables(path)) {
        Some(path) => Err(Unsupported(format!(
            "flow `{}` sends without limit over path `{}`, which has only cables, and in virtual time cables carry any amount at \
             once; limit it with `bytes`",
            flow.name, path.name
        ))),
        None => Ok(()),
    }
}
