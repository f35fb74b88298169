//! The client's end of the control connection.

use std::collections::VecDeque;

use netrig_core::{Duration, Instant};

use super::code::{Iperf3Code, Iperf3Refusal};
use super::cookie::Cookie;
use super::error::{SessionError, SessionPhase};
use super::inbox::{Inbox, framed};
use super::parameters::TestParameters;
use super::results::{self, TestResults};
use super::state::TestState;

/// Time limit of a server's answer. The wait for the server's request to open the streams has no limit, because the
/// server may be busy with another test.
const PATIENCE: Duration = Duration::from_secs(30);

/// An event of a session for the owner of the sockets.
#[derive(Debug)]
pub enum ClientEvent {
    /// Open all streams in the order of their numbers, uploads first. Over TCP: connect to the server's port and send
    /// the cookie. Over UDP: send [`CONNECT`](super::datagram::CONNECT) until it is answered, then open the next
    /// stream.
    Open,
    /// The server has all streams: start to send and to receive.
    Start,
    /// The duration of the test has passed: stop sending, then call [`stop`](ClientSession::stop).
    TimeUp,
    /// The server has stopped: stop receiving, and call [`results`](ClientSession::results).
    Stop,
    /// The results of the server.
    Results(Box<TestResults>),
    /// The session has ended: send the remaining bytes and close everything.
    Over(Result<(), SessionError>),
}

/// The client's end of the control connection. It also sends the cookie.
///
/// After each call, drain [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event), and read
/// [`poll_timeout`](Self::poll_timeout) again.
#[derive(Debug)]
pub struct ClientSession {
    asked: TestParameters,
    stage: ClientStage,
    inbox: Inbox,
    out: Vec<u8>,
    events: VecDeque<ClientEvent>,
    deadline: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientStage {
    /// Waiting for the server to request the parameters.
    Parameters,
    /// Waiting for the server to request the streams. The server may serve other clients first.
    Waiting,
    /// Waiting for the server to have all streams.
    Opening,
    /// The server has all streams and has started its timers.
    Starting,
    Running,
    /// Waiting for the server to stop.
    Stopping,
    /// Waiting for the owner to pass the results of this end.
    Telling,
    /// Waiting for the results of the server.
    Exchange,
    /// Waiting for the server to confirm the results.
    Closing,
    /// Waiting for the two numbers that follow the server's error state.
    Refused,
    Over,
}

impl ClientSession {
    /// A session over a new connection. The cookie must be random.
    pub fn new(now: Instant, cookie: Cookie, asked: TestParameters) -> Self {
        Self {
            asked,
            stage: ClientStage::Parameters,
            inbox: Inbox::default(),
            out: cookie.bytes().to_vec(),
            events: VecDeque::new(),
            deadline: Some(now + PATIENCE),
        }
    }

    /// Handles bytes of the server.
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) {
        if self.stage == ClientStage::Over {
            return;
        }
        self.inbox.push(bytes);
        while let Some(read) = self.read(now).transpose() {
            if let Err(error) = read {
                self.fail(error);
            }
        }
    }

    /// Handles the close of the connection by the server.
    pub fn handle_close(&mut self) {
        let refused = if self.stage == ClientStage::Refused { self.inbox.array() } else { None };
        if let Some(code) = refused {
            // Servers such as iperf3 3.12 report a wrong password with the first number only.
            let code = Iperf3Code(i32::from_be_bytes(code));
            self.end(Err(SessionError::Refused(code.into())));
        } else if self.stage != ClientStage::Over {
            self.end(Err(SessionError::Closed(self.phase())));
        }
    }

    /// Handles the deadline of [`poll_timeout`](Self::poll_timeout), if it has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        if self.stage == ClientStage::Running {
            self.deadline = None;
            self.events.push_back(ClientEvent::TimeUp);
        } else {
            self.fail(SessionError::Silent(self.phase()));
        }
    }

    /// The time at which [`handle_timeout`](Self::handle_timeout) must be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    /// The next bytes to send.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        (!self.out.is_empty()).then(|| std::mem::take(&mut self.out))
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// The phase of the test.
    pub const fn phase(&self) -> SessionPhase {
        match self.stage {
            ClientStage::Parameters | ClientStage::Refused => SessionPhase::Parameters,
            ClientStage::Waiting => SessionPhase::Waiting,
            ClientStage::Opening | ClientStage::Starting => SessionPhase::Opening,
            ClientStage::Running | ClientStage::Stopping => SessionPhase::Running,
            ClientStage::Telling | ClientStage::Exchange | ClientStage::Closing | ClientStage::Over => {
                SessionPhase::Results
            }
        }
    }

    /// Ends the test after the streams have stopped sending. Call it also when a limit of bytes or blocks is reached.
    pub fn stop(&mut self, now: Instant) {
        if self.stage == ClientStage::Running {
            self.out.push(TestState::TestEnd.byte());
            self.deadline = Some(now + PATIENCE);
            self.stage = ClientStage::Stopping;
        }
    }

    /// Passes the results of this end, in response to [`ClientEvent::Stop`].
    pub fn results(&mut self, now: Instant, results: &TestResults) {
        if self.stage == ClientStage::Telling {
            self.out.extend(framed(&results.write()));
            self.deadline = Some(now + PATIENCE);
            self.stage = ClientStage::Exchange;
        }
    }

    /// Aborts the test and informs the server.
    pub fn terminate(&mut self) {
        if self.stage != ClientStage::Over {
            self.fail(SessionError::Stopped(self.phase()));
        }
    }

    /// Handles one message of the server. Returns `None` if it is not complete.
    fn read(&mut self, now: Instant) -> Result<Option<()>, SessionError> {
        match self.stage {
            ClientStage::Refused => {
                let Some(numbers) = self.inbox.array() else { return Ok(None) };
                self.end(Err(SessionError::Refused(Iperf3Refusal::from_bytes(numbers))));
            }
            ClientStage::Exchange => {
                let Some(json) = self.inbox.json(results::LONGEST_OF_SERVER)? else { return Ok(None) };
                let theirs = TestResults::read(&json, self.asked.streams())?;
                self.events.push_back(ClientEvent::Results(Box::new(theirs)));
                self.stage = ClientStage::Closing;
            }
            _ => {
                let Some(byte) = self.inbox.byte() else { return Ok(None) };
                self.heard(now, byte)?;
            }
        }
        Ok(Some(()))
    }

    fn heard(&mut self, now: Instant, byte: u8) -> Result<(), SessionError> {
        let phase = self.phase();
        match (TestState::from_byte(byte), self.stage) {
            (Some(TestState::AccessDenied), _) => self.end(Err(SessionError::Busy)),
            (Some(TestState::ServerTerminate), _) => self.end(Err(SessionError::Terminated(phase))),
            (Some(TestState::ServerError), _) => {
                self.deadline = Some(now + PATIENCE);
                self.stage = ClientStage::Refused;
            }
            (Some(TestState::ParamExchange), ClientStage::Parameters) => {
                self.out.extend(framed(&self.asked.write()));
                self.deadline = None;
                self.stage = ClientStage::Waiting;
            }
            (Some(TestState::CreateStreams), ClientStage::Waiting) => {
                self.deadline = Some(now + PATIENCE);
                self.stage = ClientStage::Opening;
                self.events.push_back(ClientEvent::Open);
            }
            (Some(TestState::TestStart), ClientStage::Opening) => self.stage = ClientStage::Starting,
            (Some(TestState::TestRunning), ClientStage::Starting) => self.start(now),
            (Some(TestState::ExchangeResults), ClientStage::Stopping) => {
                self.deadline = None;
                self.stage = ClientStage::Telling;
                self.events.push_back(ClientEvent::Stop);
            }
            (Some(TestState::DisplayResults), ClientStage::Closing) => {
                self.out.push(TestState::IperfDone.byte());
                self.end(Ok(()));
            }
            _ => return Err(SessionError::Unexpected { byte, phase }),
        }
        Ok(())
    }

    fn start(&mut self, now: Instant) {
        let TestParameters { time, omit, .. } = self.asked;
        let lasts = Duration::from_secs(u64::from(time) + u64::from(omit));
        self.deadline = (time > 0).then(|| now + lasts);
        self.stage = ClientStage::Running;
        self.events.push_back(ClientEvent::Start);
    }

    /// Ends the session with an error and informs the server.
    fn fail(&mut self, error: SessionError) {
        self.out.push(TestState::ClientTerminate.byte());
        self.end(Err(error));
    }

    fn end(&mut self, outcome: Result<(), SessionError>) {
        self.inbox.clear();
        self.deadline = None;
        self.stage = ClientStage::Over;
        self.events.push_back(ClientEvent::Over(outcome));
    }
}
