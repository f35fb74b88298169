//! The layout of a chart.

use super::content::{Axis, AxisKind, Chart, Layer, Marks};
use super::panels::{Area, Panels};
use super::scale::Scale;
use super::text::{BOLD, LABEL, SMALL, TITLE, lines, shortened, width};

/// The margin around the drawing, pixels.
pub(crate) const MARGIN: f64 = 14.0;
const LEGEND_ROW: f64 = 20.0;
/// Distance from the left edge of a legend entry to its text, pixels.
pub(crate) const KEY: f64 = 34.0;
/// Distance from the frame to the first and the last level: a share of the panel's width, with an upper limit in
/// pixels. If a paper has a value for the whole axis, `BESIDE_LEVEL` is the lower limit, because the mark of this value
/// is at the end of the axis.
const INSET: (f64, f64) = (0.1, 28.0);
const BESIDE_LEVEL: f64 = 24.0;
/// For slanted labels: sine and cosine of 35 degrees, and the largest length in pixels.
const SLANT: (f64, f64) = (0.574, 0.819);
const LONGEST_SLANTED: f64 = 130.0;

/// A panel: its plot area and its scales.
pub(crate) struct PanelFrame {
    pub area: Area,
    pub x: Scale,
    pub y: Scale,
    /// The title above the panel, in lines.
    pub title: Vec<String>,
    /// The title beside the panel. Empty except for the last panel of a grid's row.
    pub row_title: String,
    /// Whether the vertical axis is labelled at this panel.
    pub first_in_row: bool,
    /// Whether the horizontal axis is labelled at this panel.
    pub last_in_column: bool,
}

/// An entry of the legend.
pub(crate) struct LegendEntry {
    pub left: f64,
    pub middle: f64,
    pub key: LegendKey,
    pub name: String,
}

/// The kind of a legend entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LegendKey {
    Series(usize),
    Paper,
    /// A curve, by its index in the chart's `theory`.
    Theory(usize),
}

/// The placement of the tick labels under a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TickLabels {
    /// In lines of at most this width, pixels.
    Lines(u32),
    /// Slanted, because a word is wider than the space for it.
    Slanted,
}

/// Where title and caption are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptionPlacement {
    Inside,
    Outside,
}

/// The layout of a whole figure.
pub(crate) struct ChartLayout {
    pub width: f64,
    pub height: f64,
    pub title: Vec<String>,
    pub caption: Vec<String>,
    pub caption_top: f64,
    pub legend: Vec<LegendEntry>,
    pub frames: Vec<PanelFrame>,
    /// The area of all panels together.
    pub plots: Area,
    /// Distance from the last horizontal axis to the top of its title, pixels.
    pub under_axis: f64,
    pub under: TickLabels,
}

impl ChartLayout {
    pub fn new(chart: &Chart, total: f64, keys: Vec<(LegendKey, String)>, words: CaptionPlacement) -> Self {
        let inner = total - 2.0 * MARGIN;
        let said = |text: &str, size: f64| {
            if words == CaptionPlacement::Inside { lines(text, inner / size) } else { Vec::new() }
        };
        let title = said(&chart.title, TITLE * BOLD);
        let caption = [said(&chart.caption, SMALL), said(&chart.note, SMALL)].concat();
        let legend_top = if title.is_empty() { 4.0 } else { MARGIN + title.len() as f64 * TITLE * 1.3 + 6.0 };
        let (legend, legend_bottom) = legend(keys, legend_top, inner);
        let left = MARGIN + LABEL * 1.6 + vertical_labels(chart) * SMALL + 10.0;
        let right = total - MARGIN.max(last_label(chart) * SMALL / 2.0 + 2.0);
        // A trace fills its frame, so its last label would touch the first label of the next panel.
        let labels = if has(chart, Marks::Trace) { last_label(chart) * SMALL + 8.0 } else { 0.0 };
        let panels = Panels::new(chart, (left, right), legend_bottom, labels);
        let plots = panels.all();
        let (under, under_axis) = under(&chart.x, panels.plot_width());
        let bottom = plots.top + plots.height + under_axis + 6.0 + LABEL * 1.5;
        let caption_height = caption.len() as f64 * SMALL * 1.4;
        Self {
            width: total,
            height: bottom + caption_height + if caption.is_empty() { 4.0 } else { MARGIN },
            title,
            caption_top: bottom + SMALL,
            caption,
            legend,
            frames: (0..chart.panels.len()).map(|n| frame(chart, &panels, n)).collect(),
            plots,
            under_axis,
            under,
        }
    }
}

fn legend(keys: Vec<(LegendKey, String)>, top: f64, inner: f64) -> (Vec<LegendEntry>, f64) {
    if keys.is_empty() {
        return (Vec::new(), top);
    }
    let (mut left, mut row) = (MARGIN, 0.0);
    let mut entries = Vec::new();
    for (key, name) in keys {
        let name = shortened(&name, (inner - KEY) / LABEL);
        let wide = KEY + width(&name) * LABEL + 18.0;
        if left > MARGIN && left + wide > MARGIN + inner {
            (left, row) = (MARGIN, row + 1.0);
        }
        entries.push(LegendEntry { left, middle: top + (row + 0.5) * LEGEND_ROW, key, name });
        left += wide;
    }
    (entries, top + (row + 1.0) * LEGEND_ROW + 4.0)
}

/// The width of the widest tick label of the vertical axis, in multiples of the font size.
fn vertical_labels(chart: &Chart) -> f64 {
    let scale = scale_of(&chart.y, chart, |mark| mark.1, 0.0, 1.0, 5);
    scale.ticks.iter().map(|(_, label)| width(label)).fold(2.0, f64::max)
}

/// The width of the last label of the horizontal axis, in multiples of the font size. Half of the label extends beyond
/// the axis.
fn last_label(chart: &Chart) -> f64 {
    match chart.x.scale {
        AxisKind::Categories(_) => 0.0,
        _ => scale_of(&chart.x, chart, |mark| mark.0, 0.0, 1.0, 5)
            .ticks
            .last()
            .map_or(0.0, |(_, label)| width(label)),
    }
}

/// The placement of the tick labels under a panel, and their height in pixels.
fn under(axis: &Axis, plot: f64) -> (TickLabels, f64) {
    let AxisKind::Categories(names) = &axis.scale else { return (TickLabels::Lines(u32::MAX), SMALL + 14.0) };
    let room = plot / names.len().max(1) as f64 - 6.0;
    let too_wide = |line: &String| width(line) * SMALL > room;
    let wrapped: Vec<Vec<String>> = names.iter().map(|name| lines(name, room / SMALL)).collect();
    if wrapped.iter().flatten().any(too_wide) {
        let longest = names.iter().map(|name| width(name) * SMALL).fold(0.0, f64::max).min(LONGEST_SLANTED);
        return (TickLabels::Slanted, longest * SLANT.0 + SMALL + 14.0);
    }
    let rows = wrapped.iter().map(Vec::len).max().unwrap_or(1).max(1);
    (TickLabels::Lines(room as u32), rows as f64 * SMALL * 1.25 + 14.0)
}

/// A slanted label below `x`, shortened so that it starts inside the drawing.
pub(crate) fn slanted(label: &str, x: f64) -> String {
    shortened(label, LONGEST_SLANTED.min((x - 4.0) / SLANT.1) / SMALL)
}

fn has(chart: &Chart, marks: Marks) -> bool {
    chart.panels.iter().flat_map(|panel| &panel.layers).any(|layer| layer.marks == marks)
}

fn frame(chart: &Chart, panels: &Panels<'_>, n: usize) -> PanelFrame {
    let area = panels.area(n);
    let across = ((area.width / 70.0) as usize).clamp(3, 9);
    // Marks and intervals of the first and the last level need space. A trace has no marks and fills the frame.
    let least = if has(chart, Marks::PaperLevel) { BESIDE_LEVEL } else { 0.0 };
    let fills = has(chart, Marks::Trace) || matches!(chart.x.scale, AxisKind::Categories(_));
    let inset = if fills { 0.0 } else { (INSET.0 * area.width).min(INSET.1).max(least) };
    let (left, right) = (area.left + inset, area.left + area.width - inset);
    let mut x = scale_of(&chart.x, chart, |mark| mark.0, left, right, across);
    let mut y = scale_of(&chart.y, chart, |mark| mark.1, area.top + area.height, area.top, 5);
    if !matches!(chart.x.scale, AxisKind::Categories(_)) {
        x.thin(|label| width(label) * SMALL + 8.0);
    }
    y.thin(|_| SMALL * 1.3);
    PanelFrame {
        area,
        x,
        y,
        title: panels.title(n),
        row_title: panels.row_title(n),
        first_in_row: panels.begins_row(n),
        last_in_column: panels.ends_column(n),
    }
}

/// The scale of an axis, which all panels share so that they can be compared. Theory curves do not affect the scale,
/// because a diverging curve (a queue near its limit) would compress the measured values.
fn scale_of(
    axis: &Axis,
    chart: &Chart,
    of: fn((f64, f64)) -> f64,
    from: f64,
    to: f64,
    ticks: usize,
) -> Scale {
    let layers = || chart.panels.iter().flat_map(|p| &p.layers);
    let is_theory = |layer: &&Layer| matches!(layer.marks, Marks::Theory(_));
    let only_theory = layers().all(|layer| is_theory(&layer));
    let counted = layers().filter(|layer| only_theory || !is_theory(layer));
    let corners = counted.flat_map(|layer| &layer.points).flat_map(|mark| {
        let (low, high) = mark.interval.unwrap_or((mark.y, mark.y));
        [(mark.x, mark.y), (mark.x, low), (mark.x, high)]
    });
    Scale::new(&axis.scale, corners.map(of), from, to, ticks)
}
