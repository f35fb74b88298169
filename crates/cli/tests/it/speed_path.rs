//! The speed meter over a line with known properties: the effect of its queue on new connections, on loaded connections
//! and on each direction, and the advice of `netrig speed tune`. The tests need root on Linux; otherwise each test
//! prints that it was skipped.
#![cfg(target_os = "linux")]

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Duration, Rate};
use netrig_host::ConnectionLimits;
use netrig_host::socket::TcpOptions;
use netrig_host::tls::{self, Trust};
use netrig_speed::admission::AdmissionLimits;
use netrig_speed::measure::{CallOrder, CarriedPhase, Latency, Probing, SpeedCall};
use netrig_speed::meter::{EchoRound, OneWay, clocks};
use netrig_speed::protocol::{Carrier, DataDirection, DatagramLoad, Keyring, MeasurementPhase};
use netrig_speed::request::SpeedServerSettings;
use netrig_speed::responsiveness::{ForeignProbe, Responsiveness};
use netrig_speed::serve::{Server, ServerOrder};
use serde_json::Value;

use crate::common::path_lab::{DiscardingSink, PathLab, near_to_far};

/// near – 10 Mbit/s, 10 ms one-way delay, queue of 40 packets – far.
fn line() -> String {
    near_to_far("line").nodes("near far").fifo("line", "near far", ("10 Mbit/s", "10 ms", 40), "").build()
}

const FAR: &str = "10.0.0.2";
const PORT: u16 = 8621;

/// The round-trip time on the idle line without transmission times, s.
const IDLE: f64 = 0.020;

/// The transmission time of `packets` IP packets of `octets` bytes on the line, s.
fn taken(packets: f64, octets: f64) -> f64 {
    packets * octets * 8.0 / 10e6
}

/// Maximum number of attempts in tests that a busy machine may disturb.
const ATTEMPTS: usize = 4;

/// A line built for a test.
struct Line(PathLab<DiscardingSink>);

impl Deref for Line {
    type Target = PathLab<DiscardingSink>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Line {
    /// Builds the line. If this is not possible, prints the reason directly to stderr and returns `None`.
    fn build() -> Option<Self> {
        PathLab::build_if_possible("line", &line()).map(Self)
    }

    /// Runs a function on the node near while a server listens on the node far.
    fn served<T: Send>(&self, job: impl FnOnce(SocketAddr) -> T + Send) -> T {
        let address = SocketAddr::new(FAR.parse().expect("an address"), PORT);
        let (listen, port) = (vec![address.into()], address.port());
        let settings =
            SpeedServerSettings { listen, port, iperf3_port: Some(port), open: true, ..Default::default() };
        let (limits, connections) = (AdmissionLimits::default(), ConnectionLimits::default());
        let order = ServerOrder { settings, limits, connections, keys: Keyring::default() };
        let server = self.on("far", || Server::open(order).expect("it listens"));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // The thread of a session opens its sockets, so they are in the namespace of far.
            let serving = scope.spawn(|| self.on("far", || server.serve(&stop)));
            let done = self.on("near", || job(address));
            stop.store(true, Ordering::Relaxed);
            serving.join().expect("it ends").expect("it has served");
            done
        })
    }

    fn close(self) {
        self.0.close();
    }
}

/// The observations of all phases.
struct Seen {
    carriages: Vec<CarriedPhase>,
    rounds: Vec<EchoRound>,
    probes: Vec<ForeignProbe>,
    one_clock: bool,
}

/// Runs phases one after the other, with echoes during each phase. If the rate of the line, `probed` (bit/s), suffices,
/// each phase is also probed by new connections.
fn carry(server: SocketAddr, carriers: &[Carrier], probed: f64) -> Seen {
    let tls = tls::client(&Trust::Anyone, None).expect("a client");
    let order = CallOrder {
        server,
        name: server.ip().into(),
        tls,
        key: None,
        rate: None,
        options: TcpOptions::default(),
    };
    let nobody = AtomicBool::new(false);
    let mut call = SpeedCall::connect(order.clone(), &nobody, &mut |_, _| {}).expect("it lets us in");
    let (local, token) = (SocketAddr::new(call.ends()[0].ip(), 0), call.budget().token);
    let latency = Latency::begin(local, server, token, Duration::from_millis(20)).expect("it begins");
    let probing = Probing::begin(order).expect("it begins");
    probing.carries(DataDirection::Down, [probed; 2]);
    let carriages = carriers.iter().map(|carrier| {
        let phase =
            MeasurementPhase::new(carrier.clone(), Duration::from_secs(4), Duration::from_millis(100));
        call.carry(phase, &nobody, &mut |_| {}).expect("it carries")
    });
    let carriages = carriages.collect();
    let one_clock = call.reads_our_clock();
    let (rounds, probes) = (latency.end().expect("it ends"), probing.end().expect("it ends"));
    call.close();
    Seen { carriages, rounds, probes, one_clock }
}

impl Seen {
    /// The delays in each direction in a phase, without its first `without_s` seconds.
    fn ways(&self, phase: usize, without_s: f64) -> OneWay {
        let [begun, ended] = self.carriages[phase].span;
        let from = begun + (without_s * 1e9) as u64;
        let within = self.rounds.iter().filter(|round| (from..=ended).contains(&round.sent));
        OneWay::of(within, clocks(&self.rounds, self.one_clock)).expect("one clock is read")
    }

    fn responsiveness(&self, phase: usize, without_s: f64) -> Responsiveness {
        let carriage = &self.carriages[phase];
        Responsiveness::of_phase(&self.probes, &carriage.far.counted, carriage.span, without_s)
            .expect("probes")
    }
}

/// Datagrams at more than the line's rate keep its queue full, so each delivered datagram waits for 40 others. The
/// opposite direction is not affected.
#[test]
fn a_full_queue_is_told_in_its_direction() {
    let Some(line) = Line::build() else { return };
    let udp = |way| Carrier::Udp { way, size: 1200, load: DatagramLoad::Fixed { bits_per_s: 12_000_000 } };
    let mut told = Vec::new();
    for _ in 0..ATTEMPTS {
        let seen = line.served(|server| {
            carry(server, &[Carrier::Idle, udp(DataDirection::Down), udp(DataDirection::Up)], 0.0)
        });
        assert!(seen.one_clock && seen.probes.is_empty());
        let [idle, down, up] = [seen.ways(0, 0.5), seen.ways(1, 1.0), seen.ways(2, 1.0)];
        assert_eq!(idle.bound_s, 0.0);
        // The median is compared, because more than a tenth of the datagrams is lost, and higher quantiles may be
        // undefined.
        let p50 = |delays: netrig_speed::meter::Delays| delays.p50_s.unwrap_or(f64::INFINITY);
        let added = [p50(down.down) - p50(idle.down), p50(up.up) - p50(idle.up)];
        let else_where = [p50(down.up) - p50(idle.up), p50(up.down) - p50(idle.down)];
        let queue = taken(40.0, 1228.0);
        let fits = added.iter().all(|added| (added / queue - 1.0).abs() < 0.1)
            && else_where.iter().all(|added| added.abs() < 0.1 * queue);
        if fits && (p50(idle.up) - 0.010).abs() < 0.001 && (p50(idle.down) - 0.010).abs() < 0.001 {
            return line.close();
        }
        told.push((added, else_where, queue, idle));
    }
    panic!("{told:#?}");
}

/// Connections fill the line and its queue. The round-trip times of new connections and of the filling connections are
/// between that of the idle line and that with a full queue.
#[test]
fn a_filled_queue_makes_new_and_loaded_connections_wait() {
    let Some(line) = Line::build() else { return };
    // Reno fills queues, and every kernel has it.
    let tcp = Carrier::Tcp { way: DataDirection::Down, streams: 4, congestion: Some("reno".to_owned()) };
    let mut told = Vec::new();
    for _ in 0..ATTEMPTS {
        let seen = line.served(|server| carry(server, &[Carrier::Idle, tcp.clone()], 10e6));
        let (idle, loaded) = (seen.responsiveness(0, 0.0), seen.responsiveness(1, 1.0));
        let queue = taken(40.0, 1500.0);
        let median =
            |trips: &netrig_speed::responsiveness::ProbeTimes| trips.delays.p50_s.unwrap_or(f64::INFINITY);
        let is_idle = |trips| (IDLE..IDLE + 0.008).contains(&median(trips));
        // The queue is not always full, because one of the four connections may have just reduced its window.
        let waits = |trips| (IDLE + 0.4 * queue..IDLE + 1.15 * queue).contains(&median(trips));
        let each = [&loaded.connect, &loaded.secure, &loaded.answer];
        let foreign = loaded.rpm_p50.foreign.unwrap_or(0.0);
        let of_queue = 60.0 / (IDLE + 1.15 * queue)..60.0 / (IDLE + 0.4 * queue);
        if [&idle.connect, &idle.answer].into_iter().all(is_idle)
            && each.into_iter().all(waits)
            && loaded.loaded.as_ref().is_some_and(waits)
            && of_queue.contains(&foreign)
        {
            assert!(
                idle.rpm.loaded.is_none() && idle.rpm.foreign > loaded.rpm.foreign,
                "{idle:#?} {loaded:#?}"
            );
            return line.close();
        }
        told.push((idle, loaded));
    }
    panic!("{told:#?}");
}

fn finding<'a>(told: &'a Value, name: &str) -> &'a Value {
    let settings = told["settings"].as_array().expect("settings");
    settings.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name}: {told:#}"))
}

/// The command that `netrig speed tune` prints corrects the setting. tune itself changes no settings.
#[test]
fn what_tune_advises_mends_the_terminal() {
    let Some(line) = Line::build() else { return };
    let program = env!("CARGO_BIN_EXE_netrig");
    let tune = |more: &[&str]| -> Value {
        let out = line.run("near", program, &[&["speed", "tune", FAR, "--json"], more].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    };
    line.run("near", "sysctl", &["-qw", "net.ipv4.tcp_rmem=4096 65536 131072", "net.ipv4.tcp_sack=0"]);
    let told = tune(&["--rate", "100 Mbit/s"]);
    // The window for 100 Mbit/s and a round-trip time of 20 ms is slightly more than 250 KB.
    let window = told["window_bytes"].as_u64().expect("it is known");
    assert!((250_000..400_000).contains(&window), "{told:#}");
    for (name, verdict) in [("net.ipv4.tcp_rmem", "too-small"), ("net.ipv4.tcp_sack", "unfit")] {
        let found = finding(&told, name);
        assert_eq!(found["verdict"], verdict, "{told:#}");
        line.run("near", "sh", &["-c", found["mend"].as_str().expect("a command")]);
        assert_eq!(finding(&tune(&["--rate", "100 Mbit/s"]), name)["verdict"], "fits");
    }
    // With `--measure`, a short measurement with a server gives the rate of the line.
    let told = line.served(|_| tune(&["--measure"]));
    assert_eq!(told["rate_from"], "measured");
    let rate = told["rate_bits_per_s"].as_u64().expect("it was measured");
    assert!(rate < Rate::from_bits_per_s(10_000_000).bits_per_s() && rate > 0, "{told:#}");
    line.close();
}
