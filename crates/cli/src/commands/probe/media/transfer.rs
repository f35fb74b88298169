//! `netrig probe transfer`.

use std::process::ExitCode;

use netrig_host::socket::TcpOptions;
use netrig_probe::transfer::{FILE_BYTES, FtpOrder, FtpReport, TcpOrder, TcpReport, TcpSample, ftp, tcp};
use netrig_traffic::FtpDirection;
use serde_json::{Value, json};

use super::super::ending::{exit_code, failure};
use super::super::target::resolve;
use super::arguments::Transfer;
use super::stream::{connect, percent};
use crate::failure::{Failure, print};
use crate::interruption::until_interrupted;

/// FTP's port (RFC 959).
const FTP_PORT: u16 = 21;
/// Amount of data over TCP if `--bytes` is not given.
const TCP_BYTES: u64 = 10_000_000;

pub fn transfer(arguments: &Transfer) -> Result<ExitCode, Failure> {
    let options = TcpOptions { congestion: arguments.congestion.clone(), ..TcpOptions::default() };
    let (mut document, mut text, faults, interrupted) = if arguments.ftp.ftp {
        let report = by_ftp(arguments, options)?;
        (ftp_json(&report), ftp_text(&report), report.faults(), false)
    } else {
        let report = by_tcp(arguments, options)?;
        (tcp_json(&report), tcp_text(&report), report.faults, report.interrupted)
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
        // RFC 1635: anonymous users give their address as the password.
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

fn ftp_json(report: &FtpReport) -> Value {
    json!({
        "server": report.greeting, "bytes": report.bytes,
        "transfer_s": report.transfer_s, "session_s": report.session_s,
        "goodput_bytes_per_s": report.bytes as f64 / report.transfer_s,
    })
}

fn ftp_text(report: &FtpReport) -> String {
    format!(
        "{} B by FTP; greeting of the server: {}\n\
         data transfer   {:.3} s, {:.0} B/s of the file\n\
         whole session   {:.3} s, log-in and farewell included\n",
        report.bytes,
        report.greeting,
        report.transfer_s,
        report.bytes as f64 / report.transfer_s,
        report.session_s,
    )
}

fn tcp_json(report: &TcpReport) -> Value {
    let sample = |s: &TcpSample| {
        json!({
            "at_s": s.at_s, "cwnd_bytes": s.cwnd, "flight_bytes": s.flight, "srtt_s": s.srtt_s,
            "delivery_bytes_per_s": s.delivery_bytes_per_s, "sent_again_bytes": s.sent_again, "window_bytes": s.window,
        })
    };
    json!({
        "bytes": report.bytes, "transfer_s": report.transfer_s, "with_handshake_s": report.took_s,
        "goodput_bytes_per_s": report.bytes as f64 / report.transfer_s,
        "congestion": report.congestion,
        "round_trip_s": report.round_trip.as_secs_f64(),
        "path_mtu_bytes": report.path_mtu, "segment_bytes": report.segment,
        "send_buffer_bytes": report.send_buffer, "far_window_bytes": report.far_window,
        "bottleneck_bits_per_s": report.path.map(|path| path.bottleneck_bits_per_s),
        "bandwidth_delay_bytes": report.path.map(|path| path.bandwidth_delay_bytes()),
        "rfc6349": report.framework.map(|f| json!({
            "transfer_time_ratio": f.transfer_time_ratio, "efficiency": f.efficiency, "buffer_delay": f.buffer_delay,
        })),
        "segments": report.segments, "sent_again_bytes": report.sent_again, "timeouts": report.timeouts,
        "samples": report.samples.iter().map(sample).collect::<Vec<_>>(),
    })
}

fn tcp_text(report: &TcpReport) -> String {
    let mut text = format!(
        "{} B by TCP ({}) in {:.3} s: {:.0} B/s of application bytes\n\
         baseline round trip      {:.3} ms\n\
         path MTU                 {} B, {} B of them the file's\n\
         buffers                  {} B to send from, a window of {} B at the far end\n",
        report.bytes,
        report.congestion,
        report.transfer_s,
        report.bytes as f64 / report.transfer_s,
        report.round_trip.as_secs_f64() * 1e3,
        report.path_mtu,
        report.segment,
        report.send_buffer,
        report.far_window,
    );
    if let Some(path) = &report.path {
        text += &format!(
            "bottleneck, as given     {:.3} Mbit/s of IP packets\nbandwidth-delay product  {:.0} B\n",
            path.bottleneck_bits_per_s / 1e6,
            path.bandwidth_delay_bytes(),
        );
    }
    if let Some(framework) = &report.framework {
        let ratio = framework.transfer_time_ratio.map(|ratio| format!("{ratio:.3}"));
        text += &format!(
            "TCP transfer time ratio  {}\nTCP efficiency           {}\nbuffer delay             {}\n",
            ratio.unwrap_or_else(|| "not known: give --bottleneck".to_owned()),
            percent(framework.efficiency),
            framework.buffer_delay.map_or("not measured".to_owned(), percent),
        );
    }
    text + &format!(
        "sent again               {} B of {} segments, {} time-outs\n",
        report.sent_again, report.segments, report.timeouts
    )
}
