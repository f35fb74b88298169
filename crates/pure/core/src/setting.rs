//! Settings that are described once, by [`settings!`](crate::settings) and [`choices!`](crate::choices).
//!
//! The table of a structure gives its fields, their form in files (serde), their JSON schema, and rows of [`Setting`]. From
//! the rows come flags of a command line, keys of a file of settings, and what a document says was set.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::str::FromStr;

use crate::{Dscp, Duration, Fraction, Prefix, Rate, Size};

/// A setting that can be given as words: its description.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its key in files: `session_expires`.
    pub key: &'static str,
    /// Its flag without dashes, if that is not the key with `-` for `_`.
    pub flag: &'static str,
    /// Its flag of one letter.
    pub short: Option<char>,
    /// Whether it is given by its place on a command line, without a flag.
    pub is_positional: bool,
    /// The description: sentences.
    pub about: &'static str,
    /// The heading under which it stands in a help text, and its table in a file of settings.
    pub heading: &'static str,
    /// The name of its value in a help text: `TIME`. Empty for the name of its type's value.
    pub value_name: &'static str,
    /// Whether a word may have several values, separated by commas.
    pub is_list: bool,
    /// The value that its flag alone stands for. Empty if the flag needs a value.
    pub flag_value: &'static str,
    /// The group of settings of which only one can be given. Empty for none.
    pub group: &'static str,
    /// Keys that cannot be given with it.
    pub excludes: &'static [&'static str],
    /// Keys, or groups, one of which it needs.
    pub requires: &'static [&'static str],
    /// Whether a file of settings has it.
    pub is_saved: bool,
    /// The form of its values.
    pub form: SettingForm,
}

impl Setting {
    /// The row from which a table takes what it does not give.
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
    /// How many words it takes.
    pub count: WordCount,
    /// The usual name of a value: `TIME`.
    pub value_name: &'static str,
    /// The ways to write a value, if its name does not say them: "`30s`, or drawn: `exponential:30s`".
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
    /// What is wrong with it, or what is expected.
    pub why: String,
}

/// A value that is one word of a command line.
pub trait SettingValue: Sized {
    /// The usual name of such a value in a help text.
    const VALUE_NAME: &'static str;
    /// The ways to write it, if the name does not say them.
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

    /// The word.
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

/// The form in which a field is given as words, if its type has another one, or none: `least_s: f64 as Seconds`.
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
        let word = words.last().copied().unwrap_or_default();
        let range = LEAST..=MOST;
        if word.parse().is_ok_and(|number: u64| !range.contains(&number)) {
            let most = if MOST == u64::MAX { String::new() } else { format!("={MOST}") };
            let why = format!("{word} is not in {LEAST}..{most}");
            return Err(SettingWordError { word: word.to_owned(), why });
        }
        Ok(())
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

/// A structure whose settings can be given as words.
pub trait SettingsTable {
    /// The descriptions, in order.
    fn rows() -> Vec<Setting>;

    /// Gives the setting `key` the value of these words. A key without a row changes nothing.
    ///
    /// # Errors
    /// The first word that is not a value of the setting.
    fn set(&mut self, key: &str, words: &[&str]) -> Result<(), SettingWordError>;

    /// The words of the setting `key`. Empty if it has no value, or no row.
    fn words(&self, key: &str) -> Vec<String>;
}

/// Which settings of a table apply somewhere, and their defaults there.
pub trait TablePart<T> {
    /// Whether a setting applies.
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

/// Types whose values are words as their text is: each with the usual name of a value.
#[macro_export]
macro_rules! setting_texts {
    ($($type:ty = $name:literal;)+) => {$(
        impl $crate::setting::SettingValue for $type {
            const VALUE_NAME: &'static str = $name;

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
    ($($type:ty)+) => {$(
        impl SettingValue for $type {
            const VALUE_NAME: &'static str = "N";

            fn read(word: &str) -> Result<Self, String> {
                word.parse().map_err(|_| format!("expected a whole number up to {}", Self::MAX))
            }

            fn word(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

numbers!(u8 u16 u32 u64 usize);

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

/// Shares of things with names: `call=70%,busy=30%`.
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

/// Declares a structure of settings. Each field has its description, its type, in brackets its form in files (arguments of
/// `serde`), and, if it can be given as words, in braces what [`Setting`] has of it.
///
/// A field whose words have not the form of its type names the form: `least_s: f64 as Seconds`.
///
/// The description becomes the documentation of the field, the description in the JSON schema, and the help text of its flag.
///
/// `pub struct Settings gives Options` declares a second structure of those fields that end with `=> name`, for code that
/// reads values as they were given.
///
/// `pub struct Settings with defaults` has the default of a setting after its row: `{ heading: PACKETS } = 100;`. Without it
/// the default is that of the type.
#[macro_export]
macro_rules! settings {
    (@alias) => {
        $crate::settings!(@alias $crate::setting::OwnForm);
    };
    (@alias $form:ty) => {
        #[allow(dead_code, reason = "a setting of files only has no words")]
        type Form = $form;
    };
    (
        $(#[$meta:meta])*
        pub struct $table:ident gives $options:ident {
            $(
                $(#[doc = $about:literal])+
                $name:ident: $type:ty $(as $form:ty)?
                $([$($serde:tt)*])?
                $({ $($part:ident: $value:expr),* $(,)? })?
                $(=> $option:ident)?
                ;
            )+
        }
    ) => {
        $crate::settings! {
            $(#[$meta])*
            pub struct $table {
                $(
                    $(#[doc = $about])+
                    $name: $type $(as $form)? $([$($serde)*])? $({ $($part: $value),* })?;
                )+
            }
        }

        #[doc = concat!("Values of [`", stringify!($table), "`] that are read as they were given.")]
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        pub struct $options {
            $($(
                #[doc = concat!("See [`", stringify!($table), "::", stringify!($option), "`].")]
                pub $option: $type,
            )?)+
        }

        impl $table {
            /// The values that are read as they were given.
            pub fn options(&self) -> $options {
                $options { $($($option: self.$option.clone(),)?)+ }
            }
        }
    };
    (@usual) => { Default::default() };
    (@usual $usual:expr) => { $usual };
    (
        $(#[$meta:meta])*
        pub struct $table:ident with defaults {
            $(
                $(#[doc = $about:literal])+
                $name:ident: $type:ty $(as $form:ty)?
                $([$($serde:tt)*])?
                $({ $($part:ident: $value:expr),* $(,)? })?
                $(= $usual:expr)?
                ;
            )+
        }
    ) => {
        $crate::settings! {
            $(#[$meta])*
            pub struct $table {
                $(
                    $(#[doc = $about])+
                    $name: $type $(as $form)? $([$($serde)*])? $({ $($part: $value),* })?;
                )+
            }
        }

        impl Default for $table {
            fn default() -> Self {
                Self { $($name: $crate::settings!(@usual $($usual)?),)+ }
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub struct $table:ident {
            $(
                $(#[doc = $about:literal])+
                $name:ident: $type:ty $(as $form:ty)?
                $([$($serde:tt)*])?
                $({ $($part:ident: $value:expr),* $(,)? })?
                ;
            )+
        }
    ) => {
        $(#[$meta])*
        pub struct $table {
            $(
                $(#[doc = $about])+
                $(#[serde($($serde)*)])?
                pub $name: $type,
            )+
        }

        impl $crate::setting::SettingsTable for $table {
            fn rows() -> Vec<$crate::setting::Setting> {
                let mut rows = Vec::new();
                $({
                    $crate::settings!(@alias $($form)?);
                    let about = concat!($($about),+);
                    $(rows.push($crate::setting::Setting {
                        key: stringify!($name),
                        about,
                        form: <Form as $crate::setting::SettingForms<$type>>::form(),
                        $($part: $value,)*
                        ..$crate::setting::Setting::USUAL
                    });)?
                    let _ = about;
                })+
                rows
            }

            fn set(&mut self, key: &str, words: &[&str]) -> Result<(), $crate::setting::SettingWordError> {
                $({
                    $crate::settings!(@alias $($form)?);
                    $(if key == stringify!($name) {
                        let _ = ($($value,)*);
                        self.$name = <Form as $crate::setting::SettingForms<$type>>::read(words)?;
                    })?
                })+
                Ok(())
            }

            fn words(&self, key: &str) -> Vec<String> {
                $({
                    $crate::settings!(@alias $($form)?);
                    $(if key == stringify!($name) {
                        let _ = ($($value,)*);
                        return <Form as $crate::setting::SettingForms<$type>>::words(&self.$name);
                    })?
                })+
                Vec::new()
            }
        }
    };
}

/// Declares an enum of values with names, each with its description: in files, in the JSON schema, and as words. An enum that
/// derives `Default` marks its default by `[default]`. A second name after `|` is read only.
#[macro_export]
macro_rules! choices {
    (
        $(#[$meta:meta])*
        pub enum $type:ident {
            $(
                $(#[doc = $about:literal])+
                $([$mark:ident])?
                $choice:ident = $name:literal $(| $other:literal)?,
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        pub enum $type {
            $($(#[doc = $about])+ $(#[$mark])? #[serde(rename = $name $(, alias = $other)?)] $choice,)+
        }

        impl $type {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$choice,)+];

            /// The name in files and commands.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$choice => $name,)+ }
            }

            /// The description, in a sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$choice => concat!($($about),+),)+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                $($(if text == $other { return Ok(Self::$choice); })?)+
                let found = Self::ALL.iter().copied().find(|choice| choice.name() == text);
                let names = || Self::ALL.iter().map(|choice| choice.name()).collect::<Vec<_>>().join(", ");
                found.ok_or_else(|| format!("expected one of {}", names()))
            }
        }

        impl $crate::setting::SettingValue for $type {
            const VALUE_NAME: &'static str = "NAME";

            fn choices() -> Vec<(&'static str, &'static str)> {
                Self::ALL.iter().map(|choice| (choice.name(), choice.about())).collect()
            }

            fn read(word: &str) -> Result<Self, String> {
                word.parse()
            }

            fn word(&self) -> String {
                self.name().to_owned()
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::choices! {
        /// A colour.
        pub enum Paint {
            /// As blood.
            Red = "red",
            /// As the sea.
            Blue = "deep-blue" | "blue",
        }
    }

    crate::settings! {
        /// A wall.
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Wall {
            /// The paint of a wall.
            paint: Option<Paint> [default, skip_serializing_if = "Option::is_none"] { heading: "Walls" };
            /// How long it dries.
            dry_for: Duration [default] { flag: "dry", heading: "Walls", group: "time" };
            /// Coats, one
            /// after the other.
            coats: Vec<u8> [default] { heading: "Coats" };
            /// Whether it is primed.
            primed: bool [default] { heading: "Coats", excludes: &["coats"] };
            /// Shares of the paints.
            shares: BTreeMap<String, Fraction> [default] { heading: "Coats" };
            /// Its height, m, which is given in percent of the room's.
            height: f64 as Share [default] { heading: "Coats" };
            /// The room, which only a file has.
            room: u32 [default];
        }
    }

    #[test]
    fn a_row_describes_its_setting() {
        let rows = Wall::rows();
        let keys: Vec<_> = rows.iter().map(|row| (row.key, row.flag(), row.form.count)).collect();
        assert_eq!(
            keys,
            [
                ("paint", "paint".to_owned(), WordCount::One),
                ("dry_for", "dry".to_owned(), WordCount::One),
                ("coats", "coats".to_owned(), WordCount::Many),
                ("primed", "primed".to_owned(), WordCount::Switch),
                ("shares", "shares".to_owned(), WordCount::One),
                ("height", "height".to_owned(), WordCount::One),
            ]
        );
        assert_eq!(rows[0].form.choices, [("red", " As blood."), ("deep-blue", " As the sea.")]);
        assert_eq!(
            (rows[1].group, rows[2].about, rows[3].excludes),
            ("time", " Coats, one after the other.", &["coats"][..])
        );
    }

    #[test]
    fn words_become_values_and_values_words() {
        let mut all = Wall::default();
        for (key, words) in [
            ("paint", &["deep-blue"][..]),
            ("dry_for", &["1 min", "5 s"]),
            ("coats", &["1", "2"]),
            ("primed", &[]),
            ("shares", &["a=70%, b=30 %"]),
            ("height", &["50%"]),
        ] {
            all.set(key, words).unwrap();
        }
        assert_eq!(
            (all.paint, all.dry_for),
            (Some(Paint::Blue), Duration::from_secs(5)),
            "the last word counts"
        );
        assert_eq!((&*all.coats, all.primed, all.shares.len()), (&[1, 2][..], true, 2));
        for (key, words) in [
            ("paint", vec!["deep-blue"]),
            ("dry_for", vec!["5 s"]),
            ("coats", vec!["1", "2"]),
            ("primed", vec!["true"]),
            ("shares", vec!["a=70 %,b=30 %"]),
            ("height", vec!["50 %"]),
            ("room", vec![]),
        ] {
            assert_eq!(all.words(key), words, "{key}");
        }
        all.set("paint", &["blue"]).unwrap();
        assert_eq!(all.words("paint"), ["deep-blue"], "its other name");
        assert!(Wall::default().words("paint").is_empty() && Wall::default().words("shares").is_empty());
    }

    crate::settings! {
        /// A roof.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Roof with defaults {
            /// Its tiles.
            tiles: usize as AtLeastOne { short: Some('t') } = 200;
            /// Its slope, degrees.
            slope: Option<u16> as Within<10, 60> {};
            /// Its colours.
            colours: Vec<Paint> { is_list: true } = vec![Paint::Red];
        }
    }

    #[test]
    fn a_table_has_its_defaults_and_the_ranges_of_its_numbers() {
        let mut roof = Roof::default();
        assert_eq!(roof, Roof { tiles: 200, slope: None, colours: vec![Paint::Red] });
        for (key, word, said) in [
            ("tiles", "0", "`0`: 0 is not in 1.."),
            ("slope", "61", "`61`: 61 is not in 10..=60"),
            ("slope", "steep", "`steep`: expected a whole number up to 65535"),
        ] {
            assert_eq!(roof.set(key, &[word]).unwrap_err().to_string(), said);
        }
        roof.set("slope", &["60"]).unwrap();
        roof.set("colours", &["blue", "red"]).unwrap();
        assert_eq!(roof, Roof { tiles: 200, slope: Some(60), colours: vec![Paint::Blue, Paint::Red] });
    }

    struct Dry;

    impl TablePart<Wall> for Dry {
        fn has(key: &str) -> bool {
            key == "dry_for"
        }

        fn usual() -> Wall {
            Wall { primed: true, ..Wall::default() }
        }
    }

    #[test]
    fn a_part_of_a_table_has_its_own_rows_and_defaults() {
        let mut part = PartOf::<Wall, Dry>::default();
        let keys: Vec<_> = PartOf::<Wall, Dry>::rows().iter().map(|row| row.key).collect();
        assert_eq!(keys, ["dry_for"]);
        part.set("dry_for", &["3 s"]).unwrap();
        part.set("primed", &["false"]).unwrap();
        assert!(part.table.primed && part.words("primed").is_empty(), "it is no setting of the part");
        assert_eq!(part.words("dry_for"), ["3 s"]);
    }

    #[test]
    fn a_word_that_is_no_value_is_refused_with_the_reason() {
        for (key, word, said) in [
            ("paint", "green", "`green`: expected one of red, deep-blue"),
            ("coats", "256", "`256`: expected a whole number up to 255"),
            ("primed", "yes", "`yes`: expected true or false"),
            ("shares", "a", "`a`: `a` has not the form name=70%"),
            ("shares", "a=1%,a=2%", "`a=1%,a=2%`: `a` comes twice"),
        ] {
            let mut all = Wall::default();
            assert_eq!(all.set(key, &[word]).unwrap_err().to_string(), said);
            assert_eq!(all, Wall::default(), "{key}");
        }
    }
}
