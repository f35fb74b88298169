//! Diagnostics as text: the line of the file with a caret under what is meant.

use std::fmt::{self, Formatter};

use super::diagnostic::{Diagnostic, Severity, Span};

/// Columns of a line that are shown; longer ones are clipped around the caret.
const WIDTH: usize = 110;

/// Columns that stay visible left of the caret in a clipped line.
const LEAD: usize = 40;

/// Line and column (in characters) of a byte of `text`, both from 1. A byte beyond the end is at the end; one
/// within a character is at the character.
pub(crate) fn position(text: &str, byte: usize) -> (usize, usize) {
    let byte = text.floor_char_boundary(byte);
    let before = &text[..byte];
    let line = 1 + before.bytes().filter(|b| *b == b'\n').count();
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, 1 + before[start..].chars().count())
}

/// Writes one diagnostic with its lines of the file.
pub(crate) fn render(f: &mut Formatter<'_>, file: &str, text: &str, diagnostic: &Diagnostic) -> fmt::Result {
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

/// Writes where `span` is, its first line, and carets below it with `label` beside them.
fn excerpt(f: &mut Formatter<'_>, file: &str, text: &str, span: &Span, label: &str) -> fmt::Result {
    let (line, column) = position(text, span.start);
    let gutter = gutter(line);
    writeln!(f, "{gutter}--> {}:{line}:{column}", printable(file))?;
    let source = text.split('\n').nth(line - 1).unwrap_or_default();
    let source = source.strip_suffix('\r').unwrap_or(source);
    // The file as a whole has no line to show.
    if *span == (0..0) || source.is_empty() && label.is_empty() {
        return Ok(());
    }
    // What of the span lies in this line, at least one character.
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

/// The part of a line that is shown, and how many columns stand before the characters `first..last` and under
/// them.
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

/// What is shown for a character, and how many columns of a terminal it takes. Control characters are not
/// shown: a file must not steer the terminal of who reads its errors.
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

/// The text without control characters.
fn printable(text: &str) -> String {
    text.chars().map(|c| glyph(c).0).collect()
}
