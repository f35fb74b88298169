//! A chart as SVG: words, legend, axes. What lies inside the axes is drawn by `marks`.

use std::fmt::Write;

use super::layout::{Entry, Frame, KEY, Key, LABEL, Layout, MARGIN, SMALL, TITLE, Under, slanted};
use super::marks::{Marker, dashes, taken};
use super::panels::PANEL_LINE;
use super::text::{lines, shortened, width};
use super::{Chart, Marks, Palette, Panel, Theme, Words};
use netrig_core::xml::escaped;

/// The drawing of one chart in one theme.
pub(crate) struct Drawing<'a> {
    pub(super) chart: &'a Chart,
    layout: Layout,
    pub(super) palette: Palette,
    pub(super) out: String,
}

const FONT: &str = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif";

// Writing to a String cannot fail; the result is dropped in one place.
macro_rules! put {
    ($drawing:expr, $($text:tt)*) => {
        let _ = writeln!($drawing.out, $($text)*);
    };
}
pub(super) use put;

impl<'a> Drawing<'a> {
    pub fn new(chart: &'a Chart, width: f64, theme: Theme, words: Words) -> Self {
        let layout = Layout::new(chart, width, keys(chart), words);
        Self { chart, layout, palette: theme.palette(), out: String::new() }
    }

    pub fn finish(mut self) -> String {
        let (width, height) = (self.layout.width, self.layout.height.ceil());
        let label = escaped(&self.chart.description());
        put!(
            self,
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{label}" font-family="{FONT}">"#
        );
        put!(
            self,
            r#"<rect class="bg" width="{width}" height="{height}" fill="{}"/>"#,
            self.palette.background
        );
        self.words();
        self.legend();
        let frames = std::mem::take(&mut self.layout.frames);
        let marker = Marker::new(self.chart, &frames);
        for (n, (panel, frame)) in self.chart.panels.iter().zip(&frames).enumerate() {
            put!(self, r#"<g class="panel" data-panel="{n}">"#);
            self.spans(panel, frame);
            self.axes(frame);
            self.titles(frame);
            for layer in &panel.layers {
                marker.layer(&mut self, layer, frame);
            }
            self.out.push_str("</g>\n");
        }
        self.axis_titles();
        self.out.push_str("</svg>\n");
        self.out
    }

    /// A text whose colour its class decides. `extra` is further attributes, with a space before.
    fn text(&mut self, class: &str, at: (f64, f64), size: f64, anchor: &str, extra: &str, words: &str) {
        let fill = if class.contains("muted") { self.palette.muted } else { self.palette.text };
        let ((x, y), words) = (at, escaped(words));
        put!(
            self,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" font-size="{size}" text-anchor="{anchor}" fill="{fill}"{extra}>{words}</text>"#
        );
    }

    fn words(&mut self) {
        for (n, line) in std::mem::take(&mut self.layout.title).iter().enumerate() {
            let at = (MARGIN, MARGIN + TITLE + n as f64 * TITLE * 1.3);
            self.text("title", at, TITLE, "start", r#" font-weight="600""#, line);
        }
        for (n, line) in std::mem::take(&mut self.layout.caption).iter().enumerate() {
            let at = (MARGIN, self.layout.caption_top + n as f64 * SMALL * 1.4);
            self.text("muted", at, SMALL, "start", "", line);
        }
    }

    fn legend(&mut self) {
        for Entry { left, middle, key, name } in std::mem::take(&mut self.layout.legend) {
            let (ink, centre) = (self.palette.text, left + 13.0);
            match key {
                Key::Series(n) => {
                    put!(self, r#"<g class="key" data-series="{n}">"#);
                    let (colour, hue) = self.ink(Some(n));
                    if self.joined(n) {
                        put!(
                            self,
                            r#"<path class="line {hue}" d="M{left:.1} {middle:.1}h26" stroke="{colour}" stroke-width="2" fill="none"/>"#
                        );
                    }
                    if self.marked(n) {
                        self.shape(Some(n), (centre, middle), true, "");
                    }
                }
                Key::Paper => {
                    put!(
                        self,
                        r#"<g class="key"><circle class="paper ink" cx="{centre:.1}" cy="{middle:.1}" r="5.5" fill="none" stroke="{ink}" stroke-width="1.6"/>"#
                    );
                }
                Key::Theory(curve) => {
                    let dashes = dashes(curve);
                    put!(
                        self,
                        r#"<g class="key"><path class="theory ink" d="M{left:.1} {middle:.1}h26" stroke="{ink}" stroke-width="1.6" stroke-dasharray="{dashes}" fill="none"/>"#
                    );
                }
            }
            self.text("label", (left + KEY, middle + LABEL * 0.35), LABEL, "start", "", &name);
            self.out.push_str("</g>\n");
        }
    }

    /// Whether a line joins the marks of series `n` somewhere.
    fn joined(&self, n: usize) -> bool {
        let words = matches!(self.chart.x.scale, super::AxisKind::Categories(_));
        self.layers_of(n).any(|marks| match marks {
            Marks::Measured => !words,
            Marks::Trace | Marks::Bars => true,
            Marks::Paper | Marks::PaperLevel | Marks::Theory(_) | Marks::Events => false,
        })
    }

    /// Whether series `n` has marks of its own.
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

    fn spans(&mut self, panel: &Panel, frame: &Frame) {
        let (left, right) = (frame.area.left, frame.area.left + frame.area.width);
        let mut free_from = left;
        for (from, to, word) in &panel.spans {
            let (Some(from), Some(to)) = (frame.x.place(*from), frame.x.place(*to)) else { continue };
            let (from, to) = (from.clamp(left, right), to.clamp(left, right));
            let (top, height, fill) = (frame.area.top, frame.area.height, self.palette.span);
            let (wide, says) = ((to - from).max(1.0), escaped(word));
            put!(
                self,
                r#"<rect class="span" x="{from:.1}" y="{top:.1}" width="{wide:.1}" height="{height:.1}" fill="{fill}"><title>{says}</title></rect>"#
            );
            // A word that would touch the one before, or the frame, is left to the pointer.
            let (middle, half) = (from + wide / 2.0, width(word) * SMALL / 2.0);
            if middle - half >= free_from && middle + half <= right {
                let baseline = top + SMALL + 2.0 + free_below(panel, frame, (middle - half, middle + half));
                self.text("muted", (middle, baseline), SMALL, "middle", "", word);
                free_from = middle + half + 6.0;
            }
        }
    }

    fn axes(&mut self, frame: &Frame) {
        let area = frame.area;
        let (left, right, bottom) = (area.left, area.left + area.width, area.top + area.height);
        let (grid, axis) = (self.palette.grid, self.palette.axis);
        for (value, label) in &frame.y.ticks {
            let Some(y) = frame.y.place(*value) else { continue };
            put!(self, r#"<path class="grid" d="M{left:.1} {y:.1}H{right:.1}" stroke="{grid}"/>"#);
            if frame.first_in_row && !label.is_empty() {
                self.text("muted tick", (left - 7.0, y + SMALL * 0.35), SMALL, "end", "", label);
            }
        }
        // Zero inside the panel is what differences are judged by.
        if let Some(zero) = frame.y.place(0.0).filter(|y| *y < bottom - 1.0 && *y > area.top + 1.0) {
            put!(
                self,
                r#"<path class="axis" d="M{left:.1} {zero:.1}H{right:.1}" stroke="{axis}" stroke-dasharray="2 3"/>"#
            );
        }
        for (value, label) in &frame.x.ticks {
            let Some(x) = frame.x.place(*value) else { continue };
            put!(self, r#"<path class="axis" d="M{x:.1} {bottom:.1}v4" stroke="{axis}"/>"#);
            if frame.last_in_column {
                self.label_under(label, x, bottom + 6.0 + SMALL);
            }
        }
        put!(self, r#"<path class="axis" d="M{left:.1} {bottom:.1}H{right:.1}" stroke="{axis}"/>"#);
    }

    fn label_under(&mut self, label: &str, x: f64, y: f64) {
        match self.layout.under {
            Under::Lines(room) => {
                for (row, line) in lines(label, f64::from(room) / SMALL).iter().enumerate() {
                    self.text("muted tick", (x, y + row as f64 * SMALL * 1.25), SMALL, "middle", "", line);
                }
            }
            Under::Slanted => {
                let turn = format!(r#" transform="rotate(-35 {x:.1} {y:.1})""#);
                self.text("muted tick", (x, y), SMALL, "end", &turn, &slanted(label, x));
            }
        }
    }

    /// What is special of a panel: over it, and of a grid's row beside its last.
    fn titles(&mut self, frame: &Frame) {
        let area = frame.area;
        for (n, line) in frame.title.iter().rev().enumerate() {
            let at = (area.left, area.top - 6.0 - n as f64 * PANEL_LINE);
            self.text("label", at, LABEL, "start", r#" font-weight="600""#, line);
        }
        if !frame.row_title.is_empty() {
            let (x, y) = (area.left + area.width + 6.0, area.top + area.height / 2.0);
            let turned = format!(r#" font-weight="600" transform="rotate(90 {x:.1} {y:.1})""#);
            self.text("label", (x, y), LABEL, "middle", &turned, &frame.row_title);
        }
    }

    /// Panels share their axes, so each title stands once.
    fn axis_titles(&mut self) {
        let all = self.layout.plots;
        let at = (all.left + all.width / 2.0, all.top + all.height + self.layout.under_axis + LABEL);
        self.text("axis-title x", at, LABEL, "middle", "", &self.chart.x.title);
        let (x, y) = (MARGIN + LABEL * 0.7, all.top + all.height / 2.0);
        let turn = format!(r#" transform="rotate(-90 {x:.1} {y:.1})""#);
        let title = shortened(&self.chart.y.title, (all.top + all.height) / LABEL);
        self.text("axis-title y", (x, y), LABEL, "middle", &turn, &title);
    }

    /// The colour of a series and the class that gives it to a page; those of words for no series.
    pub(super) fn ink(&self, series: Option<usize>) -> (&'static str, String) {
        let colours = self.palette.series;
        match series.map(|n| n % colours.len()) {
            Some(hue) => (colours[hue], format!("s{hue}")),
            None => (self.palette.text, "ink".to_owned()),
        }
    }
}

/// How far below the panel's upper edge a line of words finds nothing drawn between these two pixels; 0 if it does nowhere.
fn free_below(panel: &Panel, frame: &Frame, across: (f64, f64)) -> f64 {
    let taken: Vec<_> = panel.layers.iter().flat_map(|layer| taken(layer, frame, across)).collect();
    let line = SMALL + 6.0;
    let is_free = |below: &f64| {
        let top = frame.area.top + below;
        taken.iter().all(|(high, low)| *low < top || *high > top + line)
    };
    let rows = (0..).map(|row| f64::from(row) * line / 2.0);
    rows.take_while(|below| below + line < frame.area.height).find(is_free).unwrap_or(0.0)
}

/// What the legend explains: the series, and the marks that are not netrig's own.
fn keys(chart: &Chart) -> Vec<(Key, String)> {
    let named = |(n, name): (usize, &String)| (!name.is_empty()).then(|| (Key::Series(n), name.clone()));
    let mut keys: Vec<_> = chart.series.iter().enumerate().filter_map(named).collect();
    let has =
        |marks| chart.panels.iter().flat_map(|p| &p.layers).any(|l| l.marks == marks && !l.points.is_empty());
    if has(Marks::Paper) || has(Marks::PaperLevel) {
        keys.push((Key::Paper, "hollow: the paper's value".into()));
    }
    let dashed = if chart.theory.len() > 1 { "theory" } else { "dashed" };
    let curve = |(n, name): (usize, &String)| (Key::Theory(n), format!("{dashed}: {name}"));
    keys.extend(chart.theory.iter().enumerate().map(curve));
    keys
}
