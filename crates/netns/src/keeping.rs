//! Messages of flows of SIP that are kept: which files they go into, and what was kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use netrig_agent::sip::tap::KeptMessages;
use netrig_agent::sip::{KeepOrder, KeepPolicy};
use netrig_agent::{EndReport, RunOrder, Side};
use netrig_experiment::{Run, RunError};

/// Which messages of the flows of SIP are kept in the runs that follow, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct KeepRequest {
    /// Which messages.
    pub policy: KeepPolicy,
    /// The folder of the files. It is made if it does not exist.
    pub folder: PathBuf,
    /// What the names of all files begin with: the experiment.
    pub stem: String,
    /// Bytes on the disk, all files of all runs together.
    pub most_bytes: u64,
}

/// What was kept of one flow of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptFlow {
    /// The flow's name.
    pub flow: String,
    /// The files, and what is in them.
    pub messages: KeptMessages,
}

/// Letters of a run's levels in the names of its files.
const LONGEST_LEVELS: usize = 100;

/// What is kept while runs are made.
#[derive(Debug)]
pub(crate) struct RunKeeping {
    request: KeepRequest,
    /// Bytes of the files of earlier runs.
    written: u64,
    kept: Vec<KeptFlow>,
}

impl RunKeeping {
    pub fn new(request: KeepRequest) -> Self {
        Self { request, written: 0, kept: Vec::new() }
    }

    /// Says in the orders of a run which messages are kept. Flows share the bytes that are left.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn order(&self, run: &Run, orders: &mut BTreeMap<usize, RunOrder>) -> Result<(), RunError> {
        let KeepRequest { policy, folder, most_bytes, .. } = &self.request;
        std::fs::create_dir_all(folder).map_err(|error| {
            RunError::Failed(format!("cannot keep messages in {}: {error}", folder.display()))
        })?;
        let is_kept =
            |end: &&mut netrig_agent::EndOrder| end.side == Side::Client && end.application.sip().is_some();
        let mut ends: Vec<_> =
            orders.values_mut().flat_map(|order| &mut order.ends).filter(is_kept).collect();
        let most_bytes = most_bytes.saturating_sub(self.written) / (ends.len() as u64).max(1);
        for end in &mut ends {
            let to = free(folder, &self.name(run, &end.name));
            end.keep = Some(KeepOrder { policy: *policy, to, most_bytes });
        }
        Ok(())
    }

    /// The files of a flow in a run without their endings: the experiment, the levels, the replication and the flow.
    fn name(&self, run: &Run, flow: &str) -> String {
        let levels = run.point.0.iter().map(|(factor, level)| format!("-{factor}-{level}"));
        let levels: String = levels.collect::<String>().chars().take(LONGEST_LEVELS).collect();
        let name = format!("{}{levels}-r{}-{flow}", self.request.stem, run.replication);
        let plain = |c: char| if c.is_alphanumeric() || matches!(c, '_' | '.' | '+') { c } else { '-' };
        name.chars().map(plain).collect()
    }

    /// Takes what the ends of a run have kept.
    pub fn take(&mut self, ends: &[EndReport], name_of: impl Fn(u32) -> String) {
        for end in ends {
            let Some(messages) = &end.kept else { continue };
            let sizes = [&messages.log, &messages.capture]
                .map(|file| std::fs::metadata(file).map_or(0, |file| file.len()));
            self.written += sizes.iter().sum::<u64>();
            self.kept.push(KeptFlow { flow: name_of(end.flow), messages: messages.clone() });
        }
    }

    /// What was kept since this was last asked.
    pub fn take_kept(&mut self) -> Vec<KeptFlow> {
        std::mem::take(&mut self.kept)
    }
}

/// A name that no file has: what is kept replaces nothing.
fn free(folder: &Path, name: &str) -> PathBuf {
    let is_free = |path: &PathBuf| {
        ["log", "pcapng"].iter().all(|ending| {
            let mut file = path.as_os_str().to_owned();
            file.push(".");
            file.push(ending);
            !Path::new(&file).exists()
        })
    };
    let names = std::iter::once(folder.join(name));
    let others = (2_u32..).map(|number| folder.join(format!("{name}-{number}")));
    names.chain(others).find(is_free).unwrap_or_else(|| folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_files_have_is_given_to_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert_eq!(free(folder.path(), "run-1.5-calls"), path("run-1.5-calls"));
        std::fs::write(path("run-1.5-calls.pcapng"), "").unwrap();
        assert_eq!(free(folder.path(), "run-1.5-calls"), path("run-1.5-calls-2"));
        std::fs::write(path("run-1.5-calls-2.log"), "").unwrap();
        assert_eq!(free(folder.path(), "run-1.5-calls"), path("run-1.5-calls-3"));
    }
}
