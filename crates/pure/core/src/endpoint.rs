//! The contract of a protocol endpoint without I/O.

use crate::Instant;

/// A protocol endpoint: its inputs are packets and time, its outputs are packets and events.
///
/// `Packet` is an associated type because this crate does not define TCP segments or SCTP packets.
///
/// After every call that takes `&mut self` the caller must drain the endpoint ([`drain`]). Until then
/// [`Endpoint::poll_timeout`] may be wrong.
pub trait Endpoint {
    /// The packets of the protocol.
    type Packet;
    /// The events for the user.
    type Event;

    /// Handles a packet that arrived.
    fn handle_packet(&mut self, now: Instant, packet: Self::Packet);

    /// Handles the deadline. A call before the deadline is allowed and does nothing.
    fn handle_timeout(&mut self, now: Instant);

    /// The deadline at which to call [`Endpoint::handle_timeout`]. Any call that takes `&mut self` makes it stale.
    #[must_use]
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next packet to send at `now`; `None` if there is no more.
    #[must_use]
    fn poll_transmit(&mut self, now: Instant) -> Option<Self::Packet>;

    /// The next event for the user; `None` if there is no more.
    #[must_use]
    fn poll_event(&mut self) -> Option<Self::Event>;
}

/// An output of an endpoint, from [`drain`].
pub enum EndpointOutput<P, E> {
    /// A packet for the network.
    Packet(P),
    /// An event for the user.
    Event(E),
}

/// Takes all packets and events of an endpoint after one mutation, and returns its new deadline.
///
/// Packets come before events, because the user's answer to an event is a new mutation.
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
