//! The content of the panels: marks, intervals, lines, traces.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::canvas::{Canvas, put};
use super::content::{AxisKind, Chart, ChartMark, Layer, Marks};
use super::layout::PanelFrame;

/// The distance below which two marks touch, pixels.
const TOUCH: f64 = 9.0;

/// Draws the layers of a chart's panels.
pub(super) struct Marker {
    /// The horizontal offset between two series if their marks would overlap, pixels. 0 if they do not.
    apart: f64,
    /// Measured series, in the order of their offsets.
    beside: Vec<usize>,
    /// Whether a line may join the marks. False for categories, which have no values between them.
    joins: bool,
}

/// A mark with its position in pixels.
type Placed<'a> = (f64, f64, &'a ChartMark);

impl Marker {
    pub fn new(chart: &Chart, frames: &[PanelFrame]) -> Self {
        let measured = || {
            let panels = chart.panels.iter().zip(frames);
            panels.flat_map(|(panel, frame)| panel.layers.iter().map(move |layer| (layer, frame)))
        };
        let measured = || measured().filter(|(layer, _)| layer.marks == Marks::Measured);
        let beside: BTreeSet<usize> = measured().filter_map(|(layer, _)| layer.series).collect();
        let words = matches!(chart.x.scale, AxisKind::Categories(_));
        // The marks of one level must be closer to each other than to the next level.
        let nearest = measured().map(|(layer, frame)| spacing(layer, frame)).fold(f64::INFINITY, f64::min);
        let room =
            nearest.min(frames.first().map_or(0.0, |frame| frame.area.width)) / beside.len().max(1) as f64;
        let apart = if words { (0.6 * room).min(16.0) } else { (0.4 * room).min(5.0) };
        let needed =
            words || chart.panels.iter().zip(frames).any(|(panel, frame)| overlap(&panel.layers, frame));
        let apart = if needed && beside.len() > 1 && apart >= 1.5 { apart } else { 0.0 };
        Self { apart, beside: beside.into_iter().collect(), joins: !words }
    }

    fn offset(&self, series: Option<usize>) -> f64 {
        let middle = (self.beside.len() as f64 - 1.0) / 2.0;
        self.beside.iter().position(|s| Some(*s) == series).map_or(0.0, |n| (n as f64 - middle) * self.apart)
    }

    pub fn layer(&self, canvas: &mut Canvas, layer: &Layer, frame: &PanelFrame) {
        let n = layer.series;
        let offset = if matches!(layer.marks, Marks::Measured | Marks::Paper) { self.offset(n) } else { 0.0 };
        let placed = placed(layer, frame).map(|(x, y, mark)| (x + offset, y, mark));
        let placed: Vec<_> = placed.collect();
        match n {
            Some(n) => {
                put!(canvas, r#"<g class="series" data-series="{n}">"#);
            }
            None => canvas.out.push_str("<g class=\"series\">\n"),
        }
        match layer.marks {
            Marks::Measured => {
                if self.joins {
                    canvas.line(n, "line", &placed, r#" stroke-width="1.8""#);
                }
                for (x, _, mark) in &placed {
                    canvas.interval(n, *x, mark, frame);
                }
                for (x, y, mark) in &placed {
                    canvas.shape(n, (*x, *y), true, &mark.says);
                }
            }
            Marks::Paper => {
                for (x, y, mark) in &placed {
                    canvas.shape(n, (*x, *y), false, &mark.says);
                }
            }
            Marks::PaperLevel => canvas.levels(layer, frame),
            Marks::Theory(curve) => {
                let inside: Vec<_> = placed.into_iter().filter(|(_, y, _)| frame.area.has(*y)).collect();
                canvas.line(
                    n,
                    "theory",
                    &inside,
                    &format!(
                        r#"{} stroke-dasharray="{}""#,
                        canvas.paint("stroke-width", "1.6"),
                        dashes(curve)
                    ),
                );
            }
            Marks::Trace => canvas.steps(n, &thinned(&placed)),
            Marks::Bars => canvas.bars(n, &distinct(&placed), frame),
            Marks::Events => {
                for (x, y, mark) in distinct(&placed) {
                    canvas.shape(n, (x, y), true, &mark.says);
                }
            }
        }
        canvas.out.push_str("</g>\n");
    }
}

/// The dash pattern of a theory curve, by its index.
pub(super) fn dashes(curve: usize) -> &'static str {
    const DASHES: [&str; 4] = ["6 4", "2 3", "10 3 2 3", "14 5"];
    DASHES[curve % DASHES.len()]
}

fn placed<'a>(layer: &'a Layer, frame: &'a PanelFrame) -> impl Iterator<Item = Placed<'a>> {
    layer.points.iter().filter_map(|mark| Some((frame.x.place(mark.x)?, frame.y.place(mark.y)?, mark)))
}

/// The distance between the two nearest levels of a layer, pixels.
fn spacing(layer: &Layer, frame: &PanelFrame) -> f64 {
    let mut across: Vec<f64> = placed(layer, frame).map(|(x, ..)| x).collect();
    across.sort_by(f64::total_cmp);
    across.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0).fold(f64::INFINITY, f64::min)
}

/// Whether marks or intervals of two measured series overlap.
fn overlap(layers: &[Layer], frame: &PanelFrame) -> bool {
    let measured = || layers.iter().filter(|layer| layer.marks == Marks::Measured);
    let extents = || {
        measured().flat_map(|layer| placed(layer, frame).map(|one| (one.0, extent(one, frame), layer.series)))
    };
    extents().any(|(x, (top, bottom), series)| {
        extents().any(|(u, (t, b), other)| other > series && (x - u).abs() < 2.0 && t < bottom && top < b)
    })
}

/// The highest and the lowest pixel of a mark and its interval.
fn extent((_, y, mark): Placed<'_>, frame: &PanelFrame) -> (f64, f64) {
    let foot = frame.area.top + frame.area.height;
    let ends = mark
        .interval
        .and_then(|(low, high)| Some((frame.y.place(high)?, frame.y.place(low).unwrap_or(foot))));
    let (top, bottom) = ends.map_or((y, y), |(high, low)| (high.min(y), low.max(y)));
    (top - TOUCH / 2.0, bottom + TOUCH / 2.0)
}

/// The vertical ranges (top, bottom) that a layer occupies between two horizontal pixels: its marks with their intervals, and the
/// lines between them.
pub(super) fn taken(layer: &Layer, frame: &PanelFrame, (left, right): (f64, f64)) -> Vec<(f64, f64)> {
    if layer.marks == Marks::PaperLevel {
        let levels = layer.points.iter().filter_map(|mark| frame.y.place(mark.y));
        return levels.map(|y| (y - 1.0, y + 1.0)).collect();
    }
    let placed: Vec<_> = placed(layer, frame).collect();
    let marks = placed.iter().filter(|(x, ..)| (left - TOUCH..=right + TOUCH).contains(x));
    let marks = marks.map(|one| extent(*one, frame));
    let lines = placed.windows(2).filter_map(|pair| {
        let [(from, y, _), (to, z, _)] = pair else { return None };
        let at = |x: f64| y + (z - y) * (x.clamp(*from, *to) - from) / (to - from).max(f64::MIN_POSITIVE);
        let (a, b) = (at(left), at(right));
        (*from < right && *to > left).then_some((a.min(b), a.max(b)))
    });
    marks.chain(lines).collect()
}

/// At most four marks for each column of pixels: the first, the lowest, the highest and the last. The drawn line does
/// not change.
fn thinned<'a>(placed: &[Placed<'a>]) -> Vec<Placed<'a>> {
    let mut out = Vec::new();
    for column in placed.chunk_by(|a, b| a.0.floor() == b.0.floor()) {
        if column.len() <= 4 {
            out.extend_from_slice(column);
            continue;
        }
        let place = |better: fn(f64, f64) -> bool| {
            (1..column.len()).fold(0, |best, n| if better(column[n].1, column[best].1) { n } else { best })
        };
        let kept = BTreeSet::from([0, place(|a, b| a < b), place(|a, b| a > b), column.len() - 1]);
        out.extend(kept.into_iter().map(|n| column[n]));
    }
    out
}

/// At most one mark for each pixel.
fn distinct<'a>(placed: &[Placed<'a>]) -> Vec<Placed<'a>> {
    let mut seen = BTreeSet::new();
    placed.iter().copied().filter(|(x, y, _)| seen.insert((x.round() as i64, y.round() as i64))).collect()
}

impl Canvas {
    fn levels(&mut self, layer: &Layer, frame: &PanelFrame) {
        let (left, right) = (frame.area.left, frame.area.left + frame.area.width);
        let (stroke, _, hue) = self.ink(layer.series);
        let (width, hollow) = (self.paint("stroke-width", "1.4"), self.paint("fill", "none"));
        for mark in &layer.points {
            let Some(y) = frame.y.place(mark.y) else { continue };
            put!(
                self,
                r#"<path class="level line {hue}" d="M{left:.1} {y:.1}H{right:.1}"{stroke}{width} stroke-dasharray="1.5 4"{hollow}/>"#
            );
            self.shape(layer.series, (right - 8.0, y), false, &mark.says);
        }
    }

    fn line(&mut self, n: Option<usize>, class: &str, placed: &[Placed<'_>], extra: &str) {
        if placed.len() < 2 {
            return;
        }
        let (stroke, _, hue) = self.ink(n);
        let (hollow, round) = (self.paint("fill", "none"), self.paint("stroke-linejoin", "round"));
        let points: Vec<_> = placed.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
        put!(
            self,
            r#"<polyline class="{class} {hue}" points="{}"{hollow}{stroke}{extra}{round}/>"#,
            points.join(" ")
        );
    }

    fn steps(&mut self, n: Option<usize>, placed: &[Placed<'_>]) {
        let Some((x, y, _)) = placed.first() else { return };
        let mut path = format!("M{x:.1} {y:.1}");
        for (x, y, _) in &placed[1..] {
            let _ = write!(path, "H{x:.1}V{y:.1}");
        }
        let (stroke, _, hue) = self.ink(n);
        let (hollow, round) = (self.paint("fill", "none"), self.paint("stroke-linejoin", "round"));
        put!(self, r#"<path class="line {hue}" d="{path}"{hollow}{stroke} stroke-width="1.5"{round}/>"#);
    }

    /// Draws an interval. If its lower end is not on the axis (such as 0 on a logarithmic axis), it extends to the
    /// frame and has no foot.
    fn interval(&mut self, n: Option<usize>, x: f64, mark: &ChartMark, frame: &PanelFrame) {
        let Some((low, high)) = mark.interval else { return };
        let Some(high) = frame.y.place(high) else { return };
        let (left, right) = (x - 4.0, x + 4.0);
        let (low, foot) = match frame.y.place(low) {
            Some(low) => (low, format!("M{left:.1} {low:.1}H{right:.1}")),
            None => (frame.area.top + frame.area.height, String::new()),
        };
        let (stroke, _, hue) = self.ink(n);
        let (width, hollow) = (self.paint("stroke-width", "1.4"), self.paint("fill", "none"));
        put!(
            self,
            r#"<path class="interval line {hue}" d="M{x:.1} {low:.1}V{high:.1}{foot}M{left:.1} {high:.1}H{right:.1}"{stroke}{width}{hollow}/>"#
        );
    }

    /// Draws bars over the intervals of the marks as one path. The shortest bars remain visible.
    fn bars(&mut self, n: Option<usize>, placed: &[Placed<'_>], frame: &PanelFrame) {
        let mut path = String::new();
        for (x, y, mark) in placed {
            let (top, bottom) = extent((*x, *y, mark), frame);
            let (top, bottom) = (top + TOUCH / 2.0 - 1.0, bottom - TOUCH / 2.0 + 1.0);
            let _ = write!(path, "M{x:.1} {bottom:.1}V{top:.1}");
        }
        let ((stroke, _, hue), hollow) = (self.ink(n), self.paint("fill", "none"));
        put!(self, r#"<path class="line {hue}" d="{path}"{hollow}{stroke} stroke-width="2.2"/>"#);
    }

    /// Draws a mark of series `n`. Each series has its own shape and its own colour.
    pub(super) fn shape(&mut self, n: Option<usize>, (x, y): (f64, f64), filled: bool, says: &str) {
        let (stroke, colour, hue) = self.ink(n);
        // A mark without a series is a disc.
        let n = n.unwrap_or(0);
        let r = if filled { 3.8 } else { 6.5 };
        let d = outline(n, x, y, r);
        // The sixth shape is a cross, which has no area to fill.
        let (class, fill) = match (filled, n % SHAPES == CROSS) {
            (true, false) => ("mark", colour),
            (true, true) => ("mark cross", "none"),
            (false, _) => ("paper", "none"),
        };
        let (fill, width, tip) =
            (self.paint("fill", fill), self.paint("stroke-width", "1.6"), self.tip(says));
        put!(self, r#"<path class="{class} {hue}" d="{d}"{fill}{stroke}{width}>{tip}</path>"#);
    }
}

const SHAPES: usize = 6;
const CROSS: usize = 5;

/// The outline of the `n`-th shape: disc, square, triangle, diamond, triangle upside down, cross.
fn outline(n: usize, x: f64, y: f64, r: f64) -> String {
    match n % SHAPES {
        0 => format!("M{:.1} {y:.1}a{r} {r} 0 1 0 {:.1} 0a{r} {r} 0 1 0 {:.1} 0Z", x - r, 2.0 * r, -2.0 * r),
        1 => format!("M{:.1} {:.1}h{:.1}v{:.1}h{:.1}Z", x - r, y - r, 2.0 * r, 2.0 * r, -2.0 * r),
        2 => format!("M{x:.1} {:.1}l{:.1} {:.1}h{:.1}Z", y - 1.2 * r, 1.15 * r, 2.0 * r, -2.3 * r),
        3 => {
            let d = 1.3 * r;
            format!("M{x:.1} {:.1}l{d:.1} {d:.1}l{:.1} {d:.1}l{:.1} {:.1}Z", y - d, -d, -d, -d)
        }
        4 => format!("M{x:.1} {:.1}l{:.1} {:.1}h{:.1}Z", y + 1.2 * r, 1.15 * r, -2.0 * r, -2.3 * r),
        _ => {
            let (left, right, top, bottom) = (x - r, x + r, y - r, y + r);
            format!("M{left:.1} {top:.1}L{right:.1} {bottom:.1}M{right:.1} {top:.1}L{left:.1} {bottom:.1}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_trace_keeps_its_extremes_in_every_column() {
        let marks: Vec<ChartMark> =
            (0..100_000).map(|n| ChartMark::at(f64::from(n), f64::from(n * 7919 % 1000))).collect();
        let placed: Vec<Placed<'_>> = marks.iter().map(|mark| (mark.x / 1000.0, mark.y, mark)).collect();
        let kept = thinned(&placed);
        assert!(kept.len() <= 400, "{}", kept.len());
        let extremes = |marks: &[Placed<'_>]| {
            marks
                .chunk_by(|a, b| a.0.floor() == b.0.floor())
                .map(|column| {
                    let ys = column.iter().map(|(_, y, _)| *y);
                    (ys.clone().fold(f64::INFINITY, f64::min), ys.fold(0.0, f64::max))
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(extremes(&kept), extremes(&placed));
    }
}
