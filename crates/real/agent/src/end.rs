//! One end of a flow: an application, and the sockets that carry it.

use netrig_core::{FlowMeter, Instant};
use netrig_host::{Interruptions, Lateness, Pacer};
use netrig_traffic::{AppEvent, FlowSide, Reads};

use crate::carrier::{EndContext, EndState, FlowCarrier, Samples};
use crate::faults;
use crate::order::{CarrierOptions, EndOrder, RunOrder};
use crate::report::EndReport;
use crate::sctp::SctpEnd;
use crate::tcp::TcpEnd;
use crate::udp::UdpEnd;
use crate::{AgentError, AgentResult};

/// One end of a flow.
pub(crate) struct FlowEnd {
    state: EndState,
    carrier: Box<dyn FlowCarrier>,
    started: bool,
    stopped: bool,
    /// Whether the end was idle at the last check.
    idle: bool,
    /// Time from each timer deadline of an application with connections until the application got the timeout.
    deadlines: Lateness,
}

impl FlowEnd {
    /// Opens the sockets of an end. `place` is the index of the end in its event loop; it is the upper half of the
    /// poller keys of these sockets.
    pub fn open(order: EndOrder, place: u32, run: &RunOrder) -> AgentResult<Self> {
        order.application.check().map_err(|error| order.wrong(error))?;
        order.reads.iter().try_for_each(Reads::check).map_err(|error| order.wrong(error))?;
        if order.dscp > 63 {
            return Err(order.wrong(format!("the DSCP {} is above 63", order.dscp)));
        }
        let until = Instant::from_nanos(run.duration_ns);
        let carrier = open_carrier(&order, run.seed, until)?;
        let meter = FlowMeter::new(order.flow, run.sample_every());
        let state = EndState {
            application: order.make_application(run.seed),
            order,
            place,
            until,
            deadline: None,
            latest_event: Instant::ZERO,
            meter,
            actions: Vec::new(),
        };
        let (started, stopped, idle) = (false, false, false);
        Ok(Self { state, carrier, started, stopped, idle, deadlines: Lateness::default() })
    }

    /// The flow's index in the scenario, and which end of it this is.
    pub const fn identity(&self) -> (u32, FlowSide) {
        (self.state.order.flow, self.state.order.side)
    }

    /// Whether the end is idle. `None` if that has not changed since the last call. An end is idle if it has had
    /// connections, all of them have closed, and its application has no timer running.
    pub fn becomes_idle(&mut self) -> Option<bool> {
        let idle = self.carrier.is_over() && self.state.deadline.is_none();
        (idle != std::mem::replace(&mut self.idle, idle)).then_some(idle)
    }

    /// Registers the end's sockets with the poller.
    pub fn watch(&self, pacer: &Pacer) -> AgentResult {
        self.carrier.watch(&self.state, pacer)
    }

    /// The time at which this end stops the flow. `None` if the end is a server or has stopped the flow already.
    fn stop_time(&self) -> Option<Instant> {
        (!self.stopped && self.state.order.side == FlowSide::Client).then(|| self.state.order.stop())
    }

    /// When this end must run next, if no socket becomes ready earlier. [`Instant::ZERO`] means immediately.
    pub fn next(&self) -> Instant {
        let start = (!self.started).then(|| self.state.order.start());
        let stop = self.stop_time().filter(|_| self.started);
        let deadline = self.state.deadline.filter(|_| self.carrier.has_room());
        [start, stop, deadline, self.carrier.next()].into_iter().flatten().min().unwrap_or(Instant::NEVER)
    }

    /// Handles an event of the poller for a socket of this end.
    pub fn ready(&mut self, socket: u32, around: &EndContext) -> AgentResult {
        self.carrier.ready(socket, &self.state, around)
    }

    fn notify(&mut self, at: Instant, event: AppEvent, around: &mut EndContext) -> AgentResult {
        self.carrier.notify(at, event, &mut self.state, around)
    }

    /// Does everything that is due at `now`: takes arrivals, passes each expired timer with its deadline to the
    /// application, and executes the resulting actions.
    pub fn advance(&mut self, now: Instant, around: &mut EndContext) -> AgentResult {
        if !self.started && self.state.order.start() <= now {
            self.started = true;
            self.notify(self.state.order.start(), AppEvent::Started, around)?;
        }
        self.carrier.advance(now, &mut self.state, around)?;
        let mut now = now;
        while self.started {
            let stop = self.stop_time().filter(|at| *at <= now);
            let due = self.state.deadline.filter(|at| *at <= now && stop.is_none_or(|stop| *at < stop));
            match (due, stop) {
                // Datagrams that were due before the flow stops are sent even if they are late: the receiver waits for
                // them.
                (Some(at), _) => {
                    if !self.carrier.has_room() {
                        self.carrier.flush(&mut self.state, around)?;
                    }
                    if !self.carrier.has_room() {
                        break;
                    }
                    if !self.state.order.application.sends_datagrams() {
                        self.deadlines.record(around.clock.now() - at);
                    }
                    self.notify(at, AppEvent::Timeout, around)?;
                }
                (None, Some(at)) => {
                    self.stopped = true;
                    self.notify(at, AppEvent::Stopped, around)?;
                }
                (None, None) => match self.next_deadline_within_grace() {
                    Some(at) => {
                        around.clock.spin_until(at);
                        now = at;
                    }
                    None => break,
                },
            }
        }
        self.carrier.flush(&mut self.state, around)
    }

    /// The next deadline, if the datagrams that the application sends then should leave in one system call with the
    /// queued datagrams.
    fn next_deadline_within_grace(&self) -> Option<Instant> {
        let grace = self.carrier.grace()?.min(self.state.until);
        let stop = self.state.order.stop();
        self.state
            .deadline
            .filter(|at| *at <= grace && self.carrier.has_room() && (self.stopped || *at < stop))
    }

    /// Whether this end is the server of a flow of datagrams.
    pub fn receives_datagrams(&self) -> bool {
        self.state.order.side == FlowSide::Server && self.state.order.application.sends_datagrams()
    }

    /// Receives all datagrams that have arrived.
    pub fn take_late(&mut self, now: Instant, around: &mut EndContext) -> AgentResult {
        self.carrier.take_late(now, &mut self.state, around)
    }

    /// Makes the flow stop at `now`, if that is earlier than its configured stop.
    pub fn stop(&mut self, now: Instant) {
        self.state.order.stop_ns = self.state.order.stop_ns.min(now.as_nanos());
    }

    /// Reports the counts since the last sampling tick, and the current levels.
    pub fn tick(&mut self, at: Instant, out: &mut Samples) -> AgentResult {
        let counts = self.state.meter.take_counts();
        self.state.report_counts(at, counts, out);
        self.carrier.tick(at, &self.state, out)
    }

    /// Ends the run at `now`: executes due actions, receives the datagrams that have arrived, and makes the report.
    pub fn finish(
        &mut self,
        now: Instant,
        interruptions: Interruptions,
        around: &mut EndContext,
    ) -> AgentResult<EndReport> {
        self.advance(now, around)?;
        self.take_late(now, around)?;
        self.tick(now, &mut around.samples)?;
        let order = &self.state.order;
        let mut report =
            EndReport { deadlines: self.deadlines.clone(), ..EndReport::empty(order, interruptions) };
        self.carrier.report(&mut report, &self.state, &mut around.samples)?;
        self.state.meter.finish(&mut around.samples);
        let found = faults::of(&report, order);
        (report.faults, report.strains, report.notes) = (found.faults, found.strains, found.notes);
        if !self.carrier.has_room() {
            let why = "the sending socket had no room for datagrams that were due";
            report.strains.push(order.of_flow(why));
        }
        Ok(report)
    }
}

/// Opens the sockets of an end, according to its transport and its application.
fn open_carrier(order: &EndOrder, seed: u64, until: Instant) -> AgentResult<Box<dyn FlowCarrier>> {
    let carrier: Result<Box<dyn FlowCarrier>, _> = match (&order.carrier, order.application.sends_datagrams())
    {
        (CarrierOptions::Udp(options), true) => {
            UdpEnd::open(order, *options, until).map(|end| Box::new(end) as _)
        }
        (CarrierOptions::Tcp(options), false) => {
            TcpEnd::open(order, options.clone()).map(|end| Box::new(end) as _)
        }
        (CarrierOptions::Sctp(options), false) if options.paths.is_empty() => {
            return Err(order.wrong("its association has no path"));
        }
        (CarrierOptions::Sctp(options), false) => {
            SctpEnd::open(order, options, seed).map(|end| Box::new(end) as _)
        }
        (CarrierOptions::Udp(_), false) => {
            return Err(order.wrong("its application needs connections, and UDP has none"));
        }
        (CarrierOptions::Tcp(_) | CarrierOptions::Sctp(_), true) => {
            return Err(order.wrong("its application sends datagrams, and its carrier has only connections"));
        }
    };
    carrier.map_err(|source| AgentError::Socket { flow: order.name.clone(), source })
}
