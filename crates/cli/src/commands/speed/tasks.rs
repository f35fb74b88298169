//! What is measured, from what was typed.

use netrig_core::Duration;
use netrig_host::random;
use netrig_speed::measure::{PhaseOrder, SearchTask, Task};
use netrig_speed::protocol::{Carrier, Load, Phase, Way};

use super::arguments::{Measure, Only};
use crate::failure::Failure;

/// Time between two readings, at least.
const EVERY: Duration = Duration::from_millis(100);

/// Payload of datagrams of a rate that was given, bytes: fits into what every path carries.
pub const USUAL_SIZE: u16 = 1200;

/// The longest packet of SCTP, bytes: over IPv6 and UDP (RFC 6951) it fits into what every path carries (RFC 8200 section 5).
const SCTP_SIZE: u16 = 1232;

/// For how long a search counts what arrives above the line's capacity and what is lost below it, and may take in all.
const COUNTS: Duration = Duration::from_millis(1000);

const BENEATH: Duration = Duration::from_millis(500);

const LONGEST_SEARCH: Duration = Duration::from_secs(45);

/// What is done, one after the other.
pub fn tasks(arguments: &Measure) -> Result<Vec<Task>, Failure> {
    let ways = match (arguments.down, arguments.up, arguments.both) {
        (true, ..) => &[Way::Down][..],
        (_, true, _) => &[Way::Up],
        (.., true) => &[Way::Down, Way::Up, Way::Both],
        _ => &[Way::Down, Way::Up],
    };
    let size = arguments.size.map(|size| u16::try_from(size.bytes()));
    let size = size.transpose().map_err(|_| Failure::request("datagrams have at most 65507 B of payload"))?;
    let carry = |carrier: Carrier| {
        let every = Phase::interval(&carrier, arguments.time, EVERY);
        Task::Carry(PhaseOrder { carrier, lasts: arguments.time, every })
    };
    if let Some(rate) = arguments.udp {
        let bits_per_s = rate.bits_per_s();
        let load = if arguments.poisson {
            Load::Poisson { bits_per_s, seed: random_seed()? }
        } else {
            Load::Fixed { bits_per_s }
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
    let search = ways.iter().filter(|way| **way != Way::Both).map(|way| {
        Task::Search(SearchTask {
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

fn random_seed() -> Result<u64, Failure> {
    Ok(u64::from_ne_bytes(random().map_err(Failure::failed)?))
}
