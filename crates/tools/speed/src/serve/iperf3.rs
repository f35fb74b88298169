//! The server side of an iperf3 session.

use std::io::{self, ErrorKind, Read as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_core::{Duration, Instant, Rate};
use netrig_host::InterruptibleStream;

use super::registry::TestArrival;
use super::response::send;
use super::shared::{ServedConnection, ServerShared};
use super::slot::{BudgetExceeded, Slot};
use super::tally::{ClientProtocol, ServiceFailure};
use crate::admission;
use crate::flows::{self, Flows, FlowsOrder, StreamSocket, TestStream};
use crate::iperf3::{
    Cookie, Iperf3Code, Iperf3Refusal, MOST_STREAMS, ServerEvent, ServerOutput, ServerSession, SessionError,
    StreamResult, TestLimits, TestParameters, TestResults, TestRole, TestTransport, datagram,
};

/// Maximum wait for a control message before other events are checked.
const LOOK: StdDuration = StdDuration::from_millis(5);

/// Maximum number of arrivals that are handled before other events are checked.
const AT_ONCE: usize = 64;

/// Part of a session's time that is reserved for the exchange of parameters and results, not for the test.
const AROUND: Duration = Duration::from_secs(5);

/// Time that a client has to read the reason after its session is aborted.
const GOODBYE: Duration = Duration::from_secs(1);

/// Interval of reported readings, as in iperf3's own server.
const EVERY: Duration = Duration::from_secs(1);

/// Why a session failed.
#[derive(Debug, thiserror::Error)]
enum Iperf3Error {
    #[error("iperf3: {0}")]
    Session(#[from] SessionError),
    #[error("iperf3: {0}")]
    Overrun(#[from] BudgetExceeded),
    #[error("iperf3: the server stops")]
    Ending,
    #[error("iperf3: sending or receiving data failed: {0}")]
    Carrying(#[from] io::Error),
}

impl ServiceFailure for Iperf3Error {
    fn kind(&self) -> &'static str {
        match self {
            Self::Overrun(overrun) => overrun.kind(),
            Self::Ending => "ending",
            Self::Carrying(_) => "carrying",
            Self::Session(error) => match error {
                SessionError::Closed(_) | SessionError::Terminated(_) => "gone",
                SessionError::Silent(_) => "silent",
                SessionError::Expired => "time",
                SessionError::Stopped(_) | SessionError::Busy | SessionError::Refused(_) => "refused",
                _ => "violation",
            },
        }
    }
}

/// Serves a client and counts its failure, if any.
pub(super) fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    cookie: Cookie,
    arrivals: Receiver<TestArrival>,
    caller: &ServedConnection,
) {
    let shared: &ServerShared = caller;
    let _registration = TestRegistration { shared, host: peer.ip(), cookie };
    if let Err(error) =
        Iperf3Session::begin(socket, peer, cookie, arrivals, caller).and_then(|mut session| session.serve())
    {
        shared.tally.failed(ClientProtocol::Iperf3, &error);
    }
}

/// Removes the registration of a session when this value is dropped. The next session of the same host may wait for its
/// turn until then.
struct TestRegistration<'a> {
    shared: &'a ServerShared,
    host: IpAddr,
    cookie: Cookie,
}

impl Drop for TestRegistration<'_> {
    fn drop(&mut self) {
        self.shared.tests.close(self.host, self.cookie);
    }
}

/// The stage of a session. The slot is held until the data flow has stopped.
enum TestStage<'a> {
    /// The parameters have not arrived yet.
    Arriving,
    /// The session was refused.
    TurnedAway,
    /// The session is admitted. It waits until no other test of its host opens UDP streams.
    Waiting(Slot<'a>),
    /// The streams are being opened.
    Opening(Slot<'a>, Vec<TestStream>),
    /// Data flows.
    Carrying(Slot<'a>, Box<Flows>),
    /// Data has stopped, and both ends exchange results.
    Telling(Slot<'a>),
    /// The results were exchanged, and the slot is free.
    Told,
}

impl<'a> TestStage<'a> {
    const fn slot(&mut self) -> Option<&mut Slot<'a>> {
        match self {
            Self::Waiting(slot) | Self::Opening(slot, _) | Self::Carrying(slot, _) | Self::Telling(slot) => {
                Some(slot)
            }
            Self::Arriving | Self::TurnedAway | Self::Told => None,
        }
    }

    const fn flows(&self) -> Option<&Flows> {
        match self {
            Self::Carrying(_, flows) => Some(flows),
            _ => None,
        }
    }
}

/// A running session.
struct Iperf3Session<'a> {
    shared: &'a ServedConnection,
    socket: TcpStream,
    ends: [SocketAddr; 2],
    cookie: Cookie,
    arrivals: Receiver<TestArrival>,
    session: ServerSession,
    stage: TestStage<'a>,
    asked: TestParameters,
    /// A failure that the state machine of the session does not detect.
    broken: Option<Iperf3Error>,
}

impl<'a> Iperf3Session<'a> {
    fn begin(
        socket: TcpStream,
        peer: SocketAddr,
        cookie: Cookie,
        arrivals: Receiver<TestArrival>,
        shared: &'a ServedConnection,
    ) -> Result<Self, Iperf3Error> {
        socket.set_nodelay(true)?;
        let seconds = (shared.limits.max_time - AROUND).as_nanos() / 1_000_000_000;
        let limits = TestLimits {
            time: seconds.try_into().unwrap_or(u32::MAX).max(1),
            streams: 2 * MOST_STREAMS,
            rate: shared.limits.max_rate.map(Rate::bits_per_s),
        };
        Ok(Self {
            shared,
            ends: [socket.local_addr()?, peer],
            socket,
            cookie,
            arrivals,
            session: ServerSession::new(shared.clock.now(), limits),
            stage: TestStage::Arriving,
            asked: TestParameters::default(),
            broken: None,
        })
    }

    fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    fn serve(&mut self) -> Result<(), Iperf3Error> {
        let mut buffer = vec![0; 4096];
        loop {
            while let Some(event) = self.session.poll_event() {
                if let ServerEvent::Over(outcome) = event {
                    // The client may have closed its connection, so the error of the flush is ignored.
                    let flushed = self.flush();
                    return match self.broken.take() {
                        Some(broken) => {
                            self.wait_until_gone(&mut buffer);
                            Err(broken)
                        }
                        // A refusal has its own counter and does not count as a failure.
                        None if matches!(self.stage, TestStage::TurnedAway) => Ok(()),
                        None => outcome.map_err(Into::into).and(flushed.or(Ok(()))),
                    };
                }
                self.handle(event);
            }
            self.flush()?;
            match self.read(&mut buffer) {
                Ok(0) => self.session.handle_close(),
                Ok(len) => self.session.handle_bytes(self.shared.clock.now(), &buffer[..len]),
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                Err(_) => self.session.handle_close(),
            }
            self.look_for_arrivals();
            self.look_at_turn();
            self.keep_to_budget();
            self.session.handle_timeout(self.shared.clock.now());
        }
    }

    /// Reads from the control connection. Waits for at most [`LOOK`].
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        InterruptibleStream::until(&self.socket, StdInstant::now() + LOOK).read(buffer)
    }

    /// Waits until an aborted client has received the reason. A sending client does not read control messages while its
    /// streams accept data. If the streams were closed, it would only see an error. They therefore stay open, but are
    /// not read, during this wait.
    fn wait_until_gone(&mut self, buffer: &mut [u8]) {
        let until = self.now() + GOODBYE;
        while self.now() < until {
            match self.read(buffer) {
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }

    fn flush(&mut self) -> Result<(), Iperf3Error> {
        while let Some(bytes) = self.session.poll_transmit() {
            send(&self.socket, &bytes)?;
        }
        Ok(())
    }

    fn handle(&mut self, event: ServerEvent) {
        match event {
            ServerEvent::Asked(asked) => self.admit(*asked),
            ServerEvent::Start => self.start(),
            ServerEvent::Stop => self.stop(),
            ServerEvent::Results(_) => self.stage = TestStage::Told,
            ServerEvent::Over(_) => {}
        }
    }

    /// Requests admission with the rate in each direction. `asked` contains the rate. A session of iperf3 cannot wait
    /// in the queue.
    fn admit(&mut self, asked: TestParameters) {
        if self.shared.prove().is_err() {
            self.stage = TestStage::TurnedAway;
            self.session.deny();
            return;
        }
        let rate = Some(asked.total_rate()).filter(|rate| *rate > 0).map(Rate::from_bits_per_s);
        self.asked = asked;
        match Slot::ask_at_once(self.shared, ClientProtocol::Iperf3, self.ends[1], rate) {
            Ok(slot) => {
                self.stage = TestStage::Waiting(slot);
                self.look_at_turn();
            }
            Err(refusal) => {
                self.stage = TestStage::TurnedAway;
                match refusal {
                    admission::AdmissionRefusal::TooMuch => {
                        self.session.refuse(Iperf3Code::TOTAL_RATE.into())
                    }
                    _ => self.session.deny(),
                }
            }
        }
    }

    fn look_at_turn(&mut self) {
        let has_turn = || {
            self.asked.transport != TestTransport::Udp
                || self.shared.tests.ask(self.ends[1].ip(), self.cookie)
        };
        self.stage = match std::mem::replace(&mut self.stage, TestStage::Told) {
            TestStage::Waiting(slot) if has_turn() => {
                self.session.admit(self.shared.clock.now());
                TestStage::Opening(slot, Vec::new())
            }
            stage => stage,
        };
    }

    /// Handles the arrivals for this session.
    fn look_for_arrivals(&mut self) {
        let arrivals: Vec<TestArrival> = self.arrivals.try_iter().take(AT_ONCE).collect();
        for arrival in arrivals {
            if let Err(error) = self.open(arrival) {
                self.session.refuse(Iperf3Refusal {
                    code: Iperf3Code::ACCEPT,
                    errno: error.raw_os_error().unwrap_or(0),
                });
                self.broken = Some(error.into());
            }
        }
    }

    fn open(&mut self, arrival: TestArrival) -> io::Result<()> {
        let TestStage::Opening(_, streams) = &mut self.stage else { return Ok(()) };
        let is_udp = self.asked.transport == TestTransport::Udp;
        let (ends, socket, words) = match arrival {
            TestArrival::Stream(stream) if !is_udp => {
                ([stream.local_addr()?, stream.peer_addr()?], StreamSocket::Tcp(stream), None)
            }
            // The datagram that opens a stream may arrive twice; the copy is ignored.
            TestArrival::Datagram(from, payload)
                if is_udp && !streams.iter().any(|stream| stream.ends[1] == from) =>
            {
                let socket = self.shared.datagram_socket(self.ends[0], from)?;
                ([self.ends[0], from], StreamSocket::Udp(socket), datagram::reply(&payload))
            }
            _ => return Ok(()),
        };
        let Some((id, receives)) = self.session.open_stream(self.shared.clock.now()) else { return Ok(()) };
        let stream = TestStream { id, sends: !receives, ends, socket };
        if let Err(refusal) = stream.set_options(&self.asked) {
            self.session.refuse(refusal);
            return Ok(());
        }
        if let (StreamSocket::Udp(socket), Some(words)) = (&stream.socket, words) {
            socket.send(&words)?;
        }
        streams.push(stream);
        Ok(())
    }

    fn start(&mut self) {
        self.shared.tests.opened(self.ends[1].ip(), self.cookie);
        let TestStage::Opening(slot, streams) = std::mem::replace(&mut self.stage, TestStage::Told) else {
            return;
        };
        let order = FlowsOrder { asked: self.asked.clone(), every: EVERY, most: slot.held_to() };
        match Flows::begin(order, streams) {
            Ok(flows) => self.stage = TestStage::Carrying(slot, Box::new(flows)),
            Err(error) => self.break_off(error.into()),
        }
    }

    /// Closes the streams and sends the results, after the client has ended the test.
    fn stop(&mut self) {
        let TestStage::Carrying(mut slot, flows) = std::mem::replace(&mut self.stage, TestStage::Told) else {
            return;
        };
        let (counter, mut spent) = (flows.transfer.counter(), Ok(()));
        let ended = flows.end(&mut |bytes| {
            spent = slot.spend(bytes);
            spent.is_ok() && !self.shared.stop.load(Ordering::Relaxed)
        });
        self.stage = TestStage::Telling(slot);
        let found = match (ended, spent) {
            (_, Err(overrun)) => return self.break_off(overrun.into()),
            (Err(error), Ok(())) => return self.break_off(error.into()),
            (Ok(found), Ok(())) => found,
        };
        if !self.spends(counter.bytes()) {
            return;
        }
        let (host, port) = (self.ends[1].ip().to_canonical().to_string(), self.ends[1].port());
        let role = TestRole::Server { host, port };
        let start = flows::start(role, self.cookie.to_string(), self.asked.clone());
        let is_wanted = self.asked.server_output;
        self.session.results(self.now(), move |theirs| {
            let mut results = found.results();
            if is_wanted {
                let document = found.document(start, Some(&as_its_server_knows(theirs)));
                let document = serde_json::from_str(&document.json());
                results.server_output = document.ok().map(ServerOutput::Json);
            }
            results
        });
    }

    fn keep_to_budget(&mut self) {
        self.spends(self.stage.flows().map_or([0; 2], |flows| flows.transfer.counter().bytes()));
        if self.shared.stop.load(Ordering::Relaxed) {
            self.break_off(Iperf3Error::Ending);
        }
    }

    /// Charges the bytes to the budget. If the budget is exceeded, aborts the session and returns false.
    fn spends(&mut self, bytes: [u64; 2]) -> bool {
        let spent = self.stage.slot().map_or(Ok(()), |slot| slot.spend(bytes));
        spent.map_err(|overrun| self.break_off(overrun.into())).is_ok()
    }

    /// Aborts the session with a message of iperf3's protocol.
    fn break_off(&mut self, why: Iperf3Error) {
        if self.broken.is_none() {
            match &why {
                Iperf3Error::Overrun(BudgetExceeded::Time) => self.session.refuse(Iperf3Code::EXPIRED.into()),
                Iperf3Error::Overrun(BudgetExceeded::Bytes | BudgetExceeded::Rate) => {
                    self.session.refuse(Iperf3Code::TOTAL_RATE.into());
                }
                _ => self.session.terminate(),
            }
            self.broken = Some(why);
            if let Some(flows) = self.stage.flows() {
                flows.transfer.halt();
            }
        }
    }
}

/// The part of a client's results that a server's document contains. Like iperf3, the document has the bytes and
/// datagrams of the client, but not its retransmissions and its congestion control.
fn as_its_server_knows(theirs: &TestResults) -> TestResults {
    let known = |stream: &StreamResult| StreamResult { retransmits: None, ..*stream };
    TestResults { congestion: None, streams: theirs.streams.iter().map(known).collect(), ..theirs.clone() }
}
