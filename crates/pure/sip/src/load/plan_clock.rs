//! The speed at which a load follows its plan: as planned, faster, slower, or paused.

use netrig_core::{Duration, Instant};

/// A time from which the plan has one speed.
#[derive(Clone, Copy, Debug)]
struct SpeedSegment {
    /// Start of the segment.
    at: Instant,
    /// The time of the plan at the start.
    plan: Instant,
    /// Speed relative to the plan. 0 is a pause.
    speed: f64,
    /// Total length of the pauses before the start.
    paused: Duration,
}

/// Maps the time of the load to the time of the plan. Both count from the start of the load.
#[derive(Clone, Debug)]
pub struct PlanClock {
    segments: Vec<SpeedSegment>,
    /// From this time on, no attempt starts.
    enough: Option<Instant>,
}

impl Default for PlanClock {
    fn default() -> Self {
        let whole =
            SpeedSegment { at: Instant::ZERO, plan: Instant::ZERO, speed: 1.0, paused: Duration::ZERO };
        Self { segments: vec![whole], enough: None }
    }
}

impl PlanClock {
    /// Sets the speed from `at` on. `at` must not be before the last change.
    pub fn turn(&mut self, at: Instant, speed: f64) {
        let (plan, paused) = (self.plan(at), self.paused(at));
        let next = SpeedSegment { at, plan, speed, paused };
        match self.segments.last_mut() {
            Some(last) if last.at == at => *last = next,
            _ => self.segments.push(next),
        }
    }

    /// Stops new attempts from `at` on.
    pub fn enough(&mut self, at: Instant) {
        self.enough = self.enough.or(Some(at));
    }

    fn at(&self, moment: Instant) -> SpeedSegment {
        let found = self.segments.iter().rev().find(|segment| segment.at <= moment);
        *found.unwrap_or(&self.segments[0])
    }

    /// The time of the plan at `moment`.
    pub fn plan(&self, moment: Instant) -> Instant {
        let SpeedSegment { at, plan, speed, .. } = self.at(moment);
        plan + scaled(moment - at, speed)
    }

    /// The time at which the plan reaches `plan`. [`Instant::NEVER`] if it is paused before.
    pub fn moment(&self, plan: Instant) -> Instant {
        let found = self.segments.iter().rev().find(|segment| segment.plan <= plan);
        let segment = found.unwrap_or(&self.segments[0]);
        match plan - segment.plan {
            Duration::ZERO => segment.at,
            _ if segment.speed == 0.0 => Instant::NEVER,
            rest => segment.at + scaled(rest, 1.0 / segment.speed),
        }
    }

    /// Total length of the pauses up to `moment`.
    pub fn paused(&self, moment: Instant) -> Duration {
        let SpeedSegment { at, speed, paused, .. } = self.at(moment);
        if speed == 0.0 { paused + (moment - at) } else { paused }
    }

    /// The end of a load that lasts `lasts` without its pauses. [`Instant::NEVER`] during a pause.
    pub fn end(&self, lasts: Duration) -> Instant {
        let last = self.segments[self.segments.len() - 1];
        if last.speed == 0.0 && last.at - Instant::ZERO < lasts + last.paused {
            return self.enough.unwrap_or(Instant::NEVER);
        }
        let end = Instant::ZERO + (lasts + last.paused);
        self.enough.map_or(end, |enough| enough.min(end))
    }
}

/// A span multiplied by `factor`. With a factor of 1 it is exact.
fn scaled(span: Duration, factor: f64) -> Duration {
    if factor == 1.0 { span } else { Duration::from_secs_f64(span.as_secs_f64() * factor) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Instant {
        Instant::ZERO + Duration::from_secs_f64(seconds)
    }

    /// As planned for 2 s, twice as fast for 3 s, paused for 4 s, then half as fast.
    fn steered() -> PlanClock {
        let mut course = PlanClock::default();
        course.turn(at(2.0), 2.0);
        course.turn(at(5.0), 0.0);
        course.turn(at(9.0), 0.5);
        course
    }

    #[test]
    fn a_plan_is_gone_through_as_fast_as_was_said() {
        let course = steered();
        for (moment, plan) in [(1.0, 1.0), (2.0, 2.0), (3.0, 4.0), (5.0, 8.0), (9.0, 8.0), (11.0, 9.0)] {
            assert_eq!(course.plan(at(moment)), at(plan), "{moment}");
            if !(5.0..9.0).contains(&moment) {
                assert_eq!(course.moment(at(plan)), at(if plan == 8.0 { 9.0 } else { moment }));
            }
        }
        assert_eq!(course.plan(at(7.0)), at(8.0), "in a pause it stands still");
        assert_eq!(PlanClock::default().moment(at(1.5)), at(1.5));
    }

    #[test]
    fn a_pause_makes_a_load_last_longer() {
        let course = steered();
        assert_eq!(course.end(Duration::from_secs(10)), at(14.0));
        assert_eq!([5.0, 7.0, 20.0].map(|moment| course.paused(at(moment)).as_secs_f64()), [0.0, 2.0, 4.0]);
        let mut pausing = steered();
        pausing.turn(at(10.0), 0.0);
        assert_eq!(pausing.end(Duration::from_secs(10)), Instant::NEVER);
        assert_eq!(pausing.moment(at(60.0)), Instant::NEVER);
        pausing.enough(at(11.0));
        assert_eq!(pausing.end(Duration::from_secs(10)), at(11.0));
    }
}
