//! A transfer recovers after an outage of its line, with any settings of its transport. Comparisons with theory do not
//! detect such defects.

use netrig_core::{Subject, quantity};
use netrig_test_support::ExperimentText;
use netrig_tests::{record, simulate};

/// A bulk transfer over a line that is down in both directions from `at` on for `down_for`. Packets on the line are
/// lost.
fn outage(transport: &str) -> String {
    ExperimentText::new("outage", "120 s")
        .table(
            "factors",
            r#"profile = ["rfc", "linux", "ns2"], rate = ["0.5 Mbit/s", "10 Mbit/s", "100 Mbit/s"],
            at = ["30 s", "30.37 s", "31.1 s"], down_for = ["300 ms", "2 s", "10 s"]"#,
        )
        .nodes("client server")
        .fifo("line", "client server", ("${rate}", "50 ms", 100), "")
        .table("transport.t", &format!(r#"profile = "${{profile}}", {transport}"#))
        .table("[event]", r#"at = "${at}", link = "line", do = { down_for = "${down_for}" }"#)
        .flow("bulk", "client server", r#"transport = "t", application = { kind = "bulk" }"#)
        .table("response.before", r#"of = "flow.bulk", metric = "goodput", after = "10 s", until = "30 s""#)
        .table("response.since", r#"of = "flow.bulk", metric = "goodput", after = "70 s", until = "120 s""#)
        .build()
}

/// Checks that 30 s after the line is up again, the rate of the flow is at least four fifths of the earlier rate. It
/// need not be the full rate, because a window that was halved at 100 Mbit/s grows by one segment per round trip.
fn comes_back(transport: &str, wanted: impl Fn(&str) -> bool) {
    let runs = simulate(&outage(transport), None, 1, |levels| wanted(&levels["profile"]));
    let mut lost = Vec::new();
    for run in &runs {
        let (before, since) = (run.responses["before"], run.responses["since"]);
        // The earlier rate is limited by the window or by the rate of the line.
        if since < 0.8 * before {
            lost.push(format!("{:?}: {before:.0} B/s before, {since:.0} B/s since", run.levels));
        }
    }
    assert!(
        runs.len() >= 27 && lost.is_empty(),
        "{transport}, {} of {}:\n{}",
        lost.len(),
        runs.len(),
        lost.join("\n")
    );
}

#[test]
fn tcp_with_the_rules_of_its_profile() {
    comes_back("kind = \"tcp\"", |_| true);
}

#[test]
fn tcp_with_every_recovery() {
    for recovery in ["none", "reno", "newreno", "sack", "rack"] {
        // Linux does not combine CUBIC with either of these two recoveries. With the counted growth of Linux, the rate
        // does not become stationary if each loss causes a time-out, or if each of hundreds of losses takes a round
        // trip: without any outage it is 3.28 MB/s at first and 2.69 MB/s later.
        let growth = match recovery {
            "none" | "newreno" => "cubic_growth = \"continuous\"",
            _ => "",
        };
        comes_back(&format!("kind = \"tcp\"\nrecovery = \"{recovery}\"\n{growth}"), |profile| {
            profile != "ns2"
        });
    }
}

#[test]
fn tcp_with_every_way_to_doubt_a_reduction() {
    for (undo, frto, probe) in
        [(true, false, false), (true, true, false), (true, false, true), (false, true, true)]
    {
        let tcp = format!("kind = \"tcp\"\nundo = {undo}\nfrto = {frto}\ntail_loss_probe = {probe}");
        comes_back(&tcp, |profile| profile != "ns2");
    }
}

#[test]
fn sctp() {
    comes_back("kind = \"sctp\"", |_| true);
}

/// The line is down for longer than the attempts to open a connection last. Later files have the sizes that their
/// receiver expects: all files arrive and are confirmed, except those whose connections failed.
#[test]
fn files_arrive_after_connections_that_failed() {
    for transport in ["kind = \"tcp\"\nprofile = \"linux\"", "kind = \"sctp\"\nprofile = \"linux\""] {
        let text = ExperimentText::new("failed", "2000 s")
            .nodes("client server")
            .fifo("line", "client server", ("10 Mbit/s", "50 ms", 100), "")
            .table("transport.t", transport)
            .table("[event]", r#"at = "12 s", link = "line", do = { down_for = "1000 s" }"#)
            .flow(
                "file",
                "client server",
                r#"transport = "t",
                application = { kind = "file", size = { uniform = { min = "1 KB",
                max = "100 KB" } }, count = 40, pause = { constant = "5 s" } }"#,
            )
            .response("received", "flow.file", "objects_received")
            .response("confirmed", "flow.file", "response_time")
            .build();
        let [(_, tape)]: [_; 1] = record(&text).try_into().ok().expect("one point");
        let number = |quantity| tape.series(Subject::Flow(0), quantity).len();
        let [received, confirmed] = [number(&quantity::OBJECTS_RECEIVED), number(&quantity::RESPONSE_TIME)];
        assert_eq!(received, confirmed, "{transport}");
        assert!((26..40).contains(&received), "{transport}: {received} of 40");
    }
}
