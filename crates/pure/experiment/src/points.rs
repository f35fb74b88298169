//! The combinations of levels that an experiment has.

use std::collections::{BTreeMap, BTreeSet};

use crate::file::factors::{Block, FactorValues};

/// The most points that a plan may have.
pub(crate) const MAX_POINTS: u64 = 1_000_000;

/// Combinations of levels in the order of the file. The first factor changes most slowly.
#[derive(Clone, Debug)]
pub(crate) struct Points {
    /// Indices of the factors with several levels.
    varied: Vec<usize>,
    /// For each point, the indices of the levels of the varied factors.
    rows: Vec<u32>,
    /// For each block of `[[points]]`, its first point and its label.
    labels: Vec<(usize, Option<String>)>,
    len: usize,
}

impl Points {
    /// Without blocks, all combinations of the factors' levels. With blocks, all combinations of each block, one block
    /// after another, without duplicate points.
    ///
    /// # Errors
    /// More than [`MAX_POINTS`] points; the sentence has the numbers.
    pub(crate) fn new(factors: &[FactorValues], blocks: &[Block]) -> Result<Self, String> {
        let everything = [Block { label: None, levels: BTreeMap::new() }];
        let blocks = if blocks.is_empty() { &everything } else { blocks };
        check_number(factors, blocks)?;
        let varied: Vec<usize> = (0..factors.len()).filter(|f| factors[*f].levels.len() > 1).collect();
        let mut points = Self { varied, rows: Vec::new(), labels: Vec::new(), len: 0 };
        let mut seen = BTreeSet::new();
        for block in blocks {
            points.labels.push((points.len, block.label.clone()));
            let columns: Vec<Vec<u32>> =
                points.varied.iter().map(|f| column(&factors[*f], *f, block)).collect();
            let mut row: Vec<usize> = vec![0; columns.len()];
            loop {
                let point: Vec<u32> = columns.iter().zip(&row).map(|(column, n)| column[*n]).collect();
                if blocks.len() == 1 || seen.insert(point.clone()) {
                    points.rows.extend(&point);
                    points.len += 1;
                }
                if !advance(&mut row, &columns) {
                    break;
                }
            }
        }
        Ok(points)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// For each factor, the index of its level at the `i`-th point.
    pub(crate) fn levels(&self, i: usize, factors: usize) -> Vec<usize> {
        let mut levels = vec![0; factors];
        let width = self.varied.len();
        for (factor, level) in self.varied.iter().zip(&self.rows[i * width..(i + 1) * width]) {
            levels[*factor] = *level as usize;
        }
        levels
    }

    /// The label of the block that contains the `i`-th point.
    pub(crate) fn label(&self, i: usize) -> Option<&str> {
        let after = self.labels.partition_point(|(first, _)| *first <= i);
        self.labels[..after].last().and_then(|(_, label)| label.as_deref())
    }

    /// A small set of points in which each level of each factor occurs at least once. If there are at most `most`
    /// points, all points.
    pub(crate) fn sample(&self, most: usize) -> Vec<usize> {
        if self.len <= most {
            return (0..self.len).collect();
        }
        let width = self.varied.len();
        let mut seen: BTreeSet<(usize, u32)> = BTreeSet::new();
        let fresh = |i: &usize| {
            let row = &self.rows[i * width..(i + 1) * width];
            // `count` visits the whole row, so that every new level is marked as seen.
            row.iter().enumerate().filter(|(column, level)| seen.insert((*column, **level))).count() > 0
        };
        (0..self.len).filter(fresh).collect()
    }
}

/// Advances to the next row. The last column changes fastest. False after the last row.
fn advance(row: &mut [usize], columns: &[Vec<u32>]) -> bool {
    for (n, column) in row.iter_mut().zip(columns).rev() {
        *n += 1;
        if *n < column.len() {
            return true;
        }
        *n = 0;
    }
    false
}

/// The indices of a factor's levels in a block.
fn column(factor: &FactorValues, place: usize, block: &Block) -> Vec<u32> {
    // The number of levels is limited far below 2³².
    match block.levels.get(&place) {
        Some(levels) => levels.iter().map(|level| *level as u32).collect(),
        None => (0..factor.levels.len() as u32).collect(),
    }
}

/// Refuses more than [`MAX_POINTS`] points before memory is allocated for them.
fn check_number(factors: &[FactorValues], blocks: &[Block]) -> Result<(), String> {
    let mut total: u64 = 0;
    for block in blocks {
        let counts = factors
            .iter()
            .enumerate()
            .map(|(place, factor)| block.levels.get(&place).map_or(factor.levels.len(), Vec::len) as u64);
        let product = counts.clone().try_fold(1_u64, u64::checked_mul);
        total = product.and_then(|product| total.checked_add(product)).unwrap_or(u64::MAX);
        if total > MAX_POINTS {
            let terms: Vec<String> = factors
                .iter()
                .zip(counts)
                .filter(|(_, count)| *count > 1)
                .map(|(factor, count)| format!("{count} {}", factor.name))
                .collect();
            let product = product.map_or("more than 2^64".to_owned(), |product| product.to_string());
            return Err(format!(
                "{} = {product} points; at most {MAX_POINTS} can be handled",
                terms.join(" x ")
            ));
        }
    }
    Ok(())
}
