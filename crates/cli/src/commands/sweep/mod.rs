//! Sweeps on many machines: `netrig split`, `chunk`, `merge`, `sweep` and `run --via`.

mod arguments;
mod chunk;
mod executable;
mod merge;
mod split;
mod state;
mod via;

pub use arguments::{ChunkArguments, MergeArguments, SplitArguments, SweepArguments, ViaArguments};
pub use chunk::chunk;
pub use merge::merge;
pub use split::split;
pub use state::sweep;
pub use via::{ViaEnd, carry_via};

use netrig_experiment::Substrate;
use netrig_host::proc;
use netrig_sweep::SweepError;

use crate::failure::Failure;
use crate::request::ExperimentRequest;

/// A failure of a sweep: a wrong folder is a wrong request.
fn failure(error: SweepError) -> Failure {
    match error {
        SweepError::Io { .. } | SweepError::Store(_) | SweepError::Runner(_) => Failure::failed(error),
        SweepError::NotASweep { .. } => Failure::request(format!("{error}; make one with `netrig split`")),
        SweepError::Busy(ref path) => {
            Failure::request(format!("{error}; `netrig sweep {}` shows its state", path.display()))
        }
        _ => Failure::request(error),
    }
}

/// The largest memory of this process so far, bytes. 0 if the kernel does not tell.
fn largest_memory() -> u64 {
    proc::number(&proc::text("/proc/self/status"), "VmHWM").unwrap_or(0) << 10
}

/// The substrate of a sweep. Runs in real time are refused.
fn repeating(request: &ExperimentRequest) -> Result<&'static dyn Substrate, Failure> {
    match &request.substrates[..] {
        [only] if only.repeats() => Ok(*only),
        [only] => Err(Failure::request(format!(
            "a run on {} needs a machine for itself, which tasks of an engine do not have: use --on sim, or netrig run on that machine",
            only.name()
        ))),
        _ => Err(Failure::request("a sweep has one substrate: --on sim")),
    }
}
