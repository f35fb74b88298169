//! `netrig merge`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use netrig_store::{MergeError, MergeOutcome, RunDifference, Store};
use netrig_sweep::{ShardCheck, SweepFolder};

use super::arguments::Merge;
use super::{failure, repeating};
use crate::failure::{FAILED, Failure, print};
use crate::request::{ExperimentRequest, SUBSTRATES, substrate};

/// Adds the runs of other stores to a store.
pub fn merge(arguments: &Merge) -> Result<ExitCode, Failure> {
    let (shards, refused_shards) = shards(arguments)?;
    if let Some(same) = shards.iter().find(|shard| is_same(shard, &arguments.store)) {
        return Err(Failure::request(format!("{}: a store is not merged into itself", same.display())));
    }
    let mut store = Store::open(&arguments.store).map_err(Failure::request)?;
    let mut sum = MergeOutcome::default();
    for (shard, why) in &refused_shards {
        eprintln!("error: {}: {why}", shard.display());
    }
    let mut refused = 0;
    for shard in &shards {
        match store.merge(shard, repeats) {
            Ok(outcome) => {
                tell_differences(shard, &outcome.different);
                sum.added += outcome.added;
                sum.replaced += outcome.replaced;
                sum.equal += outcome.equal;
                sum.ignored += outcome.ignored;
                sum.different.extend(outcome.different);
            }
            // Shards that were merged before stay merged.
            Err(MergeError::Here(error)) => return Err(Failure::failed(error)),
            Err(MergeError::There(error)) => {
                refused += 1;
                eprintln!("error: {}: {error}", shard.display());
            }
        }
    }
    print(format!(
        "{}: {} runs added, {} in place of failed ones, {} equal to runs that were there, {} failed ones left out, from {} of {} stores",
        arguments.store.display(),
        sum.added,
        sum.replaced,
        sum.equal,
        sum.ignored,
        shards.len() - refused,
        shards.len() + refused_shards.len()
    ))?;
    if refused + refused_shards.len() > 0 || !sum.different.is_empty() {
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
             this file was merged; make the run once more with `netrig run` and another --store to see which is right",
            shard.display()
        );
    }
}

/// Whether runs of a substrate repeat to the last bit.
pub fn repeats(name: &str) -> bool {
    SUBSTRATES.contains(&name) && substrate(name).is_ok_and(|substrate| substrate.repeats())
}

/// Shards that are refused, with the reasons.
type RefusedShards = Vec<(PathBuf, String)>;

/// The stores, and the shards of the folders; and the shards that are not what their folders say.
fn shards(arguments: &Merge) -> Result<(Vec<PathBuf>, RefusedShards), Failure> {
    let (mut shards, mut refused) = (Vec::new(), Vec::new());
    for path in &arguments.shards {
        if !path.is_dir() {
            shards.push(path.clone());
            continue;
        }
        let folder = SweepFolder::open(path).map_err(failure)?;
        let request = ExperimentRequest::of_sweep(&folder)?;
        let check = ShardCheck::new(&folder, &request.experiment, repeating(&request)?);
        let chunks = folder.chunks().map_err(failure)?;
        for shard in folder.shards().map_err(failure)? {
            match check.fault(&shard, chunks.iter().find(|chunk| chunk.chunk == shard.chunk)) {
                None => shards.push(shard.path),
                Some(why) => refused.push((shard.path, why)),
            }
        }
    }
    Ok((shards, refused))
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok().zip(other.canonicalize().ok()).is_some_and(|(one, other)| one == other)
}
