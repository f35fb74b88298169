//! One end of an iperf3 test: its streams, which the engine of `netrig_bulk` runs, and their results.
//!
//! TCP streams of one direction share a thread. Each UDP stream has a thread of its own. Both ends of a test use this
//! code.

mod client;
mod found;
mod readings;
mod record;

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex};

use netrig_bulk::{
    RunningTransfer, SourceOrder, Spacing, StreamEnding, StreamOrder, Throttle, TransferDirection,
    TransferPart, disable_gro, pacing,
};
use netrig_core::{Duration, Rate};
use netrig_host::{Clock, DatagramFormat};
use rustix::io::Errno;
use rustix::net::sockopt;

pub use self::client::{TestError, TestOrder, TestOutcome, test};
pub(crate) use self::found::buffers_in_32_bits;
pub use self::found::{StreamFindings, TestFindings, start};
use self::readings::{Iperf3Format, StreamRecorder, StreamThread, record_into};
pub use self::record::{StreamMark, StreamRecord};
use crate::iperf3::{Iperf3Code, Iperf3Refusal, TestParameters};

/// Interval between readings.
const EVERY: Duration = Duration::from_millis(100);

/// The rate of a datagram stream without a rate limit. It is more than any host can send.
const UNLIMITED: Rate = Rate::from_bits_per_s(400_000_000_000);

/// Maximum number of UDP streams that each get buffers of 2 MiB for datagrams that the kernel coalesces.
const FEW: u32 = 8;

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

/// The order of one end of a test.
#[derive(Clone, Debug)]
pub struct FlowsOrder {
    /// The requested parameters.
    pub asked: TestParameters,
    /// Interval between readings that are kept.
    pub every: Duration,
    /// Maximum rate of all streams of one direction together. `None` means unlimited.
    pub most: Option<Rate>,
}

/// Running streams of a test.
pub struct Flows {
    order: FlowsOrder,
    streams: Vec<(u32, bool, [SocketAddr; 2])>,
    /// The transfer that runs the streams. After it is halted, the streams stay open as long as this value exists.
    pub(crate) transfer: RunningTransfer,
    threads: Vec<StreamThread>,
}

impl Flows {
    /// Starts the streams.
    ///
    /// # Errors
    /// If the kernel refuses a thread.
    pub fn begin(order: FlowsOrder, streams: Vec<TestStream>) -> io::Result<Self> {
        let mut flows = Self {
            streams: streams.iter().map(|stream| (stream.id, stream.sends, stream.ends)).collect(),
            transfer: RunningTransfer::begin(streams.first().map(|stream| stream.ends[1].ip())),
            threads: Vec::new(),
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
                    let part = flows.order.datagrams(socket, stream.sends);
                    flows.add(vec![place], stream.sends, part)?;
                }
            }
        }
        for (sends, (places, sockets)) in [false, true].into_iter().zip(connections) {
            if !sockets.is_empty() {
                let part = flows.order.connections(sockets, sends);
                flows.add(places, sends, part)?;
            }
        }
        Ok(flows)
    }

    fn add(&mut self, streams: Vec<usize>, sends: bool, part: TransferPart) -> io::Result<()> {
        let FlowsOrder { asked, every, .. } = &self.order;
        let recorder = Arc::new(Mutex::new(StreamRecorder::new(streams.len(), *every, asked)));
        let size = asked.len.into();
        self.transfer.add(part, record_into(&recorder, self.transfer.begun(), sends, size))?;
        self.threads.push((streams, recorder));
        Ok(())
    }

    /// Ends a test whose peer has stopped, and closes all streams. The wait for data in flight ends early when `may`,
    /// which gets the bytes received and sent, returns false.
    ///
    /// # Errors
    /// If the transfer has failed.
    pub fn end(self, may: &mut dyn FnMut([u64; 2]) -> bool) -> io::Result<TestFindings> {
        let begun = self.transfer.begun();
        let outcome = self.transfer.end(None, may)?;
        Ok(TestFindings::of(&self.order.asked, &self.streams, begun, self.threads, outcome))
    }
}

impl FlowsOrder {
    /// Maximum rate of each stream. `None` means unlimited.
    fn rate(&self) -> Option<Rate> {
        let asked = [self.asked.rate, self.asked.fq_rate].into_iter().filter(|rate| *rate > 0).min();
        let most = self.most.map(|most| most.bits_per_s() / u64::from(self.asked.parallel.max(1)));
        asked.into_iter().chain(most).min().map(|rate| Rate::from_bits_per_s(rate.max(8)))
    }

    fn connections(&self, sockets: Vec<TcpStream>, sends: bool) -> TransferPart {
        let direction = if sends { TransferDirection::Sends } else { TransferDirection::Receives };
        let pacing = self.rate().map(pacing);
        let order = StreamOrder { direction, every: EVERY, bytes: None, pacing, window: None };
        TransferPart::Streams { sockets, order, ending: StreamEnding::Close }
    }

    fn datagrams(&self, socket: UdpSocket, sends: bool) -> TransferPart {
        // As in iperf3, the times in datagrams count from the boot of the machine.
        let clock = Clock::starting_at(0);
        let format: Option<Arc<dyn DatagramFormat>> = Some(Arc::new(Iperf3Format(self.asked.counter)));
        if !sends {
            return TransferPart::Sink { socket, clock, flow: 0, every: EVERY, format };
        }
        let (size, spacing) = (self.asked.len as u16, Spacing::Constant);
        let order = SourceOrder { flow: 0, size, spacing, every: EVERY };
        let throttle = Arc::new(Throttle::new(self.rate().unwrap_or(UNLIMITED)));
        let is_scheduled = self.rate().is_some();
        TransferPart::Source { socket, clock, order, throttle, format, is_scheduled }
    }
}

impl TestStream {
    /// Sets the socket options that the test requests.
    ///
    /// # Errors
    /// If the kernel refuses an option. The error has the iperf3 error code of this option.
    pub fn set_options(&self, asked: &TestParameters) -> Result<(), Iperf3Refusal> {
        let set = |code, done: Result<(), Errno>| {
            done.map_err(|error| Iperf3Refusal { code, errno: error.raw_os_error() })
        };
        let (socket, is_tcp) = match &self.socket {
            StreamSocket::Tcp(socket) => (socket.as_fd(), true),
            StreamSocket::Udp(socket) => (socket.as_fd(), false),
        };
        if asked.window > 0 {
            let bytes = asked.window as usize;
            set(Iperf3Code::SET_BUFFER, sockopt::set_socket_send_buffer_size(socket, bytes))?;
            set(Iperf3Code::SET_BUFFER, sockopt::set_socket_recv_buffer_size(socket, bytes))?;
        }
        match (asked.tos, self.ends[0].is_ipv4()) {
            (0, _) => {}
            (tos, true) => set(Iperf3Code::SET_TOS, sockopt::set_ip_tos(socket, tos))?,
            (tos, false) => set(Iperf3Code::SET_TOS, sockopt::set_ipv6_tclass(socket, tos.into()))?,
        }
        if let Some(name) = asked.congestion.as_ref().filter(|_| is_tcp) {
            set(Iperf3Code::CONGESTION, sockopt::set_tcp_congestion(socket, name))?;
        }
        if is_tcp && asked.no_delay {
            set(Iperf3Code::SET_NO_DELAY, sockopt::set_tcp_nodelay(socket, true))?;
        }
        match &self.socket {
            StreamSocket::Udp(socket) if asked.streams() > FEW => {
                let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL);
                set(Iperf3Code::SET_BUFFER, disable_gro(socket).map_err(errno))
            }
            _ => Ok(()),
        }
    }
}
