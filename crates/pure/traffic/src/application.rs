//! The contract between an application and whatever carries its data.

use std::net::SocketAddr;

use netrig_core::{ConnectionEvent, Data, DatagramId, Instant, Quantity, Sample, StreamId};

/// The name of a connection at one end. Who made it is in the name, so that an application and its carrier
/// number connections without asking each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnId {
    /// The `n`-th that this application opened, from 0, in the order of its own `Open` actions.
    Opened(u32),
    /// The `n`-th that this application accepted, from 0, in the order of their establishment.
    Accepted(u32),
}

/// What an application is told. The `now` that comes with it is when it happened: for data the arrival
/// stamp (the kernel's, under an agent).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppEvent {
    /// The flow starts.
    Started,
    /// The deadline of [`Application::poll_timeout`] was reached.
    Timeout,
    /// One of its connections reports.
    Connection {
        /// Which.
        conn: ConnId,
        /// What.
        event: ConnectionEvent,
    },
    /// A datagram arrived. Carriers number and stamp what they send, in fields of a simulated packet or in the
    /// first bytes of a real one, so that every application can tell loss and delay.
    Datagram {
        /// Its sender.
        from: SocketAddr,
        /// Counted by the sending end from 0: what is missing was lost.
        number: u64,
        /// When it was given to the network, by the sender's clock.
        sent: Instant,
        /// Its payload.
        data: Data,
    },
    /// One of its datagrams was answered.
    Answered {
        /// Which.
        datagram: DatagramId,
        /// The answer's payload.
        data: Data,
    },
    /// The flow stops: nothing new is begun, connections are closed when what was given has been sent.
    Stopped,
}

/// What an application asks for.
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
        /// Which.
        conn: ConnId,
        /// On which stream; a transport without streams ignores it.
        stream: StreamId,
        /// What.
        data: Data,
    },
    /// Send a datagram by UDP, whatever the flow's transport is.
    Datagram {
        /// To whom.
        to: SocketAddr,
        /// Its payload.
        data: Data,
    },
    /// Answer a datagram by another one, which tells its sender what it answers.
    Answer {
        /// Whom: the sender.
        to: SocketAddr,
        /// What.
        datagram: DatagramId,
        /// The answer's payload.
        data: Data,
    },
    /// Close a connection once everything was sent.
    Close {
        /// Which.
        conn: ConnId,
    },
    /// Report a measured value.
    Record(Sample),
    /// The run is to be given up: nothing that it measures would mean what it should.
    GiveUp {
        /// Why, in a sentence.
        why: String,
    },
}

/// Who sends what, when, at one end of a flow.
///
/// Called per message, not per packet, so `dyn` is cheap enough. After every [`Application::handle`] take
/// all actions ([`react`] does it).
pub trait Application: Send {
    /// Something happened.
    fn handle(&mut self, now: Instant, event: AppEvent);

    /// Whether it ignores received data without content. Asked once per connection.
    fn ignores_data(&self) -> bool {
        false
    }

    /// Whether all that it does at its deadlines, until something else happens, is to give data to connections that it has, and to
    /// record. A world in which such data change nothing yet may have it do so later ([`Application::offer`]), before anything else
    /// happens at this end. Stale after any call that takes `&mut self`.
    #[must_use]
    fn only_offers(&self) -> bool {
        false
    }

    /// What it records at its deadlines while it [only offers](Application::only_offers); `None` if it never does.
    fn offers(&self) -> Option<&'static [&'static Quantity]> {
        None
    }

    /// Does what it does at all its deadlines up to `until`, in their order, each with its moment. To be called only while it
    /// [only offers](Application::only_offers).
    fn offer(&mut self, until: Instant, carry: &mut dyn FnMut(Instant, AppAction)) {
        while let Some(at) = self.poll_timeout().filter(|at| *at <= until) {
            self.handle(at, AppEvent::Timeout);
            while let Some(action) = self.poll_action(at) {
                carry(at, action);
            }
        }
    }

    /// When it wants a [`AppEvent::Timeout`]. Stale after any call that takes `&mut self`. Who has something to prepare wants one
    /// before its flow starts.
    #[must_use]
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next thing it asks for, until `None`.
    #[must_use]
    fn poll_action(&mut self, now: Instant) -> Option<AppAction>;
}

/// One event in, all actions out, then the new deadline: the only place that drives an application.
pub fn react(
    application: &mut dyn Application,
    now: Instant,
    event: AppEvent,
    mut carry: impl FnMut(AppAction),
) -> Option<Instant> {
    application.handle(now, event);
    while let Some(action) = application.poll_action(now) {
        carry(action);
    }
    application.poll_timeout()
}
