//! The reports about the rules of a traffic conditioner.

use crate::conditioning::Conditioned;
use netrig_core::{Colour, Direction, DropReason, Instant, Quantity, Sample, Sink, Subject, quantity};

/// Reports the increase of a rule's counters since the last tick.
pub struct RuleMeter {
    subject: Subject,
    before: [u64; QUANTITIES],
}

/// Packets and bytes of each colour, and dropped packets.
const QUANTITIES: usize = 2 * Colour::ALL.len() + 1;

impl RuleMeter {
    /// A meter of the rule with index `place`, for one direction of the link with this number. `None` if `sink`
    /// requests none of the rule's quantities.
    pub fn new(number: u32, direction: Direction, place: u16, sink: &dyn Sink) -> Option<Self> {
        let counts = counts(&Conditioned::default());
        let wanted = counts.iter().any(|(quantity, _)| sink.wants(quantity));
        wanted.then_some(Self { subject: Subject::Rule(number, direction, place), before: [0; QUANTITIES] })
    }

    /// Reports the interval that ends at `now`.
    pub fn tick(&mut self, now: Instant, account: &Conditioned, sink: &mut dyn Sink) {
        for ((quantity, count), before) in counts(account).into_iter().zip(&mut self.before) {
            let value = (count - *before) as f64;
            sink.sample(self.subject, Sample { at: now, quantity, value });
            *before = count;
        }
    }
}

/// The counts of a rule since the start.
fn counts(account: &Conditioned) -> [(&'static Quantity, u64); QUANTITIES] {
    let [green, yellow, red] = Colour::ALL.map(|colour| {
        let found = account.found(colour);
        [(quantity::rule_packets(colour), found.packets), (quantity::rule_bytes(colour), found.bytes)]
    });
    let dropped = (quantity::link_dropped(DropReason::Policed), account.dropped.packets);
    [green[0], green[1], yellow[0], yellow[1], red[0], red[1], dropped]
}
