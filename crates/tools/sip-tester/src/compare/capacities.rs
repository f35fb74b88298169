//! Comparison of two capacities. Each is an interval, estimated from all steps of its search. They differ if the
//! intervals do not overlap.

use crate::capacity::{CapacityEstimate, CapacityVerdict};

use super::document::ComparedCapacity;
use super::index::{ComparedIndex, IndexVerdict};

/// Compares the capacities that two searches found.
pub fn index(before: &ComparedCapacity, now: &ComparedCapacity) -> ComparedIndex {
    let found = [before, now].map(|document| match &document.verdict {
        Some(CapacityVerdict::Capacity(capacity)) => Some(capacity),
        _ => None,
    });
    let values = found.map(|found| found.map(|found| found.rate));
    let index = ComparedIndex {
        more_is_better: true,
        ..ComparedIndex::untested("capacity".to_owned(), "1/s", values, "")
    };
    let [Some(before), Some(now)] = found else {
        let how = "one of the searches found no capacity".to_owned();
        return ComparedIndex { how, ..index };
    };
    let verdict = match () {
        () if high(now) < before.low => IndexVerdict::Worse,
        () if high(before) < now.low => IndexVerdict::Better,
        () => IndexVerdict::NoDifference,
    };
    ComparedIndex { verdict, how: "whether their intervals overlap".to_owned(), ..index }
}

/// The upper end of an interval; infinite if no rate failed.
fn high(capacity: &CapacityEstimate) -> f64 {
    let has_failed = capacity.half.is_some() || capacity.high > capacity.low;
    if has_failed { capacity.high } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::document::tests::some_offer;
    use super::super::index::{ComparisonSettings, judge};
    use super::*;

    const SETTINGS: ComparisonSettings = ComparisonSettings { confidence: 0.95, margin: 0.0 };

    fn document(low: f64, high: f64) -> ComparedCapacity {
        let interval = json!({"low": low, "value": low, "high": high});
        let capacity = json!({"rate": (low * high).sqrt(), "low": low, "high": high, "confidence": 0.95, "most": interval,
            "half": interval, "held": null, "steps": 9});
        serde_json::from_value(json!({"target": "udp:192.0.2.1", "offered": some_offer(1),
            "verdict": {"capacity": capacity}, "journal": {"settings": {}}}))
        .unwrap()
    }

    fn verdict(before: (f64, f64), now: (f64, f64)) -> IndexVerdict {
        let mut all = [index(&document(before.0, before.1), &document(now.0, now.1))];
        judge(&mut all, SETTINGS).unwrap();
        all[0].verdict
    }

    #[test]
    fn capacities_differ_if_their_intervals_do_not_overlap() {
        let (high, low) = ((1000.0, 1100.0), (900.0, 980.0));
        assert_eq!(verdict(high, low), IndexVerdict::Worse);
        assert_eq!(verdict(low, high), IndexVerdict::Better);
        assert_eq!(verdict(high, (1090.0, 1200.0)), IndexVerdict::NoDifference, "they overlap");
        let mut none = document(1000.0, 1100.0);
        none.verdict = Some(CapacityVerdict::MoreThan { rate: 1e6 });
        assert_eq!(index(&none, &document(900.0, 980.0)).verdict, IndexVerdict::NotTested);
    }
}
