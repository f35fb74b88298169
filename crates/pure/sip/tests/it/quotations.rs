//! Each text in quotation marks in a comment is a literal quotation of an RFC. `quotations.txt` has the quoted sentences with
//! their sections.
#![allow(clippy::unwrap_used, reason = "what cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "a test of the source reads it")]

use std::fs;
use std::path::{Path, PathBuf};

/// Fewer words are a term, not a quotation.
const LEAST_WORDS: usize = 4;
/// Most quotation marks within a quoted sentence.
const MOST_MARKS: usize = 9;

/// A text in lower case, without quotation marks and line ends.
fn plain(text: &str) -> String {
    let text = text.replace('"', "").to_lowercase();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The parts of a quotation between omissions (`...`) and insertions (`[...]`).
fn parts(quotation: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for piece in quotation.replace("[...]", "...").split("...") {
        let mut rest = piece;
        while let Some((before, inserted)) = rest.split_once('[') {
            parts.push(plain(before));
            rest = inserted.split_once(']').map_or(inserted, |(_, after)| after);
        }
        parts.push(plain(rest));
    }
    let mut parts: Vec<_> = parts.iter().map(|part| part.trim_end_matches('.').to_owned()).collect();
    parts.retain(|part| !part.is_empty());
    parts
}

/// Whether a sentence has the parts in this order.
fn says(sentence: &str, parts: &[String]) -> bool {
    let mut rest = sentence;
    parts.iter().all(|part| match rest.split_once(part.as_str()) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

/// The comments of a file with their first lines. Consecutive lines are one text. Quotation marks within backticks, which are
/// code, are removed.
fn comments(source: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut last = "";
    for (number, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let kind = ["///", "//!", "//"].into_iter().find(|kind| line.starts_with(kind)).unwrap_or_default();
        match found.last_mut().filter(|_| kind == last && !kind.is_empty()) {
            Some((_, text)) => *text = format!("{text} {}", line[kind.len()..].trim()),
            None if !kind.is_empty() => found.push((number + 1, line[kind.len()..].trim().to_owned())),
            None => {}
        }
        last = kind;
    }
    for (_, text) in &mut found {
        let pieces = text.split('`').enumerate();
        let pieces =
            pieces.map(|(n, piece)| if n % 2 == 1 { piece.replace('"', "'") } else { piece.to_owned() });
        *text = pieces.collect::<Vec<_>>().join("`");
    }
    found
}

/// Quotations of a comment that are not part of any of the sentences.
fn unknown<'a>(comment: &'a str, sentences: &[String]) -> Vec<&'a str> {
    let marks: Vec<usize> = comment.match_indices('"').map(|(at, _)| at).collect();
    let opens = |at: usize| {
        let before = comment[..at].chars().next_back().is_none_or(|before| " (".contains(before));
        before && comment[at + 1..].chars().next().is_some_and(|after| after != ' ')
    };
    let closes = |at: usize| {
        !comment[..at].ends_with(' ') && !comment[at + 1..].starts_with(|after: char| after.is_alphanumeric())
    };
    let mut unknown = Vec::new();
    let mut next = 0;
    while let Some(&open) = marks.get(next) {
        let ends = marks.len().min(next + 1 + MOST_MARKS);
        let quoted = |end: &usize| &comment[open + 1..marks[*end]];
        let known = (next + 1..ends).rev().find(|end| {
            let parts = parts(quoted(end));
            let is_one = opens(open) && closes(marks[*end]) && !parts.is_empty();
            is_one && sentences.iter().any(|sentence| says(sentence, &parts))
        });
        let end = known.unwrap_or(next + 1);
        // A single last mark begins no quotation.
        if known.is_none() && end < marks.len() && quoted(&end).split_whitespace().count() >= LEAST_WORDS {
            unknown.push(quoted(&end));
        }
        next = end + 1;
    }
    unknown
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn each_quotation_is_what_the_rfc_says() {
    let sentences: Vec<String> = include_str!("quotations.txt")
        .lines()
        .map(|line| plain(line.split_once(": ").expect("RFC, section: sentence").1))
        .collect();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    for folder in ["src", "tests", "../../real/sip-net/src"] {
        for path in sources(&here.join(folder)) {
            for (line, comment) in comments(&fs::read_to_string(&path).unwrap()) {
                for quotation in unknown(&comment, &sentences) {
                    wrong.push(format!("{}:{line}: \"{quotation}\"", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "not as it stands in quotations.txt:\n{}", wrong.join("\n"));
}

#[test]
fn what_is_changed_is_noticed() {
    let sentences = [plain("The \"A\" field MUST be present in all requests, and MAY be empty.")];
    for right in [
        "Says \"The \"A\" field MUST be present in all requests\" (RFC 1).",
        "\"The ... field MUST be [...] empty.\"",
        "Of `\"no quotation at all here\"` and \"a term\".",
    ] {
        let comment = &comments(&format!("// {right}"))[0].1;
        assert_eq!(unknown(comment, &sentences), [""; 0], "{right}");
    }
    for wrong in
        ["\"the field must be present in requests\"", "\"and MAY be empty ... present in all requests\""]
    {
        assert_eq!(unknown(wrong, &sentences).len(), 1, "{wrong}");
    }
}
