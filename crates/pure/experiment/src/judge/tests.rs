//! Tests of points, of agreement and of the JSON document.

use super::fixture::Study;
use crate::{PointRuns, Precision, Replications, Status, StoppingRule};

fn study() -> Study {
    Study::new(&[("transport", &["tcp", "sctp"])])
}

/// 10, 12, 14: mean 12, sd 2, t(0.975, 2) = 4.30265, half width 4.30265 · 2/√3 = 4.96828.
#[test]
fn a_point_is_a_mean_with_students_interval() {
    let results = study().run(3, |place| 8.0 + 2.0 * f64::from(place.replication)).judge();
    let response = &results.points[0].responses["r"];
    assert_eq!((response.mean, response.n, response.unit.as_str()), (Some(12.0), 3, "B/s"));
    assert!((response.high.unwrap() - 16.968_28).abs() < 1e-5);
    assert!((response.low.unwrap() - 7.031_72).abs() < 1e-5);
}

#[test]
fn intervals_as_the_response_asks() {
    let interval = |method: &str, value: fn(u32) -> f64| {
        let mut study = study();
        let text = format!("of = 'flow.web'\nmetric = 'goodput'\ninterval = '{method}'");
        study.design.responses = vec![("r".into(), toml::from_str(&text).unwrap())];
        let response =
            study.run(10, |place| value(place.replication)).judge().points[0].responses["r"].clone();
        (response.mean, response.low, response.high)
    };
    // Powers of two from 2 to 1024: their logarithms are 1 to 10, so the geometric mean is 2^5.5.
    let power = |n: u32| f64::from(1 << n);
    let (mean, low, high) = interval("log", power);
    assert!((mean.unwrap() - libm::pow(2.0, 5.5)).abs() < 1e-9);
    assert!(low.unwrap() * high.unwrap() / mean.unwrap() - mean.unwrap() < 1e-9);
    assert_eq!(interval("log", |_| 0.0), (None, None, None));
    let (student, skewed, bootstrap) =
        (interval("student", power), interval("skew-adjusted", power), interval("bootstrap", power));
    assert!(skewed.2 > student.2 && student.0 == skewed.0);
    // The order of summation differs, so the means may differ in the last digit.
    assert!((student.0.unwrap() - bootstrap.0.unwrap()).abs() < 1e-9);
    assert!(bootstrap.1.unwrap() > 0.0 && student.1.unwrap() < bootstrap.1.unwrap());
}

/// Runs after the replication at which the stopping rule decided are ignored, in whatever order they finish.
#[test]
fn replications_beyond_the_decision_play_no_part() {
    let mut study = study()
        .run(15, |place| if place.replication > 10 { 1e6 } else { 100.0 + f64::from(place.replication % 2) });
    let until = Some(Precision { response: "r".into(), half_width: "2 %".parse().unwrap() });
    study.design.replications = Replications { min: 10, max: 40, until };
    let rule = StoppingRule::new(&study.design.replications, study.design.confidence).unwrap();
    let PointRuns { substrate, point, mut runs, .. } = study.points.remove(0);
    runs.reverse();
    let last = rule.decide(&runs).last();
    study.points.insert(0, PointRuns::new(&substrate, point, runs, last));
    let results = study.judge();
    let response = &results.points[0].responses["r"];
    assert_eq!((response.n, response.mean, response.runs.len()), (10, Some(100.5), 10));
    assert_eq!(response.runs[0].seed, 1);
}

/// The second substrate measures 10 % more in every run, and no value in two of them.
#[test]
fn agreement_is_a_ratio_of_means() {
    let noise = |place: &super::fixture::StudyPoint<'_>| 100.0 + place.own_luck().normal(0.0, 5.0);
    let results = study()
        .run_on("sim", 7, |place| Some(noise(place)))
        .run_on("vm", 7, |place| (place.replication <= 5).then(|| 1.1 * noise(place)))
        .judge();
    assert_eq!(results.agreement.len(), 3);
    let counts: Vec<_> = results.agreement.iter().map(|entry| (entry.n, entry.pairs)).collect();
    assert_eq!(counts, [([14, 10], 5), ([7, 5], 5), ([7, 5], 5)]);
    for entry in &results.agreement {
        assert!((entry.ratio.unwrap() - 1.1).abs() < 1e-9 && (entry.low.unwrap() - 1.1).abs() < 1e-6);
        assert_eq!((entry.of.clone(), &entry.asked), (["sim".to_owned(), "vm".to_owned()], &None));
        let [first, second] = entry.means.unwrap();
        let difference = entry.difference.unwrap();
        assert!((difference.estimate - (second - first)).abs() < 1e-9);
        assert!(difference.low.unwrap() < difference.estimate && entry.unit == "B/s");
    }
    // The value over all points is the mean of the points' means, not their sum.
    let mean = |entry: usize| results.agreement[entry].means.unwrap()[0];
    assert!((mean(0) - (mean(1) + mean(2)) / 2.0).abs() < 1e-9);
    assert!(results.agreement[0].factors.levels().is_empty());
    assert_eq!(results.agreement[1].factors.level("transport").unwrap().text(), "tcp");
}

#[test]
fn what_one_substrate_cannot_run_does_not_count_for_agreement() {
    let mut study = study().run_on("sim", 2, |_| Some(1.0)).run_on("vm", 2, |_| Some(2.0));
    study.points[3].status = Status::Unsupported;
    let ratios: Vec<_> = study.judge().agreement.iter().map(|entry| entry.ratio).collect();
    assert_eq!(ratios, [Some(2.0), Some(2.0)]);
}

/// The verdicts on a study with this required agreement, each with its point.
fn agreements(study: Study, agreement: &str) -> Vec<(String, Option<&'static str>)> {
    let mut study = study;
    let text = format!("of = 'flow.web'\nmetric = 'goodput'\nagreement = {agreement}");
    let spec: crate::ResponseSpec = toml::from_str(&text).unwrap();
    study.design.responses = vec![("r".into(), spec)];
    let verdict = |entry: &crate::Agreement| entry.asked.as_ref().map(|asked| asked.verdict.name());
    study.judge().agreement.iter().map(|entry| (entry.factors.to_string(), verdict(entry))).collect()
}

/// At one level, the first substrate measures 0 and the second `second`, which is 0 or 1.
#[test]
fn what_the_file_asks_is_told_of_each_point() {
    let study_of = |second: f64, deterministic: bool| {
        let value = |nothing: f64| {
            move |place: &super::fixture::StudyPoint<'_>| {
                let something = 100.0 + place.luck().normal(0.0, 1.0);
                Some(if place.level("transport") == "tcp" { nothing } else { something })
            }
        };
        let study = if deterministic { study().deterministic() } else { study() };
        study.run_on("sim", 5, value(0.0)).run_on("vm", 5, value(second))
    };
    let at = |place: &str, verdict| (place.to_owned(), verdict);
    let (all, tcp, sctp) = ("", "transport = tcp", "transport = sctp");
    let study = |second| study_of(second, true);
    // Five random zeros, on both substrates or on one, do not prove that the next is zero.
    for (second, within) in [(0.0, "5 %"), (0.0, "3 B/s"), (1.0, "5 %")] {
        let verdicts = agreements(study_of(second, false), &format!("{{ within = '{within}' }}"));
        assert!(verdicts.contains(&at(tcp, Some("inconclusive"))), "{verdicts:?}");
    }
    assert_eq!(
        agreements(study(0.0), "{ within = '5 %' }"),
        [at(all, Some("agrees")), at(tcp, Some("agrees")), at(sctp, Some("agrees"))]
    );
    // Over all points, the means differ by 1 of 100. At one point, the first mean is zero, and any difference exceeds a
    // share of zero.
    assert_eq!(
        agreements(study(1.0), "{ within = '5 %' }"),
        [at(all, Some("agrees")), at(tcp, Some("differs")), at(sctp, Some("agrees"))]
    );
    // An amount that is not a share does not apply to the means over all points.
    assert_eq!(
        agreements(study(1.0), "{ within = ['5 %', '2 B/s'] }"),
        [at(all, None), at(tcp, Some("agrees")), at(sctp, Some("agrees"))]
    );
    assert_eq!(
        agreements(study(1.0), "{ within = '0.5 B/s', where = { transport = 'tcp' } }"),
        [at(all, None), at(tcp, Some("differs")), at(sctp, None)]
    );
}

#[test]
fn what_one_substrate_alone_measured_cannot_be_told() {
    let study = study().run_on("sim", 5, |_| Some(1.0)).run_on("vm", 5, |place| {
        (place.level("transport") == "tcp" && place.replication == 1).then_some(1.0)
    });
    let [all, one, none] = &study.judge().agreement[..] else { panic!("two points and all") };
    assert_eq!((all.pairs, one.pairs, none.pairs, none.n), (1, 1, 0, [5, 0]));
    assert_eq!((none.ratio, none.means, none.difference), (None, None, None));
    // One pair of runs gives no interval.
    assert_eq!((one.ratio, one.low, one.difference.unwrap().low), (Some(1.0), None, None));
    let verdicts: Vec<_> =
        agreements(study, "{ within = '5 %' }").into_iter().map(|(_, verdict)| verdict).collect();
    assert_eq!(verdicts, [Some("inconclusive"); 3]);
}

#[test]
fn the_only_point_of_an_experiment_is_asked_as_a_point() {
    let study =
        Study::new(&[]).deterministic().run_on("sim", 3, |_| Some(1.0)).run_on("vm", 3, |_| Some(1.5));
    assert_eq!(agreements(study, "{ within = '1 B/s' }"), [(String::new(), Some("agrees"))]);
}

#[test]
fn a_record_keeps_what_a_run_says_of_itself() {
    use crate::{Balance, Cut, MeasuredValue, MeasuredValues, RunOutcome, RunRecord, Validity};
    let cut = Cut { discarded: 700, too_short: true };
    let measured = [
        ("a", MeasuredValue::Value { value: 1.5, warm_up: Some(cut) }),
        ("b", MeasuredValue::not("no data arrived")),
    ];
    let measured: MeasuredValues = measured.into_iter().collect();
    let lost = Balance { offered: 3, delivered: 2, ..Balance::default() };
    let outcome = |invalid: Option<&str>, balance| RunOutcome {
        balance,
        events: 0,
        lasted: None,
        lateness: netrig_core::Duration::ZERO,
        invalid: invalid.map(str::to_owned),
        moved: None,
        remarks: Vec::new(),
        deterministic: true,
    };
    let good = RunRecord::new(1, 7, &outcome(None, Balance::default()), measured.clone());
    assert_eq!((good.value("a"), good.value("b"), good.is_valid()), (Some(1.5), None, true));
    assert_eq!(good.remark("b").as_deref(), Some("no data arrived"));
    assert!(good.remark("a").unwrap().contains("leaves out 700"), "{:?}", good.remark("a"));
    let late = RunRecord::new(1, 7, &outcome(Some("the CPU was busy"), Balance::default()), measured.clone());
    assert_eq!((late.value("a"), late.validity), (None, Validity::Invalid("the CPU was busy".into())));
    assert!(!RunRecord::new(1, 7, &outcome(None, lost), measured).is_valid());
}

#[test]
fn the_json_document() {
    let claim = "response = 'r'\ncompare = { transport = ['sctp', 'tcp'] }\nexpect = 'greater'";
    let value = |place: &super::fixture::StudyPoint<'_>| {
        let gain = if place.level("transport") == "sctp" { 3.0 } else { 0.0 };
        Some(f64::from(place.replication) + gain)
    };
    let table = "rows = 'transport'\npaper = 'table4'\n[columns]\nmean = { value = 'r' }\n";
    let paper = "title = 'p'\n[[value]]\ngroup = 'table4'\nwhere = { transport = 'tcp' }\nvalue = 2\nunit = 'B/s'\nquote = 'q'";
    let mut study = study()
        .deterministic()
        .paper(paper)
        .claim("sctp-wins", claim)
        .table("means", table)
        .run_on("vm", 1, |_| Some(1.0))
        .run_on("sim", 3, value);
    study.points[0].runs[0].responses =
        [("r", crate::MeasuredValue::not("no data arrived"))].into_iter().collect();
    study.points[1].status = Status::Unsupported;
    study.points[1].why = Some("the kernel has no sctp".into());
    study.points[2].runs[1].validity = crate::Validity::Invalid("the sender was too slow".into());
    let text = serde_json::to_string_pretty(&study.judge()).unwrap();
    insta::assert_snapshot!(text);
}
