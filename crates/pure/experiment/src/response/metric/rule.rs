//! Metrics of a rule of a traffic conditioner: the results of its meter.

use netrig_core::quantity::{RULE_GREEN_PACKETS, RULE_RED_PACKETS, RULE_YELLOW_PACKETS};
use netrig_core::{Colour, Quantity, quantity};

use super::metrics;

metrics! {
    of Rule;
    "packets_green" ["packets"].total(quantity::rule_packets(Colour::Green)):
        "Packets that the rule matched in the measuring window and that its meter coloured green: the \
         stream was in profile.";
    "packets_yellow" ["packets"].total(quantity::rule_packets(Colour::Yellow)):
        "Packets that the rule matched in the measuring window and that its meter coloured yellow: the \
         stream was above its committed rate, within the tolerated excess.";
    "packets_red" ["packets"].total(quantity::rule_packets(Colour::Red)):
        "Packets that the rule matched in the measuring window and that its meter coloured red: the \
         stream was out of profile.";
    "rate_green" ["bit/s"].bit_rate(quantity::rule_bytes(Colour::Green)):
        "Bits of the IP packets that the meter of the rule coloured green, per second of the measuring \
         window.";
    "rate_yellow" ["bit/s"].bit_rate(quantity::rule_bytes(Colour::Yellow)):
        "Bits of the IP packets that the meter of the rule coloured yellow, per second of the measuring \
         window.";
    "rate_red" ["bit/s"].bit_rate(quantity::rule_bytes(Colour::Red)):
        "Bits of the IP packets that the meter of the rule coloured red, per second of the measuring \
         window.";
    "share_green" ["1"].share_of(&[&RULE_GREEN_PACKETS], &OF_ALL_COLOURS, "the rule matched no packet"):
        "Packets that the meter of the rule coloured green, divided by the packets that the rule matched \
         in the measuring window.";
    "share_yellow" ["1"].share_of(&[&RULE_YELLOW_PACKETS], &OF_ALL_COLOURS, "the rule matched no packet"):
        "Packets that the meter of the rule coloured yellow, divided by the packets that the rule matched \
         in the measuring window.";
    "share_red" ["1"].share_of(&[&RULE_RED_PACKETS], &OF_ALL_COLOURS, "the rule matched no packet"):
        "Packets that the meter of the rule coloured red, divided by the packets that the rule matched in \
         the measuring window.";
}

/// The counts of packets of each colour.
static OF_ALL_COLOURS: [&Quantity; 3] = [&RULE_GREEN_PACKETS, &RULE_YELLOW_PACKETS, &RULE_RED_PACKETS];

#[cfg(test)]
mod tests {
    use netrig_core::quantity::{RULE_GREEN_BYTES, RULE_RED_BYTES, RULE_YELLOW_BYTES};
    use netrig_core::{Direction, DropReason, Subject};

    use super::*;
    use crate::reduce::bench::Bench;

    /// In 10 s, 60 packets of 100 B are green, 30 yellow and 10 red. 10 of them are dropped.
    #[test]
    fn colours() {
        let rule = Subject::Rule(0, Direction::Forward, 1);
        let mut bench = Bench::new(10);
        let measure = |bench: &mut Bench, metric: &str| {
            bench.measure(&format!("of = 'link.primary.rule.video'\nmetric = '{metric}'"))
        };
        assert_eq!(measure(&mut bench, "share_green").unwrap_err(), "the rule matched no packet");
        for (packets, bytes, count) in [
            (&RULE_GREEN_PACKETS, &RULE_GREEN_BYTES, 60.0),
            (&RULE_YELLOW_PACKETS, &RULE_YELLOW_BYTES, 30.0),
            (&RULE_RED_PACKETS, &RULE_RED_BYTES, 10.0),
        ] {
            bench.count(rule, packets, &[(1.0, count / 2.0), (2.0, count / 2.0)]);
            bench.count(rule, bytes, &[(1.0, 50.0 * count), (2.0, 50.0 * count)]);
        }
        bench.count(rule, quantity::link_dropped(DropReason::Policed), &[(2.0, 10.0)]);
        for (metric, value) in [
            ("packets_green", 60.0),
            ("packets_yellow", 30.0),
            ("packets_red", 10.0),
            ("rate_green", 4_800.0),
            ("rate_yellow", 2_400.0),
            ("rate_red", 800.0),
            ("share_green", 0.6),
            ("share_yellow", 0.3),
            ("share_red", 0.1),
            ("drops_policed", 10.0),
        ] {
            assert_eq!(measure(&mut bench, metric), Ok(value), "{metric}");
        }
        let other = bench.measure("of = 'link.primary.rule.1'\nmetric = 'packets_green'");
        assert_eq!(other, Ok(0.0), "the other rule has counters of its own");
    }
}
