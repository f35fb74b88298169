//! The near end's connection to a receiver.

use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};

use netrig_core::Duration;

use super::protocol::{ReceivedDatagram, ReceiverReply, ReceiverRequest, read_arrivals};
use crate::control::{ControlConnection, FromProbe, call};
use crate::stamp::HmacKey;
use crate::{ProbeError, ProbeResult};
use netrig_host::frames::{read_frame, write_frame};
use netrig_host::readable;
use netrig_host::{HostAddress, monotonic_nanos};

/// Number of round trips measured over the control connection.
const PINGS: usize = 10;

/// The near end's connection to a receiver.
#[derive(Debug)]
pub struct Remote {
    target: SocketAddr,
    stream: BufReader<TcpStream>,
    one_clock: bool,
    round_trip: Duration,
}

/// A receiver's report on datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedDatagrams {
    /// Arrived datagrams in the order of their arrival.
    pub arrivals: Vec<ReceivedDatagram>,
    /// Number of datagrams that the receiver's socket dropped.
    pub dropped: u32,
    /// Step of the receiver's wall clock during the stream.
    pub stepped: Option<Duration>,
}

impl Remote {
    /// Connects to a receiver and authenticates both sides.
    ///
    /// Fails if no far end listens at the address, or if the far end refuses the probe.
    pub fn connect(target: SocketAddr, key: Option<&HmacKey>) -> ProbeResult<Self> {
        let ControlConnection { mut stream, one_clock } = call(target, key)?;
        write_frame(&mut stream, &FromProbe::Media)?;
        let mut remote =
            Self { target, stream: BufReader::new(stream), one_clock, round_trip: Duration::ZERO };
        remote.round_trip = remote.measure()?;
        Ok(remote)
    }

    fn refusal(&self, why: &str) -> ProbeError {
        ProbeError::Refused { target: self.target, why: why.to_owned() }
    }

    /// Address of the receiver.
    pub const fn target(&self) -> SocketAddr {
        self.target
    }

    /// Local address of the control connection.
    pub(crate) fn local(&self) -> ProbeResult<SocketAddr> {
        self.stream.get_ref().local_addr().map_err(ProbeError::kernel("getsockname"))
    }

    /// The shortest of several round-trip times over the control connection. It includes the wake-up times of both
    /// programs.
    pub const fn round_trip(&self) -> Duration {
        self.round_trip
    }

    fn measure(&mut self) -> ProbeResult<Duration> {
        let mut shortest = Duration::from_secs(3600);
        for _ in 0..PINGS {
            let before = monotonic_nanos();
            let ReceiverReply::Pong = self.ask(&ReceiverRequest::Ping)? else {
                return Err(ProbeError::Unexpected("no answer to a ping"));
            };
            shortest = shortest.min(Duration::from_nanos(monotonic_nanos() - before));
        }
        Ok(shortest)
    }

    fn ask(&mut self, request: &ReceiverRequest) -> ProbeResult<ReceiverReply> {
        write_frame(self.stream.get_mut(), request)?;
        self.read_reply()
    }

    fn read_reply(&mut self) -> ProbeResult<ReceiverReply> {
        match read_frame(&mut self.stream)? {
            Some(ReceiverReply::Error { why }) => Err(self.refusal(&why)),
            Some(answer) => Ok(answer),
            None => Err(ProbeError::Unexpected("end of the connection")),
        }
    }

    fn ready(&mut self, request: &ReceiverRequest) -> ProbeResult<SocketAddr> {
        match self.ask(request)? {
            ReceiverReply::Ready { port } => Ok(HostAddress::from(self.target).at(port)),
            _ => Err(ProbeError::Unexpected("no port")),
        }
    }

    /// Asks the receiver to accept datagrams for `lasts` and to keep the first `keep` bytes of each. Returns the
    /// address to send to.
    pub(crate) fn receive(&mut self, lasts: Duration, keep: u16) -> ProbeResult<SocketAddr> {
        self.ready(&ReceiverRequest::Receive { lasts_ms: lasts.as_nanos() / 1_000_000, keep })
    }

    /// Whether the receiver reads the same clock as this host. The offset of another clock is not known.
    pub(crate) const fn has_our_clock(&self) -> bool {
        self.one_clock
    }

    /// Ends the stream and reads the receiver's report.
    pub(crate) fn report(&mut self) -> ProbeResult<ReceivedDatagrams> {
        match self.ask(&ReceiverRequest::Sent)? {
            ReceiverReply::Came { datagrams, dropped, stepped_ns } => {
                let arrivals =
                    read_arrivals(&mut self.stream, datagrams).map_err(ProbeError::kernel("report"))?;
                Ok(ReceivedDatagrams { arrivals, dropped, stepped: stepped_ns.map(Duration::from_nanos) })
            }
            _ => Err(ProbeError::Unexpected("no report")),
        }
    }

    /// Asks the receiver to accept connections for at most `lasts` and to discard their data. Returns the address to
    /// connect to.
    pub(crate) fn sink(&mut self, connections: u16, lasts: Duration) -> ProbeResult<SocketAddr> {
        let lasts_ms = lasts.as_nanos() / 1_000_000;
        self.ready(&ReceiverRequest::Sink { connections, lasts_ms })
    }

    /// Waits briefly for a reply. Returns true if there is one, or if the connection has ended.
    pub(crate) fn has_reply(&self) -> ProbeResult<bool> {
        Ok(!self.stream.buffer().is_empty()
            || readable(self.stream.get_ref()).map_err(ProbeError::kernel("poll"))?)
    }

    /// Waits until all connections are closed. Returns the number of bytes that arrived.
    pub(crate) fn sunk(&mut self) -> ProbeResult<u64> {
        match self.read_reply()? {
            ReceiverReply::Sunk { bytes } => Ok(bytes),
            _ => Err(ProbeError::Unexpected("no byte count")),
        }
    }
}
