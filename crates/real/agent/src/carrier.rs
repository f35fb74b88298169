//! The transport sockets of an end of a flow, and the state that they share with the end.

use netrig_core::{ConnectionEvent, FlowMeter, Instant, Note, Quantity, Sample, Subject, quantity};
use netrig_host::{Clock, Pacer, RealtimeOffset};
use netrig_traffic::{AppAction, AppEvent, Application, ConnId, react};

use crate::AgentResult;
use crate::order::EndOrder;
use crate::report::EndReport;

/// Number of the listening socket or of the UDP socket within an end. The sockets of connections have the numbers after
/// it.
pub(crate) const FIRST_SOCKET: u32 = 0;

/// How many turns of connections, or packets of associations, an end processes before the loop continues with other
/// ends.
pub(crate) const TURNS: usize = 64;

/// Samples in the order of their creation.
pub type Samples = Vec<(Subject, Sample)>;

/// The clocks, the poller and the output that all ends of an event loop share.
pub(crate) struct EndContext {
    pub clock: Clock,
    pub offset: RealtimeOffset,
    pub pacer: Pacer,
    pub samples: Samples,
    /// Events, as sentences.
    pub notes: Vec<Note>,
}

/// The state of an end of a flow, except its sockets.
pub(crate) struct EndState {
    pub order: EndOrder,
    /// The index among the ends of the event loop. It is part of the poller keys of the end's sockets.
    pub place: u32,
    /// The end of the run. Later arrivals are not counted.
    pub until: Instant,
    pub application: Box<dyn Application>,
    pub deadline: Option<Instant>,
    /// The latest time that was passed to the application. No earlier time is passed after it.
    pub latest_event: Instant,
    pub meter: FlowMeter,
    pub actions: Vec<AppAction>,
}

/// The sockets of an end. Each method that passes events to the application also executes all resulting actions.
pub(crate) trait FlowCarrier: Send {
    /// Registers the sockets that exist from the start with the poller.
    fn watch(&self, end: &EndState, pacer: &Pacer) -> AgentResult;

    /// When [`FlowCarrier::advance`] must be called next, if no socket becomes ready earlier. [`Instant::ZERO`] means
    /// immediately.
    fn next(&self) -> Option<Instant>;

    /// Handles an event of the poller for the socket with this number.
    fn ready(&mut self, socket: u32, end: &EndState, around: &EndContext) -> AgentResult;

    /// Handles a limited number of arrivals and of timers that are due at `now`, and passes the events to the
    /// application.
    fn advance(&mut self, now: Instant, end: &mut EndState, around: &mut EndContext) -> AgentResult;

    /// Executes an action on a datagram or a connection that the application requested at `at`.
    fn carry(
        &mut self,
        at: Instant,
        action: AppAction,
        end: &mut EndState,
        around: &EndContext,
    ) -> AgentResult;

    /// Reports the counts since the last sampling tick, and the current levels.
    fn tick(&mut self, at: Instant, end: &EndState, out: &mut Samples) -> AgentResult;

    /// Adds the counts of the sockets to the report after the run.
    fn report(&mut self, report: &mut EndReport, end: &EndState, out: &mut Samples) -> AgentResult;

    /// Whether at least one connection was opened and all connections have closed.
    fn is_over(&self) -> bool {
        false
    }

    /// Whether the send queue has room for more datagrams.
    fn has_room(&self) -> bool {
        true
    }

    /// Until when the queued datagrams may wait for further datagrams, so that one system call sends them all. `None`
    /// if the queue is empty.
    fn grace(&self) -> Option<Instant> {
        None
    }

    /// Sends the queued datagrams.
    fn flush(&mut self, _end: &mut EndState, _around: &EndContext) -> AgentResult {
        Ok(())
    }

    /// Receives all datagrams that have arrived.
    fn take_late(&mut self, _now: Instant, _end: &mut EndState, _around: &mut EndContext) -> AgentResult {
        Ok(())
    }

    /// Passes an event to the application and executes the resulting actions.
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
    /// The poller key of a socket: the index of the end in the upper half, the number of the socket in the lower half.
    pub fn key(&self, socket: u32) -> u64 {
        u64::from(self.place) << 32 | u64::from(socket)
    }

    /// Counts `bytes` that the application passed to its transport as offered data.
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

    /// Reports the nonzero counts of this end.
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
