//! Who answers a scraper: HTTP/1.1 over one thread, one question per connection, bounded in all that a client can do.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long nobody may come before it looks whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// How long a client has for its question, and for taking the answer: the next one waits that long at most.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest question, bytes.
const LONGEST: usize = 8 * 1024;

/// What a client's content type says.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers until it is dropped.
pub struct Answerer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    at: SocketAddr,
}

struct Shared {
    page: Mutex<Arc<str>>,
    is_over: AtomicBool,
}

impl Answerer {
    /// Listens.
    pub fn open(at: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        let at = listener.local_addr()?;
        let shared = Arc::new(Shared { page: Mutex::new("".into()), is_over: AtomicBool::new(false) });
        let own = Arc::clone(&shared);
        let work = move || {
            while !own.is_over.load(Ordering::Relaxed) {
                match listener.accept() {
                    // A client that is gone or says nothing has no answer.
                    Ok((stream, _)) => drop(answer(stream, || own.page())),
                    Err(_) => std::thread::sleep(LOOK),
                }
            }
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(work)?;
        Ok(Self { shared, thread: Some(thread), at })
    }

    /// Where it listens.
    pub const fn at(&self) -> SocketAddr {
        self.at
    }

    /// What it answers from now on.
    pub fn show(&self, page: &str) {
        *self.shared.page.lock().unwrap_or_else(PoisonError::into_inner) = page.into();
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it panicked that was told.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn page(&self) -> Arc<str> {
        Arc::clone(&self.page.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads one question, and answers it.
fn answer(mut stream: TcpStream, page: impl FnOnce() -> Arc<str>) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    let end = Instant::now() + PATIENCE;
    let question = question(&mut stream, end)?;
    let (status, body) = match &question {
        Err(status) => (*status, None),
        Ok(question) => asked(question),
    };
    let page = if status == OK { page() } else { format!("{status}\n").into() };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {FORMAT}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n",
        page.len(),
        if status == NOT_ALLOWED { "Allow: GET, HEAD\r\n" } else { "" }
    );
    let body = if body == Some(Body::Left) { "" } else { &*page };
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
    stream.shutdown(Shutdown::Write)?;
    // What the client still says is taken, or the kernel would take the answer back with it.
    let end = Instant::now() + PATIENCE;
    let mut rest = [0; 1024];
    while matches!(read(&mut stream, &mut rest, end), Ok(1..)) {}
    Ok(())
}

const OK: &str = "200 OK";
const NOT_ALLOWED: &str = "405 Method Not Allowed";

/// Whether the answer has its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Sent,
    Left,
}

/// What is answered to a whole question (RFC 9112 section 3).
fn asked(question: &[u8]) -> (&'static str, Option<Body>) {
    const BAD: (&str, Option<Body>) = ("400 Bad Request", None);
    let line = question.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return BAD };
    let words: Vec<_> = line.trim_end_matches('\r').split(' ').collect();
    let [method, target, "HTTP/1.1" | "HTTP/1.0"] = words[..] else { return BAD };
    let body = match method {
        "GET" => Body::Sent,
        "HEAD" => Body::Left,
        _ => return (NOT_ALLOWED, None),
    };
    match target.split('?').next() {
        Some("/metrics") => (OK, Some(body)),
        _ => ("404 Not Found", Some(body)),
    }
}

/// What was asked, to the empty line behind it, or the status with which it is refused.
fn question(stream: &mut TcpStream, end: Instant) -> std::io::Result<Result<Vec<u8>, &'static str>> {
    let mut question = Vec::new();
    let mut part = [0; 1024];
    loop {
        let length = match read(stream, &mut part, end) {
            Ok(0) => return Ok(Err("400 Bad Request")),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::TimedOut => return Ok(Err("408 Request Timeout")),
            Err(error) => return Err(error),
        };
        question.extend_from_slice(&part[..length]);
        if question.windows(4).any(|end| end == b"\r\n\r\n") || question.windows(2).any(|end| end == b"\n\n")
        {
            return Ok(Ok(question));
        }
        if question.len() > LONGEST {
            return Ok(Err("431 Request Header Fields Too Large"));
        }
    }
}

/// Reads some, by `end` at the latest.
fn read(stream: &mut TcpStream, into: &mut [u8], end: Instant) -> std::io::Result<usize> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(into) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            read => return read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Answerer {
        let answerer = Answerer::open(([127, 0, 0, 1], 0).into()).unwrap();
        answerer.show("a 1\n");
        answerer
    }

    /// What comes back for what is sent.
    fn told(answerer: &Answerer, question: &[u8]) -> String {
        let mut stream = TcpStream::connect(answerer.at()).unwrap();
        stream.write_all(question).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_scraper_is_answered_and_nobody_else() {
        let answerer = open();
        let page = told(&answerer, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(
            page,
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {FORMAT}\r\nContent-Length: 4\r\nConnection: close\r\n\r\na 1\n"
            )
        );
        answerer.show("a 22\n");
        assert!(told(&answerer, b"GET /metrics?x=1 HTTP/1.0\r\n\r\n").ends_with("\r\n\r\na 22\n"));
        assert!(told(&answerer, b"HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("Connection: close\r\n\r\n"));
        for (question, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"),
            (b"\x16\x03\x01\x00\n\n", "400"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"\n\n", "400"),
            (&[b'x'; 20_000], "431"),
        ] {
            let answer = told(&answerer, question);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
        }
    }

    /// Who says nothing, or goes in the middle, keeps nobody else for long.
    #[test]
    fn bad_clients_do_not_last() {
        let answerer = open();
        let mut silent = TcpStream::connect(answerer.at()).unwrap();
        drop(TcpStream::connect(answerer.at()).unwrap());
        let mut half = TcpStream::connect(answerer.at()).unwrap();
        half.write_all(b"GET /met").unwrap();
        half.shutdown(Shutdown::Write).unwrap();
        assert!(told(&answerer, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("a 1\n"));
        let mut answer = String::new();
        silent.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
}
