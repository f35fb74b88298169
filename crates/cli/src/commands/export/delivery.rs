//! The delivery of each message of an SCTP association.

use netrig_core::Heading;
use netrig_experiment::{DeliveryReader, MessageDelivery};
use netrig_report::delivery as chart;

use super::drawn::Drawn;
use super::playback::{NodeReader, Playback};
use crate::failure::Failure;

/// Draws the messages of the association with the most data. `None` if interrupted.
pub fn delivery(playback: &Playback, nodes: &[String]) -> Result<Option<Drawn>, Failure> {
    let [near, far] = ends(playback, nodes)?;
    let reader = |(node, heading)| NodeReader::new(node, DeliveryReader::new(heading), DeliveryReader::take);
    let readers = [(near, Heading::Outbound), (far, Heading::Inbound)].map(reader);
    let Some(readers) = playback.play(Vec::from(readers))? else { return Ok(None) };
    let [sender, receiver] = &readers[..] else { return Err(Failure::failed("a reader is missing")) };
    let mut messages = sender.reader.deliveries(&receiver.reader);
    messages.retain(|message| message.sent >= playback.from);
    let names = [near, far].map(|node| playback.scenario().nodes[node].name.as_str());
    if messages.is_empty() {
        let [near, far] = names;
        return Err(Failure::request(format!("no message over SCTP goes from {near} to {far} in that time")));
    }
    let waited =
        messages.iter().filter(|MessageDelivery { arrived, delivered, .. }| arrived < delivered).count();
    Ok(Some(Drawn {
        chart: chart(&messages, names, &format!("{}.", playback.about())),
        says: format!("{} messages delivered, {waited} waited", messages.len()),
    }))
}

/// The sending and the receiving node: the named nodes, or those of the first flow.
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
