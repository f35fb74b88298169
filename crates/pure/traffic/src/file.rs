//! Files, one after the other, each over its own connection.

use std::net::SocketAddr;

use netrig_core::{ConnectionEvent, Instant, SpanDistribution, Stream, StreamId, quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application_settings::ApplicationSettings;
use crate::{AppAction, AppEvent, Application, ConnId, Ends, FlowContext, SettingsError, SizeDistribution};

/// Files, one after the other, each over its own connection. `response_time` lasts from the request for a connection to
/// the receiver's confirmation: it includes the handshake but not the close.
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
            unclaimed: None,
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
    /// Number of connections opened so far.
    begun: u32,
    /// Size of a file whose connection is not yet established. The receiver draws a size for each established
    /// connection. If a connection fails before it is established, the next connection uses the same size, so that both
    /// ends draw the same sizes.
    unclaimed: Option<u64>,
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
        let size = *self.unclaimed.get_or_insert_with(|| self.settings.size.draw(&mut self.sizes));
        act(AppAction::fill(conn, StreamId(0), size));
    }

    fn finished(&mut self, now: Instant, conn: ConnId, begun: Instant, act: &mut dyn FnMut(AppAction)) {
        self.unclaimed = None;
        act(AppAction::took(now, &quantity::RESPONSE_TIME, begun));
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
                (ConnectionEvent::Connected { .. }, Some((current, _))) if current == conn => {
                    self.unclaimed = None
                }
                (ConnectionEvent::Received { .. }, Some((current, begun))) if current == conn => {
                    self.finished(now, conn, begun, act);
                }
                // A failed connection records nothing, but counts towards `count`. The next connection is opened after
                // the pause.
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

/// Receives files, and records for each the time from the establishment of the connection to the last byte.
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
                    act(AppAction::took(now, &quantity::OBJECT_TIME, *begun));
                    act(AppAction::record(now, &quantity::OBJECTS_RECEIVED, 1.0));
                    act(AppAction::fill(conn, StreamId(0), 1));
                }
            }
            ConnectionEvent::PeerFinished => act(AppAction::Close { conn }),
            ConnectionEvent::Writable | ConnectionEvent::Closed(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::{CloseReason, Data, Duration, Size};

    use super::*;
    use crate::{Settings, react};

    /// At most ten files of 1 to 100 KB.
    fn ends() -> Ends {
        let size = SizeDistribution::Uniform { min: Size::from_bytes(1_000), max: Size::from_bytes(100_000) };
        let settings = Settings::File(File { size, count: Some(10), pause: None });
        settings.ends(&FlowContext::of_test("file", 1))
    }

    /// The connection that an end opens and the number of bytes that it sends in response to an event.
    fn upon(end: &mut dyn Application, conn: ConnId, event: ConnectionEvent) -> (Option<ConnId>, u64) {
        let (mut opened, mut sent) = (None, 0);
        let event = AppEvent::Connection { conn, event };
        react(end, Instant::ZERO + Duration::from_secs(1), event, |action| match action {
            AppAction::Open { conn, .. } => opened = Some(conn),
            AppAction::Send { data, .. } => sent += data.size(),
            _ => {}
        });
        (opened, sent)
    }

    fn received(bytes: u64) -> ConnectionEvent {
        ConnectionEvent::Received { stream: StreamId(0), data: Data::Fill(bytes) }
    }

    /// Sizes of the confirmed files. The connections in `unestablished` fail before they are established, those in
    /// `lost` after that.
    fn carried(unestablished: &[u32], lost: &[u32]) -> Vec<u64> {
        let Ends { mut client, mut server } = ends();
        let mut sizes = Vec::new();
        let mut size = 0;
        react(&mut *client, Instant::ZERO, AppEvent::Started, |action| {
            if let AppAction::Send { data, .. } = action {
                size += data.size();
            }
        });
        let mut accepted = 0;
        for number in 0..10 {
            let (near, far) = (ConnId::Opened(number), ConnId::Accepted(accepted));
            let failed = ConnectionEvent::Closed(CloseReason::TimedOut);
            let next = if unestablished.contains(&number) {
                upon(&mut *client, near, failed)
            } else {
                let peer = ([10, 0, 0, 1], 1).into();
                assert_eq!(upon(&mut *client, near, ConnectionEvent::Connected { peer }), (None, 0));
                assert_eq!(upon(&mut *server, far, ConnectionEvent::Connected { peer }), (None, 0));
                accepted += 1;
                if lost.contains(&number) {
                    upon(&mut *server, far, failed.clone());
                    upon(&mut *client, near, failed)
                } else {
                    assert_eq!(
                        upon(&mut *server, far, received(size - 1)),
                        (None, 0),
                        "the last byte is missing"
                    );
                    assert_eq!(upon(&mut *server, far, received(1)), (None, 1), "the confirmation");
                    sizes.push(size);
                    upon(&mut *client, near, received(1))
                }
            };
            assert_eq!(next.0, (number < 9).then_some(ConnId::Opened(number + 1)));
            size = next.1;
        }
        sizes
    }

    #[test]
    fn both_ends_of_files_agree_on_sizes_after_a_failed_connection() {
        let all = carried(&[], &[]);
        assert_eq!(all.len(), 10);
        assert_eq!(carried(&[0, 3, 4], &[]), all[..7]);
        assert_eq!(carried(&[3], &[5]), [&all[..4], &all[5..9]].concat());
    }
}
