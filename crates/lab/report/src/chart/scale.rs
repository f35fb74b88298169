//! The scale of an axis: the mapping from values to pixels, and the ticks.

use super::content::AxisKind;
use netrig_core::number::{as_given, tick};

/// Maps values to a span of pixels.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
    /// Tick values and their labels. A tick with an empty label has no text.
    pub ticks: Vec<(f64, String)>,
}

impl Scale {
    /// A scale that shows all `values`, from pixel `from` to pixel `to`, with about `wanted` ticks.
    pub fn new(
        kind: &AxisKind,
        values: impl Iterator<Item = f64>,
        from: f64,
        to: f64,
        wanted: usize,
    ) -> Self {
        match kind {
            AxisKind::Categories(names) => {
                let ticks = names.iter().enumerate().map(|(n, name)| (n as f64, name.clone())).collect();
                Self { low: -0.5, high: names.len() as f64 - 0.5, log: false, from, to, ticks }
            }
            AxisKind::Levels(levels) => {
                let (low, high) = apart(extent(levels.iter().copied().chain(values)).unwrap_or((0.0, 1.0)));
                let ticks = levels.iter().map(|level| (*level, as_given(*level))).collect();
                Self { low, high, log: false, from, to, ticks }
            }
            AxisKind::Log => Self::logarithmic(extent(values.filter(|v| *v > 0.0)), from, to),
            AxisKind::Linear { zero } => Self::linear(extent(values), *zero, from, to, wanted),
        }
    }

    fn linear(extent: Option<(f64, f64)>, zero: bool, from: f64, to: f64, wanted: usize) -> Self {
        let (mut low, mut high) = extent.unwrap_or((0.0, 1.0));
        if zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        (low, high) = apart((low, high));
        let step = nice_step((high - low) / wanted.max(2) as f64);
        let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
        let ticks = (first..=last).map(|n| n as f64 * step).map(|v| (v, tick(v, step))).collect();
        Self { low: first as f64 * step, high: last as f64 * step, log: false, from, to, ticks }
    }

    fn logarithmic(extent: Option<(f64, f64)>, from: f64, to: f64) -> Self {
        let (low, high) = extent.unwrap_or((1.0, 10.0));
        // Ticks of one more decade on either side, then limited to the last tick below the values and the first tick
        // above them.
        let powers = low.log10().floor() as i32 - 1..=high.log10().ceil() as i32 + 1;
        let all: Vec<f64> =
            powers.flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(power))).collect();
        let first = all.iter().rposition(|v| *v <= low * 1.000_001).unwrap_or(0);
        let last = all.iter().position(|v| *v >= high * 0.999_999).unwrap_or(all.len() - 1).max(first + 1);
        let ticks: Vec<_> = all[first..=last].iter().map(|v| (*v, tick(*v, *v))).collect();
        Self { low: all[first].log10(), high: all[last].log10(), log: true, from, to, ticks }
    }

    /// Clears labels until no two of them touch. `size` returns the space that a label needs, in pixels.
    pub fn thin(&mut self, size: impl Fn(&str) -> f64) {
        let places: Vec<_> = self.ticks.iter().map(|(v, label)| (self.place(*v), size(label))).collect();
        let touch = |a: usize, b: usize| match (places[a], places[b]) {
            ((Some(x), wide), (Some(y), other)) => (x - y).abs() < (wide + other) / 2.0,
            _ => true,
        };
        let mut kept: Vec<usize> = Vec::new();
        if !self.log && self.is_even() {
            // Tries every label, every second, every third …, counted from zero.
            let zero = self.ticks.iter().position(|(v, _)| *v == 0.0).unwrap_or(0);
            let count = self.ticks.len();
            let every = |stride: usize| (0..count).filter(move |n| n.abs_diff(zero).is_multiple_of(stride));
            let is_clear =
                |stride: &usize| every(*stride).zip(every(*stride).skip(1)).all(|(a, b)| !touch(a, b));
            kept = every((1..count).find(is_clear).unwrap_or(count.max(1))).collect();
        } else {
            // Tries one label after the other. On a logarithmic axis, powers of ten first.
            let power = |n: usize| self.ticks[n].0.log10();
            let is_power = |n: &usize| self.log && (power(*n) - power(*n).round()).abs() < 1e-6;
            let (powers, others): (Vec<usize>, Vec<usize>) = (0..self.ticks.len()).partition(is_power);
            for n in powers.into_iter().chain(others) {
                if kept.iter().all(|k| !touch(*k, n)) {
                    kept.push(n);
                }
            }
        }
        for (n, (_, label)) in self.ticks.iter_mut().enumerate() {
            if !kept.contains(&n) {
                label.clear();
            }
        }
    }

    /// Whether the ticks are equidistant.
    fn is_even(&self) -> bool {
        let steps = || self.ticks.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let first = steps().next().unwrap_or_default();
        steps().all(|step| (step - first).abs() <= 1e-6 * first.abs())
    }

    /// The pixel of a value; `None` if it cannot be shown (not a number, or not positive on a log axis).
    pub fn place(&self, value: f64) -> Option<f64> {
        let value = match self.log {
            true if value > 0.0 => value.log10(),
            true => return None,
            false => value,
        };
        let place = self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from);
        place.is_finite().then_some(place)
    }
}

/// The extent. A single value is widened on both sides.
fn apart((low, high): (f64, f64)) -> (f64, f64) {
    let half = if high == 0.0 { 0.5 } else { 0.05 * high.abs() };
    if high - low <= 1e-9 * high.abs().max(low.abs()) { (low - half, high + half) } else { (low, high) }
}

fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| v.is_finite()).fold(None, |extent, v| match extent {
        None => Some((v, v)),
        Some((low, high)) => Some((v.min(low), v.max(high))),
    })
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that is not below `rough`.
fn nice_step(rough: f64) -> f64 {
    let power = 10f64.powi(rough.log10().floor() as i32);
    let multiple = [1.0, 2.0, 2.5, 5.0].into_iter().find(|m| m * power >= rough * 0.999_999).unwrap_or(10.0);
    multiple * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(kind: &AxisKind, values: &[f64]) -> Scale {
        Scale::new(kind, values.iter().copied(), 0.0, 100.0, 5)
    }

    fn labels(kind: &AxisKind, values: &[f64]) -> Vec<String> {
        scale(kind, values).ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(
            labels(&AxisKind::Linear { zero: true }, &[61_000.0]),
            ["0", "20\u{202f}000", "40\u{202f}000", "60\u{202f}000", "80\u{202f}000"]
        );
        assert_eq!(
            labels(&AxisKind::Linear { zero: false }, &[1.16, 1.5]),
            ["1.1", "1.2", "1.3", "1.4", "1.5"]
        );
        assert_eq!(
            labels(&AxisKind::Log, &[0.02, 3.0]),
            ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"]
        );
    }

    #[test]
    fn a_single_value_has_room_around_it() {
        for kind in [AxisKind::Linear { zero: false }, AxisKind::Log] {
            let at = scale(&kind, &[5.0]).place(5.0).expect("it can be shown");
            assert!((0.0..=100.0).contains(&at), "{at}");
        }
    }

    #[test]
    fn what_cannot_be_shown_has_no_place() {
        let scale = scale(&AxisKind::Log, &[1.0, 10.0]);
        assert_eq!((scale.place(0.0), scale.place(f64::NAN)), (None, None));
        assert_eq!(scale.place(10.0), Some(100.0));
    }

    #[test]
    fn labels_that_touch_are_taken_away() {
        let shown = |scale: &Scale| -> Vec<String> {
            scale.ticks.iter().map(|(_, label)| label.clone()).filter(|label| !label.is_empty()).collect()
        };
        let mut crowded = scale(&AxisKind::Log, &[0.001, 1000.0]);
        crowded.thin(|_| 12.0);
        assert_eq!(shown(&crowded), ["0.001", "0.01", "0.1", "1", "10", "100", "1000"]);
        let mut linear = scale(&AxisKind::Linear { zero: true }, &[-40.0, 60.0]);
        linear.thin(|_| 30.0);
        assert_eq!(shown(&linear), ["−40", "0", "40"]);
    }
}
