//! Factors, their levels, and points.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Amount;
use crate::response::amount::{self, TypedAmount};

/// A level of a factor.
///
/// In a store it is a text: `10 s`, `1.5`, `tcp`, `true`, `"0200"`. If a text of the file looks like a number without a
/// unit or like a truth value, the store has it in double quotes, so that its type is not lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    text: String,
    looks_like: LevelValue,
    is_quoted: bool,
}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Level {
    fn cmp(&self, other: &Self) -> Ordering {
        other.is_quoted.cmp(&self.is_quoted).then_with(|| self.text.cmp(&other.text))
    }
}

impl fmt::Display for Level {
    /// Writes the level without the double quotes of a text that looks like a number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Level {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.stored())
    }
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(&Cow::<str>::deserialize(deserializer)?))
    }
}

/// A varied quantity: a name and its levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    /// The name between `${` and `}`.
    pub name: String,
    /// The distinct levels, in the order of the file. A factor with one level is a constant.
    pub levels: Vec<Level>,
}

/// One combination of levels: every factor of the experiment with its level at this point. An experiment may have a
/// million runs: clones share the memory of the levels, which is a slice in the order of the factors' names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point(Arc<[(String, Level)]>);

impl Point {
    /// The level of `factor`, if the experiment has the factor.
    pub fn level(&self, factor: &str) -> Option<&Level> {
        let place = self.0.binary_search_by(|(name, _)| name.as_str().cmp(factor)).ok()?;
        Some(&self.0[place].1)
    }

    /// The factors with their levels, in the order of the factors' names.
    pub fn levels(&self) -> &[(String, Level)] {
        &self.0
    }

    /// Sets the level of `factor`.
    pub fn set(&mut self, factor: impl Into<String>, level: Level) {
        let set = (factor.into(), level);
        *self = self.0.iter().cloned().chain([set]).collect();
    }

    /// The point reduced to the factors for which `keep` is true.
    #[must_use]
    pub fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        if self.0.iter().all(|(factor, _)| keep(factor)) {
            return self.clone();
        }
        Self(self.0.iter().filter(|(factor, _)| keep(factor)).cloned().collect())
    }
}

impl From<BTreeMap<String, Level>> for Point {
    fn from(levels: BTreeMap<String, Level>) -> Self {
        Self(levels.into_iter().collect())
    }
}

impl FromIterator<(String, Level)> for Point {
    fn from_iter<I: IntoIterator<Item = (String, Level)>>(levels: I) -> Self {
        // Of several levels of a factor, the last one counts.
        BTreeMap::from_iter(levels).into()
    }
}

impl Serialize for Point {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(factor, level)| (factor, level)))
    }
}

impl<'de> Deserialize<'de> for Point {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(BTreeMap::<String, Level>::deserialize(deserializer)?.into())
    }
}

impl fmt::Display for Point {
    /// `down_for = 10 s, transport = tcp`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (factor, level)) in self.0.iter().enumerate() {
            write!(f, "{}{factor} = {level}", if n > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// The type of a level, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelValue {
    /// `true` or `false`.
    Switch(bool),
    /// A whole number without a unit, if it fits 64 bits.
    Integer(i64),
    /// Any other number, with a unit if it has one.
    Amount(Amount),
    /// Any other text.
    Text,
}

impl Level {
    /// The level with this text in a store.
    pub fn new(stored: &str) -> Self {
        match in_quotes(stored) {
            Some(text) => Self { is_quoted: true, ..Self::unquoted(text) },
            None => Self::unquoted(stored),
        }
    }

    /// The level for a text of the file. A number with a unit is an amount. A text that looks like a number
    /// without a unit, or like a truth value, stays a text.
    pub fn of_text(text: &str) -> Self {
        let level = Self::unquoted(text);
        let is_quoted = match level.looks_like {
            LevelValue::Switch(_) | LevelValue::Integer(_) => true,
            LevelValue::Amount(amount) => amount.unit().is_none(),
            LevelValue::Text => in_quotes(text).is_some(),
        };
        Self { is_quoted, ..level }
    }

    fn unquoted(text: &str) -> Self {
        let looks_like = match (text.parse(), text.parse(), text.parse()) {
            (Ok(on), ..) => LevelValue::Switch(on),
            (_, Ok(number), _) => LevelValue::Integer(number),
            (.., Ok(amount)) => LevelValue::Amount(amount),
            _ => LevelValue::Text,
        };
        Self { text: text.to_owned(), looks_like, is_quoted: false }
    }

    /// The text in a store.
    pub(crate) fn stored(&self) -> Cow<'_, str> {
        if self.is_quoted { format!("\"{}\"", self.text).into() } else { self.text.as_str().into() }
    }

    /// The level as it is shown, without the quotes of a text that looks like a number.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The type and value of the level.
    pub fn value(&self) -> LevelValue {
        if self.is_quoted { LevelValue::Text } else { self.looks_like }
    }

    /// The type and value that the text alone suggests, whether it is in quotes or not.
    pub fn looks_like(&self) -> LevelValue {
        self.looks_like
    }

    /// Whether both levels are equivalent: equal texts, or equal amounts such as `500 ms` and `0.5 s`. A number is
    /// equivalent to a text that looks like it, so that a claim may name a level in quotes. Two texts must be equal.
    pub fn means(&self, other: &Self) -> bool {
        let amounts = || self.looks_like.amount().zip(other.looks_like.amount());
        self.text == other.text
            || !(self.is_quoted && other.is_quoted) && amounts().is_some_and(|(a, b)| a.same(&b))
    }

    /// The level as a number in base units (s, bit, bit/s, 1), if it is a number.
    pub fn number(&self) -> Option<f64> {
        self.amount().map(|amount| amount.base())
    }

    /// The level as an amount, if it is a number.
    pub fn amount(&self) -> Option<Amount> {
        self.value().amount()
    }
}

/// The unit of a column with levels of one factor as numbers: `down_for [s]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelUnit(Option<&'static str>);

impl LevelUnit {
    /// The unit of the smallest of `levels`. `None` if there are no levels, or if some are not amounts with convertible
    /// units. The column then contains texts.
    pub fn common<'a>(levels: impl Iterator<Item = &'a Level> + Clone) -> Option<Self> {
        let base = |level: &Level| level.number().unwrap_or(f64::INFINITY);
        let smallest = levels.clone().min_by(|a, b| f64::total_cmp(&base(a), &base(b)))?;
        let unit = Self(smallest.amount()?.unit());
        levels.map(|level| unit.number(level)).all(|number| number.is_some()).then_some(unit)
    }

    /// The unit's name; `None` for numbers without a unit.
    pub const fn name(self) -> Option<&'static str> {
        self.0
    }

    /// The level as a number in this unit; `None` if the level is not a number or its unit does not convert.
    pub fn number(self, level: &Level) -> Option<f64> {
        let amount = level.amount()?;
        match (self.0, amount.unit()) {
            (None, None) => Some(amount.value()),
            (Some(unit), Some(_)) => amount.in_unit(unit).ok(),
            _ => None,
        }
    }
}

/// The text between double quotes; `None` if there are no quotes.
fn in_quotes(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

impl LevelValue {
    /// The number with its unit; `None` for a text or a truth value.
    pub fn amount(self) -> Option<Amount> {
        match self {
            Self::Integer(number) => Some(Amount::bare(number as f64)),
            Self::Amount(amount) => Some(amount),
            Self::Switch(_) | Self::Text => None,
        }
    }

    /// Whether both have the same type: two texts, two truth values, two numbers without a unit, or two amounts with
    /// convertible units.
    pub(crate) fn has_type_of(self, other: Self) -> bool {
        match (self, other) {
            (Self::Switch(_), Self::Switch(_)) | (Self::Text, Self::Text) => true,
            _ => match (self.amount().map(|own| own.unit()), other.amount().map(|other| other.unit())) {
                (Some(None), Some(None)) => true,
                (Some(Some(own)), Some(Some(other))) => amount::factor(own, other).is_ok(),
                _ => false,
            },
        }
    }

    /// The type in words, for an error message.
    pub(crate) fn type_in_words(self) -> String {
        match (self, self.amount().and_then(|amount| amount.unit())) {
            (Self::Switch(_), _) => "true or false".to_owned(),
            (Self::Text, _) => "a text".to_owned(),
            (_, None) => "a number without a unit".to_owned(),
            (_, Some(unit)) => format!("a number in {unit}"),
        }
    }
}

/// A level in JSON documents: `true`, `5`, `{"value": 10, "unit": "s"}` or `"tcp"`.
pub struct TypedLevel<'a>(pub &'a Level);

impl Serialize for TypedLevel<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.value() {
            LevelValue::Switch(on) => serializer.serialize_bool(on),
            LevelValue::Integer(number) => serializer.serialize_i64(number),
            LevelValue::Text => serializer.serialize_str(&self.0.text),
            LevelValue::Amount(amount) => TypedAmount(&amount).serialize(serializer),
        }
    }
}

/// Serialises a point with each level as a [`TypedLevel`].
pub(crate) fn typed_point<S: Serializer>(point: &Point, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(point.levels().iter().map(|(factor, level)| (factor, TypedLevel(level))))
}

/// Serialises levels, by the names of their factors, as [`TypedLevel`]s.
pub(crate) fn typed_map<S: Serializer>(
    levels: &BTreeMap<String, Level>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(levels.iter().map(|(factor, level)| (factor, TypedLevel(level))))
}

/// Serialises a list of levels as [`TypedLevel`]s.
pub(crate) fn typed_list<S: Serializer>(levels: &[Level], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(levels.iter().map(TypedLevel))
}

/// Serialises the two levels of a comparison as [`TypedLevel`]s.
pub(crate) fn typed_pair<S: Serializer>(
    levels: &Option<[Level; 2]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    levels.as_ref().map(|pair| pair.each_ref().map(TypedLevel)).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_typed_in_json() {
        let json = |text: &str| serde_json::to_string(&TypedLevel(&Level::new(text))).unwrap();
        for (text, expected) in [
            ("true", "true"),
            ("5", "5"),
            ("1.0", "1"),
            ("-0.5", "-0.5"),
            ("1e-5", "0.00001"),
            ("9007199254740993", "9007199254740993"),
            ("10 s", r#"{"value":10,"unit":"s"}"#),
            ("2.5 %", r#"{"value":2.5,"unit":"%"}"#),
            ("tcp", r#""tcp""#),
            ("5 apples", r#""5 apples""#),
            ("inf", r#""inf""#),
            (r#""0200""#, r#""0200""#),
        ] {
            assert_eq!(json(text), expected, "{text}");
        }
    }

    #[test]
    fn levels_of_one_kind_are_numbers_in_the_unit_of_the_smallest() {
        let levels = |texts: &[&str]| texts.iter().map(|text| Level::new(text)).collect::<Vec<_>>();
        for (texts, unit, numbers) in [
            (&["1 s", "500 ms"][..], Some(Some("ms")), &[1000.0, 500.0][..]),
            (&["5", "1.5"], Some(None), &[5.0, 1.5]),
            (&["5", "1 s"], None, &[]),
            (&["1 s", "1 B"], None, &[]),
            (&["\"5\"", "1"], None, &[]),
            (&["tcp", "sctp"], None, &[]),
            (&[], None, &[]),
        ] {
            let levels = levels(texts);
            let found = LevelUnit::common(levels.iter());
            assert_eq!(found.map(LevelUnit::name), unit, "{texts:?}");
            let found_numbers =
                found.map_or_else(Vec::new, |unit| levels.iter().filter_map(|l| unit.number(l)).collect());
            assert_eq!(found_numbers, numbers, "{texts:?}");
        }
    }

    #[test]
    fn a_text_that_looks_like_a_number_or_a_truth_value_stays_a_text() {
        for text in ["100", "0200", "-0.50", "1e3", "true", "false", "\"5\"", "tcp", "inf", ""] {
            let level = Level::of_text(text);
            assert_eq!(level.value(), LevelValue::Text);
            assert_eq!((level.text(), level.to_string().as_str(), level.number()), (text, text, None));
            let kept = serde_json::to_string(&level).unwrap();
            assert_eq!(serde_json::from_str::<Level>(&kept).unwrap(), level);
        }
        assert_eq!(Level::of_text("10 ms").number(), Some(0.01));
        assert_eq!(Level::of_text("tcp"), Level::new("tcp"));
    }

    #[test]
    fn texts_are_equal_only_as_texts() {
        let [padded, text] = ["0200", "200"].map(Level::of_text);
        let number = Level::new("200");
        assert!(!padded.means(&text));
        assert!(text.means(&number) && number.means(&padded), "a claim may name a number in quotes");
    }

    #[test]
    fn types_are_one_only_if_their_units_convert() {
        let one = |a: &str, b: &str| {
            let [a, b] = [a, b].map(Level::new);
            a.value().has_type_of(b.value())
        };
        for (a, b) in [("1", "1.5"), ("10 s", "5 ms"), ("tcp", "sctp"), ("true", "false"), ("1 KB", "8 bit")]
        {
            assert!(one(a, b), "{a}, {b}");
        }
        for (a, b) in [("1", "1 s"), ("10 s", "5 KB"), ("tcp", "5"), ("true", "1"), ("true", "tcp")] {
            assert!(!one(a, b) && !one(b, a), "{a}, {b}");
        }
    }
}
