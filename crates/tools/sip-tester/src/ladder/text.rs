//! A ladder as text for a terminal.

use std::fmt::Write as _;

use super::{Ladder, LadderRow};
use netrig_core::choices;
use netrig_core::number::counted;
use netrig_core::text::truncated;

choices! {
    /// The notation of times.
    #[derive(Default)]
    pub enum LadderTimes {
        /// Since the first message.
        [default]
        SinceFirst = "since-first",
        /// Since the previous message.
        SincePrevious = "since-previous",
        /// Time of day, UTC.
        Absolute = "absolute",
    }
}

/// Width of the columns before the ladder: number and time.
const MARGIN: usize = 20;

/// Smallest distance between two columns, in characters: room for an arrow and a status.
const LEAST: usize = 16;

/// Largest distance between two columns, in characters.
const MOST: usize = 36;

impl Ladder {
    /// The ladder in lines of at most `width` characters. If the columns do not fit, each row shows its addresses instead.
    pub fn to_text(&self, width: usize, times: LadderTimes) -> String {
        let gaps = self.columns.len().saturating_sub(1).max(1);
        let widest = self.columns.iter().map(|name| name.chars().count().div_ceil(2)).max().unwrap_or(0);
        let room = width.saturating_sub(MARGIN + widest + 1) / gaps;
        if room < LEAST { self.to_list(width, times) } else { self.to_columns(width, room.min(MOST), times) }
    }

    fn to_columns(&self, width: usize, gap: usize, times: LadderTimes) -> String {
        let mut text = self.headings(gap);
        let mut before = None;
        for row in &self.rows {
            let line =
                format!("{:>4} {:>13}  {}", row.number, self.time(row, before, times), self.arrow(row, gap));
            before = Some(row.at_ns);
            let _ = writeln!(text, "{}", truncated(line.trim_end(), width));
        }
        self.footer(&mut text);
        text
    }

    /// Names centred above their columns, in as many lines as needed to avoid overlaps.
    fn headings(&self, gap: usize) -> String {
        let mut lines: Vec<String> = Vec::new();
        for (column, name) in self.columns.iter().enumerate() {
            let half = name.chars().count() / 2;
            let begins = (MARGIN + column * gap).saturating_sub(half);
            let fitting = lines.iter().position(|line| line.chars().count() < begins);
            let place = fitting.unwrap_or_else(|| {
                lines.push(String::new());
                lines.len() - 1
            });
            let line = &mut lines[place];
            let fill = begins - line.chars().count();
            line.extend(std::iter::repeat_n(' ', fill));
            line.push_str(name);
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn arrow(&self, row: &LadderRow, gap: usize) -> String {
        let mut cells: Vec<char> = vec![' '; gap * self.columns.len().saturating_sub(1) + 1];
        (0..self.columns.len()).for_each(|column| cells[column * gap] = '|');
        let (left, right) = (row.from.min(row.to) * gap, row.from.max(row.to) * gap);
        if left == right {
            // The sender and the receiver have the same address.
            let words = format!(" {} (to itself)", row.words());
            return cells.into_iter().collect::<String>() + &words;
        }
        cells[left + 1..right].fill('-');
        if row.from < row.to {
            cells[right - 1] = '>';
        } else {
            cells[left + 1] = '<';
        }
        let words = format!(" {} ", row.words());
        for (place, letter) in truncated(&words, right - left - 4).chars().enumerate() {
            cells[left + 3 + place] = letter;
        }
        cells.into_iter().collect()
    }

    fn to_list(&self, width: usize, times: LadderTimes) -> String {
        let mut text = String::new();
        let mut before = None;
        for row in &self.rows {
            let (from, to) = (&self.columns[row.from], &self.columns[row.to]);
            let time = self.time(row, before, times);
            let line = format!("{:>4} {time:>13}  {from} -> {to}  {}", row.number, row.words());
            before = Some(row.at_ns);
            let _ = writeln!(text, "{}", truncated(&line, width));
        }
        self.footer(&mut text);
        text
    }

    pub(super) fn time(&self, row: &LadderRow, before: Option<u64>, times: LadderTimes) -> String {
        let since = |from: u64| {
            let nanos = row.at_ns.saturating_sub(from);
            format!("{}.{:06} s", nanos / 1_000_000_000, nanos % 1_000_000_000 / 1000)
        };
        match times {
            LadderTimes::SinceFirst => since(self.rows.first().map_or(row.at_ns, |first| first.at_ns)),
            LadderTimes::SincePrevious => since(before.unwrap_or(row.at_ns)),
            LadderTimes::Absolute => {
                let (seconds, nanos) = (row.at_ns / 1_000_000_000 % 86_400, row.at_ns % 1_000_000_000);
                format!(
                    "{:02}:{:02}:{:02}.{:04}",
                    seconds / 3600,
                    seconds / 60 % 60,
                    seconds % 60,
                    nanos / 100_000
                )
            }
        }
    }

    fn footer(&self, text: &mut String) {
        if self.hidden > 0 {
            let _ = writeln!(text, "{}", self.hidden_words());
        }
    }

    /// The number of hidden messages, in words.
    pub(super) fn hidden_words(&self) -> String {
        format!("{} hidden", counted(self.hidden as u64, "message is", "messages are"))
    }
}

impl LadderRow {
    /// The label of a row with its marks: the method that a response answers, the body, the transaction, a retransmission.
    pub fn words(&self) -> String {
        let mut words = self.label.clone();
        if let Some(method) = &self.answers {
            let _ = write!(words, " ({method})");
        }
        if let Some(body) = &self.body {
            let short = if body == "application/sdp" { "SDP" } else { body };
            let _ = write!(words, " {short}");
        }
        let _ = write!(words, " #{}", self.transaction);
        if self.is_retransmission {
            words.push_str(" again");
        }
        words
    }
}
