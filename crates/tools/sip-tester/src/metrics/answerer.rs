//! The HTTP/1.1 server for scrapers: one request per connection, with limits for each client.
//!
//! Each connection has a thread and one of the slots of [`ThreadSlots`]. Until the client has sent a complete request,
//! another client may take the slot.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use netrig_core::prometheus::CONTENT_TYPE;
use netrig_host::http::message::{HttpReceiveError, HttpRequest, HttpResponse};
use netrig_host::{
    InterruptibleStream, SlotLimits, StoppableThread, ThreadSlot, ThreadSlotError, ThreadSlots, dismiss,
};

/// Pause between two attempts to accept a connection.
const LOOK: Duration = Duration::from_millis(50);

/// Time limit of each phase of a connection: the request, the response, and the close.
const PATIENCE: Duration = Duration::from_secs(1);

/// The largest number of connections at the same time. Scrapers are few, and a connection lasts for at most three times
/// [`PATIENCE`].
const CONNECTIONS: usize = 32;

/// The value of Retry-After for a refused client, s.
const RETRY_AFTER: u32 = 1;

/// The HTTP server. It stops when dropped.
#[derive(Debug)]
pub struct Answerer {
    page: Arc<ServedPage>,
    _thread: StoppableThread<()>,
    at: SocketAddr,
}

#[derive(Debug)]
struct ServedPage(Mutex<Arc<str>>);

impl Answerer {
    /// Starts to listen at this address.
    pub fn open(at: SocketAddr) -> std::io::Result<Self> {
        Self::open_within(at, SlotLimits::shared(CONNECTIONS))
    }

    fn open_within(at: SocketAddr, limits: SlotLimits) -> std::io::Result<Self> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        let at = listener.local_addr()?;
        let page = Arc::new(ServedPage(Mutex::new("".into())));
        let own = Arc::clone(&page);
        let thread = StoppableThread::start("metrics", move |stop| {
            let slots = ThreadSlots::new(limits);
            std::thread::scope(|scope| {
                while !stop.load(Ordering::Relaxed) {
                    match listener.accept() {
                        Ok((stream, peer)) => begin(scope, stream, peer, &slots, &own),
                        Err(_) => std::thread::sleep(LOOK),
                    }
                }
            });
        })?;
        Ok(Self { page, _thread: thread, at })
    }

    /// The listening address.
    pub const fn at(&self) -> SocketAddr {
        self.at
    }

    /// Sets the served page.
    pub fn show(&self, page: &str) {
        *self.page.0.lock().unwrap_or_else(PoisonError::into_inner) = page.into();
    }
}

impl ServedPage {
    fn page(&self) -> Arc<str> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Gives a connection a thread, if there is a slot for it.
fn begin<'scope>(
    scope: &'scope Scope<'scope, '_>,
    stream: TcpStream,
    peer: SocketAddr,
    slots: &Arc<ThreadSlots>,
    shared: &'scope ServedPage,
) {
    match slots.enter(&stream, peer.ip()) {
        Ok(slot) => {
            let thread = std::thread::Builder::new().name("metrics".to_owned());
            // Errors need no action: the client has closed the connection, or no thread starts and the connection is
            // closed.
            let _ = thread.spawn_scoped(scope, move || drop(answer(&stream, &slot, shared)));
        }
        Err(ThreadSlotError::Busy(why)) => dismiss(&stream, &HttpResponse::busy(RETRY_AFTER, why)),
        // The system has no descriptor for the thread's connection, which is closed.
        Err(ThreadSlotError::Io(_)) => {}
    }
}

/// Reads one request, and answers it.
fn answer(stream: &TcpStream, slot: &ThreadSlot, shared: &ServedPage) -> std::io::Result<()> {
    stream.set_nonblocking(true)?;
    let patient = || InterruptibleStream::until(stream, Instant::now() + PATIENCE);
    let response = match HttpRequest::receive(&mut patient()) {
        Ok((request, _)) => match slot.prove() {
            Ok(()) => response(&request, || shared.page()),
            Err(why) => HttpResponse::busy(RETRY_AFTER, why),
        },
        Err(HttpReceiveError::Http(error)) => refusal(error.response()),
        Err(HttpReceiveError::Stream(error)) => match error.kind() {
            ErrorKind::UnexpectedEof => refusal(HttpResponse::new(400, &[])),
            ErrorKind::TimedOut => refusal(HttpResponse::new(408, &[])),
            _ => return Err(error),
        },
    };
    patient().write_all(&response)?;
    stream.shutdown(Shutdown::Write)?;
    // If the client still sends, unread octets would make the kernel reset the connection before the response is
    // delivered.
    let (mut rest, mut patient) = ([0; 1024], patient());
    while matches!(patient.read(&mut rest), Ok(1..)) {}
    Ok(())
}

/// The encoded response to a request.
fn response(request: &HttpRequest, page: impl FnOnce() -> Arc<str>) -> Vec<u8> {
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return refusal(HttpResponse::new(405, &[("Allow", "GET, HEAD")]));
    }
    let (response, body) = match request.path() {
        "/metrics" => (HttpResponse::new(200, &[("Content-Type", CONTENT_TYPE)]), page()),
        _ => (HttpResponse::new(404, &[]), "404 Not Found\n".into()),
    };
    let mut bytes = response.closing(&body);
    if request.method == "HEAD" {
        bytes.truncate(bytes.len() - body.len());
    }
    bytes
}

/// A response whose body is its status line.
fn refusal(response: HttpResponse) -> Vec<u8> {
    let status = format!("{} {}\n", response.status, response.reason);
    response.closing(&status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Answerer {
        open_within(SlotLimits::shared(CONNECTIONS))
    }

    fn open_within(limits: SlotLimits) -> Answerer {
        let answerer = Answerer::open_within(([127, 0, 0, 1], 0).into(), limits).unwrap();
        answerer.show("a 1\n");
        answerer
    }

    /// A connection from this address of the loopback network.
    fn connected(answerer: &Answerer, host: u8) -> TcpStream {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let made = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&made, &SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
        connect(&made, &answerer.at()).unwrap();
        made.into()
    }

    /// The response to a request.
    fn response_to(answerer: &Answerer, question: &[u8]) -> String {
        let mut stream = TcpStream::connect(answerer.at()).unwrap();
        stream.write_all(question).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_scraper_is_answered_and_nobody_else() {
        let answerer = open();
        let page = response_to(&answerer, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(
            page,
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: 4\r\nConnection: close\r\n\r\na 1\n"
            )
        );
        answerer.show("a 22\n");
        assert!(response_to(&answerer, b"GET /metrics?x=1 HTTP/1.0\r\n\r\n").ends_with("\r\n\r\na 22\n"));
        assert!(
            response_to(&answerer, b"HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("Connection: close\r\n\r\n")
        );
        for (question, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"),
            (b"\x16\x03\x01\x00\n\n", "400"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"\n\n", "400"),
            (&[b'x'; 20_000], "431"),
        ] {
            let answer = response_to(&answerer, question);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
        }
    }

    /// The first connections of an address send nothing.
    #[test]
    fn an_address_with_too_many_connections_is_told_so_and_others_are_answered() {
        let limits = SlotLimits { per_address: 3, per_group: 9, on_loopback: true, ..SlotLimits::shared(4) };
        let answerer = open_within(limits);
        let mut silent = [(); 3].map(|()| connected(&answerer, 2));
        let mut answer = [0; 1000];
        let len = connected(&answerer, 2).read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..len]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nRetry-After: 1\r\n"), "{answer}");
        assert!(answer.contains("your address has reached its limit of connections (3)"), "{answer}");
        // Another address gets the last slot, and a third one replaces the oldest connection of the first address.
        let _last = connected(&answerer, 3);
        let mut asking = connected(&answerer, 4);
        asking.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        asking.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("a 1\n"), "{answer}");
        answer.clear();
        silent[0].read_to_string(&mut answer).unwrap();
        assert!(answer.is_empty(), "{answer}");
    }

    #[test]
    fn a_question_for_which_there_is_no_slot_is_answered_with_503() {
        let answerer = open_within(SlotLimits { known: 0, ..SlotLimits::shared(4) });
        let answer = response_to(&answerer, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }

    /// Clients that send nothing or stop in the middle do not block others for long.
    #[test]
    fn bad_clients_do_not_last() {
        let answerer = open();
        let mut silent = TcpStream::connect(answerer.at()).unwrap();
        drop(TcpStream::connect(answerer.at()).unwrap());
        let mut half = TcpStream::connect(answerer.at()).unwrap();
        half.write_all(b"GET /met").unwrap();
        half.shutdown(Shutdown::Write).unwrap();
        assert!(response_to(&answerer, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("a 1\n"));
        let mut answer = String::new();
        silent.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
}
