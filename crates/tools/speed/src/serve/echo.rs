//! The echo service of a session.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration as StdDuration, Instant};

use netrig_bulk::StampedSocket;
use netrig_core::Duration;
use netrig_host::{StoppableThread, become_real_time, realtime_nanos};

use crate::protocol::{EchoDatagram, SessionToken};

/// Maximum wait before the stop flag is checked.
const LOOK: Duration = Duration::from_millis(50);

/// Pause when the limit of datagrams per second is exceeded.
const BREATH: StdDuration = StdDuration::from_millis(10);

/// Maximum number of datagrams per second that are answered; netrig's client sends 50. More are not answered, because
/// the thread of echoes has priority over all threads that carry data.
const PER_SECOND: u64 = 1000;

/// Answers the echoes of one address of a session's host.
pub(super) struct EchoService {
    pub peer: SocketAddr,
    pub since: Instant,
    /// An error of the thread is ignored: the client counts unanswered echoes as lost.
    _thread: StoppableThread<io::Result<()>>,
}

impl EchoService {
    /// Starts to answer echoes from `peer`, to which the socket is connected. `bytes` counts the received bytes.
    ///
    /// # Errors
    /// If the kernel refuses a thread.
    pub fn begin(
        socket: UdpSocket,
        peer: SocketAddr,
        token: SessionToken,
        bytes: &Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let socket = StampedSocket::new(socket)?;
        let bytes = Arc::clone(bytes);
        let thread = StoppableThread::start("speed-echo", move |stop| reflect(socket, token, stop, &bytes))?;
        Ok(Self { peer, since: Instant::now(), _thread: thread })
    }
}

fn reflect(
    mut socket: StampedSocket,
    token: SessionToken,
    stop: &AtomicBool,
    bytes: &AtomicU64,
) -> io::Result<()> {
    // Without real-time priority an echo waits for the threads that carry data. Its time of reception is correct
    // nevertheless.
    let _ = become_real_time();
    let (mut answers, mut second, mut came) = (Vec::new(), Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        socket.receive(LOOK, |datagram| {
            bytes.fetch_add(datagram.bytes.len() as u64, Ordering::Relaxed);
            came += 1;
            let echo = EchoDatagram::decode(datagram.bytes).filter(|echo| echo.preamble.token == token);
            answers.extend(echo.map(|echo| (echo, datagram.since_1970)));
        })?;
        if second.elapsed().as_secs() > 0 {
            (second, came) = (Instant::now(), 0);
        }
        if came > PER_SECOND {
            // The datagrams are discarded, and the thread pauses, so that a flood does not occupy the processor.
            answers.clear();
            std::thread::sleep(BREATH);
        }
        for (echo, received) in answers.drain(..) {
            socket.send(&EchoDatagram { there_ns: [received, realtime_nanos()], ..echo }.encode())?;
        }
    }
    Ok(())
}
