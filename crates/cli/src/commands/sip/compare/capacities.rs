//! Two capacities: each is an interval from all steps of its search. They differ if their intervals do not overlap.

use netrig_runner::capacity::{CapacityEstimate as Found, Verdict as Searched};

use super::document::Capacity as Document;
use super::{Index, Verdict};

/// The capacity of both.
pub fn index(before: &Document, now: &Document) -> Index {
    let found = [before, now].map(|document| match &document.verdict {
        Some(Searched::Capacity(capacity)) => Some(capacity),
        _ => None,
    });
    let values = found.map(|found| found.map(|found| found.rate));
    let index = Index { more_is_better: true, ..Index::untested("capacity".to_owned(), "1/s", values, "") };
    let [Some(before), Some(now)] = found else {
        let how = "one of the searches has not found a number".to_owned();
        return Index { how, ..index };
    };
    let verdict = match () {
        () if high(now) <= before.low => Verdict::Worse,
        () if high(before) <= now.low => Verdict::Better,
        () => Verdict::NoDifference,
    };
    Index { verdict, how: "whether their intervals overlap".to_owned(), ..index }
}

/// The upper end of an interval, which has none if no rate failed.
fn high(capacity: &Found) -> f64 {
    let has_failed = capacity.half.is_some() || capacity.high > capacity.low;
    if has_failed { capacity.high } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::document::tests::some_offer;
    use super::super::{Settings, judge};
    use super::*;

    const SETTINGS: Settings = Settings { confidence: 0.95, margin: 0.0 };

    fn document(low: f64, high: f64) -> Document {
        let interval = json!({"low": low, "value": low, "high": high});
        let capacity = json!({"rate": (low * high).sqrt(), "low": low, "high": high, "confidence": 0.95, "most": interval,
            "half": interval, "held": null, "steps": 9});
        serde_json::from_value(json!({"target": "udp:192.0.2.1", "offered": some_offer(1),
            "verdict": {"capacity": capacity}, "journal": {"settings": {}}}))
        .unwrap()
    }

    fn verdict(before: (f64, f64), now: (f64, f64)) -> Verdict {
        let mut all = [index(&document(before.0, before.1), &document(now.0, now.1))];
        judge(&mut all, SETTINGS).unwrap();
        all[0].verdict
    }

    #[test]
    fn capacities_differ_if_their_intervals_do_not_overlap() {
        let (high, low) = ((1000.0, 1100.0), (900.0, 980.0));
        assert_eq!(verdict(high, low), Verdict::Worse);
        assert_eq!(verdict(low, high), Verdict::Better);
        assert_eq!(verdict(high, (1090.0, 1200.0)), Verdict::NoDifference, "they overlap");
        let mut none = document(1000.0, 1100.0);
        none.verdict = Some(Searched::MoreThan { rate: 1e6 });
        assert_eq!(index(&none, &document(900.0, 980.0)).verdict, Verdict::NotTested);
    }
}
