//! Settings given on the command line. Their flags are made from the table that describes the settings.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use netrig_core::setting::{OwnForm, Setting, SettingForms, SettingValue, SettingsTable, WordCount};

/// The settings of a table: the values given on the command line, and the defaults of all other settings.
#[derive(Clone, Debug, Default)]
pub struct Typed<T> {
    /// The values.
    pub settings: T,
    /// The keys of the settings given on the command line.
    typed: Vec<&'static str>,
}

/// The argument that names a file of settings. The file may have settings that are not given on the command line.
const SETTINGS_FILE: &str = "environment";

/// A table of settings, and which of them were given on the command line.
pub trait TypedTable {
    /// The descriptions of its settings.
    fn rows(&self) -> Vec<Setting>;
    /// Whether a setting was given on the command line.
    fn is_typed(&self, key: &str) -> bool;
    /// The words of a setting's value. Empty if it has no value.
    fn words(&self, key: &str) -> Vec<String>;
    /// Sets the value of a setting. The error is a sentence.
    fn set(&mut self, key: &str, words: &[&str]) -> Result<(), String>;
}

impl<T: SettingsTable> TypedTable for Typed<T> {
    fn rows(&self) -> Vec<Setting> {
        T::rows()
    }

    fn is_typed(&self, key: &str) -> bool {
        self.typed.contains(&key)
    }

    fn words(&self, key: &str) -> Vec<String> {
        self.settings.words(key)
    }

    fn set(&mut self, key: &str, words: &[&str]) -> Result<(), String> {
        self.settings.set(key, words).map_err(|error| error.to_string())
    }
}

impl<T: SettingsTable + Default + 'static> Args for Typed<T> {
    fn augment_args(command: Command) -> Command {
        let usual = T::default();
        T::rows().into_iter().fold(command, |command, row| command.arg(argument::<T>(&row, &usual)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: SettingsTable + Default + 'static> FromArgMatches for Typed<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut all = Self { settings: T::default(), typed: Vec::new() };
        all.update_from_arg_matches(matches)?;
        Ok(all)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for row in T::rows() {
            if matches.value_source(row.key) != Some(clap::parser::ValueSource::CommandLine) {
                continue;
            }
            let words: Vec<&String> = match row.form.count {
                WordCount::Switch => Vec::new(),
                _ => matches.get_many(row.key).into_iter().flatten().collect(),
            };
            let words: Vec<&str> = words.into_iter().map(String::as_str).collect();
            self.settings
                .set(row.key, &words)
                .map_err(|error| clap::Error::raw(clap::error::ErrorKind::ValueValidation, error))?;
            self.typed.push(row.key);
        }
        Ok(())
    }
}

/// The argument of a setting.
fn argument<T: SettingsTable + Default + 'static>(row: &Setting, usual: &T) -> Arg {
    let (key, count) = (row.key, row.form.count);
    let about = row.about.trim();
    let about = about.strip_suffix('.').unwrap_or(about);
    let syntax = row.form.syntax;
    let help = if syntax.is_empty() { about.to_owned() } else { format!("{about}: {syntax}") };
    let usual = usual.words(key).join(",");
    let help = match count {
        WordCount::One | WordCount::Many if !usual.is_empty() => format!("{help} [default: {usual}]"),
        _ => help,
    };
    let mut argument = Arg::new(key).help(help);
    if row.is_positional {
        // The value may be in a file of settings.
        argument = argument.required_unless_present(SETTINGS_FILE);
    } else {
        argument = argument.long(row.flag()).short(row.short);
    }
    if !row.heading.is_empty() {
        argument = argument.help_heading(row.heading);
    }
    if !row.group.is_empty() {
        argument = argument.group(row.group);
    }
    argument = row.excludes.iter().fold(argument, |argument, other| argument.conflicts_with(*other));
    argument = row.requires.iter().fold(argument, |argument, other| argument.requires(*other));
    let value_name = if row.value_name.is_empty() { row.form.value_name } else { row.value_name };
    match count {
        WordCount::Switch => return argument.action(ArgAction::SetTrue),
        WordCount::One => argument = argument.action(ArgAction::Set),
        WordCount::Many => argument = argument.action(ArgAction::Append),
    }
    if row.is_list {
        argument = argument.value_delimiter(',');
    }
    argument = argument.value_name(value_name).num_args(1).value_parser(parser::<T>(row));
    match row.flag_value {
        "" => argument,
        word => argument.num_args(0..=1).default_missing_value(word),
    }
}

/// The parser of a setting's words.
fn parser<T: SettingsTable + Default + 'static>(row: &Setting) -> ValueParser {
    let key = row.key;
    if row.form.choices.is_empty() {
        let accept = move |word: &str| {
            let mut scratch = T::default();
            scratch.set(key, &[word]).map(|()| word.to_owned()).map_err(|error| error.why)
        };
        return ValueParser::new(accept);
    }
    names(&row.form.choices).map(|word| word).into()
}

/// The parser of a choice: it accepts these names.
fn names(choices: &[(&'static str, &'static str)]) -> PossibleValuesParser {
    let choice = |(name, about): &(&'static str, &'static str)| {
        PossibleValue::new(*name).help(about.trim().trim_end_matches('.'))
    };
    PossibleValuesParser::new(choices.iter().map(choice))
}

/// Reads a value of type `T`, for an argument without a row.
pub fn value<T>(word: &str) -> Result<T, String>
where
    OwnForm: SettingForms<T>,
{
    value_as::<OwnForm, T>(word)
}

/// Reads a value in the form `F`, for example one with a range, for an argument without a row.
pub fn value_as<F: SettingForms<T>, T>(word: &str) -> Result<T, String> {
    F::read(&[word]).map_err(|error| error.why)
}

/// Reads one of the names of a choice, for an argument without a row.
pub fn named<T: SettingValue + Clone + Send + Sync + 'static>() -> impl TypedValueParser<Value = T> {
    names(&T::choices()).try_map(|word| T::read(&word))
}
