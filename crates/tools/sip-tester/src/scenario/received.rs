//! A message as text, whose header fields a scenario reads as they were written.

use bytes::Bytes;
use netrig_sip::Name;

/// A message as text, with its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedText {
    /// The whole message.
    pub text: String,
}

impl ReceivedText {
    /// The text of a message. Invalid UTF-8 is replaced.
    pub fn new(bytes: &[u8]) -> Self {
        Self { text: String::from_utf8_lossy(bytes).into_owned() }
    }

    fn head(&self) -> &str {
        self.text.split("\r\n\r\n").next().unwrap_or_default()
    }

    /// The text after the empty line.
    pub fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }

    /// Method and Request-URI of a request.
    pub fn request(&self) -> Option<(&str, &str)> {
        let mut words = self.text.lines().next()?.split(' ');
        let (method, uri) = (words.next()?, words.next()?);
        (!method.starts_with("SIP/")).then_some((method, uri))
    }

    /// Status of a response.
    pub fn status(&self) -> Option<u16> {
        self.text.strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()
    }

    /// Lines of all header fields with this name, in long or compact form, with their continuation lines.
    pub fn lines_of(&self, name: &str) -> Vec<&str> {
        let name = Name::new(name.trim().trim_end_matches(':').trim_end());
        let mut found = Vec::new();
        let mut is_within = false;
        for line in self.head().split("\r\n").skip(1) {
            if line.starts_with([' ', '\t']) {
                if is_within {
                    found.push(line);
                }
                continue;
            }
            is_within = Name::new(line.split(':').next().unwrap_or_default().trim_end()) == name;
            if is_within {
                found.push(line);
            }
        }
        found
    }

    /// The value of the first header field with this name.
    pub fn value_of(&self, name: &str) -> Option<&str> {
        self.lines_of(name).first().and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    }

    /// Number and method of CSeq.
    pub fn cseq(&self) -> Option<(u32, &str)> {
        let (number, method) = self.value_of("CSeq")?.split_once(' ')?;
        Some((number.trim().parse().ok()?, method.trim()))
    }

    /// The tag of the header field `name`, which is From or To.
    pub fn tag_of(&self, name: &str) -> Option<&str> {
        let value = self.value_of(name)?;
        let behind = value.rsplit_once('>').map_or(value, |(_, parameters)| parameters);
        let tag = behind.split(';').find_map(|part| part.trim().strip_prefix("tag="))?;
        Some(tag.trim())
    }

    /// The branch of the topmost Via.
    pub fn branch(&self) -> Option<&str> {
        let via = self.value_of("Via")?.split(',').next()?;
        via.split(';').find_map(|part| part.trim().strip_prefix("branch=")).map(str::trim)
    }

    /// A response to this request, without a body. `line`: status and reason. `tag`: the tag to add if To has none.
    pub fn response(&self, line: &str, tag: Option<&str>) -> Bytes {
        let mut text = format!("SIP/2.0 {line}\r\n");
        for name in ["Via", "From", "To", "Call-ID", "CSeq"] {
            for own in self.lines_of(name) {
                text.push_str(own);
                if let Some(tag) = tag.filter(|_| name == "To") {
                    text.push_str(";tag=");
                    text.push_str(tag);
                }
                text.push_str("\r\n");
            }
        }
        text.push_str("Content-Length: 0\r\n\r\n");
        text.into()
    }

    /// The URI of the first Contact, without its angle brackets.
    pub fn contact(&self) -> Option<&str> {
        let value = self.value_of("Contact")?;
        match value.split_once('<') {
            Some((_, rest)) => rest.split('>').next(),
            None => value.split(';').next().map(str::trim),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_messages_are_found() {
        let text = "SIP/2.0 200 OK\r\nv: SIP/2.0/UDP a;branch=z9hG4bKx;rport, SIP/2.0/UDP b\r\nVia: SIP/2.0/UDP c;\r\n branch=y\r\n\
                    From: \"A; tag=no\" <sip:a@b;tag=no>;tag=1\r\nTo: sip:c@d;tag=2\r\nContact: \"x\" <sip:e@f;lr>;q=1\r\n\
                    CSeq: 7 INVITE\r\n\r\nVia: none";
        let message = ReceivedText::new(text.as_bytes());
        assert_eq!((message.status(), message.request()), (Some(200), None));
        assert_eq!(message.lines_of("Via:").len(), 3, "{:?}", message.lines_of("Via:"));
        assert_eq!((message.tag_of("From"), message.tag_of("To")), (Some("1"), Some("2")));
        assert_eq!((message.branch(), message.contact()), (Some("z9hG4bKx"), Some("sip:e@f;lr")));
        assert_eq!((message.cseq(), message.body()), (Some((7, "INVITE")), "Via: none"));
        let request = ReceivedText::new(b"BYE sip:a@b SIP/2.0\r\nCall-ID: 1\r\n\r\n");
        assert_eq!((request.request(), request.status()), (Some(("BYE", "sip:a@b")), None));
        assert_eq!((request.value_of("Call-ID"), request.value_of("Via")), (Some("1"), None));
    }
}
