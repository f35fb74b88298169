//! report
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "drawing asks for no reproducible last digit")]

pub mod chart;
mod markup;
pub mod number;
