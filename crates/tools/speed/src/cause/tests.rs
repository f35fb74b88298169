use std::net::{Ipv4Addr, SocketAddr};

use netrig_bulk::{
    ConnectionSummary, HostReport, Layers, LimitingFactor, MeasuredHost, PacketShape, ProcessorShare,
    RadioReport,
};

use super::*;
use crate::measure::{LineCapacity, PhaseReport};
use crate::meter::{Delays, OneWay, Series, Throughput};
use crate::protocol::{Carrier, DatagramLoad, Datagrams, EndReport};
use crate::search::FoundCapacity;

const MBIT: f64 = 1e6;

/// Asserts that a value matches a pattern. Prints the value if it does not.
macro_rules! assert_matches {
    ($value:expr, $($form:tt)+) => {{
        let value = $value;
        assert!(matches!(value, $($form)+), "{value:?}");
    }};
}

fn delays(p50_s: f64) -> Delays {
    Delays {
        sent: 100,
        lost: 0,
        least_s: Some(p50_s),
        p50_s: Some(p50_s),
        p95_s: Some(p50_s),
        p99_s: Some(p50_s),
        most_s: Some(p50_s),
    }
}

fn throughput(bits_per_s: f64) -> Throughput {
    Throughput {
        bits_per_s,
        whole_bits_per_s: bits_per_s,
        warm_up_s: 0.5,
        steady: true,
        instability: 0.0,
        longest_stall_s: 0.0,
        bytes: (bits_per_s / 8.0 * 4.0) as u64,
        lasted_s: 4.0,
    }
}

/// The rates of all layers for a rate of IP packets, bit/s, that carry segments of 1448 B.
fn layers(ip: f64) -> Layers {
    PacketShape::segment(1448, true, true).layers(ip * 1448.0 / 1500.0)
}

/// A download over four connections that received data at the rate `ip`, bit/s of IP packets. Nothing limited the
/// sender, nothing was retransmitted, and the hosts were idle.
fn download(ip: f64) -> PhaseReport {
    PhaseReport {
        way: DataDirection::Down,
        carrier: Carrier::Tcp { way: DataDirection::Down, streams: 4, congestion: None },
        throughput: Some(throughput(layers(ip).payload)),
        series: Series::default(),
        layers: Some(layers(ip)),
        connections: Some(ConnectionSummary {
            busy: Some(1.0),
            window_limited: Some(0.0),
            buffer_limited: Some(0.0),
            window: Some(1e6),
            round_trip_s: Some(0.02),
            ..ConnectionSummary::default()
        }),
        transfer: None,
        capacity: None,
        delays: Some(delays(0.02)),
        ways: None,
        loaded: None,
        added_delay: None,
        responsiveness: None,
        no_responsiveness: None,
        too_short: None,
        sender: EndReport { path_mtu: Some(1500), threads_ns: 1000, ..EndReport::default() },
        receiver: EndReport { threads_ns: 1000, ..EndReport::default() },
    }
}

/// The result of a search on a line that delivers `ip` bit/s of IP packets and has a queue of `queue_s`. `loss` has the
/// share of packets lost above the capacity and below it.
fn searched(ip: f64, queue_s: f64, loss: [f64; 2]) -> PhaseReport {
    let found = FoundCapacity {
        within_ns: [0; 2],
        arrived: ip / 12_000.0,
        offered: ip / 12_000.0 / (1.0 - loss[0]),
        saturated: true,
        queue_ns: (queue_s * 1e9) as i64,
        loss_above: loss[0],
        loss_beneath: Some(loss[1]),
        sent_beneath: 1000,
    };
    PhaseReport {
        carrier: Carrier::Udp { way: DataDirection::Down, size: 1472, load: DatagramLoad::Told },
        throughput: None,
        layers: None,
        connections: None,
        capacity: Some(LineCapacity { layers: layers(ip), found, complete: true, by_hosts: false }),
        ..download(ip)
    }
}

fn report(phases: Vec<PhaseReport>) -> SpeedReport {
    let at = |last| SocketAddr::from((Ipv4Addr::new(192, 0, 2, last), 8621));
    SpeedReport {
        format: SpeedReport::FORMAT,
        server: at(1),
        client: at(2),
        idle: Some(delays(0.02)),
        phases,
        idle_ways: None,
        after: None,
        after_ways: None,
        no_ways: None,
        held_to: None,
        verdicts: Vec::new(),
        partial: false,
        broken: None,
        carriages: Vec::new(),
    }
}

/// The limit of a download with the rate `ip`, after `change` has modified its report, with the result of a search if
/// there is one.
fn judged(ip: f64, search: Option<PhaseReport>, change: impl FnOnce(&mut PhaseReport)) -> LimitingFactor {
    let mut phase = download(ip);
    change(&mut phase);
    let report = report(std::iter::once(phase).chain(search).collect());
    let verdict = verdict(&report, DataDirection::Down, false).unwrap();
    assert!(verdict.sentence.starts_with("the download"), "{verdict:?}");
    assert!(!verdict.proof.is_empty(), "{verdict:?}");
    verdict.limit
}

fn connections(phase: &mut PhaseReport) -> &mut ConnectionSummary {
    phase.connections.as_mut().unwrap()
}

/// A line of 100 Mbit/s with a queue of 50 ms.
fn line() -> Option<PhaseReport> {
    Some(searched(100.0 * MBIT, 0.05, [0.08, 0.0]))
}

#[test]
fn who_gets_all_that_the_line_carries_has_reached_it() {
    let limit = judged(98.0 * MBIT, line(), |phase| phase.delays = Some(delays(0.06)));
    assert_matches!(limit, LimitingFactor::Line { queue_s, .. } if (queue_s - 0.04).abs() < 1e-9);
    // If the line has a queue per flow, the echoes do not wait, even though the search has filled its own queue.
    assert_matches!(judged(98.0 * MBIT, line(), |_| {}), LimitingFactor::Line { queue_s: 0.0, .. });
    // The line is the limit even if the window or a thread also limited the transfer: without them, it would not have
    // been faster.
    let limit = judged(98.0 * MBIT, line(), |phase| {
        connections(phase).window_limited = Some(0.9);
        phase.receiver.waited_ns = 990;
    });
    assert_matches!(limit, LimitingFactor::Line { .. });
}

#[test]
fn a_policer_loses_and_keeps_nothing_waiting() {
    let policer = || Some(searched(100.0 * MBIT, 0.0, [0.09, 0.0]));
    let reached = judged(95.0 * MBIT, policer(), |_| {});
    let missed = judged(50.0 * MBIT, policer(), |phase| connections(phase).bytes_again = Some(1));
    for limit in [reached, missed] {
        assert_matches!(limit, LimitingFactor::Policer { lost, .. } if lost > 0.05);
    }
}

/// The loopback path has no policer.
#[test]
fn on_a_path_within_a_host_there_is_no_policer() {
    let mut report = report(vec![searched(100.0 * MBIT, 0.0, [0.09, 0.0])]);
    report.client = report.server;
    let limit = verdict(&report, DataDirection::Down, false).unwrap().limit;
    assert_matches!(limit, LimitingFactor::Processor { .. });
}

/// The loss at a fixed rate does not show the loss at other rates, and involves no congestion control.
#[test]
fn loss_without_a_search_is_told_for_what_it_is() {
    let verdict_of = |phase| verdict(&report(vec![phase]), DataDirection::Down, false).unwrap();
    let told = verdict_of(datagrams([10_000, 0], [3300, 0]));
    assert_matches!(told.limit.clone(), LimitingFactor::Loss { beneath: false, adapts: false, .. });
    let words = format!("{told:?}");
    assert!(!words.contains("at any rate") && !words.contains("congestion control"), "{words}");
    assert!(words.contains("--only capacity"), "{words}");
}

#[test]
fn loss_whatever_the_rate_is_none_of_the_line() {
    let lossy = Some(searched(99.0 * MBIT, 0.05, [0.1, 0.01]));
    let limit = judged(8.0 * MBIT, lossy, |phase| connections(phase).bytes_again = Some(1));
    assert_matches!(limit, LimitingFactor::Loss { share, .. } if (share - 0.01).abs() < 1e-9);
    // If the queue of a line is too short for congestion control, the line is still the limit.
    let short = Some(searched(100.0 * MBIT, 0.002, [0.09, 0.0]));
    let limit = judged(60.0 * MBIT, short, |phase| connections(phase).bytes_again = Some(1));
    assert_matches!(limit, LimitingFactor::Line { .. });
}

#[test]
fn what_holds_a_sender_back_is_told_by_its_kernel() {
    let limit = judged(8.0 * MBIT, line(), |phase| connections(phase).window_limited = Some(0.6));
    assert_matches!(limit, LimitingFactor::Window { end: MeasuredHost::Client, connections: 4, .. });
    // A paced sender is limited for only a part of the time, although each round trip uses the whole window.
    let limit = judged(8.0 * MBIT, line(), |phase| {
        let in_flight = layers(8.0 * MBIT).payload / 8.0 * 0.02 / 4.0;
        *connections(phase) =
            ConnectionSummary { window_limited: Some(0.1), window: Some(in_flight), ..*connections(phase) };
    });
    let LimitingFactor::Window { needed, bytes, .. } = limit else { panic!("{limit:?}") };
    assert!((needed - 2.0 * bytes).abs() < 1.0);
    let limit = judged(8.0 * MBIT, line(), |phase| connections(phase).buffer_limited = Some(0.6));
    assert_matches!(limit, LimitingFactor::SendBuffer { end: MeasuredHost::Server, .. });
}

#[test]
fn a_processor_is_the_limit_if_it_left_its_mark() {
    let busy = |report: &mut EndReport| (report.ran_ns, report.waited_ns) = (100, 880);
    let limit = judged(8.0 * MBIT, line(), |phase| {
        busy(&mut phase.receiver);
        connections(phase).window_limited = Some(0.8);
    });
    assert_matches!(limit, LimitingFactor::Processor { end: MeasuredHost::Client, sends: false, .. });
    let limit = judged(8.0 * MBIT, line(), |phase| {
        busy(&mut phase.sender);
        connections(phase).busy = Some(0.3);
    });
    assert_matches!(limit, LimitingFactor::Processor { end: MeasuredHost::Server, sends: true, .. });
    // The hypervisor caused most of the wait for a processor, or a small part of it.
    let beside = |steal, waited_ns| {
        judged(8.0 * MBIT, line(), |phase| {
            (phase.sender.ran_ns, phase.sender.waited_ns) = (990 - waited_ns, waited_ns);
            connections(phase).busy = Some(0.3);
            let stolen = ProcessorShare { steal, ..ProcessorShare::default() };
            phase.sender.host = HostReport { processors: vec![stolen], ..HostReport::default() };
        })
    };
    let (most, little) = (beside(0.4, 500), beside(0.12, 900));
    assert_matches!(most, LimitingFactor::Stolen { end: MeasuredHost::Server, .. });
    assert_matches!(little, LimitingFactor::Processor { end: MeasuredHost::Server, .. });
    // A thread that waits for a processor also sleeps until the requested data arrive. This takes longer on a longer
    // path.
    let of_path = |waited_ns, window_limited| {
        judged(8.0 * MBIT, line(), |phase| {
            phase.receiver.waited_ns = waited_ns;
            connections(phase).window_limited = Some(window_limited);
        })
    };
    let limit = of_path(700, 0.6);
    assert_matches!(limit, LimitingFactor::Processor { end: MeasuredHost::Client, sends: false, .. });
    // If the window is closed for longer than the thread waits for a processor, the window is too short.
    assert_matches!(of_path(300, 0.9), LimitingFactor::Window { end: MeasuredHost::Client, .. });
    let limit = judged(8.0 * MBIT, line(), |phase| {
        phase.sender.waited_ns = 600;
        connections(phase).busy = Some(0.4);
    });
    assert_matches!(limit, LimitingFactor::Processor { end: MeasuredHost::Server, sends: true, .. });
    // A waiting thread that delays no data is not the limit. The limit is then unknown.
    assert_eq!(
        judged(8.0 * MBIT, line(), |phase| phase.receiver.waited_ns = 200),
        LimitingFactor::Unknown { steady: true }
    );
}

#[test]
fn short_packets_spend_the_line_on_headers() {
    let narrow = |ip| PacketShape::segment(348, true, true).layers(ip * 348.0 / 400.0);
    let limit = judged(98.0 * MBIT, line(), |phase| {
        phase.layers = Some(narrow(98.0 * MBIT));
        phase.sender.path_mtu = Some(400);
    });
    assert_matches!(limit, LimitingFactor::PacketSize { mtu: 400, headers, .. } if (headers - 0.13).abs() < 1e-3);
}

#[test]
fn a_black_hole_swallows_what_is_long() {
    let swallowed = |phase: &mut PhaseReport| {
        (phase.throughput, phase.layers) = (None, None);
        connections(phase).bytes_again = Some(20_000);
        phase.series = Series { at_s: vec![0.1, 2.0], bytes: vec![0, 0], ..Series::default() };
    };
    let limit = judged(0.0, None, swallowed);
    assert_matches!(limit, LimitingFactor::BlackHole { mtu: Some(1500), sent_again: 20_000 });
    // If the echoes are lost, too, the length of packets is not the cause.
    let limit = judged(0.0, None, |phase| {
        swallowed(phase);
        phase.delays = Some(Delays { p50_s: None, ..delays(0.0) });
    });
    assert!(!matches!(limit, LimitingFactor::BlackHole { .. }), "{limit:?}");
    // A phase that is aborted immediately has no evidence.
    let limit = judged(0.0, None, |phase| {
        swallowed(phase);
        phase.series = Series { at_s: vec![0.1, 0.2], bytes: vec![0, 0], ..Series::default() };
    });
    assert_eq!(limit, LimitingFactor::Unknown { steady: false });
}

/// Two readings are too few to compute a rate. A queue then does not show the capacity of the line, and a closed window
/// does not show the necessary window.
#[test]
fn what_was_broken_off_at_once_tells_no_limit() {
    let broken_off = |change: &dyn Fn(&mut PhaseReport)| {
        judged(0.0, None, |phase| {
            (phase.throughput, phase.layers) = (None, None);
            phase.series = Series { at_s: vec![0.1, 0.2], bytes: vec![9000, 20_000], ..Series::default() };
            change(phase);
        })
    };
    let unknown = LimitingFactor::Unknown { steady: false };
    assert_eq!(broken_off(&|phase| connections(phase).bytes_again = Some(1448)), unknown);
    assert_eq!(broken_off(&|phase| phase.delays = Some(delays(0.06))), unknown);
    assert_eq!(broken_off(&|phase| connections(phase).window_limited = Some(0.9)), unknown);
    // Datagrams: none has arrived after two readings, which is too early for a verdict, or none arrives at all.
    let none = |readings: usize| {
        let mut phase = datagrams([1000, 0], [1000, 0]);
        phase.throughput = None;
        let at_s = (1..=readings).map(|n| n as f64 * 0.1).collect();
        phase.series = Series { at_s, bytes: vec![0; readings], ..Series::default() };
        judged_datagrams(phase)
    };
    assert_eq!(none(2), unknown);
    assert!(matches!(none(30), LimitingFactor::Loss { share: 1.0, .. }), "{:?}", none(30));
}

/// A search that was aborted after it measured the capacity has not measured the loss below the capacity.
#[test]
fn a_search_without_an_end_takes_no_loss_for_the_line() {
    let search = |loss: f64, queue_s| {
        let mut phase = searched(99.0 * MBIT, queue_s, [loss, 0.0]);
        let capacity = phase.capacity.as_mut().unwrap();
        (capacity.complete, capacity.found.loss_beneath) = (false, None);
        Some(phase)
    };
    for queue_s in [0.0, 0.05] {
        let limit = judged(5.8 * MBIT, search(0.1, queue_s), |phase| {
            (connections(phase).sent_again, connections(phase).bytes_again) = (Some(0.01), Some(1448));
        });
        assert_matches!(limit, LimitingFactor::Loss { beneath: false, searched: true, .. });
    }
}

#[test]
fn without_a_search_a_queue_tells_a_line_from_other_losses() {
    let limit = judged(50.0 * MBIT, None, |phase| phase.delays = Some(delays(0.06)));
    assert_matches!(limit, LimitingFactor::Line { queue_s, .. } if (queue_s - 0.04).abs() < 1e-9);
    let limit = judged(5.0 * MBIT, None, |phase| connections(phase).sent_again = Some(0.02));
    assert_matches!(limit, LimitingFactor::Loss { .. });
    assert_eq!(judged(5.0 * MBIT, None, |_| {}), LimitingFactor::Unknown { steady: true });
}

/// Datagrams at a fixed rate. `sent` has the number sent and the number that the sender skipped; `lost` has the number
/// lost and how many of these the receiver's socket dropped.
fn datagrams(sent: [u64; 2], lost: [u64; 2]) -> PhaseReport {
    let received = sent[0] - lost[0];
    let came = Datagrams { received, lost: lost[0], dropped: Some(lost[1]), ..Datagrams::default() };
    let mut phase = download(10.0 * MBIT);
    phase.carrier = Carrier::Udp {
        way: DataDirection::Down,
        size: 1200,
        load: DatagramLoad::Fixed { bits_per_s: 10_000_000 },
    };
    phase.connections = None;
    phase.sender.datagrams = Some(Datagrams { sent: sent[0], skipped: sent[1], ..Datagrams::default() });
    phase.receiver.datagrams = Some(came);
    phase
}

fn judged_datagrams(phase: PhaseReport) -> LimitingFactor {
    verdict(&report(vec![phase]), DataDirection::Down, false).unwrap().limit
}

#[test]
fn datagrams_of_a_rate_arrive_or_something_has_dropped_them() {
    let limit = judged_datagrams(datagrams([10_000, 0], [1, 0]));
    assert_matches!(limit, LimitingFactor::Offered { lost, .. } if (lost - 1e-4).abs() < 1e-9);
    let limit = judged_datagrams(datagrams([10_000, 500], [0, 0]));
    assert_matches!(limit, LimitingFactor::Processor { end: MeasuredHost::Server, sends: true, .. });
    let limit = judged_datagrams(datagrams([10_000, 0], [900, 880]));
    assert_matches!(
        limit,
        LimitingFactor::SocketBuffer { end: MeasuredHost::Client, dropped: 880, arrived: 9100, .. }
    );
    let mut late = datagrams([10_000, 0], [900, 880]);
    late.receiver.waited_ns = 950;
    let limit = judged_datagrams(late);
    assert_matches!(limit, LimitingFactor::Processor { end: MeasuredHost::Client, sends: false, .. });
    let limit = judged_datagrams(datagrams([10_000, 0], [100, 0]));
    assert_matches!(limit, LimitingFactor::Loss { share, .. } if (share - 0.01).abs() < 1e-9);
    let mut queued = datagrams([10_000, 0], [100, 0]);
    queued.delays = Some(delays(0.07));
    assert_matches!(judged_datagrams(queued), LimitingFactor::Line { .. });
}

#[test]
fn a_search_by_itself_is_judged_too() {
    assert_matches!(judged_datagrams(searched(50.0 * MBIT, 0.05, [0.09, 0.0])), LimitingFactor::Line { .. });
    let limit = judged_datagrams(searched(50.0 * MBIT, 0.0, [0.09, 0.0]));
    assert_matches!(limit, LimitingFactor::Policer { .. });
    // If a host lacked processor time, the result of the search is not the capacity of the line.
    let mut starved = searched(50.0 * MBIT, 0.05, [0.09, 0.0]);
    starved.receiver.waited_ns = 990;
    starved.capacity.as_mut().unwrap().by_hosts = is_by_hosts(&starved);
    assert_matches!(judged_datagrams(starved), LimitingFactor::Processor { end: MeasuredHost::Client, .. });
    // A sender that saturates the line may be busy. The received rate is still the capacity of the line.
    let mut busy = searched(50.0 * MBIT, 0.05, [0.09, 0.0]);
    busy.sender.ran_ns = 990;
    assert!(!is_by_hosts(&busy));
    busy.capacity.as_mut().unwrap().found.saturated = false;
    assert!(is_by_hosts(&busy));
    let mut all = searched(50.0 * MBIT, 0.0, [0.0, 0.0]);
    all.capacity.as_mut().unwrap().found.saturated = false;
    assert_matches!(judged_datagrams(all), LimitingFactor::Offered { .. });
}

#[test]
fn a_way_that_was_not_measured_has_no_verdict() {
    assert_eq!(verdicts(&report(vec![download(MBIT)])).len(), 1);
    assert_eq!(verdicts(&report(Vec::new())), []);
}

/// A slow radio is the limit. If the radio is fast, the line is the limit.
#[test]
fn a_radio_whose_air_is_full_is_named_in_the_place_of_the_line() {
    let over = |sends_at: f64, sent_again, failed| RadioReport {
        interface: "wlan0".to_owned(),
        signal_dbm: Some(-71),
        transmit_bit_rate: Some((sends_at * MBIT) as u64),
        receive_bit_rate: Some((sends_at * MBIT) as u64),
        sent: 1000,
        sent_again,
        failed,
    };
    let limit = judged(98.0 * MBIT, line(), |phase| phase.receiver.radio = Some(over(180.0, 0, 0)));
    assert_matches!(limit, LimitingFactor::Wifi { end: MeasuredHost::Client, .. });
    let limit = judged(98.0 * MBIT, line(), |phase| phase.sender.radio = Some(over(180.0, 240, 0)));
    assert_matches!(limit, LimitingFactor::Wifi { end: MeasuredHost::Server, sent_again, .. } if (sent_again - 0.24).abs() < 1e-9);
    let limit = judged(98.0 * MBIT, line(), |phase| phase.receiver.radio = Some(over(866.0, 240, 0)));
    assert_matches!(limit, LimitingFactor::Line { .. });
    // Frames that the radio discarded after its retries explain the loss. A closed window is the limit on any medium.
    let lossy = || Some(searched(99.0 * MBIT, 0.05, [0.1, 0.01]));
    let lost = |failed| {
        judged(20.0 * MBIT, lossy(), |phase| {
            connections(phase).bytes_again = Some(1);
            phase.sender.radio = Some(over(866.0, 300, failed));
        })
    };
    assert!(
        matches!(lost(10), LimitingFactor::Wifi { .. }) && matches!(lost(0), LimitingFactor::Loss { .. })
    );
    let limit = judged(20.0 * MBIT, line(), |phase| {
        connections(phase).window_limited = Some(0.9);
        phase.receiver.radio = Some(over(20.0, 0, 0));
    });
    assert_matches!(limit, LimitingFactor::Window { .. });
}

/// If the kernel did not choose the window, the advice is not a kernel setting.
#[test]
fn a_window_is_mended_where_it_was_chosen() {
    let advice = |way, chosen| {
        let mut phase = download(20.0 * MBIT);
        phase.way = way;
        phase.carrier = Carrier::Sctp { way, streams: 3, size: 1232 };
        connections(&mut phase).window_limited = Some(0.9);
        phase.receiver.window = chosen;
        verdict(&report(vec![phase]), way, false).unwrap().advice.unwrap()
    };
    assert!(advice(DataDirection::Down, None).contains("net.ipv4.tcp_rmem at this host"));
    assert!(advice(DataDirection::Down, Some(30_000)).contains("have this host offer"));
    assert!(advice(DataDirection::Up, Some(12_500_000)).contains("carry it over TCP"));
}

/// The rate that the server admits limits a session, regardless of the capacity of the line.
#[test]
fn a_server_that_lets_a_session_have_less_is_the_limit() {
    let of = |payload: f64, phases: Vec<PhaseReport>| {
        let report = SpeedReport { held_to: Some(payload), ..report(phases) };
        verdict(&report, DataDirection::Down, false).unwrap()
    };
    let verdict = of(20.0 * MBIT, vec![download(20.5 * MBIT)]);
    assert_matches!(verdict.limit, LimitingFactor::Server { .. });
    assert_eq!(
        verdict.sentence,
        "the download is limited by the server, which limits a session to 20 Mbit/s of payload"
    );
    let verdict = of(200.0 * MBIT, vec![download(98.0 * MBIT), line().unwrap()]);
    assert_matches!(verdict.limit, LimitingFactor::Line { .. });
    let mut search = searched(20.7 * MBIT, 0.0, [0.0, 0.0]);
    search.capacity.as_mut().unwrap().found.saturated = false;
    let verdict = of(20.0 * MBIT, vec![search]);
    assert_matches!(verdict.limit, LimitingFactor::Server { .. });
}

/// Echoes with these one-way delays, s, without loss.
fn ways(up: f64, down: f64) -> OneWay {
    OneWay { up: delays(up), down: delays(down), bound_s: 0.0 }
}

/// A report with one-way delays of 10 ms in each direction on the idle path.
fn report_of_ways(phases: Vec<PhaseReport>) -> SpeedReport {
    SpeedReport { idle_ways: Some(ways(0.01, 0.01)), ..report(phases) }
}

/// A queue in the direction of the acknowledgements is not a queue of the data (RFC 3449).
#[test]
fn a_queue_is_of_its_direction() {
    let of = |up, down, capacity: Option<PhaseReport>| {
        let mut phase = download(7.0 * MBIT);
        (phase.delays, phase.ways) = (Some(delays(up + down)), Some(ways(up, down)));
        connections(&mut phase).bytes_again = Some(1);
        verdict(
            &report_of_ways([vec![phase], capacity.into_iter().collect()].concat()),
            DataDirection::Down,
            false,
        )
        .unwrap()
    };
    for capacity in [None, line()] {
        let told = of(0.166, 0.0105, capacity);
        let limit = told.limit.clone();
        assert_matches!(limit, LimitingFactor::WayBack { queue_s, .. } if (queue_s - 0.156).abs() < 1e-9);
        assert!(told.sentence.starts_with("the download is limited by the way back"), "{told:?}");
    }
    let told = of(0.01, 0.06, None);
    assert_matches!(told.limit, LimitingFactor::Line { queue_s, .. } if (queue_s - 0.05).abs() < 1e-9);
    // If both directions have a queue, the verdict is the queue of the data.
    assert!(matches!(of(0.166, 0.06, None).limit, LimitingFactor::Line { .. }));
}

/// On a slow line with a long queue, many segments are retransmitted, but they arrive.
#[test]
fn a_slow_upload_is_no_black_hole() {
    let mut phase = download(0.25 * MBIT);
    let carried = |bytes| Series { at_s: vec![4.0], bytes: vec![bytes], ..Series::default() };
    phase.series = carried(90_000);
    connections(&mut phase).bytes_again = Some(140_000);
    phase.delays = Some(delays(0.3));
    let told = verdict(&report(vec![phase.clone()]), DataDirection::Down, false).unwrap();
    assert_matches!(told.limit, LimitingFactor::Line { .. });
    // A line that is too slow to deliver the first packet in time is not a black hole either.
    phase.series = carried(1000);
    let told = verdict(&report(vec![phase.clone()]), DataDirection::Down, false).unwrap();
    assert!(!matches!(told.limit, LimitingFactor::BlackHole { .. }), "{told:?}");
    phase.delays = Some(delays(0.02));
    let told = verdict(&report(vec![phase]), DataDirection::Down, false).unwrap();
    assert_matches!(told.limit, LimitingFactor::BlackHole { mtu: Some(1500), .. });
}

/// If the program chose the size of a buffer, the advice is to change it in the program. A send buffer that limits a
/// paced sender is detected although the kernel counts no time for it.
#[test]
fn buffers_that_a_program_chose_are_mended_there() {
    let advice = |change: &dyn Fn(&mut PhaseReport)| {
        let mut phase = download(5.0 * MBIT);
        change(&mut phase);
        let told = verdict(&report(vec![phase]), DataDirection::Down, false).unwrap();
        (told.limit, told.proof, told.advice.unwrap_or_default())
    };
    let (.., kernels) = advice(&|phase| connections(phase).buffer_limited = Some(0.5));
    assert!(kernels.contains("net.ipv4.tcp_wmem at the server to"), "{kernels}");
    let paced = |chosen| {
        advice(&move |phase: &mut PhaseReport| {
            // The rate corresponds to 3 kB in flight per connection.
            connections(phase).cwnd = Some(60_000.0);
            phase.sender.buffers = Some([4096, 0]);
            phase.sender.chosen_buffers = [chosen, false];
        })
    };
    let (limit, proof, advice_of) = paced(true);
    assert_matches!(limit, LimitingFactor::SendBuffer { chosen: true, .. });
    assert!(
        proof.contains("congestion window was 60 KB") && advice_of.contains("--send-buffer"),
        "{proof} {advice_of}"
    );
    assert!(matches!(paced(false).0, LimitingFactor::Unknown { .. }));
    let (.., windows) = advice(&|phase| {
        connections(phase).window_limited = Some(0.9);
        phase.receiver.chosen_buffers = [false, true];
    });
    assert!(windows.contains("--receive-buffer") && !windows.contains("tcp_rmem"), "{windows}");
}

#[test]
fn each_way_of_both_has_its_sentence() {
    let mut phase = download(5.0 * MBIT);
    phase.carrier = Carrier::Tcp { way: DataDirection::Both, streams: 4, congestion: None };
    let told = verdicts(&report(vec![download(8.0 * MBIT), phase]));
    let names: Vec<_> =
        told.iter().map(|told| (told.at_once, told.sentence.split(':').next().unwrap())).collect();
    assert_eq!(names, [(false, "the download"), (true, "the download beside the upload")]);
}

#[test]
fn a_search_without_an_end_and_what_is_not_steady_say_so() {
    let mut search = searched(50.0 * MBIT, 0.0, [0.0, 0.0]);
    let capacity = search.capacity.as_mut().unwrap();
    (capacity.complete, capacity.found) =
        (false, FoundCapacity { arrived: 100.0, ..FoundCapacity::default() });
    let limit = judged_datagrams(search);
    assert_eq!(limit, LimitingFactor::Unfinished);
    let mut phase = download(5.0 * MBIT);
    phase.throughput.as_mut().unwrap().steady = false;
    let told = verdict(&report(vec![phase]), DataDirection::Down, false).unwrap();
    assert!(told.sentence.contains("was not steady") && told.advice.unwrap().contains("--time"));
}
