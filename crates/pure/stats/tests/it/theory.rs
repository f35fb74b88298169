use std::collections::{BTreeMap, BTreeSet};

use netrig_stats::theory::arq::go_back_n_frame_times;
use netrig_stats::theory::cubic::Cubic;
use netrig_stats::theory::erlang::{blocking, mean_waiting_s, waiting_probability};
use netrig_stats::theory::padhye::Padhye;
use netrig_stats::theory::periodic_loss::{Cycle, PeriodicLoss};
use netrig_stats::theory::queue::{EqualLines, Mg1, Mm1, Mm1k, Tandem};
use netrig_stats::theory::retransmission::Backoff;
use netrig_stats::theory::tcp::{SlowStart, mathis_bytes_per_s};
use netrig_stats::theory::{TheoryError, curve, curves};

use crate::{Random, close, near};

#[test]
fn queues_of_the_textbook() {
    let mm1 = Mm1::new(8.0, 10.0).unwrap();
    close(mm1.sojourn_s(), 0.5, 1e-14);
    close(mm1.waiting_s(), 0.4, 1e-14);
    close(mm1.number_in_system(), 4.0, 1e-14);
    let md1 = Mg1::constant(8.0, 0.1).unwrap();
    close(md1.waiting_s(), 0.2, 1e-14); // half of M/M/1's
    close(md1.number_in_system(), 2.4, 1e-14);
    let exponential = Mg1::new(8.0, 0.1, 1.0).unwrap();
    close(exponential.sojourn_s(), mm1.sojourn_s(), 1e-14);
    close(Tandem::new(8.0, &[10.0, 12.0]).unwrap().sojourn_s(), 0.75, 1e-14);
    assert_eq!(Mm1::new(10.0, 10.0), Err(TheoryError::Unstable { load: 1.0 }));
    assert!(Mg1::new(-1.0, 0.1, 1.0).is_err() && Tandem::new(1.0, &[]).is_err());
}

/// At a light load only the previous customer can delay a customer. Let B be the service time of the previous customer,
/// B' the next service time and A the time between the two arrivals. Then W = max(0, B - B' - max(0, A - B)). So to
/// first order of λ, E[W] = λE[B·D + D²/2] with D = max(0, B - B'). For exponential services D is exponential with
/// probability ½, and B = min + D: ½(½ + 2) + ½ = 7/4.
#[test]
fn equal_lines_make_the_second_queue_longer_than_an_independent_one() {
    let light = EqualLines::new(0.001, 1.0).unwrap();
    close(light.second_waiting_s(), 1.75 * 0.001, 0.005);
    close(
        EqualLines::new(10.0, 20.0).unwrap().second_waiting_s() * 20.0,
        equal_lines_by_recursion(0.5),
        0.005,
    );
    assert!(EqualLines::new(1.0, 1.0).is_err());
}

/// The mean waiting time at the second line by the recursion S = max(B, S - I), over two million customers.
fn equal_lines_by_recursion(load: f64) -> f64 {
    let mut random = Random(7);
    let (mut first, mut second, mut sum, n) = (0.0_f64, 0.0_f64, 0.0, 2_000_000);
    for _ in 0..n {
        let gap = random.exponential() / load;
        let service = random.exponential();
        let idle = (gap - first).max(0.0);
        first = (first - gap).max(0.0) + service;
        second = service.max(second - idle);
        sum += second - service;
    }
    sum / f64::from(n)
}

#[test]
fn finite_queue_matches_its_geometric_series() {
    // Load 1/2, three places: the probabilities of 0 to 3 customers are 8, 4, 2 and 1 of 15.
    let queue = Mm1k::new(5.0, 10.0, 3).unwrap();
    close(queue.loss(), 1.0 / 15.0, 1e-14);
    close(queue.number_in_system(), 11.0 / 15.0, 1e-14);
    close(queue.sojourn_s(), 11.0 / 70.0, 1e-14);
    close(Mm1k::new(10.0, 10.0, 4).unwrap().loss(), 0.2, 1e-14);
    close(Mm1k::new(20.0, 10.0, 1000).unwrap().loss(), 0.5, 1e-12);
    close(Mm1k::new(0.0, 10.0, 5).unwrap().sojourn_s(), 0.1, 1e-14);
}

#[test]
fn erlang_b_table() {
    // Standard traffic table: the load in Erlang that a group of lines carries at 1 % blocking, exact to the last
    // printed digit.
    for (lines, offered, slope) in
        [(1, 0.0101, 1e-4), (5, 1.361, 3e-5), (10, 4.461, 3e-5), (20, 12.031, 3e-5), (100, 84.064, 3e-5)]
    {
        near(blocking(offered, lines).unwrap(), 0.01, slope);
    }
    assert_eq!(blocking(2.0, 0), Ok(1.0));
    assert!(blocking(2.0, u32::MAX).is_err());
}

#[test]
fn erlang_c_by_hand() {
    // Two servers, 1 Erlang: B = 1/5, C = 1/3. The mean waiting time is C / (2 - 1) holding times.
    close(blocking(1.0, 2).unwrap(), 0.2, 1e-14);
    close(waiting_probability(1.0, 2).unwrap(), 1.0 / 3.0, 1e-14);
    close(mean_waiting_s(1.0, 2, 180.0).unwrap(), 60.0, 1e-14);
    assert_eq!(waiting_probability(2.0, 2), Err(TheoryError::Unstable { load: 1.0 }));
}

#[test]
fn slow_start_doubles_or_grows_by_half() {
    let doubling = SlowStart::new(14_600.0, 1.0).unwrap();
    close(doubling.sent_bytes(3), 14_600.0 * 7.0, 1e-12);
    assert_eq!(doubling.round_trips(14_600.0 * 7.0), Ok(3));
    assert_eq!(doubling.round_trips(14_600.0 * 7.0 + 1.0), Ok(4));
    assert_eq!(doubling.round_trips(0.0), Ok(0));
    let delayed = SlowStart::new(2.0, 2.0).unwrap();
    close(delayed.window_bytes(2), 4.5, 1e-12);
    close(delayed.sent_bytes(3), 2.0 + 3.0 + 4.5, 1e-12);
}

#[test]
fn mathis_by_hand() {
    // C = sqrt(3/2) = 1.22 per acknowledged segment, 0.87 with delayed acknowledgements (the paper's table).
    near(mathis_bytes_per_s(1.0, 1.0, 1.0, 1.0).unwrap(), 1.22, 0.006);
    near(mathis_bytes_per_s(1.0, 1.0, 1.0, 2.0).unwrap(), 0.87, 0.006);
    close(mathis_bytes_per_s(1460.0, 0.1, 0.01, 1.0).unwrap(), 146_000.0 * 1.224_744_871_391_589, 1e-12);
    assert!(mathis_bytes_per_s(1460.0, 0.1, 0.0, 1.0).is_err());
}

#[test]
fn padhye_full_matches_forty_digit_values() {
    for (loss, rtt, timeout, window, b, expected) in [
        (0.02, 0.2, 2.0, 12.0, 2.0, 20.872_778_552_917_1),
        (0.0001, 0.2, 2.0, 12.0, 2.0, 59.537_342_946_867),
        (0.3, 0.1, 1.0, 100.0, 1.0, 2.793_573_593_345_23),
    ] {
        let model = Padhye::new(1.0, rtt, timeout, window, b).unwrap();
        close(model.full_bytes_per_s(loss).unwrap(), expected, 1e-12);
    }
}

#[test]
fn padhye_approximate_by_hand() {
    // p = 0.01, b = 1: 0.1 sqrt(0.02 / 3) + 1 × 3 sqrt(0.00375) × 0.01 × 1.0032 = 0.0081650 + 0.0018430.
    let model = Padhye::new(1.0, 0.1, 1.0, f64::INFINITY, 1.0).unwrap();
    close(model.approximate_bytes_per_s(0.01).unwrap(), 1.0 / 0.010_007_926, 1e-5);
    let limited = Padhye::new(1000.0, 0.1, 1.0, 8.0, 1.0).unwrap();
    close(limited.approximate_bytes_per_s(1e-6).unwrap(), 80_000.0, 1e-12);
    close(limited.full_bytes_per_s(0.0).unwrap(), 80_000.0, 1e-12);
    assert!(model.full_bytes_per_s(0.0).is_err() && Padhye::new(1.0, 0.1, 1.0, 0.5, 1.0).is_err());
}

#[test]
fn cubic_tables_of_rfc_8312() {
    // RFC 8312 (the same response function), tables 1 and 2: mean windows in segments outside the Reno-friendly region,
    // printed as integers.
    for (c, rtt, loss, window) in [
        (0.04, 0.1, 1e-5, 593.0),
        (0.04, 0.1, 1e-6, 3332.0),
        (0.4, 0.1, 1e-4, 187.0),
        (0.4, 0.1, 1e-5, 1054.0),
        (0.4, 0.1, 1e-6, 5926.0),
        (0.4, 0.1, 1e-8, 187_400.0),
        (4.0, 0.1, 1e-3, 59.0),
        (4.0, 0.1, 1e-8, 333_250.0),
        (0.4, 0.01, 1e-7, 5926.0),
        (0.4, 0.01, 1e-8, 33_325.0),
    ] {
        near(Cubic::new(c, 0.7).unwrap().window_segments(loss, rtt).unwrap(), window, 1.0);
    }
    // In the Reno-friendly region the tables use Reno's 1.2 / sqrt(p) from RFC 3649, while the formula gives sqrt(1.5 /
    // p).
    for (loss, reno) in [(1e-4, 120.0), (1e-5, 379.0), (1e-6, 1200.0)] {
        let window = Cubic::default().window_segments(loss, 0.01).unwrap();
        close(window, reno * 1.5_f64.sqrt() / 1.2, 2e-3);
    }
}

#[test]
fn one_saw_tooth_is_three_eighths_w_squared() {
    for (half, b) in [(2_u32, 1_u32), (5, 1), (10, 2), (50, 1)] {
        let window = 2 * half;
        let loss_every = b * 3 * window * (window + 2) / 8;
        let cycle = PeriodicLoss::new(loss_every, b, u32::MAX).unwrap().cycle();
        close(cycle.sent as f64 / cycle.rounds as f64, 0.75 * f64::from(window), 1e-12);
    }
    assert_eq!(PeriodicLoss::new(9, 1, u32::MAX).unwrap().cycle(), Cycle { sent: 9, lost: 1, rounds: 3 });
}

#[test]
fn periodic_loss_tends_to_mathis_and_obeys_the_window_limit() {
    for b in [1, 2] {
        let cycle = PeriodicLoss::new(10_000_000, b, u32::MAX).unwrap().cycle();
        close(cycle.sent as f64 / cycle.rounds as f64, (1.5e7 / f64::from(b)).sqrt(), 5e-4);
    }
    // With a window of one segment, every segment takes a round.
    assert_eq!(PeriodicLoss::new(4, 1, 1).unwrap().cycle(), Cycle { sent: 4, lost: 1, rounds: 4 });
    assert!(PeriodicLoss::new(1, 1, 1).is_err() && PeriodicLoss::new(4, 0, 1).is_err());
}

#[test]
fn sctp_fails_over_after_63_seconds_by_default() {
    let timer = Backoff::new(1.0, 60.0).unwrap();
    assert_eq!(timer.failover_s(5), 63.0); // 1 + 2 + 4 + 8 + 16 + 32
    assert_eq!(timer.failover_s(7), 183.0); // and twice 60
    assert_eq!(timer.failover_s(0), 1.0);
    assert_eq!((timer.elapsed_s(0), timer.elapsed_s(3)), (0.0, 7.0));
    assert_eq!(timer.elapsed_s(1_000_006), 60.0 * 1e6 + 63.0);
    assert_eq!(Backoff::new(9.0, 3.0).unwrap().elapsed_s(2), 6.0);
    let first: Vec<f64> = Backoff::new(3.0, 10.0).unwrap().timeouts_s().take(4).collect();
    assert_eq!(first, [3.0, 6.0, 10.0, 10.0]);
}

#[test]
fn go_back_n_by_hand() {
    close(go_back_n_frame_times(0.2, 8).unwrap(), 3.0, 1e-14);
    assert_eq!(go_back_n_frame_times(0.0, 8), Ok(1.0));
    assert!(go_back_n_frame_times(1.0, 8).is_err() && go_back_n_frame_times(0.1, 0).is_err());
}

#[test]
fn curves_are_found_by_name_and_say_what_they_need() {
    let mm1 = curve("mm1").unwrap();
    let service = BTreeMap::from([("service_per_s", 10.0)]);
    close(mm1.at(8.0, &service).unwrap(), 0.5, 1e-14);
    assert_eq!(mm1.at(12.0, &service), Err(TheoryError::Unstable { load: 1.2 }));
    let missing = TheoryError::Missing { curve: "mm1", parameter: "arrivals_per_s" };
    assert_eq!(mm1.eval(&service), Err(missing));
    let unknown = mm1.at(8.0, &BTreeMap::from([("rate".to_owned(), 1.0)])).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "the curve mm1 has no parameter rate; it has arrivals_per_s, service_per_s"
    );
    let none: BTreeMap<&str, f64> = BTreeMap::new();
    assert_eq!(curve("sctp_failover").unwrap().eval(&none), Ok(63.0));
    assert!(curve("nonsense").is_none());
    let fraction = curve("erlang_b").unwrap().at(1.0, &BTreeMap::from([("servers", 1.5)]));
    assert!(matches!(fraction, Err(TheoryError::OutOfRange { parameter: "servers", .. })));
}

#[test]
fn every_curve_evaluates_and_is_described() {
    let typical = BTreeMap::from([
        ("arrivals_per_s", 8.0),
        ("service_per_s", 10.0),
        ("service_mean_s", 0.1),
        ("service_scv", 2.0),
        ("places", 20.0),
        ("stations", 3.0),
        ("offered_erlang", 4.0),
        ("servers", 6.0),
        ("holding_s", 180.0),
        ("round_trips", 4.0),
        ("initial_window_bytes", 14_600.0),
        ("loss", 0.01),
        ("segment_bytes", 1460.0),
        ("rtt_s", 0.1),
        ("timeout_s", 1.0),
        ("retransmission", 3.0),
        ("rto_s", 1.0),
        ("window", 8.0),
        ("delay_s", 0.1),
        ("first_per_s", 2.0),
        ("second_per_s", 6.0),
        ("offered_bit_per_s", 9e6),
        ("own_bit_per_s", 6e6),
        ("rate_bit_per_s", 9e6),
        ("packets", 100.0),
        ("bytes", 952_320.0),
        ("ring", 4.0),
        ("initial_window", 10.0),
        ("handshake_timeout_s", 1.0),
        ("packet_s", 0.02),
        ("rto_max_s", 60.0),
        ("impairment", 11.0),
        ("robustness", 19.0),
        ("window_bytes", 65_536.0),
    ]);
    let mut names = BTreeSet::new();
    for curve in curves() {
        assert!(names.insert(curve.name), "{} twice", curve.name);
        let required = curve.parameters.iter().filter(|p| p.default.is_none());
        let given: BTreeMap<&str, f64> = required.map(|p| (p.name, typical[p.name])).collect();
        let value = curve.eval(&given).unwrap();
        assert!(value > 0.0 && value.is_finite(), "{}: {value}", curve.name);
        assert!(curve.parameters.iter().all(|p| !p.doc.is_empty() && !p.unit.is_empty()));
        assert!(!curve.title.is_empty() && !curve.source.is_empty());
    }
    assert_eq!(names.len(), 41);
}
