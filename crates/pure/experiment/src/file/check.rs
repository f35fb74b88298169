//! Checks the definition of a file. The result is a design and points that can be resolved.

use std::collections::BTreeSet;

use netrig_core::{Duration, Fraction};

use super::definition::{Definition, FORMAT_KEY};
use super::diagnostic::{Diagnostic, Diagnostics, Span};
use super::document::{Entry, Kind, Value};
use super::factors::factor;
use super::placeholder;
use super::read::{Levels, Reader};
use super::sections::{FileHeader, ReplicationsSection};
use super::warnings::Warnings;
use crate::check::SpecError;
use crate::claim::selection::Selection;
use crate::judge::Design;
use crate::points::Points;
use crate::response::Subjects;
use crate::{Factor, Level, Of, Paper, Replications, Scenario, WarmUp, resolve};

/// The keys of a [`FileHeader`], which are above the first section.
const HEADER_KEYS: &[&str] = &["name", "question", "warm_up", "seed"];

/// The known sections.
const SECTIONS: &[&str] = &[
    "factors",
    "points",
    "replications",
    "node",
    "link",
    "transport",
    "event",
    "flow",
    "response",
    "claim",
    "table",
    "figure",
];

/// Required sections, each with an example.
const NEEDED: &[(&str, &str)] = &[
    ("node", "[node.client]"),
    ("link", "[link.access]"),
    ("flow", "[flow.web]"),
    ("response", "[response.throughput]"),
];

/// The largest number of points that are all resolved when a file is read. Of a larger sweep, a sample is resolved in
/// which each level occurs.
const TRIED_POINTS: usize = 500;

/// Upper limit on the parts of all scenarios that are resolved when a file is read, and the number of parts that is
/// added for each point. They limit the time to read a file to a few seconds.
const TRIED_PARTS: usize = 2_000_000;
const PARTS_OF_A_POINT: usize = 100;

/// The replications if the file gives none.
const REPLICATIONS: Replications = Replications::exactly(10);

/// The confidence if the file gives none.
const CONFIDENCE: f64 = 0.95;

/// The result of the check of a definition.
pub(crate) struct Checked {
    pub(crate) header: FileHeader,
    pub(crate) design: Design,
    pub(crate) points: Points,
    pub(crate) warnings: Vec<Diagnostic>,
}

/// Checks a definition. The error has all its faults.
pub(crate) fn check(definition: &Definition, paper: Option<Paper>) -> Result<Checked, Diagnostics> {
    let constants = definition.factors.iter().filter(|factor| factor.levels.len() == 1);
    let constants: Levels<'_> = constants.map(|f| (f.name.as_str(), &f.levels[0].1)).collect();
    let varied = definition.factors.iter().filter(|factor| factor.levels.len() != 1);
    let varied: Vec<(&str, usize)> = varied.map(|f| (f.name.as_str(), f.levels.len())).collect();
    let reader = Reader::of_all(&constants, &varied);
    let file = ExperimentFile { definition, reader: &reader };
    file.check_sections();
    file.check_factors_used();
    let header = file.header();
    let design = file.design(header.as_ref(), paper);
    let points = file.points();
    let mut problems = reader.finish();
    let mut warnings = Warnings::new(definition, design.as_ref(), header.as_ref());
    if let Some(points) = &points {
        let measured = MeasuredSubjects {
            windows: windows(definition, header.as_ref(), design.as_ref()),
            links: links(definition, design.as_ref()),
            counters: counters(definition, design.as_ref()),
        };
        problems.extend(try_points(definition, points, &measured, &mut warnings));
    }
    let warnings = warnings.finish();
    match (header, design, points) {
        (Some(header), Some(design), Some(points)) if problems.is_empty() => {
            Ok(Checked { header, design, points, warnings })
        }
        _ => Err(definition.diagnostics(problems)),
    }
}

/// The start of a measuring window, and its position in the file.
type Window = (Duration, Span);

/// The measured subjects that are invalid at some points.
struct MeasuredSubjects<'d> {
    /// The starts of measuring windows.
    windows: Vec<Window>,
    /// The names of measured links, with their positions in the file.
    links: Vec<(&'d str, Span)>,
    /// The measured counters of programs: node, counter, and position in the file.
    counters: Vec<(&'d str, &'d str, Span)>,
}

impl MeasuredSubjects<'_> {
    /// The faults of measurements that are impossible in this scenario.
    fn problems(&self, scenario: &Scenario) -> impl Iterator<Item = Diagnostic> {
        let late = self.windows.iter().filter(|(start, _)| *start >= scenario.duration);
        let late = late.map(|(start, span)| {
            let why = format!("measuring starts at {start}, but the run ends at {}", scenario.duration);
            Diagnostic::error(span.clone(), why)
        });
        let is_cable = |name: &str| scenario.links.iter().any(|link| link.group == name && link.is_direct());
        let uncounted = self.links.iter().filter(move |(name, _)| is_cable(name)).map(|(name, span)| {
            let why = format!("link `{name}` is a cable (`kind = \"direct\"`), which has no counters");
            Diagnostic::error(span.clone(), why)
        });
        let unknown = self.counters.iter().filter_map(|(node, counter, span)| {
            let mut nodes = scenario.nodes.iter().filter(|known| known.group == *node);
            let node = nodes.find(|node| !node.counters().any(|known| known == *counter))?;
            let why = format!("no program of node `{}` names a counter `{counter}`", node.name);
            Some(Diagnostic::error(span.clone(), why).among(counter, node.counters()))
        });
        late.chain(uncounted).chain(unknown)
    }
}

/// The counters of programs that responses measure.
fn counters<'d>(definition: &Definition, design: Option<&'d Design>) -> Vec<(&'d str, &'d str, Span)> {
    let responses = design.map_or(&[][..], |design| &design.responses).iter();
    let place = |name: &str| definition.root.at(&["response", name, "of"]).span.clone();
    let of_counters = responses.filter_map(|(name, spec)| match &spec.of {
        Of::Counter(_, counter) => Some((spec.of.group(), counter.as_str(), place(name))),
        _ => None,
    });
    of_counters.collect()
}

/// The links that responses measure.
fn links<'d>(definition: &Definition, design: Option<&'d Design>) -> Vec<(&'d str, Span)> {
    let responses = design.map_or(&[][..], |design| &design.responses).iter();
    let of_links =
        responses.filter(|(_, spec)| matches!(spec.of, Of::Link(..) | Of::Class(..) | Of::Rule(..)));
    let place = |name: &str| definition.root.at(&["response", name, "of"]).span.clone();
    of_links.map(|(name, spec)| (spec.of.group(), place(name))).collect()
}

/// The starts of the measuring windows of the warm-up and of the responses.
fn windows(definition: &Definition, header: Option<&FileHeader>, design: Option<&Design>) -> Vec<Window> {
    let place = |path: &[&str]| definition.root.at(path).span.clone();
    let warm_up = header.and_then(|header| match header.warm_up {
        WarmUp::Fixed(span) => Some((span, place(&["warm_up"]))),
        WarmUp::None | WarmUp::Mser5 => None,
    });
    let responses = design.map_or(&[][..], |design| &design.responses).iter();
    let after = responses.filter_map(|(name, spec)| Some((spec.after?, place(&["response", name, "after"]))));
    warm_up.into_iter().chain(after).collect()
}

/// Resolves all points, or a sample of them, and returns the faults.
fn try_points(
    definition: &Definition,
    points: &Points,
    measured: &MeasuredSubjects<'_>,
    warnings: &mut Warnings<'_>,
) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let mut parts = 0;
    for i in points.sample(TRIED_POINTS) {
        let places = points.levels(i, definition.factors.len());
        match resolve::scenario(&definition.root, &definition.levels(&places)) {
            Ok(scenario) => {
                problems.extend(measured.problems(&scenario));
                warnings.look_at(&scenario, &places);
                parts += scenario.parts();
            }
            Err(more) => problems.extend(more),
        }
        parts += PARTS_OF_A_POINT;
        if problems.len() > Diagnostics::SHOWN * 10 || parts > TRIED_PARTS {
            return problems;
        }
    }
    if problems.is_empty() {
        problems = warnings.unknown_parts();
    }
    problems
}

/// A file that is being checked.
struct ExperimentFile<'a> {
    definition: &'a Definition,
    reader: &'a Reader<'a>,
}

impl<'a> ExperimentFile<'a> {
    fn root(&self) -> &'a [Entry] {
        self.definition.root.table().map_or(&[], |root| &root.entries)
    }

    /// Reports unknown keys and sections, missing sections, and sections of the wrong shape.
    fn check_sections(&self) {
        let keys = [&[FORMAT_KEY], HEADER_KEYS, resolve::RUN_KEYS].concat();
        let unknown =
            |entry: &&Entry| !keys.contains(&entry.key.as_str()) && !SECTIONS.contains(&entry.key.as_str());
        for entry in self.root().iter().filter(unknown).take(Diagnostics::SHOWN) {
            let (what, known) = match entry.value.table() {
                Some(_) => ("section", SECTIONS),
                None => ("key", keys.as_slice()),
            };
            self.reader.report(
                Diagnostic::error(entry.key_span.clone(), format!("unknown {what} `{}`", entry.key))
                    .among(&entry.key, known.iter().copied()),
            );
        }
        for entry in self.root().iter().filter(|entry| SECTIONS[3..].contains(&entry.key.as_str())) {
            self.check_shape(entry);
        }
        for (section, example) in NEEDED {
            let there =
                self.section(section).and_then(Value::table).is_some_and(|table| !table.entries.is_empty());
            if !there && self.section(section).is_none_or(|value| value.table().is_some()) {
                let end = self.definition.own_text.trim_end().len();
                let why = format!("there is no [{section}.…] in the file");
                self.reader.report(
                    Diagnostic::error(end..end, why).expected(format!("at least one, such as {example}")),
                );
            }
        }
    }

    /// Reports a section that does not consist of named tables (for events: of blocks).
    fn check_shape(&self, entry: &Entry) {
        let wrong = |value: &Value, expected: String| {
            let why = format!("`{}` cannot be used here in this form", entry.key);
            self.reader.report(Diagnostic::error(value.span.clone(), why).expected(expected));
        };
        match (&entry.value.kind, entry.key.as_str()) {
            (Kind::Array(blocks), "event") => {
                for block in blocks.iter().filter(|block| block.table().is_none()) {
                    wrong(block, "a block `[[event]]`".into());
                }
            }
            (_, "event") => wrong(&entry.value, "blocks `[[event]]`".into()),
            (Kind::Table(table), key) => {
                for item in table.entries.iter().filter(|item| item.value.table().is_none()) {
                    wrong(&item.value, format!("tables such as [{key}.{}]", item.key));
                }
            }
            (_, key) => wrong(&entry.value, format!("tables such as [{key}.name]")),
        }
    }

    /// Reports unused factors: a sweep over such a factor would repeat the same points.
    fn check_factors_used(&self) {
        let mut used = BTreeSet::new();
        for entry in self.root().iter().filter(|entry| entry.key != "factors") {
            entry.value.each_text(&mut |text| used.extend(placeholder::factors(text)));
        }
        let flows = resolve::tables(&self.definition.root, "flow", self.reader);
        let chosen = flows.filter_map(|flow| flow.value.at(&["where"]).table());
        used.extend(chosen.flat_map(|chosen| chosen.keys()));
        let Some(factors) = self.section("factors").and_then(Value::table) else { return };
        for entry in factors.entries.iter().filter(|entry| !used.contains(entry.key.as_str())) {
            let why =
                format!("nothing uses the factor `{0}`: `${{{0}}}` does not occur in the file", entry.key);
            self.reader.report(Diagnostic::error(entry.key_span.clone(), why));
        }
    }

    fn section(&self, name: &str) -> Option<&'a Value> {
        self.definition.root.table().and_then(|root| root.get(name))
    }

    fn header(&self) -> Option<FileHeader> {
        let root = &self.definition.root;
        let own = Value { span: root.span.clone(), kind: Kind::Table(root.table()?.only(HEADER_KEYS)) };
        let header: FileHeader = self.reader.read(&own)?;
        let fine = !header.name.is_empty()
            && header.name.len() <= 100
            && header.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        if !fine {
            let why = format!("`{}` cannot be the name of an experiment", header.name);
            let problem = self.reader.about(root, &["name"], why);
            self.reader.report(problem.expected("up to 100 letters, digits, `-`, `_`, `.` and `/`"));
        }
        fine.then_some(header)
    }

    fn points(&self) -> Option<Points> {
        match Points::new(&self.definition.factors, &self.definition.blocks) {
            Ok(points) => Some(points),
            Err(why) => {
                let section = if self.definition.blocks.is_empty() { "factors" } else { "points" };
                self.reader.report(self.reader.about(&self.definition.root, &[section], why));
                None
            }
        }
    }

    fn design(&self, header: Option<&FileHeader>, paper: Option<Paper>) -> Option<Design> {
        let replications = self.replications();
        let (responses, claims) = (self.named("response"), self.named("claim"));
        let (tables, figures) = (self.named("table"), self.named("figure"));
        let (replications, confidence) = replications?;
        let mut design = Design {
            name: header?.name.clone(),
            confidence,
            factors: self.definition.factors.iter().map(factor).collect(),
            omitted: self.omitted(),
            replications,
            responses: responses?,
            claims: claims?,
            tables: tables?,
            figures: figures?,
            paper,
        };
        // Claims, tables and figures must fit the levels in the file, not the levels of `--set`.
        let as_written = Design { factors: self.definition.written.clone(), ..design.clone() };
        let fine = self.check_design(&as_written);
        self.show_varied_constants(&mut design);
        fine.then_some(design)
    }

    /// Levels of the file that `--set` omits. A constant is not listed: with another value, it makes another
    /// experiment.
    fn omitted(&self) -> Vec<Factor> {
        let factors = self.definition.written.iter().zip(&self.definition.factors);
        factors
            .filter(|(written, _)| written.levels.len() > 1)
            .filter_map(|(written, now)| {
                let now = factor(now);
                let is_left_out = |level: &&Level| !now.levels.iter().any(|other| other.means(level));
                let levels: Vec<Level> = written.levels.iter().filter(is_left_out).cloned().collect();
                (!levels.is_empty()).then(|| Factor { name: written.name.clone(), levels })
            })
            .collect()
    }

    /// If `--set` gives several levels to a constant, adds the constant as rows to the tables and as panels to the
    /// figures that do not mention it.
    fn show_varied_constants(&self, design: &mut Design) {
        let factors = self.definition.written.iter().zip(&self.definition.factors);
        for (written, _) in factors.filter(|(written, now)| written.levels.len() == 1 && now.levels.len() > 1)
        {
            let name = &written.name;
            for (_, table) in &mut design.tables {
                let named = table.rows.contains(name) || table.at.0.contains_key(name);
                if !named && !table.columns.iter().any(|(_, column)| column.over.contains(name)) {
                    table.rows.0.push(name.clone());
                }
            }
            for (_, figure) in &mut design.figures {
                if !figure.distinguishes(name) && !figure.at.0.contains_key(name) {
                    figure.panels.0.push(name.clone());
                }
            }
        }
    }

    /// The parts of `[section.*]` in the order of the file, if all are valid.
    fn named<T: serde::de::DeserializeOwned>(&self, section: &str) -> Option<Vec<(String, T)>> {
        let parts: Vec<Option<(String, T)>> = resolve::tables(&self.definition.root, section, self.reader)
            .map(|entry| {
                let named = resolve::check_name(entry, self.reader);
                let part = self.reader.read(&entry.value)?;
                named.then(|| (entry.key.clone(), part))
            })
            .collect();
        parts.into_iter().collect()
    }

    fn check_design(&self, design: &Design) -> bool {
        let names = |section: &str| -> Vec<&str> {
            self.section(section)
                .and_then(Value::table)
                .map(|table| table.keys().collect())
                .unwrap_or_default()
        };
        let (flows, links, nodes) = (names("flow"), names("link"), names("node"));
        let subjects = Subjects { flows: &flows, links: &links, nodes: &nodes, factors: &design.factors };
        let mut fine = true;
        let mut report = |section: &str, name: &str, errors: Vec<SpecError>| {
            for error in errors {
                fine = false;
                let path: Vec<&str> = [section, name].into_iter().chain(error.field.split('.')).collect();
                self.reader.report(self.reader.about(&self.definition.root, &path, error.why));
            }
        };
        design.responses.iter().for_each(|(name, spec)| report("response", name, spec.check(subjects)));
        design.claims.iter().for_each(|(name, spec)| report("claim", name, spec.check(design)));
        design.tables.iter().for_each(|(name, spec)| report("table", name, spec.check(design)));
        design.figures.iter().for_each(|(name, spec)| report("figure", name, spec.check(design)));
        for flow in resolve::tables(&self.definition.root, "flow", self.reader) {
            let chosen = flow.value.table().and_then(|flow| flow.get("where"));
            // The faults of reading the selection are reported with the flow.
            let chosen: Option<Selection> = chosen.and_then(|chosen| self.reader.read(chosen));
            report(
                "flow",
                &flow.key,
                chosen.map_or_else(Vec::new, |chosen| chosen.check("where", &design.factors)),
            );
        }
        if let Some(until) = &design.replications.until
            && design.response(&until.response).is_none()
        {
            let known = design.responses.iter().map(|(name, _)| name.as_str());
            let path = ["replications", "until", "response"];
            let why = format!("unknown response `{}`", until.response);
            self.reader
                .report(self.reader.about(&self.definition.root, &path, why).among(&until.response, known));
            fine = false;
        }
        fine
    }

    /// The replications of each point, and the confidence of every interval.
    fn replications(&self) -> Option<(Replications, f64)> {
        let Some(value) = self.section("replications") else { return Some((REPLICATIONS, CONFIDENCE)) };
        let section: ReplicationsSection = self.reader.read(value)?;
        let refuse = |key: &str, why: String| {
            self.reader.report(self.reader.about(value, &[key], why));
            None
        };
        let confidence = section.confidence.map_or(CONFIDENCE, Fraction::get);
        if !(0.5..1.0).contains(&confidence) {
            return refuse(
                "confidence",
                format!("a confidence lies between 0.5 and 1, such as 0.95, and is not {confidence}"),
            );
        }
        let fixed = section.count.is_some();
        if fixed && (section.min.is_some() || section.max.is_some() || section.until.is_some()) {
            return refuse("count", "either `count`, or `min`, `max` and `until`".into());
        }
        let min = section.count.or(section.min).unwrap_or(REPLICATIONS.min);
        let max = section.count.or(section.max).unwrap_or(min);
        let key = |key: &'static str| if fixed { "count" } else { key };
        if min == 0 {
            return refuse(key("min"), "at least one replication is needed".into());
        }
        if max < min {
            return refuse("max", format!("`max` is {max}, which is less than `min`, {min}"));
        }
        if max > MAX_REPLICATIONS {
            return refuse(
                key("max"),
                format!("{max} replications; at most {MAX_REPLICATIONS} can be handled"),
            );
        }
        if let Some(until) = &section.until {
            if max == min {
                return refuse(
                    "until",
                    format!("there is nothing to decide between {min} and {max} replications"),
                );
            }
            if until.half_width.get() <= 0.0 {
                return refuse("until", "`half_width` must be above zero".into());
            }
            let fewest = netrig_stats::stopping::FEWEST as u32;
            if min < fewest {
                return refuse(
                    "min",
                    format!("a rule to stop needs at least {fewest} replications to judge"),
                );
            }
        } else if max != min {
            return refuse("max", "without `until` there is no rule to stop between `min` and `max`".into());
        }
        Some((Replications { min, max, until: section.until }, confidence))
    }
}

/// The most replications of a point.
const MAX_REPLICATIONS: u32 = 1_000_000;
