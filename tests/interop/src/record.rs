//! The record of an association.

use std::fmt::Write as _;
use std::net::IpAddr;

use netrig_core::{CloseReason, Duration, Instant};
use netrig_link::LineCounters;
use netrig_transport::sctp::PathAddresses;
use netrig_transport::sctp::wire::DecodeError;
use netrig_transport::{Counters, Incident};

/// The driver's counts on one path.
#[derive(Clone, Debug)]
pub struct PathTally {
    /// The path.
    pub addresses: PathAddresses,
    /// Times at which packets with DATA were sent.
    pub data_sent: Vec<Instant>,
    /// Times at which packets with DATA arrived.
    pub data_received: Vec<Instant>,
    /// Number of packets that the kernel did not send because there was no route or no buffer space.
    pub refused: u64,
    /// Counters of the line towards the peer.
    pub outward: LineCounters,
    /// Counters of the line from the peer.
    pub inward: LineCounters,
}

impl PathTally {
    /// A tally with all counts at zero.
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

/// The driver's record of an association.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The time at which the clock of the record was zero.
    pub epoch: std::time::Instant,
    /// Why the association ended; `None` before its end.
    pub closed: Option<CloseReason>,
    /// The received data of each stream.
    pub received: Vec<Vec<u8>>,
    /// The counters of the association.
    pub counters: Counters,
    /// The counts of each path.
    pub paths: Vec<PathTally>,
    /// All events of the association.
    pub incidents: Vec<(Instant, Incident)>,
    /// Bytes delivered here plus bytes acknowledged by the peer, at each time at which the sum grew.
    pub progress: Vec<(Instant, u64)>,
    /// Errors of received bytes that are not an SCTP packet.
    pub undecodable: Vec<DecodeError>,
    /// The largest lateness of the driver.
    pub lateness: Duration,
    /// When the user's step was carried out.
    pub step_at: Option<Instant>,
}

impl Outcome {
    /// The time of the first event that `wanted` selects.
    pub fn first(&self, wanted: impl Fn(&Incident) -> bool) -> Option<Instant> {
        self.incidents.iter().find(|(_, incident)| wanted(incident)).map(|(at, _)| *at)
    }

    /// The time from the establishment of the association to the last progress.
    pub fn transfer_time(&self) -> Option<Duration> {
        let start = self.first(|incident| *incident == Incident::Established)?;
        self.progress.last().map(|(end, _)| *end - start)
    }

    /// The longest time without progress that ended after `since`: its end and its duration.
    pub fn longest_stall(&self, since: Instant) -> Option<(Instant, Duration)> {
        let pairs = self.progress.windows(2).filter(|pair| pair[1].0 > since);
        pairs.map(|pair| (pair[1].0, pair[1].0 - pair[0].0)).max_by_key(|(_, stall)| *stall)
    }

    /// The events as text, with the addresses of the paths.
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
