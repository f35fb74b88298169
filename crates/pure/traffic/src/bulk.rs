//! Bulk transfer: as much data as the transport takes.

use netrig_core::{ConnectionEvent, Duration, Instant, Size, StreamId, quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application_settings::ApplicationSettings;
use crate::{AppAction, AppEvent, Application, ConnId, Ends, FlowContext, SettingsError};

/// Bytes sent at a time on each stream: small enough that little data is unsent when the time is over, and large enough
/// that the number of calls is small.
const BLOCK: u64 = 64_000;

/// As much data as the transport takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// Amount of data; without it, data is sent until `seconds` are over or the flow stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// Time during which new data is sent; without it, data is sent until `bytes` are sent or the flow stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Duration>,
    /// Streams that carry the messages in turn; a transport without streams ignores it.
    #[serde(default = "one_stream")]
    pub streams: u16,
    /// Size of each message: 64 KB by default. A transport without messages sees only their sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Size>,
}

fn one_stream() -> u16 {
    1
}

impl ApplicationSettings for Bulk {
    fn check(&self) -> Result<(), SettingsError> {
        if self.streams == 0 {
            return Err(SettingsError::new("streams", "at least one is needed"));
        }
        for (field, size) in [("bytes", self.bytes), ("message", self.message)] {
            if size.is_some_and(|size| size.bytes() == 0) {
                return Err(SettingsError::new(field, "it must be above zero"));
            }
        }
        Ok(())
    }

    fn may_read_slowly(&self) -> bool {
        true
    }

    fn streams(&self) -> u16 {
        self.streams
    }

    fn message(&self) -> Option<Size> {
        self.message
    }

    fn has_an_end(&self) -> bool {
        self.bytes.is_some() || self.seconds.is_some()
    }

    fn sends_fill_only(&self) -> bool {
        true
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        let left = self.bytes.map(|bytes| bytes.bytes());
        let source = BulkSource {
            server: flow.server,
            left: left.unwrap_or(u64::MAX),
            until: self.seconds.map(|span| flow.start + span),
            message: self.message.map_or(BLOCK, Size::bytes),
            streams: self.streams,
            next_stream: 0,
            closed: false,
        };
        let sink = BulkSink { started: flow.start, left };
        Ends { client: Box::new(source), server: Box::new(sink) }
    }
}

/// Keeps its connection busy until the size or the time is reached, or the flow stops.
struct BulkSource {
    server: std::net::SocketAddr,
    left: u64,
    until: Option<Instant>,
    message: u64,
    streams: u16,
    next_stream: u16,
    closed: bool,
}

const CONN: ConnId = ConnId::Opened(0);

impl BulkSource {
    /// Sends about one block on each stream: one message per stream in turn.
    fn give(&mut self, act: &mut dyn FnMut(AppAction)) {
        let rounds = BLOCK.div_ceil(self.message);
        for _ in 0..rounds * u64::from(self.streams) {
            let size = self.left.min(self.message);
            if size == 0 || self.closed {
                break;
            }
            let stream = StreamId(self.next_stream);
            self.next_stream = (self.next_stream + 1) % self.streams;
            self.left -= size;
            act(AppAction::fill(CONN, stream, size));
        }
        if self.left == 0 {
            self.close(act);
        }
    }

    fn close(&mut self, act: &mut dyn FnMut(AppAction)) {
        if !self.closed {
            self.closed = true;
            act(AppAction::Close { conn: CONN });
        }
    }
}

impl Application for BulkSource {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        match event {
            AppEvent::Started => {
                act(AppAction::Open { conn: CONN, to: self.server });
                self.give(act);
            }
            AppEvent::Connection { event: ConnectionEvent::Writable, .. } => self.give(act),
            AppEvent::Connection { event: ConnectionEvent::Closed(_), .. } => self.closed = true,
            AppEvent::Timeout if self.until.is_some_and(|until| until <= now) => {
                self.until = None;
                self.close(act);
            }
            AppEvent::Stopped => self.close(act),
            _ => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.until.filter(|_| !self.closed)
    }
}

/// Receives the data. When all data has arrived, records the time since the flow's start.
struct BulkSink {
    started: Instant,
    left: Option<u64>,
}

impl Application for BulkSink {
    fn ignores_data(&self) -> bool {
        self.left.is_none()
    }

    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        let AppEvent::Connection { conn, event } = event else { return };
        match (event, &mut self.left) {
            (ConnectionEvent::Received { data, .. }, Some(left)) => {
                *left = left.saturating_sub(data.size());
                if *left == 0 {
                    self.left = None;
                    act(AppAction::took(now, &quantity::OBJECT_TIME, self.started));
                    act(AppAction::record(now, &quantity::OBJECTS_RECEIVED, 1.0));
                }
            }
            (ConnectionEvent::PeerFinished, _) => act(AppAction::Close { conn }),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, react};

    /// Stream and size of each message sent at the start.
    fn given(bulk: Bulk) -> Vec<(u16, u64)> {
        let flow = FlowContext::of_test("file", 1);
        let mut source = Settings::Bulk(bulk).ends(&flow).client;
        let mut given = Vec::new();
        react(&mut *source, Instant::ZERO, AppEvent::Started, |action| {
            if let AppAction::Send { stream, data, .. } = action {
                given.push((stream.0, data.size()));
            }
        });
        given
    }

    fn bulk(message: Option<u64>, streams: u16, bytes: u64) -> Bulk {
        let bytes = Some(Size::from_bytes(bytes));
        Bulk { bytes, seconds: None, streams, message: message.map(Size::from_bytes) }
    }

    #[test]
    fn messages_go_to_the_streams_in_turn() {
        let given = given(bulk(Some(365), 3, 1_000));
        assert_eq!(given, [(0, 365), (1, 365), (2, 270)]);
    }

    #[test]
    fn a_block_for_each_stream_at_a_time() {
        assert_eq!(given(bulk(None, 2, 1_000_000)), [(0, 64_000), (1, 64_000)]);
        let messages = given(bulk(Some(1000), 2, 1_000_000));
        assert_eq!(messages.len(), 128);
        assert_eq!(messages[127], (1, 1000));
    }

    #[test]
    fn a_message_of_zero_bytes_is_refused() {
        assert!(bulk(Some(0), 1, 1).check().unwrap_err().to_string().contains("`message`"));
    }
}
