//! Tests of packets through a testbed in which a kernel bridge replaces the router. If the bridge moves frames
//! unchanged, the nodes must reach each other, so addresses, neighbours, routes and checksums must be correct.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netrig_netns::Testbed;
use netrig_test_support::{has, skip_unless};

use super::common::{build, has_root, journals, says};

/// Joins the two router interfaces of each link with a bridge.
fn bridge(testbed: &Testbed) {
    let router = testbed.router_namespace();
    for (n, wire) in testbed.wiring().links.iter().enumerate() {
        let bridge = format!("bridge{n}");
        says("ip", &["-n", router, "link", "add", &bridge, "up", "type", "bridge", "forward_delay", "0"]);
        for name in wire.ends.iter().filter_map(|end| end.router_interface.as_deref()) {
            says("ip", &["-n", router, "link", "set", name, "master", &bridge]);
        }
    }
}

#[test]
fn nodes_reach_each_other_over_every_path_in_both_versions_of_ip() {
    skip_unless!(has_root() && has("ip"));
    let (_folder, journals) = journals();
    let testbed = build(&journals);
    bridge(&testbed);
    for (from, to) in [
        ("10.0.0.1", "10.0.0.2"),
        ("fd00::1", "fd00::2"),
        ("10.0.0.5", "10.0.0.10"),
        ("fd00:0:0:1::1", "fd00:0:0:2::2"),
    ] {
        let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
        let listener = testbed.in_node(2, move || TcpListener::bind((to, 0))).unwrap().unwrap();
        let at = listener.local_addr().unwrap();
        let limit = Duration::from_secs(20);
        let dialled = testbed.in_node(0, move || TcpStream::connect_timeout(&at, limit)).unwrap();
        let mut dialled = dialled.unwrap_or_else(|error| panic!("{from} to {to}: {error}"));
        let (mut accepted, seen) = listener.accept().unwrap();
        assert_eq!(seen.ip(), from, "it left by its own link");
        // The data needs more than one packet, even with the larger MTU on the path.
        dialled.write_all(&[7; 5000]).unwrap();
        drop(dialled);
        let mut heard = Vec::new();
        accepted.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, [7; 5000]);
    }
}

/// The router receives frames as on a wire: they have valid checksums and are not longer than the MTU.
#[test]
fn frames_at_the_router_are_whole() {
    skip_unless!(has_root() && has("ip") && has("tshark"));
    let (folder, journals) = journals();
    let testbed = build(&journals);
    bridge(&testbed);
    let capture = folder.path().join("frames.pcap");
    let mut tshark = Command::new("ip");
    tshark
        .args(["netns", "exec", testbed.router_namespace(), "tshark", "-q", "-i", "primary.a", "-w"])
        .arg(&capture);
    let mut tshark = Capture(tshark.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    tshark.wait_until_it_runs(&capture);
    let pairs: [(SocketAddr, SocketAddr); 2] = [
        ("10.0.0.1:4000".parse().unwrap(), "10.0.0.2:4000".parse().unwrap()),
        ("[fd00::1]:4000".parse().unwrap(), "[fd00::2]:4000".parse().unwrap()),
    ];
    for (from, to) in pairs {
        let listener = testbed.in_node(2, move || TcpListener::bind(to)).unwrap().unwrap();
        let mut dialled = testbed.in_node(0, move || TcpStream::connect(to)).unwrap().unwrap();
        dialled.write_all(&vec![7; 100_000]).unwrap();
        drop(dialled);
        listener.accept().unwrap().0.read_to_end(&mut Vec::new()).unwrap();
        let _taker = testbed.in_node(2, move || UdpSocket::bind(to)).unwrap().unwrap();
        let socket = testbed.in_node(0, move || UdpSocket::bind(from)).unwrap().unwrap();
        socket.send_to(b"hello", to).unwrap();
    }
    // The second datagram was sent last, so the capture is complete when it contains both datagrams.
    let fields = |filter: &str, field: &str| -> Vec<String> {
        let path = capture.to_str().unwrap();
        let checks = [
            "-o",
            "ip.check_checksum:TRUE",
            "-o",
            "tcp.check_checksum:TRUE",
            "-o",
            "udp.check_checksum:TRUE",
        ];
        let read = ["-n", "-r", path, "-Y", filter, "-T", "fields", "-e", field];
        let out = Command::new("tshark").args(checks).args(read).stderr(Stdio::null()).output().unwrap();
        String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
    };
    let begun = Instant::now();
    while fields("udp.dstport == 4000", "udp.length").len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(20), "the datagrams are not captured");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(tshark);
    let lengths: Vec<u32> = fields("tcp", "frame.len").iter().map(|length| length.parse().unwrap()).collect();
    assert!(lengths.len() > 140, "200 000 bytes are at least 140 packets");
    // An IP packet of 1500 bytes and an Ethernet header of 14 bytes.
    assert_eq!(lengths.iter().max(), Some(&1514));
    // The value 1 stands for a good checksum (Wireshark's checksum status).
    for (filter, field) in
        [("tcp", "tcp.checksum.status"), ("udp", "udp.checksum.status"), ("ip", "ip.checksum.status")]
    {
        let status = fields(filter, field);
        assert!(!status.is_empty() && status.iter().all(|status| status == "1"), "{field}: {status:?}");
    }
}

/// A running tshark. It is stopped when this value is dropped.
struct Capture(Child);

impl Capture {
    /// Waits until tshark captures. It writes the header of the file when its socket and its filter are active.
    fn wait_until_it_runs(&mut self, file: &Path) {
        while std::fs::metadata(file).map_or(0, |file| file.len()) == 0 {
            assert!(self.0.try_wait().unwrap().is_none(), "tshark does not capture");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // On SIGINT, tshark writes the captured packets to the file.
        says("kill", &["-INT", &self.0.id().to_string()]);
        self.0.wait().unwrap();
    }
}
