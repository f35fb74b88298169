//! The properties of a host that an experiment varies, compared with the kernel's counts and the traffic on a wire. As root on
//! Linux; otherwise each test says that it was skipped.
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

/// A terminal at a line, with settings of the host and of its line.
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

/// The last of the processors that this process may run on, if it has another for the testbed.
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

/// A lab of an experiment, held up by netrig itself with a command in the client, and killed when it is dropped.
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

    /// The value in its journal after this word.
    fn named(&self, word: &str) -> Vec<String> {
        let journals = std::fs::read_dir(self.folder.path().join("journals")).into_iter().flatten().flatten();
        let text: String = journals.map(|file| text_of(&file.path())).collect();
        let line = |line: &str| line.strip_prefix(word)?.strip_prefix(' ').map(str::to_owned);
        text.lines().filter_map(line).collect()
    }

    /// The process in its journal whose command line contains this, once it exists.
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
        // The kill fails only if it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// The output and the clean-up of the next start.
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

/// How long the threads of a process have run and have waited to run, s (Documentation/scheduler/sched-stats).
fn had(pid: u32) -> [f64; 2] {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.fold([0.0; 2], |[ran, waited], thread| {
        let text = text_of(&thread.path().join("schedstat"));
        let mut ns = text.split(' ').map_while(|word| word.parse::<f64>().ok());
        [ran + ns.next().unwrap_or(0.0) / 1e9, waited + ns.next().unwrap_or(0.0) / 1e9]
    })
}

/// How long they ran and waited, s, and the minimum and the maximum of the elapsed time: a reading takes time too.
fn over(pid: u32, span: Duration) -> ([f64; 2], [f64; 2]) {
    let most = Instant::now();
    let before = had(pid);
    let least = Instant::now();
    std::thread::sleep(span);
    let least = least.elapsed().as_secs_f64();
    let after = had(pid);
    ([after[0] - before[0], after[1] - before[1]], [least, most.elapsed().as_secs_f64()])
}

/// The kernel's count of the load is the requested share, with these deviations: the periods at the start and at the end of the
/// measurement; less by the time that other processes on this machine delayed it, which the kernel counts too; more by the time
/// of an earlier delay, which the load makes up for one period. A thread's account is up to date at each tick of the kernel's
/// clock, at most 10 ms.
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
    // Slices of some milliseconds, over two seconds.
    assert!((share - 0.5).abs() < 0.05, "the load ran for {load} s and the other for {other} s");
}

/// The files of the groups of processes that a lab's journal names.
fn of_groups(lab: &Lab, files: &[&str]) -> Option<String> {
    let folders = lab.named("group");
    let texts = folders.iter().flat_map(|folder| files.iter().map(|file| Path::new(folder).join(file)));
    texts.filter(|file| file.exists()).map(|file| text_of(&file)).next()
}

/// Whether a lab with such a client is possible: not without limits for groups of processes.
fn can_be(client: &str) -> bool {
    let folder = folder("hosts", &experiment(client, UP));
    let told = netrig(folder.path(), &["check", "hosts.toml"]);
    let told = text(&told.stdout) + &text(&told.stderr);
    let lacks = told.lines().find(|line| line.contains("controller"));
    lacks.iter().for_each(|line| skipped(line));
    lacks.is_none()
}

/// A client with these limits on its own processor, if one is available.
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
    // For each of the measured periods of 10 ms, and the kernel's slice of 5 ms (sched-bwc).
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
    // Without a line end `tail` keeps the data.
    let small = lab("head -c 1000000 /dev/zero | tail -n 1 | wc -c");
    assert_eq!(text(&small.stdout).trim(), "1000000", "{}", text(&small.stderr));
    let large = lab("head -c 100000000 /dev/zero | tail -n 1 | wc -c");
    assert_ne!(text(&large.stdout).trim(), "100000000", "it does not fit");
    let mut held = Lab::open(&experiment(client, UP), "sleep 100");
    held.process("sleep");
    let limit = of_groups(&held, &["memory.max", "memory.limit_in_bytes"]).unwrap();
    assert_eq!(limit.trim(), (32 << 20).to_string());
}

/// Groups end with their testbed, and by the journal if their owner was killed, with their processes.
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
    // The same without a kill.
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

/// The client's packets, and the reports.
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
    /// IPv4 packets in this direction.
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

/// The observations of a run, and the reason if it is invalid.
fn judged(text: &str) -> (Seen, String) {
    let mut seen = Seen::default();
    let outcome = carry_out(&run(text, 0), &mut seen, &AtomicBool::new(false));
    (seen, outcome.unwrap_or_else(|error| panic!("{error}")).invalid.unwrap_or_default())
}

/// Runs the experiment of a client with its own processor up to four times, until no other process used too much of that
/// processor. `None` if each run had one; the reason goes to standard error.
fn judged_alone(text: &str) -> Option<(Seen, String)> {
    let others = "other processes than those of node";
    let mut runs = (0..4).map(|_| judged(text));
    let found = runs.find(|(_, invalid)| !invalid.contains(others));
    if found.is_none() {
        skipped("a processor that others leave to a test");
    }
    found
}

/// The same in virtual time.
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
    // 40 B of headers (RFC 9293 section 3.7.1), and received segments are as long as the client's own limits: 960 B.
    let by_mtu = seen("mtu = \"1000 B\"", FETCHED);
    assert_eq!(by_mtu.packets(Heading::Outbound).find_map(|packet| packet.mss()), Some(960));
    assert_eq!(by_mtu.packets(Heading::Inbound).map(|packet| packet.len).max(), Some(1000));
    let by_mss = seen("mss = \"500 B\"", FETCHED);
    assert_eq!(by_mss.packets(Heading::Outbound).find_map(|packet| packet.mss()), Some(500));
    assert_eq!(by_mss.packets(Heading::Inbound).map(|packet| packet.len).max(), Some(540));
    // The server's announcement, which its own link sets, limits the client's segments.
    let sent = seen("mss = \"500 B\"", SENT);
    assert_eq!(sent.packets(Heading::Outbound).map(|packet| packet.len).max(), Some(1500));
    let sent = seen("mtu = \"600 B\"", SENT);
    assert_eq!(sent.packets(Heading::Outbound).map(|packet| packet.len).max(), Some(600));
}

/// The windows that the client offers, bytes: of its segments without the first half, in which its kernel learns the share of
/// data in its memory.
fn offered(seen: &Seen) -> Vec<u32> {
    let all: Vec<_> = seen.packets(Heading::Outbound).filter(|packet| packet.protocol == 6).collect();
    // FTP has a connection for its commands, too: the data's has the most segments.
    let ports = |packet: &Packet| <[u8; 4]>::try_from(&packet.rest[..4]).expect("a header");
    let count = |of: [u8; 4]| all.iter().filter(|packet| ports(packet) == of).count();
    let data = all.iter().map(ports).max_by_key(|of| count(*of)).expect("a segment");
    let segments: Vec<_> = all.iter().filter(|packet| ports(packet) == data).collect();
    let scale = segments.iter().find_map(|packet| packet.window_scale()).unwrap_or(0);
    segments[segments.len() / 2..].iter().map(|packet| u32::from(packet.window()) << scale).collect()
}

/// Half of a window of two segments or more is always worth announcing, and it is never larger than it shall be.
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

/// A client of FTP offers it too, and its own transmission is not bounded by it.
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

/// A line with an MTU below IPv6's minimum carries only IPv4.
#[test]
fn a_narrow_line_is_one_of_ipv4() {
    skip_unless!(can(&[]));
    let text = experiment("", FETCHED).replacen("delay =", "mtu = \"1000 B\"\ndelay =", 1);
    let (seen, _) = judged(&text);
    assert_eq!(seen.packets(Heading::Inbound).map(|packet| packet.len).max(), Some(1000));
}

/// The fragment count of the node's kernel.
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

/// A datagram of 1400 B, 1428 B with its headers, leaves a host with an MTU of 1000 B in two fragments, whole, or not at all.
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

/// The simulator has no such hosts and says so; a load of zero is no load.
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

/// Tests that need a processor that no other process uses.
mod alone {
    use super::*;

    /// Datagrams dropped at a buffer whose size is in the file are measured, and no fault: of 50 datagrams at once, each of
    /// which takes more than its 1400 B, some are dropped at 32 KB.
    #[test]
    fn a_receive_buffer_of_the_file_overflows_and_is_no_fault() {
        // The load has used the whole processor when they arrive.
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

    /// If a terminal cannot send its datagrams in time, they are unsent at the end of the run and do not count as lost. Here
    /// 40,000 datagrams need more than half of a hundredth of a processor.
    #[test]
    fn what_a_terminal_could_not_send_in_time_is_unsent_and_not_lost() {
        let Some(client) = held("load = 1\nquota = 0.01") else { return };
        let up = UP.replacen("1 Mbit/s", "10 Mbit/s", 1).replacen("1400 B", "64 B", 1);
        let Some((seen, invalid)) = judged_alone(&experiment(&client, &up)) else { return };
        assert!(!invalid.contains("did not reach their socket"), "{invalid}");
        let unsent = |note: &String| note.contains("had not been sent when the run was over");
        assert!(seen.notes.iter().any(unsent), "{:?}", seen.notes);
    }

    /// A datagram arrives at the kernel immediately, and at a program when that gets the processor: with a load that has used
    /// the whole period of 20 ms, not before the next one.
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

    /// The load is reported in each interval, and its effect on the terminal makes no run invalid.
    #[test]
    fn a_run_beside_a_load_is_valid_and_tells_the_load() {
        skip_unless!(can(&[]));
        let Some(cpu) = own_processor() else { return };
        let client = format!("cpus = [{cpu}]\nload = \"100 %\"");
        let (seen, invalid) = judged(&experiment(&client, UP));
        // The load on the client does not make the run invalid, with any other work of this machine.
        assert!(!invalid.contains("source's gaps") && !invalid.contains("could not send"), "{invalid}");
        assert!(seen.loads.len() >= 2 * 19, "{:?}", seen.loads);
        assert!(seen.loads.iter().any(|load| *load > 0.1) && seen.loads.iter().all(|load| *load < 1.1));
    }
}
