//! The scanner finds the parts that the strict parser finds, and survives any other input.

use bytes::Bytes;
use netrig_sip::Message;
use netrig_sip::load::scan::{Address, Field, Scan, Start};
use proptest::prelude::*;

use crate::any_message::{agree, check};

const RESPONSE: &[u8] = b"SIP/2.0 183 Session Progress\r\n\
    v: SIP/2.0/UDP 192.0.2.1:5060;rport=5060;branch=z9hG4bK1 ;x=\"a,b;branch=no\", SIP/2.0/UDP b;branch=2\r\n\
    VIA: SIP/2.0/UDP c;branch=3\r\n\
    f: \"A, <b>;tag=no\" <sip:alice@atlanta.com;tag=neither>;tag=a1\r\n\
    T : sip:bob@biloxi.com ; TAG = b2\r\n\
    Record-Route: <sip:p2.example.com;lr>, \"x,y\" <sip:p1.example.com;lr>;z=1\r\n\
    record-route:\r\n <sip:p0.example.com;lr>\r\n\
    i: abc@def\r\nCSeq: 7\r\n\tINVITE\r\n\
    m: \"Bob\" <sip:bob@192.0.2.4:5070;transport=udp>;expires=60, <sip:bob@other>\r\n\
    Require: timer , 100REL\r\nRSeq: 9\r\n\
    Proxy-Authenticate: Digest realm=\"a, b\", nonce=\"c\"\r\n\
    l: 3\r\n\r\nv=0more";

/// Quotes, brackets, folds, compact names, lists: each part is found in any context.
#[test]
fn each_part_is_found() {
    let scan = Scan::of(RESPONSE);
    assert_eq!((scan.start, scan.status()), (Some(Start::Status(183)), Some(183)));
    assert_eq!((scan.branch, scan.call_id), (Some(&b"z9hG4bK1"[..]), Some(&b"abc@def"[..])));
    assert!(scan.via.is_some_and(|via| via.ends_with(b"branch=no\"")));
    assert_eq!((scan.from_tag, scan.to_tag), (Some(&b"a1"[..]), Some(&b"b2"[..])));
    assert_eq!(scan.to, Some(&b"sip:bob@biloxi.com ; TAG = b2"[..]));
    assert_eq!(scan.contact, Some(&b"sip:bob@192.0.2.4:5070;transport=udp"[..]));
    assert_eq!(scan.contacts().next().and_then(|first| first.parameter(b"expires")), Some(&b"60"[..]));
    assert_eq!(scan.cseq.map(|cseq| (cseq.number, cseq.method)), Some((7, &b"INVITE"[..])));
    assert_eq!((scan.rseq, scan.requires_100rel), (Some(9), true));
    assert_eq!(scan.proxy_authenticate, Some(&b"Digest realm=\"a, b\", nonce=\"c\""[..]));
    assert_eq!((scan.content_length, scan.body), (Some(3), &b"v=0"[..]));
    assert_eq!(scan.all(Field::Via).count(), 2);
    let routes: Vec<&[u8]> = scan.record_routes().map(|route| route.whole).collect();
    assert_eq!(routes.len(), 3);
    assert_eq!(routes[1], b"\"x,y\" <sip:p1.example.com;lr>;z=1");
    agree(&scan, &Message::parse(&Bytes::from_static(RESPONSE)).unwrap());
}

/// Input that a strict parser refuses: lines that end with LF alone, no empty line, a truncated body.
#[test]
fn what_is_not_right_is_read_as_far_as_it_goes() {
    let lines = RESPONSE.iter().copied().filter(|byte| *byte != b'\r').collect::<Vec<_>>();
    let scan = Scan::of(&lines);
    assert_eq!((scan.to_tag, scan.body, scan.is_complete), (Some(&b"b2"[..]), &b"v=0"[..], true));
    let scan = Scan::of(
        b"\r\n\nBYE sip:a@b SIP/2.0\r\nno colon\r\nCall-ID: x\r\nCSeq: 99999999999 BYE\r\nTo: \"open",
    );
    assert_eq!(scan.start, Some(Start::Request { method: b"BYE", uri: b"sip:a@b" }));
    assert_eq!((scan.call_id, scan.cseq, scan.is_complete), (Some(&b"x"[..]), None, false));
    let scan = Scan::of(b"SIP/2.0 200 OK\r\nContent-Length: 10\r\n\r\nab");
    assert_eq!((scan.content_length, scan.body), (Some(10), &b"ab"[..]));
    assert!(scan.is_cut() && !Scan::of(RESPONSE).is_cut());
    for text in ["", "\r\n\r\n", "SIP/2.0 99 x", "SIP/2.0 2000 x", "INVITE SIP/2.0", "INVITE x", ":", "\0"] {
        assert_eq!(Scan::of(text.as_bytes()).start, None, "{text:?}");
    }
    assert_eq!(Address::of(b"<sip:a").uri, b"sip:a");
    assert_eq!(Address::of(b"\"a\\").uri, b"\"a\\");
}

/// A line of a generated message: a name in any spelling and a value of the grammar.
fn field() -> impl Strategy<Value = String> {
    let white = prop::sample::select(vec!["", " ", "\t", "  ", "\r\n ", " \r\n\t "]);
    let token = "[a-zA-Z0-9.!%*_+`'~-]{1,12}";
    let quoted = r#""([a-z ;,<>=:@]|\\["\\a]){0,12}""#;
    let uri = prop_oneof![
        "sip:[a-z0-9]{1,8}@[a-z]{1,8}\\.com(:[1-9][0-9]{1,3})?",
        "sips:[a-z]{1,8}",
        "tel:[0-9]{3,9}"
    ];
    let parameter = prop_oneof![
        token.prop_map(|name| format!(";{name}")),
        (token, prop_oneof![token.boxed(), quoted.boxed()])
            .prop_map(|(name, value)| format!(";{name}={value}")),
        (
            white.clone(),
            white.clone(),
            prop::sample::select(vec!["tag", "TAG", "branch", "expires", "lr"]),
            token
        )
            .prop_map(|(before, behind, name, value)| format!("{before};{behind}{name}={behind}{value}")),
    ];
    let parameters = prop::collection::vec(parameter, 0..4).prop_map(|all| all.concat());
    let display = prop_oneof![Just(String::new()), token.prop_map(|name| name + " "), quoted];
    let address = prop_oneof![
        (
            display,
            uri.clone(),
            prop::sample::select(vec!["", ";lr", ";tag=in", ";transport=udp"]),
            parameters.clone()
        )
            .prop_map(|(display, uri, inner, outer)| format!("{display}<{uri}{inner}>{outer}")),
        (uri, parameters.clone()).prop_map(|(uri, parameters)| format!("{uri}{parameters}")),
    ];
    let list =
        |one: BoxedStrategy<String>| prop::collection::vec(one, 1..3).prop_map(|all| all.join(" , ")).boxed();
    let via = (prop::sample::select(vec!["UDP", "tcp", "X"]), parameters)
        .prop_map(|(transport, parameters)| format!("SIP / 2.0/{transport} h.com:5060{parameters}"));
    let number = "0{0,3}[0-9]{1,9}";
    let names = |all: &[&'static str]| prop::sample::select(all.to_vec());
    let line = prop_oneof![
        (names(&["Via", "v", "VIA"]).boxed(), list(via.boxed())),
        (names(&["From", "f", "to", "To", "T"]).boxed(), address.clone().boxed()),
        (names(&["Contact", "m", "Record-Route", "RECORD-route"]).boxed(), list(address.boxed())),
        (
            names(&["Call-ID", "i", "call-id"]).boxed(),
            "[a-zA-Z0-9.!%*_+`'~()<>:/?{}-]{1,12}(@[a-z.]{1,8})?".boxed()
        ),
        (names(&["CSeq", "cseq"]).boxed(), "[0-9]{1,9} {1,2}(INVITE|BYE|x)".boxed()),
        (names(&["RSeq", "Expires", "Min-Expires", "EXPIRES"]).boxed(), number.boxed()),
        (
            names(&["Require", "Supported", "Allow"]).boxed(),
            "(100rel|timer|100REL)( ?, ?(path|100rel))?".boxed()
        ),
        (
            names(&["WWW-Authenticate", "Proxy-Authenticate"]).boxed(),
            "Digest realm=\"[a-z,; ]{0,9}\", nonce=\"x\"".boxed()
        ),
        (names(&["Contact", "X-Other", "Subject", "vi", "Toll"]).boxed(), "\\*|[ -~]{0,20}".boxed()),
    ];
    let spaces = prop::sample::select(vec!["", " ", "\t ", "                                        "]);
    (line, spaces, white.clone(), white)
        .prop_map(|((name, value), gap, before, behind)| format!("{name}{gap}:{before}{value}{behind}\r\n"))
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let start = prop_oneof![
        "(INVITE|BYE|x-y) sip:[a-z]{1,5}@h\\.com(;x=y)? (SIP|sip)/2\\.0",
        "SIP/2\\.0 [1-6][0-9]{2} [ -~]{0,9}",
    ];
    let body = prop::collection::vec(any::<u8>(), 0..20);
    let length = prop::sample::select(vec!["Content-Length", "l", "CONTENT-LENGTH"]);
    let empty = prop::sample::select(vec!["", "\r\n", "\r\n\r\n"]);
    (empty, start, prop::collection::vec(field(), 0..12), prop::option::of(length), body).prop_map(
        |(empty, start, mut fields, length, body)| {
            if let Some(length) = length {
                fields.insert(fields.len() / 2, format!("{length}: {}\r\n", body.len() / 2));
            }
            [format!("{empty}{start}\r\n{}\r\n", fields.concat()).into_bytes(), body].concat()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn both_read_the_same(bytes in message()) {
        let parsed = Message::parse(&Bytes::from(bytes.clone()));
        let message = parsed.expect("a generated message follows the grammar");
        agree(&Scan::of(&bytes), &message);
    }

    /// Bytes inserted, removed and changed at random.
    #[test]
    fn damaged_messages_are_survived(
        bytes in message(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..8),
    ) {
        let mut bytes = bytes;
        for (place, byte, kind) in damage {
            let at = place.index(bytes.len());
            let byte = if byte < 128 { b"\r\n \t:;,<>\"\\=/@"[usize::from(byte) % 14] } else { byte };
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 if bytes.len() > 1 => { bytes.remove(at); }
                _ => bytes.truncate(at.max(1)),
            }
        }
        check(&bytes);
    }
}
