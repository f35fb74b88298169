//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::typed::{value, value_as};
use clap::{Args, Parser, Subcommand, ValueEnum};
use netrig_core::setting::AboveZero;
use netrig_core::{Duration, Fraction, Size};
use netrig_sip_tester::keep::KeepPolicy;

pub use crate::which::{Changes, STORE, Where, Which};

/// A network performance laboratory: experiments as files, answers with their evidence.
#[derive(Debug, Parser)]
#[command(name = "netrig", version = crate::build::BUILD.as_str(), max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make the runs that the store lacks, show responses and verdicts, and write the report
    Run(Run),
    /// Check an experiment file, and list what each substrate cannot run
    Check(Check),
    /// Show the points and runs of an experiment, and what they will cost
    Plan(Plan),
    /// List the studies, and the experiments and runs of a store
    List(List),
    /// Show a study's text, the constants of a profile or an access line, or one run's time line
    Show(Show),
    /// Write the report of the runs in a store
    Report(Report),
    /// Compare the results of two stores, or of two versions in one store, and list the differences in how they were
    /// made
    Compare(Compare),
    /// Write results as CSV or Parquet, figures as SVG, and one run's packets as a capture or a figure
    Export(Export),
    /// Measure a path between two hosts: delay, loss, order
    Probe(crate::commands::Probe),
    /// Measure the speed of a line in both directions, and packet delays under that load
    Speed(Box<crate::commands::Speed>),
    /// Test SIP: servers that answer, and loads of calls and registrations for a server
    Sip(crate::commands::Sip),
    /// Set up an experiment's topology in network namespaces, and run a command in one of its nodes
    Lab(Lab),
    /// Split an experiment into chunks of runs for many machines: a folder with everything that they need
    Split(crate::commands::SplitArguments),
    /// Make the runs of a chunk of a sweep
    Chunk(crate::commands::ChunkArguments),
    /// Add the runs of other stores, or of a sweep, to a store
    Merge(crate::commands::MergeArguments),
    /// Show the state of a sweep, or cancel it
    Sweep(crate::commands::SweepArguments),
    /// Show the abilities of this machine and what would disturb a measurement, and clean up after killed runs
    Doctor(Doctor),
    /// Print the JSON schema of experiment files, or of a tester's document
    Schema(crate::commands::Schema),
    /// Execute the requests of a controller on standard input, as on the nodes of a testbed
    #[command(hide = true)]
    Agent(Agent),
}

/// `netrig agent`.
#[derive(Debug, Args)]
pub struct Agent {
    #[command(subcommand)]
    pub instead: Option<InsteadOfAnAgent>,
}

/// Tasks of the program on a node, in place of an agent.
#[derive(Debug, Subcommand)]
pub enum InsteadOfAnAgent {
    /// Keep each of these processors busy for a share of the time, until standard input ends
    Load {
        /// Share of each processor, 0 to 1
        share: Fraction,
        /// Numbers of the processors, from 0
        #[arg(value_delimiter = ',', required = true)]
        processors: Vec<u32>,
    },
}

/// `netrig lab`.
#[derive(Debug, Args)]
pub struct Lab {
    /// An experiment file, or the name of a study; the lab has the topology of the first point after `--set`
    #[arg(value_name = "FILE|STUDY")]
    pub experiment: String,
    /// Give a factor other levels: `rate=1 Mbit/s`
    #[arg(long, value_name = "FACTOR=LEVEL[,LEVEL..]")]
    pub set: Vec<String>,
    /// The node in which the command runs; the lab ends when the command ends
    #[arg(long, value_name = "NODE", requires = "command")]
    pub node: Option<String>,
    /// Allow the external programs of the file: they run on this machine with your rights
    #[arg(long)]
    pub allow_programs: bool,
    /// The command, after `--`: `-- iperf3 -c 10.0.0.2`
    #[arg(last = true, value_name = "COMMAND", requires = "node")]
    pub command: Vec<String>,
}

/// `netrig run`.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Number of runs at the same time; default: the number of cores
    #[arg(long, value_name = "N", value_parser = value::<NonZeroUsize>)]
    pub jobs: Option<NonZeroUsize>,
    /// Keep the time series and the time line of each new run in the store
    #[arg(long)]
    pub traces: bool,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
    /// Report file; its ending, `.html`, `.md`, `.csv` or `.json`, selects the format; default: beside the store
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace a report even if the existing one was made from more points or runs
    #[arg(long)]
    pub force: bool,
    /// Exit with code 1 if a claim is not supported
    #[arg(long)]
    pub require_claims: bool,
    /// Allow the external programs of the experiment: they run on this machine with your rights
    #[arg(long)]
    pub allow_programs: bool,
    #[command(flatten)]
    pub keep: RunKeep,
    #[command(flatten)]
    pub via: crate::commands::ViaArguments,
}

/// Messages of SIP flows that are kept while runs are made.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages of SIP flows (--on netns)")]
pub struct RunKeep {
    /// Keep messages of each new run: `all`, or those of attempts that `failed`, of the `slowest:100` attempts by final
    /// response, or of a `sample:1%` of the attempts
    #[arg(long, value_name = "WHICH")]
    pub keep: Option<KeepPolicy>,
    /// The folder; each run and flow gets a .log for `netrig sip show` and editors, and a .pcapng for Wireshark
    #[arg(long, value_name = "DIR", default_value = "sip-messages", requires = "keep")]
    pub keep_to: PathBuf,
    /// Disk space for the files of all runs; messages that would exceed it are dropped and counted
    #[arg(long, value_name = "SIZE", default_value = "4 GB", requires = "keep", value_parser = value_as::<AboveZero, Size>)]
    pub keep_most: Size,
}

/// `netrig check`.
#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    pub which: Which,
}

/// `netrig plan`.
#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
}

/// `netrig list`.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    pub place: Where,
}

/// `netrig show`.
#[derive(Debug, Args)]
pub struct Show {
    /// What to show
    #[command(subcommand)]
    pub what: Shown,
}

/// The subjects of `netrig show`.
#[derive(Debug, Subcommand)]
pub enum Shown {
    /// A study: its questions, its experiments and its README
    Study {
        /// Name of the study, or of one of its further experiments (`link-down/failover`), whose file is printed
        name: String,
    },
    /// Every constant of a profile, with its meaning and its source
    Profile {
        /// Name of the profile
        profile: ProfileName,
        /// Only this protocol
        #[arg(long)]
        protocol: Option<ProtocolName>,
    },
    /// A preset of access lines: its constants with their sources, and how asymmetric it is
    Preset {
        /// Name of the preset (`adsl2+`); without it, all presets are listed
        name: Option<String>,
    },
    /// One run: its levels, its responses and its time line
    Run {
        /// The first characters of the run's identity, as `netrig list` prints it
        id: String,
        #[command(flatten)]
        place: Where,
    },
}

/// A profile of protocol constants.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ProfileName {
    /// What the standards-track RFCs recommend
    Rfc,
    /// What the Linux kernel does
    Linux,
    /// What ns-2 does
    Ns2,
}

/// A protocol that has profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProtocolName {
    /// Transmission Control Protocol
    Tcp,
    /// Stream Control Transmission Protocol
    Sctp,
}

/// `netrig report`.
#[derive(Debug, Args)]
pub struct Report {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Report file; its ending, `.html`, `.md`, `.csv` or `.json`, selects the format
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace a report even if the existing one was made from more points or runs
    #[arg(long, requires = "out")]
    pub force: bool,
}

/// `netrig compare`.
#[derive(Debug, Args)]
pub struct Compare {
    #[command(flatten)]
    pub which: Which,
    /// The first store; `PATH@VERSION` selects the runs of one version of the file or of one build, given by its first
    /// characters
    #[arg(long, value_name = "PATH[@VERSION]", default_value = STORE)]
    pub store: PathBuf,
    /// The second store; `@VERSION` for another version in the first
    #[arg(long, value_name = "[PATH][@VERSION]")]
    pub with: PathBuf,
    /// Results agree if the whole interval of their ratio lies within 1 ± this share, and differ if the whole interval
    /// lies outside. Default: the file's requirement for the response, otherwise 5 %
    #[arg(long, value_name = "SHARE")]
    pub margin: Option<Fraction>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `netrig export`.
#[derive(Debug, Args)]
pub struct Export {
    /// An experiment file, or the name of a study; for csv, parquet and svg
    #[arg(value_name = "FILE|STUDY", required_unless_present = "run")]
    pub experiment: Option<String>,
    #[command(flatten)]
    pub changes: Changes,
    #[command(flatten)]
    pub place: Where,
    #[command(flatten)]
    pub form: Form,
    /// Output file (`/dev/stdout` for a pipe); a folder for svg and for the captures of several nodes
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
    /// Replace files even if the existing ones were made from more points or runs
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub capture: Capture,
}

/// The form of the output: exactly one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Form {
    /// Format
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
    /// The packets of one run, as `--format pcapng`
    #[arg(long)]
    pcapng: bool,
    /// A figure of one run
    #[arg(long, value_enum)]
    figure: Option<RunFigure>,
}

impl Form {
    /// The form that the arguments select.
    pub fn exported(&self) -> Exported {
        match (self.figure, self.format) {
            (Some(figure), _) => Exported::Figure(figure),
            (None, Some(format)) => Exported::Format(format),
            (None, None) => {
                debug_assert!(self.pcapng, "one of the three is required");
                Exported::Format(ExportFormat::Pcapng)
            }
        }
    }
}

/// What `netrig export` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exported {
    /// Runs, figures or packets.
    Format(ExportFormat),
    /// A figure of one run's packets.
    Figure(RunFigure),
}

/// The run, and which of its packets.
#[derive(Debug, Args)]
#[command(next_help_heading = "One run (--pcapng, --figure, --format events)")]
pub struct Capture {
    /// First characters of the run's identity, as `netrig list` prints it; the run is repeated
    #[arg(long, value_name = "ID", conflicts_with_all = ["experiment", "set", "replications", "seed", "on"])]
    pub run: Option<String>,
    /// Node to capture at; default: the node that sends the data of the first flow. For several nodes, `--out` is a
    /// folder with one capture NODE.pcapng for each. For the figure delivery: SENDER,RECEIVER
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "experiment")]
    pub node: Vec<String>,
    /// For events: the link, or one direction of it (`NAME.forward`, `NAME.backward`); default: all links
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "experiment")]
    pub link: Vec<String>,
    /// Time of the first packets, from the start of the run: `2.5s`; for the figure video, the repetition of the clip
    /// at that time
    #[arg(long, value_name = "TIME", conflicts_with = "experiment")]
    pub from: Option<Duration>,
    /// Time of the last packets, from the start of the run
    #[arg(long, value_name = "TIME", conflicts_with = "experiment")]
    pub to: Option<Duration>,
    /// Keep at most this number of bytes of each packet in a capture: `96B` for the headers; default: all
    #[arg(long, value_name = "SIZE", conflicts_with = "experiment")]
    pub snap: Option<Size>,
}

/// A format of export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// One line per run, with a heading
    Csv,
    /// As csv, but Parquet
    Parquet,
    /// Each figure of the experiment as SVG
    Svg,
    /// The packets that pass a node in one run, for Wireshark and tshark
    Pcapng,
    /// The events of each packet on a link in one run, one line each: CSV, or JSON if the file ends with `.jsonl`
    Events,
}

/// A figure of one run's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunFigure {
    /// The sequence numbers that a node sent, against time
    Sequence,
    /// When each message of an SCTP association arrived, and how long it waited
    Delivery,
    /// A picture of the run's video flows, as sent and as each flow received it, side by side (PNG; needs ffmpeg)
    Video,
}

/// `netrig doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Print one JSON document instead of lines
    #[arg(long)]
    pub json: bool,
}
