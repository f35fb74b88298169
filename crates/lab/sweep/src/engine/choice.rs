//! Engines by their names.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{CommandEngine, Engine, HyperQueue, Kubernetes, Slurm, SlurmOptionError, TemplateError};
use crate::EngineRecord;

/// The names of engines, as they are typed.
pub const ENGINES: &str = "slurm, hq, kubernetes, parallel, or command PROGRAM .. {}";

/// The name of an engine, its template, or an option for it is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineChoiceError {
    /// No engine has this name.
    #[error("there is no engine {0:?}; there are: {ENGINES}")]
    Unknown(String),
    /// The template of a command is refused.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// An option for Slurm is refused.
    #[error(transparent)]
    Option(#[from] SlurmOptionError),
}

/// The engine of a record. A command has `usual_slots` slots if the record has none. If `interrupted` is set, a program of the engine
/// that runs is killed.
///
/// # Errors
/// If no engine has the name, or if the engine refuses the template or an option.
pub fn engine_of(
    record: &EngineRecord,
    usual_slots: u32,
    interrupted: Arc<AtomicBool>,
) -> Result<Box<dyn Engine>, EngineChoiceError> {
    let EngineRecord { via, options, slots } = record;
    let (via, options) = (via.trim(), options.clone());
    Ok(match via.split_once(char::is_whitespace) {
        Some(("command", template)) => {
            Box::new(CommandEngine::template(template, &options, slots.unwrap_or(usual_slots))?)
        }
        None if via == "slurm" => Box::new(Slurm::new(options, interrupted)?),
        None if via == "hq" => Box::new(HyperQueue::new(options, interrupted)),
        None if via == "kubernetes" => Box::new(Kubernetes::new(options, *slots, interrupted)),
        None if via == "parallel" => Box::new(CommandEngine::parallel(options, *slots)),
        _ => return Err(EngineChoiceError::Unknown(via.to_owned())),
    })
}
