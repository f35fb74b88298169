//! One part of a load, without a socket: its users and their machines, from the first registration to the last.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use netrig_core::{Duration, Instant};

use super::callee::Callee;
use super::caller::Caller;
use super::lookup::{Located, PendingLookup};
use super::moment::Moment;
use super::output::{ConnectionScope, LoadOutput};
use super::plan::{CalleeOrder, Plan};
use super::plan_clock::PlanClock;
use super::recipient::Recipient;
use super::registrant::Registrant;
use super::scan::{Scan, Start};
use super::scenario::Work;
use super::setup::Setup;
use super::template::TemplateError;
use super::user::Registration;
use super::users::{NextUser, UserSchedule, share};
use crate::index::Tally;
use crate::record::{Broken, CalleeAction, Departure, Owner, Record, Side, Token, Unlocated};

/// Concurrent registrations of each part before and after the load.
const AT_ONCE: u32 = 32;

/// Number of users that are searched for an idle one.
const ASKED: u32 = 64;

/// Open attempts are counted for each interval of this length, by their scheduled time.
const SECOND: Duration = Duration::from_secs(1);

/// One part of a load. It shares only the schedule with the other parts.
///
/// [`Part::handle`] takes received messages, and [`Part::handle_timeout`] takes the time. [`Part::out`] has the output,
/// and [`Part::settle`] must follow each of these calls. Call [`Part::prepare`] until [`Part::is_prepared`], then
/// [`Part::start`], then [`Part::begin`] whenever an attempt is due, and at the end [`Part::take_back`] until it
/// returns false.
#[derive(Debug)]
pub struct Part {
    plan: Arc<Plan>,
    run: u32,
    number: u16,
    parts: u16,
    caller: Caller,
    callee: Option<Callee>,
    registrant: Registrant,
    /// Number of users of this part.
    own: u32,
    /// Number of users of the load whose names precede those of the registered users.
    before: u32,
    users: UserSchedule,
    /// Messages to be sent, and records of ended attempts.
    pub out: LoadOutput,
    measured: Tally,
    warm_up: Tally,
    /// Start of the load.
    start: Instant,
    /// Maps the time since the start of the load to the time of the plan.
    course: PlanClock,
    /// Number of attempts that are started and not ended.
    open: u64,
    /// Scheduled time of the last started attempt, since the start of the load.
    until: Duration,
    /// Number of open attempts, by the second of their scheduled time.
    open_since: Vec<u32>,
    /// The first user of the registrant that is registered before the load.
    first: u32,
    asked: u32,
    /// Whether the load is over.
    is_over: bool,
    /// Removal of the registrations at the end, once it has started.
    unregistrations: Option<Unregistrations>,
    /// The first failed registration before or after the load.
    aside: Option<Record>,
    /// Attempts that wait for a lookup, by the number of the lookup.
    pending_lookups: BTreeMap<u64, PendingLookup>,
    /// Users that wait for a lookup before a REGISTER.
    registering: BTreeSet<u32>,
    /// Number of lookups so far.
    lookups: u64,
    /// Numbers of the lookups that the driver has not taken.
    untaken: Vec<u64>,
}

/// Registrations that are removed after the load.
#[derive(Debug)]
struct Unregistrations {
    /// Users that have not sent their REGISTER.
    waiting: VecDeque<u32>,
    /// Users that wait for the response.
    asked: Vec<u32>,
}

/// The result of starting an attempt that was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptStart {
    /// The attempt has started. The value is its scheduled time.
    At(Instant),
    /// The part has its maximum number of calls.
    Full,
    /// The last attempt of its user is not over.
    Busy,
}

impl Part {
    /// One of `parts` parts. Its number is the shard of `setup`. `secret` must be random.
    ///
    /// # Errors
    /// If the domain of the setup is not valid in a URI.
    pub fn new(plan: Arc<Plan>, setup: Setup, parts: u16, secret: [u8; 16]) -> Result<Self, TemplateError> {
        let number = setup.shard;
        let part = |of: u32| share(of.into(), number.into(), parts.into()) as u32;
        let own = part(plan.users);
        let callee = match plan.callee {
            CalleeOrder::Own { ringing } => {
                Some(Callee::new(setup.clone(), CalleeAction::Answer, ringing, secret)?)
            }
            CalleeOrder::Foreign => None,
        };
        // In a load of calls, the peers are registered. Their names follow those of the users, and those of the idle
        // population come last.
        let registers = plan.works().any(Work::registers);
        let (before, active) = match (registers, callee.is_some()) {
            (false, true) => (plan.users, plan.users),
            (false, false) => (plan.users, 0),
            (true, true) => (0, plan.users * 2),
            (true, false) => (0, plan.users),
        };
        let first_name = before + u32::from(number);
        let [names, passwords] =
            [&plan.names, &plan.passwords].map(|texts| texts.part(first_name, u32::from(parts)));
        // Users that register during the load are not registered before it.
        let is_there = |work| matches!(work, Work::ReRegister | Work::Unregister);
        let first = if registers && !plan.works().any(is_there) { own } else { 0 };
        Ok(Self {
            registrant: Registrant::new(setup.clone(), names, passwords, part(active + plan.population))?,
            run: setup.run,
            caller: Caller::new(setup, plan.names.clone(), plan.passwords.clone())?,
            callee,
            users: UserSchedule::new(&plan, (number, parts), own),
            plan,
            number,
            parts,
            own,
            before,
            out: LoadOutput::default(),
            measured: Tally::default(),
            warm_up: Tally::default(),
            start: Instant::NEVER,
            course: PlanClock::default(),
            open: 0,
            until: Duration::ZERO,
            open_since: Vec::new(),
            first,
            asked: first,
            is_over: false,
            unregistrations: None,
            aside: None,
            pending_lookups: BTreeMap::new(),
            registering: BTreeSet::new(),
            lookups: 0,
            untaken: Vec::new(),
        })
    }

    /// Sends REGISTERs for the registrations that are needed before the load, 32 at once.
    pub fn prepare(&mut self, now: Instant) {
        while self.asked < self.registrant.len()
            && self.asked - self.first - self.registrant.registered() < AT_ONCE
        {
            // Each user registers once, so none is busy.
            let _asked = self.registrant.register(now, now, self.asked, self.plan.expires, &mut self.out);
            self.asked += 1;
        }
    }

    /// Whether all registrations that are needed before the load are complete.
    pub const fn is_prepared(&self) -> bool {
        self.registrant.registered() >= self.registrant.len() - self.first
    }

    /// Numbers of complete registrations, and of those needed before the load.
    pub const fn prepared(&self) -> [u32; 2] {
        [self.registrant.registered(), self.registrant.len() - self.first]
    }

    /// Whether registrations are pending.
    pub const fn is_preparing(&self) -> bool {
        self.asked - self.first > self.registrant.registered()
    }

    /// Takes the first failed registration before or after the load, with the user's name.
    pub fn take_aside(&mut self) -> Option<(String, Record)> {
        let record = self.aside.take()?;
        let place = record.user * u32::from(self.parts) + u32::from(self.number);
        let name = self.plan.names.of(self.before + place);
        Some((String::from_utf8_lossy(name.as_bytes()).into_owned(), record))
    }

    /// Sets the start of the load.
    pub const fn start(&mut self, at: Instant) {
        self.start = at;
    }

    /// The time of the next attempt, once the start of the load is set.
    pub fn due(&self) -> Option<Instant> {
        let due = self.users.due()?;
        (self.start != Instant::NEVER).then(|| self.moment(due))
    }

    /// Replaces the clock of the plan. The new one must agree with the old one up to now.
    pub fn steer(&mut self, course: PlanClock) {
        let end = course.end(self.plan.duration);
        self.users.end_at(if end == Instant::NEVER { end } else { course.plan(end) });
        self.course = course;
    }

    /// Number of the part.
    pub const fn number(&self) -> u16 {
        self.number
    }

    /// The time from which no attempt starts, once the start of the load is set. [`Instant::NEVER`] during a pause.
    pub fn end(&self) -> Instant {
        self.start + (self.course.end(self.plan.duration) - Instant::ZERO)
    }

    /// Stops new attempts.
    pub fn stop(&mut self) {
        self.users.stop();
    }

    /// Number of attempts that are started and not ended.
    pub const fn open(&self) -> u64 {
        self.open
    }

    /// Scheduled time of the last started attempt, since the start of the load.
    pub const fn until(&self) -> Duration {
        self.until
    }

    /// Whether no attempt is open and no other will start.
    pub fn is_done(&self) -> bool {
        self.open == 0 && self.users.due().is_none()
    }

    /// Starts the first attempt that is due by `now`.
    pub fn begin(&mut self, now: Instant) -> Option<AttemptStart> {
        let (next, due, work) = if now < self.start { None } else { self.users.take(self.planned(now)) }?;
        let due = self.moment(due);
        let parts = u64::from(self.parts);
        // Index of the user in this part.
        let user = match next {
            NextUser::User(user) => user,
            NextUser::Arrival(number) => self.idle(work, (number / parts % u64::from(self.own)) as u32),
        };
        let attempt = PendingLookup { work, user, due };
        let begun = if self.plan.looks_up { self.look_up(attempt) } else { self.ask(now, attempt, None) };
        if let Err(missed) = begun {
            self.users.done(self.planned(now), user);
            return Some(missed);
        }
        self.open += 1;
        *self.since(due) += 1;
        self.until = self.until.max(due - self.start);
        self.tally(due).begun(work.what());
        Some(AttemptStart::At(due))
    }

    /// Sends the first request of an attempt, to the servers of its lookup if it has one.
    fn ask(
        &mut self,
        now: Instant,
        attempt: PendingLookup,
        located: Option<Arc<Located>>,
    ) -> Result<(), AttemptStart> {
        let PendingLookup { work, user, due } = attempt;
        let global = self.global(user);
        let Self { plan, out, registrant, .. } = self;
        if let (true, Some(located)) = (work.registers(), &located) {
            registrant.locate(user, Arc::clone(located));
        }
        match work {
            Work::Register | Work::ReRegister => {
                registrant.register(now, due, user, plan.expires, out).map_err(|_| AttemptStart::Busy)
            }
            Work::Unregister => registrant.unregister(now, due, user, out).map_err(|_| AttemptStart::Busy),
            Work::Call(scenario) => {
                let users = (global, global + plan.users);
                self.caller
                    .start(now, due, scenario, users, located, out)
                    .map(drop)
                    .map_err(|_| AttemptStart::Full)
            }
        }
    }

    /// Number of a user of this part among all users of the load.
    fn global(&self, user: u32) -> u32 {
        (u64::from(user) * u64::from(self.parts) + u64::from(self.number)) as u32
    }

    /// Adds an attempt that waits for its lookup.
    fn look_up(&mut self, attempt: PendingLookup) -> Result<(), AttemptStart> {
        if attempt.work.registers() {
            if self.is_busy(attempt.user) {
                return Err(AttemptStart::Busy);
            }
            self.registering.insert(attempt.user);
        } else if self.caller.len() as usize + self.pending_lookups.len() >= self.plan.calls as usize {
            return Err(AttemptStart::Full);
        }
        self.lookups += 1;
        self.pending_lookups.insert(self.lookups, attempt);
        self.untaken.push(self.lookups);
        Ok(())
    }

    /// Takes the numbers of new lookups, each of which waits for [`Part::handle_lookup`].
    pub fn take_lookups(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.untaken)
    }

    /// Takes the result of a lookup: the attempt sends its first request, or fails.
    pub fn handle_lookup(&mut self, now: Instant, lookup: u64, found: Result<Arc<Located>, Unlocated>) {
        let Some(attempt) = self.pending_lookups.remove(&lookup) else { return };
        self.registering.remove(&attempt.user);
        // There was room for a call when the attempt started. If there is none now, that is a limit of the tester.
        let asked =
            found.and_then(|found| self.ask(now, attempt, Some(found)).map_err(|_| Unlocated::NoRoom));
        if let Err(why) = asked {
            let user = self.global(attempt.user);
            self.out.records.push(attempt.unlocated(why, (self.run, self.number), user));
        }
    }

    /// Whether a user waits for the response to a REGISTER, or for a lookup before it.
    fn is_busy(&self, user: u32) -> bool {
        let state = self.registrant.state(user);
        matches!(state, Some(Registration::Registering | Registration::Unregistering))
            || self.registering.contains(&user)
    }

    /// An idle user that registers again in place of a busy `user`. A server that keeps users waiting must not delay
    /// the others.
    fn idle(&self, work: Work, user: u32) -> u32 {
        // If each user makes only one attempt, the user is idle.
        if !work.registers() || self.plan.is_once() {
            return user;
        }
        let mut others = (0..ASKED.min(self.own)).map(|step| (user + step) % self.own);
        others.find(|other| !self.is_busy(*other)).unwrap_or(user)
    }

    /// Handles a message from `from`. Returns whether it belongs to this part.
    pub fn handle(&mut self, moment: Moment, from: SocketAddr, scan: &Scan<'_>) -> bool {
        let Self { out, caller, callee, registrant, .. } = self;
        match (Recipient::of(scan, self.run, self.number), callee) {
            (Some(Recipient::Response(token, transaction)), _) if token.owner == Owner::Registration => {
                registrant.handle_response(moment, scan, (token, transaction), out);
            }
            (Some(Recipient::Response(token, transaction)), callee) if token.owner == Owner::Callee => {
                match callee {
                    Some(callee) => callee.handle_response(moment, scan, (token, transaction), out),
                    None => return false,
                }
            }
            (Some(Recipient::Response(token, transaction)), _) => {
                caller.handle_response(moment, scan, (token, transaction), out);
            }
            (Some(Recipient::Caller(token)), _) => caller.handle_request(moment, from, scan, token, out),
            (Some(Recipient::Callee), Some(callee)) => callee.handle_request(moment, from, scan, out),
            (Some(Recipient::Callee), None) | (None, _) => return false,
        }
        true
    }

    /// Handles the departure at `at` of a message that was sent later than it was written (see
    /// [`Outbox::departing`](super::Outbox::departing)).
    pub fn handle_departure(&mut self, at: Instant, of: (Token, Departure)) {
        match of.0.owner {
            Owner::Registration => self.registrant.handle_departure(at, of),
            Owner::Caller(_) => self.caller.handle_departure(at, of),
            Owner::Callee => {}
        }
    }

    /// Handles the loss of a connection to `server`, or an unreachable server. `registers` says whether the
    /// connection carried registrations or calls; `None` for both.
    pub fn handle_disconnection(
        &mut self,
        now: Instant,
        registers: Option<bool>,
        (server, whose): (SocketAddr, ConnectionScope),
        why: Broken,
    ) {
        if registers != Some(true) {
            self.caller.handle_disconnection(now, (server, whose), why, &mut self.out);
        }
        if registers != Some(false) {
            self.registrant.handle_disconnection(now, (server, whose), why, &mut self.out);
        }
    }

    /// Handles an ICMP error for a message to `to`, of which `scan` is the beginning. The attempt fails, or goes to
    /// the next server.
    pub fn handle_undelivered(&mut self, now: Instant, to: SocketAddr, scan: &Scan<'_>) {
        let (Some(Start::Request { .. }), Some(branch)) = (scan.start, scan.branch) else { return };
        let Some((token, _)) = Token::read_branch(branch) else { return };
        if (token.run, token.shard) == (self.run, self.number) && token.owner != Owner::Callee {
            let registers = Some(token.owner == Owner::Registration);
            self.handle_disconnection(
                now,
                registers,
                (to, ConnectionScope::Attempt(token)),
                Broken::Undelivered,
            );
        }
    }

    /// Handles all timers of the machines that have expired by `now`. It starts no attempt.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.caller.handle_timeout(now, &mut self.out);
        self.registrant.handle_timeout(now, &mut self.out);
        if let Some(callee) = &mut self.callee {
            callee.handle_timeout(now, &mut self.out);
        }
    }

    /// The latest time at which to call [`Part::handle_timeout`].
    pub fn next_deadline(&mut self) -> Option<Instant> {
        let timers = [
            self.caller.next_deadline(),
            self.registrant.next_deadline(),
            self.callee.as_mut().and_then(Callee::next_deadline),
        ];
        timers.into_iter().flatten().min()
    }

    /// Counts the attempts that have ended, and passes each record to `each`.
    pub fn settle(&mut self, now: Instant, mut each: impl FnMut(&Record)) {
        let mut records = std::mem::take(&mut self.out.records);
        for record in records.drain(..) {
            each(&record);
            self.ended(now, &record);
        }
        self.out.records = records;
        for (method, status) in std::mem::take(&mut self.out.unrequested) {
            if self.is_of_load() {
                self.tally(now).unrequested(method, status);
            }
        }
    }

    /// Whether records belong to the load, and not to the registrations before or after it.
    pub fn is_of_load(&self) -> bool {
        !self.is_over && self.start != Instant::NEVER
    }

    /// Whether an attempt that was scheduled for `intended` is measured, and not part of the warm-up.
    pub fn is_measured(&self, intended: Instant) -> bool {
        intended >= self.start + self.plan.warm_up
    }

    fn ended(&mut self, now: Instant, record: &Record) {
        // A registration that was made before the load may end after the start of the load. It was never counted as
        // open.
        let is_early = !record.what.is_unasked() && record.stamps.intended < self.start;
        if !self.is_of_load() || is_early {
            if record.failure.is_some() {
                self.aside.get_or_insert(*record);
            }
            return;
        }
        self.tally(record.stamps.intended).record(record);
        if record.what.is_unasked() {
            return;
        }
        self.open -= 1;
        let since = self.since(record.stamps.intended);
        *since = since.saturating_sub(1);
        let parts = u32::from(self.parts);
        let user = if record.side == Side::Caller { record.user / parts } else { record.user };
        self.users.done(self.planned(now), user);
    }

    fn tally(&mut self, intended: Instant) -> &mut Tally {
        if self.is_measured(intended) { &mut self.measured } else { &mut self.warm_up }
    }

    /// Takes the counts since the last call: of the measured attempts, and of the warm-up.
    pub fn take_tallies(&mut self) -> (Tally, Tally) {
        (std::mem::take(&mut self.measured), std::mem::take(&mut self.warm_up))
    }

    /// Counter of open attempts for the second of `intended`.
    fn since(&mut self, intended: Instant) -> &mut u32 {
        let second = ((intended - self.start).as_nanos() / SECOND.as_nanos()) as usize;
        if self.open_since.len() <= second {
            self.open_since.resize(second + 1, 0);
        }
        &mut self.open_since[second]
    }

    /// Number of overdue attempts at the end of second `number` of the load: the open attempts of all seconds whose
    /// attempts should have ended by then. Attempts that wait for a lookup do not count.
    pub fn overdue(&self, number: u64) -> u64 {
        let most = self.plan.own_span() + self.plan.longest_wait() + self.plan.patience;
        let most = most.as_nanos().div_ceil(SECOND.as_nanos());
        let over = usize::try_from((number + 1).saturating_sub(most)).unwrap_or(usize::MAX);
        let open: u64 = self.open_since.iter().take(over).map(|open| u64::from(*open)).sum();
        // An attempt without a server is not overdue.
        let end = self.start + SECOND * over as u64;
        let unlocated = self.pending_lookups.values().filter(|attempt| attempt.due < end).count();
        open.saturating_sub(unlocated as u64)
    }

    /// Number of calls that the callee refused because it had no room.
    pub fn refused(&self) -> u64 {
        self.callee.as_ref().map_or(0, Callee::refused)
    }

    /// Number of received messages of this run that belong to no attempt: duplicates, late ones, or those of another
    /// dialog.
    pub fn strays(&self) -> u64 {
        let of_callee = self.callee.as_ref().map_or(0, Callee::strays);
        self.caller.strays() + self.registrant.strays() + of_callee
    }

    /// Whether the part has callees.
    pub const fn is_called(&self) -> bool {
        self.callee.is_some()
    }

    /// Removes the registrations, 32 at once. Otherwise the server would fork the calls of the next load, which has
    /// other addresses, to these contacts too. Stops at the first failure. Returns whether there is more to do.
    pub fn take_back(&mut self, now: Instant) -> bool {
        self.is_over = true;
        let Self { registrant, unregistrations, aside, out, .. } = self;
        let Unregistrations { waiting, asked } = unregistrations.get_or_insert_with(|| {
            *aside = None;
            let is_there = |user: &u32| registrant.state(*user) != Some(Registration::None);
            Unregistrations { waiting: (0..registrant.len()).filter(is_there).collect(), asked: Vec::new() }
        });
        if aside.is_some() {
            return false;
        }
        asked.retain(|user| registrant.state(*user) == Some(Registration::Unregistering));
        for _ in 0..waiting.len() {
            let room = asked.len() < AT_ONCE as usize;
            let Some(user) = waiting.pop_front_if(|_| room) else { break };
            match registrant.state(user) {
                Some(Registration::Registered) => {
                    asked.extend(registrant.unregister(now, now, user, out).is_ok().then_some(user));
                }
                // The load has failed before it started. The pending REGISTER must end first.
                Some(Registration::Registering) => waiting.push_back(user),
                _ => {}
            }
        }
        !(asked.is_empty() && waiting.is_empty())
    }

    /// Number of registrations that are left at the server.
    pub fn left(&self) -> u32 {
        // A registration whose removal has failed is not counted as registered, but the server may have it.
        self.registrant.registered() + u32::from(self.aside.is_some())
    }

    /// The time of the plan at `at`.
    fn planned(&self, at: Instant) -> Instant {
        self.course.plan(Instant::ZERO + (at - self.start))
    }

    /// The time at which the plan reaches `plan`.
    fn moment(&self, plan: Instant) -> Instant {
        self.start + (self.course.moment(plan) - Instant::ZERO)
    }
}
