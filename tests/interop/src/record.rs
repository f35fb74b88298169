//! What came of an association.

use std::fmt::Write as _;
use std::net::IpAddr;

use netrig_core::{CloseReason, Duration, Instant};
use netrig_link::LineCounters;
use netrig_transport::sctp::PathAddresses;
use netrig_transport::sctp::wire::DecodeError;
use netrig_transport::{Counters, Incident};

/// What the driver counted on one path.
#[derive(Clone, Debug)]
pub struct PathTally {
    /// The path.
    pub addresses: PathAddresses,
    /// When packets with DATA were put on the wire.
    pub data_sent: Vec<Instant>,
    /// When packets with DATA arrived.
    pub data_received: Vec<Instant>,
    /// Packets that the kernel had no way or no room for.
    pub refused: u64,
    /// The line towards the peer.
    pub outward: LineCounters,
    /// The line from the peer.
    pub inward: LineCounters,
}

impl PathTally {
    /// Nothing yet.
    pub(crate) fn new(addresses: PathAddresses) -> Self {
        Self {
            addresses,
            data_sent: Vec::new(),
            data_received: Vec::new(),
            refused: 0,
            outward: LineCounters::new(),
            inward: LineCounters::new(),
        }
    }
}

/// What the driver writes down as it goes, and what is left of the association at the end.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When the clock showed zero.
    pub epoch: std::time::Instant,
    /// Why it ended; `None` until it has.
    pub closed: Option<CloseReason>,
    /// What was received, stream by stream.
    pub received: Vec<Vec<u8>>,
    /// What the association counted.
    pub counters: Counters,
    /// Path by path.
    pub paths: Vec<PathTally>,
    /// Everything that happened to the association.
    pub incidents: Vec<(Instant, Incident)>,
    /// How much was delivered here or acknowledged by the peer, whenever it became more.
    pub progress: Vec<(Instant, u64)>,
    /// What arrived and is no SCTP packet.
    pub undecodable: Vec<DecodeError>,
    /// The latest that the driver ever was.
    pub lateness: Duration,
    /// When the step of the plan was done.
    pub step_at: Option<Instant>,
}

impl Outcome {
    /// When something first happened.
    pub fn first(&self, wanted: impl Fn(&Incident) -> bool) -> Option<Instant> {
        self.incidents.iter().find(|(_, incident)| wanted(incident)).map(|(at, _)| *at)
    }

    /// From the handshake to the last progress.
    pub fn transfer_time(&self) -> Option<Duration> {
        let start = self.first(|incident| *incident == Incident::Established)?;
        self.progress.last().map(|(end, _)| *end - start)
    }

    /// The longest time without progress that ended after `since`: when it ended, and how long it was.
    pub fn longest_stall(&self, since: Instant) -> Option<(Instant, Duration)> {
        let pairs = self.progress.windows(2).filter(|pair| pair[1].0 > since);
        pairs.map(|pair| (pair[1].0, pair[1].0 - pair[0].0)).max_by_key(|(_, stall)| *stall)
    }

    /// The story in words, with the addresses that carried data.
    pub fn log(&self) -> String {
        let mut text = String::new();
        let address = |path: u8| match self.paths.get(usize::from(path)).map(|path| path.addresses) {
            Some(PathAddresses { local: IpAddr::V4(local), remote: IpAddr::V4(remote) }) => {
                format!("path {path} ({local} to {remote})")
            }
            _ => format!("path {path}"),
        };
        for (at, incident) in &self.incidents {
            let what = match incident {
                Incident::Established => "established".to_owned(),
                Incident::Timeout { path, rto, errors, limit, .. } => {
                    format!("{}: no answer for {rto}, error {errors} of {limit}", address(path.0))
                }
                Incident::PathChanged { path, state } => format!("{}: {state}", address(path.0)),
                Incident::DataPathChanged { path } => format!("new data over {}", address(path.0)),
                Incident::Closed(reason) => format!("over: {reason:?}"),
                _ => continue,
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{:8.3} s  {what}", at.as_secs_f64());
        }
        if let Some(at) = self.step_at {
            let _ = writeln!(text, "{:8.3} s  what the test does in the middle", at.as_secs_f64());
        }
        for (number, path) in self.paths.iter().enumerate() {
            let _ = writeln!(
                text,
                "            {}: DATA in {} packets sent and {} received, lost of {} outward {} and of {} inward {}",
                address(number as u8),
                path.data_sent.len(),
                path.data_received.len(),
                path.outward.offered.packets,
                path.outward.dropped_in_all().packets,
                path.inward.offered.packets,
                path.inward.dropped_in_all().packets,
            );
        }
        text
    }
}
