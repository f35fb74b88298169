//! Captures of packets, and the findings of Wireshark's dissector.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use netrig_core::{Frame, Heading, Instant, pcapng};
use netrig_transport::Packet;
use rustix::process::{Pid, Signal, kill_process};

use crate::network::{Network, Side};

/// A capture of all SCTP packets on the interfaces of one side. It ends when this value is dropped.
#[derive(Debug)]
pub struct Capture {
    child: Child,
    told: BufReader<ChildStderr>,
    file: PathBuf,
}

impl Capture {
    /// Starts to capture on all interfaces of `side`.
    ///
    /// # Panics
    /// If capturing is not possible.
    pub fn start(network: &Network, side: Side) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = network.folder().join(format!("capture-{count}.pcapng"));
        let mut command = Command::new("dumpcap");
        // The process ends by itself even if the test is killed. The kernel's buffer has 16 MiB per interface, and up
        // to 100,000 packets may wait to be written.
        command.args(["-q", "-a", "duration:170", "-f", "ip proto 132", "-B", "16", "-N", "100000"]);
        for interface in network.interfaces() {
            command.args(["-i", &interface]);
        }
        command.arg("-w").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = network.namespace(side).within(|| command.spawn().expect("dumpcap starts"));
        let told = BufReader::new(child.stderr.take().expect("its output is piped"));
        let mut this = Self { child, told, file };
        // dumpcap prints this line after it has opened the interfaces.
        let opened = this.told.by_ref().lines().map_while(Result::ok).any(|line| line.starts_with("File:"));
        assert!(opened, "dumpcap does not capture");
        this
    }

    /// Ends the capture and dissects it.
    ///
    /// # Panics
    /// If the packets cannot be read, or the kernel has dropped some.
    pub fn findings(mut self) -> Findings {
        // The kernel hands over captured packets when a block of its buffer is full, or after a quarter of a second.
        thread::sleep(Duration::from_secs(1));
        let process = Pid::from_child(&self.child);
        kill_process(process, Signal::INT).expect("dumpcap still runs");
        let told: Vec<_> = self.told.by_ref().lines().map_while(Result::ok).collect();
        assert!(self.child.wait().is_ok_and(|status| status.success()), "dumpcap failed: {told:?}");
        // "Packets received/dropped on interface 'path0': 14110/0 (pcap:0/dumpcap:0/flushed:0/ps_ifdrop:0) (100.0%)"
        let tallies: Vec<_> = told.iter().filter(|line| line.contains("received/dropped")).collect();
        let whole = |line: &&&String| line.contains("/0 (pcap:0/dumpcap:0");
        assert!(
            !tallies.is_empty() && tallies.iter().all(|line| whole(&line)),
            "packets are missing: {told:?}"
        );
        Findings::of(&self.file).expect("tshark reads the capture")
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // An error is ignored: the process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The findings of Wireshark's dissector in a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Number of SCTP packets.
    pub packets: u64,
    /// Number of packets with a correct CRC32c.
    pub good_checksums: u64,
    /// Number of packets whose checksum was not verified.
    pub unverified: u64,
    /// Frame numbers of malformed packets.
    pub malformed: Vec<u64>,
    /// Types of all chunks (RFC 9260 section 3.2).
    pub chunk_types: BTreeSet<u8>,
    /// Number of packets with DATA by source and destination address.
    pub data: BTreeMap<(Ipv4Addr, Ipv4Addr), u64>,
}

/// The type of a DATA chunk (RFC 9260 section 3.2).
const DATA: u8 = 0;

impl Findings {
    /// Reads a capture.
    pub fn of(file: &Path) -> io::Result<Self> {
        let out = Command::new("tshark")
            .args(["-n", "-o", "sctp.checksum:CRC 32c", "-Y", "sctp", "-T", "fields", "-E", "separator=|"])
            .args(["-e", "frame.number", "-e", "ip.src", "-e", "ip.dst", "-e", "sctp.chunk_type"])
            .args(["-e", "sctp.checksum.status", "-e", "_ws.expert.group"])
            .arg("-r")
            .arg(file)
            .output()?;
        if !out.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&out.stderr).into_owned()));
        }
        let mut findings = Self::default();
        for line in String::from_utf8_lossy(&out.stdout).lines() {
            let fields: Vec<&str> = line.split('|').collect();
            let add = <[&str; 6]>::try_from(fields).ok().and_then(|fields| findings.add(fields));
            add.ok_or_else(|| io::Error::other(format!("not the fields that were asked for: {line}")))?;
        }
        Ok(findings)
    }

    /// Adds the fields of one packet. The values of a field that occurs more than once are separated by commas.
    fn add(&mut self, fields: [&str; 6]) -> Option<()> {
        let [number, src, dst, chunk_types, checksum, groups] = fields;
        let number = number.parse().ok()?;
        self.packets += 1;
        // Wireshark: 0 bad, 1 good, 2 unverified, 3 not present.
        match checksum {
            "0" => {}
            "1" => self.good_checksums += 1,
            _ => self.unverified += 1,
        }
        // PI_MALFORMED of epan/proto.h, 0x07000000.
        if groups.split(',').any(|group| group == "117440512") {
            self.malformed.push(number);
        }
        let types: Vec<u8> = chunk_types.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
        if types.contains(&DATA) {
            *self.data.entry((src.parse().ok()?, dst.parse().ok()?)).or_default() += 1;
        }
        self.chunk_types.extend(types);
        Some(())
    }

    /// Number of packets with DATA to the address `to`.
    pub fn data_to(&self, to: IpAddr) -> u64 {
        self.data.iter().filter(|((_, dst), _)| IpAddr::V4(*dst) == to).map(|(_, packets)| packets).sum()
    }
}

/// Writes packets over IPv4 as a capture. `spoil` may first change the bytes of each packet after the IP header.
///
/// # Errors
/// If the file cannot be written.
pub fn write_capture(file: &Path, packets: &[Packet], spoil: impl Fn(usize, &mut [u8])) -> io::Result<()> {
    let mut out = Vec::new();
    pcapng::section(&mut out, "netrig", "packets of a test");
    pcapng::interface(&mut out, pcapng::LinkType::RawIp, ("test", ""), 0);
    for (number, packet) in packets.iter().enumerate() {
        let mut bytes = Vec::new();
        let original_len = packet.encode(&mut bytes);
        spoil(number, &mut bytes[20..]);
        let at = Instant::from_nanos(number as u64);
        let frame = Frame { at, node: 0, link: 0, heading: Heading::Outbound, bytes: &bytes, original_len };
        pcapng::packet(&mut out, 0, 0, &frame);
    }
    std::fs::write(file, out)
}
