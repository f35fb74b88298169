//! Metrics agree with their definitions in small scenarios whose values can be computed by hand.

use std::collections::BTreeMap;

use netrig_core::{Subject, quantity};
use netrig_test_support::ExperimentText;
use netrig_tests::{simulate, watch};

/// The responses of a simulation with two nodes, a line of 8 Mbit/s and 10 ms that is never full, and `rest`. A
/// response is given as (name, flow, metric, further entries).
fn measure(line: &str, rest: &str, responses: &[(&str, &str, &str, &str)]) -> BTreeMap<String, f64> {
    let mut text = ExperimentText::new("definition", "10 s")
        .nodes("a b")
        .fifo("line", "a b", ("8 Mbit/s", "10 ms", 1000), line)
        .text(rest)
        .build();
    for (name, of, metric, more) in responses {
        text += &format!("[response.{name}]\nof = \"{of}\"\nmetric = \"{metric}\"\n{more}\n");
    }
    simulate(&text, None, 1, |_| true).remove(0).responses
}

/// A flow with a datagram of 500 B of payload every 10 ms, with 28 B of headers or without headers.
fn datagrams(headers: &str) -> String {
    format!(
        r#"
[transport.t]
kind = "udp"
headers = "{headers}"
[flow.f]
from = "a"
to = "b"
transport = "t"
application = {{ kind = "cbr", interval = "10 ms", size = "500 B" }}
"#
    )
}

const LOSS: (&str, &str, &str, &str) = ("loss", "flow.f", "datagram_loss", "");

/// The thousandth datagram is sent at the end of the run, and the one before it 10 ms earlier. Both may be in transit
/// at the end.
#[test]
fn what_is_on_its_way_at_the_end_is_not_lost() {
    let all = measure("", &datagrams("udp"), &[LOSS, ("sent", "flow.f", "packets_sent", "")]);
    assert_eq!((all["loss"], all["sent"]), (0.0, 1000.0));
}

/// One datagram in fifty is lost. Duplicates do not replace lost datagrams and are not counted as received.
#[test]
fn copies_of_datagrams_count_once() {
    let line = "duplicate = \"30 %\"\nloss = { kind = \"periodic\", every = 50 }";
    let received = ("received", "flow.f", "received", "");
    let all = measure(line, &datagrams("udp"), &[LOSS, received]);
    assert!((all["loss"] - 0.02).abs() < 0.001, "{}", all["loss"]);
    assert!((all["received"] - 979.0 * 500.0).abs() <= 500.0, "{}", all["received"]);
}

/// Nodes `n0`, `n1` and so on in a row with this number of links. Datagrams are sent from the first node to the last
/// during one of two seconds.
fn row(links: usize) -> String {
    let nodes: Vec<_> = (0..=links).map(|n| format!("n{n}")).collect();
    let text = ExperimentText::new("hops", "2 s")
        .with(r#"sample_every = "500 ms""#)
        .nodes(&nodes.join(" "))
        .table("transport.t", r#"kind = "udp""#)
        .flow(
            "f",
            &format!("n0 n{links}"),
            r#"transport = "t", stop = "1 s", application = { kind = "cbr", interval = "10 ms", size = "100 B" }"#,
        )
        .response("loss", "flow.f", "datagram_loss")
        .response("sent", "flow.f", "packets_sent")
        .response("at_63", "node.n63", "hop_limit_drops")
        .response("at_64", "node.n64", "hop_limit_drops");
    let lines = nodes.windows(2).enumerate();
    lines
        .fold(text, |text, (n, ends)| {
            text.fifo(&format!("l{n}"), &ends.join(" "), ("8 Mbit/s", "1 ms", 10), "")
        })
        .build()
}

/// A host sends packets with a hop limit of 64 (Linux's default), which each router decreases by one. The 64th router
/// drops and counts them (RFC 791 section 3.2).
#[test]
fn a_packet_takes_64_links_and_not_one_more() {
    let measured = |links| simulate(&row(links), None, 1, |_| true).remove(0).responses;
    let (within, beyond) = (measured(64), measured(65));
    assert_eq!((within["loss"], within["at_63"], within["at_64"]), (0.0, 0.0, 0.0));
    assert!(beyond["sent"] > 90.0, "{beyond:?}");
    assert_eq!((beyond["loss"], beyond["at_63"], beyond["at_64"]), (1.0, 0.0, beyond["sent"]));
}

/// The n-th datagram reaches the 64th router at 10n + 72.192 ms.
#[test]
fn hop_limits_are_told_in_the_interval_and_at_the_node_where_they_run_out() {
    let quantity = &quantity::HOP_LIMIT_DROPS;
    let (run, tape) = watch(&row(65), 1, &[]);
    let place = run.scenario.nodes.iter().position(|node| node.name == "n64").unwrap() as u32;
    let told = tape.values(Subject::Node(place), quantity);
    assert_eq!(told[..2], [42.0, 50.0]);
    let sent: f64 = tape.values(Subject::Flow(0), &quantity::PACKETS_SENT).iter().sum();
    assert_eq!(told.iter().sum::<f64>(), sent);
    let others = tape.samples().iter().filter(|(_, sample)| sample.quantity.name == quantity.name);
    assert_eq!(others.count(), told.len(), "no other node tells of any");
    let notes: Vec<_> = tape.notes().iter().filter(|note| note.text.contains("hop limit")).collect();
    assert!(notes.iter().all(|note| note.subject == Subject::Node(place)), "{notes:?}");
    assert_eq!(notes[0].text, "n64 dropped 42 packets since 0.000 s: their hop limit of 64 ran out");
    // Without an expired hop limit, a run reports neither this quantity nor such a note.
    let (_, tape) = watch(&row(64), 1, &[]);
    assert!(tape.samples().iter().all(|(_, sample)| sample.quantity.name != quantity.name));
    assert!(tape.notes().iter().all(|note| !note.text.contains("hop limit")));
}

/// A transfer of ten segments of 1448 B. All their acknowledgements are lost, so data arrive again after everything has
/// arrived. The transfer time does not include the duplicates.
#[test]
fn copies_do_not_lengthen_a_transfer() {
    let measured = |line: &str| {
        let rest = r#"
[transport.t]
kind = "tcp"
profile = "rfc"
[flow.f]
from = "a"
to = "b"
transport = "t"
application = { kind = "bulk", bytes = "14480 B" }
"#;
        let of = |metric: &'static str| (metric, "flow.f", metric, "");
        let metrics = ["transfer_time", "transfer_rate", "retransmitted_bytes", "data_packets_received"];
        measure(line, rest, &metrics.map(of))
    };
    let (clean, copied) = (measured(""), measured("reverse = { drop = [2, 3, 4, 5, 6, 7, 8] }"));
    assert!(copied["retransmitted_bytes"] > 0.0 && copied["data_packets_received"] > 10.0, "{copied:?}");
    assert_eq!(copied["transfer_time"], clean["transfer_time"]);
    assert_eq!(copied["transfer_rate"], clean["transfer_rate"]);
}

/// The n-th datagram arrives at 10n + 10.528 ms; 998 arrive. With 4 ms for each the host is busy for 3.992 s. With
/// 25.0007 ms for each it is busy from the first datagram on. At the end of the run it has served 399 and has two more,
/// of which one waits.
#[test]
fn a_host_is_busy_with_what_it_receives() {
    let host = |receive: &str| {
        let rest = format!("{}\n[node.b.receive]\n{receive}\n", datagrams("udp"));
        let [busy, drops] =
            ["receive_utilisation", "receive_drops"].map(|metric| (metric, "node.b", metric, ""));
        let all = measure("", &rest, &[busy, drops]);
        (all["receive_utilisation"], all["receive_drops"])
    };
    let (busy, drops) = host("per_packet = \"4 ms\"");
    assert!((busy - 0.3992).abs() < 1e-9 && drops == 0.0, "{busy}, {drops}");
    let (busy, drops) = host("per_packet = \"25.0007 ms\"\nqueue = 2");
    assert!((busy - 0.997_947_2).abs() < 1e-9 && drops == 998.0 - 401.0, "{busy}, {drops}");
}

/// A rate counts IP packets, even with headers of zero length.
#[test]
fn a_rate_is_of_packets_as_they_are_on_the_line() {
    for headers in ["udp", "none"] {
        let rest = datagrams(headers)
            .replace("interval = \"10 ms\", size = \"500 B\"", "rate = \"1 Mbit/s\", size = \"100 B\"");
        let all = measure("", &rest, &[("rate", "link.line", "rate", "")]);
        assert!((all["rate"] - 1e6).abs() < 2e3, "{headers}: {} bit/s", all["rate"]);
    }
}

fn transfer(of: &str, more: &str) -> String {
    format!(
        r#"
[transport.t]
kind = "tcp"
[flow.{of}]
from = "a"
to = "b"
transport = "t"
{more}
"#
    )
}

/// An object of 50 KB per second, each requested with 10 KB. The requests are not part of the received data.
#[test]
fn what_is_received_is_the_data_and_not_the_requests() {
    let web = transfer(
        "f",
        r#"application = { kind = "web", exchange = "request", request = "10 KB", interarrival = { constant = "1 s" }, size = { constant = "50 KB" } }"#,
    );
    let all = measure(
        "",
        &web,
        &[
            ("objects", "flow.f", "objects_received", ""),
            ("received", "flow.f", "received", ""),
            ("packets", "flow.f", "data_packets_received", ""),
            ("sent", "flow.f", "data_packets_sent", ""),
        ],
    );
    assert!(all["objects"] >= 9.0, "{all:?}");
    assert_eq!(all["received"], 50_000.0 * all["objects"]);
    // An object has 34 full segments and one of 768 B.
    assert_eq!((all["packets"], all["sent"]), (35.0 * all["objects"], 35.0 * all["objects"]));
}

/// Two transfers; the second starts at 9 s. Over the 10 s, the sum of their rates is that of the line.
#[test]
fn the_rates_of_a_group_add_up_to_that_of_the_line() {
    let two = transfer("f", "count = 2\nstagger = \"9 s\"\napplication = { kind = \"bulk\" }");
    let all = measure(
        "",
        &two,
        &[
            ("goodput", "flow.f", "goodput", ""),
            ("wire", "flow.f", "wire_throughput", ""),
            ("received", "flow.f", "received", ""),
        ],
    );
    assert!((all["goodput"] - all["received"] / 10.0).abs() < 1e-6, "{}", all["goodput"]);
    assert!(all["wire"] > 0.9e6 && all["wire"] <= 1e6, "{}", all["wire"]);
}

/// Two equal senders; the second starts halfway. While both send, fairness is 1, by rate and by amount.
#[test]
fn fairness_is_judged_while_all_take_part() {
    let two = datagrams("udp").replace("[flow.f]", "[flow.f]\ncount = 2\nstagger = \"5 s\"");
    let jain = "per = \"jain\"";
    let all =
        measure("", &two, &[("rate", "flow.f", "goodput", jain), ("amount", "flow.f", "received", jain)]);
    assert!(all["rate"] > 0.999 && all["amount"] > 0.999, "{all:?}");
}

#[test]
fn a_bulk_transfer_with_an_end_is_an_object() {
    let bulk = transfer("f", "application = { kind = \"bulk\", bytes = \"1 MB\" }");
    let all = measure(
        "",
        &bulk,
        &[("objects", "flow.f", "objects_received", ""), ("time", "flow.f", "object_time", "")],
    );
    assert_eq!(all["objects"], 1.0);
    assert!(all["time"] > 1.0 && all["time"] < 1.5, "{}", all["time"]);
}

/// One flow sends 1 MB, another 2 MB at the same time, and a third one sends without end. The run ends when the second
/// flow has delivered its last byte and its connection is closed. Rates refer to the time until then, during which the
/// line of 8 Mbit/s is always full.
#[test]
fn a_run_ends_with_its_flows() {
    let text = |ends_with: &str| {
        let flow = |name: &str, bytes: &str| {
            format!(
                "[flow.{name}]\nfrom = \"a\"\nto = \"b\"\ntransport = \"t\"\n\
                 application = {{ kind = \"bulk\"{bytes} }}\n"
            )
        };
        let flows =
            flow("small", ", bytes = \"1 MB\"") + &flow("large", ", bytes = \"2 MB\"") + &flow("endless", "");
        ExperimentText::new("ends", "100 s")
            .with(&format!(r#"sample_every = "1 s", {ends_with}"#))
            .nodes("a b")
            .fifo("line", "a b", ("8 Mbit/s", "10 ms", 1000), "")
            .table("transport.t", r#"kind = "tcp""#)
            .response("time", "flow.large", "transfer_time")
            .responses("link.line", &["utilisation", "rate"])
            .text(&flows)
            .build()
    };
    let run = |ends_with| simulate(&text(ends_with), None, 1, |_| true).remove(0);
    let whole = run("");
    assert_eq!(whole.outcome.lasted, None);
    for ends_with in ["ends_with = \"large\"", "ends_with = [\"small\", \"large\"]"] {
        let ended = run(ends_with);
        let lasted = ended.outcome.lasted.expect("the run ends with its flow").as_secs_f64();
        let [time, utilisation, rate] = ["time", "utilisation", "rate"].map(|name| ended.responses[name]);
        assert_eq!(time, whole.responses["time"], "what happens before is the same");
        // The run also includes the last data, their acknowledgement and the FINs, which wait in the queue.
        assert!(lasted > time && lasted < time + 2.0, "{lasted} s, data until {time} s");
        assert!(utilisation > 0.98 && utilisation <= 1.0, "{utilisation}");
        // Packets in transit at the end were sent, but not delivered.
        assert!((rate - 8e6 * utilisation).abs() * lasted < 8e6 * 0.011 + 1e-3, "{rate} bit/s");
    }
    let small = run("ends_with = \"small\"").outcome.lasted.expect("it ends");
    assert!(small.as_secs_f64() < whole.responses["time"] / 1.2);
}
