//! The positions of a figure's panels: as many side by side as fit, or in a grid.

use super::content::{Chart, PanelGrid};
use super::text::{BOLD, LABEL, lines, shortened};

/// The height of a line of a panel's title, pixels.
pub(crate) const PANEL_LINE: f64 = 16.0;
/// The gap between two rows of a grid, and the smallest gap between two columns, pixels.
const GAP: f64 = 20.0;
/// The space above the titles of a row, pixels.
const OVER: f64 = 12.0;
/// The smallest width of a panel in a grid, pixels. If the panels of a grid would be narrower, they are placed without
/// a grid.
const NARROWEST: f64 = 96.0;
/// The approximate smallest width of a panel that has other panels beside it, pixels.
const NARROW: f64 = 165.0;

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Area {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

impl Area {
    /// Whether a vertical position is inside the area.
    pub fn has(&self, y: f64) -> bool {
        (self.top - 1.0..=self.top + self.height + 1.0).contains(&y)
    }
}

/// The positions of the panels.
pub(crate) struct Panels<'a> {
    grid: Option<&'a PanelGrid>,
    count: usize,
    columns: usize,
    /// Width and height of each plot.
    plot: (f64, f64),
    /// The gap between two columns, pixels.
    gap: f64,
    /// The title above each panel, in lines.
    titles: Vec<Vec<String>>,
    /// The height of the titles above a row, pixels.
    title_height: f64,
    /// The upper left corner of the area of all panels.
    corner: (f64, f64),
}

impl<'a> Panels<'a> {
    /// Places the panels of a chart from `left` to `right` below `top`. The labels under two adjacent panels need a gap
    /// of `labels` pixels.
    pub fn new(chart: &'a Chart, (left, right): (f64, f64), top: f64, labels: f64) -> Self {
        let gap = GAP.max(labels);
        let beside =
            |grid: &&PanelGrid| if grid.rows.iter().any(|row| !row.is_empty()) { PANEL_LINE } else { 0.0 };
        let wide = |columns: usize, right: f64| {
            (right - left - gap * (columns as f64 - 1.0)) / columns.max(1) as f64
        };
        let roomy = |grid: &&PanelGrid| wide(grid.columns.len(), right - beside(grid)) >= NARROWEST;
        let grid = chart.grid.as_ref().filter(roomy);
        let count = chart.panels.len();
        let columns = grid.map_or_else(|| columns(count, right - left), |grid| grid.columns.len().max(1));
        let right = right - grid.as_ref().map_or(0.0, beside);
        let width = wide(columns, right);
        let height = if columns == 1 && count == 1 {
            (width * 0.5).clamp(180.0, 360.0)
        } else {
            (width * 0.75).clamp(120.0, 260.0)
        };
        let title = |panel: usize| match grid {
            Some(grid) => grid.columns.get(panel).map_or("", String::as_str),
            None => &chart.panels[panel].title,
        };
        let titles: Vec<Vec<String>> = (0..count).map(|panel| heading(title(panel), width)).collect();
        let lines = titles.iter().map(Vec::len).max().unwrap_or(0);
        let title_height = OVER + lines as f64 * PANEL_LINE;
        Self { grid, count, columns, plot: (width, height), gap, titles, title_height, corner: (left, top) }
    }

    /// The width of each plot.
    pub fn plot_width(&self) -> f64 {
        self.plot.0
    }

    /// The plot area of panel `n`.
    pub fn area(&self, n: usize) -> Area {
        let ((left, top), (width, height)) = (self.corner, self.plot);
        let (row, column) = (n / self.columns, n % self.columns);
        let between = if self.grid.is_some() { GAP } else { self.title_height };
        Area {
            left: left + column as f64 * (width + self.gap),
            top: top + self.title_height + row as f64 * (height + between),
            width,
            height,
        }
    }

    /// The area of all plots together.
    pub fn all(&self) -> Area {
        let (first, last) = (self.area(0), self.area(self.count.saturating_sub(1)));
        let across = self.area(self.columns.min(self.count).saturating_sub(1));
        let (left, top) = (first.left, first.top);
        Area { left, top, width: across.left + across.width - left, height: last.top + last.height - top }
    }

    /// The title above panel `n`, in lines.
    pub fn title(&self, n: usize) -> Vec<String> {
        self.titles[n].clone()
    }

    /// The row title beside panel `n`, if it is the last panel of a grid's row. Otherwise empty.
    pub fn row_title(&self, n: usize) -> String {
        let last = (n + 1).is_multiple_of(self.columns);
        let title = self.grid.filter(|_| last).and_then(|grid| grid.rows.get(n / self.columns));
        title.map_or_else(String::new, |title| shortened(title, self.plot.1 / (LABEL * BOLD)))
    }

    /// Whether panel `n` is the first of its row. There the vertical axis is labelled.
    pub const fn begins_row(&self, n: usize) -> bool {
        n.is_multiple_of(self.columns)
    }

    /// Whether there is no panel below panel `n`. There the horizontal axis is labelled.
    pub const fn ends_column(&self, n: usize) -> bool {
        n + self.columns >= self.count
    }
}

/// The number of panels side by side without a grid.
fn columns(panels: usize, width: f64) -> usize {
    let wanted = match panels {
        0 | 1 => 1,
        2 | 4 => 2,
        3 | 5 | 6 | 9 => 3,
        _ => 4,
    };
    wanted.min(((width / NARROW) as usize).max(1))
}

/// A panel's title in lines.
fn heading(title: &str, plot: f64) -> Vec<String> {
    let room = plot / (LABEL * BOLD);
    lines(title, room).iter().map(|line| shortened(line, room)).collect()
}
