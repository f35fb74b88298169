//! The measured delays, with their start and end.

use netrig_core::{Duration, Instant, Quantity, named, quantity};

use super::sessions::AnswerClass;
use crate::record::{Record, Stamps, What};

named! {
    /// A measured delay. It starts with the first transmission of a request and ends with a received message. It includes
    /// challenges and retransmissions between the two.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Delay {
        /// REGISTER to its 200: registration request delay of RFC 6076 section 4.1, of successful registrations.
        Registration = "registration",
        /// REGISTER to its 200, of removed registrations.
        Unregistration = "unregistration",
        /// INVITE to the first provisional response other than 100, of successful calls: the time until the callee rings.
        Connection = "connection",
        /// INVITE to the first provisional response other than 100, or else to the 200, of answered calls. Session
        /// request delay of RFC 6076 section 4.3.1.
        SessionRequest = "session_request",
        /// The same delay of refused calls, whose first response may be the refusal. Session request delay of RFC 6076
        /// section 4.3.2, which must not be combined with that of section 4.3.1.
        SessionRequestFailed = "session_request_failed",
        /// From the 200 that the callee sends to the ACK that it receives.
        AnswerSignal = "answer_signal",
        /// BYE to its 200: session disconnect delay of RFC 6076 section 4.4, of successful calls.
        Disconnect = "disconnect",
        /// BYE to the expiry of timer F, of unanswered BYEs: failed disconnects of RFC 6076 section 4.4, which are counted
        /// separately.
        DisconnectFailed = "disconnect_failed",
        /// BYE to the final response that refused it. RFC 6076 does not define this delay, because the peer that refuses
        /// the BYE knows that the call is over.
        DisconnectRefused = "disconnect_refused",
        /// The 200 of the INVITE to the BYE: session duration time of RFC 6076 section 4.5.
        SessionDuration = "session_duration",
        /// INVITE to the 3xx, of calls that should be redirected.
        Redirect = "redirect",
        /// INVITE to its 200, plus BYE to its 200: the total signalling time of a call.
        Total = "total",
        /// INVITE to its final response, of any status.
        Invite = "invite",
        /// CANCEL to the final response of its INVITE.
        Cancel = "cancel",
        /// OPTIONS to its 200.
        Options = "options",
        /// MESSAGE to its 200.
        Message = "message",
        /// PRACK to its 2xx.
        Prack = "prack",
        /// The time from the INVITE that puts a call on hold to the 2xx of this INVITE.
        Reinvite = "reinvite",
        /// SUBSCRIBE to its 2xx.
        Subscription = "subscription",
        /// SUBSCRIBE to the first NOTIFY.
        Notification = "notification",
        /// The first request to the first response other than 100 from the server that replaced a failed one. No other
        /// delay of the attempt starts at this request.
        FailOver = "fail_over",
        /// From the first question to the DNS to its last answer (RFC 3263 section 4), of attempts that look up their
        /// server before the first request. No other delay includes this time.
        Lookup = "lookup",
    }
}

impl Delay {
    /// The abbreviation of the delay in RFC 6076. `None` if the RFC does not define it.
    pub const fn rfc_name(self) -> Option<&'static str> {
        match self {
            Self::Registration => Some("RRD"),
            Self::SessionRequest => Some("SRD"),
            Self::SessionRequestFailed => Some("SRD (failed)"),
            Self::Disconnect => Some("SDD"),
            Self::DisconnectFailed => Some("SDD (failed)"),
            Self::SessionDuration => Some("SDT"),
            _ => None,
        }
    }

    /// The measured quantity of a run that reports this delay.
    pub const fn quantity(self) -> &'static Quantity {
        match self {
            Self::Registration => &quantity::SIP_REGISTRATION_DELAY,
            Self::Unregistration => &quantity::SIP_UNREGISTRATION_DELAY,
            Self::Connection => &quantity::SIP_CONNECTION_DELAY,
            Self::SessionRequest => &quantity::SIP_SESSION_REQUEST_DELAY,
            Self::SessionRequestFailed => &quantity::SIP_SESSION_REQUEST_FAILED_DELAY,
            Self::AnswerSignal => &quantity::SIP_ANSWER_SIGNAL_DELAY,
            Self::Disconnect => &quantity::SIP_DISCONNECT_DELAY,
            Self::DisconnectFailed => &quantity::SIP_DISCONNECT_FAILED_DELAY,
            Self::DisconnectRefused => &quantity::SIP_DISCONNECT_REFUSED_DELAY,
            Self::SessionDuration => &quantity::SIP_SESSION_DURATION,
            Self::Redirect => &quantity::SIP_REDIRECT_DELAY,
            Self::Total => &quantity::SIP_TOTAL_CALL_DELAY,
            Self::Invite => &quantity::SIP_INVITE_DELAY,
            Self::Cancel => &quantity::SIP_CANCEL_DELAY,
            Self::Options => &quantity::SIP_OPTIONS_DELAY,
            Self::Message => &quantity::SIP_MESSAGE_DELAY,
            Self::Prack => &quantity::SIP_PRACK_DELAY,
            Self::Reinvite => &quantity::SIP_REINVITE_DELAY,
            Self::Subscription => &quantity::SIP_SUBSCRIPTION_DELAY,
            Self::Notification => &quantity::SIP_NOTIFICATION_DELAY,
            Self::FailOver => &quantity::SIP_FAIL_OVER_DELAY,
            Self::Lookup => &quantity::SIP_LOOKUP_DELAY,
        }
    }

    /// The delay in a record, if the record has it.
    pub fn of(self, record: &Record) -> Option<Duration> {
        let Record { what, stamps, failure, .. } = record;
        let Stamps { request, ringing, answered, acknowledged, changing, changed, .. } = *stamps;
        let Stamps { cancelling, ending, ended, unended, .. } = *stamps;
        let first = request;
        // A delay of one server must not include the time of a failed server, nor a pause that the server asked for.
        let is_first = record.counts.failed_over == 0 && record.counts.retried == 0;
        let request = if is_first { request } else { Instant::NEVER };
        let went_well = failure.is_none();
        let answer = AnswerClass::of(record);
        let is_call = what.is_invite();
        let status = if ringing == Instant::NEVER { answered } else { ringing };
        match self {
            Self::Registration if matches!(what, What::Register | What::Renew) && went_well => {
                between(request, answered)
            }
            Self::Unregistration if *what == What::Unregister && went_well => between(request, answered),
            Self::Connection if is_call && went_well => between(request, ringing),
            Self::SessionRequest if is_call && answer == AnswerClass::Accepted => between(request, status),
            Self::SessionRequestFailed if is_call && answer == AnswerClass::Refused => {
                between(request, status)
            }
            Self::AnswerSignal if *what == What::Answer && answer == AnswerClass::Accepted => {
                between(answered, acknowledged)
            }
            Self::Disconnect if what.is_call() && went_well => between(ending, ended),
            Self::DisconnectFailed if what.is_call() && ended == Instant::NEVER => between(ending, unended),
            Self::DisconnectRefused if what.is_call() && ended != Instant::NEVER => between(ending, unended),
            Self::SessionDuration if is_call && answer == AnswerClass::Accepted => between(answered, ending),
            Self::Redirect if *what == What::Redirect && went_well => between(request, answered),
            Self::Total if what.is_call() && went_well => {
                Some(between(request, answered)? + between(ending, ended)?)
            }
            Self::Invite if is_call => between(request, answered),
            Self::Cancel if matches!(what, What::Cancel | What::NoAnswer) && went_well => {
                between(cancelling, answered)
            }
            Self::Options if *what == What::Options && went_well => between(request, ended),
            Self::Message if *what == What::Message && went_well => between(request, ended),
            Self::Prack if *what == What::Prack => between(changing, changed),
            Self::Reinvite if *what == What::Reinvite => between(changing, changed),
            Self::Subscription if *what == What::Subscribe && answer == AnswerClass::Accepted => {
                between(request, answered)
            }
            Self::Notification if *what == What::Subscribe => between(request, changed),
            Self::Lookup => record.lookup,
            Self::FailOver
                if record.counts.failed_over > 0 && record.counts.retried == 0 && record.status > 0 =>
            {
                between(first, status)
            }
            _ => None,
        }
    }
}

/// The time between two stamps, if both are set.
fn between(from: Instant, to: Instant) -> Option<Duration> {
    (from != Instant::NEVER && to != Instant::NEVER).then(|| to - from)
}
