//! Measures the round-trip time of a path, and its rate with a short test.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use netrig_core::{Duration, Rate};
use netrig_probe::{Gaps, PingOrder, ProbePlan, ping};

use super::{CallOrder, SpeedCall, SpeedError};
use crate::protocol::{Carrier, DataDirection, MeasurementPhase};

/// Number of ICMP echo requests for the round-trip time.
const ECHOES: u32 = 5;

/// Time after which an echo or a connection attempt counts as unanswered.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time for which data are sent in each direction.
const LASTS: Duration = Duration::from_secs(3);

/// The results of a short test.
pub struct QuickMeasurement {
    /// The round-trip time of the idle path.
    pub round_trip: Option<Duration>,
    /// The rate of the faster direction.
    pub rate: Option<Rate>,
}

/// The minimum round-trip time of a few ICMP echo requests. If this host may not send them or none is answered, the
/// round-trip time of a TCP connection attempt; a refusal counts as an answer.
///
/// # Errors
/// If the server answers neither echo requests nor connection attempts.
pub fn quick_round_trip(server: SocketAddr) -> Result<Duration, String> {
    let plan =
        ProbePlan { count: ECHOES, gaps: Gaps::Periodic(Duration::from_millis(50)), wait: PATIENCE, seed: 0 };
    let order = PingOrder { target: server, plan, size: 56, dscp: 0 };
    let report = ping(&order, &AtomicBool::new(false)).ok();
    let measures = report.iter().flat_map(|report| &report.sections).flat_map(|section| &section.measures);
    let least = measures.filter(|measure| measure.name == "delay_min").find_map(|measure| measure.value);
    match least {
        Some(seconds) => Ok(Duration::from_nanos((seconds * 1e9) as u64)),
        None => opening(server),
    }
}

fn opening(server: SocketAddr) -> Result<Duration, String> {
    let begun = Instant::now();
    match TcpStream::connect_timeout(&server, PATIENCE.into()) {
        Err(error) if error.kind() != ErrorKind::ConnectionRefused => Err(error.to_string()),
        _ => Ok(Duration::from_nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX))),
    }
}

/// Loads some connections in each direction for a short time. The settings of the host must suffice for the faster
/// direction, so its rate is returned.
///
/// # Errors
/// If the server refuses, or the test is interrupted.
pub fn measure_quickly(order: CallOrder, cancel: &AtomicBool) -> Result<QuickMeasurement, SpeedError> {
    let mut call = SpeedCall::connect(order, cancel, &mut |_, _| {})?;
    let mut fastest: Option<f64> = None;
    for way in [DataDirection::Down, DataDirection::Up] {
        let carrier = Carrier::Tcp { way, streams: 4, congestion: None };
        let phase = MeasurementPhase::new(carrier, LASTS, Duration::from_millis(100));
        let carriage = call.carry(phase, cancel, &mut |_| {})?;
        if carriage.cut_short {
            return Err(SpeedError::Interrupted);
        }
        let throughput = carriage.course(way).throughput();
        fastest = throughput.map(|found| found.bits_per_s.max(fastest.unwrap_or(0.0))).or(fastest);
    }
    let round_trip = call.round_trip();
    call.close();
    Ok(QuickMeasurement { round_trip, rate: fastest.map(|rate| Rate::from_bits_per_s(rate as u64)) })
}
