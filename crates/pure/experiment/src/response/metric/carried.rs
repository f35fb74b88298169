//! Metrics of the data that a flow carried to its receiver.

use netrig_core::quantity::{
    DATA_PACKETS_RECEIVED, DATA_RESUMED, OBJECTS_RECEIVED, OFFERED_BYTES, RECEIVED_BYTES, WIRE_BYTES,
};

use super::{MeasuredValue, Need, View, metrics};

metrics! {
    of Flow;
    "goodput" ["B/s"].rate(&RECEIVED_BYTES):
        "Application bytes that the receiving application got, in order and once, per second of the \
         measuring window, which starts with the flow.";
    "wire_throughput" ["B/s"]
        .computed(|_| vec![Need::Total(&WIRE_BYTES), Need::Marks(&DATA_RESUMED)], |view| {
            wire_throughput(std::slice::from_ref(view))
        })
        .with_signal(&WIRE_BYTES)
        .with_sum(wire_throughput):
        "IP bytes of the packets with user data that reached the receiving host (duplicates and headers \
         included), divided by the time from the arrival of the first of them, of several flows together, \
         until the end of the measuring window.";
    "offered_load" ["B/s"].rate(&OFFERED_BYTES):
        "Application bytes that the sending application gave to its transport, per second of the measuring \
         window, which starts with the flow.";
    "received" ["B"].total(&RECEIVED_BYTES):
        "Application bytes that the receiving application got in the measuring window, in order and once.";
    "data_packets_received" ["packets"].total(&DATA_PACKETS_RECEIVED):
        "Packets with user data that reached the receiving host in the measuring window, duplicates \
         included.";
    "objects_received" ["objects"].total(&OBJECTS_RECEIVED):
        "Objects that arrived completely in the measuring window.";
}

/// Wire throughput over the part of the window after the first data packet.
fn wire_throughput(views: &[View<'_>]) -> MeasuredValue {
    let began = |view: &View<'_>| Some(view.window_start().max(view.marks(&DATA_RESUMED).first()?.at));
    let Some(first) = views.iter().filter_map(began).min() else {
        return MeasuredValue::not("no data arrived");
    };
    let span =
        views.iter().map(|view| view.window_end().since(first)).max().unwrap_or_default().as_secs_f64();
    if span > 0.0 {
        (views.iter().map(|view| view.total(&WIRE_BYTES)).sum::<f64>() / span).into()
    } else {
        MeasuredValue::not("no data arrived before the end of the measuring window")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::bench::{Bench, flow};

    #[test]
    fn goodput_is_over_the_time_of_the_flow() {
        let mut bench = Bench::new(10);
        bench.layout.flows[0].start = Bench::at(2.0);
        bench.count(flow(), &RECEIVED_BYTES, &[(3.0, 1000.0), (10.0, 2000.0)]);
        assert_eq!(bench.measure("of = 'flow.web'\nmetric = 'goodput'"), Ok(375.0));
        assert_eq!(bench.measure("of = 'flow.web'\nmetric = 'received'"), Ok(3000.0));
    }

    /// The window (4 s, 8 s] contains the samples at 5 s and 8 s, but not the sample at 4 s: 600 B / 4 s.
    #[test]
    fn the_window_is_open_at_its_start() {
        let mut bench = Bench::new(10);
        bench.count(flow(), &RECEIVED_BYTES, &[(4.0, 7.0), (5.0, 100.0), (8.0, 500.0), (9.0, 7.0)]);
        let window = "of = 'flow.web'\nmetric = 'goodput'\nafter = '4 s'\nuntil = '8 s'";
        assert_eq!(bench.measure(window), Ok(150.0));
        assert_eq!(bench.measure(&format!("{window}\nunit = 'bit/s'")), Ok(1200.0));
    }

    /// If no packet arrives, the goodput is zero, but there is no throughput after the first packet.
    #[test]
    fn nothing_arrived() {
        let mut bench = Bench::new(10);
        assert_eq!(bench.measure("of = 'flow.web'\nmetric = 'goodput'"), Ok(0.0));
        let why = bench.measure("of = 'flow.web'\nmetric = 'wire_throughput'").unwrap_err();
        assert_eq!(why, "no data arrived");
    }

    /// The first data packet arrives at 0.4 s: 96 KB / (100 s - 0.4 s).
    #[test]
    fn wire_throughput_starts_with_the_first_data_packet() {
        let mut bench = Bench::new(100);
        bench.mark(flow(), &DATA_RESUMED, &[0.4, 60.0]);
        bench.count(flow(), &WIRE_BYTES, &[(0.5, 6000.0), (100.0, 90_000.0)]);
        let value = bench.measure("of = 'flow.web'\nmetric = 'wire_throughput'").unwrap();
        assert!((value - 96_000.0 / 99.6).abs() < 1e-9);
    }
}
