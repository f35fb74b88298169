//! Deserialisation of a file's values as Rust types: `${factor}` is replaced, and every error has its position.
//!
//! There are three reasons for a separate deserialiser. It reads the tree once per point of a sweep without copying it.
//! It reads a table `{ kind = "x", … }` as a variant of an enum without code in each type. It reports all unknown keys
//! together, with the expected keys, as data instead of text.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::de::{self, DeserializeOwned, DeserializeSeed, Error as _, IntoDeserializer, Visitor};

use super::diagnostic::{Diagnostic, Diagnostics, Span, list};
use super::document::{Entry, Kind, Table, Value};
use super::error::{Error, found};
use super::placeholder::{self, TextPiece};
use crate::Level;
use crate::claim::selection::Selection;

/// The level of each factor at the current point.
pub(crate) type Levels<'r> = BTreeMap<&'r str, &'r Value>;

/// The number of problems after which reading stops. Some of them may turn out to be duplicates.
const ENOUGH: usize = 5 * Diagnostics::SHOWN;

/// The key that names an enum's variant.
const TAG: &str = "kind";

/// Reads values at one point of an experiment, and collects the problems.
pub(crate) struct Reader<'r> {
    levels: &'r Levels<'r>,
    /// While values for all points are read: the factors with several levels, and their numbers of levels.
    varied: &'r [(&'r str, usize)],
    problems: RefCell<Vec<Diagnostic>>,
}

impl<'r> Reader<'r> {
    pub(crate) fn new(levels: &'r Levels<'r>) -> Self {
        Self { levels, varied: &[], problems: RefCell::default() }
    }

    /// A reader of values that must be equal at all points. Constants have these `levels`; a placeholder of a `varied`
    /// factor is an error.
    pub(crate) fn of_all(levels: &'r Levels<'r>, varied: &'r [(&'r str, usize)]) -> Self {
        Self { levels, varied, problems: RefCell::default() }
    }

    /// Reads `value`. If this fails, the problems are kept for [`Reader::finish`].
    pub(crate) fn read<T: DeserializeOwned>(&self, value: &Value) -> Option<T> {
        self.read_beside(value, &[])
    }

    /// Reads a section. The keys `also`, which other code reads, are not reported as unknown.
    pub(crate) fn read_beside<T: DeserializeOwned>(
        &self,
        value: &Value,
        also: &'static [&'static str],
    ) -> Option<T> {
        let node = ValueNode { reader: self, value, span: &value.span, also, tagged: false };
        let before = self.problems.borrow().len();
        match T::deserialize(node) {
            // If unknown keys were reported, the value may not be what the author meant.
            Ok(read) => (self.problems.borrow().len() == before).then_some(read),
            Err(error) => {
                self.report(*error.diagnostic);
                None
            }
        }
    }

    /// A problem with the value at `path` in `value`. If a level replaced a placeholder, the problem also names the
    /// level.
    pub(crate) fn about(&self, value: &Value, path: &[&str], message: impl Into<String>) -> Diagnostic {
        let value = value.at(path);
        let error = Error::new(Diagnostic::error(0..0, message));
        let error = match self.resolve(value) {
            Ok(resolved) => resolved.blame(error, &value.span),
            Err(_) => error.at(&value.span),
        };
        *error.diagnostic
    }

    /// Adds a problem.
    pub(crate) fn report(&self, problem: Diagnostic) {
        self.problems.borrow_mut().push(problem);
    }

    /// Whether there are so many problems that reading can stop.
    pub(crate) fn has_enough(&self) -> bool {
        self.problems.borrow().len() > ENOUGH
    }

    pub(crate) fn finish(self) -> Vec<Diagnostic> {
        self.problems.into_inner()
    }

    /// Whether the current point has one of the selected levels of every named factor.
    pub(crate) fn is_at(&self, chosen: &Selection) -> bool {
        chosen.0.iter().all(|(factor, wanted)| {
            let here = self.levels.get(factor.as_str()).map(|value| Level::of(value));
            here.is_some_and(|here| wanted.iter().any(|level| level.means(&here)))
        })
    }

    fn resolve<'v>(&'v self, value: &'v Value) -> Result<Resolved<'v>, Error> {
        let Kind::Text(text) = &value.kind else { return Ok(Resolved::plain(value)) };
        let pieces = placeholder::pieces(text)
            .map_err(|why| Error::new(Diagnostic::error(value.span.clone(), why)).at(&value.span))?;
        if let [] | [TextPiece::Plain(_)] = pieces.as_slice() {
            return Ok(Resolved::plain(value));
        }
        let mut factors = Vec::new();
        let mut whole = String::new();
        for piece in &pieces {
            match *piece {
                TextPiece::Plain(plain) => whole.push_str(plain),
                TextPiece::Factor(name) => {
                    let level = self.level(name, &value.span)?;
                    whole.push_str(&placeholder::written(level));
                    factors.push((name, level));
                }
            }
        }
        let value = match (pieces.len(), factors.as_slice()) {
            (1, [(_, level)]) => ResolvedValue::Borrowed(level),
            _ => ResolvedValue::Text(whole),
        };
        Ok(Resolved { value, factors })
    }

    fn level(&self, name: &str, span: &Span) -> Result<&Value, Error> {
        if let Some(level) = self.levels.get(name) {
            return Ok(level);
        }
        let problem = match self.varied.iter().find(|(varied, _)| *varied == name) {
            Some((_, levels)) => Diagnostic::error(
                span.clone(),
                format!("`{name}` has {levels} levels, but this holds for all points"),
            )
            .expected("a value, or a factor of one level"),
            None if self.levels.is_empty() && self.varied.is_empty() => {
                Diagnostic::error(span.clone(), format!("unknown factor `{name}`"))
                    .help("list its levels in [factors]")
            }
            None => {
                let known = self.levels.keys().copied().chain(self.varied.iter().map(|(name, _)| *name));
                Diagnostic::error(span.clone(), format!("unknown factor `{name}`")).among(name, known)
            }
        };
        Err(Error::new(problem).at(span))
    }
}

/// A value after the replacement of its placeholders, with the levels that replaced them.
struct Resolved<'v> {
    value: ResolvedValue<'v>,
    factors: Vec<(&'v str, &'v Value)>,
}

enum ResolvedValue<'v> {
    Borrowed(&'v Value),
    Text(String),
}

impl<'v> Resolved<'v> {
    fn plain(value: &'v Value) -> Self {
        Self { value: ResolvedValue::Borrowed(value), factors: Vec::new() }
    }

    /// The value as a text.
    fn name(&self) -> Result<&str, Error> {
        match &self.value {
            ResolvedValue::Text(text) => Ok(text),
            ResolvedValue::Borrowed(Value { kind: Kind::Text(text), .. }) => Ok(text),
            ResolvedValue::Borrowed(other) => {
                Err(Error::custom(format_args!("expected a text in quotes, found {}", found(&other.kind))))
            }
        }
    }

    /// Sets the position of an error about the value, and adds the levels from which the value was made. An error with
    /// a position is not changed.
    fn blame(&self, error: Error, span: &Span) -> Error {
        if error.located { error } else { self.explain(error.at(span)) }
    }

    /// Adds the levels from which the value was made to an error.
    fn explain(&self, mut error: Error) -> Error {
        for (name, level) in &self.factors {
            let message = format!("factor `{name}` has the level `{}`", placeholder::written(level));
            let diagnostic = *error.diagnostic;
            *error.diagnostic = if level.span.is_empty() {
                diagnostic.note(format!("{message}, which was set for this plan"))
            } else {
                diagnostic.note_at(level.span.clone(), format!("{message} here"))
            };
        }
        error
    }
}

/// The name of the variant that a table's [`TAG`] gives.
struct Tag<'r> {
    name: String,
    resolved: Resolved<'r>,
    span: &'r Span,
}

/// A value during deserialisation.
#[derive(Clone, Copy)]
struct ValueNode<'r> {
    reader: &'r Reader<'r>,
    value: &'r Value,
    /// The position of the value. If a level replaced a placeholder, the position of the placeholder.
    span: &'r Span,
    /// Known keys in addition to those of the target type.
    also: &'static [&'static str],
    /// Whether [`TAG`] was already consumed.
    tagged: bool,
}

impl<'r> ValueNode<'r> {
    fn of(reader: &'r Reader<'r>, value: &'r Value) -> Self {
        Self { reader, value, span: &value.span, also: &[], tagged: false }
    }

    /// Sets the position of an error that occurred after the value was read.
    fn place(self, error: Error) -> Error {
        match self.reader.resolve(self.value) {
            Ok(resolved) => resolved.blame(error, self.span),
            Err(_) => error.at(self.span),
        }
    }

    /// The variant's name and position, if this is a table with a [`TAG`].
    fn tag(&self, table: &'r Table) -> Result<Option<Tag<'r>>, Error> {
        let Some(tag) = table.get(TAG).filter(|_| !self.tagged) else { return Ok(None) };
        let resolved = self.reader.resolve(tag)?;
        match resolved.name() {
            Ok(name) => Ok(Some(Tag { name: name.to_owned(), resolved, span: &tag.span })),
            Err(wrong) => Err(resolved.blame(wrong, &tag.span)),
        }
    }

    fn visit_table<V: Visitor<'r>>(
        self,
        table: &'r Table,
        fields: Option<&'static [&'static str]>,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Some(fields) = fields {
            let unknown = |entry: &&Entry| {
                !(fields.contains(&entry.key.as_str())
                    || self.also.contains(&entry.key.as_str())
                    || self.tagged && entry.key == TAG)
            };
            for entry in table.entries.iter().filter(unknown).take(Diagnostics::SHOWN) {
                let known = fields.iter().chain(self.also).copied();
                self.reader.report(
                    Diagnostic::error(entry.key_span.clone(), format!("unknown key `{}`", entry.key))
                        .among(&entry.key, known),
                );
            }
        }
        let entries = Entries { node: self, rest: table.entries.iter(), fields, value: None };
        visitor.visit_map(entries).map_err(|error| error.at(self.span))
    }
}

impl<'r> de::Deserializer<'r> for ValueNode<'r> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Error> {
        let resolved = self.reader.resolve(self.value)?;
        let kind = match &resolved.value {
            ResolvedValue::Text(text) => {
                return visitor.visit_str(text).map_err(|error| resolved.blame(error, self.span));
            }
            ResolvedValue::Borrowed(value) => &value.kind,
        };
        match kind {
            Kind::Text(text) => visitor.visit_str(text),
            Kind::Integer(number) => visitor.visit_i64(*number),
            Kind::Float(number) => visitor.visit_f64(*number),
            Kind::Switch(on) => visitor.visit_bool(*on),
            Kind::Array(elements) => {
                let mut left = Elements { node: self, rest: elements.iter() };
                let read = visitor.visit_seq(&mut left);
                match (left.rest.len(), read) {
                    (0, read) | (_, read @ Err(_)) => read,
                    (more, Ok(_)) => {
                        let wanted = elements.len() - more;
                        Err(Error::custom(format_args!("expected {wanted} values, found {}", elements.len())))
                    }
                }
            }
            Kind::Table(table) => match self.tag(table)? {
                Some(tag) => visitor.visit_map(Tagged { node: self, variant: Some(tag.name) }),
                None => return self.visit_table(table, None, visitor),
            },
        }
        .map_err(|error| resolved.blame(error, self.span))
    }

    fn deserialize_option<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'r>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self).map_err(|error| error.at(self.span))
    }

    fn deserialize_map<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Error> {
        // A map may have any key, even [`TAG`].
        match self.value.table() {
            Some(table) => self.visit_table(table, None, visitor),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'r>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value.table() {
            Some(table) => self.visit_table(table, Some(fields), visitor),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'r>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let unknown = |what: &str, name: &str, span: &Span| {
            Error::new(
                Diagnostic::error(span.clone(), format!("unknown {what} `{name}`"))
                    .among(name, variants.iter().copied()),
            )
        };
        let Some(table) = self.value.table() else {
            let resolved = self.reader.resolve(self.value)?;
            let read = resolved.name().and_then(|name| {
                if !variants.contains(&name) {
                    return Err(unknown("value", name, self.span));
                }
                visitor.visit_enum(Variant { name: name.to_owned(), content: None, span: self.span })
            });
            return read.map_err(|mut error| {
                let expected = error.diagnostic.expected.take();
                error.diagnostic.expected = expected.or_else(|| list(variants));
                resolved.blame(error, self.span)
            });
        };
        if let Some(tag) = self.tag(table)? {
            if !variants.contains(&tag.name.as_str()) {
                return Err(tag.resolved.blame(unknown(TAG, &tag.name, tag.span), tag.span));
            }
            let content = Some(ValueNode { tagged: true, ..self });
            let read = visitor.visit_enum(Variant { name: tag.name, content, span: self.span });
            return read.map_err(|error| tag.resolved.explain(error));
        }
        let [only] = table.entries.as_slice() else {
            let none: Error = Error::custom(format_args!("the key `{TAG}` is missing"));
            let mut none = none.at(self.span);
            none.diagnostic.expected = list(variants).map(|names| format!("`{TAG}` to be {names}"));
            return Err(none);
        };
        if !variants.contains(&only.key.as_str()) {
            let mut error = unknown("key", &only.key, &only.key_span).at(&only.key_span);
            if error.diagnostic.help.is_none() {
                error.diagnostic.expected =
                    list(variants).map(|names| format!("{names}, or `{TAG}` to be one of these"));
            }
            return Err(error);
        }
        let content = Some(ValueNode::of(self.reader, &only.value));
        visitor.visit_enum(Variant { name: only.key.clone(), content, span: self.span })
    }

    serde::forward_to_deserialize_any! {
        <V: Visitor<'r>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string
        bytes byte_buf unit unit_struct seq tuple tuple_struct identifier ignored_any
    }
}

impl<'r> IntoDeserializer<'r, Error> for ValueNode<'r> {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

/// The elements of a list.
struct Elements<'r> {
    node: ValueNode<'r>,
    rest: std::slice::Iter<'r, Value>,
}

impl<'r> de::SeqAccess<'r> for &mut Elements<'r> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'r>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some(value) = self.rest.next() else { return Ok(None) };
        let node = ValueNode::of(self.node.reader, value);
        seed.deserialize(node).map(Some).map_err(|error| node.place(error))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// The entries of a table without those that were reported as unknown.
struct Entries<'r> {
    node: ValueNode<'r>,
    rest: std::slice::Iter<'r, Entry>,
    fields: Option<&'static [&'static str]>,
    value: Option<&'r Value>,
}

impl<'r> de::MapAccess<'r> for Entries<'r> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'r>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let (node, fields) = (self.node, self.fields);
        let known = |entry: &&Entry| {
            !(node.tagged && entry.key == TAG)
                && fields.is_none_or(|fields| fields.contains(&entry.key.as_str()))
        };
        let Some(entry) = self.rest.by_ref().find(known) else { return Ok(None) };
        self.value = Some(&entry.value);
        seed.deserialize(entry.key.as_str().into_deserializer())
            .map(Some)
            .map_err(|error: Error| error.at(&entry.key_span))
    }

    fn next_value_seed<S: DeserializeSeed<'r>>(&mut self, seed: S) -> Result<S::Value, Error> {
        match self.value.take() {
            Some(value) => {
                let node = ValueNode::of(self.node.reader, value);
                seed.deserialize(node).map_err(|error| node.place(error))
            }
            None => Err(Error::custom("a value was asked for before its key")),
        }
    }
}

/// Presents `{ kind = "x", rest }` to serde as `{ x = { rest } }`.
struct Tagged<'r> {
    node: ValueNode<'r>,
    variant: Option<String>,
}

impl<'r> de::MapAccess<'r> for Tagged<'r> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'r>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.variant.take().map(|name| seed.deserialize(name.into_deserializer())).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'r>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(ValueNode { tagged: true, ..self.node })
    }
}

/// An enum's variant: its name, and its content if there is any.
struct Variant<'r> {
    name: String,
    content: Option<ValueNode<'r>>,
    span: &'r Span,
}

impl<'r> de::EnumAccess<'r> for Variant<'r> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'r>>(self, seed: S) -> Result<(S::Value, Self), Error> {
        let variant = seed.deserialize(self.name.as_str().into_deserializer())?;
        Ok((variant, self))
    }
}

impl<'r> Variant<'r> {
    fn content(&self) -> Result<ValueNode<'r>, Error> {
        self.content.ok_or_else(|| {
            let name = &self.name;
            let alone: Error = Error::custom(format_args!("`{name}` needs settings"));
            let mut alone = alone.at(self.span);
            alone.diagnostic.help = Some(format!("write {{ {TAG} = \"{name}\", … }}"));
            alone
        })
    }
}

impl<'r> de::VariantAccess<'r> for Variant<'r> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.content {
            Some(ValueNode {
                value: Value { kind: Kind::Table(table), .. }, reader, tagged: true, ..
            }) => {
                for entry in table.entries.iter().filter(|entry| entry.key != TAG) {
                    reader.report(Diagnostic::error(
                        entry.key_span.clone(),
                        format!("unknown key `{}`: `{}` has no settings", entry.key, self.name),
                    ));
                }
                Ok(())
            }
            Some(_) => Err(Error::custom(format_args!("`{}` has no settings", self.name)).at(self.span)),
            None => Ok(()),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'r>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self.content()?)
    }

    fn tuple_variant<V: Visitor<'r>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        de::Deserializer::deserialize_any(self.content()?, visitor)
    }

    fn struct_variant<V: Visitor<'r>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        de::Deserializer::deserialize_struct(self.content()?, "", fields, visitor)
    }
}
