//! The torture tests of RFC 4475. A well-formed message is parsed and breaks no rule. A wrong message is refused, or its
//! broken rule is named.

use bytes::Bytes;
use netrig_sip::torture::{self, MESSAGES, TortureMessage};
use netrig_sip::{Headers, Message, Name};
use proptest::prelude::*;

/// The expected treatment of a message.
enum Outcome {
    /// It is parsed, and breaks the rules of these sections in this order.
    Breaks(&'static [&'static str]),
    /// It is refused by the rule of this section.
    Refused(&'static str),
}

use Outcome::{Breaks, Refused};

/// A well-formed message that a strict peer accepts. A refusal other than 400 in RFC 4475 is left to servers.
const FINE: Outcome = Breaks(&[]);

macro_rules! outcomes {
    ($($name:ident $outcome:expr;)*) => {
        const OUTCOMES: &[(&str, Outcome)] = &[$((stringify!($name), $outcome)),*];
    };
}

outcomes! {
    // Section 3.1.1, valid messages. Two of them have branches of RFC 2543, which a sender of RFC 3261 does not make.
    wsinv Breaks(&["RFC 3261 section 8.1.1.7"]);
    intmeth FINE;
    esc01 FINE;
    escnull FINE;
    esc02 FINE;
    lwsdisp FINE;
    longreq Breaks(&["RFC 3261 section 8.1.1.7"]);
    dblreq FINE;
    semiuri FINE;
    transports FINE;
    mpart01 FINE;
    unreason FINE;
    noreason FINE;
    // Section 3.1.2, invalid messages.
    badinv01 Breaks(&["RFC 3261 section 20.42", "RFC 3261 section 20.10"]);
    clerr Refused("RFC 3261 section 18.3");
    ncl Refused("RFC 3261 section 20");
    scalar02 Breaks(&["RFC 3261 section 20.16", "RFC 3261 section 20", "RFC 3261 section 20.22"]);
    scalarlg Breaks(&["RFC 3261 section 20.16"]);
    quotbal Breaks(&["RFC 3261 section 20.39"]);
    ltgtruri Refused("RFC 3261 section 19.1.1");
    lwsruri Refused("RFC 3261 section 19.1.1");
    lwsstart Refused("RFC 3261 section 19.1.1");
    trws Refused("RFC 3261 section 7.1");
    escruri Breaks(&["RFC 3261 section 19.1.1"]);
    baddate Breaks(&["RFC 3261 section 20.17"]);
    regbadct Breaks(&["RFC 3261 section 20.10"]);
    badaspec Breaks(&["RFC 3261 section 20.39"]);
    baddn Breaks(&["RFC 3261 section 20", "RFC 3261 section 20"]);
    badvers Refused("RFC 3261 section 7.1");
    mismatch01 Breaks(&["RFC 3261 section 8.1.1.5"]);
    mismatch02 Breaks(&["RFC 3261 section 8.1.1.5"]);
    bigcode Refused("RFC 3261 section 7.1");
    // Section 3.2, the transaction layer.
    badbranch Breaks(&["RFC 3261 section 8.1.1.7"]);
    // Section 3.3, the application layer.
    insuf Breaks(&[
        "RFC 3261 section 8.1.1",
        "RFC 3261 section 8.1.1",
        "RFC 3261 section 8.1.1",
        "RFC 3261 section 8.1.1.6",
        "RFC 3261 section 8.1.1.8",
    ]);
    unkscm FINE;
    novelsc FINE;
    unksm2 FINE;
    bext01 FINE;
    invut FINE;
    regaut01 FINE;
    multi01 Breaks(&[
        "RFC 3261 section 7.3.1",
        "RFC 3261 section 7.3.1",
        "RFC 3261 section 7.3.1",
        "RFC 3261 section 7.3.1",
        "RFC 3261 section 7.3.1",
        "RFC 3261 section 8.1.1.8",
    ]);
    mcl01 Breaks(&["RFC 3261 section 7.3.1"]);
    bcast FINE;
    zeromf FINE;
    cparam01 FINE;
    cparam02 FINE;
    regescrt FINE;
    sdp01 FINE;
    // Section 3.4, a message from a sender of RFC 2543.
    inv2543 Breaks(&[
        "RFC 3261 section 8.1.1.3",
        "RFC 3261 section 8.1.1.6",
        "RFC 3261 section 8.1.1.7",
        "RFC 3261 section 8.1.1.8",
    ]);
}

#[test]
fn each_message_is_judged_as_the_rfc_says() {
    let names: Vec<_> = MESSAGES.iter().map(|message| message.name).collect();
    assert_eq!(names, OUTCOMES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (TortureMessage { name, bytes, .. }, (_, outcome)) in MESSAGES.iter().zip(OUTCOMES) {
        match (Message::parse(&Bytes::from_static(bytes)), outcome) {
            (Ok(message), Breaks(rules)) => {
                let violations = message.violations();
                let broken: Vec<&str> = violations.iter().map(|violation| violation.rule).collect();
                assert_eq!(&broken, rules, "{name}: {violations:?}");
            }
            (Err(error), Refused(rule)) => assert_eq!(error.rule, *rule, "{name}: {error}"),
            (Ok(_), Refused(_)) => panic!("{name} was read"),
            (Err(error), Breaks(_)) => panic!("{name}: {error}"),
        }
    }
}

/// Details of the well-formed messages that the RFC describes.
#[test]
fn what_stands_in_them_is_found() {
    let message =
        |name: &str| Message::parse(&Bytes::from_static(torture::message(name).unwrap().bytes)).unwrap();
    let headers = |name: &str| message(name).headers().clone();
    let vias = headers("wsinv").vias().unwrap();
    let branches: Vec<_> = vias.iter().map(|via| via.branch().unwrap()).collect();
    assert_eq!(branches, ["390skdjuw", "z9hG4bK9ikj8", "z9hG4bK30239"]);
    assert_eq!(headers("wsinv").from().unwrap().unwrap().display.as_deref(), Some("J Rosenberg \\\""));
    assert_eq!(headers("wsinv").number(&Name::MaxForwards), Ok(Some(68)));
    assert_eq!(headers("wsinv").cseq().unwrap().unwrap().number, 9);
    assert_eq!(
        headers("intmeth").to().unwrap().unwrap().display.as_deref(),
        Some("BEL:\u{7} NUL:\0 DEL:\u{7f}")
    );
    // "RE%47IST%45R" is not REGISTER, and "C%6Fntact" is not Contact.
    assert_eq!(message("esc02").as_request().unwrap().method.as_str(), "RE%47IST%45R");
    assert_eq!(headers("esc02").addresses(&Name::Contact).unwrap().len(), 2);
    assert_eq!(headers("longreq").vias().unwrap().len(), 34);
    // Bytes after the body do not belong to it.
    assert_eq!(message("dblreq").body().len(), 0);
    // A semicolon in the user part belongs to the user part.
    let uri = message("semiuri").as_request().unwrap().uri.clone();
    assert_eq!(uri.as_sip().unwrap().user.as_deref(), Some("user;par=u%40example.net"));
    assert_eq!(headers("transports").vias().unwrap()[3].transport, Err("UNKNOWN".into()));
    assert_eq!(message("noreason").as_response().unwrap().reason, "");
    // "unknownparam" belongs to the field in one message, to the URI in the other.
    let contact = |name: &str| headers(name).addresses(&Name::Contact).unwrap().remove(0);
    assert!(contact("cparam01").parameters.has("unknownparam"));
    assert!(contact("cparam02").uri.as_sip().unwrap().parameters.has("unknownparam"));
    assert_eq!(contact("regescrt").uri.as_sip().unwrap().headers.len(), 1);
}

/// The writer sets `Content-Length`.
fn without_length(mut message: Message) -> Message {
    message.headers_mut().remove(&Name::ContentLength);
    message
}

/// A parsed message is the same after it is written and parsed again.
fn comes_back(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(message) = Message::parse(&Bytes::copy_from_slice(bytes)) else { return Ok(()) };
    // No access to a parsed message panics.
    let _ = message.violations();
    let written = message.to_bytes();
    let again = Message::parse(&written);
    prop_assert!(again.is_ok(), "{again:?}: {written:?}");
    prop_assert_eq!(again.ok().map(without_length), Some(without_length(message)));
    Ok(())
}

/// Each readable address, hop and number of a message is written and read again.
fn fields_come_back(headers: &Headers) -> Result<(), TestCaseError> {
    let mut again = Headers::default();
    if let Ok(vias) = headers.vias() {
        again.set_all(&Name::Via, &vias);
        prop_assert_eq!(again.vias().ok(), Some(vias));
    }
    for name in [Name::Contact, Name::Route, Name::RecordRoute] {
        if let Ok(addresses) = headers.addresses(&name) {
            again.set_all(&name, &addresses);
            prop_assert_eq!(again.addresses(&name).ok(), Some(addresses));
        }
    }
    if let Ok(Some(from)) = headers.from() {
        again.set(Name::From, &from);
        prop_assert_eq!(again.from().ok().flatten(), Some(from));
    }
    if let Ok(Some(cseq)) = headers.cseq() {
        again.set(Name::CSeq, &cseq);
        prop_assert_eq!(again.cseq().ok().flatten(), Some(cseq));
    }
    Ok(())
}

#[test]
fn what_is_read_comes_back_as_it_was() {
    for TortureMessage { bytes, .. } in MESSAGES {
        comes_back(bytes).unwrap();
        if let Ok(message) = Message::parse(&Bytes::from_static(bytes)) {
            fields_come_back(message.headers()).unwrap();
        }
    }
}

/// A torture message in which bytes are replaced (0), inserted (1) or removed.
pub(super) fn changed(place: usize, changes: Vec<(prop::sample::Index, u8, u8)>) -> Vec<u8> {
    let mut bytes = MESSAGES[place].bytes.to_vec();
    for (index, kind, byte) in changes {
        let at = index.index(bytes.len());
        match kind {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            _ => {
                bytes.remove(at);
            }
        }
    }
    bytes
}

proptest! {
    /// The same test for each message with some bytes changed, removed or inserted.
    #[test]
    fn what_is_broken_comes_back_or_is_refused(
        place in 0..MESSAGES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..3u8, any::<u8>()), 0..6),
    ) {
        let bytes = changed(place, changes);
        comes_back(&bytes)?;
        if let Ok(message) = Message::parse(&Bytes::from(bytes)) {
            fields_come_back(message.headers())?;
        }
    }
}
