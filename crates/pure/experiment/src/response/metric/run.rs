//! Metrics of the run as a whole.

use netrig_core::quantity::FORWARDING_LATENESS;

use super::super::Per;
use super::{MeasuredValue, View, metrics};

metrics! {
    of Run;
    "events" ["events"].per(Per::Mean).computed(|_| Vec::new(), events):
        "Events that the simulator handled, or packets that the router forwarded, in the whole run.";
    "lateness" ["s"].per(Per::Mean).computed(|_| Vec::new(), lateness):
        "Greatest lateness of the driver of the run; 0 in virtual time.";
    "forwarding_lateness" ["s"].observations(&FORWARDING_LATENESS):
        "Time from the delivery of a frame by its link until the frame left the router, over the frames \
         that were due in the measuring window. There are none in virtual time.";
}

/// Number of events that the run handled, a measure of its cost.
fn events(view: &View<'_>) -> MeasuredValue {
    (view.outcome().events as f64).into()
}

/// Greatest lateness of the tester, s.
fn lateness(view: &View<'_>) -> MeasuredValue {
    view.outcome().lateness.as_secs_f64().into()
}

#[cfg(test)]
mod tests {
    use netrig_core::Subject;
    use netrig_core::quantity::FORWARDING_LATENESS;

    use crate::reduce::bench::Bench;

    #[test]
    fn the_run_tells_what_it_cost() {
        let mut bench = Bench::new(10);
        bench.outcome.events = 1234;
        bench.outcome.lateness = netrig_core::Duration::from_millis(2);
        assert_eq!(bench.measure("of = 'run'\nmetric = 'events'"), Ok(1234.0));
        assert_eq!(bench.measure("of = 'run'\nmetric = 'lateness'"), Ok(0.002));
    }

    #[test]
    fn how_late_frames_left_is_a_quantile_like_any_other() {
        let mut bench = Bench::new(10);
        let late: Vec<_> = (1..=100_u32).map(|each| (1.0, f64::from(each) * 1e-6)).collect();
        bench.count(Subject::Run, &FORWARDING_LATENESS, &late);
        let measured = bench.measure("of = 'run'\nmetric = 'forwarding_lateness'\nstatistic = 'max'");
        assert_eq!(measured, Ok(f64::from(100_u32) * 1e-6));
    }

    #[test]
    fn in_virtual_time_nothing_is_forwarded_late() {
        let mut bench = Bench::new(10);
        assert!(bench.measure("of = 'run'\nmetric = 'forwarding_lateness'").is_err());
    }
}
