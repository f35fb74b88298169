//! The arrivals of a flow's datagrams.

use std::collections::{BTreeMap, VecDeque};

use netrig_core::{Duration, Instant};

/// Largest number of datagrams in `recent`, which are found by index. Older datagrams that have not arrived are few. A
/// map contains them.
const RECENT: usize = 1024;

/// Which of a flow's datagrams have arrived. A duplicate is not counted again.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    /// The number of the first datagram in `recent`.
    first: u64,
    /// The sending time of each datagram; `None` if it has arrived.
    recent: VecDeque<Option<Instant>>,
    /// Datagrams before `first` that have not arrived, with their sending times.
    missing: BTreeMap<u64, Instant>,
    longest_delay: Duration,
}

impl Datagrams {
    /// Records the sending of the next datagram.
    pub fn sent(&mut self, now: Instant) {
        self.recent.push_back(Some(now));
        if self.recent.len() > RECENT {
            if let Some(Some(sent)) = self.recent.pop_front() {
                self.missing.insert(self.first, sent);
            }
            self.first += 1;
        }
    }

    /// Records the arrival of datagram `number`, counted from 0. Returns false if it is a duplicate.
    pub fn arrived(&mut self, now: Instant, number: u64) -> bool {
        let sent = match number.checked_sub(self.first) {
            Some(place) => self.recent.get_mut(place as usize).and_then(Option::take),
            None => self.missing.remove(&number),
        };
        if let Some(sent) = sent {
            self.longest_delay = self.longest_delay.max(now.since(sent));
        }
        sent.is_some()
    }

    /// Number of datagrams that may still be in flight at `now`: they have not arrived, and their age does not exceed
    /// the longest one-way delay measured until now.
    pub fn on_their_way(&self, now: Instant) -> u64 {
        let may_be = |sent: &Instant| now.since(*sent) <= self.longest_delay;
        let recent = self.recent.iter().flatten().filter(|sent| may_be(sent)).count();
        (recent + self.missing.values().filter(|sent| may_be(sent)).count()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_datagram_arrives_once_however_late() {
        let mut datagrams = Datagrams::default();
        (0..5000).for_each(|n| datagrams.sent(at(n)));
        assert!(datagrams.arrived(at(6000), 4999) && datagrams.arrived(at(6000), 3));
        assert!(!datagrams.arrived(at(6001), 4999) && !datagrams.arrived(at(6001), 3));
        assert!(!datagrams.arrived(at(6001), 5000), "was never sent");
    }

    /// One datagram is sent each millisecond, with a delay of 20 ms, and every tenth is lost. At 100 ms the datagrams sent after
    /// 80 ms have not arrived. The datagram of 80 ms was lost, but may still be on its way.
    #[test]
    fn what_may_still_arrive_is_not_lost() {
        let mut datagrams = Datagrams::default();
        for n in 0..100 {
            datagrams.sent(at(n));
            if n >= 20 && (n - 20) % 10 != 0 {
                assert!(datagrams.arrived(at(n), n - 20));
            }
        }
        assert_eq!(datagrams.on_their_way(at(100)), 20);
    }

    #[test]
    fn where_nothing_arrives_nothing_is_on_its_way() {
        let mut datagrams = Datagrams::default();
        (0..100).for_each(|n| datagrams.sent(at(n)));
        assert_eq!(datagrams.on_their_way(at(100)), 0);
    }
}
