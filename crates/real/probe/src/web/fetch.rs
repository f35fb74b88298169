//! Fetching an object over a connection of this host.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_core::Duration;
use serde::Serialize;

use super::super::error::ProbeError;
use super::super::wire::InterruptibleStream;
use super::body::HttpBody;
use super::message::{HttpError, HttpRequest, HttpResponse};
use super::url::Url;
use netrig_host::{monotonic_nanos, shown};

/// Octets that one read takes.
const READ: usize = 256 << 10;

/// What is left away from the beginning for the second rate, ns.
const FIRST_SECOND: u64 = 1_000_000_000;

/// The object that is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrder {
    /// Where it is.
    pub url: Url,
    /// The host's address, with the port.
    pub address: SocketAddr,
    /// How long the server may take for anything.
    pub wait: Duration,
    /// After so long it is left at what came until then.
    pub limit: Duration,
}

/// What fetching an object told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WebReport {
    /// `web`.
    pub probe: &'static str,
    /// Where the object is.
    pub url: String,
    /// The server's address.
    pub address: SocketAddr,
    /// The status of the answer; nothing if none came.
    pub status: Option<u16>,
    /// The status in words, as the server has it.
    pub reason: String,
    /// Where the object is instead, as the server says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// It came to its end.
    pub complete: bool,
    /// It was left at what came in the time that it had.
    pub limited: bool,
    /// Somebody ended it before its time.
    pub interrupted: bool,
    /// Octets of the object that came.
    pub bytes: u64,
    /// Until the connection stood, s.
    pub connect_s: f64,
    /// From the request to the first octet of the answer, s.
    pub first_byte_s: Option<f64>,
    /// From the beginning of the connection to the last octet, s.
    pub total_s: f64,
    /// Octets of the object over the time from the request to the last octet, bit/s: the web method.
    pub rate: Option<f64>,
    /// The same of what came later than a second behind the first octet, bit/s; nothing if it took no longer.
    pub rate_after_first_second: Option<f64>,
    /// What was found, in a sentence.
    pub found: String,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

/// Fetches an object. Redirections are told and not followed.
///
/// # Errors
/// If nobody listens there, or what does speaks no HTTP/1.1; an object that breaks off is a measurement.
pub fn web(order: &WebOrder, cancel: &AtomicBool) -> Result<WebReport, ProbeError> {
    let target = order.address;
    let begin = monotonic_nanos();
    let wait = StdDuration::from(order.wait.max(Duration::from_millis(1)));
    let stream = TcpStream::connect_timeout(&target, wait).map_err(|source| ProbeError::FarEnd {
        target,
        why: format!("cannot connect: {source}"),
        advice: "is an HTTP server listening there, and does a firewall let TCP through?",
    })?;
    stream.set_nodelay(true).map_err(ProbeError::kernel("TCP_NODELAY"))?;
    let connected = monotonic_nanos();
    let mut wire =
        InterruptibleStream::new(&stream, cancel, wait).map_err(ProbeError::kernel("O_NONBLOCK"))?;
    wire.until = Some(StdInstant::now() + StdDuration::from(order.limit));
    let request = HttpRequest {
        method: "GET".into(),
        target: order.url.path.clone(),
        fields: [
            ("Host", order.url.authority().as_str()),
            ("User-Agent", "netrig"),
            ("Accept-Encoding", "identity"),
            ("Connection", "close"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
    };
    let mut fetch = Fetch { begin, connected, asked: monotonic_nanos(), ..Fetch::default() };
    let sent = wire.write_all(request.to_string().as_bytes());
    let end = match sent {
        Ok(()) => fetch.receive(&mut wire, cancel).map_err(|error| ProbeError::FarEnd {
            target,
            why: error.to_string(),
            advice: "is it an HTTP server that listens there?",
        })?,
        Err(error) => FetchEnd::Broken(error.to_string()),
    };
    Ok(fetch.report(order, &end))
}

/// How it ended.
enum FetchEnd {
    /// The object is here.
    Complete,
    /// Before its end, so.
    Broken(String),
    /// The time that was given to it is over.
    Limit,
    /// Somebody ended it.
    Interrupted,
}

/// An object that comes; moments of the monotonic clock, ns.
#[derive(Default)]
struct Fetch {
    begin: u64,
    connected: u64,
    asked: u64,
    first: Option<u64>,
    last: u64,
    response: Option<HttpResponse>,
    received: u64,
    /// What had come a second behind the first octet, and when that was.
    after_second: Option<(u64, u64)>,
}

impl Fetch {
    fn receive(
        &mut self,
        wire: &mut InterruptibleStream<'_>,
        cancel: &AtomicBool,
    ) -> Result<FetchEnd, HttpError> {
        let mut buffer = vec![0; READ];
        let (mut head, mut body) = (Vec::new(), None::<HttpBody>);
        self.last = self.asked;
        loop {
            let piece = match wire.read(&mut buffer) {
                Ok(0) if body.as_ref().is_some_and(HttpBody::may_close) => return Ok(FetchEnd::Complete),
                Ok(0) => return Ok(FetchEnd::Broken("the server closed the connection".into())),
                Ok(len) => &buffer[..len],
                Err(_) if cancel.load(Ordering::Relaxed) => return Ok(FetchEnd::Interrupted),
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    let is_over = wire.until.is_some_and(|until| StdInstant::now() >= until);
                    let silent = "the server said nothing for too long";
                    return Ok(if is_over { FetchEnd::Limit } else { FetchEnd::Broken(silent.into()) });
                }
                Err(error) => return Ok(FetchEnd::Broken(error.to_string())),
            };
            let now = monotonic_nanos();
            let first = *self.first.get_or_insert(now);
            if self.after_second.is_none() && now >= first + FIRST_SECOND {
                self.after_second = Some((self.received, self.last));
            }
            self.last = now;
            match &mut body {
                Some(body) => body.take(piece)?,
                None => {
                    head.extend(piece);
                    // What is said before the answer itself says nothing of it (RFC 9110 section 15.2).
                    while let Some((response, len)) = HttpResponse::read(&head)? {
                        head.drain(..len);
                        if response.status >= 200 {
                            let mut begun = HttpBody::new(response.framing()?);
                            begun.take(&head)?;
                            (self.response, body) = (Some(response), Some(begun));
                            break;
                        }
                    }
                }
            }
            if let Some(body) = &body {
                self.received = body.received();
                if body.is_done() {
                    return Ok(FetchEnd::Complete);
                }
            }
            // A server that sends without end never lets the wire wait.
            if wire.until.is_some_and(|until| StdInstant::now() >= until) {
                return Ok(FetchEnd::Limit);
            }
            if cancel.load(Ordering::Relaxed) {
                return Ok(FetchEnd::Interrupted);
            }
        }
    }

    fn report(self, order: &WebOrder, end: &FetchEnd) -> WebReport {
        let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 * 1e-9;
        let rate =
            |bytes: u64, seconds: f64| (bytes > 0 && seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds);
        let (status, reason) = self
            .response
            .as_ref()
            .map_or((None, String::new()), |response| (Some(response.status), shown(&response.reason)));
        let moved = status.is_some_and(|status| (300..400).contains(&status));
        let location = self.response.as_ref().and_then(|response| response.field("location"));
        let late =
            self.after_second.and_then(|(bytes, at)| rate(self.received - bytes, seconds(at, self.last)));
        let mut report = WebReport {
            probe: "web",
            url: order.url.to_string(),
            address: order.address,
            status,
            reason,
            location: location.filter(|_| moved).map(shown),
            complete: matches!(end, FetchEnd::Complete),
            limited: matches!(end, FetchEnd::Limit),
            interrupted: matches!(end, FetchEnd::Interrupted),
            bytes: self.received,
            connect_s: seconds(self.begin, self.connected),
            first_byte_s: self.first.map(|first| seconds(self.asked, first)),
            total_s: seconds(self.begin, self.last),
            rate: rate(self.received, seconds(self.asked, self.last)),
            rate_after_first_second: late,
            found: String::new(),
            notes: Vec::new(),
        };
        report.found = found(&report, end);
        if report.rate.is_some() && late.is_none() {
            report
                .notes
                .push("it took less than a second from the first octet on: TCP had not settled".into());
        }
        report
    }
}

/// What was found, in a sentence.
fn found(report: &WebReport, end: &FetchEnd) -> String {
    let Some(status) = report.status else {
        let why = match end {
            FetchEnd::Broken(why) => why,
            FetchEnd::Limit => "nothing came in the time that it had",
            FetchEnd::Interrupted => "it was interrupted",
            FetchEnd::Complete => "nothing came",
        };
        return format!("no answer to the request: {why}");
    };
    let answer = format!("the server answers {status} {}", report.reason);
    let answer = answer.trim_end();
    let came = report.rate.map_or_else(
        || format!("{} B came", report.bytes),
        |rate| {
            format!("{} B came at {:.3} Mbit/s, from the request to the last octet", report.bytes, rate / 1e6)
        },
    );
    match end {
        _ if report.location.is_some() => {
            let place = report.location.as_deref().unwrap_or_default();
            format!("{answer}: the object is at {place}, which was not asked")
        }
        FetchEnd::Complete if status == 200 => came,
        FetchEnd::Complete => format!("{answer}; {came}"),
        FetchEnd::Broken(why) => format!("it broke off: {why}; {came}"),
        FetchEnd::Limit => format!("it was left at what had come in its time; {came}"),
        FetchEnd::Interrupted => format!("it was interrupted; {came}"),
    }
}
