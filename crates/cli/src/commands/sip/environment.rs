//! The settings of a load or a search as a file: written by `--save-environment`, read by `--environment`.
//!
//! Each key is the name of a flag. Its table is named after the heading under which `--help` shows the flag. A flag on
//! the command line overrides its key and the keys of flags that exclude it. The consent to test a host is not in the
//! file, because the user has to give it each time. Passwords are not in the file either; it has only the name of the
//! environment variable.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use netrig_core::setting::{Setting, WordCount};
use toml::de::{DeTable, DeValue};

use crate::failure::Failure;
use crate::input::read;
use crate::output::replace;
use crate::typed::TypedTable;

/// The file of settings.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Environment")]
pub struct EnvironmentArguments {
    /// Read settings from a file that `--save-environment` has written; flags override it
    #[arg(long, value_name = "FILE.toml")]
    pub environment: Option<PathBuf>,
    /// Write all settings to a file before the start
    #[arg(long, value_name = "FILE.toml")]
    pub save_environment: Option<PathBuf>,
}

/// The version of the file.
const FORMAT: i64 = 1;

/// The table of settings without a heading.
const FIRST: &str = "server";

impl EnvironmentArguments {
    /// Sets the settings that are not given on the command line to the values in the file. `verb` is `load` or
    /// `capacity`.
    pub fn read(&self, verb: &str, tables: &mut [&mut dyn TypedTable]) -> Result<(), Failure> {
        self.environment.as_deref().map_or(Ok(()), |file| add(file, &read(file)?, verb, tables))
    }

    /// Writes all settings to the file of `--save-environment`, if there is one.
    pub fn save(&self, verb: &str, tables: &[&dyn TypedTable]) -> Result<(), Failure> {
        let Some(file) = &self.save_environment else { return Ok(()) };
        let head = format!(
            "# The settings of `netrig sip {verb}`: `netrig sip {verb} --environment FILE` uses them again.\n\
             format = {FORMAT}\nof = \"sip {verb}\"\n"
        );
        replace(file, format!("{head}{}", text(tables)).as_bytes())
    }
}

/// The table of a setting in the file, and its key in that table.
fn place(row: &Setting) -> (String, String) {
    let heading = if row.heading.is_empty() { FIRST } else { row.heading };
    let table = heading.split(',').next().unwrap_or(heading);
    (table.to_lowercase(), row.flag().replace('-', "_"))
}

fn add(file: &Path, text: &str, verb: &str, tables: &mut [&mut dyn TypedTable]) -> Result<(), Failure> {
    let wrong = |at: usize, why: String| {
        let line = text[..at.min(text.len())].matches('\n').count() + 1;
        Failure::Request(format!("{}:{line}: {why}", file.display()))
    };
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        wrong(at, error.message().to_owned())
    })?;
    let document = document.get_ref();
    check_head(document, verb).map_err(|why| wrong(0, why))?;
    let rows: Vec<Setting> =
        tables.iter().flat_map(|table| table.rows()).filter(|row| row.is_saved).collect();
    let typed: Vec<&Setting> =
        rows.iter().filter(|row| tables.iter().any(|table| table.is_typed(row.key))).collect();
    for (name, table) in document.iter().filter(|(name, _)| !["format", "of"].contains(&&**name.get_ref())) {
        let DeValue::Table(keys) = table.get_ref() else {
            return Err(wrong(name.span().start, format!("`{}` is not in a table", name.get_ref())));
        };
        for (key, value) in keys {
            let at = key.span().start;
            let (name, key) = (name.get_ref(), key.get_ref());
            let Some(row) = rows.iter().find(|row| place(row) == (name.to_string(), key.to_string())) else {
                let others = keys_of(&rows, name);
                return Err(wrong(at, format!("there is no `{key}` in [{name}]; there is {others}")));
            };
            let words = words(value.get_ref())
                .ok_or_else(|| wrong(at, format!("`{key}` is no text, number, truth or list of them")))?;
            if typed.iter().any(|other| excludes(other, row)) {
                continue;
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            for table in tables.iter_mut() {
                table.set(row.key, &words).map_err(|why| wrong(at, format!("`{key}`: {why}")))?;
            }
        }
    }
    Ok(())
}

fn check_head(document: &DeTable<'_>, verb: &str) -> Result<(), String> {
    let found = |name: &str| document.get(name).and_then(|value| words(value.get_ref())).unwrap_or_default();
    if found("format") != [FORMAT.to_string()] {
        return Err(format!("expected `format = {FORMAT}`"));
    }
    let of = format!("sip {verb}");
    let is = found("of").join(" ");
    if is == of { Ok(()) } else { Err(format!("it is of `netrig {is}`, not of `netrig {of}`")) }
}

/// A sentence that lists the keys of a table. If there is no table of that name, it lists the tables.
fn keys_of(rows: &[Setting], table: &str) -> String {
    let places: Vec<_> = rows.iter().map(place).collect();
    let keys: Vec<_> = places.iter().filter(|(of, _)| of == table).map(|(_, key)| &**key).collect();
    if !keys.is_empty() {
        return keys.join(", ");
    }
    let mut tables: Vec<String> = Vec::new();
    for (table, _) in places {
        let table = format!("[{table}]");
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    tables.join(", ")
}

/// Whether a setting on the command line overrides another setting of the file: the same one, or one that cannot be
/// given with it.
fn excludes(typed: &Setting, other: &Setting) -> bool {
    typed.key == other.key
        || (!typed.group.is_empty() && typed.group == other.group)
        || typed.excludes.contains(&other.key)
        || other.excludes.contains(&typed.key)
}

/// A value of the file as words; `None` if no setting can have a value of this type.
fn words(value: &DeValue<'_>) -> Option<Vec<String>> {
    Some(match value {
        DeValue::String(text) => vec![text.to_string()],
        DeValue::Integer(number) => vec![number.to_string()],
        DeValue::Float(number) => vec![number.to_string()],
        DeValue::Boolean(holds) => vec![holds.to_string()],
        DeValue::Array(all) => {
            let words = all.iter().map(|one| words(one.get_ref()).filter(|one| one.len() == 1));
            words.collect::<Option<Vec<_>>>()?.concat()
        }
        _ => return None,
    })
}

/// All settings with a value as TOML.
pub fn text(all: &[&dyn TypedTable]) -> String {
    let mut tables: Vec<(String, String)> = Vec::new();
    for (table, row) in all.iter().flat_map(|table| table.rows().into_iter().map(move |row| (table, row))) {
        let words = table.words(row.key);
        if !row.is_saved || words.is_empty() || words == [""] {
            continue;
        }
        let (name, key) = place(&row);
        let line = format!("{key} = {}\n", value(row.form.count, words));
        match tables.iter_mut().find(|(known, _)| *known == name) {
            Some((_, lines)) => lines.push_str(&line),
            None => tables.push((name, line)),
        }
    }
    tables.into_iter().fold(String::new(), |mut text, (name, lines)| {
        // Writing to a string does not fail.
        let _ = write!(text, "\n[{name}]\n{lines}");
        text
    })
}

/// The TOML value of these words. Numbers and switches become TOML integers and booleans.
fn value(count: WordCount, words: Vec<String>) -> toml::Value {
    let one = |word: String| match (count, word.parse::<i64>()) {
        (WordCount::Switch, _) => (word == "true").into(),
        (_, Ok(number)) if number.to_string() == word => number.into(),
        _ => toml::Value::from(word),
    };
    let mut values = words.into_iter().map(one);
    match count {
        WordCount::Many => values.collect::<Vec<_>>().into(),
        _ => values.next().unwrap_or(toml::Value::Boolean(false)),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};
    use netrig_core::setting::SettingsTable as _;
    use netrig_core::{Fraction, settings};
    use netrig_sip::settings::LoadSettings;
    use netrig_sip_tester::request::TesterSettings;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::typed::Typed;

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

    /// One row of `settings!` defines the field, the key of experiment files, the schema, the flag with its help, and
    /// the key of the file of settings.
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

    /// Each setting of a load that has a command-line form is a flag. Its default is that of experiment files.
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
