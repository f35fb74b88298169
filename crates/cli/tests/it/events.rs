//! `netrig export --format events`: the events of each packet on a link, line by line.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use netrig_test_support::ExperimentText;
use serde_json::Value;

use crate::common::{as_json, machine, netrig, run_ids, text};

/// A line of 1 Mbit/s that is offered 800 kbit/s of premium traffic and 1.6 Mbit/s of best-effort traffic. Every other
/// premium packet conforms to the profile.
fn experiment() -> String {
    ExperimentText::new("small", "2 s")
        .nodes("a b")
        .link(
            "line",
            "a b",
            r#"rate = "1 Mbit/s", delay = "1 ms", queue = { kind = "priority", packets = 4 },
            condition = [{ name = "profile", match = { dst_port = 5002 },
            meter = { kind = "token-bucket", rate = "400 kbit/s", burst = "1000 B" },
            green = "ef" }, ], classes = [{ phb = "ef" }, { name = "rest" }]"#,
        )
        .flow("best-effort", "a b", r#"application = { kind = "cbr", interval = "5 ms", size = "972 B" }"#)
        .flow("premium", "a b", r#"application = { kind = "cbr", interval = "10 ms", size = "972 B" }"#)
        .response("policed", "link.line.rule.profile", "drops_policed")
        .response("green", "link.line.rule.profile", "packets_green")
        .response("full", "link.line.class.rest", "drops_queue_full")
        .response("waited", "link.line.class.ef", "waiting_time")
        .build()
}

/// A folder with a store of the run, the identity of the run, and its responses.
fn folder_with_run() -> (tempfile::TempDir, String, BTreeMap<String, f64>) {
    let folder = machine::folder("small", &experiment());
    let made = netrig(folder.path(), &["run", "small.toml", "--replications", "1", "--json"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let results = as_json(&made);
    let responses = results["points"][0]["responses"].as_object().expect("responses");
    let measured =
        responses.iter().map(|(name, response)| (name.clone(), response["mean"].as_f64().unwrap()));
    let measured = measured.collect();
    let identity = run_ids(folder.path()).remove(0);
    (folder, identity, measured)
}

fn export(folder: &Path, run: &str, out: &str, more: &[&str]) -> String {
    let output =
        netrig(folder, &[&["export", "--run", run, "--format", "events", "--out", out], more].concat());
    assert!(output.status.success(), "{more:?}: {}", text(&output.stderr));
    fs::read_to_string(folder.join(out)).expect("the file was written")
}

/// The rows of a CSV file. Each maps the column names to the values.
fn rows(csv: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = csv.lines();
    let columns: Vec<&str> = lines.next().expect("a heading").split(',').collect();
    lines.map(|line| columns.iter().copied().zip(line.split(',')).collect()).collect()
}

#[test]
fn every_packet_is_told_from_its_arrival_to_its_end() {
    let (folder, run, measured) = folder_with_run();
    let csv = export(folder.path(), &run, "events.csv", &["--link", "line.forward"]);
    assert_eq!(
        csv.lines().next(),
        Some(
            "time_s,link,direction,packet,event,src,src_port,dst,dst_port,protocol,bytes,dscp,ecn,rule,colour,class,\
             queue_packets,queue_bytes,waited_s,reason"
        )
    );
    let rows = rows(&csv);
    let times: Vec<f64> = rows.iter().map(|row| row["time_s"].parse().unwrap()).collect();
    assert!(times.is_sorted());
    let mut packets: BTreeMap<u32, Vec<&BTreeMap<&str, &str>>> = BTreeMap::new();
    for row in &rows {
        assert_eq!((row["link"], row["direction"], row["protocol"]), ("line", "forward", "udp"));
        packets.entry(row["packet"].parse().unwrap()).or_default().push(row);
    }
    let mut colours = Vec::new();
    let (mut policed, mut full, mut waits) = (0.0, 0.0, Vec::new());
    for (number, events) in &packets {
        let names: Vec<&str> = events.iter().map(|row| row["event"]).collect();
        let premium = events[0]["dst_port"] == "5002";
        let last = events.last().unwrap();
        let mut way = vec!["arrived"];
        if premium {
            way.push("conditioned");
            colours.push(events[1]["colour"]);
            assert_eq!((events[0]["dscp"], events[1]["rule"]), ("be", "profile"));
        }
        match (last["event"], last["reason"]) {
            ("dropped", "policed") => {
                assert!(premium && last["colour"] == "red" && last["class"].is_empty());
                way.push("dropped");
                policed += 1.0;
            }
            ("dropped", "queue-full") => {
                assert_eq!((last["class"], last["dscp"]), ("rest", "be"));
                way.extend(["classified", "dropped"]);
                full += 1.0;
            }
            // Some packets are still in the queue at the end of the run.
            (_, "") => {
                let (class, dscp) = if premium { ("ef", "ef") } else { ("rest", "be") };
                assert!(last["class"] == class && last["dscp"] == dscp, "{number}: {last:?}");
                way.extend(["classified", "queued", "sent", "delivered"]);
                if !names.contains(&"queued") {
                    way.retain(|name| *name != "queued");
                }
                way.truncate(names.len());
                if let Some(sent) = events.iter().find(|row| row["event"] == "sent") {
                    let waited: f64 = sent["waited_s"].parse().unwrap();
                    let arrived: f64 = events[0]["time_s"].parse().unwrap();
                    let left: f64 = sent["time_s"].parse().unwrap();
                    assert!((left - arrived - waited).abs() < 1e-9);
                    if premium {
                        waits.push(waited);
                    }
                }
            }
            other => panic!("{number}: {other:?}"),
        }
        assert_eq!(names, way, "{number}");
    }
    // The token bucket has 1000 B and gets 500 B in 10 ms. A packet of 1000 B arrives every 10 ms.
    for (n, colour) in colours.iter().enumerate() {
        assert_eq!(*colour, if n % 2 == 0 { "green" } else { "red" }, "{n}");
    }
    let green = colours.iter().filter(|colour| **colour == "green").count() as f64;
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    assert_eq!((policed, full, green), (measured["policed"], measured["full"], measured["green"]));
    assert!(policed > 50.0 && full > 100.0);
    assert!((mean - measured["waited"]).abs() < 1e-9, "{mean} {}", measured["waited"]);
}

#[test]
fn both_forms_say_the_same_and_a_window_is_a_part_of_it() {
    let (folder, run, _) = folder_with_run();
    let csv = export(folder.path(), &run, "all.csv", &[]);
    let jsonl = export(folder.path(), &run, "all.jsonl", &[]);
    let rows = rows(&csv);
    let objects: Vec<Value> =
        jsonl.lines().map(|line| serde_json::from_str(line).expect("an object in each line")).collect();
    assert_eq!(rows.len(), objects.len());
    for (row, object) in rows.iter().zip(&objects) {
        for (column, value) in row {
            let other = match &object[column] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                Value::Number(number) if ["time_s", "waited_s"].contains(column) => {
                    format!("{:.9}", number.as_f64().unwrap())
                }
                number => number.to_string(),
            };
            assert_eq!(*value, other, "{column}");
        }
    }
    let part = export(folder.path(), &run, "part.csv", &["--from", "0.5s", "--to", "1s"]);
    let inside = |line: &&str| {
        let at: f64 = line.split(',').next().unwrap().parse().unwrap();
        (0.5..=1.0).contains(&at)
    };
    let expected: Vec<&str> = csv.lines().skip(1).filter(inside).collect();
    assert!(expected.len() > 100);
    assert_eq!(part.lines().skip(1).collect::<Vec<_>>(), expected);
}

#[test]
fn what_cannot_be_listed_is_refused_with_what_can() {
    let (folder, run, _) = folder_with_run();
    for (format, more, why) in [
        ("events", ["--link", "lien"], "the run has no link `lien`; it has: line"),
        ("events", ["--node", "a"], "events take --link"),
        ("pcapng", ["--link", "line"], "--link is for events"),
    ] {
        let all = [&["export", "--run", &run, "--format", format, "--out", "x"], &more[..]].concat();
        let output = netrig(folder.path(), &all);
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
}
