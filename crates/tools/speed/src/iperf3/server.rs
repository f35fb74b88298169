//! The server's end of a test.

use std::collections::VecDeque;
use std::fmt;

use netrig_core::{Duration, Instant};

use super::code::{Code, Refusal};
use super::error::{Phase, SessionError};
use super::inbox::{Inbox, TooLong, framed};
use super::parameters::{self, Limits, Parameters};
use super::results::{self, Results};
use super::state::State;
use super::stream_id;

/// How long a client may take for its parameters, and for its results.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a client may take for its streams.
const OPENING: Duration = Duration::from_secs(30);

/// How much longer than it was asked for a test may take: what iperf3's own server allows for ten exchanges of 4 s each.
const GRACE: Duration = Duration::from_secs(40);

/// What a session has to say to whoever has the sockets.
#[derive(Debug)]
pub enum ServerEvent {
    /// The client asks for a test: answer by [`admit`](ServerSession::admit), [`refuse`](ServerSession::refuse) or
    /// [`deny`](ServerSession::deny), whenever it is its turn. The client waits.
    Asked(Box<Parameters>),
    /// All streams stand, and the client was told so: send and receive.
    Start,
    /// The client has had enough: stop, close all streams over TCP, and then tell the [`results`](ServerSession::results).
    ///
    /// Clients such as 3.12 that receive read whole blocks, and hear nothing else until theirs is full or the stream ends.
    Stop,
    /// The client has told what it found, and was told what was found here.
    Results(Box<Results>),
    /// Nothing follows: send what is left, and close everything.
    Over(Result<(), SessionError>),
}

/// The server's end of a test: what is said over its connection for control, after the cookie.
///
/// After each call, everything is taken that [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event)
/// have, and [`poll_timeout`](Self::poll_timeout) is asked anew.
#[derive(Debug)]
pub struct ServerSession {
    limits: Limits,
    stage: Stage,
    inbox: Inbox,
    out: Vec<u8>,
    events: VecDeque<ServerEvent>,
    deadline: Option<Instant>,
    streams: u32,
}

/// What is told to a client that has told its results.
struct ResultsAnswer(Box<dyn FnOnce(&Results) -> Results + Send>);

impl fmt::Debug for ResultsAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResultsAnswer")
    }
}

#[derive(Debug)]
enum Stage {
    Parameters,
    /// The parameters are with whoever admits tests.
    Waiting(Box<Parameters>),
    Opening(Box<Parameters>, u32),
    Running,
    /// The client has ended, and this end has not yet told its results.
    Stopping,
    /// The client is to tell its results, to which these are the answer.
    Exchange(ResultsAnswer),
    /// Only the client's last word is missing.
    Closing,
    Over,
}

impl ServerSession {
    /// A client has sent its cookie.
    pub fn new(now: Instant, limits: Limits) -> Self {
        Self {
            limits,
            stage: Stage::Parameters,
            inbox: Inbox::default(),
            out: vec![State::ParamExchange.byte()],
            events: VecDeque::new(),
            deadline: Some(now + PATIENCE),
            streams: 0,
        }
    }

    /// The client has said more.
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) {
        if matches!(self.stage, Stage::Over) {
            return;
        }
        self.inbox.push(bytes);
        while let Some(read) = self.read(now).transpose() {
            if let Err(error) = read {
                self.fail(error);
            }
        }
    }

    /// The client has closed the connection.
    pub fn handle_close(&mut self) {
        match self.stage {
            Stage::Over => {}
            // Clients of some versions are gone without a last word.
            Stage::Closing => self.end(Ok(())),
            _ => self.end(Err(SessionError::Closed(self.phase()))),
        }
    }

    /// A deadline has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.stage {
            Stage::Closing => self.end(Ok(())),
            Stage::Running => self.fail(SessionError::Expired),
            _ => self.fail(SessionError::Silent(self.phase())),
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
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// How far the test has got.
    pub fn phase(&self) -> Phase {
        match self.stage {
            Stage::Parameters => Phase::Parameters,
            Stage::Waiting(_) => Phase::Waiting,
            Stage::Opening(..) => Phase::Opening,
            Stage::Running | Stage::Stopping => Phase::Running,
            Stage::Exchange(_) | Stage::Closing | Stage::Over => Phase::Results,
        }
    }

    /// The test may begin: the client is told to open its streams.
    pub fn admit(&mut self, now: Instant) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Waiting(asked) => {
                self.out.push(State::CreateStreams.byte());
                self.deadline = Some(now + OPENING);
                Stage::Opening(asked, 0)
            }
            other => other,
        };
    }

    /// A stream has come: its number, and whether this end receives from it. Nothing if none is expected.
    ///
    /// With the last one the client is told that all stand.
    pub fn open_stream(&mut self, now: Instant) -> Option<(u32, bool)> {
        let Stage::Opening(asked, open) = &mut self.stage else { return None };
        let nth = *open;
        let place = (stream_id(nth), asked.uploads(nth));
        *open += 1;
        if *open == asked.streams() {
            let time = if asked.time == 0 { self.limits.time } else { asked.time.saturating_add(asked.omit) };
            self.out.extend([State::TestStart.byte(), State::TestRunning.byte()]);
            self.deadline = Some(now + Duration::from_secs(time.into()) + GRACE);
            self.streams = *open;
            self.stage = Stage::Running;
            self.events.push_back(ServerEvent::Start);
        }
        Some(place)
    }

    /// What was found here, as an answer to [`ServerEvent::Stop`]; of what a server would print the client's results are part,
    /// which come first.
    pub fn results(&mut self, now: Instant, answer: impl FnOnce(&Results) -> Results + Send + 'static) {
        if matches!(self.stage, Stage::Stopping) {
            self.out.push(State::ExchangeResults.byte());
            self.deadline = Some(now + PATIENCE);
            self.stage = Stage::Exchange(ResultsAnswer(Box::new(answer)));
        }
    }

    /// The test cannot go on, which the client is told, and prints.
    pub fn refuse(&mut self, refusal: Refusal) {
        if !matches!(self.stage, Stage::Closing | Stage::Over) {
            self.say_error(refusal);
            self.end(Err(SessionError::Refused(refusal)));
        }
    }

    /// There is no room for the test, which the client is told, and prints.
    pub fn deny(&mut self) {
        self.give_up(State::AccessDenied);
    }

    /// The server ends, which the client is told, and prints.
    pub fn terminate(&mut self) {
        self.give_up(State::ServerTerminate);
    }

    fn give_up(&mut self, state: State) {
        if !matches!(self.stage, Stage::Closing | Stage::Over) {
            self.out.push(state.byte());
            self.end(Err(SessionError::Stopped(self.phase())));
        }
    }

    /// Reads one word of the client's; nothing if it has not come as a whole.
    fn read(&mut self, now: Instant) -> Result<Option<()>, SessionError> {
        match self.stage {
            Stage::Parameters => {
                let Some(json) = self.json(parameters::LONGEST)? else { return Ok(None) };
                self.asked(&json)?;
            }
            Stage::Exchange(_) => {
                let Some(json) = self.json(results::LONGEST_OF_CLIENT)? else { return Ok(None) };
                self.told(now, &json)?;
            }
            _ => {
                let Some(byte) = self.inbox.byte() else { return Ok(None) };
                self.heard(now, byte)?;
            }
        }
        Ok(Some(()))
    }

    fn json(&mut self, longest: u32) -> Result<Option<Vec<u8>>, SessionError> {
        self.inbox.json(longest).map_err(|error| match error {
            TooLong::Of(length) => SessionError::Length { length, longest },
            TooLong::Empty => SessionError::Length { length: 0, longest },
        })
    }

    fn asked(&mut self, json: &[u8]) -> Result<(), SessionError> {
        let asked = Box::new(Parameters::read(json)?);
        match asked.check(&self.limits) {
            Ok(()) => {
                self.events.push_back(ServerEvent::Asked(asked.clone()));
                self.deadline = None;
                self.stage = Stage::Waiting(asked);
            }
            Err(refusal) => self.refuse(refusal),
        }
        Ok(())
    }

    fn heard(&mut self, now: Instant, byte: u8) -> Result<(), SessionError> {
        let phase = self.phase();
        match (State::from_byte(byte), &self.stage) {
            (Some(State::ClientTerminate), _) => self.end(Err(SessionError::Terminated(phase))),
            (Some(State::TestEnd), Stage::Running) => {
                self.deadline = Some(now + PATIENCE);
                self.stage = Stage::Stopping;
                self.events.push_back(ServerEvent::Stop);
            }
            (Some(State::IperfDone), Stage::Closing) => self.end(Ok(())),
            // Said by some clients that were refused.
            (Some(State::IperfDone), _) => self.end(Err(SessionError::Closed(phase))),
            _ => return Err(SessionError::Unexpected { byte, phase }),
        }
        Ok(())
    }

    fn told(&mut self, now: Instant, json: &[u8]) -> Result<(), SessionError> {
        let theirs = Results::read(json, self.streams)?;
        if let Stage::Exchange(ResultsAnswer(answer)) = std::mem::replace(&mut self.stage, Stage::Closing) {
            self.out.extend(framed(&answer(&theirs).write()));
        }
        self.out.push(State::DisplayResults.byte());
        self.deadline = Some(now + PATIENCE);
        self.events.push_back(ServerEvent::Results(Box::new(theirs)));
        Ok(())
    }

    /// The client is told what is wrong with what it said, and nothing more is read.
    fn fail(&mut self, error: SessionError) {
        let code = match &error {
            SessionError::Parameters(error) => error.code(),
            SessionError::Results(results::ResultsError::Streams { .. }) => Code::STREAM_ID,
            SessionError::Results(_) => Code::RESULTS,
            SessionError::Expired => Code::EXPIRED,
            SessionError::Silent(Phase::Opening) => Code::ACCEPT,
            SessionError::Length { .. } if matches!(self.stage, Stage::Parameters) => Code::PARAMETERS,
            SessionError::Length { .. } => Code::RESULTS,
            SessionError::Silent(Phase::Parameters) => Code::PARAMETERS,
            SessionError::Silent(_) => Code::RESULTS,
            _ => Code::UNKNOWN_MESSAGE,
        };
        self.say_error(code.into());
        self.end(Err(error));
    }

    fn say_error(&mut self, refusal: Refusal) {
        self.out.push(State::ServerError.byte());
        self.out.extend(refusal.bytes());
    }

    fn end(&mut self, outcome: Result<(), SessionError>) {
        self.inbox.clear();
        self.deadline = None;
        self.stage = Stage::Over;
        self.events.push_back(ServerEvent::Over(outcome));
    }
}
