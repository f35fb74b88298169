//! The names of links in reports, and the notes about them on a run's time line.

use netrig_core::{Direction, InFlight, Instant, LinkEvent, Rate, Waiting};

/// One direction of a link, for names and reports.
#[derive(Clone, Copy, Debug)]
pub struct WireId<'a> {
    /// Index of the link in the scenario.
    pub link: u32,
    /// The link's name.
    pub name: &'a str,
    /// The direction.
    pub direction: Direction,
}

/// One direction of a link: `primary (forward)`.
pub fn direction_of(link: &str, direction: Direction) -> String {
    format!("{link} ({direction})")
}

/// A note that `place` has dropped packets since the time `since`.
pub fn drops(place: &str, packets: u64, why: &str, since: Instant) -> String {
    let plural = if packets == 1 { "" } else { "s" };
    format!("{place} dropped {packets} packet{plural} since {since}: {why}")
}

/// A note about an event of one direction of a link.
pub fn link_event(link: &str, direction: Direction, event: &LinkEvent) -> String {
    let name = direction_of(link, direction);
    match event {
        LinkEvent::Down { queue, in_flight } => {
            let queue = if *queue == Waiting::Keep { "kept" } else { "dropped" };
            let in_flight = if *in_flight == InFlight::Deliver { "delivered" } else { "lost" };
            format!("{name} down: queue {queue}, packets in flight {in_flight}")
        }
        LinkEvent::Up => format!("{name} up"),
        LinkEvent::Rate { bits_per_s } => {
            format!("{name}: rate {}", Rate::from_bits_per_s(*bits_per_s))
        }
        LinkEvent::Delay(delay) => format!("{name}: delay {delay}"),
        LinkEvent::Loss { probability } => format!("{name}: loss {} %", probability * 100.0),
    }
}
