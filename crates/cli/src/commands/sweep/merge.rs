//! `netrig merge`.

use std::path::Path;
use std::process::ExitCode;

use netrig_core::number::counted;
use netrig_store::{MergeError, MergeOutcome, RunDifference, Store};
use netrig_sweep::{ShardCheck, SweepFolder};

use super::arguments::MergeArguments;
use super::{failure, repeating};
use crate::build::BUILD;
use crate::failure::{FAILED, Failure, print};
use crate::request::{ExperimentRequest, SUBSTRATES, substrate};

/// Adds the runs of other stores to a store.
pub fn merge(arguments: &MergeArguments) -> Result<ExitCode, Failure> {
    let named = arguments.shards.iter().filter(|path| !path.is_dir());
    if let Some(same) = named.clone().find(|path| is_same(path, &arguments.store)) {
        return Err(Failure::request(format!("{}: a store is not merged into itself", same.display())));
    }
    let mut store = Store::open(&arguments.store).map_err(Failure::request)?;
    let mut sum = MergeOutcome::default();
    let (mut merged, mut refused) = (0, 0);
    let mut take = |path: &Path, other: Result<Store, String>| -> Result<(), Failure> {
        let outcome = other.and_then(|other| match store.merge(&other, repeats) {
            Ok(outcome) => Ok(Ok(outcome)),
            // What was merged before stays merged.
            Err(MergeError::Here(error)) => Ok(Err(Failure::failed(error))),
            Err(MergeError::There(error)) => Err(error.fault()),
        });
        match outcome {
            Ok(outcome) => {
                let outcome = outcome?;
                tell_differences(path, &outcome.different);
                if outcome.different.is_empty() {
                    merged += 1;
                } else {
                    refused += 1;
                }
                sum += outcome;
            }
            Err(fault) => {
                refused += 1;
                eprintln!("error: {}: {fault}", path.display());
            }
        }
        Ok(())
    };
    for path in &arguments.shards {
        if !path.is_dir() {
            take(path, Store::open_read_only(path).map_err(|error| error.fault()))?;
            continue;
        }
        let folder = SweepFolder::open(path).map_err(failure)?;
        // Another build cannot tell which runs are those of the sweep.
        folder.check_build(&BUILD).map_err(failure)?;
        let request = ExperimentRequest::of_sweep(&folder)?;
        let check = ShardCheck::new(&folder, &request.experiment, repeating(&request)?);
        for (shard, fault) in check.shards().map_err(failure)? {
            let opened = match fault {
                Some(fault) => Err(fault),
                None => shard.open().map_err(|error| error.fault()),
            };
            take(&shard.path, opened)?;
        }
    }
    let kept = match sum.kept {
        0 => String::new(),
        kept => format!(", {kept} in real time that were there and stay"),
    };
    print(format!(
        "{}: {} added, {} in place of failed ones, {} equal to runs that were there{kept}, {} failed ones left out, from {merged} of {}",
        arguments.store.display(),
        counted(sum.added, "run", "runs"),
        sum.replaced,
        sum.equal,
        sum.ignored,
        counted(merged + refused, "store", "stores")
    ))?;
    if refused > 0 || !sum.different.is_empty() {
        return Ok(ExitCode::from(FAILED));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints on stderr how runs differ.
pub fn tell_differences(shard: &Path, different: &[RunDifference]) {
    for RunDifference { identity, what, here, there } in different {
        let identity = identity.get(..12).unwrap_or(identity);
        eprintln!(
            "error: {}: run {identity} has {what} {there}, and the same run in the store has {here}: two machines disagree; nothing of \
             this file was merged",
            shard.display()
        );
    }
    if !different.is_empty() {
        eprintln!(
            "make one of these runs once more with `netrig run` and another --store to see which is right. If this file is wrong, remove it and \
             give the same command again. If the store is wrong, remove the shards of the machine that made its run, and merge the others \
             into a new store"
        );
    }
    if different.len() == MergeOutcome::MOST_DIFFERENT {
        eprintln!("error: {}: further runs were not compared", shard.display());
    }
}

/// Whether runs of a substrate repeat to the last bit.
pub fn repeats(name: &str) -> bool {
    SUBSTRATES.contains(&name) && substrate(name).is_ok_and(|substrate| substrate.repeats())
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok().zip(other.canonicalize().ok()).is_some_and(|(one, other)| one == other)
}
