//! Refusal of requests that break the grammar (RFC 3261 sections 16.3 and 21.4.1, RFC 4475 section 3.1.2).

use bytes::Bytes;

use super::reply::{reply, stamp};
use super::{Destination, Source};
use crate::header::Transport;
use crate::message::head_length;
use crate::{Headers, Host, Message, Method, Name, Request, Response, SipUri, Status, Uri};

/// Header fields that a response copies.
const COPIED: [Name; 5] = [Name::Via, Name::From, Name::To, Name::CallId, Name::CSeq];

/// The response to a request that [`Message::parse`](crate::Message::parse) refuses, with its destination: 505 for another version
/// of SIP, else 400. `None` if the bytes are not a request, if the request is an ACK, or if its topmost `Via` breaks the grammar,
/// so that a response has no destination.
pub fn refuse_unreadable(bytes: &Bytes, from: Source) -> Option<(Destination, Response)> {
    let skipped = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let bytes = &bytes[skipped..];
    let head = std::str::from_utf8(&bytes[..head_length(bytes).unwrap_or(bytes.len())]).ok()?;
    let (start, fields) = head.split_once("\r\n")?;
    let (method, rest) = start.split_once(' ')?;
    let version = rest.trim_end().rsplit(' ').next()?;
    let is_sip = version.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("SIP/"));
    if !is_sip || method.starts_with("SIP/") || method == Method::Ack.as_str() {
        return None;
    }
    let status = if version.eq_ignore_ascii_case("SIP/2.0") {
        Status::BAD_REQUEST
    } else {
        Status::VERSION_NOT_SUPPORTED
    };
    // A response needs only the header fields. The Request-URI may be the unreadable part.
    let nobody = Uri::Sip(SipUri::new(Host::Address(from.address.ip())));
    let mut request = Request::new(Method::Options, nobody);
    request.headers = copied(fields);
    request.headers.top_via().ok()??;
    stamp(&mut request, from);
    let response = reply(&request, status);
    // A response that breaks the grammar is not sent.
    Message::parse(&Message::Response(response.clone()).to_bytes()).ok()?;
    let to = match from.transport {
        Transport::Udp => Destination::of_response(&response)?,
        _ => Destination::Address(from),
    };
    matches!(to, Destination::Address(_)).then_some((to, response))
}

/// The header fields that a response copies, unfolded.
fn copied(fields: &str) -> Headers {
    let mut headers = Headers::default();
    let mut last: Option<(Name, String)> = None;
    for line in fields.split("\r\n") {
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = &mut last {
                value.push(' ');
                value.push_str(line.trim());
            }
            continue;
        }
        keep(&mut headers, last.take());
        last =
            line.split_once(':').map(|(name, value)| (Name::new(name.trim_end()), value.trim().to_owned()));
    }
    keep(&mut headers, last);
    headers
}

fn keep(headers: &mut Headers, field: Option<(Name, String)>) {
    if let Some((name, value)) = field.filter(|(name, _)| COPIED.contains(name)) {
        headers.push(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "192.0.2.7:5062";

    fn request(start: &str, more: &str) -> Bytes {
        let text = format!(
            "{start}\r\nVia: SIP/2.0/UDP 192.0.2.7:5062;branch=z9hG4bKx, SIP/2.0/UDP h;branch=z9hG4bKy\r\nf: <sip:a@b>\r\n ;tag=1\r\n\
             To: <sip:c@d>\r\nCall-ID: x\r\nCSeq: 7 OPTIONS\r\nSubject: not copied\r\n{more}\r\n"
        );
        Bytes::from(text)
    }

    fn source(transport: Transport) -> Source {
        Source { transport, address: FROM.parse().unwrap() }
    }

    fn refused(bytes: &Bytes) -> Option<(Destination, Response)> {
        assert!(Message::parse(bytes).is_err());
        refuse_unreadable(bytes, source(Transport::Udp))
    }

    #[test]
    fn a_request_that_cannot_be_read_is_answered_400_or_505() {
        for (start, more, code) in [
            ("OPTIONS sip:b@c SIP/7.0", "", 505),
            ("OPTIONS <sip:b@c> SIP/2.0", "", 400),
            ("OPTIONS sip:b@c  SIP/2.0", "", 400),
            ("OPTIONS sip:b@c SIP/2.0", "Content-Length: 99\r\n", 400),
            ("OPTIONS sip:b@c SIP/2.0", "no field\r\n", 400),
        ] {
            let (to, response) = refused(&request(start, more)).unwrap();
            assert_eq!(
                (response.status.code(), to),
                (code, Destination::Address(source(Transport::Udp))),
                "{start}"
            );
            assert_eq!(response.headers.vias().unwrap().len(), 2);
            assert_eq!(response.headers.from().unwrap().unwrap().tag(), Some("1"));
            assert_eq!(response.headers.cseq().unwrap().unwrap().number, 7);
            assert!(response.headers.to().unwrap().unwrap().tag().is_some());
            assert_eq!(response.headers.get(&Name::Subject), None);
        }
    }

    #[test]
    fn what_nobody_can_be_answered_for_is_not() {
        assert_eq!(refused(&request("ACK sip:b@c SIP/7.0", "")), None);
        assert_eq!(refused(&request("SIP/7.0 200 OK", "")), None);
        assert_eq!(refused(&request("GET / HTTP/1.1", "")), None);
        assert_eq!(refused(&Bytes::from_static(b"\x00\xff SIP/2.0\r\n\r\n")), None);
        let without = |from: &str, to: &str| {
            let text = String::from_utf8(request("OPTIONS sip:b@c SIP/7.0", "").to_vec()).unwrap();
            refused(&Bytes::from(text.replace(from, to)))
        };
        assert_eq!(without("Via: SIP/2.0/UDP 192.0.2.7:5062", "Via: what"), None);
        // An unauthenticated sender must not cause a name lookup.
        let (to, response) = without("UDP 192.0.2.7:5062", "UDP example.com:5062").unwrap();
        assert_eq!(to, Destination::Address(source(Transport::Udp)));
        assert!(response.headers.top_via().unwrap().unwrap().received().is_some());
    }

    #[test]
    fn over_a_connection_it_goes_back_along_it() {
        let stream = source(Transport::Tcp);
        let (to, _) = refuse_unreadable(&request("OPTIONS sip:b@c SIP/7.0", ""), stream).unwrap();
        assert_eq!(to, Destination::Address(stream));
    }
}
