//! From what the store holds of a run to what the judge reads.

use std::collections::BTreeMap;

use netrig_experiment::{Measured, RunRecord};
use netrig_store::{End, Response};

/// The record of a run. The same for one that just ended and one that was found.
pub(crate) fn record(
    replication: u32,
    seed: u64,
    end: &End,
    responses: &BTreeMap<String, Response>,
) -> RunRecord {
    match end {
        End::Finished(outcome) => {
            let measured: BTreeMap<String, Measured> =
                responses.iter().map(|(name, response)| (name.clone(), response.measured.clone())).collect();
            RunRecord::new(replication, seed, outcome, &measured)
        }
        End::Failed(why) => {
            RunRecord { replication, seed, valid: false, why: Some(why.clone()), ..RunRecord::default() }
        }
    }
}
