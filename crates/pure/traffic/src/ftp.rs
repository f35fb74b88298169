//! One file by FTP.

use std::net::SocketAddr;

use netrig_core::{ConnectionEvent, Instant, Size, StreamId, quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application_settings::ApplicationSettings;
use crate::{AppAction, AppEvent, Application, ConnId, Ends, FlowContext, SettingsError};

/// The longest file, bytes. The disk of the server limits it.
const LONGEST: u64 = 4 << 30;

/// Lengths of the replies `150 Ok to send data.` and `226 Transfer complete.`, bytes.
const BEGINS: u64 = 22;
const COMPLETE: u64 = 24;

/// One file by FTP (RFC 959). On a real substrate a third-party server sends or stores it. In the model, the replies
/// about the transfer are sent over the data connection instead of the control connection. A fetch sends only the reply
/// that starts the transfer. Its measured time ends with the last byte of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ftp {
    /// Size of the file.
    pub size: Size,
    /// Direction: `store` by default.
    #[serde(default)]
    pub direction: FtpDirection,
}

/// Direction of a file transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FtpDirection {
    /// From the flow's first end, which is the client, to the server.
    #[default]
    Store,
    /// From the server to the client.
    Fetch,
}

impl ApplicationSettings for Ftp {
    fn check(&self) -> Result<(), SettingsError> {
        match self.size.bytes() {
            0 => Err(SettingsError::new("size", "the file must have at least one byte")),
            size if size > LONGEST => Err(SettingsError::new("size", "at most 4 GiB can be transferred")),
            _ => Ok(()),
        }
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        let (size, direction) = (self.size.bytes(), self.direction);
        let client = FtpClient { server: flow.server, size, direction, begun: None, received: 0 };
        let server = FtpServer { size, direction, left: size };
        Ends { client: Box::new(client), server: Box::new(server) }
    }

    fn sends_fill_only(&self) -> bool {
        true
    }

    fn answers(&self) -> bool {
        self.direction == FtpDirection::Fetch
    }

    fn has_an_end(&self) -> bool {
        true
    }
}

/// The only connection.
const CONNECTION: ConnId = ConnId::Opened(0);

/// Measures the time from the reply that starts the transfer to the reply that completes it. A fetch ends with the last
/// byte of the file instead.
struct FtpClient {
    server: SocketAddr,
    size: u64,
    direction: FtpDirection,
    begun: Option<Instant>,
    received: u64,
}

impl FtpClient {
    fn take(&mut self, now: Instant, bytes: u64, act: &mut dyn FnMut(AppAction)) {
        let is_first = self.received == 0;
        self.received += bytes;
        if is_first {
            self.begun = Some(now);
        }
        let (sends, complete) = match self.direction {
            FtpDirection::Store => (is_first, BEGINS + COMPLETE),
            FtpDirection::Fetch => (false, BEGINS + self.size),
        };
        if sends {
            act(AppAction::fill(CONNECTION, StreamId(0), self.size));
        }
        if let Some(begun) = self.begun.filter(|_| self.received >= complete) {
            self.begun = None;
            act(AppAction::took(now, &quantity::RESPONSE_TIME, begun));
            act(AppAction::Close { conn: CONNECTION });
        }
    }
}

impl Application for FtpClient {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        match event {
            AppEvent::Started => act(AppAction::Open { conn: CONNECTION, to: self.server }),
            AppEvent::Connection { event: ConnectionEvent::Received { data, .. }, .. } => {
                self.take(now, data.size(), act);
            }
            _ => {}
        }
    }
}

/// Sends the reply that starts the transfer when the connection is established. After it has received a stored file,
/// sends the reply that completes the transfer.
struct FtpServer {
    size: u64,
    direction: FtpDirection,
    /// Bytes of a stored file that have not been received.
    left: u64,
}

impl Application for FtpServer {
    fn handle(&mut self, _now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        let AppEvent::Connection { conn, event } = event else { return };
        let mut send = |size| act(AppAction::fill(conn, StreamId(0), size));
        match event {
            ConnectionEvent::Connected { .. } => {
                send(BEGINS);
                if self.direction == FtpDirection::Fetch {
                    send(self.size);
                }
            }
            ConnectionEvent::Received { data, .. } if self.left > 0 => {
                self.left = self.left.saturating_sub(data.size());
                if self.left == 0 {
                    send(COMPLETE);
                }
            }
            ConnectionEvent::PeerFinished => act(AppAction::Close { conn }),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::{Data, Duration};

    use super::*;
    use crate::{Settings, react};

    fn ends(direction: FtpDirection) -> Ends {
        let settings = Settings::Ftp(Ftp { size: "1000 B".parse().unwrap(), direction });
        settings.check().unwrap();
        settings.ends(&FlowContext::of_test("file", 1))
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn received(conn: ConnId, bytes: u64) -> AppEvent {
        let event = ConnectionEvent::Received { stream: StreamId(0), data: Data::Fill(bytes) };
        AppEvent::Connection { conn, event }
    }

    /// Response of an end to an event: bytes sent, times recorded, and whether it closes.
    fn upon(end: &mut dyn Application, now: Instant, event: AppEvent) -> (u64, Vec<f64>, bool) {
        let (mut sent, mut times, mut closes) = (0, vec![], false);
        react(end, now, event, |action| match action {
            AppAction::Send { data, .. } => sent += data.size(),
            AppAction::Record(sample) => times.push(sample.value),
            AppAction::Close { .. } => closes = true,
            _ => {}
        });
        (sent, times, closes)
    }

    /// Nothing is sent before the server's first reply. The measured time is from that reply, at 30 ms, to the second
    /// reply, at 130 ms, even if the replies arrive in pieces.
    #[test]
    fn a_file_is_stored_between_two_replies_of_the_server() {
        let Ends { mut client, mut server } = ends(FtpDirection::Store);
        let accepted = ConnId::Accepted(0);
        assert_eq!(upon(&mut *client, at(0), AppEvent::Started), (0, vec![], false));
        let connected = AppEvent::Connection {
            conn: accepted,
            event: ConnectionEvent::Connected { peer: ([10, 0, 0, 1], 1).into() },
        };
        assert_eq!(upon(&mut *server, at(20), connected).0, BEGINS);
        assert_eq!(upon(&mut *client, at(30), received(CONNECTION, 10)), (1000, vec![], false));
        assert_eq!(upon(&mut *client, at(31), received(CONNECTION, BEGINS - 10)), (0, vec![], false));
        assert_eq!(upon(&mut *server, at(110), received(accepted, 999)).0, 0);
        assert_eq!(upon(&mut *server, at(120), received(accepted, 1)).0, COMPLETE);
        assert_eq!(upon(&mut *client, at(130), received(CONNECTION, COMPLETE)), (0, vec![0.1], true));
    }

    #[test]
    fn a_file_is_fetched_to_its_last_byte() {
        let Ends { mut client, mut server } = ends(FtpDirection::Fetch);
        let connected = AppEvent::Connection {
            conn: ConnId::Accepted(0),
            event: ConnectionEvent::Connected { peer: ([10, 0, 0, 1], 1).into() },
        };
        assert_eq!(upon(&mut *server, at(20), connected).0, BEGINS + 1000);
        assert_eq!(upon(&mut *client, at(30), received(CONNECTION, BEGINS + 999)), (0, vec![], false));
        assert_eq!(upon(&mut *client, at(50), received(CONNECTION, 1)), (0, vec![0.02], true));
    }

    #[test]
    fn files_that_cannot_be() {
        for (size, why) in [("0 B", "at least one byte"), ("5 GiB", "at most 4 GiB")] {
            let settings = Ftp { size: size.parse().unwrap(), direction: FtpDirection::Store };
            assert!(settings.check().unwrap_err().why.contains(why));
        }
    }
}
