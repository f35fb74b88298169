//! The contract between an application and its carrier: the simulator or agent that transports its data.

use std::net::SocketAddr;

use netrig_core::{ConnectionEvent, Data, DatagramId, Instant, Quantity, Sample, StreamId};

/// Identifies a connection at one end. Opened and accepted connections are numbered separately, so an application and
/// its carrier can count them independently of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnId {
    /// The `n`-th connection that this application opened, from 0, in the order of its `Open` actions.
    Opened(u32),
    /// The `n`-th connection that this application accepted, from 0, in the order of establishment.
    Accepted(u32),
}

/// An event for an application. The time of the event is passed as `now`. For received data it is the arrival time:
/// under an agent, the kernel's receive time stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppEvent {
    /// The flow starts.
    Started,
    /// The deadline of [`Application::poll_timeout`] was reached.
    Timeout,
    /// An event of one of its connections.
    Connection {
        /// The connection.
        conn: ConnId,
        /// The event.
        event: ConnectionEvent,
    },
    /// A datagram arrived. Carriers add a number and a time stamp to each datagram: in fields of a simulated packet, or
    /// in the first bytes of a real one. Any application can therefore measure loss and delay.
    Datagram {
        /// Its sender.
        from: SocketAddr,
        /// Counted by the sending end from 0. A missing number is a lost datagram.
        number: u64,
        /// Send time by the sender's clock.
        sent: Instant,
        /// Its payload.
        data: Data,
    },
    /// An answer to one of its datagrams arrived.
    Answered {
        /// The datagram that was answered.
        datagram: DatagramId,
        /// The answer's payload.
        data: Data,
    },
    /// The flow stops. The application starts nothing new, and closes its connections when all data is sent.
    Stopped,
}

/// A request of an application to its carrier.
#[derive(Clone, Debug)]
pub enum AppAction {
    /// Open a connection with the flow's transport. `conn` must be the next number of [`ConnId::Opened`].
    Open {
        /// Identifies the connection in later actions and events.
        conn: ConnId,
        /// The address to connect to.
        to: SocketAddr,
    },
    /// Send on a connection, which may still be opening. The carrier never refuses the data.
    Send {
        /// The connection.
        conn: ConnId,
        /// The stream. A transport without streams ignores it.
        stream: StreamId,
        /// The data.
        data: Data,
    },
    /// Send a UDP datagram, whatever the flow's transport is.
    Datagram {
        /// The destination.
        to: SocketAddr,
        /// Its payload.
        data: Data,
    },
    /// Answer a datagram with another datagram, which contains the identifier of the first.
    Answer {
        /// The sender of the datagram.
        to: SocketAddr,
        /// The datagram that is answered.
        datagram: DatagramId,
        /// The answer's payload.
        data: Data,
    },
    /// Close a connection when all data is sent.
    Close {
        /// The connection.
        conn: ConnId,
    },
    /// Report a measured value.
    Record(Sample),
    /// Abort the run, because its measurements would be invalid.
    GiveUp {
        /// The reason, in a sentence.
        why: String,
    },
}

impl AppAction {
    /// Reports a value measured at `at`.
    pub(crate) const fn record(at: Instant, quantity: &'static Quantity, value: f64) -> Self {
        Self::Record(Sample { at, quantity, value })
    }

    /// Records the time since `began`, in seconds.
    pub(crate) fn took(at: Instant, quantity: &'static Quantity, began: Instant) -> Self {
        Self::record(at, quantity, at.since(began).as_secs_f64())
    }

    /// Sends `size` bytes without content on a connection.
    pub(crate) const fn fill(conn: ConnId, stream: StreamId, size: u64) -> Self {
        Self::Send { conn, stream, data: Data::Fill(size) }
    }
}

/// The traffic model at one end of a flow.
///
/// It is called per message, not per packet, so `dyn` is cheap enough.
pub trait Application: Send {
    /// Handles an event, and passes the resulting actions to `act` in order.
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction));

    /// Whether it ignores received data without content. The carrier calls this once per connection.
    fn ignores_data(&self) -> bool {
        false
    }

    /// Whether it only sends data on existing connections and records samples when a deadline expires. This is valid
    /// until the next call that takes `&mut self`. The carrier may then defer its deadlines until the next other event
    /// at this end if the data would have no effect yet, and handle them late with [`Application::offer`].
    #[must_use]
    fn only_offers(&self) -> bool {
        false
    }

    /// Quantities that it records at its deadlines while [`Application::only_offers`] returns true. `None` if it never
    /// returns true.
    fn offers(&self) -> Option<&'static [&'static Quantity]> {
        None
    }

    /// Handles all deadlines up to `until` in order, and passes each action with its time to `carry`. Call it only
    /// while [`Application::only_offers`] returns true.
    fn offer(&mut self, until: Instant, carry: &mut dyn FnMut(Instant, AppAction)) {
        while let Some(at) = self.poll_timeout().filter(|at| *at <= until) {
            self.handle(at, AppEvent::Timeout, &mut |action| carry(at, action));
        }
    }

    /// Time of the next [`AppEvent::Timeout`]. Valid until the next call that takes `&mut self`. It may be before the
    /// start of the flow if the application has to prepare for it.
    #[must_use]
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// Passes one event to the application, and all resulting actions to `carry`. Returns the new deadline. Every carrier
/// calls applications through this function. `carry` must not call the application.
pub fn react(
    application: &mut dyn Application,
    now: Instant,
    event: AppEvent,
    mut carry: impl FnMut(AppAction),
) -> Option<Instant> {
    application.handle(now, event, &mut carry);
    application.poll_timeout()
}
