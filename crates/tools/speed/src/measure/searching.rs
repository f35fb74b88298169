//! A capacity search in a phase of datagrams whose rate the client controls.

use netrig_core::{Duration, Rate};

use super::call::PhaseEvent;
use crate::carry::LiveReading;
use crate::protocol::{Carrier, DataDirection, DatagramLoad, MeasurementPhase, PhaseError};
use crate::search::{FoundCapacity, LineSearch, SearchOrder, SearchStage};

/// Interval between readings of the receiver, and its maximum on a slow line.
const EVERY: Duration = Duration::from_millis(50);
const SELDOM: Duration = Duration::from_secs(1);

/// Share of the line that the acknowledgements of readings may use. A reading arrives on the control connection, and
/// its acknowledgement, an IP packet of `ANSWER_BITS`, goes in the direction of the datagrams.
const ANSWERS: f64 = 0.0025;
const ANSWER_BITS: f64 = 8.0 * 72.0;

/// The first rate if the rate of the line is not known, datagrams per second.
const FIRST: f64 = 50.0;

/// The first rate as a share of a known rate.
const SHARE: f64 = 0.5;

/// Minimum rate of datagrams that must fill the line, per second. On a slow line, datagrams are made shorter to reach
/// it, but not shorter than [`SHORTEST`], so that a few seconds have enough datagrams. Otherwise datagrams are as long
/// as possible, so that the overhead per packet and the padding of cells are the same as for connections.
const PER_S: f64 = 100.0;

/// Minimum payload, bytes.
const SHORTEST: u32 = 64;

/// Maximum payload, bytes, even if the path carries longer datagrams.
const LONGEST: u32 = 8972;

/// The order of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchTask {
    /// The direction: up or down.
    pub way: DataDirection,
    /// Payload of each datagram, bytes. `None` stands for the longest that the path carries, or less on a slow line.
    pub size: Option<u16>,
    /// Maximum sending rate, payload bits per second.
    pub most: Rate,
    /// Minimum time for which received datagrams are counted on the saturated line.
    pub counts: Duration,
    /// Time for which the loss below the capacity is measured.
    pub beneath: Duration,
    /// The time limit of the search.
    pub lasts: Duration,
}

/// A running search.
pub(super) struct Searching {
    task: SearchTask,
    size: u16,
    every: Duration,
    search: LineSearch,
    /// The rate that was last sent to the sender, payload bits per second.
    told: Option<Rate>,
}

impl SearchTask {
    /// Checks the order as a server does.
    ///
    /// # Errors
    /// The first invalid value of the order.
    pub fn check(&self) -> Result<(), PhaseError> {
        self.phase(self.size.unwrap_or(SHORTEST as u16), EVERY).check()
    }

    fn phase(&self, size: u16, every: Duration) -> MeasurementPhase {
        let carrier = Carrier::Udp { way: self.way, size, load: DatagramLoad::Told };
        MeasurementPhase::new(carrier, self.lasts, every)
    }

    /// The payload of the datagrams for this path MTU. `known` is a rate that the path has carried, payload bits per
    /// second, if known.
    pub(super) fn payload(&self, path_mtu: Option<u32>, v4: bool, known: Option<f64>) -> u16 {
        let headers = if v4 { 28 } else { 48 };
        let fits = path_mtu.map_or(1200, |mtu| mtu.saturating_sub(headers).clamp(SHORTEST, LONGEST));
        let often = known.map_or(fits, |known| ((known / 8.0 / PER_S) as u32).max(SHORTEST));
        self.size.unwrap_or_else(|| fits.min(often) as u16)
    }
}

impl Searching {
    /// A search with datagrams of `size` bytes. `known` is a rate that the line has carried, payload bits per second.
    pub fn new(task: SearchTask, size: u16, known: Option<f64>, round_trip: Duration) -> Self {
        let bits = 8.0 * f64::from(size);
        let order = SearchOrder {
            first: known.map_or(FIRST, |known| (SHARE * known / bits).max(FIRST)),
            most: task.most.bits_per_s() as f64 / bits,
            counts: task.counts,
            beneath: task.beneath,
            known: known.map(|known| known / bits),
            round_trip,
        };
        let search = LineSearch::new(order);
        Self { task, size, every: known.map_or(EVERY, apart), search, told: None }
    }

    /// The phase of the search.
    pub fn phase(&self) -> MeasurementPhase {
        self.task.phase(self.size, self.every)
    }

    /// Passes the counts of the receiver to the search, and sets the rate of the sender.
    pub fn watch(&mut self, news: &mut PhaseEvent<'_>) {
        match (news, self.task.way) {
            (PhaseEvent::Near(LiveReading::Datagrams(heard)), DataDirection::Down)
            | (PhaseEvent::Far(LiveReading::Datagrams(heard)), DataDirection::Up) => {
                self.search.heard((&*heard).into());
            }
            (PhaseEvent::Tick(steering), _) => {
                let bits_per_s = self.search.rate() * 8.0 * f64::from(self.size);
                let rate = Rate::from_bits_per_s(bits_per_s.round() as u64);
                steering.rate = (self.told != Some(rate)).then_some(rate);
                self.told = Some(rate);
                steering.enough = self.search.stage() == SearchStage::Over;
            }
            _ => {}
        }
    }

    /// The result, and whether the search finished.
    pub fn end(self) -> (FoundCapacity, bool) {
        (*self.search.found(), self.search.stage() == SearchStage::Over)
    }
}

/// Interval between readings on a line with a known rate, bit/s.
fn apart(known: f64) -> Duration {
    let answered = ANSWER_BITS / (ANSWERS * known.max(1.0));
    Duration::from_secs_f64(answered.clamp(EVERY.as_secs_f64(), SELDOM.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: SearchTask = SearchTask {
        way: DataDirection::Up,
        size: None,
        most: Rate::from_bits_per_s(1_000_000_000),
        counts: Duration::from_secs(1),
        beneath: Duration::from_secs(1),
        lasts: Duration::from_secs(10),
    };

    #[test]
    fn datagrams_are_as_long_as_the_path_carries() {
        let payload = |mtu, v4| TASK.payload(mtu, v4, None);
        assert_eq!([payload(Some(1500), true), payload(Some(1500), false)], [1472, 1452]);
        assert_eq!([payload(Some(65_536), true), payload(None, true)], [8972, 1200]);
        assert_eq!(SearchTask { size: Some(100), ..TASK }.payload(Some(1500), true, Some(1e5)), 100);
    }

    #[test]
    fn datagrams_of_a_slow_line_are_short() {
        let known = [1e3, 120_000.0, 1e6, 1e9].map(|known| TASK.payload(Some(1500), true, Some(known)));
        assert_eq!(known, [64, 150, 1250, 1472]);
    }

    #[test]
    fn a_slow_line_is_read_seldom() {
        let ms = [125e3, 1e6, 1e7].map(|known| (apart(known).as_secs_f64() * 1e3).round());
        assert_eq!(ms, [1000.0, 230.0, 50.0]);
    }
}
