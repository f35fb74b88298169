//! The sockets that carry an end of a flow, and the state that they share with the end.

use netrig_core::{ConnectionEvent, FlowMeter, Instant, Note, Quantity, Sample, Subject, quantity};
use netrig_host::{Clock, Pacer, RealtimeOffset};
use netrig_traffic::{AppAction, AppEvent, Application, ConnId, react};

use crate::AgentResult;
use crate::order::EndOrder;
use crate::report::EndReport;

/// Number of the listening socket, or of the UDP socket, among the sockets of an end. The sockets of connections follow it.
pub(crate) const FIRST_SOCKET: u32 = 0;

/// Turns of an end's connections, or packets of its associations, in a row before other ends get a turn.
pub(crate) const TURNS: usize = 64;

/// Samples in the order of their creation.
pub type Samples = Vec<(Subject, Sample)>;

/// The clocks, the poller and the output that the ends of a loop share.
pub(crate) struct EndContext {
    pub clock: Clock,
    pub offset: RealtimeOffset,
    pub pacer: Pacer,
    pub samples: Samples,
    /// Events, as sentences.
    pub notes: Vec<Note>,
}

/// An end of a flow without its sockets.
pub(crate) struct EndState {
    pub order: EndOrder,
    /// The position among the ends of its loop, for the keys of its sockets.
    pub place: u32,
    /// The end of the run: later arrivals do not count.
    pub until: Instant,
    pub application: Box<dyn Application>,
    pub deadline: Option<Instant>,
    /// The latest time that was passed to the application, for which time never runs backwards.
    pub latest_event: Instant,
    pub meter: FlowMeter,
    pub actions: Vec<AppAction>,
}

/// The sockets of an end. After each call that passes events to the application, all its actions are carried out.
pub(crate) trait FlowCarrier: Send {
    /// Registers the sockets that exist from the start with the poller.
    fn watch(&self, end: &EndState, pacer: &Pacer) -> AgentResult;

    /// The time of the next action of its own; [`Instant::ZERO`] if at once.
    fn next(&self) -> Option<Instant>;

    /// Handles an event of the poller for the socket with this number.
    fn ready(&mut self, socket: u32, end: &EndState, around: &EndContext) -> AgentResult;

    /// Takes a limited part of what has arrived or is due at `now`, and passes it to the application.
    fn advance(&mut self, now: Instant, end: &mut EndState, around: &mut EndContext) -> AgentResult;

    /// Carries out an action of the application about a datagram or a connection, requested at `at`.
    fn carry(
        &mut self,
        at: Instant,
        action: AppAction,
        end: &mut EndState,
        around: &EndContext,
    ) -> AgentResult;

    /// Reports the counts since the last tick, and the current levels.
    fn tick(&mut self, at: Instant, end: &EndState, out: &mut Samples) -> AgentResult;

    /// Adds its part to the report after the run.
    fn report(&mut self, report: &mut EndReport, end: &EndState, out: &mut Samples) -> AgentResult;

    /// Whether there have been connections, and all have closed.
    fn is_over(&self) -> bool {
        false
    }

    /// Whether it can queue more datagrams.
    fn has_room(&self) -> bool {
        true
    }

    /// The time until which datagrams may wait for others that leave with them, if some wait.
    fn grace(&self) -> Option<Instant> {
        None
    }

    /// Sends the queued datagrams.
    fn flush(&mut self, _end: &mut EndState, _around: &EndContext) -> AgentResult {
        Ok(())
    }

    /// Takes all datagrams that have arrived.
    fn take_late(&mut self, _now: Instant, _end: &mut EndState, _around: &mut EndContext) -> AgentResult {
        Ok(())
    }

    /// Passes an event to the application, and carries out its actions.
    fn notify(
        &mut self,
        at: Instant,
        event: AppEvent,
        end: &mut EndState,
        around: &mut EndContext,
    ) -> AgentResult {
        end.latest_event = end.latest_event.max(at);
        let mut actions = std::mem::take(&mut end.actions);
        end.deadline = react(&mut *end.application, end.latest_event, event, |action| actions.push(action));
        for action in actions.drain(..) {
            match action {
                AppAction::Record(sample) => around.samples.push((Subject::Flow(end.order.flow), sample)),
                AppAction::GiveUp { why } => return Err(end.order.wrong(why)),
                action => self.carry(at, action, end, around)?,
            }
        }
        end.actions = actions;
        Ok(())
    }
}

impl EndState {
    /// The key of a socket at the poller.
    pub fn key(&self, socket: u32) -> u64 {
        u64::from(self.place) << 32 | u64::from(socket)
    }

    /// The application gave `bytes` to its carrier.
    pub fn offered(&mut self, bytes: u64) {
        if self.order.sends_data() {
            self.meter.offered(bytes);
        }
    }

    /// Counts and reports an event of a connection.
    pub fn connection_event(&mut self, now: Instant, id: ConnId, event: &ConnectionEvent, out: &mut Samples) {
        let sends = self.order.sends_data();
        match event {
            ConnectionEvent::Connected { .. } if matches!(id, ConnId::Opened(_)) => {
                self.meter.mark(now, &quantity::ESTABLISHED, 0.0, out);
            }
            ConnectionEvent::Received { data, .. } if !sends => self.meter.received(data.size()),
            ConnectionEvent::Closed(reason) if sends => {
                self.meter.mark(now, &quantity::CLOSED, f64::from(*reason as u8), out);
            }
            _ => {}
        }
    }

    /// Reports counts of this end, except those that are zero.
    pub fn report_counts(
        &self,
        at: Instant,
        counts: impl IntoIterator<Item = (&'static Quantity, u64)>,
        out: &mut Samples,
    ) {
        for (quantity, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            self.meter.mark(at, quantity, count as f64, out);
        }
    }
}
