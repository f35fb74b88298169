//! `netrig probe video`.

use std::process::ExitCode;
use std::sync::Arc;

use netrig_core::{Dscp, Duration};
use netrig_host::user_file;
use netrig_probe::video::{WatchedClip, has_ffmpeg, in_time, png, show, side_by_side, watch, worst};
use netrig_probe::{ClipViewing, MediaStreamReport, viewings_text};
use netrig_traffic::Clip;
use serde_json::Value;

use super::super::ending::{exit_code, failure};
use super::arguments::Video;
use super::connect;
use crate::failure::{Failure, print};
use crate::interruption::until_interrupted;
use crate::output::replace;

pub fn video(arguments: &Video) -> Result<ExitCode, Failure> {
    let clip = clip(arguments)?;
    if arguments.number.is_some_and(|number| number >= clip.pictures().len()) {
        return Err(Failure::request(format!("--number: the clip has {} pictures", clip.pictures().len())));
    }
    let decodes = has_ffmpeg();
    if !decodes {
        eprintln!("ffmpeg is not here, so nothing is decoded; on Debian: apt-get install ffmpeg");
    }
    let viewings = view(arguments, &clip, decodes)?;
    if let (Some(file), true) = (&arguments.picture, decodes) {
        let watched: Vec<&WatchedClip> =
            viewings.iter().filter_map(|viewing| viewing.watched.as_ref()).collect();
        let number = arguments.number.or_else(|| worst(&watched, 0..clip.pictures().len()));
        let beside = number.and_then(|number| Some((number, side_by_side(&watched, number)?)));
        let (number, frame) =
            beside.ok_or_else(|| Failure::failed("the pictures do not fit beside each other"))?;
        replace(file, &png(&frame).map_err(failure)?)?;
        eprintln!("picture {number} as it was sent and as it came: {}", file.display());
    }
    if arguments.form.json {
        let document: Vec<Value> = viewings.iter().map(|viewing| viewing.document(&clip)).collect();
        print(serde_json::to_string_pretty(&document).map_err(Failure::failed)?)?;
    } else {
        print(viewings_text(&clip, &viewings).trim_end())?;
    }
    Ok(exit_code(false, viewings.iter().all(|viewing| viewing.fault.is_none())))
}

fn clip(arguments: &Video) -> Result<Arc<Clip>, Failure> {
    let Some(file) = &arguments.clip else { return Ok(Clip::moving()) };
    let bytes = user_file::read(file, user_file::LONGEST_DATA)
        .map_err(|error| Failure::request(format!("cannot read {}: {error}", file.display())))?;
    let clip = Clip::read(&bytes, arguments.frames);
    clip.map(Arc::new).map_err(|error| Failure::request(format!("{}: {error}", file.display())))
}

/// Sends the clip with each code point at the same time, so that all meet the same traffic.
fn view(arguments: &Video, clip: &Clip, decodes: bool) -> Result<Vec<ClipViewing>, Failure> {
    let mut remotes = Vec::new();
    for dscp in &arguments.dscp {
        remotes.push((*dscp, connect(&arguments.target, &arguments.key)?));
    }
    // A picture's time: what leaves later than that disturbs the next.
    let bearable = Duration::from_nanos(1_000_000_000 / u64::from(clip.frames_per_s()));
    let cancel = &*until_interrupted()?;
    let streams = std::thread::scope(|scope| {
        let sending: Vec<_> = remotes
            .into_iter()
            .map(|(dscp, mut remote)| (dscp, scope.spawn(move || show(&mut remote, clip, dscp.0, cancel))))
            .collect();
        let sent = sending.into_iter().map(|(dscp, sending)| match sending.join() {
            Ok(stream) => stream.map(|stream| (dscp, stream)).map_err(failure),
            Err(_) => Err(Failure::failed("a thread of the probe panicked")),
        });
        sent.collect::<Result<Vec<_>, _>>()
    })?;
    let viewing = |(dscp, stream): (Dscp, MediaStreamReport)| {
        let came = in_time(clip, &stream, arguments.playout);
        let watched = if decodes { Some(watch(clip, &came).map_err(failure)?) } else { None };
        let fault = stream.fault(bearable);
        Ok(ClipViewing { dscp, stream, came, watched, fault })
    };
    streams.into_iter().map(viewing).collect()
}
