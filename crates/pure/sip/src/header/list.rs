//! The list of header fields of a message.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use super::{
    AuthenticationInfo, CSeq, Challenge, Credentials, Name, NameAddr, NameAddrView, RAck, Via, ViaView,
};
use crate::error::ParseError;
use crate::grammar::{Cursor, is_word};

/// Header fields in their order. Values are kept unfolded and without surrounding white space. They are parsed on access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(Name, String)>);

/// All values of a header field that may be repeated, or have several values in one field: `Via`, `Route`, `Contact`.
/// The values are in the order of the message. An error is the first error.
pub type HeaderValues<T> = Result<Vec<T>, ParseError>;

impl Headers {
    /// All header fields in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &str)> {
        self.0.iter().map(|(name, value)| (name, value.as_str()))
    }

    /// Number of header fields.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Estimated memory, bytes.
    pub(crate) fn size(&self) -> usize {
        self.0.iter().map(|(_, value)| value.len() + size_of::<(Name, String)>()).sum()
    }

    /// Whether there is no header field.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of the first field of that name.
    pub fn get(&self, name: &Name) -> Option<&str> {
        self.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// The values of all fields of that name.
    pub fn all<'a>(&'a self, name: &'a Name) -> impl Iterator<Item = &'a str> + use<'a> {
        self.iter().filter(move |(own, _)| *own == name).map(|(_, value)| value)
    }

    /// Appends a field.
    pub fn push(&mut self, name: Name, value: impl fmt::Display) {
        self.0.push((name, value.to_string()));
    }

    /// Inserts a field before all others: a hop's own `Via` or `Record-Route`.
    pub fn push_front(&mut self, name: Name, value: impl fmt::Display) {
        self.0.insert(0, (name, value.to_string()));
    }

    /// Replaces all fields of that name by one, at the position of the first field, or at the end if there was none.
    pub fn set(&mut self, name: Name, value: impl fmt::Display) {
        let place = self.0.iter().position(|(own, _)| *own == name);
        self.remove(&name);
        self.0.insert(place.unwrap_or(self.0.len()), (name, value.to_string()));
    }

    /// Removes all fields of that name.
    pub fn remove(&mut self, name: &Name) {
        self.0.retain(|(own, _)| own != name);
    }

    /// Adds a tag to `To`, if it has none. The rest of `To` is unchanged.
    pub(crate) fn add_to_tag(&mut self, tag: &str) {
        let Some((_, value)) = self.0.iter_mut().find(|(own, _)| *own == Name::To) else { return };
        let Ok(to) = whole(value, "", |cursor| NameAddrView::read(cursor).map(|to| to.parameters.has("tag")))
        else {
            return;
        };
        // A tag without a value is replaced.
        let replaced = if to { whole(value, "", NameAddr::read).ok() } else { None };
        match replaced {
            Some(to) if to.tag().is_none() => *value = to.with_tag(tag).to_string(),
            Some(_) => {}
            None => {
                value.push_str(";tag=");
                value.push_str(tag);
            }
        }
    }

    /// Writes the source of the request into the topmost `Via`. All others are unchanged, even if they break the grammar.
    pub(crate) fn stamp_top_via(&mut self, from: SocketAddr) {
        let Some((_, value)) = self.0.iter_mut().find(|(own, _)| *own == Name::Via) else { return };
        let mut cursor = Cursor::new(value, "RFC 3261 section 20.42");
        let Ok(via) = ViaView::read(&mut cursor) else { return };
        let mut stamped = Vec::with_capacity(value.len() + 40);
        via.write_stamped(from, &mut stamped);
        stamped.extend_from_slice(cursor.rest().as_bytes());
        // All parts are UTF-8.
        *value = String::from_utf8(stamped).unwrap_or_default();
    }

    /// The topmost `Via`, borrowed; `None` if it is missing or breaks the grammar.
    pub(crate) fn top_via_view(&self) -> Option<ViaView<'_>> {
        ViaView::read(&mut Cursor::new(self.get(&Name::Via)?, "")).ok()
    }

    /// Replaces all fields of that name by these values, at the position of the first field, or at the end if there was
    /// none. Without values the fields are removed.
    pub fn set_all(&mut self, name: &Name, values: impl IntoIterator<Item = impl fmt::Display>) {
        let place = self.0.iter().position(|(own, _)| own == name).unwrap_or(self.0.len());
        self.remove(name);
        let entries: Vec<_> = values.into_iter().map(|value| (name.clone(), value.to_string())).collect();
        self.0.splice(place..place, entries);
    }

    /// Whether all `Via`s follow the grammar.
    pub(crate) fn has_readable_vias(&self) -> bool {
        self.all(&Name::Via).all(|value| {
            let mut cursor = Cursor::new(value, "");
            loop {
                if ViaView::read(&mut cursor).is_err() {
                    return false;
                }
                if !cursor.eat_separator(b',') {
                    cursor.skip_white();
                    return cursor.is_at_end();
                }
            }
        })
    }

    /// Whether `From` and `To` are present and follow the grammar.
    pub(crate) fn has_readable_ends(&self) -> bool {
        [Name::From, Name::To].iter().all(|name| {
            let read = |cursor: &mut Cursor<'_>| NameAddrView::read(cursor).map(drop);
            self.get(name).is_some_and(|value| whole(value, "", read).is_ok())
        })
    }

    /// The `Via`s of a message, topmost first. The topmost `Via` of a request is that of the last hop.
    ///
    /// # Errors
    /// A `Via` breaks the grammar.
    pub fn vias(&self) -> HeaderValues<Via> {
        self.values(&Name::Via, "RFC 3261 section 20.42", Via::read)
    }

    /// The topmost `Via`.
    ///
    /// # Errors
    /// The `Via` breaks the grammar.
    pub fn top_via(&self) -> Result<Option<Via>, ParseError> {
        let Some(value) = self.get(&Name::Via) else { return Ok(None) };
        Via::read(&mut Cursor::new(value, "RFC 3261 section 20.42")).map(Some)
    }

    /// `From`.
    ///
    /// # Errors
    /// The value breaks the grammar.
    pub fn from(&self) -> Result<Option<NameAddr>, ParseError> {
        self.one(&Name::From, "RFC 3261 section 20.20", NameAddr::read)
    }

    /// `To`.
    ///
    /// # Errors
    /// The value breaks the grammar.
    pub fn to(&self) -> Result<Option<NameAddr>, ParseError> {
        self.one(&Name::To, "RFC 3261 section 20.39", NameAddr::read)
    }

    /// `Call-ID`, a `word [ "@" word ]`.
    ///
    /// # Errors
    /// The value breaks the grammar.
    pub fn call_id(&self) -> Result<Option<&str>, ParseError> {
        let Some(value) = self.get(&Name::CallId) else { return Ok(None) };
        Self::read_call_id(value).map(|()| Some(value))
    }

    /// `callid = word [ "@" word ]`.
    pub(crate) fn read_call_id(value: &str) -> Result<(), ParseError> {
        let mut cursor = Cursor::new(value, "RFC 3261 section 20.8");
        let word = |cursor: &mut Cursor<'_>| {
            if cursor.take_while(is_word).is_empty() { Err(cursor.error("a word")) } else { Ok(()) }
        };
        word(&mut cursor)?;
        if cursor.eat(b'@') {
            word(&mut cursor)?;
        }
        cursor.end()
    }

    /// `CSeq`.
    ///
    /// # Errors
    /// The value breaks the grammar.
    pub fn cseq(&self) -> Result<Option<CSeq>, ParseError> {
        self.get(&Name::CSeq).map(CSeq::from_str).transpose()
    }

    /// `RAck`: the provisional response that a PRACK acknowledges.
    ///
    /// # Errors
    /// The value breaks the grammar.
    pub fn rack(&self) -> Result<Option<RAck>, ParseError> {
        self.get(&Name::RAck).map(RAck::from_str).transpose()
    }

    /// Addresses of a list: `Contact`, `Route`, `Record-Route`, `Path`, `Service-Route`. `Contact: *` gives an empty
    /// list.
    ///
    /// # Errors
    /// An address breaks the grammar.
    pub fn addresses(&self, name: &Name) -> HeaderValues<NameAddr> {
        if *name == Name::Contact && self.get(name) == Some("*") {
            return Ok(Vec::new());
        }
        self.values(name, "RFC 3261 section 20.10", NameAddr::read)
    }

    /// A field with a number: `Max-Forwards`, `Expires`, `Content-Length`, `RSeq`, `Min-Expires`.
    ///
    /// # Errors
    /// The value is not a number below 2^32.
    pub fn number(&self, name: &Name) -> Result<Option<u32>, ParseError> {
        self.one(name, "RFC 3261 section 20", |cursor| cursor.number("a number below 2^32"))
    }

    /// Whether a list of tokens has this token, without regard to case (RFC 3261 section 7.3.1). False if the list
    /// breaks the grammar.
    pub fn has_token(&self, name: &Name, token: &str) -> bool {
        self.tokens(name).is_ok_and(|tokens| tokens.iter().any(|own| own.eq_ignore_ascii_case(token)))
    }

    /// The tokens of a list: `Require`, `Supported`, `Allow`.
    ///
    /// # Errors
    /// A value is not a token.
    pub fn tokens(&self, name: &Name) -> HeaderValues<String> {
        self.values(name, "RFC 3261 section 20", |cursor| cursor.token("a token").map(str::to_owned))
    }

    /// `WWW-Authenticate` or `Proxy-Authenticate`, one value per field.
    ///
    /// # Errors
    /// A value breaks the grammar.
    pub fn challenges(&self, name: &Name) -> HeaderValues<Challenge> {
        self.each(name, "RFC 3261 section 20.44", Challenge::read)
    }

    /// `Authorization` or `Proxy-Authorization`, one value per field.
    ///
    /// # Errors
    /// A value breaks the grammar.
    pub fn credentials(&self, name: &Name) -> HeaderValues<Credentials> {
        self.each(name, "RFC 3261 section 20.7", Credentials::read)
    }

    /// `Authentication-Info`.
    ///
    /// # Errors
    /// The value breaks the grammar.
    pub fn authentication_info(&self) -> Result<Option<AuthenticationInfo>, ParseError> {
        self.one(&Name::AuthenticationInfo, "RFC 3261 section 20.6", AuthenticationInfo::read)
    }

    fn one<T>(
        &self,
        name: &Name,
        rule: &'static str,
        read: impl Fn(&mut Cursor<'_>) -> Result<T, ParseError>,
    ) -> Result<Option<T>, ParseError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        whole(value, rule, read).map(Some)
    }

    fn each<T>(
        &self,
        name: &Name,
        rule: &'static str,
        read: impl Fn(&mut Cursor<'_>) -> Result<T, ParseError>,
    ) -> HeaderValues<T> {
        self.all(name).map(|value| whole(value, rule, &read)).collect()
    }

    /// Values of a list over all fields of the name. Only `Supported` and `Allow` may be empty by the grammar.
    fn values<T>(
        &self,
        name: &Name,
        rule: &'static str,
        read: impl Fn(&mut Cursor<'_>) -> Result<T, ParseError>,
    ) -> HeaderValues<T> {
        let mut found = Vec::new();
        let may_be_empty = matches!(name, Name::Supported | Name::Allow);
        for value in self.all(name).filter(|value| !value.is_empty() || !may_be_empty) {
            let mut cursor = Cursor::new(value, rule);
            loop {
                found.push(read(&mut cursor)?);
                if !cursor.eat_separator(b',') {
                    break;
                }
            }
            cursor.skip_white();
            cursor.end()?;
        }
        Ok(found)
    }
}

fn whole<T>(
    value: &str,
    rule: &'static str,
    read: impl Fn(&mut Cursor<'_>) -> Result<T, ParseError>,
) -> Result<T, ParseError> {
    let mut cursor = Cursor::new(value, rule);
    let found = read(&mut cursor)?;
    cursor.skip_white();
    cursor.end().map(|()| found)
}

impl fmt::Display for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(name, value)| write!(f, "{name}: {value}\r\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(entries: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::default();
        for (name, value) in entries {
            headers.push(Name::new(name), value);
        }
        headers
    }

    /// RFC 3261 section 7.3.1: several fields of one name mean the same as one field with commas.
    #[test]
    fn a_list_may_be_in_one_field_or_several() {
        let headers = headers(&[
            ("Route", "<sip:alice@atlanta.com>, <sip:bob@biloxi.com>;lr"),
            ("Subject", "Lunch"),
            ("route", "\"a, b\" <sip:carol@chicago.com>"),
        ]);
        let uris: Vec<String> =
            headers.addresses(&Name::Route).unwrap().iter().map(|route| route.uri.to_string()).collect();
        assert_eq!(uris, ["sip:alice@atlanta.com", "sip:bob@biloxi.com", "sip:carol@chicago.com"]);
    }

    /// RFC 3261 section 25.1: `Via` and `Require` have at least one value, `Supported` may have none.
    #[test]
    fn a_list_is_empty_where_the_grammar_lets_it() {
        let headers = headers(&[("Via", ""), ("Require", ""), ("Supported", ""), ("Contact", "")]);
        assert!(headers.vias().is_err() && headers.tokens(&Name::Require).is_err());
        assert!(headers.addresses(&Name::Contact).is_err());
        assert_eq!(headers.tokens(&Name::Supported), Ok(vec![]));
    }

    #[test]
    fn fields_are_put_and_taken_away() {
        let mut headers = headers(&[("v", "a"), ("To", "x"), ("Via", "b")]);
        headers.set(Name::Via, "c");
        assert_eq!(headers.to_string(), "Via: c\r\nTo: x\r\n");
        headers.push_front(Name::Via, "d");
        headers.set_all(&Name::Via, ["e", "f"]);
        assert_eq!(headers.to_string(), "Via: e\r\nVia: f\r\nTo: x\r\n");
        headers.set_all(&Name::Via, [""; 0]);
        assert_eq!(headers.to_string(), "To: x\r\n");
    }

    #[test]
    fn values_are_read_when_asked_for() {
        let headers = headers(&[
            ("Max-Forwards", "70"),
            ("i", "f81d4fae@foo.bar.com"),
            ("CSeq", "1 INVITE"),
            ("Supported", ""),
            ("k", "100rel, timer"),
            ("Contact", "*"),
            ("Expires", "abc"),
        ]);
        assert_eq!(headers.number(&Name::MaxForwards), Ok(Some(70)));
        assert_eq!(headers.call_id().unwrap(), Some("f81d4fae@foo.bar.com"));
        assert_eq!(headers.cseq().unwrap().unwrap().number, 1);
        assert_eq!(headers.tokens(&Name::Supported).unwrap(), ["100rel", "timer"]);
        assert!(headers.has_token(&Name::Supported, "TIMER") && !headers.has_token(&Name::Require, "timer"));
        assert!(headers.addresses(&Name::Contact).unwrap().is_empty());
        assert!(headers.number(&Name::Expires).is_err());
        assert_eq!(headers.number(&Name::MinExpires), Ok(None));
    }
}
