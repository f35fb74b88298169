//! Turns the command line into measurement tasks.

use netrig_core::Duration;
use netrig_speed::measure::{MeasureTask, PhaseOrder, SearchTask};
use netrig_speed::protocol::{Carrier, DataDirection, DatagramLoad, MeasurementPhase};

use super::arguments::{Measure, Only};
use crate::failure::Failure;
use crate::input::random_seed;

/// Time between two readings, at least.
const EVERY: Duration = Duration::from_millis(100);

/// Payload of datagrams at a given rate, bytes: fits every path.
pub const USUAL_SIZE: u16 = 1200;

/// The longest SCTP packet, bytes: over IPv6 and UDP (RFC 6951) it fits every path (RFC 8200 section 5).
const SCTP_SIZE: u16 = 1232;

/// For how long a search counts arrivals above the line's capacity.
const COUNTS: Duration = Duration::from_millis(1000);
/// For how long it counts losses below the capacity.
const BENEATH: Duration = Duration::from_millis(500);
/// How long a search may take in all.
const LONGEST_SEARCH: Duration = Duration::from_secs(45);

/// The tasks, in their order.
pub fn tasks(arguments: &Measure) -> Result<Vec<MeasureTask>, Failure> {
    let ways = match (arguments.down, arguments.up, arguments.both) {
        (true, ..) => &[DataDirection::Down][..],
        (_, true, _) => &[DataDirection::Up],
        (.., true) => &[DataDirection::Down, DataDirection::Up, DataDirection::Both],
        _ => &[DataDirection::Down, DataDirection::Up],
    };
    let size = arguments.size.map(|size| u16::try_from(size.bytes()));
    let size = size
        .transpose()
        .map_err(|_| Failure::request("--size: a datagram has at most 65507 B of payload"))?;
    let carry = |carrier: Carrier| {
        let every = MeasurementPhase::interval(&carrier, arguments.time, EVERY);
        MeasureTask::Carry(PhaseOrder { carrier, lasts: arguments.time, every })
    };
    if let Some(rate) = arguments.udp {
        let bits_per_s = rate.bits_per_s();
        let load = if arguments.poisson {
            DatagramLoad::Poisson { bits_per_s, seed: random_seed()? }
        } else {
            DatagramLoad::Fixed { bits_per_s }
        };
        let size = size.unwrap_or(USUAL_SIZE);
        return Ok(ways.iter().map(|way| carry(Carrier::Udp { way: *way, size, load })).collect());
    }
    let streams = arguments.streams;
    let connections = ways.iter().map(|way| {
        carry(if arguments.sctp {
            Carrier::Sctp { way: *way, streams, size: size.unwrap_or(SCTP_SIZE) }
        } else {
            Carrier::Tcp { way: *way, streams, congestion: arguments.congestion.clone() }
        })
    });
    let search = ways.iter().filter(|way| **way != DataDirection::Both).map(|way| {
        MeasureTask::Search(SearchTask {
            way: *way,
            size,
            most: arguments.most,
            counts: COUNTS,
            beneath: BENEATH,
            lasts: LONGEST_SEARCH,
        })
    });
    Ok(match arguments.only {
        Some(Only::Connections) => connections.collect(),
        Some(Only::Capacity) => search.collect(),
        None => connections.chain(search).collect(),
    })
}
