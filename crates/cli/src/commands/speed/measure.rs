//! `netrig speed HOST`.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Duration, Rate, Size};
use netrig_host::socket::{Buffers, TcpOptions};
use netrig_host::tls::{self, Trust};
use netrig_host::{HostAddress, host_of_target};
use netrig_speed::flows::TestError;
use netrig_speed::iperf3::{self, TestDocument};
use netrig_speed::measure::{
    self as meter, CallOrder, Iperf3Error, Iperf3Order, MeasureOrder, MeasureProgress, MeasureTask,
    PhaseOrder, PhaseReport, SpeedError, SpeedReport, measure_iperf3,
};
use netrig_speed::protocol::{DataDirection, PORT, SHORTEST_INTERVAL};

use super::arguments::{Form, Measure, Only};
use super::tasks::{USUAL_SIZE, tasks};
use crate::commands::probe::{KeyPlace, Target};
use crate::failure::{FAILED, Failure, INTERRUPTED, TESTER, print};
use crate::interruption::until_interrupted;

/// For how long the idle path is observed after the load.
const AFTER: Duration = Duration::from_millis(500);

/// The shortest phase: five readings.
const SHORTEST: Duration = Duration::from_millis(500);

/// The fewest datagrams at a rate from which a result can be given.
const FEWEST: f64 = 10.0;

/// The shortest segment that Linux lets a socket have, bytes (TCP_MIN_MSS).
const SHORTEST_SEGMENT: u64 = 88;

/// Time between two echoes.
const ECHO_EVERY: Duration = Duration::from_millis(20);

pub fn measure(target: &Target, arguments: &Measure) -> Result<ExitCode, Failure> {
    check(arguments)?;
    let cancel = until_interrupted()?;
    let mut line = Line { is_live: stderr().is_terminal(), place: None, before: (0.0, 0) };
    let measured = if arguments.iperf3 {
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

/// The exit code. A busy processor of this host is a result, since the host is part of what is measured. If this end did not
/// offer the ordered load, the measurement is invalid.
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

/// Refuses an order that cannot be measured, before the server is called.
fn check(arguments: &Measure) -> Result<(), Failure> {
    check_times(arguments)?;
    check_pairs(arguments)?;
    for task in tasks(arguments)? {
        let checked = match task {
            MeasureTask::Carry(phase) => phase.check(),
            MeasureTask::Search(search) => search.check(),
        };
        checked.map_err(Failure::request)?;
    }
    let sizes = [
        ("--mss", arguments.mss, SHORTEST_SEGMENT),
        ("--window", arguments.window, 1),
        ("--send-buffer", arguments.send_buffer, 1),
        ("--receive-buffer", arguments.receive_buffer, 1),
    ];
    for (flag, size, least) in sizes {
        if let Some(size) = size.filter(|size| size.bytes() < least) {
            return refuse(format!("{flag} {size}: expected {least} B or more"));
        }
    }
    Ok(())
}

fn refuse(why: String) -> Result<(), Failure> {
    Err(Failure::request(why))
}

fn check_times(arguments: &Measure) -> Result<(), Failure> {
    if arguments.time < SHORTEST {
        return refuse(format!(
            "--time {}: expected {SHORTEST} or more: a shorter phase has no rate",
            arguments.time
        ));
    }
    if arguments.iperf3 && !arguments.time.as_nanos().is_multiple_of(1_000_000_000) {
        return refuse(format!("--time {}: iperf3 takes whole seconds", arguments.time));
    }
    if arguments.idle.is_zero() {
        return Ok(());
    }
    if arguments.idle < SHORTEST_INTERVAL {
        return refuse(format!(
            "--idle {}: expected {SHORTEST_INTERVAL} or more, or 0s for none",
            arguments.idle
        ));
    }
    PhaseOrder::idle(arguments.idle).check().map_err(Failure::request)
}

/// Checks options that are meaningless alone or together.
fn check_pairs(arguments: &Measure) -> Result<(), Failure> {
    if arguments.sctp && arguments.json == Some(Form::Iperf3) {
        return refuse(
            "--sctp --json=iperf3: iperf3's document has no place for netrig's associations; use --json"
                .to_owned(),
        );
    }
    if arguments.most.bits_per_s() == 0 {
        return refuse("--most 0bit/s: expected a rate that can be offered".to_owned());
    }
    if arguments.sctp && arguments.only == Some(Only::Capacity) {
        return refuse(
            "--only capacity --sctp: the search for the capacity uses UDP datagrams; leave out one of the two".to_owned(),
        );
    }
    let Some(rate) = arguments.udp else { return Ok(()) };
    let size = arguments.size.map_or(USUAL_SIZE.into(), Size::bytes).max(1);
    let datagrams = rate.bits_per_s() as f64 / 8.0 / size as f64 * arguments.time.as_secs_f64();
    if datagrams < FEWEST {
        return refuse(format!(
            "--udp {rate}: that is less than {FEWEST} datagrams of {size} B within {}; expected a higher rate, shorter datagrams \
             (--size) or a longer time (--time)",
            arguments.time
        ));
    }
    Ok(())
}

/// Measures by netrig's own protocol; returns the measurement, and its phases in iperf3's form.
fn measure_own(
    target: &Target,
    arguments: &Measure,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(MeasureProgress),
) -> Result<(SpeedReport, Vec<TestDocument>), Failure> {
    let report = meter::measure(order(target, arguments)?, cancel, progress).map_err(failure)?;
    let host = HostAddress::from(report.server).to_string();
    let phases = report.carriages.iter();
    let documents = phases.filter_map(|phase| phase.document(&host, report.server, report.client)).collect();
    Ok((report, documents))
}

/// Measures against an iperf3 server; returns the measurement, and its phases as iperf3 prints them.
fn measure_foreign(
    target: &Target,
    arguments: &Measure,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(MeasureProgress),
) -> Result<(SpeedReport, Vec<TestDocument>), Failure> {
    let server = target.resolve(iperf3::PORT)?;
    // iperf3 has no search for the line's capacity.
    let phases = tasks(arguments)?.into_iter().filter_map(|task| match task {
        MeasureTask::Carry(phase) => Some(phase),
        MeasureTask::Search(_) => None,
    });
    let order = Iperf3Order { server, host: HostAddress::from(server).to_string(), phases: phases.collect() };
    if order.phases.is_empty() {
        return Err(Failure::request(
            "iperf3 has no search for a line's capacity: leave out --only capacity",
        ));
    }
    measure_iperf3(&order, cancel, progress).map_err(|error| match error {
        Iperf3Error::Carrier(_) => Failure::request(error),
        Iperf3Error::Test(TestError::Interrupted) => Failure::Interrupted,
        Iperf3Error::Test(_) => Failure::failed(error),
    })
}

fn order(target: &Target, arguments: &Measure) -> Result<MeasureOrder, Failure> {
    let server = target.resolve(PORT)?;
    Ok(MeasureOrder {
        call: CallOrder {
            options: options(arguments)?,
            ..call_order(&target.target, server, &arguments.key, arguments.trust.as_deref(), arguments.udp)?
        },
        idle: arguments.idle,
        tasks: tasks(arguments)?,
        after: AFTER,
        echo_every: ECHO_EVERY,
        responsive: !arguments.no_rpm,
    })
}

/// The order of a call, with the authorities that may have signed the server's certificate.
pub(super) fn call_order(
    target: &str,
    server: SocketAddr,
    key: &KeyPlace,
    trust: Option<&Path>,
    rate: Option<Rate>,
) -> Result<CallOrder, Failure> {
    let trust = Trust::of(trust).map_err(Failure::request)?;
    // The certificate is for the typed name, if there is one.
    Ok(CallOrder {
        server,
        name: meter::server_name(host_of_target(target), server),
        tls: tls::client(&trust, None).map_err(Failure::request)?,
        key: key.read()?,
        rate,
        options: TcpOptions::default(),
    })
}

/// The socket options of this end's connections.
fn options(arguments: &Measure) -> Result<TcpOptions, Failure> {
    let bytes = |what: &str, size: Option<Size>| {
        let bytes = size.map(|size| u32::try_from(size.bytes())).transpose();
        bytes.map_err(|_| Failure::request(format!("{what}: expected less than 4 GiB")))
    };
    let segment = arguments.mss.map(|size| u16::try_from(size.bytes())).transpose();
    Ok(TcpOptions {
        max_segment: segment.map_err(|_| Failure::request("--mss: expected at most 65535 B"))?,
        window_clamp: bytes("--window", arguments.window)?,
        buffers: Buffers {
            send: bytes("--send-buffer", arguments.send_buffer)?,
            receive: bytes("--receive-buffer", arguments.receive_buffer)?,
        },
        ..TcpOptions::default()
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
    /// Number of sessions before this one, as last printed.
    place: Option<usize>,
    before: (f64, u64),
}

impl Line {
    fn tell(&mut self, progress: MeasureProgress) {
        let text = match progress {
            MeasureProgress::Waits { before, of } => {
                let text = format!("waiting: {before} before us, {of} in all");
                if !self.is_live && self.place.replace(before) != Some(before) {
                    // In a log, each change of the position gets one line.
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
                format!("{} {at_s:4.1} s  {}", way.text(), netrig_core::number::rate(rate))
            }
        };
        if self.is_live {
            // If the terminal is gone, nothing can be shown.
            let _ = write!(stderr(), "\r\x1b[2K{text}");
        }
    }

    fn clear(&self) {
        if self.is_live {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}
