//! Sets of half-open ranges of stream offsets.

use std::collections::VecDeque;

/// Disjoint ranges in ascending order. Adjacent ranges are merged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(VecDeque<(u64, u64)>);

impl Ranges {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All ranges, in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }

    pub fn first(&self) -> Option<(u64, u64)> {
        self.0.front().copied()
    }

    /// The range that contains `offset`.
    pub fn containing(&self, offset: u64) -> Option<(u64, u64)> {
        let i = self.0.partition_point(|range| range.1 <= offset);
        self.0.get(i).copied().filter(|range| range.0 <= offset)
    }

    /// Adds a range, and calls `fresh` for each part of it that was not in the set. Returns the merged range. It needs
    /// no search if the range is the new last range or extends the last range.
    pub fn insert(&mut self, start: u64, end: u64, mut fresh: impl FnMut(u64, u64)) -> (u64, u64) {
        let mut merged = (start, end);
        let from = match self.0.back() {
            None => 0,
            Some(last) if last.1 < start => self.0.len(),
            Some(last) if last.0 <= start => self.0.len() - 1,
            Some(_) => self.0.partition_point(|range| range.1 < start),
        };
        let mut covered = start;
        let mut to = from;
        while let Some(&(left, right)) = self.0.get(to).filter(|range| range.0 <= end) {
            if covered < left {
                fresh(covered, left);
            }
            covered = covered.max(right);
            merged = (merged.0.min(left), merged.1.max(right));
            to += 1;
        }
        if covered < end {
            fresh(covered, end);
        }
        if to == from {
            self.0.insert(from, merged);
        } else {
            self.0[from] = merged;
            self.0.drain(from + 1..to);
        }
        merged
    }

    /// Removes everything before `offset`.
    pub fn remove_before(&mut self, offset: u64) {
        while let Some(first) = self.0.front_mut() {
            if first.1 <= offset {
                self.0.pop_front();
                continue;
            }
            first.0 = first.0.max(offset);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the set of ranges with a plain set of numbers.
        #[test]
        fn ranges_are_a_set(ops in prop::collection::vec((0u64..60, 1u64..12, any::<bool>()), 1..40)) {
            let mut ranges = Ranges::default();
            let mut set = BTreeSet::new();
            for (start, len, remove) in ops {
                if remove {
                    ranges.remove_before(start);
                    set.retain(|n| *n >= start);
                } else {
                    let mut fresh = BTreeSet::new();
                    let merged = ranges.insert(start, start + len, |a, b| fresh.extend(a..b));
                    prop_assert_eq!(fresh, (start..start + len).filter(|n| !set.contains(n)).collect());
                    set.extend(start..start + len);
                    prop_assert_eq!(ranges.containing(start), Some(merged));
                }
                prop_assert_eq!(ranges.iter().flat_map(|(a, b)| a..b).collect::<BTreeSet<_>>(), set.clone());
                prop_assert!(ranges.0.iter().zip(ranges.0.iter().skip(1)).all(|(a, b)| a.1 < b.0));
            }
        }
    }
}
