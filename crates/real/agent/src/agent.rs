//! An agent, which executes the requests of a controller that arrive over a stream.

use std::io::{Read, Write};
use std::sync::mpsc::{self, SyncSender};

use crate::control::{
    ControlError, ControlReply, ControlRequest, Epoch, PendingEnds, VERSION, note_frames, sample_frames,
};
use crate::event_loop::Progress;
use crate::{AgentResult, EndReport, PreparedRun};
use netrig_host::frames::{FrameError, read_frame, write_frame};
use netrig_host::{Clock, RealtimeOffset, RunSignals, monotonic_nanos};
use netrig_sip_net::FlowTester;

/// Executes the runs that a controller requests, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agent {
    /// Executes conformance tests and custom scenarios of SIP flows.
    tester: Option<&'static dyn FlowTester>,
}

/// Capacity of the agent's input queue. If the queue is full, the controller and the agent's run wait. The run then
/// buffers its samples up to a limit, so it may become late but does not run out of memory.
const INPUTS: usize = 64;

/// Name of [`ControlRequest::Controls`] in errors.
const CONTROLS: &str = "a message of controls";

/// An input of an agent's main loop.
enum Input {
    Request(ControlRequest),
    /// The controller closed the stream, sent [`ControlRequest::Bye`], or sent a frame that cannot be parsed.
    Ended(Option<FrameError>),
    Progress(Progress),
    Done(AgentResult<Vec<EndReport>>),
}

/// The agent's state.
enum AgentStage {
    /// No run is prepared.
    Idle,
    /// The sockets are open.
    Prepared(PreparedRun),
    /// A run is in progress.
    Running,
}

impl Agent {
    /// An agent that uses this tester for SIP flows.
    pub const fn with_tester(tester: &'static dyn FlowTester) -> Self {
        Self { tester: Some(tester) }
    }

    /// Serves a controller until the controller sends [`ControlRequest::Bye`] or the stream ends. A run in progress is
    /// then aborted. The caller must make sure that the controller is allowed to command this machine.
    ///
    /// This function returns only after the stream has ended, so the controller must close the stream after an error.
    ///
    /// # Errors
    /// If the stream breaks or a frame cannot be parsed. The agent sends the reason to the controller before it
    /// returns.
    pub fn serve(self, mut reader: impl Read + Send, mut writer: impl Write) -> Result<(), ControlError> {
        let (inputs, received) = mpsc::sync_channel(INPUTS);
        let signals = RunSignals::default();
        std::thread::scope(|scope| {
            let requests = inputs.clone();
            scope.spawn(move || read_requests(&mut reader, &requests));
            let start = |run, at| {
                let (inputs, signals) = (inputs.clone(), &signals);
                signals.reset();
                scope.spawn(move || carry_out(run, at, signals, &inputs));
            };
            let mut session = ControlSession {
                writer: &mut writer,
                stage: AgentStage::Idle,
                greeted: false,
                ends: PendingEnds::default(),
                signals: &signals,
                tester: self.tester,
            };
            let result = received
                .into_iter()
                .find_map(|input| session.take(input, start).transpose())
                .unwrap_or(Ok(()));
            signals.end();
            if let Err(error) = &result {
                // If the stream itself is broken, the reply is lost.
                let _ = write_frame(&mut writer, &ControlReply::Error { what: error.to_string() });
            }
            result
        })
    }
}

/// An agent's side of the control protocol.
struct ControlSession<'a, W> {
    writer: &'a mut W,
    stage: AgentStage,
    greeted: bool,
    /// The ends received for the next run.
    ends: PendingEnds,
    signals: &'a RunSignals,
    tester: Option<&'static dyn FlowTester>,
}

impl<W: Write> ControlSession<'_, W> {
    /// Handles an input. Returns `Some` once the session is over.
    fn take(&mut self, input: Input, start: impl Fn(PreparedRun, Epoch)) -> Result<Option<()>, ControlError> {
        match input {
            Input::Request(request) => self.answer(request, start)?,
            Input::Progress(Progress::Samples(samples)) => {
                sample_frames(&samples).try_for_each(|frame| self.send(&frame))?;
            }
            Input::Progress(Progress::Notes(notes)) => {
                note_frames(&notes).try_for_each(|frame| self.send(&frame))?;
            }
            Input::Progress(Progress::Idle { flow, side, idle }) => {
                self.send(&ControlReply::Idle { flow, side, idle })?;
            }
            Input::Done(result) => {
                self.stage = AgentStage::Idle;
                match result {
                    Ok(ends) => {
                        let mut ends = ends.into_iter().map(Box::new);
                        ends.try_for_each(|end| self.send(&ControlReply::Report { end }))?;
                        self.send(&ControlReply::Reported)?;
                    }
                    Err(error) => self.send_error(&error)?,
                }
            }
            Input::Ended(Some(error)) => return Err(error.into()),
            Input::Ended(None) => return Ok(Some(())),
        }
        Ok(None)
    }

    fn answer(
        &mut self,
        request: ControlRequest,
        start: impl Fn(PreparedRun, Epoch),
    ) -> Result<(), ControlError> {
        match request {
            ControlRequest::Hello { version: VERSION } => {
                self.greeted = true;
                self.send(&ControlReply::Hello { version: VERSION })
            }
            ControlRequest::Hello { version } => Err(ControlError::Version(version)),
            request if !self.greeted => self.refuse(&request, "before the hello"),
            ControlRequest::End { end } => {
                self.ends.add(*end);
                Ok(())
            }
            ControlRequest::Controls { controls } => match self.ends.control(controls) {
                true => Ok(()),
                false => self.send_error(&ControlError::OutOfOrder {
                    message: CONTROLS,
                    when: "without associations",
                }),
            },
            ControlRequest::Prepare { run } if !matches!(self.stage, AgentStage::Running) => {
                // A run that was prepared before is dropped first, which releases its addresses.
                self.stage = AgentStage::Idle;
                match PreparedRun::prepare_with(self.ends.complete(run), self.tester) {
                    Ok(run) => {
                        self.stage = AgentStage::Prepared(run);
                        self.send(&prepared())
                    }
                    Err(error) => self.send_error(&error),
                }
            }
            ControlRequest::Start { at } => match std::mem::replace(&mut self.stage, AgentStage::Running) {
                AgentStage::Prepared(run) => {
                    start(run, at);
                    Ok(())
                }
                stage => {
                    self.stage = stage;
                    self.refuse(&request, self.when())
                }
            },
            // If the run has finished and its report is under way, the stop has no effect.
            ControlRequest::Stop => {
                self.signals.end();
                Ok(())
            }
            request => self.refuse(&request, self.when()),
        }
    }

    const fn when(&self) -> &'static str {
        match self.stage {
            AgentStage::Idle => "before a run is prepared",
            AgentStage::Prepared(_) => "before the run has started",
            AgentStage::Running => "during a run",
        }
    }

    /// Replies that a request is not allowed in this state.
    fn refuse(&mut self, request: &ControlRequest, when: &'static str) -> Result<(), ControlError> {
        let message = match request {
            ControlRequest::Hello { .. } => "hello",
            ControlRequest::End { .. } => "an end",
            ControlRequest::Controls { .. } => CONTROLS,
            ControlRequest::Prepare { .. } => "prepare",
            ControlRequest::Start { .. } => "start",
            ControlRequest::Stop => "stop",
            ControlRequest::Bye => "bye",
        };
        self.send_error(&ControlError::OutOfOrder { message, when })
    }

    fn send_error(&mut self, error: &impl std::error::Error) -> Result<(), ControlError> {
        self.send(&ControlReply::Error { what: error.to_string() })
    }

    fn send(&mut self, reply: &ControlReply) -> Result<(), ControlError> {
        Ok(write_frame(self.writer, reply)?)
    }
}

/// Forwards the controller's requests.
fn read_requests(reader: &mut impl Read, inputs: &SyncSender<Input>) {
    let end = loop {
        match read_frame(reader) {
            Ok(None | Some(ControlRequest::Bye)) => break None,
            // The receiver is closed once the agent has ended.
            Ok(Some(request)) => match inputs.send(Input::Request(request)) {
                Ok(()) => {}
                Err(_) => return,
            },
            Err(error) => break Some(error),
        }
    };
    let _ = inputs.send(Input::Ended(end));
}

/// The reply with the current readings of the agent's clocks.
fn prepared() -> ControlReply {
    let offset = RealtimeOffset::measure();
    let monotonic_ns = monotonic_nanos();
    let realtime_ns = offset.realtime(monotonic_ns);
    ControlReply::Prepared { monotonic_ns, realtime_ns, error_ns: offset.error().as_nanos() }
}

/// Executes a run, and forwards its progress and its reports.
fn carry_out(run: PreparedRun, at: Epoch, signals: &RunSignals, inputs: &SyncSender<Input>) {
    let clock = Clock::starting_at(match at {
        Epoch::Monotonic(ns) => ns,
        Epoch::Realtime(ns) => RealtimeOffset::measure().monotonic(ns),
    });
    // The receiver is closed once the agent has ended.
    let result = run.run(clock, signals, |samples| {
        let _ = inputs.send(Input::Progress(samples));
    });
    let _ = inputs.send(Input::Done(result));
}
