//! Metrics with many observations per run: objects, requests, datagrams.

use netrig_core::quantity::{
    DATAGRAMS_RECEIVED, DATAGRAMS_SENT, OBJECT_TIME, ONE_WAY_DELAY, PINGS, PINGS_ANSWERED, RESPONSE_TIME,
    ROUND_TRIP_TIME,
};

use super::{MeasuredValue, Need, View, metrics};

metrics! {
    of Flow;
    "object_time" ["s"].observations(&OBJECT_TIME):
        "Time from the moment at which the application wanted to send an object until its last byte was \
         delivered, over the objects that were complete in the measuring window. For a `file` it begins \
         when the connection is established, because the receiver knows no earlier moment; \
         `response_time` has the whole time.";
    "response_time" ["s"].observations(&RESPONSE_TIME):
        "Time from a request until the last byte of its response, over the responses that were complete in \
         the measuring window.";
    "one_way_delay" ["s"].observations(&ONE_WAY_DELAY):
        "Time from sending a datagram until its delivery, over the datagrams delivered in the measuring \
         window.";
    "round_trip_time" ["s"].observations(&ROUND_TRIP_TIME):
        "Time from sending a ping until its answer arrived (RFC 2681), over the answers that arrived in \
         the measuring window. Pings without an answer are left out.";
    "datagram_loss" ["1"].share().pooled()
        .computed(|_| vec![Need::Total(&DATAGRAMS_SENT), Need::Total(&DATAGRAMS_RECEIVED)], datagram_loss):
        "Share of the datagrams sent in the measuring window that were never received. A datagram counts \
         once, however often it arrives. Datagrams that may still be in flight when the run ends do not \
         count as sent: those sent within the longest delay before the end. Never below 0.";
    "late_or_lost" ["1"].share().pooled().with_deadline()
        .computed(|_| vec![Need::Total(&DATAGRAMS_SENT), Need::Observations(&ONE_WAY_DELAY)], late_or_lost):
        "Share of the datagrams sent in the measuring window that had not arrived when their deadline \
         passed: a lost one counts as infinitely late. Never below 0.";
    "round_trip_loss" ["1"].share().pooled()
        .computed(|_| vec![Need::Total(&PINGS), Need::Total(&PINGS_ANSWERED)], round_trip_loss):
        "Share of pings whose answer did not arrive within their `wait` (two-way loss, RFC 6673), over \
         the pings whose `wait` ended in the measuring window.";
}

/// Share of datagrams that did not arrive.
fn datagram_loss(view: &View<'_>) -> MeasuredValue {
    let sent = view.total(&DATAGRAMS_SENT);
    if sent > 0.0 {
        (1.0 - view.total(&DATAGRAMS_RECEIVED) / sent).max(0.0).into()
    } else {
        MeasuredValue::not("no datagram was sent")
    }
}

/// Share of datagrams that arrived late or not at all: delay and loss in one number.
fn late_or_lost(view: &View<'_>) -> MeasuredValue {
    let sent = view.total(&DATAGRAMS_SENT);
    match view.in_time() {
        Some(in_time) if sent > 0.0 => (1.0 - in_time as f64 / sent).max(0.0).into(),
        _ => MeasuredValue::not("no datagram was sent"),
    }
}

/// Share of pings without an answer.
fn round_trip_loss(view: &View<'_>) -> MeasuredValue {
    let pings = view.total(&PINGS);
    if pings > 0.0 {
        (1.0 - view.total(&PINGS_ANSWERED) / pings).into()
    } else {
        MeasuredValue::not("no ping has waited long enough")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::bench::{Bench, flow};

    /// The values are 0.1, 0.2, 0.3 and 1.0 s. The mean is 0.4, the type-7 median 0.25. p75 is at position 2.25: 0.3 +
    /// 0.25 × 0.7.
    #[test]
    fn statistics_of_object_times() {
        let mut bench = Bench::new(10);
        bench.count(flow(), &OBJECT_TIME, &[(1.0, 0.1), (2.0, 0.2), (3.0, 1.0), (4.0, 0.3)]);
        let mut of = |statistic: &str| {
            let text = format!("of = 'flow.web'\nmetric = 'object_time'\nstatistic = '{statistic}'");
            bench.measure(&text).unwrap()
        };
        assert!((of("mean") - 0.4).abs() < 1e-12);
        assert_eq!((of("p50"), of("max"), of("min")), (0.25, 1.0, 0.1));
        assert!((of("p75") - 0.475).abs() < 1e-12);
        // The squared distances from 0.4 are 0.09 + 0.04 + 0.36 + 0.01 = 0.5, divided by 3.
        assert!((of("sd") - (0.5f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn observations_outside_the_window_do_not_count() {
        let mut bench = Bench::new(10);
        bench.count(flow(), &RESPONSE_TIME, &[(1.0, 5.0), (2.0, 0.2), (3.0, 0.4)]);
        let text = "of = 'flow.web'\nmetric = 'response_time'\nafter = '1 s'\nunit = 'ms'";
        assert!((bench.measure(text).unwrap() - 300.0).abs() < 1e-9);
        let none = bench.measure("of = 'flow.web'\nmetric = 'one_way_delay'").unwrap_err();
        assert_eq!(none, "there were no observations");
        let one = "of = 'flow.web'\nmetric = 'response_time'\nafter = '2 s'\nstatistic = 'sd'";
        assert_eq!(bench.measure(one).unwrap_err(), "there were too few observations");
    }

    /// 15 of 20 pings were answered, so a quarter was lost in one of the two directions.
    #[test]
    fn pings_without_an_answer() {
        let mut bench = Bench::new(10);
        let text = "of = 'flow.web'\nmetric = 'round_trip_loss'";
        assert_eq!(bench.measure(text).unwrap_err(), "no ping has waited long enough");
        bench.count(flow(), &PINGS, &[(1.0, 12.0), (2.0, 8.0)]);
        bench.count(flow(), &PINGS_ANSWERED, &[(1.0, 8.0), (2.0, 7.0)]);
        assert_eq!(bench.measure(text).unwrap(), 0.25);
        bench.count(flow(), &ROUND_TRIP_TIME, &[(1.0, 0.02), (2.0, 0.04)]);
        let time = bench.measure("of = 'flow.web'\nmetric = 'round_trip_time'\nunit = 'ms'").unwrap();
        assert!((time - 30.0).abs() < 1e-9);
    }

    /// Of ten datagrams, seven arrived, five of them within 20 ms. Half were late or lost.
    #[test]
    fn late_and_lost_are_one_share() {
        let mut bench = Bench::new(10);
        bench.count(flow(), &DATAGRAMS_SENT, &[(1.0, 10.0)]);
        let delays = [0.001, 0.005, 0.01, 0.02, 0.02, 0.021, 0.5];
        bench.count(flow(), &ONE_WAY_DELAY, &delays.map(|delay| (1.0, delay)));
        let late = bench.measure("of = 'flow.web'\nmetric = 'late_or_lost'\nwithin = '20 ms'").unwrap();
        assert!((late - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_deadline_belongs_to_metrics_that_have_one() {
        let errors = |text: &str| {
            let spec: crate::ResponseSpec = toml::from_str(text).unwrap();
            let flows = crate::response::Subjects { flows: &["web"], ..Default::default() };
            spec.check(flows).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let missing = errors("of = 'flow.web'\nmetric = 'late_or_lost'");
        assert_eq!(missing, "`metric`: `late_or_lost` needs a deadline, `within`");
        let needless = errors("of = 'flow.web'\nmetric = 'goodput'\nwithin = '1 s'");
        assert_eq!(needless, "`within`: `goodput` has no deadline");
    }

    /// 7 of 10 datagrams arrived, so the loss is 0.3.
    #[test]
    fn datagrams_that_did_not_arrive() {
        let mut bench = Bench::new(10);
        assert!(bench.measure("of = 'flow.web'\nmetric = 'datagram_loss'").is_err());
        bench.count(flow(), &DATAGRAMS_SENT, &[(1.0, 4.0), (2.0, 6.0)]);
        bench.count(flow(), &DATAGRAMS_RECEIVED, &[(1.0, 3.0), (2.0, 4.0)]);
        let loss = bench.measure("of = 'flow.web'\nmetric = 'datagram_loss'").unwrap();
        assert!((loss - 0.3).abs() < 1e-12);
    }
}
