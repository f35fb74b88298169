//! Metrics of the effect of an outage on a flow. The outage is the first event of the scenario that takes a
//! link, or a node's interface, down. Without an outage these metrics have no value.

use netrig_core::quantity::{DATA_PATH, DATA_PAUSED, DATA_RESUMED, PATH_FAILED, WIRE_BYTES};
use netrig_core::{Duration, Instant};

use super::super::Per;
use super::{MeasuredValue, Need, View, metrics};
use crate::reduce::Outage;

metrics! {
    of Flow;
    "recovery_time" ["s"].per(Per::Mean)
        .computed(|_| vec![Need::Marks(&DATA_PAUSED), Need::Marks(&DATA_RESUMED)], recovery_time):
        "Time from the start of the outage until the end of the first pause that overlaps it, when user data \
         arrives again; 0 if no pause of more than one sampling interval overlaps it.";
    "detect_time" ["s"].per(Per::Mean).computed(|_| vec![Need::PathMarks(&PATH_FAILED)], detect_time):
        "Time from the start of the outage until the sender first declared a path inactive or potentially \
         failed.";
    "switch_time" ["s"].per(Per::Mean).computed(|_| vec![Need::PathMarks(&DATA_PATH)], switch_time):
        "Time from the start of the outage until new data first goes over another path than the one in use \
         when it began.";
    "ramp_up_time" ["s"].per(Per::Mean)
        .computed(|_| {
            let data = [Need::PathMarks(&DATA_PATH), Need::Marks(&DATA_PAUSED), Need::Marks(&DATA_RESUMED)];
            [&[Need::Series(&WIRE_BYTES)], &data[..]].concat()
        }, ramp_up_time):
        "Time until the former rate is regained. It begins with the switch to another path; without a \
         switch, with the first data after the pause that overlaps the outage. It ends at the start of the \
         first second in which data packets arrive at 90 % or more of their mean rate in the ten seconds \
         before the outage. Rates are of IP bytes in whole sampling intervals.";
}

const NO_OUTAGE: &str = "no link goes down";

/// Time without data because of the outage.
fn recovery_time(view: &View<'_>) -> MeasuredValue {
    let Some(outage) = view.outage() else { return MeasuredValue::not(NO_OUTAGE) };
    if view.marks(&DATA_RESUMED).is_empty() {
        return MeasuredValue::not("no data arrived");
    }
    match recovery(view, outage) {
        Some(Some(at)) => at.since(outage.start).as_secs_f64().into(),
        Some(None) => MeasuredValue::not("no data arrived any more after the outage began"),
        None => 0.0.into(),
    }
}

/// The end of the first pause that overlaps the outage. `Some(None)` if the pause does not end in the run, `None` if no
/// pause overlaps the outage.
fn recovery(view: &View<'_>, outage: Outage) -> Option<Option<Instant>> {
    let over = outage.end.unwrap_or(Instant::NEVER);
    let hit = |(from, to): &(Instant, Option<Instant>)| *from < over && to.is_none_or(|to| to > outage.start);
    let pause = view.pauses().into_iter().find(hit)?;
    // If data stop at most one sampling interval before the end of the run, this is not a pause.
    let reaches_the_end = pause.1.is_none() && view.run_end().since(pause.0) <= view.sample_every();
    (!reaches_the_end).then_some(pause.1)
}

/// Time until the sender detected the outage.
fn detect_time(view: &View<'_>) -> MeasuredValue {
    let Some(outage) = view.outage() else { return MeasuredValue::not(NO_OUTAGE) };
    match view.marks(&PATH_FAILED).iter().find(|mark| mark.at >= outage.start) {
        Some(mark) => mark.at.since(outage.start).as_secs_f64().into(),
        None => MeasuredValue::not("the sender declared no path inactive or potentially failed"),
    }
}

/// Time until the sender used another path.
fn switch_time(view: &View<'_>) -> MeasuredValue {
    let Some(outage) = view.outage() else { return MeasuredValue::not(NO_OUTAGE) };
    match switch(view, outage) {
        Some(at) => at.since(outage.start).as_secs_f64().into(),
        None => MeasuredValue::not("no other path was used after the outage began"),
    }
}

/// Time at which new data were first sent over another path than before the outage.
fn switch(view: &View<'_>, outage: Outage) -> Option<Instant> {
    let marks = view.marks(&DATA_PATH);
    // A flow starts on its first path, even without a mark.
    let before = marks.iter().rev().find(|mark| mark.at < outage.start).map_or(0, |mark| mark.path);
    marks.iter().find(|mark| mark.at >= outage.start && mark.path != before).map(|mark| mark.at)
}

/// Length of the time before the outage over which the previous rate is measured.
const BEFORE: Duration = Duration::from_secs(10);
/// Time over which the rate must be regained. It is rounded up to whole sampling intervals, because samples are sums
/// over intervals.
const HOLD: Duration = Duration::from_secs(1);
/// The share of the previous rate that counts as regained.
const REGAINED: f64 = 0.9;

/// Time from the switch or the end of the pause until the previous rate was regained.
fn ramp_up_time(view: &View<'_>) -> MeasuredValue {
    let Some(outage) = view.outage() else { return MeasuredValue::not(NO_OUTAGE) };
    let Some(first) = view.marks(&DATA_RESUMED).first().filter(|mark| mark.at < outage.start) else {
        return MeasuredValue::not("no data arrived before the outage");
    };
    let Some(from) = switch(view, outage).or_else(|| recovery(view, outage).flatten()) else {
        return MeasuredValue::not("the outage caused neither a switch nor a pause");
    };
    // A sample has the bytes of the interval that ends at its time. So the sum includes the first packet, whose sample
    // is taken after its arrival.
    let since = Instant::from_nanos(outage.start.as_nanos().saturating_sub(BEFORE.as_nanos())).max(first.at);
    let before = view.sum_between(&WIRE_BYTES, since, outage.start) / outage.start.since(since).as_secs_f64();
    let every = view.sample_every();
    let hold = every * HOLD.as_nanos().div_ceil(every.as_nanos());
    let wanted = REGAINED * before * hold.as_secs_f64();
    let mut start = from;
    while start + hold <= view.run_end() {
        if view.sum_between(&WIRE_BYTES, start, start + hold) >= wanted {
            return start.since(from).as_secs_f64().into();
        }
        start += every;
    }
    MeasuredValue::not("the rate before the outage was not regained")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::bench::{Bench, flow, path};

    /// A link that is down from 50 s to 60 s of a run of 100 s.
    fn bench() -> Bench {
        let mut bench = Bench::new(100);
        bench.layout.outage = Some(Outage { start: Bench::at(50.0), end: Some(Bench::at(60.0)) });
        bench
    }

    fn measure(bench: &mut Bench, metric: &str) -> Result<f64, String> {
        bench.measure(&format!("of = 'flow.web'\nmetric = '{metric}'"))
    }

    #[test]
    fn without_an_outage_there_is_nothing_to_measure() {
        for metric in ["recovery_time", "detect_time", "switch_time", "ramp_up_time"] {
            assert_eq!(measure(&mut Bench::new(100), metric).unwrap_err(), "no link goes down", "{metric}");
        }
    }

    /// A pause long before the outage is ignored. The last packet in flight arrives at 50.3 s, and the first after the
    /// outage at 63.1 s. The outage starts at 50 s, so the time is 13.1 s.
    #[test]
    fn recovery_after_the_pause_of_the_outage() {
        let mut bench = bench();
        bench.mark(flow(), &DATA_RESUMED, &[0.4, 22.0, 63.1]);
        bench.mark(flow(), &DATA_PAUSED, &[20.0, 50.3, 99.99]);
        assert!((measure(&mut bench, "recovery_time").unwrap() - 13.1).abs() < 1e-9);
    }

    #[test]
    fn no_pause_is_a_recovery_in_no_time_and_no_end_is_none() {
        let mut smooth = bench();
        smooth.mark(flow(), &DATA_RESUMED, &[0.4, 80.0]);
        smooth.mark(flow(), &DATA_PAUSED, &[75.0, 99.99]);
        assert_eq!(measure(&mut smooth, "recovery_time"), Ok(0.0));
        let mut dead = bench();
        dead.mark(flow(), &DATA_RESUMED, &[0.4]);
        dead.mark(flow(), &DATA_PAUSED, &[50.1]);
        assert!(measure(&mut dead, "recovery_time").unwrap_err().contains("no data arrived any more"));
    }

    /// Path 0 failed at 10 s already. After the start of the outage, it fails at 53 s.
    #[test]
    fn detection_is_the_first_failure_after_the_outage() {
        let mut bench = bench();
        assert!(measure(&mut bench, "detect_time").is_err());
        bench.mark(path(0), &PATH_FAILED, &[10.0, 53.0, 56.0]);
        assert_eq!(measure(&mut bench, "detect_time"), Ok(3.0));
    }

    /// Data are sent over path 1 from 51.5 s on, so the time is 1.5 s. A further mark of the path in use is not a
    /// switch.
    #[test]
    fn the_switch_is_to_another_path() {
        let mut bench = bench();
        bench.mark(path(0), &DATA_PATH, &[0.1, 50.5]);
        assert!(measure(&mut bench, "switch_time").is_err());
        bench.mark(path(1), &DATA_PATH, &[51.5]);
        bench.mark(path(0), &DATA_PATH, &[70.0]);
        assert_eq!(measure(&mut bench, "switch_time"), Ok(1.5));
    }

    /// Until 50 s, 1000 B arrive each 100 ms. This is 10 000 B/s, so 9000 B in a second are required. The switch is at
    /// 52 s. From then on, 500 B arrive each 100 ms until 53.5 s, and then 1000 B again. A second that starts at 52 s +
    /// d (d ≤ 1.5) has 10 intervals: 15 - 10 d with 500 B and 10 d - 5 with 1000 B. Their sum is 2500 + 5000 d ≥ 9000,
    /// so d = 1.3.
    #[test]
    fn ramp_up_until_nine_tenths_for_a_second() {
        let mut bench = bench();
        bench.mark(flow(), &DATA_RESUMED, &[0.05]);
        bench.mark(path(1), &DATA_PATH, &[52.0]);
        for tick in 1..=1000 {
            let bytes = match tick {
                ..=500 => 1000.0,
                501..=520 => 0.0,
                521..=535 => 500.0,
                _ => 1000.0,
            };
            bench.count(flow(), &WIRE_BYTES, &[(f64::from(tick) / 10.0, bytes)]);
        }
        let time = measure(&mut bench, "ramp_up_time").unwrap();
        assert!((time - 1.3).abs() < 1e-9, "{time}");
    }

    /// There is a sample each 2 s. Until 50 s, each has 2000 B, so 1800 B in 2 s are required. After the switch at 51.5
    /// s, each has 1000 B, and from 60 s on 2000 B. The first 2 s with the previous rate start at 59.5 s and contain
    /// the sample at 60 s.
    #[test]
    fn ramp_up_with_samples_of_more_than_a_second() {
        let mut bench = bench();
        bench.layout.sample_every = Duration::from_secs(2);
        bench.mark(flow(), &DATA_RESUMED, &[0.05]);
        bench.mark(path(1), &DATA_PATH, &[51.5]);
        for tick in 1..=50 {
            let bytes = if (26..30).contains(&tick) { 1000.0 } else { 2000.0 };
            bench.count(flow(), &WIRE_BYTES, &[(f64::from(tick) * 2.0, bytes)]);
        }
        let time = measure(&mut bench, "ramp_up_time").unwrap();
        assert!((time - 8.0).abs() < 1e-9, "{time}");
    }

    #[test]
    fn a_rate_that_never_comes_back_has_no_ramp_up_time() {
        let mut bench = bench();
        bench.mark(flow(), &DATA_RESUMED, &[0.05]);
        bench.mark(path(1), &DATA_PATH, &[52.0]);
        for tick in 1..=1000 {
            let bytes = if tick <= 500 { 1000.0 } else { 100.0 };
            bench.count(flow(), &WIRE_BYTES, &[(f64::from(tick) / 10.0, bytes)]);
        }
        assert!(measure(&mut bench, "ramp_up_time").unwrap_err().contains("was not regained"));
    }
}
