//! Measures how often a false claim is supported, and how often a true claim, in thousands of simulated experiments for
//! each kind of claim, number of replications and distribution of a run's values.

use std::fmt::Write;

use netrig_core::{Seeds, Stream};

use super::decide;
use super::sample::{Cell, Nature, PointValues, Sample};
use crate::judge::fixture::Study;
use crate::{ClaimVerdict, Level};

const EXPERIMENTS: u32 = 2000;

const REPLICATIONS: [u32; 4] = [2, 3, 5, 10];

/// The distribution of the value of one run, a share, for a given mean.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Law {
    /// Normal, with a standard deviation of 0.05.
    Continuous,
    /// The share of lost datagrams, of 20.
    Discrete,
    /// 0 or 1, with the same value in most runs: a failure in one run of twenty.
    Rare,
    /// Normal, with a standard deviation of [`NOISE`], and larger by [`FAR`] in one run of twenty. A sample without
    /// such a run looks normally distributed.
    Mixture {
        /// Whether the response is a share, from 0 to 1.
        of_shares: bool,
    },
}

/// The standard deviation of the usual values of a mixture.
const NOISE: f64 = 0.01;

/// Frequency and distance of the rare value of a mixture.
const RARELY: f64 = 0.05;
const FAR: f64 = 0.4;

impl Law {
    const fn name(self) -> &'static str {
        match self {
            Self::Continuous => "continuous",
            Self::Discrete => "discrete",
            Self::Rare => "rare",
            Self::Mixture { of_shares: false } => "mixture",
            Self::Mixture { of_shares: true } => "mixture of shares",
        }
    }

    fn draw(self, mean: f64, luck: &mut Stream) -> f64 {
        match self {
            Self::Continuous => luck.normal(mean, 0.05),
            Self::Discrete => f64::from(lost_of_20(mean, luck.uniform())) / 20.0,
            Self::Rare => f64::from(u8::from(luck.chance(mean))),
            Self::Mixture { .. } => {
                let usual = luck.normal(mean - RARELY * FAR, NOISE);
                if luck.chance(RARELY) { usual + FAR } else { usual }
            }
        }
    }

    fn variance(self, mean: f64) -> f64 {
        match self {
            Self::Continuous => 0.05 * 0.05,
            Self::Discrete => mean * (1.0 - mean) / 20.0,
            Self::Rare => mean * (1.0 - mean),
            Self::Mixture { .. } => NOISE * NOISE + RARELY * (1.0 - RARELY) * FAR * FAR,
        }
    }

    /// Standard deviation of a weighted sum of independent runs; each pair is a weight and a mean.
    fn deviation(self, weighted: &[(f64, f64)]) -> f64 {
        libm::sqrt(weighted.iter().map(|(weight, mean)| weight * weight * self.variance(*mean)).sum())
    }

    /// Two means. Their difference is two standard deviations of the difference of two runs.
    fn apart(self) -> [f64; 2] {
        let means = match self {
            Self::Continuous => [0.5, 0.642],
            Self::Discrete => [0.2, 0.49],
            Self::Rare => [0.05, 0.87],
            Self::Mixture { .. } => [0.3, 0.55],
        };
        self.assert_effect(&[(1.0, means[1]), (-1.0, means[0])]);
        means
    }

    /// A mean, and a number that is two standard deviations above it.
    fn beyond(self) -> [f64; 2] {
        let mean = self.apart()[0];
        [mean, mean + 2.0 * self.deviation(&[(1.0, mean)])]
    }

    /// Asserts that the weighted sum of these means is between 2 and 2.3 of its standard deviations.
    fn assert_effect(self, weighted: &[(f64, f64)]) {
        let sum: f64 = weighted.iter().map(|(weight, mean)| weight * mean).sum();
        let effect = sum / self.deviation(weighted);
        assert!((2.0..=2.3).contains(&effect), "{self:?}: an effect of {effect} deviations");
    }
}

/// The quantile `share` of the number of lost datagrams, of twenty, if each is lost with probability `p`: the inverse
/// of the binomial distribution.
fn lost_of_20(p: f64, share: f64) -> u32 {
    let mut probability = libm::pow(1.0 - p, 20.0);
    let mut below = probability;
    let mut lost = 0;
    while below <= share && lost < 20 {
        lost += 1;
        probability *= f64::from(21 - lost) / f64::from(lost) * p / (1.0 - p);
        below += probability;
    }
    lost
}

/// A claim over levels with these means.
struct Case {
    means: Vec<f64>,
    claim: String,
    /// Index of the level at which a mixture has only usual values.
    steady: Option<usize>,
}

impl Case {
    fn new(means: &[f64], claim: impl Into<String>) -> Self {
        Self { means: means.to_vec(), claim: claim.into(), steady: None }
    }

    fn steady_at(self, level: usize) -> Self {
        Self { steady: Some(level), ..self }
    }

    /// The share of simulated experiments that support the claim.
    fn supported(&self, law: Law, n: u32) -> f64 {
        let names: Vec<String> = (0..self.means.len()).map(|level| level.to_string()).collect();
        let levels: Vec<&str> = names.iter().map(String::as_str).collect();
        let study = Study::new(&[("load", &levels)])
            .of_shares()
            .claim("c", &format!("response = 'r'\n{}", self.claim));
        let mut luck = Seeds::new(u64::from(n)).stream(&format!("{law:?}/{}/{:?}", self.claim, self.means));
        let range = study.design.responses[0].1.range().filter(|_| law != Law::Mixture { of_shares: false });
        let mut cell = |level: &Level, place: usize| {
            let mean = self.means[place];
            let mut draw = || match self.steady {
                Some(steady) if steady == place => luck.normal(mean, NOISE),
                _ => law.draw(mean, &mut luck),
            };
            Cell {
                factors: [("load".to_owned(), level.clone())].into_iter().collect(),
                sample: Ok(Sample::plain(&PointValues {
                    by_replication: (1..=n).map(|replication| (replication, draw())).collect(),
                    nature: Nature { deterministic: false, range },
                })),
            }
        };
        let supported = (0..EXPERIMENTS).filter(|_| {
            let levels = study.design.factors[0].levels.iter().zip(0..);
            let cells: Vec<Cell> = levels.map(|(level, place)| cell(level, place)).collect();
            decide(&study.design, "sim", &|_| cells.clone())[0].verdict == ClaimVerdict::Supported
        });
        supported.count() as f64 / f64::from(EXPERIMENTS)
    }
}

/// A kind of claim, in two variants: a false one whose true value lies on the border, and a true one with an effect of
/// two standard deviations.
struct ClaimKind {
    name: &'static str,
    is_false: Case,
    is_true: Case,
    /// Whether equal values of all replications can decide the claim. They cannot if the estimate is a ratio.
    has_power: bool,
}

/// A claim that compares the second level with the first.
fn compare(expect: &str) -> String {
    format!("compare = {{ load = [1, 0] }}\nexpect = '{expect}'")
}

fn number_is(expect: &str, number: f64) -> String {
    format!("expect = '{expect}'\ntarget = {number}")
}

fn by(claim: String, margin: f64) -> String {
    format!("{claim}\nmargin = {margin}")
}

impl ClaimKind {
    fn new(name: &'static str, is_false: Case, is_true: Case) -> Self {
        Self { name, is_false, is_true, has_power: true }
    }
}

/// The kinds of claims about a mixture. The rare value is larger than the usual ones. If a claim compares two levels,
/// only the second has the rare value.
fn kinds_of_mixture(law: Law) -> Vec<ClaimKind> {
    let low = law.apart()[0];
    let [mean, number] = law.beyond();
    let distance = 2.0 * libm::sqrt(law.variance(low) + NOISE * NOISE);
    let pair = |means: [f64; 2], claim: String| Case::new(&means, claim).steady_at(0);
    vec![
        ClaimKind::new(
            "`greater`, `compare`",
            pair([low, low], compare("greater")),
            pair([low, low + distance], compare("greater")),
        ),
        ClaimKind::new(
            "`less`, `compare`",
            pair([low, low], compare("less")),
            pair([low + distance, low], compare("less")),
        ),
        ClaimKind::new(
            "`greater`, `target`",
            Case::new(&[mean], number_is("greater", mean)),
            Case::new(&[mean], number_is("greater", 2.0 * mean - number)),
        ),
        ClaimKind::new(
            "`less`, `target`",
            Case::new(&[mean], number_is("less", mean)),
            Case::new(&[mean], number_is("less", number)),
        ),
        ClaimKind::new(
            "`equivalent`, `compare`",
            pair([low, low + distance], by(compare("equivalent"), distance)),
            pair([low, low], by(compare("equivalent"), distance)),
        ),
        ClaimKind::new(
            "`within`",
            Case::new(&[mean], by(number_is("within", 2.0 * mean - number), number - mean)),
            Case::new(&[mean], by(number_is("within", mean), number - mean)),
        ),
    ]
}

fn kinds(law: Law) -> Vec<ClaimKind> {
    if matches!(law, Law::Mixture { .. }) {
        return kinds_of_mixture(law);
    }
    let [low, high] = law.apart();
    let [mean, number] = law.beyond();
    let (distance, same) = (high - low, 2.0 * law.deviation(&[(1.0, low), (-1.0, low)]));
    let over = |expect: &str| format!("over = 'load'\nexpect = '{expect}'");
    let range = |expect: &str, low: f64, high: f64| format!("{expect}\nbetween = [{low}, {high}]");
    let kind = ClaimKind::new;
    let knee: &[f64] = match law {
        Law::Continuous => &[0.5, 0.5, 0.5, 0.5, 0.605, 0.71],
        Law::Discrete => &[0.1, 0.1, 0.1, 0.1, 0.28, 0.46],
        _ => &[0.05, 0.05, 0.05, 0.05, 0.05, 0.95],
    };
    let curvature: Vec<_> =
        [5.0, -1.0, -4.0, -4.0, -1.0, 5.0].into_iter().zip(knee.iter().copied()).collect();
    law.assert_effect(&curvature);
    // A knee that is steep enough to be found, either in the range `within` or without a range.
    let (steep, within): (&[f64], _) = match law {
        Law::Continuous => (&[0.2, 0.2, 0.2, 0.2, 0.45, 0.7], [1.5, 4.5]),
        Law::Discrete => (&[0.1, 0.1, 0.1, 0.1, 0.5, 0.9], [1.5, 4.5]),
        _ => (&[0.02, 0.02, 0.02, 0.02, 0.5, 0.98], [0.5, 4.5]),
    };
    let (first, last) = match law {
        Law::Continuous => (0.5, 0.75),
        Law::Discrete => (0.1, 0.63),
        _ => (0.03, 0.97),
    };
    let share = 100.0 * (high / low - 1.0);
    vec![
        kind(
            "`greater`, `compare`",
            Case::new(&[low, low], compare("greater")),
            Case::new(&[low, high], compare("greater")),
        ),
        kind(
            "`less`, `compare`",
            Case::new(&[low, low], compare("less")),
            Case::new(&[high, low], compare("less")),
        ),
        ClaimKind {
            has_power: law != Law::Rare,
            ..kind(
                "`greater`, `compare`, margin in %",
                Case::new(&[low, high], format!("{}\nmargin = '{share} %'", compare("greater"))),
                Case::new(&[low, high], format!("{}\nmargin = '0.1 %'", compare("greater"))),
            )
        },
        kind(
            "`greater`, `target`",
            Case::new(&[1.0 - mean], number_is("greater", 1.0 - mean)),
            Case::new(&[1.0 - mean], number_is("greater", 1.0 - number)),
        ),
        kind(
            "`less`, `target`",
            Case::new(&[mean], number_is("less", mean)),
            Case::new(&[mean], number_is("less", number)),
        ),
        kind(
            "`equivalent`, `compare`",
            Case::new(&[low, high], by(compare("equivalent"), distance)),
            Case::new(&[low, low], by(compare("equivalent"), same)),
        ),
        kind(
            "`equivalent`, `over` 3 levels",
            Case::new(&[low, low, high], by(over("equivalent"), distance)),
            Case::new(&[low, low, low], by(over("equivalent"), same)),
        ),
        kind(
            "`increasing`",
            Case::new(&[low, high, high], over("increasing")),
            Case::new(&[low, high], over("increasing")),
        ),
        kind(
            "`decreasing`",
            Case::new(&[high, low, low], over("decreasing")),
            Case::new(&[high, low], over("decreasing")),
        ),
        kind(
            "`within`",
            Case::new(&[mean], by(number_is("within", number), number - mean)),
            Case::new(&[mean], by(number_is("within", mean), number - mean)),
        ),
        kind(
            "`between`",
            Case::new(&[mean], range("expect = 'between'", mean, mean + 2.0 * (number - mean))),
            Case::new(&[mean], range("expect = 'between'", 2.0 * mean - number, number)),
        ),
        kind("`knee`", Case::new(&[low; 6], over("knee")), Case::new(knee, over("knee"))),
        kind(
            "`knee`, `between`",
            Case::new(steep, range(&over("knee"), 1.0, 2.999)),
            Case::new(steep, range(&over("knee"), within[0], within[1])),
        ),
        ClaimKind {
            has_power: law != Law::Rare,
            ..kind(
                "`rise`",
                Case::new(&[first, 0.5 * (first + last), last], range(&over("rise"), 0.0, 1.0)),
                Case::new(&[first, last, last], range(&over("rise"), 0.0, 1.0)),
            )
        },
    ]
}

/// Runs all experiments of a distribution. The printed rows are those of the table in `docs/claims-and-tables.md`.
///
/// The error rate of a mixture is not limited: without a bound on unobserved values, a test that has power for the
/// other distributions cannot distinguish the mixture from them (Bahadur and Savage 1956).
fn check(law: Law) {
    let is_promised = !matches!(law, Law::Mixture { .. });
    let (mut rows, mut wrong) = (String::new(), Vec::new());
    for kind in kinds(law) {
        let mut row = format!("| {} | {} |", kind.name, law.name());
        for n in REPLICATIONS {
            let [is_false, is_true] = [&kind.is_false, &kind.is_true].map(|case| case.supported(law, n));
            if is_promised && is_false > 0.06 {
                wrong.push(format!("{}, n = {n}: {is_false} of the false claims are supported", kind.name));
            }
            if is_promised && n == 10 && kind.has_power && is_true < 0.8 {
                wrong.push(format!("{}: only {is_true} of the true claims are supported", kind.name));
            }
            let _ = write!(row, " {:.1} / {:.0} |", 100.0 * is_false, 100.0 * is_true);
        }
        println!("{row}");
        rows += &(row + "\n");
    }
    assert_eq!(wrong, Vec::<String>::new(), "{}", law.name());
    insta::assert_snapshot!(law.name().replace(' ', "_"), rows);
}

#[test]
fn false_claims_about_continuous_values_are_rarely_supported() {
    check(Law::Continuous);
}

#[test]
fn false_claims_about_discrete_values_are_rarely_supported() {
    check(Law::Discrete);
}

#[test]
fn false_claims_about_rare_failures_are_rarely_supported() {
    check(Law::Rare);
}

/// The error rates are large. A known range of the values does not reduce them, because it does not limit the frequency
/// of the rare value.
#[test]
fn false_claims_are_often_supported_where_a_rare_value_is_absent() {
    for of_shares in [false, true] {
        check(Law::Mixture { of_shares });
    }
}

/// With five false claims, at least 94 of 100 studies support none of them: Holm's correction limits the error rate of
/// all claims together.
#[test]
fn of_five_false_claims_none_is_supported_in_nearly_all_studies() {
    for law in [Law::Continuous, Law::Discrete, Law::Rare] {
        let mean = law.apart()[0];
        for n in REPLICATIONS {
            let study = Study::new(&[("load", &["0", "1", "2"])]).of_shares();
            let claims = [
                "compare = { load = [1, 0] }\nexpect = 'greater'".to_owned(),
                "compare = { load = [1, 0] }\nexpect = 'less'".to_owned(),
                "compare = { load = [2, 1] }\nexpect = 'less'".to_owned(),
                format!("where = {{ load = 0 }}\nexpect = 'less'\ntarget = {mean}"),
                format!("where = {{ load = 2 }}\nexpect = 'greater'\ntarget = {mean}"),
            ];
            let study = claims.iter().enumerate().fold(study, |study, (place, claim)| {
                study.claim(&format!("c{place}"), &format!("response = 'r'\n{claim}"))
            });
            let mut luck = Seeds::new(u64::from(n)).stream(&format!("five/{law:?}"));
            let nature = Nature { deterministic: false, range: Some([0.0, 1.0]) };
            let supported = (0..EXPERIMENTS).filter(|_| {
                let cells: Vec<Cell> = study.design.factors[0]
                    .levels
                    .iter()
                    .map(|level| Cell {
                        factors: [("load".to_owned(), level.clone())].into_iter().collect(),
                        sample: Ok(Sample::plain(&PointValues {
                            by_replication: (1..=n).map(|r| (r, law.draw(mean, &mut luck))).collect(),
                            nature,
                        })),
                    })
                    .collect();
                let claims = decide(&study.design, "sim", &|_| cells.clone());
                claims.iter().any(|claim| claim.verdict == ClaimVerdict::Supported)
            });
            let share = supported.count() as f64 / f64::from(EXPERIMENTS);
            println!("five false claims, {}, n = {n}: {share}", law.name());
            assert!(share <= 0.06, "{}, n = {n}: {share}", law.name());
        }
    }
}
