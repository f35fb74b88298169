//! What may be typed behind `netrig sip load`.

use std::path::PathBuf;

use clap::Args;
use netrig_core::{Duration, SpanDistribution};

use crate::commands::sip::environment_arguments::EnvironmentArguments;
use crate::commands::sip::keeping::{KeepArguments, RecordArguments};
use crate::commands::sip::rate::{Rate, TypedGaps, TypedStage};
use crate::commands::sip::scenario::LoadScriptArguments;
use crate::commands::sip::subject::Subject;
use crate::commands::sip::watching::Watching;

/// `netrig sip load`.
#[derive(Debug, Args)]
pub struct Load {
    #[command(flatten)]
    pub subject: Subject,
    #[command(flatten)]
    pub arrivals: ArrivalArguments,
    #[command(flatten)]
    pub watching: Watching,
    #[command(flatten)]
    pub environment: EnvironmentArguments,
    #[command(flatten)]
    pub keeping: KeepArguments,
    #[command(flatten)]
    pub records: RecordArguments,
    #[command(flatten)]
    pub script: LoadScriptArguments,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
}

/// When users begin.
#[derive(Debug, Args)]
#[command(next_help_heading = "Arrivals")]
pub struct ArrivalArguments {
    /// How many begin per second (`/s`), minute (`/min`) or hour (`/h`), whatever became of those before; 10/s if nothing is
    /// given
    #[arg(long, value_name = "RATE", group = "pace")]
    pub rate: Option<Rate>,
    /// The mean time between two that begin, in place of the rate
    #[arg(long, value_name = "TIME", group = "pace", value_parser = gap)]
    pub interval: Option<Duration>,
    /// How many call attempts (or whatever is begun) each user makes in an hour, in place of the rate of all: busy hour call
    /// attempts
    #[arg(long, value_name = "N", group = "pace", value_parser = attempts)]
    pub bhca: Option<f64>,
    /// Stages in place of one rate, one after the other: `100/s,30s`, `100/s..500/s,30s`
    #[arg(long, value_name = "RATE[..RATE],TIME", group = "pace", num_args = 1)]
    pub stage: Vec<TypedStage>,
    /// The moments at which users begin, from a file: a time in seconds on each line
    #[arg(long, value_name = "FILE", group = "pace")]
    pub trace: Option<PathBuf>,
    /// Each of the users begins again such a time after it was done (a closed loop): `10s`, or drawn: `exponential:10s`,
    /// `uniform:5s..15s`, `pareto:10s,1.5`, `lognormal:10s,1`
    #[arg(long, value_name = "TIME", group = "pace")]
    pub pause: Option<SpanDistribution>,
    /// How the gaps of a rate are distributed: poisson, constant, uniform, burst:N
    #[arg(long, value_name = "KIND", default_value = "poisson")]
    pub arrivals: TypedGaps,
    /// How long users begin; what has begun is brought to its end. If nothing is given: as long as the stages or the trace last, or
    /// 10 s
    #[arg(long = "for", value_name = "TIME")]
    pub lasts: Option<Duration>,
    /// The most that begin
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// What begins in the first so much of the time is not measured
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub warm_up: Duration,
    /// Seed of the arrivals: the same one gives the same moments
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// A time above zero.
fn gap(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(Duration::ZERO) => Err("expected more than nothing".to_owned()),
        span => span.map_err(|error| format!("{error}")),
    }
}

/// A number above zero.
fn attempts(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("`{text}` is no number of attempts above zero"))
}
