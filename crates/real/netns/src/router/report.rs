//! The router's report about a run: its counters, and whether it distorted the result.

use netrig_agent::EndReport;
use netrig_core::{Duration, Instant, Note, Subject};
use netrig_experiment::Balance;
use netrig_host::Lateness;

use super::displacement::Displacement;
use super::passage::PassageReport;
use crate::ring::RingCounters;

/// The counts of the router, and its lateness.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouterReport {
    pub balance: Balance,
    /// Frames that were sent to nodes.
    pub forwarded: u64,
    /// How late these frames were sent.
    pub lateness: Lateness,
    /// How far the simulation of a link had advanced beyond the arrival time of a frame when the frame was read. For the
    /// link, such a frame arrives at the time that its simulation has reached.
    pub overtaken: Lateness,
    /// The largest step of the wall clock, from which frames get their time stamps.
    pub stepped: Duration,
    /// Frames that arrived at the ring, and frames that were dropped because it was full.
    pub ring: RingCounters,
    /// Frames that a node's interface refused.
    pub refused: u64,
    /// Frames that were lost because the node's interface was down.
    pub shut_out: u64,
    /// Frames that contain no IP packet between addresses of the testbed, or that arrived at an interface that is not
    /// the end of a link. No link carries them.
    pub foreign: u64,
    /// Frames from or to an address of the testbed whose IP packet is truncated or altered, so that no link
    /// can carry it.
    pub unreadable: u64,
    pub passages: PassageReport,
    /// The effect of lateness on the waiting time in each direction of each link, with the link's name.
    pub displaced: Vec<(String, Displacement)>,
    /// The error of the kernel, if it refused to move the router's thread to the real-time class.
    pub no_priority: Option<String>,
}

impl RouterReport {
    /// Why a run of flows is invalid, one sentence each. `ends` has the counts of the sockets.
    pub fn faults_of_run(&self, ends: &[EndReport]) -> Vec<String> {
        let mut faults = self.faults();
        if self.unreadable > 0 {
            let unreadable = self.unreadable;
            faults
                .push(format!("the router could not read {unreadable} frames of the experiment's addresses"));
        }
        // If the ring dropped frames, this is already a fault. The passages would report the same frames as lost in
        // nodes.
        if self.ring.dropped == 0 {
            faults.extend(self.passages.faults(ends));
        }
        faults.extend(self.displaced.iter().filter_map(|(name, displaced)| displaced.fault_of_passage(name)));
        faults
    }

    /// Why packet delays are invalid although the other results may be valid, one sentence each.
    pub fn faults_of_times(&self) -> Vec<String> {
        self.displaced.iter().filter_map(|(name, displaced)| displaced.fault_of_waiting(name)).collect()
    }

    /// Notes on a run that ended at the time `at`: the effect of lateness on waiting times, the number of foreign frames,
    /// and losses at hosts whose queues are limited.
    pub fn notes(&self, at: Instant, ends: &[EndReport]) -> Vec<Note> {
        let note = |text| Note { at, subject: Subject::Run, text };
        let waiting = self.displaced.iter().filter_map(|(name, displaced)| {
            let (waited, added) = displaced.means()?;
            let (packets, waited, added) = (displaced.packets(), waited * 1e3, added * 1e3);
            Some(note(format!(
                "{name}: {packets} packets waited {waited:.3} ms on average; lateness added {added:.3} ms"
            )))
        });
        let foreign = (self.foreign > 0).then(|| {
            note(format!(
                "{} frames had no IP packet of the experiment's addresses and were dropped",
                self.foreign
            ))
        });
        let lost = self.passages.notes(ends).into_iter().map(note);
        waiting.chain(foreign).chain(lost).collect()
    }

    /// Why the traffic on the links is invalid, one sentence each.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.ring.dropped > 0 {
            faults.push(format!(
                "the router's ring had no room for {} of {} frames",
                self.ring.dropped, self.ring.offered
            ));
        }
        if self.refused > 0 {
            faults.push(format!("node interfaces did not take {} frames of the router", self.refused));
        }
        let late = self.lateness.quantile_at_most(0.99);
        if late > TOO_LATE {
            let class = self.no_priority.as_ref();
            let class =
                class.map_or(String::new(), |why| format!(" (the kernel gave it no real-time class: {why})"));
            faults.push(format!(
                "the router sent 1 in 100 frames more than {late} late; at most {TOO_LATE} is allowed{class}"
            ));
        }
        let overtaken = self.overtaken.quantile_at_most(0.99);
        if overtaken > TOO_FAR_OVERTAKEN {
            faults.push(format!(
                "the router read 1 in 100 frames more than {overtaken} after their turn on a link; at most \
                 {TOO_FAR_OVERTAKEN} is allowed"
            ));
        }
        if !self.stepped.is_zero() {
            let step = self.stepped.as_secs_f64();
            faults.push(format!("the wall clock, by which frames are stamped, was stepped by {step} s"));
        }
        faults
    }
}

/// If 1 in 100 frames leaves the router later than this, the run is invalid.
const TOO_LATE: Duration = Duration::from_millis(1);

/// If more than 1 in 100 frames are overtaken by the simulation of the link by more than this, their waiting times are
/// too short, and the run is invalid.
const TOO_FAR_OVERTAKEN: Duration = Duration::from_micros(200);
