//! Settings that are described once, by [`settings!`](crate::settings) and [`choices!`](crate::choices).
//!
//! One table declares the fields of a structure, their form in files (serde), their JSON schema, and rows of
//! [`Setting`]. The rows give the flags of a command line, the keys of a file of settings, and the settings that a
//! document lists as set.

mod tables;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::marker::PhantomData;
use std::num::{NonZeroU8, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;

use crate::{Dscp, Duration, Fraction, Prefix, Rate, Size};

/// The description of a setting that can be given as words.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its key in files: `session_expires`.
    pub key: &'static str,
    /// Its flag without dashes. Empty if the flag is the key with `-` in place of `_`.
    pub flag: &'static str,
    /// Its flag of one letter, if it has one.
    pub short: Option<char>,
    /// Whether it is a positional argument of a command line, without a flag.
    pub is_positional: bool,
    /// The description, in full sentences.
    pub about: &'static str,
    /// Its heading in a help text, and its table in a file of settings.
    pub heading: &'static str,
    /// The name of its value in a help text: `TIME`. If empty, the name comes from its type.
    pub value_name: &'static str,
    /// Whether a word may contain several values, separated by commas.
    pub is_list: bool,
    /// The value of the setting if its flag is given without a value. Empty if the flag needs a value.
    pub flag_value: &'static str,
    /// The name of its group. Only one setting of a group can be given. Empty if it has no group.
    pub group: &'static str,
    /// Keys of settings that cannot be given together with it.
    pub excludes: &'static [&'static str],
    /// Keys or groups of settings that must be given with it; one setting of a group suffices.
    pub requires: &'static [&'static str],
    /// Whether it is saved to and read from a file of settings.
    pub is_saved: bool,
    /// The form of its values.
    pub form: SettingForm,
}

impl Setting {
    /// The default values of the fields of a row.
    pub const USUAL: Self = Self {
        key: "",
        flag: "",
        short: None,
        is_positional: false,
        about: "",
        heading: "",
        value_name: "",
        is_list: false,
        flag_value: "",
        group: "",
        excludes: &[],
        requires: &[],
        is_saved: true,
        form: SettingForm { count: WordCount::One, value_name: "", syntax: "", choices: Vec::new() },
    };

    /// The flag without dashes.
    pub fn flag(&self) -> String {
        if self.flag.is_empty() { self.key.replace('_', "-") } else { self.flag.to_owned() }
    }
}

/// The form of the values of a setting.
#[derive(Clone, Debug)]
pub struct SettingForm {
    /// The number of words that it takes.
    pub count: WordCount,
    /// The usual name of a value: `TIME`.
    pub value_name: &'static str,
    /// The syntax of a value, if the value's name does not explain it: "`30s`, or drawn: `exponential:30s`".
    pub syntax: &'static str,
    /// All values with their descriptions, if they have names.
    pub choices: Vec<(&'static str, &'static str)>,
}

/// The number of words of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordCount {
    /// A switch: `true` or `false` in a file, and a flag without a value.
    Switch,
    /// One word.
    One,
    /// Any number of words, each with the flag.
    Many,
}

/// A word is not a value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}`: {why}")]
pub struct SettingWordError {
    /// The word.
    pub word: String,
    /// What is wrong with the word, or what is expected.
    pub why: String,
}

/// A value that is one word of a command line.
pub trait SettingValue: Sized {
    /// The usual name of such a value in a help text.
    const VALUE_NAME: &'static str;
    /// The syntax of a value, if its name does not explain it.
    const SYNTAX: &'static str = "";

    /// All values with their descriptions, if they have names.
    fn choices() -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    /// Reads a word.
    ///
    /// # Errors
    /// What is wrong, or what is expected.
    fn read(word: &str) -> Result<Self, String>;

    /// The value as a word, which [`read`](Self::read) accepts.
    fn word(&self) -> String;
}

/// A field of a structure of settings.
pub trait SettingField: Sized {
    /// The form of its values.
    fn form() -> SettingForm;

    /// Reads its words.
    ///
    /// # Errors
    /// The first word that is not a value.
    fn read(words: &[&str]) -> Result<Self, SettingWordError>;

    /// Its words. Empty if it has no value.
    fn words(&self) -> Vec<String>;
}

/// A form in which a field of type `T` is given as words instead of the form of `T` itself: `least_s: f64 as Seconds`.
pub trait SettingForms<T> {
    /// The form of its values.
    fn form() -> SettingForm;

    /// Reads its words.
    ///
    /// # Errors
    /// The first word that is not a value.
    fn read(words: &[&str]) -> Result<T, SettingWordError>;

    /// Its words. Empty if it has no value.
    fn words(value: &T) -> Vec<String>;
}

/// The form of the type itself.
#[derive(Clone, Copy, Debug)]
pub struct OwnForm;

impl<T: SettingField> SettingForms<T> for OwnForm {
    fn form() -> SettingForm {
        T::form()
    }

    fn read(words: &[&str]) -> Result<T, SettingWordError> {
        T::read(words)
    }

    fn words(value: &T) -> Vec<String> {
        value.words()
    }
}

/// Seconds as a time: `2 min`.
#[derive(Clone, Copy, Debug)]
pub struct Seconds;

impl SettingForms<f64> for Seconds {
    fn form() -> SettingForm {
        <Duration as SettingField>::form()
    }

    fn read(words: &[&str]) -> Result<f64, SettingWordError> {
        <Duration as SettingField>::read(words).map(Duration::as_secs_f64)
    }

    fn words(value: &f64) -> Vec<String> {
        Duration::from_secs_f64(*value).words()
    }
}

/// A share, 0 to 1, in percent: `25 %`.
#[derive(Clone, Copy, Debug)]
pub struct Share;

impl SettingForms<f64> for Share {
    fn form() -> SettingForm {
        <Fraction as SettingField>::form()
    }

    fn read(words: &[&str]) -> Result<f64, SettingWordError> {
        <Fraction as SettingField>::read(words).map(Fraction::get)
    }

    fn words(value: &f64) -> Vec<String> {
        Fraction::new(*value).map_or_else(|_| vec![value.to_string()], |share| share.words())
    }
}

/// A whole number from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug)]
pub struct Within<const LEAST: u64, const MOST: u64>;

/// A whole number of at least 1.
pub type AtLeastOne = Within<1, { u64::MAX }>;

impl<const LEAST: u64, const MOST: u64> Within<LEAST, MOST> {
    fn check(words: &[&str]) -> Result<(), SettingWordError> {
        let is_outside =
            |word: &&&str| !word.parse().is_ok_and(|number: u64| (LEAST..=MOST).contains(&number));
        let Some(word) = words.iter().find(is_outside) else { return Ok(()) };
        let why = match MOST {
            u64::MAX => format!("expected a whole number of at least {LEAST}"),
            _ => format!("expected a whole number from {LEAST} to {MOST}"),
        };
        Err(SettingWordError { word: (*word).to_owned(), why })
    }
}

impl<T: SettingField, const LEAST: u64, const MOST: u64> SettingForms<T> for Within<LEAST, MOST> {
    fn form() -> SettingForm {
        T::form()
    }

    fn read(words: &[&str]) -> Result<T, SettingWordError> {
        Self::check(words)?;
        T::read(words)
    }

    fn words(value: &T) -> Vec<String> {
        value.words()
    }
}

/// A value above zero, in the form `F`.
#[derive(Clone, Copy, Debug)]
pub struct AboveZero<F = OwnForm>(PhantomData<F>);

/// A quantity that may be zero.
pub trait ZeroableQuantity {
    /// Whether it is above zero. `None` counts as above zero, so that a setting without a value is not refused.
    fn is_above_zero(&self) -> bool;
}

impl<T: ZeroableQuantity> ZeroableQuantity for Option<T> {
    fn is_above_zero(&self) -> bool {
        self.as_ref().is_none_or(T::is_above_zero)
    }
}

impl ZeroableQuantity for Duration {
    fn is_above_zero(&self) -> bool {
        !self.is_zero()
    }
}

impl ZeroableQuantity for Size {
    fn is_above_zero(&self) -> bool {
        self.bytes() > 0
    }
}

impl ZeroableQuantity for Rate {
    fn is_above_zero(&self) -> bool {
        self.bits_per_s() > 0
    }
}

impl ZeroableQuantity for f64 {
    fn is_above_zero(&self) -> bool {
        *self > 0.0
    }
}

impl<T: ZeroableQuantity, F: SettingForms<T>> SettingForms<T> for AboveZero<F> {
    fn form() -> SettingForm {
        F::form()
    }

    fn read(words: &[&str]) -> Result<T, SettingWordError> {
        let value = F::read(words)?;
        if !value.is_above_zero() {
            let word = words.last().copied().unwrap_or_default().to_owned();
            return Err(SettingWordError { word, why: "it must be above zero".to_owned() });
        }
        Ok(value)
    }

    fn words(value: &T) -> Vec<String> {
        F::words(value)
    }
}

/// A structure whose settings can be given as words.
pub trait SettingsTable {
    /// The descriptions, in order.
    fn rows() -> Vec<Setting>;

    /// Sets the setting `key` to the value of these words. If the table has no row for the key, nothing changes.
    ///
    /// # Errors
    /// The first word that is not a value of the setting.
    fn set(&mut self, key: &str, words: &[&str]) -> Result<(), SettingWordError>;

    /// The words of the setting `key`. Empty if it has no value, or no row.
    fn words(&self, key: &str) -> Vec<String>;

    /// The keys whose values differ from those of `other`, in order.
    fn differences(&self, other: &Self) -> Vec<&'static str>;
}

/// Selects a part of a table's settings, with defaults of its own.
pub trait TablePart<T> {
    /// Whether the part contains a setting.
    fn has(key: &str) -> bool;

    /// The defaults.
    fn usual() -> T;
}

/// A table of which only a part can be given as words. The other settings keep their defaults.
#[derive(Clone, Debug)]
pub struct PartOf<T, P> {
    /// All settings.
    pub table: T,
    part: PhantomData<P>,
}

impl<T, P: TablePart<T>> Default for PartOf<T, P> {
    fn default() -> Self {
        Self { table: P::usual(), part: PhantomData }
    }
}

impl<T: SettingsTable, P: TablePart<T>> SettingsTable for PartOf<T, P> {
    fn rows() -> Vec<Setting> {
        T::rows().into_iter().filter(|row| P::has(row.key)).collect()
    }

    fn set(&mut self, key: &str, words: &[&str]) -> Result<(), SettingWordError> {
        if P::has(key) { self.table.set(key, words) } else { Ok(()) }
    }

    fn words(&self, key: &str) -> Vec<String> {
        if P::has(key) { self.table.words(key) } else { Vec::new() }
    }

    fn differences(&self, other: &Self) -> Vec<&'static str> {
        self.table.differences(&other.table).into_iter().filter(|key| P::has(key)).collect()
    }
}

impl<T: SettingValue> SettingField for Option<T> {
    fn form() -> SettingForm {
        T::form()
    }

    fn read(words: &[&str]) -> Result<Self, SettingWordError> {
        words.last().map(|word| read(word)).transpose()
    }

    fn words(&self) -> Vec<String> {
        self.iter().map(SettingValue::word).collect()
    }
}

impl<T: SettingValue> SettingField for Vec<T> {
    fn form() -> SettingForm {
        SettingForm { count: WordCount::Many, ..<T as SettingField>::form() }
    }

    fn read(words: &[&str]) -> Result<Self, SettingWordError> {
        words.iter().map(|word| read(word)).collect()
    }

    fn words(&self) -> Vec<String> {
        self.iter().map(SettingValue::word).collect()
    }
}

impl SettingField for bool {
    fn form() -> SettingForm {
        SettingForm { count: WordCount::Switch, value_name: "", syntax: "", choices: Vec::new() }
    }

    fn read(words: &[&str]) -> Result<Self, SettingWordError> {
        // A flag has no word.
        let Some(word) = words.last() else { return Ok(true) };
        word.parse().map_err(|_| SettingWordError {
            word: (*word).to_owned(),
            why: "expected true or false".to_owned(),
        })
    }

    fn words(&self) -> Vec<String> {
        vec![self.to_string()]
    }
}

impl<T: SettingValue> SettingField for T {
    fn form() -> SettingForm {
        let value_name = T::VALUE_NAME;
        SettingForm { count: WordCount::One, value_name, syntax: T::SYNTAX, choices: T::choices() }
    }

    fn read(words: &[&str]) -> Result<Self, SettingWordError> {
        read(words.last().copied().unwrap_or_default())
    }

    fn words(&self) -> Vec<String> {
        vec![self.word()]
    }
}

fn read<T: SettingValue>(word: &str) -> Result<T, SettingWordError> {
    SettingValue::read(word).map_err(|why| SettingWordError { word: word.to_owned(), why })
}

/// Implements `SettingValue` for types whose word is their text (`FromStr` and `Display`). Each type has the usual name
/// of its value, and may have a syntax.
#[macro_export]
macro_rules! setting_texts {
    ($($type:ty = $name:literal $(, $syntax:literal)?;)+) => {$(
        impl $crate::setting::SettingValue for $type {
            const VALUE_NAME: &'static str = $name;
            $(const SYNTAX: &'static str = $syntax;)?

            fn read(word: &str) -> Result<Self, String> {
                word.parse().map_err(|error| format!("{error}"))
            }

            fn word(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

setting_texts! {
    String = "TEXT";
    Duration = "TIME";
    Size = "SIZE";
    Fraction = "SHARE";
    Rate = "RATE";
    Dscp = "DSCP";
    Prefix = "PREFIX";
}

macro_rules! numbers {
    ($($type:ident)+; $wrong:expr) => {$(
        impl SettingValue for $type {
            const VALUE_NAME: &'static str = "N";

            fn read(word: &str) -> Result<Self, String> {
                word.parse().map_err(|_| $wrong)
            }

            fn word(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

numbers!(u8 u16 u32 u64 usize; format!("expected a whole number up to {}", Self::MAX));
numbers!(NonZeroU8 NonZeroUsize; "expected a whole number of at least 1".to_owned());

impl SettingValue for f64 {
    const VALUE_NAME: &'static str = "N";

    fn read(word: &str) -> Result<Self, String> {
        let number = word.parse().ok().filter(|number: &Self| number.is_finite());
        number.ok_or_else(|| "expected a number".to_owned())
    }

    fn word(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for PathBuf {
    const VALUE_NAME: &'static str = "FILE";

    fn read(word: &str) -> Result<Self, String> {
        Ok(word.into())
    }

    fn word(&self) -> String {
        self.display().to_string()
    }
}

/// A share for each name: `call=70%,busy=30%`.
impl<K: Ord + FromStr<Err: Display> + Display> SettingField for BTreeMap<K, Fraction> {
    fn form() -> SettingForm {
        SettingForm { count: WordCount::One, value_name: "NAME=SHARE,..", syntax: "", choices: Vec::new() }
    }

    fn read(words: &[&str]) -> Result<Self, SettingWordError> {
        let Some(word) = words.last() else { return Ok(Self::new()) };
        let wrong = |why: String| SettingWordError { word: (*word).to_owned(), why };
        let mut all = Self::new();
        for part in word.split(',') {
            let form = || wrong(format!("`{part}` has not the form name=70%"));
            let (name, share) = part.split_once('=').ok_or_else(form)?;
            let key = name.trim().parse().map_err(|error: K::Err| wrong(error.to_string()))?;
            let share = share.trim().parse().map_err(|_| form())?;
            if all.insert(key, share).is_some() {
                return Err(wrong(format!("`{}` comes twice", name.trim())));
            }
        }
        Ok(all)
    }

    fn words(&self) -> Vec<String> {
        if self.is_empty() {
            return Vec::new();
        }
        let part = |(name, share): (&K, &Fraction)| format!("{name}={share}");
        vec![self.iter().map(part).collect::<Vec<_>>().join(",")]
    }
}
