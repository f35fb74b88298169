//! The arguments of `netrig sip capacity`.

use std::path::PathBuf;

use clap::Args;
use netrig_core::setting::{Setting, SettingsTable as _};
use netrig_sip_tester::capacity::{
    DesignObjective, Rfc7502, SearchChoice, SearchRequest, SearchSettings, Sequential, StepSettings,
};
use netrig_sip_tester::request::{LoadRequest, TesterSettings, with_scenario};

use crate::commands::sip::environment::{self, EnvironmentArguments};
use crate::commands::sip::keeping::KeepArguments;
use crate::commands::sip::watching::Watching;
use crate::failure::Failure;
use crate::typed::{Typed, TypedTable};

/// `netrig sip capacity`.
#[derive(Debug, Args)]
pub struct Capacity {
    #[command(flatten)]
    pub tester: Typed<TesterSettings>,
    #[command(flatten)]
    pub load: Typed<StepSettings>,
    #[command(flatten)]
    pub mode: Typed<SearchChoice>,
    #[command(flatten)]
    pub search: Typed<SearchSettings>,
    #[command(flatten)]
    pub sequential: Typed<Sequential>,
    #[command(flatten)]
    pub rfc7502: Typed<Rfc7502>,
    #[command(flatten)]
    pub objective: Typed<DesignObjective>,
    #[command(flatten)]
    pub watching: Watching,
    #[command(flatten)]
    pub environment: EnvironmentArguments,
    #[command(flatten)]
    pub keeping: KeepArguments,
    /// Test first whether the server follows the rules of basic calls and registrations (`netrig sip conform --set
    /// basic-call`)
    #[arg(long)]
    pub conform: bool,
    /// File to which each step is written; an interrupted search resumes from it
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// Print a line for each step below the result
    #[arg(long, short)]
    pub verbose: bool,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
}

/// The settings of a search.
pub struct CapacitySettings {
    pub load: LoadRequest,
    pub search: SearchRequest,
    /// The settings of the loads as text, for the journal of the search.
    pub asked: String,
}

impl Capacity {
    /// The settings: values of the command line, else those of the file of settings, else defaults.
    pub fn settings(&self) -> Result<CapacitySettings, Failure> {
        let (mut tester, mut load) = (self.tester.clone(), self.load.clone());
        let (mut mode, mut search) = (self.mode.clone(), self.search.clone());
        let (mut sequential, mut rfc7502) = (self.sequential.clone(), self.rfc7502.clone());
        let mut objective = self.objective.clone();
        let tables: &mut [&mut dyn TypedTable] = &mut [
            &mut tester,
            &mut load,
            &mut mode,
            &mut search,
            &mut sequential,
            &mut rfc7502,
            &mut objective,
        ];
        self.environment.read("capacity", tables)?;
        load.settings.table = with_scenario(load.settings.table);
        let tables: [&dyn TypedTable; 7] =
            [&tester, &load, &mode, &search, &sequential, &rfc7502, &objective];
        self.environment.save("capacity", &tables)?;
        let asked = environment::text(&[&tester, &load]);
        let search = SearchRequest {
            mode: mode.settings.mode,
            search: search.settings,
            sequential: sequential.settings,
            rfc7502: rfc7502.settings,
            objective: objective.settings,
        };
        let load = LoadRequest { load: load.settings.table, tester: tester.settings };
        Ok(CapacitySettings { load, search, asked })
    }
}

/// The flag of a setting of a search, or the name of the setting if it has no flag.
pub fn typed_name(setting: &str) -> String {
    match setting {
        "test.good" | "test.bad" | "objective" => "the share of failures that --success allows".to_owned(),
        "linger_s" => "the time-out of requests, which follows from --t1,".to_owned(),
        _ => match search_rows().find(|row| row.key == setting) {
            Some(row) => format!("--{}", row.flag()),
            None => setting.to_owned(),
        },
    }
}

fn search_rows() -> impl Iterator<Item = Setting> {
    let of_modes = [Sequential::rows(), Rfc7502::rows(), DesignObjective::rows()];
    SearchSettings::rows().into_iter().chain(of_modes.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use netrig_sip_tester::capacity::CapacitySearch;

    use super::*;

    #[test]
    fn a_setting_is_named_by_its_flag() {
        let settings = SearchSettings::sequential("calls", 100.0, Vec::new());
        let short = Sequential { within_s: 1.0, ..Sequential::default() };
        let short =
            SearchSettings { mode: netrig_sip_tester::capacity::Mode::Sequential(short), ..settings.clone() };
        for (settings, sentence) in [
            (short, "--within is 1 s; expected: finite and at least --least, which is 5 s"),
            (
                SearchSettings { highest: 10.0, ..settings.clone() },
                "--start is 100/s; expected: between --lowest, which is 1/s, and --highest, which is 10/s",
            ),
            (
                SearchSettings { patience_s: -1.0, ..settings.clone() },
                "patience_s is -1 s; expected: at least 0 and finite",
            ),
            (SearchSettings { rest_s: -1.0, ..settings }, "rest_s is -1 s; expected: at least 0 and finite"),
        ] {
            assert_eq!(CapacitySearch::new(settings).unwrap_err().sentence(typed_name), sentence);
        }
    }
}
