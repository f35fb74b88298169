//! Files arrive completely: with any transport, message size, number of streams and loss, a connection that reports
//! complete delivery has delivered every byte.

use netrig_test_support::ExperimentText;
use netrig_tests::simulate;

const FILE: u64 = 1_000_003;

fn experiment() -> String {
    ExperimentText::new("whole-files", "1000 s")
        .with(r#"ends_with = "file""#)
        .table(
            "factors",
            r#"transport = ["tcp", "tcp-nodelay", "sctp-1", "sctp-5", "sctp-nodelay"],
            message = ["100 B", "365 B", "1460 B", "64 KB", "300 KB"], streams = [1, 5],
            loss = ["0 %", "5 %"]"#,
        )
        .table("replications", "count = 1")
        .nodes("a b")
        .fifo(
            "line",
            "a b",
            ("20 Mbit/s", "20 ms", 50),
            r#"loss = { kind = "bernoulli", probability = "${loss}" }"#,
        )
        .table("transport.tcp", r#"kind = "tcp""#)
        .table("transport.tcp-nodelay", r#"kind = "tcp", nagle = "off""#)
        .table("transport.sctp-1", r#"kind = "sctp""#)
        .table("transport.sctp-5", r#"kind = "sctp", streams = 5"#)
        .table("transport.sctp-nodelay", r#"kind = "sctp", nagle = false, streams = 5"#)
        .flow(
            "file",
            "a b",
            &format!(
                r#"transport = "${{transport}}",
            application = {{ kind = "bulk", bytes = "{FILE} B", message = "${{message}}",
            streams = "${{streams}}" }}"#
            ),
        )
        .response("received", "flow.file", "received")
        .response("rate", "flow.file", "transfer_rate")
        .build()
}

#[test]
fn every_byte_arrives() {
    let runs = simulate(&experiment(), None, 1, |_| true);
    assert_eq!(runs.len(), 5 * 5 * 2 * 2);
    for run in runs {
        assert_eq!(run.responses["received"], FILE as f64, "{:?}", run.levels);
        assert!(run.responses.contains_key("rate"), "{:?}: the transfer did not finish", run.levels);
    }
}
