//! As much as the transport takes.

use std::collections::VecDeque;

use netrig_core::{ConnectionEvent, Data, Duration, Instant, Sample, Size, StreamId, quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::Description;
use crate::{AppAction, AppEvent, Application, ConnId, Ends, FlowContext, SettingsError};

/// Given to the transport at a time. Small enough that little is left over when time is up, large enough
/// that asking again costs nothing.
const BLOCK: u64 = 64_000;

/// As much as the transport takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// How much; without it the flow sends until it stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// For how long new data is given; without it until `bytes` are sent or the flow stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Duration>,
    /// Streams over which the data is spread in turn; a transport without streams ignores it.
    #[serde(default = "one_stream")]
    pub streams: u16,
}

fn one_stream() -> u16 {
    1
}

impl Description for Bulk {
    fn check(&self) -> Result<(), SettingsError> {
        if self.streams == 0 {
            return Err(SettingsError::new("streams", "at least one is needed"));
        }
        if self.bytes.is_some_and(|bytes| bytes.bytes() == 0) {
            return Err(SettingsError::new("bytes", "it must be above zero"));
        }
        Ok(())
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        let left = self.bytes.map(|bytes| bytes.bytes());
        let source = Source {
            server: flow.server,
            left: left.unwrap_or(u64::MAX),
            until: self.seconds.map(|span| flow.start + span),
            streams: self.streams,
            next_stream: 0,
            closed: false,
            actions: VecDeque::new(),
        };
        let sink = Sink { started: flow.start, left, actions: VecDeque::new() };
        Ends { client: Box::new(source), server: Box::new(sink) }
    }
}

/// Keeps its one connection busy.
struct Source {
    server: std::net::SocketAddr,
    left: u64,
    until: Option<Instant>,
    streams: u16,
    next_stream: u16,
    closed: bool,
    actions: VecDeque<AppAction>,
}

const CONN: ConnId = ConnId::Opened(0);

impl Source {
    /// Gives one block to each stream.
    fn give(&mut self) {
        for _ in 0..self.streams {
            let size = self.left.min(BLOCK);
            if size == 0 || self.closed {
                break;
            }
            let stream = StreamId(self.next_stream);
            self.next_stream = (self.next_stream + 1) % self.streams;
            self.left -= size;
            self.actions.push_back(AppAction::Send { conn: CONN, stream, data: Data::Fill(size) });
        }
        if self.left == 0 {
            self.close();
        }
    }

    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.actions.push_back(AppAction::Close { conn: CONN });
        }
    }
}

impl Application for Source {
    fn handle(&mut self, now: Instant, event: AppEvent) {
        match event {
            AppEvent::Started => {
                self.actions.push_back(AppAction::Open { conn: CONN, to: self.server });
                self.give();
            }
            AppEvent::Connection { event: ConnectionEvent::Writable, .. } => self.give(),
            AppEvent::Connection { event: ConnectionEvent::Closed(_), .. } => self.closed = true,
            AppEvent::Timeout if self.until.is_some_and(|until| until <= now) => {
                self.until = None;
                self.close();
            }
            AppEvent::Stopped => self.close(),
            _ => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.until.filter(|_| !self.closed)
    }

    fn poll_action(&mut self, _now: Instant) -> Option<AppAction> {
        self.actions.pop_front()
    }
}

/// Receives, and tells when everything has arrived.
struct Sink {
    started: Instant,
    left: Option<u64>,
    actions: VecDeque<AppAction>,
}

impl Application for Sink {
    fn handle(&mut self, now: Instant, event: AppEvent) {
        let AppEvent::Connection { conn, event } = event else { return };
        match (event, &mut self.left) {
            (ConnectionEvent::Received { data, .. }, Some(left)) => {
                *left = left.saturating_sub(data.size());
                if *left == 0 {
                    self.left = None;
                    let value = now.since(self.started).as_secs_f64();
                    for (quantity, value) in
                        [(&quantity::OBJECT_TIME, value), (&quantity::OBJECTS_RECEIVED, 1.0)]
                    {
                        self.actions.push_back(AppAction::Record(Sample { at: now, quantity, value }));
                    }
                }
            }
            (ConnectionEvent::PeerFinished, _) => self.actions.push_back(AppAction::Close { conn }),
            _ => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_action(&mut self, _now: Instant) -> Option<AppAction> {
        self.actions.pop_front()
    }
}
