//! The text of an experiment file as a tree of values with their positions.

use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Diagnostic, Span};

/// The longest experiment file, bytes.
pub const LONGEST_FILE: usize = 1 << 20;

/// Greatest nesting of tables and arrays. It is limited because the tree is visited by recursion. Sections need much
/// less.
const MAX_DEPTH: usize = 24;

/// A value and its position in the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) span: Span,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Text(String),
    Integer(i64),
    Float(f64),
    Switch(bool),
    Array(Vec<Value>),
    Table(Table),
}

/// A table's entries in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) value: Value,
}

impl Kind {
    fn standing_at(span: &Span, written: Json) -> Option<Self> {
        Some(match written {
            Json::Null => return None,
            Json::Bool(on) => Self::Switch(on),
            Json::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(number), _) => Self::Integer(number),
                (None, number) => Self::Float(number?),
            },
            Json::String(text) => Self::Text(text),
            Json::Array(elements) => {
                let element =
                    |value| Some(Value { span: span.clone(), kind: Self::standing_at(span, value)? });
                Self::Array(elements.into_iter().filter_map(element).collect())
            }
            table @ Json::Object(_) => Self::Table(Table::standing_at(span, table)),
        })
    }
}

impl Value {
    pub(crate) fn text(&self) -> Option<&str> {
        if let Kind::Text(text) = &self.kind { Some(text) } else { None }
    }

    pub(crate) fn table(&self) -> Option<&Table> {
        if let Kind::Table(table) = &self.kind { Some(table) } else { None }
    }

    /// The elements of an array; for any other value, the value itself.
    pub(crate) fn elements(&self) -> &[Value] {
        if let Kind::Array(elements) = &self.kind { elements } else { std::slice::from_ref(self) }
    }

    /// The value at `path`, which consists of keys and of decimal indices into arrays. If the path leads to a missing
    /// value, the last existing value on the path.
    pub(crate) fn at(&self, path: &[&str]) -> &Self {
        let Some((step, rest)) = path.split_first() else { return self };
        let next = match &self.kind {
            Kind::Table(table) => table.get(step),
            Kind::Array(elements) => step.parse().ok().and_then(|n: usize| elements.get(n)),
            _ => None,
        };
        next.map_or(self, |value| value.at(rest))
    }

    /// Calls `visit` for every text in the value, at any depth.
    pub(crate) fn each_text<'a>(&'a self, visit: &mut impl FnMut(&'a str)) {
        match &self.kind {
            Kind::Text(text) => visit(text),
            Kind::Array(elements) => elements.iter().for_each(|element| element.each_text(visit)),
            Kind::Table(table) => table.entries.iter().for_each(|entry| entry.value.each_text(visit)),
            Kind::Integer(_) | Kind::Float(_) | Kind::Switch(_) => {}
        }
    }
}

impl Table {
    /// A table that was not written in the file. All its values have the position `span`, that of the value that it
    /// replaces.
    pub(crate) fn standing_at(span: &Span, written: Json) -> Self {
        let Json::Object(object) = written else { return Self::default() };
        let entry = |(key, value)| {
            let value = Value { span: span.clone(), kind: Kind::standing_at(span, value)? };
            Some(Entry { key, key_span: span.clone(), value })
        };
        Self { entries: object.into_iter().filter_map(entry).collect() }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }

    /// The table with only the entries `keys`.
    pub(crate) fn only(&self, keys: &[&str]) -> Self {
        let entries = self.entries.iter().filter(|entry| keys.contains(&entry.key.as_str()));
        Self { entries: entries.cloned().collect() }
    }

    /// The table without the entries `keys`.
    pub(crate) fn without(&self, keys: &[&str]) -> Self {
        let entries = self.entries.iter().filter(|entry| !keys.contains(&entry.key.as_str()));
        Self { entries: entries.cloned().collect() }
    }

    /// The table with the entries of `over`. They replace entries of the same key.
    pub(crate) fn overlaid(mut self, over: &Self) -> Self {
        for entry in &over.entries {
            match self.entries.iter_mut().find(|own| own.key == entry.key) {
                Some(own) => *own = entry.clone(),
                None => self.entries.push(entry.clone()),
            }
        }
        self
    }
}

/// Parses a TOML value: `1_000`, `0x10`, `true`. `None` for any other text.
pub(crate) fn parse_value(text: &str) -> Option<Kind> {
    let value = DeValue::parse(text).ok()?;
    let span = value.span();
    kind(value.into_inner(), &span, 0, &mut Vec::new())
}

/// Parses the text of a file as a table.
///
/// # Errors
///
/// All faults of the TOML text, or of its size.
pub(crate) fn parse(text: &str) -> Result<Value, Vec<Diagnostic>> {
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(errors.iter().map(syntax_error).collect());
    }
    let mut wrong = Vec::new();
    let root = table(root.into_inner(), 0, &mut wrong);
    if wrong.is_empty() { Ok(Value { span: 0..0, kind: Kind::Table(root) }) } else { Err(wrong) }
}

fn syntax_error(error: &toml::de::Error) -> Diagnostic {
    let span = error.span().unwrap_or(0..0);
    let (message, expected) = match error.message().split_once(", expected ") {
        Some((message, expected)) => (message, Some(expected)),
        None => (error.message(), None),
    };
    let diagnostic = Diagnostic::error(span, format!("this is not TOML: {message}"));
    match expected {
        Some("literal string") => diagnostic.help("write it in quotes: \"10 ms\""),
        Some(expected) => diagnostic.expected(expected),
        None => diagnostic,
    }
}

fn table(from: DeTable<'_>, depth: usize, wrong: &mut Vec<Diagnostic>) -> Table {
    let mut entries: Vec<Entry> = Vec::with_capacity(from.len());
    for (key, item) in from {
        let span = item.span();
        if let Some(kind) = kind(item.into_inner(), &span, depth + 1, wrong) {
            let key_span = key.span();
            entries.push(Entry { key: key.into_inner().into_owned(), key_span, value: Value { span, kind } });
        }
    }
    // The parser sorts keys by name, but the order of the file decides the order of tables and random streams.
    entries.sort_by_key(|entry| entry.key_span.start);
    Table { entries }
}

fn kind(from: DeValue<'_>, span: &Span, depth: usize, wrong: &mut Vec<Diagnostic>) -> Option<Kind> {
    let mut refuse = |message: &str| {
        wrong.push(Diagnostic::error(span.clone(), message));
        None
    };
    match from {
        DeValue::String(text) => Some(Kind::Text(text.into_owned())),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Some(Kind::Integer(number)),
            Err(_) => refuse("this number is too large"),
        },
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(number) if number.is_finite() => Some(Kind::Float(number)),
            _ => refuse("this is not a finite number"),
        },
        DeValue::Boolean(on) => Some(Kind::Switch(on)),
        DeValue::Datetime(_) => refuse("dates and times of day have no meaning here; write texts in quotes"),
        DeValue::Array(_) | DeValue::Table(_) if depth > MAX_DEPTH => {
            refuse("tables and arrays are nested too deeply")
        }
        DeValue::Array(elements) => {
            let elements = elements.into_iter().filter_map(|element| {
                let span = element.span();
                kind(element.into_inner(), &span, depth + 1, wrong).map(|kind| Value { span, kind })
            });
            Some(Kind::Array(elements.collect()))
        }
        DeValue::Table(inner) => Some(Kind::Table(table(inner, depth, wrong))),
    }
}
