//! Two capacities.
//!
//! Several repeats are compared as what they are, a sample each, if they differ. One repeat is a bracket: the highest rate that passed and the
//! lowest that failed, each of which its test has decided with a stated risk. Brackets that are apart differ.

use netrig_runner::capacity::{Capacity, Verdict as Found};
use netrig_stats::compare::{Alternative, welch};

use super::document::Capacity as Document;
use super::{Index, Settings, Verdict};
use crate::failure::Failure;

/// The capacity of both.
pub fn index(before: &Document, now: &Document, settings: Settings) -> Result<Index, Failure> {
    let found = [before, now].map(|document| match &document.verdict {
        Some(Found::Capacity(capacity)) => Some(capacity),
        _ => None,
    });
    let values = found.map(|found| found.map(|found| found.rate));
    let index = Index { more_is_better: true, ..Index::untested("capacity".to_owned(), "1/s", values, "") };
    let [Some(before), Some(now)] = found else {
        let how = "one of the searches has not found a number".to_owned();
        return Ok(Index { how, ..index });
    };
    if before.found.len() < 2 || now.found.len() < 2 {
        return Ok(by_brackets(index, before, now));
    }
    let rates = |capacity: &Capacity| capacity.found.iter().map(|found| found.passed).collect::<Vec<_>>();
    let test = welch(&rates(now), &rates(before), 0.0, Alternative::TwoSided, settings.confidence);
    let test = test.map_err(Failure::failed)?;
    if test.p_value.is_none() {
        return Ok(by_brackets(index, before, now));
    }
    Ok(Index {
        low: test.interval.low,
        high: test.interval.high,
        p: test.p_value,
        verdict: Verdict::NoDifference,
        how: format!("Welch's test, {} and {} repeats", before.found.len(), now.found.len()),
        ..index
    })
}

fn by_brackets(index: Index, before: &Capacity, now: &Capacity) -> Index {
    let lowest = |capacity: &Capacity| capacity.found.iter().map(|found| found.passed).reduce(f64::min);
    // What passed up to the highest rate that was allowed has no end.
    let highest = |capacity: &Capacity| {
        capacity.found.iter().map(|found| found.failed.unwrap_or(f64::INFINITY)).reduce(f64::max)
    };
    let are_apart = |low: &Capacity, high: &Capacity| highest(low) <= lowest(high);
    let verdict = if are_apart(now, before) {
        Verdict::Worse
    } else if are_apart(before, now) {
        Verdict::Better
    } else {
        Verdict::NoDifference
    };
    let how = "by what passed and what failed, for there are no two repeats of each that differ".to_owned();
    Index { verdict, how, ..index }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::document::tests::some_offer;
    use super::super::judge;
    use super::*;

    const SETTINGS: Settings = Settings { confidence: 0.95, margin: 0.0 };

    fn document(found: &[(f64, f64)]) -> Document {
        let rates: Vec<_> = found.iter().map(|(passed, _)| passed).collect();
        let mean = rates.iter().copied().sum::<f64>() / rates.len().max(1) as f64;
        let found: Vec<_> =
            found.iter().map(|(passed, failed)| json!({"passed": passed, "failed": failed})).collect();
        let offered = some_offer(1);
        let capacity = json!({"rate": mean, "low": null, "high": null, "confidence": 0.95, "found": found,
            "contradictions": []});
        serde_json::from_value(json!({"target": "udp:192.0.2.1", "offered": offered,
            "verdict": {"capacity": capacity}, "journal": {"settings": {}}}))
        .unwrap()
    }

    fn verdict(before: &[(f64, f64)], now: &[(f64, f64)]) -> Verdict {
        let mut all = [index(&document(before), &document(now), SETTINGS).unwrap()];
        judge(&mut all, SETTINGS).unwrap();
        all[0].verdict
    }

    #[test]
    fn repeats_are_samples_and_one_is_a_bracket() {
        let high = [(1000.0, 1015.0), (1010.0, 1020.0), (990.0, 1005.0)];
        let low = [(900.0, 915.0), (905.0, 920.0), (895.0, 910.0)];
        assert_eq!(verdict(&high, &low), Verdict::Worse);
        assert_eq!(verdict(&low, &high), Verdict::Better);
        assert_eq!(verdict(&high, &high), Verdict::NoDifference);
        assert_eq!(verdict(&high[..1], &low[..1]), Verdict::Worse);
        assert_eq!(verdict(&low[..1], &high), Verdict::Better);
        assert_eq!(verdict(&high[..1], &[(1010.0, 1030.0)]), Verdict::NoDifference, "brackets overlap");
        let mut none = document(&high);
        none.verdict = Some(Found::MoreThan { rate: 1e6 });
        let index = index(&none, &document(&low), SETTINGS).unwrap();
        assert_eq!(index.verdict, Verdict::NotTested);
    }
}
