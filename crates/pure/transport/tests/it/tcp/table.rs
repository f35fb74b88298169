//! Loss repair by each combination of algorithms, as a readable table.

use std::fmt::Write;

use netrig_core::Data;
use netrig_transport::Connection as _;
use netrig_transport::tcp::{Config, Congestion, HyStart, Recovery};

use super::pair::{Fate, Pair, Side, at_ms, plain};

/// 300 segments of 1000 bytes over 10 Mbit/s (0.832 ms per segment) with a one-way delay of 50 ms. Without loss, the
/// windows in the first four round trips are 10, 20, 40 and 80 segments; then the line is saturated. Each cell has the
/// arrival time of the last byte (ms), the number of retransmitted segments, and the number of time-outs. Segments are
/// lost at their first transmission, and in one row also at their second.
#[test]
fn losses_and_what_they_cost() {
    const LOSSES: [(&str, &[u64]); 8] = [
        ("none", &[]),
        ("first", &[1]),
        ("30", &[30]),
        ("30 31 32", &[30, 31, 32]),
        ("30 35 40 45 50", &[30, 35, 40, 45, 50]),
        ("30, and again", &[30, 30]),
        ("the last", &[300]),
        ("the last three", &[298, 299, 300]),
    ];
    let mut table = String::from(
        "lost                 control   none         reno         newreno      sack         rack\n",
    );
    for (name, lost) in LOSSES {
        for congestion in [Congestion::Tahoe, Congestion::Reno, Congestion::Cubic] {
            let control = format!("{congestion:?}").to_lowercase();
            write!(table, "{name:<20} {control:<9}").unwrap();
            for recovery in
                [Recovery::None, Recovery::Reno, Recovery::Newreno, Recovery::Sack, Recovery::Rack]
            {
                write!(table, " {:<12}", cell(congestion, recovery, lost)).unwrap();
            }
            table.truncate(table.trim_end().len());
            table.push('\n');
        }
    }
    insta::assert_snapshot!(table);
}

fn cell(congestion: Congestion, recovery: Recovery, lost: &'static [u64]) -> String {
    let sack = matches!(recovery, Recovery::Sack | Recovery::Rack);
    let config = Config { congestion, recovery, sack, hystart: HyStart::Off, ..plain() };
    let mut left = lost.to_vec();
    let mut pair = Pair::new(&config).with_rate("10 Mbit/s", 1000).with_network(move |sent| {
        let hit = left
            .iter()
            .position(|n| sent.from == Side::Client && sent.segment.carries_data() && *n == sent.number());
        match hit {
            Some(i) => {
                left.remove(i);
                Fate::Drop
            }
            None => Fate::Pass,
        }
    });
    pair.open();
    pair.send(Side::Client, Data::Fill(300_000));
    pair.run_until(at_ms(100_000));
    assert_eq!(pair.received_len[1], 300_000);
    let counters = pair.client.counters();
    let done = pair.arrivals[1].last().expect("data").0.as_nanos() / 1_000_000;
    format!("{done}/{}/{}", counters.bytes_retransmitted / 1000, counters.timeouts)
}
