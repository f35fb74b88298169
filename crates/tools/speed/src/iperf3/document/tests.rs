//! Compares the content of the document with values that were computed by hand. Its names are compared with those of
//! iperf3 in `tests/it/iperf3/mod.rs`.

use serde_json::Value;

use super::*;
use crate::iperf3::{CpuUse, TestParameters};

fn stream(socket: u32, sends: bool, bytes: u64) -> StreamReadings {
    let tcp = TcpReadings {
        retransmits: 1,
        congestion_window: 10,
        rtt: u64::from(socket),
        ..TcpReadings::default()
    };
    let interval = |start: f64, omitted| StreamInterval {
        start,
        end: start + 1.0,
        omitted,
        bytes,
        tcp: sends.then_some(tcp),
        udp: UdpReadings { packets: 10, lost: 1, out_of_order: 0, jitter: 0.002 },
    };
    let end = StreamTotals {
        seconds: 2.0,
        bytes: 2 * bytes,
        retransmits: sends.then_some(2),
        ..StreamTotals::default()
    };
    StreamReadings {
        path: StreamPath {
            socket,
            local: "[::ffff:127.0.0.1]:1".parse().unwrap(),
            remote: "127.0.0.1:5201".parse().unwrap(),
        },
        sends,
        intervals: vec![interval(0.0, true), interval(0.0, false), interval(1.0, false)],
        local: Some(end),
        remote: None,
    }
}

fn document(asked: TestParameters, streams: Vec<StreamReadings>) -> TestDocument {
    TestDocument {
        start: DocumentStart {
            version: "iperf 3.12".into(),
            system: "Linux".into(),
            unix_seconds: 1_795_432_637,
            role: TestRole::Client { host: "h".into(), port: 5201 },
            cookie: "c".into(),
            asked,
            mss: 1448,
            send_buffer: 1,
            receive_buffer: 2,
        },
        streams,
        cpu: CpuUse::default(),
        remote_cpu: CpuUse { total: f64::NAN, ..CpuUse::default() },
        congestion: Some("cubic".into()),
        remote_congestion: Some("bbr".into()),
        server_output: None,
        error: None,
    }
}

fn json(document: &TestDocument) -> Value {
    serde_json::from_str(&document.json()).unwrap()
}

#[test]
fn sums_are_those_of_their_streams() {
    let asked = TestParameters { parallel: 2, ..TestParameters::default() };
    let json = json(&document(asked, vec![stream(5, true, 100), stream(7, true, 200)]));
    assert_eq!(json["start"]["connected"][0]["local_host"], "127.0.0.1");
    assert_eq!(json["start"]["timestamp"]["time"], "Mon, 23 Nov 2026 11:17:17 GMT", "as iperf3 printed it");
    let intervals = json["intervals"].as_array().unwrap();
    assert_eq!(intervals.len(), 3);
    assert_eq!(
        (&intervals[0]["sum"]["omitted"], &intervals[1]["sum"]["omitted"]),
        (&true.into(), &false.into())
    );
    assert_eq!(
        (&intervals[2]["sum"]["bytes"], &intervals[2]["sum"]["retransmits"]),
        (&300.into(), &2.into())
    );
    assert_eq!(intervals[2]["sum"]["bits_per_second"], 2400.0);
    let end = &json["end"];
    assert_eq!((&end["sum_sent"]["bytes"], &end["sum_sent"]["retransmits"]), (&600.into(), &4.into()));
    assert_eq!((&end["sum_received"]["bytes"], &end["sum_received"]["seconds"]), (&0.into(), &2.0.into()));
    assert_eq!(end["streams"][1]["sender"]["mean_rtt"], 7);
    assert_eq!(
        (&end["sender_tcp_congestion"], &end["receiver_tcp_congestion"]),
        (&"cubic".into(), &"bbr".into())
    );
    assert_eq!(end["cpu_utilization_percent"]["remote_total"], 0.0);
}

#[test]
fn the_second_direction_has_names_of_its_own() {
    let asked = TestParameters { direction: DataDirection::Both, ..TestParameters::default() };
    let mut document = document(asked, vec![stream(5, true, 100), stream(7, false, 200)]);
    let bytes = |json: &Value| {
        (
            json["intervals"][1]["sum"]["bytes"].clone(),
            json["intervals"][1]["sum_bidir_reverse"]["bytes"].clone(),
        )
    };
    let of_client = json(&document);
    assert_eq!(bytes(&of_client), (100.into(), 200.into()));
    assert_eq!(of_client["end"]["sum_received_bidir_reverse"]["bytes"], 400);
    assert_eq!(of_client["end"]["receiver_tcp_congestion"], "cubic", "of the direction that was told last");
    document.start.role = TestRole::Server { host: "127.0.0.1".into(), port: 9 };
    assert_eq!(bytes(&json(&document)), (200.into(), 100.into()));
}

#[test]
fn loss_is_of_what_was_sent() {
    let asked = TestParameters {
        transport: TestTransport::Udp,
        direction: DataDirection::Down,
        ..TestParameters::default()
    };
    let mut received = stream(5, false, 100);
    let udp = UdpReadings { packets: 18, lost: 2, out_of_order: 1, jitter: 0.004 };
    received.local = Some(StreamTotals { seconds: 2.0, bytes: 1600, udp, ..StreamTotals::default() });
    let udp = UdpReadings { packets: 20, ..UdpReadings::default() };
    received.remote = Some(StreamTotals { seconds: 2.5, bytes: 2000, udp, ..StreamTotals::default() });
    let json = json(&document(asked, vec![received]));
    assert_eq!(json["intervals"][1]["sum"]["lost_percent"], 10.0);
    let end = &json["end"];
    assert_eq!((&end["sum"]["packets"], &end["sum"]["lost_percent"]), (&20.into(), &10.0.into()));
    assert_eq!((&end["sum_sent"]["bytes"], &end["sum_sent"]["lost_packets"]), (&2000.into(), &0.into()));
    assert_eq!(
        (&end["sum_received"]["packets"], &end["sum_received"]["jitter_ms"]),
        (&18.into(), &4.0.into())
    );
    assert_eq!(end["streams"][0]["udp"]["out_of_order"], 1);
    assert_eq!(json["start"]["tcp_mss_default"], Value::Null);
}

#[test]
fn a_test_that_came_to_nothing_has_an_empty_end() {
    let mut document = document(TestParameters::default(), Vec::new());
    document.error = Some("it broke".into());
    let json = json(&document);
    assert_eq!((&json["end"], &json["error"]), (&serde_json::json!({}), &"it broke".into()));
}

#[test]
fn dates_are_right() {
    for (seconds, date) in [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (951_868_799, "Tue, 29 Feb 2000 23:59:59 GMT"),
        (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
        (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
    ] {
        assert_eq!(http_date(seconds), date);
    }
}
