//! The server's end of a test, after the WebSocket has been opened.

use std::collections::VecDeque;

use netrig_core::{Duration, Instant};

use super::frame::{self, CloseCode, FrameError, FrameItem, FrameReader, Opcode};
use super::load::{LoadMessage, Loading};
use super::measurement::{AppInfo, ConnectionInfo, Measurement, MeasurementOrigin, TcpInfo};
use super::{INTERVAL, LONGEST_RUNTIME, Ndt7Test, RUNTIME, Upgrade};

/// Maximum number of unsent bytes for a client that does not read. Above this limit, the session is aborted.
const MOST_UNSENT: usize = 64 * 1024;

/// Maximum number of text messages of a client in a test. It is twice the ten per second that are allowed.
const MOST_TEXTS: u32 = 260;

/// An event of a session for the owner of the socket.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerEvent {
    /// Kernel counters are due: call [`measured`](ServerSession::measured).
    Measure,
    /// A measurement of the client.
    Client(Box<Measurement>),
    /// The session has ended: send the remaining bytes and close.
    Over(Result<(), ServerError>),
}

/// Why a test failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// The client sent invalid WebSocket frames.
    #[error("the client sent {0}")]
    Frame(#[from] FrameError),
    /// The client sent data in a download.
    #[error("the client sent data in a download")]
    Data,
    /// The client sent too many messages.
    #[error(
        "the client sent more than {MOST_TEXTS} messages of text, or pings whose answers it does not read"
    )]
    Flood,
    /// The client did not close the WebSocket in time.
    #[error("the client did not end the test after {} s", LONGEST_RUNTIME.as_nanos() / 1_000_000_000)]
    Overtime,
    /// The client closed the connection without a close frame.
    #[error("the client closed the connection without a close frame")]
    Closed,
}

/// The server's end of a test.
///
/// After each call, drain [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event), and read
/// [`poll_timeout`](Self::poll_timeout) again. Call [`poll_load`](Self::poll_load) only when all these bytes and the
/// previous load message have been sent.
#[derive(Debug)]
pub struct ServerSession {
    test: Ndt7Test,
    early_exit: Option<u64>,
    connection: ConnectionInfo,
    began: Instant,
    next_measure: Instant,
    reader: FrameReader,
    loading: Loading,
    received: u64,
    texts: u32,
    out: Vec<u8>,
    events: VecDeque<ServerEvent>,
    stage: ServerStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerStage {
    Running,
    /// This end has sent its close frame, and the client has not sent its own yet.
    Closing,
    Over,
}

impl ServerSession {
    /// A session with a client whose upgrade request was answered.
    pub fn new(now: Instant, upgrade: &Upgrade, connection: ConnectionInfo) -> Self {
        Self {
            test: upgrade.test,
            early_exit: upgrade.early_exit,
            connection,
            began: now,
            next_measure: now + INTERVAL,
            reader: FrameReader::of_server(),
            loading: Loading::new(),
            received: 0,
            texts: 0,
            out: Vec::new(),
            events: VecDeque::new(),
            stage: ServerStage::Running,
        }
    }

    /// Handles bytes of the client.
    pub fn handle_bytes(&mut self, mut bytes: &[u8]) {
        while self.stage != ServerStage::Over {
            match self.reader.read(&mut bytes) {
                Ok(None) => return,
                Ok(Some(item)) => self.heard(item),
                Err(error) => self.fail(error.code(), error.into()),
            }
        }
    }

    /// Handles the close of the connection by the client.
    pub fn handle_close(&mut self) {
        match self.stage {
            ServerStage::Over => {}
            ServerStage::Closing => self.end(Ok(())),
            ServerStage::Running => self.end(Err(ServerError::Closed)),
        }
    }

    /// Handles the deadline of [`poll_timeout`](Self::poll_timeout), if it has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|deadline| now < deadline) {
            return;
        }
        if self.stage == ServerStage::Closing {
            // A client that still sends may have much data in flight. However, it has had time to receive the close
            // frame.
            return self.end(Err(ServerError::Overtime));
        }
        if now.since(self.began) >= RUNTIME {
            return self.close();
        }
        self.next_measure = now + INTERVAL;
        self.events.push_back(ServerEvent::Measure);
    }

    /// The time at which [`handle_timeout`](Self::handle_timeout) must be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.stage {
            ServerStage::Running => Some(self.next_measure.min(self.began + RUNTIME)),
            ServerStage::Closing => Some(self.began + LONGEST_RUNTIME),
            ServerStage::Over => None,
        }
    }

    /// Passes the kernel counters in response to [`ServerEvent::Measure`], if available.
    pub fn measured(&mut self, now: Instant, tcp: Option<TcpInfo>) {
        if self.stage != ServerStage::Running {
            return;
        }
        let elapsed = micros(now.since(self.began));
        let measurement = Measurement {
            app_info: Some(AppInfo {
                elapsed_time: elapsed,
                num_bytes: self.bytes().try_into().unwrap_or(i64::MAX),
            }),
            connection_info: Some(self.connection.clone()),
            origin: Some(MeasurementOrigin::Server),
            test: Some(self.test),
            tcp_info: tcp.map(|tcp| TcpInfo { elapsed_time: Some(elapsed), ..tcp }),
        };
        self.send(&frame::message(Opcode::Text, measurement.write().as_bytes(), None));
        let arrived =
            tcp.and_then(|tcp| tcp.bytes_acked).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
        if self.test == Ndt7Test::Download && self.early_exit.is_some_and(|enough| arrived >= enough) {
            self.close();
        }
    }

    /// Ends the test early. The client is informed and closes the WebSocket.
    pub fn close(&mut self) {
        if self.stage == ServerStage::Running {
            self.stage = ServerStage::Closing;
            self.send(&frame::close(CloseCode::NORMAL, "", None));
        }
    }

    /// The next bytes to send. They may be sent between two load messages, not within one.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        (!self.out.is_empty()).then(|| std::mem::take(&mut self.out))
    }

    /// The next load message of a running download. The previous one must have been sent completely.
    pub fn poll_load(&mut self) -> Option<LoadMessage> {
        (self.stage == ServerStage::Running && self.test == Ndt7Test::Download).then(|| self.loading.next())
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// Number of bytes of the messages that were sent, or of those that arrived before the end of the test.
    pub const fn bytes(&self) -> u64 {
        match self.test {
            Ndt7Test::Download => self.loading.sent(),
            Ndt7Test::Upload => self.received,
        }
    }

    fn heard(&mut self, item: FrameItem) {
        match item {
            FrameItem::Binary(bytes) => match (self.test, self.stage) {
                (Ndt7Test::Download, _) => self.fail(CloseCode::UNSUPPORTED, ServerError::Data),
                (Ndt7Test::Upload, ServerStage::Running) => self.received += bytes,
                (Ndt7Test::Upload, _) => {}
            },
            FrameItem::Text(text) => {
                self.texts += 1;
                if self.texts > MOST_TEXTS {
                    self.fail(CloseCode::POLICY, ServerError::Flood);
                } else if let Some(measurement) = Measurement::read(&text) {
                    self.events.push_back(ServerEvent::Client(measurement.into()));
                }
            }
            FrameItem::Ping(payload) => self.send(&frame::message(Opcode::Pong, &payload, None)),
            FrameItem::Pong(_) => {}
            FrameItem::Close(code) => {
                if self.stage == ServerStage::Running {
                    self.send(&frame::close(code.unwrap_or(CloseCode::NORMAL), "", None));
                }
                self.end(Ok(()));
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        if self.out.len() + bytes.len() > MOST_UNSENT {
            self.end(Err(ServerError::Flood));
        } else {
            self.out.extend_from_slice(bytes);
        }
    }

    fn fail(&mut self, code: CloseCode, error: ServerError) {
        if self.stage == ServerStage::Running {
            self.send(&frame::close(code, "", None));
        }
        self.end(Err(error));
    }

    fn end(&mut self, outcome: Result<(), ServerError>) {
        if self.stage != ServerStage::Over {
            self.stage = ServerStage::Over;
            self.events.push_back(ServerEvent::Over(outcome));
        }
    }
}

fn micros(span: Duration) -> i64 {
    (span.as_nanos() / 1_000).try_into().unwrap_or(i64::MAX)
}
