use netrig_core::{Duration, Instant, Seeds};

use super::*;
use crate::header::Transport;
use crate::transaction::Timing;
use crate::{Message, Name, Response, Status};

fn desk() -> ManualClient {
    let uri = |text: &str| text.parse().unwrap();
    let party = ManualClientConfig {
        local: "192.0.2.1:5070".parse().unwrap(),
        transport: Transport::Udp,
        from: uri("sip:alice@192.0.2.9"),
        to: uri("sip:bob@192.0.2.9"),
        target: uri("sip:bob@192.0.2.9"),
        registrar: uri("sip:192.0.2.9"),
        credentials: Some(("alice".to_owned(), "zanzibar".to_owned())),
        description: 300,
        text: "hello".to_owned(),
        expires: 60,
        timing: Timing::default(),
    };
    ManualClient::new(party, Seeds::new(1).stream("manual"))
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn send(desk: &mut ManualClient, ms: u64, step: Step) -> crate::Request {
    let draft = desk.compose(step).unwrap();
    let request = draft.request.clone();
    assert_eq!(Message::from(request.clone()).violations(), [], "{step}");
    let bytes = draft.to_bytes();
    desk.send(at(ms), draft, bytes);
    request
}

fn answer(request: &crate::Request, status: u16, more: &[(Name, &str)]) -> Response {
    let mut response = request.response(Status::new(status).unwrap());
    if status > 100 {
        let to = response.headers.to().unwrap().unwrap().with_tag("b");
        response.headers.set(Name::To, to);
        response.headers.push(Name::Contact, "<sip:bob@192.0.2.8:5080>");
    }
    for (name, value) in more {
        response.headers.push(name.clone(), value);
    }
    response
}

fn give(desk: &mut ManualClient, ms: u64, response: Response) {
    desk.handle(at(ms), &Message::from(response).to_bytes());
}

/// The events of the client, in words: `invite`, `invite again`, `< 180 at 20 of invite`.
fn said(desk: &mut ManualClient) -> Vec<String> {
    let words = |told| match told {
        ManualClientEvent::Send { step, why, bytes } => {
            let line = String::from_utf8_lossy(&bytes).split(' ').next().unwrap_or_default().to_owned();
            match (step, why) {
                (Some(step), SendReason::Person) => step.to_string(),
                (Some(step), _) => format!("{step} again"),
                (None, _) => format!("itself {line}"),
            }
        }
        ManualClientEvent::Received(came) => {
            assert_eq!(came.violations, []);
            let (step, delay) = came.answers.unwrap();
            let again = if came.is_again { " again" } else { "" };
            let status = came.message.unwrap().as_response().unwrap().status;
            format!("< {status} at {} of {step}{again}", delay.as_nanos() / 1_000_000)
        }
        ManualClientEvent::TimedOut { step, timer } => format!("{step} timed out by {timer:?}"),
    };
    std::iter::from_fn(|| desk.poll()).map(words).collect()
}

#[test]
fn a_call_goes_step_by_step() {
    let mut desk = desk();
    let free = [Step::Register, Step::Invite, Step::Options, Step::Message];
    assert_eq!(desk.choices(), free);
    let invite = send(&mut desk, 0, Step::Invite);
    assert_eq!(said(&mut desk), ["invite"]);
    desk.handle_timeout(at(500));
    assert_eq!(said(&mut desk), ["invite again"]);
    give(&mut desk, 520, answer(&invite, 180, &[]));
    assert_eq!(said(&mut desk), ["< 180 at 520 of invite"]);
    assert!(desk.choices().contains(&Step::Cancel) && !desk.choices().contains(&Step::Ack));
    give(&mut desk, 700, answer(&invite, 200, &[]));
    give(&mut desk, 1200, answer(&invite, 200, &[]));
    assert_eq!(said(&mut desk), ["< 200 at 700 of invite", "< 200 at 1200 of invite again"]);
    assert!(desk.choices().contains(&Step::Ack), "nobody but the person acknowledges");
    let ack = send(&mut desk, 1300, Step::Ack);
    assert_eq!(ack.uri.to_string(), "sip:bob@192.0.2.8:5080");
    give(&mut desk, 1400, answer(&invite, 200, &[]));
    assert_eq!(said(&mut desk), ["ack", "< 200 at 1400 of invite again", "ack again"]);
    let changed = send(&mut desk, 1500, Step::ReInvite);
    give(&mut desk, 1510, answer(&changed, 200, &[]));
    send(&mut desk, 1520, Step::Ack);
    assert_eq!(said(&mut desk), ["re-invite", "< 200 at 10 of re-invite", "ack"]);
    let bye = send(&mut desk, 2000, Step::Bye);
    give(&mut desk, 2003, answer(&bye, 200, &[]));
    assert_eq!(said(&mut desk), ["bye", "< 200 at 3 of bye"]);
    assert_eq!(desk.choices(), free);
}

#[test]
fn a_challenge_is_answered_by_the_next_of_its_kind() {
    let mut desk = desk();
    let challenge = [(Name::WwwAuthenticate, "Digest realm=\"x\", nonce=\"1\", algorithm=MD5, qop=\"auth\"")];
    let first = send(&mut desk, 0, Step::Register);
    give(&mut desk, 1, answer(&first, 401, &challenge));
    let second = send(&mut desk, 2, Step::Register);
    assert_eq!(first.headers.call_id(), second.headers.call_id());
    assert_eq!(second.headers.cseq().unwrap().unwrap().number, 2);
    assert!(second.headers.get(&Name::Authorization).is_some());
    // A challenge within a call is answered within its dialog.
    let invite = send(&mut desk, 10, Step::Invite);
    give(&mut desk, 20, answer(&invite, 200, &[]));
    send(&mut desk, 30, Step::Ack);
    let bye = send(&mut desk, 40, Step::Bye);
    give(&mut desk, 50, answer(&bye, 401, &challenge));
    let again = send(&mut desk, 60, Step::Bye);
    let number = |request: &crate::Request| request.headers.cseq().unwrap().unwrap().number;
    assert_eq!(number(&again), number(&bye) + 1);
}

/// A proxy challenges, then the server behind it, then both for the BYE. All challenges are answered (RFC 3261
/// section 22.3), each nonce with its own count, and the ACK has the credentials of its INVITE (section 13.2.2.4).
#[test]
fn every_realm_that_asks_a_person_is_answered() {
    let mut desk = desk();
    let asked = |realm: &str, nonce: &str| {
        format!("Digest realm=\"{realm}\", nonce=\"{nonce}\", qop=\"auth\", algorithm=MD5")
    };
    let used = |request: &crate::Request| -> Vec<(String, String, u32)> {
        let names = [Name::Authorization, Name::ProxyAuthorization];
        let all = names.iter().flat_map(|name| request.headers.credentials(name).unwrap());
        let read = |credentials| {
            let answer = crate::digest::DigestCredentials::read(&credentials).unwrap();
            (answer.realm, answer.nonce, answer.protection.unwrap().count)
        };
        all.map(read).collect()
    };
    let list = |expected: &[(&str, &str, u32)]| -> Vec<(String, String, u32)> {
        expected.iter().map(|(realm, nonce, count)| ((*realm).into(), (*nonce).into(), *count)).collect()
    };
    let [proxy, server] = [asked("p", "n1"), asked("u", "n2")];
    let first = send(&mut desk, 0, Step::Invite);
    give(&mut desk, 1, answer(&first, 407, &[(Name::ProxyAuthenticate, &proxy)]));
    let second = send(&mut desk, 2, Step::Invite);
    assert_eq!(used(&second), list(&[("p", "n1", 1)]));
    // An unreadable challenge does not hide the others.
    give(
        &mut desk,
        3,
        answer(&second, 401, &[(Name::WwwAuthenticate, "?"), (Name::WwwAuthenticate, &server)]),
    );
    assert_eq!(desk.refusal(), None);
    let third = send(&mut desk, 4, Step::Invite);
    assert_eq!(used(&third), list(&[("p", "n1", 2), ("u", "n2", 1)]).into_iter().rev().collect::<Vec<_>>());
    give(&mut desk, 5, answer(&third, 200, &[]));
    let ack = send(&mut desk, 6, Step::Ack);
    assert_eq!(used(&ack), used(&third));
    let bye = send(&mut desk, 7, Step::Bye);
    assert_eq!(used(&bye), list(&[("u", "n2", 2), ("p", "n1", 3)]));
    let [proxy, server] = [asked("p", "n3") + ", stale=true", asked("v", "n4")];
    let both = [(Name::ProxyAuthenticate, proxy.as_str()), (Name::WwwAuthenticate, server.as_str())];
    give(&mut desk, 8, answer(&bye, 401, &both));
    let again = send(&mut desk, 9, Step::Bye);
    assert_eq!(used(&again), list(&[("u", "n2", 3), ("v", "n4", 1), ("p", "n3", 1)]));
    give(&mut desk, 10, answer(&again, 401, &[(Name::WwwAuthenticate, &asked("v", "n5"))]));
    assert_eq!(desk.refusal().unwrap().to_string(), "the credentials for the realm `v` were refused");
}

/// `rspauth` is checked for the request with the last credentials (RFC 7616 section 3.5), and for no other.
#[test]
fn a_proof_of_the_server_is_held_to_the_request_that_it_answers() {
    let mut desk = desk();
    let challenge = [(Name::WwwAuthenticate, "Digest realm=\"x\", nonce=\"1\", algorithm=MD5, qop=\"auth\"")];
    let first = send(&mut desk, 0, Step::Register);
    give(&mut desk, 1, answer(&first, 401, &challenge));
    let earlier = send(&mut desk, 2, Step::Options);
    let later = send(&mut desk, 3, Step::Message);
    let wrong = [(Name::AuthenticationInfo, "rspauth=\"00000000000000000000000000000000\", qop=auth")];
    let rules = |desk: &mut ManualClient| {
        let came = std::iter::from_fn(|| desk.poll()).filter_map(|told| match told {
            ManualClientEvent::Received(came) => Some(came.violations),
            _ => None,
        });
        came.flatten().map(|broken| broken.rule).collect::<Vec<_>>()
    };
    rules(&mut desk);
    give(&mut desk, 4, answer(&earlier, 200, &wrong));
    assert_eq!(rules(&mut desk), [""; 0]);
    give(&mut desk, 5, answer(&later, 200, &wrong));
    assert_eq!(rules(&mut desk), ["RFC 7616 section 3.5"]);
}

#[test]
fn a_refusal_is_acknowledged_and_silence_is_told() {
    let mut desk = desk();
    let invite = send(&mut desk, 0, Step::Invite);
    give(&mut desk, 9, answer(&invite, 486, &[]));
    assert_eq!(said(&mut desk), ["invite", "< 486 at 9 of invite", "itself ACK"]);
    send(&mut desk, 100, Step::Options);
    desk.stop_repeating();
    desk.handle_timeout(at(600));
    assert_eq!(said(&mut desk), ["options"], "the person does not want it again");
    desk.handle_timeout(at(33_000));
    assert_eq!(said(&mut desk), ["options timed out by F"]);
    assert!(!desk.waits());
}

#[test]
fn the_other_side_hangs_up() {
    let mut desk = desk();
    let invite = send(&mut desk, 0, Step::Invite);
    give(&mut desk, 9, answer(&invite, 200, &[]));
    send(&mut desk, 10, Step::Ack);
    said(&mut desk);
    let from = invite.headers.get(&Name::From).unwrap();
    let bye = format!(
        "BYE sip:alice@192.0.2.1:5070 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.8;branch=z9hG4bKx\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@192.0.2.9>;tag=b\r\nTo: {from}\r\nCall-ID: {}\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n",
        invite.headers.call_id().unwrap().unwrap()
    );
    desk.handle(at(20), &bye.into());
    assert!(matches!(desk.poll(), Some(ManualClientEvent::Received(_))));
    let Some(ManualClientEvent::Send { bytes, why: SendReason::Itself, .. }) = desk.poll() else {
        panic!("it is answered")
    };
    assert!(bytes.starts_with(b"SIP/2.0 200 "));
    assert!(!desk.choices().contains(&Step::Bye));
}

#[test]
fn what_is_wrong_is_sent_as_it_is_and_what_comes_is_judged() {
    let mut desk = desk();
    let draft = desk.compose(Step::Options).unwrap();
    let wrong = "Max-Forwards: many".parse::<MessageChange>().unwrap().apply(&draft.to_bytes());
    desk.send(at(0), draft.clone(), wrong.clone());
    assert!(matches!(desk.poll(), Some(ManualClientEvent::Send { bytes, .. }) if bytes == wrong));
    let mut response = answer(&draft.request, 200, &[]);
    response.headers.remove(&Name::CallId);
    give(&mut desk, 5, response);
    let Some(ManualClientEvent::Received(came)) = desk.poll() else { panic!("it is told") };
    assert!(came.violations.iter().any(|broken| broken.to_string().contains("Call-ID")), "{came:?}");
    desk.handle(at(6), &"no SIP".into());
    assert!(matches!(desk.poll(), Some(ManualClientEvent::Received(came)) if came.message.is_err()));
}
