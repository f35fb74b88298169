//! Charts: what is drawn, apart from how.
//!
//! Start from [`Chart`]; [`Chart::svg`] draws it. One renderer serves the report, the export and the page.

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
pub use theme::{Palette, Theme, contrast};
