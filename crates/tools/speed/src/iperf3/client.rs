//! The client's end of a test.

use std::collections::VecDeque;

use netrig_core::{Duration, Instant};

use super::code::{Iperf3Code, Iperf3Refusal};
use super::cookie::Cookie;
use super::error::{SessionError, SessionPhase};
use super::inbox::{Inbox, TooLong, framed};
use super::parameters::TestParameters;
use super::results::{self, TestResults};
use super::state::TestState;

/// How long a server may take to answer, but for its turn, which takes as long as the tests of others.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a session has to say to whoever has the sockets.
#[derive(Debug)]
pub enum ClientEvent {
    /// Open all streams, in the order of their numbers, those that upload first: over TCP a connection to the server's port
    /// and the cookie; over UDP [`CONNECT`](super::datagram::CONNECT), until it is answered, before the next.
    Open,
    /// All streams stand at the server too: send and receive.
    Start,
    /// The time is over: stop sending, then say so by [`stop`](ClientSession::stop).
    TimeUp,
    /// The server has stopped: stop receiving, and tell the [`results`](ClientSession::results).
    Stop,
    /// The server has told what it found.
    Results(Box<TestResults>),
    /// Nothing follows: send what is left, and close everything.
    Over(Result<(), SessionError>),
}

/// The client's end of a test: what is said over its connection for control, the cookie included.
///
/// After each call, everything is taken that [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event)
/// have, and [`poll_timeout`](Self::poll_timeout) is asked anew.
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
    /// The server is to ask for the parameters.
    Parameters,
    /// The server is to say that streams are to be opened: it may have others to serve first.
    Waiting,
    /// The server is to say that it has them.
    Opening,
    /// It has, and timers have started there.
    Starting,
    Running,
    /// The server is to say that it has stopped.
    Stopping,
    /// This end is to tell its results.
    Telling,
    /// The server is to tell its own.
    Exchange,
    /// The server is to say that nothing is missing.
    Closing,
    /// Two numbers of the server's are to follow.
    Refused,
    Over,
}

impl ClientSession {
    /// A connection to a server stands. The cookie must be random.
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

    /// The server has said more.
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

    /// The server has closed the connection.
    pub fn handle_close(&mut self) {
        let refused = if self.stage == ClientStage::Refused { self.inbox.array() } else { None };
        if let Some(code) = refused {
            // Servers such as 3.12 tell of a wrong password by the first number alone.
            let code = Iperf3Code(i32::from_be_bytes(code));
            self.end(Err(SessionError::Refused(code.into())));
        } else if self.stage != ClientStage::Over {
            self.end(Err(SessionError::Closed(self.phase())));
        }
    }

    /// A deadline has come.
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

    /// When [`handle_timeout`](Self::handle_timeout) is to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    /// What is to be sent.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        (!self.out.is_empty()).then(|| std::mem::take(&mut self.out))
    }

    /// What is to be done.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// How far the test has got.
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

    /// The test is over: nothing more is sent by the streams. What is ended by bytes or blocks is ended here.
    pub fn stop(&mut self, now: Instant) {
        if self.stage == ClientStage::Running {
            self.out.push(TestState::TestEnd.byte());
            self.deadline = Some(now + PATIENCE);
            self.stage = ClientStage::Stopping;
        }
    }

    /// What was found here, as an answer to [`ClientEvent::Stop`].
    pub fn results(&mut self, now: Instant, results: &TestResults) {
        if self.stage == ClientStage::Telling {
            self.out.extend(framed(&results.write()));
            self.deadline = Some(now + PATIENCE);
            self.stage = ClientStage::Exchange;
        }
    }

    /// The client gives up, which the server is told.
    pub fn terminate(&mut self) {
        if self.stage != ClientStage::Over {
            self.fail(SessionError::Stopped(self.phase()));
        }
    }

    /// Reads one word of the server's; nothing if it has not come as a whole.
    fn read(&mut self, now: Instant) -> Result<Option<()>, SessionError> {
        match self.stage {
            ClientStage::Refused => {
                let Some(numbers) = self.inbox.array() else { return Ok(None) };
                self.end(Err(SessionError::Refused(Iperf3Refusal::from_bytes(numbers))));
            }
            ClientStage::Exchange => {
                let longest = results::LONGEST_OF_SERVER;
                let json = self.inbox.json(longest).map_err(|error| match error {
                    TooLong::Of(length) => SessionError::Length { length, longest },
                    TooLong::Empty => SessionError::Length { length: 0, longest },
                })?;
                let Some(json) = json else { return Ok(None) };
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

    /// The server is told that nothing follows.
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
