//! Charts: their content, and the renderer that draws them as SVG.
//!
//! Start from [`Chart`]; [`Chart::svg`] draws it. The report, its page and exports use the same renderer.

mod canvas;
mod content;
mod draw;
mod layout;
mod marks;
mod panels;
mod scale;
mod text;
mod theme;

pub use content::{Axis, AxisKind, Chart, ChartMark, Layer, Marks, Panel, PanelGrid};
pub use scale::Scale;
#[cfg(test)]
pub use theme::contrast;
pub use theme::{Palette, Theme};
