//! `netrig probe transfer`.

use std::process::ExitCode;

use netrig_host::socket::TcpOptions;
use netrig_probe::transfer::{FILE_BYTES, FtpOrder, FtpReport, TcpOrder, TcpReport, ftp, tcp};
use netrig_traffic::FtpDirection;

use super::super::ending::{exit_code, failure};
use super::super::target::resolve;
use super::arguments::Transfer;
use super::connect;
use crate::failure::{Failure, print};
use crate::interruption::until_interrupted;

/// FTP's port (RFC 959).
const FTP_PORT: u16 = 21;
/// What TCP carries unless told.
const TCP_BYTES: u64 = 10_000_000;

pub fn transfer(arguments: &Transfer) -> Result<ExitCode, Failure> {
    let options = TcpOptions { congestion: arguments.congestion.clone(), ..TcpOptions::default() };
    let (mut document, mut text, faults, interrupted) = if arguments.ftp.ftp {
        let report = by_ftp(arguments, options)?;
        (report.document(), report.text(), report.faults(), false)
    } else {
        let report = by_tcp(arguments, options)?;
        (report.document(), report.text(), report.faults, report.interrupted)
    };
    let valid = faults.is_empty();
    if arguments.form.json {
        document["valid"] = valid.into();
        document["interrupted"] = interrupted.into();
        document["faults"] = faults.into();
        print(serde_json::to_string_pretty(&document).map_err(Failure::failed)?)?;
    } else {
        faults.iter().for_each(|fault| text += &format!("invalid: {fault}\n"));
        print(text.trim_end())?;
    }
    Ok(exit_code(interrupted, valid))
}

fn by_ftp(arguments: &Transfer, options: TcpOptions) -> Result<FtpReport, Failure> {
    let password = match &arguments.ftp.password_env {
        Some(name) => std::env::var(name).map_err(|_| {
            Failure::request(format!("there is no variable {name} with a password in the environment"))
        })?,
        // RFC 1635: anonymous users give an address of theirs.
        None => "netrig@".to_owned(),
    };
    let (direction, file, most) = match &arguments.ftp.download {
        Some(name) => (FtpDirection::Fetch, name.clone(), u64::MAX),
        None => (FtpDirection::Store, format!("netrig-probe-{}", std::process::id()), FILE_BYTES),
    };
    let order = FtpOrder {
        server: resolve(&arguments.target, FTP_PORT)?,
        user: arguments.ftp.user.clone(),
        password,
        direction,
        file,
        bytes: arguments.bytes.map_or(most, |bytes| bytes.bytes()),
        options,
        dscp: arguments.dscp.0,
        patience: arguments.ftp.patience,
    };
    ftp(&order, &*until_interrupted()?).map_err(failure)
}

fn by_tcp(arguments: &Transfer, options: TcpOptions) -> Result<TcpReport, Failure> {
    if arguments.sample_every.is_zero() {
        return Err(Failure::request("--sample-every must be above zero"));
    }
    let order = TcpOrder {
        bytes: arguments.bytes.map_or(TCP_BYTES, |bytes| bytes.bytes()),
        streams: arguments.streams,
        options,
        dscp: arguments.dscp.0,
        bottleneck_bits_per_s: arguments.bottleneck.map(|rate| rate.bits_per_s() as f64),
        sample_every: arguments.sample_every,
    };
    if order.bytes == 0 {
        return Err(Failure::request("--bytes must be above zero"));
    }
    let mut remote = connect(&arguments.target, &arguments.key)?;
    tcp(&mut remote, &order, &*until_interrupted()?).map_err(failure)
}
