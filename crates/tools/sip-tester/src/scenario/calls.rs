//! All calls of a scenario, without sockets: inputs are messages and times, outputs are messages and events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use netrig_core::{Duration, Histogram, Instant};
use netrig_sip::load::Scan;

use super::call::{LINGERS, ScriptCall, ScriptOutcome, ScriptOutput};
use super::document::FailedCallRow;
use super::injection::InjectionError;
use super::received::ReceivedText;
use super::run::ScriptRun;
use super::script::{CallScript, MessagePresence, StepKind};

/// The largest number of different failures that are counted separately.
const MOST_FAILURES: usize = 200;

/// The largest number of stored lines of the log.
const MOST_LINES: usize = 1000;

/// The side that starts the calls of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptSide {
    /// The tester: the first mandatory step sends.
    Caller,
    /// The other side: the first mandatory step receives a message.
    Callee,
    /// Another process of the test: the first mandatory step receives a message from it.
    Commanded,
}

impl ScriptSide {
    /// The side of a scenario, by its first mandatory step.
    pub fn of(script: &CallScript) -> Self {
        for step in &script.steps {
            match &step.kind {
                StepKind::Send(_) | StepKind::SendCommand { .. } => return Self::Caller,
                StepKind::Receive(receive) if receive.presence == MessagePresence::Mandatory => {
                    return Self::Callee;
                }
                StepKind::ReceiveCommand { is_optional: false, .. } => return Self::Commanded,
                _ => {}
            }
        }
        Self::Caller
    }
}

/// Why a message belongs to no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrayMessage {
    /// It has no Call-ID.
    WithoutCall,
    /// Its Call-ID belongs to no call.
    OfNoCall,
    /// It would have started a call, but the limit of open calls is reached.
    WithoutRoom,
}

/// The results of the calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptTally {
    /// Started calls.
    pub begun: u64,
    /// Calls that completed their last step.
    pub succeeded: u64,
    /// Failed calls.
    pub failed: u64,
    /// Number of failed calls by step (from 0) and reason.
    pub failures: BTreeMap<(usize, String), u64>,
    /// Number of failed calls that are not in `failures`, because the limit of different failures was reached.
    pub other_failures: u64,
    /// Response times, by the index of their names.
    pub response_times: Vec<Histogram>,
    /// Durations of successful calls.
    pub lengths: Histogram,
    /// Messages that belong to no call.
    pub strays: u64,
    /// Messages that started no call because the limit of open calls was reached.
    pub without_room: u64,
    /// Lines of the log, and warnings.
    pub log: Vec<String>,
    /// Number of lines that exceeded the limit of `log`.
    pub more_lines: u64,
    /// Some failed calls.
    pub examples: Vec<FailedCallRow>,
}

/// The largest number of failed calls in `examples`.
const MOST_EXAMPLES: usize = 10;

/// A request of a call to the driver.
#[derive(Clone, Debug, PartialEq)]
pub struct CallOutput<P> {
    /// Number of the call.
    pub number: u64,
    /// The path of the first message of the call; `None` if the tester started the call.
    pub path: Option<P>,
    /// The request.
    pub output: ScriptOutput,
}

/// An ended call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedCall {
    /// Number of the call.
    pub number: u64,
    /// Its Call-ID, without a prefix that ends with `///`.
    pub call_id: String,
    /// The reason if the call failed, else `None`.
    pub failure: Option<String>,
    /// The time from the first step to the end of the call.
    pub lasted: Duration,
}

/// A response time that a call measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredTime {
    /// The end of the measurement.
    pub at: Instant,
    /// Index of its name in the script.
    pub name: usize,
    /// The time.
    pub took: Duration,
}

#[derive(Debug)]
struct LiveCall<P> {
    call: ScriptCall,
    path: Option<P>,
    began: Instant,
    /// The time of the next event of the call, or of its removal.
    due: Option<Instant>,
    /// When the call is removed; `None` if it has not ended.
    lingers_until: Option<Instant>,
}

/// The calls of a scenario. `P` is the path of a received message.
#[derive(Debug)]
pub struct ScriptCalls<P> {
    /// The state that all calls share.
    pub run: ScriptRun,
    /// The results of all calls.
    pub tally: ScriptTally,
    /// The requests of the calls to the driver, which removes them.
    pub outputs: VecDeque<CallOutput<P>>,
    /// Each measured response time, until the driver removes it; `None` if the driver does not need these times.
    pub measured: Option<Vec<MeasuredTime>>,
    side: ScriptSide,
    numbers: BTreeMap<String, u64>,
    calls: BTreeMap<u64, LiveCall<P>>,
    due: BTreeSet<(Instant, u64)>,
    last: u64,
    open: usize,
    most_open: usize,
    users: Option<usize>,
    /// Users whose calls have ended since the last [`take_rested`](Self::take_rested).
    rested: Vec<usize>,
    ended: Vec<EndedCall>,
    began_ns: u64,
    accepts: bool,
}

impl<P: Clone> ScriptCalls<P> {
    /// The state before the first call. `began_ns`: ns since 1970 at time zero of the clock. `users`: the number of
    /// users to which calls are assigned in turn.
    pub fn new(run: ScriptRun, most_open: usize, users: Option<usize>, began_ns: u64) -> Self {
        let response_times = vec![Histogram::default(); run.script.response_times.len()];
        Self {
            side: ScriptSide::of(&run.script),
            run,
            tally: ScriptTally { response_times, ..ScriptTally::default() },
            outputs: VecDeque::new(),
            measured: None,
            numbers: BTreeMap::new(),
            calls: BTreeMap::new(),
            due: BTreeSet::new(),
            last: 0,
            open: 0,
            most_open,
            users,
            rested: Vec::new(),
            ended: Vec::new(),
            began_ns,
            accepts: true,
        }
    }

    /// The side that starts calls.
    pub const fn side(&self) -> ScriptSide {
        self.side
    }

    /// Number of open calls.
    pub const fn open(&self) -> usize {
        self.open
    }

    /// Whether a call is open.
    pub fn is_open(&self, number: u64) -> bool {
        self.calls.get(&number).is_some_and(|live| live.lingers_until.is_none())
    }

    /// Number of open calls, except those that only wait for retransmissions.
    pub fn open_within(&self) -> usize {
        let waits = |live: &&LiveCall<P>| live.call.is_waiting_for_repetitions(&self.run);
        self.open - self.calls.values().filter(waits).count()
    }

    /// Users whose calls have ended since the last call of this function.
    pub fn take_rested(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.rested)
    }

    /// Calls that have ended since the last call of this function.
    pub fn take_ended(&mut self) -> Vec<EndedCall> {
        std::mem::take(&mut self.ended)
    }

    /// Fails a call that cannot continue.
    pub fn fail(&mut self, now: Instant, number: u64, why: String) {
        self.with(now, number, |call, run| call.disconnected(run, now, why));
    }

    /// From now on, messages of the other side start no more calls.
    pub const fn accept_no_more(&mut self) {
        self.accepts = false;
    }

    /// Runs the opening steps, before the first call.
    ///
    /// # Errors
    /// If one of them fails, in words.
    pub fn open_run(&mut self, now: Instant) -> Result<(), String> {
        if self.run.script.opening.is_empty() {
            return Ok(());
        }
        // The opening steps run as a separate call, whose variables belong to the whole run.
        let own = CallScript {
            steps: self.run.script.opening.clone(),
            opening: Vec::new(),
            ..(*self.run.script).clone()
        };
        let script = std::mem::replace(&mut self.run.script, own.into());
        let tallies =
            std::mem::replace(&mut self.run.tallies, vec![Default::default(); self.run.script.steps.len()]);
        let call = ScriptCall::new(&mut self.run, 0, "opening".to_owned(), None, self.began_ns);
        let mut done = Ok(());
        match call {
            Err(wrong) => done = Err(wrong.to_string()),
            Ok(mut call) => {
                call.begin(&mut self.run, now);
                if let Some(ScriptOutcome::Failed { step, why }) = &call.outcome {
                    done = Err(format!("step {} of <init>: {why}", step + 1));
                }
                let outputs = std::mem::take(&mut call.outputs);
                self.outputs.extend(outputs.into_iter().map(|output| CallOutput {
                    number: 0,
                    path: None,
                    output,
                }));
            }
        }
        (self.run.script, self.run.tallies) = (script, tallies);
        done
    }

    /// Starts a call of the tester. Returns false if the limit of open calls is reached.
    ///
    /// # Errors
    /// If an injection file has fewer lines than there are users.
    pub fn begin(&mut self, now: Instant, user: Option<usize>) -> Result<bool, InjectionError> {
        if self.open >= self.most_open {
            return Ok(false);
        }
        let number = self.last + 1;
        let local = self.run.settings.local.ip();
        let call_id = format!("{number}-{}@{local}", self.run.settings.run_number);
        self.enter(now, call_id, None, user)?;
        self.with(now, number, |call, run| call.begin(run, now));
        Ok(true)
    }

    fn enter(
        &mut self,
        now: Instant,
        call_id: String,
        path: Option<P>,
        user: Option<usize>,
    ) -> Result<u64, InjectionError> {
        let number = self.last + 1;
        let user = user.or_else(|| self.users.map(|users| (number as usize - 1) % users.max(1)));
        let call = ScriptCall::new(&mut self.run, number, call_id.clone(), user, self.began_ns)?;
        self.last = number;
        self.open += 1;
        self.tally.begun += 1;
        self.numbers.insert(call_id, number);
        self.calls.insert(number, LiveCall { call, path, began: now, due: None, lingers_until: None });
        Ok(number)
    }

    /// Handles a message that arrived at the address `local`. `at` is its arrival time. Returns the reason if it
    /// belongs to no call.
    ///
    /// # Errors
    /// If it starts a call, and an injection file has fewer lines than there are users.
    pub fn receive(
        &mut self,
        (at, now): (Instant, Instant),
        bytes: &[u8],
        path: &P,
        local: SocketAddr,
    ) -> Result<Option<StrayMessage>, InjectionError> {
        let scan = Scan::of(bytes);
        let Some(call_id) = scan.call_id.map(String::from_utf8_lossy) else {
            self.tally.strays += 1;
            return Ok(Some(StrayMessage::WithoutCall));
        };
        let key = key_of(&call_id);
        let message = ReceivedText::new(bytes);
        let is_request = message.request().is_some_and(|(method, _)| method != "ACK");
        // A Call-ID may be reused after the end of its call, as registrations do: such a request starts a new call.
        let is_new = |number: &u64| {
            let over = self.calls.get(number).filter(|live| live.lingers_until.is_some());
            over.is_some_and(|live| {
                is_request && message.tag_of("To").is_none() && !live.call.knows(&message)
            })
        };
        let known = self.numbers.get(key).copied();
        let known = known.filter(|number| self.side != ScriptSide::Callee || !is_new(number));
        let number = match known {
            Some(number) => number,
            None => {
                let may_begin = self.side == ScriptSide::Callee && self.accepts && is_request;
                if !may_begin {
                    self.tally.strays += 1;
                    return Ok(Some(StrayMessage::OfNoCall));
                }
                if self.open >= self.most_open {
                    self.tally.without_room += 1;
                    return Ok(Some(StrayMessage::WithoutRoom));
                }
                let number = self.enter(now, key.to_owned(), Some(path.clone()), None)?;
                self.with(now, number, |call, run| call.begin(run, now));
                number
            }
        };
        self.with(now, number, |call, run| call.receive(run, (at, now), bytes, local));
        Ok(None)
    }

    /// Handles a message from another process of the test. Returns the reason if it belongs to no call.
    ///
    /// # Errors
    /// If it starts a call, and an injection file has fewer lines than there are users.
    pub fn receive_command(
        &mut self,
        now: Instant,
        from: Option<&str>,
        text: &str,
    ) -> Result<Option<StrayMessage>, InjectionError> {
        let message = ReceivedText { text: text.to_owned() };
        let call_id = text
            .lines()
            .find_map(|line| {
                line.trim().split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("call-id"))
            })
            .map(|(_, value)| value.trim().to_owned());
        let Some(call_id) = call_id.or_else(|| message.value_of("Call-ID").map(str::to_owned)) else {
            self.tally.strays += 1;
            return Ok(Some(StrayMessage::WithoutCall));
        };
        let key = key_of(&call_id);
        let number = match self.numbers.get(key) {
            Some(number) => *number,
            None if self.side == ScriptSide::Commanded && self.accepts && self.open < self.most_open => {
                let number = self.enter(now, key.to_owned(), None, None)?;
                self.with(now, number, |call, run| call.begin(run, now));
                number
            }
            None => {
                self.tally.strays += 1;
                return Ok(Some(StrayMessage::OfNoCall));
            }
        };
        self.with(now, number, |call, run| call.receive_command(run, now, from, text));
        Ok(None)
    }

    /// Handles the end of a connection. `is_of` returns whether a call used it, from the number of the call and the
    /// path of its first message.
    pub fn disconnected(&mut self, now: Instant, is_of: impl Fn(u64, Option<&P>) -> bool, why: &str) {
        let open = self.calls.iter().filter(|(_, live)| live.lingers_until.is_none());
        let numbers: Vec<u64> = open
            .filter(|(number, live)| is_of(**number, live.path.as_ref()))
            .map(|(number, _)| *number)
            .collect();
        for number in numbers {
            self.with(now, number, |call, run| call.disconnected(run, now, why.to_owned()));
        }
    }

    /// Ends all calls early.
    pub fn stop(&mut self, now: Instant) {
        let numbers: Vec<u64> = self.calls.keys().copied().collect();
        for number in numbers {
            self.with(now, number, |call, run| call.stop(run, now));
        }
    }

    /// The time of the next event of any call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Handles the events that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((due, number)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, number));
            let Some(live) = self.calls.get_mut(&number) else { continue };
            live.due = None;
            if live.lingers_until.is_some_and(|until| until <= now) {
                if self.numbers.get(&live.call.call_id) == Some(&number) {
                    self.numbers.remove(&live.call.call_id);
                }
                self.calls.remove(&number);
                continue;
            }
            self.with(now, number, |call, run| call.handle_timeout(run, now));
        }
    }

    /// Runs `act` on a call, then collects the requests of the call and records its end.
    fn with(&mut self, now: Instant, number: u64, act: impl FnOnce(&mut ScriptCall, &mut ScriptRun)) {
        let Self { calls, run, tally, outputs, measured, due, open, rested, ended, .. } = self;
        let Some(live) = calls.get_mut(&number) else { return };
        act(&mut live.call, run);
        while let Some(output) = live.call.outputs.pop_front() {
            match output {
                ScriptOutput::ResponseTime { name, took } => {
                    if let Some(times) = tally.response_times.get_mut(name) {
                        times.record(took);
                    }
                    measured.iter_mut().for_each(|all| all.push(MeasuredTime { at: now, name, took }));
                }
                ScriptOutput::Log(line) => tally.line(line),
                ScriptOutput::Warn(line) => tally.line(format!("warning: {line}")),
                output => outputs.push_back(CallOutput { number, path: live.path.clone(), output }),
            }
        }
        if let Some(outcome) = live.call.outcome.as_ref().filter(|_| live.lingers_until.is_none()) {
            live.lingers_until = Some(now + LINGERS);
            *open -= 1;
            rested.extend(live.call.user());
            let (call_id, lasted) = (live.call.call_id.clone(), now.since(live.began));
            tally.book(outcome, &call_id, lasted);
            let failure = match outcome {
                ScriptOutcome::Succeeded => None,
                ScriptOutcome::Failed { step, why } => Some(format!("step {}: {why}", step + 1)),
            };
            ended.push(EndedCall { number, call_id, failure, lasted });
            live.call.settle();
        }
        let wants = live.lingers_until.into_iter().chain(live.call.poll_timeout()).min();
        if live.due != wants {
            live.due.into_iter().for_each(|old| _ = due.remove(&(old, number)));
            wants.into_iter().for_each(|new| _ = due.insert((new, number)));
            live.due = wants;
        }
    }
}

impl ScriptTally {
    fn line(&mut self, line: String) {
        if self.log.len() < MOST_LINES {
            self.log.push(line);
        } else {
            self.more_lines += 1;
        }
    }

    fn book(&mut self, outcome: &ScriptOutcome, call_id: &str, lasted: Duration) {
        match outcome {
            ScriptOutcome::Succeeded => {
                self.succeeded += 1;
                self.lengths.record(lasted);
            }
            ScriptOutcome::Failed { step, why } => {
                self.failed += 1;
                let why = why.to_string();
                if self.examples.len() < MOST_EXAMPLES {
                    let (call_id, why) = (call_id.to_owned(), why.clone());
                    self.examples.push(FailedCallRow { call_id, step: step + 1, why });
                }
                let key = (*step, why);
                if self.failures.contains_key(&key) || self.failures.len() < MOST_FAILURES {
                    *self.failures.entry(key).or_default() += 1;
                } else {
                    self.other_failures += 1;
                }
            }
        }
    }
}

/// The part of a Call-ID that identifies the call. A call with several dialogs has Call-IDs with different prefixes
/// before `///`.
fn key_of(call_id: &str) -> &str {
    call_id.rsplit_once("///").map_or(call_id, |(_, key)| key).trim()
}
