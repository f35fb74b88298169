//! Quality of a video: the share of pictures that could be shown.

use netrig_stats::path::LossPattern;
use netrig_stats::playout::{PlayoutBuffer, played};

use super::{MediaArrival, in_order};
use crate::Video;

/// Quality of a video.
#[derive(Clone, Debug, PartialEq)]
pub struct VideoQuality {
    /// Share of intact pictures. A picture is intact if all its packets, and those of all pictures back to the last key
    /// picture, arrived in time.
    pub intact: f64,
    /// Share of the packets that were missing at their play-out time.
    pub missing: f64,
    /// Packets that arrived after their play-out time.
    pub late: u64,
    /// For each packet, from number 0, whether it arrived in time.
    pub came: Vec<bool>,
}

impl VideoQuality {
    /// Computes the quality of a video from its `received` packets, in any order. `sent` packets were sent, beginning
    /// with number `first`. A picture at either end of which only some packets were sent is not counted.
    ///
    /// # Errors
    ///
    /// If no whole picture was sent, or if a time is invalid.
    pub fn of(
        video: &Video,
        first: u64,
        sent: u64,
        received: impl IntoIterator<Item = MediaArrival>,
    ) -> Result<Self, String> {
        let clip = video.clip();
        let packets = in_order(first, sent, 0.0, received);
        let buffer = PlayoutBuffer::Fixed(video.playout.as_secs_f64());
        let played = played(&packets, buffer).map_err(|error| error.to_string())?;
        let pattern = LossPattern::new(played.missing.iter().copied());
        let missing = pattern.share().ok_or("no packet of video was sent")?;
        let before = std::iter::repeat_n(false, usize::try_from(first).map_err(|error| error.to_string())?);
        let came: Vec<bool> = before.chain(played.missing.iter().map(|missing| !missing)).collect();
        let (mut whole, mut intact) = (0_u64, 0_u64);
        let round = clip.packets().len();
        for (number, came) in came.chunks(round).enumerate() {
            for (picture, is_intact) in clip.pictures().iter().zip(clip.intact(came)) {
                let begins = number * round + picture.packets.start;
                if begins as u64 >= first && picture.packets.end <= came.len() {
                    whole += 1;
                    intact += u64::from(is_intact);
                }
            }
        }
        if whole == 0 {
            return Err("no whole picture was sent".to_owned());
        }
        Ok(Self { intact: intact as f64 / whole as f64, missing, late: played.late, came })
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::Duration;

    use super::*;
    use crate::ClipName;

    fn video() -> Video {
        Video { clip: ClipName::Moving, playout: Duration::from_millis(200) }
    }

    /// All packets of two repetitions of the clip, each with the delay that `delay` returns. A packet without a delay
    /// is lost.
    fn received(delay: impl Fn(u64) -> Option<f64>) -> (u64, Vec<MediaArrival>) {
        let sent = 2 * video().clip().packets().len() as u64;
        let some = (0..sent).filter_map(|number| {
            Some(MediaArrival { number, sent_s: number as f64 / 100.0, delay_s: delay(number)? })
        });
        (sent, some.collect())
    }

    #[test]
    fn all_that_comes_in_time_is_shown() {
        let (sent, all) = received(|_| Some(0.03));
        let quality = VideoQuality::of(&video(), 0, sent, all).unwrap();
        assert_eq!((quality.intact, quality.missing, quality.late), (1.0, 0.0, 0));
    }

    /// The first packet of picture 60 in the second repetition is 210 ms later than the others. Of 150 pictures, 15 are
    /// damaged: this one and the 14 up to the end of the clip, where the next key picture would follow.
    #[test]
    fn what_comes_late_is_lost() {
        let clip = video().clip();
        let late = (clip.packets().len() + clip.pictures()[60].packets.start) as u64;
        let (sent, all) = received(|number| Some(if number == late { 0.24 } else { 0.03 }));
        let quality = VideoQuality::of(&video(), 0, sent, all).unwrap();
        assert_eq!(quality.late, 1);
        assert!((quality.intact - 135.0 / 150.0).abs() < 1e-12, "{}", quality.intact);
    }

    #[test]
    fn nothing_came() {
        let (sent, none) = received(|_| None);
        let quality = VideoQuality::of(&video(), 0, sent, none).unwrap();
        assert_eq!((quality.intact, quality.missing), (0.0, 1.0));
        assert!(VideoQuality::of(&video(), 0, 0, []).is_err());
        assert!(VideoQuality::of(&video(), 0, 1, []).is_err(), "the first picture has more than one packet");
    }
}
