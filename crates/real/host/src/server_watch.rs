//! Kernel counters of a server on this host: its sockets, threads and control groups.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netrig_core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::netlink::{BoundSocket, SocketList};
use crate::usage::{ProcessFamily, ProcessorGroups, owners_of, processors_of};
use crate::{StoppableThread, monotonic_nanos, proc};

/// Intervals between the readings of the sockets, used in turn. They are not multiples of each other, so that the
/// sockets of a server that reads periodically are observed in all phases of its period.
const LOOKS: [Duration; 3] =
    [Duration::from_millis(23), Duration::from_millis(37), Duration::from_millis(31)];

/// Watches the server at an address. The server must be in this network namespace, and this process must be allowed to
/// inspect its processes.
#[derive(Debug)]
pub struct ServerWatch {
    sockets: Arc<Mutex<SocketWatch>>,
    _thread: StoppableThread<()>,
    threads: ProcessFamily,
    groups: ProcessorGroups,
    /// When the counting started, ns.
    started: u64,
    throttled: u64,
}

/// The kernel's counters of the server's processes and sockets on this host while calls were started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "ServerSeen")]
pub struct ServerReading {
    /// Why some or all other values are not available, in words. Values that are not available are zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<String>,
    /// Processes that hold a socket of the server.
    pub processes: u32,
    /// Processors on which these processes may run.
    pub processors: u32,
    /// How long threads were observed, s.
    pub span_s: f64,
    /// Run time of the busiest thread, s.
    pub busiest_s: f64,
    /// How long the busiest thread waited for a processor, s.
    pub busiest_waited_s: f64,
    /// Run time of all threads together, s.
    pub ran_s: f64,
    /// How long control groups throttled the server, s (`cpu.stat`).
    pub throttled_s: f64,
    /// Datagrams that were dropped because a receive buffer was full, until the end of the step.
    pub dropped: u64,
    /// The size of the largest receive buffer, bytes; 0 if unknown.
    pub receive_buffer: u64,
    /// The largest number of bytes in the receive queues of its sockets together.
    pub most_waiting: u64,
    /// The smallest share of the receive buffers in use after the first drop, 0 to 1; `None` if nothing was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_full: Option<f64>,
    /// Connections that were dropped because the queue of a listening socket was full, for all servers in the network
    /// namespace.
    pub overflows: u64,
}

/// The sockets of a server.
#[derive(Debug)]
struct SocketWatch {
    target: SocketAddr,
    tcp: bool,
    list: Option<SocketList>,
    /// Values of the kernel's counters when the counting started.
    dropped: u64,
    overflows: u64,
    /// Whether the load is running. Only during the load do waiting bytes show whether the server keeps up.
    is_loaded: bool,
    /// Counts since [`ServerWatch::start`].
    reading: ServerReading,
}

impl ServerWatch {
    /// Starts to watch the TCP sockets (if `tcp` is set) or the UDP sockets of the server at `target`. If some values
    /// cannot be observed, each reading says so in [`ServerReading::hidden`].
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn open(target: SocketAddr, tcp: bool) -> std::io::Result<Self> {
        let sockets = SocketWatch {
            target,
            tcp,
            list: SocketList::open().ok(),
            dropped: 0,
            overflows: 0,
            is_loaded: false,
            reading: ServerReading::default(),
        };
        let sockets = Arc::new(Mutex::new(sockets));
        let own = Arc::clone(&sockets);
        let thread = StoppableThread::start("server-watch", move |stop| {
            for pause in LOOKS.into_iter().cycle() {
                std::thread::sleep(pause.into());
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let mut own = locked(&own);
                if own.is_loaded {
                    own.look();
                }
            }
        })?;
        Ok(Self {
            sockets,
            _thread: thread,
            threads: ProcessFamily::of_processes(Vec::new()),
            groups: ProcessorGroups::default(),
            started: 0,
            throttled: 0,
        })
    }

    /// Finds the server's sockets and processes. Call this before a load.
    pub fn find(&mut self) {
        let mut sockets = locked(&self.sockets);
        let inodes: Vec<_> = sockets.its_own().iter().map(|socket| socket.inode).collect();
        let processes = owners_of(&inodes);
        sockets.reading = ServerReading {
            hidden: sockets.why_hidden(inodes.is_empty(), processes.is_empty()),
            processes: u32::try_from(processes.len()).unwrap_or(u32::MAX),
            processors: processes.first().map_or(0, |pid| processors_of(*pid)),
            ..ServerReading::default()
        };
        self.groups = processes.first().map(|pid| ProcessorGroups::of(*pid)).unwrap_or_default();
        self.threads = ProcessFamily::of_processes(processes);
    }

    /// Resets the counts at the start of a load.
    pub fn start(&mut self) {
        self.threads.look();
        self.throttled = self.groups.throttled();
        self.started = monotonic_nanos();
        locked(&self.sockets).start();
    }

    /// Updates all counts while the load is running.
    pub fn look(&mut self) -> ServerReading {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let usage = self.threads.look();
        let mut sockets = locked(&self.sockets);
        sockets.look();
        let own = &mut sockets.reading;
        own.span_s = seconds(monotonic_nanos().saturating_sub(self.started));
        own.ran_s += seconds(usage.ran);
        own.busiest_s += seconds(usage.busiest.ran);
        own.busiest_waited_s += seconds(usage.busiest.waited);
        own.throttled_s = seconds(self.groups.throttled().saturating_sub(self.throttled));
        own.clone()
    }

    /// Marks the end of the load. From now on, waiting bytes do not show whether the server keeps up.
    pub fn unload(&mut self) {
        locked(&self.sockets).is_loaded = false;
    }

    /// Reads the sockets a last time after the load, because data may have been dropped since the last reading.
    pub fn end(&mut self) -> ServerReading {
        self.unload();
        let mut sockets = locked(&self.sockets);
        sockets.look();
        sockets.reading.clone()
    }
}

/// Locks the sockets. A panic of another holder is ignored, because the counters are consistent even after a panic.
fn locked(sockets: &Mutex<SocketWatch>) -> MutexGuard<'_, SocketWatch> {
    sockets.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SocketWatch {
    fn start(&mut self) {
        self.dropped = dropped(&self.its_own());
        self.overflows = self.all_overflows();
        let ServerReading { processes, processors, hidden, .. } = std::mem::take(&mut self.reading);
        self.reading = ServerReading { processes, processors, hidden, ..ServerReading::default() };
        self.is_loaded = true;
    }

    fn look(&mut self) {
        let sockets = self.its_own();
        let sum =
            |of: fn(&BoundSocket) -> u32| sockets.iter().map(|socket| u64::from(of(socket))).sum::<u64>();
        let (waiting, room) = (sum(|socket| socket.waiting), sum(|socket| socket.receive_buffer));
        let overflows = self.all_overflows().saturating_sub(self.overflows);
        let dropped = dropped(&sockets).saturating_sub(self.dropped);
        let own = &mut self.reading;
        if !self.tcp && self.is_loaded {
            own.most_waiting = own.most_waiting.max(waiting);
            if dropped > 0 && room > 0 {
                let full = waiting as f64 / room as f64;
                own.least_full = Some(own.least_full.map_or(full, |least| least.min(full)));
            }
        }
        let largest = sockets.iter().map(|socket| u64::from(socket.receive_buffer)).max();
        own.receive_buffer = largest.unwrap_or(own.receive_buffer);
        (own.dropped, own.overflows) = (dropped, overflows);
    }

    /// The sockets that are bound to the target's address. If the target is on this host, also the sockets that are
    /// bound to all addresses.
    fn its_own(&mut self) -> Vec<BoundSocket> {
        let (target, tcp) = (self.target, self.tcp);
        let all = self.list.as_mut().and_then(|list| list.bound_to(target.port(), tcp).ok());
        let ip = target.ip().to_canonical();
        let is_its = |socket: &BoundSocket| {
            let local = socket.local.ip();
            local.to_canonical() == ip || (local.is_unspecified() && is_here(target.ip()))
        };
        all.unwrap_or_default().into_iter().filter(is_its).collect()
    }

    /// Number of connections that were dropped because the queue of a listening socket in this network namespace was
    /// full (`ListenOverflows` of `/proc/net/netstat`).
    fn all_overflows(&self) -> u64 {
        if !self.tcp {
            return 0;
        }
        let text = proc::text("/proc/thread-self/net/netstat");
        proc::counter(&text, "TcpExt", "ListenOverflows").unwrap_or(0)
    }

    fn why_hidden(&self, has_no_socket: bool, has_no_process: bool) -> Option<String> {
        let all = "its processor, the share of it that its control group allows, its sockets' receive queues and their drops";
        let target = self.target;
        match () {
            () if self.list.is_none() => Some(format!("this kernel does not list sockets; {all} cannot be seen")),
            () if has_no_socket && is_here(target.ip()) => Some(format!(
                "no socket of this network namespace is bound to {target}; {all} cannot be seen from here"
            )),
            () if has_no_socket => Some(format!(
                "the server is on another host or in another network namespace; {all} cannot be seen from here"
            )),
            () if has_no_process => Some(
                "the server's processes belong to another user; its processor, and the share of it that its control group \
                 allows, cannot be seen without root"
                    .to_owned(),
            ),
            () => None,
        }
    }
}

fn dropped(sockets: &[BoundSocket]) -> u64 {
    sockets.iter().map(|socket| u64::from(socket.dropped)).sum()
}

/// Whether an address belongs to this host.
fn is_here(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_this_host_is_watched_with_its_threads_and_sockets() {
        let server = UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let target = SocketAddr::from(([127, 0, 0, 1], port));
        let mut watch = ServerWatch::open(target, false).unwrap();
        watch.find();
        watch.start();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        // The server, which is this process, does not read until its buffer is full. The kernel updates the time of a
        // running thread at each tick, so this thread works until a tick has occurred.
        while watch.look().dropped < 3 || watch.look().busiest_s == 0.0 {
            client.send_to(&[0; 60_000], target).unwrap();
        }
        let reading = watch.look();
        assert_eq!(reading.hidden, None);
        assert!(reading.most_waiting >= 60_000 && reading.least_full.unwrap() > 0.5, "{reading:?}");
        assert!(reading.processes >= 1 && reading.processors >= 1, "{reading:?}");
        assert!(reading.busiest_s > 0.0 && reading.ran_s >= reading.busiest_s, "{reading:?}");
        // The server empties its buffer once, so the buffer is not full all the time.
        server.set_nonblocking(true).unwrap();
        while server.recv(&mut [0; 65_536]).is_ok() {}
        watch.unload();
        assert!(watch.look().least_full.unwrap() > 0.5, "after the load every server empties its sockets");
        watch.start();
        while watch.look().dropped < 3 {
            client.send_to(&[0; 60_000], target).unwrap();
        }
        while server.recv(&mut [0; 65_536]).is_ok() {}
        assert!(watch.look().least_full.unwrap() < 0.5);
        assert!(watch.end().dropped >= 3);
        watch.start();
        let ServerReading { processes, processors, receive_buffer, .. } = reading;
        let none = ServerReading { processes, processors, receive_buffer, ..ServerReading::default() };
        assert_eq!(watch.end(), none);
    }

    #[test]
    fn what_cannot_be_seen_of_a_server_is_said() {
        let hidden = |target, tcp| {
            let mut watch = ServerWatch::open(target, tcp).unwrap();
            watch.find();
            watch.start();
            watch.look().hidden.unwrap()
        };
        let elsewhere = hidden("192.0.2.7:5060".parse().unwrap(), false);
        assert!(elsewhere.contains("on another host") && elsewhere.contains("its processor"), "{elsewhere}");
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(hidden(nobody, true).contains("no socket of this network namespace"));
    }
}
