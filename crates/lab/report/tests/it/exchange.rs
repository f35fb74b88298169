//! The formats that other programs read: CSV, JSON, Markdown.

use netrig_experiment::{ClaimVerdict, Level};
use serde_json::Value;

use super::fixture;
use super::page::report;

/// Reads CSV (RFC 4180) with a state machine that is independent of the writer.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            '"' if quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    assert!(!quoted && row.is_empty() && cell.is_empty(), "ends with a line's end");
    rows
}

#[test]
fn csv_comes_back_as_the_same_numbers() {
    let study = fixture::outage();
    let rows = records(&report(&study).csv());
    assert_eq!(
        rows[0],
        [
            "substrate",
            "transport",
            "down_for [s]",
            "interarrival [ms]",
            "profile",
            "status",
            "response",
            "unit",
            "mean",
            "low",
            "high",
            "n"
        ]
    );
    assert_eq!(rows.len(), 1 + 48 * 3);
    let mut rows = rows[1..].iter();
    for point in &study.results.points {
        for name in ["throughput", "goodput", "longest_stall"] {
            let (row, measured) = (rows.next().expect("a row"), &point.responses[name]);
            assert_eq!(row[1], point.factors.level("transport").expect("a level").text());
            let down_for = point.factors.level("down_for").and_then(Level::number);
            assert_eq!(row[2].parse().ok(), down_for);
            assert_eq!((row[6].as_str(), row[7].as_str()), (name, measured.unit.as_str()));
            let numbers: Vec<Option<f64>> = row[8..11].iter().map(|cell| cell.parse().ok()).collect();
            assert_eq!(numbers, [measured.mean, measured.low, measured.high]);
            assert_eq!(row[11], measured.n.to_string());
        }
    }
}

#[test]
fn csv_quotes_what_needs_it_and_leaves_out_nothing() {
    let mut study = fixture::queue();
    study.results.points[0].substrate = "a \"quoted\", name\nin two lines".into();
    study.results.points[1].responses.clear();
    study.results.points[1].status = netrig_experiment::Status::Unsupported;
    let rows = records(&report(&study).csv());
    assert_eq!(rows[1][0], "a \"quoted\", name\nin two lines");
    assert_eq!(rows.len(), 1 + 5 * 2);
    assert_eq!(rows[3], ["sim", "20", "unsupported", "waiting_time", "s", "", "", "", "0"]);
}

/// The schema of `--json`.
fn contract() -> jsonschema::Validator {
    let schema =
        serde_json::from_str(include_str!("../../schema/results.schema.json")).expect("the schema is JSON");
    jsonschema::validator_for(&schema).expect("the schema is a schema")
}

#[test]
fn json_keeps_the_contract() {
    let contract = contract();
    let mut incomplete = fixture::queue();
    incomplete.results.points[0].status = netrig_experiment::Status::Unsupported;
    incomplete.results.points[0].why = Some("no root".into());
    incomplete.results.points[0].responses.clear();
    for study in [fixture::outage(), fixture::queue(), fixture::beside(), incomplete] {
        let text = report(&study).json(false);
        let value: Value = serde_json::from_str(&text).expect("JSON");
        contract.validate(&value).unwrap_or_else(|e| panic!("{}: {e}", e.instance_path()));
        let pretty: Value = serde_json::from_str(&report(&study).json(true)).expect("JSON");
        assert_eq!(pretty, value);
    }
}

#[test]
fn levels_are_typed_in_json() {
    let whole: Value = serde_json::from_str(&report(&fixture::outage()).json(false)).expect("JSON");
    let seconds = |level: &Value| level["unit"] == "s" && level["value"].is_i64();
    let points = whole["points"].as_array().expect("a list");
    assert!(points.iter().all(|point| seconds(&point["factors"]["down_for"])), "{points:#?}");
    assert!(points.iter().all(|point| point["factors"]["transport"].is_string()), "{points:#?}");
    let rows = whole["tables"][0]["rows"].as_array().expect("a list");
    assert!(rows.iter().all(|row| row["key"].as_array().expect("a list").iter().any(seconds)), "{rows:#?}");
    assert!(seconds(&whole["claims"][0]["points"][0]["factors"]["down_for"]), "{whole:#}");
}

/// The schema must reject invalid documents.
#[test]
fn the_contract_refuses_what_breaks_it() {
    let contract = contract();
    let whole: Value = serde_json::from_str(&report(&fixture::outage()).json(false)).expect("JSON");
    for (pointer, value) in [
        ("/confidence", 1.5.into()),
        ("/points/0/status", "fine".into()),
        ("/points/0/responses/throughput/n", (-1).into()),
        ("/claims/0/says", 3.into()),
        ("/points/0/factors/down_for", serde_json::json!({"value": "5", "unit": "s"})),
        ("/tables/0/rows/0/cells/0", serde_json::json!({"estimate": 1})),
    ] {
        let mut copy = whole.clone();
        *copy.pointer_mut(pointer).expect("the place exists") = value;
        let error = contract.validate(&copy).expect_err(pointer);
        assert!(error.instance_path().as_str().starts_with(pointer), "{pointer}: {error}");
    }
    let mut more = whole.clone();
    more["finished_at"] = "noon".into();
    assert!(contract.validate(&more).expect_err("a stranger").to_string().contains("finished_at"));
}

#[test]
fn the_same_results_give_the_same_bytes() {
    let (one, other) = (fixture::outage(), fixture::outage());
    let (one, other) = (report(&one), report(&other));
    assert_eq!(one.json(true), other.json(true));
    assert_eq!(one.html(), other.html());
    assert_eq!(one.csv(), other.csv());
}

#[test]
fn markdown_tables_are_aligned() {
    let study = fixture::outage();
    let text = report(&study).markdown();
    let blocks: Vec<Vec<&str>> = text
        .split("\n\n")
        .map(|block| block.lines().filter(|line| line.starts_with('|')).collect::<Vec<_>>())
        .filter(|block| !block.is_empty())
        .collect();
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        let bars = |line: &str| -> Vec<usize> {
            line.chars().enumerate().filter(|(_, c)| *c == '|').map(|(n, _)| n).collect()
        };
        for line in &block {
            assert_eq!(bars(line), bars(block[0]), "{line}");
        }
        assert!(block[1].chars().all(|c| "|:-".contains(c)), "{}", block[1]);
    }
}

/// If the results are random, ten runs may miss an outcome that occurs in one of four runs. The warning appears once,
/// whatever the number of claims that depend on these runs.
#[test]
fn what_few_runs_may_miss_is_told_once_in_each_form() {
    const TOLD: &str = "outcomes that occur in fewer than 26 % of runs may be absent";
    let forms = |verdict: ClaimVerdict, p: f64, n: u32| {
        let mut study = fixture::outage();
        for claim in &mut study.results.claims {
            (claim.verdict, claim.p_holm) = (verdict, Some(p));
            claim.points.iter_mut().for_each(|point| point.n = n);
        }
        let report = report(&study);
        [report.terminal(120), report.markdown(), report.html(), report.json(true)]
    };
    for form in forms(ClaimVerdict::Supported, 0.01, 10) {
        assert_eq!(form.matches(TOLD).count(), 1, "{form}");
    }
    // There is no warning if the results are not random, if no claim is supported, or if there are many runs.
    for (verdict, p, n) in [
        (ClaimVerdict::Supported, 0.0, 10),
        (ClaimVerdict::Inconclusive, 0.2, 10),
        (ClaimVerdict::Supported, 0.01, 59),
    ] {
        assert!(forms(verdict, p, n).iter().all(|form| !form.contains("may be absent")));
    }
}
