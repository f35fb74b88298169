//! What the router did in a run, and whether it was the bottleneck.

use netrig_agent::EndReport;
use netrig_core::{Duration, Instant, Note, Subject};
use netrig_experiment::Balance;
use netrig_host::Lateness;

use super::displacement::Displacement;
use super::passage::PassageReport;
use crate::ring::RingCounters;

/// What the router did, and how well.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouterReport {
    /// Every packet accounted for.
    pub balance: Balance,
    /// Frames that were sent on.
    pub forwarded: u64,
    /// How late they were.
    pub lateness: Lateness,
    /// By how much frames' turns had passed when they were read: they were taken to have come that much later.
    pub overtaken: Lateness,
    /// By how much the wall clock was stepped at most, by which frames are stamped.
    pub stepped: Duration,
    /// What came to the ring, and found no room there.
    pub ring: RingCounters,
    /// Frames that a node's interface did not take.
    pub refused: u64,
    /// Frames that came to a node's interface while it was down.
    pub shut_out: u64,
    /// Frames without an IP packet between addresses of the testbed, which no link carries, or from elsewhere than a link's
    /// end: noise.
    pub foreign: u64,
    /// Frames from or to an address of the testbed whose IP packet is cut or altered, so that no link could carry it.
    pub unreadable: u64,
    /// What nodes were handed, and what came of it.
    pub passages: PassageReport,
    /// What lateness did to the waiting on each way of each link, by its name.
    pub displaced: Vec<(String, Displacement)>,
    /// Why the kernel gave the router's thread no real-time class, if it did not.
    pub no_priority: Option<String>,
}

impl RouterReport {
    /// Why a run of flows must not be trusted, in words; `ends` is what their sockets say.
    pub fn faults_of_run(&self, ends: &[EndReport]) -> Vec<String> {
        let mut faults = self.faults();
        if self.unreadable > 0 {
            let unreadable = self.unreadable;
            faults
                .push(format!("the router could not read {unreadable} frames of the experiment's addresses"));
        }
        // What the ring had no room for would be missed at nodes too.
        if self.ring.dropped == 0 {
            faults.extend(self.passages.faults(ends));
        }
        faults.extend(self.displaced.iter().filter_map(|(name, displaced)| displaced.fault_of_passage(name)));
        faults
    }

    /// Why the times must not be trusted that packets took, in words, if all else may be.
    pub fn faults_of_times(&self) -> Vec<String> {
        self.displaced.iter().filter_map(|(name, displaced)| displaced.fault_of_waiting(name)).collect()
    }

    /// What the time line says at the end `at` of a run: what lateness did to waiting, and what nobody counts.
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
                "{} frames were no IP packets of the experiment's addresses, and went nowhere",
                self.foreign
            ))
        });
        let lost = self.passages.notes(ends).into_iter().map(note);
        waiting.chain(foreign).chain(lost).collect()
    }

    /// Why what passed the links must not be trusted, in words.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.ring.dropped > 0 {
            faults.push(format!(
                "the router had no room for {} of {} frames",
                self.ring.dropped, self.ring.offered
            ));
        }
        if self.refused > 0 {
            faults.push(format!("nodes did not take {} frames that the router sent them", self.refused));
        }
        let late = self.lateness.quantile(0.99);
        if late > TOO_LATE {
            let class = self.no_priority.as_ref();
            let class =
                class.map_or(String::new(), |why| format!(" (the kernel gave it no real-time class: {why})"));
            faults.push(format!(
                "the router sent 1 in 100 frames more than {late} late; {TOO_LATE} is the most{class}"
            ));
        }
        let overtaken = self.overtaken.quantile(0.99);
        if overtaken > TOO_FAR_OVERTAKEN {
            faults.push(format!(
                "the router read 1 in 100 frames more than {overtaken} after their turn on a link; {TOO_FAR_OVERTAKEN} \
                 is the most"
            ));
        }
        if !self.stepped.is_zero() {
            let step = self.stepped.as_secs_f64();
            faults.push(format!("the wall clock, by which frames are stamped, was stepped by {step} s"));
        }
        faults
    }
}

/// A run is worth nothing if 1 in 100 frames leaves the router later than this.
const TOO_LATE: Duration = Duration::from_millis(1);

/// Or if the waiting time of 1 in 100 frames lacks more than this, since its link had been asked for later already.
const TOO_FAR_OVERTAKEN: Duration = Duration::from_micros(200);
