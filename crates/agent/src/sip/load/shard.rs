//! One thread's part of a load: its socket, its users, its machines.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use netrig_core::{Duration, Instant};
use netrig_sip::index::Tally;
use netrig_sip::load::{
    Callee, Caller, Moment, Output, Owner, Recipient, Record, Registrant, Registration, Scan, Setup, Side,
    What, Wish,
};

use super::order::{CalleeOrder, LoadError, LoadOrder, Work};
use super::run::failure_of;
use super::streams::Lost;
use super::tester::{TesterSecond, Used};
use super::users::{Next, Users, share};
use super::wire::Wire;
use crate::clock::RealtimeOffset;
use crate::{Clock, Pacer, Watch};

/// So long is a second of a load.
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Datagrams that wait for one another before they are sent: what waits longer has its stamp too early.
const TOGETHER: usize = 8;

/// What begins in a row before what has arrived is looked at.
const BURST: usize = 32;

/// Batches that are taken in a row before what is due is looked at.
const BATCHES: usize = 4;

/// Registrations that are under way at once in each thread before the load begins.
const PREPARING: u32 = 32;

/// So many users are looked at for one who is done; where none is, there are too few.
const ASKED: u32 = 64;

/// How long the callees of a load answer after its last call was done: an ACK may still be on its way.
const AFTERWARDS: Duration = Duration::from_millis(200);

/// How often a thread that is done looks whether all are.
const LOOK: Duration = Duration::from_millis(10);

/// How long registrations are taken back after a load that was ended before its time.
const TIDYING: Duration = Duration::from_secs(2);

/// How long a load that is interrupted waits for what it has begun.
const INTERRUPTED: Duration = Duration::from_millis(500);

/// What all threads share.
pub(super) struct Shared<'a> {
    pub order: &'a LoadOrder,
    pub clock: Clock,
    pub stop: &'a AtomicBool,
    /// When the load begins, ns of the clock; zero until all are prepared.
    pub begins: AtomicU64,
    /// No more is to begin, and what is open is waited for until then, ns of the clock; zero until somebody says so.
    pub enough: AtomicU64,
    /// A thread has failed.
    pub failed: AtomicBool,
    /// Threads that are not done: those who are called answer until there is none.
    pub at_work: AtomicUsize,
}

/// What a thread tells.
pub(super) enum Told {
    /// Its users are registered.
    Prepared,
    /// A second is over.
    Second(Box<SecondOfShard>),
    /// All is done; this was its last second.
    Done(u64),
    /// So many registrations could not be taken back.
    Left(u32),
}

/// A second of one thread.
pub(super) struct SecondOfShard {
    /// Counted from the beginning of the load.
    pub number: u64,
    /// What began after the warm-up, and its records.
    pub measured: Tally,
    /// What began before that.
    pub warm_up: Tally,
    /// The last moment until its end at which something was to begin and did, from the beginning of the load.
    pub until: Duration,
    /// What is open at its end.
    pub open: u64,
    /// Of that, what has been for too long.
    pub overdue: u64,
    pub tester: TesterSecond,
}

/// One thread's part.
pub(super) struct Shard<'a> {
    shared: &'a Shared<'a>,
    number: u16,
    run: u32,
    wire: Wire,
    offset: RealtimeOffset,
    caller: Caller,
    callee: Option<Callee>,
    registrant: Registrant,
    /// Its users, or the peers of its users, as far as they are registered.
    own: u32,
    users: Users,
    out: Output,
    measured: Tally,
    warm_up: Tally,
    second: TesterSecond,
    refused: u64,
    /// When the load began.
    start: Instant,
    /// Begun and not ended.
    open: u64,
    /// When the last of it was to begin, from the beginning of the load.
    until: Duration,
    /// What is open, by the second in which it was to begin.
    open_since: Vec<u32>,
    /// There may be more to be taken from the socket.
    more: bool,
    /// The load is over.
    is_tidying: bool,
    /// What has failed before the load or after it.
    aside: Option<Record>,
}

impl<'a> Shard<'a> {
    pub fn new(
        shared: &'a Shared<'a>,
        number: u16,
        wire: Wire,
        setup: Setup,
        secret: [u8; 16],
    ) -> Result<Self, LoadError> {
        let order = shared.order;
        let (place, shards) = (u32::from(number), u32::from(order.shards));
        let own = share(order.users.into(), number.into(), order.shards.into()) as u32;
        let callee = match order.callee {
            CalleeOrder::Own { ringing } => Some(Callee::new(setup.clone(), Wish::Answer, ringing, secret)?),
            CalleeOrder::Foreign => None,
        };
        // Of a load of calls the peers are registered, whose names stand behind those of the users.
        let first = if callee.is_some() { order.users + place } else { place };
        let is_registered = callee.is_some() || !matches!(order.work, Work::Call(_));
        let registered = if is_registered { own } else { 0 };
        let [names, passwords] = [&order.names, &order.passwords].map(|texts| texts.part(first, shards));
        Ok(Self {
            registrant: Registrant::new(setup.clone(), names, passwords, registered)?,
            run: setup.run,
            caller: Caller::new(setup, order.names.clone(), order.passwords.clone())?,
            callee,
            users: Users::new(order, number, own),
            shared,
            number,
            wire,
            offset: RealtimeOffset::measure(),
            own,
            out: Output::default(),
            measured: Tally::default(),
            warm_up: Tally::default(),
            second: TesterSecond::default(),
            refused: 0,
            start: Instant::NEVER,
            open: 0,
            until: Duration::ZERO,
            open_since: Vec::new(),
            more: false,
            is_tidying: false,
            aside: None,
        })
    }

    /// Registers who has to be, lets users begin, waits until all are done and takes back what is registered.
    pub fn run(mut self, told: &Sender<Told>) -> Result<(), LoadError> {
        let clock = self.shared.clock;
        let mut pacer = Pacer::new(clock, Duration::ZERO).map_err(LoadError::kernel("epoll_create"))?;
        let watched = pacer.watch(self.wire.fd(), 0, Watch::Reading);
        watched.map_err(LoadError::kernel("epoll_ctl"))?;
        let done = self.carry_out(&mut pacer, told);
        if done.is_err() {
            self.shared.failed.store(true, Ordering::Relaxed);
        }
        let left = self.tidy(&mut pacer);
        done?;
        // Who listens has gone only if the load has failed.
        let _ = told.send(Told::Left(left?));
        Ok(())
    }

    fn carry_out(&mut self, pacer: &mut Pacer, told: &Sender<Told>) -> Result<(), LoadError> {
        self.prepare(pacer)?;
        self.second = TesterSecond::default();
        self.wire.take_drops()?;
        if !self.is_over() {
            let _ = told.send(Told::Prepared);
        }
        while !self.has_begun() {
            if self.is_over() {
                return Ok(());
            }
            self.turn(pacer, self.shared.clock.now() + Duration::from_millis(5))?;
        }
        let last = self.load(pacer, told)?;
        let _ = told.send(Told::Done(last));
        Ok(())
    }

    /// Whether the load has a beginning: a thread that is late may be called by another before it knows.
    fn has_begun(&mut self) -> bool {
        if self.start == Instant::NEVER {
            let begins = self.shared.begins.load(Ordering::Acquire);
            self.start = if begins > 0 { Instant::from_nanos(begins) } else { Instant::NEVER };
        }
        self.start != Instant::NEVER
    }

    fn is_over(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed) || self.shared.stop.load(Ordering::Relaxed)
    }

    /// Registers the users that have to be registered before the load begins.
    fn prepare(&mut self, pacer: &mut Pacer) -> Result<(), LoadError> {
        let order = self.shared.order;
        let wanted = match order.work {
            Work::Call(_) if self.callee.is_none() => return Ok(()),
            Work::Register => return Ok(()),
            _ => self.own,
        };
        let (mut asked, mut done) = (0, 0);
        let mut end = Instant::NEVER;
        while done < wanted {
            let now = self.shared.clock.now();
            if self.is_over() {
                end = end.min(now + INTERRUPTED);
            }
            // What was asked for is waited for: it is to be taken back.
            if now >= end || (self.is_over() && done == asked) {
                break;
            }
            while asked < wanted && asked - done < PREPARING && !self.is_over() {
                let now = self.shared.clock.now();
                // Each is asked for once, so none is busy.
                let _asked = self.registrant.register(now, now, asked, order.expires, &mut self.out);
                asked += 1;
            }
            self.turn(pacer, self.shared.clock.now() + Duration::from_millis(20))?;
            if let Some(record) = self.aside.take() {
                return Err(LoadError::Preparation {
                    user: self.name_of(record.user),
                    why: record.failure.map_or_else(String::new, failure_of),
                });
            }
            done = self.registrant.registered();
        }
        Ok(())
    }

    /// Takes back what is registered: the next load has other addresses, and would share its calls with those of this
    /// one. Ends with the first that fails, and soon if the load was ended; how many are left.
    fn tidy(&mut self, pacer: &mut Pacer) -> Result<u32, LoadError> {
        self.is_tidying = true;
        let clock = self.shared.clock;
        let end = self.is_over().then(|| clock.now() + TIDYING);
        // Who is being registered just now, for the load has failed before it began, is waited for.
        let is_kept = |user: &u32| self.registrant.state(*user) != Some(Registration::None);
        let mut waiting: VecDeque<u32> = (0..self.own).filter(is_kept).collect();
        let mut asked: Vec<u32> = Vec::new();
        self.aside = None;
        while self.aside.is_none() && end.is_none_or(|end| clock.now() < end) {
            asked.retain(|user| self.registrant.state(*user) == Some(Registration::Unregistering));
            for _ in 0..waiting.len() {
                if asked.len() >= PREPARING as usize {
                    break;
                }
                let Some(user) = waiting.pop_front() else { break };
                let now = clock.now();
                match self.registrant.state(user) {
                    Some(Registration::Registered) => {
                        let done = self.registrant.unregister(now, now, user, &mut self.out);
                        asked.extend(done.is_ok().then_some(user));
                    }
                    Some(Registration::Registering) => waiting.push_back(user),
                    _ => {}
                }
            }
            if asked.is_empty() && waiting.is_empty() {
                break;
            }
            self.turn(pacer, clock.now() + Duration::from_millis(20))?;
        }
        // Whose could not be taken back is registered nowhere here, and still there.
        Ok(self.registrant.registered() + u32::from(self.aside.is_some()))
    }

    fn name_of(&self, user: u32) -> String {
        let order = self.shared.order;
        let first = if self.callee.is_some() { order.users } else { 0 };
        let name = order.names.of(first + user * u32::from(order.shards) + u32::from(self.number));
        String::from_utf8_lossy(name.as_bytes()).into_owned()
    }

    /// The load itself: until all that was begun is done, or until it would never be. Its last second.
    fn load(&mut self, pacer: &mut Pacer, told: &Sender<Told>) -> Result<u64, LoadError> {
        let order = self.shared.order;
        let clock = self.shared.clock;
        let mut used = Used::read();
        let mut number = 0;
        let mut end = self.start + order.duration + longest(order);
        let mut is_done = false;
        let mut afterwards = None;
        loop {
            let now = clock.now();
            if self.is_over() {
                self.users.stop();
                end = end.min(now + INTERRUPTED);
            }
            if let Some(until) = self.enough() {
                self.users.stop();
                end = end.min(until);
            }
            let due = self.begin(now)?;
            let tick = self.start + SECOND * (number + 1);
            let look = if is_done { now + LOOK } else { tick };
            let next = due.map_or(tick, |due| due.min(tick)).min(look);
            self.turn(pacer, next)?;
            let now = clock.now();
            while now >= self.start + SECOND * (number + 1) {
                self.tell(number, &mut used, told)?;
                number += 1;
            }
            if !is_done && (now >= end || (self.users.due().is_none() && self.open == 0)) {
                is_done = true;
                self.shared.at_work.fetch_sub(1, Ordering::AcqRel);
            }
            // Others may still call those who are called here.
            if is_done && afterwards.is_none() && self.shared.at_work.load(Ordering::Acquire) == 0 {
                let linger = if self.callee.is_some() { AFTERWARDS } else { Duration::ZERO };
                afterwards = Some(now + linger);
            }
            if is_done && (now >= end || afterwards.is_some_and(|until| now >= until)) {
                break;
            }
        }
        self.tell(number, &mut used, told)?;
        Ok(number)
    }

    /// Until when what is open is waited for, if no more is to begin.
    fn enough(&self) -> Option<Instant> {
        let until = self.shared.enough.load(Ordering::Acquire);
        (until > 0).then(|| Instant::from_nanos(until))
    }

    /// How much is open of what was to begin in the second of `intended`.
    fn since(&mut self, intended: Instant) -> &mut u32 {
        let second = ((intended - self.start).as_nanos() / SECOND.as_nanos()) as usize;
        if self.open_since.len() <= second {
            self.open_since.resize(second + 1, 0);
        }
        &mut self.open_since[second]
    }

    /// What is open for longer than it may, of seconds that are over at the end of second `number`.
    fn overdue(&self, number: u64) -> u64 {
        let order = self.shared.order;
        let most = (order.own_span() + order.patience).as_nanos().div_ceil(SECOND.as_nanos());
        let over = usize::try_from((number + 1).saturating_sub(most)).unwrap_or(usize::MAX);
        self.open_since.iter().take(over).map(|open| u64::from(*open)).sum()
    }

    /// Lets begin who is due; when the next is.
    fn begin(&mut self, now: Instant) -> Result<Option<Instant>, LoadError> {
        let mut begun = 0;
        while let Some((next, due)) = self.due_by(now) {
            let due = self.start + (due - Instant::ZERO);
            self.begin_one(next, due);
            begun += 1;
            if self.out.messages.len() >= TOGETHER {
                self.flush()?;
            }
            if begun == BURST {
                break;
            }
        }
        self.flush()?;
        Ok(self.users.due().map(|due| self.start + (due - Instant::ZERO)))
    }

    /// Who is due by `now`, and when that was; before the beginning of the load nobody.
    fn due_by(&mut self, now: Instant) -> Option<(Next, Instant)> {
        if now < self.start { None } else { self.users.take(relative(now, self.start)) }
    }

    fn begin_one(&mut self, next: Next, due: Instant) {
        let order = self.shared.order;
        let (place, shards) = (u64::from(self.number), u64::from(order.shards));
        // The user's place in this thread, and its number among all.
        let (user, global) = match next {
            Next::User(user) => (user, u64::from(user) * shards + place),
            Next::Arrival(number) => {
                let user = self.idle((number / shards % u64::from(self.own)) as u32);
                (user, u64::from(user) * shards + place)
            }
        };
        let global = global as u32;
        let now = self.shared.clock.now();
        let out = &mut self.out;
        let begun = match order.work {
            Work::Register | Work::ReRegister => self
                .registrant
                .register(now, due, user, order.expires, out)
                .map_err(|_| &mut self.second.busy),
            Work::Unregister => {
                self.registrant.unregister(now, due, user, out).map_err(|_| &mut self.second.busy)
            }
            Work::Call(scenario) => {
                let users = (global, global + order.users);
                let begun = self.caller.start(now, due, scenario, users, out);
                begun.map(drop).map_err(|_| &mut self.second.full)
            }
        };
        match begun {
            Ok(()) => {
                self.open += 1;
                *self.since(due) += 1;
                self.until = self.until.max(due - self.start);
                let is_measured = self.is_measured(due);
                self.second.lateness.record(now - due);
                let tally = if is_measured { &mut self.measured } else { &mut self.warm_up };
                tally.begun(order.work.what());
            }
            Err(count) => {
                *count += 1;
                self.users.done(relative(now, self.start), user);
            }
        }
    }

    /// Who registers again in place of `user`, if that is not done: whom a server keeps waiting is its affair, and no reason
    /// for others to stay away.
    fn idle(&self, user: u32) -> u32 {
        if self.shared.order.work != Work::ReRegister {
            return user;
        }
        let is_busy = |state| matches!(state, Registration::Registering | Registration::Unregistering);
        let others = (0..ASKED.min(self.own)).map(|step| (user + step) % self.own);
        others.into_iter().find(|other| !self.registrant.state(*other).is_some_and(is_busy)).unwrap_or(user)
    }

    fn is_measured(&self, intended: Instant) -> bool {
        intended >= self.start + self.shared.order.warm_up
    }

    /// Does what is due, sleeps until `next` or until something comes, and takes some of it.
    fn turn(&mut self, pacer: &mut Pacer, next: Instant) -> Result<(), LoadError> {
        let now = self.shared.clock.now();
        self.caller.handle_timeout(now, &mut self.out);
        self.registrant.handle_timeout(now, &mut self.out);
        if let Some(callee) = &mut self.callee {
            callee.handle_timeout(now, &mut self.out);
        }
        self.flush()?;
        let timers = [
            self.caller.next_deadline(),
            self.registrant.next_deadline(),
            self.callee.as_mut().and_then(Callee::next_deadline),
        ];
        let next = timers.into_iter().flatten().fold(next, Instant::min);
        // Readiness is told once: what was left is taken without it.
        if !self.more {
            self.more = !pacer.wait(next).map_err(LoadError::kernel("ppoll"))?.is_empty();
        }
        // Whoever sends faster than is taken here keeps nothing that is due from its time.
        for _ in 0..BATCHES {
            if !self.more {
                break;
            }
            self.more = self.receive()?;
        }
        Ok(())
    }

    /// Takes one batch of what has arrived; whether there may be more.
    fn receive(&mut self) -> Result<bool, LoadError> {
        let Self { wire, out, caller, callee, registrant, second, shared, .. } = self;
        let (run, number, clock) = (self.run, self.number, shared.clock);
        let each = |from: SocketAddr, bytes: &[u8], arrived: Instant| {
            let now = clock.now();
            second.received += 1;
            second.own_time.record(now - arrived);
            let scan = Scan::of(bytes);
            let moment = Moment { arrived, now };
            match Recipient::of(&scan, run, number) {
                Some(Recipient::Response(token, transaction)) if token.owner == Owner::Registration => {
                    registrant.handle_response(moment, &scan, (token, transaction), out);
                }
                Some(Recipient::Response(token, transaction)) => {
                    caller.handle_response(moment, &scan, (token, transaction), out);
                }
                Some(Recipient::Caller(token)) => caller.handle_request(moment, from, &scan, token, out),
                Some(Recipient::Callee) => match callee {
                    Some(callee) => callee.handle_request(moment, from, &scan, out),
                    None => second.foreign += 1,
                },
                None => second.foreign += 1,
            }
        };
        let more = wire.receive(&clock, &self.offset, each)?;
        self.flush()?;
        Ok(more)
    }

    /// Sends what waits, tells whose connection is gone, and counts what has ended.
    fn flush(&mut self) -> Result<(), LoadError> {
        loop {
            if !self.out.messages.is_empty() {
                self.wire.send(&self.out.messages, &mut self.second)?;
                self.out.messages.clear();
            }
            let lost = self.wire.take_lost();
            if lost.is_empty() {
                break;
            }
            let now = self.shared.clock.now();
            for Lost { registers, whose, why } in lost {
                if registers != Some(true) {
                    self.caller.handle_disconnection(now, whose, why, &mut self.out);
                }
                if registers != Some(false) {
                    self.registrant.handle_disconnection(now, whose, why, &mut self.out);
                }
            }
        }
        let mut records = std::mem::take(&mut self.out.records);
        for record in records.drain(..) {
            if record.side != Side::Callee {
                self.wire.release(record.token);
            }
            self.ended(&record);
        }
        self.out.records = records;
        Ok(())
    }

    fn ended(&mut self, record: &Record) {
        if self.is_tidying || !self.has_begun() {
            if record.failure.is_some() {
                self.aside.get_or_insert(*record);
            }
            return;
        }
        let is_measured = self.is_measured(record.stamps.intended);
        let tally = if is_measured { &mut self.measured } else { &mut self.warm_up };
        tally.record(record);
        if matches!(record.what, What::Renew | What::Answer) {
            return;
        }
        self.open -= 1;
        let since = self.since(record.stamps.intended);
        *since = since.saturating_sub(1);
        let shards = u32::from(self.shared.order.shards);
        let user = if record.side == Side::Caller { record.user / shards } else { record.user };
        self.users.done(relative(self.shared.clock.now(), self.start), user);
    }

    /// Tells what a second was like, and begins the next.
    fn tell(&mut self, number: u64, used: &mut Used, told: &Sender<Told>) -> Result<(), LoadError> {
        used.tell(&mut self.second);
        self.second.dropped = self.wire.take_drops()?;
        let refused = self.callee.as_ref().map_or(0, Callee::refused);
        self.second.refused = refused - self.refused;
        self.refused = refused;
        let second = SecondOfShard {
            number,
            measured: std::mem::take(&mut self.measured),
            warm_up: std::mem::take(&mut self.warm_up),
            until: self.until,
            open: self.open,
            overdue: self.overdue(number),
            tester: std::mem::take(&mut self.second),
        };
        let _ = told.send(Told::Second(Box::new(second)));
        Ok(())
    }
}

/// A moment as the time since the load began.
fn relative(at: Instant, start: Instant) -> Instant {
    Instant::ZERO + (at - start)
}

/// The longest that something can take that was begun: ringing, then a call, then each of its transactions until it is
/// given up.
fn longest(order: &LoadOrder) -> Duration {
    order.timing.patience() * 4 + order.longest_ringing + order.own_span() + SECOND
}
