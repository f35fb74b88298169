//! How a load's plan is gone through: as planned, faster, slower, with pauses.

use netrig_core::{Duration, Instant};

/// From a moment on the plan is gone through at one speed.
#[derive(Clone, Copy, Debug)]
struct SpeedSegment {
    /// The moment.
    at: Instant,
    /// Where the plan is then.
    plan: Instant,
    /// How many times as fast as planned it goes on.
    speed: f64,
    /// How long the load has paused by then.
    paused: Duration,
}

/// Where the plan is at each moment. Both are counted from the beginning of the load.
#[derive(Clone, Debug)]
pub struct PlanClock {
    segments: Vec<SpeedSegment>,
    /// No more begins from then on.
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
    /// From `at` on, which is not before the last turn, it has another speed.
    pub fn turn(&mut self, at: Instant, speed: f64) {
        let (plan, paused) = (self.plan(at), self.paused(at));
        let next = SpeedSegment { at, plan, speed, paused };
        match self.segments.last_mut() {
            Some(last) if last.at == at => *last = next,
            _ => self.segments.push(next),
        }
    }

    /// No more begins from `at` on.
    pub fn enough(&mut self, at: Instant) {
        self.enough = self.enough.or(Some(at));
    }

    fn at(&self, moment: Instant) -> SpeedSegment {
        let found = self.segments.iter().rev().find(|segment| segment.at <= moment);
        *found.unwrap_or(&self.segments[0])
    }

    /// Where the plan is at `moment`.
    pub fn plan(&self, moment: Instant) -> Instant {
        let SpeedSegment { at, plan, speed, .. } = self.at(moment);
        plan + scaled(moment - at, speed)
    }

    /// When the plan is where `plan` says; [`Instant::NEVER`] if it stands still before.
    pub fn moment(&self, plan: Instant) -> Instant {
        let found = self.segments.iter().rev().find(|segment| segment.plan <= plan);
        let segment = found.unwrap_or(&self.segments[0]);
        match plan - segment.plan {
            Duration::ZERO => segment.at,
            _ if segment.speed == 0.0 => Instant::NEVER,
            rest => segment.at + scaled(rest, 1.0 / segment.speed),
        }
    }

    /// How long it has paused by `moment`.
    pub fn paused(&self, moment: Instant) -> Duration {
        let SpeedSegment { at, speed, paused, .. } = self.at(moment);
        if speed == 0.0 { paused + (moment - at) } else { paused }
    }

    /// When a load ends that lasts so long without its pauses; [`Instant::NEVER`] if it pauses now.
    pub fn end(&self, lasts: Duration) -> Instant {
        let last = self.segments[self.segments.len() - 1];
        if last.speed == 0.0 && last.at - Instant::ZERO < lasts + last.paused {
            return self.enough.unwrap_or(Instant::NEVER);
        }
        let end = Instant::ZERO + (lasts + last.paused);
        self.enough.map_or(end, |enough| enough.min(end))
    }
}

/// A span so many times as long, to the nanosecond where it is as long.
fn scaled(span: Duration, factor: f64) -> Duration {
    if factor == 1.0 { span } else { Duration::from_secs_f64(span.as_secs_f64() * factor) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Instant {
        Instant::ZERO + Duration::from_secs_f64(seconds)
    }

    /// As planned for 2 s, twice as fast for 3 s, a pause of 4 s, then half as fast.
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
