//! `paper.toml`: values from the text of a paper, which reports show beside our results and compare with them.
//!
//! ```toml
//! title = "Web Traffic Analysis according to the Link-down Duration of TCP and SCTP"
//! [[value]]
//! group = "fig2"
//! where = { transport = "tcp", down_for = "5 s" }   # a factor that is not named may have any level
//! response = "throughput"
//! value = 54
//! unit = "KB/s"
//! approximate = true
//! quote = "…"
//! section = "IV.2"
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use crate::claim::selection::Selection;
use crate::{Amount, Point};

/// The numbers of a paper.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paper {
    /// Title of the paper.
    pub title: String,
    /// The citation: authors, publication and year.
    pub citation: String,
    /// The values, in the order of the file.
    pub values: Vec<PaperValue>,
}

/// One value from the paper's text.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperValue {
    /// The name of this value, `table3.tcp`. Empty if only the group and the levels identify the value.
    pub id: String,
    /// The figure or table that contains it: `fig2`.
    pub group: String,
    /// The levels to which the value applies. A factor that is not named may have any level.
    pub at: Selection,
    /// The response or table column of the value; empty for any.
    pub response: String,
    /// The value with its unit.
    pub value: Amount,
    /// Whether the text says "about".
    pub approximate: bool,
    /// Whether the value is a bound that the paper sets, not a measured value.
    pub threshold: bool,
    /// The quoted words of the text.
    pub quote: String,
    /// Page or section of the quotation.
    pub place: String,
}

/// A fault of a `paper.toml`, and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct PaperError {
    /// Position in the text, in bytes.
    pub span: Range<usize>,
    /// The fault, as a sentence.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperFile {
    title: String,
    #[serde(default)]
    citation: String,
    #[serde(default)]
    value: Vec<Spanned<PaperEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperEntry {
    #[serde(default)]
    id: String,
    #[serde(default)]
    group: String,
    #[serde(default, rename = "where")]
    at: Selection,
    #[serde(default)]
    response: String,
    value: f64,
    unit: String,
    #[serde(default)]
    approximate: bool,
    #[serde(default)]
    threshold: bool,
    quote: String,
    #[serde(default)]
    page: Option<u32>,
    #[serde(default)]
    section: String,
}

impl Paper {
    /// Reads a `paper.toml`.
    ///
    /// # Errors
    /// Every fault with its position: invalid TOML, unknown or missing keys, unknown units, values without a name or
    /// group, duplicate names.
    pub fn parse(text: &str) -> Result<Self, Vec<PaperError>> {
        let file: PaperFile = toml::from_str(text).map_err(|error| {
            vec![PaperError { span: error.span().unwrap_or(0..0), why: error.message().to_owned() }]
        })?;
        let mut errors = Vec::new();
        let mut ids = BTreeMap::new();
        let mut values = Vec::new();
        for entry in file.value {
            let span = entry.span();
            let refuse = |why: String| PaperError { span: span.clone(), why };
            let entry = entry.into_inner();
            if entry.id.is_empty() && entry.group.is_empty() {
                errors.push(refuse("a value needs an `id`, a `group` or both".into()));
            }
            if entry.quote.trim().is_empty() {
                errors.push(refuse("a value needs the words of the paper that state it (`quote`)".into()));
            }
            if !entry.id.is_empty() && ids.insert(entry.id.clone(), ()).is_some() {
                errors.push(refuse(format!("the id `{}` is given twice", entry.id)));
            }
            match Amount::new(entry.value, &entry.unit) {
                Ok(value) => values.push(entry.into_value(value)),
                Err(error) => errors.push(refuse(error.to_string())),
            }
        }
        let paper = Self { title: file.title, citation: file.citation, values };
        if errors.is_empty() { Ok(paper) } else { Err(errors) }
    }

    /// Whether a value or a group has this name.
    pub fn has(&self, name: &str) -> bool {
        self.values.iter().any(|value| value.id == name || value.group == name)
    }

    /// The distinct names of values and groups, sorted.
    pub fn names(&self) -> Vec<&str> {
        let names = self.values.iter().flat_map(|value| [value.id.as_str(), value.group.as_str()]);
        let mut names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The values of a group, in the order of the file.
    pub fn group<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a PaperValue> {
        self.values.iter().filter(move |value| value.group == name)
    }

    /// The value called `name`. If there is none, the value of group `name` for `response` whose levels match `point`.
    /// If several match, the one that names most levels.
    pub fn find(&self, name: &str, response: &str, point: &Point) -> Option<&PaperValue> {
        let by_id = self.values.iter().find(|value| value.id == name);
        let fits = |value: &PaperValue| {
            value.group == name
                && (value.response.is_empty() || value.response == response)
                && value.at.matches(point)
        };
        // Of values with the same number of levels, the first one is taken.
        let closer = |best: &PaperValue, next: &PaperValue| next.at.0.len() > best.at.0.len();
        let of_group = || self.values.iter().filter(|value| fits(value));
        by_id.or_else(|| of_group().reduce(|best, next| if closer(best, next) { next } else { best }))
    }
}

impl PaperEntry {
    fn into_value(self, value: Amount) -> PaperValue {
        let page = self.page.map(|page| format!("page {page}"));
        let section = (!self.section.is_empty()).then(|| format!("section {}", self.section));
        let place: Vec<String> = page.into_iter().chain(section).collect();
        PaperValue {
            id: self.id,
            group: self.group,
            at: self.at,
            response: self.response,
            value,
            approximate: self.approximate,
            threshold: self.threshold,
            quote: self.quote,
            place: place.join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    const TEXT: &str = r#"
title = "A paper"
citation = "A. Author, 2010"
[[value]]
id = "table3.tcp"
group = "table3"
value = 50710
unit = "B/s"
quote = "TCP 50,710 B"
page = 79
[[value]]
group = "fig2"
where = { transport = "tcp", down_for = "5 s" }
response = "throughput"
value = 54
unit = "KB/s"
approximate = true
quote = "약 54 KB"
section = "IV.2"
[[value]]
group = "fig2"
where = { transport = "tcp", down_for = "5 s", shape = 1.16 }
response = "throughput"
value = 52912
unit = "B/s"
quote = "β가 1.16에서는 52,912 바이트"
"#;

    fn point(levels: &[(&str, &str)]) -> Point {
        levels.iter().map(|(f, l)| ((*f).to_owned(), Level::new(l))).collect()
    }

    #[test]
    fn finds_by_id_and_by_levels() {
        let paper = Paper::parse(TEXT).unwrap();
        assert_eq!(paper.find("table3.tcp", "throughput", &point(&[])).unwrap().value.value(), 50_710.0);
        let at = |shape| point(&[("transport", "tcp"), ("down_for", "5000 ms"), ("shape", shape)]);
        let here =
            |shape| paper.find("fig2", "throughput", &at(shape)).map(|v| v.value.in_unit("B/s").unwrap());
        assert_eq!((here("1.5"), here("1.16")), (Some(54_000.0), Some(52_912.0)));
        assert_eq!(paper.find("fig2", "delay", &at("1.5")), None);
        assert_eq!(paper.find("fig2", "throughput", &point(&[("transport", "sctp")])), None);
        assert_eq!(paper.names(), ["fig2", "table3", "table3.tcp"]);
    }

    #[test]
    fn tells_every_fault_and_its_place() {
        let text = "title = 'x'\n[[value]]\nvalue = 1\nunit = 'kB/s'\nquote = ''\n";
        let errors = Paper::parse(text).unwrap_err();
        let why: Vec<&str> = errors.iter().map(|error| error.why.as_str()).collect();
        assert_eq!(why[0], "a value needs an `id`, a `group` or both");
        assert!(why[1].contains("`quote`"));
        assert_eq!(why[2], "`kB/s` is no unit that netrig knows; did you mean KB/s?");
        assert_eq!(&text[errors[0].span.clone()][..9], "[[value]]");
        let unknown = Paper::parse("title = 'x'\nvolume = 3\n").unwrap_err();
        assert!(unknown[0].why.contains("volume"), "{}", unknown[0].why);
    }
}
