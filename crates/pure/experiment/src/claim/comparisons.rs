//! Makes the comparisons that decide a claim, from its cells. A place is a combination of levels of the factors that
//! are not compared.

use std::collections::BTreeMap;

use netrig_stats::summary::Summary;
use netrig_stats::{Interval, compare};

use super::effect::{Contrast, Effect, Region, RegionTest, tested};
use super::sample::{Cell, MissingSample, Nature, PointValues, Sample, has_spread};
use super::spec::{ClaimSpec, Expect, Target};
use crate::judge::Design;
use crate::{Factor, Level, Point, Status};

/// A rise is sharp within a range if more than this share of the rise lies in the range.
const SHARP: f64 = 0.5;

/// One comparison.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// The levels that the compared values share.
    pub factors: BTreeMap<String, Level>,
    /// The two compared levels; `None` if no two levels were compared.
    pub compared: Option<[Level; 2]>,
    /// The estimate with its interval.
    pub interval: Interval,
    /// The interval that decides, if it is not `interval`: it has a higher confidence, because all claims share
    /// the error rate.
    pub strict: Option<Interval>,
    /// The claimed range of the estimate; `None` if the claim is only that there is a knee.
    pub region: Option<Region>,
    /// The result of the test.
    pub finding: RegionTest,
    /// Number of replications that would decide the comparison; `None` if it is unknown.
    pub needs: Option<usize>,
    /// Number of replications that were left out because only one of the two levels has a value in them.
    pub unpaired: usize,
    /// Levels at the ends of the axis that were left out because too few of their runs are valid.
    pub left_out: Vec<Level>,
}

impl Made {
    /// Whether there are several replications but no test, because all values of random runs were equal.
    pub(super) fn says_nothing(&self) -> bool {
        self.interval.n > 1 && self.finding.p.is_none()
    }
}

/// All comparisons of a claim.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparisons {
    /// The comparisons at each place at which the claim must hold.
    pub places: Vec<Vec<Made>>,
    /// Places that could not be compared.
    pub missing: Vec<MissingSample>,
}

/// The inputs that the comparisons of a claim share.
pub(super) struct Context<'a> {
    pub spec: &'a ClaimSpec,
    pub design: &'a Design,
    /// Number of claims that share the error rate.
    pub claims: usize,
}

impl Context<'_> {
    /// Makes all comparisons over the cells of one substrate.
    pub(super) fn compare(&self, cells: &[Cell]) -> Comparisons {
        let chosen: Vec<&Cell> = cells.iter().filter(|cell| self.is_about(&cell.factors)).collect();
        let mut comparisons = Comparisons::default();
        for (place, cells) in self.places(&chosen) {
            match self.at_place(&place, &cells) {
                Ok(made) => comparisons.places.push(made),
                Err(missing) => comparisons.missing.push(missing),
            }
        }
        comparisons
    }

    /// The unit of the claim's estimates; `1` for a ratio and for a share of a rise.
    pub(super) fn unit(&self) -> String {
        if self.is_relative() || self.spec.expect == Expect::Rise {
            return "1".to_owned();
        }
        let over = self.spec.over.as_ref().filter(|_| self.spec.expect == Expect::Knee);
        match over.and_then(|over| self.design.factor(over)) {
            Some(factor) => axis_unit(factor).to_owned(),
            None => self.spec.unit(self.design).to_owned(),
        }
    }

    /// Whether two means are compared by their ratio: the margin is a share of another mean.
    pub(super) fn is_relative(&self) -> bool {
        let share = |margin: &crate::Amount| margin.is_share() && margin.value() != 0.0;
        let of_levels = self.spec.compare.is_some() || self.spec.over.is_some();
        of_levels && !self.spec.expect.is_of_a_curve() && self.spec.margin.as_ref().is_some_and(share)
    }

    fn is_about(&self, point: &Point) -> bool {
        // `where` must not remove the compared levels.
        let compared = self.spec.compared().map(|(factor, _)| factor);
        let others = self.spec.at.0.iter().filter(|(factor, _)| Some(factor.as_str()) != compared);
        let mut rest = others.map(|(factor, wanted)| (point.level(factor), wanted));
        rest.all(|(level, wanted)| level.is_some_and(|level| wanted.iter().any(|w| w.means(level))))
    }

    /// The cells, grouped by their place: the levels of all factors except the compared one.
    fn places<'a>(&self, cells: &[&'a Cell]) -> BTreeMap<Point, Vec<&'a Cell>> {
        let varied = self.spec.compared().map(|(factor, _)| factor).or(self.spec.over.as_deref());
        let mut places: BTreeMap<Point, Vec<&Cell>> = BTreeMap::new();
        for cell in cells {
            let place = cell.factors.only(|factor| Some(factor) != varied);
            places.entry(place).or_default().push(cell);
        }
        // Leaves out a place that has only one of the two levels in the plan.
        if let Some((factor, levels)) = self.spec.compared() {
            let is = |cell: &Cell, level: &Level| cell.factors.level(factor).is_some_and(|l| l.means(level));
            places.retain(|_, cells| levels.iter().all(|level| cells.iter().any(|cell| is(cell, level))));
        } else if self.spec.over.is_some() {
            places.retain(|_, cells| cells.len() >= self.spec.fewest_levels());
        }
        places
    }

    fn at_place(&self, place: &Point, cells: &[&Cell]) -> Result<Vec<Made>, MissingSample> {
        if let Some((factor, levels)) = self.spec.compared() {
            let side = |level: &Level| {
                let here = |cell: &&&Cell| cell.factors.level(factor).is_some_and(|l| l.means(level));
                cells.iter().find(here).map_or_else(nothing, |cell| present(cell))
            };
            let (first, second) = (side(levels[0])?, side(levels[1])?);
            return Ok(vec![self.pair(place, [levels[0], levels[1]], first, second)?]);
        }
        match &self.spec.over {
            Some(over) => self.over(place, over, cells),
            None => cells.iter().map(|cell| self.alone(place, present(cell)?)).collect(),
        }
    }

    /// Compares two means.
    fn pair(
        &self,
        place: &Point,
        levels: [&Level; 2],
        a: &Sample,
        b: &Sample,
    ) -> Result<Made, MissingSample> {
        let (contrast, no_difference) =
            if self.is_relative() { (Contrast::Ratio(a, b), 1.0) } else { (Contrast::Difference(a, b), 0.0) };
        if self.is_relative() && (a.is_extreme() || b.is_extreme()) {
            return Err(unclear());
        }
        let margin = self.margin(1.0)?;
        let region = match self.spec.expect {
            Expect::Less | Expect::Decreasing => Region::Below(no_difference - margin),
            Expect::Equivalent => Region::Inside(no_difference - margin, no_difference + margin),
            _ => Region::Above(no_difference + margin),
        };
        self.made(place, Some([levels[0].clone(), levels[1].clone()]), contrast, region)
    }

    /// Compares one mean with a number.
    fn alone(&self, place: &Point, sample: &Sample) -> Result<Made, MissingSample> {
        let region = match self.spec.expect {
            Expect::Between => {
                let [low, high] = self.range(self.spec.unit(self.design))?.ok_or_else(unclear)?;
                Region::Inside(low, high)
            }
            expect => {
                let target = self.target(place)?;
                let margin = self.margin(target.abs())?;
                match expect {
                    Expect::Greater => Region::Above(target + margin),
                    Expect::Less => Region::Below(target - margin),
                    _ => Region::Inside(target - margin, target + margin),
                }
            }
        };
        self.made(place, None, Contrast::Value(sample), region)
    }

    /// Compares the levels of the factor `over` at one place.
    fn over(&self, place: &Point, over: &str, cells: &[&Cell]) -> Result<Vec<Made>, MissingSample> {
        let factor = self.design.factor(over).ok_or_else(unclear)?;
        let mut levels = Vec::new();
        for level in rising(factor, &self.spec.at.levels(factor).collect::<Vec<_>>()) {
            let here = |cell: &&&Cell| cell.factors.level(over) == Some(level);
            match cells.iter().find(here).map(|cell| present(cell)) {
                Some(Ok(sample)) => levels.push((level, Ok(sample))),
                // A level that the substrate cannot run does not prevent the comparison of the others.
                Some(Err(MissingSample { status: Status::Unsupported, .. })) | None => {}
                Some(Err(missing)) if missing.status == Status::Invalid => levels.push((level, Err(missing))),
                Some(Err(missing)) => return Err(missing),
            }
        }
        let mut left_out = Vec::new();
        if self.spec.expect == Expect::Knee {
            (levels, left_out) = well_measured(levels, self.spec.fewest_levels());
        }
        let levels = levels.into_iter().map(|(level, sample)| Ok((level, sample?)));
        let levels = levels.collect::<Result<Vec<(&Level, &Sample)>, MissingSample>>()?;
        if levels.len() < 2 {
            return nothing();
        }
        match self.spec.expect {
            Expect::Knee => Ok(vec![Made { left_out, ..self.knee(place, factor, &levels)? }]),
            Expect::Rise => Ok(vec![self.rise(place, factor, &levels)?]),
            Expect::Equivalent => {
                let pairs =
                    levels.iter().enumerate().flat_map(|(i, a)| levels[i + 1..].iter().map(move |b| (b, a)));
                pairs.map(|(b, a)| self.pair(place, [b.0, a.0], b.1, a.1)).collect()
            }
            _ => levels.windows(2).map(|w| self.pair(place, [w[1].0, w[0].0], w[1].1, w[0].1)).collect(),
        }
    }

    /// The share of the rise between two levels in the whole rise, from the first level to the last.
    fn rise(
        &self,
        place: &Point,
        factor: &Factor,
        levels: &[(&Level, &Sample)],
    ) -> Result<Made, MissingSample> {
        let x = abscissa(factor, levels)?;
        let (replications, y) = aligned(levels);
        let nature = nature_of(levels);
        let [low, high] = self.range(axis_unit(factor))?.ok_or_else(unclear)?;
        let at = |end: f64| x.iter().position(|x| *x == end).ok_or_else(unclear);
        let (low, high, last) = (at(low)?, at(high)?, x.len() - 1);
        let between = |from: usize, to: usize| {
            let differences = y[from].iter().zip(&y[to]).map(|(from, to)| to - from);
            let by_replication = replications.iter().copied().zip(differences).collect();
            Sample::plain(&PointValues { by_replication, nature })
        };
        let (part, whole) = (between(low, high), between(0, last));
        let mut made = self.made(place, None, Contrast::Ratio(&part, &whole), Region::Above(SHARP))?;
        // If the whole rise is near zero, the share is meaningless. So the direction of the whole rise must be as
        // certain as the share.
        let whole = Effect::new(Contrast::Value(&whole), self.design.confidence).map_err(impossible)?;
        made.finding = made.finding.and_surely(Region::Above(0.0).test(&whole));
        Ok(made)
    }

    fn knee(
        &self,
        place: &Point,
        factor: &Factor,
        levels: &[(&Level, &Sample)],
    ) -> Result<Made, MissingSample> {
        let unit = axis_unit(factor);
        let x = abscissa(factor, levels)?;
        let (_, y) = aligned(levels);
        let deterministic = nature_of(levels).deterministic;
        let confidence = self.design.confidence;
        let mut found = compare::knee(&x, &y, confidence).map_err(impossible)?;
        if !deterministic && found.location.n > 1 && are_alike(&y) {
            // Equal curves of random runs decide nothing about a knee.
            (found.location.low, found.location.high, found.p_value) = (None, None, None);
        }
        if !deterministic {
            found.p_value = found.p_value.map(tested);
        }
        let mut finding = RegionTest { p: found.p_value, p_against: None };
        let range = self.range(unit)?;
        let mut decides = None;
        if let Some([low, high]) = range {
            // The knee's position has an interval but no p-value. Its confidence uses this claim's share of the
            // error rate, the smallest that Holm's procedure grants.
            let share = (1.0 - confidence) / self.claims as f64;
            let strict = compare::knee(&x, &y, 1.0 - share).map_err(impossible)?;
            let inside = strict.location.lies_within(low, high);
            finding.p = finding.p.map(|p| if inside { p.max(share) } else { 1.0 });
            let beyond = |interval: &Interval| {
                interval.high.is_some_and(|end| end < low) || interval.low.is_some_and(|end| end > high)
            };
            finding.p_against = finding.p.map(|_| if beyond(&strict.location) { share } else { 1.0 });
            decides = finding.p.filter(|_| self.claims > 1).map(|_| strict.location);
        }
        Ok(Made {
            factors: place.levels().iter().cloned().collect(),
            compared: None,
            interval: found.location,
            strict: decides,
            region: range.map(|[low, high]| Region::Inside(low, high)),
            finding,
            needs: None,
            unpaired: 0,
            left_out: Vec::new(),
        })
    }

    fn made(
        &self,
        place: &Point,
        compared: Option<[Level; 2]>,
        contrast: Contrast<'_>,
        region: Region,
    ) -> Result<Made, MissingSample> {
        let effect = Effect::new(contrast, self.design.confidence).map_err(impossible)?;
        let level = (1.0 - self.design.confidence) / self.claims as f64;
        let needs = region.needs(&effect, level);
        let finding = region.test(&effect);
        let unpaired = match contrast {
            Contrast::Value(_) => 0,
            Contrast::Difference(a, b) | Contrast::Ratio(a, b) => a.n() + b.n() - 2 * a.shared(b).len(),
        };
        let (factors, interval, region) =
            (place.levels().iter().cloned().collect(), effect.interval, Some(region));
        let left_out = Vec::new();
        Ok(Made { factors, compared, interval, strict: None, region, finding, needs, unpaired, left_out })
    }

    /// The margin in the unit of the estimate; a margin in percent is a share of `base`.
    fn margin(&self, base: f64) -> Result<f64, MissingSample> {
        match &self.spec.margin {
            None => Ok(0.0),
            Some(margin) if margin.is_share() => Ok(base * margin.base()),
            Some(margin) => margin.in_unit(self.spec.unit(self.design)).map_err(|_| unclear()),
        }
    }

    fn range(&self, unit: &str) -> Result<Option<[f64; 2]>, MissingSample> {
        let Some([low, high]) = &self.spec.between else { return Ok(None) };
        match (low.in_unit(unit), high.in_unit(unit)) {
            (Ok(low), Ok(high)) => Ok(Some([low, high])),
            _ => Err(unclear()),
        }
    }

    /// The claim's target at this place.
    fn target(&self, place: &Point) -> Result<f64, MissingSample> {
        let unit = self.spec.unit(self.design);
        let amount = match &self.spec.target {
            Some(Target::Amount(amount)) => amount,
            Some(Target::Paper { paper }) => {
                let response = self.spec.column().map_or(self.spec.response.as_str(), |(_, column)| column);
                let values = self.design.paper.as_ref();
                let values = values.ok_or_else(|| unsupported("the values of the paper are not there"))?;
                let value = values.find(paper, response, place);
                &value.ok_or_else(|| unsupported("the paper gives no value for this point"))?.value
            }
            None => return Err(unclear()),
        };
        amount.in_unit(unit).map_err(|error| unsupported(error.to_string()))
    }
}

/// The levels as numbers in the unit of the factor's axis.
fn abscissa(factor: &Factor, levels: &[(&Level, &Sample)]) -> Result<Vec<f64>, MissingSample> {
    let unit = axis_unit(factor);
    let at = |level: &Level| level.amount().and_then(|amount| amount.in_unit(unit).ok());
    levels.iter().map(|(level, _)| at(level)).collect::<Option<_>>().ok_or_else(unclear)
}

/// The replications that all levels have, and for each level its values in these replications.
fn aligned(levels: &[(&Level, &Sample)]) -> (Vec<u32>, Vec<Vec<f64>>) {
    let mut shared = levels.first().map_or_else(Vec::new, |(_, sample)| sample.replications());
    for (_, sample) in levels {
        let has = sample.replications();
        shared.retain(|replication| has.contains(replication));
    }
    let values = levels.iter().map(|(_, sample)| sample.values(&shared)).collect();
    (shared, values)
}

/// A level and its sample, or the reason for a missing sample.
type Measured<'a> = (&'a Level, Result<&'a Sample, MissingSample>);

/// The widest range of levels for which at least half of the replications are complete, and the levels outside that
/// range. Without this choice, a level with few valid runs, such as a rate that overloads the tester, would leave few
/// replications for the knee. If no such range has `fewest` levels, the range is all levels. The choice does not depend
/// on the values of the response.
fn well_measured<'a>(levels: Vec<Measured<'a>>, fewest: usize) -> (Vec<Measured<'a>>, Vec<Level>) {
    let replications = |(_, sample): &Measured<'a>| {
        sample.as_ref().map_or_else(|_| Vec::new(), |sample| sample.replications())
    };
    let measured: Vec<Vec<u32>> = levels.iter().map(replications).collect();
    let most = measured.iter().map(Vec::len).max().unwrap_or(0);
    let shared = |first: usize, length: usize| {
        let [head, rest @ ..] = &measured[first..first + length] else { return 0 };
        head.iter().filter(|replication| rest.iter().all(|other| other.contains(replication))).count()
    };
    let lengths = (fewest.max(1)..=levels.len()).rev();
    let mut ranges = lengths.filter_map(|length| {
        let firsts = (0..=levels.len() - length).map(|first| (shared(first, length), first));
        // Of the ranges of one length, the first with the most replications.
        firsts
            .filter(|(shared, _)| *shared > 0 && shared * 2 >= most)
            .rev()
            .max_by_key(|(shared, _)| *shared)
            .map(|(_, first)| first..first + length)
    });
    let Some(range) = ranges.next() else { return (levels, Vec::new()) };
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for (place, (level, sample)) in levels.into_iter().enumerate() {
        if range.contains(&place) {
            kept.push((level, sample));
        } else {
            left_out.push(level.clone());
        }
    }
    (kept, left_out)
}

/// The known properties of values that depend on all levels.
fn nature_of(levels: &[(&Level, &Sample)]) -> Nature {
    Nature { deterministic: levels.iter().all(|(_, sample)| sample.nature().deterministic), range: None }
}

/// Whether the curves of all replications are equal up to a constant offset.
fn are_alike(levels: &[Vec<f64>]) -> bool {
    let steps = levels.windows(2);
    let mut steps = steps.map(|pair| -> (f64, Summary) {
        let largest = pair.iter().flatten().fold(0.0, |largest: f64, value| value.abs().max(largest));
        (largest, pair[1].iter().zip(&pair[0]).map(|(a, b)| a - b).collect())
    });
    !steps.any(|(largest, step)| has_spread(step.sd(), largest))
}

/// The levels in increasing order if all are numbers, otherwise in the order of the file.
fn rising<'a>(factor: &'a Factor, chosen: &[&'a Level]) -> Vec<&'a Level> {
    let mut levels = chosen.to_vec();
    if factor.levels.iter().all(|level| level.number().is_some()) {
        let number = |level: &Level| level.number().unwrap_or(0.0);
        levels.sort_by(|a, b| number(a).total_cmp(&number(b)));
    }
    levels
}

/// The unit of a factor's axis: the unit of its last level. Most files write all levels in one unit.
pub(crate) fn axis_unit(factor: &Factor) -> &'static str {
    unit_of_levels(factor.levels.iter()).unwrap_or("1")
}

/// The unit of the last of these levels that has a unit.
pub(crate) fn unit_of_levels<'a>(levels: impl DoubleEndedIterator<Item = &'a Level>) -> Option<&'static str> {
    levels.rev().find_map(|level| level.amount()?.unit())
}

fn present<'a>(cell: &&'a Cell) -> Result<&'a Sample, MissingSample> {
    match &cell.sample {
        Ok(sample) if sample.n() > 0 => Ok(sample),
        Ok(_) => {
            Err(MissingSample { status: Status::Failed, why: "no valid run measured the response".into() })
        }
        Err(missing) => Err(missing.clone()),
    }
}

fn nothing<T>() -> Result<T, MissingSample> {
    Err(unsupported("there are no points to compare"))
}

fn unsupported(why: impl Into<String>) -> MissingSample {
    MissingSample { status: Status::Unsupported, why: why.into() }
}

/// The error for an incomplete claim, which a checked file cannot contain.
fn unclear() -> MissingSample {
    unsupported("the claim does not say what it compares with")
}

fn impossible(error: netrig_stats::StatsError) -> MissingSample {
    MissingSample { status: Status::Failed, why: format!("the comparison is not possible: {error}") }
}
