//! A SIP server over UDP whose answers a test decides.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use netrig_sip::{Message, Name, Request, Response, Status};

/// It answers each request as its function says, until it is dropped.
pub struct SipPeer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SipPeer {
    pub fn start(mut answer: impl FnMut(&Request) -> Option<Response> + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (address, stop) = (socket.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 65_535];
            while !flag.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
                let bytes = Bytes::copy_from_slice(&buffer[..length]);
                let Ok(Message::Request(request)) = Message::parse(&bytes) else { continue };
                if let Some(response) = answer(&request) {
                    socket.send_to(&Message::from(response).to_bytes(), from).unwrap();
                }
            }
        });
        Self { address, stop, thread: Some(thread) }
    }

    /// As `netrig sip call` takes it.
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

/// A response with a tag and, if it is none that refuses, a place where its sender is reached.
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
