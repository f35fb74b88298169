//! The arguments of `netrig sip load`.

use clap::Args;
use netrig_sip::settings::LoadSettings;
use netrig_sip_tester::request::{LoadPeriod, LoadRequest, TesterSettings, with_scenario};

use crate::commands::sip::environment::EnvironmentArguments;
use crate::commands::sip::keeping::{KeepArguments, RecordArguments};
use crate::commands::sip::scenario::LoadScriptArguments;
use crate::commands::sip::typed::Typed;
use crate::commands::sip::watching::Watching;
use crate::failure::Failure;

/// `netrig sip load`.
#[derive(Debug, Args)]
pub struct Load {
    #[command(flatten)]
    pub tester: Typed<TesterSettings>,
    #[command(flatten)]
    pub load: Typed<LoadSettings>,
    #[command(flatten)]
    pub period: Typed<LoadPeriod>,
    #[command(flatten)]
    pub watching: Watching,
    #[command(flatten)]
    pub environment: EnvironmentArguments,
    #[command(flatten)]
    pub keeping: KeepArguments,
    #[command(flatten)]
    pub records: RecordArguments,
    #[command(flatten)]
    pub script: LoadScriptArguments,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
}

impl Load {
    /// The settings: those that were typed, those of the file of settings, and defaults.
    pub fn settings(&self) -> Result<(LoadRequest, LoadPeriod), Failure> {
        let (mut tester, mut load, mut period) =
            (self.tester.clone(), self.load.clone(), self.period.clone());
        self.environment.read("load", &mut [&mut tester, &mut load, &mut period])?;
        load.settings = with_scenario(load.settings);
        self.environment.save("load", &[&tester, &load, &period])?;
        Ok((LoadRequest { load: load.settings, tester: tester.settings }, period.settings))
    }
}
