//! The order in which sessions open UDP streams.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// The sessions that open UDP streams, and those that wait for their turn.
///
/// The datagram that opens a UDP stream does not name its test, but the server decides when the client sends it. Only
/// one test per address opens its streams at a time, so the datagrams from this address belong to that test. `T`
/// identifies a session.
#[derive(Debug)]
pub struct OpeningTurns<T> {
    /// The first session of each queue has the turn.
    queues: BTreeMap<IpAddr, VecDeque<T>>,
}

impl<T> Default for OpeningTurns<T> {
    fn default() -> Self {
        Self { queues: BTreeMap::new() }
    }
}

impl<T: Copy + PartialEq> OpeningTurns<T> {
    /// Requests the turn. Returns whether the session has it; if not, it waits.
    pub fn ask(&mut self, address: IpAddr, session: T) -> bool {
        let queue = self.queues.entry(address.to_canonical()).or_default();
        if !queue.contains(&session) {
            queue.push_back(session);
        }
        queue.front() == Some(&session)
    }

    /// The session of this address that has the turn.
    pub fn of(&self, address: IpAddr) -> Option<T> {
        self.queues.get(&address.to_canonical())?.front().copied()
    }

    /// Ends the turn, or the wait, of a session. Returns the session that gets the turn, if any.
    pub fn done(&mut self, address: IpAddr, session: T) -> Option<T> {
        let address = address.to_canonical();
        let queue = self.queues.get_mut(&address)?;
        let before = queue.front().copied();
        queue.retain(|waiting| *waiting != session);
        let now = queue.front().copied();
        if now.is_none() {
            self.queues.remove(&address);
        }
        now.filter(|_| now != before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_an_address_at_a_time() {
        let mut turns = OpeningTurns::default();
        let (here, there): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        assert!(turns.ask(here, 1) && turns.ask(here, 1));
        assert!(!turns.ask(here, 2) && !turns.ask(here, 3));
        assert!(turns.ask(there, 4));
        assert_eq!((turns.of(here), turns.of(there)), (Some(1), Some(4)));
        assert_eq!(turns.done(here, 2), None, "who waits may go");
        assert_eq!(turns.done(here, 1), Some(3));
        assert_eq!(turns.of("::ffff:192.0.2.1".parse().unwrap()), Some(3), "one host");
        assert_eq!(turns.done(here, 3), None);
        assert_eq!(turns.done(there, 4), None);
        assert_eq!(turns.of(here), None);
        assert!(turns.queues.is_empty());
    }
}
