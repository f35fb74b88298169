//! Measures the frames per second that pass from one node to another through the ring and the frame sender, and their
//! lateness. The rate is 10,000 frames/s, and then as high as possible. For comparison, the kernel's bridge between the
//! same interfaces is measured. Needs root and `ip`.
//!
//! `cargo run --release -p netrig-netns --example forwarding [SECONDS]`
#![cfg_attr(
    target_os = "linux",
    allow(
        clippy::disallowed_types,
        clippy::disallowed_methods,
        reason = "a measurement of this machine asks its clock"
    )
)]

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("namespaces are Linux's");
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    measurement::main()
}

#[cfg(target_os = "linux")]
mod measurement {
    use std::net::UdpSocket;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant, SystemTime};

    use netrig_experiment::Experiment;
    use netrig_netns::{
        FrameSender, Journals, ReceiveRing, ReceivedFrame, RingCounters, Testbed, TestbedId, Wiring,
    };

    type Failure = Box<dyn std::error::Error>;

    /// The experiment of `bench/router`. Only its two nodes and their link are used.
    const EXPERIMENT: &str = include_str!("../../../../bench/netrig/router.toml");

    /// Length of the Ethernet, IPv4 and UDP headers and of the frame check sequence, bytes.
    const OVERHEAD: usize = 14 + 20 + 8 + 4;
    /// Number of slots of the ring: about 10 ms at 1,000,000 frames/s.
    const SLOTS: usize = 8192;

    pub fn main() -> Result<(), Failure> {
        let seconds = std::env::args().nth(1).map_or(Ok(2.0), |text| text.parse())?;
        let time = Duration::from_secs_f64(seconds);
        println!("{:>6} {:>7} {:>10} {:>10} {:>10}", "frame", "by", "sent/s", "arrived/s", "arrived");
        for size in [64, 1518] {
            for pace in [Some(10_000.0), None] {
                for by in [Forwarder::ReceiveRing, Forwarder::Bridge] {
                    measure(size, by, time, pace)?;
                }
            }
        }
        Ok(())
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Forwarder {
        ReceiveRing,
        Bridge,
    }

    fn measure(size: usize, by: Forwarder, time: Duration, pace: Option<f64>) -> Result<(), Failure> {
        let experiment =
            Experiment::parse("router.toml", EXPERIMENT).map_err(|problems| problems.to_string())?;
        let scenario = experiment.plan().scenario(0).map_err(|problems| problems.to_string())?;
        let testbed = Testbed::build(&Journals::default(), &TestbedId::fresh()?, Wiring::new(&scenario)?)?;
        // Without this socket, node b would answer with ICMP "port unreachable".
        let _taker = testbed.in_node(1, || UdpSocket::bind("10.0.0.2:4000"))??;
        let stop = AtomicBool::new(false);
        let passing = match by {
            Forwarder::ReceiveRing => Some(Passing::new(&testbed)?),
            Forwarder::Bridge => {
                bridge(&testbed)?;
                None
            }
        };
        let (sent, told) = std::thread::scope(|scope| {
            let forwarder = passing.map(|passing| scope.spawn(|| passing.run(&stop)));
            let sent = load(&testbed, size - OVERHEAD, time, pace);
            stop.store(true, Ordering::Relaxed);
            (sent, forwarder.and_then(|forwarder| forwarder.join().ok()))
        });
        let (sent, arrived) = (sent?, arrived(&testbed)?);
        let rate = |frames: u64| frames as f64 / time.as_secs_f64();
        let (name, told) = match told {
            Some(told) => ("ring", told?),
            None => ("bridge", String::new()),
        };
        println!(
            "{size:>4} B {name:>7} {:>10.0} {:>10.0} {:>8.1} %  {told}",
            rate(sent),
            rate(arrived),
            100.0 * arrived as f64 / sent as f64
        );
        Ok(())
    }

    /// Sends datagrams from node a at `pace` frames/s, or as fast as possible if `pace` is `None`. Returns the number
    /// of frames sent.
    fn load(testbed: &Testbed, payload: usize, time: Duration, pace: Option<f64>) -> Result<u64, Failure> {
        let socket = testbed.in_node(0, || UdpSocket::bind("10.0.0.1:4000"))??;
        socket.connect("10.0.0.2:4000")?;
        let (payload, begun, mut sent) = (vec![0; payload], Instant::now(), 0_u64);
        while begun.elapsed() < time {
            if pace.is_some_and(|pace| sent as f64 >= begun.elapsed().as_secs_f64() * pace) {
                std::thread::sleep(Duration::from_micros(50));
                continue;
            }
            // If the send buffer is full, the datagram is not sent.
            sent += u64::from(socket.send(&payload).is_ok());
        }
        Ok(sent)
    }

    /// The number of frames that node b's interface received.
    fn arrived(testbed: &Testbed) -> Result<u64, Failure> {
        let devices = testbed.in_node(1, || std::fs::read_to_string("/proc/thread-self/net/dev"))??;
        let line =
            devices.lines().find_map(|line| line.trim().strip_prefix("line:")).ok_or("no such interface")?;
        Ok(line.split_whitespace().nth(1).ok_or("no count")?.parse()?)
    }

    fn bridge(testbed: &Testbed) -> Result<(), Failure> {
        let ip = |arguments: &[&str]| -> Result<(), Failure> {
            let router = testbed.router_namespace();
            let done = Command::new("ip").args(["-n", router]).args(arguments).status()?;
            done.success().then_some(()).ok_or_else(|| "ip failed".into())
        };
        ip(&["link", "add", "bridge", "up", "type", "bridge", "forward_delay", "0"])?;
        for name in testbed.wiring().links[0].ends.iter().filter_map(|end| end.router_interface.as_deref()) {
            ip(&["link", "set", name, "master", "bridge"])?;
        }
        Ok(())
    }

    /// Forwards frames between the two ends of the link.
    struct Passing {
        ring: ReceiveRing,
        /// The two interfaces, each with the sender for the other interface.
        senders: [(u32, FrameSender); 2],
        lateness: Vec<Duration>,
        last: Duration,
        backwards: u64,
        furthest: Duration,
        refused: usize,
    }

    impl Passing {
        fn new(testbed: &Testbed) -> Result<Self, Failure> {
            let [a, b] = &testbed.wiring().links[0].ends;
            let senders = [
                (a.index, FrameSender::open(testbed, b.index)?),
                (b.index, FrameSender::open(testbed, a.index)?),
            ];
            let (ring, zero) = (ReceiveRing::open(testbed, SLOTS)?, Duration::ZERO);
            Ok(Self {
                ring,
                senders,
                lateness: Vec::new(),
                last: zero,
                backwards: 0,
                furthest: zero,
                refused: 0,
            })
        }

        /// Forwards frames until `stop` is set and no frame is left. Returns a summary.
        fn run(mut self, stop: &AtomicBool) -> Result<String, String> {
            loop {
                let stopped = stop.load(Ordering::Relaxed);
                let waits = self.ring.wait(Duration::from_millis(10)).map_err(|error| error.to_string())?;
                if stopped && !waits {
                    break;
                }
                let senders = &self.senders;
                let (stamps, refused) = self.ring.read(64, |frames| {
                    let stamps: Vec<_> = frames.iter().map(|frame| frame.at).collect();
                    (stamps, senders.iter().map(|way| pass(frames, way)).sum::<usize>())
                });
                self.refused += refused;
                self.note(&stamps);
            }
            self.tell()
        }

        /// Records how late frames with these time stamps have left.
        fn note(&mut self, stamps: &[Duration]) {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            for at in stamps {
                self.lateness.push(now.saturating_sub(*at));
                self.backwards += u64::from(*at < self.last);
                self.furthest = self.furthest.max(self.last.saturating_sub(*at));
                self.last = *at;
            }
        }

        fn tell(mut self) -> Result<String, String> {
            let RingCounters { offered, dropped } = self.ring.counts().map_err(|error| error.to_string())?;
            self.lateness.sort_unstable();
            let late = |share: f64| {
                let place = (self.lateness.len() as f64 * share) as usize;
                let late = self.lateness.get(place.min(self.lateness.len().saturating_sub(1)));
                late.map_or(0.0, |late| late.as_secs_f64() * 1e6)
            };
            let late = [0.5, 0.99, 1.0].map(late);
            Ok(format!(
                "late by {:.0} us (median), {:.0} us (99 %), {:.0} us (most); of {offered} frames in the ring \
                 {dropped} dropped, {} refused; {} stamps went back, by {:.1} us at most",
                late[0],
                late[1],
                late[2],
                self.refused,
                self.backwards,
                self.furthest.as_secs_f64() * 1e6
            ))
        }
    }

    /// Sends the frames that arrived at one interface through the other interface. Returns the number of refused
    /// frames.
    fn pass(frames: &[ReceivedFrame<'_>], (from, sender): &(u32, FrameSender)) -> usize {
        let frames = frames.iter().filter(|frame| frame.interface == *from);
        let frames: Vec<_> = frames.map(|frame| frame.bytes).collect();
        frames.len() - sender.send(&frames).unwrap_or(0)
    }
}
