//! `netrig probe video`.

use std::process::ExitCode;
use std::sync::Arc;

use netrig_host::user_file;
use netrig_probe::video::{
    VideoSettings, WatchedClip, has_ffmpeg, png, side_by_side, view, viewings_text, worst,
};
use netrig_traffic::Clip;
use serde_json::Value;

use super::super::arguments::KeyedProbe;
use super::super::common::failure;
use super::connect;
use crate::failure::{Failure, exit_code, print_report};
use crate::input::read_bytes;
use crate::interruption::until_interrupted;
use crate::output::replace;

pub fn video(arguments: &KeyedProbe<VideoSettings>) -> Result<ExitCode, Failure> {
    let settings = &arguments.probe.settings;
    let clip = clip(settings)?;
    if settings.number.is_some_and(|number| number >= clip.pictures().len()) {
        return Err(Failure::request(format!("--number: the clip has {} pictures", clip.pictures().len())));
    }
    let decodes = has_ffmpeg();
    if !decodes {
        eprintln!("ffmpeg is not installed, so nothing is decoded; on Debian: apt-get install ffmpeg");
    }
    let remotes = settings.dscp.iter().map(|dscp| Ok((*dscp, connect(&arguments.target, &arguments.key)?)));
    let remotes = remotes.collect::<Result<_, Failure>>()?;
    let viewings =
        view(remotes, &clip, settings.playout, decodes, &*until_interrupted()?).map_err(failure)?;
    if let (Some(file), true) = (&settings.picture, decodes) {
        let watched: Vec<&WatchedClip> =
            viewings.iter().filter_map(|viewing| viewing.watched.as_ref()).collect();
        let number = settings.number.or_else(|| worst(&watched, 0..clip.pictures().len()));
        let beside = number.and_then(|number| Some((number, side_by_side(&watched, number)?)));
        let (number, frame) =
            beside.ok_or_else(|| Failure::failed("the pictures do not fit beside each other"))?;
        replace(file, &png(&frame).map_err(failure)?)?;
        eprintln!("picture {number} as sent and as received: {}", file.display());
    }
    let document: Vec<Value> = viewings.iter().map(|viewing| viewing.document(&clip)).collect();
    let valid = viewings.iter().all(|viewing| viewing.fault.is_none());
    print_report(arguments.form.json, &document, || viewings_text(&clip, &viewings))?;
    Ok(exit_code(false, valid, true))
}

fn clip(settings: &VideoSettings) -> Result<Arc<Clip>, Failure> {
    let Some(file) = &settings.clip else { return Ok(Clip::moving()) };
    let clip = Clip::read(&read_bytes(file, user_file::LONGEST_DATA)?, settings.frames);
    clip.map(Arc::new).map_err(|error| Failure::request(format!("{}: {error}", file.display())))
}
