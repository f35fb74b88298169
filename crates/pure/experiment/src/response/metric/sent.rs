//! Metrics of the packets that a flow's endpoints sent and retransmitted.

use netrig_core::quantity::{
    DATA_PACKETS_SENT, FAST_RETRANSMISSIONS, PACKETS_SENT, RECEIVED_BYTES, RETRANSMITTED_BYTES,
    TIMEOUT_RETRANSMISSIONS, TIMEOUTS, WINDOW_PROBES,
};

use super::{MeasuredValue, Need, View, metrics, ratio};

metrics! {
    of Flow;
    "data_packets_sent" ["packets"].total(&DATA_PACKETS_SENT):
        "Packets with user data that the sending host sent in the measuring window, retransmissions \
         included.";
    "packets_sent" ["packets"].total(&PACKETS_SENT):
        "Packets of any kind that both ends sent in the measuring window.";
    "packets_per_megabyte" ["packets"].pooled()
        .computed(
            |_| vec![Need::Total(&DATA_PACKETS_SENT), Need::Total(&RECEIVED_BYTES)],
            packets_per_megabyte
        ):
        "Packets with user data that the sending host sent in the measuring window, retransmissions \
         included, for each 1,000,000 bytes that the receiving application got in it.";
    "retransmitted_bytes" ["B"].total(&RETRANSMITTED_BYTES):
        "User bytes that the sending host retransmitted in the measuring window.";
    "retransmission_share" ["1"]
        .share_of(
            &[&RETRANSMITTED_BYTES],
            &[&RETRANSMITTED_BYTES, &RECEIVED_BYTES],
            "nothing was received and nothing retransmitted",
        ):
        "Retransmitted user bytes, divided by the sum of these and the user bytes that the receiving \
         application got in the measuring window.";
    "fast_retransmissions" ["segments"].total(&FAST_RETRANSMISSIONS):
        "Segments or chunks that the sending host retransmitted in fast recovery in the measuring window.";
    "timeout_retransmissions" ["segments"].total(&TIMEOUT_RETRANSMISSIONS):
        "Segments or chunks that the sending host retransmitted after a time-out in the measuring window.";
    "timeouts" ["1"].total(&TIMEOUTS):
        "Expirations of a retransmission timer at either end in the measuring window.";
    "window_probes" ["1"].total(&WINDOW_PROBES):
        "Probes of a closed window that the sending host sent in the measuring window. SCTP retransmits \
         the chunk of a probe until it is acknowledged; this counts as one probe.";
}

/// The megabyte of `packets_per_megabyte`, in bytes.
const MEGABYTE: f64 = 1e6;

/// Data packets that were sent per received megabyte.
fn packets_per_megabyte(view: &View<'_>) -> MeasuredValue {
    ratio(view.total(&DATA_PACKETS_SENT) * MEGABYTE, view.total(&RECEIVED_BYTES), "nothing was received")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::bench::{Bench, flow};

    /// 300 B were retransmitted and 900 B received: 300 / 1200.
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

    /// 1400 packets were sent for 2 MB.
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
