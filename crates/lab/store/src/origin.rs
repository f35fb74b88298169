//! The origin of runs: where, when and with which software they were made.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use netrig_experiment::{Level, Point, TypedLevel};
use serde::{Serialize, Serializer};

use crate::{Provenance, ProvenanceId, Store, StoreError, StoredRun};

/// Facts by name that may explain the numbers of some runs, such as build, file, seeds and machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct RunOrigin(BTreeMap<String, OriginFact>);

/// A fact about an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginFact {
    /// A property of a machine, a build or a file.
    Text(String),
    /// A factor that has one level at all points.
    Level(Level),
}

impl fmt::Display for OriginFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.pad(text),
            Self::Level(level) => f.pad(level.text()),
        }
    }
}

impl Serialize for OriginFact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Level(level) => TypedLevel(level).serialize(serializer),
        }
    }
}

/// A fact that differs between the first runs and the second runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OriginChange {
    /// Name of the fact.
    pub what: String,
    /// Its value for the first runs, if it is known.
    pub first: Option<OriginFact>,
    /// Its value for the second runs, if it is known.
    pub second: Option<OriginFact>,
}

/// The sources of some runs: substrates, provenances, seeds and times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSources {
    substrates: BTreeSet<String>,
    makers: BTreeSet<ProvenanceId>,
    seeds: BTreeSet<u64>,
    /// When the first and the last of these runs ended.
    finished: Option<(String, String)>,
}

impl RunSources {
    /// Adds a run.
    pub fn add(&mut self, run: &StoredRun) {
        if !self.substrates.contains(&run.substrate) {
            self.substrates.insert(run.substrate.clone());
        }
        self.makers.insert(run.provenance);
        self.seeds.insert(run.seed);
        match &mut self.finished {
            None => self.finished = Some((run.finished.clone(), run.finished.clone())),
            Some((first, _)) if run.finished < *first => first.clone_from(&run.finished),
            Some((_, last)) if run.finished > *last => last.clone_from(&run.finished),
            Some(_) => {}
        }
    }

    /// Adds the sources of other runs.
    pub fn extend(&mut self, other: Self) {
        self.substrates.extend(other.substrates);
        self.makers.extend(other.makers);
        self.seeds.extend(other.seeds);
        self.finished = match (self.finished.take(), other.finished) {
            (Some(known), Some(new)) => Some((known.0.min(new.0), known.1.max(new.1))),
            (known, new) => known.or(new),
        };
    }
}

/// The names of the main facts, most important first. Other facts follow after them.
const ORDER: [&str; 10] =
    ["build", "substrate", "file", "seeds", "kernel", "system", "machine", "processor", "processors", "made"];

/// Index of the file in `ORDER`.
const FILE: usize = 2;

/// Prefix of a factor's name in the name of a fact.
const FACTOR: &str = "factor ";

/// The builds and machines of the runs of one store.
pub struct Provenances(BTreeMap<ProvenanceId, Provenance>);

impl Provenances {
    /// The provenances of runs from these sources.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn of<'a>(
        store: &Store,
        sources: impl IntoIterator<Item = &'a RunSources>,
    ) -> Result<Self, StoreError> {
        let ids: BTreeSet<ProvenanceId> = sources.into_iter().flat_map(|of| of.makers.clone()).collect();
        ids.into_iter().map(|id| Ok((id, store.provenance(id)?))).collect::<Result<_, _>>().map(Self)
    }

    /// The origin of runs from these sources. `digest` identifies the version of the experiment file. `constants` are
    /// the levels that all points have.
    pub fn origin<'a>(
        &self,
        digest: &str,
        constants: &Point,
        sources: impl IntoIterator<Item = &'a RunSources>,
    ) -> RunOrigin {
        let mut facts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut all = RunSources::default();
        sources.into_iter().for_each(|of| all.extend(of.clone()));
        let mut say = |what: &str, value: String| {
            facts.entry(what.to_owned()).or_default().insert(value);
        };
        all.substrates.into_iter().for_each(|name| say("substrate", name));
        for maker in all.makers {
            if let Some(maker) = self.0.get(&maker) {
                let Provenance { build, os, kernel, cpu, cpus, host, settings } = maker;
                say("build", build.clone());
                say("kernel", kernel.clone());
                say("system", os.clone());
                say("machine", host.clone());
                say("processor", cpu.clone());
                say("processors", cpus.to_string());
                settings.iter().for_each(|(name, value)| say(name, value.clone()));
            }
        }
        let joined =
            facts.into_iter().map(|(what, values)| (what, values.into_iter().collect::<Vec<_>>().join(", ")));
        let mut texts: BTreeMap<String, String> = joined.collect();
        texts.insert("file".into(), format!("{digest:.12}"));
        texts.insert("seeds".into(), ranges(&all.seeds));
        let (first, last) = all.finished.unwrap_or_default();
        texts.insert("made".into(), span(&first, &last));
        // If one machine cannot provide a fact, this is not a difference.
        texts.retain(|_, text| !text.is_empty());
        let texts = texts.into_iter().map(|(what, text)| (what, OriginFact::Text(text)));
        let levels = constants
            .levels()
            .iter()
            .map(|(name, level)| (format!("{FACTOR}{name}"), OriginFact::Level(level.clone())));
        RunOrigin(texts.chain(levels).collect())
    }
}

impl RunOrigin {
    /// The fact with this name.
    pub fn fact(&self, name: &str) -> Option<&OriginFact> {
        self.0.get(name)
    }

    /// The facts that differ, most important first.
    pub fn changes(&self, second: &Self) -> Vec<OriginChange> {
        let change = |what: &str| OriginChange {
            what: what.to_owned(),
            first: self.0.get(what).cloned(),
            second: second.0.get(what).cloned(),
        };
        self.names(second).into_iter().map(change).filter(|change| change.first != change.second).collect()
    }

    /// The facts that are the same in both, such as `substrate sim`.
    pub fn common(&self, second: &Self) -> Vec<String> {
        let same = |what: &&str| self.0.get(*what).is_some_and(|value| second.0.get(*what) == Some(value));
        self.names(second).into_iter().filter(same).map(|what| format!("{what} {}", self.0[what])).collect()
    }

    fn names<'a>(&'a self, other: &'a Self) -> Vec<&'a str> {
        let known: BTreeSet<&str> = self.0.keys().chain(other.0.keys()).map(String::as_str).collect();
        let place = |name: &&str| {
            let place = ORDER.iter().position(|known| known == name);
            // Factors are sorted with the file. Unknown names come last.
            place.unwrap_or(if name.starts_with(FACTOR) { FILE } else { ORDER.len() })
        };
        let mut names = Vec::from_iter(known);
        names.sort_by_key(place);
        names
    }
}

/// The seeds as ranges, such as `1 to 5, 11`.
fn ranges(seeds: &BTreeSet<u64>) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &seed in seeds {
        match runs.last_mut().filter(|(_, last)| last.checked_add(1) == Some(seed)) {
            Some((_, last)) => *last = seed,
            None => runs.push((seed, seed)),
        }
    }
    runs.into_iter()
        .map(|(first, last)| span(&first.to_string(), &last.to_string()))
        .collect::<Vec<_>>()
        .join(", ")
}

fn span(first: &str, last: &str) -> String {
    if first == last { first.to_owned() } else { format!("{first} to {last}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(facts: &[(&str, &str)]) -> RunOrigin {
        let fact = |what: &str, value: &str| match what.strip_prefix(FACTOR) {
            Some(_) => OriginFact::Level(Level::new(value)),
            None => OriginFact::Text(value.to_owned()),
        };
        RunOrigin(facts.iter().map(|(what, value)| ((*what).to_owned(), fact(what, value))).collect())
    }

    #[test]
    fn what_differs_is_told_the_weightiest_first() {
        let first =
            origin(&[("build", "1"), ("made", "noon"), ("kernel", "6.1"), ("net.core.rmem_max", "9")]);
        let second = origin(&[
            ("build", "2"),
            ("made", "night"),
            ("kernel", "6.1"),
            ("seeds", "1"),
            ("factor mss", "1460"),
        ]);
        let changes: Vec<String> = first
            .changes(&second)
            .iter()
            .map(|change| serde_json::to_string(&(&change.what, &change.first, &change.second)).unwrap())
            .collect();
        assert_eq!(
            changes,
            [
                r#"["build","1","2"]"#,
                r#"["factor mss",null,1460]"#,
                r#"["seeds",null,"1"]"#,
                r#"["made","noon","night"]"#,
                r#"["net.core.rmem_max","9",null]"#,
            ]
        );
        assert_eq!(first.common(&second), ["kernel 6.1"]);
    }

    #[test]
    fn seeds_that_follow_each_other_are_told_together() {
        assert_eq!(
            ranges(&BTreeSet::from([1, 2, 3, 7, 9, 10, u64::MAX])),
            "1 to 3, 7, 9 to 10, 18446744073709551615"
        );
        assert_eq!(ranges(&BTreeSet::new()), "");
    }
}
