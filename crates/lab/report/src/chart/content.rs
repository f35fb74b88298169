//! The content of a chart: axes, panels, layers and their marks.

/// A figure: one or more panels that share their series and axes' titles.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What one sees, in one line.
    pub title: String,
    /// One or two sentences under it: levels that are constant, n, confidence.
    pub caption: String,
    /// Title of the horizontal axis, unit included: `mean inter-arrival time (s)`.
    pub x: Axis,
    /// Title of the vertical axis, unit included.
    pub y: Axis,
    /// The names of the series in the order of the legend; panels refer to them by place. One without a name is
    /// not in the legend.
    pub series: Vec<String>,
    /// What the dashed lines are: `M/M/1`; each has dashes of its own.
    pub theory: Vec<String>,
    /// At least one; of a grid row by row.
    pub panels: Vec<Panel>,
    /// The headings of its rows and columns, if it is a grid; else panels stand side by side as there is room.
    pub grid: Option<PanelGrid>,
    /// Further words under it, without marks.
    pub note: String,
}

/// The headings of a grid of panels, which has a panel for each pair of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanelGrid {
    /// Of each row: `upload`.
    pub rows: Vec<String>,
    /// Of each column; one without words if only rows are told apart.
    pub columns: Vec<String>,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it measures, with its unit in brackets; `(1)` is left out for pure numbers.
    pub title: String,
    /// Linear or logarithmic; categories for levels that are words.
    pub scale: AxisKind,
}

/// How values lie on an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum AxisKind {
    /// In proportion. With `zero`, the axis begins at zero, as it must where bars or ratios are compared.
    Linear {
        /// Whether zero is on the axis.
        zero: bool,
    },
    /// In proportion, with ticks at these values only: the levels of a factor.
    Levels(Vec<f64>),
    /// By orders of magnitude. Values at or below zero are left out.
    Log,
    /// Side by side, by these names; values are places in the list.
    Categories(Vec<String>),
}

/// One plot of a figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// What is special here: `down for 5 s`; empty for a single panel.
    pub title: String,
    /// What is drawn, back to front.
    pub layers: Vec<Layer>,
    /// Spans of the horizontal axis to be shaded, with a word each: an outage.
    pub spans: Vec<(f64, f64, String)>,
}

/// One set of marks.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Place in [`Chart::series`]; `None` belongs to no series and has the colour of words.
    pub series: Option<usize>,
    /// How it is drawn.
    pub marks: Marks,
    /// From left to right.
    pub points: Vec<ChartMark>,
}

/// How a layer is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Measured: filled marks with their intervals, joined by a line.
    Measured,
    /// What a paper says: hollow marks, not joined.
    Paper,
    /// What a paper says of the whole axis: a dotted line across, with a hollow mark at its end.
    PaperLevel,
    /// A closed form: a dashed line, with the dashes of its place among the chart's theories.
    Theory(usize),
    /// A trace: a line of steps.
    Trace,
    /// Events: small marks, not joined.
    Events,
    /// What reaches from one value to another: an upright bar over each mark's interval.
    Bars,
}

/// One point.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartMark {
    /// Horizontal.
    pub x: f64,
    /// Vertical.
    pub y: f64,
    /// Interval, if there is one.
    pub interval: Option<(f64, f64)>,
    /// Said when somebody points at it: value, interval, n.
    pub says: String,
}

impl ChartMark {
    /// A point without interval or words.
    pub fn at(x: f64, y: f64) -> Self {
        Self { x, y, interval: None, says: String::new() }
    }
}

impl Chart {
    /// What a screen reader says of the chart, in one sentence.
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
