//! A check of whether a SIP element answers at an address.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use netrig_sip::header::Transport;
use netrig_sip::load::in_messages;
use netrig_sip::{Framed, Framer, Message};

use netrig_host::{HostAddress, InterruptibleStream};

/// The longest response that is read, bytes.
const LONGEST: usize = 65_535;
/// How long to wait for the response on an established TCP connection.
const CONNECTED: Duration = Duration::from_millis(500);

/// Sends OPTIONS (RFC 3261 section 11) to a server at `to`. The request URI has no user part, so it addresses the
/// server itself. Returns whether any final response arrived within `patience`. An absent server is no error.
///
/// # Errors
/// If no socket can be opened.
pub fn answers(transport: Transport, to: SocketAddr, patience: Duration) -> io::Result<bool> {
    let heard = match transport {
        Transport::Udp => over_udp(to, patience),
        _ => over_tcp(to, patience),
    };
    match heard {
        Err(error) if is_silence(&error) => Ok(false),
        heard => heard,
    }
}

/// Whether the error means that no server listens, or that it has not answered in time.
fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, TimedOut, WouldBlock};
    [ConnectionAborted, ConnectionRefused, ConnectionReset, TimedOut, WouldBlock].contains(&error.kind())
}

fn over_udp(to: SocketAddr, patience: Duration) -> io::Result<bool> {
    // The socket is bound to the IP address of the server, which is on the same host.
    let socket = UdpSocket::bind(HostAddress::from(to).at(0))?;
    socket.connect(to)?;
    socket.send(&request("UDP", socket.local_addr()?, to))?;
    let until = Instant::now() + patience;
    let mut buffer = vec![0; LONGEST];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        socket.set_read_timeout(Some(left))?;
        let length = socket.recv(&mut buffer)?;
        if is_final(&Bytes::copy_from_slice(&buffer[..length])) {
            return Ok(true);
        }
    }
}

fn over_tcp(to: SocketAddr, patience: Duration) -> io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&to, patience)?;
    stream.write_all(&request("TCP", stream.local_addr()?, to))?;
    stream.set_nonblocking(true)?;
    let mut stream = InterruptibleStream::until(&stream, Instant::now() + CONNECTED);
    let (mut framer, mut buffer) = (Framer::new(LONGEST), vec![0; LONGEST]);
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(false);
        }
        framer.push(&buffer[..length]);
        while let Ok(Some(framed)) = framer.poll() {
            if matches!(framed, Framed::Message(message) if is_final(&message)) {
                return Ok(true);
            }
        }
    }
}

fn is_final(message: &Bytes) -> bool {
    matches!(Message::parse(message), Ok(Message::Response(response)) if response.status.is_final())
}

/// An OPTIONS request. Each one starts a new transaction and has its own socket, so that it gets no response to an
/// earlier request.
fn request(transport: &str, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let number = ASKED.fetch_add(1, Ordering::Relaxed);
    let own = format!("{}x{number}", std::process::id());
    let [from, to] = [from, to].map(in_messages);
    format!(
        "OPTIONS sip:{to} SIP/2.0\r\nVia: SIP/2.0/{transport} {from};branch=z9hG4bK{own};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:netrig@{from}>;tag={own}\r\nTo: <sip:{to}>\r\nCall-ID: {own}@{}\r\nCSeq: 1 OPTIONS\r\n\
         Contact: <sip:netrig@{from}>\r\nAccept: application/sdp\r\nContent-Length: 0\r\n\r\n",
        from.ip()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn answer(request: &[u8], status: &str) -> Vec<u8> {
        let text = String::from_utf8_lossy(request);
        let copied = text.lines().filter(|line| {
            ["Via", "From", "To", "Call-ID", "CSeq"].iter().any(|name| line.starts_with(&format!("{name}:")))
        });
        let copied: String = copied.map(|line| format!("{line}\r\n")).collect();
        format!("SIP/2.0 {status}\r\n{copied}Content-Length: 0\r\n\r\n").into_bytes()
    }

    #[test]
    fn the_question_breaks_no_rule() {
        for (from, to) in [("10.0.0.1:5000", "10.0.0.1:5060"), ("[fd00::1]:5000", "[fd00::1]:5060")] {
            let asked = Bytes::from(request("UDP", from.parse().unwrap(), to.parse().unwrap()));
            let message = Message::parse(&asked).unwrap();
            assert_eq!(message.violations(), []);
        }
    }

    #[test]
    fn only_a_final_answer_counts_over_udp() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = server.local_addr().unwrap();
        let served = std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            let (length, from) = server.recv_from(&mut buffer).unwrap();
            for said in [
                b"noise".to_vec(),
                answer(&buffer[..length], "100 Trying"),
                answer(&buffer[..length], "404 No"),
            ] {
                server.send_to(&said, from).unwrap();
            }
        });
        assert!(answers(Transport::Udp, at, PATIENCE).unwrap());
        served.join().unwrap();
        // The server's socket is closed.
        assert!(!answers(Transport::Udp, at, Duration::from_millis(20)).unwrap());
    }

    #[test]
    fn over_tcp_an_answer_may_come_in_pieces() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 2048];
            let length = stream.read(&mut buffer).unwrap();
            let said = answer(&buffer[..length], "200 OK");
            let (one, other) = said.split_at(said.len() / 2);
            stream.write_all(one).unwrap();
            stream.write_all(other).unwrap();
        });
        assert!(answers(Transport::Tcp, at, PATIENCE).unwrap());
        served.join().unwrap();
        assert!(!answers(Transport::Tcp, at, Duration::from_millis(20)).unwrap());
    }
}
