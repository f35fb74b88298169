//! Metrics of a flow's handshake, completion and pauses.

use netrig_core::quantity::{CLOSED, DATA_PAUSED, DATA_RESUMED, ESTABLISHED, RECEIVED_BYTES, RESPONSE_TIME};

use super::super::Per;
use super::{MeasuredValue, Need, View, metrics, ratio};

metrics! {
    of Flow;
    "connect_time" ["s"].per(Per::Mean).computed(|_| vec![Need::Marks(&ESTABLISHED)], connect_time):
        "Time from the start of the flow until the opening end completed its first handshake.";
    "transfer_time" ["s"].per(Per::Mean)
        .computed(|_| vec![Need::Marks(&DATA_PAUSED), Need::Marks(&CLOSED)], transfer_time):
        "Time from the start of the flow until the last byte of user data arrived for the first time, if \
         its last connection closed with everything delivered.";
    "transfer_rate" ["B/s"].per(Per::Mean)
        .computed(
            |_| vec![Need::Marks(&DATA_PAUSED), Need::Marks(&CLOSED), Need::Total(&RECEIVED_BYTES)],
            transfer_rate
        ):
        "Application bytes of the whole transfer, received in order and once, divided by its time: from \
         the start of the flow, including the handshake, until the last byte of user data arrived for the \
         first time, if its last connection closed with everything delivered.";
    "file_rate" ["B/s"].per(Per::Mean).quotient(&[&RECEIVED_BYTES], &[&RESPONSE_TIME], UNFINISHED):
        "Bytes of a file by FTP, divided by its `response_time`: from the reply that announces the \
         transfer to the reply that completes it or, for a fetched file in the simulator, to its last \
         byte.";
    "longest_stall" ["s"].per(Per::Max)
        .computed(
            |_| vec![Need::Marks(&DATA_PAUSED), Need::Marks(&DATA_RESUMED), Need::Marks(&CLOSED)],
            longest_stall
        ):
        "Longest pause between two arrivals of user data; 0 if none exceeds one sampling interval. A \
         pause that lasts until the end of the run counts, unless the connection had closed with \
         everything delivered.";
}

/// Duration of the first handshake.
fn connect_time(view: &View<'_>) -> MeasuredValue {
    match view.marks(&ESTABLISHED).first() {
        Some(done) => done.at.since(view.flow_start()).as_secs_f64().into(),
        None => MeasuredValue::not("no connection was established"),
    }
}

/// Duration of the whole transfer.
fn transfer_time(view: &View<'_>) -> MeasuredValue {
    transfer_seconds(view).map_or_else(|| MeasuredValue::not(UNFINISHED), Into::into)
}

const UNFINISHED: &str = "the transfer did not finish";

/// Time from the start of the flow to its last data, if everything was delivered, s.
fn transfer_seconds(view: &View<'_>) -> Option<f64> {
    let last = view.marks(&DATA_PAUSED).last()?;
    let finished = view.marks(&CLOSED).last().is_some_and(|closed| closed.value == 0.0);
    finished.then(|| last.at.since(view.flow_start()).as_secs_f64())
}

/// Rate of the whole transfer.
fn transfer_rate(view: &View<'_>) -> MeasuredValue {
    ratio(view.total(&RECEIVED_BYTES), transfer_seconds(view).unwrap_or(0.0), UNFINISHED)
}

/// Longest time without data.
fn longest_stall(view: &View<'_>) -> MeasuredValue {
    let pauses = view.pauses();
    if view.marks(&DATA_RESUMED).is_empty() {
        return MeasuredValue::not("no data arrived");
    }
    let finished = |from| view.marks(&CLOSED).iter().any(|closed| closed.value == 0.0 && closed.at >= from);
    let length = |(from, to): &(netrig_core::Instant, Option<netrig_core::Instant>)| match to {
        Some(to) => to.since(*from).as_secs_f64(),
        None if finished(*from) => 0.0,
        None => Some(view.run_end().since(*from))
            .filter(|span| *span > view.sample_every())
            .map_or(0.0, |s| s.as_secs_f64()),
    };
    pauses.iter().map(length).fold(0.0, f64::max).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::bench::{Bench, flow};

    /// The flow starts at 1 s, and its handshake is complete at 1.4 s.
    #[test]
    fn connecting() {
        let mut bench = Bench::new(10);
        bench.layout.flows[0].start = Bench::at(1.0);
        assert!(bench.measure("of = 'flow.web'\nmetric = 'connect_time'").is_err());
        bench.mark(flow(), &ESTABLISHED, &[1.4, 5.0]);
        let time = bench.measure("of = 'flow.web'\nmetric = 'connect_time'").unwrap();
        assert!((time - 0.4).abs() < 1e-9);
    }

    #[test]
    fn a_transfer_counts_only_if_it_finished() {
        let mut bench = Bench::new(10);
        bench.mark(flow(), &DATA_PAUSED, &[3.0, 7.5]);
        let text = "of = 'flow.web'\nmetric = 'transfer_time'";
        assert_eq!(bench.measure(text).unwrap_err(), "the transfer did not finish");
        bench.mark(flow(), &CLOSED, &[7.7]);
        assert_eq!(bench.measure(text), Ok(7.5));
        let mut aborted = Bench::new(10);
        aborted.mark(flow(), &DATA_PAUSED, &[3.0]);
        aborted.count(flow(), &CLOSED, &[(4.0, 2.0)]);
        assert!(aborted.measure(text).is_err());
    }

    /// The flow receives 1.5 MB until 7.5 s.
    #[test]
    fn a_transfer_has_a_rate_if_it_finished() {
        let mut bench = Bench::new(10);
        let text = "of = 'flow.web'\nmetric = 'transfer_rate'";
        bench.mark(flow(), &DATA_PAUSED, &[3.0, 7.5]);
        bench.count(flow(), &RECEIVED_BYTES, &[(3.0, 500_000.0), (8.0, 1_000_000.0)]);
        assert_eq!(bench.measure(text).unwrap_err(), "the transfer did not finish");
        bench.mark(flow(), &CLOSED, &[7.7]);
        assert_eq!(bench.measure(text), Ok(200_000.0));
    }

    #[test]
    fn a_file_has_a_rate_once_it_is_complete() {
        let mut bench = Bench::new(10);
        let text = "of = 'flow.web'\nmetric = 'file_rate'";
        bench.count(flow(), &RECEIVED_BYTES, &[(3.0, 500_000.0)]);
        assert_eq!(bench.measure(text).unwrap_err(), "the transfer did not finish");
        bench.count(flow(), &RESPONSE_TIME, &[(3.0, 2.0)]);
        assert_eq!(bench.measure(text), Ok(250_000.0));
    }

    /// There are pauses from 20 s to 22 s, from 50 s to 61 s, and from 95 s to the end at 100 s. The longest is 11 s.
    #[test]
    fn the_longest_of_several_pauses() {
        let text = "of = 'flow.web'\nmetric = 'longest_stall'";
        let mut bench = Bench::new(100);
        bench.mark(flow(), &DATA_RESUMED, &[0.4, 22.0, 61.0]);
        bench.mark(flow(), &DATA_PAUSED, &[20.0, 50.0, 95.0]);
        assert_eq!(bench.measure(text), Ok(11.0));
    }

    /// Data stop at 50 s and do not resume in a run of 100 s: the pause is 50 s. If everything was delivered by then,
    /// there is no pause.
    #[test]
    fn a_pause_to_the_end() {
        let text = "of = 'flow.web'\nmetric = 'longest_stall'";
        let mut bench = Bench::new(100);
        assert_eq!(bench.measure(text).unwrap_err(), "no data arrived");
        bench.mark(flow(), &DATA_RESUMED, &[0.4]);
        bench.mark(flow(), &DATA_PAUSED, &[50.0]);
        assert_eq!(bench.measure(text), Ok(50.0));
        bench.mark(flow(), &CLOSED, &[50.2]);
        assert_eq!(bench.measure(text), Ok(0.0));
    }

    /// After the last data of the run at 99.95 s there is no pause: less than one sampling interval is left.
    #[test]
    fn data_to_the_end_is_no_pause() {
        let mut bench = Bench::new(100);
        bench.mark(flow(), &DATA_RESUMED, &[0.4]);
        bench.mark(flow(), &DATA_PAUSED, &[99.95]);
        assert_eq!(bench.measure("of = 'flow.web'\nmetric = 'longest_stall'"), Ok(0.0));
    }
}
