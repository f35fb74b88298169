//! `netrig probe video`.

use std::process::ExitCode;
use std::sync::Arc;

use netrig_core::{Dscp, Duration};
use netrig_host::user_file;
use netrig_probe::MediaStreamReport;
use netrig_probe::video::{
    PictureState, ShownPicture, WatchedClip, has_ffmpeg, in_time, png, show, side_by_side, watch, worst,
};
use netrig_traffic::Clip;
use serde_json::{Value, json};

use super::super::ending::{exit_code, failure};
use super::arguments::Video;
use super::stream::{connect, delay_json, fault, percent};
use crate::failure::{Failure, print};
use crate::interruption::until_interrupted;
use crate::output::replace;

/// The clip as received with one code point.
struct Viewing {
    dscp: Dscp,
    stream: MediaStreamReport,
    /// Whether each packet was received in time.
    came: Vec<bool>,
    /// `None` without ffmpeg.
    watched: Option<WatchedClip>,
    fault: Option<String>,
}

pub fn video(arguments: &Video) -> Result<ExitCode, Failure> {
    let clip = clip(arguments)?;
    if arguments.number.is_some_and(|number| number >= clip.pictures().len()) {
        return Err(Failure::request(format!("--number: the clip has {} pictures", clip.pictures().len())));
    }
    let decodes = has_ffmpeg();
    if !decodes {
        eprintln!("ffmpeg is not installed, so nothing is decoded; on Debian: apt-get install ffmpeg");
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
        eprintln!("picture {number} as sent and as received: {}", file.display());
    }
    if arguments.form.json {
        let document: Vec<Value> = viewings.iter().map(|viewing| as_json(&clip, viewing)).collect();
        print(serde_json::to_string_pretty(&document).map_err(Failure::failed)?)?;
    } else {
        print(as_text(&clip, &viewings).trim_end())?;
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

/// Sends the clip with each code point at the same time, so that all share the same other traffic.
fn view(arguments: &Video, clip: &Clip, decodes: bool) -> Result<Vec<Viewing>, Failure> {
    let mut remotes = Vec::new();
    for dscp in &arguments.dscp {
        remotes.push((*dscp, connect(&arguments.target, &arguments.key)?));
    }
    // The time of a picture: a packet that leaves later disturbs the next picture.
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
        let fault = fault(&stream, bearable);
        Ok(Viewing { dscp, stream, came, watched, fault })
    };
    streams.into_iter().map(viewing).collect()
}

fn share(list: &[bool]) -> f64 {
    list.iter().filter(|yes| **yes).count() as f64 / list.len().max(1) as f64
}

fn as_json(clip: &Clip, viewing: &Viewing) -> Value {
    let pictures = viewing.watched.as_ref().map(|watched| {
        let picture = |(number, shown): (usize, &ShownPicture)| {
            let finite = Some(shown.psnr_db).filter(|psnr| psnr.is_finite());
            json!({ "number": number, "state": word(shown.state), "psnr_db": finite, "ssim": shown.ssim })
        };
        watched.shown.iter().enumerate().map(picture).collect::<Vec<_>>()
    });
    json!({
        "dscp": viewing.dscp.to_string(), "packets_sent": viewing.stream.sent, "missing": 1.0 - share(&viewing.came),
        "intact": share(&clip.intact(&viewing.came)),
        "impaired": viewing.watched.as_ref().map(|watched| watched.share(PictureState::Impaired)),
        "frozen": viewing.watched.as_ref().map(|watched| watched.share(PictureState::Frozen)),
        "psnr_db": viewing.watched.as_ref().map(WatchedClip::psnr_db).filter(|psnr| psnr.is_finite()),
        "ssim": viewing.watched.as_ref().map(WatchedClip::mean_ssim),
        "delay_measured_by": delay_json(viewing.stream.delay), "icmp_errors": viewing.stream.icmp_errors,
        "pictures": pictures, "valid": viewing.fault.is_none(), "why_invalid": viewing.fault,
    })
}

/// The name of a state. An infinite PSNR means an equal picture.
const fn word(state: PictureState) -> &'static str {
    match state {
        PictureState::Intact => "intact",
        PictureState::Impaired => "impaired",
        PictureState::Frozen => "frozen",
    }
}

fn as_text(clip: &Clip, viewings: &[Viewing]) -> String {
    let mut text = format!(
        "{} pictures in {} packets, {:.0} kbit/s of RTP\n\n{:<8}{:>12}{:>14}{:>12}{:>12}{:>10}{:>8}\n",
        clip.pictures().len(),
        clip.packets().len(),
        clip.bytes() as f64 * 8.0 / clip.seconds() / 1e3,
        "dscp",
        "missing",
        "intact",
        "impaired",
        "frozen",
        "PSNR (dB)",
        "SSIM"
    );
    for viewing in viewings {
        let [missing, intact] = [1.0 - share(&viewing.came), share(&clip.intact(&viewing.came))].map(percent);
        let [impaired, frozen, psnr, ssim] = match &viewing.watched {
            Some(watched) => [
                percent(watched.share(PictureState::Impaired)),
                percent(watched.share(PictureState::Frozen)),
                Some(watched.psnr_db())
                    .filter(|psnr| psnr.is_finite())
                    .map_or("the same".to_owned(), |psnr| format!("{psnr:.1}")),
                format!("{:.3}", watched.mean_ssim()),
            ],
            None => [const { String::new() }; 4].map(|_| "-".to_owned()),
        };
        let dscp = viewing.dscp.to_string();
        text += &format!("{dscp:<8}{missing:>12}{intact:>14}{impaired:>12}{frozen:>12}{psnr:>10}{ssim:>8}\n");
        let said = viewing.stream.icmp_errors.sentences();
        said.iter().for_each(|sentence| text += &format!("{sentence}\n"));
        if let Some(fault) = &viewing.fault {
            text += &format!("invalid: {fault}\n");
        }
    }
    text
}
