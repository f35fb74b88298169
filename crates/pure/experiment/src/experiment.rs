//! A checked experiment file.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use netrig_core::Duration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::file::diagnostic::{Diagnostic, Diagnostics};
use crate::file::document::{Kind, Value};
use crate::file::factors::{Block, FactorValues};
use crate::file::read::Levels;
use crate::file::{self, Assignment, Checked, SetError};
use crate::judge::Design;
use crate::points::Points;
use crate::{Level, Paper, Plan};

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

/// Something that is varied: a name and its levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    /// Its name: what stands between `${` and `}`.
    pub name: String,
    /// Its levels in the order of the file, each once; one level makes a constant.
    pub levels: Vec<Level>,
}

/// What is taken off the start of a run before it is reduced. In a file: `"none"`, `"5 s"` or `"mser-5"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarmUp {
    /// Nothing.
    #[default]
    None,
    /// A span of time.
    Fixed(Duration),
    /// What the MSER-5 rule finds (White 1997), for each run and response.
    Mser5,
}

/// How many replications a point gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Replications {
    /// At least so many.
    pub min: u32,
    /// At most so many; the same as `min` where there is no rule to stop.
    pub max: u32,
    /// When to stop between the two.
    pub until: Option<Precision>,
}

/// Replications go on until the interval of a response is narrow enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Precision {
    /// The response that is watched.
    pub response: String,
    /// Half of the interval's width, as a share of the mean.
    pub half_width: netrig_core::Fraction,
}

/// The file itself, for reading it again at each point.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) root: Value,
    pub(crate) factors: Vec<FactorValues>,
    /// The factors as they stand in the file. Claims may be about levels that were set aside; they are then not
    /// tested, but not wrong.
    pub(crate) written: Vec<Factor>,
    pub(crate) blocks: Vec<Block>,
}

impl Definition {
    /// The values of factors whose levels have these places.
    pub(crate) fn levels(&self, places: &[usize]) -> Levels<'_> {
        self.factors.iter().zip(places).map(|(f, place)| (f.name.as_str(), &f.levels[*place].1)).collect()
    }

    /// Whether every factor has the levels of the file.
    pub(crate) fn is_as_written(&self) -> bool {
        let now = self.factors.iter().map(|factor| factor.levels.iter().map(|(level, _)| level));
        self.written.iter().zip(now).all(|(written, now)| written.levels.iter().eq(now))
    }

    pub(crate) fn diagnostics(&self, problems: Vec<Diagnostic>) -> Diagnostics {
        Diagnostics::new(&self.file, &self.text, problems)
    }
}

impl Replications {
    /// `n` runs of each point.
    pub const fn exactly(n: u32) -> Self {
        Self { min: n, max: n, until: None }
    }
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

impl<'de> Deserialize<'de> for WarmUp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = WarmUp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(WARM_UP)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<WarmUp, E> {
                match text {
                    "none" => Ok(WarmUp::None),
                    "mser-5" => Ok(WarmUp::Mser5),
                    time if time.starts_with(|c: char| c.is_ascii_digit()) => {
                        time.parse().map(WarmUp::Fixed).map_err(E::custom)
                    }
                    other => Err(E::custom(format_args!("`{other}` is not {WARM_UP}"))),
                }
            }
        }
        deserializer.deserialize_any(Text)
    }
}

const WARM_UP: &str = "`none`, `mser-5` or a time such as `5 s`";

impl JsonSchema for WarmUp {
    fn schema_name() -> Cow<'static, str> {
        "WarmUp".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": WARM_UP, "examples": ["none", "5 s", "mser-5"] })
    }
}
