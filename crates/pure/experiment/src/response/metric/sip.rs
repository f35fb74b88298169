//! Metrics of SIP users: those of a server under load, and those of RFC 6076.

use std::sync::LazyLock;

use netrig_core::Quantity;
use netrig_sip::index::quantity::{
    SIP_BEGUN, SIP_CALLS, SIP_CALLS_COMPLETED, SIP_CONFORMANCE_FAILED, SIP_CONFORMANCE_RUN, SIP_FAILED,
    SIP_REDIRECTED, SIP_REDIRECTS, SIP_REGISTERED, SIP_REGISTRATIONS, SIP_REORDERED, SIP_REQUESTS_AGAIN,
    SIP_RESPONSE_TIME_1, SIP_RESPONSE_TIME_2, SIP_RESPONSE_TIME_3, SIP_SCENARIO_TIME, SIP_SUCCEEDED,
    SIP_UNLOCATED,
};
use netrig_sip::index::{Delay, IndexMetric, RATIOS};

use super::{About, MeasuredValue, Metric, Need, SubjectKind, View, metrics};

/// The metrics of the tables of delays and of ratios.
pub(super) static INDICES: LazyLock<Vec<Metric>> = LazyLock::new(|| {
    let about =
        |IndexMetric { name, definition }, unit| About::new(name, unit, SubjectKind::Flow, definition);
    let delays = Delay::ALL.into_iter().filter_map(|delay| {
        let quantity = delay.quantity();
        Some(about(delay.metric()?, quantity.unit).observations(quantity))
    });
    delays
        .chain(RATIOS.iter().map(|ratio| about(ratio.metric, "1").share().pooled().counted(ratio.counts)))
        .collect()
});

metrics! {
    of Flow;
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
        .quotient(&[&SIP_REQUESTS_AGAIN], &[&SIP_SUCCEEDED, &SIP_FAILED], "no attempt ended"):
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
    use netrig_sip::index::quantity::{
        SIP_SESSIONS, SIP_SESSIONS_COMPLETED, SIP_SESSIONS_ESTABLISHED, SIP_SESSIONS_INEFFECTIVE,
        SIP_SESSIONS_REDIRECTED, SIP_SESSIONS_REFUSED,
    };

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
