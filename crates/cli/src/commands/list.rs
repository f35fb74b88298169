//! `netrig list`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use netrig_store::Store;

use crate::arguments::List;
use crate::failure::{Failure, print};
use crate::studies::STUDIES;

/// Runs whose identities are listed of each experiment; the export has them all.
const LISTED: usize = 10;

/// Lists the shipped studies, and what the store has.
pub fn list(arguments: &List) -> Result<ExitCode, Failure> {
    print("Studies:")?;
    for study in STUDIES {
        print(format!("  {:<24} {}", study.name, study.title))?;
        for (name, _) in study.names().filter(|(name, _)| name != study.name) {
            print(format!("  {name}"))?;
        }
    }
    print("`netrig show study NAME` tells what each asks.")?;
    let path = &arguments.place.store;
    if !path.exists() {
        return print(format!("\nThere is no store {} yet; `netrig run` makes one.", path.display()))
            .map(|()| ExitCode::SUCCESS);
    }
    let store = Store::open_read_only(path).map_err(Failure::request)?;
    print(format!("\nStore {}:", path.display()))?;
    for entry in store.experiments().map_err(Failure::failed)? {
        let runs = store.replications(entry.id).map_err(Failure::failed)?;
        let builds: BTreeSet<&str> = runs.iter().map(|run| run.build.as_str()).collect();
        let by = if builds.is_empty() { "" } else { ", by " };
        print(format!(
            "  {:<24} {} runs, file {:.8} of {}{by}{}",
            entry.name,
            entry.runs,
            entry.digest,
            entry.added,
            Vec::from_iter(builds).join(", ")
        ))?;
        for replication in runs.iter().take(LISTED) {
            let (id, number) = (&replication.run.identity, replication.number);
            print(format!("    {id:.12}  {number:>3}  {}", replication.point))?;
        }
        if runs.len() > LISTED {
            print(format!("    … and {} more, which `netrig export` has", runs.len() - LISTED))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
