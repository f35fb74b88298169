//! Draws the intervals of a claim in a table, on a common scale, over the range that the claim states.

use netrig_experiment::ClaimPoint;

use netrig_core::xml::Markup;

/// The common scale for all comparisons of a claim.
pub(super) struct IntervalScale {
    low: f64,
    high: f64,
    width: f64,
}

/// The height of a drawing, pixels.
const HEIGHT: f64 = 14.0;

impl IntervalScale {
    /// A scale for these comparisons, drawn `width` pixels wide.
    pub fn new(points: &[&ClaimPoint], width: f64) -> Self {
        let ends = points.iter().flat_map(|point| {
            let [from, to] = point.claimed.unwrap_or([None, None]);
            [Some(point.estimate), point.low, point.high, from, to]
        });
        let ends = ends.flatten().filter(|v| v.is_finite());
        let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (v.min(l), v.max(h)));
        // A range that is open at one side extends beyond the last value.
        let pad = if high > low { 0.08 * (high - low) } else { 0.5 };
        Self { low: low - pad, high: high + pad, width }
    }

    fn place(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low) * self.width
    }

    /// Draws the interval as a line and the estimate as a disc. Behind them, the claimed range is drawn as a span with
    /// a stroke at each closed end.
    pub fn draw(&self, m: &mut Markup, point: &ClaimPoint) {
        let (width, middle) = (self.width, HEIGHT / 2.0);
        let mut svg = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="chart small" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" aria-hidden="true">"#
        );
        if let Some([from, to]) = point.claimed {
            let ends = [from, to].map(|end| end.map(|end| self.place(end)));
            let (left, right) = (ends[0].unwrap_or(0.0), ends[1].unwrap_or(width));
            svg += &format!(r#"<path class="claimed" d="M{left:.1} 0H{right:.1}V{HEIGHT}H{left:.1}Z"/>"#);
            for end in ends.into_iter().flatten() {
                svg += &format!(r#"<path class="axis" d="M{end:.1} 0V{HEIGHT}"/>"#);
            }
        }
        let ends = point.low.zip(point.high).filter(|(low, high)| low.is_finite() && high.is_finite());
        if let Some((low, high)) = ends.map(|(low, high)| (self.place(low), self.place(high))) {
            let top = middle - 4.0;
            svg += &format!(
                r#"<path class="judged" d="M{low:.1} {middle}H{high:.1}M{low:.1} {top}v8M{high:.1} {top}v8"/>"#
            );
        }
        if point.estimate.is_finite() {
            let x = self.place(point.estimate);
            svg += &format!(r#"<circle class="judged" cx="{x:.1}" cy="{middle}" r="3"/>"#);
        }
        m.raw(&(svg + "</svg>"));
    }
}
