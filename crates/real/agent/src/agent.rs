//! An agent: carries out what it is told over a stream.

use std::io::{Read, Write};
use std::sync::mpsc::{self, SyncSender};

use crate::control::{ControlError, Epoch, Reply, Request, ToldEnds, VERSION, note_frames, sample_frames};
use crate::event_loop::Progress;
use crate::{AgentError, EndReport, PreparedRun};
use netrig_host::frames::{FrameError, read_frame, write_frame};
use netrig_host::{Clock, RealtimeOffset, RunSignals, monotonic_nanos};
use netrig_sip_net::FlowTester;

/// Carries out what a controller says, one run after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agent {
    /// What flows of SIP use beside loads.
    tester: Option<&'static dyn FlowTester>,
}

/// What may wait to be heard by an agent. Then its controller waits, and so does what its run delivers, which is kept there up
/// to a limit of its own: a run is late rather than the memory full.
const INPUTS: usize = 64;

/// What controls of associations are called where they mean nothing.
const CONTROLS: &str = "a word of controls";

/// What can happen to an agent.
enum Input {
    Request(Request),
    /// The controller has nothing more to say, or said what cannot be understood.
    Ended(Option<FrameError>),
    Progress(Progress),
    Done(Result<Vec<EndReport>, AgentError>),
}

/// Where an agent stands.
enum Stage {
    /// No run is prepared.
    Idle,
    /// The sockets stand.
    Prepared(PreparedRun),
    /// A run lasts.
    Running,
}

impl Agent {
    /// An agent whose flows of SIP have this tester.
    pub const fn with_tester(tester: &'static dyn FlowTester) -> Self {
        Self { tester: Some(tester) }
    }

    /// Serves a controller until it says [`Request::Bye`] or the stream ends; a run that lasts then is given up. What it
    /// says must come from somebody who may command this machine.
    ///
    /// Returns once the stream has ended, so that after an error the controller must close it.
    ///
    /// # Errors
    /// If the stream breaks, or what comes cannot be understood; the controller has been told why.
    pub fn serve(self, mut reader: impl Read + Send, mut writer: impl Write) -> Result<(), ControlError> {
        let (inputs, told) = mpsc::sync_channel(INPUTS);
        let signals = RunSignals::default();
        std::thread::scope(|scope| {
            let requests = inputs.clone();
            scope.spawn(move || read_requests(&mut reader, &requests));
            let start = |run, at| {
                let (inputs, signals) = (inputs.clone(), &signals);
                signals.reset();
                scope.spawn(move || carry_out(run, at, signals, &inputs));
            };
            let mut talk = Talk {
                writer: &mut writer,
                stage: Stage::Idle,
                greeted: false,
                ends: ToldEnds::default(),
                signals: &signals,
                tester: self.tester,
            };
            let result =
                told.into_iter().find_map(|input| talk.take(input, start).transpose()).unwrap_or(Ok(()));
            signals.end();
            if let Err(error) = &result {
                // If it was the stream that broke, nobody hears it.
                let _ = write_frame(&mut writer, &Reply::Error { what: error.to_string() });
            }
            result
        })
    }
}

/// An agent's side of its talk with a controller.
struct Talk<'a, W> {
    writer: &'a mut W,
    stage: Stage,
    greeted: bool,
    /// Of the run that is prepared next.
    ends: ToldEnds,
    signals: &'a RunSignals,
    tester: Option<&'static dyn FlowTester>,
}

impl<W: Write> Talk<'_, W> {
    /// Takes what happened; something once the talk is over.
    fn take(&mut self, input: Input, start: impl Fn(PreparedRun, Epoch)) -> Result<Option<()>, ControlError> {
        match input {
            Input::Request(request) => self.answer(request, start)?,
            Input::Progress(Progress::Samples(samples)) => {
                sample_frames(&samples).try_for_each(|frame| self.say(&frame))?;
            }
            Input::Progress(Progress::Notes(notes)) => {
                note_frames(&notes).try_for_each(|frame| self.say(&frame))?;
            }
            Input::Progress(Progress::Idle { flow, side, idle }) => {
                self.say(&Reply::Idle { flow, side, idle })?;
            }
            Input::Done(result) => {
                self.stage = Stage::Idle;
                match result {
                    Ok(ends) => {
                        let mut ends = ends.into_iter().map(Box::new);
                        ends.try_for_each(|end| self.say(&Reply::Report { end }))?;
                        self.say(&Reply::Reported)?;
                    }
                    Err(error) => self.say_error(&error)?,
                }
            }
            Input::Ended(Some(error)) => return Err(error.into()),
            Input::Ended(None) => return Ok(Some(())),
        }
        Ok(None)
    }

    fn answer(&mut self, request: Request, start: impl Fn(PreparedRun, Epoch)) -> Result<(), ControlError> {
        match request {
            Request::Hello { version: VERSION } => {
                self.greeted = true;
                self.say(&Reply::Hello { version: VERSION })
            }
            Request::Hello { version } => Err(ControlError::Version(version)),
            request if !self.greeted => self.refuse(&request, "before the hello"),
            Request::End { end } => {
                self.ends.add(*end);
                Ok(())
            }
            Request::Controls { controls } => match self.ends.control(controls) {
                true => Ok(()),
                false => {
                    self.say_error(&ControlError::OutOfOrder { said: CONTROLS, when: "without associations" })
                }
            },
            Request::Prepare { run } if !matches!(self.stage, Stage::Running) => {
                // What was prepared before gives its addresses free first.
                self.stage = Stage::Idle;
                match PreparedRun::prepare_with(self.ends.complete(run), self.tester) {
                    Ok(run) => {
                        self.stage = Stage::Prepared(run);
                        self.say(&prepared())
                    }
                    Err(error) => self.say_error(&error),
                }
            }
            Request::Start { at } => match std::mem::replace(&mut self.stage, Stage::Running) {
                Stage::Prepared(run) => {
                    start(run, at);
                    Ok(())
                }
                stage => {
                    self.stage = stage;
                    self.refuse(&request, self.when())
                }
            },
            // One that crosses the report of a run that is over means nothing any more.
            Request::Stop => {
                self.signals.end();
                Ok(())
            }
            request => self.refuse(&request, self.when()),
        }
    }

    const fn when(&self) -> &'static str {
        match self.stage {
            Stage::Idle => "before a run is prepared",
            Stage::Prepared(_) => "before the run has started",
            Stage::Running => "while a run lasts",
        }
    }

    /// Says that a request means nothing now.
    fn refuse(&mut self, request: &Request, when: &'static str) -> Result<(), ControlError> {
        let said = match request {
            Request::Hello { .. } => "hello",
            Request::End { .. } => "an end",
            Request::Controls { .. } => CONTROLS,
            Request::Prepare { .. } => "prepare",
            Request::Start { .. } => "start",
            Request::Stop => "stop",
            Request::Bye => "bye",
        };
        self.say_error(&ControlError::OutOfOrder { said, when })
    }

    fn say_error(&mut self, error: &impl std::error::Error) -> Result<(), ControlError> {
        self.say(&Reply::Error { what: error.to_string() })
    }

    fn say(&mut self, reply: &Reply) -> Result<(), ControlError> {
        Ok(write_frame(self.writer, reply)?)
    }
}

/// Passes on what the controller says.
fn read_requests(reader: &mut impl Read, inputs: &SyncSender<Input>) {
    let end = loop {
        match read_frame(reader) {
            Ok(None | Some(Request::Bye)) => break None,
            // Nobody listens any more once the agent has ended.
            Ok(Some(request)) => match inputs.send(Input::Request(request)) {
                Ok(()) => {}
                Err(_) => return,
            },
            Err(error) => break Some(error),
        }
    };
    let _ = inputs.send(Input::Ended(end));
}

/// The agent's clocks now.
fn prepared() -> Reply {
    let offset = RealtimeOffset::measure();
    let monotonic_ns = monotonic_nanos();
    let realtime_ns = offset.realtime(monotonic_ns);
    Reply::Prepared { monotonic_ns, realtime_ns, error_ns: offset.error().as_nanos() }
}

/// Carries a run out, and tells of it.
fn carry_out(run: PreparedRun, at: Epoch, signals: &RunSignals, inputs: &SyncSender<Input>) {
    let clock = Clock::starting_at(match at {
        Epoch::Monotonic(ns) => ns,
        Epoch::Realtime(ns) => RealtimeOffset::measure().monotonic(ns),
    });
    // Nobody listens any more once the agent has ended.
    let result = run.run(clock, signals, |samples| {
        let _ = inputs.send(Input::Progress(samples));
    });
    let _ = inputs.send(Input::Done(result));
}
