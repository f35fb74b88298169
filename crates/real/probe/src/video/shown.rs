//! What a viewer saw of a clip of which some packets are missing.

use std::ops::Range;

use netrig_traffic::Clip;
use netrig_traffic::rtp::{AccessUnit, Assembler, Packet};

use super::decode::{VideoFrame, decode};
use super::quality::{psnr_db, ssim};
use crate::ProbeError;

/// How a picture was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureState {
    /// As it was sent.
    Intact,
    /// Decoded, but not what was sent.
    Impaired,
    /// Not decoded: the one before it stood still, or nothing was there yet.
    Frozen,
}

/// One picture as a viewer saw it.
#[derive(Clone, Debug)]
pub struct ShownPicture {
    /// How.
    pub state: PictureState,
    /// Peak signal-to-noise ratio of its luma to that of the picture that was sent, dB; infinite if it is the same.
    pub psnr_db: f64,
    /// Structural similarity of the same.
    pub ssim: f64,
    /// The frame that stood on the screen.
    pub frame: VideoFrame,
}

/// A clip as a viewer saw it who watched it once or several times over.
#[derive(Clone, Debug)]
pub struct WatchedClip {
    /// The pictures, one round after the other.
    pub shown: Vec<ShownPicture>,
    /// The pictures of the clip that was sent, decoded without loss.
    pub sent: Vec<VideoFrame>,
}

impl WatchedClip {
    /// Share of the pictures that were shown so.
    pub fn share(&self, state: PictureState) -> f64 {
        let so = self.shown.iter().filter(|shown| shown.state == state).count();
        so as f64 / self.shown.len() as f64
    }

    /// A picture as it was sent, by its place among those that were shown.
    pub fn frame_sent(&self, picture: usize) -> Option<&VideoFrame> {
        self.sent.get(picture.checked_rem(self.sent.len())?)
    }

    /// Mean structural similarity.
    pub fn mean_ssim(&self) -> f64 {
        self.shown.iter().map(|shown| shown.ssim).sum::<f64>() / self.shown.len() as f64
    }

    /// Peak signal-to-noise ratio of the whole clip, dB: of the mean square error over all pictures, since a mean of ratios
    /// means nothing where one is infinite.
    pub fn psnr_db(&self) -> f64 {
        let joined = |frames: &mut dyn Iterator<Item = &VideoFrame>| {
            frames.flat_map(|frame| frame.luma()).copied().collect::<Vec<u8>>()
        };
        let sent = joined(&mut self.sent.iter().cycle().take(self.shown.len()));
        psnr_db(&sent, &joined(&mut self.shown.iter().map(|shown| &shown.frame))).unwrap_or(f64::NAN)
    }
}

/// The picture that was damaged most to anybody, of those at these places; nothing without viewers, or if there are none.
pub fn worst(viewers: &[&WatchedClip], places: Range<usize>) -> Option<usize> {
    let damage =
        |viewer: &&WatchedClip| viewer.shown.iter().map(|shown| shown.ssim).enumerate().collect::<Vec<_>>();
    let all = viewers.iter().flat_map(damage).filter(|(place, _)| places.contains(place));
    all.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(place, _)| place)
}

/// A picture as it was sent and as it was shown to each of several viewers of the same clip, side by side. Nothing without
/// viewers, or if there is no such picture.
pub fn side_by_side(viewers: &[&WatchedClip], picture: usize) -> Option<VideoFrame> {
    let sent = viewers.first()?.frame_sent(picture)?;
    let shown = viewers.iter().map(|viewer| Some(&viewer.shown.get(picture)?.frame));
    let frames: Option<Vec<&VideoFrame>> = std::iter::once(Some(sent)).chain(shown).collect();
    VideoFrame::beside(&frames?)
}

/// Decodes what came of a clip that was sent once or several times over, and compares it picture by picture with the clip.
/// `came` tells of each packet whether it did, round after round; pictures of which it does not tell all were not sent.
/// Parameter sets are known before, as from a session description.
///
/// # Errors
/// If ffmpeg is not here or fails, or cannot decode the clip itself.
pub fn watch(clip: &Clip, arrived: &[bool]) -> Result<WatchedClip, ProbeError> {
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
            return Err(ProbeError::Ffmpeg("frames came out in another size than the clip's".to_owned()));
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

/// The units that can be put together of the packets that came, for each picture of which `came` tells everything.
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
