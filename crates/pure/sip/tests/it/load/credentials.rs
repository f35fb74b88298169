//! Users that one or several servers challenge.

use netrig_core::Duration;
use netrig_sip::digest::{DigestCredentials, Hash, Quality, Secret};
use netrig_sip::load::{Failure, Side};
use netrig_sip::{Name, Request};

use super::pair::Pair;
use super::{CALL, RING, answer, ms, recorded, registering, started};

const ASKED: [Name; 2] = [Name::Authorization, Name::ProxyAuthorization];

/// Realm, nonce and nonce count of all credentials of a request.
fn used(request: &Request) -> Vec<(String, String, u32)> {
    let all = ASKED.iter().flat_map(|name| request.headers.credentials(name).unwrap());
    all.map(|credentials| {
        let answer = DigestCredentials::read(&credentials).unwrap();
        (answer.realm, answer.nonce, answer.protection.map_or(0, |protection| protection.count))
    })
    .collect()
}

fn list(expected: &[(&str, &str, u32)]) -> Vec<(String, String, u32)> {
    expected.iter().map(|(realm, nonce, count)| ((*realm).into(), (*nonce).into(), *count)).collect()
}

fn challenge(realm: &str, nonce: &str) -> String {
    format!("Digest realm=\"{realm}\", nonce=\"{nonce}\", qop=\"auth\", algorithm=MD5")
}

/// A proxy challenges, then the server behind it. The credentials for both are kept (RFC 3261 section 22.3). Two
/// challenges in one response are answered together.
#[test]
fn every_realm_that_asks_is_answered() {
    let (seen, network) = recorded();
    let mut pair = Pair::new(network, RING);
    pair.start(CALL);
    let ask = |pair: &mut Pair<_>, status, challenges: &[(Name, &str)]| {
        let invites = |seen: &[Request]| {
            seen.iter().rfind(|request| request.method == netrig_sip::Method::Invite).cloned().unwrap()
        };
        let last = invites(&seen.borrow());
        answer(pair, &last, status, challenges);
        let until = pair.now + Duration::from_millis(5);
        pair.run(until);
        invites(&seen.borrow())
    };
    let [proxy, server, both] = [("p", "n1"), ("u", "n2"), ("v", "n3")].map(|(r, n)| challenge(r, n));
    let second = ask(&mut pair, 407, &[(Name::ProxyAuthenticate, &proxy)]);
    assert_eq!(used(&second), list(&[("p", "n1", 1)]));
    let third = ask(&mut pair, 401, &[(Name::WwwAuthenticate, &server)]);
    assert_eq!(used(&third), list(&[("u", "n2", 1), ("p", "n1", 2)]));
    assert_eq!(third.headers.cseq().unwrap().unwrap().number, 3);
    // The nonce of a proxy is stale when another server challenges for the first time.
    let stale = format!("{}, stale=true", challenge("p", "n4"));
    let fourth = ask(&mut pair, 407, &[(Name::ProxyAuthenticate, &stale), (Name::WwwAuthenticate, &both)]);
    assert_eq!(used(&fourth), list(&[("u", "n2", 2), ("v", "n3", 1), ("p", "n4", 1)]));
    for (name, realm) in [(&ASKED[0], "u"), (&ASKED[0], "v"), (&ASKED[1], "p")] {
        let all = fourth.headers.credentials(name).unwrap();
        let mut answers = all.iter().map(|credentials| DigestCredentials::read(credentials).unwrap());
        let own = answers.find(|answer| answer.realm == realm).unwrap();
        assert!(own.proves(
            &fourth.method,
            &fourth.body,
            &Secret::new(Hash::Md5, "user0001", realm, "secret")
        ));
    }
    // Credentials that a realm refused are not sent again.
    ask(&mut pair, 401, &[(Name::WwwAuthenticate, &challenge("v", "n5"))]);
    let record = pair.record(Side::Caller);
    assert_eq!((record.failure, record.counts.challenges), (Some(Failure::Authentication), 3));
}

/// One request is challenged by a new realm each time. Another gets a challenge of an unknown scheme.
#[test]
fn a_failure_says_why_a_challenge_was_not_answered() {
    let failure_of = |challenge: &dyn Fn(usize) -> String| {
        let (seen, network) = recorded();
        let mut pair = Pair::new(network, RING);
        pair.register(300);
        for number in 1..=9 {
            if seen.borrow().len() < number {
                break;
            }
            let last = seen.borrow().last().cloned().unwrap();
            answer(&mut pair, &last, 401, &[(Name::WwwAuthenticate, &challenge(number))]);
            let until = pair.now + Duration::from_millis(5);
            pair.run(until);
        }
        let record = pair.record(Side::Registrant);
        (record.failure.map(|failure| failure.to_string()), record.counts.challenges)
    };
    let many = failure_of(&|number| challenge(&format!("r{number}"), "n"));
    assert_eq!(many, (Some("more than 8 challenges of one request".into()), 8));
    let basic = failure_of(&|_| "Basic realm=\"r\"".into());
    assert_eq!(basic, (Some("the response has no digest challenge that can be answered".into()), 0));
}

/// RFC 7616 section 3.4.3: with `auth-int` the hash includes the body.
#[test]
fn the_body_is_proven_where_the_server_asks_for_it() {
    let (mut pair, seen, first) = started(CALL);
    let challenge = "Digest realm=\"r\", nonce=\"n\", qop=\"auth-int\", algorithm=SHA-256";
    answer(&mut pair, &first, 401, &[(Name::WwwAuthenticate, challenge)]);
    pair.run(ms(10));
    let again = seen.borrow().last().cloned().unwrap();
    let proof =
        DigestCredentials::read(&again.headers.credentials(&Name::Authorization).unwrap()[0]).unwrap();
    assert_eq!(proof.protection.as_ref().map(|protection| protection.quality), Some(Quality::AuthInt));
    let secret = Secret::new(Hash::Sha256, "user0001", "r", "secret");
    assert!(!again.body.is_empty());
    assert!(proof.proves(&again.method, &again.body, &secret));
    assert!(!proof.proves(&again.method, b"", &secret));
}

/// RFC 7616 section 3.4: the count is the number of requests with this nonce, whatever the responses in between, and whichever
/// server sends the nonce again.
#[test]
fn a_request_that_is_asked_again_has_the_next_count() {
    let (seen, network) = recorded();
    let mut pair = Pair::new(network, RING);
    let tell = |pair: &mut Pair<_>, status, fields: &[(Name, &str)]| {
        let last = seen.borrow().last().cloned().unwrap();
        answer(pair, &last, status, fields);
        let until = pair.now + Duration::from_millis(5);
        pair.run(until);
        let last = seen.borrow().last().cloned().unwrap();
        used(&last)
    };
    let [first, second] = ["n1", "n2"].map(|nonce| challenge("r", nonce));
    pair.register(300);
    assert_eq!(tell(&mut pair, 401, &[(Name::WwwAuthenticate, &first)]), list(&[("r", "n1", 1)]));
    assert_eq!(tell(&mut pair, 423, &[(Name::MinExpires, "500")]), list(&[("r", "n1", 2)]));
    // The nonce has expired. The password is right, because it was accepted before.
    assert_eq!(tell(&mut pair, 401, &[(Name::WwwAuthenticate, &second)]), list(&[("r", "n2", 1)]));
    tell(&mut pair, 200, &[(Name::Expires, "500")]);
    assert_eq!(pair.record(Side::Registrant).failure, None);
    pair.register(500);
    assert_eq!(tell(&mut pair, 401, &[(Name::WwwAuthenticate, &first)]), list(&[("r", "n1", 3)]));
    // The server sends the nonce for the next request.
    let next = "nextnonce=\"n3\", qop=auth";
    tell(&mut pair, 200, &[(Name::Expires, "500"), (Name::AuthenticationInfo, next)]);
    pair.register(500);
    assert_eq!(used(seen.borrow().last().unwrap()), list(&[("r", "n3", 1)]));
}

/// RFC 7616 section 3.5: a server without the password cannot compute `rspauth`.
#[test]
fn a_server_that_does_not_know_the_password_has_broken_a_rule() {
    let (mut pair, seen, first) = registering(300);
    answer(&mut pair, &first, 401, &[(Name::WwwAuthenticate, &challenge("r", "n"))]);
    pair.run(ms(5));
    let again = seen.borrow()[1].clone();
    let wrong = "rspauth=\"00000000000000000000000000000000\", qop=auth";
    answer(&mut pair, &again, 200, &[(Name::Expires, "300"), (Name::AuthenticationInfo, wrong)]);
    pair.run(ms(10));
    assert_eq!(pair.record(Side::Registrant).failure, Some(Failure::Rule("RFC 7616 section 3.5")));
}
