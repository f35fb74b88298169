//! `netrig export --pcapng`: the packets that pass a node, in virtual time.

use std::path::PathBuf;
use std::process::ExitCode;

use netrig_core::{Frame, Instant, pcapng};
use netrig_experiment::Scenario;

use super::playback::{Listener, Playback, interrupted};
use crate::arguments::{Capture, Export};
use crate::build::BUILD;
use crate::coverage::spare;
use crate::failure::Failure;
use crate::output::{Outgoing, tell};

/// Repeats the run whose identity begins with `id`, and writes the packets that pass its nodes.
pub fn capture(arguments: &Export, id: &str) -> Result<ExitCode, Failure> {
    let playback = Playback::of(arguments, id)?;
    let nodes = playback.nodes(&arguments.capture.node)?;
    let snap = snap(&arguments.capture)?;
    let (scenario, about) = (playback.scenario(), playback.about());
    let several = nodes.len() > 1;
    let open = |node: &usize| {
        let name = &scenario.nodes[*node].name;
        let out = if several { arguments.out.join(format!("{name}.pcapng")) } else { arguments.out.clone() };
        spare(&out, arguments.force)?;
        NodeCapture::open(out, *node, scenario, &about, (playback.from, snap))
    };
    let captures = nodes.iter().map(open).collect::<Result<Vec<_>, Failure>>()?;
    let Some(captures) = playback.play(captures)? else { return Ok(interrupted()) };
    captures.into_iter().try_for_each(|capture| capture.finish(scenario))?;
    Ok(ExitCode::SUCCESS)
}

/// Snap length: the maximum number of bytes kept of each packet. 0 means no limit.
fn snap(wanted: &Capture) -> Result<u32, Failure> {
    match wanted.snap.map(|size| u32::try_from(size.bytes())) {
        None => Ok(0),
        Some(Ok(bytes)) if bytes > 0 => Ok(bytes),
        Some(_) => Err(Failure::request("--snap: from 1 B to 4 GB of each packet can be kept")),
    }
}

/// A capture at one node.
struct NodeCapture {
    node: u32,
    /// The links of its interfaces, in ascending order.
    interfaces: Vec<u32>,
    from: Instant,
    snap: u32,
    out: PathBuf,
    file: Outgoing,
    frames: u64,
    block: Vec<u8>,
}

impl NodeCapture {
    /// Opens the file and writes its section and interface blocks.
    fn open(
        out: PathBuf,
        node: usize,
        scenario: &Scenario,
        about: &str,
        (from, snap): (Instant, u32),
    ) -> Result<Self, Failure> {
        let name = &scenario.nodes[node].name;
        let mut block = Vec::new();
        pcapng::section(
            &mut block,
            &format!("netrig {}", *BUILD),
            &format!("node {name} of {about}; times are since the start of the run"),
        );
        let mut interfaces = Vec::new();
        for (link, number) in scenario.links.iter().zip(0..) {
            let Some(end) = link.ends.iter().position(|end| *end == node) else { continue };
            let peer = &scenario.nodes[link.ends[1 - end]].name;
            let description = format!("{name} ({}) to {peer}", link.addresses[end]);
            pcapng::interface(&mut block, pcapng::LinkType::RawIp, (&link.name, &description), snap);
            interfaces.push(number);
        }
        let mut file = Outgoing::open(&out)?;
        file.write(&block)?;
        Ok(Self { node: node as u32, interfaces, from, snap, out, file, frames: 0, block })
    }

    fn finish(self, scenario: &Scenario) -> Result<(), Failure> {
        self.file.finish().map_err(too_large)?;
        let name = &scenario.nodes[self.node as usize].name;
        tell(&self.out, &format!("{} packets at {name}: {}", self.frames, self.out.display()))
    }
}

impl Listener for NodeCapture {
    fn node(&self) -> u32 {
        self.node
    }

    fn frame(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
        let Ok(interface) = self.interfaces.binary_search(&frame.link) else { return Ok(()) };
        if frame.at < self.from {
            return Ok(());
        }
        self.block.clear();
        pcapng::packet(&mut self.block, interface as u32, self.snap, frame);
        self.frames += 1;
        self.file.write(&self.block).map_err(too_large)
    }
}

/// Adds advice on a smaller capture to the error message, because usually the disk is full.
fn too_large(failure: Failure) -> Failure {
    let help = "the partial capture was removed, and the stored run is unchanged; `--from`, `--to` and `--snap` make a smaller capture";
    match failure {
        Failure::Failed(why) => Failure::Failed(format!("{why}\n{help}")),
        other => other,
    }
}
