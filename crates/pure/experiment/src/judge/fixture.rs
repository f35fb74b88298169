//! A synthetic study for tests: factors, claims and tables in the form of a file, with values from a formula.

use netrig_core::{Seeds, Stream};

use super::{Design, PointRuns, RunRecord};
use crate::{ClaimResult, Factor, Level, Paper, Point, Replications, Results, Status};

pub(crate) struct Study {
    pub design: Design,
    pub points: Vec<PointRuns>,
    /// Whether the runs of the study are marked as deterministic.
    pub deterministic: bool,
}

/// One point and one replication: the arguments of a formula.
pub(crate) struct StudyPoint<'a> {
    pub point: &'a Point,
    pub replication: u32,
}

impl StudyPoint<'_> {
    /// The text of a level.
    pub fn level(&self, factor: &str) -> &str {
        self.point.level(factor).unwrap().text()
    }

    /// A level as a number in base units.
    pub fn number(&self, factor: &str) -> f64 {
        self.point.level(factor).unwrap().number().unwrap()
    }

    /// Random numbers that all points of a replication share: common random numbers.
    pub fn luck(&self) -> Stream {
        Seeds::new(u64::from(self.replication)).stream("luck")
    }

    /// Random numbers of this point alone.
    pub fn own_luck(&self) -> Stream {
        let levels =
            self.point.levels().iter().map(|(name, level)| format!("{name:?}: Level({:?})", level.text()));
        let point = format!("Point({{{}}})", levels.collect::<Vec<_>>().join(", "));
        Seeds::new(u64::from(self.replication)).stream(&point)
    }
}

impl Study {
    /// Factors with their levels, and a response `r` in B/s.
    pub fn new(factors: &[(&str, &[&str])]) -> Self {
        let factor = |(name, levels): &(&str, &[&str])| Factor {
            name: (*name).to_owned(),
            levels: levels.iter().map(|level| Level::new(level)).collect(),
        };
        let response = toml::from_str("of = 'flow.web'\nmetric = 'goodput'").unwrap();
        let design = Design {
            name: "made-up".to_owned(),
            confidence: 0.95,
            factors: factors.iter().map(factor).collect(),
            omitted: Vec::new(),
            replications: Replications { min: 1, max: 1, until: None },
            responses: vec![("r".to_owned(), response)],
            claims: Vec::new(),
            tables: Vec::new(),
            figures: Vec::new(),
            paper: None,
        };
        Self { design, points: Vec::new(), deterministic: false }
    }

    /// Makes the response `r` a share, from 0 to 1.
    pub fn of_shares(mut self) -> Self {
        self.design.responses[0].1 = toml::from_str("of = 'flow.web'\nmetric = 'datagram_loss'").unwrap();
        self
    }

    pub fn deterministic(self) -> Self {
        Self { deterministic: true, ..self }
    }

    pub fn claim(mut self, id: &str, text: &str) -> Self {
        let claim: crate::ClaimSpec = toml::from_str(&format!("says = 'it is so'\n{text}")).unwrap();
        assert_eq!(claim.check(&self.design), [], "{id}");
        self.design.claims.push((id.to_owned(), claim));
        self
    }

    pub fn table(mut self, id: &str, text: &str) -> Self {
        let table: crate::TableSpec = toml::from_str(text).unwrap();
        assert_eq!(table.check(&self.design), [], "{id}");
        self.design.tables.push((id.to_owned(), table));
        self
    }

    pub fn figure(mut self, id: &str, text: &str) -> Self {
        let figure: crate::FigureSpec = toml::from_str(text).unwrap();
        assert_eq!(figure.check(&self.design), [], "{id}");
        self.design.figures.push((id.to_owned(), figure));
        self
    }

    pub fn paper(mut self, text: &str) -> Self {
        self.design.paper = Some(Paper::parse(text).unwrap());
        self
    }

    /// Runs every point `n` times on `substrate`. If the formula returns `None`, the run did not measure the
    /// response.
    pub fn run_on(mut self, substrate: &str, n: u32, value: impl Fn(&StudyPoint<'_>) -> Option<f64>) -> Self {
        self.design.replications = Replications { min: n, max: n, until: None };
        let mut points = vec![Point::default()];
        for factor in &self.design.factors {
            let with = |point: &Point, level: &Level| {
                let mut point = point.clone();
                point.set(factor.name.clone(), level.clone());
                point
            };
            points =
                points.iter().flat_map(|p| factor.levels.iter().map(move |level| with(p, level))).collect();
        }
        for point in points {
            let run = |replication| {
                let value = value(&StudyPoint { point: &point, replication });
                RunRecord {
                    replication,
                    seed: u64::from(replication),
                    deterministic: self.deterministic,
                    responses: value.map(|value| ("r".to_owned(), value.into())).into_iter().collect(),
                    ..RunRecord::default()
                }
            };
            let runs = (1..=n).map(run).collect();
            self.points.push(PointRuns::new(substrate, point, runs, None));
        }
        self
    }

    pub fn run(self, n: u32, value: impl Fn(&StudyPoint<'_>) -> f64) -> Self {
        self.run_on("sim", n, |place| Some(value(place)))
    }

    /// Sets the status of the points at which the factor has this level.
    pub fn ended(mut self, factor: &str, level: &str, status: Status) -> Self {
        for runs in self.points.iter_mut().filter(|runs| runs.point.level(factor).unwrap().text() == level) {
            runs.status = status;
            runs.why = Some(format!("{factor} cannot be {level}"));
            runs.runs.clear();
        }
        self
    }

    pub fn judge(&self) -> Results {
        Results::judge(&self.design, &self.points, "0.1.0+test")
    }

    /// The result of the only claim.
    pub fn verdict(&self) -> ClaimResult {
        let mut claims = self.judge().claims;
        assert_eq!(claims.len(), 1);
        claims.remove(0)
    }
}
