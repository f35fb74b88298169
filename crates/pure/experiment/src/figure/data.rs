//! The data of a drawn figure.

use std::fmt;

use serde::Serialize;

use crate::{Level, Point};

/// A figure with its data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureData {
    /// Its key in the file.
    pub id: String,
    /// Its caption.
    pub title: String,
    /// The horizontal axis.
    pub x: AxisData,
    /// The vertical axis.
    pub y: AxisData,
    /// One panel for each combination of the panel factors' levels that has points; at least one. A grid has
    /// one panel for each pair of its headings, row by row.
    pub panels: Vec<Panel>,
    /// Its rows and columns, if it is a grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid: Option<Grid>,
}

/// The headings of a grid of panels, which has one panel for each pair of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grid {
    /// The levels of each row.
    pub rows: Vec<Point>,
    /// The levels of each column. If the grid has only rows, one column without levels.
    pub columns: Vec<Point>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AxisData {
    /// The names of what it shows: one name, or the responses of several lines.
    pub names: Vec<String>,
    /// Its unit; `1` for a pure number.
    pub unit: String,
    /// Whether it is logarithmic.
    pub log: bool,
    /// The labels at 0, 1, 2, … if its levels are no numbers; otherwise empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
}

/// One panel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Panel {
    /// The levels of the panel; empty if there is only one panel.
    pub levels: Point,
    /// The measured lines.
    pub series: Vec<Series>,
    /// The values of the paper.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paper: Vec<PaperSeries>,
    /// The bounds that the paper sets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<PaperThreshold>,
    /// Positions on the horizontal axis of findings of the paper, such as a knee.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PaperPlace>,
    /// The curves of theories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub theory: Vec<TheoryLine>,
    /// Start and end of an outage, s, for figures over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage: Option<(f64, Option<f64>)>,
}

/// The properties that distinguish a line of a figure. It stays data until it is drawn, because a level may
/// hold any character.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Legend {
    /// The response or the quantity; absent if all lines have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// The factors that distinguish lines, in the order of the figure, with the line's levels.
    pub levels: Vec<(String, Level)>,
    /// The substrate; absent if all lines have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub substrate: Option<String>,
    /// A flow, a path or a member of a group; absent if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

impl Legend {
    /// The legend in words. `level` formats each level.
    pub fn in_words(
        &self,
        response: impl Fn(&str) -> String,
        level: impl Fn(&str, &Level) -> String,
    ) -> String {
        // A factor may already state the response of a point.
        let is_stated =
            |name: &&String| self.levels.first().is_some_and(|(_, level)| level.text() == name.as_str());
        let response = self.response.as_ref().filter(|name| !is_stated(name)).map(|name| response(name));
        let levels = self.levels.iter().map(|(factor, own)| level(factor, own));
        let mut words = response.into_iter().chain(levels).collect::<Vec<_>>().join(", ");
        if let Some(substrate) = &self.substrate {
            words += &format!(" ({substrate})");
        }
        match &self.part {
            Some(part) => format!("{words}, {part}"),
            None => words,
        }
    }

    /// Whether both belong to the same line, on whatever substrate.
    pub fn is_same_line(&self, other: &Self) -> bool {
        (&self.response, &self.levels, &self.part) == (&other.response, &other.levels, &other.part)
    }
}

impl fmt::Display for Legend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(str::to_owned, |_, level| level.to_string()))
    }
}

/// One line of a panel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Its distinguishing properties.
    pub legend: Legend,
    /// The substrate that measured it.
    pub substrate: String,
    /// Its points, by increasing x.
    pub points: Vec<FigurePoint>,
}

/// One point with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FigurePoint {
    /// In the unit of the x axis, or the index of the category.
    pub x: f64,
    /// In the unit of the y axis.
    pub y: f64,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Number of replications behind it.
    pub n: u32,
}

/// The paper's values that belong to a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PaperSeries {
    /// The legend of the line; it has no substrate.
    pub legend: Legend,
    /// Its values.
    pub points: Vec<PaperPoint>,
}

/// One value of the paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PaperPoint {
    /// Position on the x axis; absent if the value holds for the whole axis.
    pub x: Option<f64>,
    /// In the unit of the y axis.
    pub y: f64,
    /// Whether the text says "about".
    pub approximate: bool,
    /// Page or section of the paper.
    pub place: String,
}

/// A bound that the paper sets for the whole horizontal axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PaperThreshold {
    /// The response that it bounds; absent if the figure has no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// In the unit of the y axis.
    pub y: f64,
    /// Page or section of the paper.
    pub place: String,
}

/// A finding of the paper at a position on the horizontal axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PaperPlace {
    /// In the unit of the x axis.
    pub x: f64,
    /// Whether the text says "about".
    pub approximate: bool,
    /// Page or section of the paper.
    pub place: String,
}

/// A theory's curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TheoryLine {
    /// The label of the curve.
    pub label: String,
    /// The line that it belongs to; absent if it belongs to all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<Legend>,
    /// Source of the formula.
    pub source: String,
    /// Its points, by increasing x. Where the formula has no value, as for an unstable queue, there is no
    /// point.
    pub points: Vec<(f64, f64)>,
}
