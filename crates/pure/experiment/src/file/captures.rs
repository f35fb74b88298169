//! Replacement of named files in an experiment's text: the datagrams of captures, the times of traces and the
//! texts of files. The result does not depend on other files, so a stored experiment is complete, and a run is
//! identified by what it sends and runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use netrig_core::Duration;
use netrig_traffic::TracedDatagram;

use super::diagnostic::{Diagnostic, Diagnostics, Span};
use super::document::{self, Entry, Kind, LONGEST_FILE, Table, Value};

/// `text` with `datagrams = [..]` instead of each `capture = ".."` of a trace. `read` returns the datagrams of
/// a capture by its name, or the reason for a failure. Line numbers do not change. Invalid TOML is returned
/// unchanged.
///
/// # Errors
///
/// An unreadable capture, and a result that would be too long, each with its position.
pub fn with_captures(
    file: &str,
    text: &str,
    mut read: impl FnMut(&str) -> Result<Vec<TracedDatagram>, String>,
) -> Result<String, Diagnostics> {
    let Ok(root) = document::parse(text) else { return Ok(text.to_owned()) };
    let mut named = Vec::new();
    keys(&root, ("trace", "capture"), &mut named);
    replaced(file, text, named, |entry| {
        let name = entry.value.text().unwrap_or_default();
        let datagrams = read(name).map_err(|why| format!("the capture `{name}`: {why}"))?;
        let mut piece = "datagrams = [".to_owned();
        for (gap, size) in &datagrams {
            let _ = write!(piece, "[\"{} ns\", \"{} B\"],", gap.as_nanos(), size.bytes());
        }
        piece.push(']');
        let what = format!("the {} datagrams of the capture `{name}`", datagrams.len());
        Ok(CapturePiece { place: entry.key_span.start..entry.value.span.end, text: piece, what })
    })
}

/// `text` with `moments = [..]` instead of each `trace = ".."` of SIP users. `read` returns the times of a
/// trace by its name, or the reason for a failure. Line numbers do not change. Invalid TOML is returned
/// unchanged.
///
/// # Errors
///
/// An unreadable trace, and a result that would be too long, each with its position.
pub fn with_moments(
    file: &str,
    text: &str,
    mut read: impl FnMut(&str) -> Result<Vec<Duration>, String>,
) -> Result<String, Diagnostics> {
    let Ok(root) = document::parse(text) else { return Ok(text.to_owned()) };
    let mut named = Vec::new();
    keys(&root, ("sip", "trace"), &mut named);
    replaced(file, text, named, |entry| {
        let name = entry.value.text().unwrap_or_default();
        let moments = read(name).map_err(|why| format!("the trace `{name}`: {why}"))?;
        let mut piece = "moments = [".to_owned();
        for at in &moments {
            let _ = write!(piece, "\"{} ns\",", at.as_nanos());
        }
        piece.push(']');
        let what = format!("the {} moments of the trace `{name}`", moments.len());
        Ok(CapturePiece { place: entry.key_span.start..entry.value.span.end, text: piece, what })
    })
}

/// A scenario for the calls of SIP users, from the experiment file or from a file beside it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScenarioText {
    /// The scenario.
    pub text: String,
    /// The values for its calls.
    pub values: Option<String>,
    /// The values of user-defined keywords.
    pub keys: BTreeMap<String, String>,
}

/// A fault of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioFault {
    /// The line in the scenario's text, from 1, if the fault has one.
    pub line: Option<usize>,
    /// The fault, in words.
    pub why: String,
}

/// `text` with `scenario_text = ".."` instead of each `scenario_file = ".."` of SIP users, and with
/// `values_text` instead of `values_file`. `read` returns a file's text by its name, or the reason for a
/// failure. `check` examines each scenario, also those in the text itself, but not those with a factor in them.
/// Line numbers do not change. Invalid TOML is returned unchanged.
///
/// # Errors
///
/// An unreadable file, an invalid scenario, and a result that would be too long, each with its position.
pub fn with_scenarios(
    file: &str,
    text: &str,
    mut read: impl FnMut(&str) -> Result<String, String>,
    mut check: impl FnMut(&ScenarioText) -> Result<(), ScenarioFault>,
) -> Result<String, Diagnostics> {
    let Ok(root) = document::parse(text) else { return Ok(text.to_owned()) };
    let mut users = Vec::new();
    tables(&root, "sip", &mut users);
    let refuse =
        |span: &Span, why: String| Diagnostics::new(file, text, vec![Diagnostic::error(span.clone(), why)]);
    let mut named: Vec<&Entry> = Vec::new();
    let mut texts: BTreeMap<usize, String> = BTreeMap::new();
    for table in users {
        let mut text_of = |[file_key, text_key]: [&str; 2], what: &str| {
            if let Some(entry) = table.entries.iter().find(|entry| entry.key == file_key)
                && let Some(name) = entry.value.text()
            {
                let content = read(name)
                    .map_err(|why| refuse(&entry.value.span, format!("the {what} `{name}`: {why}")))?;
                named.push(entry);
                texts.insert(entry.key_span.start, content.clone());
                return Ok(Some((content, entry)));
            }
            let own = table.entries.iter().find(|entry| entry.key == text_key);
            Ok(own.and_then(|entry| Some((entry.value.text()?.to_owned(), entry))))
        };
        let scenario = text_of(["scenario_file", "scenario_text"], "scenario")?;
        let values = text_of(["values_file", "values_text"], "file of values")?;
        let Some((content, entry)) = scenario else { continue };
        // A scenario with a factor in it is checked at each point.
        if content.contains("${") {
            continue;
        }
        let keys = table.get("keys").and_then(Value::table).into_iter().flat_map(|keys| &keys.entries);
        let keys = keys.filter_map(|own| Some((own.key.clone(), own.value.text()?.to_owned()))).collect();
        let whole = ScenarioText { text: content, values: values.map(|(values, _)| values), keys };
        if let Err(fault) = check(&whole) {
            let (span, why) = placed(text, entry, &whole.text, fault);
            return Err(refuse(&span, why));
        }
    }
    replaced(file, text, named, |entry| {
        let name = entry.value.text().unwrap_or_default();
        let content = texts.get(&entry.key_span.start).map(String::as_str).unwrap_or_default();
        let key = entry.key.replace("_file", "_text");
        let what = format!("the {} bytes of the file `{name}`", content.len());
        let place = entry.key_span.start..entry.value.span.end;
        Ok(CapturePiece { place, text: format!("{key} = {}", quoted(name, content)?), what })
    })
}

/// The position and the text of a scenario's fault in the experiment file. For a scenario in another file, the
/// position of that file's name.
fn placed(text: &str, entry: &Entry, scenario: &str, fault: ScenarioFault) -> (Span, String) {
    let ScenarioFault { line, why } = fault;
    let span = &entry.value.span;
    if entry.key == "scenario_file" {
        return (span.clone(), format!("the scenario `{}`: {why}", entry.value.text().unwrap_or_default()));
    }
    // A text without escapes is in the file unchanged.
    let own =
        text.get(span.clone()).and_then(|literal| literal.find(scenario)).filter(|_| !scenario.is_empty());
    let start = line.zip(own).map(|(line, at)| {
        let before: usize = scenario.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
        span.start + at + before
    });
    let span = start.map_or_else(
        || span.clone(),
        |start| {
            let rest = &text[start..span.end];
            start..start + rest.find('\n').unwrap_or(rest.len()).max(1)
        },
    );
    (span, format!("the scenario: {why}"))
}

/// A text as TOML writes it, on one line.
fn quoted(name: &str, content: &str) -> Result<String, String> {
    // A JSON string is a TOML string except for one character, which TOML requires to be escaped.
    let quoted = serde_json::to_string(content).map_err(|error| format!("the file `{name}`: {error}"))?;
    Ok(quoted.replace('\u{7f}', "\\u007f"))
}

/// The tables of one `kind`.
fn tables<'v>(value: &'v Value, kind: &str, found: &mut Vec<&'v Table>) {
    match &value.kind {
        Kind::Table(table) => {
            if table.get("kind").and_then(Value::text) == Some(kind) {
                found.push(table);
            }
            table.entries.iter().for_each(|entry| tables(&entry.value, kind, found));
        }
        Kind::Array(elements) => elements.iter().for_each(|element| tables(element, kind, found)),
        _ => {}
    }
}

/// `text` with the contents of files instead of `{ file = ".." }` in the programs of nodes. `read` returns a
/// file's text by its name, or the reason for a failure. Line numbers do not change. Invalid TOML is returned
/// unchanged.
///
/// # Errors
///
/// An unreadable file, and a result that would be too long, each with its position.
pub fn with_files(
    file: &str,
    text: &str,
    mut read: impl FnMut(&str) -> Result<String, String>,
) -> Result<String, Diagnostics> {
    let Ok(root) = document::parse(text) else { return Ok(text.to_owned()) };
    let mut named = Vec::new();
    files(&root, &mut named);
    replaced(file, text, named, |entry| {
        let name = file_name(&entry.value).unwrap_or_default();
        let content = read(name).map_err(|why| format!("the file `{name}`: {why}"))?;
        let what = format!("the {} bytes of the file `{name}`", content.len());
        Ok(CapturePiece { place: entry.value.span.clone(), text: quoted(name, &content)?, what })
    })
}

/// A replacement in a text.
struct CapturePiece {
    /// The replaced bytes.
    place: Span,
    text: String,
    /// Description for messages.
    what: String,
}

/// `text` with a replacement for each entry, in their order.
fn replaced(
    file: &str,
    text: &str,
    mut named: Vec<&Entry>,
    mut piece_of: impl FnMut(&Entry) -> Result<CapturePiece, String>,
) -> Result<String, Diagnostics> {
    named.sort_by_key(|entry| entry.key_span.start);
    let (mut out, mut copied) = (String::new(), 0);
    for entry in named {
        let refuse = |why: String| {
            let problem = Diagnostic::error(entry.value.span.clone(), why);
            Diagnostics::new(file, text, vec![problem])
        };
        let piece = piece_of(entry).map_err(refuse)?;
        out.push_str(&text[copied..piece.place.start]);
        out.push_str(&piece.text);
        copied = piece.place.end;
        if out.len() + (text.len() - copied) > LONGEST_FILE {
            return Err(refuse(format!("{} make the file longer than {LONGEST_FILE} bytes", piece.what)));
        }
    }
    out.push_str(&text[copied..]);
    Ok(out)
}

/// The entries of `files` that name a file, in tables with `kind = "program"`.
fn files<'v>(value: &'v Value, found: &mut Vec<&'v Entry>) {
    match &value.kind {
        Kind::Table(table) => {
            let is_program = table.get("kind").and_then(Value::text) == Some("program");
            let own = table.get("files").filter(|_| is_program).and_then(Value::table);
            if let Some(own) = own {
                found.extend(own.entries.iter().filter(|entry| file_name(&entry.value).is_some()));
            }
            table.entries.iter().for_each(|entry| files(&entry.value, found));
        }
        Kind::Array(elements) => elements.iter().for_each(|element| files(element, found)),
        _ => {}
    }
}

/// The file name in a value `{ file = ".." }`.
fn file_name(value: &Value) -> Option<&str> {
    let table = value.table().filter(|table| table.entries.len() == 1)?;
    table.get("file")?.text()
}

/// The entries with this key and a text as value, in tables of one `kind`.
fn keys<'v>(value: &'v Value, (kind, key): (&str, &str), found: &mut Vec<&'v Entry>) {
    match &value.kind {
        Kind::Table(table) => {
            let is_kind = table.get("kind").and_then(Value::text) == Some(kind);
            for entry in &table.entries {
                if is_kind && entry.key == key && entry.value.text().is_some() {
                    found.push(entry);
                } else {
                    keys(&entry.value, (kind, key), found);
                }
            }
        }
        Kind::Array(elements) => elements.iter().for_each(|element| keys(element, (kind, key), found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::Size;

    use super::*;
    use crate::Experiment;

    fn file(application: &str) -> String {
        format!(
            "format = 1\nname = \"replay\"\nquestion = \"?\"\nduration = \"1 s\"\n[node.a]\n[node.b]\n\
             [link.ab]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n\
             queue = {{ kind = \"fifo\", packets = 9 }}\n[flow.f]\nfrom = \"a\"\nto = \"b\"\napplication = {application}\n\
             [replications]\nmin = 1\nmax = 1\n[response.r]\nof = \"flow.f\"\nmetric = \"wire_throughput\"\n"
        )
    }

    fn datagrams() -> Vec<TracedDatagram> {
        vec![(Duration::from_micros(1500), Size::from_bytes(512)), (Duration::ZERO, Size::from_bytes(40))]
    }

    #[test]
    fn a_capture_is_what_stands_in_it() {
        let named = file(r#"{ kind = "trace", capture = "office.pcap", repeat = true }"#);
        let text = with_captures("replay.toml", &named, |name| {
            assert_eq!(name, "office.pcap");
            Ok(datagrams())
        })
        .unwrap();
        assert_eq!(text.lines().count(), named.lines().count());
        let written =
            r#"{ kind = "trace", datagrams = [["1.5 ms", "512 B"], ["0 s", "40 B"]], repeat = true }"#;
        let application = |text: &str| {
            let experiment =
                Experiment::parse("replay.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
            experiment.plan().scenario(0).unwrap().flows[0].application.clone()
        };
        assert_eq!(application(&text), application(&file(written)));
    }

    #[test]
    fn a_capture_that_nobody_has_read_is_none() {
        let problems =
            Experiment::parse("x", file(r#"{ kind = "trace", capture = "office.pcap" }"#)).unwrap_err();
        assert!(problems.to_string().contains("was not read"), "{problems}");
    }

    #[test]
    fn what_cannot_be_read_is_named_where_it_stands() {
        let named = file(r#"{ kind = "trace", capture = "office.pcap" }"#);
        let problems =
            with_captures("replay.toml", &named, |_| Err("no such file".into())).unwrap_err().to_string();
        assert!(problems.contains("replay.toml:15:") && problems.contains("no such file"), "{problems}");
        let many = |_: &str| Ok(vec![(Duration::from_micros(1500), Size::from_bytes(512)); 100_000]);
        let problems = with_captures("replay.toml", &named, many).unwrap_err().to_string();
        assert!(problems.contains("100000 datagrams"), "{problems}");
    }

    #[test]
    fn a_trace_is_its_moments() {
        let users = |moments: &str| {
            file(&format!(
                "{{ kind = \"sip\", scenario = \"options\", {moments}, server = {{ role = \"uas\" }} }}"
            ))
            .replace("wire_throughput", "attempts_begun")
        };
        let named = users("trace = \"busy.txt\"");
        let text = with_moments("replay.toml", &named, |name| {
            assert_eq!(name, "busy.txt");
            Ok([5, 7].map(Duration::from_millis).to_vec())
        })
        .unwrap();
        assert_eq!(text.lines().count(), named.lines().count());
        let application = |text: &str| {
            let experiment =
                Experiment::parse("replay.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
            experiment.plan().scenario(0).unwrap().flows[0].application.clone()
        };
        assert_eq!(application(&text), application(&users("moments = [\"5 ms\", \"7 ms\"]")));
        let unread = Experiment::parse("x", &named).unwrap_err().to_string();
        assert!(unread.contains("was not read"), "{unread}");
        let missing = with_moments("replay.toml", &named, |_| Err("no such file".into())).unwrap_err();
        assert!(missing.to_string().contains("the trace `busy.txt`: no such file"), "{missing}");
    }

    #[test]
    fn other_captures_and_other_texts_are_left_alone() {
        for text in ["no TOML", "[x]\nkind = \"ring\"\ncapture = \"y\"\n", "kind = \"trace\"\ncapture = 3\n"]
        {
            assert_eq!(with_captures("x", text, |_| unreachable!()).unwrap(), text);
        }
    }

    #[test]
    fn a_file_is_what_stands_in_it() {
        let node = |files: &str| {
            let program =
                format!("application = {{ kind = \"program\", command = [\"x\"], files = {{ {files} }} }}");
            file(r#"{ kind = "cbr", interval = "1 ms", size = "100 B" }"#)
                .replace("[node.b]", &format!("[node.b]\n{program}"))
        };
        let content = "a = \"1\"\n\tb\\c \u{7f}\u{1}ü\n";
        let named = node(r#""x.cfg" = { file = "y.cfg" }, plain = "z""#);
        let text = with_files("served.toml", &named, |name| {
            assert_eq!(name, "y.cfg");
            Ok(content.to_owned())
        })
        .unwrap();
        assert_eq!(text.lines().count(), named.lines().count());
        let experiment = Experiment::parse("x", &text).unwrap_or_else(|problems| panic!("{problems}"));
        let program = experiment.plan().scenario(0).unwrap().nodes[1].programs[0].clone();
        assert_eq!((program.files["x.cfg"].as_str(), program.files["plain"].as_str()), (content, "z"));
        let missing =
            with_files("served.toml", &named, |_| Err("no such file".into())).unwrap_err().to_string();
        assert!(missing.contains("`y.cfg`: no such file"), "{missing}");
        let long =
            with_files("served.toml", &named, |_| Ok("x".repeat(LONGEST_FILE))).unwrap_err().to_string();
        assert!(long.contains("bytes of the file `y.cfg` make the file longer"), "{long}");
    }

    #[test]
    fn a_scenario_is_what_stands_in_its_file() {
        let users = |keys: &str| {
            file(&format!("{{ kind = \"sip\", rate = 1, server = {{ role = \"uas\" }}, {keys} }}"))
        };
        let named =
            users("scenario_file = \"my.xml\", values_file = \"users.csv\", keys = { tenant = \"blue\" }");
        let content = "<scenario>\n\"x\"\\</scenario>\n";
        let mut seen = Vec::new();
        let read = |name: &str| Ok(if name == "my.xml" { content } else { "SEQUENTIAL\na\n" }.to_owned());
        let text = with_scenarios("x", &named, read, |scenario| {
            seen.push(scenario.clone());
            Ok(())
        })
        .unwrap();
        assert_eq!(text.lines().count(), named.lines().count());
        let keys = BTreeMap::from([("tenant".to_owned(), "blue".to_owned())]);
        assert_eq!(
            seen,
            [ScenarioText { text: content.to_owned(), values: Some("SEQUENTIAL\na\n".to_owned()), keys }]
        );
        let text = text.replace("\"wire_throughput\"", "\"attempts_begun\"");
        let experiment = Experiment::parse("x", &text).unwrap_or_else(|problems| panic!("{problems}"));
        let flow = experiment.plan().scenario(0).unwrap().flows[0].application.clone();
        assert_eq!(flow.sip().and_then(|sip| sip.script()), Some(content));
        let unread = Experiment::parse("x", &named).unwrap_err().to_string();
        assert!(unread.contains("\"my.xml\" was not read") && unread.contains("`scenario_text`"), "{unread}");
    }

    #[test]
    fn a_factor_of_a_dollar_writes_a_literal_placeholder() {
        let users = "{ kind = \"sip\", rate = 1, server = { role = \"uas\" }, scenario_text = \"a ${dollar}{b} ${c}\" }";
        let text = file(users).replace("\"wire_throughput\"", "\"attempts_begun\"")
            + "[factors]\ndollar = [\"$\"]\nc = [\"${dollar}\"]\n";
        let refused = Experiment::parse("x", &text).unwrap_err().to_string();
        assert!(refused.contains("c"), "{refused}");
        let text = text.replace("c = [\"${dollar}\"]", "c = [\"d\"]");
        let experiment = Experiment::parse("x", &text).unwrap_or_else(|problems| panic!("{problems}"));
        let flow = experiment.plan().scenario(0).unwrap().flows[0].application.clone();
        assert_eq!(flow.sip().and_then(|sip| sip.script()), Some("a ${b} d"));
    }

    #[test]
    fn what_is_wrong_with_a_scenario_is_told_where_it_stands() {
        let users =
            |keys: &str| file(&format!("{{ kind = \"sip\", rate = 1, server = \"program\", {keys} }}"));
        let fault =
            |_: &ScenarioText| Err(ScenarioFault { line: Some(3), why: "line 3: no such step".to_owned() });
        let read = |_: &str| Ok("<scenario/>".to_owned());
        let named = users("scenario_file = \"my.xml\"");
        let problems = with_scenarios("x", &named, read, fault).unwrap_err();
        let here = |text: &str, part: &str| text[..text.find(part).unwrap()].lines().count();
        assert!(problems.to_string().contains("the scenario `my.xml`: line 3: no such step"), "{problems}");
        assert_eq!(problems.all()[0].line, here(&named, "scenario_file"));
        // For a scenario inside the file, the line is the scenario's own.
        let own = users("scenario_text = \'\'\'\nfirst\nsecond\nthird\n\'\'\'");
        let problems = with_scenarios("x", &own, read, fault).unwrap_err();
        assert_eq!(problems.all()[0].line, here(&own, "third") + 1, "{problems}");
        let missing = with_scenarios("x", &named, |_| Err("no such file".into()), |_| Ok(())).unwrap_err();
        assert!(missing.to_string().contains("the scenario `my.xml`: no such file"), "{missing}");
    }
}
