//! Text for terminals: wraps lines, aligns tables, and writes names as words and bytes as hexadecimal digits.

use std::fmt::Write as _;

/// Wraps `text` to lines of at most `width` characters. Lines after the first are indented by `indent` spaces. Leading
/// spaces stay.
pub fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let start: String = text.chars().take_while(|c| *c == ' ').collect();
    let mut line = start;
    let mut fresh = true;
    for word in text.trim_start().split(' ') {
        let length = line.chars().count();
        if !fresh && length + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            fresh = true;
        }
        if !fresh {
            line.push(' ');
        }
        line.push_str(word);
        fresh = false;
    }
    lines.push(line);
    lines.iter().map(|line| truncated(line.trim_end(), width)).collect::<Vec<_>>().join("\n")
}

/// `line`, truncated to `width` characters with an ellipsis if it is longer.
pub fn truncated(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A name with spaces in place of its underscores: `answer signal` for `answer_signal`.
pub fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// Bytes as hexadecimal digits in lower case.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    push_hex(bytes, &mut out);
    out
}

/// Appends bytes as hexadecimal digits in lower case.
pub fn push_hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(2 * bytes.len());
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// A table as lines of text. Two spaces separate its columns.
pub struct AlignedTable {
    /// A letter for each column: `l` aligns it to the left, `r` to the right.
    alignment: String,
    has_headings: bool,
    rows: Vec<Vec<String>>,
}

impl AlignedTable {
    /// A table without rows. The first and the last column are aligned to the left, the others to the right.
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self::aligned(&format!("l{}l", "r".repeat(N - 2)), headings)
    }

    /// A table without rows, with a letter for the alignment of each column: `l` or `r`.
    pub fn aligned<const N: usize>(alignment: &str, headings: [&str; N]) -> Self {
        let mut table = Self { has_headings: true, ..Self::list(alignment) };
        table.row(headings.map(str::to_owned));
        table
    }

    /// A table without headings, with a letter for the alignment of each column.
    pub fn list(alignment: &str) -> Self {
        Self { alignment: alignment.to_owned(), has_headings: false, rows: Vec::new() }
    }

    /// Adds a row. A row of one cell is a line of text within the table, of any width.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Appends the table to `text`, after an empty line if it has headings. A table without rows appends nothing.
    pub fn write(&self, text: &mut String) {
        if self.has_headings {
            if self.rows.len() < 2 {
                return;
            }
            text.push('\n');
        }
        let mut widths = vec![0; self.alignment.len()];
        for row in self.rows.iter().filter(|row| row.len() > 1) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), alignment) in row.iter().zip(&widths).zip(self.alignment.chars()) {
                let fill = " ".repeat(width.saturating_sub(cell.chars().count()));
                let [before, behind] = if alignment == 'l' { ["", &fill] } else { [fill.as_str(), ""] };
                let _ = write!(line, "{before}{cell}{behind}  ");
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_within_a_table_have_any_width() {
        let mut table = AlignedTable::aligned("rll", ["n", "size", "why"]);
        for row in [&["12", "1 µs", "short"][..], &["a line of text"], &["3", "20 ms", ""]] {
            table.row(row.iter().map(|cell| (*cell).to_owned()));
        }
        let mut text = String::new();
        table.write(&mut text);
        AlignedTable::new(["a", "b"]).write(&mut text);
        assert_eq!(text, "\n n  size   why\n12  1 µs   short\na line of text\n 3  20 ms\n");
    }
}
