//! Video over a real path: sends an H.264 clip by RTP to a receiver, and evaluates the pictures that can be decoded
//! there.

mod decode;
mod quality;
mod shown;
mod viewing;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use netrig_core::{Dscp, Duration, Instant, settings};
use netrig_traffic::Clip;
use netrig_traffic::rtp::Packet;

pub use decode::{VideoFrame, decode, has_ffmpeg, png};
pub use quality::{psnr_db, ssim};
pub use shown::{PictureState, ShownPicture, WatchedClip, side_by_side, watch, worst};
pub use viewing::{ClipViewing, view, viewings_text};

use super::ProbeResult;
use super::media_stream::{MediaStreamReport, ScheduledDatagram, send};
use super::receiver::Remote;

settings! {
    /// The settings of video.
    #[derive(Clone, Debug)]
    pub struct VideoSettings with defaults {
        /// An H.264 clip without reordered pictures (`ffmpeg -i IN -c:v libx264 -bf 0 -f h264 OUT`). By default netrig's own.
        clip: Option<PathBuf> {};
        /// Pictures per second of that clip.
        frames: u32 { requires: &["clip"] } = 25;
        /// Time for which the first packet waits in the play-out buffer; packets that are later than this are lost.
        playout: Duration {} = Duration::from_millis(200);
        /// Code points, separated by commas: the clip is sent with each of them at the same time.
        dscp: Vec<Dscp> { value_name: "DSCP[,..]", is_list: true } = vec![Dscp::EF, Dscp::BE];
        /// Write one picture as sent and as each flow received it, side by side (PNG).
        picture: Option<PathBuf> {};
        /// Number of that picture, from 0. By default the most damaged one.
        number: Option<usize> { requires: &["picture"] };
    }
}

/// Sends a clip to a receiver once. All packets of a picture are sent at the time of the picture. The number of an
/// arrival is the index of the packet in the clip.
///
/// # Errors
/// If the receiver or a socket fails, or if `cancel` is set.
pub fn show(
    remote: &mut Remote,
    clip: &Clip,
    dscp: u8,
    cancel: &AtomicBool,
) -> ProbeResult<MediaStreamReport> {
    let mut schedule = Vec::new();
    for (number, picture) in clip.pictures().iter().enumerate() {
        let nanos = number as u64 * 1_000_000_000 / u64::from(clip.frames_per_s());
        let at = Instant::ZERO + Duration::from_nanos(nanos);
        let packets = clip.packets()[picture.packets.clone()].iter();
        schedule.extend(packets.map(|bytes| ScheduledDatagram { at, bytes: bytes.clone() }));
    }
    // A packet that was changed on the path does not count as a packet of the clip.
    let number_of = |head: &[u8]| {
        let place = clip.place_of(&Packet::parse(head).ok()?)?;
        (clip.packets().get(place)?.as_slice() == head).then_some(place as u64)
    };
    send(remote, dscp, &schedule, number_of, cancel)
}

/// Whether each packet of the clip arrived in time: its delay exceeds that of the first arrived packet by at most
/// `playout`.
pub fn in_time(clip: &Clip, stream: &MediaStreamReport, playout: Duration) -> Vec<bool> {
    let mut arrived = vec![false; clip.packets().len()];
    let Some(first) = stream.arrivals.iter().min_by_key(|arrival| arrival.number) else { return arrived };
    let latest = first.delay_s + playout.as_secs_f64();
    for arrival in stream.arrivals.iter().filter(|arrival| arrival.delay_s <= latest) {
        if let Some(arrived) = usize::try_from(arrival.number).ok().and_then(|number| arrived.get_mut(number))
        {
            *arrived = true;
        }
    }
    arrived
}
