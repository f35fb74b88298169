//! The run as a whole.

use super::super::{Per, SubjectKind};
use super::{About, Measured, Metric, Need, Statistic, View};

pub(super) const ALL: &[&dyn Metric] = &[&Events, &Lateness];

/// What the run cost.
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

    fn reduce(&self, view: &View<'_>) -> Measured {
        (view.outcome().events as f64).into()
    }
}

/// How late the tester itself was.
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

    fn reduce(&self, view: &View<'_>) -> Measured {
        view.outcome().lateness.as_secs_f64().into()
    }
}

#[cfg(test)]
mod tests {
    use crate::reduce::bench::Bench;

    #[test]
    fn the_run_tells_what_it_cost() {
        let mut bench = Bench::new(10);
        bench.outcome.events = 1234;
        bench.outcome.lateness = netrig_core::Duration::from_millis(2);
        assert_eq!(bench.measure("of = 'run'\nmetric = 'events'"), Ok(1234.0));
        assert_eq!(bench.measure("of = 'run'\nmetric = 'lateness'"), Ok(0.002));
    }
}
