//! The design of an experiment: the input of judging.

use crate::check::{SpecError, one_of};
use crate::response::ResponseSpec;
use crate::{ClaimSpec, ColumnSpec, Derivation, Factor, FigureSpec, Paper, Replications, TableSpec};

/// The part of an experiment that defines the meaning of its results.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// The experiment's name.
    pub name: String,
    /// Confidence level of every interval, between 0 and 1.
    pub confidence: f64,
    /// The factors with their levels, in the order of the file.
    pub factors: Vec<Factor>,
    /// Levels of the file that are not run, by factor, because other levels were requested.
    pub omitted: Vec<Factor>,
    /// The number of runs of each point.
    pub replications: Replications,
    /// The responses in the order of the file.
    pub responses: Vec<(String, ResponseSpec)>,
    /// The claims in the order of the file.
    pub claims: Vec<(String, ClaimSpec)>,
    /// The tables in the order of the file.
    pub tables: Vec<(String, TableSpec)>,
    /// The figures in the order of the file.
    pub figures: Vec<(String, FigureSpec)>,
    /// The values of the paper that the study answers; `None` without a paper.
    pub paper: Option<Paper>,
}

impl ColumnSpec {
    /// The unit of the column's cells.
    pub fn unit<'a>(&self, design: &'a Design) -> &'a str {
        match self.derivation() {
            Some((Derivation::Ratio, _)) | None => "1",
            Some((_, response)) => design.unit_of(response),
        }
    }
}

fn named<'a, T>(items: &'a [(String, T)], name: &str) -> Option<&'a T> {
    items.iter().find(|(known, _)| known == name).map(|(_, item)| item)
}

impl Design {
    /// The factor with this name.
    pub fn factor(&self, name: &str) -> Option<&Factor> {
        self.factors.iter().find(|factor| factor.name == name)
    }

    /// The response with this name.
    pub fn response(&self, name: &str) -> Option<&ResponseSpec> {
        named(&self.responses, name)
    }

    /// The claim with this name.
    pub fn claim(&self, name: &str) -> Option<&ClaimSpec> {
        named(&self.claims, name)
    }

    /// The table with this name.
    pub fn table(&self, name: &str) -> Option<&TableSpec> {
        named(&self.tables, name)
    }

    /// The figure with this name.
    pub fn figure(&self, name: &str) -> Option<&FigureSpec> {
        named(&self.figures, name)
    }

    /// The unit of a response; `1` for an unknown name.
    pub fn unit_of(&self, response: &str) -> &str {
        self.response(response).map_or("1", ResponseSpec::unit)
    }

    /// The name of the definition of sample quantiles in use; `None` if no response is a quantile.
    pub fn quantiles(&self) -> Option<&'static str> {
        self.responses
            .iter()
            .any(|(_, spec)| spec.is_quantile())
            .then_some(netrig_stats::quantile::DEFINITION)
    }

    /// The error if the paper has no value and no group of this name.
    pub(crate) fn check_paper(&self, field: &str, name: &str) -> Option<SpecError> {
        let Some(paper) = &self.paper else {
            return Some(SpecError::new(field, "there is no `paper.toml` beside this file"));
        };
        let what = format!("the paper has no value or group `{name}`");
        (!paper.has(name)).then(|| SpecError::new(field, one_of(&what, name, &paper.names())))
    }

    /// The message for an unknown response.
    pub(crate) fn unknown_response(&self, name: &str) -> String {
        let known: Vec<&str> = self.responses.iter().map(|(name, _)| name.as_str()).collect();
        one_of(&format!("there is no response `{name}`"), name, &known)
    }
}
