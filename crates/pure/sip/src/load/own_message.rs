//! Own header fields and bodies of a load's author for the messages of the built-in scenarios.

use std::collections::BTreeMap;

use netrig_core::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::template::Hole;
use crate::Name;
use crate::grammar::is_a_token;
use crate::multipart::essence;
use crate::sdp::SDP_TYPE;

/// Header fields that a load needs to identify a call, or to route or frame a message. They cannot be changed.
static KEPT: [Name; 18] = [
    Name::Via,
    Name::From,
    Name::To,
    Name::CallId,
    Name::CSeq,
    Name::ContentLength,
    Name::Route,
    Name::RecordRoute,
    Name::Authorization,
    Name::ProxyAuthorization,
    Name::RAck,
    Name::RSeq,
    Name::Require,
    Name::ProxyRequire,
    Name::Event,
    Name::SubscriptionState,
    Name::SessionExpires,
    Name::MinSe,
];

/// Maximum length of all texts of one message together, bytes. A message must fit into a datagram.
const LONGEST_TEXT: usize = 60_000;

named! {
    /// A kind of message of the built-in scenarios.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum MessageStep {
        /// REGISTER.
        Register = "register",
        /// The INVITE that begins a call.
        Invite = "invite",
        /// An INVITE of the caller within the dialog: hold, resumption, refresh.
        ReInvite = "re-invite",
        /// UPDATE of the caller.
        Update = "update",
        /// CANCEL.
        Cancel = "cancel",
        /// PRACK.
        Prack = "prack",
        /// ACK of a 2xx.
        Ack = "ack",
        /// BYE of the caller.
        Bye = "bye",
        /// OPTIONS.
        Options = "options",
        /// MESSAGE.
        Message = "message",
        /// Each SUBSCRIBE of a subscription.
        Subscribe = "subscribe",
        /// NOTIFY of a peer.
        Notify = "notify",
        /// 180 of a peer.
        Ringing = "ringing",
        /// 183 of a peer.
        Progress = "progress",
        /// 200 to an INVITE.
        Answer = "answer",
        /// 486 of a peer.
        Refusal = "refusal",
    }
}

/// A change of one kind of message of the built-in scenarios.
///
/// Texts have the keywords `[user]`, `[peer]`, `[domain]`, `[call_id]`, `[cseq]`, `[local_ip]`, `[local_ip_type]` (4
/// or 6), `[local_port]`, `[remote_ip]`, `[remote_port]` and `[transport]`. A bracket that begins no keyword is
/// written `\x5B`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnMessage {
    /// The kind of message to be changed.
    pub step: MessageStep,
    /// Header fields that replace all fields of the same name. An empty text removes the fields.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Header fields that are appended, each as a line: `Diversion: <sip:[peer]@[domain]>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<String>,
    /// A body that replaces the scenario's body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<OwnBody>,
    /// Several bodies instead, as `multipart/mixed` (RFC 2046 section 5.1.3).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<OwnBody>,
}

/// A body, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnBody {
    /// Its media type: `application/sdp`.
    #[serde(rename = "type")]
    pub media_type: String,
    /// Its text, which is sent with CR LF at the end of each line. By default the session description of the
    /// scenario's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Header fields of the part, each as a line: `Content-ID: <[user]@[domain]>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
}

/// Why a change of a message is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnMessageError {
    /// The name of a header field is not a token.
    #[error("`{0}` is not a name of a header field (RFC 3261 section 25.1, `token`)")]
    NoName(String),
    /// A line without a colon.
    #[error("`{0}` is not a header field: expected `Name: value`")]
    NoHeaderField(String),
    /// The load needs this header field without a change.
    #[error("`{0}` cannot be changed: the load needs it to follow its calls; take it out")]
    Kept(&'static str),
    /// `Content-Type` is set by the body.
    #[error("`Content-Type` is the `type` of a body")]
    ContentType,
    /// A value has a control character, or a line end.
    #[error("the value of `{0}` has a control character or a line end")]
    ControlCharacter(String),
    /// An unknown keyword.
    #[error("`[{0}]` is not a keyword: expected one of {known}; a bracket itself is written `\\x5B`", known = known_keywords())]
    NoKeyword(String),
    /// A keyword without a value in these messages.
    #[error("`[{0}]` has no value in these messages; take it out")]
    UnknownHere(&'static str),
    /// A keyword that differs from call to call, in the session description of an INVITE, which all calls share.
    #[error(
        "`[{0}]` differs from call to call, and the session description of `invite` is that of all calls of the load"
    )]
    OfOneCall(&'static str),
    /// The session description of an INVITE within a dialog is made from that of the first INVITE.
    #[error(
        "the session description of `re-invite` follows from that of `invite`: describe the session there"
    )]
    OfChange,
    /// Both a body and parts.
    #[error("it has both `body` and `parts`: expected one of them")]
    BodyAndParts,
    /// Header fields of a body that is not a part.
    #[error("`headers` belong to a part: use `set` and `add` for those of the message")]
    HeadersOfBody,
    /// No media type.
    #[error("`{0}` is not a media type: expected `type/subtype`")]
    NoMediaType(String),
    /// A body without a text, although the scenario's message has no session description, or the type is not
    /// `application/sdp`.
    #[error(
        "a body without `text` is the session description of the scenario's message: its `type` is `application/sdp`, and its step \
         one of `invite`, `re-invite`, `ack`, `progress` and `answer`"
    )]
    NoText,
    /// Longer than a datagram.
    #[error("its texts have more than {LONGEST_TEXT} B together: a message has to fit into a datagram")]
    TooLong,
    /// It changes nothing.
    #[error("it changes nothing: expected `set`, `add`, `body` or `parts`")]
    Nothing,
}

/// A word in brackets that the load replaces by a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    /// A value that is filled in for each message.
    Each(Hole),
    Domain,
    LocalIp,
    LocalIpType,
    LocalPort,
    RemoteIp,
    RemotePort,
    Transport,
}

const KEYWORDS: [(&str, Keyword); 11] = [
    ("user", Keyword::Each(Hole::User)),
    ("peer", Keyword::Each(Hole::Peer)),
    ("call_id", Keyword::Each(Hole::CallId)),
    ("cseq", Keyword::Each(Hole::CSeq)),
    ("domain", Keyword::Domain),
    ("local_ip", Keyword::LocalIp),
    ("local_ip_type", Keyword::LocalIpType),
    ("local_port", Keyword::LocalPort),
    ("remote_ip", Keyword::RemoteIp),
    ("remote_port", Keyword::RemotePort),
    ("transport", Keyword::Transport),
];

fn hole_name(hole: Hole) -> &'static str {
    KEYWORDS.iter().find(|(_, keyword)| *keyword == Keyword::Each(hole)).map_or("", |(name, _)| name)
}

fn known_keywords() -> String {
    KEYWORDS.map(|(name, _)| format!("`[{name}]`")).join(", ")
}

/// Splits a text into plain pieces (`Ok`) and words in brackets (`Err`). A word begins with a small letter and has
/// small letters, digits and `_` only. Other brackets, such as those of JSON and of IPv6 addresses, are plain text.
pub(super) fn pieces(text: &str) -> Vec<Result<&str, &str>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(start) = rest[from..].find('[').map(|at| at + from) {
        let word = rest[start + 1..].split(']').next().unwrap_or_default();
        let is_closed = rest[start + 1 + word.len()..].starts_with(']');
        let is_word = word.starts_with(|letter: char| letter.is_ascii_lowercase())
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit());
        if is_closed && is_word {
            pieces.push(Ok(&rest[..start]));
            pieces.push(Err(word));
            (rest, from) = (&rest[start + word.len() + 2..], 0);
        } else {
            from = start + 1;
        }
    }
    pieces.push(Ok(rest));
    pieces
}

pub(super) fn keyword(word: &str) -> Result<Keyword, OwnMessageError> {
    let found = KEYWORDS.iter().find(|(name, _)| *name == word);
    found.map(|(_, keyword)| *keyword).ok_or_else(|| OwnMessageError::NoKeyword(word.to_owned()))
}

/// Splits the line of a header field into name and value.
pub(super) fn header_field(line: &str) -> Result<(Name, &str), OwnMessageError> {
    let (name, value) =
        line.split_once(':').ok_or_else(|| OwnMessageError::NoHeaderField(line.to_owned()))?;
    Ok((Name::new(name.trim_end()), value.trim()))
}

impl MessageStep {
    /// Header fields that the load needs in messages of this kind only.
    fn kept(self) -> &'static [Name] {
        match self {
            // The parameters of a registered contact matter only to the registrar.
            Self::Register => &[Name::Expires],
            Self::Subscribe => &[Name::Contact, Name::Expires],
            _ => &[Name::Contact],
        }
    }

    /// Whether the scenario's messages of this kind may have a session description.
    pub(super) const fn has_session(self) -> bool {
        matches!(self, Self::Invite | Self::ReInvite | Self::Ack | Self::Progress | Self::Answer)
    }

    /// Whether a message of this kind has a value for this hole.
    const fn knows(self, hole: Hole) -> bool {
        match self {
            Self::Register => !matches!(hole, Hole::Peer),
            Self::Notify => matches!(hole, Hole::CallId | Hole::CSeq),
            Self::Ringing | Self::Progress | Self::Answer | Self::Refusal => false,
            _ => true,
        }
    }
}

impl OwnMessage {
    /// Checks whether the change is possible.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&self) -> Result<(), OwnMessageError> {
        if self.set.is_empty() && self.add.is_empty() && self.body.is_none() && self.parts.is_empty() {
            return Err(OwnMessageError::Nothing);
        }
        for (name, value) in &self.set {
            self.check_field(&Name::new(name), value)?;
        }
        self.check_fields(&self.add)?;
        if self.body.is_some() && !self.parts.is_empty() {
            return Err(OwnMessageError::BodyAndParts);
        }
        if self.body.as_ref().is_some_and(|body| !body.headers.is_empty()) {
            return Err(OwnMessageError::HeadersOfBody);
        }
        if self.length() > LONGEST_TEXT {
            return Err(OwnMessageError::TooLong);
        }
        self.body.iter().chain(&self.parts).try_for_each(|body| self.check_body(body))
    }

    /// Length of its texts together, bytes.
    pub(super) fn length(&self) -> usize {
        let of_body = |body: &OwnBody| {
            let headers = body.headers.iter().map(String::len).sum::<usize>();
            body.text.as_deref().map_or(0, str::len) + headers
        };
        let fields = self.set.iter().map(|(name, value)| name.len() + value.len());
        let bodies = self.body.iter().chain(&self.parts).map(of_body);
        fields.chain(self.add.iter().map(String::len)).chain(bodies).sum()
    }

    fn check_fields(&self, lines: &[String]) -> Result<(), OwnMessageError> {
        lines.iter().try_for_each(|line| {
            let (name, value) = header_field(line)?;
            self.check_field(&name, value)
        })
    }

    fn check_field(&self, name: &Name, value: &str) -> Result<(), OwnMessageError> {
        if let Some(kept) = KEPT.iter().chain(self.step.kept()).find(|kept| *kept == name) {
            return Err(OwnMessageError::Kept(kept.as_str()));
        }
        if *name == Name::ContentType {
            return Err(OwnMessageError::ContentType);
        }
        if !is_a_token(name.as_str()) {
            return Err(OwnMessageError::NoName(name.to_string()));
        }
        if value.contains(|letter: char| letter.is_control() && letter != '\t') {
            return Err(OwnMessageError::ControlCharacter(name.to_string()));
        }
        self.check_text(value)
    }

    fn check_text(&self, text: &str) -> Result<(), OwnMessageError> {
        for word in pieces(text).into_iter().filter_map(Result::err) {
            if let Keyword::Each(hole) = keyword(word)?
                && !self.step.knows(hole)
            {
                return Err(OwnMessageError::UnknownHere(hole_name(hole)));
            }
        }
        Ok(())
    }

    fn check_body(&self, body: &OwnBody) -> Result<(), OwnMessageError> {
        let OwnBody { media_type, text, headers } = body;
        let is_type = essence(media_type)
            .split_once('/')
            .is_some_and(|(one, other)| is_a_token(one) && is_a_token(other));
        if !is_type || media_type.contains(char::is_control) {
            return Err(OwnMessageError::NoMediaType(media_type.clone()));
        }
        if text.is_none() && !(body.is_session() && self.step.has_session()) {
            return Err(OwnMessageError::NoText);
        }
        if text.is_some() && body.is_session() && self.step == MessageStep::ReInvite {
            return Err(OwnMessageError::OfChange);
        }
        self.check_fields(headers)?;
        let Some(text) = text else { return Ok(()) };
        self.check_text(text)?;
        if self.step == MessageStep::Invite && body.is_session() {
            let words =
                pieces(text).into_iter().filter_map(Result::err).filter_map(|word| keyword(word).ok());
            for word in words {
                if let Keyword::Each(hole) = word {
                    return Err(OwnMessageError::OfOneCall(hole_name(hole)));
                }
            }
        }
        Ok(())
    }

    /// Its session description for all messages of this kind.
    pub(super) fn session(&self, step: MessageStep) -> Option<&str> {
        let mut bodies = self.body.iter().chain(&self.parts).filter(|_| self.step == step);
        bodies.find(|body| body.is_session() && body.text.is_some())?.text.as_deref()
    }
}

impl OwnBody {
    pub(super) fn is_session(&self) -> bool {
        essence(&self.media_type).eq_ignore_ascii_case(SDP_TYPE)
    }
}

impl OwnMessage {
    /// Checks several changes.
    ///
    /// # Errors
    /// The first error, with the number and the step of its message.
    pub fn check_all(messages: &[Self]) -> Result<(), String> {
        for (number, message) in (1..).zip(messages) {
            let step = message.step.name();
            message.check().map_err(|error| format!("message {number}, of the step `{step}`: {error}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(text: &str) -> OwnMessage {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_reason() {
        for (text, words) in [
            (r#"{ "step": "bye" }"#, "it changes nothing"),
            (r#"{ "step": "bye", "set": { "v": "x" } }"#, "`Via` cannot be changed"),
            (r#"{ "step": "bye", "add": ["t: <sip:a@b>"] }"#, "`To` cannot be changed"),
            (r#"{ "step": "invite", "set": { "m": "<sip:a@b>" } }"#, "`Contact` cannot be changed"),
            (r#"{ "step": "register", "set": { "Expires": "1" } }"#, "`Expires` cannot be changed"),
            (r#"{ "step": "invite", "add": ["Require: 100rel"] }"#, "`Require` cannot be changed"),
            (r#"{ "step": "bye", "body": { "type": "application/sdp" } }"#, "without `text`"),
            (
                r#"{ "step": "re-invite", "body": { "type": "application/sdp", "text": "v=0" } }"#,
                "follows from that of `invite`",
            ),
            (r#"{ "step": "bye", "add": ["nothing"] }"#, "expected `Name: value`"),
            (r#"{ "step": "bye", "add": ["a b: c"] }"#, "is not a name of a header field"),
            (r#"{ "step": "bye", "set": { "c": "text/plain" } }"#, "is the `type` of a body"),
            (r#"{ "step": "bye", "set": { "Y": "a\r\nb" } }"#, "control character"),
            (r#"{ "step": "bye", "set": { "Y": "[usr]" } }"#, "`[usr]` is not a keyword"),
            (r#"{ "step": "register", "set": { "Y": "[peer]" } }"#, "has no value in these messages"),
            (r#"{ "step": "answer", "set": { "Y": "[user]" } }"#, "has no value in these messages"),
            (r#"{ "step": "bye", "body": { "type": "text", "text": "" } }"#, "is not a media type"),
            (r#"{ "step": "bye", "body": { "type": "text/plain" } }"#, "without `text`"),
            (
                r#"{ "step": "bye", "body": { "type": "a/b", "text": "", "headers": ["Y: y"] } }"#,
                "`headers` belong to a part",
            ),
            (
                r#"{ "step": "bye", "body": { "type": "a/b", "text": "" }, "parts": [{ "type": "a/b", "text": "" }] }"#,
                "both `body` and `parts`",
            ),
            (
                r#"{ "step": "invite", "body": { "type": "application/sdp", "text": "o=[user] 1 1" } }"#,
                "that of all calls",
            ),
        ] {
            let error = own(text).check().expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert!(serde_json::from_str::<OwnMessage>(r#"{ "step": "reinvite" }"#).is_err());
        let half = "x".repeat(30_001);
        let long = own(&format!(r#"{{ "step": "bye", "set": {{ "Y": "{half}" }}, "add": ["Y: {half}"] }}"#));
        assert_eq!(long.check(), Err(OwnMessageError::TooLong));
        let registering =
            own(r#"{ "step": "register", "set": { "Contact": "<sip:[user]@[local_ip]>;q=0.5" } }"#);
        let both = OwnMessage::check_all(&[registering, long]).unwrap_err();
        assert!(both.starts_with("message 2, of the step `bye`: "), "{both}");
    }
}
