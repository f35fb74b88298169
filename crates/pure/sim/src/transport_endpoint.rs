//! The modelled transports behind one type.

use netrig_core::{ConnectionEvent, Data, Endpoint, Instant, StreamId};
use netrig_transport::{Connection, Control, Counters, Incident, Packet, PathId, PathStatus, sctp, tcp};

/// One end of a connection. Calls are dispatched by `match` and not through a trait object, because every packet passes
/// here.
pub(crate) enum TransportEndpoint {
    Tcp(Box<tcp::Connection>),
    Sctp(Box<sctp::Association>),
}

macro_rules! dispatch {
    ($endpoint:expr, $end:ident => $call:expr) => {
        match $endpoint {
            TransportEndpoint::Tcp($end) => $call,
            TransportEndpoint::Sctp($end) => $call,
        }
    };
}

impl TransportEndpoint {
    pub fn open(&mut self, now: Instant) {
        dispatch!(self, end => end.open(now));
    }

    pub fn send(&mut self, now: Instant, stream: StreamId, data: Data) {
        dispatch!(self, end => end.send(now, stream, data));
    }

    pub fn close(&mut self, now: Instant) {
        dispatch!(self, end => end.close(now));
    }

    pub fn control(&mut self, now: Instant, control: Control) {
        dispatch!(self, end => end.control(now, control));
    }

    #[inline]
    pub fn take_packet(&mut self, now: Instant, packet: &mut Packet) {
        dispatch!(self, end => end.take_packet(now, packet));
    }

    pub fn set_reading(&mut self, reading: bool) {
        dispatch!(self, end => end.set_reading(reading));
    }

    pub fn read(&mut self, bytes: u64) -> u64 {
        dispatch!(self, end => end.read(bytes))
    }

    pub fn ignore_data(&mut self) {
        dispatch!(self, end => end.ignore_data());
    }

    #[inline]
    pub fn take_ignored(&mut self) -> u64 {
        dispatch!(self, end => end.take_ignored())
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        dispatch!(self, end => end.handle_timeout(now));
    }

    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        dispatch!(self, end => end.poll_timeout())
    }

    #[inline]
    pub fn is_silent(&self, now: Instant) -> bool {
        dispatch!(self, end => end.is_silent(now))
    }

    #[inline]
    pub fn ignores_more_data(&self, now: Instant) -> bool {
        dispatch!(self, end => end.ignores_more_data(now))
    }

    #[inline]
    pub fn has_plenty(&self) -> bool {
        dispatch!(self, end => end.has_plenty())
    }

    pub fn send_late(&mut self, now: Instant, stream: StreamId, data: Data) {
        dispatch!(self, end => end.send_late(now, stream, data));
    }

    #[inline]
    pub fn transmit_into(&mut self, now: Instant, place: &mut Packet) -> bool {
        dispatch!(self, end => end.transmit_into(now, place))
    }

    #[inline]
    pub fn poll_event(&mut self) -> Option<ConnectionEvent> {
        dispatch!(self, end => end.poll_event())
    }

    #[inline]
    pub fn poll_incident(&mut self) -> Option<Incident> {
        dispatch!(self, end => end.poll_incident())
    }

    /// Whether the host may forget the connection after it has closed. TCP must still answer late segments (TIME-WAIT);
    /// SCTP need not.
    pub fn may_be_forgotten(&self) -> bool {
        match self {
            Self::Tcp(connection) => connection.is_over(),
            Self::Sctp(_) => true,
        }
    }

    #[inline]
    pub fn arrived(&self) -> u64 {
        dispatch!(self, end => end.arrived())
    }

    pub fn counters(&self) -> Counters {
        dispatch!(self, end => end.counters())
    }

    pub fn path_status(&self, path: PathId) -> Option<PathStatus> {
        dispatch!(self, end => end.path_status(path))
    }
}
