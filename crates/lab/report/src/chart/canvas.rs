//! The output of a drawing: SVG text, and the colours of its theme.

use std::fmt::Write;

use super::theme::Palette;
use netrig_core::xml::escaped;

/// The SVG text so far, and the colours.
pub(super) struct Canvas {
    pub palette: Palette,
    pub out: String,
}

// Writing to a String cannot fail; this is the only place that ignores the result.
macro_rules! put {
    ($canvas:expr, $($text:tt)*) => {
        let _ = writeln!($canvas.out, $($text)*);
    };
}
pub(super) use put;

impl Canvas {
    pub const fn new(palette: Palette) -> Self {
        Self { palette, out: String::new() }
    }

    /// Draws a text. Its class determines its colour. `extra` holds further attributes, with a leading space.
    pub fn text(&mut self, class: &str, at: (f64, f64), size: f64, anchor: &str, extra: &str, words: &str) {
        let fill = if class.contains("muted") { self.palette.muted } else { self.palette.text };
        let ((x, y), words) = (at, escaped(words));
        put!(
            self,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" font-size="{size}" text-anchor="{anchor}" fill="{fill}"{extra}>{words}</text>"#
        );
    }

    /// The colour of a series, and the class that sets it on a page; those of text for no series.
    pub fn ink(&self, series: Option<usize>) -> (&'static str, String) {
        let colours = self.palette.series;
        match series.map(|n| n % colours.len()) {
            Some(hue) => (colours[hue], format!("s{hue}")),
            None => (self.palette.text, "ink".to_owned()),
        }
    }
}
