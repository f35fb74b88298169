//! One part of a load: its users and their machines, from the first registration to the last, without a socket.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use netrig_core::{Duration, Instant};

use super::callee::Callee;
use super::caller::Caller;
use super::course::PlanClock;
use super::lookup::{Located, PendingLookup};
use super::moment::Moment;
use super::output::{ConnectionScope, LoadOutput};
use super::plan::{CalleeOrder, Plan};
use super::recipient::Recipient;
use super::registrant::Registrant;
use super::scan::{Scan, Start};
use super::scenario::Work;
use super::setup::Setup;
use super::template::TemplateError;
use super::user::Registration;
use super::users::{NextUser, UserSchedule, share};
use crate::index::Tally;
use crate::record::{Broken, CalleeBehavior, Departure, Owner, Record, Side, Token, Unlocated};

/// Registrations that are under way at once in each part before the load begins, and after it.
const AT_ONCE: u32 = 32;

/// So many users are looked at for one who is done; where none is, there are too few.
const ASKED: u32 = 64;

/// What is open is kept by the second in which it was to begin.
const SECOND: Duration = Duration::from_secs(1);

/// One part of a load, which shares nothing with the others but their schedule.
///
/// It is driven like the machines that it is made of: messages in by [`Part::handle`], time by [`Part::handle_timeout`]; what it
/// says stands in [`Part::out`], and [`Part::settle`] is to be called after all of it, before the next. First
/// [`Part::prepare`], until [`Part::is_prepared`]; then [`Part::start`], and [`Part::begin`] whenever somebody is due; at last
/// [`Part::take_back`], until it says that nothing is left to be done.
#[derive(Debug)]
pub struct Part {
    plan: Arc<Plan>,
    run: u32,
    number: u16,
    parts: u16,
    caller: Caller,
    callee: Option<Callee>,
    registrant: Registrant,
    /// Its users.
    own: u32,
    /// The number of the first user who is registered, among all.
    before: u32,
    users: UserSchedule,
    /// To be sent, and what has come to its end.
    pub out: LoadOutput,
    measured: Tally,
    warm_up: Tally,
    /// When the load began.
    start: Instant,
    /// How the plan is gone through since then.
    course: PlanClock,
    /// Begun and not ended.
    open: u64,
    /// When the last of it was to begin, from the beginning of the load.
    until: Duration,
    /// What is open, by the second in which it was to begin.
    open_since: Vec<u32>,
    /// Users of the registrant that are registered before the load: those from the first of them on.
    first: u32,
    asked: u32,
    /// The load is over.
    is_over: bool,
    /// Whose registration is to be taken back, since that was begun.
    unregistrations: Option<Unregistrations>,
    /// What has failed before the load or after it.
    aside: Option<Record>,
    /// Attempts whose servers are looked for, by the number of the lookup.
    pending_lookups: BTreeMap<u64, PendingLookup>,
    /// Those of their users who register.
    registering: BTreeSet<u32>,
    /// Lookups so far, and those that nobody has taken.
    lookups: u64,
    untaken: Vec<u64>,
}

/// Registrations that are taken back.
#[derive(Debug)]
struct Unregistrations {
    /// Users who were not asked yet.
    waiting: VecDeque<u32>,
    /// Users who were, and wait for the answer.
    asked: Vec<u32>,
}

/// What became of somebody who was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptStart {
    /// It has begun, and was to at this moment.
    At(Instant),
    /// There are as many calls as there may be.
    Full,
    /// Its user is not done.
    Busy,
}

impl Part {
    /// The part of which `setup` says the number, one of so many. `secret` is to be drawn at random.
    ///
    /// # Errors
    /// The setup's domain is none.
    pub fn new(plan: Arc<Plan>, setup: Setup, parts: u16, secret: [u8; 16]) -> Result<Self, TemplateError> {
        let number = setup.shard;
        let part = |of: u32| share(of.into(), number.into(), parts.into()) as u32;
        let own = part(plan.users);
        let callee = match plan.callee {
            CalleeOrder::Own { ringing } => {
                Some(Callee::new(setup.clone(), CalleeBehavior::Answer, ringing, secret)?)
            }
            CalleeOrder::Foreign => None,
        };
        // Of a load of calls the peers are registered, whose names stand behind those of the users. Who does nothing stands
        // behind all who do.
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
        // Who registers in the load itself is not registered before it.
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

    /// Asks for registrations that have to stand before the load begins, so many at once.
    pub fn prepare(&mut self, now: Instant) {
        while self.asked < self.registrant.len()
            && self.asked - self.first - self.registrant.registered() < AT_ONCE
        {
            // Each is asked for once, so none is busy.
            let _asked = self.registrant.register(now, now, self.asked, self.plan.expires, &mut self.out);
            self.asked += 1;
        }
    }

    /// Whether all registrations stand that have to before the load begins.
    pub const fn is_prepared(&self) -> bool {
        self.registrant.registered() >= self.registrant.len() - self.first
    }

    /// How many registrations stand, and how many have to before the load begins.
    pub const fn prepared(&self) -> [u32; 2] {
        [self.registrant.registered(), self.registrant.len() - self.first]
    }

    /// Whether registrations were asked for that are not there yet.
    pub const fn is_preparing(&self) -> bool {
        self.asked - self.first > self.registrant.registered()
    }

    /// What has failed before the load or after it, and whose it is; once.
    pub fn take_aside(&mut self) -> Option<(String, Record)> {
        let record = self.aside.take()?;
        let place = record.user * u32::from(self.parts) + u32::from(self.number);
        let name = self.plan.names.of(self.before + place);
        Some((String::from_utf8_lossy(name.as_bytes()).into_owned(), record))
    }

    /// The load begins at this moment.
    pub const fn start(&mut self, at: Instant) {
        self.start = at;
    }

    /// When somebody is to begin next, if the load has a beginning.
    pub fn due(&self) -> Option<Instant> {
        let due = self.users.due()?;
        (self.start != Instant::NEVER).then(|| self.moment(due))
    }

    /// Goes through the plan in this way, which is as it was until now.
    pub fn steer(&mut self, course: PlanClock) {
        let end = course.end(self.plan.duration);
        self.users.end_at(if end == Instant::NEVER { end } else { course.plan(end) });
        self.course = course;
    }

    /// Which part it is.
    pub const fn number(&self) -> u16 {
        self.number
    }

    /// From when on nobody begins, if the load has a beginning; [`Instant::NEVER`] in a pause.
    pub fn end(&self) -> Instant {
        self.start + (self.course.end(self.plan.duration) - Instant::ZERO)
    }

    /// Nobody begins any more.
    pub fn stop(&mut self) {
        self.users.stop();
    }

    /// Begun and not ended.
    pub const fn open(&self) -> u64 {
        self.open
    }

    /// When the last of what has begun was to begin, from the beginning of the load.
    pub const fn until(&self) -> Duration {
        self.until
    }

    /// Whether nobody will begin and nothing is open.
    pub fn is_done(&self) -> bool {
        self.open == 0 && self.users.due().is_none()
    }

    /// Lets begin who is due by now, the first of them.
    pub fn begin(&mut self, now: Instant) -> Option<AttemptStart> {
        let (next, due, work) = if now < self.start { None } else { self.users.take(self.planned(now)) }?;
        let due = self.moment(due);
        let parts = u64::from(self.parts);
        // The user's place in this part.
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

    /// Sends the first request of an attempt, to the servers that were looked for if they were.
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

    /// The number among all users of one of this part.
    fn global(&self, user: u32) -> u32 {
        (u64::from(user) * u64::from(self.parts) + u64::from(self.number)) as u32
    }

    /// Has an attempt wait until its server is found.
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

    /// The numbers of attempts that have begun since this was last asked, and wait until they are told where their server is.
    pub fn take_lookups(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.untaken)
    }

    /// Tells an attempt where its server is, or why it has none: it sends its first request, or has failed.
    pub fn handle_lookup(&mut self, now: Instant, lookup: u64, found: Result<Arc<Located>, Unlocated>) {
        let Some(attempt) = self.pending_lookups.remove(&lookup) else { return };
        self.registering.remove(&attempt.user);
        // There was room for it when it began; what has taken it since is the tester's.
        let asked =
            found.and_then(|found| self.ask(now, attempt, Some(found)).map_err(|_| Unlocated::NoRoom));
        if let Err(why) = asked {
            let user = self.global(attempt.user);
            self.out.records.push(attempt.unlocated(why, (self.run, self.number), user));
        }
    }

    /// Whether a user waits for the answer to a REGISTER, or looks for who might give one.
    fn is_busy(&self, user: u32) -> bool {
        let state = self.registrant.state(user);
        matches!(state, Some(Registration::Registering | Registration::Unregistering))
            || self.registering.contains(&user)
    }

    /// Who registers again in place of `user`, if that is not done: whom a server keeps waiting is its affair, and no reason
    /// for others to stay away.
    fn idle(&self, work: Work, user: u32) -> u32 {
        // Whose turn it is to do something once has not done it yet.
        if !work.registers() || self.plan.is_once() {
            return user;
        }
        let mut others = (0..ASKED.min(self.own)).map(|step| (user + step) % self.own);
        others.find(|other| !self.is_busy(*other)).unwrap_or(user)
    }

    /// Takes a message that came from there; whether it was this part's.
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

    /// A message was sent only at this moment: what [`Outbox::departing`](super::Outbox::departing) says of it.
    pub fn handle_departure(&mut self, at: Instant, of: (Token, Departure)) {
        match of.0.owner {
            Owner::Registration => self.registrant.handle_departure(at, of),
            Owner::Caller(_) => self.caller.handle_departure(at, of),
            Owner::Callee => {}
        }
    }

    /// A connection to `server` is gone, or nobody is reached there: one of those who register, of those who call, or, if that is
    /// not said, of either.
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

    /// A message did not reach `to`, as the network says, which shows the beginning of it: a request's attempt has failed, or
    /// goes to the next server.
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

    /// Does what the machines have to do by now. Who is due does not begin by it.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.caller.handle_timeout(now, &mut self.out);
        self.registrant.handle_timeout(now, &mut self.out);
        if let Some(callee) = &mut self.callee {
            callee.handle_timeout(now, &mut self.out);
        }
    }

    /// When [`Part::handle_timeout`] is to be called at the latest.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        let timers = [
            self.caller.next_deadline(),
            self.registrant.next_deadline(),
            self.callee.as_mut().and_then(Callee::next_deadline),
        ];
        timers.into_iter().flatten().min()
    }

    /// Counts what has come to its end by now, and gives each.
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

    /// Whether a record is of the load and not of what is done before or after it.
    pub fn is_of_load(&self) -> bool {
        !self.is_over && self.start != Instant::NEVER
    }

    /// Whether what was to begin then is measured.
    pub fn is_measured(&self, intended: Instant) -> bool {
        intended >= self.start + self.plan.warm_up
    }

    fn ended(&mut self, now: Instant, record: &Record) {
        if !self.is_of_load() {
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

    /// What was counted since this was last asked: of what is measured, and of the warm-up.
    pub fn take_tallies(&mut self) -> (Tally, Tally) {
        (std::mem::take(&mut self.measured), std::mem::take(&mut self.warm_up))
    }

    /// How much is open of what was to begin in the second of `intended`.
    fn since(&mut self, intended: Instant) -> &mut u32 {
        let second = ((intended - self.start).as_nanos() / SECOND.as_nanos()) as usize;
        if self.open_since.len() <= second {
            self.open_since.resize(second + 1, 0);
        }
        &mut self.open_since[second]
    }

    /// What is open for longer than it may, of seconds that are over at the end of second `number` of the load; but for what has
    /// not found its server.
    pub fn overdue(&self, number: u64) -> u64 {
        let most = self.plan.own_span() + self.plan.longest_wait() + self.plan.patience;
        let most = most.as_nanos().div_ceil(SECOND.as_nanos());
        let over = usize::try_from((number + 1).saturating_sub(most)).unwrap_or(usize::MAX);
        let open: u64 = self.open_since.iter().take(over).map(|open| u64::from(*open)).sum();
        // Who looks for a server keeps none from answering.
        let end = self.start + SECOND * over as u64;
        let unlocated = self.pending_lookups.values().filter(|attempt| attempt.due < end).count();
        open.saturating_sub(unlocated as u64)
    }

    /// Calls that were refused for want of room at the one who is called.
    pub fn refused(&self) -> u64 {
        self.callee.as_ref().map_or(0, Callee::refused)
    }

    /// Messages of this run that belong to nothing, or to nothing any more: what comes twice, too late, or to another dialog.
    pub fn strays(&self) -> u64 {
        let of_callee = self.callee.as_ref().map_or(0, Callee::strays);
        self.caller.strays() + self.registrant.strays() + of_callee
    }

    /// Whether somebody is called here.
    pub const fn is_called(&self) -> bool {
        self.callee.is_some()
    }

    /// Takes back what is registered, so many at once: the next load has other addresses, and would share its calls with those
    /// of this one. Ends with the first that fails. Whether there is more to be done.
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
                // The load has failed before it began: what was asked for comes first.
                Some(Registration::Registering) => waiting.push_back(user),
                _ => {}
            }
        }
        !(asked.is_empty() && waiting.is_empty())
    }

    /// How many registrations are left at the server.
    pub fn left(&self) -> u32 {
        // Whose could not be taken back is registered nowhere here, and still there.
        self.registrant.registered() + u32::from(self.aside.is_some())
    }

    /// Where the plan is at a moment.
    fn planned(&self, at: Instant) -> Instant {
        self.course.plan(Instant::ZERO + (at - self.start))
    }

    /// When the plan is there.
    fn moment(&self, plan: Instant) -> Instant {
        self.start + (self.course.moment(plan) - Instant::ZERO)
    }
}
