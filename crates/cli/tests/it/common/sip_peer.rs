//! A SIP server over UDP that sends the messages which a test specifies.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use netrig_sip::{Message, Name, Request, Response, Status};

/// A message that a server sends.
pub struct PeerMessage {
    /// Delay of the message after the request.
    pub after: Duration,
    /// The destination. If absent, the sender of the request.
    pub to: Option<SocketAddr>,
    pub message: Message,
}

impl PeerMessage {
    /// A response that is sent immediately.
    pub fn now(response: Response) -> Self {
        Self { after: Duration::ZERO, to: None, message: response.into() }
    }
}

/// Answers each request as its function specifies, until it is dropped.
pub struct SipPeer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SipPeer {
    pub fn start(mut answer: impl FnMut(&Request) -> Option<Response> + Send + 'static) -> Self {
        Self::start_script(move |request| answer(request).map(PeerMessage::now).into_iter().collect())
    }

    /// Starts a server that calls `act` for each request and sends the returned messages.
    pub fn start_script(mut act: impl FnMut(&Request) -> Vec<PeerMessage> + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let (address, stop) = (socket.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 65_535];
            let mut waiting: Vec<(Instant, SocketAddr, Bytes)> = Vec::new();
            while !flag.load(Ordering::Relaxed) {
                let received = socket.recv_from(&mut buffer);
                let now = Instant::now();
                for (_, to, bytes) in waiting.extract_if(.., |(due, ..)| *due <= now) {
                    socket.send_to(&bytes, to).unwrap();
                }
                let Ok((length, from)) = received else { continue };
                let bytes = Bytes::copy_from_slice(&buffer[..length]);
                let Ok(Message::Request(request)) = Message::parse(&bytes) else { continue };
                for PeerMessage { after, to, message } in act(&request) {
                    let (to, bytes) = (to.unwrap_or(from), message.to_bytes());
                    if after.is_zero() {
                        socket.send_to(&bytes, to).unwrap();
                    } else {
                        waiting.push((now + after, to, bytes));
                    }
                }
            }
        });
        Self { address, stop, thread: Some(thread) }
    }

    /// The target for `netrig sip call`.
    pub fn target(&self) -> String {
        format!("udp:{}", self.address)
    }
}

impl Drop for SipPeer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the peer has answered all");
        }
    }
}

/// A response with a tag. If it is not a failure response, it also has a Contact.
pub fn response(request: &Request, status: u16, more: &[(Name, &str)]) -> Response {
    let mut response = request.response(Status::new(status).unwrap());
    let to = response.headers.to().unwrap().unwrap();
    if to.tag().is_none() {
        response.headers.set(Name::To, to.with_tag("peer"));
    }
    if status < 300 {
        response.headers.push(Name::Contact, format!("<{}>", request.uri));
    }
    for (name, value) in more {
        response.headers.push(name.clone(), value);
    }
    response
}
