//! Metrics of SIP users: those of a server under load, and those of RFC 6076.

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

use super::{MeasuredValue, Need, View, metrics, ratio};

metrics! {
    of Flow;
    "registration_delay" ["s"].observations(&SIP_REGISTRATION_DELAY):
        "Time from sending the first REGISTER until its 2xx arrived, challenges and retransmissions \
         included (RRD of RFC 6076), over the registrations that succeeded in the measuring window.";
    "unregistration_delay" ["s"].observations(&SIP_UNREGISTRATION_DELAY):
        "Time from sending the first REGISTER that removes a registration until its 2xx arrived, \
         challenges and retransmissions included, over the removals that succeeded in the measuring \
         window.";
    "connection_delay" ["s"].observations(&SIP_CONNECTION_DELAY):
        "Time from sending an INVITE until the first provisional response except 100 arrived, over the \
         calls that succeeded and ended in the measuring window.";
    "session_request_delay" ["s"].observations(&SIP_SESSION_REQUEST_DELAY):
        "Time from sending an INVITE until the first provisional response except 100 arrived or, without \
         one, the 2xx, over the answered calls that ended in the measuring window (SRD of RFC 6076).";
    "failed_session_request_delay" ["s"].observations(&SIP_SESSION_REQUEST_FAILED_DELAY):
        "Time from sending an INVITE until the first provisional response except 100 arrived or, without \
         one, the refusal, over the refused calls that ended in the measuring window (failed SRD of RFC \
         6076).";
    "answer_signal_delay" ["s"].observations(&SIP_ANSWER_SIGNAL_DELAY):
        "Time from sending the 2xx of an INVITE until its ACK arrived, at the peers of the users, over \
         the calls that ended in the measuring window.";
    "disconnect_delay" ["s"].observations(&SIP_DISCONNECT_DELAY):
        "Time from sending a BYE until its 2xx arrived (SDD of RFC 6076), over the calls that ended in \
         the measuring window.";
    "session_duration" ["s"].observations(&SIP_SESSION_DURATION):
        "Time from the 2xx of the INVITE until the BYE (SDT of RFC 6076), over the calls that ended in the \
         measuring window.";
    "redirect_delay" ["s"].observations(&SIP_REDIRECT_DELAY):
        "Time from sending an INVITE until its 3xx arrived, over the calls that should be redirected and \
         were, in the measuring window.";
    "total_call_delay" ["s"].observations(&SIP_TOTAL_CALL_DELAY):
        "Time from sending an INVITE until the 2xx of its BYE arrived, less the time from the answer to \
         the BYE, over the calls that ended in the measuring window.";
    "invite_delay" ["s"].observations(&SIP_INVITE_DELAY):
        "Time from sending an INVITE until its final response of any class arrived, over the calls that \
         ended in the measuring window.";
    "cancel_delay" ["s"].observations(&SIP_CANCEL_DELAY):
        "Time from sending a CANCEL until the final response of its INVITE arrived, over the calls that \
         were cancelled in the measuring window.";
    "options_delay" ["s"].observations(&SIP_OPTIONS_DELAY):
        "Time from sending an OPTIONS until its 2xx arrived, over those answered in the measuring window.";
    "message_delay" ["s"].observations(&SIP_MESSAGE_DELAY):
        "Time from sending a MESSAGE until its 2xx arrived, over those answered in the measuring window.";
    "lookup_delay" ["s"].observations(&SIP_LOOKUP_DELAY):
        "Time from the first DNS query until the last response that the location of the server needs (RFC \
         3263), over the attempts with a successful lookup that ended in the measuring window. No other \
         delay includes it.";
    "prack_delay" ["s"].observations(&SIP_PRACK_DELAY):
        "Time from sending a PRACK until its 2xx arrived, over the calls of `prack` that ended in the \
         measuring window.";
    "reinvite_delay" ["s"].observations(&SIP_REINVITE_DELAY):
        "Time from sending the INVITE that puts a call on hold until its 2xx arrived, over the calls that \
         ended in the measuring window.";
    "subscription_delay" ["s"].observations(&SIP_SUBSCRIPTION_DELAY):
        "Time from sending the first SUBSCRIBE until its 2xx arrived, over the subscriptions that ended \
         in the measuring window.";
    "notification_delay" ["s"].observations(&SIP_NOTIFICATION_DELAY):
        "Time from sending the first SUBSCRIBE until the first NOTIFY arrived, over the subscriptions \
         that ended in the measuring window.";
    "fail_over_delay" ["s"].observations(&SIP_FAIL_OVER_DELAY):
        "Time from first sending a request until the first response except 100 of the server that took \
         over, over the attempts that ended in the measuring window and for which another server had \
         failed.";
    "attempt_success" ["1"]
        .share_of(&[&SIP_SUCCEEDED], &[&SIP_SUCCEEDED, &SIP_FAILED], "no attempt ended"):
        "Share of the users' attempts that succeeded, of those that ended in the measuring window. An \
         attempt that is open when the run ends is not counted.";
    "attempts_served" ["1"].share_of(&[&SIP_SUCCEEDED], &[&SIP_BEGUN], "no attempt was started"):
        "Attempts of users that succeeded in the measuring window, divided by those that were started in \
         it. An attempt that is open when the window ends was not served.";
    "registration_success" ["1"]
        .share_of(&[&SIP_REGISTERED], &[&SIP_REGISTRATIONS], "no registration ended"):
        "Share of registrations that succeeded, of those that ended in the measuring window.";
    "call_success" ["1"].share_of(&[&SIP_CALLS_COMPLETED], &[&SIP_CALLS], "no call ended"):
        "Share of calls that were answered, held and ended by BYE, of those that should be and ended in \
         the measuring window.";
    "redirect_success" ["1"].share_of(&[&SIP_REDIRECTED], &[&SIP_REDIRECTS], "no call ended"):
        "Share of calls that were redirected, of those that should be and ended in the measuring window.";
    "ineffective_session_attempts" ["1"]
        .share_of(&[&SIP_SESSIONS_INEFFECTIVE], &[&SIP_SESSIONS], "no call ended"):
        "Share of calls that ended with 408, 500, 503 or 504, without a response, or because their \
         connection broke, of those that ended in the measuring window (ISA of RFC 6076).";
    "session_completion_ratio" ["1"]
        .share_of(&[&SIP_SESSIONS_COMPLETED], &[&SIP_SESSIONS], "no call ended"):
        "Share of calls that were answered and whose BYE was answered, of those that ended in the \
         measuring window (SCR of RFC 6076).";
    "ineffective_registration_attempts" ["1"]
        .share_of(&[&SIP_REGISTRATIONS_INEFFECTIVE], &[&SIP_REGISTRATIONS], "no registration ended"):
        "Share of registrations that were refused (a challenge is no refusal), had no response, or lost \
         their connection, of those that ended in the measuring window (IRA of RFC 6076).";
    "session_establishment_ratio" ["1"].share().pooled()
        .computed(|_| sessions(&[]), |view| establishment(view, &[])):
        "Share of calls that were answered with 2xx, of those that ended in the measuring window and were \
         not redirected (SER of RFC 6076).";
    "session_establishment_effectiveness_ratio" ["1"].share().pooled()
        .computed(|_| sessions(&[&SIP_SESSIONS_REFUSED]), |view| establishment(view, &[&SIP_SESSIONS_REFUSED])):
        "Share of calls that were answered with 2xx, or that the callee refused with 480, 486, 600 or \
         603, of those that ended in the measuring window and were not redirected (SEER of RFC 6076).";
    "attempts_per_second" ["1/s"].active_rate(&SIP_SUCCEEDED, 1.0):
        "Attempts of users that succeeded in the measuring window, per second of the part of it in which \
         the flow starts attempts.";
    "registrations_per_second" ["1/s"].active_rate(&SIP_REGISTERED, 1.0):
        "Registrations that succeeded in the measuring window, per second of the part of it in which the \
         flow starts attempts.";
    "calls_per_second" ["1/s"].active_rate(&SIP_CALLS_COMPLETED, 1.0):
        "Calls that were answered, held and ended by BYE in the measuring window, per second of the part \
         of it in which the flow starts attempts.";
    "redirects_per_second" ["1/s"].active_rate(&SIP_REDIRECTED, 1.0):
        "Calls that were redirected in the measuring window, per second of the part of it in which the \
         flow starts attempts.";
    "offered_attempts_per_second" ["1/s"].active_rate(&SIP_BEGUN, 1.0):
        "Attempts of users that were started in the measuring window, per second of the part of it in \
         which the flow starts attempts.";
    "busy_hour_attempts" ["1"].active_rate(&SIP_SUCCEEDED, 3600.0):
        "Attempts of users that succeeded, per hour of the part of the measuring window in which the flow \
         starts attempts (BHCA).";
    "attempts_begun" ["1"].total(&SIP_BEGUN):
        "Attempts of users that were started in the measuring window.";
    "attempts_failed" ["1"].total(&SIP_FAILED):
        "Attempts of users that ended in the measuring window and failed.";
    "attempts_unlocated" ["1"].total(&SIP_UNLOCATED):
        "Attempts of users that found no server in the DNS in the measuring window. They count neither as \
         failed nor as successful, because no server got a request.";
    "responses_reordered" ["1"].total(&SIP_REORDERED):
        "Provisional responses that arrived after responses sent later, in the attempts that ended in the \
         measuring window. They are no failure.";
    "retransmissions_per_attempt" ["1"].pooled()
        .computed(
            |_| [&SIP_REQUESTS_AGAIN, &SIP_SUCCEEDED, &SIP_FAILED].map(Need::Total).to_vec(),
            retransmissions_per_attempt,
        ):
        "Requests that users retransmitted because no response arrived in time, for each attempt that \
         ended in the measuring window.";
    "response_time_1" ["s"].observations(&SIP_RESPONSE_TIME_1):
        "The first response time that the flow's own scenario measures (SIPp's rtd), in the order in \
         which the scenario names them, over the times that ended in the measuring window.";
    "response_time_2" ["s"].observations(&SIP_RESPONSE_TIME_2):
        "The second response time that the flow's own scenario measures (SIPp's rtd), in the order in \
         which the scenario names them, over the times that ended in the measuring window.";
    "response_time_3" ["s"].observations(&SIP_RESPONSE_TIME_3):
        "The third response time that the flow's own scenario measures (SIPp's rtd), in the order in \
         which the scenario names them, over the times that ended in the measuring window.";
    "scenario_time" ["s"].observations(&SIP_SCENARIO_TIME):
        "Time from the first step of a call of the flow's own scenario to its last, over the calls that \
         succeeded and ended in the measuring window.";
    "conformance_run" ["1"]
        .computed(|_| vec![Need::Marks(&SIP_CONFORMANCE_RUN)], |view| test_purposes(view, &SIP_CONFORMANCE_RUN)):
        "Test purposes of basic calls or registrations that were run against the server of the flow \
         before the first user started.";
    "conformance_failed" ["1"]
        .computed(|_| vec![Need::Marks(&SIP_CONFORMANCE_FAILED)], |view| test_purposes(view, &SIP_CONFORMANCE_FAILED)):
        "Test purposes of `conformance_run` that the server failed. Above 0, the flow's figures are those \
         of a server that breaks rules.";
}

/// The quantities that [`establishment`] needs.
fn sessions(also: &[&'static Quantity]) -> Vec<Need> {
    let all = [&SIP_SESSIONS, &SIP_SESSIONS_ESTABLISHED, &SIP_SESSIONS_REDIRECTED];
    all.into_iter().chain(also.iter().copied()).map(Need::Total).collect()
}

/// Established sessions as a share of all sessions that were not redirected. The counts in `also` count as established.
fn establishment(view: &View<'_>, also: &[&'static Quantity]) -> MeasuredValue {
    let all = view.total(&SIP_SESSIONS) - view.total(&SIP_SESSIONS_REDIRECTED);
    let also: f64 = also.iter().map(|quantity| view.total(quantity)).sum();
    ratio(view.total(&SIP_SESSIONS_ESTABLISHED) + also, all, "no call ended without a redirection")
}

/// Retransmissions of requests per attempt that ended.
fn retransmissions_per_attempt(view: &View<'_>) -> MeasuredValue {
    let ended = view.total(&SIP_SUCCEEDED) + view.total(&SIP_FAILED);
    ratio(view.total(&SIP_REQUESTS_AGAIN), ended, "no attempt ended")
}

/// A count of the conformance test of the server. The test runs before the load, so the count does not depend on the
/// measuring window.
fn test_purposes(view: &View<'_>, quantity: &'static Quantity) -> MeasuredValue {
    match view.marks(quantity) {
        [] => MeasuredValue::not("the server was not tested: the flow does not say `conform = true`"),
        marks => marks.iter().map(|mark| mark.value).sum::<f64>().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::bench::{Bench, flow};

    fn of(bench: &mut Bench, metric: &str) -> Result<f64, String> {
        bench.measure(&format!("of = 'flow.web'\nmetric = '{metric}'"))
    }

    /// Of ten calls, two were redirected, four were answered, and one was refused by the callee: 4/8 and 5/8.
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

    /// Twelve calls succeed. The flow starts calls only in the six seconds before its `stop`, although the run lasts
    /// ten seconds. So the rate is two per second, or 7200 in an hour.
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

    /// The test is before the start of the flow, but its counts are reported.
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
