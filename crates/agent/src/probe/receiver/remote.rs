//! The near end of a receiver.

use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration as StdDuration;

use netrig_core::Duration;

use super::protocol::{Answer, Arrival, Request, read_arrivals};
use crate::control::{read_frame, write_frame};
use crate::monotonic_nanos;
use crate::probe::ProbeFailure;
use crate::probe::control::{FromProbe, greet_far_end};
use crate::probe::far_end::boot;
use crate::probe::stamp::Key;

/// How long an answer may take.
const PATIENCE: StdDuration = StdDuration::from_secs(10);

/// Round trips that are made to see how the clocks stand.
const PINGS: usize = 10;

/// A receiver that takes what we send.
#[derive(Debug)]
pub struct Remote {
    target: SocketAddr,
    stream: BufReader<TcpStream>,
    clock: FarClock,
    round_trip: Duration,
}

/// What a receiver tells of datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Those that came, in this order.
    pub arrivals: Vec<Arrival>,
    /// Those that its socket had no room for.
    pub dropped: u32,
    /// By how much its wall clock was stepped meanwhile.
    pub stepped: Option<Duration>,
}

/// How the receiver's clock stands to ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FarClock {
    /// It is the same clock: the receiver lives on this host.
    Ours,
    /// Another: nothing is known of it.
    Another,
}

impl Remote {
    /// Connects, and is let in.
    ///
    /// # Errors
    /// If nobody listens there, or it does not let us in.
    pub fn connect(target: SocketAddr, key: Option<&Key>) -> Result<Self, ProbeFailure> {
        let refused = |source| ProbeFailure::Connect { target, source };
        let stream = TcpStream::connect_timeout(&target, PATIENCE).map_err(refused)?;
        stream.set_nodelay(true).map_err(refused)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(refused)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(refused)?;
        let mut stream = BufReader::new(stream);
        let theirs = greet_far_end(stream.get_mut(), key)
            .map_err(|why| ProbeFailure::Refused { target, why: why.to_string() })?;
        write_frame(stream.get_mut(), &FromProbe::Media)?;
        // Ends of one boot of one machine read one clock.
        let clock =
            if boot().is_some_and(|ours| ours == theirs) { FarClock::Ours } else { FarClock::Another };
        let mut remote = Self { target, stream, clock, round_trip: Duration::ZERO };
        remote.round_trip = remote.measure()?;
        Ok(remote)
    }

    fn refusal(&self, why: &str) -> ProbeFailure {
        ProbeFailure::Refused { target: self.target, why: why.to_owned() }
    }

    /// Where it is.
    pub const fn target(&self) -> SocketAddr {
        self.target
    }

    /// Our address, as seen from here.
    pub(crate) fn local(&self) -> Result<SocketAddr, ProbeFailure> {
        self.stream.get_ref().local_addr().map_err(ProbeFailure::step("getsockname"))
    }

    /// The shortest of some round trips over the control connection: the path's, and both programs' waking.
    pub const fn round_trip(&self) -> Duration {
        self.round_trip
    }

    fn measure(&mut self) -> Result<Duration, ProbeFailure> {
        let mut shortest = Duration::from_secs(3600);
        for _ in 0..PINGS {
            let before = monotonic_nanos();
            let Answer::Pong = self.ask(&Request::Ping)? else {
                return Err(ProbeFailure::Unexpected("no pong"));
            };
            shortest = shortest.min(Duration::from_nanos(monotonic_nanos() - before));
        }
        Ok(shortest)
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, ProbeFailure> {
        write_frame(self.stream.get_mut(), request)?;
        self.hear()
    }

    fn hear(&mut self) -> Result<Answer, ProbeFailure> {
        match read_frame(&mut self.stream)? {
            Some(Answer::Error { why }) => Err(self.refusal(&why)),
            Some(answer) => Ok(answer),
            None => Err(ProbeFailure::Unexpected("it hung up")),
        }
    }

    fn ready(&mut self, request: &Request) -> Result<SocketAddr, ProbeFailure> {
        match self.ask(request)? {
            Answer::Ready { port } => Ok((self.target.ip(), port).into()),
            _ => Err(ProbeFailure::Unexpected("no port")),
        }
    }

    /// Has it take datagrams for `lasts`, the first `keep` bytes of each. Where to send them.
    pub(crate) fn receive(&mut self, lasts: Duration, keep: u16) -> Result<SocketAddr, ProbeFailure> {
        self.ready(&Request::Receive { lasts_ms: lasts.as_nanos() / 1_000_000, keep })
    }

    /// How the receiver's clock stands to ours.
    pub(crate) const fn clock(&self) -> FarClock {
        self.clock
    }

    /// All was sent. What came.
    pub(crate) fn came(&mut self) -> Result<Report, ProbeFailure> {
        match self.ask(&Request::Sent)? {
            Answer::Came { datagrams, dropped, stepped_ns } => {
                let arrivals =
                    read_arrivals(&mut self.stream, datagrams).map_err(ProbeFailure::step("report"))?;
                Ok(Report { arrivals, dropped, stepped: stepped_ns.map(Duration::from_nanos) })
            }
            _ => Err(ProbeFailure::Unexpected("no report")),
        }
    }

    /// Has it take connections. Where to make them.
    pub(crate) fn sink(&mut self, connections: u16, lasts: Duration) -> Result<SocketAddr, ProbeFailure> {
        let lasts_ms = lasts.as_nanos() / 1_000_000;
        self.ready(&Request::Sink { connections, lasts_ms })
    }

    /// Waits until all connections have ended. How many bytes came.
    pub(crate) fn sunk(&mut self) -> Result<u64, ProbeFailure> {
        match self.hear()? {
            Answer::Sunk { bytes } => Ok(bytes),
            _ => Err(ProbeFailure::Unexpected("no count")),
        }
    }
}
