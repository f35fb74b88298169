//! The number of replications of a point, and the warm-up that is removed from each.

use std::str::FromStr;

use netrig_core::{Duration, read_from_scalar, written};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The part at the start of a run that is removed before the run is reduced. In a file: `"none"`, `"5 s"` or
/// `"mser-5"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarmUp {
    /// Nothing.
    #[default]
    None,
    /// A fixed time.
    Fixed(Duration),
    /// The cut that the MSER-5 rule finds (White 1997), for each run and response.
    Mser5,
}

/// The number of replications of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Replications {
    /// Least number of replications.
    pub min: u32,
    /// Greatest number of replications; equal to `min` without a stopping rule.
    pub max: u32,
    /// The stopping rule between `min` and `max`.
    pub until: Option<Precision>,
}

/// A stopping rule: replications continue until the interval of a response is narrow enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Precision {
    /// The response that is watched.
    pub response: String,
    /// Half of the interval's width, as a share of the mean.
    pub half_width: netrig_core::Fraction,
}

impl Replications {
    /// `n` runs of each point.
    pub const fn exactly(n: u32) -> Self {
        Self { min: n, max: n, until: None }
    }
}

impl FromStr for WarmUp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "mser-5" => Ok(Self::Mser5),
            time if time.starts_with(|c: char| c.is_ascii_digit()) => {
                time.parse().map(Self::Fixed).map_err(|error: netrig_core::UnitError| error.to_string())
            }
            other => Err(format!("`{other}` is not {WARM_UP}")),
        }
    }
}

const WARM_UP: &str = "`none`, `mser-5` or a time such as `5 s`";

read_from_scalar!(WarmUp, written::text, WARM_UP, "WarmUp", {
    "type": "string", "description": WARM_UP, "examples": ["none", "5 s", "mser-5"]
});
