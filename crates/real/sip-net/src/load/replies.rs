//! Stateless responses to requests.

use std::fmt::Write as _;
use std::net::SocketAddr;

use netrig_sip::load::scan::{Field, Start};
use netrig_sip::load::{LoadOutput, MessageConnection, Scan, in_messages};

/// The header fields with credentials, from the line feed before the name to the colon.
const CREDENTIALS: [&[u8]; 2] = [b"\nAuthorization:", b"\nProxy-Authorization:"];

/// Answers each request statelessly.
pub(super) struct Replies {
    /// The local address, as text in messages.
    local: SocketAddr,
    challenges: bool,
    text: Vec<u8>,
}

impl Replies {
    /// Responses of an element at `local`. With `challenges`, REGISTER without credentials is challenged.
    pub const fn new(local: SocketAddr, challenges: bool) -> Self {
        Self { local: in_messages(local), challenges, text: Vec::new() }
    }

    /// Appends the response to a request. An ACK gets no response, and neither do bytes that are not a request.
    pub fn to(&mut self, from: SocketAddr, scan: &Scan<'_>, bytes: &[u8], out: &mut LoadOutput) {
        let (Some(Start::Request { method, .. }), Some(to), Some(sender), Some(call_id), Some(cseq)) =
            (scan.start, scan.to, scan.from, scan.call_id, scan.cseq)
        else {
            return;
        };
        let (status, further) = match method {
            b"ACK" => return,
            b"INVITE" => ("302 Moved Temporarily", format!("Contact: <sip:elsewhere@{}>\r\n", self.local)),
            b"REGISTER" if self.challenges && !has_credentials(bytes) => {
                let challenge =
                    "WWW-Authenticate: Digest realm=\"netrig\", nonce=\"6e6574726967\", qop=\"auth\"\r\n";
                ("401 Unauthorized", challenge.to_owned())
            }
            _ => ("200 OK", String::new()),
        };
        self.text.clear();
        self.say(&[b"SIP/2.0 ", status.as_bytes()]);
        for via in scan.all(Field::Via) {
            self.say(&[b"Via: ", via]);
        }
        self.say(&[b"From: ", sender]);
        self.say(&[b"To: ", to, if scan.to_tag.is_none() { b";tag=netrig" } else { b"" }]);
        self.say(&[b"Call-ID: ", call_id]);
        let mut number = String::new();
        // Writing to a string cannot fail.
        let _ = write!(number, "{} ", cseq.number);
        self.say(&[b"CSeq: ", number.as_bytes(), cseq.method]);
        self.text.extend_from_slice(further.as_bytes());
        self.say(&[b"Content-Length: 0\r\n"]);
        out.messages.push(from, MessageConnection::Back, &self.text);
    }

    /// Appends a line.
    fn say(&mut self, pieces: &[&[u8]]) {
        pieces.iter().for_each(|piece| self.text.extend_from_slice(piece));
        self.text.extend_from_slice(b"\r\n");
    }
}

fn has_credentials(bytes: &[u8]) -> bool {
    CREDENTIALS.iter().any(|name| bytes.windows(name.len()).any(|window| window == *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_is_challenged_once_and_a_call_sent_elsewhere() {
        let from = "127.0.0.1:5060".parse().unwrap();
        let mut replies = Replies::new("127.0.0.1:5070".parse().unwrap(), true);
        let mut told = |method: &str, further: &str| {
            let mut out = LoadOutput::default();
            let request = format!(
                "{method} sip:example.net SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKx\r\nFrom: <sip:a@b>;tag=1\r\n\
                 To: <sip:a@b>\r\nCall-ID: 7\r\nCSeq: 3 {method}\r\n{further}Content-Length: 0\r\n\r\n"
            );
            replies.to(from, &Scan::of(request.as_bytes()), request.as_bytes(), &mut out);
            out.messages.iter().map(|(_, bytes)| String::from_utf8(bytes.into()).unwrap()).collect::<String>()
        };
        let status = |text: &str| Scan::of(text.as_bytes()).status();
        let challenge = told("REGISTER", "");
        assert_eq!(status(&challenge), Some(401));
        assert!(Scan::of(challenge.as_bytes()).www_authenticate.is_some());
        assert_eq!(status(&told("REGISTER", "Authorization: Digest x\r\n")), Some(200));
        assert_eq!(status(&told("INVITE", "")), Some(302));
        assert!(told("INVITE", "").contains("CSeq: 3 INVITE\r\n"));
        assert_eq!(told("ACK", ""), "");
    }
}
