//! Arguments for an experiment, for changes of the experiment, and for a store.

use std::path::PathBuf;

use crate::typed::{value, value_as};
use clap::Args;
use netrig_core::Size;
use netrig_core::setting::AboveZero;
use netrig_sim::Simulator;

/// The store if `--store` is not given.
pub const STORE: &str = "netrig.db";

/// An experiment, and what to change in it.
#[derive(Debug, Args)]
pub struct Which {
    /// An experiment file, or the name of a study (`link-down`, `link-down/failover`)
    #[arg(value_name = "FILE|STUDY")]
    pub experiment: String,
    #[command(flatten)]
    pub changes: Changes,
}

/// Changes of an experiment, and where it runs.
#[derive(Clone, Debug, Args)]
pub struct Changes {
    /// Give a factor other levels: `down_for=10s,20s`; a piece with `=` starts the next factor
    #[arg(long, value_name = "FACTOR=LEVEL[,LEVEL..]")]
    pub set: Vec<String>,
    /// Number of replications of each point, instead of the file's rule
    #[arg(long, value_name = "N", value_parser = value::<u32>)]
    pub replications: Option<u32>,
    /// Seed of the first replication, instead of the file's
    #[arg(long, value_name = "N", value_parser = value::<u64>)]
    pub seed: Option<u64>,
    /// Memory limit of one simulated run; a run that would exceed it fails
    #[arg(long, value_name = "SIZE", default_value_t = Simulator::MOST_MEMORY, value_parser = value_as::<AboveZero, Size>)]
    pub memory: Size,
    /// Substrates, separated by commas; default: `sim`, or `netns` if the simulator can run no point
    #[arg(long, value_name = "SUBSTRATE[,..]", value_delimiter = ',')]
    pub on: Vec<String>,
}

/// Where results are kept.
#[derive(Debug, Args)]
pub struct Where {
    /// The store
    #[arg(long, value_name = "PATH", default_value = STORE)]
    pub store: PathBuf,
}
