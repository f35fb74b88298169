//! A checked experiment file.

use std::sync::Arc;

use crate::file::diagnostic::Diagnostics;
use crate::file::document::Kind;
use crate::file::{self, Assignment, Checked, Definition, SetError};
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
    /// The question that it answers; may be empty.
    pub question: String,
    /// What is taken off the start of each run before it is reduced.
    pub warm_up: WarmUp,
    /// Seed of the first replication.
    pub seed: u64,
    /// Its name, factors and replications, and what is made of its runs.
    pub design: Design,
    definition: Arc<Definition>,
    points: Arc<Points>,
    warnings: Diagnostics,
}

impl Experiment {
    /// Reads and checks `text`, the contents of `file` (a name for messages; nothing is opened).
    ///
    /// # Errors
    /// All that is wrong with the file, each with its line and column.
    pub fn parse(file: &str, text: impl AsRef<[u8]>) -> Result<Self, Diagnostics> {
        let definition = file::definition(file, text.as_ref())?;
        Self::check(definition, None)
    }

    /// Reads and checks `text` like [`Experiment::parse`], beside the values of the paper that it answers, to
    /// which claims, tables and figures may refer.
    ///
    /// # Errors
    /// All that is wrong with the file, references to values that the paper does not have among it.
    pub fn parse_with_paper(file: &str, text: impl AsRef<[u8]>, paper: Paper) -> Result<Self, Diagnostics> {
        let definition = file::definition(file, text.as_ref())?;
        Self::check(definition, Some(paper))
    }

    /// Reads and checks of `text` what its runs are made of: without the claims, tables and figures, which may refer
    /// to a paper that is not at hand.
    ///
    /// # Errors
    /// As [`Experiment::parse`].
    pub fn parse_runs(file: &str, text: impl AsRef<[u8]>) -> Result<Self, Diagnostics> {
        let mut definition = file::definition(file, text.as_ref())?;
        if let Kind::Table(root) = &mut definition.root.kind {
            root.entries.retain(|entry| !["claim", "table", "figure"].contains(&entry.key.as_str()));
        }
        Self::check(definition, None)
    }

    /// The experiment with other levels for some factors, as `--set` gives them. A level that means the same as
    /// one of the file is that one.
    ///
    /// # Errors
    /// Factors that the experiment does not have, and levels that nothing can be run with.
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

    /// What may make results mean something else than the author of the file thinks.
    pub fn warnings(&self) -> &Diagnostics {
        &self.warnings
    }

    /// All its runs, with the seed and the replications that it has now.
    pub fn plan(&self) -> Plan {
        let (definition, points) = (Arc::clone(&self.definition), Arc::clone(&self.points));
        Plan::new(definition, points, self.design.replications.clone(), self.seed)
    }
}
