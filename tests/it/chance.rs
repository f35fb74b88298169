//! Claims about random and about deterministic responses.

use std::collections::BTreeMap;

use netrig_experiment::{ClaimVerdict, Experiment, PointRuns, Results, RunRecord};
use netrig_test_support::ExperimentText;
use netrig_tests::simulate;

/// The text of an experiment over a line with this loss, with this application. `rest` is added at the end.
fn experiment(transport: &str, application: &str, loss: &str, rest: &str) -> String {
    ExperimentText::new("chance", "2 s")
        .table("factors", &format!("loss = {loss}"))
        .table("replications", "count = 2")
        .nodes("a b")
        .fifo(
            "l",
            "a b",
            ("10 Mbit/s", "0 s", 10),
            r#"loss = { kind = "bernoulli", probability = "${loss}" }"#,
        )
        .table("transport.tcp", r#"kind = "tcp""#)
        .flow("f", "a b", &format!("{transport}, application = {application}"))
        .text(rest)
        .build()
}

const DATAGRAMS: &str = r#"{ kind = "cbr", interval = "100 ms", size = "100 B" }"#;

#[test]
fn a_run_that_drew_nothing_is_the_same_with_another_seed() {
    let received = "[response.received]\nof = \"flow.f\"\nmetric = \"received\"";
    for (transport, application) in
        [("", DATAGRAMS), ("transport = \"tcp\"", r#"{ kind = "bulk", bytes = "500 KB" }"#)]
    {
        let text = experiment(transport, application, r#"["0 %", "5 %"]"#, received);
        let runs = simulate(&text, None, 2, |_| true);
        let told: Vec<bool> = runs.iter().map(|run| run.outcome.deterministic).collect();
        assert_eq!(told, [true, true, false, false], "{transport}");
        assert_eq!(
            (runs[0].outcome.events, &runs[0].responses),
            (runs[1].outcome.events, &runs[1].responses),
            "{transport}"
        );
    }
}

/// With 20 datagrams and a loss of 5 %, two runs lose no datagram in one of eight experiments.
#[test]
fn two_runs_without_a_loss_support_no_claim_about_it() {
    let claim = r#"[response.loss]
of = "flow.f"
metric = "datagram_loss"
[claim.c]
says = "less than 4 % are lost"
response = "loss"
target = 0.04
expect = "less""#;
    let text = experiment("", DATAGRAMS, r#"["5 %"]"#, claim);
    let design = Experiment::parse("chance.toml", &text).unwrap().design;
    let runs = simulate(&text, None, 300, |_| true);
    let record = |(run, replication): (&netrig_tests::Measured, u32)| RunRecord {
        replication,
        deterministic: run.outcome.deterministic,
        responses: run.responses.iter().map(|(name, value)| (name.clone(), (*value).into())).collect(),
        ..RunRecord::default()
    };
    let (mut nothing_lost, mut verdicts) = (0, BTreeMap::<ClaimVerdict, u32>::new());
    for pair in runs.chunks(2) {
        let level = |(f, l): (&String, &String)| (f.clone(), netrig_experiment::Level::new(l));
        let point = pair[0].levels.iter().map(level).collect();
        let points = PointRuns::new("sim", point, pair.iter().zip(1..).map(record).collect(), None);
        nothing_lost += u32::from(pair.iter().all(|run| run.responses["loss"] == 0.0));
        let results = Results::judge(&design, &[points], "0.1.0+test");
        *verdicts.entry(results.claims[0].verdict).or_default() += 1;
    }
    assert!((10..=35).contains(&nothing_lost), "{nothing_lost} of 150");
    assert_eq!(verdicts.get(&ClaimVerdict::Supported), None, "{verdicts:?}");
}

/// The documented rates at which claims are supported are those that the tests of `netrig-experiment` have computed.
#[test]
fn the_rates_of_wrong_verdicts_are_documented() {
    let page = include_str!("../../docs/claims-and-tables.md");
    macro_rules! rows {
        ($law:literal) => {
            include_str!(concat!(
                "../../crates/pure/experiment/src/claim/snapshots/netrig_experiment__claim__rates__",
                $law,
                ".snap"
            ))
        };
    }
    let laws =
        [rows!("continuous"), rows!("discrete"), rows!("rare"), rows!("mixture"), rows!("mixture_of_shares")];
    let rows: Vec<&str> =
        laws.iter().flat_map(|rows| rows.lines()).filter(|row| row.starts_with('|')).collect();
    assert_eq!(rows.len(), 54);
    let missing: Vec<&&str> = rows.iter().filter(|row| !page.contains(**row)).collect();
    assert!(missing.is_empty(), "these rows of docs/claims-and-tables.md are not there: {missing:#?}");
}
