//! Files, one after the other, each over its own connection.

use std::net::SocketAddr;

use netrig_core::{ConnectionEvent, Instant, SpanDistribution, Stream, StreamId, quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application_settings::ApplicationSettings;
use crate::{AppAction, AppEvent, Application, ConnId, Ends, FlowContext, SettingsError, SizeDistribution};

/// Files, one after the other, each over its own connection. `response_time` lasts from the request for a connection to the
/// receiver's confirmation: it includes the handshake, and not the close.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Size of a file.
    pub size: SizeDistribution,
    /// Number of files, failed connections included; without it files are sent until the flow stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Pause between the end of a file and the start of the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<SpanDistribution>,
}

impl ApplicationSettings for File {
    fn may_read_slowly(&self) -> bool {
        true
    }

    fn has_an_end(&self) -> bool {
        self.count.is_some()
    }

    fn check(&self) -> Result<(), SettingsError> {
        self.size.check("size")?;
        if self.count == Some(0) {
            return Err(SettingsError::new("count", "at least one file is needed"));
        }
        Ok(())
    }

    fn sends_fill_only(&self) -> bool {
        true
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        let client = FileSender {
            server: flow.server,
            settings: self.clone(),
            sizes: flow.stream("sizes"),
            pauses: flow.stream("pauses"),
            begun: 0,
            current: None,
            next: None,
            stopped: false,
        };
        let server = FileReceiver { size: self.size.clone(), sizes: flow.stream("sizes"), current: None };
        Ends { client: Box::new(client), server: Box::new(server) }
    }

    fn has_infinite_variance(&self) -> bool {
        self.size.has_infinite_variance()
    }
}

/// Sends a file, waits for the other end's confirmation (one byte, like FTP's `226`), closes, pauses, and sends the
/// next.
struct FileSender {
    server: SocketAddr,
    settings: File,
    sizes: Stream,
    pauses: Stream,
    begun: u32,
    current: Option<(ConnId, Instant)>,
    next: Option<Instant>,
    stopped: bool,
}

impl FileSender {
    fn begin(&mut self, now: Instant, act: &mut dyn FnMut(AppAction)) {
        if self.stopped || self.settings.count.is_some_and(|count| self.begun >= count) {
            return;
        }
        let conn = ConnId::Opened(self.begun);
        self.begun += 1;
        self.current = Some((conn, now));
        act(AppAction::Open { conn, to: self.server });
        act(AppAction::fill(conn, StreamId(0), self.settings.size.draw(&mut self.sizes)));
    }

    fn finished(&mut self, now: Instant, conn: ConnId, begun: Instant, act: &mut dyn FnMut(AppAction)) {
        let value = now.since(begun).as_secs_f64();
        act(AppAction::record(now, &quantity::RESPONSE_TIME, value));
        act(AppAction::Close { conn });
        self.pause(now, act);
    }

    fn pause(&mut self, now: Instant, act: &mut dyn FnMut(AppAction)) {
        self.current = None;
        match &self.settings.pause {
            Some(pause) => self.next = Some(now + pause.draw(&mut self.pauses)),
            None => self.begin(now, act),
        }
    }
}

impl Application for FileSender {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        match event {
            AppEvent::Started => self.begin(now, act),
            AppEvent::Timeout if self.next.is_some_and(|at| at <= now) => {
                self.next = None;
                self.begin(now, act);
            }
            AppEvent::Connection { conn, event } => match (event, self.current) {
                (ConnectionEvent::Received { .. }, Some((current, begun))) if current == conn => {
                    self.finished(now, conn, begun, act);
                }
                // A failed connection records nothing, but counts towards `count`. The next one is opened after the pause.
                (ConnectionEvent::Closed(_), Some((current, _))) if current == conn => self.pause(now, act),
                _ => {}
            },
            AppEvent::Stopped => self.stopped = true,
            _ => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

/// Receives files and records the time of each from the connection's establishment to its last byte.
struct FileReceiver {
    size: SizeDistribution,
    sizes: Stream,
    current: Option<(ConnId, Instant, u64)>,
}

impl Application for FileReceiver {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        let AppEvent::Connection { conn, event } = event else { return };
        match event {
            ConnectionEvent::Connected { .. } => {
                self.current = Some((conn, now, self.size.draw(&mut self.sizes)));
            }
            ConnectionEvent::Received { data, .. } => {
                let Some((current, begun, left)) = &mut self.current else { return };
                if *current != conn || *left == 0 {
                    return;
                }
                *left = left.saturating_sub(data.size());
                if *left == 0 {
                    let value = now.since(*begun).as_secs_f64();
                    act(AppAction::record(now, &quantity::OBJECT_TIME, value));
                    act(AppAction::record(now, &quantity::OBJECTS_RECEIVED, 1.0));
                    act(AppAction::fill(conn, StreamId(0), 1));
                }
            }
            ConnectionEvent::PeerFinished => act(AppAction::Close { conn }),
            ConnectionEvent::Writable | ConnectionEvent::Closed(_) => {}
        }
    }
}
