//! Sequence numbers against time, as seen at a node.

use netrig_experiment::SequenceReader;
use netrig_report::sequence as chart;

use super::drawn::Drawn;
use super::playback::{NodeReader, Playback};
use crate::failure::Failure;

/// Draws the connection with the most data, in its busier direction. `None` if interrupted.
pub fn sequence(playback: &Playback, nodes: &[String]) -> Result<Option<Drawn>, Failure> {
    let [node] = playback.nodes(nodes)?[..] else {
        return Err(Failure::request("a figure of sequence numbers shows one node: give one --node"));
    };
    let reader = NodeReader::new(node, SequenceReader::new(playback.from), SequenceReader::take);
    let Some(readers) = playback.play(vec![reader])? else { return Ok(None) };
    let name = &playback.scenario().nodes[node].name;
    let seen = readers
        .into_iter()
        .find_map(|listener| listener.reader.busiest())
        .ok_or_else(|| Failure::request(format!("no data of TCP or SCTP passes {name} in that time")))?;
    let (sent, again) = (seen.sent.len(), seen.sent_again.len());
    Ok(Some(Drawn {
        chart: chart(&seen, name, &format!("{}.", playback.about())),
        says: format!("{sent} sent, {again} sent again at {name}"),
    }))
}
