//! What may be typed behind `netrig sip capacity`.

use std::path::PathBuf;

use clap::{Args, Command, ValueEnum};
use netrig_core::{Duration, Fraction};

use crate::commands::sip::environment_arguments::EnvironmentArguments;
use crate::commands::sip::keeping::KeepArguments;
use crate::commands::sip::rate::{Rate, TypedGaps};
use crate::commands::sip::subject::Subject;
use crate::commands::sip::watching::Watching;

/// `netrig sip capacity`.
#[derive(Debug, Args)]
pub struct Capacity {
    #[command(flatten)]
    pub subject: Subject,
    #[command(flatten)]
    pub search: SearchArguments,
    #[command(flatten)]
    pub watching: Watching,
    #[command(flatten)]
    pub environment: EnvironmentArguments,
    #[command(flatten)]
    pub keeping: KeepArguments,
    /// Test first whether the server keeps the rules of basic calls and registrations (`netrig sip conform --set basic-call`)
    #[arg(long)]
    pub conform: bool,
    /// Where each step is written down; a search that was interrupted goes on from there
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// Print a line for each step below the result
    #[arg(long, short)]
    pub verbose: bool,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
}

/// How a capacity is looked for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub struct SearchArguments {
    /// How the rate is looked for
    #[arg(long, value_enum, default_value_t = ModeName::Sequential)]
    pub mode: ModeName,
    /// The first rate
    #[arg(long, value_name = "RATE", default_value = "100/s")]
    pub start: Rate,
    /// A capacity below it is told as "less than"
    #[arg(long, value_name = "RATE", default_value = "1/s")]
    pub lowest: Rate,
    /// No higher rate is offered
    #[arg(long, value_name = "RATE", default_value = "1000000/s")]
    pub highest: Rate,
    /// How gaps between calls are distributed: poisson, constant, uniform, burst:N
    #[arg(long, value_name = "KIND", default_value = "poisson")]
    pub arrivals: TypedGaps,
    /// Seed of the arrivals; those of each step are drawn anew
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Sequential: by which share the upper end of the capacity's interval may be above the lower one
    #[arg(long, value_name = "SHARE", default_value = "25%")]
    pub precision: Fraction,
    /// Sequential: no step begins that would not end within this time; the interval is then as wide as it is
    #[arg(long, value_name = "TIME", default_value = "165s")]
    pub within: Duration,
    /// Sequential: a rate fails at which more requests than this share of what begins must be sent again
    #[arg(long, value_name = "SHARE", default_value = "0.1%")]
    pub again: Fraction,
    /// Sequential: no step is decided sooner. A server that flushes every 60 s needs 180 s
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub least: Duration,
    /// Sequential: no step but the last lasts longer
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub most: Duration,
    /// Sequential: how long the lower end of the interval must hold
    #[arg(long, value_name = "TIME", default_value = "20s")]
    pub confirm: Duration,
    /// RFC 7502: sessions of each step, N
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub sessions: u64,
    /// RFC 7502: by which share the rate rises, w
    #[arg(long, value_name = "SHARE", default_value = "10%")]
    pub increase: Fraction,
    /// Design objective: by how much the rate rises from step to step
    #[arg(long, value_name = "RATE", default_value = "10/s")]
    pub increment: Rate,
    /// Design objective: how long each step lasts
    #[arg(long, value_name = "TIME", default_value = "30min")]
    pub step: Duration,
}

/// How a rate is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeName {
    /// Rates in a ramp, then where a curve through all steps leaves the capacity open
    Sequential,
    /// The algorithm of RFC 7502, section 4.10
    Rfc7502,
    /// The design objective capacity of ETSI TS 186 008
    DesignObjective,
}

/// The flag from which a setting of a search comes; the setting's own name, if it has no flag.
pub fn typed_name(setting: &str) -> String {
    let id = setting.strip_suffix("_s").unwrap_or(setting);
    let flags = Capacity::augment_args(Command::new("capacity"));
    match id {
        "test.good" | "test.bad" | "objective" => "the share of failures that --success allows".to_owned(),
        "linger" => "the time after which a request has failed, by --t1,".to_owned(),
        id if flags.get_arguments().any(|flag| flag.get_id() == id) => format!("--{id}"),
        _ => setting.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use netrig_sip_tester::capacity::{CapacitySearch, SearchSettings, Sequential};

    use super::*;

    #[test]
    fn a_setting_is_named_by_its_flag() {
        let settings = SearchSettings::sequential("calls", 100.0, Vec::new());
        let short = Sequential { within_s: 1.0, ..Sequential::default() };
        let short =
            SearchSettings { mode: netrig_sip_tester::capacity::Mode::Sequential(short), ..settings.clone() };
        for (settings, sentence) in [
            (short, "--within is 1 s; expected: finite and at least --least, which is 5 s"),
            (
                SearchSettings { highest: 10.0, ..settings.clone() },
                "--start is 100/s; expected: between --lowest, which is 1/s, and --highest, which is 10/s",
            ),
            (
                SearchSettings { patience_s: -1.0, ..settings.clone() },
                "--patience is -1 s; expected: at least 0 and finite",
            ),
            (SearchSettings { rest_s: -1.0, ..settings }, "rest_s is -1 s; expected: at least 0 and finite"),
        ] {
            assert_eq!(CapacitySearch::new(settings).unwrap_err().sentence(typed_name), sentence);
        }
    }
}
