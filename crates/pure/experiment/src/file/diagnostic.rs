//! Diagnostics: faults of a file with their positions and the expected values.

use std::collections::BTreeSet;
use std::ops::Range;

/// A range of bytes in a file's text.
pub type Span = Range<usize>;

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but its results may not mean what its author expects.
    Warning,
}

/// A fault of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Severity of the fault.
    pub severity: Severity,
    /// The fault, as a sentence without full stop.
    pub message: String,
    /// Position of the fault.
    pub span: Span,
    /// Line of the start of `span`, from 1.
    pub line: usize,
    /// Column of the start of `span` in characters, from 1.
    pub column: usize,
    /// The values that are allowed at this position.
    pub expected: Option<String>,
    /// A suggestion or a remedy.
    pub help: Option<String>,
    /// Explanations, and related positions.
    pub notes: Vec<Note>,
}

/// An explanation of a [`Diagnostic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// A sentence without full stop.
    pub message: String,
    /// The position that it refers to, if there is one.
    pub span: Option<Span>,
}

impl Diagnostic {
    fn new(severity: Severity, span: Span, message: String) -> Self {
        // `Diagnostics::new`, which has the text, sets line and column.
        Self { severity, message, span, line: 1, column: 1, expected: None, help: None, notes: Vec::new() }
    }

    pub(crate) fn error(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, span, message.into())
    }

    pub(crate) fn warning(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, span, message.into())
    }

    pub(crate) fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn note(mut self, message: impl Into<String>) -> Self {
        self.notes.push(Note { message: message.into(), span: None });
        self
    }

    pub(crate) fn note_at(mut self, span: Span, message: impl Into<String>) -> Self {
        self.notes.push(Note { message: message.into(), span: Some(span) });
        self
    }

    /// Suggests the known name that `given` probably means. Adds the list of known names if it is short, or if no name
    /// is similar.
    pub(crate) fn among<'a>(mut self, given: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        const FEW: usize = 12;
        const MANY: usize = 24;
        const NEAREST: usize = 4;
        let known: Vec<&str> = known.into_iter().collect();
        let meant = closest(given, &known);
        self.help = meant.map(|meant| format!("did you mean `{meant}`?"));
        self.expected = match known.len() {
            2..=FEW => list(&known),
            _ if meant.is_some() => None,
            ..=MANY => list(&known),
            _ => {
                let mut nearest: Vec<(f64, &str)> =
                    known.iter().map(|name| (similarity(given, name), *name)).collect();
                nearest.sort_by(|(a, _), (b, _)| b.total_cmp(a));
                let nearest: Vec<&str> = nearest.iter().take(NEAREST).map(|(_, name)| *name).collect();
                list(&nearest).map(|names| format!("{names}, or another of those that there are"))
            }
        };
        self
    }
}

/// Line and column (in characters) of a byte of `text`, both from 1. A byte beyond the end counts as the end, and a
/// byte within a character as the start of that character.
pub(crate) fn position(text: &str, byte: usize) -> (usize, usize) {
    let byte = text.floor_char_boundary(byte);
    let before = &text[..byte];
    let line = 1 + before.bytes().filter(|b| *b == b'\n').count();
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, 1 + before[start..].chars().count())
}

/// Similarity of two names, from 0 to 1. Letter case and the separators between words make no difference.
fn similarity(a: &str, b: &str) -> f64 {
    strsim::jaro_winkler(&plain(a), &plain(b))
}

fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', ' '], "-")
}

/// The known name of which `given` is most likely a misspelling. `None` if no name is similar.
pub(crate) fn closest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let likeness = known.iter().map(|name| (similarity(given, name), *name));
    let (likeness, best) = likeness.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    // One edit, such as two exchanged letters, is a misspelling too, although it reduces the similarity of a short word
    // below the limit.
    let slip = given.len() > 2 && strsim::damerau_levenshtein(&plain(given), &plain(best)) == 1;
    (slip || likeness > 0.8).then_some(best)
}

/// `one of a, b, c`: the list of expected names. `None` if there are no names.
pub(crate) fn list(known: &[&str]) -> Option<String> {
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        _ => Some(format!("one of {}", names.join(", "))),
    }
}

/// The diagnostics of a file, in the order of its lines. `Display` writes the text for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    pub(super) file: String,
    pub(super) text: String,
    pub(super) all: Vec<Diagnostic>,
    pub(super) left_out: usize,
}

impl Diagnostics {
    /// Greatest number of diagnostics that are kept.
    pub const SHOWN: usize = 20;

    /// Sorts `all`, removes duplicates, and computes lines and columns from `text`, the text of `file`.
    pub(crate) fn new(file: &str, text: &str, mut all: Vec<Diagnostic>) -> Self {
        // The same fault may occur at many points.
        let mut seen = BTreeSet::new();
        all.retain(|one| seen.insert((one.span.start, one.span.end, one.message.clone())));
        all.sort_by_key(|one| (one.severity, one.span.start));
        let left_out = all.len().saturating_sub(Self::SHOWN);
        all.truncate(Self::SHOWN);
        for diagnostic in &mut all {
            (diagnostic.line, diagnostic.column) = position(text, diagnostic.span.start);
        }
        Self { file: file.to_owned(), text: text.to_owned(), all, left_out }
    }

    /// The first [`Diagnostics::SHOWN`] diagnostics: errors before warnings, each in the order of the file.
    pub fn all(&self) -> &[Diagnostic] {
        &self.all
    }

    /// Whether there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl std::error::Error for Diagnostics {}
