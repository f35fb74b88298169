//! HTTP at the server. It serves objects for the web method (the throughput of one object), the server's counters, and
//! the upgrade to ndt7.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant as StdInstant;

use netrig_bulk::{ByteBudget, Reading, StreamOrder, Streams, TransferDirection, TransferEnd, pacing};
use netrig_core::Duration;
use netrig_core::prometheus::CONTENT_TYPE;
use netrig_host::InterruptibleStream;
use netrig_host::http::message::{HttpError, HttpReceiveError, HttpRequest, HttpResponse};
use netrig_probe::web::answer::{ObjectResponse, Objects};

use super::ndt7;
use super::response::{send, turn_away};
use super::shared::{ServedConnection, ServerShared};
use super::slot::{BudgetExceeded, Slot};
use super::tally::{ClientProtocol, ServiceFailure};
use crate::admission::AdmissionRefusal;
use crate::control::PATIENCE;
use crate::ndt7::Ndt7Test;

/// Interval at which the transfer of an object is checked.
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

impl From<HttpReceiveError> for RequestError {
    fn from(error: HttpReceiveError) -> Self {
        match error {
            HttpReceiveError::Http(error) => error.into(),
            HttpReceiveError::Stream(error) => match error.kind() {
                // `Other` means that the stop flag of the server ended the wait.
                ErrorKind::UnexpectedEof | ErrorKind::TimedOut | ErrorKind::Other => Self::Silent,
                _ => error.into(),
            },
        }
    }
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

fn answer(socket: TcpStream, peer: SocketAddr, caller: &ServedConnection) -> Result<(), RequestError> {
    let shared: &ServerShared = caller;
    let mut wire = InterruptibleStream::new(&socket, &shared.stop, PATIENCE)?;
    wire.until = Some(StdInstant::now() + PATIENCE);
    let (request, rest) = HttpRequest::receive(&mut wire).inspect_err(|error| {
        if let HttpReceiveError::Http(error) = error {
            // The client may have closed the connection, so the error of the write is ignored.
            let _ = send(&socket, &error.response().closing(""));
        }
    })?;
    if caller.prove().is_err() {
        return Ok(turn_away(&socket, shared.refuse(ClientProtocol::Http, AdmissionRefusal::Full))?);
    }
    if !shared.serves_strangers(&socket) {
        send(&socket, &HttpResponse::new(403, &[]).closing(""))?;
        return Err(RequestError::NoKey);
    }
    if Ndt7Test::of_path(request.path()).is_some() {
        ndt7::serve(socket, peer, &request, &rest, shared);
        return Ok(());
    }
    if request.path() == METRICS && request.method == "GET" {
        let page = shared.tally.metrics(&shared.now()).into_text();
        let kind = [("Content-Type", CONTENT_TYPE)];
        return Ok(send(&socket, &HttpResponse::new(200, &kind).closing(&page))?);
    }
    let answer = Objects { longest: shared.limits.max_size.bytes() }.answer(&request);
    if answer.fill == 0 {
        return Ok(send(&socket, &answer.head)?);
    }
    match Slot::ask_at_once(shared, ClientProtocol::Http, peer, None) {
        Ok(slot) => give(socket, &answer, slot, shared),
        Err(refusal) => Ok(turn_away(&socket, refusal)?),
    }
}

/// Sends an object and ends the transfer if it exceeds the budget of the slot.
fn give(
    socket: TcpStream,
    answer: &ObjectResponse,
    mut slot: Slot<'_>,
    shared: &ServerShared,
) -> Result<(), RequestError> {
    send(&socket, &answer.head)?;
    let order = StreamOrder {
        direction: TransferDirection::Sends,
        every: EVERY,
        bytes: Some(ByteBudget::new(answer.fill)),
        pacing: slot.held_to().map(pacing),
        window: None,
    };
    let mut streams = Streams::new(vec![socket], order)?;
    let (stop, mut overrun) = (AtomicBool::new(false), None);
    let end = streams.carry(&stop, &mut |reading: &Reading| {
        overrun = overrun.or(slot.spend([0, reading.bytes()[1]]).err());
        stop.store(overrun.is_some() || shared.stop.load(Ordering::Relaxed), Ordering::Relaxed);
    })?;
    match (overrun, end) {
        (Some(overrun), _) => Err(overrun.into()),
        (None, TransferEnd::Gone) => Err(RequestError::Cut),
        (None, TransferEnd::Sent | TransferEnd::Stopped) => Ok(()),
    }
}
