//! Both ends of flows over the loopback interface. The kernel must carry exactly the data that the applications send.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration as StdDuration;

use netrig_agent::{CarrierOptions, EndOrder, EndReport, PreparedRun, RunOrder, Samples};
use netrig_core::{Duration, Instant, Rate, Size, Subject, quantity};
use netrig_host::socket::TcpOptions;
use netrig_host::{Clock, DatagramStamp, PayloadKind, RunSignals};
use netrig_traffic::{AppAction, AppEvent, Clip, FlowSide, ReadSteps, Reads, Settings, react};

use crate::it::common::{PATIENCE, SEED, carry_out, end, order, sum, values};

fn localhost(v6: bool) -> IpAddr {
    if v6 { [0, 0, 0, 0, 0, 0, 0, 1].into() } else { [127, 0, 0, 1].into() }
}

/// A port on which no socket listens at this moment.
fn free_port(ip: IpAddr) -> u16 {
    TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap().port()
}

/// Runs both ends of a flow in one run, which ends when `done` returns true for the samples so far.
fn both(
    application: &str,
    carrier: &CarrierOptions,
    v6: bool,
    stop: Duration,
    done: impl Fn(&Samples) -> bool,
) -> (Vec<EndReport>, Samples) {
    let server = SocketAddr::new(localhost(v6), free_port(localhost(v6)));
    let ends = [FlowSide::Client, FlowSide::Server]
        .map(|side| end(side, application, carrier.clone(), server, stop));
    carry_out(order(PATIENCE, ends.into()), done)
}

/// The times and sizes of the datagrams that the application sends in virtual time, without an agent.
fn decided(order: &EndOrder, until: Instant) -> Vec<(Instant, u64)> {
    let mut source = order.make_application(SEED);
    let mut out = vec![];
    let mut next = react(&mut *source, order.start(), AppEvent::Started, |_| {});
    while let Some(at) = next.filter(|at| *at < until) {
        next = react(&mut *source, at, AppEvent::Timeout, |action| {
            if let AppAction::Datagram { data, .. } = action {
                out.push((at, data.size()));
            }
        });
    }
    out
}

/// The intended send times and the sizes of the datagrams that a plain socket receives from an agent's source, in the
/// order of sending.
fn received(
    application: &str,
    v6: bool,
    span: Duration,
    count: impl Fn(&EndOrder) -> usize,
) -> (EndOrder, Vec<(Instant, u64)>) {
    let socket = UdpSocket::bind((localhost(v6), 0)).unwrap();
    socket.set_read_timeout(Some(StdDuration::from_secs(20))).unwrap();
    let server = socket.local_addr().unwrap();
    let client = end(FlowSide::Client, application, CarrierOptions::Udp(Default::default()), server, span);
    let run = order(span + Duration::from_millis(20), vec![client.clone()]);
    let count = count(&client);
    // Datagrams of video have no stamp: they equal the clip's packets.
    let clip = matches!(client.application, Settings::Video(_)).then(Clip::moving);
    let start = client.start();
    let receiver = std::thread::spawn(move || {
        let (mut buffer, mut got) = (vec![0; 65_536], vec![]);
        while got.len() < count
            && let Ok(len) = socket.recv(&mut buffer)
        {
            let (number, intended) = if let Some(clip) = &clip {
                let number = clip.number_of(&buffer[..len], got.len() as u64).unwrap();
                (number, start + clip.due(number))
            } else {
                let stamp = DatagramStamp::decode(&buffer[..len]).unwrap();
                assert!(stamp.sent >= stamp.intended());
                (stamp.number, stamp.intended())
            };
            got.push((number, intended, len as u64));
        }
        got.sort_unstable();
        assert!(got.iter().map(|(number, ..)| *number).eq(0..got.len() as u64));
        got.into_iter().map(|(_, intended, size)| (intended, size)).collect()
    });
    let (reports, _) = carry_out(run, |_| false);
    assert_eq!(reports[0].source.as_ref().unwrap().sent, count as u64);
    (client, receiver.join().unwrap())
}

#[test]
fn the_same_seed_offers_the_same_datagrams_as_in_virtual_time() {
    let span = Duration::from_millis(150);
    let size = r#"{ "uniform": { "min": "64 B", "max": "1000 B" } }"#;
    for (application, v6) in [
        (format!(r#"{{ "poisson": {{ "interarrival": "1 ms", "size": {size} }} }}"#), false),
        (format!(r#"{{ "poisson": {{ "rate": "4 Mbit/s", "size": {size} }} }}"#), true),
        (r#"{ "cbr": { "interval": "777 us", "size": "100 B" } }"#.into(), false),
        (r#"{ "voice": { "packet": "10 ms", "talk": "spurts" } }"#.into(), false),
        (r#"{ "video": {} }"#.into(), true),
        (
            r#"{ "trace": { "datagrams": [["1 ms", "64 B"], ["0 s", "64 B"], ["3 ms", "900 B"]], "repeat": true } }"#
                .into(),
            false,
        ),
        (
            r#"{ "poisson": { "interarrival": "1 ms", "size": { "genome": { "sequence": "bbg" } } } }"#
                .into(),
            true,
        ),
        (
            r#"{ "on-off": { "on": { "exponential": "20 ms" }, "off": { "exponential": "10 ms" },
                 "rate": "1 Mbit/s", "size": "200 B" } }"#
                .into(),
            true,
        ),
    ] {
        let count = |order: &EndOrder| decided(order, Instant::ZERO + span).len();
        let (order, got) = received(&application, v6, span, count);
        let decided = decided(&order, Instant::ZERO + span);
        assert!(decided.len() > 6, "{application}: {}", decided.len());
        assert_eq!(got, decided, "{application}");
    }
}

#[test]
fn datagrams_balance_and_their_delays_are_told() {
    for size in [12, 27, 200] {
        a_balance_of_datagrams(size);
    }
}

/// Sends 399 datagrams of `size` bytes over each version of IP and checks that the counts of both ends agree.
fn a_balance_of_datagrams(size: u32) {
    let application = &format!(r#"{{ "cbr": {{ "interval": "500 us", "size": "{size} B" }} }}"#);
    let size = f64::from(size);
    let stop = Duration::from_millis(200);
    let done = |samples: &Samples| {
        let seen = sum(samples, &quantity::DATAGRAMS_RECEIVED)
            + sum(samples, &netrig_host::quantity::SOCKET_DROPPED);
        seen >= 399.0 && sum(samples, &quantity::DATAGRAMS_SENT) >= 399.0
    };
    for v6 in [false, true] {
        let (reports, samples) = both(application, &CarrierOptions::Udp(Default::default()), v6, stop, done);
        let [client, server] = &reports[..] else { panic!("{reports:?}") };
        // One datagram each 0.5 ms: the first at 0.5 ms, none at 200 ms, when the flow stops.
        let sent = client.source.as_ref().unwrap().sent;
        assert_eq!(sent, 399);
        let datagrams = server.datagrams.unwrap();
        let arrivals = datagrams.arrivals;
        assert_eq!(arrivals.received + arrivals.lost(), arrivals.expected);
        assert!(arrivals.expected <= sent && arrivals.duplicated == 0 && datagrams.foreign == 0);
        assert_eq!(arrivals.lost() + (sent - arrivals.expected), u64::from(datagrams.socket_dropped));
        let received = arrivals.received as f64;
        assert_eq!(sum(&samples, &quantity::DATAGRAMS_SENT), 399.0);
        assert_eq!(sum(&samples, &quantity::OFFERED_BYTES), 399.0 * size);
        assert_eq!(sum(&samples, &quantity::RECEIVED_BYTES), received * size);
        assert_eq!(sum(&samples, &quantity::WIRE_BYTES), received * (size + if v6 { 48.0 } else { 28.0 }));
        let delays = values(&samples, &quantity::ONE_WAY_DELAY);
        assert_eq!(delays.len() as f64, received);
        assert!(delays.iter().all(|delay| *delay >= 0.0));
    }
}

/// At this rate, the sender's kernel splits large messages into datagrams (GSO), and the receiver's kernel coalesces
/// received datagrams (GRO).
#[test]
fn each_of_many_datagrams_a_second_is_counted() {
    let application = r#"{ "cbr": { "interval": "8 us", "size": "400 B" } }"#;
    let stop = Duration::from_millis(80);
    let done = |samples: &Samples| {
        let seen = sum(samples, &quantity::DATAGRAMS_RECEIVED)
            + sum(samples, &netrig_host::quantity::SOCKET_DROPPED);
        seen >= 9_999.0 && sum(samples, &quantity::DATAGRAMS_SENT) >= 9_999.0
    };
    for v6 in [false, true] {
        let (reports, samples) = both(application, &CarrierOptions::Udp(Default::default()), v6, stop, done);
        let [client, server] = &reports[..] else { panic!("{reports:?}") };
        let datagrams = server.datagrams.unwrap();
        assert_eq!(client.source.as_ref().unwrap().sent, 9_999);
        assert_eq!(datagrams.arrivals.received + u64::from(datagrams.socket_dropped), 9_999);
        assert_eq!(
            (datagrams.foreign, datagrams.arrivals.duplicated, datagrams.arrivals.reordered),
            (0, 0, 0)
        );
        assert_eq!(sum(&samples, &quantity::RECEIVED_BYTES), datagrams.arrivals.received as f64 * 400.0);
        // The requested buffer holds 125,000 datagrams/s for 100 ms. The system's limit may make it smaller.
        assert!(datagrams.receive_buffer > 0);
    }
}

#[test]
fn what_is_no_datagram_of_the_flow_is_counted_apart() {
    let server = SocketAddr::new(localhost(false), free_port(localhost(false)));
    let application = r#"{ "cbr": { "interval": "10 ms", "size": "200 B" } }"#;
    let lasts = Duration::from_millis(100);
    let ends =
        vec![end(FlowSide::Server, application, CarrierOptions::Udp(Default::default()), server, lasts)];
    let run = PreparedRun::prepare(order(lasts, ends)).unwrap();
    let stray = UdpSocket::bind((localhost(false), 0)).unwrap();
    let stamp = |flow, number| {
        let (sent, late) = (Instant::ZERO, Duration::ZERO);
        DatagramStamp { flow, number, sent, late, rest: PayloadKind::Fill }.encode()
    };
    stray.send_to(b"hello", server).unwrap();
    stray.send_to(&stamp(7, 0), server).unwrap();
    stray.send_to(&stamp(0, u64::MAX), server).unwrap();
    for number in [0, 3, 1, 1] {
        stray.send_to(&stamp(0, number), server).unwrap();
    }
    let clock = Clock::starting_in(Duration::ZERO);
    let reports = run.run(clock, &RunSignals::default(), |_| {}).unwrap();
    let report = reports[0].datagrams.unwrap();
    assert_eq!(report.foreign, 3);
    let arrivals = report.arrivals;
    assert_eq!((arrivals.received, arrivals.duplicated, arrivals.reordered, arrivals.lost()), (3, 1, 1, 1));
}

#[test]
fn pings_are_answered_and_only_their_way_out_is_the_flow_s() {
    let stop = Duration::from_millis(200);
    let application = r#"{ "ping": { "interval": { "constant": "5 ms" }, "size": "64 B", "wait": "20 s" } }"#;
    let done = |samples: &Samples| values(samples, &quantity::ROUND_TRIP_TIME).len() == 39;
    for v6 in [false, true] {
        let (reports, samples) = both(application, &CarrierOptions::Udp(Default::default()), v6, stop, done);
        assert!(reports.iter().all(|report| report.failed == 0), "{reports:?}");
        // One request each 5 ms, from 5 to 195 ms.
        let round_trips = values(&samples, &quantity::ROUND_TRIP_TIME);
        let delays = values(&samples, &quantity::ONE_WAY_DELAY);
        assert_eq!((round_trips.len(), delays.len()), (39, 39));
        assert!(round_trips.iter().all(|time| *time > 0.0 && *time < 20.0));
        assert!(round_trips.iter().zip(&delays).all(|(there_and_back, there)| there_and_back > there));
        assert_eq!(sum(&samples, &quantity::DATAGRAMS_SENT), 39.0);
        assert_eq!(sum(&samples, &quantity::OFFERED_BYTES), 39.0 * 64.0);
        assert_eq!(sum(&samples, &quantity::RECEIVED_BYTES), 39.0 * 64.0);
    }
}

#[test]
fn files_arrive_whole_each_over_a_connection_of_its_own() {
    let application = r#"{ "file": { "size": { "exponential": "300 KB" }, "count": 5 } }"#;
    let done = |samples: &Samples| values(samples, &quantity::CLOSED).len() == 5;
    for (v6, multipath) in [(false, false), (true, false), (false, true)] {
        let options = TcpOptions { multipath, congestion: Some("reno".into()), ..TcpOptions::default() };
        let (reports, samples) = both(application, &CarrierOptions::Tcp(options), v6, PATIENCE, done);
        let [client, server] = &reports[..] else { panic!("{reports:?}") };
        assert_eq!((client.connections, client.failed), (5, 0), "multipath: {multipath}");
        assert_eq!((server.connections, server.failed), (5, 0));
        assert_eq!(client.fallbacks + server.fallbacks, 0, "both ends speak MPTCP");
        assert_eq!(sum(&samples, &quantity::OBJECTS_RECEIVED), 5.0);
        assert_eq!(values(&samples, &quantity::ESTABLISHED).len(), 5);
        assert_eq!(values(&samples, &quantity::CLOSED), [0.0; 5]);
        // Every offered byte arrived, and the random file sizes are the same as in virtual time.
        assert_eq!(sum(&samples, &quantity::OFFERED_BYTES), sum(&samples, &quantity::RECEIVED_BYTES));
        assert_eq!(sum(&samples, &quantity::OFFERED_BYTES), file_sizes(application, 5) as f64);
    }
}

/// The total size of the first `count` files that the application sends in virtual time, if each file is answered
/// immediately.
fn file_sizes(application: &str, count: u32) -> u64 {
    use netrig_core::{ConnectionEvent, Data, StreamId};
    let server = SocketAddr::new(localhost(false), 1);
    let order = end(
        FlowSide::Client,
        application,
        CarrierOptions::Tcp(TcpOptions::default()),
        server,
        Duration::ZERO,
    );
    let mut client = order.make_application(SEED);
    let (mut sum, mut conns) = (0, vec![]);
    let mut note = |action: AppAction, conns: &mut Vec<_>| {
        if let AppAction::Send { conn, data, .. } = action {
            sum += data.size();
            conns.push(conn);
        }
    };
    react(&mut *client, Instant::ZERO, AppEvent::Started, |action| note(action, &mut conns));
    for _ in 1..count {
        let event = ConnectionEvent::Received { stream: StreamId(0), data: Data::Fill(1) };
        let conn = *conns.last().unwrap();
        react(&mut *client, Instant::ZERO, AppEvent::Connection { conn, event }, |action| {
            note(action, &mut conns)
        });
    }
    sum
}

#[test]
fn bulk_fills_a_connection_and_tcp_is_sampled() {
    let application = r#"{ "bulk": { "seconds": "500 ms" } }"#;
    let carrier = CarrierOptions::Tcp(TcpOptions { no_delay: true, ..TcpOptions::default() });
    let done = |samples: &Samples| !values(samples, &quantity::CLOSED).is_empty();
    let (reports, samples) = both(application, &carrier, true, PATIENCE, done);
    assert!(reports.iter().all(|report| report.connections == 1 && report.failed == 0), "{reports:?}");
    let offered = sum(&samples, &quantity::OFFERED_BYTES);
    assert!(offered > 64_000.0, "more than the first block: {offered}");
    assert_eq!(sum(&samples, &quantity::RECEIVED_BYTES), offered);
    assert!(sum(&samples, &quantity::PACKETS_SENT) >= sum(&samples, &quantity::DATA_PACKETS_SENT));
    assert!(sum(&samples, &quantity::DATA_PACKETS_RECEIVED) > 0.0);
    let path = samples.iter().filter(|(subject, _)| *subject == Subject::Path(0, 0));
    let cwnd: Vec<_> = path.filter(|(_, sample)| sample.quantity.name == "cwnd").collect();
    assert!(!cwnd.is_empty() && cwnd.iter().all(|(_, sample)| sample.value >= 536.0));
    let srtt = values(&samples, &quantity::SRTT);
    assert!(!srtt.is_empty() && srtt.iter().all(|srtt| *srtt > 0.0), "{srtt:?}");
}

#[test]
fn a_busy_source_gives_the_kernel_whole_segments() {
    // Writes of 64 KB would be sent as two full segments and one of 4 KB. The TCP timestamps option takes 12 bytes of
    // each segment.
    let segment = 30_000.0;
    let application = r#"{ "bulk": { "bytes": "20 MB" } }"#;
    let options = TcpOptions { max_segment: Some(30_012), no_delay: true, ..TcpOptions::default() };
    let carrier = CarrierOptions::Tcp(options);
    let done = |samples: &Samples| !values(samples, &quantity::CLOSED).is_empty();
    let (_, samples) = both(application, &carrier, false, PATIENCE, done);
    let bytes = sum(&samples, &quantity::OFFERED_BYTES);
    assert_eq!((bytes, sum(&samples, &quantity::RECEIVED_BYTES)), (2e7, 2e7));
    // Retransmitted segments are full too.
    let again = sum(&samples, &quantity::RETRANSMITTED_BYTES);
    let segments = sum(&samples, &quantity::DATA_PACKETS_SENT);
    assert!(segments <= (bytes + again) / segment * 1.05, "{segments} segments, {again} bytes sent again");
}

#[test]
fn where_nobody_listens_a_connection_is_refused() {
    let server = SocketAddr::new(localhost(false), free_port(localhost(false)));
    let application = r#"{ "file": { "size": { "constant": "1 KB" }, "count": 1 } }"#;
    let lasts = Duration::from_millis(100);
    let carrier = CarrierOptions::Tcp(TcpOptions::default());
    let (reports, samples) =
        carry_out(order(lasts, vec![end(FlowSide::Client, application, carrier, server, lasts)]), |_| false);
    assert_eq!((reports[0].connections, reports[0].failed), (1, 1));
    // The value 3 stands for a refused connection.
    assert_eq!(values(&samples, &quantity::CLOSED), [3.0]);
}

#[test]
fn orders_that_cannot_be_are_refused_before_the_run() {
    let server = SocketAddr::new(localhost(false), free_port(localhost(false)));
    let second = Duration::from_secs(1);
    let cbr = r#"{ "cbr": { "interval": "1 ms", "size": "100 B" } }"#;
    let why = |order: RunOrder| PreparedRun::prepare(order).err().unwrap().to_string();
    let tcp = CarrierOptions::Tcp(TcpOptions::default());
    assert!(
        why(order(second, vec![end(FlowSide::Client, cbr, tcp, server, second)])).contains("sends datagrams")
    );
    let mut no_code_point =
        end(FlowSide::Client, cbr, CarrierOptions::Udp(Default::default()), server, second);
    no_code_point.dscp = 64;
    assert!(why(order(second, vec![no_code_point])).contains("above 63"));
    let mut no_interval = order(second, vec![]);
    no_interval.sample_every_ns = 0;
    assert!(why(no_interval).contains("sampling interval"));
    let mut no_sysctl = order(second, vec![]);
    no_sysctl.sysctls = vec![("kernel.hostname".into(), "x".into())];
    assert!(why(no_sysctl).contains("is not a network setting"));
}

#[test]
fn settings_survive_the_control_protocol() {
    let settings = [
        r#"{ "poisson": { "interarrival": "333333 ns", "size": { "constant": "1234567 B" } } }"#,
        r#"{ "cbr": { "rate": "1234567 bit/s", "size": "100 B" } }"#,
        r#"{ "file": { "size": { "pareto": { "mean": "10001 B", "shape": 1.37 } }, "count": 3, "pause": { "constant": "1234567 ns" } } }"#,
    ];
    for text in settings {
        let settings: Settings = serde_json::from_str(text).unwrap();
        let back = serde_json::from_str(&serde_json::to_string(&settings).unwrap()).unwrap();
        assert_eq!(settings, back);
    }
}

/// Every substrate assesses calls and videos by the sequence number and the delay of each received datagram.
#[test]
fn the_receiver_of_media_tells_which_datagrams_came() {
    let carrier = CarrierOptions::Udp(Default::default());
    for application in [r#"{ "voice": { "packet": "10 ms" } }"#, r#"{ "video": {} }"#] {
        let count = |samples: &Samples| values(samples, &quantity::MEDIA_NUMBER).len();
        let (_, samples) = both(application, &carrier, false, PATIENCE, |samples| count(samples) >= 20);
        let numbers = values(&samples, &quantity::MEDIA_NUMBER);
        assert!(
            numbers.iter().zip(0_u32..).all(|(number, place)| *number == f64::from(place)),
            "{numbers:?}"
        );
        let delays = values(&samples, &quantity::MEDIA_DELAY);
        assert_eq!((delays.len(), &delays), (numbers.len(), &values(&samples, &quantity::ONE_WAY_DELAY)));
    }
}

/// The reader takes 20 KB each 20 ms, which is 1 MB/s. The interface carries more than 1 GB/s, so only the receive
/// window of the kernel limits the sender.
#[test]
fn a_slow_reader_of_the_kernel_s_tcp_gets_as_much_as_it_reads() {
    let server = SocketAddr::new(localhost(false), free_port(localhost(false)));
    let seconds = Duration::from_secs;
    let carrier = CarrierOptions::Tcp(TcpOptions::default());
    let [source, mut sink] = [FlowSide::Client, FlowSide::Server]
        .map(|side| end(side, r#"{ "bulk": {} }"#, carrier.clone(), server, seconds(5)));
    let steps = ReadSteps { bytes: Size::from_bytes(20_000), every: Duration::from_millis(20) };
    sink.reads = Some(Reads::InSteps(steps));
    let (_, samples) = carry_out(order(seconds(5), vec![source, sink]), |_| false);
    let read = samples.iter().filter(|(_, sample)| {
        sample.quantity.name == quantity::RECEIVED_BYTES.name && sample.at > Instant::ZERO + seconds(1)
    });
    let read: f64 = read.map(|(_, sample)| sample.value).sum();
    assert!((read / 4_000_000.0 - 1.0).abs() < 0.01, "{read} B in 4 s");
}

/// A slow reader reads all data that was sent before the close, and then both ends close.
#[test]
fn a_slow_reader_of_the_kernel_s_tcp_gets_the_end_behind_the_data() {
    let server = SocketAddr::new(localhost(false), free_port(localhost(false)));
    let carrier = CarrierOptions::Tcp(TcpOptions::default());
    let [source, mut sink] = [FlowSide::Client, FlowSide::Server]
        .map(|side| end(side, r#"{ "bulk": { "bytes": "100 KB" } }"#, carrier.clone(), server, PATIENCE));
    sink.reads = Some(Reads::AtRate(Rate::from_bits_per_s(800_000)));
    let closed = |samples: &Samples| !values(samples, &quantity::CLOSED).is_empty();
    let (_, samples) = carry_out(order(PATIENCE, vec![source, sink]), closed);
    let times = values(&samples, &quantity::OBJECT_TIME);
    // 100 KB at 100 KB/s take 1 s. The close is reported without further delay.
    assert!(times.len() == 1 && times[0] >= 0.99 && times[0] < 3.0, "{times:?}");
    assert_eq!(values(&samples, &quantity::CLOSED), [0.0]);
}
