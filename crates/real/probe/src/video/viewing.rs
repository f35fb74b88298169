//! A clip that is sent with several code points, and how it was received with each.

use std::sync::atomic::AtomicBool;

use netrig_core::number::{measured_share, rate};
use netrig_core::text::AlignedTable;
use netrig_core::{Dscp, Duration};
use netrig_traffic::Clip;
use serde_json::{Value, json};

use super::{PictureState, ShownPicture, WatchedClip, in_time, show, watch};
use crate::media_stream::MediaStreamReport;
use crate::receiver::Remote;
use crate::{ProbeError, ProbeResult};

/// A clip as it arrived with one code point.
pub struct ClipViewing {
    /// The code point.
    pub dscp: Dscp,
    /// The packets as they arrived.
    pub stream: MediaStreamReport,
    /// Whether each packet of the clip arrived in time.
    pub arrived: Vec<bool>,
    /// The pictures as a viewer saw them; `None` if they were not decoded.
    pub watched: Option<WatchedClip>,
    /// Why the tester limited the stream, if it did.
    pub fault: Option<String>,
}

/// Sends a clip with each code point at the same time, so that all copies encounter the same traffic. A packet whose
/// delay exceeds that of the first packet by more than `playout` counts as lost.
///
/// # Errors
/// If a receiver, a socket or the decoder fails, or if `cancel` is set.
pub fn view(
    remotes: Vec<(Dscp, Remote)>,
    clip: &Clip,
    playout: Duration,
    decodes: bool,
    cancel: &AtomicBool,
) -> ProbeResult<Vec<ClipViewing>> {
    // The duration of a picture. A packet that is late by more than this is sent during the next picture.
    let bearable = Duration::from_nanos(1_000_000_000 / u64::from(clip.frames_per_s()));
    let streams = std::thread::scope(|scope| {
        let sending = remotes
            .into_iter()
            .map(|(dscp, mut remote)| (dscp, scope.spawn(move || show(&mut remote, clip, dscp.0, cancel))));
        let sending: Vec<_> = sending.collect();
        let sent = sending.into_iter().map(|(dscp, sending)| {
            let stream = sending.join().map_err(|_| ProbeError::Panicked)??;
            Ok((dscp, stream))
        });
        sent.collect::<ProbeResult<Vec<_>>>()
    })?;
    let viewing = |(dscp, stream): (Dscp, MediaStreamReport)| {
        let arrived = in_time(clip, &stream, playout);
        let watched = decodes.then(|| watch(clip, &arrived)).transpose()?;
        Ok(ClipViewing { dscp, fault: stream.fault(bearable), stream, arrived, watched })
    };
    streams.into_iter().map(viewing).collect()
}

fn share(list: &[bool]) -> f64 {
    list.iter().filter(|yes| **yes).count() as f64 / list.len().max(1) as f64
}

fn finite(psnr_db: f64) -> Option<f64> {
    Some(psnr_db).filter(|psnr| psnr.is_finite())
}

impl ClipViewing {
    /// The results as a JSON document. Equal pictures have no signal-to-noise ratio: it is null.
    pub fn document(&self, clip: &Clip) -> Value {
        let watched = self.watched.as_ref();
        let pictures = watched.map(|watched| {
            let picture = |(number, shown): (usize, &ShownPicture)| {
                json!({ "number": number, "state": shown.state, "psnr_db": finite(shown.psnr_db), "ssim": shown.ssim })
            };
            watched.shown.iter().enumerate().map(picture).collect::<Vec<_>>()
        });
        json!({
            "dscp": self.dscp.to_string(), "packets_sent": self.stream.sent, "missing": 1.0 - share(&self.arrived),
            "intact": share(&clip.intact(&self.arrived)),
            "impaired": watched.map(|watched| watched.share(PictureState::Impaired)),
            "frozen": watched.map(|watched| watched.share(PictureState::Frozen)),
            "psnr_db": watched.and_then(|watched| finite(watched.psnr_db())),
            "ssim": watched.map(WatchedClip::mean_ssim),
            "delay_measured_by": self.stream.delay.document(), "icmp_errors": self.stream.icmp_errors,
            "pictures": pictures, "valid": self.fault.is_none(), "why_invalid": self.fault,
        })
    }

    fn cells(&self, clip: &Clip) -> [String; 7] {
        let [missing, intact] =
            [1.0 - share(&self.arrived), share(&clip.intact(&self.arrived))].map(measured_share);
        let [impaired, frozen, psnr, ssim] = match &self.watched {
            Some(watched) => [
                measured_share(watched.share(PictureState::Impaired)),
                measured_share(watched.share(PictureState::Frozen)),
                finite(watched.psnr_db()).map_or("the same".to_owned(), |psnr| format!("{psnr:.1}")),
                format!("{:.3}", watched.mean_ssim()),
            ],
            None => ["-"; 4].map(str::to_owned),
        };
        [self.dscp.to_string(), missing, intact, impaired, frozen, psnr, ssim]
    }
}

/// A table of viewings.
pub fn viewings_text(clip: &Clip, viewings: &[ClipViewing]) -> String {
    let mut text = format!(
        "{} pictures in {} packets, {} of RTP\n",
        clip.pictures().len(),
        clip.packets().len(),
        rate(clip.bytes() as f64 * 8.0 / clip.seconds())
    );
    let headings = ["dscp", "missing", "intact", "impaired", "frozen", "PSNR (dB)", "SSIM"];
    let mut table = AlignedTable::aligned("lrrrrrr", headings);
    for viewing in viewings {
        table.row(viewing.cells(clip));
        viewing.stream.icmp_errors.sentences().into_iter().for_each(|sentence| table.row([sentence]));
        viewing.fault.iter().for_each(|fault| table.row([format!("invalid: {fault}")]));
    }
    table.write(&mut text);
    text
}
