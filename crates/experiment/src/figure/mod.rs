//! Figures: what is drawn, and the numbers to draw.

mod course;
mod evaluate;
mod expression;
mod spec;

pub use course::TracedRun;
pub use evaluate::{
    AxisData, FigureData, FigurePoint, Grid, Panel, PaperPoint, PaperSeries, Series, TheoryLine,
};
pub use expression::{Expression, ExpressionError};
pub use spec::{Axis, FigureSpec, TIME, Theories, TheorySpec};

#[cfg(test)]
mod tests;
