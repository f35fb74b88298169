//! The torture test messages of RFC 4475, and the treatment of each.
//!
//! [`MESSAGES`] is for tests of parsers and servers. [`message`] finds one by its name.

/// A message of RFC 4475.
#[derive(Clone, Copy, Debug)]
pub struct TortureMessage {
    /// Its name in the RFC, such as `wsinv`.
    pub name: &'static str,
    /// Section of RFC 4475, such as `RFC 4475 section 3.1.1.1`.
    pub section: &'static str,
    /// The required treatment, as a sentence.
    pub requirement: &'static str,
    /// The required treatment.
    pub treatment: TortureTreatment,
    /// The message, byte for byte.
    pub bytes: &'static [u8],
}

/// How an element treats a message of RFC 4475.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TortureTreatment {
    /// The request is well-formed: any response except 400.
    Taken,
    /// The message is refused with one of these status codes.
    Refused(&'static [u16]),
    /// User agents refuse the message with one of these status codes. Other elements accept it.
    RefusedByEndpoints(&'static [u16]),
    /// The RFC leaves the treatment open. The element answers.
    Any,
    /// The message is a response without a request.
    Discarded,
}

use TortureTreatment::{Any, Discarded, Refused, RefusedByEndpoints, Taken};

/// A table of messages: name, section, treatment and requirement. The file of a message has the same name.
macro_rules! torture_messages {
    ($($name:ident $section:literal $treatment:expr, $requirement:literal;)+) => {
        &[$(TortureMessage {
            name: stringify!($name),
            section: concat!("RFC 4475 section ", $section),
            requirement: $requirement,
            treatment: $treatment,
            bytes: include_bytes!(concat!("../torture/", stringify!($name), ".msg")),
        }),+]
    };
}

/// All 49 messages in the order of the RFC.
#[rustfmt::skip]
pub const MESSAGES: &[TortureMessage] = torture_messages! {
    wsinv "3.1.1.1" Taken, "An INVITE with folded lines, white space around separators, and an escaped quote is read.";
    intmeth "3.1.1.2" Taken, "A request whose method, URI and names have every character that the grammar allows is read.";
    esc01 "3.1.1.3" Taken, "An INVITE with escaped characters in its URIs is read.";
    escnull "3.1.1.4" Taken, "A REGISTER with escaped null bytes in its URIs is read.";
    esc02 "3.1.1.5" Taken, "A method and a header field name with a percent sign are read, and are not unescaped.";
    lwsdisp "3.1.1.6" Taken, "A From without white space between the display name and the URI is read.";
    longreq "3.1.1.7" Taken, "An INVITE with very long values and many Via values is read.";
    dblreq "3.1.1.8" Taken, "A REGISTER is read, although another request follows it in the datagram.";
    semiuri "3.1.1.9" Taken, "A semicolon in the user part of the Request-URI is read as part of it.";
    transports "3.1.1.10" Taken, "Via values with transports of all kinds are read.";
    mpart01 "3.1.1.11" Taken, "A MESSAGE with a multipart body that has null bytes is read.";
    unreason "3.1.1.12" Discarded, "A response with an unusual reason phrase does no harm.";
    noreason "3.1.1.13" Discarded, "A response with an empty reason phrase does no harm.";
    badinv01 "3.1.2.1" Refused(&[400]), "An INVITE with superfluous separators in Via and Contact is refused with 400.";
    clerr "3.1.2.2" Refused(&[400]), "A datagram that is shorter than its Content-Length says is refused with 400.";
    ncl "3.1.2.3" Refused(&[400]), "A negative Content-Length is refused with 400.";
    scalar02 "3.1.2.4" Refused(&[400]), "A request with numbers that are too large is refused with 400.";
    scalarlg "3.1.2.5" Discarded, "A response with numbers that are too large does no harm.";
    quotbal "3.1.2.6" Refused(&[400]), "A display name whose quotation does not end is refused with 400.";
    ltgtruri "3.1.2.7" Any, "An INVITE with angle brackets around its Request-URI is answered: with 400, or without regard to them.";
    lwsruri "3.1.2.8" Any, "An INVITE with white space in its Request-URI is answered: with 400, or without regard to it.";
    lwsstart "3.1.2.9" Any, "An INVITE with several spaces in its Request-Line is answered: with 400, or without regard to them.";
    trws "3.1.2.10" Any, "A request with spaces behind its Request-Line is answered: with 400, or without regard to them.";
    escruri "3.1.2.11" Any, "A request with header fields in its Request-URI is answered: with 400, or without regard to them.";
    baddate "3.1.2.12" Any, "An INVITE with a Date that is not in GMT is answered: with 400, or without regard to it.";
    regbadct "3.1.2.13" Any, "A REGISTER with a Contact URI that needs angle brackets is answered: with 400, or as if it had them.";
    badaspec "3.1.2.14" Any, "A request with spaces within the URI of To is answered: with 400, or without regard to them.";
    baddn "3.1.2.15" Any, "A request with a display name that needs quotes is answered: with 400, or as if it had them.";
    badvers "3.1.2.16" Refused(&[505]), "A request of another version of SIP is refused with 505.";
    mismatch01 "3.1.2.17" Refused(&[400]), "A request with another method in CSeq is refused with 400.";
    mismatch02 "3.1.2.18" Refused(&[400, 405, 501]), "A request of an unknown method with another one in CSeq is refused with 400 or 501.";
    bigcode "3.1.2.19" Discarded, "A response with a status code of ten digits does no harm.";
    badbranch "3.2.1" Taken, "A request whose branch is the magic cookie alone is read.";
    insuf "3.3.1" Refused(&[400]), "A request without To, From and Call-ID is refused with 400.";
    unkscm "3.3.2" Refused(&[416]), "A Request-URI of an unknown scheme is refused with 416.";
    novelsc "3.3.3" Refused(&[416]), "A Request-URI of a known scheme that is not of SIP is refused with 416.";
    unksm2 "3.3.4" Any, "A REGISTER with URIs of unknown schemes is answered.";
    bext01 "3.3.5" Refused(&[420]), "A request that requires unknown extensions is refused with 420.";
    invut "3.3.6" RefusedByEndpoints(&[415]), "An INVITE with a body of an unknown type is refused with 415.";
    regaut01 "3.3.7" Taken, "A REGISTER with credentials of an unknown scheme is treated as one without credentials.";
    multi01 "3.3.8" Refused(&[400]), "A request with several values of fields that have one is refused with 400.";
    mcl01 "3.3.9" Refused(&[400]), "A request with two different values of Content-Length is refused with 400.";
    bcast "3.3.10" Discarded, "A response whose second Via is a broadcast address goes nowhere.";
    zeromf "3.3.11" Any, "An OPTIONS with Max-Forwards 0 is answered by the server that it reaches, or refused with 483.";
    cparam01 "3.3.12" Taken, "A REGISTER with an unknown parameter of the Contact is read.";
    cparam02 "3.3.13" Taken, "A REGISTER with an unknown parameter of the Contact's URI is read.";
    regescrt "3.3.14" Taken, "A REGISTER with an escaped Route in the Contact's URI is read.";
    sdp01 "3.3.15" RefusedByEndpoints(&[406]), "An INVITE that accepts unknown body types only is refused with 406.";
    inv2543 "3.4.1" Taken, "An INVITE of RFC 2543, without branch and tag, is read.";
};

/// The message with this name.
pub fn message(name: &str) -> Option<&'static TortureMessage> {
    MESSAGES.iter().find(|message| message.name == name)
}
