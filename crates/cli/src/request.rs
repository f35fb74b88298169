//! Reads an experiment and selects the substrates to run it on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use netrig_core::{Duration, Size, fnv1a};
use netrig_experiment::{
    Assignment, Experiment, FileReader, LONGEST_FILE, Paper, Point, Replications, Scenario, ScenarioFault,
    ScenarioText, SetError, Substrate,
};
use netrig_host::user_file::{self, UserFileError};
use netrig_sim::Simulator;
use netrig_sip::load::moments_of;
use netrig_sip_tester::FlowScenario;
use netrig_store::Replication;
use netrig_sweep::SweepFolder;
use netrig_traffic::{Trace, TracedDatagram};

use crate::arguments::{Changes, Which};
use crate::failure::Failure;
use crate::studies;

/// An experiment, ready to be planned.
pub struct ExperimentRequest {
    /// The experiment, with the requested levels and replications.
    pub experiment: Experiment,
    /// The factors whose levels were changed.
    pub set: BTreeSet<String>,
    /// Whether only a part of the file's experiment is requested: other levels, or fewer replications.
    pub is_part: bool,
    /// Prefix of the names of output files: the experiment's name, and for a part also the changes.
    pub stem: String,
    /// The README of a shipped study, or the `README.md` in the folder of the file.
    pub readme: Option<String>,
    /// The substrates to run it on.
    pub substrates: Vec<&'static dyn Substrate>,
    /// The file or study, as given on the command line.
    name: String,
    /// The changes, as typed.
    changes: Changes,
}

impl ExperimentRequest {
    /// Finds, reads and checks the experiment.
    pub fn new(which: &Which) -> Result<Self, Failure> {
        let Which { experiment, changes } = which;
        let source = Source::find(experiment)?;
        let paper = source.paper.as_deref().map(|text| paper(&source.paper_name, text)).transpose()?;
        let parsed = Experiment::read(&source.name, &source.text, paper, Some(&*source.files));
        let (experiment, named, changed) = changed(parsed.map_err(Failure::request)?, changes)?;
        if let Some(twice) = (1..changes.on.len()).find(|n| changes.on[..*n].contains(&changes.on[*n])) {
            return Err(Failure::request(format!("--on names `{}` twice", changes.on[twice])));
        }
        let substrates = match &changes.on[..] {
            [] => vec![usual(&experiment)?],
            names => names.iter().map(|name| substrate(name)).collect::<Result<_, _>>()?,
        };
        let stem = stem(&experiment.design.name, &changed);
        Ok(Self {
            experiment,
            set: named,
            is_part: !changed.is_empty(),
            stem,
            readme: source.readme,
            substrates,
            name: source.name,
            changes: changes.clone(),
        })
    }

    /// The experiment of a sweep.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn of_sweep(folder: &SweepFolder) -> Result<Self, Failure> {
        let manifest = folder.manifest();
        let name = folder.path().join("experiment.toml").display().to_string();
        let text = folder.experiment_text().map_err(Failure::failed)?;
        let parsed = Experiment::parse_runs(&name, &text).map_err(Failure::request)?;
        let changes = Changes {
            set: manifest.set.clone(),
            replications: manifest.replications,
            seed: manifest.seed,
            memory: Size::from_bytes(manifest.memory),
            on: vec![manifest.substrate.clone()],
        };
        let (experiment, set, changed) = changed(parsed, &changes)?;
        let stem = stem(&experiment.design.name, &changed);
        let substrates = vec![substrate(&manifest.substrate)?];
        Ok(Self {
            experiment,
            set,
            is_part: !changed.is_empty(),
            stem,
            readme: None,
            substrates,
            name,
            changes,
        })
    }

    /// The changes, as typed.
    pub const fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Checks the scenarios of calls that contain a factor, at each point. All other scenarios were checked when the
    /// file was read.
    ///
    /// # Errors
    /// If the scenario of a point is invalid.
    pub fn check_scenarios(&self) -> Result<(), Failure> {
        // Without `scenario_file` or `scenario_text`, no point needs to be resolved, which takes long in a large
        // experiment.
        let text = self.experiment.text();
        if !(text.contains("${") && text.contains("scenario_")) {
            return Ok(());
        }
        let plan = self.experiment.plan();
        let mut checked = BTreeSet::new();
        for place in 0..plan.len() {
            // An error in resolving a point is reported when the point is run.
            let Ok(resolved) = plan.scenario(place) else { continue };
            for flow in &resolved.flows {
                let Some(sip) = flow.application.sip() else { continue };
                let Some(text) = sip.script() else { continue };
                let scenario = ScenarioText {
                    text: text.to_owned(),
                    values: sip.values_text.clone(),
                    keys: sip.keys.clone(),
                };
                if checked.contains(&scenario) {
                    continue;
                }
                check_scenario(&scenario).map_err(|fault| {
                    Failure::request(format!(
                        "{}: flow `{}` with {}: the scenario: {}",
                        self.name,
                        flow.name,
                        plan.point(place),
                        fault.why
                    ))
                })?;
                checked.insert(scenario);
            }
        }
        Ok(())
    }
}

/// Applies the changes to the experiment. Also returns the factors whose levels were set, and a text for each change.
fn changed(
    mut experiment: Experiment,
    changes: &Changes,
) -> Result<(Experiment, BTreeSet<String>, Vec<String>), Failure> {
    let mut named = BTreeSet::new();
    let mut changed: Vec<String> = changes.set.clone();
    for set in &changes.set {
        let assignments =
            Assignment::parse(set).map_err(|e| Failure::request(format!("--set {set}: {e}")))?;
        for assignment in &assignments {
            if !named.insert(assignment.factor.clone()) {
                return Err(Failure::request(format!(
                    "--set {set}: `{}` is set twice; list all its levels once: {}=LEVEL,LEVEL",
                    assignment.factor, assignment.factor
                )));
            }
        }
        experiment = experiment.set(&assignments).map_err(|error| match error {
            // Diagnostics of the file already name the level.
            SetError::Refused(diagnostics) => Failure::request(diagnostics),
            other => Failure::request(format!("--set {set}: {other}")),
        })?;
    }
    if let Some(n) = changes.replications {
        if n == 0 {
            return Err(Failure::request("--replications 0: at least one is needed"));
        }
        if n < experiment.design.replications.max {
            changed.push(format!("replications={n}"));
        }
        experiment.design.replications = Replications::exactly(n);
    }
    check_runs(&experiment)?;
    // The program handles one request, so the simulator is initialised once.
    SIMULATOR.get_or_init(|| Simulator { most_memory: changes.memory });
    if let Some(seed) = changes.seed {
        experiment.seed = seed;
    }
    Ok((experiment, named, changed))
}

/// Maximum number of characters in a file name that describe the changes. A digest replaces the rest.
const LONGEST_CHANGE: usize = 80;

/// Prefix of an experiment's files: `link-down/failover` becomes `link-down-failover`, and with `--set down_for=10s`
/// `link-down-failover-down_for-10s`.
fn stem(name: &str, changed: &[String]) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '_' | '.' | '+') { c } else { '-' };
    let words: String = changed.join("-").chars().map(plain).collect();
    let mut words = words.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    if words.chars().count() > LONGEST_CHANGE {
        // The digest only has to make file names distinct.
        let digest = fnv1a(changed.join(",").bytes());
        words = format!("{}-{digest:016x}", words.chars().take(LONGEST_CHANGE).collect::<String>());
    }
    let name = name.replace('/', "-");
    if words.is_empty() { name } else { format!("{name}-{words}") }
}

impl ExperimentRequest {
    /// Whether the request includes a stored run: its levels, replication number, seed and substrate.
    pub fn wants(&self, run: &Replication) -> bool {
        self.wants_levels(&run.point) && self.wants_whatever_level(run)
    }

    /// As [`Self::wants`], without a check of the levels.
    pub fn wants_whatever_level(&self, run: &Replication) -> bool {
        let Changes { replications, seed, on, .. } = &self.changes;
        replications.is_none_or(|most| run.number <= most)
            && seed.is_none_or(|first| run.run.seed == first.wrapping_add(u64::from(run.number) - 1))
            && (on.is_empty() || on.contains(&run.run.substrate))
    }

    /// Whether the levels of the changed factors at a point are requested. Levels are compared by their values, not as
    /// text.
    pub fn wants_levels(&self, point: &Point) -> bool {
        let design = &self.experiment.design;
        let factors = design.factors.iter().filter(|factor| self.set.contains(&factor.name));
        let mut found = factors.map(|factor| (point.level(&factor.name), &factor.levels));
        found.all(|(level, levels)| level.is_some_and(|level| levels.iter().any(|own| own.means(level))))
    }
}

/// An experiment's text and its accompanying files.
struct Source {
    name: String,
    text: String,
    /// The files that it names.
    files: Box<dyn FileReader>,
    paper: Option<String>,
    paper_name: String,
    readme: Option<String>,
}

impl Source {
    /// Reads the file at the path `wanted` if there is one, else the study of that name.
    fn find(wanted: &str) -> Result<Self, Failure> {
        let path = Path::new(wanted);
        if path.exists() && !path.is_dir() {
            let text = user_file::read_text(path, LONGEST_FILE as u64).map_err(|error| match error {
                UserFileError::NotText { .. } => {
                    Failure::request(format!("{wanted}: {error}; an experiment file is TOML"))
                }
                other => Failure::request(format!("cannot read {wanted}: {other}")),
            })?;
            let folder = path.parent().unwrap_or(Path::new(""));
            let files = Folder(folder.to_owned());
            let beside = |name: &str| {
                let file = folder.join(name);
                let read = file.is_file().then(|| files.text(name)).transpose();
                read.map_err(|error| Failure::request(format!("cannot read {}: {error}", file.display())))
            };
            return Ok(Self {
                name: wanted.to_owned(),
                text,
                paper: beside("paper.toml")?,
                paper_name: folder.join("paper.toml").display().to_string(),
                readme: beside("README.md")?,
                files: Box::new(files),
            });
        }
        match studies::find(wanted) {
            Some((study, text)) => Ok(Self {
                name: format!("{wanted} (shipped study)"),
                text: text.to_owned(),
                files: Box::new(study),
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

/// The folder of an experiment.
struct Folder(PathBuf);

impl FileReader for Folder {
    fn text(&self, name: &str) -> Result<String, String> {
        user_file::read_text_inside(&self.0, name, LONGEST_FILE as u64).map_err(|error| error.to_string())
    }

    fn datagrams(&self, name: &str) -> Result<Vec<TracedDatagram>, String> {
        let bytes = user_file::read_inside(&self.0, name, user_file::LONGEST_DATA);
        Trace::datagrams_of(&bytes.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
    }

    fn moments(&self, name: &str) -> Result<Vec<Duration>, String> {
        moments_of(&self.text(name)?).map_err(|error| error.to_string())
    }

    fn check(&self, scenario: &ScenarioText) -> Result<(), ScenarioFault> {
        check_scenario(scenario)
    }
}

/// Checks that the calls of a flow can follow a scenario.
fn check_scenario(scenario: &ScenarioText) -> Result<(), ScenarioFault> {
    let ScenarioText { text, values, keys } = scenario;
    let read = FlowScenario::read(text, keys, values.as_deref());
    read.map(drop).map_err(|error| ScenarioFault { line: error.line(), why: error.to_string() })
}

fn paper(name: &str, text: &str) -> Result<Paper, Failure> {
    Paper::parse(text).map_err(|errors| {
        let line = |at: usize| text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
        let lines: Vec<_> = errors.iter().map(|e| format!("{name}:{}: {e}", line(e.span.start))).collect();
        Failure::request(lines.join("\n"))
    })
}

/// The simulator with its memory limit.
static SIMULATOR: OnceLock<Simulator> = OnceLock::new();

/// Maximum number of runs of an experiment. The data of each run stay in memory until the last run has ended.
const MOST_RUNS: u64 = 10_000_000;

/// Checks that an experiment has at most [`MOST_RUNS`] runs.
fn check_runs(experiment: &Experiment) -> Result<(), Failure> {
    let plan = experiment.plan();
    let (points, each) = (plan.len() as u64, u64::from(plan.replications().max));
    match points.checked_mul(each) {
        Some(0..=MOST_RUNS) => Ok(()),
        _ => Err(Failure::request(format!(
            "{points} points with {each} replications of each are more than {MOST_RUNS} runs, the most that can be handled; \
             reduce them with --set and --replications"
        ))),
    }
}

/// The substrate called `name`. This function is the only code that maps names to substrates.
pub fn substrate(name: &str) -> Result<&'static dyn Substrate, Failure> {
    match name {
        "sim" => Ok(SIMULATOR.get_or_init(Simulator::default)),
        #[cfg(target_os = "linux")]
        "netns" => Ok(namespaces()),
        other => Err(Failure::request(format!(
            "there is no substrate `{other}`; there are: {}",
            SUBSTRATES.join(", ")
        ))),
    }
}

/// The default substrate: the first one that can run at least one point.
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

/// Allows the substrates to run the programs that an experiment file names.
pub fn allow_programs() {
    #[cfg(target_os = "linux")]
    namespaces().allow_programs();
}

/// The names of all substrates.
pub const SUBSTRATES: &[&str] = if cfg!(target_os = "linux") { &["sim", "netns"] } else { &["sim"] };

/// The refusal of a scenario whose programs are not allowed on the substrate called `on`; `None` if it has no programs.
pub fn not_allowed(scenario: &Scenario, on: &str) -> Option<Failure> {
    let (node, program) = scenario.first_program()?;
    Some(Failure::request(format!(
        "node `{}` runs `{}` on this machine with your rights (--on {on}); if you trust the experiment file, allow it with \
         --allow-programs",
        node.name,
        program.name()
    )))
}

/// The substrate of Linux's network namespaces.
#[cfg(target_os = "linux")]
pub fn namespaces() -> &'static netrig_netns::Namespaces {
    use netrig_netns::Namespaces;

    static NAMESPACES: OnceLock<Namespaces> = OnceLock::new();
    // With this path, a node runs the executable of this process even if its file has been replaced.
    NAMESPACES.get_or_init(|| Namespaces::new("/proc/self/exe", journals()))
}

/// The journals of the testbeds, in the folder `NETRIG_RUN_DIR` if it is set. A user with a separate folder does not
/// find or remove the testbeds of other users.
#[cfg(target_os = "linux")]
pub fn journals() -> netrig_netns::Journals {
    use netrig_netns::Journals;

    match std::env::var_os("NETRIG_RUN_DIR") {
        Some(folder) if !folder.is_empty() => Journals::at(folder),
        _ => Journals::default(),
    }
}
