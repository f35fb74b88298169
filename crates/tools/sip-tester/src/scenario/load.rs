//! A scenario load over real sockets.

mod order;
mod report;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use netrig_core::{Duration, Instant, Quantity, Sample, Seeds};
use netrig_host::is_public;
use netrig_host::socket::SocketError;
use netrig_host::{Clock, realtime_nanos};
use netrig_sip::header::Transport;
use netrig_sip::index::quantity;
use netrig_sip::load::Side;
use netrig_sip_net::load::{TesterSecond, TesterUse};
use netrig_sip_net::tap::{MessageTaps, StampedTap};
use netrig_sip_net::{ArrivalPath, UserAgentEnd, wait_for_ends};

pub use self::order::{ScenarioOrder, ScriptConnections};
use super::action::MediaKind;
use super::beginnings::Beginnings;
use super::call::ScriptOutput;
use super::calls::{MeasuredTime, ScriptCalls, ScriptSide};
use super::document::{ScenarioDocument, ScenarioSecond};
use super::injection::{InjectionError, InjectionOrder};
use super::link::ScriptLink;
use super::media::ScriptPlayer;
use super::programs::ScenarioPrograms;
use super::run::ScriptRun;
use crate::media::MediaEngine;

/// The largest number of calls that start before received messages are handled.
const BURST: usize = 32;

/// Longest sleep of the loop, and therefore the longest delay of an interruption.
const LOOK: Duration = Duration::from_millis(50);

/// How long messages are answered after the last call: a final response may still be retransmitted.
const AFTERWARDS: Duration = Duration::from_millis(200);

/// How long messages are answered if calls were ended early: time for the responses to CANCEL and BYE.
const AFTER_ENDING: Duration = Duration::from_millis(500);

/// If no more calls start and no event happens for this time, calls that wait without a time limit are ended.
const QUIET: Duration = Duration::from_secs(180);

/// The observers of a scenario load.
pub struct ScenarioWatch<'a> {
    /// If set, the load ends early.
    pub stop: &'a AtomicBool,
    /// The taps, which receive all messages.
    pub taps: Option<&'a dyn MessageTaps>,
    /// Called with the address of the tester when the sockets are open.
    pub ready: &'a mut dyn FnMut(SocketAddr),
    /// Called once a second.
    pub second: &'a mut dyn FnMut(&ScenarioSecond),
}

/// Called once a second with the samples of that second.
type SampleWatch<'a> = &'a mut dyn FnMut(Vec<Sample>);

/// Why a scenario load cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioLoadError {
    /// The order is invalid.
    #[error("{0}")]
    Request(String),
    /// A socket cannot be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// An injection file cannot be used.
    #[error("injection file: {0}")]
    Injection(#[from] InjectionError),
}

/// Runs a scenario load and returns its document. `tester`: version and commit of netrig.
///
/// # Errors
/// If it cannot start. Later faults are in the document.
pub fn run_scenario(
    order: ScenarioOrder,
    watch: ScenarioWatch<'_>,
    tester: &str,
) -> Result<ScenarioDocument, ScenarioLoadError> {
    carry_scenario_out(order, watch, tester, None)
}

/// [`run_scenario`] as a part of an experiment's run. No call starts before time zero of `clock`. Once a second,
/// `samples` is called with the samples of that second. Their times are those of `clock`.
///
/// # Errors
/// As [`run_scenario`].
pub fn run_scenario_by(
    clock: Clock,
    order: ScenarioOrder,
    watch: ScenarioWatch<'_>,
    samples: &mut dyn FnMut(Vec<Sample>),
    tester: &str,
) -> Result<ScenarioDocument, ScenarioLoadError> {
    carry_scenario_out(order, watch, tester, Some((clock, samples)))
}

/// Quantities of the first three response times of a scenario. Further response times have no samples.
static RESPONSE_TIMES: [&Quantity; 3] =
    [&quantity::SIP_RESPONSE_TIME_1, &quantity::SIP_RESPONSE_TIME_2, &quantity::SIP_RESPONSE_TIME_3];

fn carry_scenario_out(
    order: ScenarioOrder,
    watch: ScenarioWatch<'_>,
    tester: &str,
    of_run: Option<(Clock, SampleWatch<'_>)>,
) -> Result<ScenarioDocument, ScenarioLoadError> {
    let refuse = |why: String| Err(ScenarioLoadError::Request(why));
    let side = ScriptSide::of(&order.script);
    if !order.runs_programs
        && let Some(line) = order.script.starts_programs()
    {
        return refuse(format!(
            "line {line}: the scenario starts a program: allow it with --allow-commands, or remove <exec command>"
        ));
    }
    if let Some((line, what)) = order.script.needs_link()
        && order.link.is_none()
    {
        return refuse(format!("line {line}: <{what}> needs another process of the test: --3pcc ADDRESS"));
    }
    let server = order.address.server;
    if side != ScriptSide::Callee && is_public(server.ip()) && !order.may_test {
        return refuse(format!(
            "{} is a public address: a load is sent there only with --i-may-test",
            server.ip()
        ));
    }
    if order.pace_is_empty(side) {
        return refuse("expected at least one call: a count, a rate and users above 0".to_owned());
    }
    let users = order.users.map_or(0, |users| users as usize);
    let short = order.files.iter().find(|(_, file)| file.order == InjectionOrder::User && file.len() < users);
    if let Some((name, file)) = short {
        return refuse(format!(
            "{name}: expected a line for each of {users} users, found {}: more lines, or fewer --users",
            file.len()
        ));
    }
    if let Some((line, field)) = order.script.fields().find(|(_, field)| {
        field
            .file
            .as_ref()
            .map_or(order.files.is_empty(), |name| order.files.iter().all(|(own, _)| own != name))
    }) {
        return refuse(match &field.file {
            Some(name) => {
                format!("line {line}: [field{}] uses {name}, which --inject does not provide", field.field)
            }
            None => format!("line {line}: [field{}] needs a file: --inject FILE", field.field),
        });
    }
    let folder = order.file.parent().map(PathBuf::from).unwrap_or_default();
    let player = ScriptPlayer::new(&order.script, &folder).map_err(ScenarioLoadError::Request)?;
    let link = order.link.clone().map(ScriptLink::open).transpose().map_err(ScenarioLoadError::Request)?;
    let end = UserAgentEnd::open(&order.address)?;
    let local = end.local();
    let mut settings = order.settings.clone();
    settings.local = local;
    if settings.media.ip().is_unspecified() {
        settings.media.set_ip(local.ip());
    }
    let mut run = ScriptRun::new(order.script.clone(), settings, Seeds::new(order.seed).stream("scenario"));
    run.default_file = order.files.first().map(|(name, _)| name.clone());
    run.files = order.files.iter().cloned().collect();
    run.set_globals(&order.variables).map_err(ScenarioLoadError::Request)?;
    let users = order.users.map(|users| users as usize);
    let pace = (side == ScriptSide::Caller).then_some(&order.pace);
    let lasts = order.lasts.unwrap_or(Duration::MAX);
    let began_ns = realtime_nanos();
    let (of_run, samples) = of_run.unzip();
    let clock = of_run.unwrap_or_else(|| Clock::starting_in(Duration::ZERO));
    // Caller and callee may have the same seed, but need different sources (SSRC).
    let draws = match side {
        ScriptSide::Callee => Seeds::new(order.seed).stream("scenario/media/callee"),
        _ => Seeds::new(order.seed).stream("scenario/media"),
    };
    let media =
        order.media.clone().map(|media| MediaEngine::new(media, run.settings.media.ip(), &clock, draws));
    let mut calls = ScriptCalls::new(run, order.most_open, users, began_ns);
    calls.measured = of_run.map(|_| Vec::new());
    let load = ScenarioLoad {
        clock,
        media,
        beginnings: Beginnings::new(pace, users.unwrap_or(1), order.count, lasts, order.seed),
        calls,
        samples: of_run.map(|_| Vec::new()),
        end,
        link,
        player,
        programs: ScenarioPrograms::default(),
        destinations: BTreeMap::new(),
        tap: watch.taps.map(|taps| StampedTap::new(taps.tap(), clock, true)),
        second: TesterSecond::default(),
        whole: TesterSecond::default(),
        stopped: None,
        faults: Vec::new(),
        last_event: Instant::ZERO,
        order: &order,
    };
    load.run(watch, samples, side, began_ns, tester)
}

struct ScenarioLoad<'a> {
    order: &'a ScenarioOrder,
    clock: Clock,
    beginnings: Beginnings,
    calls: ScriptCalls<ArrivalPath>,
    /// The samples of the current second; `None` if the load is not part of an experiment's run.
    samples: Option<Vec<Sample>>,
    end: UserAgentEnd,
    link: Option<ScriptLink>,
    player: ScriptPlayer,
    media: Option<MediaEngine>,
    programs: ScenarioPrograms,
    /// The destinations of calls that set one.
    destinations: BTreeMap<u64, SocketAddr>,
    tap: Option<StampedTap>,
    second: TesterSecond,
    whole: TesterSecond,
    /// Set if the scenario ended the run; the inner value is the error, if there was one.
    stopped: Option<Option<String>>,
    faults: Vec<String>,
    /// The last time a message arrived or an event was due.
    last_event: Instant,
}

impl ScenarioLoad<'_> {
    fn run(
        mut self,
        watch: ScenarioWatch<'_>,
        mut of_run: Option<SampleWatch<'_>>,
        side: ScriptSide,
        began_ns: u64,
        tester: &str,
    ) -> Result<ScenarioDocument, ScenarioLoadError> {
        // Time zero of a run's clock may be in the future.
        while !self.clock.left_until(Instant::ZERO).is_zero() && !watch.stop.load(Ordering::Relaxed) {
            std::thread::sleep(self.clock.left_until(Instant::ZERO).min(LOOK).into());
        }
        let mut used = TesterUse::read();
        self.calls.open_run(self.clock.now()).map_err(ScenarioLoadError::Request)?;
        self.carry_out()?;
        (watch.ready)(self.end.local());
        let mut seconds: Vec<ScenarioSecond> = Vec::new();
        let mut before = SecondMark::default();
        let interrupted = loop {
            let now = self.clock.now();
            if watch.stop.load(Ordering::Relaxed) {
                // Only a caller counts as interrupted: a callee usually runs until the user ends it.
                break side == ScriptSide::Caller;
            }
            self.begin()?;
            self.calls.handle_timeout(self.clock.now());
            self.player.handle_timeout(self.clock.now());
            self.media.iter_mut().for_each(|media| media.handle_timeout(self.clock.now()));
            self.carry_out()?;
            let second = now.as_nanos() / 1_000_000_000;
            while (seconds.len() as u64) < second {
                let row = self.tell(seconds.len() as u64, &mut before, &mut used);
                (watch.second)(&row);
                seconds.push(row);
                self.hand_samples_on(&mut of_run);
            }
            if self.stopped.is_some() || self.is_done(self.clock.now(), side) {
                break false;
            }
            self.wait();
            self.receive()?;
        };
        let open = self.calls.open_within() as u64;
        self.finish(open > 0)?;
        if self.second.sent + self.second.received > 0 || seconds.is_empty() {
            let row = self.tell(seconds.len() as u64, &mut before, &mut used);
            (watch.second)(&row);
            seconds.push(row);
        }
        let took = self.clock.now().since(Instant::ZERO);
        self.hand_samples_on(&mut of_run);
        Ok(self.document(tester, side, (began_ns, took, interrupted, open), seconds))
    }

    fn hand_samples_on(&mut self, of_run: &mut Option<SampleWatch<'_>>) {
        if let (Some(samples), Some(hand_on)) = (&mut self.samples, of_run) {
            hand_on(std::mem::take(samples));
        }
    }

    /// Starts the calls that are due.
    fn begin(&mut self) -> Result<(), ScenarioLoadError> {
        for _ in 0..BURST {
            let Some((due, user)) = self.beginnings.take(self.clock.now()) else { break };
            let at = self.clock.now();
            if !self.calls.begin(at, user)? {
                self.second.full += 1;
                user.into_iter().for_each(|user| self.beginnings.rest(at, user));
                continue;
            }
            self.second.lateness.record(at.since(due));
            self.sample(due, &quantity::SIP_BEGUN, 1.0);
            self.carry_out()?;
        }
        let now = self.clock.now();
        for user in self.calls.take_rested() {
            self.beginnings.rest(now, user);
        }
        Ok(())
    }

    /// Whether the load is finished.
    fn is_done(&mut self, now: Instant, side: ScriptSide) -> bool {
        let open = self.calls.open();
        let is_over = match side {
            ScriptSide::Caller => self.beginnings.is_over(now, open),
            _ => {
                let tally = &self.calls.tally;
                let has_count = self.order.count.is_some_and(|count| tally.begun >= count);
                if has_count {
                    self.calls.accept_no_more();
                }
                let is_late = self.order.lasts.is_some_and(|lasts| now >= Instant::ZERO + lasts);
                if is_late && side == ScriptSide::Callee {
                    // The time limit is reached, so open calls are ended.
                    return true;
                }
                if is_late {
                    self.calls.accept_no_more();
                }
                has_count || is_late
            }
        };
        // A call that waits without a time limit would keep the load running for ever.
        let is_quiet = open > 0
            && now.since(self.last_event) > QUIET
            && self.calls.poll_timeout().is_none_or(|due| due > now + QUIET);
        is_over && (open == 0 || is_quiet)
    }

    fn wait(&mut self) {
        let now = self.clock.now();
        let media = self.media.as_ref().and_then(MediaEngine::poll_timeout);
        let due = [self.beginnings.next_due(), self.calls.poll_timeout(), self.player.poll_timeout(), media];
        let due = due.into_iter().flatten().min().unwrap_or(Instant::NEVER);
        let span = if due <= now { Duration::ZERO } else { due.since(now).min(LOOK) };
        let mut watched = self.end.watched();
        watched.extend(self.player.watched());
        watched.extend(self.media.iter().flat_map(MediaEngine::watched));
        watched.extend(self.link.iter().flat_map(ScriptLink::watched));
        wait_for_ends(&watched, span);
    }

    fn receive(&mut self) -> Result<(), ScenarioLoadError> {
        let local = self.end.local();
        for came in self.end.receive(&self.clock) {
            let now = self.clock.now();
            self.second.received += 1;
            self.second.own_time.record(now.since(came.at));
            self.pass(came.at, false, came.path.peer(), &came.bytes);
            match self.calls.receive((came.at, now), &came.bytes, &came.path, local)? {
                // A message that belongs to no call does not keep the load running.
                Some(_) => self.second.strays += 1,
                None => self.last_event = now,
            }
            self.carry_out()?;
        }
        for ended in self.end.take_ended() {
            let why = format!("the connection ended: {}", ended.why);
            let Self { calls, destinations, order, clock, .. } = self;
            let is_of = |number, path: Option<&ArrivalPath>| match ended.path {
                ArrivalPath::Own(key, _) => {
                    path.is_none() && key == connection_key(order.connections, destinations, number)
                }
                ended => path == Some(&ended),
            };
            calls.disconnected(clock.now(), is_of, &why);
        }
        for (from, text) in self.link.as_mut().map(ScriptLink::receive).unwrap_or_default() {
            self.last_event = self.clock.now();
            self.calls.receive_command(self.last_event, from.as_deref(), &text)?;
        }
        self.player.receive();
        self.media.iter_mut().for_each(|media| media.receive());
        self.carry_out()
    }

    fn pass(&mut self, at: Instant, is_sent: bool, peer: SocketAddr, bytes: &[u8]) {
        let Some(tap) = &mut self.tap else { return };
        let ends = [self.end.local(), peer];
        tap.message((at, self.order.address.transport), is_sent, ends, bytes);
    }

    /// Performs the requests of calls.
    fn carry_out(&mut self) -> Result<(), ScenarioLoadError> {
        loop {
            while let Some(wanted) = self.calls.outputs.pop_front() {
                let number = wanted.number;
                let done = self.output(number, wanted.path, wanted.output);
                if let Err(why) = done {
                    self.calls.fail(self.clock.now(), number, why);
                }
            }
            for MeasuredTime { at, name, took } in
                self.calls.measured.as_mut().map(std::mem::take).unwrap_or_default()
            {
                if let Some(quantity) = RESPONSE_TIMES.get(name) {
                    self.sample(at, quantity, took.as_secs_f64());
                }
            }
            for ended in self.calls.take_ended() {
                self.player.end(ended.number);
                let now = self.clock.now();
                if ended.failure.is_none() {
                    self.sample(now, &quantity::SIP_SUCCEEDED, 1.0);
                    self.sample(now, &quantity::SIP_SCENARIO_TIME, ended.lasted.as_secs_f64());
                } else {
                    self.sample(now, &quantity::SIP_FAILED, 1.0);
                }
                self.media.iter_mut().for_each(|media| media.close(now, ended.number));
                let key = self.key(ended.number);
                if key != SHARED_CONNECTION {
                    self.end.close_own(key);
                }
                self.destinations.remove(&ended.number);
                if let Some(tap) = &mut self.tap {
                    let side = match self.calls.side() {
                        ScriptSide::Callee => Side::Callee,
                        _ => Side::Caller,
                    };
                    tap.tap.call_ended(side, &ended.call_id, ended.failure.as_deref(), ended.lasted);
                }
            }
            if self.calls.outputs.is_empty() {
                return Ok(());
            }
        }
    }

    fn output(&mut self, number: u64, path: Option<ArrivalPath>, output: ScriptOutput) -> Result<(), String> {
        match output {
            ScriptOutput::Send(bytes) => self.send(number, path, &bytes),
            ScriptOutput::Destination { host, port, protocol } => {
                let address = destination(&host, &port, &protocol, self.order.address.transport)?;
                if is_public(address.ip()) && !self.order.may_test {
                    return Err(format!("<setdest>: {} is a public address", address.ip()));
                }
                self.destinations.insert(number, address);
                Ok(())
            }
            ScriptOutput::CloseConnection => {
                match path.filter(|_| !self.destinations.contains_key(&number)) {
                    Some(path) => self.end.close(path),
                    None => self.end.close_own(self.key(number)),
                }
                Ok(())
            }
            ScriptOutput::Command(command) => self.programs.start(&command),
            ScriptOutput::Media(media, ends) => self.player.play(self.clock.now(), number, &media, &ends),
            ScriptOutput::Echo(is_on) => {
                let media = self.calls.run.settings.media;
                self.player.echo(is_on, media)
            }
            ScriptOutput::SendCommand { to, text } => match &mut self.link {
                Some(link) => link.send(to.as_deref(), &text),
                None => Err("no other process of the test is connected".to_owned()),
            },
            ScriptOutput::SessionBegins(ends) => {
                if let (Some(media), (_, Some(to))) = (&mut self.media, ends.of(MediaKind::Audio)) {
                    // Port 0 refuses the stream (RFC 3264 section 6).
                    let is_supported = ends.takes(media.order().codec.payload_type()) && to.port() != 0;
                    media.begin(self.clock.now(), number, to, is_supported);
                }
                Ok(())
            }
            ScriptOutput::SessionEnds => {
                if let Some(media) = &mut self.media {
                    media.end(self.clock.now(), number);
                }
                Ok(())
            }
            ScriptOutput::StopGracefully => {
                self.beginnings.end();
                self.calls.accept_no_more();
                Ok(())
            }
            ScriptOutput::StopNow(why) => {
                self.stopped.get_or_insert(why);
                Ok(())
            }
            // These requests never arrive here: `ScriptCalls` handles them.
            ScriptOutput::Log(_) | ScriptOutput::Warn(_) | ScriptOutput::ResponseTime { .. } => Ok(()),
        }
    }

    fn sample(&mut self, at: Instant, quantity: &'static Quantity, value: f64) {
        if let Some(samples) = &mut self.samples {
            samples.push(Sample { at, quantity, value });
        }
    }

    fn key(&self, number: u64) -> u64 {
        connection_key(self.order.connections, &self.destinations, number)
    }

    fn send(&mut self, number: u64, path: Option<ArrivalPath>, bytes: &Bytes) -> Result<(), String> {
        if let Some(media) = &mut self.media
            && self.calls.is_open(number)
            && bytes.windows(8).any(|window| window == b"m=audio ")
        {
            media.open(number, self.calls.run.settings.media_port(number));
        }
        // An answer may arrive before the sending call returns.
        let at = self.clock.now();
        let key = self.key(number);
        let (to, sent) = match (self.destinations.get(&number).copied(), path) {
            (Some(to), _) => (to, self.end.send_by(key, to, bytes)),
            (None, Some(path)) => (path.peer(), self.end.answer(path, path.peer(), bytes)),
            (None, None) => {
                let to = self.order.address.server;
                (to, self.end.send_by(key, to, bytes))
            }
        };
        sent.map_err(|why| format!("a message could not be sent: {why}"))?;
        self.second.sent += 1;
        self.last_event = at;
        self.pass(at, true, to, bytes);
        Ok(())
    }

    /// Ends open calls, and answers messages for a short time.
    fn finish(&mut self, has_open: bool) -> Result<(), ScenarioLoadError> {
        self.calls.accept_no_more();
        self.beginnings.end();
        self.calls.stop(self.clock.now());
        self.carry_out()?;
        let until = self.clock.now() + if has_open { AFTER_ENDING } else { AFTERWARDS };
        while self.clock.now() < until {
            let span = until.since(self.clock.now()).min(LOOK);
            wait_for_ends(&self.end.watched(), span);
            self.receive()?;
        }
        // Media packets after the end of the last session are also counted.
        while let Some(media) = self.media.as_mut().filter(|media| !media.is_idle()) {
            media.receive();
            media.handle_timeout(self.clock.now());
            let watched: Vec<_> = media.watched().collect();
            wait_for_ends(&watched, Duration::from_millis(10));
        }
        Ok(())
    }
}

/// The key of the connection that calls share.
const SHARED_CONNECTION: u64 = 0;

/// The key of the connection of a call that the tester started, or that set its own destination. It is the number of
/// the call (from 1), or [`SHARED_CONNECTION`].
fn connection_key(
    connections: ScriptConnections,
    destinations: &BTreeMap<u64, SocketAddr>,
    number: u64,
) -> u64 {
    match connections {
        ScriptConnections::One if !destinations.contains_key(&number) => SHARED_CONNECTION,
        _ => number,
    }
}

/// Parses the destination that a call sets. The transport must be that of the load.
fn destination(host: &str, port: &str, protocol: &str, transport: Transport) -> Result<SocketAddr, String> {
    let wrong = |what: String| Err(format!("<setdest>: {what}"));
    if !protocol.eq_ignore_ascii_case(transport.name()) {
        return wrong(format!("`{protocol}` is not the transport of the load, {}", transport.name()));
    }
    let host = host.trim().trim_start_matches('[').trim_end_matches(']');
    let Ok(address) = host.parse::<IpAddr>() else {
        return wrong(format!("expected an address, found `{host}`"));
    };
    match port.trim().parse() {
        Ok(port) => Ok(SocketAddr::new(address, port)),
        Err(_) => wrong(format!("expected a port, found `{port}`")),
    }
}

/// Total counts at the end of a second.
#[derive(Clone, Copy, Debug, Default)]
struct SecondMark {
    begun: u64,
    succeeded: u64,
    failed: u64,
    again: u64,
}
