//! The contract of a protocol party without I/O.

use crate::Instant;

/// A protocol party: packets and time come in, packets and events go out.
///
/// `Packet` is associated, for this crate cannot name TCP segments or SCTP chunks.
///
/// After every call that takes `&mut self` the party must be drained ([`drain`]); until then
/// [`Endpoint::poll_timeout`] may be wrong.
pub trait Endpoint {
    /// What goes over the wire.
    type Packet;
    /// What the user is told.
    type Event;

    /// A packet arrived.
    fn handle_packet(&mut self, now: Instant, packet: Self::Packet);

    /// The deadline was reached. Calling it early is allowed and does nothing.
    fn handle_timeout(&mut self, now: Instant);

    /// When [`Endpoint::handle_timeout`] wants to be called next. Stale after any call that takes `&mut self`.
    #[must_use]
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next packet to send at `now`, until `None`.
    #[must_use]
    fn poll_transmit(&mut self, now: Instant) -> Option<Self::Packet>;

    /// The next thing to tell the user, until `None`.
    #[must_use]
    fn poll_event(&mut self) -> Option<Self::Event>;
}

/// What [`drain`] hands out.
pub enum EndpointOutput<P, E> {
    /// A packet for the network.
    Packet(P),
    /// An event for the user.
    Event(E),
}

/// Takes everything an endpoint has to say after one mutation, and returns its new deadline.
///
/// Packets first, since the user's answer to an event is a new mutation.
pub fn drain<E: Endpoint>(
    endpoint: &mut E,
    now: Instant,
    mut out: impl FnMut(EndpointOutput<E::Packet, E::Event>),
) -> Option<Instant> {
    while let Some(packet) = endpoint.poll_transmit(now) {
        out(EndpointOutput::Packet(packet));
    }
    while let Some(event) = endpoint.poll_event() {
        out(EndpointOutput::Event(event));
    }
    endpoint.poll_timeout()
}
