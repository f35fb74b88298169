//! `netrig list`.

use std::process::ExitCode;

use netrig_store::Store;

use crate::arguments::List;
use crate::failure::{Failure, print};
use crate::studies::STUDIES;

/// Maximum number of runs listed for each experiment. `netrig export` writes all of them.
const LISTED: usize = 10;

/// Lists the shipped studies, and the experiments and runs of the store.
pub fn list(arguments: &List) -> Result<ExitCode, Failure> {
    print("Studies:")?;
    for study in STUDIES {
        print(format!("  {:<24} {}", study.name, study.title))?;
        for (name, _) in study.names().filter(|(name, _)| name != study.name) {
            print(format!("  {name}"))?;
        }
    }
    print("`netrig show study NAME` shows the questions of a study.")?;
    let path = &arguments.place.store;
    if !path.exists() {
        return print(format!("\nThere is no store {} yet; `netrig run` creates one.", path.display()))
            .map(|()| ExitCode::SUCCESS);
    }
    let store = Store::open_read_only(path).map_err(Failure::request)?;
    print(format!("\nStore {}:", path.display()))?;
    for entry in store.experiments().map_err(Failure::failed)? {
        let runs = store.first_replications(entry.id, LISTED).map_err(Failure::failed)?;
        let builds = store.builds(entry.id).map_err(Failure::failed)?;
        let by = if builds.is_empty() { "" } else { ", by " };
        print(format!(
            "  {:<24} {} runs, file {:.8} of {}{by}{}",
            entry.name,
            entry.runs,
            entry.digest,
            entry.added,
            Vec::from_iter(builds).join(", ")
        ))?;
        for replication in &runs {
            let (id, number) = (&replication.run.identity, replication.number);
            print(format!("    {id:.12}  {number:>3}  {}", replication.point))?;
        }
        // Another process may have added runs meanwhile.
        let others = entry.runs.saturating_sub(runs.len() as u64);
        if others > 0 {
            print(format!("    … and {others} more; `netrig export` has them all"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
