//! A node as a host that receives packets.

use netrig_core::quantity::{HOST_BUSY, HOST_DROPPED};

use super::super::{Per, SubjectKind::Node};
use super::{About, Metric, Rate, Total};

pub(super) const ALL: &[&dyn Metric] = &[&BUSY, &DROPPED];

static BUSY: Rate = Rate {
    about: About::new(
        "receive_utilisation",
        "1",
        Node,
        "Share of the measuring window that the host spent on packets that it received (`receive` of the node).",
    )
    .per(Per::Mean),
    quantity: &HOST_BUSY,
    times: 1.0,
};

static DROPPED: Total = Total {
    about: About::new(
        "receive_drops",
        "packets",
        Node,
        "Packets that arrived in the measuring window and that the host had no room for.",
    ),
    quantity: &HOST_DROPPED,
};

#[cfg(test)]
mod tests {
    use netrig_core::Subject;

    use super::*;
    use crate::reduce::bench::Bench;

    /// Of 10 s the host spends 0.4 s in the first second and 0.1 s in each that follows, and drops 3 packets and 5.
    #[test]
    fn a_host_tells_what_receiving_takes_and_what_it_had_no_room_for() {
        let mut bench = Bench::new(10);
        let busy: Vec<(f64, f64)> =
            (1..=10).map(|s| (f64::from(s), if s == 1 { 0.4 } else { 0.1 })).collect();
        bench.count(Subject::Node(1), &HOST_BUSY, &busy);
        bench.count(Subject::Node(0), &HOST_BUSY, &[(1.0, 0.9)]);
        bench.count(Subject::Node(1), &HOST_DROPPED, &[(1.0, 3.0), (6.0, 5.0)]);
        let mut measured = |metric: &str, more: &str| {
            bench.measure(&format!("of = 'node.server'\nmetric = '{metric}'\n{more}")).unwrap()
        };
        assert!((measured("receive_utilisation", "") - 0.13).abs() < 1e-12);
        assert!((measured("receive_utilisation", "after = '5 s'") - 0.1).abs() < 1e-12);
        assert_eq!(measured("receive_drops", ""), 8.0);
        assert_eq!(measured("receive_drops", "after = '5 s'"), 5.0);
    }
}
