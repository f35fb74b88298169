//! The datagrams of captures, the moments of traces and the texts of files that a file names, written into its own text: a file that stands for
//! itself, whatever becomes of the others, and whose runs are known by what they send and run.

use std::fmt::Write as _;

use netrig_core::Duration;
use netrig_traffic::TracedDatagram;

use super::diagnostic::{Diagnostic, Diagnostics, Span};
use super::document::{self, Entry, Kind, LONGEST_FILE, Value};

/// `text` with `datagrams = [..]` in the place of each `capture = ".."` of a trace. `read` gives the datagrams of a capture
/// by its name, or says why it cannot. Lines stay where they are. Of a text that is no TOML nothing is changed.
///
/// # Errors
/// A capture that cannot be read, and a text that would be too long with it, each where it is named.
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
            // Writing to a string cannot fail.
            let _ = write!(piece, "[\"{} ns\", \"{} B\"],", gap.as_nanos(), size.bytes());
        }
        piece.push(']');
        let what = format!("the {} datagrams of the capture `{name}`", datagrams.len());
        Ok(Piece { place: entry.key_span.start..entry.value.span.end, text: piece, what })
    })
}

/// `text` with `moments = [..]` in the place of each `trace = ".."` of users of SIP. `read` gives the moments of a trace by its
/// name, or says why it cannot. Lines stay where they are. Of a text that is no TOML nothing is changed.
///
/// # Errors
/// A trace that cannot be read, and a text that would be too long with it, each where it is named.
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
            // Writing to a string cannot fail.
            let _ = write!(piece, "\"{} ns\",", at.as_nanos());
        }
        piece.push(']');
        let what = format!("the {} moments of the trace `{name}`", moments.len());
        Ok(Piece { place: entry.key_span.start..entry.value.span.end, text: piece, what })
    })
}

/// `text` with what stands in them in the place of the files `{ file = ".." }` that programs of nodes are given. `read` gives
/// a file's text by its name, or says why it cannot. Lines stay where they are. Of a text that is no TOML nothing is changed.
///
/// # Errors
/// A file that cannot be read, and a text that would be too long with it, each where it is named.
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
        // JSON's text is TOML's, but for one character that TOML wants escaped.
        let quoted =
            serde_json::to_string(&content).map_err(|error| format!("the file `{name}`: {error}"))?;
        let what = format!("the {} bytes of the file `{name}`", content.len());
        Ok(Piece { place: entry.value.span.clone(), text: quoted.replace('\u{7f}', "\\u007f"), what })
    })
}

/// What is written into a text.
struct Piece {
    /// In whose place.
    place: Span,
    text: String,
    /// In words.
    what: String,
}

/// `text` with a piece for each entry, in their order.
fn replaced(
    file: &str,
    text: &str,
    mut named: Vec<&Entry>,
    mut piece_of: impl FnMut(&Entry) -> Result<Piece, String>,
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

/// The entries of `files` in tables that say `kind = "program"`, of those that name a file.
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

/// The file that a value names, if it is `{ file = ".." }`.
fn file_name(value: &Value) -> Option<&str> {
    let table = value.table().filter(|table| table.entries.len() == 1)?;
    table.get("file")?.text()
}

/// The keys of one name with a text in tables of one `kind`.
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
}
