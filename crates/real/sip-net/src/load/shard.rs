//! One thread of a load: its part of the users, and their sockets.

use netrig_sip::settings::Connections;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use netrig_core::{Duration, Instant, Sample};
use netrig_sip::header::Transport;
use netrig_sip::index::{Tally, quantity, samples_of};
use netrig_sip::load::{AttemptStart, Broken, Moment, Outbox, Part, Scan, Side, Unlocated, is_over_tcp};
use smallvec::SmallVec;

use super::attention::{Attention, REST};
use super::control::Control;
use super::kind::TimeLimit;
use super::locating::finder;
use super::order::{Carrier, LoadError, LoadOrder, Span};
use super::streams::Lost;
use super::tester::{TesterSecond, TesterUse};
use super::wire::ShardSocket;
use crate::dns::Finder;
use crate::send_batch::OutgoingDatagram;
use crate::tap::{MessageTaps, StampedTap};
use netrig_host::RealtimeOffset;
use netrig_host::sys::MESSAGES;
use netrig_host::usage::processors_of;
use netrig_host::{Clock, Precedence};

/// Length of a second of a load.
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Time before a punctual start in which the thread only makes the message of this start. It is about the time that
/// sending a message takes.
const HEADWAY: Duration = Duration::from_micros(5);

/// Maximum number of starts in a row before received messages are handled.
const BURST: usize = 32;

/// Maximum number of batches read in a row before deadlines are handled.
const BATCHES: usize = 4;

/// If starts must be punctual: maximum number of datagrams handled in a row before due starts are checked, and maximum
/// number of starts in a row before other work continues.
const FEW: usize = 2;

/// How long the callees of a load answer after its last call, because an ACK may still be in flight.
const AFTERWARDS: Duration = Duration::from_millis(200);

/// Interval at which a finished thread checks whether all threads have finished.
const LOOK: Duration = Duration::from_millis(10);

/// Time limit for the removal of registrations after an interrupted load.
const TIDYING: Duration = Duration::from_secs(2);

/// How long an interrupted load waits for its pending attempts.
const INTERRUPTED: Duration = Duration::from_millis(500);

/// The state that all threads share.
pub(super) struct SharedLoad<'a> {
    pub order: &'a LoadOrder,
    pub clock: Clock,
    /// The times of the run of an experiment, if the load is part of one. The samples of users are then kept.
    pub within: Option<Span>,
    pub stop: &'a AtomicBool,
    pub control: Option<&'a Control>,
    pub taps: Option<&'a dyn MessageTaps>,
    /// The local addresses of the threads.
    pub locals: Vec<SocketAddr>,
    /// Start of the load, ns of the clock; zero until everything is prepared.
    pub begins: AtomicU64,
    /// End of the wait for pending attempts, ns of the clock. Zero while new attempts may start.
    pub enough: AtomicU64,
    /// Whether a thread has failed.
    pub failed: AtomicBool,
    /// Number of unfinished threads. The callees of all threads answer until it is zero.
    pub at_work: AtomicUsize,
}

/// An event that a thread reports.
pub(super) enum ShardEvent {
    /// Its users are registered.
    Prepared,
    /// A second has ended.
    Second(Box<SecondOfShard>),
    /// The thread has finished. The number is that of its last second.
    Done(u64),
    /// Number of registrations that could not be removed.
    Left(u32),
    /// Samples of its users, in a run of an experiment.
    Met(Vec<Sample>),
}

/// The results of one second of one thread.
pub(super) struct SecondOfShard {
    /// Its number, from the start of the load.
    pub number: u64,
    /// Attempts that started after the warm-up, and their records.
    pub measured: Tally,
    /// Attempts that started in the warm-up, and their records.
    pub warm_up: Tally,
    /// Latest planned time of a start until the end of the second, since the start of the load.
    pub until: Duration,
    /// Attempts pending at the end of the second.
    pub open: u64,
    /// Pending attempts that have exceeded their own duration and the patience of the order.
    pub overdue: u64,
    pub tester: TesterSecond,
}

/// The state of one thread of a load.
pub(super) struct Shard<'a> {
    shared: &'a SharedLoad<'a>,
    part: Part,
    wire: ShardSocket,
    offset: RealtimeOffset,
    second: TesterSecond,
    refused: u64,
    strays: u64,
    /// The last output. Its allocated memory is used again.
    sending: Outbox,
    /// Planned times of the starts whose first messages are queued. These messages are at the front of the queue, in
    /// the same order.
    dues: Vec<Instant>,
    /// Start of the load.
    start: Instant,
    /// Number of manual changes that this thread has applied.
    known: usize,
    /// Samples of its users, in a run of an experiment.
    met: Vec<Sample>,
    /// Looks up the server for each attempt; `None` unless configured.
    finder: Option<Finder>,
    tap: Option<StampedTap>,
}

impl<'a> Shard<'a> {
    pub fn new(shared: &'a SharedLoad<'a>, wire: ShardSocket, part: Part) -> Self {
        let tap = shared.taps.map(|taps| StampedTap::new(taps.tap(), shared.clock, false));
        Self {
            tap,
            shared,
            part,
            wire,
            offset: RealtimeOffset::measure(),
            second: TesterSecond::default(),
            refused: 0,
            strays: 0,
            sending: Outbox::default(),
            dues: Vec::new(),
            start: Instant::NEVER,
            known: 0,
            met: Vec::new(),
            finder: None,
        }
    }

    /// Registers users, starts attempts, waits until all have ended and removes registrations.
    pub fn run(mut self, events: &Sender<ShardEvent>) -> Result<(), LoadError> {
        let clock = self.shared.clock;
        let punctual = self.shared.order.punctual;
        if self.shared.within.is_some() && has_processors_of_its_own() {
            Precedence::take(busy_share(self.shared.order));
        }
        let mut attention = Attention::to(&self.wire, clock, self.rest(), punctual)?;
        self.finder = finder(self.shared.order, self.part.number())?;
        if let Some(fd) = self.finder.as_ref().and_then(Finder::fd) {
            attention.also(fd)?;
        }
        let done = self.carry_out(&mut attention, events);
        if done.is_err() {
            self.shared.failed.store(true, Ordering::Relaxed);
        }
        if self.shared.within.is_some() {
            // In a run, callees do not answer after the end of the load.
            done?;
            let _ = events.send(ShardEvent::Met(self.met));
            return Ok(());
        }
        let left = self.tidy(&mut attention);
        done?;
        // Sending fails only if the load has failed.
        let _ = events.send(ShardEvent::Left(left?));
        Ok(())
    }

    fn carry_out(&mut self, attention: &mut Attention, events: &Sender<ShardEvent>) -> Result<(), LoadError> {
        self.prepare(attention)?;
        self.second = TesterSecond::default();
        self.wire.take_drops()?;
        if !self.is_over() {
            let _ = events.send(ShardEvent::Prepared);
        }
        while !self.has_begun() {
            if self.is_over() {
                return Ok(());
            }
            self.turn(attention, self.shared.clock.now() + Duration::from_millis(5))?;
        }
        let last = self.load(attention, events)?;
        let _ = events.send(ShardEvent::Done(last));
        Ok(())
    }

    /// Whether the load has started. The callees of a slow thread may be called by another thread before it has read
    /// the start time.
    fn has_begun(&mut self) -> bool {
        if self.start == Instant::NEVER {
            let begins = self.shared.begins.load(Ordering::Acquire);
            if begins > 0 {
                self.start = Instant::from_nanos(begins);
                self.part.start(self.start);
            }
        }
        self.start != Instant::NEVER
    }

    fn is_over(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed) || self.shared.stop.load(Ordering::Relaxed)
    }

    /// Registers the users that must be registered before the load starts.
    fn prepare(&mut self, attention: &mut Attention) -> Result<(), LoadError> {
        let mut end = Instant::NEVER;
        if self.shared.within.is_some() && !self.part.is_prepared() {
            // The network carries nothing before the run starts.
            std::thread::sleep(self.shared.clock.left_until(Instant::ZERO).into());
            end = self.shared.within.map_or(end, |within| within.begins);
        }
        while !self.part.is_prepared() {
            let now = self.shared.clock.now();
            let is_over = self.is_over();
            if is_over {
                end = end.min(now + INTERRUPTED);
            } else {
                self.part.prepare(now);
            }
            // Even after an interruption, pending registrations are awaited, because they must be removed later.
            if now >= end || (is_over && !self.part.is_preparing()) {
                break;
            }
            self.turn(attention, self.shared.clock.now() + Duration::from_millis(20))?;
            if let Some((user, record)) = self.part.take_aside() {
                let why = record.failure.map_or_else(String::new, |failure| failure.to_string());
                let limit = record.failure.and_then(|failure| TimeLimit::of(record.what, failure));
                let is_answered = self.second.received > self.second.foreign;
                return Err(LoadError::Preparation { user, why, limit, is_answered });
            }
        }
        Ok(())
    }

    /// Removes registrations, with a time limit if the load was interrupted. Returns the number of registrations that
    /// remain.
    fn tidy(&mut self, attention: &mut Attention) -> Result<u32, LoadError> {
        let clock = self.shared.clock;
        let end = self.is_over().then(|| clock.now() + TIDYING);
        while end.is_none_or(|end| clock.now() < end) && self.part.take_back(clock.now()) {
            self.turn(attention, clock.now() + Duration::from_millis(20))?;
        }
        Ok(self.part.left())
    }

    /// Runs the load until all attempts have ended, or a time limit ends them. Returns the number of the last second.
    fn load(&mut self, attention: &mut Attention, events: &Sender<ShardEvent>) -> Result<u64, LoadError> {
        let clock = self.shared.clock;
        let mut used = TesterUse::read();
        let mut number = 0;
        let mut end = self.last_end();
        let mut is_done = false;
        let mut afterwards = None;
        loop {
            let now = clock.now();
            if self.is_steered() {
                end = self.last_end();
            }
            if self.is_over() {
                self.part.stop();
                end = end.min(now + INTERRUPTED);
            }
            if let Some(until) = self.enough() {
                self.part.stop();
                end = end.min(until);
            }
            let due = self.begin()?;
            let tick = self.start + SECOND * (number + 1);
            let look = if is_done || self.shared.control.is_some() { now + LOOK } else { tick };
            let next = due.map_or(tick, |due| due.min(tick)).min(look);
            self.turn(attention, next)?;
            let now = clock.now();
            while now >= self.start + SECOND * (number + 1) {
                self.tell(number, &mut used, events)?;
                number += 1;
            }
            if !is_done && (now >= end || self.part.is_done()) {
                is_done = true;
                self.shared.at_work.fetch_sub(1, Ordering::AcqRel);
            }
            // Other threads may still call the callees of this thread.
            if is_done && afterwards.is_none() && self.shared.at_work.load(Ordering::Acquire) == 0 {
                let linger = if self.part.is_called() { AFTERWARDS } else { Duration::ZERO };
                afterwards = Some(now + linger);
            }
            if is_done && (now >= end || afterwards.is_some_and(|until| now >= until)) {
                break;
            }
        }
        self.tell(number, &mut used, events)?;
        Ok(number)
    }

    /// Applies new manual changes. Returns whether there were any.
    fn is_steered(&mut self) -> bool {
        let course = self.shared.control.and_then(|control| control.course(self.start, self.known));
        let Some((course, known)) = course else { return false };
        self.part.steer(course);
        self.known = known;
        true
    }

    /// The time at which the load ends even if attempts are pending.
    fn last_end(&self) -> Instant {
        let last = self.shared.within.map_or(Instant::NEVER, |within| within.ends);
        last.min(self.part.end() + self.shared.order.plan.longest())
    }

    /// End of the wait for pending attempts; `None` while new attempts may start.
    fn enough(&self) -> Option<Instant> {
        let until = self.shared.enough.load(Ordering::Acquire);
        (until > 0).then(|| Instant::from_nanos(until))
    }

    /// Starts due attempts. Returns the time of the next one.
    fn begin(&mut self) -> Result<Option<Instant>, LoadError> {
        self.begin_due(BURST)?;
        self.flush()?;
        Ok(self.part.due().map(|due| Instant::ZERO + ((due - Instant::ZERO) - self.headway())))
    }

    /// Starts at most `most` attempts that are due or, if they must be punctual, about to be due.
    fn begin_due(&mut self, most: usize) -> Result<(), LoadError> {
        // The message is made before its time, so that at its time it only has to be sent.
        let now = self.shared.clock.now() + self.headway();
        for _ in 0..most {
            match self.part.begin(now) {
                None => break,
                Some(AttemptStart::At(due)) => {
                    // With a look-up, the first message of an attempt is sent later. The start of the look-up counts as
                    // the start.
                    match self.finder {
                        None => self.dues.push(due),
                        Some(_) => self.second.lateness.record(now.max(due) - due),
                    }
                    if self.shared.within.is_some() {
                        self.met.push(Sample { at: due, quantity: &quantity::SIP_BEGUN, value: 1.0 });
                    }
                }
                Some(AttemptStart::Full) => self.second.full += 1,
                Some(AttemptStart::Busy) => self.second.busy += 1,
            }
            self.look_up();
        }
        self.send_waiting()
    }

    /// How long before its time the message of a start is made.
    const fn headway(&self) -> Duration {
        if self.shared.order.punctual { HEADWAY } else { Duration::ZERO }
    }

    /// If starts must be punctual, starts the attempts that are due or about to be due.
    fn keep_time(&mut self) -> Result<(), LoadError> {
        if !self.shared.order.punctual {
            return Ok(());
        }
        let next = self.shared.clock.now() + HEADWAY;
        if self.part.due().is_some_and(|due| due <= next) { self.begin_due(FEW) } else { Ok(()) }
    }

    /// Handles due timers, waits until `next` or a received message, and handles received messages.
    fn turn(&mut self, attention: &mut Attention, next: Instant) -> Result<(), LoadError> {
        let now = self.shared.clock.now();
        self.part.handle_timeout(now);
        if let Some(finder) = &mut self.finder {
            finder.handle_timeout(now);
            self.take_found();
        }
        self.flush()?;
        let timers = [self.part.next_deadline(), self.finder.as_ref().and_then(Finder::next_deadline)];
        let next = timers.into_iter().flatten().fold(next, Instant::min);
        attention.wait(next)?;
        let (batches, messages) = if self.shared.order.punctual { (1, FEW) } else { (BATCHES, MESSAGES) };
        attention.look(batches, || self.receive(messages))
    }

    /// How long received messages may wait in the sockets. It is zero if a measured delay includes the tester's
    /// reaction, for example its request to another server after a refusal.
    fn rest(&self) -> Duration {
        let LoadOrder { plan, others, .. } = self.shared.order;
        if plan.answers_in_a_delay() || !others.is_empty() { Duration::ZERO } else { REST }
    }

    /// Receives at most one batch of at most `most` messages. Returns their number, and whether more may be waiting.
    fn receive(&mut self, most: usize) -> Result<(u64, bool), LoadError> {
        self.keep_time()?;
        let before = self.second.received;
        let Self { wire, part, second, shared, tap, .. } = self;
        let clock = shared.clock;
        let each = |transport, [local, from]: [SocketAddr; 2], bytes: &[u8], arrived: Instant| {
            let now = clock.now();
            // The tap got a message from another thread of this load when it was sent.
            let is_sent_here = transport == Transport::Udp && shared.locals.contains(&from);
            if let Some(tap) = tap.as_mut().filter(|_| !is_sent_here) {
                tap.message((arrived, transport), false, [local, from], bytes);
            }
            second.received += 1;
            second.own_time.record(now - arrived);
            let is_own = part.handle(Moment { arrived, now }, from, &Scan::of(bytes));
            second.foreign += u64::from(!is_own);
        };
        let more = wire.receive(&clock, &self.offset, most, each)?;
        if let Some(finder) = &mut self.finder {
            finder.receive(&clock, &self.offset).map_err(LoadError::kernel("epoll_wait"))?;
            self.take_found();
        }
        self.flush()?;
        Ok((self.second.received - before, more))
    }

    /// Starts look-ups for started attempts.
    fn look_up(&mut self) {
        let Self { finder: Some(finder), part, shared, .. } = self else { return };
        for lookup in part.take_lookups() {
            let now = shared.clock.now();
            if finder.begin(now, lookup).is_err() {
                // This does not happen: a look-up of the same URI before the load succeeded.
                part.handle_lookup(now, lookup, Err(Unlocated::Elsewhere));
            }
        }
        self.take_found();
    }

    /// Continues attempts whose look-up has ended.
    fn take_found(&mut self) {
        let Self { finder: Some(finder), part, shared, .. } = self else { return };
        for (lookup, found) in finder.take_found() {
            let located = found.and_then(|found| found.located().ok_or(Unlocated::Elsewhere));
            part.handle_lookup(shared.clock.now(), lookup, located);
        }
    }

    /// Sends queued messages and records their time stamps. The first messages of punctual starts are sent when they
    /// are due, and before all other messages.
    fn send_waiting(&mut self) -> Result<(), LoadError> {
        let mut sending = std::mem::take(&mut self.sending);
        std::mem::swap(&mut sending, &mut self.part.out.messages);
        let mut dues = std::mem::take(&mut self.dues);
        let clock = self.shared.clock;
        match (&self.wire.socket, &mut self.wire.streams) {
            (None, Some(streams)) => {
                dues.last().into_iter().for_each(|due| clock.spin_until(*due));
                let at = clock.now();
                streams.send(&sending, &mut self.second, self.tap.as_mut().map(|tap| (tap, at)));
                let stamped = sending.departing().filter_map(|(.., stamped)| stamped);
                stamped.for_each(|stamped| self.part.handle_departure(at, stamped));
                dues.iter().for_each(|due| self.second.lateness.record(at - *due));
            }
            (_, None) if !self.shared.order.punctual => self.send_together(&sending, &dues)?,
            _ => self.send_each(&sending, &dues)?,
        }
        sending.clear();
        dues.clear();
        (self.sending, self.dues) = (sending, dues);
        Ok(())
    }

    /// Sends the messages one by one, over UDP or their connections. The first message of a start is sent when it is
    /// due.
    fn send_each(&mut self, sending: &Outbox, dues: &[Instant]) -> Result<(), LoadError> {
        let clock = self.shared.clock;
        let mut begun = dues.iter();
        for (to, way, bytes, stamped) in sending.departing() {
            let due = begun.next();
            match due {
                Some(due) => clock.spin_until(*due),
                None => self.keep_time()?,
            }
            let mut departed = clock.now();
            let ShardSocket { socket, streams, .. } = &mut self.wire;
            if let Some(streams) = streams.as_mut().filter(|_| is_over_tcp(bytes)) {
                let tap = self.tap.as_mut().map(|tap| (tap, departed));
                streams.queue((to, way), bytes, &mut self.second, tap);
                streams.flush();
            } else if let Some(socket) = socket {
                let (local, tap) = (socket.local(), &mut self.tap);
                let datagram = [OutgoingDatagram { to, bytes, order_key: None }];
                socket.send(&clock, &datagram, &mut self.second, |_, at, is_taken| {
                    departed = at;
                    if let Some(tap) = tap.as_mut().filter(|_| is_taken) {
                        tap.message((at, Transport::Udp), true, [local, to], bytes);
                    }
                })?;
            }
            if let Some(stamped) = stamped {
                self.part.handle_departure(departed, stamped);
            }
            due.into_iter().for_each(|due| self.second.lateness.record(departed - *due));
        }
        Ok(())
    }

    /// Sends messages over UDP, several with one system call.
    fn send_together(&mut self, sending: &Outbox, dues: &[Instant]) -> Result<(), LoadError> {
        let Self { wire: ShardSocket { socket: Some(socket), .. }, part, second, tap, shared, .. } = self
        else {
            return Ok(());
        };
        let local = socket.local();
        let mut lateness = SmallVec::<[Duration; MESSAGES]>::new();
        socket.send_all(&shared.clock, sending, second, |place, (to, _, bytes, stamped), at, is_taken| {
            if let Some(tap) = tap.as_mut().filter(|_| is_taken) {
                tap.message((at, Transport::Udp), true, [local, to], bytes);
            }
            if let Some(stamped) = stamped {
                part.handle_departure(at, stamped);
            }
            // The first messages of starts are at the front of the queue.
            lateness.extend(dues.get(place).map(|due| at - *due));
        })?;
        lateness.into_iter().for_each(|late| second.lateness.record(late));
        Ok(())
    }

    /// Sends queued messages, reports undeliverable messages to the users, and counts ended attempts.
    fn flush(&mut self) -> Result<(), LoadError> {
        // Samples are kept in a run of an experiment, and only of attempts that end after the start of the load.
        let keeps = self.has_begun() && self.shared.within.is_some();
        loop {
            self.send_waiting()?;
            self.tell_sent_later();
            self.tell_lost()?;
            if self.part.out.messages.is_empty() {
                break;
            }
        }
        let Self { wire, part, shared, met, second, tap, .. } = self;
        if !part.out.records.is_empty() {
            let now = shared.clock.now();
            part.settle(now, |record| {
                second.full += u64::from(record.failure == Some(Unlocated::NoRoom.into()));
                if keeps {
                    samples_of(record, now, |sample| met.push(sample));
                }
                if let Some(tap) = tap.as_mut() {
                    tap.tap.ended(record);
                }
                if record.side != Side::Callee {
                    wire.release(record.token);
                }
            });
        }
        Ok(())
    }

    /// Passes messages to the tap that waited for their connection to be established and have now been sent.
    fn tell_sent_later(&mut self) {
        let now = self.shared.clock.now();
        let transport = match self.shared.order.carrier.transport() {
            // Connections of a load over UDP carry requests that are too long for a datagram.
            Transport::Udp => Transport::Tcp,
            own => own,
        };
        for (ends, message) in self.wire.take_sent_later() {
            self.second.sent += 1;
            if let Some(tap) = &mut self.tap {
                tap.message((now, transport), true, ends, &message);
            }
        }
    }

    /// Reports lost connections and undeliverable messages to the users, which may try other servers.
    fn tell_lost(&mut self) -> Result<(), LoadError> {
        let Self { wire, part, shared, .. } = self;
        for Lost { to, registers, whose, why } in wire.take_lost() {
            self.second.too_long += u64::from(why == Broken::TooLong);
            part.handle_disconnection(shared.clock.now(), registers, (to, whose), why);
        }
        wire.take_undelivered(&shared.clock, |to, bytes| {
            part.handle_undelivered(shared.clock.now(), to, &Scan::of(bytes))
        })
    }

    /// Reports the results of a second, and clears them for the next one.
    fn tell(
        &mut self,
        number: u64,
        used: &mut TesterUse,
        events: &Sender<ShardEvent>,
    ) -> Result<(), LoadError> {
        used.tell(&mut self.second);
        self.second.stepped = self.offset.take_step().unwrap_or_default();
        if let Some(tap) = &mut self.tap {
            tap.tap.hand_on();
        }
        self.second.dropped = self.wire.take_drops()?;
        self.second.dns = self.finder.as_mut().map(Finder::take_counts).unwrap_or_default();
        let refused = self.part.refused();
        self.second.refused = refused - self.refused;
        self.refused = refused;
        let strays = self.part.strays();
        self.second.strays = strays - self.strays;
        self.strays = strays;
        let (measured, warm_up) = self.part.take_tallies();
        let second = SecondOfShard {
            number,
            measured,
            warm_up,
            until: self.part.until(),
            open: self.part.open(),
            overdue: self.part.overdue(number),
            tester: std::mem::take(&mut self.second),
        };
        let _ = events.send(ShardEvent::Second(Box::new(second)));
        Ok(())
    }
}

/// Whether this process is an agent that may use fewer processors than netrig itself, because the experiment file
/// assigns processors to its node. The servers of the run then have other processors, so the threads of the load may
/// run with a higher priority. Kernel threads otherwise run for up to 10 ms at a time, which would delay starts.
/// Outside a run the server's processors are unknown, and the load runs with normal priority.
fn has_processors_of_its_own() -> bool {
    let own = rustix::process::getpid();
    let parent = rustix::process::getppid();
    let processors = |pid: rustix::process::Pid| processors_of(pid.as_raw_nonzero().get());
    parent.is_some_and(|parent| processors(own) < processors(parent))
}

/// The approximate share of a processor that a thread of this load needs at its highest rate.
fn busy_share(order: &LoadOrder) -> f64 {
    /// Processor time of an attempt in netrig and the kernel, s: without its own connection, with its own TCP
    /// connection, with its own TLS connection.
    const COSTS: [f64; 3] = [40e-6, 80e-6, 250e-6];
    let kind = match (order.carrier.connecting(), &order.carrier) {
        (Some(Connections::PerAttempt), Carrier::Tls(..)) => 2,
        (Some(Connections::PerAttempt), _) => 1,
        _ => 0,
    };
    if order.punctual { 1.0 } else { order.plan.peak() / f64::from(order.shards) * COSTS[kind] }
}
