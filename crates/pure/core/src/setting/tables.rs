//! The macros that declare tables of settings and values with names.

/// Declares a structure of settings. Each field has a description and a type. Brackets contain arguments of `serde` for
/// its form in files. A field that can be given as words has braces with the fields of its [`Setting`] that differ from
/// the usual ones.
///
/// If the words of a field do not have the form of its type, `as` names their form: `least_s: f64 as Seconds`.
///
/// The description becomes the documentation of the field, the description in the JSON schema, and the help text of its flag.
///
/// `pub struct Settings gives Options` declares a second structure with the fields that end with `=> name`, for code
/// that reads values as they were given.
///
/// In `pub struct Settings with defaults`, the default of a setting follows its row: `{ heading: PACKETS } = 100;`. A
/// setting without it has the default of its type.
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

            fn differences(&self, other: &Self) -> Vec<&'static str> {
                let mut keys = Vec::new();
                $(if self.$name != other.$name {
                    keys.push(stringify!($name));
                })+
                keys
            }
        }
    };
}

/// Declares an enum whose values have a name and a description, for files, the JSON schema and words. An enum that
/// derives `Default` marks its default by `[default]`. A second name after `|` is accepted when read, but never
/// written.
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
    use std::collections::BTreeMap;

    use crate::setting::{AtLeastOne, PartOf, SettingsTable, Share, TablePart, Within, WordCount};
    use crate::{Duration, Fraction};

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
        let painted = Wall { paint: all.paint, room: 3, ..Wall::default() };
        assert_eq!(painted.differences(&Wall::default()), ["paint", "room"]);
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
            ("tiles", "0", "`0`: expected a whole number of at least 1"),
            ("slope", "61", "`61`: expected a whole number from 10 to 60"),
            ("slope", "steep", "`steep`: expected a whole number from 10 to 60"),
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
