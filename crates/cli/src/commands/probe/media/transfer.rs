//! `netrig probe transfer`.

use std::process::ExitCode;

use netrig_probe::transfer::{TransferSettings, ftp, tcp};

use super::super::arguments::KeyedProbe;
use super::super::common::failure;
use super::connect;
use crate::failure::{Failure, exit_code, print_report};
use crate::input::password;
use crate::interruption::until_interrupted;

/// FTP's port (RFC 959).
const FTP_PORT: u16 = 21;

pub fn transfer(arguments: &KeyedProbe<TransferSettings>) -> Result<ExitCode, Failure> {
    let (settings, as_json) = (&arguments.probe.settings, arguments.form.json);
    if settings.ftp {
        let password = settings.password_env.as_deref().map(password).transpose()?;
        let order = settings.ftp_order(arguments.target.resolve(FTP_PORT)?, password);
        let report = ftp(&order, &*until_interrupted()?).map_err(failure)?;
        print_report(as_json, &report.document(), || report.text())?;
        return Ok(exit_code(false, report.faults.is_empty(), true));
    }
    let mut remote = connect(&arguments.target, &arguments.key)?;
    let report = tcp(&mut remote, settings, &*until_interrupted()?).map_err(failure)?;
    print_report(as_json, &report.document(), || report.text())?;
    Ok(exit_code(report.interrupted, report.faults.is_empty(), true))
}
