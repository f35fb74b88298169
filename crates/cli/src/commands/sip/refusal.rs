//! Errors of requests, with the names of flags.

use netrig_core::setting::SettingsTable as _;
use netrig_sip::settings::{LoadSettings, ServerSettings};
use netrig_sip_net::dns::LocateError;
use netrig_sip_tester::request::{LoadPeriod, RequestError, TesterSettings};

use crate::failure::Failure;

/// The failure of a request from which no load can be made.
pub fn refused(error: RequestError) -> Failure {
    let why = flagged(&error.to_string());
    match error {
        RequestError::Location { error: LocateError::Kernel(_), .. } => Failure::Tester(why),
        _ => Failure::Request(why),
    }
}

/// The sentence with the names of flags instead of the keys of settings.
pub fn flagged(sentence: &str) -> String {
    let tables = [TesterSettings::rows(), LoadSettings::rows(), LoadPeriod::rows(), ServerSettings::rows()];
    let rows = tables.into_iter().flatten();
    rows.fold(sentence.replace("`server.", "`"), |sentence, row| {
        sentence.replace(&format!("`{}`", row.key), &format!("--{}", row.flag()))
    })
}
