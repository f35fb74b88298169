//! Settings that are typed: flags from the table that describes them.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use netrig_core::setting::{Setting, SettingsTable, WordCount};

/// The settings of a table: those that were typed, and the defaults of the others.
#[derive(Clone, Debug, Default)]
pub struct Typed<T> {
    /// The values.
    pub settings: T,
    /// The keys of those that were typed.
    typed: Vec<&'static str>,
}

/// The argument that names a file of settings, which may have what is not typed.
const SETTINGS_FILE: &str = "environment";

/// A table with what was typed of it.
pub trait TypedTable {
    /// The descriptions of its settings.
    fn rows(&self) -> Vec<Setting>;
    /// Whether a setting was typed.
    fn is_typed(&self, key: &str) -> bool;
    /// The words of a setting. Empty without a value.
    fn words(&self, key: &str) -> Vec<String>;
    /// Gives a setting a value. The error is a sentence.
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
        WordCount::One if !usual.is_empty() => format!("{help} [default: {usual}]"),
        _ => help,
    };
    let mut argument = Arg::new(key).help(help);
    if row.is_positional {
        // A file of settings may have it.
        argument = argument.required_unless_present(SETTINGS_FILE);
    } else {
        argument = argument.long(row.flag());
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
    argument.value_name(value_name).num_args(1).value_parser(parser::<T>(row))
}

/// Accepts the words of a setting.
fn parser<T: SettingsTable + Default + 'static>(row: &Setting) -> ValueParser {
    let key = row.key;
    if row.form.choices.is_empty() {
        let accept = move |word: &str| {
            let mut scratch = T::default();
            scratch.set(key, &[word]).map(|()| word.to_owned()).map_err(|error| error.why)
        };
        return ValueParser::new(accept);
    }
    let choice = |(name, about): &(&'static str, &'static str)| {
        PossibleValue::new(*name).help(about.trim().trim_end_matches('.'))
    };
    PossibleValuesParser::new(row.form.choices.iter().map(choice)).map(|word| word).into()
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};
    use netrig_core::{Fraction, settings};
    use netrig_sip::settings::LoadSettings;
    use netrig_sip_tester::request::TesterSettings;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::commands::sip::environment::{EnvironmentArguments, text};

    settings! {
        /// Settings with one more than the product has.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct Louder {
            /// How loud users speak. By default as they like.
            volume_share: Option<Fraction> { heading: "Calls" };
        }
    }

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        louder: Typed<Louder>,
        #[command(flatten)]
        load: Typed<LoadSettings>,
        #[command(flatten)]
        tester: Typed<TesterSettings>,
        #[command(flatten)]
        environment: EnvironmentArguments,
    }

    fn line(words: &[&str]) -> Result<Line, clap::Error> {
        Line::try_parse_from(["line", "udp:127.0.0.1"].iter().chain(words))
    }

    /// One row gives the field, the key of files, the schema, the flag with its help, and the key of a file of settings.
    #[test]
    fn an_option_is_described_in_one_place() {
        let half = Louder { volume_share: Some(Fraction::new(0.5).unwrap()) };
        assert_eq!(toml::from_str::<Louder>("volume_share = \"50 %\"").unwrap(), half);
        let schema = serde_json::to_value(schemars::schema_for!(Louder)).unwrap();
        let about = &schema["properties"]["volume_share"]["description"];
        assert_eq!(about, "How loud users speak. By default as they like.");
        let typed = line(&["--volume-share", "50%"]).unwrap().louder;
        assert_eq!((&typed.settings, typed.is_typed("volume_share")), (&half, true));
        assert!(
            line(&["--volume-share", "loud"]).unwrap_err().to_string().contains("'loud' for '--volume-share")
        );
        let help = Line::command().render_long_help().to_string();
        assert!(help.contains("How loud users speak. By default as they like"), "{help}");
        assert_eq!(text(&[&typed]), "\n[calls]\nvolume_share = \"50 %\"\n");

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.toml");
        std::fs::write(&file, format!("format = 1\nof = \"sip load\"\n{}", text(&[&typed]))).unwrap();
        let file = format!("--environment={}", file.display());
        let mut again = line(&[&file]).unwrap();
        again.environment.read("load", &mut [&mut again.louder]).unwrap();
        assert_eq!(again.louder.settings, half);
        let mut other = line(&[&file, "--volume-share=1%"]).unwrap();
        other.environment.read("load", &mut [&mut other.louder]).unwrap();
        assert_eq!(other.louder.words("volume_share"), ["1 %"], "what is typed overrides the file");
    }

    /// Each setting of a load that has words is a flag, and its defaults are those of files.
    #[test]
    fn a_load_has_the_flags_of_its_table() {
        let command = Line::command();
        for row in LoadSettings::rows() {
            assert!(command.get_arguments().any(|flag| flag.get_long() == Some(&row.flag())), "{}", row.key);
        }
        let line_of = line(&[]).unwrap();
        assert_eq!(line_of.load.settings, LoadSettings::default());
        assert_eq!(line_of.tester.words("target"), ["udp:127.0.0.1"]);
        let file =
            "scenario = \"cancel\"\npatience = \"2 s\"\nsdp = \"1 KB\"\nusers = 7\nserver = \"program\"";
        let typed = ["--scenario=cancel", "--patience=2s", "--sdp=1KB", "--users=7"];
        assert_eq!(line(&typed).unwrap().load.settings, toml::from_str(file).unwrap());
    }
}
