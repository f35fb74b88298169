//! `netrig export --figure delivery`: what became of each message of an SCTP association.

use std::process::ExitCode;

use netrig_core::{Frame, Heading};
use netrig_experiment::{Delivery, DeliveryReader};
use netrig_report::chart::Theme;
use netrig_report::delivery as chart;

use crate::arguments::Export;
use crate::commands::playback::{Playback, Taker, interrupted};
use crate::commands::sequence::WIDTH;
use crate::failure::Failure;
use crate::output::{replace, tell};

/// Draws the messages of the association that sent most.
pub fn delivery(arguments: &Export, id: &str) -> Result<ExitCode, Failure> {
    if arguments.capture.snap.is_some() {
        return Err(Failure::request("--snap is for --pcapng: a figure keeps no packets"));
    }
    let playback = Playback::of(arguments, id)?;
    let [near, far] = ends(&playback, &arguments.capture.node)?;
    let listening = |(node, heading)| NodeReader { node: node as u32, reader: DeliveryReader::new(heading) };
    let takers = [(near, Heading::Outbound), (far, Heading::Inbound)].map(listening);
    let Some(takers) = playback.play(Vec::from(takers))? else { return Ok(interrupted()) };
    let [sender, receiver] = &takers[..] else { return Err(Failure::failed("a reader is missing")) };
    let mut messages = sender.reader.deliveries(&receiver.reader);
    messages.retain(|message| message.sent >= playback.from);
    let names = [near, far].map(|node| playback.scenario().nodes[node].name.as_str());
    if messages.is_empty() {
        let [near, far] = names;
        return Err(Failure::request(format!("no message over SCTP goes from {near} to {far} in that time")));
    }
    let svg = chart(&messages, names, &format!("{}.", playback.about())).svg(WIDTH, Theme::Light);
    replace(&arguments.out, svg.as_bytes())?;
    let waited = messages.iter().filter(|Delivery { arrived, delivered, .. }| arrived < delivered).count();
    let said = format!("{} messages delivered, {waited} waited: {}", messages.len(), arguments.out.display());
    tell(&arguments.out, &said)?;
    Ok(ExitCode::SUCCESS)
}

/// The nodes that send and receive: those that are named, or the ends of the first flow.
fn ends(playback: &Playback, names: &[String]) -> Result<[usize; 2], Failure> {
    if let Some(flow) = playback.scenario().flows.first().filter(|_| names.is_empty()) {
        let answers = flow.application.answers();
        return Ok(if answers { [flow.to, flow.from] } else { [flow.from, flow.to] });
    }
    match playback.nodes(names)?[..] {
        [near, far] => Ok([near, far]),
        _ => Err(Failure::request("deliveries are between two nodes: --node SENDER,RECEIVER")),
    }
}

struct NodeReader {
    node: u32,
    reader: DeliveryReader,
}

impl Taker for NodeReader {
    fn node(&self) -> u32 {
        self.node
    }

    fn take(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
        self.reader.take(frame);
        Ok(())
    }
}
