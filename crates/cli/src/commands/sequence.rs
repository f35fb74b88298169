//! `netrig export --figure sequence`: sequence numbers against time, as a node saw them.

use std::process::ExitCode;

use netrig_core::Frame;
use netrig_experiment::SequenceReader;
use netrig_report::chart::Theme;
use netrig_report::sequence as chart;

use crate::arguments::Export;
use crate::commands::playback::{Playback, Taker, interrupted};
use crate::failure::Failure;
use crate::output::{replace, tell};

/// As wide as the other figures that are exported.
pub const WIDTH: f64 = 900.0;

/// Draws the connection that sent most, in its busier direction.
pub fn sequence(arguments: &Export, id: &str) -> Result<ExitCode, Failure> {
    if arguments.capture.snap.is_some() {
        return Err(Failure::request("--snap is for --pcapng: a figure keeps no packets"));
    }
    let playback = Playback::of(arguments, id)?;
    let [node] = playback.nodes(&arguments.capture.node)?[..] else {
        return Err(Failure::request("a figure of sequence numbers is of one node: give one --node"));
    };
    let listening = NodeReader { node: node as u32, reader: SequenceReader::new(playback.from) };
    let Some(takers) = playback.play(vec![listening])? else { return Ok(interrupted()) };
    let name = &playback.scenario().nodes[node].name;
    let seen = takers
        .into_iter()
        .find_map(|taker| taker.reader.busiest())
        .ok_or_else(|| Failure::request(format!("no data of TCP or SCTP passes {name} in that time")))?;
    let svg = chart(&seen, name, &format!("{}.", playback.about())).svg(WIDTH, Theme::Light);
    replace(&arguments.out, svg.as_bytes())?;
    let (sent, again) = (seen.sent.len(), seen.sent_again.len());
    tell(&arguments.out, &format!("{sent} sent, {again} sent again at {name}: {}", arguments.out.display()))?;
    Ok(ExitCode::SUCCESS)
}

struct NodeReader {
    node: u32,
    reader: SequenceReader,
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
