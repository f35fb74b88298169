//! The files that an experiment names: captures and traces, scenarios of calls, and files of programs. Their contents
//! become a part of the experiment. So a stored experiment is complete, and its identity depends on these contents.

use std::collections::BTreeMap;

use netrig_core::Duration;
use netrig_traffic::TracedDatagram;

use super::diagnostic::{Diagnostic, Diagnostics, Span};
use super::document::{self, Entry, Kind, LONGEST_FILE, Table, Value};

/// Reads the files that an experiment names. The error of each function is the reason as a text.
pub trait FileReader {
    /// The text of a file.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn text(&self, name: &str) -> Result<String, String>;

    /// The datagrams of a capture.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn datagrams(&self, name: &str) -> Result<Vec<TracedDatagram>, String>;

    /// The times in a trace of SIP users at which users start.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn moments(&self, name: &str) -> Result<Vec<Duration>, String>;

    /// Checks a scenario of SIP users.
    ///
    /// # Errors
    /// The first fault of the scenario.
    fn check(&self, scenario: &ScenarioText) -> Result<(), ScenarioFault>;
}

/// A scenario for the calls of SIP users, from the experiment file or from a file that it names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScenarioText {
    /// The scenario.
    pub text: String,
    /// The contents of the file with values for its calls; `None` without such a file.
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

/// Replaces the names of files in `text` by their contents. The result is the stored form of an experiment. Line
/// numbers do not change. Invalid TOML is returned unchanged.
///
/// # Errors
///
/// An unreadable file, an invalid scenario, and a result that would be too long, each with its position.
pub fn with_files(file: &str, text: &str, reader: &dyn FileReader) -> Result<String, Diagnostics> {
    let Ok(mut root) = document::parse(text) else { return Ok(text.to_owned()) };
    embed(&mut root, text, reader).map_err(|problem| Diagnostics::new(file, text, vec![*problem]))
}

/// Replaces the names of files by their contents in `root`, which was parsed from `text`. Returns the text with the
/// same replacements.
pub(super) fn embed(
    root: &mut Value,
    text: &str,
    reader: &dyn FileReader,
) -> Result<String, Box<Diagnostic>> {
    let mut embedding = Embedding { text, reader, pieces: Vec::new() };
    embedding.visit(root)?;
    embedding.whole()
}

type Embedded = Result<(), Box<Diagnostic>>;

/// The replacement of file names by contents in one experiment.
struct Embedding<'a> {
    text: &'a str,
    reader: &'a dyn FileReader,
    pieces: Vec<FilePiece>,
}

/// A replacement in the text.
struct FilePiece {
    /// The range of bytes that is replaced.
    place: Span,
    text: String,
    /// Description of the content for messages.
    what: String,
}

impl Embedding<'_> {
    fn visit(&mut self, value: &mut Value) -> Embedded {
        match &mut value.kind {
            Kind::Table(table) => {
                match table.get("kind").and_then(Value::text) {
                    Some("trace") => self.capture(table)?,
                    Some("sip") => {
                        self.moments(table)?;
                        self.scenario(table)?;
                    }
                    Some("program") => self.files(table)?,
                    _ => {}
                }
                table.entries.iter_mut().try_for_each(|entry| self.visit(&mut entry.value))
            }
            Kind::Array(elements) => elements.iter_mut().try_for_each(|element| self.visit(element)),
            Kind::Text(_) | Kind::Integer(_) | Kind::Float(_) | Kind::Switch(_) => Ok(()),
        }
    }

    /// Replaces the `capture` of a trace by `datagrams`.
    fn capture(&mut self, table: &mut Table) -> Embedded {
        let Some((place, name)) = named(table, "capture") else { return Ok(()) };
        let span = table.entries[place].value.span.clone();
        let datagrams =
            self.reader.datagrams(&name).map_err(refuse(&span, format!("the capture `{name}`")))?;
        let pairs = datagrams
            .iter()
            .map(|(gap, size)| [format!("{} ns", gap.as_nanos()), format!("{} B", size.bytes())]);
        let pairs: Vec<[String; 2]> = pairs.collect();
        let text = pairs.iter().map(|[gap, size]| format!("[\"{gap}\", \"{size}\"],")).collect::<String>();
        let pair = |pair: [String; 2]| Kind::Array(values(&span, pair.map(Kind::Text)));
        let kind = Kind::Array(values(&span, pairs.into_iter().map(pair)));
        let what = format!("the {} datagrams of the capture `{name}`", datagrams.len());
        self.replace(table, place, "datagrams", kind, format!("[{text}]"), what)
    }

    /// Replaces the `trace` of SIP users by `moments`.
    fn moments(&mut self, table: &mut Table) -> Embedded {
        let Some((place, name)) = named(table, "trace") else { return Ok(()) };
        let span = table.entries[place].value.span.clone();
        let moments = self.reader.moments(&name).map_err(refuse(&span, format!("the trace `{name}`")))?;
        let moments: Vec<String> = moments.iter().map(|at| format!("{} ns", at.as_nanos())).collect();
        let text: String = moments.iter().map(|at| format!("\"{at}\",")).collect();
        let what = format!("the {} moments of the trace `{name}`", moments.len());
        let kind = Kind::Array(values(&span, moments.into_iter().map(Kind::Text)));
        self.replace(table, place, "moments", kind, format!("[{text}]"), what)
    }

    /// Replaces the `scenario_file` of SIP users by `scenario_text`, and `values_file` by `values_text`. Checks the
    /// scenario here, unless it contains a factor: then it is checked at each point.
    fn scenario(&mut self, table: &mut Table) -> Embedded {
        let entry = |key: &str| {
            let mut entries = table.entries.iter();
            entries.find(|entry| entry.key == key && entry.value.text().is_some()).cloned()
        };
        let own = entry("scenario_file").or_else(|| entry("scenario_text"));
        for (file_key, text_key, what) in
            [("scenario_file", "scenario_text", "scenario"), ("values_file", "values_text", "file of values")]
        {
            let Some((place, name)) = named(table, file_key) else { continue };
            let span = table.entries[place].value.span.clone();
            let content = self.reader.text(&name).map_err(refuse(&span, format!("the {what} `{name}`")))?;
            let (text, what) = (quoted(&content), bytes_of(&name, &content));
            self.replace(table, place, text_key, Kind::Text(content), text, what)?;
        }
        let text = |key: &str| table.get(key).and_then(Value::text).map(str::to_owned);
        let Some((own, content)) = own.zip(text("scenario_text")).filter(|(_, text)| !text.contains("${"))
        else {
            return Ok(());
        };
        let keys = table.get("keys").and_then(Value::table).into_iter().flat_map(|keys| &keys.entries);
        let keys = keys.filter_map(|own| Some((own.key.clone(), own.value.text()?.to_owned()))).collect();
        let scenario = ScenarioText { text: content, values: text("values_text"), keys };
        self.reader.check(&scenario).map_err(|fault| {
            let (span, why) = placed(self.text, &own, &scenario.text, fault);
            Box::new(Diagnostic::error(span, why))
        })
    }

    /// Replaces `{ file = ".." }` in the `files` of a program by the contents of the file.
    fn files(&mut self, table: &mut Table) -> Embedded {
        let files = table.entries.iter_mut().filter(|entry| entry.key == "files");
        let files = files.filter_map(|entry| match &mut entry.value.kind {
            Kind::Table(files) => Some(&mut files.entries),
            _ => None,
        });
        for Value { span, kind } in files.flatten().map(|entry| &mut entry.value) {
            let name = match kind {
                Kind::Table(one) if one.entries.len() == 1 => one.get("file").and_then(Value::text),
                _ => None,
            };
            let Some(name) = name.map(str::to_owned) else { continue };
            let content = self.reader.text(&name).map_err(refuse(span, format!("the file `{name}`")))?;
            let (text, what) = (quoted(&content), bytes_of(&name, &content));
            self.pieces.push(FilePiece { place: span.clone(), text, what });
            *kind = Kind::Text(content);
        }
        Ok(())
    }

    /// Replaces key and value of the entry at index `place`. `text` is the value in TOML.
    fn replace(
        &mut self,
        table: &mut Table,
        place: usize,
        key: &str,
        kind: Kind,
        text: String,
        what: String,
    ) -> Embedded {
        let beside = table.get(key).is_some();
        let entry = &mut table.entries[place];
        if beside {
            let why = format!("`{}` and `{key}` exclude each other", entry.key);
            return Err(Box::new(Diagnostic::error(entry.value.span.clone(), why)));
        }
        let place = entry.key_span.start..entry.value.span.end;
        self.pieces.push(FilePiece { place, text: format!("{key} = {text}"), what });
        key.clone_into(&mut entry.key);
        entry.value.kind = kind;
        Ok(())
    }

    /// The whole text with all replacements.
    fn whole(mut self) -> Result<String, Box<Diagnostic>> {
        self.pieces.sort_by_key(|piece| piece.place.start);
        let (mut out, mut copied) = (String::new(), 0);
        for FilePiece { place, text, what } in self.pieces {
            out += &self.text[copied..place.start];
            out += &text;
            copied = place.end;
            if out.len() + (self.text.len() - copied) > LONGEST_FILE {
                let why = format!("{what} make the file longer than {LONGEST_FILE} bytes");
                return Err(Box::new(Diagnostic::error(place, why)));
            }
        }
        Ok(out + &self.text[copied..])
    }
}

/// The index of the entry with this key, and its text.
fn named(table: &Table, key: &str) -> Option<(usize, String)> {
    let place = table.entries.iter().position(|entry| entry.key == key)?;
    Some((place, table.entries[place].value.text()?.to_owned()))
}

/// Values that all have the position `span`.
fn values(span: &Span, kinds: impl IntoIterator<Item = Kind>) -> Vec<Value> {
    kinds.into_iter().map(|kind| Value { span: span.clone(), kind }).collect()
}

/// Turns the reason of a failure into a diagnostic at this position; `what` names the file.
fn refuse(span: &Span, what: String) -> impl FnOnce(String) -> Box<Diagnostic> {
    let span = span.clone();
    move |why| Box::new(Diagnostic::error(span, format!("{what}: {why}")))
}

fn bytes_of(name: &str, content: &str) -> String {
    format!("the {} bytes of the file `{name}`", content.len())
}

/// A TOML string on one line.
fn quoted(content: &str) -> String {
    // A JSON string is a TOML string except for one character, which TOML requires to be escaped.
    serde_json::Value::from(content).to_string().replace('\u{7f}', "\\u007f")
}

/// The position and the text of a scenario's fault in the experiment file. For a scenario in a file of its own, the
/// position is that of the file's name.
fn placed(text: &str, entry: &Entry, scenario: &str, fault: ScenarioFault) -> (Span, String) {
    let ScenarioFault { line, why } = fault;
    let span = &entry.value.span;
    if entry.key == "scenario_file" {
        return (span.clone(), format!("the scenario `{}`: {why}", entry.value.text().unwrap_or_default()));
    }
    // If the text has no escapes, the file contains it unchanged.
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

#[cfg(test)]
mod tests {
    use netrig_core::Size;

    use super::*;
    use crate::Experiment;

    /// Texts of files, and the datagrams and times as which any file is read.
    #[derive(Default)]
    struct Files {
        texts: BTreeMap<&'static str, String>,
        datagrams: Vec<TracedDatagram>,
        moments: Vec<Duration>,
        fault: Option<ScenarioFault>,
    }

    impl Files {
        fn known(&self, name: &str) -> Result<&str, String> {
            self.texts.get(name).map(String::as_str).ok_or_else(|| "no such file".to_owned())
        }
    }

    impl FileReader for Files {
        fn text(&self, name: &str) -> Result<String, String> {
            self.known(name).map(str::to_owned)
        }
        fn datagrams(&self, name: &str) -> Result<Vec<TracedDatagram>, String> {
            self.known(name).map(|_| self.datagrams.clone())
        }
        fn moments(&self, name: &str) -> Result<Vec<Duration>, String> {
            self.known(name).map(|_| self.moments.clone())
        }
        fn check(&self, scenario: &ScenarioText) -> Result<(), ScenarioFault> {
            let seen = serde_json::json!([scenario.text, scenario.values, scenario.keys]);
            let expected = self.texts.get("seen");
            let seen = seen.to_string();
            assert!(expected.is_none_or(|expected| *expected == seen), "{seen}");
            self.fault.clone().map_or(Ok(()), Err)
        }
    }

    /// Files with these contents.
    fn files<const N: usize>(texts: [(&'static str, &str); N]) -> Files {
        Files { texts: texts.map(|(name, text)| (name, text.to_owned())).into(), ..Files::default() }
    }

    /// The application of the first flow. It must be the same in the stored text, which contains the files' contents,
    /// and in the experiment that was read with the files.
    fn application(named: &str, files: &Files) -> netrig_traffic::Settings {
        let whole = with_files("x", named, files).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(whole.lines().count(), named.lines().count());
        let read =
            Experiment::read("x", named, None, Some(files)).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(read.text(), whole);
        let stored = Experiment::parse("x", &whole).unwrap_or_else(|problems| panic!("{problems}"));
        let [read, stored] = [read, stored].map(|one| one.plan().scenario(0).unwrap());
        assert_eq!(serde_json::to_string(&read).unwrap(), serde_json::to_string(&stored).unwrap());
        read.flows[0].application.clone()
    }

    fn refused(named: &str, files: &Files) -> Diagnostics {
        Experiment::read("replay.toml", named, None, Some(files)).unwrap_err()
    }

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
        let written =
            file(r#"{ kind = "trace", datagrams = [["1.5 ms", "512 B"], ["0 s", "40 B"]], repeat = true }"#);
        let capture = Files { datagrams: datagrams(), ..files([("office.pcap", "")]) };
        assert_eq!(application(&named, &capture), application(&written, &files([])));
        let whole = with_files("x", &named, &capture).unwrap();
        assert!(
            whole.contains(r#"datagrams = [["1500000 ns", "512 B"],["0 ns", "40 B"],], repeat"#),
            "{whole}"
        );
        let both = named.replace("repeat = true", "datagrams = []");
        assert!(refused(&both, &capture).to_string().contains("exclude each other"));
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
        let problems = refused(&named, &files([])).to_string();
        assert!(problems.contains("replay.toml:15:") && problems.contains("no such file"), "{problems}");
        let datagrams = vec![(Duration::from_micros(1500), Size::from_bytes(512)); 100_000];
        let problems = refused(&named, &Files { datagrams, ..files([("office.pcap", "")]) }).to_string();
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
        let moments = [5, 7].map(Duration::from_millis).to_vec();
        let trace = Files { moments, ..files([("busy.txt", "")]) };
        let written = users("moments = [\"5 ms\", \"7 ms\"]");
        assert_eq!(application(&named, &trace), application(&written, &files([])));
        let unread = Experiment::parse("x", &named).unwrap_err().to_string();
        assert!(unread.contains("was not read"), "{unread}");
        let missing = refused(&named, &files([])).to_string();
        assert!(missing.contains("the trace `busy.txt`: no such file"), "{missing}");
    }

    #[test]
    fn other_captures_and_other_texts_are_left_alone() {
        for text in ["no TOML", "[x]\nkind = \"ring\"\ncapture = \"y\"\n", "kind = \"trace\"\ncapture = 3\n"]
        {
            assert_eq!(with_files("x", text, &files([])).unwrap(), text);
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
        let there = files([("y.cfg", content)]);
        application(&named, &there);
        let experiment = Experiment::read("x", &named, None, Some(&there)).unwrap();
        let program = experiment.plan().scenario(0).unwrap().nodes[1].programs[0].clone();
        assert_eq!((program.files["x.cfg"].as_str(), program.files["plain"].as_str()), (content, "z"));
        let missing = refused(&named, &files([])).to_string();
        assert!(missing.contains("`y.cfg`: no such file"), "{missing}");
        let long = refused(&named, &files([("y.cfg", &"x".repeat(LONGEST_FILE))])).to_string();
        assert!(long.contains("bytes of the file `y.cfg` make the file longer"), "{long}");
    }

    #[test]
    fn a_scenario_is_what_stands_in_its_file() {
        let users = |keys: &str| {
            file(&format!("{{ kind = \"sip\", rate = 1, server = {{ role = \"uas\" }}, {keys} }}"))
                .replace("\"wire_throughput\"", "\"attempts_begun\"")
        };
        let named =
            users("scenario_file = \"my.xml\", values_file = \"users.csv\", keys = { tenant = \"blue\" }");
        let (content, values) = ("<scenario>\n\"x\"\\</scenario>\n", "SEQUENTIAL\na\n");
        let seen = serde_json::json!([content, values, { "tenant": "blue" }]).to_string();
        let there = files([("my.xml", content), ("users.csv", values), ("seen", &seen)]);
        let flow = application(&named, &there);
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
        let fault = Some(ScenarioFault { line: Some(3), why: "line 3: no such step".to_owned() });
        let wrong = Files { fault, ..files([("my.xml", "<scenario/>")]) };
        let named = users("scenario_file = \"my.xml\"");
        let problems = refused(&named, &wrong);
        let here = |text: &str, part: &str| text[..text.find(part).unwrap()].lines().count();
        assert!(problems.to_string().contains("the scenario `my.xml`: line 3: no such step"), "{problems}");
        assert_eq!(problems.all()[0].line, here(&named, "scenario_file"));
        // For a scenario inside the experiment file, the position is that of the scenario's line.
        let own = users("scenario_text = \'\'\'\nfirst\nsecond\nthird\n\'\'\'");
        let problems = refused(&own, &wrong);
        assert_eq!(problems.all()[0].line, here(&own, "third") + 1, "{problems}");
        let missing = refused(&named, &files([])).to_string();
        assert!(missing.contains("the scenario `my.xml`: no such file"), "{missing}");
    }
}
