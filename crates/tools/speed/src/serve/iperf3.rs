//! A session of iperf3 at the server.

use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_core::{Duration, Instant, Rate};

use super::booths::TestArrival;
use super::shared::{ServedConnection, ServerShared};
use super::slot::{BudgetExceeded, Slot};
use super::tally::{ClientProtocol, ServiceFailure};
use crate::admission;
use crate::flows::{self, Flows, FlowsOrder, StreamSocket, TestStream};
use crate::iperf3::{
    Cookie, Iperf3Code, Iperf3Refusal, MOST_STREAMS, ServerEvent, ServerOutput, ServerSession, SessionError,
    StreamResult, TestLimits, TestParameters, TestResults, TestRole, TestTransport, datagram,
};
use crate::talk::{PATIENCE, is_nothing, write_until};

/// How often it looks at what has come beside words.
const LOOK: StdDuration = StdDuration::from_millis(5);

/// So much of what has come is taken before it looks at everything else again.
const AT_ONCE: usize = 64;

/// A test may ask for so much less than a session may take: what is agreed on before and told afterwards takes its time.
const AROUND: Duration = Duration::from_secs(5);

/// How long a client that is cut off may take to hear why.
const GOODBYE: Duration = Duration::from_secs(1);

/// Time between two readings that are told, as iperf3's own server has it.
const EVERY: Duration = Duration::from_secs(1);

/// Why a session was broken off.
#[derive(Debug, thiserror::Error)]
enum Iperf3Error {
    #[error("iperf3: {0}")]
    Session(#[from] SessionError),
    #[error("iperf3: {0}")]
    Overrun(#[from] BudgetExceeded),
    #[error("iperf3: the server was told to end")]
    Ending,
    #[error("iperf3: data could not be carried: {0}")]
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

/// Serves a client, and counts why it was broken off, if it was.
pub(super) fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    cookie: Cookie,
    arrivals: Receiver<TestArrival>,
    caller: &ServedConnection,
) {
    let shared: &ServerShared = caller;
    let _booth = OpenBooth { shared, host: peer.ip(), cookie };
    if let Err(error) =
        Iperf3Session::begin(socket, peer, cookie, arrivals, caller).and_then(|mut visit| visit.serve())
    {
        shared.tally.failed(ClientProtocol::Iperf3, &error);
    }
}

/// A booth that is closed when its session is over, however it ends: whoever comes next from there waits for that.
struct OpenBooth<'a> {
    shared: &'a ServerShared,
    host: IpAddr,
    cookie: Cookie,
}

impl Drop for OpenBooth<'_> {
    fn drop(&mut self) {
        self.shared.booths.close(self.host, self.cookie);
    }
}

/// How far a session has come. Who has a slot keeps it until nothing is carried any more.
enum TestStage<'a> {
    /// It has not said what it wants.
    Arriving,
    /// There was no place for it.
    TurnedAway,
    /// It was let in, and waits until no other test of its host opens streams over UDP.
    Waiting(Slot<'a>),
    /// Its streams come.
    Opening(Slot<'a>, Vec<TestStream>),
    /// Data flows.
    Carrying(Slot<'a>, Box<Flows>),
    /// No more data flows, and both ends tell what they found.
    Telling(Slot<'a>),
    /// Who comes next, be it the same client, finds the place free.
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

/// A session that lasts.
struct Iperf3Session<'a> {
    shared: &'a ServedConnection,
    socket: TcpStream,
    ends: [SocketAddr; 2],
    cookie: Cookie,
    arrivals: Receiver<TestArrival>,
    session: ServerSession,
    stage: TestStage<'a>,
    asked: TestParameters,
    /// What has broken it off, beside what the session knows.
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
        socket.set_read_timeout(Some(LOOK))?;
        let seconds = (shared.limits.lasts - AROUND).as_nanos() / 1_000_000_000;
        let limits = TestLimits {
            time: seconds.try_into().unwrap_or(u32::MAX).max(1),
            streams: 2 * MOST_STREAMS,
            rate: shared.limits.rate.map(Rate::bits_per_s),
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
                    // Who was refused may have gone.
                    let flushed = self.flush();
                    return match self.broken.take() {
                        Some(broken) => {
                            self.wait_until_gone(&mut buffer);
                            Err(broken)
                        }
                        // That is counted as such.
                        None if matches!(self.stage, TestStage::TurnedAway) => Ok(()),
                        None => outcome.map_err(Into::into).and(flushed.or(Ok(()))),
                    };
                }
                self.handle(event);
            }
            self.flush()?;
            match self.socket.read(&mut buffer) {
                Ok(0) => self.session.handle_close(),
                Ok(len) => self.session.handle_bytes(self.shared.clock.now(), &buffer[..len]),
                Err(error) if is_nothing(&error) => {}
                Err(_) => self.session.handle_close(),
            }
            self.look_for_arrivals();
            self.look_at_turn();
            self.keep_to_budget();
            self.session.handle_timeout(self.shared.clock.now());
        }
    }

    /// A client that sends hears nothing while its streams take what it sends, and nothing but that they broke once they have:
    /// they stand, and take nothing, until it has heard why.
    fn wait_until_gone(&mut self, buffer: &mut [u8]) {
        let until = self.now() + GOODBYE;
        while self.now() < until {
            match self.socket.read(buffer) {
                Err(error) if is_nothing(&error) => {}
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }

    fn flush(&mut self) -> Result<(), Iperf3Error> {
        while let Some(bytes) = self.session.poll_transmit() {
            write_until(&self.socket, &bytes, StdInstant::now() + PATIENCE)?;
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

    /// Asks for a place, with what goes in each direction; nobody is told to wait.
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
                || self.shared.booths.ask(self.ends[1].ip(), self.cookie)
        };
        self.stage = match std::mem::replace(&mut self.stage, TestStage::Told) {
            TestStage::Waiting(slot) if has_turn() => {
                self.session.admit(self.shared.clock.now());
                TestStage::Opening(slot, Vec::new())
            }
            stage => stage,
        };
    }

    /// Takes what has come for this session.
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
            // The same words may come twice.
            TestArrival::Knock(from, words)
                if is_udp && !streams.iter().any(|stream| stream.ends[1] == from) =>
            {
                let socket = self.shared.datagram_socket(self.ends[0], from)?;
                ([self.ends[0], from], StreamSocket::Udp(socket), datagram::reply(&words))
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
        self.shared.booths.opened(self.ends[1].ip(), self.cookie);
        let TestStage::Opening(slot, streams) = std::mem::replace(&mut self.stage, TestStage::Told) else {
            return;
        };
        let order = FlowsOrder { asked: self.asked.clone(), every: EVERY, most: slot.held_to() };
        match Flows::begin(order, streams) {
            Ok(flows) => self.stage = TestStage::Carrying(slot, Box::new(flows)),
            Err(error) => self.break_off(error.into()),
        }
    }

    /// The client has had enough: closes the streams, and tells what was found.
    fn stop(&mut self) {
        let TestStage::Carrying(mut slot, flows) = std::mem::replace(&mut self.stage, TestStage::Told) else {
            return;
        };
        let (counter, mut spent) = (flows.counter(), Ok(()));
        let ended = flows.end_while(&mut |bytes| {
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
        let role = TestRole::Server { client: self.ends[1] };
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
        self.spends(self.stage.flows().map_or([0; 2], |flows| flows.counter().bytes()));
        if self.shared.stop.load(Ordering::Relaxed) {
            self.break_off(Iperf3Error::Ending);
        }
    }

    /// Whether it may have carried so many bytes until now; else it is broken off.
    fn spends(&mut self, bytes: [u64; 2]) -> bool {
        let spent = self.stage.slot().map_or(Ok(()), |slot| slot.spend(bytes));
        spent.map_err(|overrun| self.break_off(overrun.into())).is_ok()
    }

    /// The client is told, in iperf3's words, that it goes on no longer.
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
                flows.halt();
            }
        }
    }
}

/// What of a client's results stands in a server's document: those of iperf3 have bytes and datagrams of the other end, and neither its
/// retransmissions nor its congestion control.
fn as_its_server_knows(theirs: &TestResults) -> TestResults {
    let known = |stream: &StreamResult| StreamResult { retransmits: None, ..*stream };
    TestResults { congestion: None, streams: theirs.streams.iter().map(known).collect(), ..theirs.clone() }
}
