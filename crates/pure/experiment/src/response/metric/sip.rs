//! Metrics of SIP users: the indices of a server test, and those of RFC 6076.

use netrig_core::Quantity;
use netrig_core::quantity::{
    SIP_ANSWER_SIGNAL_DELAY, SIP_BEGUN, SIP_CALLS, SIP_CALLS_COMPLETED, SIP_CANCEL_DELAY,
    SIP_CONFORMANCE_FAILED, SIP_CONFORMANCE_RUN, SIP_CONNECTION_DELAY, SIP_DISCONNECT_DELAY,
    SIP_FAIL_OVER_DELAY, SIP_FAILED, SIP_INVITE_DELAY, SIP_LOOKUP_DELAY, SIP_MESSAGE_DELAY,
    SIP_NOTIFICATION_DELAY, SIP_OPTIONS_DELAY, SIP_PRACK_DELAY, SIP_REDIRECT_DELAY, SIP_REDIRECTED,
    SIP_REDIRECTS, SIP_REGISTERED, SIP_REGISTRATION_DELAY, SIP_REGISTRATIONS, SIP_REGISTRATIONS_INEFFECTIVE,
    SIP_REINVITE_DELAY, SIP_REORDERED, SIP_REQUESTS_AGAIN, SIP_RESPONSE_TIME_1, SIP_RESPONSE_TIME_2,
    SIP_RESPONSE_TIME_3, SIP_SCENARIO_TIME, SIP_SESSION_DURATION, SIP_SESSION_REQUEST_DELAY,
    SIP_SESSION_REQUEST_FAILED_DELAY, SIP_SESSIONS, SIP_SESSIONS_COMPLETED, SIP_SESSIONS_ESTABLISHED,
    SIP_SESSIONS_INEFFECTIVE, SIP_SESSIONS_REDIRECTED, SIP_SESSIONS_REFUSED, SIP_SUBSCRIPTION_DELAY,
    SIP_SUCCEEDED, SIP_TOTAL_CALL_DELAY, SIP_UNLOCATED, SIP_UNREGISTRATION_DELAY,
};

use super::super::SubjectKind::Flow;
use super::observed::Observed;
use super::{About, MeasuredValue, Metric, Need, Over, Rate, Share, Statistic, Total, View};

pub(super) const ALL: &[&dyn Metric] = &[
    &REGISTRATION_DELAY,
    &UNREGISTRATION_DELAY,
    &CONNECTION_DELAY,
    &SESSION_REQUEST_DELAY,
    &SESSION_REQUEST_FAILED,
    &ANSWER_SIGNAL_DELAY,
    &DISCONNECT_DELAY,
    &SESSION_DURATION,
    &REDIRECT_DELAY,
    &TOTAL_CALL_DELAY,
    &INVITE_DELAY,
    &CANCEL_DELAY,
    &OPTIONS_DELAY,
    &MESSAGE_DELAY,
    &LOOKUP_DELAY,
    &PRACK_DELAY,
    &REINVITE_DELAY,
    &SUBSCRIPTION_DELAY,
    &NOTIFICATION_DELAY,
    &FAIL_OVER_DELAY,
    &ATTEMPT_SUCCESS,
    &ATTEMPTS_SERVED,
    &REGISTRATION_SUCCESS,
    &CALL_SUCCESS,
    &REDIRECT_SUCCESS,
    &ISA,
    &SCR,
    &IRA,
    &ESTABLISHMENT,
    &EFFECTIVENESS,
    &ATTEMPTS_PER_SECOND,
    &REGISTRATIONS_PER_SECOND,
    &CALLS_PER_SECOND,
    &REDIRECTS_PER_SECOND,
    &OFFERED,
    &BUSY_HOUR,
    &ATTEMPTS,
    &FAILURES,
    &UNLOCATED,
    &REORDERED,
    &RetransmissionsPerAttempt,
    &RESPONSE_TIME_1,
    &RESPONSE_TIME_2,
    &RESPONSE_TIME_3,
    &SCENARIO_TIME,
    &CONFORMANCE_RUN,
    &CONFORMANCE_FAILED,
];

static REGISTRATION_DELAY: Observed = Observed {
    about: About::new(
        "registration_delay",
        "s",
        Flow,
        "Time from sending the first REGISTER until its 2xx came, challenges and retransmissions included \
         (RRD of RFC 6076), over the registrations that succeeded in the measuring window.",
    )
    .observed(),
    quantity: &SIP_REGISTRATION_DELAY,
};

static UNREGISTRATION_DELAY: Observed = Observed {
    about: About::new("unregistration_delay", "s", Flow, "The same of registrations that were taken back.")
        .observed(),
    quantity: &SIP_UNREGISTRATION_DELAY,
};

static CONNECTION_DELAY: Observed = Observed {
    about: About::new(
        "connection_delay",
        "s",
        Flow,
        "Time from sending an INVITE until the first provisional response but 100 came, over the calls that \
         went as they should and ended in the measuring window.",
    )
    .observed(),
    quantity: &SIP_CONNECTION_DELAY,
};

static SESSION_REQUEST_DELAY: Observed = Observed {
    about: About::new(
        "session_request_delay",
        "s",
        Flow,
        "Time from sending an INVITE until the first provisional response but 100 or, without one, the 2xx \
         came, over the answered calls that ended in the measuring window (SRD of RFC 6076).",
    )
    .observed(),
    quantity: &SIP_SESSION_REQUEST_DELAY,
};

static SESSION_REQUEST_FAILED: Observed = Observed {
    about: About::new(
        "failed_session_request_delay",
        "s",
        Flow,
        "The same of refused calls, where it may be the refusal (failed SRD of RFC 6076).",
    )
    .observed(),
    quantity: &SIP_SESSION_REQUEST_FAILED_DELAY,
};

static ANSWER_SIGNAL_DELAY: Observed = Observed {
    about: About::new(
        "answer_signal_delay",
        "s",
        Flow,
        "Time from sending the 2xx of an INVITE until its ACK came, at the peers of the users, over the calls \
         that ended in the measuring window.",
    )
    .observed(),
    quantity: &SIP_ANSWER_SIGNAL_DELAY,
};

static DISCONNECT_DELAY: Observed = Observed {
    about: About::new(
        "disconnect_delay",
        "s",
        Flow,
        "Time from sending a BYE until its 2xx came (SDD of RFC 6076), over the calls that ended in the \
         measuring window.",
    )
    .observed(),
    quantity: &SIP_DISCONNECT_DELAY,
};

static SESSION_DURATION: Observed = Observed {
    about: About::new(
        "session_duration",
        "s",
        Flow,
        "Time from the 2xx of the INVITE until the BYE (SDT of RFC 6076), over the calls that ended in the \
         measuring window.",
    )
    .observed(),
    quantity: &SIP_SESSION_DURATION,
};

static REDIRECT_DELAY: Observed = Observed {
    about: About::new(
        "redirect_delay",
        "s",
        Flow,
        "Time from sending an INVITE until its 3xx came, over the calls that were to be sent elsewhere and \
         were, in the measuring window.",
    )
    .observed(),
    quantity: &SIP_REDIRECT_DELAY,
};

static TOTAL_CALL_DELAY: Observed = Observed {
    about: About::new(
        "total_call_delay",
        "s",
        Flow,
        "Time from sending an INVITE until the 2xx of its BYE came, less the time from the answer to the BYE, \
         over the calls that ended in the measuring window.",
    )
    .observed(),
    quantity: &SIP_TOTAL_CALL_DELAY,
};

static INVITE_DELAY: Observed = Observed {
    about: About::new(
        "invite_delay",
        "s",
        Flow,
        "Time from sending an INVITE until its final response came, whatever that was, over the calls that \
         ended in the measuring window.",
    )
    .observed(),
    quantity: &SIP_INVITE_DELAY,
};

static CANCEL_DELAY: Observed = Observed {
    about: About::new(
        "cancel_delay",
        "s",
        Flow,
        "Time from sending a CANCEL until the final response of its INVITE came, over the calls taken back in \
         the measuring window.",
    )
    .observed(),
    quantity: &SIP_CANCEL_DELAY,
};

static OPTIONS_DELAY: Observed = Observed {
    about: About::new(
        "options_delay",
        "s",
        Flow,
        "Time from sending an OPTIONS until its 2xx came, over those answered in the measuring window.",
    )
    .observed(),
    quantity: &SIP_OPTIONS_DELAY,
};

static MESSAGE_DELAY: Observed = Observed {
    about: About::new(
        "message_delay",
        "s",
        Flow,
        "Time from sending a MESSAGE until its 2xx came, over those answered in the measuring window.",
    )
    .observed(),
    quantity: &SIP_MESSAGE_DELAY,
};

static LOOKUP_DELAY: Observed = Observed {
    about: About::new(
        "lookup_delay",
        "s",
        Flow,
        "Time from the first question to the DNS until all its answers said where the server is (RFC 3263), over the \
         attempts that looked for it, found it and ended in the measuring window. It is in no other delay.",
    )
    .observed(),
    quantity: &SIP_LOOKUP_DELAY,
};

static PRACK_DELAY: Observed = Observed {
    about: About::new(
        "prack_delay",
        "s",
        Flow,
        "Time from sending a PRACK until its 2xx came, over the calls of `prack` that ended in the measuring window.",
    )
    .observed(),
    quantity: &SIP_PRACK_DELAY,
};

static REINVITE_DELAY: Observed = Observed {
    about: About::new(
        "reinvite_delay",
        "s",
        Flow,
        "Time from sending the INVITE that puts a call on hold until its 2xx came, over the calls that ended in the \
         measuring window.",
    )
    .observed(),
    quantity: &SIP_REINVITE_DELAY,
};

static SUBSCRIPTION_DELAY: Observed = Observed {
    about: About::new(
        "subscription_delay",
        "s",
        Flow,
        "Time from sending the first SUBSCRIBE until its 2xx came, over the subscriptions that ended in the measuring \
         window.",
    )
    .observed(),
    quantity: &SIP_SUBSCRIPTION_DELAY,
};

static NOTIFICATION_DELAY: Observed = Observed {
    about: About::new(
        "notification_delay",
        "s",
        Flow,
        "Time from sending the first SUBSCRIBE until the first NOTIFY came, over the subscriptions that ended in the \
         measuring window.",
    )
    .observed(),
    quantity: &SIP_NOTIFICATION_DELAY,
};

static FAIL_OVER_DELAY: Observed = Observed {
    about: About::new(
        "fail_over_delay",
        "s",
        Flow,
        "Time from sending a request for the first time until the first response but 100 of the server that took \
         over, over what ended in the measuring window and another server had failed to do.",
    )
    .observed(),
    quantity: &SIP_FAIL_OVER_DELAY,
};

static ATTEMPT_SUCCESS: Share = Share {
    about: About::new(
        "attempt_success",
        "1",
        Flow,
        "Share of the users' attempts that went as they should, of those that came to an end in the measuring \
         window; what is open when the run ends counts neither way.",
    )
    .share()
    .pooled(),
    part: &[&SIP_SUCCEEDED],
    whole: &[&SIP_SUCCEEDED, &SIP_FAILED],
    nothing: "no attempt came to an end",
};

static ATTEMPTS_SERVED: Share = Share {
    about: About::new(
        "attempts_served",
        "1",
        Flow,
        "Share of the users' attempts that went as they should in the measuring window, of those that were begun in \
         it: what is open when it ends was not served.",
    )
    .share()
    .pooled(),
    part: &[&SIP_SUCCEEDED],
    whole: &[&SIP_BEGUN],
    nothing: "no attempt was begun",
};

static REGISTRATION_SUCCESS: Share = Share {
    about: About::new(
        "registration_success",
        "1",
        Flow,
        "Share of registrations that succeeded, of those that came to an end in the measuring window.",
    )
    .share()
    .pooled(),
    part: &[&SIP_REGISTERED],
    whole: &[&SIP_REGISTRATIONS],
    nothing: "no registration came to an end",
};

static CALL_SUCCESS: Share = Share {
    about: About::new(
        "call_success",
        "1",
        Flow,
        "Share of calls that were answered, held and hung up as they should, of those that came to an end in \
         the measuring window.",
    )
    .share()
    .pooled(),
    part: &[&SIP_CALLS_COMPLETED],
    whole: &[&SIP_CALLS],
    nothing: "no call came to an end",
};

static REDIRECT_SUCCESS: Share = Share {
    about: About::new(
        "redirect_success",
        "1",
        Flow,
        "Share of calls that were sent elsewhere, of those that were to be and came to an end in the \
         measuring window.",
    )
    .share()
    .pooled(),
    part: &[&SIP_REDIRECTED],
    whole: &[&SIP_REDIRECTS],
    nothing: "no call came to an end",
};

static ISA: Share = Share {
    about: About::new(
        "ineffective_session_attempts",
        "1",
        Flow,
        "Share of calls that ended with 408, 500, 503 or 504, that nobody answered, or whose connection \
         broke, of those that came to an end in the measuring window (ISA of RFC 6076).",
    )
    .share()
    .pooled(),
    part: &[&SIP_SESSIONS_INEFFECTIVE],
    whole: &[&SIP_SESSIONS],
    nothing: "no call came to an end",
};

static SCR: Share = Share {
    about: About::new(
        "session_completion_ratio",
        "1",
        Flow,
        "Share of calls that were answered and whose BYE was, of those that came to an end in the measuring \
         window (SCR of RFC 6076).",
    )
    .share()
    .pooled(),
    part: &[&SIP_SESSIONS_COMPLETED],
    whole: &[&SIP_SESSIONS],
    nothing: "no call came to an end",
};

static IRA: Share = Share {
    about: About::new(
        "ineffective_registration_attempts",
        "1",
        Flow,
        "Share of registrations that were refused but for a challenge, that nobody answered, or whose \
         connection broke, of those that came to an end in the measuring window (IRA of RFC 6076).",
    )
    .share()
    .pooled(),
    part: &[&SIP_REGISTRATIONS_INEFFECTIVE],
    whole: &[&SIP_REGISTRATIONS],
    nothing: "no registration came to an end",
};

static ATTEMPTS_PER_SECOND: Rate = Rate {
    about: About::new(
        "attempts_per_second",
        "1/s",
        Flow,
        "Attempts of users that went as they should in the measuring window, per second of that part of it in \
         which the flow begins some.",
    ),
    quantity: &SIP_SUCCEEDED,
    times: 1.0,
    over: Over::Active,
};

static REGISTRATIONS_PER_SECOND: Rate = Rate {
    about: About::new(
        "registrations_per_second",
        "1/s",
        Flow,
        "Registrations that succeeded in the measuring window, per second of that part of it in which the \
         flow begins some.",
    ),
    quantity: &SIP_REGISTERED,
    times: 1.0,
    over: Over::Active,
};

static CALLS_PER_SECOND: Rate = Rate {
    about: About::new(
        "calls_per_second",
        "1/s",
        Flow,
        "Calls that were answered, held and hung up in the measuring window, per second of that part of it in \
         which the flow begins some.",
    ),
    quantity: &SIP_CALLS_COMPLETED,
    times: 1.0,
    over: Over::Active,
};

static REDIRECTS_PER_SECOND: Rate = Rate {
    about: About::new(
        "redirects_per_second",
        "1/s",
        Flow,
        "Calls that were sent elsewhere in the measuring window, per second of that part of it in which the \
         flow begins some.",
    ),
    quantity: &SIP_REDIRECTED,
    times: 1.0,
    over: Over::Active,
};

static OFFERED: Rate = Rate {
    about: About::new(
        "offered_attempts_per_second",
        "1/s",
        Flow,
        "Attempts of users that were begun in the measuring window, per second of that part of it in which \
         the flow begins some.",
    ),
    quantity: &SIP_BEGUN,
    times: 1.0,
    over: Over::Active,
};

static BUSY_HOUR: Rate = Rate {
    about: About::new(
        "busy_hour_attempts",
        "1",
        Flow,
        "Attempts of users that went as they should, in an hour of the part of the measuring window in which \
         the flow begins some (BHCA).",
    ),
    quantity: &SIP_SUCCEEDED,
    times: 3600.0,
    over: Over::Active,
};

static ATTEMPTS: Total = Total {
    about: About::new(
        "attempts_begun",
        "1",
        Flow,
        "Attempts of users that were begun in the measuring window.",
    ),
    quantity: &SIP_BEGUN,
};

static FAILURES: Total = Total {
    about: About::new(
        "attempts_failed",
        "1",
        Flow,
        "Attempts of users that came to an end in the measuring window, and not as they should.",
    ),
    quantity: &SIP_FAILED,
};

static UNLOCATED: Total = Total {
    about: About::new(
        "attempts_unlocated",
        "1",
        Flow,
        "Attempts of users that found no server in the DNS in the measuring window: they count neither as failed nor as \
         having gone as they should, for no server was asked.",
    ),
    quantity: &SIP_UNLOCATED,
};

static REORDERED: Total = Total {
    about: About::new(
        "responses_reordered",
        "1",
        Flow,
        "Provisional responses that came behind those sent after them, in what came to an end in the \
         measuring window: tolerated.",
    ),
    quantity: &SIP_REORDERED,
};

/// Established sessions as a share of all but the redirected ones.
struct Establishment {
    about: About,
    /// Quantities that count as established, too.
    also: &'static [&'static Quantity],
}

static ESTABLISHMENT: Establishment = Establishment {
        about: About::new(
            "session_establishment_ratio",
            "1",
            Flow,
            "Share of calls that were answered with 2xx, of those that came to an end in the measuring window and were not \
             sent elsewhere (SER of RFC 6076).",
        )
        .share()
        .pooled(),
        also: &[],
    };

static EFFECTIVENESS: Establishment = Establishment {
        about: About::new(
            "session_establishment_effectiveness_ratio",
            "1",
            Flow,
            "The same, where calls that the user refused with 480, 486, 600 or 603 count as established, too (SEER of RFC 6076).",
        )
        .share()
        .pooled(),
        also: &[&SIP_SESSIONS_REFUSED],
    };

impl Metric for Establishment {
    fn about(&self) -> &About {
        &self.about
    }

    fn needs(&self, _: Statistic) -> Vec<Need> {
        let all = [&SIP_SESSIONS, &SIP_SESSIONS_ESTABLISHED, &SIP_SESSIONS_REDIRECTED];
        all.into_iter().chain(self.also.iter().copied()).map(Need::Total).collect()
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        let all = view.total(&SIP_SESSIONS) - view.total(&SIP_SESSIONS_REDIRECTED);
        let also: f64 = self.also.iter().map(|quantity| view.total(quantity)).sum();
        if all > 0.0 {
            return ((view.total(&SIP_SESSIONS_ESTABLISHED) + also) / all).into();
        }
        MeasuredValue::not("no call came to an end that was not sent elsewhere")
    }
}

/// Retransmissions of an attempt's requests.
struct RetransmissionsPerAttempt;

static AGAIN: About = About::new(
    "retransmissions_per_attempt",
    "1",
    Flow,
    "Requests that users retransmitted because no answer arrived in time, for each attempt that ended in the measuring \
     window.",
)
.pooled();

impl Metric for RetransmissionsPerAttempt {
    fn about(&self) -> &About {
        &AGAIN
    }

    fn needs(&self, _: Statistic) -> Vec<Need> {
        [&SIP_REQUESTS_AGAIN, &SIP_SUCCEEDED, &SIP_FAILED].map(Need::Total).to_vec()
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        let ended = view.total(&SIP_SUCCEEDED) + view.total(&SIP_FAILED);
        if ended > 0.0 {
            return (view.total(&SIP_REQUESTS_AGAIN) / ended).into();
        }
        MeasuredValue::not("no attempt came to an end")
    }
}

static RESPONSE_TIME_1: Observed = Observed {
    about: About::new(
        "response_time_1",
        "s",
        Flow,
        "The first response time that the flow's own scenario measures (SIPp's rtd), in the order in which the scenario names \
         them, over those that came to an end in the measuring window.",
    )
    .observed(),
    quantity: &SIP_RESPONSE_TIME_1,
};

static RESPONSE_TIME_2: Observed = Observed {
    about: About::new(
        "response_time_2",
        "s",
        Flow,
        "The second response time that the flow's own scenario measures (SIPp's rtd), in the order in which the scenario names \
         them, over those that came to an end in the measuring window.",
    )
    .observed(),
    quantity: &SIP_RESPONSE_TIME_2,
};

static RESPONSE_TIME_3: Observed = Observed {
    about: About::new(
        "response_time_3",
        "s",
        Flow,
        "The third response time that the flow's own scenario measures (SIPp's rtd), in the order in which the scenario names \
         them, over those that came to an end in the measuring window.",
    )
    .observed(),
    quantity: &SIP_RESPONSE_TIME_3,
};

static SCENARIO_TIME: Observed = Observed {
    about: About::new(
        "scenario_time",
        "s",
        Flow,
        "Time from the first step of a call of the flow's own scenario to its last, over the calls that came to an end as they \
         should in the measuring window.",
    )
    .observed(),
    quantity: &SIP_SCENARIO_TIME,
};

/// A counter of the test of the server's rules, which runs before the load; independent of the measuring
/// window.
struct TestPurposes {
    about: About,
    quantity: &'static Quantity,
}

static CONFORMANCE_RUN: TestPurposes = TestPurposes {
    about: About::new(
        "conformance_run",
        "1",
        Flow,
        "Test purposes of basic calls or registrations that the server of the flow was tested with before the first user began.",
    ),
    quantity: &SIP_CONFORMANCE_RUN,
};

static CONFORMANCE_FAILED: TestPurposes = TestPurposes {
    about: About::new(
        "conformance_failed",
        "1",
        Flow,
        "Those of them that the server failed. Above 0, the flow's figures are those of a server that breaks rules.",
    ),
    quantity: &SIP_CONFORMANCE_FAILED,
};

impl Metric for TestPurposes {
    fn about(&self) -> &About {
        &self.about
    }

    fn needs(&self, _: Statistic) -> Vec<Need> {
        vec![Need::Marks(self.quantity)]
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        match view.marks(self.quantity) {
            [] => MeasuredValue::not("the server was not tested: the flow does not say `conform = true`"),
            marks => marks.iter().map(|mark| mark.value).sum::<f64>().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::bench::{Bench, flow};

    fn of(bench: &mut Bench, metric: &str) -> Result<f64, String> {
        bench.measure(&format!("of = 'flow.web'\nmetric = '{metric}'"))
    }

    /// Of ten calls two were redirected, four answered, one was refused by the user: 4/8 and 5/8.
    #[test]
    fn ratios_of_calls() {
        let mut bench = Bench::new(10);
        assert!(of(&mut bench, "session_establishment_ratio").is_err());
        bench.count(flow(), &SIP_SESSIONS, &[(1.0, 6.0), (2.0, 4.0)]);
        bench.count(flow(), &SIP_SESSIONS_ESTABLISHED, &[(1.0, 4.0)]);
        bench.count(flow(), &SIP_SESSIONS_REDIRECTED, &[(1.0, 2.0)]);
        bench.count(flow(), &SIP_SESSIONS_REFUSED, &[(2.0, 1.0)]);
        bench.count(flow(), &SIP_SESSIONS_INEFFECTIVE, &[(2.0, 3.0)]);
        bench.count(flow(), &SIP_SESSIONS_COMPLETED, &[(2.0, 3.0)]);
        assert_eq!(of(&mut bench, "session_establishment_ratio"), Ok(0.5));
        assert_eq!(of(&mut bench, "session_establishment_effectiveness_ratio"), Ok(0.625));
        assert_eq!(of(&mut bench, "ineffective_session_attempts"), Ok(0.3));
        assert_eq!(of(&mut bench, "session_completion_ratio"), Ok(0.3));
    }

    /// Twelve calls in the six seconds before the flow's `stop`, although the run lasts ten: two per second,
    /// 7200 in an hour.
    #[test]
    fn rates_are_of_the_time_in_which_some_begin() {
        let mut bench = Bench::new(10);
        bench.layout.flows[0].stop = netrig_core::Instant::from_nanos(6_000_000_000);
        bench.count(flow(), &SIP_BEGUN, &[(1.0, 18.0)]);
        bench.count(flow(), &SIP_SUCCEEDED, &[(1.0, 8.0), (7.0, 4.0)]);
        bench.count(flow(), &SIP_FAILED, &[(9.0, 4.0)]);
        bench.count(flow(), &SIP_REQUESTS_AGAIN, &[(9.0, 40.0)]);
        assert_eq!(of(&mut bench, "attempts_per_second"), Ok(2.0));
        assert_eq!(of(&mut bench, "busy_hour_attempts"), Ok(7200.0));
        assert_eq!(of(&mut bench, "offered_attempts_per_second"), Ok(3.0));
        assert_eq!(of(&mut bench, "attempt_success"), Ok(0.75));
        assert_eq!(of(&mut bench, "attempts_served"), Ok(12.0 / 18.0));
        assert_eq!(of(&mut bench, "retransmissions_per_attempt"), Ok(2.5));
        assert_eq!(of(&mut bench, "attempts_failed"), Ok(4.0));
    }

    /// The test happens before the flow starts, but it counts.
    #[test]
    fn a_server_that_was_tested_before_its_load_has_counts() {
        let mut bench = Bench::new(10);
        let failed = "conformance_failed";
        assert!(of(&mut bench, failed).is_err_and(|why| why.contains("was not tested")));
        bench.layout.flows[0].start = netrig_core::Instant::from_nanos(3_000_000_000);
        bench.count(flow(), &SIP_CONFORMANCE_RUN, &[(1.0, 29.0)]);
        bench.count(flow(), &SIP_CONFORMANCE_FAILED, &[(1.0, 0.0)]);
        assert_eq!((of(&mut bench, "conformance_run"), of(&mut bench, failed)), (Ok(29.0), Ok(0.0)));
    }
}
