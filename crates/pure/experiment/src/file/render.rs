//! Writes diagnostics as text, with the line of the file and carets under the fault.

use std::fmt::{self, Formatter};

use super::diagnostic::{Diagnostic, Diagnostics, Severity, Span, position};

/// Greatest number of columns of a shown line. Longer lines are clipped around the caret.
const WIDTH: usize = 110;

/// Columns that stay visible left of the caret in a clipped line.
const LEAD: usize = 40;

/// Greatest number of characters of a shown message, which may quote the file.
const LONGEST: usize = 1000;

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (n, diagnostic) in self.all.iter().enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            render(f, &self.file, &self.text, diagnostic)?;
        }
        if self.left_out > 0 {
            writeln!(f, "\n... and {} more", self.left_out)?;
        }
        Ok(())
    }
}

/// Writes one diagnostic with the lines of the file to which it refers.
fn render(f: &mut Formatter<'_>, file: &str, text: &str, diagnostic: &Diagnostic) -> fmt::Result {
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    writeln!(f, "{severity}: {}", printable(&diagnostic.message))?;
    excerpt(f, file, text, &diagnostic.span, diagnostic.help.as_deref().unwrap_or_default())?;
    let gutter = gutter(diagnostic.line);
    if let Some(expected) = &diagnostic.expected {
        writeln!(f, "{gutter} = expected: {}", printable(expected))?;
    }
    for note in &diagnostic.notes {
        match &note.span {
            None => writeln!(f, "{gutter} = note: {}", printable(&note.message))?,
            Some(span) => {
                writeln!(f, "note: {}", printable(&note.message))?;
                excerpt(f, file, text, span, "")?;
            }
        }
    }
    Ok(())
}

fn gutter(line: usize) -> String {
    " ".repeat(line.to_string().len())
}

/// Writes the position of `span`, its first line, and carets below it with `label` beside them.
fn excerpt(f: &mut Formatter<'_>, file: &str, text: &str, span: &Span, label: &str) -> fmt::Result {
    let (line, column) = position(text, span.start);
    let gutter = gutter(line);
    writeln!(f, "{gutter}--> {}:{line}:{column}", printable(file))?;
    let source = text.split('\n').nth(line - 1).unwrap_or_default();
    let source = source.strip_suffix('\r').unwrap_or(source);
    // A fault of the whole file has no line to show.
    if *span == (0..0) || source.is_empty() && label.is_empty() {
        return Ok(());
    }
    // The part of the span in this line, at least one character.
    let chars = source.chars().count();
    let first = (column - 1).min(chars);
    let end = if span.end > span.start { position(text, span.end) } else { (line, column) };
    let last = if end.0 > line { chars } else { (end.1 - 1).min(chars) };
    let (shown, before, marked) = clip(source, first, last.max(first));
    writeln!(f, "{gutter} |")?;
    writeln!(f, "{line} | {shown}")?;
    let caret = format!("{}{} {label}", " ".repeat(before), "^".repeat(marked.max(1)));
    writeln!(f, "{gutter} | {}", printable(caret.trim_end()))
}

/// The shown part of a line, the number of columns before the characters `first..last`, and the number of
/// columns under them.
fn clip(source: &str, first: usize, last: usize) -> (String, usize, usize) {
    let mut before = 0;
    let mut marked = 0;
    let mut total = 0;
    let mut glyphs = Vec::new();
    for (n, c) in source.chars().enumerate() {
        let (c, width) = glyph(c);
        before += if n < first { width } else { 0 };
        marked += if (first..last).contains(&n) { width } else { 0 };
        total += width;
        glyphs.push((c, width));
    }
    if total <= WIDTH {
        return (glyphs.iter().map(|(c, _)| *c).collect(), before, marked);
    }
    let cut = before.saturating_sub(LEAD);
    let (mut shown, mut column, mut skipped) = (String::new(), 0, 0);
    for (c, width) in glyphs {
        if column < cut {
            skipped += width;
        } else if column < cut + WIDTH {
            shown.push(c);
        }
        column += width;
    }
    let room = WIDTH.saturating_sub(before - skipped.min(before)).max(1);
    let tail = if column > cut + WIDTH { "…" } else { "" };
    if skipped > 0 {
        (format!("…{shown}{tail}"), before - skipped + 1, marked.min(room))
    } else {
        (format!("{shown}{tail}"), before, marked.min(room))
    }
}

/// The glyph of a character, and its width in terminal columns. Control characters are replaced, because a file
/// must not control the reader's terminal.
fn glyph(c: char) -> (char, usize) {
    match c {
        '\t' => (' ', 1),
        c if c.is_control() => ('\u{fffd}', 1),
        // Hangul, Han, kana, full-width forms and pictographs (Unicode UAX 11, wide).
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => (c, 2),
        c => (c, 1),
    }
}

/// The text without control characters, truncated to [`LONGEST`] characters.
fn printable(text: &str) -> String {
    let rest = if text.chars().nth(LONGEST).is_some() { "…" } else { "" };
    text.chars().take(LONGEST).map(|c| glyph(c).0).chain(rest.chars()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::file::diagnostic::Diagnostics;

    fn rendered(text: &str, span: Span) -> String {
        Diagnostics::new("f", text, vec![Diagnostic::error(span, "m")]).to_string()
    }

    /// The part of the printed line that is above the carets.
    fn marked(rendered: &str) -> String {
        let lines: Vec<&str> = rendered.lines().collect();
        let [.., source, carets] = lines.as_slice() else { panic!("{rendered}") };
        // Counts columns, because a wide character takes two.
        let columns: Vec<char> = source.chars().flat_map(|c| std::iter::repeat_n(c, glyph(c).1)).collect();
        let carets: Vec<char> = carets.chars().collect();
        let under: Vec<char> =
            (0..columns.len()).filter(|n| carets.get(*n) == Some(&'^')).map(|n| columns[n]).collect();
        under.into_iter().collect()
    }

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let text = "a\nb\u{e9}c\n\n";
        assert_eq!(position(text, 0), (1, 1));
        assert_eq!(position(text, 2), (2, 1));
        assert_eq!(position(text, 5), (2, 3));
        assert_eq!(position(text, 4), (2, 2), "within a character");
        assert_eq!(position(text, 99), (4, 1), "beyond the end");
    }

    #[test]
    fn carets_stand_under_what_is_meant() {
        assert_eq!(marked(&rendered("x = 5\n", 4..5)), "5");
        assert_eq!(
            marked(&rendered("질문 = \"왜\" # 5\n", 9..14)),
            "\"왜왜\"",
            "wide characters take two columns"
        );
        assert_eq!(marked(&rendered("\tx = 5", 1..2)), "x", "a tab is shown as one space");
        assert_eq!(marked(&rendered("a = [1,\n 2]", 4..11)), "[1,", "the rest of a span of several lines");
    }

    #[test]
    fn a_long_line_is_clipped_around_the_carets() {
        let text = format!("{} = 1 # {}", "k".repeat(300), "c".repeat(300));
        let rendered = rendered(&text, 303..304);
        assert_eq!(marked(&rendered), "1");
        assert!(rendered.lines().all(|line| line.chars().count() < WIDTH + 10), "{rendered}");
        assert!(rendered.contains("--> f:1:304"));
    }

    proptest! {
        #[test]
        fn any_span_of_any_text_is_shown(text in "(.|\n|\r){0,300}", start in 0..400usize, length in 0..400usize) {
            let rendered = rendered(&text, start..start + length);
            prop_assert!(rendered.starts_with("error: m\n"));
            // The text must not contain control characters.
            prop_assert!(rendered.chars().all(|c| c == '\n' || !c.is_control()));
        }
    }
}
