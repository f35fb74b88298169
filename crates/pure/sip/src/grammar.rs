//! The basic rules of RFC 3261 section 25.1, and a cursor that reads them.

use crate::error::ParseError;

/// A table of the bytes of a class: `alphanum` and `others`.
const fn class(others: &[u8]) -> [bool; 256] {
    let mut class = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut place = 0;
    while place < others.len() {
        class[others[place] as usize] = true;
        place += 1;
    }
    class
}

/// `token`: 1*(alphanum / "-" / "." / "!" / "%" / "*" / "_" / "+" / "`" / "'" / "~").
pub(crate) const fn is_token(byte: u8) -> bool {
    const CLASS: [bool; 256] = class(b"-.!%*_+`'~");
    CLASS[byte as usize]
}

/// `word`, the element of a Call-ID: the characters of a token and "(" / ")" / "<" / ">" / ":" / "\" / DQUOTE / "/" / "[" /
/// "]" / "?" / "{" / "}".
pub(crate) const fn is_word(byte: u8) -> bool {
    const CLASS: [bool; 256] = class(b"-.!%*_+`'~()<>:\\\"/[]?{}");
    CLASS[byte as usize]
}

/// `unreserved`: alphanum / mark.
pub(crate) const fn is_unreserved(byte: u8) -> bool {
    UNRESERVED[byte as usize]
}

const UNRESERVED: [bool; 256] = class(b"-_.!~*'()");

/// Whether a text is a `token`.
pub(crate) fn is_a_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token)
}

/// A reader of a text. The text is unfolded: it has no line ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// The section with the grammar, for errors.
    rule: &'static str,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(text: &'a str, rule: &'static str) -> Self {
        Self { text, at: 0, rule }
    }

    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// The rest of the text.
    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    pub(crate) const fn error(&self, expected: &'static str) -> ParseError {
        ParseError { at: self.at, expected, rule: self.rule }
    }

    /// Fails unless the text ends here.
    pub(crate) fn end(&self) -> Result<(), ParseError> {
        if self.is_at_end() { Ok(()) } else { Err(self.error("the end of the value")) }
    }

    /// `SWS`: optional spaces and tabs.
    pub(crate) fn skip_white(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// `LWS`: at least one space or tab.
    pub(crate) fn white(&mut self) -> Result<(), ParseError> {
        let before = self.at;
        self.skip_white();
        if self.at == before { Err(self.error("a space")) } else { Ok(()) }
    }

    /// Reads `byte` if it is next. Returns whether it was.
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Reads `byte`, or fails.
    pub(crate) fn expect(&mut self, byte: u8, name: &'static str) -> Result<(), ParseError> {
        if self.eat(byte) { Ok(()) } else { Err(self.error(name)) }
    }

    /// Reads a separator with white space around it: `SEMI`, `COMMA`, `EQUAL`, `SLASH`, `COLON`.
    pub(crate) fn eat_separator(&mut self, byte: u8) -> bool {
        let before = self.at;
        self.skip_white();
        if self.eat(byte) {
            self.skip_white();
            return true;
        }
        self.at = before;
        false
    }

    /// Reads the longest run of bytes of a class, which may be empty.
    pub(crate) fn take_while(&mut self, class: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        // A class has only ASCII, so the end of the run is a character boundary.
        let length = rest.bytes().take_while(|byte| byte.is_ascii() && class(*byte)).count();
        self.at += length;
        &rest[..length]
    }

    /// Reads up to one of `bytes`, which are ASCII, or to the end.
    pub(crate) fn take_until(&mut self, bytes: &[u8]) -> &'a str {
        let rest = self.rest();
        let length = rest.bytes().position(|byte| bytes.contains(&byte)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    pub(crate) fn token(&mut self, name: &'static str) -> Result<&'a str, ParseError> {
        let token = self.take_while(is_token);
        if token.is_empty() { Err(self.error(name)) } else { Ok(token) }
    }

    /// Reads a decimal number.
    pub(crate) fn number<T: std::str::FromStr>(&mut self, name: &'static str) -> Result<T, ParseError> {
        let before = *self;
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        digits.parse().map_err(|_| before.error(name))
    }

    /// Reads a `quoted-string`, and returns it with its quotes and escapes.
    pub(crate) fn quoted(&mut self) -> Result<&'a str, ParseError> {
        let start = self.at;
        self.expect(b'"', "a quoted string")?;
        loop {
            match self.peek() {
                Some(b'"') => break,
                // quoted-pair = "\" (%x00-09 / %x0B-0C / %x0E-7F)
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(byte) if byte.is_ascii() => self.at += 1,
                        _ => return Err(self.error("a character after the backslash")),
                    }
                }
                Some(_) => self.at += 1,
                None => return Err(self.error("the closing quote")),
            }
        }
        self.at += 1;
        Ok(&self.text[start..self.at])
    }
}

/// The text of a `quoted-string`, without quotes and escapes.
pub(crate) fn unquoted(quoted: &str) -> String {
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(quoted);
    let mut out = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.extend(characters.next()),
            other => out.push(other),
        }
    }
    out
}

/// A text as a `quoted-string`.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
    out
}

/// Replaces escapes: `%41` becomes `A`. A `%` without two hexadecimal digits is unchanged.
pub(crate) fn unescaped(text: &str) -> String {
    String::from_utf8_lossy(&unescaped_but(text, |_| false)).into_owned()
}

/// Replaces escapes, except the escapes of bytes for which `kept` is true. The hexadecimal digits of these escapes
/// become upper case.
pub(crate) fn unescaped_but(text: &str, kept: impl Fn(u8) -> bool) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let escape = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        match escape {
            Some(byte) if kept(byte) => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            _ => out.push(escape.unwrap_or(*first)),
        }
        rest = if escape.is_some() { &tail[2..] } else { tail };
    }
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Escapes all bytes outside `class`: `A` becomes `%41`.
pub(crate) fn escaped(text: &str, class: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if class(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Reads the longest run of bytes of a class and of escapes, which may be empty.
pub(crate) fn take_escaped<'a>(
    cursor: &mut Cursor<'a>,
    class: impl Fn(u8) -> bool,
) -> Result<&'a str, ParseError> {
    let (text, mut length) = (cursor.rest(), 0);
    loop {
        let before = cursor.take_while(&class).len();
        length += before;
        if !cursor.eat(b'%') {
            return Ok(&text[..length]);
        }
        for _ in 0..2 {
            match cursor.peek() {
                Some(digit) if digit.is_ascii_hexdigit() => cursor.eat(digit),
                _ => return Err(cursor.error("two hexadecimal digits after `%`")),
            };
        }
        length += 3;
    }
}
