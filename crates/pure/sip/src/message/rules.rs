//! Rules of messages that the grammar does not express.

use std::fmt::Display;

use super::Message;
use crate::header::{MAGIC_COOKIE, Parameters};
use crate::{Headers, Method, Name, ParseError, Request, Violation};

impl Message {
    /// All violations of RFC 3261 sections 8.1.1, 8.2.6.2, 12, 18 and 20, and of the grammar of each header field that
    /// the SIP stack interprets. Empty for a message that a strict peer accepts.
    pub fn violations(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        let headers = self.headers();
        missing(headers, &mut found);
        repeated(headers, &mut found);
        fields(headers, &mut found);
        repeated_parameters(headers, &mut found);
        match self {
            Self::Request(request) => of_request(request, &mut found),
            Self::Response(_) => {}
        }
        if !self.body().is_empty() && headers.get(&Name::ContentType).is_none() {
            found
                .push(Violation::new("RFC 3261 section 7.4.1", "the message has a body and no Content-Type"));
        }
        found
    }
}

/// "A valid SIP request formulated by a UAC MUST, at a minimum, contain" these (RFC 3261 section 8.1.1); responses copy them
/// (section 8.2.6.2).
fn missing(headers: &Headers, found: &mut Vec<Violation>) {
    for name in [Name::To, Name::From, Name::CSeq, Name::CallId, Name::Via] {
        if headers.get(&name).is_none() {
            found.push(Violation::new("RFC 3261 section 8.1.1", format!("there is no {name}")));
        }
    }
}

/// RFC 3261 section 7.3.1: only a header field whose value is a list may be repeated.
fn repeated(headers: &Headers, found: &mut Vec<Violation>) {
    let names: Vec<&Name> = headers.iter().map(|(name, _)| name).collect();
    for (place, name) in names.iter().enumerate() {
        let again = names[..place].iter().filter(|earlier| *earlier == name).count() == 1;
        if again && name.is_single() {
            found.push(Violation::new("RFC 3261 section 7.3.1", format!("{name} is repeated")));
        }
    }
}

/// "any given parameter-name MUST NOT appear more than once": RFC 3261 section 7.3.1 for a header field's value, section 19.1.1
/// for a URI.
fn repeated_parameters(headers: &Headers, found: &mut Vec<Violation>) {
    let mut twice = |place: &dyn Display, parameters: &Parameters, rule: &'static str| {
        if let Some(name) = parameters.first_repeated() {
            found.push(Violation::new(rule, format!("{place}: the parameter `{name}` is repeated")));
        }
    };
    for via in headers.vias().unwrap_or_default() {
        twice(&Name::Via, &via.parameters, "RFC 3261 section 7.3.1");
    }
    let listed = [Name::Contact, Name::Route, Name::RecordRoute].map(|name| {
        let addresses = headers.addresses(&name).unwrap_or_default();
        (name, addresses)
    });
    let single = [(Name::From, headers.from()), (Name::To, headers.to())]
        .map(|(name, address)| (name, address.ok().flatten().into_iter().collect::<Vec<_>>()));
    for (name, addresses) in single.into_iter().chain(listed) {
        for address in addresses {
            twice(&name, &address.parameters, "RFC 3261 section 7.3.1");
            if let Some(uri) = address.uri.as_sip() {
                twice(&name, &uri.parameters, "RFC 3261 section 19.1.1");
            }
        }
    }
}

/// Checks the grammar of the header fields that the SIP stack interprets, and rules of single fields.
fn fields(headers: &Headers, found: &mut Vec<Violation>) {
    let mut broken = |name: &Name, error: Option<ParseError>| {
        if let Some(ParseError { at, expected, rule }) = error {
            found.push(Violation::new(rule, format!("{name}: at byte {at}: expected {expected}")));
        }
    };
    let vias = headers.vias();
    broken(&Name::Via, vias.as_ref().err().cloned());
    broken(&Name::From, headers.from().err());
    broken(&Name::To, headers.to().err());
    broken(&Name::CallId, headers.call_id().err());
    broken(&Name::CSeq, headers.cseq().err());
    broken(&Name::RAck, headers.rack().err());
    for name in [Name::Contact, Name::Route, Name::RecordRoute, Name::Path, Name::ServiceRoute] {
        broken(&name, headers.addresses(&name).err());
    }
    for name in [Name::MaxForwards, Name::ContentLength, Name::RSeq, Name::MinExpires, Name::Expires] {
        broken(&name, headers.number(&name).err());
    }
    for name in [Name::Allow, Name::Require, Name::ProxyRequire, Name::Supported, Name::Unsupported] {
        broken(&name, headers.tokens(&name).err());
    }
    for name in [Name::WwwAuthenticate, Name::ProxyAuthenticate] {
        broken(&name, headers.challenges(&name).err());
    }
    for name in [Name::Authorization, Name::ProxyAuthorization] {
        broken(&name, headers.credentials(&name).err());
    }
    if let Some(date) = headers.get(&Name::Date).filter(|date| !is_date(date)) {
        let what = format!("Date: `{date}` does not have the form `Sat, 13 Nov 2010 23:29:00 GMT`");
        found.push(Violation::new("RFC 3261 section 20.17", what));
    }
    if headers.number(&Name::MaxForwards).is_ok_and(|hops| hops.is_some_and(|hops| hops > 255)) {
        found.push(Violation::new("RFC 3261 section 20.22", "Max-Forwards is above 255"));
    }
    if headers.from().is_ok_and(|from| from.is_some_and(|from| from.tag().is_none())) {
        // RFC 3261 section 8.1.1.3: "The From field MUST contain a new "tag" parameter".
        found.push(Violation::new("RFC 3261 section 8.1.1.3", "From has no tag"));
    }
}

/// `SIP-date = wkday "," SP 2DIGIT SP month SP 4DIGIT SP 2DIGIT ":" 2DIGIT ":" 2DIGIT SP "GMT"`: "SIP restricts the time zone
/// in SIP-date to "GMT"".
fn is_date(text: &str) -> bool {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const SHAPE: &[u8] = b"___, 00 ___ 0000 00:00:00 GMT";
    let fits = |(own, shape): (u8, &u8)| match shape {
        b'0' => own.is_ascii_digit(),
        b'_' => own.is_ascii_alphabetic(),
        shape => own == *shape,
    };
    text.len() == SHAPE.len()
        && text.bytes().zip(SHAPE).all(fits)
        && DAYS.contains(&&text[..3])
        && MONTHS.contains(&&text[8..11])
}

fn of_request(request: &Request, found: &mut Vec<Violation>) {
    let headers = &request.headers;
    if headers.get(&Name::MaxForwards).is_none() {
        found.push(Violation::new("RFC 3261 section 8.1.1.6", "there is no Max-Forwards"));
    }
    if let Ok(Some(cseq)) = headers.cseq()
        && cseq.method != request.method
    {
        let what = format!("the CSeq's method is `{}`, the request's `{}`", cseq.method, request.method);
        found.push(Violation::new("RFC 3261 section 8.1.1.5", what));
    }
    if let Ok(Some(via)) = headers.top_via() {
        match via.branch() {
            None => found.push(Violation::new("RFC 3261 section 8.1.1.7", "the topmost Via has no branch")),
            Some(branch) if !branch.starts_with(MAGIC_COOKIE) => {
                let what = format!("the branch `{branch}` does not begin with `{MAGIC_COOKIE}`");
                found.push(Violation::new("RFC 3261 section 8.1.1.7", what));
            }
            // The branch "MUST be unique across space and time": the cookie alone is not.
            Some(MAGIC_COOKIE) => {
                let what = format!("nothing follows `{MAGIC_COOKIE}` in the branch");
                found.push(Violation::new("RFC 3261 section 8.1.1.7", what));
            }
            Some(_) => {}
        }
    }
    if request.uri.as_sip().is_some_and(|uri| !uri.headers.is_empty() || uri.parameters.has("method")) {
        let what = "the Request-URI has header fields or a method, which are not allowed there";
        found.push(Violation::new("RFC 3261 section 19.1.1", what));
    }
    let contacts = headers.addresses(&Name::Contact);
    let makes_dialog = matches!(request.method, Method::Invite | Method::Subscribe | Method::Refer);
    if makes_dialog && contacts.is_ok_and(|contacts| contacts.len() != 1) {
        // RFC 3261 section 8.1.1.8: "The Contact header field MUST be present and contain exactly one SIP or SIPS URI in any
        // request that can result in the establishment of a dialog."
        let what = format!("{} does not have exactly one Contact", request.method);
        found.push(Violation::new("RFC 3261 section 8.1.1.8", what));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const INVITE: &str = "INVITE sip:bob@biloxi.com SIP/2.0\r\n\
        Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bK776asdhds\r\n\
        Max-Forwards: 70\r\n\
        To: Bob <sip:bob@biloxi.com>\r\n\
        From: Alice <sip:alice@atlanta.com>;tag=1928301774\r\n\
        Call-ID: a84b4c76e66710@pc33.atlanta.com\r\n\
        CSeq: 314159 INVITE\r\n\
        Contact: <sip:alice@pc33.atlanta.com>\r\n\
        Content-Length: 0\r\n\r\n";

    fn violations(from: &str, to: &str) -> Vec<String> {
        let text = INVITE.replacen(from, to, 1);
        assert!(from.is_empty() || text != INVITE, "{from} does not stand there");
        let message = Message::parse(&Bytes::from(text)).unwrap();
        message.violations().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_example_of_the_rfc_breaks_none() {
        assert_eq!(violations("", ""), Vec::<String>::new());
    }

    #[test]
    fn each_rule_is_named_with_its_section() {
        for (from, to, expected) in [
            ("Max-Forwards: 70\r\n", "", "there is no Max-Forwards (RFC 3261 section 8.1.1.6)"),
            (
                "Max-Forwards: 70",
                "Max-Forwards: 70\r\nDate: Fri, 01 Jan 2010 16:00:00 EST",
                "Date: `Fri, 01 Jan 2010 16:00:00 EST` does not have the form `Sat, 13 Nov 2010 23:29:00 GMT` (RFC 3261 section 20.17)",
            ),
            (
                "z9hG4bK776asdhds",
                "z9hG4bK",
                "nothing follows `z9hG4bK` in the branch (RFC 3261 section 8.1.1.7)",
            ),
            ("70", "300", "Max-Forwards is above 255 (RFC 3261 section 20.22)"),
            (
                "Call-ID: a84b4c76e66710@pc33.atlanta.com\r\n",
                "",
                "there is no Call-ID (RFC 3261 section 8.1.1)",
            ),
            ("To:", "To: <sip:a@b>\r\nTo:", "To is repeated (RFC 3261 section 7.3.1)"),
            (";tag=1928301774", "", "From has no tag (RFC 3261 section 8.1.1.3)"),
            (
                "314159 INVITE",
                "314159 BYE",
                "the CSeq's method is `BYE`, the request's `INVITE` (RFC 3261 section 8.1.1.5)",
            ),
            (
                "z9hG4bK776asdhds",
                "77",
                "the branch `77` does not begin with `z9hG4bK` (RFC 3261 section 8.1.1.7)",
            ),
            (";branch=z9hG4bK776asdhds", "", "the topmost Via has no branch (RFC 3261 section 8.1.1.7)"),
            (
                "Contact: <sip:alice@pc33.atlanta.com>\r\n",
                "",
                "INVITE does not have exactly one Contact (RFC 3261 section 8.1.1.8)",
            ),
            (
                "To: Bob <",
                "To: Bob ",
                "To: at byte 3: expected `:` after the scheme of a URI (RFC 3261 section 20)",
            ),
            (
                ";tag=1928301774",
                ";tag=1928301774;Tag=2",
                "From: the parameter `Tag` is repeated (RFC 3261 section 7.3.1)",
            ),
            (
                "<sip:alice@pc33.atlanta.com>",
                "<sip:alice@pc33.atlanta.com;lr;lr>",
                "Contact: the parameter `lr` is repeated (RFC 3261 section 19.1.1)",
            ),
            (
                "bob@biloxi.com SIP",
                "bob@biloxi.com?Subject=x SIP",
                "the Request-URI has header fields or a method, which are not allowed there (RFC 3261 section 19.1.1)",
            ),
        ] {
            let found = violations(from, to);
            assert!(found.iter().any(|violation| violation == expected), "{expected}: {found:?}");
        }
    }

    #[test]
    fn a_body_needs_a_type() {
        let text = INVITE.replace("Content-Length: 0\r\n\r\n", "Content-Length: 3\r\n\r\nv=0");
        let message = Message::parse(&Bytes::from(text)).unwrap();
        assert_eq!(message.body().as_ref(), b"v=0");
        assert_eq!(message.violations().len(), 1);
    }
}
