//! A transfer comes back after its line was away, whatever the rules of its transport: a defect here is the kind that
//! no law of theory sees.

use netrig_tests::{Measured, simulate};

/// A bulk transfer over a line that is down from `at` on for `down_for`, both ways, with what was on it lost.
fn outage(transport: &str) -> String {
    format!(
        r#"
format = 1
name = "outage"
duration = "120 s"
[factors]
profile = ["rfc", "linux", "ns2"]
rate = ["0.5 Mbit/s", "10 Mbit/s", "100 Mbit/s"]
at = ["30 s", "30.37 s", "31.1 s"]
down_for = ["0 s", "300 ms", "2 s", "10 s"]
[node.client]
[node.server]
[link.line]
between = ["client", "server"]
rate = "${{rate}}"
delay = "50 ms"
queue = {{ kind = "fifo", packets = 100 }}
[transport.t]
profile = "${{profile}}"
{transport}
[[event]]
at = "${{at}}"
link = "line"
do = {{ down_for = "${{down_for}}" }}
[flow.bulk]
from = "client"
to = "server"
transport = "t"
application = {{ kind = "bulk" }}
[response.before]
of = "flow.bulk"
metric = "goodput"
after = "10 s"
until = "30 s"
[response.since]
of = "flow.bulk"
metric = "goodput"
after = "70 s"
until = "120 s"
[response.wire_before]
of = "flow.bulk"
metric = "wire_throughput"
after = "10 s"
until = "30 s"
[response.wire_since]
of = "flow.bulk"
metric = "wire_throughput"
after = "70 s"
until = "120 s"
"#
    )
}

/// 30 s and more after the line is back, it carries four fifths of what it carried of the flow before, or of what it carries then
/// if it was never away, whichever is less: a window that was halved at 100 Mbit/s grows by a segment per round trip. One measure
/// must say so, what the line carries or what arrives in order: where each loss ends in a time-out or is mended by itself, one
/// stands still for minutes in which the other goes on. Who has not come back is missed by both.
fn comes_back(transport: &str, wanted: impl Fn(&str) -> bool) {
    let runs = simulate(&outage(transport), None, 1, |levels| wanted(&levels["profile"]));
    let undisturbed = |run: &Measured, response: &str| {
        let same = |other: &&Measured| {
            let differs = |factor: &str| other.levels[factor] != run.levels[factor];
            other.levels["down_for"] == "0 s" && !["profile", "rate", "at"].into_iter().any(differs)
        };
        runs.iter().find(same).map_or(f64::NAN, |other| other.responses[response])
    };
    let mut lost = Vec::new();
    for run in &runs {
        let measures = [("before", "since"), ("wire_before", "wire_since")].map(|(before, since)| {
            let without = undisturbed(run, since);
            assert!(without > 0.0, "{:?}", run.levels);
            (run.responses[before].min(without), run.responses[since])
        });
        if measures.iter().all(|(wanted, since)| *since < 0.8 * wanted) {
            lost.push(format!(
                "{:?}: B/s wanted and carried, in order and on the line: {measures:.0?}",
                run.levels
            ));
        }
    }
    assert!(
        runs.len() >= 36 && lost.is_empty(),
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
        comes_back(&format!("kind = \"tcp\"\nrecovery = \"{recovery}\""), |profile| profile != "ns2");
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
