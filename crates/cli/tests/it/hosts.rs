//! Properties of hosts that an experiment can vary, compared with the kernel's counts and the traffic on the wire. The
//! tests need root on Linux; otherwise each test prints that it was skipped.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use netrig_core::{Frame, Heading, Note, Quantity, Sample, Sink, Subject, quantity};
use netrig_experiment::Substrate as _;
use netrig_sim::Simulator;
use netrig_test_support::{ExperimentText, skip_unless};

use crate::common::carried_out::{carry_out, run};
use crate::common::machine::{can, folder, skipped};
use crate::common::{netrig, text};

/// An experiment with a client on a line. `client` has settings of the client.
fn experiment(client: &str, flow: &str) -> String {
    ExperimentText::new("hosts", "2 s")
        .table("replications", "count = 1")
        .table("node.client", client)
        .nodes("server")
        .fifo("line", "client server", ("20 Mbit/s", "5 ms", 100), "")
        .table("transport.tcp", r#"kind = "tcp", profile = "linux", congestion = "reno""#)
        .table("transport.udp", r#"kind = "udp""#)
        .table("flow.test", flow)
        .response("load", "node.client", "load")
        .response("goodput", "flow.test", "goodput")
        .build()
}

const UP: &str = "from = \"client\"\nto = \"server\"\ntransport = \"udp\"\napplication = { kind = \"cbr\", rate = \"1 Mbit/s\", size = \"1400 B\" }";
const FETCHED: &str =
    "from = \"server\"\nto = \"client\"\ntransport = \"tcp\"\napplication = { kind = \"bulk\" }";
const SENT: &str =
    "from = \"client\"\nto = \"server\"\ntransport = \"tcp\"\napplication = { kind = \"bulk\" }";

/// The last of the processors on which this process may run; `None` if there is no other one for the testbed.
fn own_processor() -> Option<usize> {
    let status = text_of(Path::new("/proc/self/status"));
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned();
    let last = list.rsplit([',', '-']).next()?.parse().ok()?;
    if list.contains([',', '-']) {
        return Some(last);
    }
    skipped("two processors");
    None
}

fn text_of(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// A `netrig lab` process that runs a command on the client. It is killed when it is dropped.
struct Lab {
    folder: tempfile::TempDir,
    process: Child,
}

impl Lab {
    fn open(experiment: &str, command: &str) -> Self {
        let folder = folder("hosts", experiment);
        let mut netrig = Command::new(env!("CARGO_BIN_EXE_netrig"));
        netrig.args(["lab", "hosts.toml", "--node", "client", "--", "sh", "-c", command]);
        netrig.current_dir(folder.path()).env("NETRIG_RUN_DIR", folder.path().join("journals"));
        netrig.stdin(Stdio::null()).stdout(Stdio::null());
        let process = netrig.spawn().expect("netrig starts");
        Self { folder, process }
    }

    /// The values in its journal after this word.
    fn named(&self, word: &str) -> Vec<String> {
        let journals = std::fs::read_dir(self.folder.path().join("journals")).into_iter().flatten().flatten();
        let text: String = journals.map(|file| text_of(&file.path())).collect();
        let line = |line: &str| line.strip_prefix(word)?.strip_prefix(' ').map(str::to_owned);
        text.lines().filter_map(line).collect()
    }

    /// Waits for the process in its journal whose command line contains `part`. Returns its identifier.
    fn process(&mut self, part: &str) -> u32 {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            for line in self.named("process") {
                let pid = line.split(' ').next().unwrap_or_default().to_owned();
                let command = text_of(&PathBuf::from(format!("/proc/{pid}/cmdline"))).replace('\0', " ");
                if command.contains(part) {
                    return pid.parse().expect("a number");
                }
            }
            let ended = self.process.try_wait().expect("it is ours");
            assert!(ended.is_none(), "the lab has ended: {ended:?}");
            assert!(Instant::now() < deadline, "nothing with `{part}` was started");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn kill(&mut self) {
        // The call fails only if the process has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Runs `netrig doctor`, which removes what the lab left behind. Returns the output.
    fn doctor(&self) -> String {
        let mut netrig = Command::new(env!("CARGO_BIN_EXE_netrig"));
        netrig.arg("doctor").current_dir(self.folder.path());
        netrig.env("NETRIG_RUN_DIR", self.folder.path().join("journals"));
        text(&netrig.output().expect("netrig starts").stdout)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.kill();
        self.doctor();
    }
}

/// The times that the threads of a process have run and have waited to run, s (Documentation/scheduler/sched-stats).
fn had(pid: u32) -> [f64; 2] {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.fold([0.0; 2], |[ran, waited], thread| {
        let text = text_of(&thread.path().join("schedstat"));
        let mut ns = text.split(' ').map_while(|word| word.parse::<f64>().ok());
        [ran + ns.next().unwrap_or(0.0) / 1e9, waited + ns.next().unwrap_or(0.0) / 1e9]
    })
}

/// The times that the threads ran and waited during `span`, s, and the minimum and the maximum of the elapsed time, s,
/// because a reading itself takes time.
fn over(pid: u32, span: Duration) -> ([f64; 2], [f64; 2]) {
    let most = Instant::now();
    let before = had(pid);
    let least = Instant::now();
    std::thread::sleep(span);
    let least = least.elapsed().as_secs_f64();
    let after = had(pid);
    ([after[0] - before[0], after[1] - before[1]], [least, most.elapsed().as_secs_f64()])
}

/// The kernel's count of the load is the requested share of the time, with these deviations. The measurement may start
/// and end within a period. The load has run less if other processes delayed it; the kernel counts this time. It has
/// run more if it makes up for an earlier delay of at most one period. The kernel updates the count of a thread at each
/// clock tick, at most every 10 ms.
#[test]
fn a_load_has_the_share_that_was_asked_for_on_its_processor_alone() {
    skip_unless!(can(&[]));
    let Some(cpu) = own_processor() else { return };
    for share in [0.25, 0.6, 0.9] {
        let client = format!("cpus = [{cpu}]\nload = {share}");
        let mut lab = Lab::open(&experiment(&client, UP), "sleep 100");
        let load = lab.process(" agent load ");
        std::thread::sleep(Duration::from_millis(200));
        let ([ran, waited], [least, most]) = over(load, Duration::from_secs(2));
        let (of_a_period, tick) = (share * 0.010, 0.010);
        assert!(ran <= share * most + 3.0 * of_a_period + tick, "{share}: ran for {ran} s of {most}");
        let owed = share * least - 2.0 * of_a_period - tick - waited;
        assert!(ran >= owed, "{share}: ran for {ran} s of {least}, waited for {waited}");
        for thread in std::fs::read_dir(format!("/proc/{load}/task")).unwrap().flatten() {
            let status = text_of(&thread.path().join("status"));
            assert!(status.contains(&format!("Cpus_allowed_list:\t{cpu}\n")), "{status}");
        }
    }
}

/// If two threads compete for a processor, each gets half.
#[test]
fn a_load_competes_as_any_program_does() {
    skip_unless!(can(&[]));
    let Some(cpu) = own_processor() else { return };
    let client = format!("cpus = [{cpu}]\nload = 1");
    let mut lab = Lab::open(&experiment(&client, UP), "while :; do :; done");
    let (load, other) = (lab.process(" agent load "), lab.process("while"));
    std::thread::sleep(Duration::from_millis(200));
    let before = [had(load)[0], had(other)[0]];
    std::thread::sleep(Duration::from_secs(2));
    let [load, other] = [had(load)[0] - before[0], had(other)[0] - before[1]];
    let share = load / (load + other);
    // The scheduler's slices of a few milliseconds average out over two seconds.
    assert!((share - 0.5).abs() < 0.05, "the load ran for {load} s and the other for {other} s");
}

/// The text of the first existing file of these names in the control groups that a lab's journal names.
fn of_groups(lab: &Lab, files: &[&str]) -> Option<String> {
    let folders = lab.named("group");
    let texts = folders.iter().flat_map(|folder| files.iter().map(|file| Path::new(folder).join(file)));
    texts.filter(|file| file.exists()).map(|file| text_of(&file)).next()
}

/// Whether this machine has the control-group limits that such a client needs.
fn can_be(client: &str) -> bool {
    let folder = folder("hosts", &experiment(client, UP));
    let told = netrig(folder.path(), &["check", "hosts.toml"]);
    let told = text(&told.stdout) + &text(&told.stderr);
    let lacks = told.lines().find(|line| line.contains("controller"));
    lacks.iter().for_each(|line| skipped(line));
    lacks.is_none()
}

/// The settings of a client with these limits and its own processor; `None` if this machine does not have them.
fn held(settings: &str) -> Option<String> {
    if !can(&[]) {
        return None;
    }
    let client = format!("cpus = [{}]\n{settings}", own_processor()?);
    can_be(&client).then_some(client)
}

#[test]
fn a_quota_holds_by_the_kernels_counts() {
    let Some(client) = held("quota = \"30 %\"") else { return };
    let mut lab = Lab::open(&experiment(&client, UP), "while :; do :; done");
    let loops = lab.process("while");
    std::thread::sleep(Duration::from_millis(200));
    let ([ran, _], [_, passed]) = over(loops, Duration::from_secs(2));
    // The quota holds for each period of 10 ms; the first and the last are measured partly. The kernel's slice is 5 ms
    // (sched-bwc).
    let most = 0.3 * (passed + 0.020) + 0.005;
    assert!(ran > 0.0 && ran <= most, "it ran for {ran} s of {passed}");
    let stat = of_groups(&lab, &["cpu.stat"]).expect("the journal names the group");
    let throttled = stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")).unwrap();
    assert!(throttled.parse::<u64>().unwrap() > 0, "{stat}");
    let limit = of_groups(&lab, &["cpu.max", "cpu.cfs_quota_us"]).unwrap();
    assert!(limit.starts_with("3000"), "{limit}");
}

#[test]
fn what_needs_more_memory_than_a_node_has_is_ended() {
    skip_unless!(can(&["tail", "head"]));
    let client = "memory = \"32 MiB\"";
    skip_unless!(can_be(client));
    let folder = folder("hosts", &experiment(client, UP));
    let words = ["lab", "hosts.toml", "--node", "client", "--", "sh", "-c"];
    let lab = |command: &str| netrig(folder.path(), &[&words[..], &[command]].concat());
    // `tail` keeps input without a line end in memory.
    let small = lab("head -c 1000000 /dev/zero | tail -n 1 | wc -c");
    assert_eq!(text(&small.stdout).trim(), "1000000", "{}", text(&small.stderr));
    let large = lab("head -c 100000000 /dev/zero | tail -n 1 | wc -c");
    assert_ne!(text(&large.stdout).trim(), "100000000", "it does not fit");
    let mut held = Lab::open(&experiment(client, UP), "sleep 100");
    held.process("sleep");
    let limit = of_groups(&held, &["memory.max", "memory.limit_in_bytes"]).unwrap();
    assert_eq!(limit.trim(), (32 << 20).to_string());
}

/// Control groups are removed with their testbed. If the owner of the testbed was killed, they and their processes are
/// removed by means of the journal.
#[test]
fn nothing_of_a_host_outlives_a_killed_owner() {
    let Some(client) = held("load = 0.2\nquota = 0.5\nmemory = \"64 MiB\"") else { return };
    let mut lab = Lab::open(&experiment(&client, UP), "setsid sleep 777 & exec sleep 778");
    let load = lab.process(" agent load ");
    let groups = lab.named("group");
    assert!(!groups.is_empty() && groups.iter().all(|folder| Path::new(folder).is_dir()), "{groups:?}");
    lab.kill();
    let told = lab.doctor();
    assert!(!groups.iter().any(|folder| Path::new(folder).exists()), "{told}");
    let stat = text_of(&PathBuf::from(format!("/proc/{load}/stat")));
    assert!(stat.is_empty() || stat.contains(" Z "), "{stat}");
    assert_eq!(lab.named("group"), [""; 0], "{told}");
    // The same for a lab that ends normally.
    let folder = folder("hosts", &experiment(&client, UP));
    let ended =
        netrig(folder.path(), &["lab", "hosts.toml", "--node", "client", "--", "cat", "/proc/self/cgroup"]);
    let inside = text(&ended.stdout);
    let name = inside.lines().find_map(|line| line.split('/').find(|part| part.starts_with("netrig-")));
    let name = name.unwrap_or_else(|| panic!("{inside}{}", text(&ended.stderr)));
    let left =
        groups.iter().map(|folder| Path::new(folder).with_file_name(name)).find(|folder| folder.exists());
    assert_eq!(left, None);
}

/// A sink for the packets of the client, and for the samples and notes.
#[derive(Default)]
struct Seen {
    frames: Vec<(Heading, Vec<u8>)>,
    notes: Vec<String>,
    loads: Vec<f64>,
    delays: Vec<f64>,
}

impl Sink for Seen {
    fn sample(&mut self, _subject: Subject, sample: Sample) {
        if std::ptr::eq(sample.quantity, &raw const quantity::HOST_LOAD) {
            self.loads.push(sample.value);
        }
        if std::ptr::eq(sample.quantity, &raw const quantity::ONE_WAY_DELAY) {
            self.delays.push(sample.value);
        }
    }
    fn wants(&self, quantity: &'static Quantity) -> bool {
        [&raw const quantity::HOST_LOAD, &raw const quantity::ONE_WAY_DELAY]
            .contains(&std::ptr::from_ref(quantity))
    }
    fn wants_notes(&self) -> bool {
        true
    }
    fn note(&mut self, note: Note) {
        self.notes.push(note.text);
    }
    fn wants_frames(&self, node: u32) -> bool {
        node == 0
    }
    fn frame(&mut self, frame: &Frame<'_>) {
        self.frames.push((frame.heading, frame.bytes.to_vec()));
    }
}

impl Seen {
    /// The IPv4 packets in this direction.
    fn packets(&self, heading: Heading) -> impl Iterator<Item = Packet<'_>> {
        self.frames
            .iter()
            .filter(move |(way, _)| *way == heading)
            .filter_map(|(_, bytes)| Packet::read(bytes))
    }
}

/// An IPv4 packet (RFC 791 section 3.1).
struct Packet<'a> {
    len: u16,
    may_be_cut: bool,
    is_fragment: bool,
    protocol: u8,
    rest: &'a [u8],
}

impl<'a> Packet<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let number = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let (len, flags) = (number(2)?, number(6)?);
        Some(Self {
            len,
            may_be_cut: flags & 0x4000 == 0,
            is_fragment: flags & 0x3fff != 0,
            protocol: *bytes.get(9)?,
            rest: bytes.get(usize::from(bytes[0] & 15) * 4..)?,
        })
    }

    /// The window in the header (RFC 9293 section 3.1).
    fn window(&self) -> u16 {
        u16::from_be_bytes([self.rest[14], self.rest[15]])
    }

    /// The window scale of a SYN (RFC 7323 section 2.2: kind 3, length 3).
    fn window_scale(&self) -> Option<u8> {
        let header = self.rest.get(20..usize::from(self.rest.get(12)? >> 4) * 4)?;
        let is_syn = self.rest[13] & 2 != 0;
        let at = header.windows(2).position(|bytes| bytes == [3, 3]).filter(|_| is_syn)?;
        header.get(at + 2).copied()
    }

    /// The maximum segment size that a SYN announces (RFC 9293 section 3.2: kind 2, length 4).
    fn mss(&self) -> Option<u16> {
        let tcp = (self.protocol == 6).then_some(self.rest)?;
        let header = tcp.get(20..usize::from(tcp.get(12)? >> 4) * 4)?;
        let is_syn = tcp[13] & 2 != 0;
        (is_syn && header.starts_with(&[2, 4])).then(|| u16::from_be_bytes([header[2], header[3]]))
    }
}

fn seen(client: &str, flow: &str) -> Seen {
    judged(&experiment(client, flow)).0
}

/// The observations of a run, and why it is invalid (empty if it is valid).
fn judged(text: &str) -> (Seen, String) {
    let mut seen = Seen::default();
    let outcome = carry_out(&run(text, 0), &mut seen, &AtomicBool::new(false));
    (seen, outcome.unwrap_or_else(|error| panic!("{error}")).invalid.unwrap_or_default())
}

/// Runs the experiment of a client with its own processor up to four times, until no other process used too much of
/// that processor. `None` if this failed; the reason is printed to stderr.
fn judged_alone(text: &str) -> Option<(Seen, String)> {
    let others = "other processes than those of node";
    let mut runs = (0..4).map(|_| judged(text));
    let found = runs.find(|(_, invalid)| !invalid.contains(others));
    if found.is_none() {
        skipped("a processor that others leave to a test");
    }
    found
}

/// The observations of a run in virtual time.
fn simulated(client: &str, flow: &str) -> Seen {
    let mut seen = Seen::default();
    let run = run(&experiment(client, flow), 0);
    let simulator = Simulator::default();
    simulator.check(&run).unwrap_or_else(|why| panic!("{why}"));
    simulator.run(&run, &mut seen, &AtomicBool::new(false)).unwrap_or_else(|error| panic!("{error}"));
    seen
}

#[test]
fn a_host_sends_no_longer_packets_than_its_mtu_and_announces_what_it_takes() {
    lengths(simulated);
    skip_unless!(can(&[]));
    lengths(seen);
}

fn lengths(seen: fn(&str, &str) -> Seen) {
    // An MTU of 1000 B without 40 B of headers (RFC 9293 section 3.7.1) gives an MSS of 960 B. Received segments are as
    // long as the client's own limits.
    let by_mtu = seen("mtu = \"1000 B\"", FETCHED);
    assert_eq!(by_mtu.packets(Heading::Outbound).find_map(|packet| packet.mss()), Some(960));
    assert_eq!(by_mtu.packets(Heading::Inbound).map(|packet| packet.len).max(), Some(1000));
    let by_mss = seen("mss = \"500 B\"", FETCHED);
    assert_eq!(by_mss.packets(Heading::Outbound).find_map(|packet| packet.mss()), Some(500));
    assert_eq!(by_mss.packets(Heading::Inbound).map(|packet| packet.len).max(), Some(540));
    // The segments of the client are limited by the MSS that the server announces, which depends on the server's link.
    let sent = seen("mss = \"500 B\"", SENT);
    assert_eq!(sent.packets(Heading::Outbound).map(|packet| packet.len).max(), Some(1500));
    let sent = seen("mtu = \"600 B\"", SENT);
    assert_eq!(sent.packets(Heading::Outbound).map(|packet| packet.len).max(), Some(600));
}

/// The windows that the client offers in the second half of its segments, bytes. During the first half, its kernel
/// learns the share of data in its receive memory.
fn offered(seen: &Seen) -> Vec<u32> {
    let all: Vec<_> = seen.packets(Heading::Outbound).filter(|packet| packet.protocol == 6).collect();
    // FTP has a connection for commands too. The data connection has the most segments.
    let ports = |packet: &Packet| <[u8; 4]>::try_from(&packet.rest[..4]).expect("a header");
    let count = |of: [u8; 4]| all.iter().filter(|packet| ports(packet) == of).count();
    let data = all.iter().map(ports).max_by_key(|of| count(*of)).expect("a segment");
    let segments: Vec<_> = all.iter().filter(|packet| ports(packet) == data).collect();
    let scale = segments.iter().find_map(|packet| packet.window_scale()).unwrap_or(0);
    segments[segments.len() / 2..].iter().map(|packet| u32::from(packet.window()) << scale).collect()
}

/// The largest offered window is at most the configured one, and more than half of it: a window update is sent at the
/// latest when half of the window is free.
#[test]
fn the_window_on_the_wire_is_that_of_the_host() {
    let check = |seen: fn(&str, &str) -> Seen, window: u32| {
        for more in ["", "\nmtu = \"600 B\""] {
            let offered = offered(&seen(&format!("window = \"{window} B\"{more}"), FETCHED));
            let most = offered.iter().copied().max().unwrap();
            assert!(most <= window && most > window / 2, "{most} of {window}{more}");
        }
    };
    for window in [2920, 5840, 20_000, 60_000, 100_000] {
        check(simulated, window);
    }
    skip_unless!(can(&[]));
    for window in [2920, 5840, 20_000, 60_000, 100_000] {
        check(seen, window);
    }
}

/// An FTP client offers the window too. It does not limit the data that the client sends.
#[test]
fn a_window_is_of_who_receives() {
    skip_unless!(can(&["vsftpd"]));
    let file = |direction: &str| {
        format!(
            "from = \"client\"\nto = \"server\"\ntransport = \"tcp\"\n\
             application = {{ kind = \"ftp\", size = \"400 KB\", direction = \"{direction}\" }}"
        )
    };
    let data = |seen: &Seen, heading| {
        seen.packets(heading)
            .filter(|packet| packet.protocol == 6)
            .map(|packet| packet.rest.len())
            .sum::<usize>()
    };
    let fetched = seen("window = \"5840 B\"", &file("fetch"));
    assert!(data(&fetched, Heading::Inbound) > 400_000, "the file has come");
    let most = offered(&fetched).into_iter().max().unwrap();
    assert!(most <= 5840, "{most}");
    let stored = seen("window = \"5840 B\"", &file("store"));
    assert!(data(&stored, Heading::Outbound) > 400_000, "the file has gone");
}

/// A line with an MTU below the minimum of IPv6 carries only IPv4.
#[test]
fn a_narrow_line_is_one_of_ipv4() {
    skip_unless!(can(&[]));
    let text = experiment("", FETCHED).replacen("delay =", "mtu = \"1000 B\"\ndelay =", 1);
    let (seen, _) = judged(&text);
    assert_eq!(seen.packets(Heading::Inbound).map(|packet| packet.len).max(), Some(1000));
}

/// The count of fragments is that of the node's kernel.
#[test]
fn fragments_are_counted_by_the_kernel() {
    skip_unless!(can(&["bash"]));
    let folder = folder("hosts", &experiment("mtu = \"1000 B\"\nfragmentation = \"allowed\"", UP));
    let send = "printf %01400d 1 > /dev/udp/10.0.0.2/9; grep ^Ip: /proc/net/snmp";
    let words = ["lab", "hosts.toml", "--node", "client", "--", "bash", "-c", send];
    let told = text(&netrig(folder.path(), &words).stdout);
    let [names, values] = [0, 1].map(|line| told.lines().nth(line).unwrap_or_default().split(' '));
    let counted: Vec<_> = names.zip(values).filter(|(name, _)| name.starts_with("Frag")).collect();
    assert_eq!(counted, [("FragOKs", "1"), ("FragFails", "0"), ("FragCreates", "2")], "{told}");
}

/// A datagram of 1400 B, with headers 1428 B, leaves a host with an MTU of 1000 B in two fragments, unfragmented, or
/// not at all, depending on the settings.
#[test]
fn what_may_be_cut_is_cut_and_what_may_not_is_not() {
    skip_unless!(can(&[]));
    let datagrams = |client: &str| {
        let seen = seen(client, UP);
        let packets: Vec<_> =
            seen.packets(Heading::Outbound).filter(|packet| packet.protocol == 17).collect();
        let lens = packets.iter().map(|packet| packet.len).collect::<Vec<_>>();
        let flags = packets.iter().map(|packet| (packet.may_be_cut, packet.is_fragment)).collect::<Vec<_>>();
        (lens, flags, seen.notes)
    };
    let (lens, flags, _) = datagrams("");
    assert!(lens.len() > 100 && lens.iter().all(|len| *len == 1428), "{lens:?}");
    assert!(flags.iter().all(|flags| *flags == (false, false)), "DF is set by itself");
    let (lens, flags, _) = datagrams("fragmentation = \"allowed\"");
    assert!(lens.iter().all(|len| *len == 1428) && flags.iter().all(|flags| *flags == (true, false)));
    let (lens, flags, _) = datagrams("mtu = \"1000 B\"\nfragmentation = \"allowed\"");
    assert!(lens.len() > 200 && lens.iter().all(|len| *len <= 1000), "{lens:?}");
    assert!(flags.iter().all(|(_, is_fragment)| *is_fragment));
    let (lens, _, notes) = datagrams("mtu = \"1000 B\"\nfragmentation = \"never\"");
    assert_eq!(lens, [0; 0]);
    assert!(notes.iter().any(|note| note.contains("too long for their path")), "{notes:?}");
}

#[test]
fn settings_of_a_nodes_kernel_are_that_nodes_alone() {
    skip_unless!(can(&[]));
    let client = "net.ipv4.tcp_rmem = \"4096 32768 32768\"\nnet.core.somaxconn = 77";
    let folder = folder("hosts", &experiment(client, UP));
    let asked = "cat /proc/sys/net/ipv4/tcp_rmem /proc/sys/net/core/somaxconn";
    let on = |node: &str| {
        let ended = netrig(folder.path(), &["lab", "hosts.toml", "--node", node, "--", "sh", "-c", asked]);
        text(&ended.stdout).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(on("client"), ["4096", "32768", "32768", "77"]);
    assert_ne!(on("server"), on("client"));
}

/// The simulator refuses such hosts. A load of zero counts as no load.
#[test]
fn the_simulator_says_what_it_has_not() {
    let check = |client: &str| {
        let folder = folder("hosts", &experiment(client, UP));
        let told = netrig(folder.path(), &["run", "hosts.toml", "--on", "sim", "--json"]);
        text(&told.stdout) + &text(&told.stderr)
    };
    let told = check("cpus = [0]\nload = 0.5");
    assert!(told.contains("node `client` sets `load`") && told.contains("unsupported"), "{told}");
    assert!(!check("cpus = [0]\nload = 0").contains("unsupported"));
}

/// Tests that need a processor without other processes.
mod alone {
    use super::*;

    /// If the file sets the size of a buffer, datagrams dropped at this buffer are a result and not a fault. Of 50
    /// simultaneous datagrams, each of which takes more than 1400 B of the buffer, some exceed 32 KB and are dropped.
    #[test]
    fn a_receive_buffer_of_the_file_overflows_and_is_no_fault() {
        // The load has used up the quota when the datagrams arrive.
        let Some(client) = held("load = 1\nquota = 0.02") else { return };
        let burst = "from = \"server\"\nto = \"client\"\ntransport = \"udp\"\napplication = { kind = \"trace\", repeat = true, datagrams = [[\"500 ms\", \"1400 B\"]";
        let burst = format!("{burst}{}] }}", ", [\"0 s\", \"1400 B\"]".repeat(49));
        let text = experiment(&client, &burst)
            .replacen("kind = \"udp\"", "kind = \"udp\"\nreceive_buffer = \"16 KB\"", 1)
            .replacen("rate = \"20 Mbit/s\"", "rate = \"1 Gbit/s\"", 1);
        let Some((seen, invalid)) = judged_alone(&text) else { return };
        assert!(!invalid.contains("had no room"), "{invalid}");
        assert!(seen.notes.iter().any(|note| note.contains("had no room for")), "{:?}", seen.notes);
    }

    /// If a host cannot send its datagrams in time, they count as unsent at the end of the run, and not as lost. Here
    /// the client has a hundredth of a processor, half of which the load takes, and 40,000 datagrams need more than the
    /// other half.
    #[test]
    fn what_a_terminal_could_not_send_in_time_is_unsent_and_not_lost() {
        let Some(client) = held("load = 1\nquota = 0.01") else { return };
        let up = UP.replacen("1 Mbit/s", "10 Mbit/s", 1).replacen("1400 B", "64 B", 1);
        let Some((seen, invalid)) = judged_alone(&experiment(&client, &up)) else { return };
        assert!(!invalid.contains("did not reach their socket"), "{invalid}");
        let unsent = |note: &String| note.contains("had not been sent when the run was over");
        assert!(seen.notes.iter().any(unsent), "{:?}", seen.notes);
    }

    /// A datagram arrives at the kernel immediately, and at a program when the program gets the processor. If the load
    /// has used up the quota of a period, this is not before the next period.
    #[test]
    fn what_a_program_is_kept_from_is_delay_if_datagrams_arrive_there() {
        let Some(client) = held("load = 1\nquota = 0.05") else { return };
        let down = "from = \"server\"\nto = \"client\"\ntransport = \"udp\"\napplication = { kind = \"cbr\", rate = \"1 Mbit/s\", size = \"1400 B\" }";
        let mean = |arrives_at: &str| {
            let udp = format!("kind = \"udp\"\narrives_at = \"{arrives_at}\"");
            let text = experiment(&client, down).replacen("kind = \"udp\"", &udp, 1);
            let (seen, _) = judged(&text);
            assert!(seen.delays.len() > 100, "{:?}", seen.delays);
            seen.delays.iter().sum::<f64>() / seen.delays.len() as f64
        };
        let [kernel, program] = ["kernel", "program"].map(mean);
        assert!(program > kernel + 0.002, "{program} s at the program, {kernel} at the kernel");
    }

    /// The load is reported in each sampling interval. Its effect on the client does not make the run invalid.
    #[test]
    fn a_run_beside_a_load_is_valid_and_tells_the_load() {
        skip_unless!(can(&[]));
        let Some(cpu) = own_processor() else { return };
        let client = format!("cpus = [{cpu}]\nload = \"100 %\"");
        let (seen, invalid) = judged(&experiment(&client, UP));
        // Only faults that the load on the client could cause are checked, because other work of this machine may make
        // the run invalid.
        assert!(!invalid.contains("source's gaps") && !invalid.contains("could not send"), "{invalid}");
        assert!(seen.loads.len() >= 2 * 19, "{:?}", seen.loads);
        assert!(seen.loads.iter().any(|load| *load > 0.1) && seen.loads.iter().all(|load| *load < 1.1));
    }
}
