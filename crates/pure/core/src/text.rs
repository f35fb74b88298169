//! Text for terminals: lines of a width, and tables.

use std::fmt::Write as _;

/// `text` in lines of at most `width` characters, all but the first indented. Spaces at its start stay.
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
    line.chars().take(width - 1).chain(['…']).collect()
}

/// A table as lines of text. The first and the last column are aligned to the left, the others to the right.
pub struct AlignedTable {
    rows: Vec<Vec<String>>,
}

impl AlignedTable {
    /// A table without rows.
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.map(str::to_owned).to_vec()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Appends an empty line and the table to `text`; nothing if the table has no rows.
    pub fn write(&self, text: &mut String) {
        if self.rows.len() < 2 {
            return;
        }
        text.push('\n');
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.rows {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let fill = " ".repeat(widths[column] - cell.chars().count());
                let is_left = column == 0 || column + 1 == row.len();
                let _ = if is_left { write!(line, "{cell}{fill}  ") } else { write!(line, "{fill}{cell}  ") };
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
}
