//! The data of a figure, as a renderer needs them.

use crate::{Level, Point};

/// A figure with its data.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureData {
    /// Its key in the file.
    pub id: String,
    /// Its caption.
    pub title: String,
    /// The horizontal axis.
    pub x: AxisData,
    /// The vertical axis.
    pub y: AxisData,
    /// One panel for each combination of levels of the panel factors that has points. There is at least one panel. A
    /// grid has one panel for each pair of a row and a column, row by row.
    pub panels: Vec<Panel>,
    /// Its rows and columns, if it is a grid.
    pub grid: Option<Grid>,
}

/// The headings of a grid of panels. Each pair of a row and a column has one panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// The levels that each row shows.
    pub rows: Vec<Point>,
    /// The levels that each column shows. A grid with only rows has one column without levels.
    pub columns: Vec<Point>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisData {
    /// The names of the shown factors or responses: one name, or one for each response of the lines.
    pub names: Vec<String>,
    /// Its unit; `1` for a pure number.
    pub unit: String,
    /// Whether it is logarithmic.
    pub log: bool,
    /// The levels at the positions 0, 1, 2, … if they are not numbers; otherwise empty.
    pub categories: Vec<Level>,
}

/// One panel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// The levels of the panel; empty if there is only one panel.
    pub levels: Point,
    /// The measured lines.
    pub series: Vec<Series>,
    /// The values of the paper.
    pub paper: Vec<PaperSeries>,
    /// The bounds that the paper sets.
    pub thresholds: Vec<PaperThreshold>,
    /// Findings of the paper that are positions on the horizontal axis, such as a knee.
    pub abscissas: Vec<PaperAbscissa>,
    /// The curves of theories.
    pub theory: Vec<TheoryLine>,
    /// Start and end of an outage, s, for figures over time.
    pub outage: Option<(f64, Option<f64>)>,
}

/// The properties that distinguish a line of a figure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Legend {
    /// The response or the quantity; absent if all lines have the same.
    pub response: Option<String>,
    /// The factors that distinguish lines, in the order of the figure, with the line's levels.
    pub levels: Vec<(String, Level)>,
    /// The substrate; absent if all lines have the same.
    pub substrate: Option<String>,
    /// A flow, a link or a node; absent if there is only one.
    pub member: Option<String>,
    /// A path of the flow.
    pub path: Option<String>,
}

impl Legend {
    /// Whether both legends belong to the same line, except for the substrate.
    pub fn is_same_line(&self, other: &Self) -> bool {
        (&self.response, &self.levels, &self.member, &self.path)
            == (&other.response, &other.levels, &other.member, &other.path)
    }
}

/// One line of a panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The properties that distinguish it from the other lines.
    pub legend: Legend,
    /// The substrate that measured it.
    pub substrate: String,
    /// Its points, by increasing x.
    pub points: Vec<FigurePoint>,
}

/// One point with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FigurePoint {
    /// In the unit of the x axis, or the index of the category.
    pub x: f64,
    /// In the unit of the y axis.
    pub y: f64,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Number of replications.
    pub n: u32,
}

/// The paper's values that belong to a line.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperSeries {
    /// The legend of the line; it has no substrate.
    pub legend: Legend,
    /// Its values.
    pub points: Vec<PaperPoint>,
}

/// One value of the paper.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperPoint {
    /// Position on the x axis; absent if the value applies to the whole axis.
    pub x: Option<f64>,
    /// In the unit of the y axis.
    pub y: f64,
    /// Whether the text says "about".
    pub approximate: bool,
    /// Page or section of the paper.
    pub source: String,
}

/// A bound that the paper sets for the whole horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperThreshold {
    /// The response that it bounds; absent if the figure has no other.
    pub response: Option<String>,
    /// In the unit of the y axis.
    pub y: f64,
    /// Page or section of the paper.
    pub source: String,
}

/// A finding of the paper at a position on the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperAbscissa {
    /// In the unit of the x axis.
    pub x: f64,
    /// Whether the text says "about".
    pub approximate: bool,
    /// Page or section of the paper.
    pub source: String,
}

/// The curve of a theory.
#[derive(Clone, Debug, PartialEq)]
pub struct TheoryLine {
    /// The label of the curve.
    pub label: String,
    /// The line that it belongs to; absent if it belongs to all.
    pub of: Option<Legend>,
    /// Source of the formula.
    pub source: String,
    /// Its points, by increasing x. Where the formula has no value, as for an unstable queue, there is no
    /// point.
    pub points: Vec<(f64, f64)>,
}
