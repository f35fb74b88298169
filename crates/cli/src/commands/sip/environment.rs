//! What a load or a search was told, as a file: written by `--save-environment`, read by `--environment`.
//!
//! A key is the name of a flag, in the table that `--help` shows it under. What stands in the file is put before what was
//! typed as if it had been typed there, but for flags that were, and those that exclude them. So there is one way in which
//! words become settings, and no flag that the file does not know. Consent to test a host is given by a person each time
//! and is not in the file; nor are passwords, of which only the variable of the environment has a name.

use std::any::TypeId;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args as _, Command};
use netrig_core::{Duration, Fraction, Size, SpanDistribution};
use toml::de::{DeTable, DeValue};

use super::capacity::Capacity;
use super::environment_arguments::EnvironmentArguments;
use super::load::Load;
use super::scenario::spelled;
use crate::failure::Failure;
use crate::input::read;
use crate::output::replace;

/// The verbs that have one.
const VERBS: [&str; 2] = ["load", "capacity"];

/// The version of the file.
const FORMAT: i64 = 1;

/// The table of what stands under no heading.
const FIRST: &str = "server";

/// What is not in the file: what is done with results, consent, and the file itself.
const LEFT_OUT: [&str; 15] = [
    "environment",
    "save-environment",
    "json",
    "keep",
    "keep-to",
    "keep-most",
    "records",
    "journal",
    "no-screen",
    "metrics",
    "metrics-file",
    "i-may-test",
    "help",
    "version",
    "resume",
];

/// The table of what belongs to a scenario of its own file, which has no environment: that file says what calls do.
const SCENARIO: &str = "scenario";

/// Writes the file, if it was asked for.
pub fn save(arguments: &EnvironmentArguments) -> Result<(), Failure> {
    let Some(file) = &arguments.save_environment else { return Ok(()) };
    let words = expanded(std::env::args_os().collect())?;
    let Some(command) = verb_of(&words) else { return Ok(()) };
    let matches = command.clone().try_get_matches_from(&words[2..]).map_err(Failure::request)?;
    replace(file, text(&command, &matches).as_bytes())
}

/// What was typed, with what stands in the file that `--environment` names.
pub fn expanded(words: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let words = spelled(words);
    let Some(command) = verb_of(&words) else { return Ok(words) };
    // What is wrong, or wanted, is found when all of it is read.
    let lenient = command.clone().mut_args(|argument| argument.required(false)).ignore_errors(true);
    let Ok(typed) = lenient.try_get_matches_from(&words[2..]) else { return Ok(words) };
    let Some(file) = typed.get_one::<PathBuf>("environment") else { return Ok(words) };
    let added = added(file, &read(file)?, &command, &typed)?;
    let (head, tail) = words.split_at(3);
    Ok(head.iter().chain(&added).chain(tail).cloned().collect())
}

/// The verb, if it has an environment.
fn verb_of(words: &[OsString]) -> Option<Command> {
    let verb = words.get(2)?.to_str().filter(|verb| VERBS.contains(verb))?;
    if words.get(1)?.to_str()? != "sip" {
        return None;
    }
    let mut command = match verb {
        "load" => Load::augment_args(Command::new("load")),
        _ => Capacity::augment_args(Command::new("capacity")),
    };
    command.build();
    Some(command)
}

/// The key of an argument, and the table it stands in; `None` of what the file does not have.
fn place(argument: &Arg) -> Option<(String, String)> {
    let name = argument.get_long().unwrap_or_else(|| argument.get_id().as_str());
    let table = argument.get_help_heading().map_or_else(|| FIRST.to_owned(), str::to_lowercase);
    (!LEFT_OUT.contains(&name) && table != SCENARIO).then(|| (table, name.replace('-', "_")))
}

/// What the file adds to what was typed.
fn added(file: &Path, text: &str, command: &Command, typed: &ArgMatches) -> Result<Vec<OsString>, Failure> {
    let wrong = |at: usize, why: String| {
        let line = text[..at.min(text.len())].matches('\n').count() + 1;
        Failure::Request(format!("{}:{line}: {why}", file.display()))
    };
    let tables = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        wrong(at, error.message().to_owned())
    })?;
    check_head(tables.get_ref(), command).map_err(|why| wrong(0, why))?;
    let mut words = Vec::new();
    for (name, table) in
        tables.get_ref().iter().filter(|(name, _)| !["format", "of"].contains(&&**name.get_ref()))
    {
        let at = name.span().start;
        let DeValue::Table(keys) = table.get_ref() else {
            return Err(wrong(at, format!("`{}` stands in no table", name.get_ref())));
        };
        for (key, value) in keys {
            let at = key.span().start;
            let (name, key) = (name.get_ref(), key.get_ref());
            let is_it =
                |argument: &&Arg| place(argument).is_some_and(|(table, own)| table == **name && own == **key);
            let Some(argument) = command.get_arguments().find(is_it) else {
                let others = keys_of(command, name);
                return Err(wrong(at, format!("there is no `{key}` in [{name}]; there is {others}")));
            };
            let values = written(value.get_ref())
                .ok_or_else(|| wrong(at, format!("`{key}` is no text, number, truth or list of them")))?;
            if !is_overridden(argument, command, typed) {
                words.extend(spoken(argument, values));
            }
        }
    }
    Ok(words)
}

fn check_head(tables: &DeTable<'_>, command: &Command) -> Result<(), String> {
    let told = |name: &str| tables.get(name).and_then(|value| written(value.get_ref())).unwrap_or_default();
    if told("format") != [FORMAT.to_string()] {
        return Err(format!("expected `format = {FORMAT}`"));
    }
    let of = format!("sip {}", command.get_name());
    let is = told("of").join(" ");
    if is == of { Ok(()) } else { Err(format!("it is of `netrig {is}`, not of `netrig {of}`")) }
}

/// Keys of a table, in a sentence; the tables, if there is none of that name.
fn keys_of(command: &Command, table: &str) -> String {
    let places: Vec<_> = command.get_arguments().filter_map(place).collect();
    let keys: Vec<_> = places.iter().filter(|(of, _)| of == table).map(|(_, key)| &**key).collect();
    if !keys.is_empty() {
        return keys.join(", ");
    }
    let mut tables: Vec<_> = places.iter().map(|(of, _)| format!("[{of}]")).collect();
    tables.dedup();
    tables.join(", ")
}

/// Whether something was typed that this argument would contradict.
fn is_overridden(argument: &Arg, command: &Command, typed: &ArgMatches) -> bool {
    let is_typed =
        |other: &Arg| typed.value_source(other.get_id().as_str()) == Some(ValueSource::CommandLine);
    let share_group = |other: &Arg| {
        let has = |group: &&clap::ArgGroup, one: &Arg| group.get_args().any(|id| id == one.get_id());
        // Groups of the structures that arguments are declared in exclude nothing.
        let mut exclusive = command.get_groups().filter(|group| !clap::ArgGroup::clone(group).is_multiple());
        exclusive.any(|group| has(&group, argument) && has(&group, other))
    };
    let conflict = |one: &Arg, other: &Arg| {
        command.get_arg_conflicts_with(one).iter().any(|found| found.get_id() == other.get_id())
    };
    command.get_arguments().filter(|other| is_typed(other)).any(|other| {
        other.get_id() == argument.get_id()
            || share_group(other)
            || conflict(argument, other)
            || conflict(other, argument)
    })
}

/// As it would have been typed.
fn spoken(argument: &Arg, values: Vec<String>) -> Vec<OsString> {
    let Some(long) = argument.get_long() else { return values.into_iter().map(Into::into).collect() };
    if !argument.get_action().takes_values() {
        return if values == ["true"] { vec![format!("--{long}").into()] } else { Vec::new() };
    }
    values.into_iter().map(|value| format!("--{long}={value}").into()).collect()
}

/// A value of the file as words; `None` of what is none.
fn written(value: &DeValue<'_>) -> Option<Vec<String>> {
    Some(match value {
        DeValue::String(text) => vec![text.to_string()],
        DeValue::Integer(number) => vec![number.to_string()],
        DeValue::Float(number) => vec![number.to_string()],
        DeValue::Boolean(holds) => vec![holds.to_string()],
        DeValue::Array(all) => {
            let words = all.iter().map(|one| written(one.get_ref()).filter(|one| one.len() == 1));
            words.collect::<Option<Vec<_>>>()?.concat()
        }
        _ => return None,
    })
}

/// All settings as text, those that were not typed with their defaults.
fn text(command: &Command, matches: &ArgMatches) -> String {
    let verb = command.get_name();
    let mut text = format!(
        "# What `netrig sip {verb}` was told: `netrig sip {verb} --environment FILE` does it again.\nformat = {FORMAT}\n\
         of = \"sip {verb}\"\n"
    );
    let mut tables: Vec<(String, String)> = Vec::new();
    for argument in command.get_arguments() {
        let (Some((table, key)), Some(value)) = (place(argument), told(argument, matches)) else { continue };
        let line = format!("{key} = {value}\n");
        match tables.iter_mut().find(|(name, _)| *name == table) {
            Some((_, lines)) => lines.push_str(&line),
            None => tables.push((table, line)),
        }
    }
    for (table, lines) in tables {
        // Writing to a string does not fail.
        let _ = write!(text, "\n[{table}]\n{lines}");
    }
    text
}

/// What was told for an argument, in TOML; `None` of nothing.
fn told(argument: &Arg, matches: &ArgMatches) -> Option<toml::Value> {
    let id = argument.get_id().as_str();
    matches.value_source(id)?;
    if !argument.get_action().takes_values() {
        return Some(matches.get_flag(id).into());
    }
    let words: Vec<_> = matches.get_raw(id)?.map(|word| word.to_string_lossy().into_owned()).collect();
    let mut values = words.into_iter().map(|word| in_toml(argument, word));
    let is_list = matches!(argument.get_action(), clap::ArgAction::Append);
    if is_list { Some(values.collect::<Vec<_>>().into()) } else { values.next() }
}

/// A word as the experiment file would have it: a number as such, a unit behind a space.
fn in_toml(argument: &Arg, word: String) -> toml::Value {
    if let Ok(number) = word.parse::<i64>()
        && number.to_string() == word
    {
        return number.into();
    }
    let kind = argument.get_value_parser().type_id();
    let spans = [TypeId::of::<Duration>(), TypeId::of::<SpanDistribution>()];
    let has_unit = [&spans[..], &[TypeId::of::<Size>(), TypeId::of::<Fraction>()]].concat();
    let unit = word.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    match unit {
        Some(place @ 1..) if has_unit.iter().any(|one| kind == *one) => {
            let (number, unit) = word.split_at(place);
            format!("{number} {}", unit.trim()).into()
        }
        _ => word.into(),
    }
}
