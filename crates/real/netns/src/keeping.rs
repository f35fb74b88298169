//! Kept messages of SIP flows: which files each run writes, and what they contain.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use netrig_agent::{EndReport, RunOrder};
use netrig_core::text::hex;
use netrig_experiment::{Run, RunError};
use netrig_sip_net::tap::KeptMessages;
use netrig_sip_net::{KeepOrder, KeepPolicy};
use netrig_traffic::FlowSide;
use sha2::{Digest as _, Sha256};

/// Which messages of SIP flows are written to files in later runs, and to which folder.
#[derive(Clone, Debug, PartialEq)]
pub struct KeepRequest {
    /// Which messages are kept.
    pub policy: KeepPolicy,
    /// The folder of the files. It is created if it does not exist.
    pub folder: PathBuf,
    /// Prefix of all file names: the name of the experiment.
    pub stem: String,
    /// Limit for the files of all runs together, bytes on disk.
    pub most_bytes: u64,
}

/// Kept messages of SIP flows of several runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptFlows {
    /// Flows that have files.
    pub flows: Vec<KeptFlow>,
    /// Number of flows whose messages were to be kept, including those of runs that failed before they wrote
    /// files.
    pub ordered: u64,
}

/// Kept messages of one flow of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptFlow {
    /// The flow's name.
    pub flow: String,
    /// Path of the message log.
    pub log: PathBuf,
    /// Path of the capture.
    pub capture: PathBuf,
    /// Counts of the kept messages. `None` if the run failed or was cancelled. In that case, the last messages
    /// may be missing in the files.
    pub messages: Option<KeptMessages>,
}

/// Maximum lengths of the experiment, the levels and the flow in a file name, bytes. A file name has at most 255
/// bytes.
const LONGEST_STEM: usize = 80;
const LONGEST_LEVELS: usize = 80;
const LONGEST_FLOW: usize = 40;

/// Number of hexadecimal digits of the run's hash in file names.
const HASH_DIGITS: usize = 8;

/// State of the kept messages over several runs.
#[derive(Debug)]
pub(crate) struct RunKeeping {
    request: KeepRequest,
    /// Total size of the files of earlier runs, bytes.
    written: u64,
    /// The flows of the current run whose messages are kept: number, name and order.
    ordered: Vec<(u32, String, KeepOrder)>,
    kept: KeptFlows,
}

impl RunKeeping {
    pub fn new(request: KeepRequest) -> Self {
        Self { request, written: 0, ordered: Vec::new(), kept: KeptFlows::default() }
    }

    /// Adds the requests to keep messages to the orders of a run. The flows share the remaining bytes equally.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn order(&mut self, run: &Run, orders: &mut BTreeMap<usize, RunOrder>) -> Result<(), RunError> {
        self.ordered.clear();
        let KeepRequest { policy, folder, most_bytes, .. } = &self.request;
        std::fs::create_dir_all(folder).map_err(|error| {
            RunError::Failed(format!("cannot keep messages in {}: {error}", folder.display()))
        })?;
        let is_kept = |end: &&mut netrig_agent::EndOrder| {
            end.side == FlowSide::Client && end.application.sip().is_some()
        };
        let mut ends: Vec<_> =
            orders.values_mut().flat_map(|order| &mut order.ends).filter(is_kept).collect();
        let most_bytes = most_bytes.saturating_sub(self.written) / (ends.len() as u64).max(1);
        let hash = hash(run);
        let mut given = BTreeSet::new();
        for end in &mut ends {
            let name = file_name(&self.request.stem, run, &hash, &end.name);
            let keep = KeepOrder { policy: *policy, to: free(folder, &name, &given), most_bytes };
            given.insert(keep.to.clone());
            self.ordered.push((end.flow, end.name.clone(), keep.clone()));
            end.keep = Some(keep);
        }
        self.kept.ordered += ends.len() as u64;
        Ok(())
    }

    /// Records the kept messages of the current run, from the reports of its ends. If an end gave no report,
    /// its files are recorded if they exist.
    pub fn take(&mut self, ends: &[EndReport]) {
        for (number, flow, order) in std::mem::take(&mut self.ordered) {
            let messages = ends.iter().filter(|end| end.flow == number).find_map(|end| end.kept.clone());
            let files = order.files();
            let sizes = files.each_ref().map(|file| std::fs::metadata(file).ok().map(|file| file.len()));
            self.written += sizes.iter().flatten().sum::<u64>();
            if messages.is_some() || sizes.iter().any(Option::is_some) {
                let [log, capture] = files;
                self.kept.flows.push(KeptFlow { flow, log, capture, messages });
            }
        }
    }

    /// The messages that were kept since the last call.
    pub fn take_kept(&mut self) -> KeptFlows {
        std::mem::take(&mut self.kept)
    }
}

/// A hash that distinguishes runs whose truncated levels and replications are equal.
fn hash(run: &Run) -> String {
    let digest = Sha256::digest(run.description("").as_bytes());
    hex(&digest)[..HASH_DIGITS].to_owned()
}

/// The file name of a flow in a run, without extension: the experiment, the levels, the replication, the hash
/// of the run, and the flow.
fn file_name(stem: &str, run: &Run, hash: &str, flow: &str) -> String {
    let plain = |text: &str, longest: usize| {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '+');
        let mut plain: String = text.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
        plain.truncate(plain.floor_char_boundary(longest));
        plain
    };
    let levels: String =
        run.point.levels().iter().map(|(factor, level)| format!("-{factor}-{level}")).collect();
    format!(
        "{}{}-r{}-{hash}-{}",
        plain(stem, LONGEST_STEM),
        plain(&levels, LONGEST_LEVELS),
        run.replication,
        plain(flow, LONGEST_FLOW)
    )
}

/// A path (without extension) at which no file exists and that is not in `given`, so that no file is overwritten.
fn free(folder: &Path, name: &str, given: &BTreeSet<PathBuf>) -> PathBuf {
    let is_free = |path: &PathBuf| {
        let has_file = ["log", "pcapng"].iter().any(|ending| {
            let mut file = path.as_os_str().to_owned();
            file.push(".");
            file.push(ending);
            Path::new(&file).exists()
        });
        !has_file && !given.contains(path)
    };
    let names = std::iter::once(folder.join(name));
    let others = (2_u32..).map(|number| folder.join(format!("{name}-{number}")));
    names.chain(others).find(is_free).unwrap_or_else(|| folder.join(name))
}

#[cfg(test)]
mod tests {
    use netrig_experiment::{Experiment, Level};

    use super::*;

    #[test]
    fn a_name_that_files_have_or_that_was_given_is_given_to_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let free = |given: &[PathBuf]| free(folder.path(), "run-1.5-calls", &given.iter().cloned().collect());
        assert_eq!(free(&[]), path("run-1.5-calls"));
        std::fs::write(path("run-1.5-calls.pcapng"), "").unwrap();
        assert_eq!(free(&[]), path("run-1.5-calls-2"));
        assert_eq!(free(&[path("run-1.5-calls-2")]), path("run-1.5-calls-3"));
        std::fs::write(path("run-1.5-calls-2.log"), "").unwrap();
        assert_eq!(free(&[]), path("run-1.5-calls-3"));
    }

    /// A run of a SIP flow `f` with this level of a factor.
    fn run(level: &str) -> Run {
        let text = "format = 1\nname = \"kept\"\nduration = \"6 s\"\n[node.a]\n[node.b]\n[link.l]\nbetween = [\"a\", \"b\"]\n\
             kind = \"direct\"\n[flow.f]\nfrom = \"a\"\nto = \"b\"\n\
             application = { kind = \"sip\", scenario = \"options\", rate = 9, server = { role = \"uas\" } }\n\
             [response.r]\nof = \"flow.f\"\nmetric = \"attempts_begun\"\n";
        let experiment = Experiment::parse("kept", text).unwrap_or_else(|problems| panic!("{problems}"));
        let run = experiment.plan().run(0, 1).unwrap();
        Run { point: [("factor".to_owned(), Level::of_text(level))].into_iter().collect(), ..run }
    }

    #[test]
    fn names_of_files_are_bounded_and_differ_where_runs_do() {
        let long = run(&"ä".repeat(400));
        let name = |run: &Run, flow: &str| file_name(&"ö".repeat(300), run, &hash(run), flow);
        let own = name(&long, &"ü".repeat(300));
        assert!(own.len() + "-100.pcapng".len() <= 255, "{} B", own.len());
        // The truncated levels are equal.
        let other = Run { seed: long.seed + 1, ..run(&"ä".repeat(401)) };
        assert_ne!(name(&long, "f"), name(&other, "f"));
        let short = run("5 Mbit/s");
        assert_eq!(file_name("kept", &short, "0123abcd", "f"), "kept-factor-5-Mbit-s-r1-0123abcd-f");
    }

    #[test]
    fn flows_with_names_alike_have_files_of_their_own_and_a_failed_run_has_those_that_it_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let run = run("1");
        let mut orders = crate::orders::orders(&run).unwrap();
        let clients = |orders: &mut BTreeMap<usize, RunOrder>| -> Vec<KeepOrder> {
            orders.values_mut().flat_map(|order| &order.ends).filter_map(|end| end.keep.clone()).collect()
        };
        let order =
            orders.values_mut().find(|order| order.ends.iter().any(|end| end.side == FlowSide::Client));
        let ends = &mut order.unwrap().ends;
        for (flow, name) in [(7, "g h"), (8, "g/h")] {
            ends.push(netrig_agent::EndOrder { flow, name: name.to_owned(), ..ends[0].clone() });
        }
        let policy = KeepPolicy::All;
        let request =
            KeepRequest { policy, folder: folder.path().into(), stem: "kept".to_owned(), most_bytes: 3000 };
        let mut keeping = RunKeeping::new(request);
        keeping.order(&run, &mut orders).unwrap();
        let given = clients(&mut orders);
        let paths: BTreeSet<_> = given.iter().map(|keep| &keep.to).collect();
        assert_eq!((given.len(), paths.len()), (3, 3));
        assert!(given.iter().all(|keep| keep.most_bytes == 1000));
        // The run fails after two flows have written files.
        let [first, second, _] = &given[..] else { panic!("{given:?}") };
        for keep in [first, second] {
            std::fs::write(&keep.files()[0], [0; 250]).unwrap();
        }
        keeping.take(&[]);
        let kept = keeping.take_kept();
        assert_eq!(kept.ordered, 3);
        let messages: Vec<_> =
            kept.flows.iter().map(|flow| (flow.flow.as_str(), flow.messages.is_some())).collect();
        assert_eq!(messages, [("f", false), ("g h", false)]);
        // The next run has only the remaining bytes.
        keeping.order(&run, &mut orders).unwrap();
        assert!(clients(&mut orders).iter().all(|keep| keep.most_bytes == (3000 - 500) / 3));
    }
}
