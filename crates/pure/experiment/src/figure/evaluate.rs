//! The data of a figure over the levels of a factor.

use std::collections::BTreeMap;

use netrig_stats::theory;

use super::data::{
    AxisData, FigureData, FigurePoint, Grid, Legend, Panel, PaperAbscissa, PaperPoint, PaperSeries,
    PaperThreshold, Series, TheoryLine,
};
use super::expression::Expression;
use super::spec::{Axis, FigureSpec, TheorySpec};
use crate::claim::{axis_unit, unit_of_levels};
use crate::judge::Design;
use crate::response::amount;
use crate::results::distinct;
use crate::{Amount, Factor, Level, PaperValue, Point, PointResult, Results, Status};

/// The number of positions of the x axis at which a curve is computed.
const CURVE_POINTS: usize = 121;

/// Levels by factor, for a legend or the heading of a panel.
pub(super) type PanelKey = BTreeMap<String, Level>;

impl TheorySpec {
    /// Whether the theory depends on measured values, so that its curve exists only at measured points.
    fn names_a_response(&self, design: &Design) -> bool {
        let mut names = self.parameters.values().chain(&self.plus).flat_map(Expression::names);
        names.any(|name| design.factor(name).is_none() && design.response(name).is_some())
    }
}

impl FigureSpec {
    /// The data of a figure over the levels of a factor. The data of single runs come from traces
    /// ([`FigureSpec::trace`]) or from a decoder ([`FigureSpec::watched`]).
    pub fn evaluate(&self, id: &str, design: &Design, results: &Results) -> FigureData {
        let unit = self.y.0.first().map_or("1", |response| design.unit_of(response));
        let shown: Vec<&PointResult> =
            results.points.iter().filter(|p| self.at.matches(&p.factors)).collect();
        let axis = XAxis::new(self, design, &shown);
        let panel = |key: &PanelKey| {
            let here: Vec<&PointResult> =
                shown.iter().filter(|point| has(&point.factors, key)).copied().collect();
            let paper = self.paper_of(key, &axis, unit, design);
            // A grid has a panel for each pair of a row and a column. In any other figure, levels without a point have
            // no panel.
            let is_needed = !self.rows.is_empty() || shown.is_empty() || !here.is_empty();
            (is_needed || !paper.is_empty()).then(|| Panel {
                levels: key.clone().into(),
                series: self.series_of(&here, &axis, unit, design),
                paper,
                thresholds: self.thresholds_of(key, unit, design),
                abscissas: self.abscissas_of(key, axis.unit, design),
                theory: self.theory_of(key, &here, &axis, unit, design),
                outage: None,
            })
        };
        let panels = self.panel_keys(design).iter().filter_map(panel).collect();
        let mut data = self.data(id, design, [axis.unit, unit], panels);
        if axis.numbers.is_none() {
            data.x.categories = axis.levels;
        }
        data
    }

    /// The data of the figure with these units of the axes and these panels.
    pub(super) fn data(
        &self,
        id: &str,
        design: &Design,
        [x, y]: [&str; 2],
        panels: Vec<Panel>,
    ) -> FigureData {
        let axis = |axis, names, unit: &str| AxisData {
            names,
            unit: unit.to_owned(),
            log: self.log.contains(&axis),
            categories: Vec::new(),
        };
        let headings = |factors: &[String]| self.keys(factors, design).into_iter().map(Point::from).collect();
        let is_grid = !self.rows.is_empty();
        FigureData {
            id: id.to_owned(),
            title: self.title.clone().unwrap_or_else(|| id.to_owned()),
            x: axis(Axis::X, vec![self.x.clone()], x),
            y: axis(Axis::Y, self.y.0.clone(), y),
            panels,
            grid: is_grid.then(|| Grid { rows: headings(&self.rows.0), columns: headings(&self.panels.0) }),
        }
    }

    /// The levels of each panel, row by row.
    pub(super) fn panel_keys(&self, design: &Design) -> Vec<PanelKey> {
        let factors = self.rows.0.iter().chain(&self.panels.0).cloned();
        self.keys(&factors.collect::<Vec<_>>(), design)
    }

    /// All combinations of the factors' levels that the figure shows, in the order of the file.
    pub(super) fn keys(&self, factors: &[String], design: &Design) -> Vec<PanelKey> {
        let mut keys = vec![PanelKey::new()];
        for factor in factors.iter().filter_map(|name| design.factor(name)) {
            let with = |key: &PanelKey, level: &Level| {
                let mut key = key.clone();
                key.insert(factor.name.clone(), level.clone());
                key
            };
            let levels: Vec<&Level> = self.at.levels(factor).collect();
            keys = keys
                .iter()
                .flat_map(|key| levels.iter().map(|level| with(key, level)).collect::<Vec<_>>())
                .collect();
        }
        keys
    }

    fn series_of(&self, here: &[&PointResult], axis: &XAxis, unit: &str, design: &Design) -> Vec<Series> {
        let substrates = substrates(here);
        let mut series = Vec::new();
        for substrate in &substrates {
            for response in &self.y.0 {
                let scale = amount::factor(design.unit_of(response), unit).unwrap_or(1.0);
                for key in self.keys(&self.series.0, design) {
                    let mine = here.iter().filter(|p| p.substrate == *substrate && has(&p.factors, &key));
                    let mut points: Vec<FigurePoint> =
                        mine.filter_map(|point| self.place(point, response, scale, axis)).collect();
                    points.sort_by(|a, b| a.x.total_cmp(&b.x));
                    if !points.is_empty() {
                        let legend = self.legend(&key, response, (substrates.len() > 1).then_some(substrate));
                        series.push(Series { legend, substrate: (*substrate).to_owned(), points });
                    }
                }
            }
        }
        series
    }

    fn place(&self, point: &PointResult, response: &str, scale: f64, axis: &XAxis) -> Option<FigurePoint> {
        let measured = point.responses.get(response).filter(|_| point.status == Status::Ok)?;
        Some(FigurePoint {
            x: axis.place(point.factors.level(&self.x)?)?,
            y: measured.mean? * scale,
            low: measured.low.map(|low| low * scale),
            high: measured.high.map(|high| high * scale),
            n: measured.n,
        })
    }

    pub(super) fn legend(&self, key: &PanelKey, response: &str, substrate: Option<&str>) -> Legend {
        let level = |factor: &String| Some((factor.clone(), key.get(factor)?.clone()));
        Legend {
            response: (self.y.0.len() > 1 || key.is_empty()).then(|| response.to_owned()),
            levels: self.series.0.iter().filter_map(level).collect(),
            substrate: substrate.map(str::to_owned),
            member: None,
            path: None,
        }
    }

    /// The values of the paper that the figure shows.
    fn paper_values<'a>(&'a self, design: &'a Design) -> impl Iterator<Item = &'a PaperValue> {
        self.paper.iter().zip(&design.paper).flat_map(|(group, paper)| paper.group(group))
    }

    /// The values of the paper that this panel shows, line by line.
    fn paper_of(&self, panel: &PanelKey, axis: &XAxis, unit: &str, design: &Design) -> Vec<PaperSeries> {
        let mut lines = Vec::new();
        for response in &self.y.0 {
            for key in self.keys(&self.series.0, design) {
                let fixed = self.fixed(panel, &key, design);
                let mine = |value: &&PaperValue| {
                    let of = value.response.is_empty() || value.response == *response;
                    let fits = |(factor, levels): (&String, &Vec<Level>)| {
                        *factor == self.x
                            || fixed.get(factor).is_some_and(|l| levels.iter().any(|w| w.means(l)))
                    };
                    of && value.at.0.iter().all(fits)
                };
                let points: Vec<PaperPoint> = self
                    .paper_values(design)
                    .filter(|value| !value.threshold)
                    .filter(mine)
                    .flat_map(|value| self.paper_points(value, axis, unit))
                    .collect();
                if !points.is_empty() {
                    lines.push(PaperSeries { legend: self.legend(&key, response, None), points });
                }
            }
        }
        lines
    }

    /// Whether a value of the paper belongs to a line of this panel.
    fn is_of_panel(&self, value: &PaperValue, panel: &PanelKey, design: &Design) -> bool {
        self.keys(&self.series.0, design).iter().any(|key| {
            let fixed = self.fixed(panel, key, design);
            let is_here = |(factor, levels): (&String, &Vec<Level>)| {
                fixed.get(factor).is_some_and(|level| levels.iter().any(|other| other.means(level)))
            };
            value.at.0.iter().all(is_here)
        })
    }

    /// The values of the paper that are positions on the x axis, each once for all series.
    fn abscissas_of(&self, panel: &PanelKey, unit: &str, design: &Design) -> Vec<PaperAbscissa> {
        let abscissa = |value: &PaperValue| {
            let x = value.value.in_unit(unit).ok().filter(|_| value.response == self.x)?;
            let abscissa =
                || PaperAbscissa { x, approximate: value.approximate, source: value.place.clone() };
            self.is_of_panel(value, panel, design).then(abscissa)
        };
        self.paper_values(design).filter_map(abscissa).collect()
    }

    /// The paper's bounds on the responses of this panel, each once for all series.
    fn thresholds_of(&self, panel: &PanelKey, unit: &str, design: &Design) -> Vec<PaperThreshold> {
        let shown = |value: &&PaperValue| value.response.is_empty() || self.y.contains(&value.response);
        let thresholds = self.paper_values(design).filter(|value| value.threshold).filter(shown);
        let bound = |value: &PaperValue| {
            let response = (self.y.0.len() > 1 && !value.response.is_empty()).then(|| value.response.clone());
            let y = value.value.in_unit(unit).ok()?;
            self.is_of_panel(value, panel, design).then(|| PaperThreshold {
                response,
                y,
                source: value.place.clone(),
            })
        };
        thresholds.filter_map(bound).collect()
    }

    fn paper_points(&self, value: &PaperValue, axis: &XAxis, unit: &str) -> Vec<PaperPoint> {
        let Ok(y) = value.value.in_unit(unit) else { return Vec::new() };
        let point = |x| PaperPoint { x, y, approximate: value.approximate, source: value.place.clone() };
        match value.at.0.get(&self.x) {
            Some(levels) => {
                levels.iter().filter_map(|level| axis.place(level)).map(|x| point(Some(x))).collect()
            }
            None => vec![point(None)],
        }
    }

    /// The levels that all points of a line share.
    fn fixed(&self, panel: &PanelKey, series: &PanelKey, design: &Design) -> PanelKey {
        let mut fixed: PanelKey = panel.clone();
        fixed.extend(series.clone());
        for factor in design.factors.iter().filter(|factor| factor.name != self.x) {
            let mut levels = self.at.levels(factor);
            if let (Some(only), None) = (levels.next(), levels.next()) {
                fixed.entry(factor.name.clone()).or_insert_with(|| only.clone());
            }
        }
        fixed
    }

    /// The curves of all theories in this panel. Equal curves of one theory are drawn once.
    fn theory_of(
        &self,
        panel: &PanelKey,
        here: &[&PointResult],
        axis: &XAxis,
        unit: &str,
        design: &Design,
    ) -> Vec<TheoryLine> {
        let of_one = |spec| self.lines_of_theory(spec, panel, here, axis, unit, design);
        self.theory.0.iter().flat_map(of_one).collect()
    }

    /// One curve for each series of the figure that the theory covers and, if the theory depends on measured values,
    /// for each substrate. Equal curves are drawn once.
    fn lines_of_theory<'a>(
        &self,
        spec: &TheorySpec,
        panel: &PanelKey,
        here: &[&'a PointResult],
        axis: &XAxis,
        unit: &str,
        design: &Design,
    ) -> Vec<TheoryLine> {
        let Some(curve) = theory::curve(&spec.curve) else { return Vec::new() };
        let Ok(scale) = amount::factor(curve.unit, unit) else { return Vec::new() };
        let label = spec.label.clone().unwrap_or_else(|| curve.title.to_owned());
        let substrates = substrates(here);
        let several = substrates.len() > 1;
        let mut lines: Vec<TheoryLine> = Vec::new();
        for key in self.keys(&self.series.0, design) {
            let fixed = self.fixed(panel, &key, design);
            let wanted = |(factor, levels): (&String, &Vec<Level>)| {
                fixed.get(factor).is_none_or(|level| levels.iter().any(|wanted| wanted.means(level)))
            };
            if !spec.at.0.iter().all(wanted) {
                continue;
            }
            let drawn = DrawnTheory { figure: self, spec, curve, scale, fixed, axis, design };
            let curves: Vec<(Option<&str>, Curve)> = if spec.names_a_response(design) {
                let of = |substrate: &'a str| {
                    let mine = here.iter().filter(|p| p.substrate == substrate && has(&p.factors, &key));
                    (several.then_some(substrate), drawn.at_points(mine))
                };
                substrates.iter().copied().map(of).collect()
            } else {
                vec![(None, drawn.everywhere(here))]
            };
            for (substrate, points) in curves {
                if points.is_empty() || lines.iter().any(|line| line.points == points) {
                    continue;
                }
                lines.push(TheoryLine {
                    label: label.clone(),
                    of: Some(Legend { response: None, ..self.legend(&key, "", substrate) }),
                    source: curve.source.to_owned(),
                    points,
                });
            }
        }
        if let ([only], true) = (&mut lines[..], spec.at.is_empty()) {
            only.of = None;
        }
        lines
    }
}

/// Pairs of x and y, by increasing x.
type Curve = Vec<(f64, f64)>;

/// The curve of a theory for one line of a figure.
struct DrawnTheory<'a> {
    figure: &'a FigureSpec,
    spec: &'a TheorySpec,
    curve: &'static theory::TheoryCurve,
    /// Factor that converts the unit of the curve to the unit of the figure.
    scale: f64,
    /// The levels that all points of the line share.
    fixed: PanelKey,
    axis: &'a XAxis,
    design: &'a Design,
}

impl DrawnTheory<'_> {
    /// The curve at the measured points.
    fn at_points<'a>(&self, points: impl Iterator<Item = &'a &'a PointResult>) -> Curve {
        let place = |point: &&PointResult| {
            let x = self.axis.place(point.factors.level(&self.figure.x)?)?;
            Some((x, self.value(x, Some(point))?))
        };
        let mut found: Curve = points.filter_map(place).collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        found
    }

    /// The curve along the whole axis.
    fn everywhere(&self, here: &[&PointResult]) -> Curve {
        let level = |point: &&PointResult| self.axis.place(point.factors.level(&self.figure.x)?);
        let across: Vec<f64> = here.iter().filter_map(level).collect();
        let places = self.axis.places(self.figure.log.contains(&Axis::X), &across);
        places.into_iter().filter_map(|x| Some((x, self.value(x, None)?))).collect()
    }

    fn value(&self, x: f64, measured: Option<&PointResult>) -> Option<f64> {
        let level = |name: &str| {
            if name == self.figure.x {
                Some(x * self.axis.worth)
            } else if self.design.factor(name).is_some() {
                self.fixed.get(name).and_then(Level::number)
            } else {
                mean_in_base_unit(measured?, name, self.design)
            }
        };
        let mut arguments: BTreeMap<&str, f64> = BTreeMap::new();
        if !self.spec.parameters.contains_key(self.curve.x().name) {
            arguments.insert(self.curve.x().name, x * self.axis.worth);
        }
        for (name, expression) in &self.spec.parameters {
            arguments.insert(name, expression.value(&level)?);
        }
        let plus = self.spec.plus.as_ref().map_or(Some(0.0), |plus| plus.value(&level))?;
        // The addend is in base units. Converts it to the unit of the curve.
        let plus = plus / Amount::new(1.0, self.curve.unit).map_or(1.0, |one| one.base());
        self.curve.eval(&arguments).ok().map(|y| (y + plus) * self.scale).filter(|y| y.is_finite())
    }
}

/// The distinct substrates, in the order of the points.
fn substrates<'a>(points: &[&'a PointResult]) -> Vec<&'a str> {
    distinct(points.iter().map(|point| point.substrate.as_str()))
}

/// The mean of a response at a point, in the base unit of its kind.
fn mean_in_base_unit(point: &PointResult, response: &str, design: &Design) -> Option<f64> {
    let mean = point.responses.get(response).filter(|_| point.status == Status::Ok)?.mean?;
    Some(mean * Amount::new(1.0, design.unit_of(response)).ok()?.base())
}

/// Whether a point has these levels.
pub(super) fn has(point: &Point, key: &PanelKey) -> bool {
    key.iter().all(|(factor, level)| point.level(factor) == Some(level))
}

/// The positions of levels on the x axis.
struct XAxis {
    levels: Vec<Level>,
    /// The levels as numbers in the unit of the axis; `None` if not all are numbers.
    numbers: Option<Vec<f64>>,
    unit: &'static str,
    /// Size of the axis's unit in base units.
    worth: f64,
}

impl XAxis {
    /// The axis of the selected levels, in the unit of the levels of the points `shown`.
    fn new(figure: &FigureSpec, design: &Design, shown: &[&PointResult]) -> Self {
        let none = Factor { name: String::new(), levels: Vec::new() };
        let factor = design.factor(&figure.x).unwrap_or(&none);
        let is_shown = |level: &&Level| shown.iter().any(|p| p.factors.level(&figure.x) == Some(level));
        let unit = unit_of_levels(factor.levels.iter().filter(is_shown)).unwrap_or(axis_unit(factor));
        let number = |level: &Level| level.amount()?.in_unit(unit).ok();
        let levels: Vec<Level> = figure.at.levels(factor).cloned().collect();
        let numbers: Option<Vec<f64>> = levels.iter().map(number).collect();
        let unit = if numbers.is_some() { unit } else { "1" };
        let worth = Amount::new(1.0, unit).map_or(1.0, |one| one.base());
        Self { levels, numbers, unit, worth }
    }

    fn place(&self, level: &Level) -> Option<f64> {
        let index = self.levels.iter().position(|known| known.means(level))?;
        Some(self.numbers.as_ref().map_or(index as f64, |numbers| numbers[index]))
    }

    /// Evenly spaced positions from the smallest to the largest level of the points `here`, or of all levels if there are
    /// no points. On a logarithmic axis whose smallest level is above zero, neighbouring positions have a constant ratio.
    fn places(&self, log: bool, here: &[f64]) -> Vec<f64> {
        let Some(numbers) = self.numbers.as_deref().filter(|numbers| !numbers.is_empty()) else {
            return Vec::new();
        };
        let numbers = if here.is_empty() { numbers } else { here };
        let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let share = |step: usize| step as f64 / (CURVE_POINTS - 1) as f64;
        let place = |step| match log && low > 0.0 {
            true => low * libm::pow(high / low, share(step)),
            false => low + (high - low) * share(step),
        };
        (0..CURVE_POINTS).map(place).collect()
    }
}
