//! Runs a load, from its order to its report.

use netrig_sip::settings::{Connections, LookupSettings};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};

use netrig_core::{Duration, Instant, Sample};
use netrig_sip::load::{Pace, Part, PlanClock, Setup};

use super::control::{Control, Steering};
use super::locating::look_for_server;
use super::order::{LoadError, LoadOrder, Span};
use super::report::{LoadReport, SecondRow, SoFar};
use super::reporting::{Ending, Reporting};
use super::shard::{SecondOfShard, Shard, ShardEvent, SharedLoad};
use super::source_ports::ephemeral_ports;
use super::wire::ShardSocket;
use crate::point::source_towards;
use netrig_host::allowed_descriptors;
use netrig_host::{Clock, HostAddress, random};

/// Time from the readiness of the last thread to the start of the load. With it the first arrival is on time.
const HEAD_START: Duration = Duration::from_millis(20);

/// Addresses and warnings of a load that has not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The local address of each thread's socket.
    pub local: Vec<SocketAddr>,
    /// Conditions that may make the result invalid, as sentences. Each names the command that corrects the condition.
    pub warnings: Vec<String>,
}

/// The progress of a load before its first attempt.
#[derive(Clone, Copy, Debug)]
pub enum LoadStage<'a> {
    /// The sockets are open. Users may have to be registered before the load starts.
    Open(&'a Readiness),
    /// Everything is prepared: the first attempt starts within 20 ms.
    Starting,
}

/// The decision of an observer of a load after a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Continue.
    GoOn,
    /// Start no new attempt. Pending ones may take at most this time.
    Enough(Duration),
}

impl From<()> for Next {
    fn from((): ()) -> Self {
        Self::GoOn
    }
}

/// Runs a load. `stage` is called with the progress before the start. `second` is called with each finished second and
/// all results so far, and decides whether the load continues. `steering` can end the load early or change its rate.
///
/// # Errors
/// If the order cannot be carried out, a socket cannot be opened, or users cannot be registered before the load.
pub fn run<'a, N: Into<Next>>(
    order: &LoadOrder,
    steering: impl Into<Steering<'a>>,
    mut stage: impl FnMut(LoadStage<'_>),
    second: impl FnMut(&SecondRow, SoFar<'_>) -> N,
) -> Result<LoadReport, LoadError> {
    let opened = OpenLoad::open(order.clone())?;
    stage(LoadStage::Open(&opened.readiness()));
    let starting = || stage(LoadStage::Starting);
    Ok(opened.carry_out(None, steering.into(), starting, second)?.0)
}

/// The plan's clock of a load that has started, with all manual changes.
fn course(shared: &SharedLoad<'_>) -> PlanClock {
    let begins = Instant::from_nanos(shared.begins.load(Ordering::Acquire));
    shared.control.and_then(|control| control.course(begins, 0)).map(|(course, _)| course).unwrap_or_default()
}

/// Planned mean rate of starts in a second, 1/s; `None` for a closed loop.
fn intended(shared: &SharedLoad<'_>, number: u64) -> Option<f64> {
    let Pace::Open(arrivals) = &shared.order.plan.pace else { return None };
    let course = course(shared);
    let end = course.end(shared.order.plan.duration);
    let until = |second| {
        let moment = (Instant::ZERO + Duration::from_secs(second)).min(end);
        arrivals.expected(course.plan(moment) - Instant::ZERO)
    };
    Some(until(number + 1) - until(number))
}

/// Data for the report that are known only after the end of a load.
fn ending(shared: &SharedLoad<'_>, interrupted: bool, left: u32) -> Ending {
    let begins = Instant::from_nanos(shared.begins.load(Ordering::Acquire));
    let now = shared.clock.now();
    let interventions = shared.control.map(|control| control.interventions(begins, now)).unwrap_or_default();
    let paused = course(shared).paused(Instant::ZERO + (now - begins));
    Ending { interrupted, left, paused, interventions }
}

/// A load with open sockets.
pub struct OpenLoad {
    order: LoadOrder,
    wires: Vec<ShardSocket>,
}

impl OpenLoad {
    /// Opens the sockets.
    ///
    /// # Errors
    /// If the order cannot be carried out, or a socket cannot be opened.
    pub fn open(mut order: LoadOrder) -> Result<Self, LoadError> {
        order.plan.looks_up =
            order.location.as_ref().is_some_and(|location| location.lookup != LookupSettings::Once);
        order.check()?;
        let local = match order.local {
            Some(local) => local,
            None => source_towards(order.target).map_err(LoadError::kernel("connect"))?,
        };
        let wires = open(&order, local)?;
        Ok(Self { order, wires })
    }

    /// The order.
    pub const fn order(&self) -> &LoadOrder {
        &self.order
    }

    fn locals(&self) -> Vec<SocketAddr> {
        self.wires.iter().map(ShardSocket::local).collect()
    }

    /// The addresses and warnings before the start.
    pub fn readiness(&self) -> Readiness {
        Readiness { local: self.locals(), warnings: warnings(&self.order, &self.wires) }
    }

    /// Runs the load. Returns its report and, in a run of an experiment, the samples of its users.
    ///
    /// # Errors
    /// If a system call fails that succeeds in normal operation, or users are not registered in time.
    pub fn carry_out<N: Into<Next>>(
        self,
        within: Option<Span>,
        Steering { stop, control, taps }: Steering<'_>,
        mut starting: impl FnMut(),
        mut second: impl FnMut(&SecondRow, SoFar<'_>) -> N,
    ) -> Result<(LoadReport, Vec<Sample>), LoadError> {
        let Readiness { local: locals, warnings } = self.readiness();
        let Self { mut order, wires } = self;
        let own = || control.map_or_else(|| Clock::starting_in(Duration::ZERO), Control::clock);
        let clock = within.map_or_else(own, |within| within.clock);
        look_for_server(&mut order, clock, within, stop)?;
        let shared = SharedLoad {
            order: &order,
            clock,
            within,
            stop,
            control,
            taps,
            locals: locals.clone(),
            begins: AtomicU64::new(0),
            enough: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            at_work: AtomicUsize::new(order.shards.into()),
        };
        let (run, secret) = drawn()?;
        let plan = Arc::new(order.plan.clone());
        let server = (order.target, order.carrier.transport());
        let setup =
            |number| Setup { others: order.others.clone(), ..plan.setup((run, number), &locals, server) };
        let setups = (0..order.shards).map(setup);
        let parts = setups.map(|setup| Part::new(Arc::clone(&plan), setup, order.shards, secret));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let mut reporting = Reporting::default();
        let told =
            carry_out(&shared, wires.into_iter().zip(parts), &mut starting, &mut |number, seconds| {
                let (row, so_far) = reporting.second((number, intended(&shared, number)), seconds);
                let next = second(&row, so_far).into();
                // Pending attempts are not awaited, because the server does not answer any more.
                let is_over = order.ends_without_server && reporting.has_lost_server();
                if is_over { Next::Enough(Duration::ZERO) } else { next }
            })?;
        let interrupted = stop.load(Ordering::Relaxed);
        if interrupted && reporting.is_empty() {
            return Err(LoadError::Interrupted);
        }
        let mut report = reporting.report(&order, &ending(&shared, interrupted, told.left));
        report.notes.splice(..0, warnings);
        Ok((report, told.samples))
    }
}

/// Results of the threads at their end.
#[derive(Debug, Default)]
struct Ended {
    /// Registrations that remain at the server.
    left: u32,
    /// Samples of users, in a run of an experiment.
    samples: Vec<Sample>,
    /// Users were not registered in time.
    is_late: bool,
}

/// Runs a thread for each socket until all have ended. Returns their results.
fn carry_out(
    shared: &SharedLoad<'_>,
    parts: impl Iterator<Item = (ShardSocket, Part)>,
    starting: &mut dyn FnMut(),
    second: &mut dyn FnMut(u64, Vec<SecondOfShard>) -> Next,
) -> Result<Ended, LoadError> {
    let (told, telling) = channel();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, (wire, part)) in (0..).zip(parts) {
            threads.push(spawn(scope, shared, number, wire, part, told.clone())?);
        }
        drop(told);
        let ended = collect(shared, &telling, starting, second);
        let mut ends = Ok(());
        for thread in threads {
            let end = thread.join().map_err(|_| LoadError::Panicked).and_then(|end| end);
            ends = ends.and(end);
        }
        if ended.is_late { Err(LoadError::Late) } else { ends.map(|()| ended) }
    })
}

/// Signals to all other threads that a thread has failed or panicked.
struct Failing<'a>(&'a AtomicBool);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Starts a thread of the load. If it fails, all others end.
fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope SharedLoad<'_>,
    number: u16,
    wire: ShardSocket,
    part: Part,
    told: Sender<ShardEvent>,
) -> Result<ScopedJoinHandle<'scope, Result<(), LoadError>>, LoadError> {
    let work = move || {
        let _failing = Failing(&shared.failed);
        let done = Shard::new(shared, wire, part).run(&told);
        if done.is_err() {
            shared.failed.store(true, Ordering::Relaxed);
        }
        done
    };
    std::thread::Builder::new().name(format!("sip-load-{number}")).spawn_scoped(scope, work).map_err(
        |error| {
            shared.failed.store(true, Ordering::Relaxed);
            LoadError::kernel("clone")(error)
        },
    )
}

/// Starts the load when all threads are ready. Passes on each second after all threads have reported it. Returns when
/// all threads have ended.
fn collect(
    shared: &SharedLoad<'_>,
    telling: &Receiver<ShardEvent>,
    starting: &mut dyn FnMut(),
    second: &mut dyn FnMut(u64, Vec<SecondOfShard>) -> Next,
) -> Ended {
    let shards = usize::from(shared.order.shards);
    let (mut prepared, mut ended) = (0, Ended::default());
    let mut lasts = Vec::new();
    let mut seconds: BTreeMap<u64, Vec<SecondOfShard>> = BTreeMap::new();
    for told in telling {
        match told {
            ShardEvent::Prepared => {
                prepared += 1;
                if prepared == shards {
                    starting();
                    let now = shared.clock.now();
                    ended.is_late = shared.within.is_some_and(|within| now > within.begins);
                    shared.failed.fetch_or(ended.is_late, Ordering::Relaxed);
                    let begins = shared.within.map_or(now + HEAD_START, |within| within.begins);
                    shared.begins.store(begins.as_nanos().max(1), Ordering::Release);
                }
            }
            ShardEvent::Second(told) => seconds.entry(told.number).or_default().push(*told),
            ShardEvent::Done(last) => lasts.push(last),
            ShardEvent::Left(registrations) => ended.left += registrations,
            ShardEvent::Met(samples) => ended.samples.extend(samples),
        }
        while let Some(entry) = seconds.first_entry() {
            // A thread that has ended reports no further second.
            let done = lasts.iter().filter(|last| *last < entry.key()).count();
            if entry.get().len() + done < shards {
                break;
            }
            let (number, told) = entry.remove_entry();
            if let Next::Enough(linger) = second(number, told) {
                // Only the first such decision sets the end of the load.
                let until = (shared.clock.now() + linger).as_nanos().max(1);
                let _ = shared.enough.compare_exchange(0, until, Ordering::AcqRel, Ordering::Acquire);
            }
        }
    }
    seconds.into_iter().for_each(|(number, told)| {
        second(number, told);
    });
    ended
}

/// Opens the sockets of each thread.
fn open(order: &LoadOrder, local: HostAddress) -> Result<Vec<ShardSocket>, LoadError> {
    let needed = descriptors_of(order);
    let allowed = allowed_descriptors(needed + open_at_once(order));
    if allowed < needed {
        return Err(LoadError::Request(format!(
            "{needed} descriptors are needed for {}, and this process may have {allowed}: {}`ulimit -Hn {needed}` as root",
            what_needs(order),
            if order.carrier.connecting() == Some(Connections::PerUser) { "fewer users, or " } else { "" }
        )));
    }
    let rate = order.plan.peak() / f64::from(order.shards);
    let port = |shard: u16| match order.local_port {
        0 => Ok(0),
        first => first.checked_add(shard).ok_or_else(|| {
            LoadError::Request(format!(
                "{} sockets from port {first} on are more than there are",
                order.shards
            ))
        }),
    };
    let wire = |shard| {
        let at = local.at(port(shard)?);
        if order.has_two_transports() {
            ShardSocket::open_both(order.reconnecting, at, rate)
        } else {
            ShardSocket::open(&order.carrier, order.reconnecting, at, rate)
        }
    };
    (0..order.shards).map(wire).collect()
}

/// Number of descriptors that a load needs in any case.
fn descriptors_of(order: &LoadOrder) -> u64 {
    /// Descriptors other than those of connections.
    const OTHERS: u64 = 64;
    let for_each = u64::from(order.shards) * 4;
    let users = if order.carrier.connecting() == Some(Connections::PerUser) { order.plan.users } else { 0 };
    OTHERS + for_each + u64::from(users)
}

/// Number of simultaneous connections if each attempt has its own connection and takes two seconds. The number is an
/// estimate: if the descriptors do not suffice during the load, the report says so.
fn open_at_once(order: &LoadOrder) -> u64 {
    if order.carrier.connecting() == Some(Connections::PerAttempt) { begun_within(order, 2.0) } else { 0 }
}

/// Maximum number of attempts that start within this time, s.
fn begun_within(order: &LoadOrder, seconds: f64) -> u64 {
    let seconds = seconds.min(order.plan.duration.as_secs_f64());
    order.plan.count.unwrap_or(u64::MAX).min((order.plan.peak() * seconds) as u64)
}

/// What needs the descriptors, as text.
fn what_needs(order: &LoadOrder) -> &'static str {
    match order.carrier.connecting() {
        Some(Connections::PerUser) => "a connection of each user",
        _ => "the threads' sockets, clocks and files",
    }
}

/// Duration of TIME-WAIT in Linux, s (TCP_TIMEWAIT_LEN).
const TIME_WAIT_S: f64 = 60.0;

/// Conditions that may make the load invalid, as sentences. Each names the command that corrects the condition.
fn warnings(order: &LoadOrder, wires: &[ShardSocket]) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some((wanted, given)) =
        wires.iter().filter_map(ShardSocket::room).find(|(wanted, given)| given < wanted)
    {
        warnings.push(format!(
            "the tester's receive buffers have {given} B, and {} calls/s need {wanted} B: `sysctl -w \
             net.core.rmem_max={wanted}`",
            order.plan.peak().ceil()
        ));
    }
    let likely = descriptors_of(order) + open_at_once(order);
    let allowed = allowed_descriptors(likely);
    if allowed < likely {
        warnings.push(format!(
            "a server that takes 2 s for an attempt needs {likely} descriptors for its connections, and this process may have \
             {allowed}: `ulimit -Hn {likely}` as root"
        ));
    }
    if let Some(ports) = ephemeral_ports().map(|range| range.len() as u64)
        && order.carrier.connecting() == Some(Connections::PerAttempt)
        && begun_within(order, TIME_WAIT_S) > ports
    {
        warnings.push(format!(
            "a closed connection keeps its port for a minute, in which more connections begin than there are ports ({ports}): \
             `sysctl -w net.ipv4.ip_local_port_range='1024 65535'`, or a lower rate"
        ));
    }
    if order.carrier.connecting().is_none()
        && order.plan.longest_text() > 1000
        && !order.plan.options.sends_large_over_tcp()
    {
        warnings.push(
            "requests above 1300 bytes belong on TCP (RFC 3261 section 18.1.1): these go over UDP, in fragments where they \
             must; with large requests over tcp (--large-requests, or large_requests in a file) they do not"
                .to_owned(),
        );
    }
    warnings
}

/// A random number that identifies this load, and the secret with which the load recognises its own tags.
pub(super) fn drawn() -> Result<(u32, [u8; 16]), LoadError> {
    let both = || -> std::io::Result<_> { Ok((u32::from_ne_bytes(random()?), random()?)) };
    both().map_err(LoadError::kernel("/dev/urandom"))
}
