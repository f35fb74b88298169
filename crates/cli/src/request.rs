//! From what was typed to an experiment and the substrates to run it on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use netrig_core::Duration;
use netrig_experiment::{
    Assignment, Experiment, LONGEST_FILE, Paper, Replications, Scenario, SetError, Substrate, with_captures,
    with_files, with_moments,
};
use netrig_sim::Simulator;
use netrig_sip::load::moments_of;
use netrig_traffic::{Trace, TracedDatagram};

use crate::arguments::Which;
use crate::failure::Failure;
use crate::studies;

/// An experiment, ready to be planned.
pub struct ExperimentRequest {
    /// The experiment, with the levels and replications that were asked for.
    pub experiment: Experiment,
    /// The factors that were given other levels.
    pub set: BTreeSet<String>,
    /// The text of its file.
    pub text: String,
    /// The study's README, if it is a shipped one or lies beside the file.
    pub readme: Option<String>,
    /// Where it is to run.
    pub substrates: Vec<&'static dyn Substrate>,
}

impl ExperimentRequest {
    /// Finds, reads and checks.
    pub fn new(which: &Which) -> Result<Self, Failure> {
        let Which { experiment, changes } = which;
        let source = Source::find(experiment)?;
        let paper = source.paper.as_deref().map(|text| paper(&source.paper_name, text)).transpose()?;
        let parsed = match paper {
            Some(paper) => Experiment::parse_with_paper(&source.name, &source.text, paper),
            None => Experiment::parse(&source.name, &source.text),
        };
        let mut experiment = parsed.map_err(Failure::request)?;
        let mut named = BTreeSet::new();
        for set in &changes.set {
            let assignments =
                Assignment::parse(set).map_err(|e| Failure::request(format!("--set {set}: {e}")))?;
            named.extend(assignments.iter().map(|assignment| assignment.factor.clone()));
            experiment = experiment.set(&assignments).map_err(|error| match error {
                // What is wrong with the file then says itself which level it is.
                SetError::Refused(diagnostics) => Failure::request(diagnostics),
                other => Failure::request(format!("--set {set}: {other}")),
            })?;
        }
        if let Some(n) = changes.replications {
            if n == 0 {
                return Err(Failure::request("--replications 0: at least one is needed"));
            }
            experiment.design.replications = Replications::exactly(n);
        }
        if let Some(seed) = changes.seed {
            experiment.seed = seed;
        }
        if let Some(twice) = (1..changes.on.len()).find(|n| changes.on[..*n].contains(&changes.on[*n])) {
            return Err(Failure::request(format!("--on names `{}` twice", changes.on[twice])));
        }
        let substrates = match &changes.on[..] {
            [] => vec![usual(&experiment)?],
            names => names.iter().map(|name| substrate(name)).collect::<Result<_, _>>()?,
        };
        Ok(Self { experiment, set: named, text: source.text, readme: source.readme, substrates })
    }
}

/// An experiment's text, wherever it is from.
struct Source {
    name: String,
    text: String,
    paper: Option<String>,
    paper_name: String,
    readme: Option<String>,
}

impl Source {
    /// A file if there is one, else a study of that name.
    fn find(wanted: &str) -> Result<Self, Failure> {
        let path = Path::new(wanted);
        if path.is_file() {
            let beside = |name: &str| path.with_file_name(name);
            let paper_path: PathBuf = beside("paper.toml");
            let text = with_captures(wanted, &read(path)?, |name| datagrams(&beside(name)))
                .and_then(|text| with_moments(wanted, &text, |name| moments(&beside(name))))
                .and_then(|text| with_files(wanted, &text, |name| read_beside(&beside(name))))
                .map_err(Failure::request)?;
            return Ok(Self {
                name: wanted.to_owned(),
                text,
                paper: paper_path.is_file().then(|| read(&paper_path)).transpose()?,
                paper_name: paper_path.display().to_string(),
                readme: beside("README.md").is_file().then(|| read(&beside("README.md"))).transpose()?,
            });
        }
        match studies::find(wanted) {
            Some((study, text)) => Ok(Self {
                name: format!("{wanted} (shipped study)"),
                text: study.whole(wanted, text).map_err(Failure::request)?,
                paper: study.paper.map(str::to_owned),
                paper_name: format!("{}/paper.toml", study.name),
                readme: study.readme.map(str::to_owned),
            }),
            None => Err(unknown(wanted)),
        }
    }
}

fn unknown(wanted: &str) -> Failure {
    let path = Path::new(wanted);
    if path.is_dir() {
        return Failure::request(format!("`{wanted}` is a folder; name the experiment file in it"));
    }
    let names: Vec<String> = studies::STUDIES.iter().flat_map(|s| s.names().map(|(name, _)| name)).collect();
    Failure::request(format!(
        "there is no file and no study `{wanted}`; the studies are: {}",
        names.join(", ")
    ))
}

fn read(path: &Path) -> Result<String, Failure> {
    let name = path.display();
    let size = std::fs::metadata(path).map(|meta| meta.len()).unwrap_or(0);
    if size > LONGEST_FILE as u64 {
        return Err(Failure::request(format!(
            "{name}: {size} bytes are too many for an experiment file (at most {LONGEST_FILE})"
        )));
    }
    let bytes =
        std::fs::read(path).map_err(|error| Failure::request(format!("cannot read {name}: {error}")))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::request(format!("{name}: byte {at} is no UTF-8 text; an experiment file is TOML"))
    })
}

/// The text of a file that an experiment gives a program.
fn read_beside(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > LONGEST_FILE as u64 {
        return Err(format!("{size} bytes are too many (at most {LONGEST_FILE})"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// The longest capture that is read, bytes.
const LONGEST_CAPTURE: u64 = 1 << 28;

/// The datagrams of a capture.
fn datagrams(path: &Path) -> Result<Vec<TracedDatagram>, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > LONGEST_CAPTURE {
        return Err(format!("{size} bytes are too many (at most {LONGEST_CAPTURE})"));
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    Trace::datagrams_of(&bytes).map_err(|error| error.to_string())
}

/// The moments of a trace.
fn moments(path: &Path) -> Result<Vec<Duration>, String> {
    moments_of(&read_beside(path)?).map_err(|error| error.to_string())
}

fn paper(name: &str, text: &str) -> Result<Paper, Failure> {
    Paper::parse(text).map_err(|errors| {
        let line = |at: usize| text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
        let lines: Vec<_> = errors.iter().map(|e| format!("{name}:{}: {e}", line(e.span.start))).collect();
        Failure::request(lines.join("\n"))
    })
}

/// The substrate called `name`: the only place that names one.
pub fn substrate(name: &str) -> Result<&'static dyn Substrate, Failure> {
    match name {
        "sim" => Ok(&Simulator),
        #[cfg(target_os = "linux")]
        "netns" => Ok(namespaces()),
        other => Err(Failure::request(format!(
            "there is no substrate `{other}`; there are: {}",
            SUBSTRATES.join(", ")
        ))),
    }
}

/// Where an experiment runs unless somebody says where: in virtual time, or, where that can run no point of it and the next can
/// run one, there.
fn usual(experiment: &Experiment) -> Result<&'static dyn Substrate, Failure> {
    let plan = experiment.plan();
    let runs_in = |substrate: &dyn Substrate| {
        let runs = |place| plan.run(place, 1).is_ok_and(|run| substrate.check(&run).is_ok());
        (0..plan.len()).any(runs)
    };
    for name in SUBSTRATES {
        let substrate = substrate(name)?;
        if runs_in(substrate) {
            return Ok(substrate);
        }
    }
    substrate(SUBSTRATES[0])
}

/// From now on the substrates may run the programs that an experiment file names.
pub fn allow_programs() {
    #[cfg(target_os = "linux")]
    namespaces().allow_programs();
}

/// The names of all substrates.
pub const SUBSTRATES: &[&str] = if cfg!(target_os = "linux") { &["sim", "netns"] } else { &["sim"] };

/// Why a scenario is not run on the substrate called `on` as long as nobody allows its programs; nothing if it has none.
pub fn not_allowed(scenario: &Scenario, on: &str) -> Option<Failure> {
    let (node, program) = scenario.first_program()?;
    Some(Failure::request(format!(
        "node `{}` runs `{}` on this machine with your rights (--on {on}); if you trust the experiment file, allow it by \
         --allow-programs",
        node.name,
        program.name()
    )))
}

/// The substrate of Linux's network namespaces.
#[cfg(target_os = "linux")]
pub fn namespaces() -> &'static netrig_netns::Namespaces {
    use std::sync::OnceLock;

    use netrig_netns::Namespaces;

    static NAMESPACES: OnceLock<Namespaces> = OnceLock::new();
    // What runs in a node is this program, also if its file was replaced meanwhile.
    NAMESPACES.get_or_init(|| Namespaces::new("/proc/self/exe", journals()))
}

/// The journals of the testbeds: where `NETRIG_RUN_DIR` says, so that who has a folder of their own neither finds nor removes
/// what others made.
#[cfg(target_os = "linux")]
pub fn journals() -> netrig_netns::Journals {
    use netrig_netns::Journals;

    match std::env::var_os("NETRIG_RUN_DIR") {
        Some(folder) if !folder.is_empty() => Journals::at(folder),
        _ => Journals::default(),
    }
}
