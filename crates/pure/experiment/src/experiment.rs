//! A checked experiment file.

use std::sync::Arc;

use crate::file::diagnostic::Diagnostics;
use crate::file::document::Kind;
use crate::file::{self, Assignment, Checked, Definition, FileReader, SetError};
use crate::judge::Design;
use crate::points::Points;
use crate::{Paper, Plan, WarmUp};

/// An experiment file that has been read and checked.
///
/// ```
/// # use netrig_experiment::Experiment;
/// let text = r#"
/// format = 1
/// name = "two-hosts"
/// duration = "10 s"
/// [factors]
/// rate = ["1 Mbit/s", "2 Mbit/s"]
/// [node.a]
/// [node.b]
/// [link.ab]
/// between = ["a", "b"]
/// rate = "${rate}"
/// delay = "10 ms"
/// queue = { kind = "fifo", packets = 50 }
/// [flow.file]
/// from = "a"
/// to = "b"
/// transport = "tcp"
/// application = { kind = "bulk" }
/// [transport.tcp]
/// kind = "tcp"
/// [response.goodput]
/// of = "flow.file"
/// metric = "goodput"
/// "#;
/// let experiment = Experiment::parse("two-hosts.toml", text)?;
/// let plan = experiment.plan();
/// assert_eq!(plan.len(), 2);
/// assert_eq!(plan.run(1, 1)?.scenario.links[0].forward.rate().map(|rate| rate.bits_per_s()), Some(2_000_000));
/// # Ok::<(), netrig_experiment::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The question that the experiment answers. It may be empty.
    pub question: String,
    /// The part at the start of each run that is removed before the run is reduced.
    pub warm_up: WarmUp,
    /// Seed of the first replication.
    pub seed: u64,
    /// Name, factors, replications, responses, claims, tables and figures.
    pub design: Design,
    definition: Arc<Definition>,
    points: Arc<Points>,
    warnings: Diagnostics,
}

impl Experiment {
    /// Reads and checks `text`, the contents of `file`. The name is used only in messages; no file is opened.
    ///
    /// # Errors
    /// Every fault of the file, each with its line and column.
    pub fn parse(file: &str, text: impl AsRef<[u8]>) -> Result<Self, Diagnostics> {
        Self::read(file, text, None, None)
    }

    /// Reads and checks `text` like [`Experiment::parse`], with the values of the paper that the study answers, and with
    /// the files that it names. Claims, tables and figures may refer to the values of the paper.
    ///
    /// # Errors
    /// Every fault of the file, every reference to a value that the paper does not have, and a file that cannot be read.
    pub fn read(
        file: &str,
        text: impl AsRef<[u8]>,
        paper: Option<Paper>,
        files: Option<&dyn FileReader>,
    ) -> Result<Self, Diagnostics> {
        Self::check(file::definition(file, text.as_ref(), files)?, paper)
    }

    /// Reads and checks only the parts of `text` that affect its runs. Claims, tables and figures are skipped, because
    /// they may refer to a paper that is not available.
    ///
    /// # Errors
    /// As [`Experiment::parse`].
    pub fn parse_runs(file: &str, text: impl AsRef<[u8]>) -> Result<Self, Diagnostics> {
        let mut definition = file::definition(file, text.as_ref(), None)?;
        if let Kind::Table(root) = &mut definition.root.kind {
            root.entries.retain(|entry| !["claim", "table", "figure"].contains(&entry.key.as_str()));
        }
        Self::check(definition, None)
    }

    /// Replaces the levels of some factors, as `--set` does. A level that is equivalent to a level of the file takes
    /// the form of the file's level.
    ///
    /// # Errors
    /// Unknown factors, and levels with which no point can be resolved.
    pub fn set(self, assignments: &[Assignment]) -> Result<Self, SetError> {
        let mut definition = Arc::unwrap_or_clone(self.definition);
        for assignment in assignments {
            let is_read = file::is_read(&definition.root, &assignment.factor);
            assignment.apply(&mut definition.factors, &mut definition.blocks, is_read)?;
        }
        Ok(Self::check(definition, self.design.paper)?)
    }

    fn check(definition: Definition, paper: Option<Paper>) -> Result<Self, Diagnostics> {
        let Checked { header, design, points, warnings } = file::check(&definition, paper)?;
        let warnings = definition.diagnostics(warnings);
        Ok(Self {
            question: header.question,
            warm_up: header.warm_up,
            seed: header.seed,
            design,
            definition: Arc::new(definition),
            points: Arc::new(points),
            warnings,
        })
    }

    /// The text of the file, with the contents of the files that it names.
    pub fn text(&self) -> &str {
        &self.definition.whole
    }

    /// Warnings about settings whose results may not mean what the author of the file expects.
    pub fn warnings(&self) -> &Diagnostics {
        &self.warnings
    }

    /// The plan of all runs, with the current seed and replications.
    pub fn plan(&self) -> Plan {
        let (definition, points) = (Arc::clone(&self.definition), Arc::clone(&self.points));
        Plan::new(definition, points, self.design.replications.clone(), self.seed)
    }
}
