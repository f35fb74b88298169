//! Goodness of fit to a distribution, to independence or to a straight line. Used to check traffic generators and links
//! against their settings.

mod anderson;
mod kolmogorov;
mod median_slope;
mod pass_curve;
mod regression;
mod streaming;

pub use anderson::{AndersonDarling, anderson_darling_exponential};
pub use kolmogorov::{KolmogorovSmirnov, kolmogorov_smirnov};
pub use median_slope::median_slope;
pub use pass_curve::{CredibleLevel, PassCurve, pass_curve};
pub use regression::{FittedLine, line};
pub use streaming::{DistanceFrom, RunningMoments, WindowCounts};
