//! Messages with one deliberate fault each, and the rule that each breaks.

use std::str::FromStr;

use bytes::Bytes;

use crate::{Message, Name};

/// A table of the faults: variant, name, and a description of the defect.
macro_rules! faults {
    ($($fault:ident $name:literal $about:literal,)*) => {
        /// One deliberate fault of a message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault {
            $(#[doc = $about] $fault,)*
        }

        impl Fault {
            /// All faults.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$fault),*];

            /// Name for users: `garbled-via`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$fault => $name,)*
                }
            }

            /// A description of the defect, such as "No `Via`".
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$fault => $about,)*
                }
            }
        }
    };
}

faults! {
    MissingVia "missing-via" "No `Via`",
    MissingFrom "missing-from" "No `From`",
    MissingTo "missing-to" "No `To`",
    MissingCallId "missing-call-id" "No `Call-ID`",
    MissingCSeq "missing-cseq" "No `CSeq`",
    MissingMaxForwards "missing-max-forwards" "A request without `Max-Forwards`",
    MissingContact "missing-contact" "An INVITE without `Contact`",
    MissingFromTag "missing-from-tag" "`From` without a tag",
    RepeatedFrom "repeated-from" "Two `From`s",
    RepeatedTo "repeated-to" "Two `To`s",
    RepeatedCallId "repeated-call-id" "Two `Call-ID`s",
    RepeatedCSeq "repeated-cseq" "Two `CSeq`s",
    RepeatedContentLength "repeated-content-length" "Two `Content-Length`s",
    GarbledVia "garbled-via" "A `Via` of another protocol",
    GarbledFrom "garbled-from" "A `From` with an open bracket",
    GarbledTo "garbled-to" "A `To` with an open quote",
    GarbledCallId "garbled-call-id" "A `Call-ID` with a space",
    GarbledCSeq "garbled-cseq" "A `CSeq` without a number",
    GarbledContact "garbled-contact" "A `Contact` without a scheme",
    GarbledMaxForwards "garbled-max-forwards" "A `Max-Forwards` that is not a number",
    ManyForwards "many-forwards" "A `Max-Forwards` of 256",
    LargeCSeq "large-cseq" "A `CSeq` of 2^31",
    CSeqOfAnotherMethod "cseq-of-another-method" "Another method in `CSeq` than in the request",
    BranchWithoutCookie "branch-without-cookie" "A branch without `z9hG4bK`",
    MissingBranch "missing-branch" "A `Via` without a branch",
    LongContentLength "long-content-length" "A `Content-Length` beyond the end of the datagram",
    NegativeContentLength "negative-content-length" "A `Content-Length` of -1",
    MissingContentType "missing-content-type" "A body without `Content-Type`",
    OversizedHeader "oversized-header" "A header field of 4,000 bytes, more than a datagram should have",
    ManyHeaders "many-headers" "More header fields than any message has",
    MissingColon "missing-colon" "A line among the header fields without a colon",
    GarbledName "garbled-name" "A header field whose name is not a token",
    AnotherVersion "another-version" "`SIP/3.0`",
    ShortStartLine "short-start-line" "A start line without Request-URI or status code",
    GarbledStartLine "garbled-start-line" "A Request-URI with header fields, or a status code of 999",
    BareLineFeeds "bare-line-feeds" "Lines that end with LF alone",
    MissingEmptyLine "missing-empty-line" "No empty line at the end of the header fields",
    BinaryGarbage "binary-garbage" "Bytes in a header field that are not text",
}

/// No fault has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a fault: expected {expected}", expected = Fault::ALL.map(Fault::name).join(", "))]
pub struct FaultError {
    /// The unknown name.
    pub name: String,
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let found = Self::ALL.into_iter().find(|fault| fault.name() == text);
        found.ok_or_else(|| FaultError { name: text.to_owned() })
    }
}

impl Fault {
    /// The message with this fault, as bytes. If the fault does not apply to the message, the message stays correct:
    /// for example, a response has no `Max-Forwards` to remove.
    pub fn spoil(self, message: &Message) -> Bytes {
        let mut wrong = message.clone();
        if self.spoil_fields(&mut wrong) {
            return wrong.to_bytes();
        }
        let bytes = message.to_bytes();
        let head = bytes.len() - message.body().len();
        let (line, fields) = bytes[..head].split_at(line_end(&bytes));
        let parts: [&[u8]; 3] = [line, fields, &bytes[head..]];
        self.spoil_bytes(message, parts).into()
    }

    /// Applies a fault in the list of header fields or their values. Returns whether the fault is of this kind.
    fn spoil_fields(self, message: &mut Message) -> bool {
        let headers = message.headers_mut();
        let value = |name: &Name| headers.get(name).unwrap_or_default().to_owned();
        match self {
            Self::MissingVia => headers.remove(&Name::Via),
            Self::MissingFrom => headers.remove(&Name::From),
            Self::MissingTo => headers.remove(&Name::To),
            Self::MissingCallId => headers.remove(&Name::CallId),
            Self::MissingCSeq => headers.remove(&Name::CSeq),
            Self::MissingMaxForwards => headers.remove(&Name::MaxForwards),
            Self::MissingContact => headers.remove(&Name::Contact),
            Self::MissingContentType => headers.remove(&Name::ContentType),
            Self::MissingFromTag => headers.set(Name::From, before(&value(&Name::From), ";tag=")),
            Self::RepeatedFrom => headers.push(Name::From, value(&Name::From)),
            Self::RepeatedTo => headers.push(Name::To, value(&Name::To)),
            Self::RepeatedCallId => headers.push(Name::CallId, value(&Name::CallId)),
            Self::RepeatedCSeq => headers.push(Name::CSeq, value(&Name::CSeq)),
            Self::GarbledVia => headers.set(Name::Via, value(&Name::Via).replacen("SIP/2.0", "SIP/2", 1)),
            Self::GarbledFrom => headers.set(Name::From, value(&Name::From).replacen('>', "", 1)),
            Self::GarbledTo => headers.set(Name::To, format!("\"{}", value(&Name::To))),
            Self::GarbledCallId => headers.set(Name::CallId, format!("{} x", value(&Name::CallId))),
            Self::GarbledCSeq => headers.set(Name::CSeq, value(&Name::CSeq).replacen(' ', "x ", 1)),
            Self::GarbledContact => headers.set(Name::Contact, "<nobody>"),
            Self::GarbledMaxForwards => headers.set(Name::MaxForwards, "many"),
            Self::ManyForwards => headers.set(Name::MaxForwards, 256),
            Self::LargeCSeq => {
                let method = value(&Name::CSeq).split_once(' ').map(|(_, method)| method.to_owned());
                headers.set(Name::CSeq, format!("2147483648 {}", method.unwrap_or_default()));
            }
            Self::CSeqOfAnotherMethod => {
                let number = before(&value(&Name::CSeq), " ").to_owned();
                headers.set(Name::CSeq, format!("{number} WRONG"));
            }
            Self::BranchWithoutCookie => {
                headers.set(Name::Via, value(&Name::Via).replacen("z9hG4bK", "z", 1))
            }
            Self::MissingBranch => headers.set(Name::Via, before(&value(&Name::Via), ";branch=")),
            Self::OversizedHeader => headers.push(Name::Subject, "x".repeat(4000)),
            Self::ManyHeaders => (0..600).for_each(|_| headers.push(Name::new("X-Many"), "x")),
            _ => return false,
        }
        true
    }

    /// Applies any other fault to the bytes: start line, header fields with their empty line, body.
    fn spoil_bytes(self, message: &Message, [line, fields, body]: [&[u8]; 3]) -> Vec<u8> {
        let replaced = |part: &[u8], from: &[u8], to: &[u8]| match memchr::memmem::find(part, from) {
            Some(at) => [&part[..at], to, &part[at + from.len()..]].concat(),
            None => part.to_owned(),
        };
        let length = format!("Content-Length: {}", message.body().len());
        let stating = |to: &[u8]| [line, &replaced(fields, length.as_bytes(), to), body].concat();
        let is_request = message.as_request().is_some();
        match self {
            Self::LongContentLength => stating(b"Content-Length: 99999"),
            Self::NegativeContentLength => stating(b"Content-Length: -1"),
            Self::RepeatedContentLength => stating(format!("{length}\r\n{length}").as_bytes()),
            Self::MissingColon => [line, b"Subject without a colon\r\n", fields, body].concat(),
            Self::GarbledName => [line, b"Sub ject: x\r\n", fields, body].concat(),
            Self::AnotherVersion => [&replaced(line, b"SIP/2.0", b"SIP/3.0"), fields, body].concat(),
            Self::ShortStartLine if is_request => {
                let method = &line[..line.iter().position(|byte| *byte == b' ').unwrap_or(0)];
                [method, b" SIP/2.0\r\n", fields, body].concat()
            }
            Self::ShortStartLine => [b"SIP/2.0\r\n", fields, body].concat(),
            Self::GarbledStartLine if is_request => {
                [&replaced(line, b" SIP/2.0", b" and more SIP/2.0"), fields, body].concat()
            }
            Self::GarbledStartLine => [b"SIP/2.0 999 What\r\n", fields, body].concat(),
            Self::BareLineFeeds => {
                let head = [line, fields].concat();
                let lines = head.iter().copied().filter(|byte| *byte != b'\r');
                lines.chain(body.iter().copied()).collect()
            }
            Self::MissingEmptyLine => [line, fields.strip_suffix(b"\r\n").unwrap_or(fields)].concat(),
            Self::BinaryGarbage => [line, b"Subject: \xff\xfe\x00\x01\r\n", fields, body].concat(),
            // `spoil_fields` handles all other faults. A fault that neither function handles breaks no rule.
            _ => [line, fields, body].concat(),
        }
    }
}

fn before<'a>(text: &'a str, mark: &str) -> &'a str {
    text.split_once(mark).map_or(text, |(before, _)| before)
}

fn line_end(message: &[u8]) -> usize {
    message.iter().position(|byte| *byte == b'\n').map_or(message.len(), |at| at + 1)
}
