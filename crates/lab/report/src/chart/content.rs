//! The content of a chart: axes, panels, layers and their marks.

/// A figure: one or more panels that share their series and axes' titles.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The title, one line.
    pub title: String,
    /// One or two sentences below the chart: constant levels, n, confidence.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The names of the series in the order of the legend. Layers refer to a series by its index. A series without a
    /// name is not in the legend.
    pub series: Vec<String>,
    /// The names of the dashed lines: `M/M/1`. Each has its own dash pattern.
    pub theory: Vec<String>,
    /// The panels, at least one. The panels of a grid are in row-major order.
    pub panels: Vec<Panel>,
    /// The headings of rows and columns if the panels form a grid. Without a grid, as many panels are side by side as
    /// the width allows.
    pub grid: Option<PanelGrid>,
    /// A note below the caption, without markup.
    pub note: String,
}

/// The headings of a grid of panels. The grid has a panel for each pair of row and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanelGrid {
    /// Heading of each row: `upload`.
    pub rows: Vec<String>,
    /// Heading of each column. A single empty heading if the grid has only rows.
    pub columns: Vec<String>,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity, with its unit in brackets: `mean inter-arrival time (s)`. Pure numbers have no unit.
    pub title: String,
    /// The kind of scale.
    pub scale: AxisKind,
}

/// The kind of an axis's scale.
#[derive(Clone, Debug, PartialEq)]
pub enum AxisKind {
    /// Linear. With `zero`, the axis includes zero, which is needed to compare bars or ratios.
    Linear {
        /// Whether zero is on the axis.
        zero: bool,
    },
    /// Linear, with ticks only at these values: the levels of a factor.
    Levels(Vec<f64>),
    /// Logarithmic. Values at or below zero are omitted.
    Log,
    /// Categories with these names, side by side. A value is an index into the list.
    Categories(Vec<String>),
}

/// One plot of a figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// The levels of this panel, such as `down for 5 s`. Empty for a single panel.
    pub title: String,
    /// The layers in drawing order: later layers cover earlier ones.
    pub layers: Vec<Layer>,
    /// Shaded spans of the horizontal axis, each with a text, such as an outage.
    pub spans: Vec<(f64, f64, String)>,
}

/// One set of marks.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The index in [`Chart::series`]. A layer with `None` belongs to no series and has the colour of text.
    pub series: Option<usize>,
    /// The kind of marks.
    pub marks: Marks,
    /// The points, from left to right.
    pub points: Vec<ChartMark>,
}

/// The kind of marks of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Measured values: filled marks with their intervals, joined by a line.
    Measured,
    /// Values of a paper: hollow marks, not joined.
    Paper,
    /// A paper's value that applies to the whole axis: a dotted line across the panel, with a hollow mark at its end.
    PaperLevel,
    /// A closed form: a dashed line. Its dash pattern depends on this index in [`Chart::theory`].
    Theory(usize),
    /// A trace: a step line.
    Trace,
    /// Events: small marks, not joined.
    Events,
    /// Ranges: a vertical bar over the interval of each mark.
    Bars,
}

/// One mark.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartMark {
    /// The horizontal value.
    pub x: f64,
    /// The vertical value.
    pub y: f64,
    /// The vertical interval, if there is one.
    pub interval: Option<(f64, f64)>,
    /// The text that the mark shows to a pointer: value, interval, n.
    pub says: String,
}

impl ChartMark {
    /// A point without interval and text.
    pub fn at(x: f64, y: f64) -> Self {
        Self { x, y, interval: None, says: String::new() }
    }
}

impl Chart {
    /// A description of the chart for screen readers, in one sentence.
    pub fn description(&self) -> String {
        let panels = match self.panels.len() {
            0 | 1 => String::new(),
            n => format!(" in {n} panels"),
        };
        let series: Vec<&str> =
            self.series.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        let series = if series.is_empty() { String::new() } else { format!(": {}", series.join(", ")) };
        format!("{}. {} against {}{panels}{series}.", self.title, self.y.title, self.x.title)
    }
}
