//! What became of each call, registration and request: the records that a load makes, and that [`index`](crate::index) counts.
//!
//! A [`Record`] is one attempt as one side saw it, with [`Stamps`] of what happened when. Its [`Token`] says which one: both
//! sides of a call have the same.

mod token;

use netrig_core::{Duration, Instant};

pub use self::token::{CalleeBehavior, Owner, Token};
pub(crate) use self::token::{acknowledgement, number_of, server_of, transaction};
use crate::digest::ChallengeError;
use crate::framer::LONGEST_HEAD;
pub use crate::slab::SlabKey;
use crate::transaction::Timer;

/// One call, registration or request from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its Call-ID, if that is of this test; else the tag of who was called. Both sides of a call have the same.
    pub token: Token,
    /// Who saw it.
    pub side: Side,
    /// What was done.
    pub what: What,
    /// Which user, of whom sees it; for one who is called `u32::MAX`.
    pub user: u32,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// The last final response to the first request; 0 for none.
    pub status: u16,
    /// What happened when.
    pub stamps: Stamps,
    /// What was not as it should be.
    pub counts: AttemptCounts,
    /// How long its server was looked for before the first request, if it was.
    pub lookup: Option<Duration>,
}

/// What happened when, as one side saw it. What did not happen is [`Instant::NEVER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// When it was to begin.
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
    /// The first BYE, or the SUBSCRIBE that takes a subscription back.
    pub ending: Instant,
    /// Its final response.
    pub ended: Instant,
    /// When the BYE had failed: its final response refused it, or there was none and timer F ran out.
    pub unended: Instant,
    /// The first request of the scenario's own within the dialog: PRACK, or the INVITE that puts the call on hold.
    pub changing: Instant,
    /// Its 2xx; of a subscription the first NOTIFY.
    pub changed: Instant,
}

impl Stamps {
    /// What was to begin then, and whose first request was sent or received then: nothing else has happened.
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

    /// What was handed out then is sent only now.
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

/// Keeps the first time.
pub(crate) fn stamp(place: &mut Instant, now: Instant) {
    if *place == Instant::NEVER {
        *place = now;
    }
}

/// Which of an attempt's stamps says when a message was sent.
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

/// How often it was not as it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptCounts {
    /// Requests sent again because nobody answered in time.
    pub requests_again: u16,
    /// Final responses sent again because nobody acknowledged in time.
    pub responses_again: u16,
    /// ACKs sent again because the final response came again.
    pub acknowledgements_again: u16,
    /// Messages of the other side that came again.
    pub repeated: u16,
    /// Provisional responses that came behind those sent after them: tolerated.
    pub reordered: u16,
    /// Challenges that were answered.
    pub challenges: u16,
    /// Dialogs beside the first that a forked call came to, acknowledged and hung up.
    pub surplus: u16,
    /// Servers that were given up for the next.
    pub failed_over: u8,
    /// Contacts of 3xx that were asked.
    pub redirected: u8,
    /// Requests that were sent again after the time of a `Retry-After`.
    pub retried: u8,
    /// INVITEs within a dialog that crossed one of the other side (491) and were sent again later.
    pub pending: u8,
    /// Requests of this side that refreshed the session, or were to (RFC 4028). One that is sent again by a timer counts once.
    pub refreshes_sent: u16,
    /// Requests of the other side that refreshed the session, and that this side answered with 2xx.
    pub refreshes_answered: u16,
}

/// Who saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Who calls, or asks.
    Caller,
    /// Who is called.
    Callee,
    /// Who registers.
    Registrant,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A user was registered, for the first time or again.
    Register,
    /// A registration was kept alive, before its time was over.
    Renew,
    /// A registration was taken back.
    Unregister,
    /// A call that is answered and hung up.
    Call,
    /// The same, with a session description while it rings.
    EarlyMedia,
    /// The same, in which the one who is called makes the offer.
    DelayedOffer,
    /// The same, put on hold and taken up again.
    Reinvite,
    /// The same, whose ringing is acknowledged (RFC 3262).
    Prack,
    /// The same, answered at several places.
    Fork,
    /// A call that is taken back.
    Cancel,
    /// A call to one who refuses.
    Busy,
    /// A call that nobody answers.
    NoAnswer,
    /// A call that is sent elsewhere.
    Redirect,
    /// OPTIONS.
    Options,
    /// MESSAGE.
    Message,
    /// A subscription, from its beginning to its end (RFC 6665).
    Subscribe,
    /// A subscription as the one sees it who notifies.
    Notify,
    /// A call as the one sees it who is called.
    Answer,
}

impl What {
    /// All that there are.
    pub const ALL: [Self; 18] = [
        Self::Register,
        Self::Renew,
        Self::Unregister,
        Self::Call,
        Self::EarlyMedia,
        Self::DelayedOffer,
        Self::Reinvite,
        Self::Prack,
        Self::Fork,
        Self::Cancel,
        Self::Busy,
        Self::NoAnswer,
        Self::Redirect,
        Self::Options,
        Self::Message,
        Self::Subscribe,
        Self::Notify,
        Self::Answer,
    ];

    /// Whether it was begun with its record: what the machines do by themselves, and what others ask of them.
    pub const fn is_unasked(self) -> bool {
        matches!(self, Self::Renew | Self::Notify | Self::Answer)
    }

    /// Whether it begins with an INVITE, at the side that sends it.
    pub const fn is_invite(self) -> bool {
        self.is_call() || matches!(self, Self::Cancel | Self::Busy | Self::NoAnswer | Self::Redirect)
    }

    /// Whether it is to be answered, held and hung up.
    pub const fn is_call(self) -> bool {
        matches!(
            self,
            Self::Call | Self::EarlyMedia | Self::DelayedOffer | Self::Reinvite | Self::Prack | Self::Fork
        )
    }
}

/// Why it is no success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Failure {
    /// Nobody has answered, or acknowledged, in time.
    #[error("no answer in time (timer {0:?})")]
    TimedOut(Timer),
    /// A final response that is not what the scenario wants.
    #[error("answered with {0}")]
    Status(u16),
    /// No final response as long as a call may ring.
    #[error("rang longer than a call may")]
    RangTooLong,
    /// A 100 and nothing behind it as long as a call may ring.
    #[error("100 Trying and nothing after it, for as long as a call may ring")]
    OnlyTrying,
    /// The final response that is to follow the answer to a CANCEL (RFC 3261 section 9.2) has not come for 64·T1.
    #[error("no final response to the INVITE, whose CANCEL was answered")]
    NoFinal,
    /// Nobody has hung up as long as a call may last.
    #[error("nobody hung up")]
    LeftAlone,
    /// The session has expired without a refresh.
    #[error("the session was not refreshed in time (RFC 4028)")]
    Unrefreshed,
    /// The credentials are refused.
    #[error("the credentials were refused")]
    Authentication,
    /// The request was challenged in a way that cannot be answered.
    #[error("{}", ChallengeError::Unanswerable)]
    Unanswerable,
    /// The request was challenged more often than is answered.
    #[error("{}", ChallengeError::TooMany)]
    TooManyChallenges,
    /// The other side has ended the call.
    #[error("the other side hung up")]
    EndedByPeer,
    /// A rule that the other side has broken, by its section.
    #[error("broke {0}")]
    Rule(&'static str),
    /// What the scenario is about has not come: by its name.
    #[error("came without {0}")]
    Without(&'static str),
    /// It found no server to ask: nothing was sent to one, and nothing is held against one.
    #[error("{0}")]
    Unlocated(#[from] Unlocated),
    /// The connection on which an answer was to come is gone, or nobody is reached: "the condition MUST be treated as a 503"
    /// (RFC 3261 section 8.1.3.1).
    #[error("{0}")]
    Connection(Broken),
}

/// Why an attempt has found no server to ask. None of it is any SIP server's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Unlocated {
    /// The name does not exist, or nothing of what SIP asks for is there.
    #[error("the DNS knows no such name")]
    NoSuchName,
    /// The name is there, and leads only where this load does not go: by other transports or versions of IP.
    #[error("the name leads only where the load does not go")]
    Elsewhere,
    /// Its SRV records have the target ".", by which a domain says so (RFC 2782).
    #[error("the domain says that it has no such service (SRV target \".\", RFC 2782)")]
    NoService,
    /// It leads only to public addresses, which nobody said may be tested.
    #[error("the name leads to public addresses that nobody said may be tested")]
    Forbidden,
    /// The DNS server said that it failed, or does not answer such questions.
    #[error("the DNS server refused or failed")]
    Refused,
    /// The answer is none, or has aliases without an end.
    #[error("the answer of the DNS server was malformed")]
    Malformed,
    /// Asked as often as may be, nobody has answered.
    #[error("no answer of the DNS server in time")]
    NoAnswer,
    /// The tester had no room for it: its own limit.
    #[error("the tester had no room for the lookup")]
    NoRoom,
}

/// The longest message that a load reads from a connection, bytes.
pub const LONGEST_MESSAGE: usize = 1 << 20;

/// How a connection has come to its end, or what is said of the way of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Broken {
    /// Nobody listens there.
    #[error("nobody listened for its connection")]
    Refused,
    /// The other side has cut it off.
    #[error("its connection was cut off")]
    Reset,
    /// The other side has closed it.
    #[error("its connection was closed")]
    Closed,
    /// Nobody answers there, or there is no way.
    #[error("nobody answered to its connection")]
    Unreachable,
    /// TLS was not agreed upon.
    #[error("TLS was not agreed upon: {0}")]
    Tls(TlsFault),
    /// A message is longer than the tester reads: the tester's own limit.
    #[error(
        "a message was longer than the tester reads from a connection ({} KiB, of which {} KiB are header fields)",
        LONGEST_MESSAGE >> 10,
        LONGEST_HEAD >> 10
    )]
    TooLong,
    /// What came is no SIP.
    #[error("what came on its connection is no SIP")]
    Garbled,
    /// The other side did not take what was sent.
    #[error("the server did not take what was sent on its connection")]
    Stuck,
    /// The network has said of a datagram that it reaches nobody: by ICMP.
    #[error("nobody was reached, as the network said (ICMP)")]
    Undelivered,
    /// This machine had no port, descriptor or memory for it: the tester's own limit.
    #[error("the tester had no port or descriptor for its connection")]
    Unopened,
}

/// Why TLS was not agreed upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum TlsFault {
    /// The server's certificate is for other names.
    #[error("the server's certificate is not for the name of the target")]
    Name,
    /// No authority that is trusted has signed the certificate.
    #[error("the server's certificate is signed by no authority that was given")]
    Authority,
    /// The certificate's time is over, or has not begun.
    #[error("the server's certificate is not valid at this time")]
    Time,
    /// The certificate cannot be read, is revoked, or is for another purpose.
    #[error("the server's certificate is bad")]
    Certificate,
    /// There is no version or cipher suite that both sides speak.
    #[error("the server speaks no version or cipher suite of TLS that netrig does (1.2 and 1.3)")]
    Version,
    /// The server has ended it: the name of its alert (RFC 8446 section 6).
    #[error("the server sent the alert {0}")]
    Alert(&'static str),
    /// What came is no TLS.
    #[error("what the server sent is no TLS")]
    Garbled,
    /// The server broke a rule of TLS.
    #[error("the server broke a rule of TLS")]
    Misbehaved,
    /// None of the other reasons.
    #[error("the handshake failed for another reason; `netrig sip call` shows it")]
    Other,
}
