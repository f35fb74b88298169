//! The control connection: TLS 1.3 over TCP, with one message per frame.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use netrig_host::frames::{FrameError, MAX_FRAME, read_frame, write_frame};
use netrig_host::{InterruptibleStream, TcpInfo, is_transient};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::protocol::EXPORTER;

/// Time limit of the handshake and of an answer.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Minimum wait for the peer.
const AT_LEAST: Duration = Duration::from_millis(1);

/// Size of a read, bytes: the maximum size of a TLS record (RFC 8446 section 5.2).
const RECORD: usize = 16 << 10;

/// One end of a control connection.
#[derive(Debug)]
pub struct ControlConnection {
    socket: TcpStream,
    tls: Connection,
    /// The longest accepted frame, bytes.
    longest: usize,
    /// Received bytes that have not been taken as frames yet.
    inbox: Vec<u8>,
    /// Deadline of the greeting. It applies to all reads together, because each may return a single byte.
    greeted_until: Instant,
    /// Deadline of the current write. It applies to the whole message, even if the peer reads slowly.
    sent_until: Instant,
}

impl ControlConnection {
    /// Runs the handshake as the client. It accepts frames up to [`MAX_FRAME`].
    ///
    /// # Errors
    /// If the peer does not speak TLS 1.3, is not trusted by `config`, or takes too long.
    pub fn call(socket: TcpStream, config: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Self> {
        let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Self::handshake(socket, tls.into(), MAX_FRAME)
    }

    /// Runs the handshake as the server. It accepts frames of at most `longest` bytes. A low value bounds the memory
    /// that many clients can occupy.
    ///
    /// # Errors
    /// In the same cases as [`call`](Self::call).
    pub fn answer(socket: TcpStream, config: Arc<ServerConfig>, longest: usize) -> io::Result<Self> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        Self::handshake(socket, tls.into(), longest)
    }

    fn handshake(socket: TcpStream, mut tls: Connection, longest: usize) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let until = Instant::now() + PATIENCE;
        loop {
            transmit(&mut tls, &socket, until)?;
            if !tls.is_handshaking() {
                let inbox = Vec::new();
                return Ok(Self { socket, tls, longest, inbox, greeted_until: until, sent_until: until });
            }
            if tls.read_tls(&mut InterruptibleStream::until(&socket, until))? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Err(error) = tls.process_new_packets() {
                // The peer may have closed the connection before it receives the alert, so the error is ignored.
                let _ = transmit(&mut tls, &socket, until);
                return Err(io::Error::other(error));
            }
        }
    }

    /// The channel binding of the connection (RFC 9266).
    ///
    /// # Errors
    /// If the connection is older than TLS 1.3.
    pub fn binding(&self) -> io::Result<[u8; 32]> {
        self.tls.export_keying_material([0; 32], EXPORTER, Some(&[])).map_err(io::Error::other)
    }

    /// TCP information of the connection.
    ///
    /// # Errors
    /// If the kernel does not provide it.
    pub fn info(&self) -> io::Result<TcpInfo> {
        TcpInfo::read(&self.socket)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the connection fails, or the peer does not read within [`PATIENCE`].
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), FrameError> {
        self.send_within(message, PATIENCE)
    }

    /// Sends a message within the time limit `patience`, for callers that must not be delayed for long.
    ///
    /// # Errors
    /// In the same cases as [`send`](Self::send).
    pub fn send_within(&mut self, message: &impl Serialize, patience: Duration) -> Result<(), FrameError> {
        self.sent_until = Instant::now() + patience;
        write_frame(self, message)
    }

    /// Waits for a message for at most `patience`. `None` if no whole message has arrived.
    ///
    /// # Errors
    /// If the connection fails or is closed, or a frame is malformed.
    pub fn receive<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<Option<T>, FrameError> {
        let until = Instant::now() + patience.max(AT_LEAST);
        loop {
            if let Some(frame) = self.take_frame()? {
                return read_frame(&mut &frame[..]);
            }
            match self.read_until(until) {
                Ok(0) => return Err(FrameError::Stream(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the first complete frame from the inbox, including its length field.
    fn take_frame(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let Some(len) = self.inbox.first_chunk::<4>().map(|len| u32::from_be_bytes(*len) as usize) else {
            return Ok(None);
        };
        if len > self.longest {
            return Err(FrameError::TooLong { len, most: self.longest });
        }
        if self.inbox.len() < 4 + len {
            return Ok(None);
        }
        let rest = self.inbox.split_off(4 + len);
        Ok(Some(std::mem::replace(&mut self.inbox, rest)))
    }

    /// Reads into the inbox until the deadline. Returns the number of bytes, zero at the end of the stream.
    fn read_until(&mut self, until: Instant) -> io::Result<usize> {
        let mut buffer = [0; RECORD];
        loop {
            match self.tls.reader().read(&mut buffer) {
                Ok(count) => {
                    self.inbox.extend_from_slice(&buffer[..count]);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.tls.read_tls(&mut InterruptibleStream::until(&self.socket, until))? == 0 {
                return Ok(0);
            }
            self.tls.process_new_packets().map_err(io::Error::other)?;
            // TLS may have to answer a key update.
            transmit(&mut self.tls, &self.socket, Instant::now() + PATIENCE)?;
        }
    }

    /// Ends the connection.
    pub fn close(&mut self) {
        self.tls.send_close_notify();
        // The peer may have closed the connection or may not read, so the error is ignored.
        let _ = transmit(&mut self.tls, &self.socket, Instant::now() + AT_LEAST);
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Writes all pending TLS records.
fn transmit(tls: &mut Connection, socket: &TcpStream, until: Instant) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(&mut InterruptibleStream::until(socket, until))?;
    }
    Ok(())
}

/// Repeats a request for datagrams every `again` until the answer arrives, for at most [`PATIENCE`].
pub fn request_datagrams(
    socket: &UdpSocket,
    request: &[u8],
    again: Duration,
    is_answer: impl Fn(&[u8]) -> bool,
) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(again))?;
    let mut bytes = [0; 64];
    while Instant::now() < until {
        socket.send(request)?;
        match socket.recv(&mut bytes) {
            Ok(len) if is_answer(&bytes[..len]) => return Ok(()),
            Ok(_) => {}
            Err(error) if is_transient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

impl Read for ControlConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.inbox.is_empty() {
            self.read_until(self.greeted_until)?;
        }
        let count = self.inbox.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.inbox[..count]);
        self.inbox.drain(..count);
        Ok(count)
    }
}

impl Write for ControlConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.tls.writer().write(bytes)?;
        self.flush()?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        transmit(&mut self.tls, &self.socket, self.sent_until)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use netrig_host::tls::{self, Identity, Trust};

    use super::*;
    use crate::protocol::{Carrier, DataDirection, DatagramLoad, FromClient, FromServer, MeasurementPhase};
    use netrig_probe::greeting::{ClientGreeting, LONGEST_WORD};

    fn talks() -> [ControlConnection; 2] {
        let identity = Identity::self_signed(vec!["localhost".into()]).unwrap();
        let (server, client) =
            (tls::server(&identity, None).unwrap(), tls::client(&Trust::Anyone, None).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        std::thread::scope(|scope| {
            let far = scope.spawn(|| ControlConnection::answer(far, server, LONGEST_WORD).unwrap());
            let near = ControlConnection::call(near, client, "localhost".try_into().unwrap()).unwrap();
            [near, far.join().unwrap()]
        })
    }

    #[test]
    fn both_ends_hear_what_is_said_and_share_a_secret() {
        let [mut near, mut far] = talks();
        assert_eq!(near.binding().unwrap(), far.binding().unwrap());
        near.send(&FromClient::Begin).unwrap();
        near.send(&FromClient::End { sent: None }).unwrap();
        assert_eq!(far.receive(PATIENCE).unwrap(), Some(FromClient::Begin));
        assert_eq!(far.receive(PATIENCE).unwrap(), Some(FromClient::End { sent: None }));
        assert_eq!(far.receive::<FromClient>(Duration::from_millis(5)).unwrap(), None);
        far.send(&FromServer::Ready).unwrap();
        assert_eq!(near.receive(PATIENCE).unwrap(), Some(FromServer::Ready));
        // This message is longer than a TLS record.
        let long = FromServer::Failed { why: "x".repeat(100_000) };
        std::thread::scope(|scope| {
            scope.spawn(|| far.send(&long).unwrap());
            assert_eq!(near.receive(PATIENCE).unwrap(), Some(long.clone()));
        });
        near.close();
        let error = far.receive::<FromClient>(PATIENCE).unwrap_err();
        assert!(matches!(error, FrameError::Stream(_)), "{error}");
    }

    /// All messages of a client are far shorter than the limit, and messages above the limit are rejected.
    #[test]
    fn words_of_clients_are_short() {
        let phase = |carrier| {
            let (number, lasts_ns, every_ns) = (u32::MAX, u64::MAX, u64::MAX);
            FromClient::Prepare(MeasurementPhase { number, carrier, lasts_ns, every_ns })
        };
        let (way, load) =
            (DataDirection::Both, DatagramLoad::Poisson { bits_per_s: u64::MAX, seed: u64::MAX });
        for longest in [
            FromClient::Ask { bits_per_s: Some(u64::MAX) },
            phase(Carrier::Tcp { way, streams: u16::MAX, congestion: Some("x".repeat(15)) }),
            phase(Carrier::Udp { way, size: u16::MAX, load }),
            phase(Carrier::Sctp { way, streams: u16::MAX, size: u16::MAX }),
            FromClient::Rate { bits_per_s: u64::MAX },
            FromClient::End { sent: Some(u64::MAX) },
        ] {
            assert!(serde_json::to_vec(&longest).unwrap().len() < LONGEST_WORD / 8, "{longest:?}");
        }
        let hello = ClientGreeting::Hello { version: u32::MAX, nonce: [255; 32], tag: Some([255; 32]) };
        assert!(serde_json::to_vec(&hello).unwrap().len() < LONGEST_WORD / 8, "{hello:?}");
        let [mut near, mut far] = talks();
        near.send(&FromServer::Failed { why: "x".repeat(LONGEST_WORD) }).unwrap();
        let error = far.receive::<FromClient>(PATIENCE).unwrap_err();
        assert!(matches!(error, FrameError::TooLong { most: LONGEST_WORD, .. }), "{error}");
    }

    #[test]
    fn who_does_not_speak_tls_is_no_talk() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let identity = Identity::self_signed(vec!["localhost".into()]).unwrap();
        let far = listener.accept().unwrap().0;
        ControlConnection::answer(far, tls::server(&identity, None).unwrap(), LONGEST_WORD).unwrap_err();
    }
}
