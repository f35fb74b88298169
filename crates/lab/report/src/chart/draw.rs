//! A chart as SVG: texts, legend, axes. The module `marks` draws the content of the panels.

use std::fmt::Write;

use super::canvas::{Canvas, DrawingTarget, put};
use super::content::{AxisKind, Chart, Marks, Panel};
use super::layout::{
    CaptionPlacement, ChartLayout, KEY, LegendEntry, LegendKey, MARGIN, PanelFrame, TickLabels, slanted,
};
use super::marks::{Marker, dashes, taken};
use super::panels::PANEL_LINE;
use super::text::{LABEL, SMALL, TITLE, lines, shortened, width};
use super::theme::Theme;
use netrig_core::xml::escaped;

impl Chart {
    /// Draws the chart as a complete SVG document, `width` pixels wide, in the colours of `theme`.
    ///
    /// Every mark also has a class, so that a page can apply the colours of its own theme.
    pub fn svg(&self, width: f64, theme: Theme) -> String {
        Drawing::new(self, width, DrawingTarget::Document(theme)).finish()
    }

    /// Draws the chart for a page that shows title and caption itself, and styles the classes. With `tips`, each mark
    /// has the text that it shows to a pointer.
    pub fn plot(&self, width: f64, tips: bool) -> String {
        Drawing::new(self, width, DrawingTarget::Page { tips }).finish()
    }
}

/// The drawing of a chart.
struct Drawing<'a> {
    chart: &'a Chart,
    layout: ChartLayout,
    canvas: Canvas,
}

const FONT: &str = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif";

impl<'a> Drawing<'a> {
    pub fn new(chart: &'a Chart, width: f64, target: DrawingTarget) -> Self {
        let words = match target {
            DrawingTarget::Document(_) => CaptionPlacement::Inside,
            DrawingTarget::Page { .. } => CaptionPlacement::Outside,
        };
        let layout = ChartLayout::new(chart, width, keys(chart), words);
        Self { chart, layout, canvas: Canvas::new(target) }
    }

    pub fn finish(mut self) -> String {
        let (width, height) = (self.layout.width, self.layout.height.ceil());
        let label = escaped(&self.chart.description());
        put!(
            self.canvas,
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{label}" font-family="{FONT}">"#
        );
        put!(
            self.canvas,
            r#"<rect class="bg" width="{width}" height="{height}"{}/>"#,
            self.canvas.paint("fill", self.canvas.palette.background)
        );
        self.words();
        self.legend();
        let frames = std::mem::take(&mut self.layout.frames);
        let marker = Marker::new(self.chart, &frames);
        for (n, (panel, frame)) in self.chart.panels.iter().zip(&frames).enumerate() {
            put!(self.canvas, r#"<g class="panel" data-panel="{n}">"#);
            self.spans(panel, frame);
            self.axes(frame);
            self.titles(frame);
            for layer in &panel.layers {
                marker.layer(&mut self.canvas, layer, frame);
            }
            self.canvas.out.push_str("</g>\n");
        }
        self.axis_titles();
        self.canvas.out.push_str("</svg>\n");
        self.canvas.out
    }

    fn words(&mut self) {
        for (n, line) in std::mem::take(&mut self.layout.title).iter().enumerate() {
            let at = (MARGIN, MARGIN + TITLE + n as f64 * TITLE * 1.3);
            self.canvas.text("title", at, TITLE, "start", r#" font-weight="600""#, line);
        }
        for (n, line) in std::mem::take(&mut self.layout.caption).iter().enumerate() {
            let at = (MARGIN, self.layout.caption_top + n as f64 * SMALL * 1.4);
            self.canvas.text("muted", at, SMALL, "start", "", line);
        }
    }

    fn legend(&mut self) {
        for LegendEntry { left, middle, key, name } in std::mem::take(&mut self.layout.legend) {
            let (ink, centre) = (self.canvas.paint("stroke", self.canvas.palette.text), left + 13.0);
            let hollow = self.canvas.paint("fill", "none");
            let thin = self.canvas.paint("stroke-width", "1.6");
            match key {
                LegendKey::Series(n) => {
                    put!(self.canvas, r#"<g class="key" data-series="{n}">"#);
                    let (stroke, _, hue) = self.canvas.ink(Some(n));
                    if self.joined(n) {
                        put!(
                            self.canvas,
                            r#"<path class="line {hue}" d="M{left:.1} {middle:.1}h26"{stroke} stroke-width="2"{hollow}/>"#
                        );
                    }
                    if self.marked(n) {
                        self.canvas.shape(Some(n), (centre, middle), true, "");
                    }
                }
                LegendKey::Paper => {
                    put!(
                        self.canvas,
                        r#"<g class="key"><circle class="paper ink" cx="{centre:.1}" cy="{middle:.1}" r="5.5"{hollow}{ink}{thin}/>"#
                    );
                }
                LegendKey::Theory(curve) => {
                    let dashes = dashes(curve);
                    put!(
                        self.canvas,
                        r#"<g class="key"><path class="theory ink" d="M{left:.1} {middle:.1}h26"{ink}{thin} stroke-dasharray="{dashes}"{hollow}/>"#
                    );
                }
            }
            self.canvas.text("label", (left + KEY, middle + LABEL * 0.35), LABEL, "start", "", &name);
            self.canvas.out.push_str("</g>\n");
        }
    }

    /// Whether a line joins the marks of series `n` in some layer.
    fn joined(&self, n: usize) -> bool {
        let words = matches!(self.chart.x.scale, AxisKind::Categories(_));
        self.layers_of(n).any(|marks| match marks {
            Marks::Measured => !words,
            Marks::Trace | Marks::Bars => true,
            Marks::Paper | Marks::PaperLevel | Marks::Theory(_) | Marks::Events => false,
        })
    }

    /// Whether the legend shows a mark for series `n`.
    fn marked(&self, n: usize) -> bool {
        !self.joined(n) || self.layers_of(n).any(|marks| matches!(marks, Marks::Measured | Marks::Events))
    }

    fn layers_of(&self, n: usize) -> impl Iterator<Item = Marks> {
        self.chart
            .panels
            .iter()
            .flat_map(|panel| &panel.layers)
            .filter(move |l| l.series == Some(n))
            .map(|l| l.marks)
    }

    fn spans(&mut self, panel: &Panel, frame: &PanelFrame) {
        let (left, right) = (frame.area.left, frame.area.left + frame.area.width);
        let mut free_from = left;
        for (from, to, word) in &panel.spans {
            let (Some(from), Some(to)) = (frame.x.place(*from), frame.x.place(*to)) else { continue };
            let (from, to) = (from.clamp(left, right), to.clamp(left, right));
            let (top, height) = (frame.area.top, frame.area.height);
            let fill = self.canvas.paint("fill", self.canvas.palette.span);
            let (wide, tip) = ((to - from).max(1.0), self.canvas.tip(word));
            put!(
                self.canvas,
                r#"<rect class="span" x="{from:.1}" y="{top:.1}" width="{wide:.1}" height="{height:.1}"{fill}>{tip}</rect>"#
            );
            // If a text would touch the previous text or the frame, it appears only as a tip.
            let (middle, half) = (from + wide / 2.0, width(word) * SMALL / 2.0);
            if middle - half >= free_from && middle + half <= right {
                let baseline = top + SMALL + 2.0 + free_below(panel, frame, (middle - half, middle + half));
                self.canvas.text("muted", (middle, baseline), SMALL, "middle", "", word);
                free_from = middle + half + 6.0;
            }
        }
    }

    fn axes(&mut self, frame: &PanelFrame) {
        let area = frame.area;
        let (left, right, bottom) = (area.left, area.left + area.width, area.top + area.height);
        let [grid, axis] = [self.canvas.palette.grid, self.canvas.palette.axis]
            .map(|colour| self.canvas.paint("stroke", colour));
        for (value, label) in &frame.y.ticks {
            let Some(y) = frame.y.place(*value) else { continue };
            put!(self.canvas, r#"<path class="grid" d="M{left:.1} {y:.1}H{right:.1}"{grid}/>"#);
            if frame.first_in_row && !label.is_empty() {
                self.canvas.text("muted tick", (left - 7.0, y + SMALL * 0.35), SMALL, "end", "", label);
            }
        }
        // A line at zero inside the panel is the reference for comparing differences.
        if let Some(zero) = frame.y.place(0.0).filter(|y| *y < bottom - 1.0 && *y > area.top + 1.0) {
            put!(
                self.canvas,
                r#"<path class="axis" d="M{left:.1} {zero:.1}H{right:.1}"{axis} stroke-dasharray="2 3"/>"#
            );
        }
        for (value, label) in &frame.x.ticks {
            let Some(x) = frame.x.place(*value) else { continue };
            put!(self.canvas, r#"<path class="axis" d="M{x:.1} {bottom:.1}v4"{axis}/>"#);
            if frame.last_in_column {
                self.label_under(label, x, bottom + 6.0 + SMALL);
            }
        }
        put!(self.canvas, r#"<path class="axis" d="M{left:.1} {bottom:.1}H{right:.1}"{axis}/>"#);
    }

    fn label_under(&mut self, label: &str, x: f64, y: f64) {
        match self.layout.under {
            TickLabels::Lines(room) => {
                for (row, line) in lines(label, f64::from(room) / SMALL).iter().enumerate() {
                    self.canvas.text(
                        "muted tick",
                        (x, y + row as f64 * SMALL * 1.25),
                        SMALL,
                        "middle",
                        "",
                        line,
                    );
                }
            }
            TickLabels::Slanted => {
                let turn = format!(r#" transform="rotate(-35 {x:.1} {y:.1})""#);
                self.canvas.text("muted tick", (x, y), SMALL, "end", &turn, &slanted(label, x));
            }
        }
    }

    /// Draws the title above a panel, and the title of a grid's row beside the last panel of the row.
    fn titles(&mut self, frame: &PanelFrame) {
        let area = frame.area;
        for (n, line) in frame.title.iter().rev().enumerate() {
            let at = (area.left, area.top - 6.0 - n as f64 * PANEL_LINE);
            self.canvas.text("label", at, LABEL, "start", r#" font-weight="600""#, line);
        }
        if !frame.row_title.is_empty() {
            let (x, y) = (area.left + area.width + 6.0, area.top + area.height / 2.0);
            let turned = format!(r#" font-weight="600" transform="rotate(90 {x:.1} {y:.1})""#);
            self.canvas.text("label", (x, y), LABEL, "middle", &turned, &frame.row_title);
        }
    }

    /// Panels share their axes, so each title is drawn once.
    fn axis_titles(&mut self) {
        let all = self.layout.plots;
        let at = (all.left + all.width / 2.0, all.top + all.height + self.layout.under_axis + LABEL);
        self.canvas.text("axis-title x", at, LABEL, "middle", "", &self.chart.x.title);
        let (x, y) = (MARGIN + LABEL * 0.7, all.top + all.height / 2.0);
        let turn = format!(r#" transform="rotate(-90 {x:.1} {y:.1})""#);
        let title = shortened(&self.chart.y.title, (all.top + all.height) / LABEL);
        self.canvas.text("axis-title y", (x, y), LABEL, "middle", &turn, &title);
    }
}

/// The distance below the panel's upper edge at which a line of text between these two horizontal pixels covers
/// nothing. 0 if there is no such distance.
fn free_below(panel: &Panel, frame: &PanelFrame, across: (f64, f64)) -> f64 {
    let taken: Vec<_> = panel.layers.iter().flat_map(|layer| taken(layer, frame, across)).collect();
    let line = SMALL + 6.0;
    let is_free = |below: &f64| {
        let top = frame.area.top + below;
        taken.iter().all(|(high, low)| *low < top || *high > top + line)
    };
    let rows = (0..).map(|row| f64::from(row) * line / 2.0);
    rows.take_while(|below| below + line < frame.area.height).find(is_free).unwrap_or(0.0)
}

/// The entries of the legend: the series, the paper's values and the dashed lines.
fn keys(chart: &Chart) -> Vec<(LegendKey, String)> {
    let named =
        |(n, name): (usize, &String)| (!name.is_empty()).then(|| (LegendKey::Series(n), name.clone()));
    let mut keys: Vec<_> = chart.series.iter().enumerate().filter_map(named).collect();
    let has =
        |marks| chart.panels.iter().flat_map(|p| &p.layers).any(|l| l.marks == marks && !l.points.is_empty());
    if has(Marks::Paper) || has(Marks::PaperLevel) {
        keys.push((LegendKey::Paper, "hollow: the paper's value".into()));
    }
    let dashed = if chart.theory.len() > 1 { "theory" } else { "dashed" };
    let curve = |(n, name): (usize, &String)| (LegendKey::Theory(n), format!("{dashed}: {name}"));
    keys.extend(chart.theory.iter().enumerate().map(curve));
    keys
}
