//! A clip with lost packets, as a viewer saw it.

use std::ops::Range;

use netrig_core::named;
use netrig_traffic::Clip;
use netrig_traffic::rtp::{AccessUnit, Assembler, Packet};
use serde::Serialize;

use super::decode::{VideoFrame, decode};
use super::quality::{psnr_db, ssim};
use crate::{ProbeError, ProbeResult};

named! {
    /// How a picture was shown.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum PictureState {
        /// As it was sent.
        Intact = "intact",
        /// Decoded, but different from the sent picture.
        Impaired = "impaired",
        /// Not decoded: the previous decoded picture was shown, or a black one before the first.
        Frozen = "frozen",
    }
}

/// One picture as a viewer saw it.
#[derive(Clone, Debug)]
pub struct ShownPicture {
    /// State of the picture.
    pub state: PictureState,
    /// Peak signal-to-noise ratio of its luma against the sent picture, dB; infinite if they are equal.
    pub psnr_db: f64,
    /// Structural similarity of its luma to that of the sent picture.
    pub ssim: f64,
    /// The frame on the screen.
    pub frame: VideoFrame,
}

/// A clip as a viewer saw it. The clip was sent once or several times.
#[derive(Clone, Debug)]
pub struct WatchedClip {
    /// The shown pictures of all repetitions of the clip, in order.
    pub shown: Vec<ShownPicture>,
    /// The pictures of the clip that was sent, decoded without loss.
    pub sent: Vec<VideoFrame>,
}

impl WatchedClip {
    /// Share of the pictures in this state.
    pub fn share(&self, state: PictureState) -> f64 {
        let so = self.shown.iter().filter(|shown| shown.state == state).count();
        so as f64 / self.shown.len() as f64
    }

    /// The picture that was sent for a shown picture, by the index of the shown picture.
    pub fn frame_sent(&self, picture: usize) -> Option<&VideoFrame> {
        self.sent.get(picture.checked_rem(self.sent.len())?)
    }

    /// Mean structural similarity.
    pub fn mean_ssim(&self) -> f64 {
        self.shown.iter().map(|shown| shown.ssim).sum::<f64>() / self.shown.len() as f64
    }

    /// Peak signal-to-noise ratio of the whole clip, dB. It is computed from the mean square error over all pictures,
    /// because the mean of the pictures' ratios is infinite if one of them is infinite.
    pub fn psnr_db(&self) -> f64 {
        let joined = |frames: &mut dyn Iterator<Item = &VideoFrame>| {
            frames.flat_map(|frame| frame.luma()).copied().collect::<Vec<u8>>()
        };
        let sent = joined(&mut self.sent.iter().cycle().take(self.shown.len()));
        psnr_db(&sent, &joined(&mut self.shown.iter().map(|shown| &shown.frame))).unwrap_or(f64::NAN)
    }
}

/// Index of the picture with the lowest structural similarity at any viewer, among the pictures with an index in
/// `places`. `None` if there are no such pictures.
pub fn worst(viewers: &[&WatchedClip], places: Range<usize>) -> Option<usize> {
    let quality =
        |viewer: &&WatchedClip| viewer.shown.iter().map(|shown| shown.ssim).enumerate().collect::<Vec<_>>();
    let all = viewers.iter().flat_map(quality).filter(|(place, _)| places.contains(place));
    all.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(place, _)| place)
}

/// A sent picture and the same picture as several viewers of the clip saw it, side by side. `None` without viewers, or
/// if there is no such picture.
pub fn side_by_side(viewers: &[&WatchedClip], picture: usize) -> Option<VideoFrame> {
    let sent = viewers.first()?.frame_sent(picture)?;
    let shown = viewers.iter().map(|viewer| Some(&viewer.shown.get(picture)?.frame));
    let frames: Option<Vec<&VideoFrame>> = std::iter::once(Some(sent)).chain(shown).collect();
    VideoFrame::beside(&frames?)
}

/// Decodes the received packets of a clip that was sent once or several times, and compares each picture with the clip.
/// `arrived` states for each packet whether it arrived, one repetition of the clip after the other. A picture counts as
/// sent only if `arrived` has a value for each of its packets. Parameter sets are known in advance, as from a session
/// description.
///
/// # Errors
/// If ffmpeg is not installed or fails, or cannot decode the clip itself.
pub fn watch(clip: &Clip, arrived: &[bool]) -> ProbeResult<WatchedClip> {
    let whole: Vec<AccessUnit> = clip.pictures().iter().map(|picture| picture.unit.clone()).collect();
    let sent: Option<Vec<VideoFrame>> = decode(&whole)?.into_iter().collect();
    let sent = sent.ok_or_else(|| ProbeError::Ffmpeg("it cannot decode the clip itself".to_owned()))?;
    let decoded = decode(&received(clip, arrived))?;
    let mut standing = sent.first().map(|frame| VideoFrame::black(frame.width, frame.height));
    let mut shown = Vec::new();
    for (original, frame) in sent.iter().cycle().zip(decoded) {
        let is_new = frame.is_some();
        standing = frame.or(standing);
        let Some(frame) = standing.clone() else { continue };
        let (Some(psnr_db), Some(ssim)) =
            (psnr_db(original.luma(), frame.luma()), ssim(original.luma(), frame.luma(), frame.width))
        else {
            return Err(ProbeError::Ffmpeg("frames have another size than the clip".to_owned()));
        };
        let state = match (is_new, frame == *original) {
            (true, true) => PictureState::Intact,
            (true, false) => PictureState::Impaired,
            (false, _) => PictureState::Frozen,
        };
        shown.push(ShownPicture { state, psnr_db, ssim, frame });
    }
    Ok(WatchedClip { shown, sent })
}

/// Assembles the received packets of each picture that counts as sent.
fn received(clip: &Clip, arrived: &[bool]) -> Vec<AccessUnit> {
    // Sequence and picture parameter sets, types 7 and 8.
    let is_parameter = |unit: &&Vec<u8>| unit.first().is_some_and(|header| matches!(header & 0x1F, 7 | 8));
    let mut parameters: Vec<Vec<u8>> = clip
        .pictures()
        .first()
        .into_iter()
        .flat_map(|first| first.unit.units.iter().filter(is_parameter))
        .cloned()
        .collect();
    let mut pictures = Vec::new();
    for round in arrived.chunks(clip.packets().len().max(1)) {
        for picture in clip.pictures().iter().filter(|picture| picture.packets.end <= round.len()) {
            let mut assembler = Assembler::default();
            for place in picture.packets.clone().filter(|place| round[*place]) {
                if let Ok(packet) = Packet::parse(&clip.packets()[place]) {
                    assembler.take(place as u64, packet.payload);
                }
            }
            let mut unit = assembler.finish();
            if !unit.units.is_empty() {
                unit.units.splice(0..0, std::mem::take(&mut parameters));
            }
            pictures.push(unit);
        }
    }
    pictures
}
