//! Fetches an object over a TCP connection of this host.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_core::{Duration, number, settings};
use serde::Serialize;

use super::super::error::{ProbeError, ProbeResult};
use super::url::Url;
use netrig_host::http::body::HttpBody;
use netrig_host::http::message::{HttpError, HttpRequest, HttpResponse};
use netrig_host::{InterruptibleStream, monotonic_nanos, shown};

/// Maximum number of octets in one read.
const READ: usize = 256 << 10;

/// Time after the first octet that `rate_after_first_second` excludes, ns.
const FIRST_SECOND: u64 = 1_000_000_000;

settings! {
    /// The settings of a fetch.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct WebSettings with defaults {
        /// How long the server may take for each answer.
        wait: Duration {} = Duration::from_secs(10);
        /// Time after which the transfer is stopped.
        limit: Duration {} = Duration::from_secs(60);
    }
}

/// The order of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrder {
    /// The object.
    pub url: Url,
    /// Address and port of the server.
    pub address: SocketAddr,
    /// The time limits.
    pub settings: WebSettings,
}

/// Results of a fetch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WebReport {
    /// Name of the probe: `web`.
    pub probe: &'static str,
    /// URL of the object.
    pub url: String,
    /// The server's address.
    pub address: SocketAddr,
    /// Status of the response; `None` if there was no response.
    pub status: Option<u16>,
    /// Reason phrase of the response.
    pub reason: String,
    /// Target of a redirection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Whether the object was received completely.
    pub complete: bool,
    /// Whether the time limit ended the fetch.
    pub limited: bool,
    /// Whether the fetch was interrupted.
    pub interrupted: bool,
    /// Received octets of the object.
    pub bytes: u64,
    /// Time until the connection was established, s.
    pub connect_s: f64,
    /// Time from the request to the first octet of the response, s.
    pub first_byte_s: Option<f64>,
    /// Time from the start of the connection to the last octet, s.
    pub total_s: f64,
    /// Rate of the object over the time from the request to the last octet, bit/s.
    pub rate: Option<f64>,
    /// Rate of the octets that arrived more than a second after the first octet, bit/s; `None` if there were no such
    /// octets.
    pub rate_after_first_second: Option<f64>,
    /// The result as a sentence.
    pub found: String,
    /// Further remarks.
    pub notes: Vec<String>,
}

/// Fetches an object. A redirection is reported but not followed.
///
/// Fails if no server listens at the address, or if it does not use HTTP/1.1. An object that arrives incompletely is a
/// measurement, not an error.
pub fn web(order: &WebOrder, cancel: &AtomicBool) -> ProbeResult<WebReport> {
    let target = order.address;
    let begin = monotonic_nanos();
    let wait = StdDuration::from(order.settings.wait.max(Duration::from_millis(1)));
    let stream = TcpStream::connect_timeout(&target, wait).map_err(|source| ProbeError::FarEnd {
        target,
        why: format!("cannot connect: {source}"),
        advice: "is an HTTP server listening there, and does a firewall let TCP through?",
    })?;
    stream.set_nodelay(true).map_err(ProbeError::kernel("TCP_NODELAY"))?;
    let connected = monotonic_nanos();
    let mut wire =
        InterruptibleStream::new(&stream, cancel, wait).map_err(ProbeError::kernel("O_NONBLOCK"))?;
    wire.until = Some(StdInstant::now() + StdDuration::from(order.settings.limit));
    let host = order.url.authority();
    let fields = [
        ("Host", host.as_str()),
        ("User-Agent", "netrig"),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
    ];
    let request = HttpRequest::get(&order.url.path, &fields);
    let mut fetch = Fetch { begin, connected, asked: monotonic_nanos(), ..Fetch::default() };
    let sent = wire.write_all(request.to_string().as_bytes());
    let end = match sent {
        Ok(()) => fetch.receive(&mut wire, cancel).map_err(|error| ProbeError::FarEnd {
            target,
            why: error.to_string(),
            advice: "is an HTTP server listening there?",
        })?,
        Err(error) => FetchEnd::Broken(error.to_string()),
    };
    Ok(fetch.report(order, &end))
}

/// How a fetch ended.
enum FetchEnd {
    /// The object is complete.
    Complete,
    /// The transfer failed for this reason.
    Broken(String),
    /// The time limit passed.
    Limit,
    /// The fetch was interrupted.
    Interrupted,
}

/// A fetch in progress. All times are from the monotonic clock, ns.
#[derive(Default)]
struct Fetch {
    begin: u64,
    connected: u64,
    asked: u64,
    first: Option<u64>,
    last: u64,
    response: Option<HttpResponse>,
    received: u64,
    /// Octets that arrived less than a second after the first octet, and the arrival time of the last of them.
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
                    let silent = "the server was silent for too long";
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
                    // Interim responses are skipped (RFC 9110 section 15.2).
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
            // While a server sends without a pause, no wait occurs that would check the flag.
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
                .push("the object took less than a second after the first octet: TCP had not reached a steady state".into());
        }
        report
    }
}

/// The result as a sentence.
fn found(report: &WebReport, end: &FetchEnd) -> String {
    let Some(status) = report.status else {
        let why = match end {
            FetchEnd::Broken(why) => why,
            FetchEnd::Limit => "nothing arrived before the time limit",
            FetchEnd::Interrupted => "the fetch was interrupted",
            FetchEnd::Complete => "nothing arrived",
        };
        return format!("no answer to the request: {why}");
    };
    let answer = format!("the server answers {status} {}", report.reason);
    let answer = answer.trim_end();
    let at =
        report.rate.map(|rate| format!(" at {}, from the request to the last octet", number::rate(rate)));
    let received = format!("{} B arrived{}", report.bytes, at.unwrap_or_default());
    match end {
        _ if report.location.is_some() => {
            let place = report.location.as_deref().unwrap_or_default();
            format!("{answer}: the object is at {place}; the redirection was not followed")
        }
        FetchEnd::Complete if status == 200 => received,
        FetchEnd::Complete => format!("{answer}; {received}"),
        FetchEnd::Broken(why) => format!("the transfer broke off: {why}; {received}"),
        FetchEnd::Limit => format!("the time limit was reached; {received}"),
        FetchEnd::Interrupted => format!("the fetch was interrupted; {received}"),
    }
}
