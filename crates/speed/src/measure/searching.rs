//! A search for what the line carries, on a phase of datagrams whose rate the client tells.

use netrig_agent::monotonic_nanos;
use netrig_core::{Duration, Instant, Rate};

use super::call::{News, PhaseOrder};
use crate::carry::Live;
use crate::protocol::{Carrier, Load, Way};
use crate::search::{Found, Search, SearchOrder, Stage};

/// Time between two readings of the receiver.
const EVERY: Duration = Duration::from_millis(50);

/// What it begins with where nothing is known of the line, datagrams per second.
const FIRST: f64 = 50.0;

/// Where something is known it begins with this share of it.
const SHARE: f64 = 0.5;

/// Payload of datagrams where the path would carry longer ones, bytes: more of them would only hide what one costs.
const LONGEST: u32 = 8972;

/// What is to be searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchTask {
    /// Which way: up or down.
    pub way: Way,
    /// Payload of each datagram, bytes; as long as the path carries if not given.
    pub size: Option<u16>,
    /// The most that may be sent, payload bits per second.
    pub most: Rate,
    /// For how long what arrives is counted, at least.
    pub counts: Duration,
    /// For how long it is seen what is lost a little below.
    pub beneath: Duration,
    /// For how long it may go on in all.
    pub lasts: Duration,
}

/// A search that goes on.
pub(super) struct Searching {
    task: SearchTask,
    size: u16,
    search: Search,
    /// What was told to the sender last, payload bits per second.
    told: Option<Rate>,
    begun: u64,
}

impl SearchTask {
    /// The payload of its datagrams on a path that carries IP packets of so many bytes.
    pub(super) fn payload(&self, path_mtu: Option<u32>, v4: bool) -> u16 {
        let headers = if v4 { 28 } else { 48 };
        let fits = || path_mtu.map_or(1200, |mtu| mtu.saturating_sub(headers).clamp(64, LONGEST)) as u16;
        self.size.unwrap_or_else(fits)
    }
}

impl Searching {
    /// Begins now, with datagrams of `size` bytes; `known` is what the line has carried at least, payload bits per second.
    pub fn new(task: SearchTask, size: u16, known: Option<f64>, round_trip: Duration) -> Self {
        let bits = 8.0 * f64::from(size);
        let order = SearchOrder {
            first: known.map_or(FIRST, |known| (SHARE * known / bits).max(FIRST)),
            most: task.most.bits_per_s() as f64 / bits,
            counts: task.counts,
            beneath: task.beneath,
            round_trip,
        };
        let search = Search::new(Instant::ZERO, order);
        Self { task, size, search, told: None, begun: monotonic_nanos() }
    }

    /// The phase that carries it.
    pub fn phase(&self) -> PhaseOrder {
        let carrier = Carrier::Udp { way: self.task.way, size: self.size, load: Load::Told };
        PhaseOrder { carrier, lasts: self.task.lasts, every: EVERY }
    }

    /// Hears what the receiver has counted, and steers the sender.
    pub fn watch(&mut self, news: &mut News<'_>) {
        let now = Instant::from_nanos(monotonic_nanos() - self.begun);
        match (news, self.task.way) {
            (News::Near(Live::Datagrams(heard)), Way::Down)
            | (News::Far(Live::Datagrams(heard)), Way::Up) => {
                self.search.heard(now, (&*heard).into());
            }
            (News::Tick(steering), _) => {
                let bits_per_s = self.search.rate() * 8.0 * f64::from(self.size);
                let rate = Rate::from_bits_per_s(bits_per_s.round() as u64);
                steering.rate = (self.told != Some(rate)).then_some(rate);
                self.told = Some(rate);
                steering.enough = self.search.stage() == Stage::Over;
            }
            _ => {}
        }
    }

    /// What was found, and whether the search came to its end.
    pub fn end(self) -> (Found, bool) {
        (*self.search.found(), self.search.stage() == Stage::Over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_as_long_as_the_path_carries() {
        let task = SearchTask {
            way: Way::Up,
            size: None,
            most: Rate::from_bits_per_s(1_000_000_000),
            counts: Duration::from_secs(1),
            beneath: Duration::from_secs(1),
            lasts: Duration::from_secs(10),
        };
        assert_eq!([task.payload(Some(1500), true), task.payload(Some(1500), false)], [1472, 1452]);
        assert_eq!([task.payload(Some(65_536), true), task.payload(None, true)], [8972, 1200]);
        assert_eq!(SearchTask { size: Some(100), ..task }.payload(Some(1500), true), 100);
    }
}
