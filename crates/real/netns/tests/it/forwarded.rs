//! Tests of frames that pass through the ring and the frame sender.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use netrig_netns::{FrameSender, ReceiveRing, ReceivedFrame, RingCounters, Testbed};
use netrig_test_support::skip_unless;

use super::common::{build, has_root, journals};

const FROM: &str = "10.0.0.1:4000";
const TO: &str = "10.0.0.2:4000";

/// Opens a UDP socket in the namespace of a node.
fn socket(testbed: &Testbed, node: usize, at: &str) -> UdpSocket {
    let at: SocketAddr = at.parse().unwrap();
    let socket = testbed.in_node(node, move || UdpSocket::bind(at)).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

/// Reads one frame. Fails if no frame arrives within a long time.
fn take<T>(ring: &mut ReceiveRing, read: impl FnOnce(&ReceivedFrame<'_>) -> T) -> T {
    assert!(ring.wait(Duration::from_secs(20)).unwrap(), "no frame comes");
    ring.read(1, |frames| read(&frames[0]))
}

fn is_empty(ring: &mut ReceiveRing) -> bool {
    ring.read(1, |frames| frames.is_empty())
}

/// Length of the Ethernet, IPv4 and UDP headers: 14, 20 and 8 bytes.
const HEADERS: usize = 42;

#[test]
fn frames_come_in_order_with_their_bytes_and_the_moment_they_came() {
    skip_unless!(has_root());
    let (_folder, journals) = journals();
    let testbed = build(&journals);
    let mut ring = ReceiveRing::open(&testbed, 64).unwrap();
    assert!(!ring.wait(Duration::ZERO).unwrap() && is_empty(&mut ring));
    let client = socket(&testbed, 0, FROM);
    let end = &testbed.wiring().links[0].ends[0];
    let mut before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    // There are more frames than slots of the ring, so each slot is reused.
    for n in 0..200_u32 {
        let payload = vec![n as u8; 18 + n as usize];
        client.send_to(&payload, TO).unwrap();
        take(&mut ring, |frame| {
            assert_eq!((frame.interface, frame.whole, frame.stamped), (end.index, true, true));
            assert_eq!(frame.bytes[6..12], end.mac, "the source in the Ethernet header");
            assert_eq!(frame.bytes[HEADERS..], payload);
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            assert!(before <= frame.at && frame.at <= now, "{before:?} {:?} {now:?}", frame.at);
            before = frame.at;
        });
    }
    assert_eq!(ring.counts().unwrap(), RingCounters { offered: 200, dropped: 0 });
    assert!(is_empty(&mut ring));
}

/// Every frame is either read or counted as dropped.
#[test]
fn what_finds_no_room_is_counted() {
    skip_unless!(has_root());
    let (_folder, journals) = journals();
    let testbed = build(&journals);
    let mut ring = ReceiveRing::open(&testbed, 32).unwrap();
    let client = socket(&testbed, 0, FROM);
    for n in 0..100_u8 {
        client.send_to(&[n; 18], TO).unwrap();
    }
    let numbers =
        |frames: &[ReceivedFrame<'_>]| frames.iter().map(|frame| frame.bytes[HEADERS]).collect::<Vec<_>>();
    // First a part of the frames is read, then the rest.
    let mut read = ring.read(10, numbers);
    assert_eq!(read.len(), 10);
    read.extend(ring.read(1000, numbers));
    let counts = ring.counts().unwrap();
    assert_eq!(counts.offered, 100);
    assert_eq!(counts.dropped + read.len() as u64, 100);
    // The ring has at least the requested 32 slots, and contains the first frames.
    assert_eq!(read, (0..read.len() as u8).collect::<Vec<_>>());
    assert!((32..100).contains(&read.len()), "{}", read.len());
    // The ring has free slots again.
    client.send_to(&[7; 18], TO).unwrap();
    assert_eq!(take(&mut ring, |frame| frame.bytes[HEADERS]), 7);
    assert_eq!(ring.counts().unwrap(), RingCounters { offered: 101, ..counts });
}

#[test]
fn what_is_sent_out_arrives_in_order_and_does_not_come_back() {
    skip_unless!(has_root());
    let (_folder, journals) = journals();
    let testbed = build(&journals);
    let mut ring = ReceiveRing::open(&testbed, 256).unwrap();
    let (client, server) = (socket(&testbed, 0, FROM), socket(&testbed, 2, TO));
    let sender = FrameSender::open(&testbed, testbed.wiring().links[0].ends[1].index).unwrap();
    let frames: Vec<_> = (0..150_u8)
        .map(|n| {
            client.send_to(&[n; 18], TO).unwrap();
            take(&mut ring, |frame| frame.bytes.to_vec())
        })
        .collect();
    let frames: Vec<_> = frames.iter().map(Vec::as_slice).collect();
    // The sender gets more frames than one system call can send.
    assert_eq!(sender.send(&frames).unwrap(), 150);
    assert_eq!(sender.send(&[]).unwrap(), 0);
    let mut heard = [0; 100];
    for n in 0..150_u8 {
        let (length, from) = server.recv_from(&mut heard).unwrap();
        assert_eq!((&heard[..length], from.to_string().as_str()), ([n; 18].as_slice(), FROM));
    }
    assert!(is_empty(&mut ring));
    assert_eq!(ring.counts().unwrap().offered, 150);
}

#[test]
fn an_outlet_is_one_of_the_routers_interfaces() {
    skip_unless!(has_root());
    let (_folder, journals) = journals();
    let testbed = build(&journals);
    let none = FrameSender::open(&testbed, 999).err().unwrap().to_string();
    assert!(none.contains("interface 999") && none.contains("No such device"), "{none}");
}

/// Moves every frame to the other end of its link until `stop` is set.
fn forward(ring: &mut ReceiveRing, ends: &[(u32, FrameSender)], stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        ring.wait(Duration::from_millis(10)).unwrap();
        ring.read(64, |frames| {
            for frame in frames {
                let (_, sender) = ends.iter().find(|(index, _)| *index == frame.interface).unwrap();
                assert_eq!(sender.send(&[frame.bytes]).unwrap(), 1);
            }
        });
    }
}

/// Stops the forwarder when this value is dropped, even if the test fails.
struct Stopped<'a>(&'a AtomicBool);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// If an offload were still on, TCP would not complete its handshake, because no hardware completes the checksums.
#[test]
fn tcp_runs_through_the_ring_in_both_versions_of_ip_and_over_a_node_that_forwards() {
    skip_unless!(has_root());
    let (_folder, journals) = journals();
    let testbed = build(&journals);
    let mut ring = ReceiveRing::open(&testbed, 4096).unwrap();
    let pairs = testbed.wiring().links.iter().flat_map(|wire| {
        let [a, b] = &wire.ends;
        [(a.index, b.index), (b.index, a.index)]
    });
    let ends: Vec<_> = pairs.map(|(from, to)| (from, FrameSender::open(&testbed, to).unwrap())).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stopped = Stopped(&stop);
        scope.spawn(|| forward(&mut ring, &ends, &stop));
        for to in ["10.0.0.2:80", "[fd00::2]:80", "10.0.0.10:80", "[fd00:0:0:2::2]:80"] {
            let to: SocketAddr = to.parse().unwrap();
            let listener = testbed.in_node(2, move || TcpListener::bind(to)).unwrap().unwrap();
            let limit = Duration::from_secs(20);
            let dialled = testbed.in_node(0, move || TcpStream::connect_timeout(&to, limit)).unwrap();
            let mut dialled = dialled.unwrap_or_else(|error| panic!("{to}: {error}"));
            let (mut accepted, _) = listener.accept().unwrap();
            let writer = scope.spawn(move || dialled.write_all(&vec![7; 1_000_000]).unwrap());
            let mut heard = Vec::new();
            accepted.read_to_end(&mut heard).unwrap();
            writer.join().unwrap();
            assert_eq!(heard.len(), 1_000_000, "{to}");
        }
    });
    let counts = ring.counts().unwrap();
    // Four megabytes, half of them over two links, are at least 4000 frames of 1448 bytes.
    assert!(counts.offered > 4000, "{counts:?}");
}
