//! The pages of `docs/requirements` name tests that exist, or state why there is none.

use std::collections::BTreeMap;
use std::path::Path;

use super::test_names::test_names;

/// The words that may replace a test, followed by a reason.
const WORDS: [&str; 7] =
    ["By construction", "Not a rule", "Not met", "Not modelled", "Not used", "Replaced", "Untested"];

/// A line of a table.
struct RequirementLine<'a> {
    section: &'a str,
    number: &'a str,
    requirement: &'a str,
    shown: &'a str,
}

/// The lines of a page's table. A line that does not have four cells is added to `faults`.
fn lines<'a>(page: &'a str, faults: &mut Vec<String>) -> Vec<RequirementLine<'a>> {
    let mut found = Vec::new();
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        match cells[..] {
            ["§" | "---", ..] => {}
            [section, number, requirement, shown] => {
                found.push(RequirementLine { section, number, requirement, shown });
            }
            _ => faults.push(format!("not four cells: {line}")),
        }
    }
    found
}

/// The first and the last number of a text such as `1` or `2–4`.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once('–').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

/// The parts of the text between back-ticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The errors of a page, as sentences.
fn faults_of(page: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    let lines = lines(page, &mut faults);
    if lines.is_empty() {
        faults.push("no table".to_owned());
    }
    let mut last: BTreeMap<&str, u32> = BTreeMap::new();
    for RequirementLine { section, number, requirement, shown } in lines {
        let place = format!("section {section}, {number}");
        let is_label = number.split_once('-').is_some_and(|(word, n)| {
            ["MUST", "SHLD", "MAY", "REC"].contains(&word) && n.parse::<u32>().is_ok()
        });
        match numbers(number) {
            _ if is_label => {}
            Some((from, to)) => {
                let before = last.insert(section, to).unwrap_or(0);
                if from != before + 1 {
                    faults.push(format!("{place}: number {} is next", before + 1));
                }
            }
            None => faults.push(format!("{place}: not a number")),
        }
        if section.is_empty() || requirement.is_empty() {
            faults.push(format!("{place}: an empty cell"));
        }
        if shown.starts_with('`') {
            let unknown = quoted(shown).filter(|name| !exists(name));
            faults.extend(unknown.map(|name| format!("{place}: there is no test `{name}`")));
        } else {
            let word = WORDS.iter().find(|word| shown.starts_with(**word));
            let has_reason = word.is_some_and(|word| {
                *word == "Not a rule"
                    || shown[word.len()..].strip_prefix(": ").is_some_and(|why| !why.is_empty())
            });
            if !has_reason {
                faults.push(format!("{place}: neither a test nor a reason: {shown}"));
            }
        }
    }
    faults
}

#[test]
fn each_requirement_names_what_shows_it() {
    let names = test_names();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/requirements");
    let mut pages = 0;
    let mut faults = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of requirements").flatten() {
        let name = entry.file_name().into_string().expect("a name in Unicode");
        if name.starts_with("rfc") {
            pages += 1;
            let page = std::fs::read_to_string(entry.path()).expect("a page is text");
            let found = faults_of(&page, |test| names.contains_key(test));
            faults.extend(found.into_iter().map(|fault| format!("{name}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert_eq!(pages, 10, "an RFC has lost its page, or has got one");
}

#[test]
fn a_page_of_requirements_with_faults_is_found_out() {
    let page = "| § | n | requirement | shown by |\n|---|---|---|---|\n\
                | 1 | 1 | a | `known` |\n\
                | 1 | 2–3 | b | `unknown`, `known` |\n\
                | 1 | 5 | c | Not met: it does not |\n\
                | 1 | 6 |  | Not met |\n\
                | 2 | MUST-1 | d | perhaps |\n\
                | 2 | e | `known` |\n";
    let faults = faults_of(page, |test| test == "known");
    let expected = [
        "not four cells: | 2 | e | `known` |",
        "section 1, 2–3: there is no test `unknown`",
        "section 1, 5: number 4 is next",
        "section 1, 6: an empty cell",
        "section 1, 6: neither a test nor a reason: Not met",
        "section 2, MUST-1: neither a test nor a reason: perhaps",
    ];
    assert_eq!(faults, expected);
}
