//! What may be typed.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use netrig_core::{Duration, Fraction, Size};
use netrig_sim::Simulator;
use netrig_sip_tester::keep::KeepPolicy;

/// The store that is meant if none is named.
pub const STORE: &str = "netrig.db";

/// A network performance laboratory: experiments as files, answers with their evidence.
#[derive(Debug, Parser)]
#[command(name = "netrig", version = crate::build::BUILD.as_str(), max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run what the store does not have yet, then show responses and verdicts and write the report
    Run(Run),
    /// Check an experiment file, and say what each substrate cannot run of it
    Check(Check),
    /// Show the points and runs of an experiment, and what they will cost
    Plan(Plan),
    /// List the studies, and what a store has of which experiments
    List(List),
    /// Show a study's text, the constants of a profile or an access line, or one run's time line
    Show(Show),
    /// Write the report of what a store has
    Report(Report),
    /// Compare two stores, or two versions in one: how far do their results agree, and what was different?
    Compare(Compare),
    /// Write results as CSV or Parquet, figures as SVG, and one run's packets as a capture or a figure
    Export(Export),
    /// Measure a path between two hosts: delay, loss, order
    Probe(crate::commands::Probe),
    /// Measure how fast a line is, both ways, and how long packets take meanwhile
    Speed(Box<crate::commands::Speed>),
    /// Test with SIP: servers to answer others, loads of calls and registrations for a server
    Sip(crate::commands::Sip),
    /// Hold an experiment's topology up in network namespaces, and run a command in one of its nodes
    Lab(Lab),
    /// Say what this machine can do and what would spoil a measurement on it, and remove what a killed run left
    Doctor(Doctor),
    /// Print the JSON schema of experiment files, or of what a tester prints
    Schema(crate::commands::Schema),
    /// Carry out what a controller says over standard input, as the nodes of a testbed do
    #[command(hide = true)]
    Agent(Agent),
}

/// `netrig agent`.
#[derive(Debug, Args)]
pub struct Agent {
    #[command(subcommand)]
    pub instead: Option<InsteadOfAnAgent>,
}

/// What an agent's program does on a node beside its agent.
#[derive(Debug, Subcommand)]
pub enum InsteadOfAnAgent {
    /// Compute for a share of the time of each of these processors, until standard input ends
    Load {
        /// Of each processor, 0 to 1
        share: Fraction,
        /// Their numbers, from 0
        #[arg(value_delimiter = ',', required = true)]
        processors: Vec<u32>,
    },
}

/// Which experiment, and what to change in it.
#[derive(Debug, Args)]
pub struct Which {
    /// An experiment file, or the name of a study (`link-down`, `link-down/failover`)
    #[arg(value_name = "FILE|STUDY")]
    pub experiment: String,
    #[command(flatten)]
    pub changes: Changes,
}

/// What to change in an experiment, and where it runs.
#[derive(Clone, Debug, Args)]
pub struct Changes {
    /// Give a factor other levels: `down_for=10s,20s`; a piece with `=` starts the next factor
    #[arg(long, value_name = "FACTOR=LEVEL[,LEVEL..]")]
    pub set: Vec<String>,
    /// Exactly so many replications of each point, in the place of the file's rule
    #[arg(long, value_name = "N")]
    pub replications: Option<u32>,
    /// Seed of the first replication, in the place of the file's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// The most memory that one simulated run may take; one that would take more fails
    #[arg(long, value_name = "SIZE", default_value_t = Simulator::MOST_MEMORY)]
    pub memory: Size,
    /// Substrates, with commas between; `sim` if not given, and `netns` where the simulator can run no point
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

/// `netrig lab`.
#[derive(Debug, Args)]
pub struct Lab {
    /// An experiment file, or the name of a study; of several points the first that `--set` leaves
    #[arg(value_name = "FILE|STUDY")]
    pub experiment: String,
    /// Give a factor other levels: `rate=1 Mbit/s`
    #[arg(long, value_name = "FACTOR=LEVEL[,LEVEL..]")]
    pub set: Vec<String>,
    /// The node in which the command runs; the lab ends with it
    #[arg(long, value_name = "NODE", requires = "command")]
    pub node: Option<String>,
    /// Let the lab run the programs that the file's nodes name: on this machine, with your rights
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
    /// Runs at the same time; as many as there are cores if not given
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Keep the time series and the time line of each run that is made in the store
    #[arg(long)]
    pub traces: bool,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
    /// Where the report goes, `.html`, `.md`, `.csv` or `.json` by its ending; beside the store if not given
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace a report even if it was made of more points or runs
    #[arg(long)]
    pub force: bool,
    /// End with exit code 1 if a claim is not supported
    #[arg(long)]
    pub require_claims: bool,
    /// Let the experiment run the programs that its nodes name: on this machine, with your rights
    #[arg(long)]
    pub allow_programs: bool,
    #[command(flatten)]
    pub keep: RunKeep,
}

/// Messages of flows of SIP that are kept while runs are made.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages of flows of SIP (--on netns)")]
pub struct RunKeep {
    /// Keep messages of each run that is made: `all`, those of attempts that `failed`, of the `slowest:100` to get a final response, or a `sample:1%` of the attempts
    #[arg(long, value_name = "WHICH")]
    pub keep: Option<KeepPolicy>,
    /// The folder: of each run and flow a .log, for `netrig sip show` and editors, and a .pcapng, for Wireshark
    #[arg(long, value_name = "DIR", default_value = "sip-messages", requires = "keep")]
    pub keep_to: PathBuf,
    /// The most that the files of all runs may take on the disk; what would exceed it is dropped and counted
    #[arg(long, value_name = "SIZE", default_value = "4 GB", requires = "keep")]
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

/// What `netrig show` can show.
#[derive(Debug, Subcommand)]
pub enum Shown {
    /// A study: what it asks, its experiments, and its README
    Study {
        /// Its name; of one of its further experiments (`link-down/failover`) the text of the file
        name: String,
    },
    /// Every constant of a profile, with its meaning and its source
    Profile {
        /// Which
        profile: ProfileName,
        /// Only this protocol
        #[arg(long)]
        protocol: Option<ProtocolName>,
    },
    /// A preset of access lines, or all of them: its constants with their sources, and how asymmetric it is
    Preset {
        /// Which (`adsl2+`); without it what there is
        name: Option<String>,
    },
    /// One run: its levels, its responses, and what happened when
    Run {
        /// The first characters of the run's identity, as `netrig list` prints it
        id: String,
        #[command(flatten)]
        place: Where,
    },
}

/// A profile of endpoints' constants.
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
    /// Where it goes: `.html`, `.md`, `.csv` or `.json` by its ending
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace a report even if it was made of more points or runs
    #[arg(long, requires = "out")]
    pub force: bool,
}

/// `netrig compare`.
#[derive(Debug, Args)]
pub struct Compare {
    #[command(flatten)]
    pub which: Which,
    /// The first store; `PATH@VERSION` for runs of a version of the file or of a build, by its first characters
    #[arg(long, value_name = "PATH[@VERSION]", default_value = STORE)]
    pub store: PathBuf,
    /// The second store; `@VERSION` for another version in the first
    #[arg(long, value_name = "[PATH][@VERSION]")]
    pub with: PathBuf,
    /// Results agree if the whole interval of their ratio lies within 1 and this share, differ if it lies outside. What
    /// the file asks of a response if not given, and 5 % where it asks nothing
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
    /// A file (`/dev/stdout` for the next program); a folder for svg and for the captures of several nodes
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
    /// Replace files even if they were made of more points or runs
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub capture: Capture,
}

/// What is written: one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Form {
    /// In which format
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
    /// The packets of one run: the same as `--format pcapng`
    #[arg(long)]
    pcapng: bool,
    /// A figure of one run, as a drawing
    #[arg(long, value_enum)]
    figure: Option<RunFigure>,
}

impl Form {
    /// What was asked for.
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
    /// Runs, figures or packets as they are.
    Format(ExportFormat),
    /// What one run's packets tell.
    Figure(RunFigure),
}

/// Which packets of which run.
#[derive(Debug, Args)]
#[command(next_help_heading = "One run (--pcapng, --figure, --format events)")]
pub struct Capture {
    /// The run: the first characters of its identity, as `netrig list` prints it. It is made again
    #[arg(long, value_name = "ID", conflicts_with_all = ["experiment", "set", "replications", "seed", "on"])]
    pub run: Option<String>,
    /// Look at this node; at the one that sends the data of the first flow if not given. Of several, each gets a
    /// capture NODE.pcapng in the folder `--out`. For the figure delivery SENDER,RECEIVER
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "experiment")]
    pub node: Vec<String>,
    /// For events: look at this link, or at one direction of it (`NAME.forward`, `NAME.backward`); at all if not given
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "experiment")]
    pub link: Vec<String>,
    /// Only packets from this moment of the run on: `2.5s`; of the figure video the round of the clip at that moment
    #[arg(long, value_name = "TIME", conflicts_with = "experiment")]
    pub from: Option<Duration>,
    /// Only packets up to this moment of the run
    #[arg(long, value_name = "TIME", conflicts_with = "experiment")]
    pub to: Option<Duration>,
    /// Keep no more than so much of each packet in a capture: `96B` for the headers; all of it if not given
    #[arg(long, value_name = "SIZE", conflicts_with = "experiment")]
    pub snap: Option<Size>,
}

/// A format of export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// One line for each run, with a heading
    Csv,
    /// The same as Parquet
    Parquet,
    /// Each figure of the experiment as a drawing
    Svg,
    /// The packets that pass a node in one run, for Wireshark and tshark
    Pcapng,
    /// What happened to each packet on a link in one run, a line for each event: CSV, or JSON in a file `.jsonl`
    Events,
}

/// A figure of one run, made of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunFigure {
    /// What a node sent against time, by sequence number
    Sequence,
    /// When each message of an SCTP association arrived, and how long it waited
    Delivery,
    /// A picture of the run's video flows, as it was sent and as it came to each, side by side (PNG; needs ffmpeg)
    Video,
}

/// `netrig doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Print one JSON document instead of lines
    #[arg(long)]
    pub json: bool,
}
