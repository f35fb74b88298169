//! Requests that are no load, in the words of the command line.

use netrig_core::setting::SettingsTable as _;
use netrig_sip::settings::LoadSettings;
use netrig_sip_net::dns::LocateError;
use netrig_sip_tester::request::{LoadPeriod, RequestError, TesterSettings};

use crate::failure::Failure;

/// A request that is no load.
pub fn refused(error: RequestError) -> Failure {
    let why = flagged(&error.to_string());
    match error {
        RequestError::Location { error: LocateError::Kernel(_), .. } => Failure::Tester(why),
        _ => Failure::Request(why),
    }
}

/// A sentence with flags in place of the keys of settings.
pub fn flagged(sentence: &str) -> String {
    let rows = [TesterSettings::rows(), LoadSettings::rows(), LoadPeriod::rows()].into_iter().flatten();
    rows.fold(sentence.to_owned(), |sentence, row| {
        sentence.replace(&format!("`{}`", row.key), &format!("--{}", row.flag()))
    })
}
