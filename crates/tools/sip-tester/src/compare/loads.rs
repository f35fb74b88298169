//! Comparison of two loads.
//!
//! Calls of one second share the server's state, and neighbouring seconds depend on each other. A test over all calls
//! would assume independence and find differences that do not exist. Therefore each second gives one value, weighted by
//! the number of calls that ended in it. Seconds are joined into as many batches as look independent, and the batches
//! are compared by Welch's test. The slowest calls end after the last arrival: they count for the last second with
//! arrivals. Failures are too rare for batches: shares are compared by an exact test, with a sample size reduced by the
//! design effect of their clusters.

use netrig_stats::batch::{BatchMeans, FEWEST_BATCHES};
use netrig_stats::compare::{Alternative, Proportion, design_effect, proportions, welch};

use super::document::{ComparedDelay, ComparedLoad, ComparedSecond};
use super::error::ComparisonError;
use super::index::{ComparedIndex, ComparisonSettings, IndexVerdict};
use netrig_core::text::words;

/// The largest number of clusters of seconds for the design effect of a share.
const CLUSTERS: usize = 20;

/// A second needs at least this number of samples for its 95th percentile.
const FOR_P95: f64 = 20.0;

/// All indices of two loads.
pub fn indices(
    before: &ComparedLoad,
    now: &ComparedLoad,
    settings: ComparisonSettings,
) -> Result<Vec<ComparedIndex>, ComparisonError> {
    let mut all = vec![success(before, now, settings)?];
    let names = before.delays.iter().chain(now.delays.iter().filter(|row| before.delay(&row.name).is_none()));
    for name in names.map(|row| &*row.name) {
        all.push(delay(before, now, (name, "mean", |row| row.mean_us), settings)?);
        all.push(delay(before, now, (name, "p95", |row| row.p95_us), settings)?);
    }
    all.push(retransmissions(before, now, settings)?);
    Ok(all)
}

impl ComparedLoad {
    fn delay(&self, name: &str) -> Option<&ComparedDelay> {
        self.delays.iter().find(|row| row.name == name)
    }

    /// The measured seconds, one in each span. All seconds after the last one in which a call started belong to its
    /// span: only the slowest calls end in them.
    fn spans(&self) -> Vec<Vec<&ComparedSecond>> {
        let last = self.seconds.iter().filter(|second| second.begun > 0).map(|second| second.second).max();
        let mut spans: Vec<Vec<&ComparedSecond>> = Vec::new();
        for second in self.seconds.iter().filter(|second| second.second as f64 >= self.offered.warm_up) {
            match spans.last_mut() {
                Some(span) if Some(second.second) > last => span.push(second),
                _ => spans.push(vec![second]),
            }
        }
        spans
    }

    /// The share of the load's own attempts that succeeded.
    fn share(&self) -> Proportion {
        // The rows `answer`, `notify` and `renew` are not attempts of callers.
        let own = || self.outcomes.iter().filter(|row| !["answer", "notify", "renew"].contains(&&*row.what));
        Proportion {
            successes: own().map(|row| row.succeeded).sum(),
            trials: own().map(|row| row.succeeded + row.failed).sum(),
        }
    }

    /// The share that succeeded, with failures and attempts divided by the design effect of clustered failures.
    fn effective(&self) -> Proportion {
        // All seconds count, because failures by time-out end after the last start.
        let seconds: Vec<_> =
            self.seconds.iter().filter(|second| second.second as f64 >= self.offered.warm_up).collect();
        let each = seconds.len().div_ceil(CLUSTERS).max(1);
        let cluster = |seconds: &[&ComparedSecond]| Proportion {
            successes: seconds.iter().map(|second| second.succeeded).sum(),
            trials: seconds.iter().map(|second| second.succeeded + second.failed).sum(),
        };
        let clusters: Vec<_> =
            seconds.chunks(each).map(cluster).filter(|cluster| cluster.trials > 0).collect();
        // The variation between clusters cannot be estimated from too few clusters.
        let effect = design_effect(&clusters).unwrap_or(1.0);
        let Proportion { successes, trials } = self.share();
        // Failures are rare, so their number is rounded up.
        let failures = ((trials - successes) as f64 / effect).ceil();
        let trials = (trials as f64 / effect).round().max(failures);
        Proportion { successes: (trials - failures) as usize, trials: trials as usize }
    }
}

fn success(
    before: &ComparedLoad,
    now: &ComparedLoad,
    settings: ComparisonSettings,
) -> Result<ComparedIndex, ComparisonError> {
    let scenarios: Vec<_> = before.offered.scenario.keys().map(String::as_str).collect();
    let name = format!("success of {}", scenarios.join(", "));
    let shares = [before, now].map(|load| {
        let Proportion { successes, trials } = load.share();
        (trials > 0).then(|| successes as f64 / trials as f64)
    });
    if shares.contains(&None) {
        return Ok(ComparedIndex::untested(name, "1", shares, "no attempt ended"));
    }
    let test = proportions(now.effective(), before.effective(), settings.confidence)
        .map_err(ComparisonError::statistics)?;
    Ok(ComparedIndex {
        low: test.interval.low,
        high: test.interval.high,
        p: test.p_value,
        verdict: IndexVerdict::NoDifference,
        more_is_better: true,
        ..ComparedIndex::untested(name, "1", shares, "Fisher's exact test, clusters of seconds")
    })
}

type Statistic = fn(&ComparedDelay) -> f64;

fn delay(
    before: &ComparedLoad,
    now: &ComparedLoad,
    (name, statistic, of): (&str, &str, Statistic),
    settings: ComparisonSettings,
) -> Result<ComparedIndex, ComparisonError> {
    let title = format!("{}, {statistic}", words(name));
    let values = [before, now].map(|load| load.delay(name).map(of));
    if values.contains(&None) {
        return Ok(ComparedIndex::untested(title, "us", values, "only one of the results has it"));
    }
    let parts = [before, now].map(|load| {
        let row = |second: &&ComparedSecond| second.delays.iter().find(|row| row.name == name).cloned();
        let part = |span: &Vec<&ComparedSecond>| {
            let rows = span.iter().filter_map(row).map(|row| (of(&row) * row.n as f64, row.n as f64));
            rows.fold((0.0, 0.0), |(sum, all), (part, n)| (sum + part, all + n))
        };
        load.spans().iter().map(part).collect::<Vec<_>>()
    });
    let fewest = parts.iter().map(|parts| {
        let filled = parts.iter().filter(|(_, n)| *n > 0.0).count();
        parts.iter().map(|(_, n)| n).sum::<f64>() / filled.max(1) as f64
    });
    if statistic == "p95" && fewest.fold(f64::INFINITY, f64::min) < FOR_P95 {
        let why = format!("fewer than {FOR_P95} in a second have no 95th percentile");
        return Ok(ComparedIndex::untested(title, "us", values, why));
    }
    let margin = settings.margin * values[0].unwrap_or(0.0);
    batches(ComparedIndex::untested(title, "us", values, ""), &parts, margin, settings)
}

fn retransmissions(
    before: &ComparedLoad,
    now: &ComparedLoad,
    settings: ComparisonSettings,
) -> Result<ComparedIndex, ComparisonError> {
    let again =
        |span: Vec<&ComparedSecond>| (span.iter().map(|second| second.retransmissions as f64).sum(), 1.0);
    let parts = [before, now].map(|load| load.spans().into_iter().map(again).collect::<Vec<_>>());
    let index = ComparedIndex::untested(
        "requests sent again".to_owned(),
        "1/s",
        parts.each_ref().map(|parts| ratio(parts)),
        "",
    );
    batches(index, &parts, 0.0, settings)
}

/// The sum of the first parts divided by the sum of the second parts.
fn ratio(parts: &[(f64, f64)]) -> Option<f64> {
    let (sum, weight) = parts.iter().fold((0.0, 0.0), |(sum, all), part| (sum + part.0, all + part.1));
    (weight > 0.0).then(|| sum / weight)
}

/// Compares batches of seconds. A difference within `margin` on either side is not significant.
fn batches(
    index: ComparedIndex,
    parts: &[Vec<(f64, f64)>; 2],
    margin: f64,
    settings: ComparisonSettings,
) -> Result<ComparedIndex, ComparisonError> {
    if parts.iter().any(|parts| parts.len() < FEWEST_BATCHES || ratio(parts).is_none()) {
        let how = format!("fewer than {FEWEST_BATCHES} seconds");
        return Ok(ComparedIndex { how, ..index });
    }
    // The tested values replace the totals of the loads.
    let index = ComparedIndex::untested(
        index.name,
        index.unit,
        parts.each_ref().map(|parts| ratio(parts)),
        index.how,
    );
    let cut = |parts: &Vec<(f64, f64)>| BatchMeans::choose_ratio(parts).map_err(ComparisonError::statistics);
    let (before, now) = (cut(&parts[0])?, cut(&parts[1])?);
    if !(before.independent() && now.independent()) {
        let how = "its seconds depend on each other for longer than the loads lasted".to_owned();
        return Ok(ComparedIndex { how, ..index });
    }
    let test = |null, alternative| {
        welch(&now.means, &before.means, null, alternative, settings.confidence)
            .map_err(ComparisonError::statistics)
    };
    let two_sided = test(0.0, Alternative::TwoSided)?;
    // The direction of the difference is selected after the measurement, so the p-value is doubled below.
    let beyond = if two_sided.interval.estimate >= 0.0 {
        test(margin, Alternative::Greater)?
    } else {
        test(-margin, Alternative::Less)?
    };
    let p = beyond.p_value.map(|p| (2.0 * p).min(1.0));
    let how = match p {
        Some(_) => format!("Welch's test, {} and {} batches of seconds", before.means.len(), now.means.len()),
        None => "all its seconds are equal".to_owned(),
    };
    Ok(ComparedIndex {
        low: two_sided.interval.low,
        high: two_sided.interval.high,
        p,
        how,
        verdict: IndexVerdict::NoDifference,
        ..index
    })
}

#[cfg(test)]
mod tests {
    use netrig_core::Seeds;
    use serde_json::json;

    use super::super::document::tests::some_offer;
    use super::super::index::judge;
    use super::*;

    const SETTINGS: ComparisonSettings = ComparisonSettings { confidence: 0.95, margin: 0.0 };

    /// A load with random seconds: delays around a mean, and a share of failures, in bursts.
    fn load(seed: u64, mean_us: f64, share: f64, burst: usize) -> ComparedLoad {
        let mut draws = Seeds::new(seed).stream("compare");
        let mut failures = 0;
        let seconds: Vec<_> = (0..60)
            .map(|second| {
                let failed = if draws.uniform() < share * 100.0 / burst as f64 { burst } else { 0 };
                failures += failed;
                let us = mean_us * (0.9 + 0.2 * draws.uniform());
                let delay = json!({"name": "connection", "n": 100, "mean_us": us, "p95_us": 2.0 * us});
                json!({"second": second, "begun": 100, "succeeded": 100 - failed, "failed": failed,
                       "retransmissions": 0, "delays": [delay]})
            })
            .collect();
        let offered = some_offer(60);
        let delay = json!({"name": "connection", "n": 6000, "mean_us": mean_us, "p95_us": 2.0 * mean_us});
        let outcome = json!({"what": "call", "succeeded": 6000 - failures, "failed": failures});
        serde_json::from_value(json!({"target": "udp:192.0.2.1:5060", "offered": offered, "valid": true,
            "interrupted": false, "interventions": [], "outcomes": [outcome], "delays": [delay],
            "seconds": seconds}))
        .unwrap()
    }

    fn verdicts(
        before: &ComparedLoad,
        now: &ComparedLoad,
        settings: ComparisonSettings,
    ) -> Vec<(String, IndexVerdict)> {
        let mut all = indices(before, now, settings).unwrap();
        judge(&mut all, settings).unwrap();
        all.into_iter().map(|index| (index.name, index.verdict)).collect()
    }

    fn of(verdicts: &[(String, IndexVerdict)], name: &str) -> IndexVerdict {
        verdicts.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("{name} in {verdicts:?}")).1
    }

    #[test]
    fn what_is_slower_is_worse_and_what_is_quicker_better() {
        let (quick, slow) = (load(1, 1000.0, 0.0, 1), load(2, 1150.0, 0.0, 1));
        let found = verdicts(&quick, &slow, SETTINGS);
        assert_eq!(of(&found, "connection, mean"), IndexVerdict::Worse);
        assert_eq!(of(&found, "connection, p95"), IndexVerdict::Worse);
        assert_eq!(of(&found, "success of call"), IndexVerdict::NoDifference);
        assert_eq!(of(&found, "requests sent again"), IndexVerdict::NoDifference);
        assert_eq!(of(&verdicts(&slow, &quick, SETTINGS), "connection, mean"), IndexVerdict::Better);
        let wide = ComparisonSettings { margin: 0.2, ..SETTINGS };
        assert_eq!(of(&verdicts(&quick, &slow, wide), "connection, mean"), IndexVerdict::NoDifference);
    }

    #[test]
    fn failures_count_and_bursts_of_them_for_less() {
        let whole = load(1, 1000.0, 0.0, 1);
        assert_eq!(
            of(&verdicts(&whole, &load(2, 1000.0, 0.01, 1), SETTINGS), "success of call"),
            IndexVerdict::Worse
        );
        assert_eq!(
            of(&verdicts(&load(2, 1000.0, 0.01, 1), &whole, SETTINGS), "success of call"),
            IndexVerdict::Better
        );
        // One burst counts as one failure.
        let burst =
            (3..50).map(|seed| load(seed, 1000.0, 0.005, 30)).find(|load| load.outcomes[0].failed == 30);
        let found = verdicts(&whole, &burst.unwrap(), SETTINGS);
        assert_eq!(of(&found, "success of call"), IndexVerdict::NoDifference);
    }

    /// Of 200 pairs of loads of the same server, at most about 5 % differ in any index, because Holm's method covers
    /// all indices. For a binomial distribution with 5 %, more than 18 of 200 have a probability below 1 %.
    #[test]
    fn the_same_is_seldom_told_apart() {
        let errs = |pair: u64| {
            let (one, other) = (load(1000 + 2 * pair, 1e3, 0.002, 1), load(1001 + 2 * pair, 1e3, 0.002, 1));
            let found = verdicts(&one, &other, SETTINGS);
            found.iter().any(|(_, verdict)| *verdict != IndexVerdict::NoDifference)
        };
        let errors = (0..200).filter(|pair| errs(*pair)).count();
        assert!(errors <= 18, "{errors} of 200");
    }

    /// Answers after the last arrival count for the last second with arrivals, in all columns.
    #[test]
    fn what_ends_after_the_last_arrival_counts() {
        let before = load(1, 1000.0, 0.0, 1);
        let mut now = load(2, 1000.0, 0.0, 1);
        let delay = json!({"name": "connection", "n": 300, "mean_us": 2e6, "p95_us": 2.5e6});
        let late = json!({"second": 62, "begun": 0, "succeeded": 300, "failed": 0, "retransmissions": 90,
            "delays": [delay]});
        now.seconds.push(serde_json::from_value(late).unwrap());
        let all = indices(&before, &now, SETTINGS).unwrap();
        let found = |name: &str| all.iter().find(|index| index.name == name).unwrap();
        for name in ["connection, mean", "connection, p95", "requests sent again"] {
            let ComparedIndex { before: Some(before), now: Some(now), difference: Some(difference), .. } =
                found(name)
            else {
                panic!("{name}: {:?}", found(name));
            };
            assert!((now - before - difference).abs() < 1e-6 * now, "{name}: {:?}", found(name));
            let within =
                |low: Option<f64>, high| low.is_none_or(|low| low < *difference) && high > Some(*difference);
            assert!(
                found(name).low.is_none() || within(found(name).low, found(name).high),
                "{:?}",
                found(name)
            );
        }
        let mean = found("connection, mean").now.unwrap();
        assert!((mean - (6000.0 * 1e3 + 300.0 * 2e6) / 6300.0).abs() < 2e3, "{mean}");
        assert_eq!(found("requests sent again").now, Some(1.5));
    }

    /// The weight of a second is the number of calls that ended in it.
    #[test]
    fn a_second_weighs_what_ended_in_it() {
        let mut now = load(2, 1000.0, 0.0, 1);
        for second in now.seconds.iter_mut().step_by(2) {
            second.delays[0] = ComparedDelay { n: 1, mean_us: 1e6, p95_us: 1e6, ..second.delays[0].clone() };
        }
        let all = indices(&load(1, 1000.0, 0.0, 1), &now, SETTINGS).unwrap();
        let values =
            all.iter().find(|index| index.name == "connection, mean").and_then(|index| index.now).unwrap();
        assert!((values - (100.0 * 1e3 + 1e6) / 101.0).abs() < 200.0, "{values}");
    }

    #[test]
    fn of_too_little_nothing_is_said() {
        let mut short = load(1, 1000.0, 0.0, 1);
        short.seconds.truncate(9);
        let found = verdicts(&short, &load(2, 1000.0, 0.0, 1), SETTINGS);
        assert_eq!(of(&found, "connection, mean"), IndexVerdict::NotTested);
        let mut other = load(2, 1000.0, 0.0, 1);
        other.delays[0].name = "disconnect".to_owned();
        let found = verdicts(&load(1, 1000.0, 0.0, 1), &other, SETTINGS);
        assert_eq!(of(&found, "connection, mean"), IndexVerdict::NotTested);
        assert_eq!(of(&found, "disconnect, mean"), IndexVerdict::NotTested);
    }
}
