//! The cause that limited a server, from the kernel's counters.

use netrig_sip_tester::capacity::{
    CallCounts, CapacityCause, CapacitySearch, CapacityVerdict, DriverOrder, MachineStalls, ServerReading,
    StepObservation, StepPurpose, causes,
};

use super::settings;

/// The causes, in words, for a server that fails above 500 calls per second. `seen_of_server` is the reading in the
/// failed steps.
fn found(seen_of_server: &ServerReading) -> Vec<String> {
    let mut search = CapacitySearch::new(settings()).unwrap();
    loop {
        match search.next() {
            DriverOrder::Step(step) => {
                let begun = (step.rate * step.at_most_s) as u64;
                let is_bad = step.rate > 500.0;
                let failed = if is_bad { begun / 2 } else { 0 };
                let counts = CallCounts { begun, failed, succeeded: begun - failed, ..CallCounts::default() };
                let server = Some(if is_bad { seen_of_server.clone() } else { ServerReading::default() });
                search.end(&StepObservation {
                    span_s: step.at_most_s,
                    counts,
                    server,
                    ..StepObservation::default()
                });
            }
            DriverOrder::Drain(_) => search.drained(),
            DriverOrder::Finished(verdict) => {
                assert!(matches!(verdict, CapacityVerdict::Capacity(_)), "{verdict:?}");
                break;
            }
        }
    }
    causes(&search.journal()).iter().map(ToString::to_string).collect()
}

#[test]
fn the_cause_is_what_the_kernel_counted_in_the_steps_that_failed() {
    let idle = ServerReading {
        span_s: 4.0,
        processes: 1,
        busiest_s: 0.4,
        processors: 2,
        receive_buffer: 212_992,
        ..ServerReading::default()
    };
    for (seen, words) in [
        (
            ServerReading { busiest_s: 3.96, dropped: 7, ..idle.clone() },
            "the server's processor: its thread was busy for 99 % of the step",
        ),
        (
            ServerReading { busiest_s: 1.2, throttled_s: 2.8, ..idle.clone() },
            "its control group throttled it for 70 % of the step",
        ),
        (
            ServerReading { dropped: 1487, least_full: Some(0.1), ..idle.clone() },
            "the server's UDP socket dropped 1487 datagrams; its receive buffer is 208 KiB (at",
        ),
        (
            ServerReading { dropped: 1, least_full: Some(0.1), receive_buffer: 0, ..idle.clone() },
            "dropped 1 datagram (at",
        ),
        (
            ServerReading { dropped: 1487, least_full: Some(0.9), ..idle.clone() },
            "busy for only 10 % of the step and never emptied its socket",
        ),
        (
            ServerReading { busiest_s: 2.0, ran_s: 7.6, ..idle.clone() },
            "the server's processors: its threads used 95 % of the 2 processors on which they may run",
        ),
        (
            ServerReading { busiest_s: 2.4, busiest_waited_s: 1.5, dropped: 3, ..idle.clone() },
            "ran for 60 % of the step and waited for 38 %",
        ),
        (ServerReading { overflows: 5, ..idle.clone() }, "its queue was full for 5 connections"),
        (idle, "busy for only 10 % of the step and dropped no datagram"),
        (
            ServerReading { hidden: Some("it is on another host".to_owned()), ..ServerReading::default() },
            "unknown, because it is on another host",
        ),
    ] {
        let all = found(&seen);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].contains(words), "{words}: {all:?}");
    }
    // Drops are reported for every cause.
    let busy = ServerReading {
        span_s: 1.0,
        busiest_s: 1.0,
        dropped: 9,
        receive_buffer: 4096,
        ..ServerReading::default()
    };
    let all = found(&busy);
    assert!(
        all[0].ends_with(
            "in that step the server's UDP socket dropped 9 datagrams; its receive buffer is 4 KiB"
        ),
        "{all:?}"
    );
}

#[test]
fn the_most_frequent_cause_counts_and_stalls_are_told_beside_it() {
    let mut search = CapacitySearch::new(settings()).unwrap();
    let mut failed = 0;
    while let DriverOrder::Step(_) | DriverOrder::Drain(_) = search.next() {
        let DriverOrder::Step(step) = search.next() else {
            search.drained();
            continue;
        };
        let begun = (step.rate * step.at_most_s) as u64;
        let is_bad = step.rate > 500.0 && step.purpose != StepPurpose::Recovery;
        failed += u32::from(is_bad);
        let lost = if is_bad { begun / 2 } else { 0 };
        let counts = CallCounts { begun, failed: lost, succeeded: begun - lost, ..CallCounts::default() };
        // The server's processor causes one failure, and a stall causes another.
        let busiest_s = if failed == 1 { 1.0 } else { 0.1 };
        let (dropped, least_full) = (u64::from(is_bad), is_bad.then_some(0.0));
        let server =
            ServerReading { span_s: 1.0, busiest_s, dropped, least_full, ..ServerReading::default() };
        // The stall is long enough to explain all failures.
        let stalls = match failed == 2 && is_bad {
            true => MachineStalls { count: 1, longest_s: 0.31, total_s: 0.1 * step.at_most_s, steal: 0.0 },
            false => MachineStalls::default(),
        };
        search.end(&StepObservation {
            span_s: step.at_most_s,
            counts,
            server: Some(server),
            stalls,
            ..StepObservation::default()
        });
    }
    let all = causes(&search.journal());
    assert!(matches!(all[0].cause, CapacityCause::ReceiveBuffer { dropped: 1, .. }), "{all:?}");
    let said = all[1].to_string();
    assert_eq!(said, "the whole machine stalled 1 time, for up to 310 ms; 1 invalid step was repeated");
}
