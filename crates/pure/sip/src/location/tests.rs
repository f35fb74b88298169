//! Locations against the examples and rules of RFC 3263 and RFC 2782.

use netrig_core::Seeds;

use super::*;
use crate::Uri;

const TRANSPORTS: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::Tls];

fn locator(uri: &str) -> Result<Locator, LocationError> {
    let uri: Uri = uri.parse().unwrap();
    let abilities = Abilities { transports: TRANSPORTS.into(), families: vec![Kind::Aaaa, Kind::A] };
    Locator::new(uri.as_sip().unwrap(), abilities, Seeds::new(1).stream("dns"))
}

/// A zone: NAPTR as `order preference service name`, SRV as `priority weight port name`, addresses as they are.
const ZONE: &[(&str, Kind, &[&str])] = &[
    (
        "example.com",
        Kind::Naptr,
        &[
            "90 50 SIP+D2T _sip._tcp.example.com.",
            "50 50 SIPS+D2T _sips._tcp.example.com.",
            "100 50 SIP+D2U _sip._udp.example.com.",
            "10 50 SIP+D2S _sip._sctp.example.com.",
            "10 50 E2U+sip x.example.com.",
        ],
    ),
    ("_sip._tcp.example.com", Kind::Srv, &["1 1 5060 server2.example.com.", "0 1 5080 server1.example.com."]),
    ("_sips._tcp.example.com", Kind::Srv, &["0 1 5061 server1.example.com."]),
    ("_sip._udp.example.com", Kind::Srv, &["0 1 5060 server1.example.com."]),
    ("server1.example.com", Kind::A, &["192.0.2.1"]),
    ("server1.example.com", Kind::Aaaa, &["2001:db8::1"]),
    ("server2.example.com", Kind::A, &["192.0.2.2", "192.0.2.3"]),
    ("_sip._tcp.no-naptr.com", Kind::Srv, &["0 0 5070 server2.example.com."]),
    ("bare.com", Kind::A, &["192.0.2.9"]),
    ("_sip._udp.refused.com", Kind::Srv, &["0 0 0 ."]),
    ("refused.com", Kind::A, &["192.0.2.10"]),
];

fn records(question: &Question) -> Records {
    let found = ZONE.iter().find(|(name, kind, _)| *name == question.name && *kind == question.kind);
    let lines = found.map_or(&[][..], |(.., lines)| lines);
    let number = |text: &str| text.parse::<u16>().unwrap();
    match question.kind {
        Kind::Naptr => Records::Naptr(
            lines
                .iter()
                .map(|line| {
                    let words: Vec<&str> = line.split(' ').collect();
                    Naptr {
                        order: number(words[0]),
                        preference: number(words[1]),
                        flags: "s".into(),
                        service: words[2].into(),
                        regexp: String::new(),
                        replacement: words[3].into(),
                    }
                })
                .collect(),
        ),
        Kind::Srv => Records::Srv(
            lines
                .iter()
                .map(|line| {
                    let words: Vec<&str> = line.split(' ').collect();
                    let (priority, weight, port) = (number(words[0]), number(words[1]), number(words[2]));
                    Srv { priority, weight, port, target: words[3].into() }
                })
                .collect(),
        ),
        Kind::A | Kind::Aaaa => Records::Addresses(lines.iter().map(|line| line.parse().unwrap()).collect()),
    }
}

/// The questions of a locator, and the hops that it found.
fn located(uri: &str) -> (Vec<String>, Vec<String>) {
    let mut locator = locator(uri).unwrap();
    let mut asked = Vec::new();
    while let Some(question) = locator.poll_question() {
        asked.push(format!("{:?} {}", question.kind, question.name));
        locator.handle_answer(&question, records(&question));
    }
    assert!(locator.is_done(), "{uri}");
    let hops = std::iter::from_fn(|| locator.next_hop());
    (asked, hops.map(|hop| format!("{} {}", hop.transport.name(), hop.address)).collect())
}

/// URIs that need no query, or only a query for addresses (RFC 3263 sections 4.1 and 4.2).
#[test]
fn what_stands_in_the_uri_is_not_asked_for() {
    for (uri, hop) in [
        ("sip:192.0.2.4", "UDP 192.0.2.4:5060"),
        ("sips:192.0.2.4", "TLS 192.0.2.4:5061"),
        ("sip:192.0.2.4:5070;transport=tcp", "TCP 192.0.2.4:5070"),
        ("sips:[2001:db8::4];transport=tcp", "TLS [2001:db8::4]:5061"),
        ("sip:example.com;maddr=192.0.2.5", "UDP 192.0.2.5:5060"),
    ] {
        assert_eq!(located(uri), (vec![], vec![hop.to_owned()]), "{uri}");
    }
    let addresses = ["Aaaa server1.example.com", "A server1.example.com"].map(str::to_owned).to_vec();
    let (asked, hops) = located("sip:server1.example.com:5099");
    assert_eq!(
        (asked, hops.join(" ")),
        (addresses.clone(), "UDP [2001:db8::1]:5099 UDP 192.0.2.1:5099".into())
    );
    let (asked, hops) = located("sips:server1.example.com:5099");
    assert_eq!((asked, hops.len(), &hops[0][..3]), (addresses, 2, "TLS"));
    assert_eq!(
        located("sip:x;maddr=server2.example.com;transport=udp").0[0],
        "Srv _sip._udp.server2.example.com"
    );
}

/// The example of RFC 3263 section 4.1.
#[test]
fn services_come_in_their_order() {
    let (asked, hops) = located("sip:user@example.com");
    assert_eq!(asked[0], "Naptr example.com");
    assert_eq!(
        hops,
        [
            "TLS [2001:db8::1]:5061",
            "TLS 192.0.2.1:5061",
            "TCP [2001:db8::1]:5080",
            "TCP 192.0.2.1:5080",
            "TCP 192.0.2.2:5060",
            "TCP 192.0.2.3:5060",
            "UDP [2001:db8::1]:5060",
            "UDP 192.0.2.1:5060",
        ]
    );
    assert!(!asked.iter().any(|question| question.contains("_sctp")), "it cannot be used here");
    let (_, hops) = located("sips:user@example.com");
    assert_eq!(hops, ["TLS [2001:db8::1]:5061", "TLS 192.0.2.1:5061"]);
    let (asked, hops) = located("sip:example.com;transport=tcp");
    assert_eq!(
        (asked[0].as_str(), hops[0].as_str()),
        ("Srv _sip._tcp.example.com", "TCP [2001:db8::1]:5080")
    );
}

#[test]
fn without_services_hosts_are_asked_for() {
    let (asked, hops) = located("sip:no-naptr.com");
    let services =
        ["_sip._udp", "_sip._tcp", "_sips._tcp"].map(|service| format!("Srv {service}.no-naptr.com"));
    assert_eq!(asked[1..4], services);
    assert_eq!(hops, ["TCP 192.0.2.2:5070", "TCP 192.0.2.3:5070"]);
    assert_eq!(located("sip:bare.com").1, ["UDP 192.0.2.9:5060"]);
    assert_eq!(located("sips:bare.com").1, ["TLS 192.0.2.9:5061"]);
    assert_eq!(located("sip:bare.com;transport=tcp").1, ["TCP 192.0.2.9:5060"]);
    assert_eq!(located("sip:refused.com").1, [""; 0]);
    assert_eq!(located("sip:nowhere.com").1, [""; 0]);
}

#[test]
fn what_cannot_be_used_is_said_at_once() {
    let error = |uri: &str| locator(uri).map(|_| ()).unwrap_err();
    assert_eq!(error("sip:a;transport=carrier"), LocationError::Transport("carrier".into()));
    assert_eq!(error("sip:a;transport=sctp"), LocationError::Transport("SCTP".into()));
    assert_eq!(error("sips:a;transport=udp"), LocationError::Insecure("udp".into()));
}

/// RFC 2782: a share of all that is proportional to its weight; zero has "a very small chance".
#[test]
fn weights_are_shares() {
    let mut random = Seeds::new(2).stream("weights");
    let record = |weight, port| Srv { priority: 1, weight, port, target: "x".into() };
    let mut first = [0_u32; 3];
    for _ in 0..10_000 {
        let order = drawn(vec![record(60, 0), record(0, 2), record(20, 1)], &mut random);
        assert_eq!(order.len(), 3);
        first[usize::from(order[0].port)] += 1;
    }
    // Of the 81 numbers that may be drawn, 60 select the first record, 20 the second, and one the record of weight
    // zero. The tolerance is five standard errors.
    for (count, share) in first.into_iter().zip([60.0, 20.0, 1.0]) {
        let p = share / 81.0;
        let error = (10_000.0_f64 * p * (1.0 - p)).sqrt();
        assert!((f64::from(count) - 10_000.0 * p).abs() < 5.0 * error, "{first:?}");
    }
    let priorities = [3, 1, 2].map(|priority| Srv { priority, ..record(1, priority) });
    let ports: Vec<u16> = drawn(priorities.into(), &mut random).iter().map(|record| record.port).collect();
    assert_eq!(ports, [1, 2, 3]);
}

#[test]
fn an_answer_of_another_kind_or_to_nothing_is_none() {
    let mut locator = locator("sip:bare.com:5060").unwrap();
    locator.handle_answer(&Question { kind: Kind::A, name: "other".into() }, Records::Addresses(vec![]));
    while let Some(question) = locator.poll_question() {
        let answer = match question.kind {
            Kind::A => Records::Addresses(vec!["2001:db8::1".parse().unwrap()]),
            _ => Records::Srv(vec![]),
        };
        locator.handle_answer(&question, answer);
    }
    assert!(locator.is_done());
    assert_eq!(locator.next_hop(), None);
}
