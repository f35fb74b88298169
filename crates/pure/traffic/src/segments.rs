//! Video in segments, as in streaming over HTTP.

use std::net::SocketAddr;

use netrig_core::{ConnectionEvent, Duration, Instant, Rate, Size, StreamId, quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application_settings::ApplicationSettings;
use crate::{AppAction, AppEvent, Application, ConnId, Ends, FlowContext, SettingsError};

/// Video in segments over one connection. The player requests them one after the other until its buffer is full, then
/// one whenever there is room. The traffic alternates between bursts and pauses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Segments {
    /// Rate of the video.
    pub rate: Rate,
    /// Playing time of a segment.
    pub segment: Duration,
    /// Most playing time in the player's buffer; at least one segment.
    pub buffer: Duration,
    /// Size of a request.
    #[serde(default = "request_size")]
    pub request: Size,
}

fn request_size() -> Size {
    Size::from_bytes(400)
}

impl ApplicationSettings for Segments {
    fn may_read_slowly(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), SettingsError> {
        let above_zero = |field, fine| {
            if fine { Ok(()) } else { Err(SettingsError::new(field, "it must be above zero")) }
        };
        above_zero("rate", self.rate.bits_per_s() > 0)?;
        above_zero("segment", !self.segment.is_zero())?;
        above_zero("request", self.request.bytes() > 0)?;
        if self.buffer < self.segment {
            return Err(SettingsError::new("buffer", "it must have room for a segment"));
        }
        Ok(())
    }

    fn sends_fill_only(&self) -> bool {
        true
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        let size = (self.rate.bits_per_s() as f64 / 8.0 * self.segment.as_secs_f64()) as u64;
        // A segment of zero bytes would never arrive.
        let size = size.max(1);
        let player = SegmentPlayer {
            server: flow.server,
            settings: self.clone(),
            size,
            asked: None,
            left: 0,
            played_out: flow.start,
            next: None,
        };
        let server = SegmentServer { request: self.request.bytes(), size, received: 0 };
        Ends { client: Box::new(player), server: Box::new(server) }
    }

    fn answers(&self) -> bool {
        true
    }
}

const CONN: ConnId = ConnId::Opened(0);

/// Requests segments and plays them.
struct SegmentPlayer {
    server: SocketAddr,
    settings: Segments,
    /// Size of a segment, bytes.
    size: u64,
    /// Time at which the segment in transfer was requested. `None` if no segment is in transfer.
    asked: Option<Instant>,
    /// Bytes of that segment that have not arrived.
    left: u64,
    /// Time at which all received segments will have been played.
    played_out: Instant,
    /// Time at which the buffer has room for the next segment.
    next: Option<Instant>,
}

impl SegmentPlayer {
    fn ask(&mut self, now: Instant, act: &mut dyn FnMut(AppAction)) {
        self.next = None;
        self.asked = Some(now);
        self.left = self.size;
        act(AppAction::fill(CONN, StreamId(0), self.settings.request.bytes()));
    }

    fn received(&mut self, now: Instant, bytes: u64, act: &mut dyn FnMut(AppAction)) {
        let Some(asked) = self.asked else { return };
        self.left = self.left.saturating_sub(bytes);
        if self.left > 0 {
            return;
        }
        self.asked = None;
        act(AppAction::took(now, &quantity::RESPONSE_TIME, asked));
        act(AppAction::record(now, &quantity::OBJECTS_RECEIVED, 1.0));
        // If the buffer was empty, playing continues now.
        self.played_out = self.played_out.max(now) + self.settings.segment;
        let held = self.played_out.since(now);
        let room = self.settings.buffer - self.settings.segment;
        self.next = Some(if held > room { now + (held - room) } else { now });
    }
}

impl Application for SegmentPlayer {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        match event {
            AppEvent::Started => {
                act(AppAction::Open { conn: CONN, to: self.server });
                self.ask(now, act);
            }
            AppEvent::Timeout if self.next.is_some_and(|at| at <= now) => self.ask(now, act),
            AppEvent::Connection { event: ConnectionEvent::Received { data, .. }, .. } => {
                self.received(now, data.size(), act);
            }
            AppEvent::Connection { event: ConnectionEvent::Closed(_), .. } => {
                (self.asked, self.next) = (None, None);
            }
            AppEvent::Stopped => {
                (self.asked, self.next) = (None, None);
                act(AppAction::Close { conn: CONN });
            }
            _ => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

/// Answers each request with a segment.
struct SegmentServer {
    request: u64,
    size: u64,
    /// Received bytes of the request that is not yet complete.
    received: u64,
}

impl Application for SegmentServer {
    fn handle(&mut self, _now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        let AppEvent::Connection { conn, event } = event else { return };
        match event {
            ConnectionEvent::Received { data, .. } => {
                self.received += data.size();
                while self.received >= self.request {
                    self.received -= self.request;
                    act(AppAction::fill(conn, StreamId(0), self.size));
                }
            }
            ConnectionEvent::PeerFinished => act(AppAction::Close { conn }),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::Data;

    use super::*;
    use crate::react;

    /// Segments of 2 s at 800 kbit/s, 200 KB each, for a player with this buffer.
    fn settings(buffer: u64) -> Segments {
        Segments {
            rate: Rate::from_bits_per_s(800_000),
            segment: Duration::from_secs(2),
            buffer: Duration::from_secs(buffer),
            request: request_size(),
        }
    }

    /// Times at which the first segments are requested if each takes the given seconds to arrive.
    fn asked(settings: &Segments, takes: &[u64]) -> Vec<u64> {
        let flow = FlowContext::of_test("video", 1);
        let Ends { client: mut player, mut server } = settings.ends(&flow);
        let mut asked = vec![0];
        react(&mut *player, Instant::ZERO, AppEvent::Started, |_| {});
        let mut now = Instant::ZERO;
        for seconds in takes {
            let received = |size| AppEvent::Connection {
                conn: CONN,
                event: ConnectionEvent::Received { stream: StreamId(0), data: Data::Fill(size) },
            };
            let mut answer = 0;
            react(&mut *server, now, received(400), |action| {
                if let AppAction::Send { data, .. } = action {
                    answer += data.size();
                }
            });
            assert_eq!(answer, 200_000);
            now += Duration::from_secs(*seconds);
            let next = react(&mut *player, now, received(answer), |_| {});
            now = next.expect("there is always a next segment");
            react(&mut *player, now, AppEvent::Timeout, |_| {});
            asked.push(now.as_nanos() / 1_000_000_000);
        }
        asked
    }

    /// Computed by hand for a buffer of three segments. The first three are requested back to back, and then one after
    /// each played segment.
    #[test]
    fn back_to_back_until_the_buffer_is_full_then_at_the_video_s_pace() {
        // The segments take no time to arrive: at 0 s the buffer contains 2, 4, 6 s.
        assert_eq!(asked(&settings(6), &[0, 0, 0, 0, 0]), [0, 0, 0, 2, 4, 6]);
        // Each segment takes a second: at 1, 2, 3 s the buffer contains 2, 3, 4 s. At 4 s it contains 5 s, so the next
        // request is at 5 s.
        assert_eq!(asked(&settings(6), &[1, 1, 1, 1, 1]), [0, 1, 2, 3, 5, 7]);
    }

    /// The second segment takes 7 s, and the buffer becomes empty. The player does not skip to catch up.
    #[test]
    fn a_player_that_ran_dry_goes_on_where_it_was() {
        assert_eq!(asked(&settings(2), &[0, 7, 0, 0]), [0, 2, 11, 13, 15]);
    }

    #[test]
    fn a_buffer_without_room_for_a_segment_is_refused() {
        let error = settings(1).check().expect_err("a segment lasts 2 s");
        assert_eq!(error.field, "buffer");
    }
}
