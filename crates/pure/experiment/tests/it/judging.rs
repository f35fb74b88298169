//! Tests the whole path from a file and the samples of its runs to verdicts, tables and figures.

use std::collections::BTreeMap;

use netrig_core::quantity::{CWND, DATA_PATH, DATA_PAUSED, DATA_RESUMED, WIRE_BYTES};
use netrig_core::{Duration, Instant, Quantity, Sample, Sink, Subject};
use netrig_experiment::{
    Assignment, Balance, ClaimSpec, ClaimVerdict, Experiment, FigureSpec, Paper, Plan, PointRuns, Reduction,
    ResponseSpec, Results, RunOutcome, RunRecord, TableSpec, Trace, TracedRun, metric,
};

const LINK_DOWN: &str = include_str!("files/link-down.toml");

const MORE: &str = r#"
[response.recovery]
of = "flow.web"
metric = "recovery_time"

[response.switch]
of = "flow.web"
metric = "switch_time"

[claim.as-in-the-paper]
says = "TCP carries what the paper says"
response = "throughput"
expect = "within"
target = { paper = "fig2" }
margin = "5 %"
where = { transport = "tcp", shape = 1.5 }

[claim.recovers-late]
says = "TCP recovers no earlier than the link"
response = "recovery"
where = { transport = "tcp" }
expect = "greater"
target = "4 s"

[figure.window]
x = "time"
y = "cwnd"
of = "flow.web"
series = "transport"
panels = "down_for"
where = { shape = 1.5, interarrival = "45 ms" }
"#;

const PAPER: &str = r#"
title = "Web Traffic Analysis according to the Link-down Duration of TCP and SCTP"
[[value]]
group = "fig2"
where = { transport = "tcp", down_for = "5 s" }
response = "throughput"
value = 54
unit = "KB/s"
approximate = true
quote = "54 KB"
[[value]]
group = "fig2"
where = { transport = "tcp", down_for = "10 s" }
response = "throughput"
value = 20
unit = "KB/s"
quote = "made up to be far off"
"#;

const SECONDS: u64 = 100;

fn experiment() -> Experiment {
    let (text, paper) = (format!("{LINK_DOWN}{MORE}"), Paper::parse(PAPER).unwrap());
    let without = Experiment::parse("link-down.toml", &text).unwrap_err().to_string();
    assert!(without.contains("there is no `paper.toml` beside this file"), "{without}");
    let experiment = Experiment::read("link-down.toml", &text, Some(paper), None).unwrap();
    let levels = "down_for=5 s,10 s,interarrival=45 ms,shape=1.5";
    experiment.set(&Assignment::parse(levels).unwrap()).unwrap()
}

fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

fn feed(sink: &mut dyn Sink, subject: Subject, quantity: &'static Quantity, samples: &[(f64, f64)]) {
    for (seconds, value) in samples {
        sink.sample(subject, Sample { at: at(*seconds), quantity, value: *value });
    }
}

/// Reports the samples of a run: 6 KB each 100 ms from 0.5 s on. Multi-homed SCTP switches 0.2 s after the outage
/// starts. The other transports receive nothing from 50 s until 2 s after the link is up again.
fn report(sink: &mut dyn Sink, transport: &str, down_for: f64, replication: u32) {
    let web = Subject::Flow(0);
    let switches = transport == "sctp-multihomed";
    let silent = |seconds: f64| !switches && seconds > 50.0 && seconds <= 52.0 + down_for;
    let bytes = 6000.0 + f64::from(replication);
    let counts: Vec<(f64, f64)> = (6..=1000)
        .map(|tick| f64::from(tick) / 10.0)
        .map(|seconds| (seconds, if silent(seconds) { 0.0 } else { bytes }))
        .collect();
    feed(sink, web, &WIRE_BYTES, &counts);
    feed(sink, web, &DATA_RESUMED, &[(0.5, 0.0)]);
    if switches {
        feed(sink, Subject::Path(0, 1), &DATA_PATH, &[(50.2, 1.0)]);
    } else {
        feed(sink, web, &DATA_PAUSED, &[(50.0, 0.0)]);
        feed(sink, web, &DATA_RESUMED, &[(52.0 + down_for, 0.0)]);
    }
    feed(sink, web, &DATA_PAUSED, &[(100.0, 0.0)]);
}

fn outcome() -> RunOutcome {
    RunOutcome {
        balance: Balance::default(),
        events: 1,
        lasted: None,
        lateness: Duration::ZERO,
        invalid: None,
        moved: None,
        remarks: Vec::new(),
        deterministic: true,
    }
}

fn run_all(experiment: &Experiment, plan: &Plan) -> Vec<PointRuns> {
    let point = |index: usize| {
        let point = plan.point(index);
        let level = |factor: &str| point.level(factor).unwrap().to_string();
        let down_for = level("down_for").trim_end_matches(" s").parse().unwrap();
        let run = |replication| {
            let run = plan.run(index, replication).unwrap();
            let mut reduction =
                Reduction::new(&experiment.design.responses, experiment.warm_up, &run.scenario);
            report(&mut reduction, &level("transport"), down_for, replication);
            let measured = reduction.finish(&outcome(), at(SECONDS as f64));
            RunRecord::new(replication, run.seed, &outcome(), measured.into_iter().collect())
        };
        let runs = (1..=10).map(run).collect();
        PointRuns::new("sim", point.clone(), runs, None)
    };
    (0..plan.len()).map(point).collect()
}

#[test]
fn samples_become_verdicts() {
    let experiment = experiment();
    let plan = experiment.plan();
    let results = Results::judge(&experiment.design, &run_all(&experiment, &plan), "test");
    let by_point: BTreeMap<String, _> =
        results.points.iter().map(|point| (point.factors.to_string(), &point.responses)).collect();
    let tcp = by_point["down_for = 5 s, interarrival = 45 ms, profile = ns2, shape = 1.5, transport = tcp"];

    // There are 995 intervals over 100 s - 0.5 s. In 70 of them nothing is received, in the others 6005.5 B on average.
    let throughput = tcp["throughput"].mean.unwrap();
    assert!((throughput - 925.0 * 6005.5 / 99.5).abs() < 1e-6, "{throughput}");
    // The link of the file goes down at 50 s, and data resume 7 s later. A flow with one path cannot switch.
    assert_eq!(tcp["recovery"].mean, Some(7.0));
    assert_eq!(tcp["switch"].mean, None);
    let why = tcp["switch"].runs[0].why.as_deref();
    assert_eq!(why, Some("no other path was used after the outage began"));
    let multihomed = by_point["down_for = 5 s, interarrival = 45 ms, profile = ns2, shape = 1.5, transport = sctp-multihomed"];
    assert!((multihomed["switch"].mean.unwrap() - 0.2).abs() < 1e-9);
    assert_eq!(multihomed["recovery"].mean, Some(0.0));

    let verdicts: BTreeMap<&str, ClaimVerdict> =
        results.claims.iter().map(|claim| (claim.id.as_str(), claim.verdict)).collect();
    assert_eq!(verdicts["multihoming-wins"], ClaimVerdict::Supported);
    // The throughput is within 5 % of 54 KB/s at 5 s, but far from 20 KB/s at 10 s.
    assert_eq!(verdicts["as-in-the-paper"], ClaimVerdict::Refuted);
    assert_eq!(verdicts["recovers-late"], ClaimVerdict::Supported);
    let refuted = results.claims.iter().find(|claim| claim.id == "as-in-the-paper").unwrap();
    assert!(refuted.why.starts_with("at down_for = 10 s: "), "{}", refuted.why);
    let own: Vec<ClaimVerdict> = refuted.points.iter().map(|point| point.verdict).collect();
    assert!(own.contains(&ClaimVerdict::Supported) && own.contains(&ClaimVerdict::Refuted));

    let table = &results.tables[0];
    assert_eq!((table.rows.len(), table.columns[0].unit.as_str()), (6, "B/s"));
    let figures: BTreeMap<&str, _> =
        experiment.design.figures.iter().map(|(id, figure)| (id.as_str(), figure)).collect();
    let figure = figures["throughput-by-interarrival"].evaluate("f", &experiment.design, &results);
    assert_eq!((figure.panels.len(), figure.panels[0].series.len()), (2, 3));
}

/// Two runs are in one panel: TCP with one path, and multi-homed SCTP with two.
#[test]
fn traces_become_figures_over_time() {
    let experiment = experiment();
    let plan = experiment.plan();
    let mut runs = Vec::new();
    for index in 0..plan.len() {
        let run = plan.run(index, 1).unwrap();
        let paths = run.scenario.flows[0].paths.len();
        let mut trace = Trace::new();
        for path in 0..paths as u8 {
            feed(&mut trace, Subject::Path(0, path), &CWND, &[(1.0, 3000.0), (2.0, 4500.0)]);
        }
        runs.push((plan.point(index), run, trace));
    }
    let traced: Vec<TracedRun<'_>> = runs
        .iter()
        .map(|(point, run, trace)| {
            let (scenario, lasted) = (&*run.scenario, run.scenario.duration);
            TracedRun { substrate: "sim", point, scenario, trace, lasted }
        })
        .collect();
    let (id, spec) = experiment.design.figures.iter().find(|(id, _)| id == "window").unwrap();
    let figure = spec.trace(id, &experiment.design, &traced);
    assert_eq!((figure.x.unit.as_str(), figure.y.unit.as_str(), figure.panels.len()), ("s", "B", 2));
    let panel = &figure.panels[1];
    assert_eq!(
        (panel.levels.to_string().as_str(), panel.outage),
        ("down_for = 10 s", Some((50.0, Some(60.0))))
    );
    let names: Vec<(&str, Option<&str>)> = panel
        .series
        .iter()
        .map(|series| (series.legend.levels[0].1.text(), series.legend.path.as_deref()))
        .collect();
    let on = |transport, path| (transport, Some(path));
    assert_eq!(
        names,
        [
            on("tcp", "primary"),
            on("sctp", "primary"),
            on("sctp-multihomed", "primary"),
            on("sctp-multihomed", "alternate")
        ]
    );
    let points: Vec<(f64, f64)> = panel.series[0].points.iter().map(|point| (point.x, point.y)).collect();
    assert_eq!(points, [(1.0, 3000.0), (2.0, 4500.0)]);
}

const PAGE: &str = include_str!("../../../../../docs/claims-and-tables.md");

/// The examples in the documentation of claims and tables are valid.
#[test]
fn the_examples_of_the_page_are_good() {
    fn read<T: serde::de::DeserializeOwned>(file: &toml::Table, section: &str) -> usize {
        let parts = file.get(section).and_then(toml::Value::as_table).into_iter().flatten();
        let mut read = 0;
        for (name, part) in parts {
            let _: T = part.clone().try_into().unwrap_or_else(|e| panic!("{name}: {e}"));
            read += 1;
        }
        read
    }
    let blocks = PAGE.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut found = [0; 4];
    for block in blocks {
        if block.contains("[[value]]") {
            Paper::parse(block).unwrap_or_else(|errors| panic!("{errors:?}"));
            continue;
        }
        let file: toml::Table = block.parse().unwrap();
        found[0] += read::<ResponseSpec>(&file, "response");
        found[1] += read::<ClaimSpec>(&file, "claim");
        found[2] += read::<TableSpec>(&file, "table");
        found[3] += read::<FigureSpec>(&file, "figure");
    }
    assert!(found.iter().all(|n| *n > 0), "{found:?}");
}

#[test]
fn the_page_names_every_metric() {
    for metric in metric::all() {
        let name = format!("`{}`", metric.about().name);
        assert!(PAGE.contains(&name), "{name}");
    }
}
