//! The near end of a receiver.

use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};

use netrig_core::Duration;

use super::protocol::{ReceivedDatagram, ReceiverReply, ReceiverRequest, read_arrivals};
use crate::ProbeError;
use crate::control::{ControlConnection, FromProbe, call};
use crate::stamp::HmacKey;
use netrig_host::frames::{read_frame, write_frame};
use netrig_host::{HostAddress, monotonic_nanos};

/// Round trips that are made to see how the clocks stand.
const PINGS: usize = 10;

/// A receiver that takes what we send.
#[derive(Debug)]
pub struct Remote {
    target: SocketAddr,
    stream: BufReader<TcpStream>,
    one_clock: bool,
    round_trip: Duration,
}

/// What a receiver tells of datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedDatagrams {
    /// Those that came, in this order.
    pub arrivals: Vec<ReceivedDatagram>,
    /// Those that its socket had no room for.
    pub dropped: u32,
    /// By how much its wall clock was stepped meanwhile.
    pub stepped: Option<Duration>,
}

impl Remote {
    /// Connects, and is let in.
    ///
    /// # Errors
    /// If nobody listens there, or it does not let us in.
    pub fn connect(target: SocketAddr, key: Option<&HmacKey>) -> Result<Self, ProbeError> {
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

    /// Where it is.
    pub const fn target(&self) -> SocketAddr {
        self.target
    }

    /// Our address, as seen from here.
    pub(crate) fn local(&self) -> Result<SocketAddr, ProbeError> {
        self.stream.get_ref().local_addr().map_err(ProbeError::kernel("getsockname"))
    }

    /// The shortest of some round trips over the control connection: the path's, and both programs' waking.
    pub const fn round_trip(&self) -> Duration {
        self.round_trip
    }

    fn measure(&mut self) -> Result<Duration, ProbeError> {
        let mut shortest = Duration::from_secs(3600);
        for _ in 0..PINGS {
            let before = monotonic_nanos();
            let ReceiverReply::Pong = self.ask(&ReceiverRequest::Ping)? else {
                return Err(ProbeError::Unexpected("no pong"));
            };
            shortest = shortest.min(Duration::from_nanos(monotonic_nanos() - before));
        }
        Ok(shortest)
    }

    fn ask(&mut self, request: &ReceiverRequest) -> Result<ReceiverReply, ProbeError> {
        write_frame(self.stream.get_mut(), request)?;
        self.read_reply()
    }

    fn read_reply(&mut self) -> Result<ReceiverReply, ProbeError> {
        match read_frame(&mut self.stream)? {
            Some(ReceiverReply::Error { why }) => Err(self.refusal(&why)),
            Some(answer) => Ok(answer),
            None => Err(ProbeError::Unexpected("it hung up")),
        }
    }

    fn ready(&mut self, request: &ReceiverRequest) -> Result<SocketAddr, ProbeError> {
        match self.ask(request)? {
            ReceiverReply::Ready { port } => Ok(HostAddress::from(self.target).at(port)),
            _ => Err(ProbeError::Unexpected("no port")),
        }
    }

    /// Has it take datagrams for `lasts`, the first `keep` bytes of each. Where to send them.
    pub(crate) fn receive(&mut self, lasts: Duration, keep: u16) -> Result<SocketAddr, ProbeError> {
        self.ready(&ReceiverRequest::Receive { lasts_ms: lasts.as_nanos() / 1_000_000, keep })
    }

    /// Whether its clock is ours; of another nothing is known.
    pub(crate) const fn has_our_clock(&self) -> bool {
        self.one_clock
    }

    /// All was sent. What came.
    pub(crate) fn report(&mut self) -> Result<ReceivedDatagrams, ProbeError> {
        match self.ask(&ReceiverRequest::Sent)? {
            ReceiverReply::Came { datagrams, dropped, stepped_ns } => {
                let arrivals =
                    read_arrivals(&mut self.stream, datagrams).map_err(ProbeError::kernel("report"))?;
                Ok(ReceivedDatagrams { arrivals, dropped, stepped: stepped_ns.map(Duration::from_nanos) })
            }
            _ => Err(ProbeError::Unexpected("no report")),
        }
    }

    /// Has it take connections. Where to make them.
    pub(crate) fn sink(&mut self, connections: u16, lasts: Duration) -> Result<SocketAddr, ProbeError> {
        let lasts_ms = lasts.as_nanos() / 1_000_000;
        self.ready(&ReceiverRequest::Sink { connections, lasts_ms })
    }

    /// Waits until all connections have ended. How many bytes came.
    pub(crate) fn sunk(&mut self) -> Result<u64, ProbeError> {
        match self.read_reply()? {
            ReceiverReply::Sunk { bytes } => Ok(bytes),
            _ => Err(ProbeError::Unexpected("no count")),
        }
    }
}
