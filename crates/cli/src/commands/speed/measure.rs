//! `netrig speed HOST`.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_host::socket::TcpOptions;
use netrig_host::tls::{self, Trust};
use netrig_host::{HostAddress, host_of_target};
use netrig_speed::flows::TestError;
use netrig_speed::iperf3::{self, TestDocument};
use netrig_speed::measure::{
    self as meter, CallOrder, Iperf3Error, MeasureProgress, PhaseReport, SpeedError, SpeedReport,
    measure_iperf3,
};
use netrig_speed::protocol::{DataDirection, PORT};

use super::arguments::{Form, Measure};
use crate::commands::probe::{KeyPlace, Target};
use crate::failure::{FAILED, Failure, INTERRUPTED, TESTER, print};
use crate::input::random_seed;
use crate::interruption::until_interrupted;

pub fn measure(target: &Target, arguments: &Measure) -> Result<ExitCode, Failure> {
    let settings = &arguments.speed.settings;
    if settings.sctp && arguments.json == Some(Form::Iperf3) {
        return Err(Failure::request(
            "--sctp --json=iperf3: iperf3's document has no place for netrig's associations; use --json",
        ));
    }
    settings.check().map_err(Failure::request)?;
    let cancel = until_interrupted()?;
    let mut line = Line { is_live: stderr().is_terminal(), place: None, before: (0.0, 0) };
    let measured = if settings.iperf3 {
        measure_foreign(target, arguments, &cancel, &mut |progress| line.tell(progress))
    } else {
        measure_own(target, arguments, &cancel, &mut |progress| line.tell(progress))
    };
    line.clear();
    let (report, documents) = measured?;
    match arguments.json {
        Some(Form::Netrig) => print(report.json().map_err(Failure::failed)?)?,
        Some(Form::Iperf3) => documents.iter().try_for_each(|document| print(document.json()))?,
        None => print(report.text().trim_end())?,
    }
    Ok(exit(&report, cancel.load(Ordering::Relaxed)))
}

/// The exit code. A busy processor of this host does not make the measurement invalid, because the host is part of the
/// measured system. The measurement is invalid if the report of a phase has faults for this host, which is the sender of
/// an upload and otherwise the receiver.
fn exit(report: &SpeedReport, interrupted: bool) -> ExitCode {
    let is_own = |phase: &PhaseReport| match phase.way {
        DataDirection::Up => !phase.sender.faults.is_empty(),
        DataDirection::Down | DataDirection::Both => !phase.receiver.faults.is_empty(),
    };
    match report.partial {
        true if interrupted => ExitCode::from(INTERRUPTED),
        true => ExitCode::from(FAILED),
        false if report.phases.iter().any(is_own) => ExitCode::from(TESTER),
        false => ExitCode::SUCCESS,
    }
}

/// Measures with netrig's own protocol. Returns the measurement, and its phases in the form of iperf3.
fn measure_own(
    target: &Target,
    arguments: &Measure,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(MeasureProgress),
) -> Result<(SpeedReport, Vec<TestDocument>), Failure> {
    let server = target.resolve(PORT)?;
    let call = call_order(&target.target, server, &arguments.key, arguments.trust.as_deref())?;
    let order = arguments.speed.settings.order(call, random_seed()?).map_err(Failure::request)?;
    let report = meter::measure(order, cancel, progress).map_err(failure)?;
    let host = HostAddress::from(report.server).to_string();
    let phases = report.carriages.iter();
    let documents = phases.filter_map(|phase| phase.document(&host, report.server, report.client)).collect();
    Ok((report, documents))
}

/// Measures against an iperf3 server. Returns the measurement, and its phases as iperf3 prints them.
fn measure_foreign(
    target: &Target,
    arguments: &Measure,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(MeasureProgress),
) -> Result<(SpeedReport, Vec<TestDocument>), Failure> {
    let server = target.resolve(iperf3::PORT)?;
    let order = arguments.speed.settings.iperf3_order(server).map_err(Failure::request)?;
    measure_iperf3(&order, cancel, progress).map_err(|error| match error {
        Iperf3Error::Carrier(_) => Failure::request(error),
        Iperf3Error::Test(TestError::Interrupted) => Failure::Interrupted,
        Iperf3Error::Test(_) => Failure::failed(error),
    })
}

/// The settings of a connection to a speed server. `trust` has the authorities that may have signed its certificate.
pub(super) fn call_order(
    target: &str,
    server: SocketAddr,
    key: &KeyPlace,
    trust: Option<&Path>,
) -> Result<CallOrder, Failure> {
    let trust = Trust::of(trust).map_err(Failure::request)?;
    // If the target is a name, the certificate must be for that name.
    Ok(CallOrder {
        server,
        name: meter::server_name(host_of_target(target), server),
        tls: tls::client(&trust, None).map_err(Failure::request)?,
        key: key.read()?,
        rate: None,
        options: TcpOptions::default(),
    })
}

pub(super) fn failure(error: SpeedError) -> Failure {
    match error {
        SpeedError::Phase(_) => Failure::request(error),
        SpeedError::Interrupted => Failure::Interrupted,
        other => Failure::failed(other),
    }
}

/// The progress line on stderr, rewritten if stderr is a terminal.
struct Line {
    is_live: bool,
    /// The last printed number of sessions that are before this one in the queue.
    place: Option<usize>,
    before: (f64, u64),
}

impl Line {
    fn tell(&mut self, progress: MeasureProgress) {
        let text = match progress {
            MeasureProgress::Waits { before, of } => {
                let text = format!("waiting: {before} before us, {of} in all");
                if !self.is_live && self.place.replace(before) != Some(before) {
                    // If stderr is not a terminal, each change of the position is printed as a line.
                    let _ = writeln!(stderr(), "{text}");
                }
                text
            }
            MeasureProgress::Task(_) => {
                self.before = (0.0, 0);
                return;
            }
            MeasureProgress::Arrived { way, at_s, bytes } => {
                let (at, had) = std::mem::replace(&mut self.before, (at_s, bytes));
                let rate = bytes.saturating_sub(had) as f64 * 8.0 / (at_s - at).max(1e-3);
                format!("{} {at_s:4.1} s  {}", way.name(), netrig_core::number::rate(rate))
            }
        };
        if self.is_live {
            // An error is ignored: the terminal may be closed.
            let _ = write!(stderr(), "\r\x1b[2K{text}");
        }
    }

    fn clear(&self) {
        if self.is_live {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}
