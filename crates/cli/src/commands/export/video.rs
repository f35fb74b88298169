//! A picture of a run's video flows, as sent and as each flow received it.

use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

use netrig_core::Duration;
use netrig_probe::video::{WatchedClip, png, side_by_side, worst};
use netrig_store::Store;

use crate::arguments::{Capture, Export};
use crate::commands::viewing::Viewing;
use crate::coverage::spare;
use crate::failure::Failure;
use crate::output::{replace, tell};
use crate::stored_run::{described, find};

/// Writes the picture with the most damage within the window: as it was sent, and as each viewer of the run saw it.
pub fn video(arguments: &Export, id: &str, out: &Path) -> Result<ExitCode, Failure> {
    let store = Store::open_read_only(&arguments.place.store).map_err(Failure::request)?;
    let (experiment, replication) = find(&store, id)?;
    let run = described(&store, experiment, &replication)?;
    let flows = run.scenario.flows.iter().enumerate();
    let flows: Vec<_> = flows.filter_map(|(place, flow)| Some((place, flow, flow.video()?.clip()))).collect();
    let Some((_, first, clip)) = flows.first() else {
        return Err(Failure::request("no flow of the run has the application `video`"));
    };
    let begins = first.start.since(netrig_core::Instant::ZERO);
    let wanted = window(&arguments.capture, begins, clip.frames_per_s());
    let mut viewers = Vec::new();
    for (place, flow, _) in &flows {
        let viewing = Viewing::of(&store, &replication.run.identity, &run.scenario, *place)?;
        let viewing = viewing.ok_or_else(|| {
            Failure::request(format!("flow `{}` sent nothing, so nothing was kept", flow.name))
        })?;
        viewers.push((flow.name.as_str(), viewing));
    }
    let watched: Vec<&WatchedClip> = viewers.iter().map(|(_, viewing)| &viewing.watched).collect();
    let picture = worst(&watched, wanted)
        .ok_or_else(|| Failure::request("no picture was sent in that part of the run"))?;
    let frame = side_by_side(&watched, picture)
        .ok_or_else(|| Failure::failed("the pictures do not fit beside each other"))?;
    spare(out, arguments.force)?;
    replace(out, &png(&frame).map_err(Failure::failed)?)?;
    let of_each: String =
        viewers.iter().map(|(name, viewing)| format!("; {name}: {}", viewing.says(picture))).collect();
    let (on, number) = (&replication.run.substrate, replication.number);
    tell(
        out,
        &format!(
            "picture {picture} as sent, and as received on {on}, replication {number}{of_each}: {}",
            out.display()
        ),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The indices of the pictures that are sent within the window. The first picture of the video is sent at `begins`.
fn window(wanted: &Capture, begins: Duration, per_s: u32) -> Range<usize> {
    let place =
        |at: Duration| ((at.as_secs_f64() - begins.as_secs_f64()).max(0.0) * f64::from(per_s)) as usize;
    place(wanted.from.unwrap_or_default())..wanted.to.map_or(usize::MAX, place)
}
