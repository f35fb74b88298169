//! `netrig schema`.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::sip::{CapacityDocument, LoadDocument};
use crate::failure::{Failure, print};

/// `netrig schema`.
#[derive(Debug, Args)]
pub struct Schema {
    /// The document whose schema is printed
    #[arg(long, value_enum, default_value_t = Of::Experiment)]
    pub of: Of,
}

/// A document with a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Of {
    /// Experiment files
    Experiment,
    /// The document of `netrig sip load --json`
    SipLoad,
    /// The document of `netrig sip capacity --json`
    SipCapacity,
    /// The document of `netrig sip conform --json`
    SipConform,
    /// The document of `netrig sip load --scenario-file FILE --json`
    SipScenario,
    /// The document of `netrig sip show --json`
    SipShow,
    /// The document of `netrig speed HOST --json`
    Speed,
    /// The document of `netrig speed tune --json`
    SpeedTune,
    /// The document of `netrig sweep DIR --json`
    Sweep,
}

/// Prints a JSON schema.
pub fn schema(typed: &Schema) -> Result<ExitCode, Failure> {
    let schema = match typed.of {
        Of::Experiment => netrig_experiment::schema(),
        Of::SipLoad => written::<LoadDocument>(),
        Of::SipCapacity => written::<CapacityDocument<'_>>(),
        Of::SipConform => written::<netrig_sip_tester::conformance::ConformanceDocument>(),
        Of::SipScenario => written::<netrig_sip_tester::scenario::ScenarioDocument>(),
        Of::SipShow => written::<netrig_sip_tester::ladder::TraceDocument>(),
        Of::Speed => written::<netrig_speed::measure::SpeedReport>(),
        Of::Sweep => written::<netrig_sweep::SweepState>(),
        Of::SpeedTune => written::<netrig_speed::tune::Tuning>(),
    };
    print(serde_json::to_string_pretty(&schema).map_err(Failure::failed)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The schema of documents that netrig writes. Fields with a default are required in it, because netrig always writes
/// them.
fn written<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>().into()
}
