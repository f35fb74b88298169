//! Counts of events by their reasons, in bounded memory.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;

/// Maximum number of distinct reasons that are counted. Any further reasons, which hostile peers can invent, share one
/// count.
const MOST_REASONS: usize = 64;

/// Counts by the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Reasons(pub BTreeMap<String, u64>);

impl AddAssign<&Self> for Reasons {
    fn add_assign(&mut self, other: &Self) {
        for (why, count) in &other.0 {
            *self.0.entry(why.clone()).or_default() += count;
        }
    }
}

impl Reasons {
    /// Adds one to the count of a reason.
    pub fn count(&mut self, why: impl Into<String>) {
        self.add(why, 1);
    }

    /// Adds to the count of a reason.
    pub fn add(&mut self, why: impl Into<String>, more: u64) {
        let mut why = why.into();
        if self.0.len() >= MOST_REASONS && !self.0.contains_key(&why) {
            why = "other reasons".to_owned();
        }
        *self.0.entry(why).or_default() += more;
    }

    /// The sum of all counts.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_do_not_grow_without_end() {
        let mut reasons = Reasons::default();
        for number in 0..1000 {
            reasons.count(number.to_string());
        }
        assert_eq!((reasons.0.len(), reasons.total()), (MOST_REASONS + 1, 1000));
    }
}
