//! Each kind of claim with each verdict, on synthetic data.

use crate::judge::fixture::{Study, StudyPoint};
use crate::{ClaimResult, ClaimVerdict, Status, Validity};

const TRANSPORTS: (&str, &[&str]) = ("transport", &["tcp", "sctp"]);
const OUTAGES: (&str, &[&str]) = ("down_for", &["0 s", "5 s", "10 s", "20 s"]);

/// 1000 B/s, plus `by` over SCTP. Both transports share normal noise of 50 B/s; each has noise of `noise` B/s of its
/// own.
fn sctp_gains(by: f64, noise: f64) -> impl Fn(&StudyPoint<'_>) -> f64 {
    move |place| {
        let gain = if place.level("transport") == "sctp" { by } else { 0.0 };
        1000.0 + gain + place.luck().normal(0.0, 50.0) + place.own_luck().normal(0.0, noise)
    }
}

fn two_transports(claim: &str, n: u32, value: impl Fn(&StudyPoint<'_>) -> f64) -> ClaimResult {
    Study::new(&[TRANSPORTS]).claim("c", claim).run(n, value).verdict()
}

const GREATER: &str = "response = 'r'\ncompare = { transport = ['sctp', 'tcp'] }\nexpect = 'greater'";

#[test]
fn greater() {
    let supported = two_transports(GREATER, 10, sctp_gains(20.0, 5.0));
    assert_eq!(supported.verdict, ClaimVerdict::Supported, "{}", supported.why);
    let point = &supported.points[0];
    assert!(point.low.unwrap() > 0.0 && point.low.unwrap() < 20.0 && point.high.unwrap() > 20.0);
    assert_eq!((supported.unit.as_str(), point.n, point.verdict), ("B/s", 10, ClaimVerdict::Supported));
    assert!(supported.p_holm.unwrap() < 0.05 && supported.needs.is_none());
    assert!(supported.why.starts_with("sctp − tcp = "), "{}", supported.why);

    let refuted = two_transports(GREATER, 10, sctp_gains(-20.0, 5.0));
    assert_eq!(refuted.verdict, ClaimVerdict::Refuted, "{}", refuted.why);
    assert!(refuted.points[0].high.unwrap() < 0.0);

    let open = two_transports(GREATER, 10, sctp_gains(2.0, 20.0));
    assert_eq!(open.verdict, ClaimVerdict::Inconclusive, "{}", open.why);
    assert!(open.needs.unwrap() > 10);
}

#[test]
fn less_is_greater_seen_from_the_other_side() {
    let less = GREATER.replace("['sctp', 'tcp']", "['tcp', 'sctp']").replace("greater", "less");
    for (gain, verdict) in [(20.0, ClaimVerdict::Supported), (-20.0, ClaimVerdict::Refuted)] {
        assert_eq!(two_transports(&less, 10, sctp_gains(gain, 5.0)).verdict, verdict);
    }
}

/// A gain of 20 B/s on 1000 B/s is 2 %.
#[test]
fn a_margin_asks_for_more() {
    let margin = |margin: &str| format!("{GREATER}\nmargin = '{margin}'");
    let verdict = |text: &str| two_transports(&margin(text), 20, sctp_gains(20.0, 1.0)).verdict;
    assert_eq!(verdict("15 B/s"), ClaimVerdict::Supported);
    assert_eq!(verdict("0.025 KB/s"), ClaimVerdict::Refuted);
    assert_eq!(verdict("1 %"), ClaimVerdict::Supported);
    assert_eq!(verdict("3 %"), ClaimVerdict::Refuted);
    assert_eq!(verdict("0 %"), ClaimVerdict::Supported);
    let relative = two_transports(&margin("1 %"), 20, sctp_gains(20.0, 1.0));
    assert_eq!(relative.unit, "1");
    assert!((relative.points[0].estimate - 1.02).abs() < 0.005, "{}", relative.points[0].estimate);
    // A margin of 0 % is not a relative margin: the estimate stays a difference.
    assert_eq!(two_transports(&margin("0 %"), 20, sctp_gains(20.0, 1.0)).unit, "B/s");
}

#[test]
fn equivalent() {
    let claim =
        "response = 'r'\ncompare = { transport = ['sctp', 'tcp'] }\nexpect = 'equivalent'\nmargin = '10 B/s'";
    let verdict = |gain, noise| two_transports(claim, 10, sctp_gains(gain, noise)).verdict;
    assert_eq!(verdict(1.0, 1.0), ClaimVerdict::Supported);
    assert_eq!(verdict(20.0, 1.0), ClaimVerdict::Refuted);
    assert_eq!(verdict(-20.0, 1.0), ClaimVerdict::Refuted);
    assert_eq!(verdict(1.0, 100.0), ClaimVerdict::Inconclusive);
}

#[test]
fn a_claim_must_hold_at_each_point() {
    let study = |gain_at_20: f64| {
        Study::new(&[TRANSPORTS, OUTAGES])
            .claim("c", &format!("{GREATER}\nwhere = {{ down_for = ['10 s', '20 s'] }}"))
            .run(10, move |place| {
                let gain = match place.level("down_for") {
                    "0 s" | "5 s" => -100.0,
                    "10 s" => 40.0,
                    _ => gain_at_20,
                };
                sctp_gains(gain, 2.0)(place)
            })
            .verdict()
    };
    let both = study(40.0);
    assert_eq!((both.verdict, both.points.len()), (ClaimVerdict::Supported, 2), "{}", both.why);
    assert!(both.why.contains("all 2 comparisons hold"), "{}", both.why);
    let one = study(-40.0);
    assert_eq!(one.verdict, ClaimVerdict::Refuted);
    assert!(one.why.starts_with("at down_for = 20 s: "), "{}", one.why);
    let unclear = study(0.1);
    assert_eq!(unclear.verdict, ClaimVerdict::Inconclusive, "{}", unclear.why);
    let verdicts: Vec<ClaimVerdict> = unclear.points.iter().map(|point| point.verdict).collect();
    assert_eq!(verdicts, [ClaimVerdict::Supported, ClaimVerdict::Inconclusive]);
}

/// The response falls by 100 B/s per second of outage, but `plateau` keeps the last step from falling.
fn falls(plateau: bool, noise: f64) -> impl Fn(&StudyPoint<'_>) -> f64 {
    move |place| {
        let seconds = place.number("down_for");
        let seconds = if plateau { seconds.min(10.0) } else { seconds };
        5000.0 - 100.0 * seconds + place.own_luck().normal(0.0, noise)
    }
}

#[test]
fn trends_need_every_step() {
    let trend = |expect: &str, plateau, noise| {
        let claim = format!("response = 'r'\nover = 'down_for'\nexpect = '{expect}'");
        Study::new(&[OUTAGES]).claim("c", &claim).run(10, falls(plateau, noise)).verdict()
    };
    let decreasing = trend("decreasing", false, 10.0);
    assert_eq!(decreasing.verdict, ClaimVerdict::Supported, "{}", decreasing.why);
    assert_eq!(trend("increasing", false, 10.0).verdict, ClaimVerdict::Refuted);
    let flat = trend("decreasing", true, 10.0);
    assert_eq!(flat.verdict, ClaimVerdict::Inconclusive, "{}", flat.why);
    let weakest = flat.points[0].compared.clone().unwrap();
    assert_eq!([weakest[0].text(), weakest[1].text()], ["20 s", "10 s"]);
    assert_eq!(trend("decreasing", false, 2000.0).verdict, ClaimVerdict::Inconclusive);
}

/// In the file, the order of the levels is 10, 5, 20, 0 s. The trend is judged in the order of their amounts.
#[test]
fn a_trend_goes_by_amounts() {
    let claim = "response = 'r'\nover = 'down_for'\nexpect = 'decreasing'";
    let study = Study::new(&[("down_for", &["10 s", "5000 ms", "20 s", "0 s"])]).claim("c", claim);
    assert_eq!(study.run(10, falls(false, 10.0)).verdict().verdict, ClaimVerdict::Supported);
}

/// The plan has two sweeps instead of all combinations. No comparison is possible at points where the other factor was
/// not varied.
#[test]
fn places_that_the_plan_does_not_compare_are_none() {
    let claim = "response = 'r'\nover = 'down_for'\nexpect = 'decreasing'";
    let mut study =
        Study::new(&[OUTAGES, ("shape", &["1.5", "1.2"])]).claim("c", claim).run(10, falls(false, 10.0));
    study.points.retain(|runs| {
        let level = |factor: &str| runs.point.level(factor).unwrap().to_string();
        level("shape") == "1.5" || level("down_for") == "0 s"
    });
    let result = study.verdict();
    assert_eq!((result.verdict, result.points.len()), (ClaimVerdict::Supported, 1));
    assert!(!result.why.contains("not compared"), "{}", result.why);
}

#[test]
fn does_not_depend_on_a_factor() {
    let claim = "response = 'r'\nover = 'down_for'\nexpect = 'equivalent'\nmargin = '2 %'";
    let study = |odd: f64, noise: f64| {
        Study::new(&[OUTAGES])
            .claim("c", claim)
            .run(10, move |place| {
                let odd = if place.level("down_for") == "10 s" { odd } else { 0.0 };
                1000.0 + odd + place.own_luck().normal(0.0, noise)
            })
            .verdict()
    };
    let same = study(5.0, 2.0);
    assert_eq!((same.verdict, same.unit.as_str()), (ClaimVerdict::Supported, "1"), "{}", same.why);
    assert!(same.why.contains("all 6 comparisons hold"), "{}", same.why);
    assert_eq!(study(60.0, 2.0).verdict, ClaimVerdict::Refuted);
    assert_eq!(study(0.0, 60.0).verdict, ClaimVerdict::Inconclusive);
}

const PAPER: &str = "title = 'p'\n\
    [[value]]\nid = 'table3.tcp'\ngroup = 'table3'\nvalue = 1\nunit = 'KB/s'\nquote = 'q'\n\
    [[value]]\ngroup = 'fig2'\nwhere = { down_for = '5 s' }\nresponse = 'r'\nvalue = 950\nunit = 'B/s'\nquote = 'q'\n\
    [[value]]\ngroup = 'fig2'\nwhere = { down_for = '10 s' }\nresponse = 'r'\nvalue = 900\nunit = 'B/s'\nquote = 'q'\n";

#[test]
fn within_a_margin_of_a_number_or_of_the_paper() {
    let study = |claim: &str, mean: f64| {
        Study::new(&[("down_for", &["5 s"])])
            .paper(PAPER)
            .claim("c", claim)
            .run(10, move |place| mean + place.own_luck().normal(0.0, 3.0))
            .verdict()
    };
    for target in ["'1 KB/s'", "1000", "{ paper = 'table3.tcp' }"] {
        let claim = format!("response = 'r'\nexpect = 'within'\nmargin = '2 %'\ntarget = {target}");
        assert_eq!(study(&claim, 1010.0).verdict, ClaimVerdict::Supported, "{target}");
        assert_eq!(study(&claim, 1040.0).verdict, ClaimVerdict::Refuted, "{target}");
        assert_eq!(study(&claim, 1020.0).verdict, ClaimVerdict::Inconclusive, "{target}");
    }
    let between = "response = 'r'\nexpect = 'between'\nbetween = ['0.9 KB/s', '1.1 KB/s']";
    assert_eq!(study(between, 1000.0).verdict, ClaimVerdict::Supported);
    assert_eq!(study(between, 1200.0).verdict, ClaimVerdict::Refuted);
    let above = "response = 'r'\nexpect = 'greater'\ntarget = '1 KB/s'\nmargin = '1 %'";
    assert_eq!(study(above, 1020.0).verdict, ClaimVerdict::Supported);
    assert_eq!(study(above, 1000.0).verdict, ClaimVerdict::Refuted);
}

/// The paper gives a value only at 5 s and 10 s. The other points are not compared, and the reason says so.
#[test]
fn the_papers_values_point_by_point() {
    let claim = "response = 'r'\nexpect = 'within'\nmargin = '2 %'\ntarget = { paper = 'fig2' }";
    let result = Study::new(&[OUTAGES])
        .paper(PAPER)
        .claim("c", claim)
        .run(10, |place| 1000.0 - 10.0 * place.number("down_for") + place.own_luck().normal(0.0, 1.0))
        .verdict();
    assert_eq!((result.verdict, result.points.len()), (ClaimVerdict::Supported, 2), "{}", result.why);
    assert!(result.why.contains("2 places were not compared (the paper gives no value"), "{}", result.why);
}

/// The curve is flat up to 3 and then falls by 50 B/s per unit. The levels are 1 to 7.
#[test]
fn knees() {
    let study = |between: &str, slope: f64| {
        let claim = format!("response = 'r'\nover = 'load'\nexpect = 'knee'\n{between}");
        Study::new(&[("load", &["1", "2", "3", "4", "5", "6", "7"])])
            .claim("c", &claim)
            .run(10, move |place| {
                1000.0 - slope * (place.number("load") - 3.0).max(0.0) + place.own_luck().normal(0.0, 5.0)
            })
            .verdict()
    };
    let found = study("between = [2.5, 3.5]", 50.0);
    assert_eq!(found.verdict, ClaimVerdict::Supported, "{}", found.why);
    assert!((found.points[0].estimate - 3.0).abs() < 0.3);
    assert!(found.why.starts_with("knee at "), "{}", found.why);
    assert_eq!(study("", 50.0).verdict, ClaimVerdict::Supported);
    assert_eq!(study("between = [4.5, 6]", 50.0).verdict, ClaimVerdict::Refuted);
    assert_eq!(study("", 0.0).verdict, ClaimVerdict::Inconclusive);
}

/// Levels with few or no valid runs do not prevent finding the knee if they lie at the ends of the axis. In the middle
/// they do.
#[test]
fn a_knee_is_looked_for_where_runs_are_valid() {
    let found = |last: Option<Status>, is_valid: fn(f64, usize) -> bool| {
        let claim = "response = 'r'\nover = 'load'\nexpect = 'knee'\nbetween = [2.5, 3.5]";
        let levels = ["1", "2", "3", "4", "5", "6", "7", "8"];
        let study = Study::new(&[("load", &levels)]).claim("c", claim).run(10, |place| {
            1000.0 - 50.0 * (place.number("load") - 3.0).max(0.0) + place.own_luck().normal(0.0, 5.0)
        });
        let mut study = match last {
            Some(status) => study.ended("load", "8", status),
            None => study,
        };
        for (point, load) in study.points.iter_mut().zip(1..) {
            for (number, run) in point.runs.iter_mut().enumerate() {
                if !is_valid(f64::from(load), number) {
                    run.validity = Validity::Invalid("the CPU was busy".into());
                }
            }
        }
        study.verdict()
    };
    let without = found(Some(Status::Invalid), |load, number| load != 7.0 || number < 4);
    assert_eq!((without.verdict, without.points[0].n), (ClaimVerdict::Supported, 10), "{}", without.why);
    assert!(without.why.contains("(n = 10), without 7, 8: too few runs there are valid"), "{}", without.why);
    // A level is kept if half of its replications are valid.
    let with = found(None, |load, number| load < 7.0 || number < 5);
    assert_eq!((with.verdict, with.points[0].n), (ClaimVerdict::Supported, 5), "{}", with.why);
    assert!(!with.why.contains("without"), "{}", with.why);
    let in_the_middle = found(None, |load, number| load != 4.0 || number < 1);
    assert_eq!(in_the_middle.points[0].n, 1, "{}", in_the_middle.why);
    let failed = found(Some(Status::Failed), |_, _| true);
    assert_eq!(failed.verdict, ClaimVerdict::NotTested, "{}", failed.why);
}

/// With several claims, each place is judged at a higher confidence, because the claims share the error rate. The
/// printed interval may lie in the claimed range although the interval that decides does not. Then the reason gives
/// both.
#[test]
fn a_knee_tells_the_interval_that_decides() {
    let knee = "response = 'r'\nover = 'load'\nexpect = 'knee'\nbetween = [2.7, 4.1]";
    let study = |claims: &[&str]| {
        let study = Study::new(&[("load", &["1", "2", "3", "4", "5", "6", "7"])]);
        let study = claims.iter().fold(study, |study, name| study.claim(name, knee));
        let run = study.run(10, |place| {
            1000.0 - 50.0 * (place.number("load") - 3.0).max(0.0) + place.own_luck().normal(0.0, 20.0)
        });
        run.judge().claims.swap_remove(0)
    };
    let alone = study(&["a"]);
    assert_eq!(alone.verdict, ClaimVerdict::Supported, "{}", alone.why);
    let among = study(&["a", "b", "c", "d", "e", "f", "g", "h"]);
    assert_eq!(among.verdict, ClaimVerdict::Inconclusive, "{}", among.why);
    let shown = |claim: &ClaimResult| (claim.points[0].low, claim.points[0].high);
    assert_eq!(shown(&among), shown(&alone));
    assert_eq!(
        among.why,
        "knee at 3.00 [2.71, 4.03] (n = 10); with 99.38 % confidence, which decides because all claims share the error rate: \
         3.00 [2.56, 4.31] (n = 10): this neither bears it out nor excludes it"
    );
}

/// A step from 1,000 to 2,000 B/s between 4 and 5, in a curve that rises by 20 B/s per unit everywhere; levels 1 to 8.
#[test]
fn rises() {
    let study = |between: &str, step: f64, luck: f64| {
        let claim = format!("response = 'r'\nover = 'load'\nexpect = 'rise'\nbetween = {between}");
        Study::new(&[("load", &["1", "2", "3", "4", "5", "6", "7", "8"])])
            .claim("c", &claim)
            .run(10, move |place| {
                let load = place.number("load");
                let stepped = if load >= 5.0 { step } else { 0.0 };
                1000.0 + 20.0 * load + stepped + place.own_luck().normal(0.0, luck)
            })
            .verdict()
    };
    let found = study("[4, 5]", 1000.0, 5.0);
    assert_eq!(found.verdict, ClaimVerdict::Supported, "{}", found.why);
    // The step rises by 1,020 of 1,140 B/s.
    assert!((found.points[0].estimate - 1020.0 / 1140.0).abs() < 0.01);
    assert!(found.why.starts_with("share of the rise: "), "{}", found.why);
    assert_eq!(study("[3, 6]", 1000.0, 5.0).verdict, ClaimVerdict::Supported);
    assert_eq!(study("[5, 8]", 1000.0, 5.0).verdict, ClaimVerdict::Refuted);
    // A fall is a negative rise. A constant curve decides nothing.
    assert_eq!(study("[4, 5]", -1000.0, 5.0).verdict, ClaimVerdict::Supported);
    assert_eq!(study("[4, 5]", -140.0, 50.0).verdict, ClaimVerdict::Inconclusive);
}

#[test]
fn one_replication_decides_nothing() {
    let result = two_transports(GREATER, 1, sctp_gains(500.0, 1.0));
    assert_eq!((result.verdict, result.p_holm, result.needs), (ClaimVerdict::Inconclusive, None, Some(2)));
    let point = &result.points[0];
    assert!(point.estimate > 400.0 && point.low.is_none() && point.high.is_none());
    assert!(result.why.contains("one replication has no interval"), "{}", result.why);
}

/// A simulation without randomness: every replication is the same.
#[test]
fn runs_without_any_chance_are_proof() {
    let study = |claim: &str, value: fn(&StudyPoint<'_>) -> f64| {
        Study::new(&[TRANSPORTS]).deterministic().claim("c", claim).run(3, value).verdict()
    };
    let exactly = |gain| match gain {
        0 => study(GREATER, |_| 10.0),
        _ => study(GREATER, |place| if place.level("transport") == "sctp" { 11.0 } else { 10.0 }),
    };
    let more = exactly(1);
    assert_eq!((more.verdict, more.p_holm), (ClaimVerdict::Supported, Some(0.0)));
    assert_eq!((more.points[0].low, more.points[0].high), (Some(1.0), Some(1.0)));
    assert!(
        more.why.ends_with("1 B/s in each of 3 replications, without chance, so that there is no p-value")
    );
    let none = exactly(0);
    assert_eq!(none.verdict, ClaimVerdict::Refuted, "{}", none.why);
    let same =
        "response = 'r'\ncompare = { transport = ['sctp', 'tcp'] }\nexpect = 'equivalent'\nmargin = '1 %'";
    assert_eq!(study(same, |_| 10.0).verdict, ClaimVerdict::Supported);
    assert_eq!(study(same, |_| 0.0).verdict, ClaimVerdict::NotTested);
}

/// The same numbers, but from random runs.
#[test]
fn runs_that_are_alike_by_chance_are_no_proof() {
    for n in [2, 10] {
        let gain = |place: &StudyPoint<'_>| if place.level("transport") == "sctp" { 11.0 } else { 10.0 };
        let more = two_transports(GREATER, n, gain);
        assert_eq!(
            (more.verdict, more.p_holm, more.needs),
            (ClaimVerdict::Inconclusive, None, None),
            "{}",
            more.why
        );
        assert_eq!((more.points[0].low, more.points[0].high), (None, None));
        let why = format!("sctp − tcp = 1 B/s in each of {n} replications: where chance plays a part");
        assert!(more.why.starts_with(&why), "{}", more.why);
    }
    let knee = "response = 'r'\nover = 'load'\nexpect = 'knee'";
    let bent = |place: &StudyPoint<'_>| (place.number("load") - 3.0).max(0.0);
    let study = || Study::new(&[("load", &["1", "2", "3", "4", "5", "6"])]).claim("c", knee);
    assert_eq!(study().run(3, bent).verdict().verdict, ClaimVerdict::Inconclusive);
    assert_eq!(study().deterministic().run(3, bent).verdict().verdict, ClaimVerdict::Supported);
}

#[test]
fn without_points_there_is_no_test() {
    let study = |status| {
        Study::new(&[TRANSPORTS])
            .claim("c", GREATER)
            .run(10, sctp_gains(20.0, 5.0))
            .ended("transport", "sctp", status)
            .verdict()
    };
    for status in [Status::Unsupported, Status::Failed, Status::Invalid] {
        let result = study(status);
        assert_eq!((result.verdict, result.p_holm), (ClaimVerdict::NotTested, None));
        assert_eq!(result.why, "nothing could be compared: transport cannot be sctp");
    }
    let nothing = Study::new(&[TRANSPORTS]).claim("c", GREATER).run_on("sim", 10, |_| None).verdict();
    assert_eq!(nothing.verdict, ClaimVerdict::NotTested);
    assert_eq!(nothing.why, "nothing could be compared: no valid run measured the response");
}

/// A point that the substrate cannot run is left out. A failed point prevents support.
#[test]
fn a_failed_point_is_no_support() {
    let study = |status| {
        Study::new(&[TRANSPORTS, OUTAGES])
            .claim("c", GREATER)
            .run(10, sctp_gains(50.0, 2.0))
            .ended("down_for", "20 s", status)
            .verdict()
    };
    let unsupported = study(Status::Unsupported);
    assert_eq!((unsupported.verdict, unsupported.points.len()), (ClaimVerdict::Supported, 3));
    assert!(unsupported.why.contains("1 place was not compared"), "{}", unsupported.why);
    let failed = study(Status::Failed);
    assert_eq!(failed.verdict, ClaimVerdict::Inconclusive, "{}", failed.why);
}

/// A run without a value and an invalid run are left out together with their partners.
#[test]
fn only_pairs_count() {
    let mut study = Study::new(&[TRANSPORTS]).claim("c", GREATER).run_on("sim", 10, |place| {
        let missing = place.level("transport") == "tcp" && place.replication == 3;
        (!missing).then(|| sctp_gains(20.0, 5.0)(place))
    });
    study.points[1].runs[4].validity = Validity::Invalid("the CPU was busy".into());
    study.points[1].runs[5].responses = [("r", f64::NAN.into())].into_iter().collect();
    let result = study.verdict();
    assert_eq!(result.points[0].n, 7);
    assert!(result.why.contains("(n = 7), 3 replications were measured on one side only"), "{}", result.why);
    assert_eq!(result.verdict, ClaimVerdict::Supported, "{}", result.why);
}

/// Seven claims share the error rate: evidence that suffices for one claim does not suffice for seven.
#[test]
fn holm_over_the_claims() {
    // The differences have mean 1 and sd 1.5: t = 2.11 with 9 degrees of freedom or more, p about 0.03 to 0.05.
    let value = |place: &StudyPoint<'_>| match (place.level("transport"), place.replication % 2) {
        ("tcp", _) => 100.0,
        (_, 0) => 102.4,
        _ => 99.9,
    };
    let study = |copies: usize| {
        (0..copies)
            .fold(Study::new(&[TRANSPORTS]), |study, i| study.claim(&format!("c{i}"), GREATER))
            .run(10, value)
    };
    let alone = study(1).verdict();
    assert_eq!(alone.verdict, ClaimVerdict::Supported, "{}", alone.why);
    let seven = study(7).judge().claims;
    assert!(seven.iter().all(|claim| claim.verdict == ClaimVerdict::Inconclusive));
    assert!((seven[0].p_holm.unwrap() - (7.0 * alone.p_holm.unwrap()).min(1.0)).abs() < 1e-12);
    assert!(seven[0].why.contains("holds by itself"), "{}", seven[0].why);
    assert!(seven[0].needs.unwrap() > 10);
}

#[test]
fn the_same_data_give_the_same_verdict() {
    let study = || {
        Study::new(&[TRANSPORTS, OUTAGES])
            .table("t", "rows = ['transport']\n[columns]\nover = { spread = 'r', over = ['down_for'] }")
            .claim(
                "c",
                "response = 'table.t.over'\ncompare = { transport = ['tcp', 'sctp'] }\nexpect = 'greater'",
            )
            .run(10, sctp_gains(5.0, 20.0))
    };
    assert_eq!(study().judge(), study().judge());
}

/// If the true value lies exactly on the border, at most 5 % of the claims are supported, within the accuracy of 2000
/// trials (0.05 + 3 √(0.05 · 0.95 / 2000) = 0.065).
#[test]
fn supported_is_wrong_in_at_most_five_percent() {
    let share = |claim: &str, truth: f64, verdict: ClaimVerdict| {
        let study = Study::new(&[TRANSPORTS]).claim("c", claim);
        let trials = 2000;
        let wrong = (0..trials).filter(|trial| {
            let value = |place: &StudyPoint<'_>| {
                let mut luck = netrig_core::Seeds::new(u64::from(place.replication))
                    .stream(&format!("{trial}/{:?}", place.point));
                1000.0 + if place.level("transport") == "sctp" { truth } else { 0.0 } + luck.normal(0.0, 10.0)
            };
            let study = Study { design: study.design.clone(), points: Vec::new(), deterministic: false }
                .run(10, value);
            study.verdict().verdict == verdict
        });
        wrong.count() as f64 / f64::from(trials)
    };
    let at_the_margin = share(&format!("{GREATER}\nmargin = '5 B/s'"), 5.0, ClaimVerdict::Supported);
    assert!(at_the_margin <= 0.065, "{at_the_margin}");
    assert!(at_the_margin > 0.01, "the test has no power left: {at_the_margin}");
    // The interval of ten differences of sd 14 is about ±10 wide: with a margin of 25, equivalence is possible.
    let equivalent = GREATER.replace("greater", "equivalent") + "\nmargin = '25 B/s'";
    let border = share(&equivalent, 25.0, ClaimVerdict::Supported);
    assert!(border <= 0.065 && border > 0.02, "{border}");
    // The true value lies just inside the range, so a refutation is wrong. Wrong refutations must be as rare.
    let refuted = share(&equivalent, 24.999, ClaimVerdict::Refuted);
    assert!(refuted <= 0.04, "{refuted}");
}

/// The numbers that determine a verdict, and the borders that they are compared with.
#[test]
fn what_decided_it_stands_beside_what_was_claimed() {
    let claimed = |claim: &str| two_transports(claim, 10, sctp_gains(20.0, 5.0)).points[0].claimed.unwrap();
    let compare = "response = 'r'\ncompare = { transport = ['sctp', 'tcp'] }\nexpect = ";
    assert_eq!(claimed(&format!("{compare}'greater'")), [Some(0.0), None]);
    assert_eq!(claimed(&format!("{compare}'less'\nmargin = '2 %'")), [None, Some(0.98)]);
    assert_eq!(claimed(&format!("{compare}'equivalent'\nmargin = '10 B/s'")), [Some(-10.0), Some(10.0)]);
    let within =
        "response = 'r'\nwhere = { transport = 'tcp' }\nexpect = 'within'\ntarget = '1 KB/s'\nmargin = '3 %'";
    assert_eq!(claimed(within), [Some(970.0), Some(1030.0)]);

    let study = Study::new(&[TRANSPORTS, OUTAGES]).claim("c", GREATER);
    let gain = |place: &StudyPoint<'_>| match (place.level("transport"), place.level("down_for")) {
        ("tcp", _) => 1000.0,
        (_, "10 s") => 1005.0,
        _ => 1050.0,
    };
    let noisy = |place: &StudyPoint<'_>| gain(place) + place.own_luck().normal(0.0, 1.0);
    let supported = study.run(10, noisy).verdict();
    let weakest = supported.decided_by.clone().unwrap();
    assert_eq!((supported.verdict, weakest.factors["down_for"].text()), (ClaimVerdict::Supported, "10 s"));
    assert!(supported.points.contains(&weakest));

    let lost =
        |place: &StudyPoint<'_>| noisy(place) - if place.level("down_for") == "20 s" { 200.0 } else { 0.0 };
    let sctp_loses =
        |place: &StudyPoint<'_>| if place.level("transport") == "tcp" { noisy(place) } else { lost(place) };
    let refuted = Study::new(&[TRANSPORTS, OUTAGES]).claim("c", GREATER).run(10, sctp_loses).verdict();
    let against = refuted.decided_by.unwrap();
    assert_eq!((refuted.verdict, against.verdict), (ClaimVerdict::Refuted, ClaimVerdict::Refuted));
    assert_eq!(against.factors["down_for"].text(), "20 s");
}

#[test]
fn a_claim_is_seen_where_its_levels_are_told_apart() {
    let exhibit = |claim: &str| {
        let figure = |x: &str, series: &str, at: &str| {
            format!("x = '{x}'\ny = 'r'\nseries = '{series}'\nwhere = {{ {at} }}")
        };
        let study = Study::new(&[TRANSPORTS, OUTAGES, ("shape", &["1.2", "1.5"])])
            .figure("by-outage", &figure("down_for", "shape", "transport = 'sctp'"))
            .figure("by-transport", &figure("transport", "down_for", "shape = 1.5"))
            .figure("by-shape", &figure("shape", "down_for", "transport = 'tcp'"))
            .table(
                "outages",
                "rows = ['transport', 'down_for']\n[columns]\nmean = { mean = 'r', over = 'shape' }",
            );
        let study = study.claim("c", claim);
        study.design.exhibit(&study.design.claims[0].1).map(|exhibit| format!("{exhibit:?}"))
    };
    let seen = |claim: &str| exhibit(&format!("response = 'r'\n{claim}")).unwrap();
    assert_eq!(seen("over = 'down_for'\nexpect = 'decreasing'"), "Figure(\"by-outage\")");
    assert_eq!(
        seen("compare = { transport = ['sctp', 'tcp'] }\nexpect = 'greater'"),
        "Figure(\"by-transport\")"
    );
    // Only the third figure shows TCP's outages at shape 1.2; the second shows only shape 1.5.
    let tcp = "over = 'down_for'\nexpect = 'decreasing'\nwhere = { transport = 'tcp', shape = 1.2 }";
    assert_eq!(seen(tcp), "Figure(\"by-shape\")");
    assert_eq!(seen(&format!("{tcp}\nfigure = 'by-outage'")), "Figure(\"by-outage\")");
    // No figure shows both transports at shape 1.2, but the table does.
    let table = "compare = { transport = ['sctp', 'tcp'] }\nwhere = { shape = 1.2 }\nexpect = 'greater'";
    assert_eq!(seen(table), "Table(\"outages\")");
    let column = "response = 'table.outages.mean'\nover = 'down_for'\nexpect = 'decreasing'";
    assert_eq!(exhibit(column).unwrap(), "Table(\"outages\")");

    let study = Study::new(&[TRANSPORTS]).claim("c", GREATER);
    assert_eq!(study.design.exhibit(&study.design.claims[0].1), None);
    let unknown: crate::ClaimSpec =
        toml::from_str(&format!("says = 'it is so'\n{GREATER}\nfigure = 'fig6'")).unwrap();
    assert_eq!(unknown.check(&study.design)[0].to_string(), "`figure`: there is no figure `fig6`");
}
