//! The command line of sweeps on many machines.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use netrig_core::Duration;
use netrig_core::setting::{AboveZero, AtLeastOne};
use netrig_sweep::engine::ENGINES;
use netrig_sweep::{USUAL_CHUNK_S, task_variables};

use crate::typed::{value, value_as};
use crate::which::{Where, Which};

/// `netrig split`.
#[derive(Debug, Args)]
pub struct SplitArguments {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// The folder of the sweep, which all machines must see
    #[arg(long, value_name = "DIR")]
    pub into: PathBuf,
    #[command(flatten)]
    pub size: SizeArguments,
    /// Keep the time series and the time line of each run
    #[arg(long)]
    pub traces: bool,
}

/// The size of chunks.
#[derive(Clone, Copy, Debug, Args)]
pub struct SizeArguments {
    #[arg(
        long,
        value_name = "TIME",
        value_parser = value_as::<AboveZero, Duration>,
        help = format!("Work of a chunk; default: {USUAL_CHUNK_S} s, or less if that gives fewer than eight chunks for each of the --slots")
    )]
    pub chunk: Option<Duration>,
    /// Number of tasks that run at the same time; with a command as engine, default: the number of cores
    #[arg(long, value_name = "N", value_parser = value_as::<AtLeastOne, u32>)]
    pub slots: Option<u32>,
}

/// `netrig chunk`.
#[derive(Debug, Args)]
pub struct ChunkArguments {
    /// The folder of the sweep
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    #[arg(
        value_name = "K",
        value_parser = value::<u32>,
        help = format!("Numbers of chunks, from 1; default: the one of the engine's task, by its variable ({})", task_variables())
    )]
    pub chunks: Vec<u32>,
    /// A number that counts from 0, as HTCondor's $(Process): chunk N + 1
    #[arg(long, value_name = "N", conflicts_with = "chunks", value_parser = value::<u32>)]
    pub index: Option<u32>,
    /// Number of runs at the same time
    #[arg(long, value_name = "N", default_value = "1", value_parser = value::<NonZeroUsize>)]
    pub jobs: NonZeroUsize,
    /// A folder on a local disk for the runs in progress; default: TMPDIR, or /tmp
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

/// `netrig merge`.
#[derive(Debug, Args)]
pub struct MergeArguments {
    /// The store that gets the runs; it is created if it does not exist
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// Stores to take runs from, and folders of sweeps, for all their shards
    #[arg(value_name = "SHARD", required = true)]
    pub shards: Vec<PathBuf>,
}

/// `netrig sweep`.
#[derive(Debug, Args)]
pub struct SweepArguments {
    /// The folder of the sweep
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Cancel the tasks that the engine has
    #[arg(long)]
    pub cancel: bool,
    /// Print one JSON document
    #[arg(long, conflicts_with = "cancel")]
    pub json: bool,
}

/// `netrig run --via`.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "On many machines",
    mut_arg("chunk", |chunk| chunk.requires("via")),
    mut_arg("slots", |slots| slots.requires("via"))
)]
pub struct ViaArguments {
    #[arg(
        long,
        value_name = "ENGINE",
        conflicts_with = "jobs",
        help = format!("Make the runs on an engine: {ENGINES}, where {{}} is replaced by the command of a chunk (`command ssh node1 {{}}`)")
    )]
    pub via: Option<String>,
    /// The folder of the sweep, which all machines must see; default: beside the store
    #[arg(long, value_name = "DIR", requires = "via")]
    pub into: Option<PathBuf>,
    #[command(flatten)]
    pub size: SizeArguments,
    /// The most attempts for each chunk
    #[arg(long, value_name = "N", requires = "via", default_value_t = 5, value_parser = value_as::<AtLeastOne, u32>)]
    pub attempts: u32,
    /// Print the first submission, and submit nothing
    #[arg(long, requires = "via")]
    pub dry_run: bool,
    /// Cancel the tasks that the engine has of this sweep
    #[arg(long, requires = "via", conflicts_with = "dry_run")]
    pub cancel: bool,
    /// Options for the engine, after `--`: `-- --partition=long`
    #[arg(last = true, value_name = "OPTION", requires = "via")]
    pub options: Vec<String>,
}
