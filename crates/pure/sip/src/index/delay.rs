//! The measured delays, with their start and end.

use netrig_core::{Duration, Instant, Quantity, QuantityKind, named};

use super::quantity::{IndexMetric, is_accepted, is_refused};
use crate::record::{Record, Stamps, What};

/// Properties of a delay.
struct DelayProperties {
    rfc_name: Option<&'static str>,
    quantity: Quantity,
    metric: Option<IndexMetric>,
}

/// Declares the delays. A row has the name in the report of a load, the name of the metric of a run (after `sip_`, that
/// of the quantity), the abbreviation in RFC 6076 if it has one, and the definition. If an experiment can ask for the
/// delay, the attempts that the metric covers follow, and the name of the metric if it differs.
macro_rules! delays {
    ($(
        $(#[doc = $remark:literal])*
        $delay:ident = $name:literal, $quantity:literal $(, $rfc_name:literal)?:
            $span:literal $(, over $attempts:literal $(as $metric:literal)?)?;
    )+) => {
        named! {
            /// A measured delay. It starts with the first transmission of a request and ends with a received message. It
            /// includes challenges and retransmissions between the two.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            pub enum Delay {
                $(
                    #[doc = concat!($span, ".")]
                    $(#[doc = $remark])*
                    $delay = $name,
                )+
            }
        }

        static PROPERTIES: [DelayProperties; Delay::ALL.len()] = [$(
            DelayProperties {
                rfc_name: delays!(@optional $($rfc_name)?),
                quantity: Quantity {
                    name: concat!("sip_", $quantity),
                    unit: "s",
                    kind: QuantityKind::Value,
                    doc: concat!($span, "."),
                },
                metric: delays!(@optional $(IndexMetric {
                    name: delays!(@first $($metric)? $quantity),
                    definition: concat!($span, ", over ", $attempts, " in the measuring window."),
                })?),
            },
        )+];
    };
    (@first $name:literal $($other:literal)?) => { $name };
    (@optional) => { None };
    (@optional $value:expr) => { Some($value) };
}

delays! {
    /// Section 4.1.
    Registration = "registration", "registration_delay", "RRD":
        "Time from sending the first REGISTER until its 2xx arrived, challenges and retransmissions \
         included (RRD of RFC 6076)", over "the registrations that succeeded";
    Unregistration = "unregistration", "unregistration_delay":
        "Time from sending the first REGISTER that removes a registration until its 2xx arrived, \
         challenges and retransmissions included", over "the removals that succeeded";
    Connection = "connection", "connection_delay":
        "Time from sending an INVITE until the first provisional response except 100 arrived",
        over "the calls that succeeded and ended";
    /// Section 4.3.1.
    SessionRequest = "session_request", "session_request_delay", "SRD":
        "Time from sending an INVITE until the first provisional response except 100 arrived or, without \
         one, the 2xx (SRD of RFC 6076)", over "the answered calls that ended";
    /// Section 4.3.2. It must not be combined with the delay of section 4.3.1.
    SessionRequestFailed = "session_request_failed", "session_request_failed_delay", "SRD (failed)":
        "Time from sending an INVITE until the first provisional response except 100 arrived or, without \
         one, the refusal (failed SRD of RFC 6076)",
        over "the refused calls that ended" as "failed_session_request_delay";
    AnswerSignal = "answer_signal", "answer_signal_delay":
        "Time from sending the 2xx of an INVITE until its ACK arrived, at the peers of the users",
        over "the calls that ended";
    /// Section 4.4, of successful calls.
    Disconnect = "disconnect", "disconnect_delay", "SDD":
        "Time from sending a BYE until its 2xx arrived (SDD of RFC 6076)", over "the calls that ended";
    /// Section 4.4, which counts failed disconnects separately.
    DisconnectFailed = "disconnect_failed", "disconnect_failed_delay", "SDD (failed)":
        "Time from sending a BYE until timer F expired, if no response arrived (failed SDD of RFC 6076)";
    /// RFC 6076 does not define this delay, because the peer that refuses the BYE knows that the call is over.
    DisconnectRefused = "disconnect_refused", "disconnect_refused_delay":
        "Time from sending a BYE until the final response that refused it arrived";
    /// Section 4.5.
    SessionDuration = "session_duration", "session_duration", "SDT":
        "Time from the 2xx of the INVITE until the BYE (SDT of RFC 6076)", over "the calls that ended";
    Redirect = "redirect", "redirect_delay":
        "Time from sending an INVITE until its 3xx arrived", over "the calls that should be redirected and were,";
    Total = "total", "total_call_delay":
        "Time from sending an INVITE until the 2xx of its BYE arrived, less the time from the answer to \
         the BYE", over "the calls that ended";
    Invite = "invite", "invite_delay":
        "Time from sending an INVITE until its final response of any class arrived", over "the calls that ended";
    Cancel = "cancel", "cancel_delay":
        "Time from sending a CANCEL until the final response of its INVITE arrived",
        over "the calls that were cancelled";
    Options = "options", "options_delay":
        "Time from sending an OPTIONS until its 2xx arrived", over "those answered";
    Message = "message", "message_delay":
        "Time from sending a MESSAGE until its 2xx arrived", over "those answered";
    Prack = "prack", "prack_delay":
        "Time from sending a PRACK until its 2xx arrived", over "the calls of `prack` that ended";
    Reinvite = "reinvite", "reinvite_delay":
        "Time from sending the INVITE that puts a call on hold until its 2xx arrived", over "the calls that ended";
    Subscription = "subscription", "subscription_delay":
        "Time from sending the first SUBSCRIBE until its 2xx arrived", over "the subscriptions that ended";
    Notification = "notification", "notification_delay":
        "Time from sending the first SUBSCRIBE until the first NOTIFY arrived", over "the subscriptions that ended";
    /// No other delay of the attempt starts at this request.
    FailOver = "fail_over", "fail_over_delay":
        "Time from first sending a request until the first response except 100 of the server that took \
         over from a failed one", over "the attempts that ended";
    /// RFC 3263 section 4, of attempts that look up their server before the first request.
    Lookup = "lookup", "lookup_delay":
        "Time from the first DNS query until the last response that the location of the server needs (RFC \
         3263), which no other delay includes", over "the attempts with a successful lookup that ended";
}

impl Delay {
    /// The abbreviation of the delay in RFC 6076. `None` if the RFC does not define it.
    pub fn rfc_name(self) -> Option<&'static str> {
        PROPERTIES[self as usize].rfc_name
    }

    /// The measured quantity of a run that reports this delay.
    pub fn quantity(self) -> &'static Quantity {
        &PROPERTIES[self as usize].quantity
    }

    /// The metric of an experiment that reports this delay.
    pub fn metric(self) -> Option<IndexMetric> {
        PROPERTIES[self as usize].metric
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
        let is_call = what.is_invite();
        let status = if ringing == Instant::NEVER { answered } else { ringing };
        match self {
            Self::Registration if matches!(what, What::Register | What::Renew) && went_well => {
                between(request, answered)
            }
            Self::Unregistration if *what == What::Unregister && went_well => between(request, answered),
            Self::Connection if is_call && went_well => between(request, ringing),
            Self::SessionRequest if is_call && is_accepted(record) => between(request, status),
            Self::SessionRequestFailed if is_call && is_refused(record) => between(request, status),
            Self::AnswerSignal if *what == What::Answer && is_accepted(record) => {
                between(answered, acknowledged)
            }
            Self::Disconnect if what.is_call() && went_well => between(ending, ended),
            Self::DisconnectFailed if what.is_call() && ended == Instant::NEVER => between(ending, unended),
            Self::DisconnectRefused if what.is_call() && ended != Instant::NEVER => between(ending, unended),
            Self::SessionDuration if is_call && is_accepted(record) => between(answered, ending),
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
            Self::Subscription if *what == What::Subscribe && is_accepted(record) => {
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
