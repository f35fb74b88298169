//! Measurements of the tester itself.

use netrig_core::{Duration, Histogram, counts};
use rustix::time::{ClockId, clock_gettime};

use crate::dns::DnsCounts;
use netrig_host::InterruptionCounts;
use netrig_host::Precedence;

/// Limit of the lateness of 99 % of the starts in a second: a fiftieth of T1. If more starts are later, the offered
/// load is not the requested one.
const LATE: Duration = Duration::from_millis(10);

/// Number of late starts per second that are always allowed: at a low rate, one late wake-up does not change the load.
const FEW_LATE: u64 = 2;

/// Limit of the share of stolen processor time in a valid second.
const STOLEN: f64 = 0.1;

counts! {
    /// Measurements of one thread or of all threads, over a second or over the whole load.
    #[derive(Clone, Debug, Default)]
    pub struct TesterSecond {
        /// Lateness of starts.
        pub lateness: Histogram,
        /// Time from the arrival of a message until it was handled. This time of the tester is not part of any measured
        /// delay.
        pub own_time: Histogram,
        /// Messages received.
        pub received: u64,
        /// Received messages of another test, or of no known test.
        pub foreign: u64,
        /// Received messages of this test that match no pending attempt.
        pub strays: u64,
        /// Messages sent.
        pub sent: u64,
        /// Messages that could not be sent.
        pub unsent: u64,
        /// How often the kernel had no room to send.
        pub without_room: u64,
        /// Datagrams dropped because the receive buffer was full.
        pub dropped: u64,
        /// Connections opened.
        pub opened: u64,
        /// Connections that could not be opened because there was no free port, descriptor or memory.
        pub unopened: u64,
        /// Connections that ended because a message was longer than the tester reads.
        pub too_long: u64,
        /// Starts that were impossible because the limit of calls was reached.
        pub full: u64,
        /// Starts that were impossible because the user was still busy.
        pub busy: u64,
        /// Calls that the callee refused because it had no room.
        pub refused: u64,
        /// Counts of DNS queries.
        pub dns: DnsCounts,
        /// Processor time of the threads, s.
        pub cpu: f64,
        /// How often the kernel preempted a thread.
        pub switches: u64,
        /// Share of stolen processor time, 0 to 1: the highest of all seconds and threads.
        pub steal: f64 as max,
        /// The largest step of the wall clock, from which the kernel takes the time stamps of received messages.
        pub stepped: Duration as max,
    }
}

impl TesterSecond {
    /// The fault, as text, if too many starts were late.
    pub fn lateness_fault(&self) -> Option<String> {
        let (late, begun) = (self.late(), self.lateness.count());
        let most_ms = LATE.as_secs_f64() * 1e3;
        (late > FEW_LATE && late * 100 > begun).then(|| {
            format!("{late} of {begun} began more than {most_ms:.0} ms late; 1 % may, or {FEW_LATE}")
        })
    }

    /// Number of late starts.
    pub fn late(&self) -> u64 {
        self.lateness.above(LATE)
    }

    /// Reasons why the results of this second may not be attributed to the server, as sentences.
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
        let stepped = !self.stepped.is_zero();
        say(
            stepped,
            format!("the wall clock stepped by {}, and with it the times of messages", self.stepped),
        );
        say(self.steal > STOLEN, format!("the hypervisor took {steal:.0} % of the processor time"));
        faults
    }
}

/// Resources that a thread has used so far.
#[derive(Clone, Copy, Debug)]
pub struct TesterUse {
    cpu: f64,
    counts: InterruptionCounts,
}

impl TesterUse {
    /// Resources of the calling thread.
    pub fn read() -> Self {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Self { cpu: time.tv_sec as f64 + time.tv_nsec as f64 / 1e9, counts: InterruptionCounts::read() }
    }

    /// Adds the resources used since the last call to the measurements of a second.
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
        let stepped = TesterSecond { stepped: Duration::from_millis(5), ..TesterSecond::default() };
        assert_eq!(stepped.faults(), ["the wall clock stepped by 5 ms, and with it the times of messages"]);
        let mut all = TesterSecond::default();
        all += &stepped;
        assert_eq!(faults(all), 1);
    }
}
