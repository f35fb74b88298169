//! Live video over RTP: the packets of a clip, sent at the times of its pictures.

use std::net::SocketAddr;
use std::sync::Arc;

use netrig_core::{Data, Duration, Instant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application_settings::ApplicationSettings;
use crate::media_sink::MediaSink;
use crate::{AppAction, AppEvent, Application, Clip, Ends, FlowContext, SettingsError};

/// Live video: the RTP packets of an H.264 clip. The packets of a picture are sent together when it is due, and the
/// clip repeats until the flow stops. The packets received in time determine which pictures can be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Video {
    /// The clip.
    #[serde(default)]
    pub clip: ClipName,
    /// Play-out delay of the first packet. Each packet is used at its send time plus the same total delay; later
    /// packets are useless.
    #[serde(default = "playout")]
    pub playout: Duration,
}

/// A clip that is part of netrig.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClipName {
    /// Three seconds of a moving test picture, 320 x 180 at 25 pictures per second, about 256 kbit/s.
    #[default]
    Moving,
}

fn playout() -> Duration {
    Duration::from_millis(200)
}

impl Video {
    /// The clip that `clip` names.
    pub fn clip(&self) -> Arc<Clip> {
        match self.clip {
            ClipName::Moving => Clip::moving(),
        }
    }
}

impl ApplicationSettings for Video {
    fn check(&self) -> Result<(), SettingsError> {
        Ok(())
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        let player =
            ClipSender { server: flow.server, clip: self.clip(), start: flow.start, shown: 0, next: None };
        Ends { client: Box::new(player), server: Box::new(MediaSink) }
    }

    fn datagram(&self) -> Option<f64> {
        Some(self.clip().mean_packet())
    }

    fn largest_datagram(&self) -> Option<u64> {
        Some(self.clip().largest_packet())
    }

    fn offered_load(&self) -> Option<f64> {
        let clip = self.clip();
        Some(clip.bytes() as f64 / clip.seconds())
    }
}

/// Sends the packets of a clip.
struct ClipSender {
    server: SocketAddr,
    clip: Arc<Clip>,
    start: Instant,
    /// Number of pictures sent so far, over all repetitions of the clip.
    shown: u64,
    next: Option<Instant>,
}

impl ClipSender {
    /// Due time of picture number `shown`.
    fn due(&self) -> Instant {
        self.start + self.clip.due_of_picture(self.shown)
    }

    fn send(&mut self, act: &mut dyn FnMut(AppAction)) {
        let pictures = self.clip.pictures();
        let (round, place) = (self.shown / pictures.len() as u64, self.shown % pictures.len() as u64);
        let first = round * self.clip.packets().len() as u64;
        for packet in pictures[place as usize].packets.clone() {
            let data = Data::Bytes(self.clip.streamed(first + packet as u64).into());
            act(AppAction::Datagram { to: self.server, data });
        }
        self.shown += 1;
        self.next = Some(self.due());
    }
}

impl Application for ClipSender {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        match event {
            AppEvent::Started => self.next = Some(self.due()),
            AppEvent::Timeout if self.next.is_some_and(|at| at <= now) => self.send(act),
            AppEvent::Stopped => self.next = None,
            _ => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, react};

    /// The datagrams have the lengths of the clip's packets. Pictures are 40 ms apart, also in the second repetition.
    #[test]
    fn pictures_are_sent_when_they_are_due() {
        let flow = FlowContext { start: Instant::from_nanos(7), ..FlowContext::of_test("video", 1) };
        let video = Video { clip: ClipName::Moving, playout: playout() };
        let mut player = Settings::Video(video).ends(&flow).client;
        let mut sent = vec![];
        let mut next = react(&mut *player, flow.start, AppEvent::Started, |_| {});
        for _ in 0..100 {
            let at = next.expect("there is always a next picture");
            next = react(&mut *player, at, AppEvent::Timeout, |action| {
                if let AppAction::Datagram { data, .. } = action {
                    sent.push((at, data.size() as usize));
                }
            });
        }
        let clip = Clip::moving();
        let expected = (0..100_u64).flat_map(|picture| {
            let at = flow.start + Duration::from_millis(40 * picture);
            let packets = clip.pictures()[(picture % 75) as usize].packets.clone();
            clip.packets()[packets].iter().map(move |packet| (at, packet.len()))
        });
        assert_eq!(sent, expected.collect::<Vec<_>>());
    }
}
