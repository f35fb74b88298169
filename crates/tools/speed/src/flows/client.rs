//! The client's end: calls a server of iperf3, and carries a test.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_bulk::datagram_socket;
use netrig_core::Duration;
use netrig_host::socket::Buffers;
use netrig_host::{Clock, HostAddress, random};

use super::found::start;
use super::{Flows, FlowsOrder, StreamSocket, TestFindings, TestStream};
use crate::iperf3::{
    ClientEvent, ClientSession, Cookie, DocumentStart, Iperf3Refusal, SessionError, TestDocument,
    TestParameters, TestResults, TestRole, TestTransport, datagram, stream_id,
};
use crate::talk::{PATIENCE, is_nothing};

/// How often it looks at what has come beside words.
const LOOK: StdDuration = StdDuration::from_millis(5);

/// A server that has not answered the words that open a stream over UDP is asked again after so long.
const AGAIN: StdDuration = StdDuration::from_secs(3);

/// What is to be tested.
#[derive(Clone, Debug)]
pub struct TestOrder {
    /// Where the server is.
    pub server: SocketAddr,
    /// Its name, as it was given.
    pub host: String,
    /// What is asked for.
    pub asked: TestParameters,
    /// Time between two readings.
    pub every: Duration,
}

/// What came of a test.
#[derive(Debug)]
pub struct TestOutcome {
    /// What was known when it began.
    pub start: DocumentStart,
    /// The control connection's ends, this host's first.
    pub ends: [SocketAddr; 2],
    /// What this end has found.
    pub found: TestFindings,
    /// What the server says that it has.
    pub theirs: Option<TestResults>,
    /// Why it did not come to its end: what was found until then is partial.
    pub error: Option<TestError>,
}

/// Why a test did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// Nobody is there.
    #[error("no connection to {server}: {source}")]
    Connect {
        /// Where.
        server: SocketAddr,
        /// What the kernel answered.
        source: io::Error,
    },
    /// It does not answer datagrams.
    #[error("{server} answers no datagram: {source}; is its port open for UDP, too?")]
    NoDatagrams {
        /// Where.
        server: SocketAddr,
        /// What the kernel answered.
        source: io::Error,
    },
    /// What was said came to no good end.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// This host refuses what was asked for.
    #[error("this host refuses: {0}")]
    Option(Iperf3Refusal),
    /// This end cannot carry data.
    #[error("data could not be carried: {0}")]
    Carrying(#[from] io::Error),
    /// Somebody interrupted it.
    #[error("interrupted")]
    Interrupted,
}

impl TestOutcome {
    /// As `iperf3 -c -J` would print it.
    pub fn document(&self) -> TestDocument {
        let document = self.found.document(self.start.clone(), self.theirs.as_ref());
        TestDocument { error: self.error.as_ref().map(ToString::to_string), ..document }
    }
}

/// Carries out a test: `watch` is told now and then for how long data flows, s, and how many bytes were received and sent.
///
/// # Errors
/// If no data flowed. What was found before something broke is told with it.
pub fn test(
    order: &TestOrder,
    cancel: &AtomicBool,
    watch: &mut dyn FnMut(f64, [u64; 2]),
) -> Result<TestOutcome, TestError> {
    let mut call = ClientTest::connect(order)?;
    let error = call.carry(cancel, watch).err();
    let found = match (call.found.take(), call.flows.take(), error) {
        (Some(found), _, error) => Ok((found, error)),
        (None, Some(flows), error) => flows.end().map(|found| (found, error)).map_err(TestError::Carrying),
        (None, None, error) => Err(error.unwrap_or(TestError::Interrupted)),
    };
    let (found, error) = found?;
    let role = TestRole::Client { host: order.host.clone(), port: order.server.port() };
    let start = start(role, call.cookie.to_string(), order.asked.clone());
    Ok(TestOutcome { start, ends: [call.local, order.server], found, theirs: call.theirs, error })
}

/// A test that lasts.
struct ClientTest<'a> {
    order: &'a TestOrder,
    control: TcpStream,
    local: SocketAddr,
    cookie: Cookie,
    clock: Clock,
    session: ClientSession,
    flows: Option<Flows>,
    found: Option<TestFindings>,
    theirs: Option<TestResults>,
}

impl<'a> ClientTest<'a> {
    fn connect(order: &'a TestOrder) -> Result<Self, TestError> {
        let absent = |source| TestError::Connect { server: order.server, source };
        let control = TcpStream::connect_timeout(&order.server, PATIENCE).map_err(absent)?;
        control.set_nodelay(true)?;
        control.set_read_timeout(Some(LOOK))?;
        control.set_write_timeout(Some(PATIENCE))?;
        let halves: [[u8; 32]; 2] = [random()?, random()?];
        let cookie = Cookie::new(std::array::from_fn(|at| halves.as_flattened()[at]));
        let clock = Clock::starting_in(Duration::ZERO);
        let session = ClientSession::new(clock.now(), cookie, order.asked.clone());
        let local = control.local_addr().map_err(absent)?;
        let (flows, found, theirs) = (None, None, None);
        Ok(Self { order, control, local, cookie, clock, session, flows, found, theirs })
    }

    fn carry(&mut self, cancel: &AtomicBool, watch: &mut dyn FnMut(f64, [u64; 2])) -> Result<(), TestError> {
        let (mut streams, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            while let Some(event) = self.session.poll_event() {
                match event {
                    ClientEvent::Open => streams = self.open()?,
                    ClientEvent::Start => self.start(std::mem::take(&mut streams))?,
                    ClientEvent::TimeUp => self.time_up()?,
                    ClientEvent::Stop => self.stop()?,
                    ClientEvent::Results(theirs) => self.theirs = Some(*theirs),
                    ClientEvent::Over(outcome) => {
                        // The server may have gone before the last word.
                        let _ = self.flush();
                        return if cancel.load(Ordering::Relaxed) {
                            Err(TestError::Interrupted)
                        } else {
                            Ok(outcome?)
                        };
                    }
                }
            }
            self.flush()?;
            match self.control.read(&mut buffer) {
                Ok(0) => self.session.handle_close(),
                Ok(len) => self.session.handle_bytes(self.clock.now(), &buffer[..len]),
                Err(error) if is_nothing(&error) => {}
                Err(_) => self.session.handle_close(),
            }
            if let Some(flows) = &self.flows {
                let lasts = netrig_host::monotonic_nanos() - flows.begun();
                watch(lasts as f64 * 1e-9, flows.counter().bytes());
            }
            if cancel.load(Ordering::Relaxed) {
                self.session.terminate();
            }
            self.session.handle_timeout(self.clock.now());
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while let Some(bytes) = self.session.poll_transmit() {
            self.control.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Opens all streams, those that upload first.
    fn open(&self) -> Result<Vec<TestStream>, TestError> {
        let asked = &self.order.asked;
        let server = self.order.server;
        let one = |nth| {
            let (local, socket) = match asked.transport {
                TestTransport::Udp => {
                    let failed = |source| TestError::NoDatagrams { server, source };
                    let local = HostAddress::from(self.local).at(0);
                    let socket = datagram_socket(local, server, Buffers::default());
                    let socket = socket.map_err(io::Error::other).map_err(failed)?;
                    knock(&socket).map_err(failed)?;
                    (socket.local_addr()?, StreamSocket::Udp(socket))
                }
                _ => {
                    let failed = |source| TestError::Connect { server, source };
                    let mut socket = TcpStream::connect_timeout(&server, PATIENCE).map_err(failed)?;
                    socket.write_all(&self.cookie.bytes()).map_err(failed)?;
                    (socket.local_addr()?, StreamSocket::Tcp(socket))
                }
            };
            let stream =
                TestStream { id: stream_id(nth), sends: asked.uploads(nth), ends: [local, server], socket };
            stream.set_options(asked).map_err(TestError::Option)?;
            Ok(stream)
        };
        (0..asked.streams()).map(one).collect()
    }

    fn start(&mut self, streams: Vec<TestStream>) -> Result<(), TestError> {
        let order = FlowsOrder { asked: self.order.asked.clone(), every: self.order.every, most: None };
        self.flows = Some(Flows::begin(order, streams)?);
        Ok(())
    }

    fn time_up(&mut self) -> Result<(), TestError> {
        self.flows.as_mut().map_or(Ok(()), Flows::stop_sending)?;
        self.session.stop(self.clock.now());
        Ok(())
    }

    /// The server has stopped: tells it what was found.
    fn stop(&mut self) -> Result<(), TestError> {
        if let Some(flows) = self.flows.take() {
            let found = flows.end()?;
            self.session.results(self.clock.now(), &found.results());
            self.found = Some(found);
        }
        Ok(())
    }
}

/// Opens a stream over UDP: asks until the server answers.
fn knock(socket: &UdpSocket) -> io::Result<()> {
    let until = StdInstant::now() + PATIENCE;
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(AGAIN))?;
    let mut words = [0; 5];
    while StdInstant::now() < until {
        socket.send(&datagram::CONNECT)?;
        match socket.recv(&mut words) {
            Ok(len) if datagram::is_reply(&words[..len]) => return Ok(()),
            Ok(_) => {}
            Err(error) if is_nothing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::TimedOut.into())
}
