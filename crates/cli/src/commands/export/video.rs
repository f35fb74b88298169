//! What of a clip came through a run: the run's losses, applied to the clip that its video flows sent.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use netrig_agent::probe::video::{State, Watched, png, side_by_side, watch};
use netrig_core::{Instant, Quantity, Sample, Sink, Subject, quantity};
use netrig_experiment::{Heard, RunError, VideoQuality};
use netrig_traffic::{Settings, Video};

use super::playback::{Playback, interrupted};
use crate::failure::Failure;
use crate::output::{replace, tell};

/// Makes the run again and draws a picture of all its video flows: as it was sent, and as it came to each.
pub fn video(playback: &Playback, out: &Path) -> Result<ExitCode, Failure> {
    let flows: Vec<(usize, &str, &Video)> = playback
        .scenario()
        .flows
        .iter()
        .enumerate()
        .filter_map(|(place, flow)| match &flow.application {
            Settings::Video(video) => Some((place, flow.name.as_str(), video)),
            _ => None,
        })
        .collect();
    let Some((_, _, first)) = flows.first() else {
        return Err(Failure::request("no flow of the run has the application `video`"));
    };
    let clip = first.clip();
    let mut screens = Screens::default();
    match playback.make(&mut screens)? {
        Err(RunError::Cancelled) => return Ok(interrupted()),
        Err(error) => return Err(Failure::failed(error)),
        Ok(_) => {}
    }
    let round = round_at(playback.from, clip.seconds());
    let mut viewers = Vec::new();
    for (place, name, video) in flows {
        let Screen { sent, numbers, delays } = screens.0.remove(&(place as u32)).unwrap_or_default();
        let heard = numbers.into_iter().zip(delays).map(|((at_s, number), delay_s)| Heard {
            number,
            sent_s: at_s - delay_s,
            delay_s,
        });
        let quality = VideoQuality::of(video, 0, sent as u64, heard)
            .map_err(|why| Failure::failed(format!("flow `{name}`: {why}")))?;
        let came = quality.came.chunks(clip.packets().len()).nth(round);
        let came = came.ok_or_else(|| {
            Failure::request(format!("flow `{name}` does not send the clip at that moment of the run"))
        })?;
        viewers.push((name, quality.intact, watch(&clip, came).map_err(Failure::failed)?));
    }
    let watched: Vec<&Watched> = viewers.iter().map(|(.., watched)| watched).collect();
    let (picture, frame) = side_by_side(&watched, None)
        .ok_or_else(|| Failure::failed("the pictures do not fit beside each other"))?;
    replace(out, &png(&frame).map_err(Failure::failed)?)?;
    let line = |(name, intact, watched): &(&str, f64, Watched)| {
        let shown = &watched.shown[picture];
        let word = match shown.state {
            State::Intact => "intact",
            State::Impaired => "impaired",
            State::Frozen => "frozen",
        };
        format!("; {name}: {word}, SSIM {:.3}, {:.1} % of all intact", shown.ssim, 100.0 * intact)
    };
    let of_each: String = viewers.iter().map(line).collect();
    tell(
        out,
        &format!(
            "picture {picture} of round {round} as it was sent, and with the losses of the run{of_each}: {}",
            out.display()
        ),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Which round of a clip that lasts so long is sent at a moment.
fn round_at(at: Instant, seconds: f64) -> usize {
    (at.as_secs_f64() / seconds) as usize
}

/// What arrived of a flow.
#[derive(Default)]
struct Screen {
    sent: f64,
    /// When each came, s, and its number.
    numbers: Vec<(f64, u64)>,
    delays: Vec<f64>,
}

/// What arrived of each flow.
#[derive(Default)]
struct Screens(BTreeMap<u32, Screen>);

impl Sink for Screens {
    fn sample(&mut self, subject: Subject, sample: Sample) {
        let Subject::Flow(flow) = subject else { return };
        if !self.wants(sample.quantity) {
            return;
        }
        let screen = self.0.entry(flow).or_default();
        if std::ptr::eq(sample.quantity, &quantity::DATAGRAMS_SENT) {
            screen.sent += sample.value;
        } else if std::ptr::eq(sample.quantity, &quantity::MEDIA_NUMBER) {
            screen.numbers.push((sample.at.as_secs_f64(), sample.value as u64));
        } else {
            screen.delays.push(sample.value);
        }
    }

    fn wants(&self, quantity: &'static Quantity) -> bool {
        [&quantity::DATAGRAMS_SENT, &quantity::MEDIA_NUMBER, &quantity::MEDIA_DELAY]
            .into_iter()
            .any(|wanted| std::ptr::eq(wanted, quantity))
    }
}
