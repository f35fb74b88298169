//! The server that answers the calls of a load. The limit of the tester is measured against this server.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::Duration;
use netrig_sip::load::{Callee, CalleeAction, LoadOutput, Moment, Recipient, Scan, Setup};

use super::attention::{Attention, REST};
use super::order::{Carrier, LoadError, Reconnecting};
use super::replies::Replies;
use super::run::drawn;
use super::tester::TesterSecond;
use super::wire::ShardSocket;
use netrig_host::Clock;
use netrig_host::RealtimeOffset;
use netrig_host::sys::MESSAGES;

/// Rate of calls, calls/s, for which the receive buffer has room.
const CALLS_PER_S: f64 = 50_000.0;

/// Interval between two checks of the stop flag.
const LOOK: Duration = Duration::from_millis(20);

/// Counts of an answering element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerReport {
    /// Calls that have ended.
    pub calls: u64,
    /// Number of failed calls among `calls`.
    pub failed: u64,
    /// Calls refused because the limit of calls was reached.
    pub refused: u64,
    /// Requests that belong to no call.
    pub strays: u64,
    /// Datagrams dropped because the receive buffer was full.
    pub dropped: u64,
}

/// The requests to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answering {
    /// Calls, with the state machines of a load. An INVITE is answered with 180 and, after the ringing time, with 200
    /// or another configured response. If the ringing time is zero, there is no 180. A BYE is answered with 200.
    Calls {
        /// The callee's action.
        wish: CalleeAction,
        /// The ringing time.
        ringing: Duration,
    },
    /// Single requests, statelessly: INVITE is answered with 302, all others with 200. With `challenges`, a REGISTER
    /// without credentials is challenged.
    Requests {
        /// Whether REGISTER is challenged. The credentials are not checked.
        challenges: bool,
    },
}

impl Answering {
    /// Calls with this ringing time.
    pub const fn calls(ringing: Duration) -> Self {
        Self::Calls { wish: CalleeAction::Answer, ringing }
    }
}

/// The part of the server that answers requests.
enum Responder {
    Callee(Box<Callee>),
    Replies(Replies),
}

/// Answers all requests to an address, in one thread. `ready` is called with the local address. Under load the server
/// reads messages only every 200 µs to save processor time, so its response delays are not a measurement of anything.
///
/// # Errors
/// If the address cannot be used, or a system call fails that succeeds in normal operation.
pub fn answer(
    carrier: &Carrier,
    local: SocketAddr,
    answering: Answering,
    ready: impl FnOnce(SocketAddr),
    stop: &AtomicBool,
) -> Result<AnswerReport, LoadError> {
    let mut wire = ShardSocket::open(carrier, Reconnecting::default(), local, CALLS_PER_S)?;
    let local = wire.local();
    let (run, secret) = drawn()?;
    let transport = carrier.transport();
    let setup = Setup { calls: 1 << 20, transport, ..Setup::new(run, local, local) };
    let mut side = match answering {
        Answering::Calls { wish, ringing } => {
            Responder::Callee(Box::new(Callee::new(setup, wish, ringing, secret)?))
        }
        Answering::Requests { challenges } => Responder::Replies(Replies::new(local, challenges)),
    };
    let (clock, offset) = (Clock::starting_in(Duration::ZERO), RealtimeOffset::measure());
    let mut attention = Attention::to(&wire, clock, REST, false)?;
    let (mut out, mut counts, mut report) =
        (LoadOutput::default(), TesterSecond::default(), AnswerReport::default());
    ready(local);
    while !stop.load(Ordering::Relaxed) {
        let mut next = clock.now() + LOOK;
        if let Responder::Callee(callee) = &mut side {
            callee.handle_timeout(clock.now(), &mut out);
            next = callee.next_deadline().map_or(next, |timer| timer.min(next));
        }
        settle(&mut wire, &clock, &mut out, &mut counts, &mut report)?;
        attention.wait(next)?;
        attention.look(1, || {
            let mut taken = 0;
            let more = wire.receive(
                &clock,
                &offset,
                MESSAGES,
                |_, [_, from]: [SocketAddr; 2], bytes: &[u8], arrived| {
                    taken += 1;
                    let scan = Scan::of(bytes);
                    let moment = Moment { arrived, now: clock.now() };
                    match (&mut side, Recipient::of(&scan, run, 0)) {
                        (Responder::Callee(callee), Some(Recipient::Callee)) => {
                            callee.handle_request(moment, from, &scan, &mut out);
                        }
                        (Responder::Callee(callee), Some(Recipient::Response(token, transaction))) => {
                            callee.handle_response(moment, &scan, (token, transaction), &mut out);
                        }
                        (Responder::Callee(_), _) => {}
                        (Responder::Replies(replies), _) => replies.to(from, &scan, bytes, &mut out),
                    }
                },
            )?;
            settle(&mut wire, &clock, &mut out, &mut counts, &mut report)?;
            Ok((taken, more))
        })?;
    }
    let dropped = wire.take_drops()?;
    Ok(match side {
        Responder::Callee(callee) => {
            AnswerReport { refused: callee.refused(), strays: callee.strays(), dropped, ..report }
        }
        Responder::Replies(_) => AnswerReport { dropped, ..report },
    })
}

/// Sends queued messages, and counts ended calls.
fn settle(
    wire: &mut ShardSocket,
    clock: &Clock,
    out: &mut LoadOutput,
    counts: &mut TesterSecond,
    report: &mut AnswerReport,
) -> Result<(), LoadError> {
    if !out.messages.is_empty() {
        wire.send(clock, &out.messages, counts)?;
        out.messages.clear();
    }
    // The reports are discarded: a caller that has closed its connection expects no answer.
    wire.take_undelivered(clock, |_, _| {})?;
    for record in out.records.drain(..) {
        report.calls += 1;
        report.failed += u64::from(record.failure.is_some());
    }
    Ok(())
}
