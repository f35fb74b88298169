//! Calls with voice: the reports of both ends are compared with the counts of a relay that drops packets.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use netrig_core::{Seeds, Stream};
use netrig_stats::theory::e_model::{Codec, TelephoneCall};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use crate::common::sip_server::SipServer;
use crate::common::{as_json, netrig, text, words};

/// Numbers of RTP packets in one direction: passed and dropped.
#[derive(Clone, Copy, Debug, Default)]
struct RelayedPackets {
    passed: u64,
    lost: u64,
}

/// A relay between a caller and a callee. It replaces the media ports in their messages by its own, forwards media, and
/// drops a share of the RTP packets.
struct MediaRelay {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<[RelayedPackets; 2]>>,
    address: SocketAddr,
}

/// A socket of the relay for the media of one call in one direction.
struct MediaLeg {
    socket: UdpSocket,
    to: SocketAddr,
    /// 0 is towards the callee.
    direction: usize,
    is_rtp: bool,
}

fn relay_socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Two sockets at an even port and the next port.
fn relay_pair() -> [UdpSocket; 2] {
    loop {
        let first = relay_socket();
        let port = first.local_addr().unwrap().port();
        if port.is_multiple_of(2)
            && let Ok(second) = UdpSocket::bind(("127.0.0.1", port + 1))
        {
            second.set_nonblocking(true).unwrap();
            return [first, second];
        }
    }
}

impl MediaRelay {
    fn start(callee: SocketAddr, loss: f64) -> Self {
        let (near, far) = (relay_socket(), relay_socket());
        let address = near.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || relay(&near, &far, callee, loss, &flag));
        Self { stop, thread: Some(thread), address }
    }

    fn end(mut self) -> [RelayedPackets; 2] {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn relay(
    near: &UdpSocket,
    far: &UdpSocket,
    callee: SocketAddr,
    loss: f64,
    stop: &AtomicBool,
) -> [RelayedPackets; 2] {
    let mut draws: Stream = Seeds::new(2).stream("relay");
    let mut legs: Vec<MediaLeg> = Vec::new();
    let mut counts = [RelayedPackets::default(); 2];
    let mut caller = None;
    let mut buffer = [0; 65_535];
    while !stop.load(Ordering::Relaxed) {
        {
            let sockets = [near, far].into_iter().chain(legs.iter().map(|leg| &leg.socket));
            let mut polled: Vec<_> =
                sockets.map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)).collect();
            let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 50_000_000 }));
        }
        while let Ok((length, from)) = near.recv_from(&mut buffer) {
            caller = Some(from);
            let message = with_own_ports(&buffer[..length], 1, &mut legs);
            far.send_to(&message, callee).unwrap();
        }
        while let Ok((length, _)) = far.recv_from(&mut buffer) {
            let message = with_own_ports(&buffer[..length], 0, &mut legs);
            caller.into_iter().for_each(|caller| _ = near.send_to(&message, caller).unwrap());
        }
        for leg in &legs {
            while let Ok((length, _)) = leg.socket.recv_from(&mut buffer) {
                let is_lost = leg.is_rtp && draws.chance(loss);
                if leg.is_rtp {
                    let count = &mut counts[leg.direction];
                    if is_lost { count.lost += 1 } else { count.passed += 1 }
                }
                if !is_lost {
                    let _ = leg.socket.send_to(&buffer[..length], leg.to);
                }
            }
        }
    }
    counts
}

/// The message with ports of the relay in its session description. Media that arrive at these ports are forwarded to
/// the ports of the original description.
fn with_own_ports(message: &[u8], direction: usize, legs: &mut Vec<MediaLeg>) -> Vec<u8> {
    let message = text(message);
    let Some((head, body)) = message.split_once("\r\n\r\n").filter(|(_, body)| body.contains("m=audio "))
    else {
        return message.into_bytes();
    };
    let (before, rest) = body.split_once("m=audio ").unwrap();
    let (port, behind) = rest.split_once(' ').unwrap();
    let port: u16 = port.parse().unwrap();
    // The same session description may arrive twice.
    let known = legs.iter().find(|leg| leg.to.port() == port && leg.direction == direction);
    let own = match known {
        Some(leg) => leg.socket.local_addr().unwrap().port(),
        None => {
            let pair = relay_pair();
            let own = pair[0].local_addr().unwrap().port();
            for (place, socket) in pair.into_iter().enumerate() {
                let to = SocketAddr::from(([127, 0, 0, 1], port + place as u16));
                legs.push(MediaLeg { socket, to, direction, is_rtp: place == 0 });
            }
            own
        }
    };
    let body = format!("{before}m=audio {own} {behind}");
    let head: Vec<String> = head
        .split("\r\n")
        .map(|line| {
            if line.starts_with("Content-Length") {
                format!("Content-Length: {}", body.len())
            } else {
                line.to_owned()
            }
        })
        .collect();
    format!("{}\r\n\r\n{body}", head.join("\r\n")).into_bytes()
}

fn interval(of: &Value) -> (f64, f64) {
    (of["low"].as_f64().unwrap(), of["high"].as_f64().unwrap())
}

#[test]
fn both_ends_know_what_a_relay_has_lost_of_their_voice() {
    let folder = tempfile::tempdir().unwrap();
    let server =
        SipServer::start(&words("scenario --media pcmu --media-port 10000 --listen udp:127.0.0.1:0 --json"));
    let relay = MediaRelay::start(server.address("udp").parse().unwrap(), 0.02);
    let target = format!("udp:{}", relay.address);
    let load = format!(
        "sip load {target} --media pcmu --media-port 14000 --count 200 --rate 25/s --arrivals constant --hold 3s --json"
    );
    let output = netrig(folder.path(), &words(&load));
    let here = as_json(&output);
    let there = server.finish();
    let [to_callee, to_caller] = relay.end();
    assert_eq!((&here["succeeded"], &here["failed"]), (&200.into(), &0.into()), "{here}");
    for (document, lost, lost_there) in [(&here, to_caller, to_callee), (&there, to_callee, to_caller)] {
        let voice = &document["voice"];
        assert_eq!((&voice["calls"], &voice["silent_calls"]), (&200.into(), &0.into()), "{voice}");
        let share = |packets: RelayedPackets| packets.lost as f64 / (packets.lost + packets.passed) as f64;
        let (low, high) = interval(&voice["loss"]);
        assert!((low..=high).contains(&share(lost)), "{low} to {high}: the relay has lost {}", share(lost));
        let (low, high) = interval(&voice["loss_there"]);
        assert!(
            (low..=high).contains(&share(lost_there)),
            "{low} to {high}: the relay has lost {}",
            share(lost_there)
        );
        // Each sent packet has arrived or was dropped by the relay.
        let count = |name: &str| voice[name].as_u64().unwrap();
        assert_eq!(count("expected") - count("received"), lost.lost, "{voice}");
        // The delay consists of 20 ms of packetisation and 40 ms of playout buffer. A late machine plays fewer packets.
        let call =
            TelephoneCall { delay_s: 0.06, loss: share(lost), ..TelephoneCall::new(Codec::G711_CONCEALED) };
        let expected = call.opinion().unwrap();
        let (low, high) = interval(&voice["mos"]);
        assert!(low <= expected + 0.01, "{low} to {high}, where the relay's losses give {expected}");
        if document["valid"] == true && voice["late"] == 0 {
            assert!((low - 0.01..=high + 0.01).contains(&expected), "{low} to {high}, and not {expected}");
        }
    }
}

#[test]
fn voice_that_nobody_can_have_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let srtp = include_str!("../../../tools/sip-tester/src/scenario/own/answer.xml")
        .replace("RTP/AVP [media_formats]", "RTP/SAVP 0")
        .replace("    [media_attributes]\n", "");
    let file = folder.path().join("srtp.xml");
    std::fs::write(&file, srtp).unwrap();
    let server =
        SipServer::start(&["scenario", file.to_str().unwrap(), "--listen", "udp:127.0.0.1:0", "--json"]);
    let target = format!("udp:{}", server.address("udp"));
    let load = format!("sip load {target} --media pcma --count 3 --rate 50/s --media-port 18000");
    let output = netrig(folder.path(), &words(&load));
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}{}", text(&output.stderr));
    assert!(
        told.contains("voice, pcma in 0 calls")
            && told.contains("3 calls whose other side wants other media"),
        "{told}"
    );
    drop(server);
}

/// In a session description an IPv6 address has no brackets (RFC 4566 section 5.7).
#[test]
fn voice_goes_over_ipv6() {
    if UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("skipped: needs IPv6");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server =
        SipServer::start(&words("scenario --media pcmu --media-port 18400 --listen udp:[::1]:0 --json"));
    let target = format!("udp:{}", server.address("udp"));
    let load = format!(
        "sip load {target} --media pcmu --media-port 18200 --count 3 --rate 50/s --hold 500ms --json"
    );
    let output = netrig(folder.path(), &words(&load));
    let told = as_json(&output);
    assert_eq!(told["target"], server.address("udp"), "{told}");
    let there = server.finish();
    for voice in [&told["voice"], &there["voice"]] {
        assert_eq!((&voice["calls"], &voice["silent_calls"]), (&3.into(), &0.into()), "{voice}");
        assert!(voice["received"].as_u64().unwrap() > 0, "{voice}");
        assert_eq!(voice["received"], voice["expected"], "{voice}");
    }
}
