//! The reason for a verdict: a sentence with the numbers that decide.

use std::collections::BTreeSet;

use netrig_core::number::counted;

use super::comparisons::Made;
use super::decide::{Draft, Ruling};
use super::effect::passes;
use super::spec::Expect;
use crate::ClaimVerdict;
use crate::judge::words;

impl Draft<'_> {
    /// The reason as a sentence.
    pub(super) fn why(&self, ruling: &Ruling) -> String {
        let first = self.comparisons.missing.first();
        let reason = match ruling.verdict {
            ClaimVerdict::NotTested => match first {
                Some(missing) => return format!("nothing could be compared: {}", missing.why),
                None => return "no point that it is about was run".to_owned(),
            },
            ClaimVerdict::Supported => {
                let holds = match self.made().count() {
                    1 => String::new(),
                    n => format!("all {n} comparisons hold; the weakest: "),
                };
                let p = words::p_value(ruling.p_holm, ruling.tested);
                format!("{holds}{}, {p}", self.figures(self.weakest()))
            }
            ClaimVerdict::Refuted => format!("{}: this excludes it", self.figures(self.strongest_against())),
            ClaimVerdict::Inconclusive => self.open(ruling),
        };
        let left_out = first.map(|missing| {
            let places = counted(self.comparisons.missing.len() as u64, "place was", "places were");
            format!("; {places} not compared ({})", missing.why)
        });
        reason + &left_out.unwrap_or_default()
    }

    /// The reason for an inconclusive verdict.
    fn open(&self, ruling: &Ruling) -> String {
        let figures = self.figures(self.weakest());
        let more = ruling.needs.map_or(String::new(), |n| format!("; about {n} replications would tell"));
        if self.made().any(|made| made.interval.n < 2) {
            return format!("{figures}: one replication has no interval");
        }
        if let Some(made) = self.made().find(|made| made.says_nothing()) {
            let figures = self.figures(Some(made));
            return format!(
                "{figures}: where chance plays a part, equal replications do not show how much another could differ"
            );
        }
        if passes(ruling.p_holm, ruling.level) {
            return "it holds wherever it could be compared, but not everywhere it should have been"
                .to_owned();
        }
        if passes(self.p, ruling.level) {
            let p = words::p_value(ruling.p_holm, ruling.tested);
            return format!("{figures}: it holds by itself, but {p} is not enough{more}");
        }
        if let Some(against) = self.strongest_against()
            && against.finding.verdict(ruling.level) == ClaimVerdict::Refuted
        {
            let (figures, n) = (self.figures(Some(against)), self.made().count());
            return format!(
                "{figures}: this excludes it, but of {n} comparisons one may do so by chance{more}"
            );
        }
        let strict = self.weakest().and_then(|made| made.strict);
        let strict = strict.map_or_else(String::new, |strict| {
            let (confidence, strict) = (strict.confidence * 100.0, words::interval(&strict, &self.unit));
            format!("; with {confidence:.2} % confidence, which decides because all claims share the error rate: {strict}")
        });
        format!("{figures}{strict}: this neither bears it out nor excludes it{more}")
    }

    /// The comparison that determines the verdict: one that refutes the claim, otherwise the one with the largest
    /// p-value.
    pub(super) fn decided_by(&self, level: f64) -> Option<&Made> {
        let against = self.strongest_against();
        let against = against.filter(|made| made.finding.verdict(level) == ClaimVerdict::Refuted);
        against.or_else(|| self.weakest())
    }

    /// The comparison with the largest p-value, which decides whether the claim is supported.
    fn weakest(&self) -> Option<&Made> {
        let doubt = |made: &Made| made.finding.p.unwrap_or(2.0);
        self.made().reduce(|worst, next| if doubt(next) > doubt(worst) { next } else { worst })
    }

    fn strongest_against(&self) -> Option<&Made> {
        let doubt = |made: &Made| made.finding.p_against.unwrap_or(2.0);
        self.made().reduce(|best, next| if doubt(next) < doubt(best) { next } else { best })
    }

    /// The place and the numbers of a comparison: `at down_for = 10 s: 9012 [8800, 9224] B/s (n = 10)`.
    fn figures(&self, made: Option<&Made>) -> String {
        let Some(made) = made else { return String::new() };
        let varied: BTreeSet<&String> = self
            .made()
            .flat_map(|other| {
                other.factors.iter().filter(|(factor, level)| made.factors.get(*factor) != Some(*level))
            })
            .map(|(factor, _)| factor)
            .collect();
        let named = made.factors.iter().filter(|(factor, _)| varied.contains(factor));
        let place: Vec<String> = named.map(|(factor, level)| format!("{factor} = {level}")).collect();
        let place = if place.is_empty() { String::new() } else { format!("at {}: ", place.join(", ")) };
        let what = match (&made.compared, self.relative, self.spec.expect) {
            (Some([a, b]), true, _) => format!("{a} / {b} = "),
            (Some([a, b]), false, _) => format!("{a} − {b} = "),
            (None, _, Expect::Knee) => "knee at ".to_owned(),
            (None, _, Expect::Rise) => "share of the rise: ".to_owned(),
            (None, ..) => String::new(),
        };
        let unpaired = match made.unpaired {
            0 => String::new(),
            n => format!(
                ", {} measured on one side only",
                counted(n as u64, "replication was", "replications were")
            ),
        };
        let left_out = match made.left_out.as_slice() {
            [] => String::new(),
            levels => {
                let names: Vec<String> = levels.iter().map(ToString::to_string).collect();
                format!(", without {}: too few runs there are valid", names.join(", "))
            }
        };
        format!("{place}{what}{}{unpaired}{left_out}", words::interval(&made.interval, &self.unit))
    }
}
