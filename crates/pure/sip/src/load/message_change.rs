//! Messages of the scenarios with the header fields and bodies of the load's author.

use bytes::Bytes;

use super::own_message::{Keyword, MessageStep, OwnBody, OwnMessage, header_field, keyword, pieces};
use super::setup::Setup;
use crate::multipart::MIXED_TYPE;
use crate::{Message, Name};

impl Keyword {
    fn value(self, setup: &Setup) -> String {
        let version = |is_6: bool| if is_6 { "6" } else { "4" };
        match self {
            Self::Each(hole) => hole.name().to_owned(),
            Self::Domain => setup.domain.clone(),
            Self::LocalIp => setup.local.ip().to_string(),
            Self::LocalIpType => version(setup.local.is_ipv6()).to_owned(),
            Self::LocalPort => setup.local.port().to_string(),
            Self::RemoteIp => setup.server.ip().to_string(),
            Self::RemotePort => setup.server.port().to_string(),
            Self::Transport => setup.transport.name().to_owned(),
        }
    }
}

/// A text in which each keyword is replaced by its value.
fn filled(text: &str, setup: &Setup) -> String {
    let value = |piece: Result<&str, &str>| match piece {
        Ok(text) => text.replace("\\x5B", "["),
        // All keywords are known: they were checked.
        Err(word) => keyword(word).map(|keyword| keyword.value(setup)).unwrap_or_default(),
    };
    pieces(text).into_iter().map(value).collect()
}

/// The text with CR LF at the end of each line, whatever line ends it has.
pub fn with_line_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// A session description in which each keyword is replaced by its value.
pub(super) fn own_session(text: &str, setup: &Setup) -> Bytes {
    Bytes::from(with_line_ends(&filled(text, setup)))
}

impl OwnMessage {
    /// Changes a message of the scenario before it becomes a template.
    pub(super) fn change(&self, message: &mut Message, setup: &Setup) {
        for (name, value) in &self.set {
            let (name, value) = (Name::new(name), filled(value, setup));
            let headers = message.headers_mut();
            if value.is_empty() { headers.remove(&name) } else { headers.set(name, value) }
        }
        for (name, value) in self.add.iter().filter_map(|line| header_field(line).ok()) {
            message.headers_mut().push(name, filled(value, setup));
        }
        let own = message.body().clone();
        // If the scenario's message has no session description, a body with one would be a second offer.
        let is_there = |body: &&OwnBody| !(body.is_session() && self.step.has_session() && own.is_empty());
        let parts: Vec<&OwnBody> = self.parts.iter().filter(is_there).collect();
        let (media_type, body) = match (self.body.as_ref().filter(is_there), &parts[..]) {
            (Some(body), _) => (body.media_type.clone(), self.text_of(body, &own, setup)),
            (None, []) => return,
            (None, parts) => self.joined(parts, &own, setup),
        };
        message.headers_mut().set(Name::ContentType, media_type);
        match message {
            Message::Request(request) => request.body = body,
            Message::Response(response) => response.body = body,
        }
    }

    fn text_of(&self, body: &OwnBody, own: &Bytes, setup: &Setup) -> Bytes {
        // The scenario's messages already have the session descriptions of `invite` and `answer`.
        let is_of_load = body.is_session() && matches!(self.step, MessageStep::Invite | MessageStep::Answer);
        match &body.text {
            Some(text) if !is_of_load => own_session(text, setup),
            _ => own.clone(),
        }
    }

    /// Joins several parts into one body. Returns its media type, with a boundary that no part contains, and the
    /// body.
    fn joined(&self, parts: &[&OwnBody], own: &Bytes, setup: &Setup) -> (String, Bytes) {
        let texts: Vec<Bytes> = parts.iter().map(|part| self.text_of(part, own, setup)).collect();
        let has = |boundary: &str| {
            texts.iter().any(|text| memchr::memmem::find(text, boundary.as_bytes()).is_some())
        };
        let mut number = 1;
        let mut boundary = format!("part-{number}");
        while has(&boundary) {
            number += 1;
            boundary = format!("part-{number}");
        }
        let mut body = Vec::new();
        for (part, text) in parts.iter().zip(&texts) {
            body.extend_from_slice(
                format!("--{boundary}\r\nContent-Type: {}\r\n", part.media_type).as_bytes(),
            );
            for (name, value) in part.headers.iter().filter_map(|line| header_field(line).ok()) {
                body.extend_from_slice(format!("{name}: {}\r\n", filled(value, setup)).as_bytes());
            }
            body.extend_from_slice(b"\r\n");
            body.extend_from_slice(text);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        (format!("{MIXED_TYPE};boundary={boundary}"), body.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::template::{Hole, HoleValues, Template};
    use super::*;

    fn own(text: &str) -> OwnMessage {
        serde_json::from_str(text).unwrap()
    }

    fn setup() -> Setup {
        Setup::new(1, "[2001:db8::1]:5070".parse().unwrap(), "192.0.2.2:5060".parse().unwrap())
    }

    fn changed(own: &OwnMessage) -> Message {
        own.check().unwrap();
        let text = "INVITE sip:0hole-peer0@a.example SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=b\r\nFrom: <sip:a@b>;tag=1\r\n\
                    To: <sip:c@d>\r\nCall-ID: 7\r\nCSeq: 1 INVITE\r\nMax-Forwards: 70\r\nAllow: INVITE\r\nAllow: ACK\r\n\
                    Content-Type: application/sdp\r\nContent-Length: 5\r\n\r\nv=0\r\n";
        let mut message = Message::parse(&Bytes::from(text)).unwrap();
        own.change(&mut message, &setup());
        message
    }

    #[test]
    fn header_fields_are_set_added_and_taken_away() {
        let own = own(
            r#"{ "step": "invite", "set": { "Max-Forwards": "5", "allow": "", "Subject": "to [peer] \\x5Bnow]" },
                 "add": ["X-Way : [local_ip]:[local_port] IP[local_ip_type] [remote_ip]:[remote_port] [transport] [domain]", "X-Way: 2"] }"#,
        );
        let message = changed(&own);
        let all = |name| message.headers().all(&Name::new(name)).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(all("Max-Forwards"), ["5"]);
        assert!(all("Allow").is_empty());
        assert_eq!(all("Subject"), ["to 0hole-peer0 [now]"]);
        assert_eq!(all("X-Way"), ["2001:db8::1:5070 IP6 192.0.2.2:5060 UDP 192.0.2.2", "2"]);
        assert_eq!(message.body(), "v=0\r\n");
    }

    /// Each written message has the `Content-Length` of its own body (RFC 3261 section 20.14).
    #[test]
    fn a_body_with_keywords_has_its_length() {
        let message = changed(&own(
            r#"{ "step": "invite", "body": { "type": "text/plain", "text": "[user]\n[user] {\"a\": [1, true]}" } }"#,
        ));
        let template = Template::new(&message).unwrap();
        for user in ["a", "alice"] {
            let mut out = Vec::new();
            template.write(&HoleValues::default().with(Hole::User, user.as_bytes()), &mut out);
            let out = String::from_utf8(out).unwrap().replace("sip:@", "sip:b@");
            let read = Message::parse(&Bytes::from(out)).unwrap();
            let body = format!("{user}\r\n{user} {{\"a\": [1, true]}}");
            assert_eq!(read.body(), body.as_str());
            assert_eq!(read.headers().get(&Name::ContentLength), Some(body.len().to_string().as_str()));
            assert_eq!(read.headers().get(&Name::ContentType), Some("text/plain"));
        }
    }

    #[test]
    fn parts_stand_behind_a_boundary_that_none_of_them_has() {
        let message = changed(&own(r#"{ "step": "invite", "parts": [{ "type": "application/sdp" },
                 { "type": "text/plain", "text": "part-1", "headers": ["Content-ID: <1@[domain]>"] }] }"#));
        let kind = message.headers().get(&Name::ContentType).unwrap();
        assert_eq!(kind, "multipart/mixed;boundary=part-2");
        assert_eq!(
            message.body(),
            "--part-2\r\nContent-Type: application/sdp\r\n\r\nv=0\r\n\r\n--part-2\r\nContent-Type: text/plain\r\n\
             Content-ID: <1@192.0.2.2>\r\n\r\npart-1\r\n--part-2--\r\n"
        );
    }
}
