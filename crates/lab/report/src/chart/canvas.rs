//! The output of a drawing: SVG text, in the colours of a theme or for the style sheet of a page.

use std::fmt::Write;

use super::theme::{Palette, Theme};
use netrig_core::xml::escaped;

/// Where a drawing is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrawingTarget {
    /// A document of its own, in the colours of this theme.
    Document(Theme),
    /// A page that shows title and caption itself. Its style sheet styles the classes of the drawing.
    Page {
        /// Whether each mark has the text that it shows to a pointer.
        tips: bool,
    },
}

/// The SVG text written up to now, and the colours.
pub(super) struct Canvas {
    pub palette: Palette,
    target: DrawingTarget,
    pub out: String,
}

// Writing to a String cannot fail. Only this macro ignores the result.
macro_rules! put {
    ($canvas:expr, $($text:tt)*) => {
        let _ = writeln!($canvas.out, $($text)*);
    };
}
pub(super) use put;

impl Canvas {
    pub const fn new(target: DrawingTarget) -> Self {
        let theme = if let DrawingTarget::Document(theme) = target { theme } else { Theme::Light };
        Self { palette: theme.palette(), target, out: String::new() }
    }

    /// The attribute with this value, with a leading space. Empty on a page, whose style sheet sets the attribute.
    pub fn paint(&self, attribute: &str, value: &str) -> String {
        match self.target {
            DrawingTarget::Document(_) => format!(r#" {attribute}="{value}""#),
            DrawingTarget::Page { .. } => String::new(),
        }
    }

    /// The text that a mark shows to a pointer.
    pub fn tip(&self, says: &str) -> String {
        match self.target {
            DrawingTarget::Page { tips: false } => String::new(),
            _ if says.is_empty() => String::new(),
            _ => format!("<title>{}</title>", escaped(says)),
        }
    }

    /// Draws a text. Its class determines its colour. `extra` has further attributes, with a leading space.
    pub fn text(&mut self, class: &str, at: (f64, f64), size: f64, anchor: &str, extra: &str, words: &str) {
        let fill = if class.contains("muted") { self.palette.muted } else { self.palette.text };
        let fill = self.paint("fill", fill);
        let ((x, y), words) = (at, escaped(words));
        put!(
            self,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" font-size="{size}" text-anchor="{anchor}"{fill}{extra}>{words}</text>"#
        );
    }

    /// The stroke of a series: the attribute that sets its colour, the colour, and the class that sets the colour on a
    /// page. Without a series, the stroke of text.
    pub fn ink(&self, series: Option<usize>) -> (String, &'static str, String) {
        let colours = self.palette.series;
        let (colour, hue) = match series.map(|n| n % colours.len()) {
            Some(hue) => (colours[hue], format!("s{hue}")),
            None => (self.palette.text, "ink".to_owned()),
        };
        (self.paint("stroke", colour), colour, hue)
    }
}
