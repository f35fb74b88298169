//! One end of an iperf3 test: its streams, over the engine of `netrig_bulk`, and their results.
//!
//! TCP streams of one direction share a thread. Each UDP stream has a thread of its own. Both ends of a test use this code.

mod client;
mod found;
mod record;
mod worker;

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_bulk::{HostCounters, Radio, disable_gro};
use netrig_core::{Duration, Rate};
use netrig_host::monotonic_nanos;
use rustix::io::Errno;
use rustix::net::sockopt;

pub use self::client::{TestError, TestOrder, TestOutcome, test};
pub(crate) use self::found::buffers_in_32_bits;
pub use self::found::{StreamFindings, TestFindings, start};
pub use self::record::{StreamMark, StreamRecord};
use self::worker::{FlowsControl, StreamWork, StreamWorkResult};
use crate::carry::joined;
use crate::iperf3::{Iperf3Code, Iperf3Refusal, TestParameters};
use crate::protocol::EndReport;

/// After the peer has stopped, the wait for data in flight ends when none has arrived for `STRAGGLERS`, and at the latest after
/// `LONGEST_WAIT`.
const STRAGGLERS: StdDuration = StdDuration::from_millis(250);
const LONGEST_WAIT: StdDuration = StdDuration::from_secs(3);

/// The most UDP streams that may each have buffers of 2 MiB for datagrams that the kernel coalesces.
const FEW: u32 = 8;

/// Interval of the check during that wait.
const LOOK: StdDuration = StdDuration::from_millis(10);

/// The socket of a stream.
#[derive(Debug)]
pub enum StreamSocket {
    /// A connection whose cookie has been read or written.
    Tcp(TcpStream),
    /// A socket that is connected to the peer.
    Udp(UdpSocket),
}

/// An open stream.
#[derive(Debug)]
pub struct TestStream {
    /// The stream number.
    pub id: u32,
    /// Whether this end sends.
    pub sends: bool,
    /// The addresses of this end and of the peer.
    pub ends: [SocketAddr; 2],
    /// The socket.
    pub socket: StreamSocket,
}

/// How one end carries a test.
#[derive(Clone, Debug)]
pub struct FlowsOrder {
    /// The requested parameters.
    pub asked: TestParameters,
    /// Interval between readings that are kept.
    pub every: Duration,
    /// The highest rate of all streams of one direction together.
    pub most: Option<Rate>,
}

/// Counter of the bytes of all streams.
#[derive(Clone, Debug)]
pub struct FlowsCounter(Arc<FlowsControl>);

impl FlowsCounter {
    /// Bytes received and sent so far. Over UDP, duplicates count.
    pub fn bytes(&self) -> [u64; 2] {
        self.0.bytes.each_ref().map(|bytes| bytes.load(Ordering::Relaxed))
    }
}

/// A thread and the indices of its streams.
struct StreamThread {
    streams: Vec<usize>,
    sends: bool,
    thread: JoinHandle<io::Result<StreamWorkResult>>,
}

/// Running streams of a test.
pub struct Flows {
    order: FlowsOrder,
    streams: Vec<(u32, bool, [SocketAddr; 2])>,
    board: Arc<FlowsControl>,
    begun: u64,
    /// The counters of this host at the start, and the radio of the outgoing interface.
    host: HostCounters,
    radio: Option<Radio>,
    hands: Vec<StreamThread>,
    /// The results of senders that have ended. Their connections stay open as long as these exist.
    sent: Vec<(Vec<usize>, StreamWorkResult)>,
}

impl Flows {
    /// Starts the streams.
    ///
    /// # Errors
    /// If the kernel refuses a thread.
    pub fn begin(order: FlowsOrder, streams: Vec<TestStream>) -> io::Result<Self> {
        let board = Arc::new(FlowsControl {
            ended: AtomicU64::new(u64::MAX),
            stop_sending: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            bytes: Default::default(),
        });
        let mut flows = Self {
            streams: streams.iter().map(|stream| (stream.id, stream.sends, stream.ends)).collect(),
            begun: monotonic_nanos(),
            host: HostCounters::read(),
            radio: streams.first().and_then(|stream| Radio::towards(stream.ends[1].ip())),
            board,
            hands: Vec::new(),
            sent: Vec::new(),
            order,
        };
        let mut connections: [(Vec<usize>, Vec<TcpStream>); 2] = Default::default();
        for (place, stream) in streams.into_iter().enumerate() {
            match stream.socket {
                StreamSocket::Tcp(socket) => {
                    let (places, sockets) = &mut connections[usize::from(stream.sends)];
                    places.push(place);
                    sockets.push(socket);
                }
                StreamSocket::Udp(socket) => {
                    flows.hand(vec![place], stream.sends, |work| work.datagrams(socket))?
                }
            }
        }
        for (sends, (places, sockets)) in [false, true].into_iter().zip(connections) {
            if !sockets.is_empty() {
                flows.hand(places, sends, |work| work.connections(sockets))?;
            }
        }
        Ok(flows)
    }

    fn hand(
        &mut self,
        streams: Vec<usize>,
        sends: bool,
        carry: impl FnOnce(StreamWork) -> io::Result<StreamWorkResult> + Send + 'static,
    ) -> io::Result<()> {
        let work = StreamWork {
            asked: self.order.asked.clone(),
            sends,
            every: self.order.every,
            rate: self.order.rate(),
            begun: self.begun,
            streams: streams.len(),
            board: Arc::clone(&self.board),
        };
        let thread = std::thread::Builder::new().name("speed-iperf3".to_owned());
        let thread = thread.spawn(move || carry(work)).inspect_err(|_| self.stop())?;
        self.hands.push(StreamThread { streams, sends, thread });
        Ok(())
    }

    /// The counter of received and sent bytes. It stays valid after the test has ended.
    pub fn counter(&self) -> FlowsCounter {
        FlowsCounter(Arc::clone(&self.board))
    }

    /// The time at which data began to flow, ns of `CLOCK_MONOTONIC`.
    pub const fn begun(&self) -> u64 {
        self.begun
    }

    /// Stops sending. The connections stay open until [`end`](Self::end).
    ///
    /// # Errors
    /// If sending has failed.
    pub fn stop_sending(&mut self) -> io::Result<()> {
        self.board.ended.fetch_min(monotonic_nanos(), Ordering::Relaxed);
        self.board.stop_sending.store(true, Ordering::Relaxed);
        let (senders, receivers) = self.hands.drain(..).partition(|hand| hand.sends);
        self.hands = receivers;
        for hand in senders {
            self.sent.push((hand.streams, joined(hand.thread)?));
        }
        Ok(())
    }

    /// Stops sending and receiving in a test that is aborted. The streams stay open as long as this value exists.
    pub fn halt(&self) {
        self.stop();
    }

    /// Ends a test whose peer has stopped: waits for data in flight and closes all streams.
    ///
    /// # Errors
    /// If carrying has failed.
    pub fn end(self) -> io::Result<TestFindings> {
        self.end_while(&mut |_| true)
    }

    /// Ends the test. The wait for data in flight stops when `may` returns false for the bytes received and sent.
    ///
    /// # Errors
    /// See [`end`](Self::end).
    pub fn end_while(mut self, may: &mut dyn FnMut([u64; 2]) -> bool) -> io::Result<TestFindings> {
        self.stop_sending()?;
        let mut ended = std::mem::take(&mut self.sent);
        // Closing them tells the receivers that no data follows.
        ended.iter_mut().for_each(|(_, worked)| worked.connections = None);
        self.wait_for_stragglers(may);
        self.stop();
        for hand in self.hands.drain(..) {
            ended.push((hand.streams, joined(hand.thread)?));
        }
        let found = TestFindings::of(&self.order.asked, &self.streams, self.begun, ended);
        let host = HostCounters::read().since(&self.host);
        let radio = self.radio.take().and_then(Radio::report);
        Ok(TestFindings { report: EndReport { host, radio, ..found.report }, ..found })
    }

    /// Waits until no data has arrived for a while, none can arrive, or `may` returns false.
    fn wait_for_stragglers(&self, may: &mut dyn FnMut([u64; 2]) -> bool) {
        let begun = StdInstant::now();
        let (mut had, mut since) = (self.counter().bytes()[0], begun);
        while may(self.counter().bytes())
            && begun.elapsed() < LONGEST_WAIT
            && since.elapsed() < STRAGGLERS
            && !self.hands.iter().all(|hand| hand.thread.is_finished())
        {
            std::thread::sleep(LOOK);
            let has = self.counter().bytes()[0];
            if std::mem::replace(&mut had, has) != has {
                since = StdInstant::now();
            }
        }
    }

    fn stop(&self) {
        self.board.stop_sending.store(true, Ordering::Relaxed);
        self.board.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.stop();
        for hand in self.hands.drain(..) {
            // The counts of an aborted test are not used.
            let _ = hand.thread.join();
        }
    }
}

impl FlowsOrder {
    /// The highest rate of each stream. Unlimited if absent.
    fn rate(&self) -> Option<Rate> {
        let asked = [self.asked.rate, self.asked.fq_rate].into_iter().filter(|rate| *rate > 0).min();
        let most = self.most.map(|most| most.bits_per_s() / u64::from(self.asked.parallel.max(1)));
        asked.into_iter().chain(most).min().map(|rate| Rate::from_bits_per_s(rate.max(8)))
    }
}

impl TestStream {
    /// Sets the socket options that the test requests.
    ///
    /// # Errors
    /// The iperf3 error code of the option that the kernel refuses.
    pub fn set_options(&self, asked: &TestParameters) -> Result<(), Iperf3Refusal> {
        let refused = |code| move |error: Errno| Iperf3Refusal { code, errno: error.raw_os_error() };
        let socket = match &self.socket {
            StreamSocket::Tcp(socket) => socket.as_fd(),
            StreamSocket::Udp(socket) => socket.as_fd(),
        };
        if asked.window > 0 {
            let bytes = asked.window as usize;
            sockopt::set_socket_send_buffer_size(socket, bytes).map_err(refused(Iperf3Code::SET_BUFFER))?;
            sockopt::set_socket_recv_buffer_size(socket, bytes).map_err(refused(Iperf3Code::SET_BUFFER))?;
        }
        match (asked.tos, self.ends[0].is_ipv4()) {
            (0, _) => {}
            (tos, true) => sockopt::set_ip_tos(socket, tos).map_err(refused(Iperf3Code::SET_TOS))?,
            (tos, false) => {
                sockopt::set_ipv6_tclass(socket, tos.into()).map_err(refused(Iperf3Code::SET_TOS))?;
            }
        }
        if let (StreamSocket::Tcp(_), Some(name)) = (&self.socket, &asked.congestion) {
            sockopt::set_tcp_congestion(socket, name).map_err(refused(Iperf3Code::CONGESTION))?;
        }
        if let StreamSocket::Udp(socket) = &self.socket
            && asked.streams() > FEW
        {
            let refused = |error: io::Error| Iperf3Refusal {
                code: Iperf3Code::SET_BUFFER,
                errno: error.raw_os_error().unwrap_or(0),
            };
            disable_gro(socket).map_err(refused)?;
        }
        if matches!(self.socket, StreamSocket::Tcp(_)) && asked.no_delay {
            sockopt::set_tcp_nodelay(socket, true).map_err(refused(Iperf3Code::SET_NO_DELAY))?;
        }
        Ok(())
    }
}
