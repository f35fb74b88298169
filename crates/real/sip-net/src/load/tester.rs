//! The tester's record of itself.

use netrig_core::Duration;
use netrig_sip::index::Histogram;
use rustix::time::{ClockId, clock_gettime};

use crate::dns::DnsCounts;
use netrig_host::InterruptionCounts;
use netrig_host::Precedence;

/// Of what begins in a second, 99 % must be late by less: a load is offered as it was asked for, not when the tester has
/// time. It is a fiftieth of T1.
const LATE: Duration = Duration::from_millis(10);

/// So many of a second may be late whatever share they are: of few, one that is late for want of a wake-up is no other load.
const FEW_LATE: u64 = 2;

/// A second of which the hypervisor took more than this share must not be trusted.
const STOLEN: f64 = 0.1;

/// How a thread, or all of them, did in a second, or in all.
#[derive(Clone, Debug, Default)]
pub struct TesterSecond {
    /// How late began what was to begin.
    pub lateness: Histogram,
    /// From the arrival of a message until it was handled: the tester's own time, which is in no delay.
    pub own_time: Histogram,
    /// Messages received.
    pub received: u64,
    /// Of them, those of another test or of nobody.
    pub foreign: u64,
    /// Of them, those of this test that belong to nothing, or to nothing any more.
    pub strays: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages that could not be sent.
    pub unsent: u64,
    /// How often the kernel had no room for what was to be sent.
    pub without_room: u64,
    /// Datagrams that the socket had no room for.
    pub dropped: u64,
    /// Connections opened.
    pub opened: u64,
    /// Connections that could not be opened for want of a port, a descriptor or memory.
    pub unopened: u64,
    /// Connections that are gone because a message was longer than the tester reads.
    pub too_long: u64,
    /// What was to begin and could not, because there were as many calls as there may be.
    pub full: u64,
    /// What was to begin and could not, because its user was not done.
    pub busy: u64,
    /// Calls that were refused for want of room at the one who is called.
    pub refused: u64,
    /// What was asked of the DNS.
    pub dns: DnsCounts,
    /// The threads' time on a core, s.
    pub cpu: f64,
    /// How often another was let run in a thread's place.
    pub switches: u64,
    /// Share of all cores' time that the hypervisor gave to others, 0 to 1: the highest of all seconds and threads.
    pub steal: f64,
}

impl TesterSecond {
    /// Adds what another thread, or another second, has counted.
    pub fn merge(&mut self, other: &Self) {
        self.lateness.merge(&other.lateness);
        self.own_time.merge(&other.own_time);
        self.received += other.received;
        self.foreign += other.foreign;
        self.strays += other.strays;
        self.sent += other.sent;
        self.unsent += other.unsent;
        self.without_room += other.without_room;
        self.dropped += other.dropped;
        self.opened += other.opened;
        self.unopened += other.unopened;
        self.too_long += other.too_long;
        self.full += other.full;
        self.busy += other.busy;
        self.refused += other.refused;
        self.dns.merge(&other.dns);
        self.cpu += other.cpu;
        self.switches += other.switches;
        self.steal = self.steal.max(other.steal);
    }

    /// What it says of too many that began late, if too many did.
    pub fn lateness_fault(&self) -> Option<String> {
        let (late, begun) = (self.late(), self.lateness.count());
        let most_ms = LATE.as_secs_f64() * 1e3;
        (late > FEW_LATE && late * 100 > begun).then(|| {
            format!("{late} of {begun} began more than {most_ms:.0} ms late; 1 % may, or {FEW_LATE}")
        })
    }

    /// How many began late.
    pub fn late(&self) -> u64 {
        self.lateness.above(LATE)
    }

    /// Why this second must not be put down to the server, in sentences.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut say = |holds: bool, words: String| {
            if holds {
                faults.push(words);
            }
        };
        let late = self.lateness_fault();
        say(late.is_some(), late.unwrap_or_default());
        say(self.dropped > 0, format!("the tester's sockets had no room for {} datagrams", self.dropped));
        let pressed = self.without_room;
        say(pressed > 0, format!("the kernel had {pressed} times no room for what the tester sent"));
        say(self.unsent > 0, format!("{} messages could not be sent", self.unsent));
        say(
            self.unopened > 0,
            format!("the tester had no port or descriptor for {} connections", self.unopened),
        );
        say(self.too_long > 0, format!("{} messages were longer than the tester reads", self.too_long));
        say(
            self.full > 0,
            format!("{} could not begin: there were as many calls as there may be", self.full),
        );
        say(
            self.busy > 0,
            format!("{} could not begin: their users were not done, and more users are needed", self.busy),
        );
        say(self.refused > 0, format!("{} calls were refused by the tester for want of room", self.refused));
        let steal = self.steal * 100.0;
        say(self.steal > STOLEN, format!("the hypervisor took {steal:.0} % of the processor time"));
        faults
    }
}

/// What a thread has used of the machine so far.
#[derive(Clone, Copy, Debug)]
pub struct TesterUse {
    cpu: f64,
    counts: InterruptionCounts,
}

impl TesterUse {
    /// By the thread that asks.
    pub fn read() -> Self {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Self { cpu: time.tv_sec as f64 + time.tv_nsec as f64 / 1e9, counts: InterruptionCounts::read() }
    }

    /// Tells a second what was used in it, and begins the next.
    pub fn tell(&mut self, second: &mut TesterSecond) {
        let now = Self::read();
        let between = now.counts.since(&self.counts, Precedence::None, false);
        second.cpu += now.cpu - self.cpu;
        second.switches += between.switches;
        second.steal = second.steal.max(between.steal);
        *self = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_invalid_by_what_the_tester_did() {
        let mut second = TesterSecond::default();
        (0..200).for_each(|_| second.lateness.record(Duration::from_micros(50)));
        second.lateness.record(Duration::from_secs(1));
        assert_eq!(second.faults(), Vec::<String>::new(), "one in two hundred may be late");
        (0..2).for_each(|_| second.lateness.record(Duration::from_millis(20)));
        assert_eq!(second.faults(), ["3 of 203 began more than 10 ms late; 1 % may, or 2"]);
        let mut few = TesterSecond::default();
        (0..22).for_each(|_| few.lateness.record(Duration::from_micros(50)));
        (0..2).for_each(|_| few.lateness.record(Duration::from_secs(1)));
        assert_eq!(few.faults(), Vec::<String>::new(), "two of few are no other load");
        few.lateness.record(Duration::from_millis(20));
        assert_eq!(few.faults().len(), 1);
        (0..275).for_each(|_| few.lateness.record(Duration::from_micros(50)));
        assert_eq!(few.faults(), Vec::<String>::new(), "three of 300 are 1 %");
        let faults = |other: TesterSecond| other.faults().len();
        assert_eq!(faults(TesterSecond { dropped: 1, ..TesterSecond::default() }), 1);
        assert_eq!(faults(TesterSecond { without_room: 1, unsent: 1, ..TesterSecond::default() }), 2);
        assert_eq!(faults(TesterSecond { full: 1, busy: 1, refused: 1, ..TesterSecond::default() }), 3);
        assert_eq!(faults(TesterSecond { unopened: 1, ..TesterSecond::default() }), 1);
        assert_eq!(faults(TesterSecond { steal: 0.2, ..TesterSecond::default() }), 1);
    }
}
