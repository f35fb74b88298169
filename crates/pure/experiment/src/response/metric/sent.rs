//! Metrics of the packets that a flow's endpoints sent and retransmitted.

use netrig_core::quantity::{
    DATA_PACKETS_SENT, FAST_RETRANSMISSIONS, PACKETS_SENT, RECEIVED_BYTES, RETRANSMITTED_BYTES,
    TIMEOUT_RETRANSMISSIONS, TIMEOUTS, WINDOW_PROBES,
};

use super::super::SubjectKind::Flow;
use super::{About, MeasuredValue, Metric, Need, Share, Statistic, Total, View};

pub(super) const ALL: &[&dyn Metric] = &[
    &DATA_SENT,
    &SENT,
    &PacketsPerMegabyte,
    &RETRANSMITTED,
    &RETRANSMISSION_SHARE,
    &FAST,
    &AFTER_TIMEOUT,
    &TIMER,
    &PROBES,
];

static DATA_SENT: Total = Total {
    about: About::new(
        "data_packets_sent",
        "packets",
        Flow,
        "Packets with user data that the sending host sent in the measuring window, first time or again.",
    ),
    quantity: &DATA_PACKETS_SENT,
};

static SENT: Total = Total {
    about: About::new(
        "packets_sent",
        "packets",
        Flow,
        "Packets of any kind that both ends sent in the measuring window.",
    ),
    quantity: &PACKETS_SENT,
};

/// The megabyte of `packets_per_megabyte`, in bytes.
const MEGABYTE: f64 = 1e6;

/// Packets for one megabyte.
struct PacketsPerMegabyte;

static PER_MEGABYTE: About = About::new(
    "packets_per_megabyte",
    "packets",
    Flow,
    "Packets with user data that the sending host sent in the measuring window, first time or again, for each 1,000,000 \
     bytes that the receiving application got in it.",
)
.pooled();

impl Metric for PacketsPerMegabyte {
    fn about(&self) -> &About {
        &PER_MEGABYTE
    }

    fn needs(&self, _: Statistic) -> Vec<Need> {
        vec![Need::Total(&DATA_PACKETS_SENT), Need::Total(&RECEIVED_BYTES)]
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        let received = view.total(&RECEIVED_BYTES);
        if received > 0.0 {
            return (view.total(&DATA_PACKETS_SENT) * MEGABYTE / received).into();
        }
        MeasuredValue::not("nothing was received")
    }
}

static RETRANSMITTED: Total = Total {
    about: About::new(
        "retransmitted_bytes",
        "B",
        Flow,
        "User bytes that the sending host sent again in the measuring window.",
    ),
    quantity: &RETRANSMITTED_BYTES,
};

static RETRANSMISSION_SHARE: Share = Share {
    about: About::new(
        "retransmission_share",
        "1",
        Flow,
        "User bytes sent again, divided by the sum of these and the user bytes that the receiving \
         application got in the measuring window.",
    )
    .share()
    .pooled(),
    part: &[&RETRANSMITTED_BYTES],
    whole: &[&RETRANSMITTED_BYTES, &RECEIVED_BYTES],
    nothing: "nothing was received and nothing sent again",
};

static FAST: Total = Total {
    about: About::new(
        "fast_retransmissions",
        "segments",
        Flow,
        "Segments or chunks that the sending host sent again in fast recovery in the measuring window.",
    ),
    quantity: &FAST_RETRANSMISSIONS,
};

static AFTER_TIMEOUT: Total = Total {
    about: About::new(
        "timeout_retransmissions",
        "segments",
        Flow,
        "Segments or chunks that the sending host sent again after a time-out in the measuring window.",
    ),
    quantity: &TIMEOUT_RETRANSMISSIONS,
};

static TIMER: Total = Total {
    about: About::new(
        "timeouts",
        "1",
        Flow,
        "Times a retransmission timer ran out at either end in the measuring window.",
    ),
    quantity: &TIMEOUTS,
};

static PROBES: Total = Total {
    about: About::new(
        "window_probes",
        "1",
        Flow,
        "Probes of a closed window that the sending host sent in the measuring window. SCTP sends the chunk of a probe again \
         until it is acknowledged, and that counts once.",
    ),
    quantity: &WINDOW_PROBES,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::bench::{Bench, flow};

    /// 300 B retransmitted and 900 B received: 300 / 1200.
    #[test]
    fn the_share_sent_again() {
        let mut bench = Bench::new(10);
        assert!(bench.measure("of = 'flow.web'\nmetric = 'retransmission_share'").is_err());
        bench.count(flow(), &RETRANSMITTED_BYTES, &[(1.0, 100.0), (2.0, 200.0)]);
        bench.count(flow(), &RECEIVED_BYTES, &[(1.0, 400.0), (3.0, 500.0)]);
        assert_eq!(bench.measure("of = 'flow.web'\nmetric = 'retransmission_share'"), Ok(0.25));
        let percent = bench.measure("of = 'flow.web'\nmetric = 'retransmission_share'\nunit = '%'");
        assert_eq!(percent, Ok(25.0));
    }

    /// 1400 packets for 2 MB.
    #[test]
    fn what_a_megabyte_takes() {
        let mut bench = Bench::new(10);
        let text = "of = 'flow.web'\nmetric = 'packets_per_megabyte'";
        assert_eq!(bench.measure(text).unwrap_err(), "nothing was received");
        bench.count(flow(), &DATA_PACKETS_SENT, &[(1.0, 600.0), (2.0, 800.0)]);
        bench.count(flow(), &RECEIVED_BYTES, &[(3.0, 2_000_000.0)]);
        assert_eq!(bench.measure(text), Ok(700.0));
    }

    #[test]
    fn counts_add_up() {
        let mut bench = Bench::new(10);
        let counts = [
            ("data_packets_sent", &DATA_PACKETS_SENT),
            ("packets_sent", &PACKETS_SENT),
            ("fast_retransmissions", &FAST_RETRANSMISSIONS),
            ("timeout_retransmissions", &TIMEOUT_RETRANSMISSIONS),
            ("timeouts", &TIMEOUTS),
            ("window_probes", &WINDOW_PROBES),
            ("retransmitted_bytes", &RETRANSMITTED_BYTES),
        ];
        for (index, (_, quantity)) in (1..).zip(counts) {
            bench.count(flow(), quantity, &[(0.1, f64::from(index)), (10.0, 10.0)]);
        }
        for (index, (name, _)) in (1..).zip(counts) {
            let value = bench.measure(&format!("of = 'flow.web'\nmetric = '{name}'"));
            assert_eq!(value, Ok(f64::from(index) + 10.0), "{name}");
        }
    }
}
