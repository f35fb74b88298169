//! Reads XML like SIPp 3.6, which accepts more than XML allows. Each such deviation gives a warning.

use std::cell::Cell;
use std::ops::Range;

/// Deepest nesting of elements.
const DEEPEST: usize = 64;

/// An element of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaxElement {
    /// Its name.
    pub name: String,
    /// The line of its start tag, from 1.
    pub line: usize,
    /// Its attributes in order. If two have the same name, only the first is stored.
    pub attributes: Vec<LaxAttribute>,
    /// Its child elements.
    pub children: Vec<LaxElement>,
    /// Its first CDATA section.
    pub data: Option<LaxData>,
}

/// An attribute of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaxAttribute {
    /// Its name.
    pub name: String,
    /// Its value, with backslash escapes and entities decoded.
    pub value: String,
    /// Its line, from 1.
    pub line: usize,
}

/// A CDATA section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaxData {
    /// Its contents.
    pub text: String,
    /// Its first line, from 1.
    pub line: usize,
}

/// A warning about text that is accepted although it is wrong, or that has less effect than it seems to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioWarning {
    /// Line, from 1.
    pub line: usize,
    /// The warning, in words.
    pub what: String,
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct LaxXmlError {
    /// Line, from 1.
    pub line: usize,
    /// The error, in words.
    pub what: String,
}

impl LaxElement {
    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&LaxAttribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }
}

/// Reads a file: its root element, and the warnings ordered by line.
///
/// # Errors
/// If it does not begin with an XML declaration, has no element, or a comment, tag or CDATA section does not end.
pub fn read_lax_xml(text: &str) -> Result<(LaxElement, Vec<ScenarioWarning>), LaxXmlError> {
    let mut reader = LaxReader { text, at: 0, known: Cell::new((0, 1)), warnings: Vec::new() };
    reader.prolog()?;
    let mut root = None;
    while let Some(found) = reader.next_markup()? {
        match found {
            LaxMarkup::Start { element, is_empty } if root.is_none() => {
                root = Some(if is_empty { element } else { reader.inside(element, 0)? });
            }
            LaxMarkup::Start { element, .. } => {
                let what = format!("<{}> follows the end of the scenario", element.name);
                return Err(LaxXmlError { line: element.line, what });
            }
            LaxMarkup::End { name, line } => reader.warn(line, format!("</{name}> ends nothing")),
            LaxMarkup::Data(data) => reader.warn(data.line, "a CDATA section outside of elements is ignored"),
        }
    }
    let mut warnings = reader.warnings;
    warnings.sort_by_key(|warning| warning.line);
    let root = root.ok_or(LaxXmlError { line: 1, what: "expected an element".to_owned() })?;
    Ok((root, warnings))
}

enum LaxMarkup {
    Start { element: LaxElement, is_empty: bool },
    End { name: String, line: usize },
    Data(LaxData),
}

struct LaxReader<'a> {
    text: &'a str,
    /// Byte offset of the next character to read.
    at: usize,
    /// A byte offset and its line number, to count lines from there.
    known: Cell<(usize, usize)>,
    warnings: Vec<ScenarioWarning>,
}

impl<'a> LaxReader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn line(&self) -> usize {
        self.line_of(self.at)
    }

    fn line_of(&self, at: usize) -> usize {
        // Lines are counted from the last known position.
        let (from, line) = if self.known.get().0 <= at { self.known.get() } else { (0, 1) };
        let line = line + self.text[from..at].matches('\n').count();
        self.known.set((at, line));
        line
    }

    fn warn(&mut self, line: usize, what: impl Into<String>) {
        self.warnings.push(ScenarioWarning { line, what: what.into() });
    }

    fn error<T>(&self, at: usize, what: impl Into<String>) -> Result<T, LaxXmlError> {
        Err(LaxXmlError { line: self.line_of(at), what: what.into() })
    }

    /// Returns the text before `end`, and skips both.
    fn until(&mut self, end: &str, what: &str) -> Result<&'a str, LaxXmlError> {
        let rest = self.rest();
        match rest.find(end) {
            Some(place) => {
                self.at += place + end.len();
                Ok(&rest[..place])
            }
            None => self.error(self.at, format!("{what} does not end: expected {end}")),
        }
    }

    fn prolog(&mut self) -> Result<(), LaxXmlError> {
        if self.rest().starts_with('\u{feff}') {
            self.warn(1, "the byte order mark is ignored; SIPp refuses it");
            self.at += '\u{feff}'.len_utf8();
        }
        if !self.rest().starts_with("<?xml") {
            return self.error(0, "expected <?xml at the very start");
        }
        self.until("?>", "the XML declaration").map(drop)
    }

    /// The next tag or CDATA section. Text between tags, comments, declarations and processing instructions are skipped.
    fn next_markup(&mut self) -> Result<Option<LaxMarkup>, LaxXmlError> {
        loop {
            let Some(place) = self.rest().find('<') else { return Ok(None) };
            self.at += place;
            let rest = self.rest();
            if rest.starts_with("<!--") {
                self.until("-->", "a comment")?;
            } else if rest.starts_with("<![CDATA[") {
                let line = self.line();
                self.at += "<![CDATA[".len();
                let text = self.until("]]>", "a CDATA section")?.replace('\r', "");
                return Ok(Some(LaxMarkup::Data(LaxData { text, line })));
            } else if rest.starts_with("<!") || rest.starts_with("<?") {
                self.until(">", "a declaration")?;
            } else if rest.starts_with("</") {
                return self.end_tag().map(Some);
            } else if rest[1..].starts_with(is_name_start) {
                return self.start_tag();
            } else {
                self.warn(self.line(), "a < that begins no tag is ignored");
                self.at += 1;
            }
        }
    }

    /// Reads the contents of an element, up to its end tag.
    fn inside(&mut self, mut element: LaxElement, depth: usize) -> Result<LaxElement, LaxXmlError> {
        if depth > DEEPEST {
            return self.error(self.at, format!("more than {DEEPEST} elements are nested"));
        }
        loop {
            match self.next_markup()? {
                None => {
                    let what = format!("the file ends before </{}>", element.name);
                    self.warn(self.line(), what);
                    return Ok(element);
                }
                Some(LaxMarkup::End { name, .. }) if name == element.name => return Ok(element),
                Some(LaxMarkup::End { name, line }) => {
                    let what = format!("</{name}> ends <{}> of line {}", element.name, element.line);
                    return Err(LaxXmlError { line, what });
                }
                Some(LaxMarkup::Data(data)) if element.data.is_none() => element.data = Some(data),
                Some(LaxMarkup::Data(data)) => self.warn(data.line, "a second CDATA section is ignored"),
                Some(LaxMarkup::Start { element: child, is_empty: true }) => element.children.push(child),
                Some(LaxMarkup::Start { element: child, is_empty: false }) => {
                    let child = self.inside(child, depth + 1)?;
                    element.children.push(child);
                }
            }
        }
    }

    fn end_tag(&mut self) -> Result<LaxMarkup, LaxXmlError> {
        let line = self.line();
        self.at += 2;
        let name = self.until(">", "an end tag")?.trim().to_owned();
        Ok(LaxMarkup::End { name, line })
    }

    fn name(&mut self) -> String {
        let rest = self.rest();
        let end = rest.find(|letter: char| !is_name_letter(letter)).unwrap_or(rest.len());
        self.at += end;
        rest[..end].to_owned()
    }

    fn skip_white_space(&mut self) -> bool {
        let rest = self.rest();
        let skipped = rest.len() - rest.trim_start().len();
        self.at += skipped;
        skipped > 0
    }

    /// Reads a start tag. If another tag begins within it, returns `None`, and the rest of the file is ignored.
    fn start_tag(&mut self) -> Result<Option<LaxMarkup>, LaxXmlError> {
        let began = self.at;
        let mut element = LaxElement { line: self.line(), ..LaxElement::default() };
        self.at += 1;
        element.name = self.name();
        loop {
            let has_space = self.skip_white_space();
            let rest = self.rest();
            if rest.starts_with("<!--") {
                self.warn(self.line(), "a comment within a tag");
                self.until("-->", "a comment")?;
            } else if rest.starts_with("/>") {
                self.at += 2;
                return Ok(Some(LaxMarkup::Start { element, is_empty: true }));
            } else if rest.starts_with('>') {
                self.at += 1;
                return Ok(Some(LaxMarkup::Start { element, is_empty: false }));
            } else if rest.starts_with('<') {
                let what =
                    format!("a tag begins within <{}>: as in SIPp the file is read up to here", element.name);
                self.warn(self.line_of(began), what);
                self.at = self.text.len();
                return Ok(None);
            } else if rest.is_empty() {
                return self.error(began, format!("<{} does not end: expected >", element.name));
            } else if rest.starts_with(is_name_start) {
                self.attribute(&mut element, has_space)?;
            } else {
                let letter = rest.chars().next().unwrap_or_default();
                self.warn(self.line(), format!("`{letter}` within <{}> is ignored", element.name));
                self.at += letter.len_utf8();
            }
        }
    }

    fn attribute(&mut self, element: &mut LaxElement, has_space: bool) -> Result<(), LaxXmlError> {
        let line = self.line();
        let name = self.name();
        self.skip_white_space();
        if !self.rest().starts_with('=') {
            self.warn(line, format!("`{name}` within <{}> has no value, and is ignored", element.name));
            return Ok(());
        }
        self.at += 1;
        self.skip_white_space();
        let quote = match self.rest().chars().next() {
            Some(quote @ ('"' | '\'')) => quote,
            _ => return self.error(self.at, format!("expected a value in quotation marks after {name}=")),
        };
        self.at += 1;
        let raw = self.raw_value(quote, &name)?;
        let value = self.unescaped(raw, &name);
        if element.attribute(&name).is_some() {
            self.warn(line, format!("<{}> has {name} twice: the first counts", element.name));
        } else if !has_space {
            self.warn(line, format!("white space is missing before {name}, so SIPp ignores it"));
        } else {
            element.attributes.push(LaxAttribute { name, value, line });
        }
        Ok(())
    }

    /// The position of a value, up to the next quotation mark that has no backslash before it.
    fn raw_value(&mut self, quote: char, name: &str) -> Result<Range<usize>, LaxXmlError> {
        let began = self.at;
        let mut letters = self.rest().char_indices();
        while let Some((place, letter)) = letters.next() {
            match letter {
                '\\' => _ = letters.next(),
                letter if letter == quote => {
                    self.at = began + place + 1;
                    return Ok(began..began + place);
                }
                _ => {}
            }
        }
        self.error(began, format!("the value of {name} does not end: expected {quote}"))
    }

    fn unescaped(&mut self, raw: Range<usize>, name: &str) -> String {
        let (line, raw) = (self.line_of(raw.start), &self.text[raw]);
        if raw.contains('<') {
            self.warn(line, format!("a < in the value of {name}"));
        }
        let mut value = String::with_capacity(raw.len());
        let mut rest = raw;
        while let Some(letter) = rest.chars().next() {
            let (taken, length) = match letter {
                '\\' => self.escape(rest, line, name),
                '&' => self.entity(rest, line, name),
                '\r' => (None, 1),
                letter => (Some(letter), letter.len_utf8()),
            };
            value.extend(taken);
            rest = &rest[length..];
        }
        value
    }

    /// The character of a backslash escape as in SIPp, and the number of bytes of the escape.
    fn escape(&mut self, rest: &str, line: usize, name: &str) -> (Option<char>, usize) {
        let taken = match rest[1..].chars().next() {
            Some('"') => '"',
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('\\') => '\\',
            // Other backslashes are kept: they belong to regular expressions.
            _ => return (Some('\\'), 1),
        };
        if taken == '"' {
            self.warn(line, format!("\\\" in the value of {name}"));
        }
        (Some(taken), 2)
    }

    fn entity(&mut self, rest: &str, line: usize, name: &str) -> (Option<char>, usize) {
        for (entity, letter) in
            [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&apos;", '\'')]
        {
            if rest.starts_with(entity) {
                return (Some(letter), entity.len());
            }
        }
        self.warn(line, format!("an & in the value of {name} that begins no entity"));
        (Some('&'), 1)
    }
}

fn is_name_start(letter: char) -> bool {
    letter.is_ascii_alphabetic() || letter == '_'
}

fn is_name_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || ['_', '-', '.', ':'].contains(&letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (LaxElement, Vec<(usize, String)>) {
        let (root, warnings) = read_lax_xml(&format!("<?xml version=\"1.0\"?>\n{text}")).unwrap();
        (root, warnings.into_iter().map(|warning| (warning.line, warning.what)).collect())
    }

    #[test]
    fn a_scenario_that_is_right_is_read_without_warnings() {
        let (root, warnings) = read(
            "<!DOCTYPE scenario SYSTEM \"sipp.dtd\">\n<!-- a <comment> -->\n<scenario name=\"one\">\n  <send retrans='500'>\n\
             <![CDATA[\n  INVITE <sip:a>\n]]></send>\n  <recv response=\"200\"/>\n</scenario>\n",
        );
        assert_eq!(warnings, []);
        let names: Vec<_> = root.children.iter().map(|child| (child.name.as_str(), child.line)).collect();
        assert_eq!(names, [("send", 5), ("recv", 9)]);
        assert_eq!(root.children[0].data.as_ref().unwrap().text, "\n  INVITE <sip:a>\n");
        assert_eq!(root.children[0].attribute("retrans").unwrap().value, "500");
    }

    #[test]
    fn leniencies_are_warnings_with_their_lines() {
        let (root, warnings) = read(
            "<scenario>\n<ereg regexp=\"a\\\"b\" x=\"1\" x=\"2\"/>\n<log message=\"a & b < c\"y=\"1\"/>\n< stray\n<nop>",
        );
        assert_eq!(root.children[0].attribute("regexp").unwrap().value, "a\"b");
        assert_eq!(root.children[0].attribute("x").unwrap().value, "1");
        assert_eq!(root.children[1].attribute("message").unwrap().value, "a & b < c");
        assert!(root.children[1].attribute("y").is_none());
        let lines: Vec<_> = warnings.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [3, 3, 4, 4, 4, 5, 6, 6], "{warnings:?}");
    }

    #[test]
    fn a_tag_within_a_tag_is_the_end() {
        let (root, warnings) = read("<scenario>\n<send/>\n<recv response=\"200\"</recv>\n<nop/></scenario>");
        assert_eq!(root.children.len(), 1);
        assert_eq!(warnings[0].0, 4);
        assert!(warnings[0].1.contains("within <recv>"), "{warnings:?}");
    }

    #[test]
    fn regular_expressions_keep_their_backslashes() {
        let (root, _) = read("<scenario><ereg regexp=\"\\d+\\.\\\\w &lt;.*&gt;\"/></scenario>");
        assert_eq!(root.children[0].attribute("regexp").unwrap().value, "\\d+\\.\\w <.*>");
    }

    #[test]
    fn what_cannot_be_read_has_its_line() {
        for (text, line) in [
            ("", 1),
            ("<scenario/>", 1),
            ("<?xml?>\n<scenario>\n<send a=\"1>\n", 3),
            ("<?xml?>\n<scenario>\n<!-- \n", 3),
            ("<?xml?>\n<scenario>\n<send><![CDATA[\n", 3),
            ("<?xml?>\n<scenario>\n<send\n", 3),
            ("<?xml?>\n<scenario>\n<send></recv>", 3),
            ("<?xml?>\n<scenario/>\n<scenario/>", 3),
        ] {
            assert_eq!(read_lax_xml(text).unwrap_err().line, line, "{text:?}");
        }
        let deep = format!("<?xml?>{}", "<a>".repeat(1000));
        assert!(read_lax_xml(&deep).unwrap_err().what.contains("nested"));
    }
}
