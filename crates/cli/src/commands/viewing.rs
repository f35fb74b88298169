//! The video of a stored run as a viewer saw it, decoded from the received packets.

use netrig_core::quantity::{DATAGRAMS_SENT, MEDIA_DELAY, MEDIA_NUMBER};
use netrig_core::{Instant, Quantity, Subject};
use netrig_experiment::Scenario;
use netrig_probe::video::{PictureState, WatchedClip, watch};
use netrig_store::{Store, TimeSeries};
use netrig_traffic::{MediaArrival, VideoQuality};

use crate::failure::Failure;

/// A video flow as its receiver showed it.
pub struct Viewing {
    /// Quality computed from the received packets.
    pub quality: VideoQuality,
    /// The pictures, as ffmpeg decodes them.
    pub watched: WatchedClip,
}

impl Viewing {
    /// The video that the flow at this place of the scenario received in the run with this identity; `None` if the flow
    /// carries no video, or the store has no samples of it.
    ///
    /// A real-time substrate sends the packets of the clip, and counts a received packet only if none of its bytes has
    /// changed. The simulator sends packets of the same lengths. On both, the numbers of the received packets therefore
    /// determine the received bytes.
    pub fn of(
        store: &Store,
        identity: &str,
        scenario: &Scenario,
        place: usize,
    ) -> Result<Option<Self>, Failure> {
        let flow = &scenario.flows[place];
        let Some(video) = flow.video() else { return Ok(None) };
        let series = store.series(identity).map_err(Failure::failed)?;
        let subject = scenario.name_of(Subject::Flow(place as u32));
        let kept = |quantity: &Quantity| samples(&series, &subject, quantity);
        let (numbers, delays) = (kept(&MEDIA_NUMBER), kept(&MEDIA_DELAY));
        let sent: f64 = kept(&DATAGRAMS_SENT).iter().map(|(_, count)| count).sum();
        if sent == 0.0 {
            return Ok(None);
        }
        let arrivals = numbers.iter().zip(delays).map(|((at, number), (_, delay_s))| MediaArrival {
            number: *number as u64,
            sent_s: at.as_secs_f64() - delay_s,
            delay_s: *delay_s,
        });
        let quality = VideoQuality::of(video, 0, sent as u64, arrivals)
            .map_err(|why| Failure::failed(format!("flow `{}`: {why}", flow.name)))?;
        let watched = watch(&video.clip(), &quality.came).map_err(Failure::failed)?;
        Ok(Some(Self { quality, watched }))
    }

    /// The quality of one picture and of all pictures, in words.
    pub fn says(&self, picture: usize) -> String {
        let Some(shown) = self.watched.shown.get(picture) else { return String::new() };
        let likeness = match shown.psnr_db.is_finite() {
            true => format!(", SSIM {:.3}, PSNR {:.1} dB", shown.ssim, shown.psnr_db),
            false => String::new(),
        };
        format!(
            "{}{likeness}; of {} pictures {:.1} % intact, {:.1} % impaired, {:.1} % frozen; mean SSIM {:.3}; {:.2} % of the \
             packets missing",
            shown.state.name(),
            self.watched.shown.len(),
            100.0 * self.quality.intact,
            100.0 * self.watched.share(PictureState::Impaired),
            100.0 * self.watched.share(PictureState::Frozen),
            self.watched.mean_ssim(),
            100.0 * self.quality.missing,
        )
    }
}

fn samples<'a>(series: &'a [TimeSeries], subject: &str, quantity: &Quantity) -> &'a [(Instant, f64)] {
    let of = |series: &&TimeSeries| series.quantity == quantity.name && series.subject == subject;
    series.iter().find(of).map_or(&[], |series| &series.samples)
}
