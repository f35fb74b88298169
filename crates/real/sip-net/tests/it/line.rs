//! Tests of `Line`, the socket of a user agent that a person controls.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};

use bytes::Bytes;
use netrig_core::Duration;
use netrig_sip_net::{Line, StreamError, Transport};

const REQUEST: &[u8] = b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 0\r\n\r\n";
const RESPONSE: &[u8] = b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n";

/// The first messages that arrive, within at most ten seconds.
fn received(line: &mut Line) -> Vec<Bytes> {
    for _ in 0..100 {
        let came = line.receive(Duration::from_millis(100)).unwrap();
        if !came.is_empty() {
            return came.into_iter().map(|(_, bytes)| bytes).collect();
        }
    }
    panic!("no message arrives");
}

#[test]
fn a_line_over_datagrams_leads_to_its_server_and_back() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut line = Line::open(Transport::Udp, server.local_addr().unwrap(), None, None).unwrap();
    line.send(&Bytes::from_static(REQUEST)).unwrap();
    let mut buffer = [0; 100];
    let (length, from) = server.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (REQUEST, line.local()));
    // A message of another host is ignored.
    UdpSocket::bind("127.0.0.2:0").unwrap().send_to(REQUEST, from).unwrap();
    server.send_to(RESPONSE, from).unwrap();
    assert_eq!(received(&mut line), [RESPONSE]);
    assert_eq!(line.receive(Duration::from_millis(1)).unwrap(), []);
}

#[test]
fn a_line_over_a_connection_names_the_address_of_its_connection_and_tells_its_end() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut line = Line::open(Transport::Tcp, server.local_addr().unwrap(), None, None).unwrap();
    let (mut peer, from) = server.accept().unwrap();
    assert_eq!(from, line.local());
    line.send(&Bytes::from_static(REQUEST)).unwrap();
    let mut buffer = [0; REQUEST.len()];
    peer.read_exact(&mut buffer).unwrap();
    assert_eq!(buffer, REQUEST);
    peer.write_all(RESPONSE).unwrap();
    drop(peer);
    assert_eq!(received(&mut line), [RESPONSE], "what came before the end");
    let end = (0..100).find_map(|_| line.receive(Duration::from_millis(100)).err());
    assert!(matches!(end, Some(StreamError::Closed)), "{end:?}");
}

#[test]
fn a_line_to_a_closed_port_is_not_opened() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = Line::open(Transport::Tcp, closed, None, None).unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");
}
