//! The datagrams of captures that a file names, written into its text: a file that stands for itself, whatever becomes of
//! the capture, and whose runs are known by what they send.

use std::fmt::Write as _;

use netrig_traffic::TracedDatagram;

use super::diagnostic::{Diagnostic, Diagnostics};
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
    captures(&root, &mut named);
    named.sort_by_key(|entry| entry.key_span.start);
    let (mut out, mut copied) = (String::new(), 0);
    for entry in named {
        let refuse = |why: String| {
            let problem = Diagnostic::error(entry.value.span.clone(), why);
            Diagnostics::new(file, text, vec![problem])
        };
        let name = entry.value.text().unwrap_or_default();
        let datagrams = read(name).map_err(|why| refuse(format!("the capture `{name}`: {why}")))?;
        out.push_str(&text[copied..entry.key_span.start]);
        out.push_str("datagrams = [");
        for (gap, size) in &datagrams {
            // Writing to a string cannot fail.
            let _ = write!(out, "[\"{} ns\", \"{} B\"],", gap.as_nanos(), size.bytes());
        }
        out.push(']');
        copied = entry.value.span.end;
        if out.len() + (text.len() - copied) > LONGEST_FILE {
            let count = datagrams.len();
            return Err(refuse(format!(
                "the {count} datagrams of the capture `{name}` make the file longer than {LONGEST_FILE} bytes"
            )));
        }
    }
    out.push_str(&text[copied..]);
    Ok(out)
}

/// The keys `capture` with a text in tables that say `kind = "trace"`.
fn captures<'v>(value: &'v Value, found: &mut Vec<&'v Entry>) {
    match &value.kind {
        Kind::Table(table) => {
            let is_trace = table.get("kind").and_then(Value::text) == Some("trace");
            for entry in &table.entries {
                match entry.key.as_str() {
                    "capture" if is_trace && entry.value.text().is_some() => found.push(entry),
                    _ => captures(&entry.value, found),
                }
            }
        }
        Kind::Array(elements) => elements.iter().for_each(|element| captures(element, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::{Duration, Size};

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
    fn other_captures_and_other_texts_are_left_alone() {
        for text in ["no TOML", "[x]\nkind = \"ring\"\ncapture = \"y\"\n", "kind = \"trace\"\ncapture = 3\n"]
        {
            assert_eq!(with_captures("x", text, |_| unreachable!()).unwrap(), text);
        }
    }
}
