//! A client of ndt7, including the request that opens the WebSocket. It is the peer of netrig's server in tests.

use std::collections::VecDeque;

use netrig_core::{Duration, Instant, Stream};
use netrig_host::http::message::{HttpError, HttpRequest, HttpResponse};

use netrig_speed::ndt7::frame::{self, CloseCode, FrameError, FrameItem, FrameReader, Opcode};
use netrig_speed::ndt7::{LONGEST_RUNTIME, Measurement, Ndt7Test, RUNTIME, SUBPROTOCOL};

/// The key of the request and its answer (RFC 6455 section 1.3).
const KEY: [&str; 2] = ["dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="];

/// Length of a load message, bytes.
const LOAD: usize = 1 << 17;

/// Time limit for the server's answer to the request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum number of unsent bytes for a server that does not read.
const MOST_UNSENT: usize = 64 * 1024;

/// An event of a session for the owner of the socket.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientEvent {
    /// The WebSocket is open, and the test begins.
    Start,
    /// A measurement of the server.
    Server(Box<Measurement>),
    /// The session has ended: send the remaining bytes and close.
    Over(Result<(), ClientError>),
}

/// Why a test failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// The answer to the request is not HTTP.
    Http(HttpError),
    /// The server refused the WebSocket.
    Status(u16),
    /// The answer does not match the request, or has another subprotocol.
    Answer,
    /// The server sent invalid WebSocket frames.
    Frame(FrameError),
    /// The server sent data in an upload.
    Data,
    /// The server sent too many pings and did not read the answers.
    Flood,
    /// The server did not answer or did not close the WebSocket in time.
    Overtime,
    /// The server closed the connection without a close frame.
    Closed,
}

/// The client's end of a test. It is used like `ServerSession`.
#[derive(Debug)]
pub struct ClientSession {
    test: Ndt7Test,
    /// Source of masking keys.
    random: Stream,
    answer: Vec<u8>,
    began: Option<Instant>,
    deadline: Instant,
    reader: FrameReader,
    /// Number of bytes of all load messages except the last, and of the last load message.
    sent: [u64; 2],
    received: u64,
    out: Vec<u8>,
    events: VecDeque<ClientEvent>,
    stage: ClientStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientStage {
    Asking,
    Running,
    /// This end has sent its close frame, and the server has not sent its own yet.
    Closing,
    Over,
}

impl ClientSession {
    /// A session over a new connection to a server with this name. `random` generates the masking keys.
    pub fn new(now: Instant, test: Ndt7Test, host: &str, random: Stream) -> Self {
        let fields = [
            ("Host", host),
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Key", KEY[0]),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Protocol", SUBPROTOCOL),
            ("User-Agent", "netrig"),
        ];
        let request = HttpRequest::get(&format!("{}?client_name=netrig", test.path()), &fields);
        Self {
            test,
            random,
            answer: Vec::new(),
            began: None,
            deadline: now + PATIENCE,
            reader: FrameReader::of_client(),
            sent: [0; 2],
            received: 0,
            out: request.to_string().into_bytes(),
            events: VecDeque::new(),
            stage: ClientStage::Asking,
        }
    }

    /// Handles bytes of the server.
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) {
        if self.stage != ClientStage::Asking {
            return self.read(bytes);
        }
        self.answer.extend_from_slice(bytes);
        match self.answered() {
            Ok(Some(len)) => {
                // The server ends a download, and this end an upload.
                let lasts = if self.test == Ndt7Test::Download { LONGEST_RUNTIME } else { RUNTIME };
                (self.began, self.deadline) = (Some(now), now + lasts);
                self.stage = ClientStage::Running;
                self.events.push_back(ClientEvent::Start);
                let answer = std::mem::take(&mut self.answer);
                self.read(&answer[len..]);
            }
            Ok(None) => {}
            Err(error) => self.end(Err(error)),
        }
    }

    fn read(&mut self, mut bytes: &[u8]) {
        while self.stage != ClientStage::Over {
            match self.reader.read(&mut bytes) {
                Ok(None) => return,
                Ok(Some(item)) => self.heard(item),
                Err(error) => self.fail(error.code(), ClientError::Frame(error)),
            }
        }
    }

    /// The length of the server's answer, if it is complete and opens the WebSocket.
    fn answered(&self) -> Result<Option<usize>, ClientError> {
        let Some((head, len)) = HttpResponse::read(&self.answer).map_err(ClientError::Http)? else {
            return Ok(None);
        };
        match head.status {
            101 => {}
            status => return Err(ClientError::Status(status)),
        }
        let upgrades = head.lists("Upgrade", "websocket") && head.lists("Connection", "Upgrade");
        let accepts = head.field("Sec-WebSocket-Accept") == Some(KEY[1]);
        let speaks = head.field("Sec-WebSocket-Protocol") == Some(SUBPROTOCOL);
        if upgrades && accepts && speaks { Ok(Some(len)) } else { Err(ClientError::Answer) }
    }

    /// Handles the close of the connection by the server.
    pub fn handle_close(&mut self) {
        match self.stage {
            ClientStage::Over => {}
            ClientStage::Closing => self.end(Ok(())),
            ClientStage::Asking | ClientStage::Running => self.end(Err(ClientError::Closed)),
        }
    }

    /// Handles the deadline of `poll_timeout`, if it has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|deadline| now < deadline) {
            return;
        }
        match (self.stage, self.test, self.began) {
            (ClientStage::Running, Ndt7Test::Upload, Some(began)) => {
                self.stage = ClientStage::Closing;
                self.deadline = began + LONGEST_RUNTIME;
                let key = self.key();
                self.send(&frame::close(CloseCode::NORMAL, "", Some(key)));
            }
            _ => self.end(Err(ClientError::Overtime)),
        }
    }

    /// The time at which [`handle_timeout`](Self::handle_timeout) must be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        (self.stage != ClientStage::Over).then_some(self.deadline)
    }

    /// The next bytes to send. They may be sent between two load messages, not within one.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        (!self.out.is_empty()).then(|| std::mem::take(&mut self.out))
    }

    /// The next load message of a running upload. The previous one must have been sent completely.
    pub fn poll_load(&mut self) -> Option<Vec<u8>> {
        let loads = self.stage == ClientStage::Running && self.test == Ndt7Test::Upload;
        loads.then(|| {
            let key = self.key();
            self.sent = [self.sent.iter().sum(), LOAD as u64];
            // A payload of zeros is, after masking, the repeated key.
            [frame::head(Opcode::Binary, LOAD as u64, Some(key)), key.repeat(LOAD / 4)].concat()
        })
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// Number of bytes of the sent or received messages.
    pub const fn bytes(&self) -> u64 {
        match self.test {
            Ndt7Test::Upload => self.sent[0],
            Ndt7Test::Download => self.received,
        }
    }

    fn key(&mut self) -> [u8; 4] {
        std::array::from_fn(|_| self.random.below(256) as u8)
    }

    fn heard(&mut self, item: FrameItem) {
        match item {
            FrameItem::Binary(bytes) if self.test == Ndt7Test::Download => self.received += bytes,
            FrameItem::Binary(_) => self.fail(CloseCode::UNSUPPORTED, ClientError::Data),
            FrameItem::Text(text) => {
                if let Some(measurement) = Measurement::read(&text) {
                    self.events.push_back(ClientEvent::Server(measurement.into()));
                }
            }
            FrameItem::Ping(payload) => {
                let key = self.key();
                self.send(&frame::message(Opcode::Pong, &payload, Some(key)));
            }
            FrameItem::Pong(_) => {}
            FrameItem::Close(code) => {
                if self.stage == ClientStage::Running {
                    let key = self.key();
                    self.send(&frame::close(code.unwrap_or(CloseCode::NORMAL), "", Some(key)));
                }
                self.end(Ok(()));
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        if self.out.len() + bytes.len() > MOST_UNSENT {
            self.end(Err(ClientError::Flood));
        } else {
            self.out.extend_from_slice(bytes);
        }
    }

    fn fail(&mut self, code: CloseCode, error: ClientError) {
        if self.stage == ClientStage::Running {
            let key = self.key();
            self.send(&frame::close(code, "", Some(key)));
        }
        self.end(Err(error));
    }

    fn end(&mut self, outcome: Result<(), ClientError>) {
        if self.stage != ClientStage::Over {
            self.stage = ClientStage::Over;
            self.events.push_back(ClientEvent::Over(outcome));
        }
    }
}
