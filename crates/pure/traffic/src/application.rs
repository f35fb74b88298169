//! The contract between an application and whatever carries its data.

use std::net::SocketAddr;

use netrig_core::{ConnectionEvent, Data, DatagramId, Instant, Quantity, Sample, StreamId};

/// The name of a connection at one end. Opened and accepted connections are numbered separately, so that an application
/// and its carrier number them independently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnId {
    /// The `n`-th that this application opened, from 0, in the order of its own `Open` actions.
    Opened(u32),
    /// The `n`-th that this application accepted, from 0, in the order of their establishment.
    Accepted(u32),
}

/// An event for an application. Its time is passed as `now`; for data it is the arrival time (the kernel's time stamp,
/// under an agent).
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
    /// A datagram arrived. Carriers add a number and a time stamp to each datagram, in fields of a simulated packet or
    /// in the first bytes of a real one. From these every application can measure loss and delay.
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
    /// One of its datagrams was answered.
    Answered {
        /// The datagram.
        datagram: DatagramId,
        /// The answer's payload.
        data: Data,
    },
    /// The flow stops: the application starts nothing new, and closes its connections once all data is sent.
    Stopped,
}

/// A request of an application to its carrier.
#[derive(Clone, Debug)]
pub enum AppAction {
    /// Open a connection with the flow's transport; its name must be the next [`ConnId::Opened`].
    Open {
        /// Its name from now on.
        conn: ConnId,
        /// The peer.
        to: SocketAddr,
    },
    /// Send on a connection, which may still be opening. Never refused.
    Send {
        /// The connection.
        conn: ConnId,
        /// The stream; a transport without streams ignores it.
        stream: StreamId,
        /// The data.
        data: Data,
    },
    /// Send a datagram by UDP, independent of the flow's transport.
    Datagram {
        /// The destination.
        to: SocketAddr,
        /// Its payload.
        data: Data,
    },
    /// Answer a datagram by another one, which identifies the datagram that it answers.
    Answer {
        /// The sender of the datagram.
        to: SocketAddr,
        /// The datagram.
        datagram: DatagramId,
        /// The answer's payload.
        data: Data,
    },
    /// Close a connection once all data is sent.
    Close {
        /// The connection.
        conn: ConnId,
    },
    /// Report a measured value.
    Record(Sample),
    /// Abort the run, because its measurements would not be valid.
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

    /// Sends `size` bytes without content on a connection.
    /// Records the time that has passed since `began`.
    pub(crate) fn took(at: Instant, quantity: &'static Quantity, began: Instant) -> Self {
        Self::record(at, quantity, at.since(began).as_secs_f64())
    }

    pub(crate) const fn fill(conn: ConnId, stream: StreamId, size: u64) -> Self {
        Self::Send { conn, stream, data: Data::Fill(size) }
    }
}

/// The traffic model at one end of a flow.
///
/// It is called per message, not per packet, so `dyn` is cheap enough.
pub trait Application: Send {
    /// Handles an event, and passes the resulting actions to `act` in their order.
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction));

    /// Whether it ignores received data without content. The carrier asks once per connection.
    fn ignores_data(&self) -> bool {
        false
    }

    /// Whether at its deadlines, until another event, it only sends data on existing connections and records samples.
    /// If such data has no effect yet, a carrier may delay it ([`Application::offer`]) until the next other event at
    /// this end. Invalid after any call that takes `&mut self`.
    #[must_use]
    fn only_offers(&self) -> bool {
        false
    }

    /// Quantities that it records at its deadlines while it [only offers](Application::only_offers); `None` if it never
    /// only offers.
    fn offers(&self) -> Option<&'static [&'static Quantity]> {
        None
    }

    /// Handles all deadlines up to `until` in their order, and passes each action with its time to `carry`. Call it
    /// only while the application [only offers](Application::only_offers).
    fn offer(&mut self, until: Instant, carry: &mut dyn FnMut(Instant, AppAction)) {
        while let Some(at) = self.poll_timeout().filter(|at| *at <= until) {
            self.handle(at, AppEvent::Timeout, &mut |action| carry(at, action));
        }
    }

    /// Time of the next [`AppEvent::Timeout`]. Invalid after any call that takes `&mut self`. It may lie before the
    /// start of the flow, for an application that has to prepare.
    #[must_use]
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// Passes one event to the application and all its actions to `carry`. Returns the new deadline. Every carrier drives
/// applications by this function. `carry` must not call the application.
pub fn react(
    application: &mut dyn Application,
    now: Instant,
    event: AppEvent,
    mut carry: impl FnMut(AppAction),
) -> Option<Instant> {
    application.handle(now, event, &mut carry);
    application.poll_timeout()
}
