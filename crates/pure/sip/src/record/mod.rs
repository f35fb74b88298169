//! Records of calls, registrations and requests, which a load makes and [`index`](crate::index) counts.
//!
//! A [`Record`] is one attempt as one side saw it, with [`Stamps`] of its events. Its [`Token`] identifies the
//! attempt: both sides of a call have the same one.

mod token;

use netrig_core::{Duration, Instant, named};

pub use self::token::{CalleeAction, Owner, Token};
pub(crate) use self::token::{acknowledgement, number_of, server_of, transaction};
use crate::digest::ChallengeError;
use crate::framer::LONGEST_HEAD;
pub use crate::slab::Key;
use crate::transaction::Timer;

/// The record of one call, registration or request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The token in the Call-ID if the caller is part of this load, else the token in the tag of the callee. Both sides
    /// of a call have the same one.
    pub token: Token,
    /// The side that made the record.
    pub side: Side,
    /// The kind of attempt.
    pub what: What,
    /// Number of the user of this side. `u32::MAX` for a callee.
    pub user: u32,
    /// Why it failed. `None` for a success.
    pub failure: Option<Failure>,
    /// Status of the last final response to the first request. 0 for none.
    pub status: u16,
    /// Times of events.
    pub stamps: Stamps,
    /// Counts of abnormal events.
    pub counts: AttemptCounts,
    /// Duration of the lookup of its server before the first request.
    pub lookup: Option<Duration>,
}

/// Times of events as one side saw them. [`Instant::NEVER`] for an event that did not occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// The scheduled time.
    pub intended: Instant,
    /// The first request sent, or received.
    pub request: Instant,
    /// The first 100.
    pub trying: Instant,
    /// The first other provisional response.
    pub ringing: Instant,
    /// The final response.
    pub answered: Instant,
    /// The first ACK.
    pub acknowledged: Instant,
    /// The first CANCEL.
    pub cancelling: Instant,
    /// The first BYE, or the SUBSCRIBE that terminates a subscription.
    pub ending: Instant,
    /// The final response to the BYE or SUBSCRIBE.
    pub ended: Instant,
    /// Failure of the BYE: a final response refused it, or timer F expired.
    pub unended: Instant,
    /// The first request of the scenario within the dialog: PRACK, or the INVITE that puts the call on hold.
    pub changing: Instant,
    /// The 2xx to that request, or the first NOTIFY of a subscription.
    pub changed: Instant,
}

impl Stamps {
    /// Stamps of an attempt that was scheduled for `intended` and whose first request was sent or received at
    /// `request`.
    pub const fn new(intended: Instant, request: Instant) -> Self {
        let never = Instant::NEVER;
        Self {
            intended,
            request,
            trying: never,
            ringing: never,
            answered: never,
            acknowledged: never,
            cancelling: never,
            ending: never,
            ended: never,
            unended: never,
            changing: never,
            changed: never,
        }
    }

    /// Replaces the stamp of a message that left later than it was written.
    pub(crate) fn depart(&mut self, departure: Departure, at: Instant) {
        let place = match departure {
            Departure::Request => &mut self.request,
            Departure::Changing => &mut self.changing,
            Departure::Cancelling => &mut self.cancelling,
            Departure::Ending => &mut self.ending,
        };
        *place = at;
    }
}

/// Sets a stamp unless it is set.
pub(crate) fn stamp(place: &mut Instant, now: Instant) {
    if *place == Instant::NEVER {
        *place = now;
    }
}

/// The stamp of an attempt that the departure of a message sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// [`Stamps::request`].
    Request,
    /// [`Stamps::changing`].
    Changing,
    /// [`Stamps::cancelling`].
    Cancelling,
    /// [`Stamps::ending`].
    Ending,
}

/// Abnormal events of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptCounts {
    /// Retransmitted requests.
    pub requests_again: u16,
    /// Retransmitted final responses.
    pub responses_again: u16,
    /// ACKs of retransmitted final responses.
    pub acknowledgements_again: u16,
    /// Retransmitted messages of the other side.
    pub repeated: u16,
    /// Provisional responses received after later ones, which is tolerated.
    pub reordered: u16,
    /// Answered challenges.
    pub challenges: u16,
    /// Further dialogs of a forked call, which were acknowledged and hung up.
    pub surplus: u16,
    /// Changes to the next server.
    pub failed_over: u8,
    /// Contacts of 3xx that were tried.
    pub redirected: u8,
    /// Requests that were repeated after a `Retry-After`.
    pub retried: u8,
    /// INVITEs within a dialog that crossed an INVITE of the other side (491) and were sent again later.
    pub pending: u8,
    /// Session refreshes of this side (RFC 4028), including unsuccessful ones. Retransmissions do not count.
    pub refreshes_sent: u16,
    /// Session refreshes of the other side that this side answered with 2xx.
    pub refreshes_answered: u16,
}

/// The side that made a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The caller, or the sender of another request.
    Caller,
    /// The callee.
    Callee,
    /// The registrant.
    Registrant,
}

named! {
    /// A kind of attempt.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum What {
        /// A registration by the load, of an unregistered or a registered user.
        Register = "register",
        /// An automatic renewal before the registration expires.
        Renew = "renew",
        /// The removal of a registration.
        Unregister = "unregister",
        /// A call that is answered and hung up.
        Call = "call",
        /// A call with a session description in a 183.
        EarlyMedia = "early-media",
        /// A call whose offer comes from the callee.
        DelayedOffer = "delayed-offer",
        /// A call that is put on hold and resumed.
        Reinvite = "re-invite",
        /// A call with reliable provisional responses (RFC 3262).
        Prack = "prack",
        /// A call that several contacts answer.
        Fork = "fork",
        /// A call that is cancelled.
        Cancel = "cancel",
        /// A call that the callee refuses.
        Busy = "busy",
        /// A call that is not answered.
        NoAnswer = "no-answer",
        /// A call that is redirected.
        Redirect = "redirect",
        /// OPTIONS.
        Options = "options",
        /// MESSAGE.
        Message = "message",
        /// A whole subscription (RFC 6665).
        Subscribe = "subscribe",
        /// A subscription at its notifier.
        Notify = "notify",
        /// A call at its callee.
        Answer = "answer",
    }
}

impl What {
    /// Whether the start of the attempt is counted when its record is counted: the machines or other user agents start
    /// it, not the schedule.
    pub const fn is_unasked(self) -> bool {
        matches!(self, Self::Renew | Self::Notify | Self::Answer)
    }

    /// Whether it is a caller's attempt that begins with an INVITE.
    pub const fn is_invite(self) -> bool {
        self.is_call() || matches!(self, Self::Cancel | Self::Busy | Self::NoAnswer | Self::Redirect)
    }

    /// Whether it is a caller's attempt that should be answered, held and hung up.
    pub const fn is_call(self) -> bool {
        matches!(
            self,
            Self::Call | Self::EarlyMedia | Self::DelayedOffer | Self::Reinvite | Self::Prack | Self::Fork
        )
    }
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Failure {
    /// No response or acknowledgement before a timer expired.
    #[error("no answer in time (timer {0:?})")]
    TimedOut(Timer),
    /// A final response that the scenario does not expect.
    #[error("answered with {0}")]
    Status(u16),
    /// No final response within the longest time of ringing.
    #[error("rang longer than the longest ringing time")]
    RangTooLong,
    /// A 100 and no later response within the longest time of ringing.
    #[error("only 100 Trying within the longest ringing time")]
    OnlyTrying,
    /// No final response to the INVITE for 64·T1 after its CANCEL was answered (RFC 3261 section 9.2).
    #[error("no final response to the INVITE after its CANCEL was answered")]
    NoFinal,
    /// No BYE within the longest duration of a call, or no renewal of a subscription.
    #[error("neither side hung up")]
    LeftAlone,
    /// The session has expired without a refresh.
    #[error("the session was not refreshed in time (RFC 4028)")]
    Unrefreshed,
    /// The credentials are refused.
    #[error("the credentials were refused")]
    Authentication,
    /// A challenge that cannot be answered.
    #[error("{}", ChallengeError::Unanswerable)]
    Unanswerable,
    /// More challenges than are answered.
    #[error("{}", ChallengeError::TooMany)]
    TooManyChallenges,
    /// The other side has ended the call.
    #[error("the other side hung up")]
    EndedByPeer,
    /// The other side has broken a rule. The value is the section of the rule.
    #[error("broke {0}")]
    Rule(&'static str),
    /// An expected event of the scenario did not occur. The value is the name of the event.
    #[error("without {0}")]
    Without(&'static str),
    /// The lookup found no server. Nothing was sent, and no server is at fault.
    #[error("{0}")]
    Unlocated(#[from] Unlocated),
    /// The connection for the response was lost, or the server is unreachable: "the condition MUST be treated as a
    /// 503" (RFC 3261 section 8.1.3.1).
    #[error("{0}")]
    Connection(Broken),
}

/// Why the lookup of an attempt found no server. No SIP server is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Unlocated {
    /// The name does not exist, or has no records that SIP uses.
    #[error("the DNS has no such name")]
    NoSuchName,
    /// The name leads only to transports or IP versions that this load does not use.
    #[error("the name has only servers with other transports or IP versions than the load")]
    Elsewhere,
    /// The domain has no such service: the target of its SRV records is "." (RFC 2782).
    #[error("the domain has no such service (SRV target \".\", RFC 2782)")]
    NoService,
    /// The name leads only to public addresses that the user has not permitted to test.
    #[error("the name leads to public addresses that are not permitted to be tested")]
    Forbidden,
    /// The DNS server failed, or does not answer such questions.
    #[error("the DNS server refused or failed")]
    Refused,
    /// The answer cannot be read, or its aliases do not end.
    #[error("the answer of the DNS server was malformed")]
    Malformed,
    /// No answer to any try of the question.
    #[error("no answer from the DNS server in time")]
    NoAnswer,
    /// The tester had no room for the lookup, a limit of the tester.
    #[error("the tester had no room for the lookup")]
    NoRoom,
}

/// The longest message that a load reads from a connection, bytes.
pub const LONGEST_MESSAGE: usize = 1 << 20;

/// Why a connection was lost, or a datagram not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Broken {
    /// The port is closed.
    #[error("the connection was refused")]
    Refused,
    /// The other side has reset the connection.
    #[error("the connection was reset")]
    Reset,
    /// The other side has closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// No response, or no route.
    #[error("the connection attempt got no answer, or there was no route")]
    Unreachable,
    /// The TLS handshake failed.
    #[error("the TLS handshake failed: {0}")]
    Tls(TlsFault),
    /// A message is longer than the tester reads, a limit of the tester.
    #[error(
        "a message was longer than the tester reads from a connection ({} KiB, of which {} KiB are header fields)",
        LONGEST_MESSAGE >> 10,
        LONGEST_HEAD >> 10
    )]
    TooLong,
    /// The received data is not SIP.
    #[error("the data received on the connection is not SIP")]
    Garbled,
    /// The other side does not read.
    #[error("the server stopped reading from the connection")]
    Stuck,
    /// An ICMP error: a datagram was not delivered.
    #[error("the network reported that a datagram was undeliverable (ICMP)")]
    Undelivered,
    /// This host had no port, descriptor or memory for the connection, a limit of the tester.
    #[error("the tester had no port or descriptor for the connection")]
    Unopened,
}

/// Why the TLS handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum TlsFault {
    /// The server's certificate is for other names.
    #[error("the server's certificate is not for the name of the target")]
    Name,
    /// No trusted authority has signed the certificate.
    #[error("the server's certificate is not signed by a trusted authority")]
    Authority,
    /// The certificate has expired, or is not yet valid.
    #[error("the server's certificate is not valid at this time")]
    Time,
    /// The certificate cannot be read, is revoked, or is for another purpose.
    #[error("the server's certificate is bad")]
    Certificate,
    /// The sides have no version or cipher suite in common.
    #[error("the server supports no TLS version or cipher suite of netrig (1.2 and 1.3)")]
    Version,
    /// The server has sent an alert. The value is the name of the alert (RFC 8446 section 6).
    #[error("the server sent the alert {0}")]
    Alert(&'static str),
    /// The received data is not TLS.
    #[error("the data received from the server is not TLS")]
    Garbled,
    /// The server broke a rule of TLS.
    #[error("the server broke a rule of TLS")]
    Misbehaved,
    /// Another reason.
    #[error("another reason, which `netrig sip call` shows")]
    Other,
}
