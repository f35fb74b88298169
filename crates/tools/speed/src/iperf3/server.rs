//! The server's end of the control connection.

use std::collections::VecDeque;
use std::fmt;

use netrig_core::{Duration, Instant};

use super::code::{Iperf3Code, Iperf3Refusal};
use super::error::{SessionError, SessionPhase};
use super::inbox::{Inbox, framed};
use super::parameters::{self, TestLimits, TestParameters};
use super::results::{self, TestResults};
use super::state::TestState;
use super::stream_id;

/// Time limit within which a client must send its parameters, and its results.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time limit within which a client must open its streams.
const OPENING: Duration = Duration::from_secs(30);

/// Time by which a test may exceed the requested duration. iperf3's own server allows the same time, ten exchanges of 4
/// s.
const GRACE: Duration = Duration::from_secs(40);

/// An event of a session for the owner of the sockets.
#[derive(Debug)]
pub enum ServerEvent {
    /// The client requests a test. Answer with [`admit`](ServerSession::admit), [`refuse`](ServerSession::refuse) or
    /// [`deny`](ServerSession::deny). The answer has no time limit, because the client waits.
    Asked(Box<TestParameters>),
    /// All streams are open, and the client is informed: start to send and to receive.
    Start,
    /// The client has ended the test: stop, close all TCP streams, then call [`results`](ServerSession::results).
    ///
    /// Receiving clients such as iperf3 3.12 read whole blocks. They do not read control messages until a block is full
    /// or the stream ends.
    Stop,
    /// The results of the client, after the exchange of results.
    Results(Box<TestResults>),
    /// The session has ended: send the remaining bytes and close everything.
    Over(Result<(), SessionError>),
}

/// The server's end of the control connection. It starts after the cookie has been read.
///
/// After each call, drain [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event), and read
/// [`poll_timeout`](Self::poll_timeout) again.
#[derive(Debug)]
pub struct ServerSession {
    limits: TestLimits,
    stage: ServerStage,
    inbox: Inbox,
    out: Vec<u8>,
    events: VecDeque<ServerEvent>,
    deadline: Option<Instant>,
    streams: u32,
}

/// Computes the results of this end from those of the client.
struct ResultsAnswer(Box<dyn FnOnce(&TestResults) -> TestResults + Send>);

impl fmt::Debug for ResultsAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResultsAnswer")
    }
}

#[derive(Debug)]
enum ServerStage {
    Parameters,
    /// Waiting for the owner to admit or refuse the test.
    Waiting(Box<TestParameters>),
    Opening(Box<TestParameters>, u32),
    Running,
    /// The client has ended the test. Waiting for the owner to pass the results of this end.
    Stopping,
    /// Waiting for the results of the client.
    Exchange(ResultsAnswer),
    /// Waiting for the last message of the client.
    Closing,
    Over,
}

impl ServerSession {
    /// A session with a client that has sent its cookie.
    pub fn new(now: Instant, limits: TestLimits) -> Self {
        Self {
            limits,
            stage: ServerStage::Parameters,
            inbox: Inbox::default(),
            out: vec![TestState::ParamExchange.byte()],
            events: VecDeque::new(),
            deadline: Some(now + PATIENCE),
            streams: 0,
        }
    }

    /// Handles bytes of the client.
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) {
        if matches!(self.stage, ServerStage::Over) {
            return;
        }
        self.inbox.push(bytes);
        while let Some(read) = self.read(now).transpose() {
            if let Err(error) = read {
                self.fail(error);
            }
        }
    }

    /// Handles the close of the connection by the client.
    pub fn handle_close(&mut self) {
        match self.stage {
            ServerStage::Over => {}
            // Some versions of iperf3 close the connection without sending the last message.
            ServerStage::Closing => self.end(Ok(())),
            _ => self.end(Err(SessionError::Closed(self.phase()))),
        }
    }

    /// Handles the deadline of [`poll_timeout`](Self::poll_timeout), if it has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.stage {
            ServerStage::Closing => self.end(Ok(())),
            ServerStage::Running => self.fail(SessionError::Expired),
            _ => self.fail(SessionError::Silent(self.phase())),
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
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// The phase of the test.
    pub fn phase(&self) -> SessionPhase {
        match self.stage {
            ServerStage::Parameters => SessionPhase::Parameters,
            ServerStage::Waiting(_) => SessionPhase::Waiting,
            ServerStage::Opening(..) => SessionPhase::Opening,
            ServerStage::Running | ServerStage::Stopping => SessionPhase::Running,
            ServerStage::Exchange(_) | ServerStage::Closing | ServerStage::Over => SessionPhase::Results,
        }
    }

    /// Admits the test, and requests that the client opens its streams.
    pub fn admit(&mut self, now: Instant) {
        self.stage = match std::mem::replace(&mut self.stage, ServerStage::Over) {
            ServerStage::Waiting(asked) => {
                self.out.push(TestState::CreateStreams.byte());
                self.deadline = Some(now + OPENING);
                ServerStage::Opening(asked, 0)
            }
            other => other,
        };
    }

    /// Records a stream that the client has opened. Returns the number of the stream, and whether this end receives on
    /// it. `None` if no stream is expected.
    ///
    /// After the last stream, the client is informed that all streams are open.
    pub fn open_stream(&mut self, now: Instant) -> Option<(u32, bool)> {
        let ServerStage::Opening(asked, open) = &mut self.stage else { return None };
        let nth = *open;
        let place = (stream_id(nth), asked.uploads(nth));
        *open += 1;
        if *open == asked.streams() {
            let time = if asked.time == 0 { self.limits.time } else { asked.time.saturating_add(asked.omit) };
            self.out.extend([TestState::TestStart.byte(), TestState::TestRunning.byte()]);
            self.deadline = Some(now + Duration::from_secs(time.into()) + GRACE);
            self.streams = *open;
            self.stage = ServerStage::Running;
            self.events.push_back(ServerEvent::Start);
        }
        Some(place)
    }

    /// Passes the results of this end, in response to [`ServerEvent::Stop`]. They may depend on the client's results,
    /// which the client sends first.
    pub fn results(
        &mut self,
        now: Instant,
        answer: impl FnOnce(&TestResults) -> TestResults + Send + 'static,
    ) {
        if matches!(self.stage, ServerStage::Stopping) {
            self.out.push(TestState::ExchangeResults.byte());
            self.deadline = Some(now + PATIENCE);
            self.stage = ServerStage::Exchange(ResultsAnswer(Box::new(answer)));
        }
    }

    /// Ends the test with an error, which the client prints.
    pub fn refuse(&mut self, refusal: Iperf3Refusal) {
        if !matches!(self.stage, ServerStage::Closing | ServerStage::Over) {
            self.say_error(refusal);
            self.end(Err(SessionError::Refused(refusal)));
        }
    }

    /// Refuses the test because the server is busy. The client prints this reason.
    pub fn deny(&mut self) {
        self.give_up(TestState::AccessDenied);
    }

    /// Ends the test because the server stops. The client prints this reason.
    pub fn terminate(&mut self) {
        self.give_up(TestState::ServerTerminate);
    }

    fn give_up(&mut self, state: TestState) {
        if !matches!(self.stage, ServerStage::Closing | ServerStage::Over) {
            self.out.push(state.byte());
            self.end(Err(SessionError::Stopped(self.phase())));
        }
    }

    /// Handles one message of the client. Returns `None` if it is not complete.
    fn read(&mut self, now: Instant) -> Result<Option<()>, SessionError> {
        match self.stage {
            ServerStage::Parameters => {
                let Some(json) = self.inbox.json(parameters::LONGEST)? else { return Ok(None) };
                self.asked(&json)?;
            }
            ServerStage::Exchange(_) => {
                let Some(json) = self.inbox.json(results::LONGEST_OF_CLIENT)? else { return Ok(None) };
                self.told(now, &json)?;
            }
            _ => {
                let Some(byte) = self.inbox.byte() else { return Ok(None) };
                self.heard(now, byte)?;
            }
        }
        Ok(Some(()))
    }

    fn asked(&mut self, json: &[u8]) -> Result<(), SessionError> {
        let asked = Box::new(TestParameters::read(json)?);
        match asked.check(&self.limits) {
            Ok(()) => {
                self.events.push_back(ServerEvent::Asked(asked.clone()));
                self.deadline = None;
                self.stage = ServerStage::Waiting(asked);
            }
            Err(refusal) => self.refuse(refusal),
        }
        Ok(())
    }

    fn heard(&mut self, now: Instant, byte: u8) -> Result<(), SessionError> {
        let phase = self.phase();
        match (TestState::from_byte(byte), &self.stage) {
            (Some(TestState::ClientTerminate), _) => self.end(Err(SessionError::Terminated(phase))),
            (Some(TestState::TestEnd), ServerStage::Running) => {
                self.deadline = Some(now + PATIENCE);
                self.stage = ServerStage::Stopping;
                self.events.push_back(ServerEvent::Stop);
            }
            (Some(TestState::IperfDone), ServerStage::Closing) => self.end(Ok(())),
            // Some clients that were refused send this message.
            (Some(TestState::IperfDone), _) => self.end(Err(SessionError::Closed(phase))),
            _ => return Err(SessionError::Unexpected { byte, phase }),
        }
        Ok(())
    }

    fn told(&mut self, now: Instant, json: &[u8]) -> Result<(), SessionError> {
        let theirs = TestResults::read(json, self.streams)?;
        if let ServerStage::Exchange(ResultsAnswer(answer)) =
            std::mem::replace(&mut self.stage, ServerStage::Closing)
        {
            self.out.extend(framed(&answer(&theirs).write()));
        }
        self.out.push(TestState::DisplayResults.byte());
        self.deadline = Some(now + PATIENCE);
        self.events.push_back(ServerEvent::Results(Box::new(theirs)));
        Ok(())
    }

    /// Ends the session with an error that is sent to the client.
    fn fail(&mut self, error: SessionError) {
        let code = match &error {
            SessionError::Parameters(error) => error.code(),
            SessionError::Results(results::ResultsError::Streams { .. }) => Iperf3Code::STREAM_ID,
            SessionError::Results(_) => Iperf3Code::RESULTS,
            SessionError::Expired => Iperf3Code::EXPIRED,
            SessionError::Silent(SessionPhase::Opening) => Iperf3Code::ACCEPT,
            SessionError::Length { .. } if matches!(self.stage, ServerStage::Parameters) => {
                Iperf3Code::PARAMETERS
            }
            SessionError::Length { .. } => Iperf3Code::RESULTS,
            SessionError::Silent(SessionPhase::Parameters) => Iperf3Code::PARAMETERS,
            SessionError::Silent(_) => Iperf3Code::RESULTS,
            _ => Iperf3Code::UNKNOWN_MESSAGE,
        };
        self.say_error(code.into());
        self.end(Err(error));
    }

    fn say_error(&mut self, refusal: Iperf3Refusal) {
        self.out.push(TestState::ServerError.byte());
        self.out.extend(refusal.bytes());
    }

    fn end(&mut self, outcome: Result<(), SessionError>) {
        self.inbox.clear();
        self.deadline = None;
        self.stage = ServerStage::Over;
        self.events.push_back(ServerEvent::Over(outcome));
    }
}
