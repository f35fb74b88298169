//! Tests of windows, members, warm-up and declined quantities.

use netrig_core::quantity::{
    LINK_BUSY, OBJECT_TIME, QUEUE_LENGTH, RECEIVED_BYTES, TIMEOUT_RETRANSMISSIONS, WAITING_TIME, WIRE_BYTES,
};
use netrig_core::{Duration, Instant};

use super::bench::{Bench, flow, link, place};
use super::layout::FlowPlace;
use super::*;

const GOODPUT: &str = "of = 'flow.web'\nmetric = 'goodput'";

fn with_three_members() -> Bench {
    let mut bench = Bench::new(10);
    let member = |n: u32| FlowPlace {
        place: place(&format!("web#{n}")),
        start: Instant::ZERO,
        stop: Instant::NEVER,
        paths: 1,
        application: bench::application(),
    };
    bench.layout.flows = (1..=3).map(member).collect();
    for (index, bytes) in [(0, 100.0), (1, 200.0), (2, 300.0)] {
        bench.count(Subject::Flow(index), &RECEIVED_BYTES, &[(5.0, bytes)]);
    }
    bench
}

/// The members have 10, 20 and 30 B/s. Jain's index is 60² / (3 · 1400).
#[test]
fn members_become_one_number() {
    let mut bench = with_three_members();
    let mut per = |per: &str| bench.measure(&format!("{GOODPUT}\nper = '{per}'")).unwrap();
    assert_eq!((per("sum"), per("mean"), per("max"), per("min")), (60.0, 20.0, 30.0, 10.0));
    assert!((per("jain") - 3600.0 / 4200.0).abs() < 1e-12);
    assert_eq!(bench.measure(GOODPUT), Ok(60.0));
    assert_eq!(bench.measure("of = 'flow.web#2'\nmetric = 'goodput'"), Ok(20.0));
    assert!(
        bench.measure("of = 'flow.voice'\nmetric = 'goodput'").unwrap_err().contains("not in this scenario")
    );
}

/// One member has the observations 1 and 2, another has 9. The pooled mean is 4; the mean of the means would be 5.25.
#[test]
fn observations_of_members_are_pooled() {
    let mut bench = with_three_members();
    bench.count(Subject::Flow(0), &OBJECT_TIME, &[(1.0, 1.0), (2.0, 2.0)]);
    bench.count(Subject::Flow(2), &OBJECT_TIME, &[(1.5, 9.0)]);
    let text = "of = 'flow.web'\nmetric = 'object_time'";
    assert_eq!(bench.measure(text), Ok(4.0));
    assert_eq!(bench.measure(&format!("{text}\nstatistic = 'p50'")), Ok(2.0));
    let why = bench.measure(&format!("{text}\nper = 'mean'")).unwrap_err();
    assert_eq!(why, "web#2: there were no observations");
}

/// A quantity that the run does not measure for a flow is not zero, although it may be measured for another flow.
#[test]
fn what_nobody_counts_is_not_measured() {
    let responses = |of: &str| {
        let text = format!("of = 'flow.{of}'\nmetric = 'timeout_retransmissions'");
        vec![("r".to_owned(), toml::from_str(&text).unwrap())]
    };
    let bench = with_three_members();
    let measured = |of: &str| {
        let mut reduction = Reduction::over(&responses(of), WarmUp::None, bench.layout.clone());
        reduction.untold(Subject::Flow(1), &TIMEOUT_RETRANSMISSIONS);
        reduction.finish(&bench.outcome, Bench::at(10.0)).remove("r").unwrap()
    };
    assert_eq!(measured("web#1").value(), Some(0.0));
    let why = "this substrate does not count `timeout_retransmissions` of `flow.web#2`";
    assert!(matches!(measured("web#2"), MeasuredValue::NotMeasured(said) if *said == *why));
    assert_eq!(measured("web").value(), None);
}

#[test]
fn wants_only_what_is_needed() {
    let responses = |text: &str| vec![("r".to_owned(), toml::from_str(text).unwrap())];
    let layout = Bench::new(1).layout;
    let mean = Reduction::over(
        &responses("of = 'link.primary'\nmetric = 'waiting_time'"),
        WarmUp::None,
        layout.clone(),
    );
    assert!(!mean.wants(&WAITING_TIME) && !mean.wants(&WIRE_BYTES));
    let tail = responses("of = 'link.primary'\nmetric = 'waiting_time'\nstatistic = 'p99'");
    assert!(Reduction::over(&tail, WarmUp::None, layout).wants(&WAITING_TIME));
}

/// Two responses over the same samples share one accumulator.
#[test]
fn quantiles_of_one_quantity_share_a_store() {
    let spec = |statistic: &str| {
        let text = format!("of = 'flow.web'\nmetric = 'object_time'\nstatistic = '{statistic}'");
        (statistic.to_owned(), toml::from_str(&text).unwrap())
    };
    let reduction = Reduction::over(&[spec("p50"), spec("p99")], WarmUp::None, Bench::new(1).layout);
    assert_eq!(reduction.accumulators.len(), 1);
}

/// With a fixed warm-up of 4 s, the window starts at 4 s. The `after` of a response takes precedence.
#[test]
fn a_fixed_warm_up() {
    let mut bench = Bench::new(10);
    bench.warm_up = WarmUp::Fixed(Duration::from_secs(4));
    bench.count(flow(), &RECEIVED_BYTES, &[(3.0, 1000.0), (5.0, 600.0)]);
    assert_eq!(bench.measure(GOODPUT), Ok(100.0));
    assert_eq!(bench.measure(&format!("{GOODPUT}\nafter = '0 s'")), Ok(160.0));
}

/// For 20 s, the samples are 0 B per 100 ms, then for 80 s 100 B per 100 ms. MSER-5 removes the first part, and 1000
/// B/s remain.
#[test]
fn mser5_by_time() {
    let mut bench = Bench::new(100);
    bench.warm_up = WarmUp::Mser5;
    let samples: Vec<(f64, f64)> =
        (1..=1000).map(|tick| (f64::from(tick) / 10.0, if tick <= 200 { 0.0 } else { 100.0 })).collect();
    bench.count(flow(), &RECEIVED_BYTES, &samples);
    let MeasuredValue::Value { value, warm_up: Some(cut) } = bench.measured(GOODPUT) else { panic!() };
    assert!((value - 1000.0).abs() < 1e-9, "{value}");
    assert_eq!(cut, Cut { discarded: 200, too_short: false });
    assert_eq!(bench.measure(&format!("{GOODPUT}\nafter = '0 s'")), Ok(800.0));
}

/// There are 50 observations of 5 s, then 450 of 1 s.
#[test]
fn mser5_by_observation() {
    let mut bench = Bench::new(100);
    bench.warm_up = WarmUp::Mser5;
    let samples: Vec<(f64, f64)> =
        (1..=500).map(|n| (f64::from(n) / 10.0, if n <= 50 { 5.0 } else { 1.0 })).collect();
    bench.count(flow(), &OBJECT_TIME, &samples);
    let measured = bench.measured("of = 'flow.web'\nmetric = 'object_time'");
    let cut = Cut { discarded: 50, too_short: false };
    assert_eq!(measured, MeasuredValue::Value { value: 1.0, warm_up: Some(cut) });
}

#[test]
fn mser5_of_a_gauge_and_of_too_little() {
    let mut bench = Bench::new(100);
    bench.warm_up = WarmUp::Mser5;
    let samples: Vec<(f64, f64)> =
        (1..=1000).map(|tick| (f64::from(tick) / 10.0, if tick <= 100 { 0.0 } else { 4.0 })).collect();
    bench.count(link(), &QUEUE_LENGTH, &samples);
    bench.count(flow(), &OBJECT_TIME, &[(1.0, 1.0)]);
    assert_eq!(bench.measure("of = 'link.primary'\nmetric = 'queue_length'"), Ok(4.0));
    let why = bench.measure("of = 'flow.web'\nmetric = 'object_time'").unwrap_err();
    assert!(why.contains("MSER-5"), "{why}");
}

/// A count cannot be divided within its sampling interval, so a window from 0.95 s starts at 1 s.
#[test]
fn windows_are_whole_sampling_intervals() {
    let mut bench = Bench::new(10);
    bench.count(flow(), &RECEIVED_BYTES, &[(1.0, 500.0), (2.0, 900.0)]);
    assert_eq!(bench.measure(&format!("{GOODPUT}\nafter = '950 ms'")), Ok(100.0));
    assert_eq!(bench.measure(&format!("{GOODPUT}\nuntil = '0.95 s'")), Ok(500.0));
}

#[test]
fn a_sample_that_is_no_number_is_no_response() {
    let mut bench = Bench::new(10);
    bench.count(link(), &LINK_BUSY, &[(1.0, f64::NAN)]);
    let why = bench.measure("of = 'link.primary'\nmetric = 'utilisation'").unwrap_err();
    assert_eq!(why, "a sample was not a finite number");
}

#[test]
fn the_run_may_end_before_the_window() {
    let mut bench = Bench::new(3);
    let why = bench.measure(&format!("{GOODPUT}\nafter = '5 s'")).unwrap_err();
    assert!(why.contains("after the end of the run"), "{why}");
}

/// A flow starts at 1 s in a run of 2 s. It has 100 B at its start and 100 B later. A window that starts later excludes
/// the bytes at the start.
#[test]
fn what_happens_when_a_flow_starts_is_of_the_flow() {
    let mut bench = with_three_members();
    bench.layout.flows[0].start = Instant::ZERO + Duration::from_secs(6);
    bench.count(Subject::Flow(0), &RECEIVED_BYTES, &[(6.0, 100.0), (7.0, 60.0), (8.0, 40.0)]);
    let text = "of = 'flow.web#1'\nmetric = 'received'";
    assert_eq!(bench.measure(text), Ok(200.0));
    assert_eq!(bench.measure(&format!("{text}\nafter = '7 s'")), Ok(40.0));
}
