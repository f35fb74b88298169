//! HTTP at the server: objects for the web method, the counters of the server, and the upgrade to ndt7.

use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_bulk::{Reading, StreamOrder, Streams, TransferDirection, TransferEnd, pacing};
use netrig_core::Duration;
use netrig_host::http::message::{HttpError, HttpRequest, HttpResponse};
use netrig_probe::web::answer::{ObjectResponse, Objects};

use super::ndt7;
use super::response::{say, turn_away};
use super::shared::{ServedConnection, ServerShared};
use super::slot::{BudgetExceeded, Slot};
use super::tally::{ClientProtocol, ServiceFailure};
use crate::admission::AdmissionRefusal;
use crate::ndt7::Ndt7Test;
use crate::talk::{PATIENCE, is_nothing, write_until};

/// Longest wait before the stop flag is checked.
const LOOK: StdDuration = StdDuration::from_millis(50);

/// Interval of checks of an object's transfer.
const EVERY: Duration = Duration::from_millis(100);

/// The path of the counters.
const METRICS: &str = "/metrics";

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("HTTP: {0}")]
    Http(#[from] HttpError),
    #[error("HTTP: an incomplete request")]
    Silent,
    #[error("HTTP: the connection failed: {0}")]
    Gone(#[from] io::Error),
    #[error("HTTP: the client closed the connection during an object")]
    Cut,
    #[error("HTTP: a client without a key")]
    NoKey,
    #[error("HTTP: {0}")]
    Overrun(#[from] BudgetExceeded),
}

impl ServiceFailure for RequestError {
    fn kind(&self) -> &'static str {
        match self {
            Self::Http(_) => "garbage",
            Self::Silent => "silent",
            Self::Gone(_) | Self::Cut => "gone",
            Self::NoKey => "key",
            Self::Overrun(overrun) => overrun.kind(),
        }
    }
}

/// Answers the single request of a connection, and counts its failure, if any.
pub(super) fn serve(socket: TcpStream, peer: SocketAddr, caller: &ServedConnection) {
    if let Err(error) = answer(socket, peer, caller) {
        caller.tally.failed(ClientProtocol::Http, &error);
    }
}

fn answer(mut socket: TcpStream, peer: SocketAddr, caller: &ServedConnection) -> Result<(), RequestError> {
    let shared: &ServerShared = caller;
    let (request, rest) = match read(&mut socket, shared) {
        Ok(read) => read,
        Err(RequestError::Http(error)) => {
            // Bytes after the invalid request are not read.
            let _ = say(&mut socket, &error.response(), b"");
            return Err(error.into());
        }
        Err(error) => return Err(error),
    };
    if caller.prove().is_err() {
        return Ok(turn_away(&mut socket, shared.refuse(ClientProtocol::Http, AdmissionRefusal::Full))?);
    }
    if !shared.serves_strangers(&socket) {
        say(&mut socket, &HttpResponse::last(403, "Forbidden", &[]), b"")?;
        return Err(RequestError::NoKey);
    }
    if Ndt7Test::of_path(request.path()).is_some() {
        ndt7::serve(socket, peer, &request, &rest, shared);
        return Ok(());
    }
    if request.path() == METRICS && request.method == "GET" {
        let text = shared.tally.metrics(&shared.now());
        let kind = [("Content-Type", "text/plain; version=0.0.4")];
        return Ok(say(&mut socket, &HttpResponse::last(200, "OK", &kind), text.as_bytes())?);
    }
    let answer = Objects { longest: shared.limits.bytes }.answer_to(&last(request));
    if answer.fill == 0 {
        return Ok(write_until(&socket, &answer.head, StdInstant::now() + PATIENCE)?);
    }
    match Slot::ask_at_once(shared, ClientProtocol::Http, peer, None) {
        Ok(slot) => give(socket, &answer, slot, shared),
        Err(refusal) => Ok(turn_away(&mut socket, refusal)?),
    }
}

/// The request with `Connection: close`.
fn last(mut request: HttpRequest) -> HttpRequest {
    request.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("connection"));
    request.fields.push(("Connection".to_owned(), "close".to_owned()));
    request
}

/// Reads a request and the bytes received after it.
fn read(socket: &mut TcpStream, shared: &ServerShared) -> Result<(HttpRequest, Vec<u8>), RequestError> {
    let until = StdInstant::now() + PATIENCE;
    socket.set_read_timeout(Some(LOOK))?;
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some((request, len)) = HttpRequest::read(&bytes)? {
            return Ok((request, bytes.split_off(len)));
        }
        if StdInstant::now() > until || shared.stop.load(Ordering::Relaxed) {
            return Err(RequestError::Silent);
        }
        match socket.read(&mut buffer) {
            Ok(0) => return Err(RequestError::Silent),
            Ok(len) => bytes.extend_from_slice(&buffer[..len]),
            Err(error) if is_nothing(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends an object within the budget of the slot.
fn give(
    socket: TcpStream,
    answer: &ObjectResponse,
    mut slot: Slot<'_>,
    shared: &ServerShared,
) -> Result<(), RequestError> {
    write_until(&socket, &answer.head, StdInstant::now() + PATIENCE)?;
    let order = StreamOrder {
        direction: TransferDirection::Sends,
        every: EVERY,
        bytes: Some(answer.fill),
        pacing: slot.held_to().map(pacing),
        window: None,
    };
    let mut streams = Streams::new(vec![socket], order)?;
    let (stop, mut overrun) = (AtomicBool::new(false), None);
    let end = streams.carry(&stop, &mut |reading: &Reading| {
        let sent = reading.connections.iter().map(|carried| carried.sent).sum();
        overrun = overrun.or(slot.spend([0, sent]).err());
        stop.store(overrun.is_some() || shared.stop.load(Ordering::Relaxed), Ordering::Relaxed);
    })?;
    match (overrun, end) {
        (Some(overrun), _) => Err(overrun.into()),
        (None, TransferEnd::Gone) => Err(RequestError::Cut),
        (None, TransferEnd::Sent | TransferEnd::Stopped) => Ok(()),
    }
}
