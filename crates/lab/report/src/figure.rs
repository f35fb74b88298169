//! The chart of a figure.

use netrig_core::QuantityKind;
use netrig_experiment::{
    ClaimPoint, ClaimSpec, Expect, FigureData, FigurePoint, FigureSpec, Grid, Legend, Level, Panel,
    PaperAbscissa, PaperPoint, PaperThreshold, Point, TheoryLine, quantities,
};

use crate::Report;
use crate::chart::{self, Axis, AxisKind, Chart, ChartMark, Layer, Marks};
use crate::columns::is_asked_for;
use crate::estimate;
use crate::prose;
use crate::wording::{legend_in_words, level_in_words, levels_in_words, replications, sentence};
use netrig_core::number::{Estimate, Unit, as_given, percent};
use netrig_core::text::words;

/// The largest number of levels on an axis for which each level has a tick.
const MOST_LEVELS: usize = 12;

/// The width of a chart, pixels. Several panels need more width.
pub(crate) fn width(chart: &Chart) -> f64 {
    if chart.panels.len() > 2 { 960.0 } else { 760.0 }
}

/// The chart of a figure.
pub(crate) fn chart(report: &Report<'_>, figure: &FigureData) -> Chart {
    let builder = ChartBuilder::new(report, figure);
    let zero = builder.starts_at_zero();
    let y_axis = if figure.y.log { AxisKind::Log } else { AxisKind::Linear { zero } };
    Chart {
        title: figure.title.clone(),
        caption: builder.caption(zero),
        x: Axis { title: builder.x.heading(&shared_words(&figure.x.names)), scale: builder.x_scale() },
        y: Axis { title: builder.y.heading(&shared_words(&figure.y.names)), scale: y_axis },
        series: builder.legend(),
        theory: builder.theory(),
        panels: figure.panels.iter().map(|panel| builder.panel(panel)).collect(),
        grid: figure.grid.as_ref().map(ChartBuilder::grid),
        note: builder.spec.and_then(|spec| spec.note.as_deref()).map(prose::plain).unwrap_or_default(),
    }
}

/// The title of an axis with several responses: the last words that all names have in common. If there are none, all
/// names. The legend names each response.
fn shared_words(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| words(name)).collect();
    let mut names_in_words = names.iter().map(|name| name.split(' ').rev().collect::<Vec<_>>());
    let mut shared = names_in_words.next().unwrap_or_default();
    for name in names_in_words {
        let same = shared.iter().zip(&name).take_while(|(a, b)| a == b).count();
        shared.truncate(same);
    }
    if shared.is_empty() { names.join(", ") } else { shared.into_iter().rev().collect::<Vec<_>>().join(" ") }
}

/// Whether there is anything to draw.
pub(crate) fn is_empty(figure: &FigureData) -> bool {
    figure.panels.iter().all(|panel| panel.series.is_empty() && panel.paper.is_empty())
}

struct ChartBuilder<'a> {
    report: &'a Report<'a>,
    figure: &'a FigureData,
    spec: Option<&'a FigureSpec>,
    x: Unit,
    y: Unit,
    /// The legends of the series of all panels, each once, in the order of their first appearance.
    legends: Vec<&'a Legend>,
}

/// The share of the largest value below which a difference of values counts as small.
const HARDLY: f64 = 0.02;

impl<'a> ChartBuilder<'a> {
    fn new(report: &'a Report<'a>, figure: &'a FigureData) -> Self {
        let spec = report.experiment.design.figure(&figure.id);
        let mut legends: Vec<&Legend> = Vec::new();
        let all = figure.panels.iter().flat_map(|panel| {
            panel.series.iter().map(|s| &s.legend).chain(panel.paper.iter().map(|p| &p.legend))
        });
        for legend in all {
            if !legends.contains(&legend) {
                legends.push(legend);
            }
        }
        let asked = spec.is_some_and(|spec| spec.y.0.iter().any(|response| is_asked_for(report, response)));
        let y =
            if asked { Unit::fixed(&figure.y.unit) } else { Unit::fitting(&figure.y.unit, values(figure)) };
        Self { report, figure, spec, x: Unit::fixed(&figure.x.unit), y, legends }
    }

    fn x_scale(&self) -> AxisKind {
        let categories = &self.figure.x.categories;
        match (categories.is_empty(), self.figure.x.log) {
            (false, _) => AxisKind::Categories(categories.iter().map(Level::to_string).collect()),
            (true, true) => AxisKind::Log,
            (true, false) => match self.levels() {
                Some(levels) => AxisKind::Levels(levels),
                None => AxisKind::Linear { zero: false },
            },
        }
    }

    /// The levels on the horizontal axis. `None` if they are too many to have a tick each.
    fn levels(&self) -> Option<Vec<f64>> {
        if self.spec.is_some_and(FigureSpec::is_of_runs) {
            return None;
        }
        let mut levels: Vec<f64> = self.figure.panels.iter().flat_map(values_across).collect();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        (1..=MOST_LEVELS).contains(&levels.len()).then_some(levels)
    }

    /// Whether the vertical axis starts at zero. It does if the smallest values are near zero, or if the values differ
    /// by little, because magnified noise would look like an effect. If all values are far above zero and differ, an
    /// axis from zero would compress their differences. Then the caption says that the axis does not start at zero.
    fn starts_at_zero(&self) -> bool {
        let low = values(self.figure).fold(f64::INFINITY, f64::min);
        let high = values(self.figure).fold(f64::NEG_INFINITY, f64::max);
        low >= 0.0 && (low < 0.5 * high || high - low < HARDLY * high)
    }

    fn legend(&self) -> Vec<String> {
        let others = self
            .figure
            .panels
            .iter()
            .any(|panel| !panel.paper.is_empty() || !self.dashed_of(panel).is_empty());
        match self.legends[..] {
            [_] if others => vec!["measured".to_owned()],
            [_] => vec![String::new()],
            _ => self.legends.iter().map(|legend| legend_in_words(legend)).collect(),
        }
    }

    /// The names of the dashed lines, each once: theory curves, and the paper's thresholds.
    fn theory(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (name, _) in self.figure.panels.iter().flat_map(|panel| self.dashed_of(panel)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The dashed lines of a panel, with their names.
    fn dashed_of(&self, panel: &Panel) -> Vec<(String, Layer)> {
        let marks = Marks::Theory(0);
        let curve = |line: &TheoryLine| {
            let is_of = |legend: &Legend| {
                line.of.as_ref().is_some_and(|of| {
                    let is_there = of.substrate.is_none() || of.substrate == legend.substrate;
                    is_there && !of.levels.is_empty() && of.levels == legend.levels
                })
            };
            let of_series = panel.series.iter().find(|series| is_of(&series.legend));
            let series = of_series.and_then(|series| self.series(&series.legend));
            let points = line.points.iter().map(|(x, y)| ChartMark::at(*x, self.y.convert(*y))).collect();
            (line.label.clone(), Layer { series, marks, points })
        };
        let bound = |bound: &PaperThreshold| {
            let of = bound
                .response
                .as_deref()
                .map_or(String::new(), |response| format!(" of {}", words(response)));
            let value = self.y.behind(&as_given(self.y.convert(bound.y)));
            let source = if bound.source.is_empty() { String::new() } else { format!(" ({})", bound.source) };
            let is_of = |legend: &&&Legend| bound.response.is_some() && legend.response == bound.response;
            let series = self.legends.iter().find(is_of).and_then(|legend| self.series(legend));
            let (first, last) = ends(values_across(panel));
            let points = [first, last].map(|x| ChartMark::at(x, self.y.convert(bound.y))).to_vec();
            (format!("threshold{of}, {value}{source}"), Layer { series, marks, points })
        };
        panel.theory.iter().map(curve).chain(panel.thresholds.iter().map(bound)).collect()
    }

    /// The caption: constant levels, n, and the meaning of the error bars.
    fn caption(&self, zero: bool) -> String {
        let mut parts = Vec::new();
        let fixed = self.spec.into_iter().flat_map(|spec| &spec.at.0).filter_map(|(factor, levels)| {
            match &levels[..] {
                [only] => Some(level_in_words(factor, only)),
                _ => None,
            }
        });
        let fixed: Vec<String> = fixed.collect();
        if !fixed.is_empty() {
            parts.push(fixed.join(", "));
        }
        let points =
            || self.figure.panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
        let trace = self.spec.is_some_and(FigureSpec::is_of_runs);
        if trace {
            parts.push("single runs".to_owned());
        } else if let Some(n) = replications(points().map(|point| point.n)) {
            parts.push(format!("replications at each point: {n}"));
        }
        if points().any(|point| point.low.is_some()) {
            parts.push(format!("bars: {} intervals", percent(self.report.results.confidence)));
            if self.figure.y.log && points().any(|point| point.low.is_some_and(|low| low <= 0.0)) {
                parts.push("a bar without a foot reaches 0 or below".to_owned());
            }
        }
        for finding in self.figure.panels.iter().flat_map(|panel| self.abscissas(panel, false)) {
            let words = format!("{}, which is off the axis", self.abscissa_in_words(finding));
            if !parts.contains(&words) {
                parts.push(words);
            }
        }
        if !trace && !zero && !self.figure.y.log && values(self.figure).all(|v| v > 0.0) {
            parts.push("the vertical axis does not start at zero".to_owned());
        }
        sentence(&parts.join("; "))
    }

    fn panel(&self, panel: &Panel) -> chart::Panel {
        let (mut layers, curves): (Vec<Layer>, _) = (Vec::new(), self.theory());
        for (name, layer) in self.dashed_of(panel) {
            let place = curves.iter().position(|curve| *curve == name).unwrap_or(0);
            layers.push(Layer { marks: Marks::Theory(place), ..layer });
        }
        for line in &panel.paper {
            let series = self.series(&line.legend);
            let across = |point: &&PaperPoint| point.x.is_none();
            let (levels, points): (Vec<_>, Vec<_>) = line.points.iter().partition(across);
            for (marks, points) in [(Marks::PaperLevel, levels), (Marks::Paper, points)] {
                if !points.is_empty() {
                    layers.push(Layer {
                        series,
                        marks,
                        points: points.into_iter().map(|p| self.paper(p)).collect(),
                    });
                }
            }
        }
        for series in &panel.series {
            let points = series.points.iter().map(|point| self.measured(point)).collect();
            layers.push(Layer { series: self.series(&series.legend), marks: self.marks(), points });
        }
        let end = || values_across(panel).fold(0.0, f64::max);
        let outage = panel.outage.map(|(from, to)| (from, to.unwrap_or_else(end), "link down".to_owned()));
        let span = |finding: &PaperAbscissa| (finding.x, finding.x, self.abscissa_in_words(finding));
        let findings = self.abscissas(panel, true).map(span);
        let spans = outage.into_iter().chain(self.knees(panel)).chain(findings).collect();
        chart::Panel { title: levels_in_words(&panel.levels), layers, spans }
    }

    /// The paper's results that are positions on the horizontal axis. If `is_among`, those within the drawn range,
    /// otherwise those outside it.
    fn abscissas<'p>(&self, panel: &'p Panel, is_among: bool) -> impl Iterator<Item = &'p PaperAbscissa> {
        let (first, last) = ends(self.figure.panels.iter().flat_map(values_across));
        panel.abscissas.iter().filter(move |finding| (first..=last).contains(&finding.x) == is_among)
    }

    fn abscissa_in_words(&self, finding: &PaperAbscissa) -> String {
        let about = if finding.approximate { "≈ " } else { "" };
        let source = if finding.source.is_empty() { String::new() } else { format!(" ({})", finding.source) };
        format!("the paper has {about}{}{source}", self.x.behind(&as_given(finding.x)))
    }

    /// The intervals of the knees that were found for claims about this figure.
    fn knees(&self, panel: &Panel) -> Vec<(f64, f64, String)> {
        let is_here = |spec: &ClaimSpec| {
            let is_across = self.spec.is_some_and(|figure| spec.over.as_ref() == Some(&figure.x));
            spec.expect == Expect::Knee && spec.figure.as_ref() == Some(&self.figure.id) && is_across
        };
        let design = &self.report.experiment.design;
        let claims = self.report.results.claims.iter();
        let claims = claims.filter(|claim| design.claim(&claim.id).is_some_and(is_here));
        // A point of the claim that belongs to another panel has other levels than this panel.
        let of_panel = |place: &&ClaimPoint| {
            panel
                .levels
                .levels()
                .iter()
                .all(|(factor, level)| place.factors.get(factor).is_none_or(|own| own == level))
        };
        let span = |place: &ClaimPoint| {
            let unit = Unit::fitting(&self.figure.x.unit, [place.estimate]);
            let words = unit.behind(&estimate::of_claim(place)?.written(&unit).to_string());
            place.low.zip(place.high).map(|(low, high)| (low, high, format!("knee: {words}")))
        };
        claims.flat_map(|claim| claim.points.iter().filter(of_panel).filter_map(span)).collect()
    }

    fn grid(grid: &Grid) -> chart::PanelGrid {
        let headings = |points: &[Point]| points.iter().map(levels_in_words).collect();
        chart::PanelGrid { rows: headings(&grid.rows), columns: headings(&grid.columns) }
    }

    fn marks(&self) -> Marks {
        let Some(spec) = self.spec.filter(|spec| spec.is_of_runs()) else { return Marks::Measured };
        let traced = quantities().find(|quantity| spec.y.contains(quantity.name));
        match traced.map(|quantity| quantity.kind) {
            Some(QuantityKind::Mark | QuantityKind::Value) => Marks::Events,
            _ => Marks::Trace,
        }
    }

    /// The index of a series in the legend. Values of a paper have no substrate, so they belong to the first match.
    fn series(&self, legend: &Legend) -> Option<usize> {
        let exactly = self.legends.iter().position(|known| *known == legend);
        exactly.or_else(|| self.legends.iter().position(|known| known.is_same_line(legend)))
    }

    fn measured(&self, point: &FigurePoint) -> ChartMark {
        let interval = point.low.zip(point.high);
        let says = Estimate { value: point.y, interval, n: point.n }.says(&self.y);
        let interval = shown_low(point).zip(point.high);
        let interval = interval.map(|(low, high)| (self.y.convert(low), self.y.convert(high)));
        ChartMark {
            x: point.x,
            y: self.y.convert(point.y),
            interval,
            says: format!("{}: {says}", self.at(point.x)),
        }
    }

    fn paper(&self, point: &PaperPoint) -> ChartMark {
        let about = if point.approximate { "≈ " } else { "" };
        let value = self.y.behind(&as_given(self.y.convert(point.y)));
        let source = if point.source.is_empty() { String::new() } else { format!(" ({})", point.source) };
        let at = point.x.map_or_else(|| "everywhere".to_owned(), |x| self.at(x));
        let says = format!("{at}: the paper has {about}{value}{source}");
        // A value for the whole axis has no horizontal position.
        ChartMark { x: point.x.unwrap_or(f64::NAN), y: self.y.convert(point.y), interval: None, says }
    }

    /// The horizontal position of a point, in words.
    fn at(&self, x: f64) -> String {
        match self.figure.x.categories.get(x as usize) {
            Some(level) => level.to_string(),
            None => format!("{} {}", shared_words(&self.figure.x.names), self.x.behind(&as_given(x))),
        }
    }
}

/// All values on the vertical axis of a figure.
fn values(figure: &FigureData) -> impl Iterator<Item = f64> {
    figure.panels.iter().flat_map(|panel| {
        let measured = panel.series.iter().flat_map(|series| &series.points);
        let measured = measured.flat_map(|p| [Some(p.y), shown_low(p), p.high]).flatten();
        let paper = panel.paper.iter().flat_map(|paper| &paper.points).map(|p| p.y);
        let thresholds = panel.thresholds.iter().map(|bound| bound.y);
        measured.chain(paper).chain(thresholds).filter(|v| v.is_finite())
    })
}

/// The lower end of an interval as drawn. Metrics are not negative, so an interval below zero must not extend the axis.
fn shown_low(point: &FigurePoint) -> Option<f64> {
    point.low.map(|low| if point.y >= 0.0 { low.max(0.0) } else { low })
}

/// The smallest and the largest value.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// All values on the horizontal axis of a panel.
fn values_across(panel: &Panel) -> impl Iterator<Item = f64> {
    panel.series.iter().flat_map(|series| series.points.iter().map(|point| point.x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_of_several_responses_has_the_words_that_all_end_in() {
        let shared =
            |names: &[&str]| shared_words(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(shared(&["connection_delay", "answer_signal_delay", "disconnect_delay"]), "delay");
        assert_eq!(shared(&["set-up_delay", "set-up_delay"]), "set-up delay");
        assert_eq!(shared(&["before", "during", "after"]), "before, during, after");
        assert_eq!(shared(&["goodput"]), "goodput");
    }
}
