//! Every packet of a flow leaves both ends with the code point of the flow, even if routers have changed the code
//! points of received packets.

use netrig_core::Heading;
use netrig_test_support::ExperimentText;
use netrig_tests::watch;

/// A flow with this code point over this transport. The first link marks packets to the server as `cs1`, and drops some
/// of them, so that there are retransmissions. The applications upload files or send requests, over connections that
/// open and close.
fn flow(dscp: &str, transport: &str, application: &str) -> String {
    ExperimentText::new("code-points", "5 s")
        .nodes("client router server")
        .fifo(
            "access",
            "client router",
            ("10 Mbit/s", "5 ms", 50),
            r#"condition = [{ green = "cs1" }], reverse = { condition = [] },
            loss = { kind = "bernoulli", probability = "2 %" }"#,
        )
        .fifo("line", "router server", ("5 Mbit/s", "5 ms", 50), "")
        .table("transport.tcp", r#"kind = "tcp""#)
        .table("transport.sctp", r#"kind = "sctp""#)
        .table("transport.udp", r#"kind = "udp""#)
        .flow(
            "data",
            "client server",
            &format!(r#"transport = "{transport}", {dscp}, application = {{ {application} }}"#),
        )
        .response("drops", "link.access", "drops")
        .build()
}

const WEB: &str = r#"kind = "web", exchange = "request", interarrival = { constant = "50 ms" }, size = { constant = "20 KB" }"#;
const FILES: &str =
    r#"kind = "file", size = { constant = "30 KB" }, count = 5, pause = { constant = "100 ms" }"#;
const CBR: &str = r#"kind = "cbr", rate = "1 Mbit/s", size = "512 B""#;

/// The code points of the packets that leave a node: the upper six bits of the second byte (RFC 2474 section 3).
fn sent(text: &str, node: &str, link: u32) -> Vec<u8> {
    let (run, tape) = watch(text, 1, &[node]);
    let place = run.scenario.nodes.iter().position(|known| known.name == node).expect("a node of the file");
    let frames = tape.frames(place as u32, link, Heading::Outbound);
    frames.iter().map(|frame| frame.bytes[1] >> 2).collect()
}

#[test]
fn both_ends_send_every_packet_with_the_code_point_of_the_flow() {
    let code_points =
        [("dscp = 'EF'", 46), ("dscp = 'af41'", 34), ("dscp = 'CS1'", 8), ("dscp = 63", 63), ("", 0)];
    for (transport, application) in [("tcp", FILES), ("tcp", WEB), ("sctp", FILES), ("sctp", WEB)] {
        for (dscp, value) in code_points {
            let text = flow(dscp, transport, application);
            for (node, link) in [("client", 0), ("server", 1)] {
                let seen = sent(&text, node, link);
                let what = format!("{transport}, {dscp}, {node}: {seen:?}");
                assert!(seen.len() > 20, "{what}");
                assert!(seen.iter().all(|seen| *seen == value), "{what}");
            }
        }
    }
    for (dscp, value) in code_points {
        let seen = sent(&flow(dscp, "udp", CBR), "client", 0);
        assert!(seen.len() > 500 && seen.iter().all(|seen| *seen == value), "udp, {dscp}: {seen:?}");
    }
}

/// Packets arrive with the mark of the router. The other direction is not marked.
#[test]
fn a_router_changes_what_passes_it_and_nothing_else() {
    let text = flow("dscp = 'EF'", "tcp", FILES);
    let (_, tape) = watch(&text, 1, &["client", "server"]);
    let arrived = |node, link| -> Vec<u8> {
        tape.frames(node, link, Heading::Inbound).iter().map(|frame| frame.bytes[1] >> 2).collect()
    };
    assert!(arrived(2, 1).len() > 20 && arrived(2, 1).iter().all(|seen| *seen == 8));
    assert!(arrived(0, 0).len() > 20 && arrived(0, 0).iter().all(|seen| *seen == 46));
}
