//! Metrics of the run as a whole.

use netrig_core::quantity::FORWARDING_LATENESS;

use super::super::{Per, SubjectKind};
use super::observed::Observed;
use super::{About, MeasuredValue, Metric, Need, Statistic, View};

pub(super) const ALL: &[&dyn Metric] = &[&Events, &Lateness, &FORWARDING];

/// Cost of the run in events.
struct Events;

static EVENTS: About = About::new(
    "events",
    "events",
    SubjectKind::Run,
    "Events that the simulator handled, or packets that the router forwarded, in the whole run.",
)
.per(Per::Mean);

impl Metric for Events {
    fn about(&self) -> &About {
        &EVENTS
    }

    fn needs(&self, _: Statistic) -> Vec<Need> {
        Vec::new()
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        (view.outcome().events as f64).into()
    }
}

/// Lateness of the tester itself.
struct Lateness;

static LATENESS: About = About::new(
    "lateness",
    "s",
    SubjectKind::Run,
    "Time by which whatever drove the run was late at most; 0 in virtual time.",
)
.per(Per::Mean);

impl Metric for Lateness {
    fn about(&self) -> &About {
        &LATENESS
    }

    fn needs(&self, _: Statistic) -> Vec<Need> {
        Vec::new()
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        view.outcome().lateness.as_secs_f64().into()
    }
}

static FORWARDING: Observed = Observed {
    about: About::new(
        "forwarding_lateness",
        "s",
        SubjectKind::Run,
        "Time by which a frame left the router after its link had delivered it, over the frames that were due in the \
         measuring window; in virtual time there are none.",
    )
    .observed(),
    quantity: &FORWARDING_LATENESS,
};

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
