//! `netrig probe transfer`.

use std::process::ExitCode;

use netrig_host::socket::TcpOptions;
use netrig_probe::transfer::{FILE_BYTES, FtpOrder, FtpReport, TcpOrder, TcpReport, ftp, tcp};
use netrig_traffic::FtpDirection;

use super::super::common::failure;
use super::arguments::Transfer;
use super::connect;
use crate::failure::{Failure, exit_code, print_report};
use crate::input::password;
use crate::interruption::until_interrupted;

/// FTP's port (RFC 959).
const FTP_PORT: u16 = 21;
/// Amount of data over TCP if `--bytes` is not given.
const TCP_BYTES: u64 = 10_000_000;

pub fn transfer(arguments: &Transfer) -> Result<ExitCode, Failure> {
    let options = TcpOptions { congestion: arguments.congestion.clone(), ..TcpOptions::default() };
    let as_json = arguments.form.json;
    if arguments.ftp.ftp {
        let report = by_ftp(arguments, options)?;
        print_report(as_json, &report.document(), || report.text())?;
        return Ok(exit_code(false, report.limits.is_empty(), true));
    }
    let report = by_tcp(arguments, options)?;
    print_report(as_json, &report.document(), || report.text())?;
    Ok(exit_code(report.interrupted, report.faults.is_empty(), true))
}

fn by_ftp(arguments: &Transfer, options: TcpOptions) -> Result<FtpReport, Failure> {
    let password = match &arguments.ftp.password_env {
        Some(name) => password(name)?,
        // RFC 1635: anonymous users give their address as the password.
        None => "netrig@".to_owned(),
    };
    let (direction, file, most) = match &arguments.ftp.download {
        Some(name) => (FtpDirection::Fetch, name.clone(), u64::MAX),
        None => (FtpDirection::Store, format!("netrig-probe-{}", std::process::id()), FILE_BYTES),
    };
    let order = FtpOrder {
        server: arguments.target.resolve(FTP_PORT)?,
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
