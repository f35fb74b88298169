//! The client of an iperf3 server.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use netrig_bulk::datagram_socket;
use netrig_core::Duration;
use netrig_host::socket::Buffers;
use netrig_host::{Clock, HostAddress, is_transient, random};

use super::found::start;
use super::{Flows, FlowsOrder, StreamSocket, TestFindings, TestStream};
use crate::control::{PATIENCE, request_datagrams};
use crate::iperf3::{
    ClientEvent, ClientSession, Cookie, DocumentStart, Iperf3Refusal, SessionError, TestDocument,
    TestParameters, TestResults, TestRole, TestTransport, datagram, stream_id,
};

/// Maximum wait for a control message before other events are checked.
const LOOK: StdDuration = StdDuration::from_millis(5);

/// Time after which the datagram that opens a UDP stream is sent again.
const AGAIN: StdDuration = StdDuration::from_secs(3);

/// The order of a test.
#[derive(Clone, Debug)]
pub struct TestOrder {
    /// The address and port of the server.
    pub server: SocketAddr,
    /// The name of the server as the user gave it.
    pub host: String,
    /// The requested parameters.
    pub asked: TestParameters,
    /// Interval between readings.
    pub every: Duration,
}

/// The outcome of a test.
#[derive(Debug)]
pub struct TestOutcome {
    /// The start section of the document.
    pub start: DocumentStart,
    /// The addresses of the control connection, this host first.
    pub ends: [SocketAddr; 2],
    /// The result of this end.
    pub found: TestFindings,
    /// The results of the server, if received.
    pub theirs: Option<TestResults>,
    /// Why the test ended early. The results are then partial.
    pub error: Option<TestError>,
}

/// Why a test failed or ended early.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// The connection failed.
    #[error("no connection to {server}: {source}")]
    Connect {
        /// The address of the server.
        server: SocketAddr,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The server answers no datagrams.
    #[error("{server} answers no datagrams: {source}; is its port open for UDP, too?")]
    NoDatagrams {
        /// The address of the server.
        server: SocketAddr,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The control session failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// This host refuses an option of the test.
    #[error("this host refuses: {0}")]
    Option(Iperf3Refusal),
    /// This end failed to send or receive data.
    #[error("sending or receiving data failed: {0}")]
    Carrying(#[from] io::Error),
    /// The user interrupted the test.
    #[error("interrupted")]
    Interrupted,
}

impl TestOutcome {
    /// The document that `iperf3 -c -J` would print.
    pub fn document(&self) -> TestDocument {
        let document = self.found.document(self.start.clone(), self.theirs.as_ref());
        TestDocument { error: self.error.as_ref().map(ToString::to_string), ..document }
    }
}

/// Runs a test. `watch` is called repeatedly with the time since data began to flow, s, and the bytes received and
/// sent.
///
/// # Errors
/// If no data was transferred. If the test ended early, the outcome has the partial results and the error.
pub fn test(
    order: &TestOrder,
    cancel: &AtomicBool,
    watch: &mut dyn FnMut(f64, [u64; 2]),
) -> Result<TestOutcome, TestError> {
    let mut call = ClientTest::connect(order)?;
    let error = call.carry(cancel, watch).err();
    let found = match (call.found.take(), call.flows.take(), error) {
        (Some(found), _, error) => Ok((found, error)),
        (None, Some(flows), error) => {
            flows.end(&mut |_| true).map(|found| (found, error)).map_err(TestError::Carrying)
        }
        (None, None, error) => Err(error.unwrap_or(TestError::Interrupted)),
    };
    let (found, error) = found?;
    let role = TestRole::Client { host: order.host.clone(), port: order.server.port() };
    let start = start(role, call.cookie.to_string(), order.asked.clone());
    Ok(TestOutcome { start, ends: [call.local, order.server], found, theirs: call.theirs, error })
}

/// A running test.
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
                        // The server may have closed the connection before the last message, so the error is ignored.
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
                Err(error) if is_transient(&error) => {}
                Err(_) => self.session.handle_close(),
            }
            if let Some(flows) = &self.flows {
                let lasts = netrig_host::monotonic_nanos() - flows.transfer.begun();
                watch(lasts as f64 * 1e-9, flows.transfer.counter().bytes());
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

    /// Opens all streams. Uploading streams are first in the result.
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
                    request_datagrams(&socket, &datagram::CONNECT, AGAIN, datagram::is_reply)
                        .map_err(failed)?;
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
        self.flows.as_mut().map_or(Ok(None), |flows| flows.transfer.stop_sending())?;
        self.session.stop(self.clock.now());
        Ok(())
    }

    /// The server has stopped the test: ends the streams and sends the results to the server.
    fn stop(&mut self) -> Result<(), TestError> {
        if let Some(flows) = self.flows.take() {
            let found = flows.end(&mut |_| true)?;
            self.session.results(self.clock.now(), &found.results());
            self.found = Some(found);
        }
        Ok(())
    }
}
