//! Two conformance runs, purpose by purpose.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::report::{ConformanceDocument, PurposeRow};
use super::run::PurposeVerdict;

/// A purpose whose verdict differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VerdictChange {
    /// The id, such as `REG-BIND-03`.
    pub id: String,
    /// RFC and section.
    pub section: String,
    /// The requirement.
    pub requirement: String,
    /// The verdict before; absent if it was not run.
    pub before: Option<PurposeVerdict>,
    /// The verdict now; absent if it was not run.
    pub now: Option<PurposeVerdict>,
    /// The observation before; empty if there is none.
    pub seen_before: String,
    /// The observation now.
    pub seen_now: String,
}

/// The differences between two conformance runs of one role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConformanceComparison {
    /// The server before.
    pub before: String,
    /// The server now.
    pub now: String,
    /// Purposes that both runs have.
    pub purposes: usize,
    /// Purposes with the same verdict.
    pub unchanged: usize,
    /// Purposes that fail now, and did not fail before.
    pub newly_failed: Vec<VerdictChange>,
    /// Purposes that failed before, and pass now.
    pub mended: Vec<VerdictChange>,
    /// Other differences.
    pub changed: Vec<VerdictChange>,
    /// Ids that only one run has, because of another version of netrig or another selection.
    pub of_one_only: Vec<String>,
}

/// Two runs of different roles cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one run is of a {before}, the other of a {now}")]
pub struct OtherRole {
    before: &'static str,
    now: &'static str,
}

impl ConformanceComparison {
    /// Compares two runs.
    ///
    /// # Errors
    /// If the roles differ.
    pub fn of(before: &ConformanceDocument, now: &ConformanceDocument) -> Result<Self, OtherRole> {
        if before.role != now.role {
            return Err(OtherRole { before: before.role.name(), now: now.role.name() });
        }
        let by_id = |document: &ConformanceDocument| -> BTreeMap<String, PurposeRow> {
            document.purposes.iter().map(|row| (row.id.clone(), row.clone())).collect()
        };
        let (earlier, mut later) = (by_id(before), by_id(now));
        let mut comparison = Self {
            before: before.subject(),
            now: now.subject(),
            purposes: 0,
            unchanged: 0,
            newly_failed: Vec::new(),
            mended: Vec::new(),
            changed: Vec::new(),
            of_one_only: Vec::new(),
        };
        for (id, was) in earlier {
            match later.remove(&id) {
                None => comparison.of_one_only.push(id),
                Some(is) => comparison.add(was, is),
            }
        }
        comparison.of_one_only.extend(later.into_keys());
        Ok(comparison)
    }

    fn add(&mut self, was: PurposeRow, is: PurposeRow) {
        use PurposeVerdict::{Fail, Pass};
        self.purposes += 1;
        if was.verdict == is.verdict {
            self.unchanged += 1;
            return;
        }
        let list = match (was.verdict, is.verdict) {
            (_, Some(Fail)) => &mut self.newly_failed,
            (Some(Fail), Some(Pass)) => &mut self.mended,
            _ => &mut self.changed,
        };
        list.push(VerdictChange {
            id: is.id,
            section: is.section,
            requirement: is.requirement,
            before: was.verdict,
            now: is.verdict,
            seen_before: was.observation,
            seen_now: is.observation,
        });
    }
}
