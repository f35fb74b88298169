//! Round-trip times of the path, idle and under load, from echo datagrams.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use netrig_bulk::{StampedSocket, datagram_socket};
use netrig_core::Duration;
use netrig_host::socket::Buffers;
use netrig_host::{become_real_time, monotonic_nanos, realtime_nanos};

use crate::meter::EchoRound;
use crate::protocol::{ECHO_LEN, EchoDatagram, Preamble, SessionToken};

/// An echo without an answer after this time is lost.
const PATIENCE: Duration = Duration::from_secs(3);

/// Minimum wait for echoes in flight at the end.
const STRAGGLERS: Duration = Duration::from_millis(200);

/// Maximum share of the capacity of a direction that echoes may use.
const SHARE: f64 = 0.02;

/// Maximum interval between echoes. With a longer interval, a phase of a few seconds has too few samples.
const LONGEST: Duration = Duration::from_millis(200);

/// The length of an echo with its UDP and IPv6 headers, bits.
const BITS: f64 = (ECHO_LEN + 48) as f64 * 8.0;

/// A thread that sends echoes until [`end`](Self::end).
#[derive(Debug)]
pub struct Latency {
    stop: Arc<AtomicBool>,
    gaps: Arc<EchoGaps>,
    thread: JoinHandle<io::Result<Vec<EchoRound>>>,
}

/// The interval between echoes, ns: the ordered interval, and the minimum interval for the capacity of each direction.
#[derive(Debug)]
struct EchoGaps {
    every: u64,
    room: [AtomicU64; 2],
}

impl EchoGaps {
    fn now(&self) -> u64 {
        self.room.iter().map(|gap| gap.load(Ordering::Relaxed)).fold(self.every, u64::max)
    }
}

impl Latency {
    /// Starts to send echoes from `local`, an address of this host, to the server. The interval is `every`, or longer
    /// if the capacity of the path is low.
    ///
    /// # Errors
    /// If the kernel refuses a socket or a thread.
    pub fn begin(
        local: SocketAddr,
        server: SocketAddr,
        token: SessionToken,
        every: Duration,
    ) -> io::Result<Self> {
        let socket = StampedSocket::new(
            datagram_socket(local, server, Buffers::default()).map_err(io::Error::other)?,
        )?;
        let stop = Arc::new(AtomicBool::new(false));
        let gaps = Arc::new(EchoGaps { every: every.as_nanos(), room: Default::default() });
        let (until, apart) = (Arc::clone(&stop), Arc::clone(&gaps));
        let thread = std::thread::Builder::new().name("speed-latency".to_owned());
        let thread = thread.spawn(move || EchoSender::new(socket, token).go(&apart, &until))?;
        Ok(Self { stop, gaps, thread })
    }

    /// Sets the capacity of each direction, down and up, bit/s. Echoes use a small share of it.
    pub fn carries(&self, bits_per_s: [f64; 2]) {
        for (room, bits_per_s) in self.gaps.room.iter().zip(bits_per_s) {
            let gap = (BITS / (SHARE * bits_per_s) * 1e9).min(LONGEST.as_nanos() as f64);
            room.store(gap as u64, Ordering::Relaxed);
        }
    }

    /// Informs the thread that the path is idle, so that the ordered interval applies.
    pub fn idles(&self) {
        self.carries([f64::INFINITY; 2]);
    }

    /// Stops and returns all echoes in the order of sending. The session must still be open, because its server answers
    /// the echoes.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn end(self) -> io::Result<Vec<EchoRound>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of the echoes has panicked")))
    }
}

struct EchoSender {
    socket: StampedSocket,
    token: SessionToken,
    /// Sending times of the echoes in flight: ns of `CLOCK_MONOTONIC`, and ns since 1970.
    underway: BTreeMap<u64, [u64; 2]>,
    done: BTreeMap<u64, EchoRound>,
    next: u64,
    /// Whether an echo has come back.
    answered: bool,
}

impl EchoSender {
    const fn new(socket: StampedSocket, token: SessionToken) -> Self {
        Self { socket, token, underway: BTreeMap::new(), done: BTreeMap::new(), next: 0, answered: false }
    }

    fn go(mut self, gaps: &EchoGaps, stop: &AtomicBool) -> io::Result<Vec<EchoRound>> {
        // Without real-time priority, other threads delay echoes. The time stamps include that delay.
        let _ = become_real_time();
        let mut due = monotonic_nanos();
        while !stop.load(Ordering::Relaxed) {
            let now = monotonic_nanos();
            if now >= due {
                self.send(now)?;
                due = (due + gaps.now()).max(now);
            }
            self.receive(Duration::from_nanos(due.saturating_sub(now)).min(Duration::from_millis(50)))?;
        }
        self.wait_for_stragglers()?;
        let lost = self.underway.into_iter();
        self.done.extend(
            lost.map(|(number, [sent, _])| (number, EchoRound { sent, took_ns: None, moments: None })),
        );
        Ok(self.done.into_values().collect())
    }

    /// Waits for the echoes in flight, for at most three times the longest round-trip time. If late echoes were
    /// omitted, the path would appear better than it is.
    fn wait_for_stragglers(&mut self) -> io::Result<()> {
        let longest = self.done.values().filter_map(|round| round.took_ns).max().unwrap_or(0);
        let most = Duration::from_nanos(longest.saturating_mul(3)).clamp(STRAGGLERS, PATIENCE);
        let until = monotonic_nanos() + most.as_nanos();
        loop {
            let now = monotonic_nanos();
            if self.underway.is_empty() || now >= until {
                return Ok(());
            }
            self.receive(Duration::from_nanos(until - now))?;
        }
    }

    fn send(&mut self, now: u64) -> io::Result<()> {
        let preamble = Preamble { token: self.token, phase: 0, stream: 0 };
        let echo = EchoDatagram { preamble, number: self.next, sent_ns: now, there_ns: [0; 2] };
        let since_1970 = realtime_nanos();
        self.socket.send(&echo.encode())?;
        self.underway.insert(self.next, [now, since_1970]);
        self.next += 1;
        while let Some((number, [sent, _])) =
            self.underway.first_key_value().map(|(number, sent)| (*number, *sent))
            && now - sent > PATIENCE.as_nanos()
        {
            self.underway.remove(&number);
            self.done.insert(number, EchoRound { sent, took_ns: None, moments: None });
        }
        Ok(())
    }

    fn receive(&mut self, within: Duration) -> io::Result<()> {
        let Self { token, underway, done, answered, .. } = self;
        let token = *token;
        self.socket.receive(within, |datagram| {
            let echo = EchoDatagram::decode(datagram.bytes).filter(|echo| echo.preamble.token == token);
            let Some((echo, sent)) = echo.and_then(|echo| Some((echo, underway.remove(&echo.number)?)))
            else {
                return;
            };
            if !std::mem::replace(answered, true) {
                // The server learns the source address from the first echoes and does not answer them. Echoes before
                // the first answered one are therefore discarded.
                underway.retain(|number, _| *number > echo.number);
            }
            done.insert(echo.number, round(&echo, sent, [datagram.at, datagram.since_1970]));
        })
    }
}

/// The result of an answered echo. The times of sending and of return are each in ns of `CLOCK_MONOTONIC` and in ns
/// since 1970.
fn round(echo: &EchoDatagram, [sent, sent_1970]: [u64; 2], [back, back_1970]: [u64; 2]) -> EchoRound {
    let [there, left] = echo.there_ns;
    let kept = left.saturating_sub(there);
    EchoRound {
        sent,
        took_ns: Some(back.saturating_sub(sent).saturating_sub(kept)),
        moments: Some([sent_1970, there, left, back_1970]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_take_a_small_share_of_a_slow_line() {
        let bind =
            || std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).unwrap();
        let latency =
            Latency::begin(bind(), bind(), SessionToken([0; 16]), Duration::from_millis(20)).unwrap();
        let gap_ms = || latency.gaps.now() as f64 * 1e-6;
        assert_eq!(gap_ms(), 20.0);
        latency.carries([1e9; 2]);
        assert_eq!(gap_ms(), 20.0);
        latency.carries([1e9, 1e6]);
        assert!((gap_ms() - BITS / 20.0).abs() < 0.01, "{}", gap_ms());
        latency.carries([1e9, 100e3]);
        assert_eq!(gap_ms(), 200.0);
        latency.idles();
        assert_eq!(gap_ms(), 20.0);
        latency.end().unwrap();
    }

    #[test]
    fn what_nobody_answers_is_lost() {
        let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (local, server) = ("127.0.0.1:0".parse().unwrap(), nobody.local_addr().unwrap());
        let latency =
            Latency::begin(local, server, SessionToken([0; 16]), Duration::from_millis(10)).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let rounds = latency.end().unwrap();
        assert!(!rounds.is_empty() && rounds.iter().all(|round| round.took_ns.is_none()), "{rounds:?}");
    }

    /// The time for which the server holds an echo is not part of the round trip.
    #[test]
    fn a_round_is_the_paths() {
        let preamble = Preamble { token: SessionToken([0; 16]), phase: 0, stream: 0 };
        let hour = 3_600_000_000_000;
        let echo = EchoDatagram { preamble, number: 0, sent_ns: 1000, there_ns: [hour + 4000, hour + 9000] };
        let round = round(&echo, [1000, 71_000], [11_000, 81_000]);
        assert_eq!(round.took_ns, Some(5000));
        assert_eq!(round.moments, Some([71_000, hour + 4000, hour + 9000, 81_000]));
    }
}
