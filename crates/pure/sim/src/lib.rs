//! The simulator: a run in virtual time, on netrig's own models of links and transports.
//!
//! It never asks a clock, never draws an unnamed random number, and does no I/O: the same run gives the
//! same bytes on any machine.
//!
//! Start from [`Simulator`], which is a [`Substrate`]. Inside, [`agenda`] knows what happens next,
//! [`network`] moves packets over wires, [`air`] over the channels of WiFi, [`cables`] along what takes no time, and [`host`] through nodes that take time for
//! what they receive; [`tap`] shows who wants it what passes a node; [`flow_end`] joins an application to its connections, and
//! [`world`] puts them together.
#![forbid(unsafe_code)]

mod agenda;
mod air;
mod cables;
mod datagrams;
mod flow_end;
mod flow_meter;
mod host;
mod merge;
mod network;
mod opening;
mod parcel;
mod party;
mod tap;
mod world;

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use netrig_core::{Sink, Size};
use netrig_experiment::{Carrier, Flow, Route, Run, RunError, RunOutcome, Scenario, Substrate, Unsupported};
use netrig_sip::settings::{LargeRequests, LoadSettings};
use netrig_traffic::{Settings, UDP_IPV4_HEADERS};
use netrig_transport::tcp::Congestion;

/// That there is nothing of users of SIP that only a kernel has.
fn check_sip(flow: &Flow, sip: &LoadSettings) -> Result<(), Unsupported> {
    let name = &flow.name;
    if !matches!(flow.carrier, Carrier::Udp { .. }) {
        return Err(Unsupported(format!(
            "the simulator has SIP over UDP only, and flow `{name}` is over `{}`; `--on netns` has TCP and TLS",
            flow.transport
        )));
    }
    if sip.located_by().is_some() {
        return Err(Unsupported(format!(
            "the users of flow `{name}` look for their server by its name, and the simulator has no DNS; `--on netns` has, and \
             `dns = \"none\"` needs none"
        )));
    }
    if sip.large_requests == LargeRequests::Tcp {
        return Err(Unsupported(format!(
            "the simulator has SIP over UDP only, and large requests of flow `{name}` are to go over TCP (`large_requests`); `--on \
             netns` has both"
        )));
    }
    if !sip.fail_over.is_empty() {
        return Err(Unsupported(format!(
            "flow `{name}` has one server in the simulator, and none that takes over (`fail_over`); `--on netns` has"
        )));
    }
    if sip.script().is_some() {
        return Err(Unsupported(format!(
            "the calls of flow `{name}` follow a scenario of the file's own (`scenario_file`, `scenario_text`), and the simulator's \
             users follow a named `scenario`; `--on netns` has both"
        )));
    }
    if sip.conform {
        return Err(Unsupported(format!(
            "the server of flow `{name}` is to be tested against the rules of SIP before its load (`conform`), and the simulator has \
             no such test; `--on netns` has"
        )));
    }
    if sip.server.own().is_none() {
        return Err(Unsupported(format!(
            "a program of others serves the users of flow `{name}`, and the simulator has none; `--on netns` has"
        )));
    }
    Ok(())
}

/// The substrate `sim`.
#[derive(Clone, Copy, Debug)]
pub struct Simulator {
    /// The most memory that one run may take, about: its packets, connections and events, and the samples that are kept of it. A
    /// run that takes more fails.
    pub most_memory: Size,
}

impl Simulator {
    /// The memory of a run where nothing is said: 1 GB, some five million packets at once.
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
                "node `{}` runs `{}`, and the simulator has no programs of others; `--on netns` has",
                node.name,
                program.name()
            )));
        }
        // A host at which no flow ends does nothing but forward.
        let hosts = run.scenario.flows.iter().flat_map(|flow| [flow.from, flow.to]);
        let mut nodes = hosts.map(|place| &run.scenario.nodes[place]);
        if let Some((node, key)) = nodes.find_map(|node| Some((node, node.host.only_real()?))) {
            return Err(Unsupported(format!(
                "node `{}` has `{key}`, and the simulator's hosts have no processors, memory or kernels of their own; \
                 `--on netns` has",
                node.name
            )));
        }
        for flow in &run.scenario.flows {
            check_pace(&run.scenario, flow)?;
            check_lengths(&run.scenario, flow)?;
            // Of datagrams nothing waits in a buffer: they are sent and read at once.
            if flow.sockets.send_buffer.is_some() && !matches!(flow.carrier, Carrier::Udp { .. }) {
                return Err(Unsupported(format!(
                    "transport `{}` says how large the send buffer of a kernel's sockets is, and the simulator has none; \
                     `--on netns` has",
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
        // The models are part of netrig's own build, which the store knows.
        Ok(String::new())
    }

    fn parallelism(&self) -> NonZeroUsize {
        NonZeroUsize::MAX
    }

    fn run(&self, run: &Run, sink: &mut dyn Sink, cancel: &AtomicBool) -> Result<RunOutcome, RunError> {
        world::Simulation::new(run, self.most_memory, sink)?.run(sink, cancel)
    }
}

/// That no host has to cut what a flow sends.
fn check_lengths(scenario: &Scenario, flow: &Flow) -> Result<(), Unsupported> {
    let longest = match &flow.carrier {
        Carrier::Tcp(_) | Carrier::Mptcp(_) => return Ok(()),
        Carrier::Sctp(config) => config.mtu.bytes(),
        Carrier::Udp { headers } => {
            let headers = if *headers { u64::from(UDP_IPV4_HEADERS) } else { 0 };
            flow.application.largest_datagram().unwrap_or(0) + headers
        }
    };
    for node in [flow.from, flow.to].map(|place| &scenario.nodes[place]) {
        if let Some(mtu) = node.host.mtu.filter(|mtu| mtu.bytes() < longest) {
            return Err(Unsupported(format!(
                "node `{}` sends packets up to {mtu}, flow `{}` has packets of {longest} B, and the simulator cuts none; \
                 `--on netns` does",
                node.name, flow.name
            )));
        }
    }
    Ok(())
}

/// That something keeps a flow from sending without an end at one moment: along cables alone an acknowledgement is there
/// when its data was sent, and time would stand still.
fn check_pace(scenario: &Scenario, flow: &Flow) -> Result<(), Unsupported> {
    let unbounded = matches!(&flow.application, Settings::Bulk(bulk) if bulk.bytes.is_none());
    let on_cables = |path: &Route| path.hops.iter().all(|hop| scenario.links[hop.link].is_direct());
    match flow.paths.iter().find(|path| unbounded && on_cables(path)) {
        Some(path) => Err(Unsupported(format!(
            "flow `{}` sends as much as path `{}` takes, which is made of cables, and in virtual time these take any amount \
             at once; `bytes` bounds it",
            flow.name, path.name
        ))),
        None => Ok(()),
    }
}
