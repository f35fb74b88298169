//! Properties that hold for any bytes from a DNS server or a DNS client. A target in `fuzz/` searches for
//! counterexamples, and the test `corpora` replays its corpus.

use netrig_core::Seeds;
use netrig_sip::Uri;
use netrig_sip::header::Transport;
use netrig_sip::location::{Abilities, Kind, Locator, Question, Records, Zone};
use netrig_sip_net::dns::message::{PAYLOAD, Reading, answer, query, read};

const KINDS: [Kind; 4] = [Kind::Naptr, Kind::Srv, Kind::A, Kind::Aaaa];

/// The queried name.
const NAME: &str = "example.test";

/// Length of the shortest record in a message, bytes: a name of one byte, type, class, TTL and length.
const RECORD: usize = 11;

/// Maximum number of queries of a look-up: one for NAPTR records, 32 for SRV records, and two (A and AAAA) for each of
/// 64 hosts.
const MOST_QUESTIONS: usize = 1 + 32 + 2 * 64;

/// Checks the bytes as a response and as a query. As a response, they yield no more records than their length allows,
/// and a look-up with such responses makes a limited number of queries and finds a limited number of hops. As a query,
/// they get a response that fits into a datagram and can be parsed.
pub fn check(bytes: &[u8]) {
    let Some(id) = bytes.first_chunk::<2>().map(|id| u16::from_be_bytes(*id)) else {
        assert_eq!(read(bytes, 0, &question(Kind::A)), Reading::Foreign);
        return;
    };
    for kind in KINDS {
        let question = question(kind);
        assert_eq!(read(bytes, !id, &question), Reading::Foreign, "another number");
        match read(bytes, id, &question) {
            Reading::Records(records, ttl) => {
                let (count, is_own) = match &records {
                    Records::Naptr(all) => (all.len(), kind == Kind::Naptr),
                    Records::Srv(all) => (all.len(), kind == Kind::Srv),
                    Records::Addresses(all) => (all.len(), matches!(kind, Kind::A | Kind::Aaaa)),
                };
                assert!(is_own && (1..=bytes.len() / RECORD).contains(&count), "{records:?}");
                assert!(ttl <= 604_800, "{ttl}");
                look(kind, &records);
            }
            // A name has 255 bytes, each of which takes at most four characters.
            Reading::Alias(name) => assert!(name.len() <= 4 * 255, "{name}"),
            Reading::Nothing(ttl) => assert!(ttl <= 604_800, "{ttl}"),
            Reading::Foreign | Reading::Truncated | Reading::Failed(_) => {}
        }
    }
    serve(bytes);
}

fn question(kind: Kind) -> Question {
    Question { kind, name: NAME.to_owned() }
}

/// Looks up a server. Each query of this kind gets these records as its response.
fn look(kind: Kind, records: &Records) {
    let uri: Uri = format!("sip:{NAME}").parse().expect("a URI");
    let transports = vec![Transport::Udp, Transport::Tcp, Transport::Tls];
    let abilities = Abilities { transports, families: vec![Kind::A, Kind::Aaaa] };
    let uri = uri.as_sip().expect("it is of SIP");
    let mut locator =
        Locator::new(uri, abilities, Seeds::new(1).stream("any")).expect("a name can be looked for");
    let mut asked = 0;
    while let Some(question) = locator.poll_question() {
        asked += 1;
        // Writing the query must not panic. It fails if the name is invalid.
        let _ = query(1, &question);
        let own = match question.kind {
            own if own == kind => records.clone(),
            Kind::Naptr => Records::Naptr(Vec::new()),
            Kind::Srv => Records::Srv(Vec::new()),
            Kind::A | Kind::Aaaa => Records::Addresses(Vec::new()),
        };
        locator.handle_answer(&question, own);
    }
    assert!(locator.is_done() && asked <= MOST_QUESTIONS, "{asked}");
    assert!(std::iter::from_fn(|| locator.next_hop()).count() <= 64 * 2 * 32);
}

/// Checks the response of a DNS server to the bytes.
fn serve(bytes: &[u8]) {
    let zone = Zone::parse("example.test A 192.0.2.1\n_sip._udp.example.test SRV 0 0 5060 example.test")
        .expect("a table");
    let [over_udp, over_tcp] = [true, false].map(|over_udp| answer(bytes, &zone, over_udp));
    assert_eq!(over_udp.is_some(), over_tcp.is_some());
    let Some(message) = over_udp else { return };
    assert!(message.len() <= usize::from(PAYLOAD), "{}", message.len());
    assert_eq!(message[..2], bytes[..2]);
    // A DNS server does not answer responses.
    assert_eq!(answer(&message, &zone, true), None);
}
