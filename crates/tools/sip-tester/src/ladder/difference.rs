//! The difference of two messages, line by line.

use std::fmt;

use similar::{Algorithm, Change, ChangeTag, capture_diff_slices};

use super::printable;

/// A line, and the messages that contain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DifferenceLine {
    /// A line of both messages.
    Both(String),
    /// A line of the first message only.
    OnlyFirst(String),
    /// A line of the second message only.
    OnlySecond(String),
}

impl fmt::Display for DifferenceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mark, line) = match self {
            Self::Both(line) => (' ', line),
            Self::OnlyFirst(line) => ('-', line),
            Self::OnlySecond(line) => ('+', line),
        };
        f.write_str(format!("{mark} {line}").trim_end())
    }
}

/// The lines of two messages in order, common lines once.
pub fn difference(first: &[u8], second: &[u8]) -> Vec<DifferenceLine> {
    let [first, second] = [first, second].map(lines);
    let changes = capture_diff_slices(Algorithm::Myers, &first, &second);
    let changes = changes.iter().flat_map(|change| change.iter_changes(&first, &second));
    let line = |change: Change<String>| match change.tag() {
        ChangeTag::Equal => DifferenceLine::Both(change.value()),
        ChangeTag::Delete => DifferenceLine::OnlyFirst(change.value()),
        ChangeTag::Insert => DifferenceLine::OnlySecond(change.value()),
    };
    changes.map(line).collect()
}

fn lines(message: &[u8]) -> Vec<String> {
    let lines = message.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    lines.map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_both_have_stand_once() {
        let first = b"INVITE sip:a SIP/2.0\r\nVia: x\r\nMax-Forwards: 70\r\n\r\n";
        let second = b"INVITE sip:a SIP/2.0\r\nVia: y\r\nVia: x\r\nMax-Forwards: 69\r\n\r\n";
        let both = |text: &str| DifferenceLine::Both(text.to_owned());
        assert_eq!(
            difference(first, second),
            [
                both("INVITE sip:a SIP/2.0"),
                DifferenceLine::OnlySecond("Via: y".to_owned()),
                both("Via: x"),
                DifferenceLine::OnlyFirst("Max-Forwards: 70".to_owned()),
                DifferenceLine::OnlySecond("Max-Forwards: 69".to_owned()),
                both(""),
                both(""),
            ]
        );
        assert!(difference(first, first).iter().all(|line| matches!(line, DifferenceLine::Both(_))));
    }

    #[test]
    fn long_messages_take_no_more_memory_than_their_lines() {
        let long = "a\n".repeat(2001);
        let found = difference(long.as_bytes(), b"a\nb\n");
        assert!(found.contains(&DifferenceLine::OnlySecond("b".to_owned())), "{}", found.len());
    }
}
