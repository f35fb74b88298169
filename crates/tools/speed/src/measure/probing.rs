//! Responsiveness probes on separate connections during a load.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use netrig_host::monotonic_nanos;

use super::call::CallOrder;
use crate::control::ControlConnection;
use crate::protocol::{DataDirection, MOST_PROBES, SPEED};
use crate::responsiveness::ForeignProbe;

/// Minimum gap between probes on separate connections, ns. The draft's parameters MPS and ID allow 100 probes in 5 s,
/// and half of them are on separate connections.
const SHORTEST_GAP_NS: u64 = 100_000_000;

/// Bytes of a probe in the loaded direction, as the draft assumes.
const PROBE_BYTES: f64 = 5000.0;

/// Bytes that netrig's own probe sends to the server: ten packets of TCP, TLS 1.3 and the greeting.
const UP_BYTES: f64 = 1200.0;

/// PTC of the draft: the maximum share of the capacity that probes may use.
const SHARE: f64 = 0.05;

/// Time limit of each part of a probe.
const PATIENCE: StdDuration = StdDuration::from_secs(10);

/// Maximum sleep before the stop flag is checked.
const LOOK: StdDuration = StdDuration::from_millis(20);

/// A thread that sends probes until [`end`](Self::end). It does not start a probe before the capacity of the path is
/// known, so that probes do not exceed their share of it.
#[derive(Debug)]
pub struct Probing {
    stop: Arc<AtomicBool>,
    /// Time between the starts of two probes, ns. While it is zero, no probe starts.
    gap: Arc<AtomicU64>,
    thread: JoinHandle<Vec<ForeignProbe>>,
}

impl Probing {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the kernel refuses a thread.
    pub fn begin(order: CallOrder) -> io::Result<Self> {
        let (stop, gap) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (until, every) = (Arc::clone(&stop), Arc::clone(&gap));
        let thread = std::thread::Builder::new().name("speed-probes".to_owned());
        let thread = thread.spawn(move || go(&Arc::new(order), &every, &until))?;
        Ok(Self { stop, gap, thread })
    }

    /// Sets the loaded direction, and the capacity down and up, bit/s. If either capacity is zero, no probe starts.
    pub fn carries(&self, full: DataDirection, [down, up]: [f64; 2]) {
        let goes_up = if full == DataDirection::Down { UP_BYTES } else { PROBE_BYTES };
        let gap = |bytes: f64, bits_per_s: f64| bytes * 8.0 / (SHARE * bits_per_s) * 1e9;
        let gap = gap(PROBE_BYTES, down).max(gap(goes_up, up));
        let gap = if down > 0.0 && up > 0.0 { (gap as u64).max(SHORTEST_GAP_NS) } else { 0 };
        self.gap.store(gap, Ordering::Relaxed);
    }

    /// Stops new probes, because the load has ended.
    pub fn pause(&self) {
        self.gap.store(0, Ordering::Relaxed);
    }

    /// Stops and returns the finished probes in the order of their starts. Probes in flight are omitted and do not
    /// count as lost.
    ///
    /// # Errors
    /// If the thread has panicked.
    pub fn end(self) -> io::Result<Vec<ForeignProbe>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| io::Error::other("the thread of the probes has panicked"))
    }
}

fn go(order: &Arc<CallOrder>, gap: &AtomicU64, stop: &AtomicBool) -> Vec<ForeignProbe> {
    let (told, came) = channel();
    let underway = Arc::new(AtomicUsize::new(0));
    let mut next = monotonic_nanos();
    while !stop.load(Ordering::Relaxed) {
        let (now, gap) = (monotonic_nanos(), gap.load(Ordering::Relaxed));
        // On a slow path, fewer probes start because at most [`MOST_PROBES`] run at the same time.
        if gap > 0 && now >= next && underway.load(Ordering::Relaxed) < MOST_PROBES {
            launch(order, &told, &underway);
            next = following(next, gap, now);
        }
        // The gap may change during the sleep.
        let left = StdDuration::from_nanos(next.saturating_sub(now));
        std::thread::sleep(left.clamp(StdDuration::from_millis(1), LOOK));
    }
    let mut probes: Vec<ForeignProbe> = came.try_iter().collect();
    probes.sort_by_key(|probe| probe.begun);
    probes
}

/// The due time of the next probe, after a probe that was due at `due` and started at `now`. If the thread is late, it
/// skips the probes that it has missed.
const fn following(due: u64, gap: u64, now: u64) -> u64 {
    if now < due + gap { due + gap } else { now + gap }
}

/// Starts a probe on a thread of its own, so that the next probe does not wait for it.
fn launch(order: &Arc<CallOrder>, told: &Sender<ForeignProbe>, underway: &Arc<AtomicUsize>) {
    underway.fetch_add(1, Ordering::Relaxed);
    let (order, told, done) = (Arc::clone(order), told.clone(), Arc::clone(underway));
    let probe = move || {
        let begun = monotonic_nanos();
        let parts_ns = probe(&order).ok();
        done.fetch_sub(1, Ordering::Relaxed);
        // If the receiving thread has ended, the result is not needed.
        let _ = told.send(ForeignProbe { begun, parts_ns });
    };
    if std::thread::Builder::new().name("speed-probe".to_owned()).spawn(probe).is_err() {
        // If the host cannot start another thread, the probe is skipped.
        underway.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Durations of the TCP handshake, the TLS handshake and the greeting, ns.
fn probe(order: &CallOrder) -> io::Result<[u64; 3]> {
    let begun = monotonic_nanos();
    let socket = TcpStream::connect_timeout(&order.server, PATIENCE)?;
    let stands = monotonic_nanos();
    let mut control = ControlConnection::call(socket, Arc::clone(&order.tls), order.name.clone())?;
    let secured = monotonic_nanos();
    let binding = control.binding()?;
    // The server's greeting comes first on every connection. The measured part is the request after it.
    let greeted = SPEED.receive_hello(&mut control).map_err(io::Error::other)?;
    let asked = monotonic_nanos();
    SPEED.answer_hello(&mut control, greeted, order.key.as_ref(), &binding).map_err(io::Error::other)?;
    let answered = monotonic_nanos();
    control.close();
    Ok([stands - begun, secured - stands, answered - asked])
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use netrig_host::socket::TcpOptions;
    use netrig_host::tls::{self, Trust};

    use super::*;

    fn order(server: SocketAddr) -> CallOrder {
        let tls = tls::client(&Trust::Anyone, None).unwrap();
        CallOrder {
            server,
            name: server.ip().into(),
            tls,
            key: None,
            rate: None,
            options: TcpOptions::default(),
        }
    }

    #[test]
    fn probes_take_no_more_than_their_share() {
        let probing = Probing::begin(order("127.0.0.1:9".parse().unwrap())).unwrap();
        let gap = |full, carried| {
            probing.carries(full, carried);
            probing.gap.load(Ordering::Relaxed)
        };
        // 5 % of 1 Mbit/s are 1.25 probes of 40 kbit each per second. At 1 Gbit/s the limit is ten probes per second.
        assert_eq!(gap(DataDirection::Up, [1e9, 1e6]), 800_000_000);
        assert_eq!(gap(DataDirection::Down, [1e9, 1e9]), 100_000_000);
        // Probes do not exceed their share of the other direction either: each sends 9600 bits up, on a line of 250
        // kbit/s.
        assert_eq!(gap(DataDirection::Down, [10e6, 250e3]), 768_000_000);
        assert_eq!(gap(DataDirection::Both, [0.0, 1e6]), 0);
        gap(DataDirection::Up, [1e9, 1e6]);
        probing.pause();
        assert_eq!(probing.gap.load(Ordering::Relaxed), 0);
        probing.end().unwrap();
    }

    #[test]
    fn probes_keep_their_gaps_and_make_up_for_none() {
        assert_eq!(following(100, 10, 101), 110);
        assert_eq!(following(100, 10, 109), 110);
        assert_eq!(following(100, 10, 135), 145, "those of 110, 120 and 130 are left out");
    }

    #[test]
    fn who_is_not_there_is_a_probe_without_end() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let probing = Probing::begin(order(free)).unwrap();
        probing.carries(DataDirection::Down, [1e9; 2]);
        std::thread::sleep(StdDuration::from_millis(350));
        let probes = probing.end().unwrap();
        assert!(!probes.is_empty() && probes.iter().all(|probe| probe.parts_ns.is_none()), "{probes:?}");
        assert!(probes.is_sorted_by_key(|probe| probe.begun));
    }
}
