//! Figures: their descriptions and their data.

mod check;
mod course;
mod data;
mod evaluate;
mod expression;
mod spec;
mod watched;

pub use course::{TracedRun, quantities};
pub use data::{
    AxisData, FigureData, FigurePoint, Grid, Legend, Panel, PaperAbscissa, PaperPoint, PaperSeries,
    PaperThreshold, Series, TheoryLine,
};
pub use expression::{Expression, ExpressionError};
pub use spec::{Axis, FigureSpec, PICTURE, TIME, Theories, TheorySpec};
pub use watched::WatchedRun;

#[cfg(test)]
mod tests;
