//! `netrig export --figure`: a figure of one run's packets.

use std::process::ExitCode;

use netrig_report::chart::Theme;

use super::delivery::delivery;
use super::drawn::Drawn;
use super::playback::{Playback, interrupted};
use super::sequence::sequence;
use super::video::video;
use crate::arguments::{Export, RunFigure};
use crate::coverage::spare;
use crate::failure::Failure;
use crate::output::{replace, tell};

/// Width of the figure, the same as that of figures of an experiment.
const WIDTH: f64 = 900.0;

/// Draws a figure of the run whose identity begins with `id`. The run is repeated for its packets. A video figure uses
/// the stored samples.
pub fn run_figure(arguments: &Export, figure: RunFigure, id: &str) -> Result<ExitCode, Failure> {
    if arguments.capture.snap.is_some() {
        return Err(Failure::request("--snap is for --pcapng; a figure has no packets"));
    }
    let again = || Playback::of(arguments, id);
    let drawn = match figure {
        RunFigure::Video => return video(arguments, id, &arguments.out),
        RunFigure::Sequence => sequence(&again()?, &arguments.capture.node)?,
        RunFigure::Delivery => delivery(&again()?, &arguments.capture.node)?,
    };
    let Some(Drawn { chart, says }) = drawn else { return Ok(interrupted()) };
    spare(&arguments.out, arguments.force)?;
    replace(&arguments.out, chart.svg(WIDTH, Theme::Light).as_bytes())?;
    tell(&arguments.out, &format!("{says}: {}", arguments.out.display()))?;
    Ok(ExitCode::SUCCESS)
}
