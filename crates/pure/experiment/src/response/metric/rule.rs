//! Metrics of a rule of a traffic conditioner: the results of its meter.

use netrig_core::quantity::{RULE_GREEN_PACKETS, RULE_RED_PACKETS, RULE_YELLOW_PACKETS};
use netrig_core::{Colour, Quantity, quantity};

use super::super::SubjectKind::Rule;
use super::{About, Metric, Over, Rate, Share, Total};

pub(super) const ALL: &[&dyn Metric] = &[
    &PACKETS_GREEN,
    &PACKETS_YELLOW,
    &PACKETS_RED,
    &RATE_GREEN,
    &RATE_YELLOW,
    &RATE_RED,
    &SHARE_GREEN,
    &SHARE_YELLOW,
    &SHARE_RED,
];

/// Packets of one colour.
const fn packets(colour: Colour, name: &'static str, definition: &'static str) -> Total {
    Total { about: About::new(name, "packets", Rule, definition), quantity: quantity::rule_packets(colour) }
}

static PACKETS_GREEN: Total = packets(
    Colour::Green,
    "packets_green",
    "Packets for which the rule held in the measuring window and whose stream its meter found in profile.",
);

static PACKETS_YELLOW: Total = packets(
    Colour::Yellow,
    "packets_yellow",
    "Packets for which the rule held in the measuring window and whose stream its meter found beyond its profile by no \
     more than is put up with.",
);

static PACKETS_RED: Total = packets(
    Colour::Red,
    "packets_red",
    "Packets for which the rule held in the measuring window and whose stream its meter found beyond all that was agreed.",
);

/// Bits per second of one colour.
const fn rate(colour: Colour, name: &'static str, definition: &'static str) -> Rate {
    let quantity = quantity::rule_bytes(colour);
    Rate { about: About::new(name, "bit/s", Rule, definition), quantity, times: 8.0, over: Over::Window }
}

static RATE_GREEN: Rate = rate(
    Colour::Green,
    "rate_green",
    "Bits of the IP packets that the meter of the rule found green, per second of the measuring window.",
);

static RATE_YELLOW: Rate = rate(
    Colour::Yellow,
    "rate_yellow",
    "Bits of the IP packets that the meter of the rule found yellow, per second of the measuring window.",
);

static RATE_RED: Rate = rate(
    Colour::Red,
    "rate_red",
    "Bits of the IP packets that the meter of the rule found red, per second of the measuring window.",
);

static OF_ALL_COLOURS: [&Quantity; 3] = [&RULE_GREEN_PACKETS, &RULE_YELLOW_PACKETS, &RULE_RED_PACKETS];

/// Packets of one colour as a share of all.
const fn share(part: &'static [&'static Quantity], name: &'static str, definition: &'static str) -> Share {
    Share {
        about: About::new(name, "1", Rule, definition).share().pooled(),
        part,
        whole: &OF_ALL_COLOURS,
        nothing: "the rule held for no packet",
    }
}

static SHARE_GREEN: Share = share(
    &[&RULE_GREEN_PACKETS],
    "share_green",
    "Packets that the meter of the rule found green, divided by the packets for which it held in the measuring window.",
);

static SHARE_YELLOW: Share = share(
    &[&RULE_YELLOW_PACKETS],
    "share_yellow",
    "Packets that the meter of the rule found yellow, divided by the packets for which it held in the measuring window.",
);

static SHARE_RED: Share = share(
    &[&RULE_RED_PACKETS],
    "share_red",
    "Packets that the meter of the rule found red, divided by the packets for which it held in the measuring window.",
);

#[cfg(test)]
mod tests {
    use netrig_core::quantity::{RULE_GREEN_BYTES, RULE_RED_BYTES, RULE_YELLOW_BYTES};
    use netrig_core::{Direction, DropReason, Subject};

    use super::*;
    use crate::reduce::bench::Bench;

    /// 60 green, 30 yellow and 10 red packets of 100 B in 10 s; 10 of them were dropped.
    #[test]
    fn colours() {
        let rule = Subject::Rule(0, Direction::Forward, 1);
        let mut bench = Bench::new(10);
        let measure = |bench: &mut Bench, metric: &str| {
            bench.measure(&format!("of = 'link.primary.rule.video'\nmetric = '{metric}'"))
        };
        assert_eq!(measure(&mut bench, "share_green").unwrap_err(), "the rule held for no packet");
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
