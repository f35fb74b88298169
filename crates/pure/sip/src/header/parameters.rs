//! Lists of `;name=value` parameters of URIs and header fields.

use std::fmt;

use crate::error::ParseError;
use crate::grammar::{Cursor, is_token, is_unreserved, quoted, take_escaped, unquoted};

/// Most parameters of a URI or of a header field's value. Real ones have far fewer. The limit bounds the time to compare two
/// lists, which grows with the product of their lengths.
const MOST_PARAMETERS: usize = 64;

/// Parameters in their order. Names are case-insensitive. Values are kept unchanged, a quoted string with its quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters(Vec<(String, Option<String>)>);

impl Parameters {
    /// Whether there is no parameter.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The parameters in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_deref()))
    }

    /// The first parameter of that name; `Some(None)` if it has no value.
    pub fn get(&self, name: &str) -> Option<Option<&str>> {
        self.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The value of the first parameter of that name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.get(name).flatten()
    }

    /// The value of the first parameter of that name, without quotes and escapes.
    pub fn text(&self, name: &str) -> Option<String> {
        self.value(name).map(unquoted)
    }

    /// Whether there is a parameter of that name, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The first name that is repeated (RFC 3261 section 7.3.1 forbids it).
    pub fn first_repeated(&self) -> Option<&str> {
        let repeated = |(place, (name, _)): (usize, &(String, Option<String>))| {
            self.0[..place].iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name))
        };
        self.0.iter().enumerate().find(|entry| repeated(*entry)).map(|(_, (name, _))| name.as_str())
    }

    /// Appends a parameter.
    pub fn push(&mut self, name: &str, value: Option<&str>) {
        self.0.push((name.to_owned(), value.map(str::to_owned)));
    }

    /// Sets the value of the first parameter of that name, or appends one.
    pub fn set(&mut self, name: &str, value: Option<&str>) {
        match self.0.iter_mut().find(|(own, _)| own.eq_ignore_ascii_case(name)) {
            Some((_, own)) => *own = value.map(str::to_owned),
            None => self.push(name, value),
        }
    }

    /// Sets a value as a quoted string.
    pub fn set_quoted(&mut self, name: &str, value: &str) {
        self.set(name, Some(&quoted(value)));
    }

    /// Removes all parameters of that name.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
    }

    /// Appends a parameter that was read; fails at the position of `cursor` if there are too many.
    pub(crate) fn add(
        &mut self,
        name: &str,
        value: Option<&str>,
        cursor: &Cursor<'_>,
    ) -> Result<(), ParseError> {
        if self.0.len() == MOST_PARAMETERS {
            return Err(cursor.error("at most 64 parameters"));
        }
        self.push(name, value);
        Ok(())
    }
}

/// The grammar of a list of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterGrammar {
    /// `*( SEMI generic-param )` of a header field, with white space around separators; gen-value = token / host /
    /// quoted-string.
    Field,
    /// `uri-parameter`.
    Uri,
}

/// A name, and its value if it has one.
type ParameterPair<'a> = (&'a str, Option<&'a str>);

/// Parameters that borrow their text. Their grammar has been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParametersView<'a> {
    text: &'a str,
    grammar: ParameterGrammar,
}

impl<'a> ParametersView<'a> {
    /// Reads all parameters that follow.
    pub(crate) fn read(cursor: &mut Cursor<'a>, grammar: ParameterGrammar) -> Result<Self, ParseError> {
        let start = *cursor;
        let mut count = 0;
        loop {
            let mut before = *cursor;
            if grammar.parameter(cursor)?.is_none() {
                break;
            }
            if count == MOST_PARAMETERS {
                before.eat_separator(b';');
                return Err(before.error("at most 64 parameters"));
            }
            count += 1;
        }
        let text = &start.rest()[..cursor.at() - start.at()];
        Ok(Self { text, grammar })
    }

    /// As [`Parameters::has`].
    pub(crate) fn has(&self, name: &str) -> bool {
        self.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
    }

    /// The parameters in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ParameterPair<'a>> + use<'a> {
        let (grammar, mut cursor) = (self.grammar, Cursor::new(self.text, ""));
        std::iter::from_fn(move || grammar.parameter(&mut cursor).ok().flatten())
    }

    /// As [`Parameters::value`].
    pub(crate) fn value(&self, name: &str) -> Option<&'a str> {
        self.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).and_then(|(_, value)| value)
    }
}

impl ParameterGrammar {
    /// The next parameter with its separator, if there is one.
    fn parameter<'a>(self, cursor: &mut Cursor<'a>) -> Result<Option<ParameterPair<'a>>, ParseError> {
        match self {
            Self::Uri => uri_parameter(cursor),
            Self::Field if !cursor.eat_separator(b';') => Ok(None),
            Self::Field => {
                let name = cursor.token("the name of a parameter")?;
                let value = if cursor.eat_separator(b'=') { Some(value(cursor)?) } else { None };
                Ok(Some((name, value)))
            }
        }
    }
}

/// `";" uri-parameter`, if one follows.
fn uri_parameter<'a>(cursor: &mut Cursor<'a>) -> Result<Option<(&'a str, Option<&'a str>)>, ParseError> {
    if !cursor.eat(b';') {
        return Ok(None);
    }
    let name = take_escaped(cursor, is_parameter)?;
    if name.is_empty() {
        return Err(cursor.error("the name of a parameter"));
    }
    let value = if cursor.eat(b'=') { Some(take_escaped(cursor, is_parameter)?) } else { None };
    if value == Some("") {
        return Err(cursor.error("the value of a parameter"));
    }
    Ok(Some((name, value)))
}

const fn is_parameter(byte: u8) -> bool {
    is_unreserved(byte) || matches!(byte, b'[' | b']' | b'/' | b':' | b'&' | b'+' | b'$')
}

impl From<ParametersView<'_>> for Parameters {
    fn from(view: ParametersView<'_>) -> Self {
        let owned = |(name, value): ParameterPair<'_>| (name.to_owned(), value.map(str::to_owned));
        Self(view.iter().map(owned).collect())
    }
}

/// `gen-value`. In `received` an IPv6 address may have no brackets (RFC 3261 section 25.1, `via-received`).
pub(crate) fn value<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str, ParseError> {
    if cursor.peek() == Some(b'"') {
        return cursor.quoted();
    }
    let value = cursor.take_while(|byte| is_token(byte) || matches!(byte, b'[' | b']' | b':'));
    if value.is_empty() { Err(cursor.error("the value of a parameter")) } else { Ok(value) }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.iter() {
            match value {
                Some(value) => write!(f, ";{name}={value}")?,
                None => write!(f, ";{name}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_case_and_values_keep_theirs() {
        let mut cursor = Cursor::new("; Tag = aBc ;lr;q=\"a;\\\"b\"", "");
        let parameters =
            Parameters::from(ParametersView::read(&mut cursor, ParameterGrammar::Field).unwrap());
        assert!(cursor.is_at_end());
        assert_eq!(parameters.value("tag"), Some("aBc"));
        assert_eq!((parameters.get("LR"), parameters.get("none")), (Some(None), None));
        assert_eq!(parameters.text("q").as_deref(), Some("a;\"b"));
        assert_eq!(parameters.to_string(), ";Tag=aBc;lr;q=\"a;\\\"b\"");
        assert_eq!(parameters.first_repeated(), None);
    }

    #[test]
    fn so_many_are_read_and_no_more() {
        let read = |count: usize| {
            let text = ";a".repeat(count);
            let read = ParametersView::read(&mut Cursor::new(&text, ""), ParameterGrammar::Field);
            read.map(|found| found.iter().count())
        };
        assert_eq!(read(MOST_PARAMETERS), Ok(MOST_PARAMETERS));
        assert_eq!(read(MOST_PARAMETERS + 1).unwrap_err().at, 2 * MOST_PARAMETERS + 1);
        let uri = |sign: &str, count: usize| format!("sip:h{}", sign.repeat(count)).parse::<crate::Uri>();
        assert!(uri(";a", MOST_PARAMETERS).is_ok() && uri(";a", MOST_PARAMETERS + 1).is_err());
    }

    #[test]
    fn they_can_be_changed() {
        let mut parameters = Parameters::default();
        parameters.push("a", Some("1"));
        parameters.push("A", Some("2"));
        assert_eq!(parameters.first_repeated(), Some("A"));
        parameters.set("a", None);
        assert_eq!(parameters.to_string(), ";a;A=2");
        parameters.remove("a");
        assert!(parameters.is_empty());
    }
}
