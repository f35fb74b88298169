//! Two messages, compared line by line.

use std::fmt;

use super::printable;

/// A line of one message or of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DifferenceLine {
    /// Both contain it.
    Both(String),
    /// Only the first contains it.
    OnlyFirst(String),
    /// Only the second contains it.
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

/// Messages with more lines are compared without the search for the longest common subsequence.
const MOST_LINES: usize = 2000;

/// The lines of two messages in order, common lines once, by their longest common subsequence.
pub fn difference(first: &[u8], second: &[u8]) -> Vec<DifferenceLine> {
    let [a, b] = [first, second].map(lines);
    let lengths = common_lengths(&a, &b);
    let (mut i, mut j) = (0, 0);
    let mut found = Vec::new();
    while i < a.len() || j < b.len() {
        match (a.get(i), b.get(j)) {
            (Some(left), Some(right)) if left == right => {
                found.push(DifferenceLine::Both(left.clone()));
                (i, j) = (i + 1, j + 1);
            }
            (Some(left), right) if right.is_none() || lengths[i + 1][j] >= lengths[i][j + 1] => {
                found.push(DifferenceLine::OnlyFirst(left.clone()));
                i += 1;
            }
            (_, Some(right)) => {
                found.push(DifferenceLine::OnlySecond(right.clone()));
                j += 1;
            }
            // The other arms add the rest of the first message.
            (_, None) => break,
        }
    }
    found
}

/// `lengths[i][j]`: length of the longest common subsequence of `a` from line `i` and `b` from line `j`.
fn common_lengths(a: &[String], b: &[String]) -> Vec<Vec<u32>> {
    let mut lengths = vec![vec![0; b.len() + 1]; a.len() + 1];
    if a.len().max(b.len()) > MOST_LINES {
        return lengths;
    }
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i][j] = if a[i] == b[j] {
                lengths[i + 1][j + 1] + 1
            } else {
                lengths[i + 1][j].max(lengths[i][j + 1])
            };
        }
    }
    lengths
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
        let long = "a\n".repeat(MOST_LINES + 1);
        let found = difference(long.as_bytes(), b"a\nb\n");
        assert!(found.contains(&DifferenceLine::OnlySecond("b".to_owned())), "{}", found.len());
    }
}
