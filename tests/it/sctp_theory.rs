//! The fail-over of SCTP in the simulator compared with its closed form.

use netrig_core::{Instant, Subject, quantity};
use netrig_stats::theory::retransmission::Backoff;
use netrig_test_support::ExperimentText;
use netrig_tests::{Tape, record};

const PRIMARY: Subject = Subject::Path(0, 0);
const ALTERNATE: Subject = Subject::Path(0, 1);
/// Time at which the primary path fails permanently, s.
const FAILURE: f64 = 20.0;

/// Bulk data over a primary path that fails and an alternate path that does not.
fn failing(sctp: &str) -> String {
    ExperimentText::new("fail-over", "600 s")
        .nodes("client server")
        .fifo("primary", "client server", ("0.5 Mbit/s", "100 ms", 50), "")
        .fifo("alternate", "client server", ("0.5 Mbit/s", "100 ms", 50), "")
        .table(
            "transport.sctp",
            &format!(
                r#"kind = "sctp", profile = "rfc", paths = ["primary", "alternate"],
            association_max_retrans = 100, {sctp}"#
            ),
        )
        .flow("bulk", "client server", r#"transport = "sctp", application = { kind = "bulk" }"#)
        .response("received", "flow.bulk", "received")
        .table("[event]", &format!(r#"at = "{FAILURE} s", link = "primary", do = {{ down_for = "900 s" }}"#))
        .build()
}

/// The times of the failure of the primary path in a run.
struct Failure {
    /// The last start of T3-rtx before the failure.
    started: Instant,
    /// RTO at this time, s.
    rto: f64,
    /// Expiries of T3-rtx.
    expiries: Vec<Instant>,
    /// The time from which new data are sent over the alternate path.
    switched: Instant,
    /// The time at which the primary path becomes inactive.
    inactive: Instant,
}

impl Failure {
    fn of(tape: &Tape) -> Self {
        let failure = |(at, _): &(Instant, f64)| at.as_secs_f64() >= FAILURE;
        // The association reports its state after each event. Before the failure, the events are SACKs, each of which
        // restarts T3-rtx (RFC 9260 section 6.3.2, R3).
        let timer = tape.series(PRIMARY, &quantity::RTO);
        let (started, rto) = *timer.iter().rfind(|told| !failure(told)).expect("a state before the failure");
        let moment = |subject, of, value: Option<f64>| {
            let all = tape.series(subject, of);
            all.into_iter()
                .find(|told| failure(told) && value.is_none_or(|v| told.1 == v))
                .expect("it fails over")
                .0
        };
        Self {
            started,
            rto,
            expiries: tape.series(PRIMARY, &quantity::PATH_TIMEOUT).iter().map(|(at, _)| *at).collect(),
            switched: moment(ALTERNATE, &quantity::DATA_PATH, None),
            inactive: moment(PRIMARY, &quantity::PATH_FAILED, Some(1.0)),
        }
    }

    fn seconds_after_start(&self, moment: Instant) -> f64 {
        moment.since(self.started).as_secs_f64()
    }

    fn timer(&self) -> Backoff {
        Backoff::new(self.rto, 60.0).expect("times")
    }
}

/// The time from the last start of T3-rtx until new data are sent over the other path is Σ min(RTO·2ⁱ, RTO.Max), i = 0
/// … Path.Max.Retrans (RFC 9260 sections 6.3.3 E2 and 8.2), to the nanosecond. Retransmissions stay on the path, and
/// RFC 7829 is not used.
#[test]
fn fail_over_of_a_whole_run_takes_the_sum_of_the_doubled_timers() {
    for path_max_retrans in 0..=8 {
        let text = failing(&format!(
            "path_max_retrans = {path_max_retrans}\nretransmit_to = \"same-path\"\npotentially_failed = false\n\
             receive_buffer = \"20 KB\""
        ));
        let failure = Failure::of(&record(&text)[0].1);
        let theory = failure.timer().failover_s(path_max_retrans);
        let measured = failure.seconds_after_start(failure.switched);
        println!(
            "fail-over, Path.Max.Retrans {path_max_retrans}, RTO {:.3} s: theory {theory:.9} s, measured {measured:.9} s",
            failure.rto
        );
        assert!(
            (measured - theory).abs() < 2e-9,
            "Path.Max.Retrans {path_max_retrans}: {measured} s for {theory}"
        );
        assert_eq!(failure.inactive, failure.switched);
        let before = failure.expiries.iter().filter(|at| **at <= failure.switched).count();
        assert_eq!(before, path_max_retrans as usize + 1);
    }
}

/// RFC 7829 with a threshold of 0: data move to the other path at the first expiry, for any Path.Max.Retrans.
#[test]
fn a_potentially_failed_path_is_left_after_one_timer() {
    for path_max_retrans in [0, 5, 8] {
        let text = failing(&format!(
            "path_max_retrans = {path_max_retrans}\nretransmit_to = \"same-path\"\npotentially_failed = true"
        ));
        let failure = Failure::of(&record(&text)[0].1);
        let measured = failure.seconds_after_start(failure.switched);
        assert!((measured - failure.rto).abs() < 2e-9, "{measured} s for {}", failure.rto);
    }
}

/// If retransmissions use the alternate path (RFC 9260 section 6.4.1), no data are outstanding on the primary path
/// after an expiry. T3-rtx starts again only when new data are sent there (section 6.3.2, R1), after all lost data have
/// been retransmitted (section 6.1 C). The sum of these pauses delays the failure of the path.
#[test]
fn retransmissions_over_the_other_path_add_the_pauses_between_timers() {
    for path_max_retrans in [1, 3, 5] {
        let text = failing(&format!(
            "path_max_retrans = {path_max_retrans}\nretransmit_to = \"alternate-path\"\npotentially_failed = false"
        ));
        let tape = &record(&text)[0].1;
        let failure = Failure::of(tape);
        let flight = tape.series(PRIMARY, &quantity::FLIGHT);
        let pause = |expiry: &Instant| {
            let again = flight.iter().find(|(at, bytes)| at >= expiry && *bytes > 0.0).expect("new data").0;
            again.since(*expiry).as_secs_f64()
        };
        let pauses: f64 = failure.expiries[..path_max_retrans as usize].iter().map(pause).sum();
        let theory = failure.timer().failover_s(path_max_retrans);
        let measured = failure.seconds_after_start(failure.inactive);
        println!(
            "retransmissions elsewhere, Path.Max.Retrans {path_max_retrans}: theory {theory:.9} s and pauses of {pauses:.9} s, measured {measured:.9} s"
        );
        assert!((measured - theory - pauses).abs() < 1e-8, "{measured} s for {theory} + {pauses}");
    }
}
