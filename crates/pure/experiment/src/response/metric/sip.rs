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

use super::{About, MeasuredValue, Metric, Need, Statistic, View, metrics};

metrics! {
    of Flow;
    "registration_delay" ["s"].observations(&SIP_REGISTRATION_DELAY):
        "Time from sending the first REGISTER until its 2xx came, challenges and retransmissions included \
         (RRD of RFC 6076), over the registrations that succeeded in the measuring window.";
    "unregistration_delay" ["s"].observations(&SIP_UNREGISTRATION_DELAY):
        "The same of registrations that were taken back.";
    "connection_delay" ["s"].observations(&SIP_CONNECTION_DELAY):
        "Time from sending an INVITE until the first provisional response but 100 came, over the calls \
         that went as they should and ended in the measuring window.";
    "session_request_delay" ["s"].observations(&SIP_SESSION_REQUEST_DELAY):
        "Time from sending an INVITE until the first provisional response but 100 or, without one, the 2xx \
         came, over the answered calls that ended in the measuring window (SRD of RFC 6076).";
    "failed_session_request_delay" ["s"].observations(&SIP_SESSION_REQUEST_FAILED_DELAY):
        "The same of refused calls, where it may be the refusal (failed SRD of RFC 6076).";
    "answer_signal_delay" ["s"].observations(&SIP_ANSWER_SIGNAL_DELAY):
        "Time from sending the 2xx of an INVITE until its ACK came, at the peers of the users, over the \
         calls that ended in the measuring window.";
    "disconnect_delay" ["s"].observations(&SIP_DISCONNECT_DELAY):
        "Time from sending a BYE until its 2xx came (SDD of RFC 6076), over the calls that ended in the \
         measuring window.";
    "session_duration" ["s"].observations(&SIP_SESSION_DURATION):
        "Time from the 2xx of the INVITE until the BYE (SDT of RFC 6076), over the calls that ended in the \
         measuring window.";
    "redirect_delay" ["s"].observations(&SIP_REDIRECT_DELAY):
        "Time from sending an INVITE until its 3xx came, over the calls that were to be sent elsewhere and \
         were, in the measuring window.";
    "total_call_delay" ["s"].observations(&SIP_TOTAL_CALL_DELAY):
        "Time from sending an INVITE until the 2xx of its BYE came, less the time from the answer to the \
         BYE, over the calls that ended in the measuring window.";
    "invite_delay" ["s"].observations(&SIP_INVITE_DELAY):
        "Time from sending an INVITE until its final response came, whatever that was, over the calls that \
         ended in the measuring window.";
    "cancel_delay" ["s"].observations(&SIP_CANCEL_DELAY):
        "Time from sending a CANCEL until the final response of its INVITE came, over the calls taken back \
         in the measuring window.";
    "options_delay" ["s"].observations(&SIP_OPTIONS_DELAY):
        "Time from sending an OPTIONS until its 2xx came, over those answered in the measuring window.";
    "message_delay" ["s"].observations(&SIP_MESSAGE_DELAY):
        "Time from sending a MESSAGE until its 2xx came, over those answered in the measuring window.";
    "lookup_delay" ["s"].observations(&SIP_LOOKUP_DELAY):
        "Time from the first question to the DNS until all its answers said where the server is (RFC \
         3263), over the attempts that looked for it, found it and ended in the measuring window. It is in \
         no other delay.";
    "prack_delay" ["s"].observations(&SIP_PRACK_DELAY):
        "Time from sending a PRACK until its 2xx came, over the calls of `prack` that ended in the \
         measuring window.";
    "reinvite_delay" ["s"].observations(&SIP_REINVITE_DELAY):
        "Time from sending the INVITE that puts a call on hold until its 2xx came, over the calls that \
         ended in the measuring window.";
    "subscription_delay" ["s"].observations(&SIP_SUBSCRIPTION_DELAY):
        "Time from sending the first SUBSCRIBE until its 2xx came, over the subscriptions that ended in \
         the measuring window.";
    "notification_delay" ["s"].observations(&SIP_NOTIFICATION_DELAY):
        "Time from sending the first SUBSCRIBE until the first NOTIFY came, over the subscriptions that \
         ended in the measuring window.";
    "fail_over_delay" ["s"].observations(&SIP_FAIL_OVER_DELAY):
        "Time from sending a request for the first time until the first response but 100 of the server \
         that took over, over what ended in the measuring window and another server had failed to do.";
    "attempt_success" ["1"]
        .share_of(&[&SIP_SUCCEEDED], &[&SIP_SUCCEEDED, &SIP_FAILED], "no attempt came to an end"):
        "Share of the users' attempts that went as they should, of those that came to an end in the \
         measuring window; what is open when the run ends counts neither way.";
    "attempts_served" ["1"].share_of(&[&SIP_SUCCEEDED], &[&SIP_BEGUN], "no attempt was begun"):
        "Share of the users' attempts that went as they should in the measuring window, of those that were \
         begun in it: what is open when it ends was not served.";
    "registration_success" ["1"]
        .share_of(&[&SIP_REGISTERED], &[&SIP_REGISTRATIONS], "no registration came to an end"):
        "Share of registrations that succeeded, of those that came to an end in the measuring window.";
    "call_success" ["1"].share_of(&[&SIP_CALLS_COMPLETED], &[&SIP_CALLS], "no call came to an end"):
        "Share of calls that were answered, held and hung up as they should, of those that came to an end \
         in the measuring window.";
    "redirect_success" ["1"].share_of(&[&SIP_REDIRECTED], &[&SIP_REDIRECTS], "no call came to an end"):
        "Share of calls that were sent elsewhere, of those that were to be and came to an end in the \
         measuring window.";
    "ineffective_session_attempts" ["1"]
        .share_of(&[&SIP_SESSIONS_INEFFECTIVE], &[&SIP_SESSIONS], "no call came to an end"):
        "Share of calls that ended with 408, 500, 503 or 504, without a response, or because their connection \
         broke, of those that came to an end in the measuring window (ISA of RFC 6076).";
    "session_completion_ratio" ["1"]
        .share_of(&[&SIP_SESSIONS_COMPLETED], &[&SIP_SESSIONS], "no call came to an end"):
        "Share of calls that were answered and whose BYE was, of those that came to an end in the \
         measuring window (SCR of RFC 6076).";
    "ineffective_registration_attempts" ["1"]
        .share_of(&[&SIP_REGISTRATIONS_INEFFECTIVE], &[&SIP_REGISTRATIONS], "no registration came to an end"):
        "Share of registrations that were refused other than by a challenge, had no response, or whose \
         connection broke, of those that came to an end in the measuring window (IRA of RFC 6076).";
    "session_establishment_ratio" ["1"].share().pooled().establishment(&[]):
        "Share of calls that were answered with 2xx, of those that came to an end in the measuring window \
         and were not sent elsewhere (SER of RFC 6076).";
    "session_establishment_effectiveness_ratio" ["1"].share().pooled()
        .establishment(&[&SIP_SESSIONS_REFUSED]):
        "The same, where calls that the user refused with 480, 486, 600 or 603 count as established, too \
         (SEER of RFC 6076).";
    "attempts_per_second" ["1/s"].active_rate(&SIP_SUCCEEDED, 1.0):
        "Attempts of users that went as they should in the measuring window, per second of that part of it \
         in which the flow begins some.";
    "registrations_per_second" ["1/s"].active_rate(&SIP_REGISTERED, 1.0):
        "Registrations that succeeded in the measuring window, per second of that part of it in which the \
         flow begins some.";
    "calls_per_second" ["1/s"].active_rate(&SIP_CALLS_COMPLETED, 1.0):
        "Calls that were answered, held and hung up in the measuring window, per second of that part of it \
         in which the flow begins some.";
    "redirects_per_second" ["1/s"].active_rate(&SIP_REDIRECTED, 1.0):
        "Calls that were sent elsewhere in the measuring window, per second of that part of it in which \
         the flow begins some.";
    "offered_attempts_per_second" ["1/s"].active_rate(&SIP_BEGUN, 1.0):
        "Attempts of users that were begun in the measuring window, per second of that part of it in which \
         the flow begins some.";
    "busy_hour_attempts" ["1"].active_rate(&SIP_SUCCEEDED, 3600.0):
        "Attempts of users that went as they should, in an hour of the part of the measuring window in \
         which the flow begins some (BHCA).";
    "attempts_begun" ["1"].total(&SIP_BEGUN):
        "Attempts of users that were begun in the measuring window.";
    "attempts_failed" ["1"].total(&SIP_FAILED):
        "Attempts of users that came to an end in the measuring window, and not as they should.";
    "attempts_unlocated" ["1"].total(&SIP_UNLOCATED):
        "Attempts of users that found no server in the DNS in the measuring window: they count neither as \
         failed nor as having gone as they should, for no server was asked.";
    "responses_reordered" ["1"].total(&SIP_REORDERED):
        "Provisional responses that came behind those sent after them, in what came to an end in the \
         measuring window: tolerated.";
    "retransmissions_per_attempt" ["1"].pooled()
        .computed(
            |_| [&SIP_REQUESTS_AGAIN, &SIP_SUCCEEDED, &SIP_FAILED].map(Need::Total).to_vec(),
            retransmissions_per_attempt,
        ):
        "Requests that users retransmitted because no answer arrived in time, for each attempt that ended \
         in the measuring window.";
    "response_time_1" ["s"].observations(&SIP_RESPONSE_TIME_1):
        "The first response time that the flow's own scenario measures (SIPp's rtd), in the order in which \
         the scenario names them, over those that came to an end in the measuring window.";
    "response_time_2" ["s"].observations(&SIP_RESPONSE_TIME_2):
        "The second response time that the flow's own scenario measures (SIPp's rtd), in the order in \
         which the scenario names them, over those that came to an end in the measuring window.";
    "response_time_3" ["s"].observations(&SIP_RESPONSE_TIME_3):
        "The third response time that the flow's own scenario measures (SIPp's rtd), in the order in which \
         the scenario names them, over those that came to an end in the measuring window.";
    "scenario_time" ["s"].observations(&SIP_SCENARIO_TIME):
        "Time from the first step of a call of the flow's own scenario to its last, over the calls that \
         came to an end as they should in the measuring window.";
    "conformance_run" ["1"].test_purposes(&SIP_CONFORMANCE_RUN):
        "Test purposes of basic calls or registrations that the server of the flow was tested with before \
         the first user began.";
    "conformance_failed" ["1"].test_purposes(&SIP_CONFORMANCE_FAILED):
        "Those of them that the server failed. Above 0, the flow's figures are those of a server that \
         breaks rules.";
}

/// Established sessions as a share of all but the redirected ones.
struct Establishment {
    about: About,
    /// Quantities that count as established, too.
    also: &'static [&'static Quantity],
}

impl About {
    const fn establishment(self, also: &'static [&'static Quantity]) -> Establishment {
        Establishment { about: self, also }
    }

    const fn test_purposes(self, quantity: &'static Quantity) -> TestPurposes {
        TestPurposes { about: self, quantity }
    }
}

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
fn retransmissions_per_attempt(view: &View<'_>) -> MeasuredValue {
    let ended = view.total(&SIP_SUCCEEDED) + view.total(&SIP_FAILED);
    if ended > 0.0 {
        return (view.total(&SIP_REQUESTS_AGAIN) / ended).into();
    }
    MeasuredValue::not("no attempt came to an end")
}

/// A counter of the test of the server's rules, which runs before the load; independent of the measuring
/// window.
struct TestPurposes {
    about: About,
    quantity: &'static Quantity,
}

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
