//! Verdicts of `netrig sip conform` on scripted servers: one that keeps a rule, one that makes use of an option of the
//! RFC, and one that breaks the rule.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use netrig_sip::header::NameAddr;
use netrig_sip::sdp::SessionDescription;
use netrig_sip::{Message, Method, Name, Request, Response, Uri};

use crate::common::as_json;
use crate::common::sip_peer::{PeerMessage, SipPeer, response};
use crate::common::sip_server::{PASSWORD_ENV, SipServer};

/// The verdict of one test purpose, and its observation. A deviation from a recommendation is "SHOULD".
fn verdict(target: &str, role: &str, id: &str) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
    command.args(["sip", "conform", target, "--role", role, "--domain", "lab.test", "--json", "--only", id]);
    command.args(["--patience", "2s", "--silence", "300ms", "--password-env", PASSWORD_ENV]);
    let output = command.env(PASSWORD_ENV, "zanzibar").output().unwrap();
    let document = as_json(&output);
    let row = &document["purposes"][0];
    let observation = row["observation"].as_str().unwrap_or_default().to_owned();
    let is_deviation = observation.starts_with("only recommended");
    let verdict = if is_deviation { "SHOULD" } else { row["verdict"].as_str().unwrap_or("not tested") };
    (verdict.to_owned(), observation)
}

/// A test purpose, the verdict that is expected, and the server that is tested.
struct ExpectedVerdict<'a> {
    id: &'a str,
    verdict: &'a str,
    server: SipPeer,
}

fn all_are_as_expected(role: &str, expected: &[ExpectedVerdict<'_>]) {
    let seen: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = expected
            .iter()
            .map(|case| {
                let (id, target) = (case.id.to_owned(), case.server.target());
                scope.spawn(move || verdict(&target, role, &id))
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let wrong: Vec<_> = expected
        .iter()
        .zip(&seen)
        .enumerate()
        .filter(|(_, (case, (verdict, _)))| case.verdict != verdict)
        .map(|(place, (case, seen))| (place, case.id, case.verdict, seen))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The state of a scripted user agent.
#[derive(Default)]
struct ScriptedAgent {
    /// Ringing time before the answer.
    ring: Duration,
    /// The last response to each INVITE, by its branch.
    invites: BTreeMap<String, Response>,
    /// For each Call-ID, the first and the last Contact of the caller.
    calls: BTreeMap<String, [SocketAddr; 2]>,
}

fn value(request: &Request, name: &Name) -> String {
    request.headers.get(name).unwrap_or_default().to_owned()
}

fn branch(request: &Request) -> String {
    let via = request.headers.top_via().ok().flatten();
    via.and_then(|via| via.branch().map(str::to_owned)).unwrap_or_default()
}

fn contact(request: &Request) -> SocketAddr {
    let contact = request.headers.addresses(&Name::Contact).unwrap().remove(0);
    let port = contact.uri.as_sip().and_then(|uri| uri.port).unwrap();
    ([127, 0, 0, 1], port).into()
}

/// A BYE of the server within the call that this INVITE has started.
fn bye(invite: &Request, to: SocketAddr) -> PeerMessage {
    let uri: Uri = format!("sip:{to}").parse().unwrap();
    let mut bye = Request::new(Method::Bye, uri);
    bye.headers.push(Name::Via, format!("SIP/2.0/UDP 127.0.0.1:9;rport;branch=z9hG4bK{}", branch(invite)));
    bye.headers.push(Name::MaxForwards, 70);
    bye.headers.push(Name::From, value(invite, &Name::To));
    bye.headers.push(Name::To, value(invite, &Name::From));
    bye.headers.push(Name::CallId, value(invite, &Name::CallId));
    bye.headers.push(Name::CSeq, "1 BYE");
    PeerMessage { after: Duration::from_millis(200), to: Some(to), message: bye.into() }
}

impl ScriptedAgent {
    /// The behaviour of a user agent that keeps the rules.
    fn act(&mut self, request: &Request) -> Vec<PeerMessage> {
        let call_id = value(request, &Name::CallId);
        let is_within = request.headers.to().ok().flatten().is_some_and(|to| to.tag().is_some());
        let is_known = self.calls.contains_key(&call_id);
        let told = [
            (Name::Allow, "INVITE, ACK, CANCEL, BYE, OPTIONS"),
            (Name::Accept, "application/sdp"),
            (Name::Supported, "timer"),
        ];
        match request.method {
            Method::Ack => Vec::new(),
            Method::Invite => self.invited(request, is_within && !is_known),
            Method::Bye if is_known => {
                self.calls.remove(&call_id);
                vec![PeerMessage::now(response(request, 200, &[]))]
            }
            Method::Bye => vec![PeerMessage::now(response(request, 481, &[]))],
            Method::Cancel => self.cancelled(request),
            Method::Options => vec![PeerMessage::now(response(request, 200, &told))],
            _ => vec![PeerMessage::now(response(request, 501, &[]))],
        }
    }

    fn invited(&mut self, request: &Request, is_of_no_call: bool) -> Vec<PeerMessage> {
        if let Some(last) = self.invites.get(&branch(request)) {
            return vec![PeerMessage::now(last.clone())];
        }
        let call_id = value(request, &Name::CallId);
        let interval = value(request, &Name::SessionExpires);
        let refused = if is_of_no_call {
            Some(response(request, 481, &[]))
        } else if request.body.windows(14).any(|part| part == b"netrig-unknown") {
            Some(response(request, 488, &[]))
        } else if interval == "30" {
            Some(response(request, 422, &[(Name::MinSe, "90")]))
        } else {
            None
        };
        if let Some(refused) = refused {
            self.invites.insert(branch(request), refused.clone());
            return vec![PeerMessage::now(refused)];
        }
        let own = contact(request);
        let is_first = !self.calls.contains_key(&call_id);
        let contacts = self.calls.entry(call_id).or_insert([own; 2]);
        contacts[1] = own;
        let last = own;
        let mut success = response(request, 200, &[(Name::ContentType, "application/sdp")]);
        success.body = SessionDescription::audio([127, 0, 0, 1].into(), 40_000, 1).to_string().into();
        if !is_first {
            return vec![PeerMessage::now(success), bye(request, last)];
        }
        if self.ring.is_zero() {
            self.invites.insert(branch(request), success.clone());
            return vec![PeerMessage::now(success)];
        }
        let ringing = response(request, 180, &[]);
        self.invites.insert(branch(request), ringing.clone());
        vec![PeerMessage::now(ringing), PeerMessage { after: self.ring, to: None, message: success.into() }]
    }

    fn cancelled(&mut self, request: &Request) -> Vec<PeerMessage> {
        let Some(invite) = self.invites.get_mut(&branch(request)) else {
            return vec![PeerMessage::now(response(request, 481, &[]))];
        };
        let mut sent = vec![PeerMessage::now(response(request, 200, &[]))];
        if !invite.status.is_final() {
            invite.status = netrig_sip::Status::new(487).unwrap();
            invite.headers.remove(&Name::Contact);
            sent.push(PeerMessage::now(invite.clone()));
        }
        sent
    }
}

/// A deviation from the rules: it changes the messages that the user agent sends.
type Deviation = fn(&Request, &mut ScriptedAgent, &mut Vec<PeerMessage>);

fn agent(ring: Duration, deviation: Deviation) -> SipPeer {
    let mut agent = ScriptedAgent { ring, ..ScriptedAgent::default() };
    SipPeer::start_script(move |request| {
        let mut sent = agent.act(request);
        deviation(request, &mut agent, &mut sent);
        sent
    })
}

/// Changes the status of a sent response.
fn with_status(sent: &mut [PeerMessage], from: u16, to: u16) {
    for sent in sent {
        if let Message::Response(response) = &mut sent.message
            && response.status.code() == from
        {
            response.status = netrig_sip::Status::new(to).unwrap();
        }
    }
}

/// Replaces a rejection by a 200 with a session description and a Contact.
fn taken(request: &Request, sent: &mut Vec<PeerMessage>) {
    let mut success = response(request, 200, &[(Name::ContentType, "application/sdp")]);
    success.body = SessionDescription::audio([127, 0, 0, 1].into(), 40_000, 1).to_string().into();
    *sent = vec![PeerMessage::now(success)];
}

const RIGHT: Deviation = |_, _, _| {};
const AT_ONCE: Duration = Duration::ZERO;
const RINGING: Duration = Duration::from_millis(1500);

#[test]
fn user_agents_that_keep_to_the_rfc_do_not_fail_and_others_do() {
    let cases: &[(&str, &str, Duration, Deviation)] = &[
        ("UAS-CALL-09", "PASS", AT_ONCE, RIGHT),
        ("UAS-CALL-09", "SHOULD", AT_ONCE, |_, _, sent| with_status(sent, 481, 200)),
        ("UAS-CALL-10", "PASS", AT_ONCE, RIGHT),
        ("UAS-CALL-10", "SHOULD", AT_ONCE, |_, _, sent| with_status(sent, 481, 200)),
        ("UAS-CALL-11", "PASS", AT_ONCE, RIGHT),
        ("UAS-CALL-11", "PASS", AT_ONCE, |request, _, sent| {
            let is_refused = sent
                .iter()
                .any(|sent| sent.message.as_response().is_some_and(|own| own.status.code() == 481));
            if request.method == Method::Invite && is_refused {
                taken(request, sent);
            }
        }),
        ("UAS-CALL-11", "FAIL", AT_ONCE, |_, _, sent| with_status(sent, 481, 488)),
        // The scripted user agent does not check CSeq numbers.
        ("UAS-CALL-17", "FAIL", AT_ONCE, RIGHT),
        ("UAS-CALL-17", "PASS", AT_ONCE, |request, _, sent| {
            if request.method == Method::Bye && value(request, &Name::CSeq) == "5 BYE" {
                with_status(sent, 200, 500);
            }
        }),
        ("UAS-CANCEL-02", "PASS", RINGING, RIGHT),
        ("UAS-CANCEL-02", "SHOULD", RINGING, |_, _, sent| {
            sent.retain(|sent| sent.message.as_response().is_none_or(|own| own.status.code() != 487));
        }),
        ("UAS-CANCEL-03", "PASS", RINGING, RIGHT),
        ("UAS-CANCEL-03", "SHOULD", RINGING, |request, _, sent| {
            if request.method == Method::Cancel
                && let Some(Message::Response(own)) = sent.first_mut().map(|sent| &mut sent.message)
            {
                let to = own.headers.to().unwrap().unwrap();
                own.headers.set(Name::To, NameAddr::new(to.uri).with_tag("another"));
            }
        }),
        ("UAS-CANCEL-04", "PASS", AT_ONCE, RIGHT),
        ("UAS-CANCEL-04", "SHOULD", AT_ONCE, |_, _, sent| with_status(sent, 481, 200)),
        ("UAS-CANCEL-05", "PASS", AT_ONCE, RIGHT),
        ("UAS-CANCEL-05", "FAIL", AT_ONCE, |request, agent, _| {
            if request.method == Method::Cancel {
                agent.calls.remove(&value(request, &Name::CallId));
            }
        }),
        ("UAS-RING-02", "PASS", RINGING, RIGHT),
        ("UAS-RING-02", "FAIL", RINGING, |_, _, sent| {
            // The 180 is not repeated: it is dropped if it is the only message.
            if sent.len() == 1 && sent[0].message.as_response().is_some_and(|own| own.status.code() == 180) {
                sent.clear();
            }
        }),
        ("UAS-SDP-07", "PASS", AT_ONCE, RIGHT),
        ("UAS-SDP-07", "PASS", AT_ONCE, |_, _, sent| with_status(sent, 488, 486)),
        ("UAS-SDP-07", "FAIL", AT_ONCE, |request, _, sent| {
            if request.body.windows(14).any(|part| part == b"netrig-unknown") {
                taken(request, sent);
            }
        }),
        ("UAS-SDP-09", "PASS", AT_ONCE, RIGHT),
        ("UAS-SDP-09", "SHOULD", AT_ONCE, |_, _, sent| with_status(sent, 488, 486)),
        ("UAS-MOD-03", "PASS", AT_ONCE, RIGHT),
        ("UAS-MOD-03", "FAIL", AT_ONCE, |request, agent, sent| {
            if let Some([first, _]) = agent.calls.get(&value(request, &Name::CallId)) {
                sent.iter_mut().filter(|sent| sent.to.is_some()).for_each(|sent| sent.to = Some(*first));
            }
        }),
        ("UAS-MOD-03", "INCONC", AT_ONCE, |_, _, sent| sent.retain(|sent| sent.to.is_none())),
        ("UAS-TIMER-02", "PASS", AT_ONCE, RIGHT),
        ("UAS-TIMER-02", "INCONC", AT_ONCE, |request, _, sent| {
            if value(request, &Name::SessionExpires) == "30" {
                taken(request, sent);
            }
        }),
        ("UAS-TIMER-02", "FAIL", AT_ONCE, |_, _, sent| {
            for sent in sent {
                if let Message::Response(own) = &mut sent.message {
                    own.headers.remove(&Name::MinSe);
                }
            }
        }),
    ];
    let cases: Vec<_> = cases
        .iter()
        .map(|(id, verdict, ring, deviation)| ExpectedVerdict {
            id,
            verdict,
            server: agent(*ring, *deviation),
        })
        .collect();
    all_are_as_expected("uas", &cases);
}

/// The deviations of a scripted location server.
#[derive(Clone, Copy)]
struct LocationManners {
    /// The granted expiry, s, for a contact with this `expires` parameter in a REGISTER with this Expires value. `None`
    /// means a 423 response.
    grant: fn(Option<u32>, Option<u32>) -> Option<u32>,
    /// Status of a redirection.
    redirection: u16,
    /// Status of the response to requests other than INVITE.
    other: u16,
}

const USUAL: LocationManners = LocationManners {
    grant: |parameter, field| Some(parameter.or(field).unwrap_or(3600)),
    redirection: 302,
    other: 302,
};

/// A scripted registrar and redirect server.
fn location_server(manners: LocationManners) -> SipPeer {
    let mut bindings: BTreeMap<String, Vec<(NameAddr, u32)>> = BTreeMap::new();
    let user = |uri: &Uri| uri.as_sip().and_then(|uri| uri.user.clone()).unwrap_or_default();
    SipPeer::start(move |request| {
        if request.method == Method::Ack {
            return None;
        }
        if request.method == Method::Cancel {
            return Some(response(request, 200, &[]));
        }
        if request.method != Method::Register {
            let found = bindings.get(&user(&request.uri)).cloned().unwrap_or_default();
            let status = match (found.is_empty(), &request.method) {
                (true, _) => 404,
                (false, Method::Invite) => manners.redirection,
                (false, _) => manners.other,
            };
            let mut redirection = response(request, status, &[]);
            redirection.headers.remove(&Name::Contact);
            for (contact, _) in found.iter().filter(|_| (300..400).contains(&status)) {
                redirection.headers.push(Name::Contact, contact);
            }
            return Some(redirection);
        }
        let own = bindings.entry(user(&request.headers.to().unwrap().unwrap().uri)).or_default();
        if value(request, &Name::Contact) == "*" {
            own.clear();
        }
        let field = value(request, &Name::Expires).parse().ok();
        for mut contact in request.headers.addresses(&Name::Contact).unwrap_or_default() {
            let parameter = contact.parameters.value("expires").and_then(|text| text.parse().ok());
            contact.parameters.remove("expires");
            let Some(granted) = (manners.grant)(parameter, field) else {
                return Some(response(request, 423, &[(Name::MinExpires, "600")]));
            };
            own.retain(|(known, _)| !known.uri.is_equivalent(&contact.uri));
            own.push((contact, granted));
        }
        let mut answer = response(request, 200, &[]);
        answer.headers.remove(&Name::Contact);
        for (contact, granted) in own {
            answer.headers.push(Name::Contact, format!("{contact};expires={granted}"));
        }
        Some(answer)
    })
}

#[test]
fn a_registrar_that_does_not_read_expirations_fails() {
    type Grant = fn(Option<u32>, Option<u32>) -> Option<u32>;
    let of_its_own: Grant = |_, _| Some(600);
    let with_a_limit: Grant = |parameter, field| Some(parameter.or(field).unwrap_or(3600).min(600));
    let with_a_least: Grant = |parameter, field| Some(parameter.or(field).unwrap_or(3600).max(500));
    let too_brief: Grant = |parameter, field| parameter.or(field).filter(|seconds| *seconds >= 600);
    let field_first: Grant = |parameter, field| field.or(parameter);
    let cases: [(&str, &str, Grant); 12] = [
        ("REG-EXPIRE-01", "PASS", USUAL.grant),
        ("REG-EXPIRE-01", "PASS", with_a_limit),
        ("REG-EXPIRE-01", "INCONC", with_a_least),
        ("REG-EXPIRE-01", "INCONC", too_brief),
        ("REG-EXPIRE-01", "FAIL", of_its_own),
        ("REG-EXPIRE-01", "FAIL", field_first),
        ("REG-EXPIRE-02", "PASS", USUAL.grant),
        ("REG-EXPIRE-02", "PASS", with_a_limit),
        ("REG-EXPIRE-02", "INCONC", with_a_least),
        ("REG-EXPIRE-02", "INCONC", too_brief),
        ("REG-EXPIRE-02", "FAIL", of_its_own),
        ("REG-EXPIRE-02", "PASS", field_first),
    ];
    let cases = cases.map(|(id, verdict, grant)| ExpectedVerdict {
        id,
        verdict,
        server: location_server(LocationManners { grant, ..USUAL }),
    });
    all_are_as_expected("registrar", &cases);
}

#[test]
fn a_redirect_server_may_refuse_and_name_several_choices() {
    let cases = [
        ("RED-RED-06", "PASS", USUAL),
        ("RED-RED-06", "PASS", LocationManners { redirection: 300, ..USUAL }),
        ("RED-RED-06", "FAIL", LocationManners { redirection: 305, ..USUAL }),
        ("RED-RED-07", "PASS", USUAL),
        ("RED-RED-07", "PASS", LocationManners { other: 405, ..USUAL }),
        ("RED-RED-07", "FAIL", LocationManners { other: 200, ..USUAL }),
    ];
    let cases =
        cases.map(|(id, verdict, manners)| ExpectedVerdict { id, verdict, server: location_server(manners) });
    all_are_as_expected("redirect", &cases);
}

/// RFC 4320 section 4.1: over a reliable transport a 100 may be sent at any time.
#[test]
fn a_100_to_options_is_no_failure_over_tcp() {
    let server = SipServer::start(&["proxy", "--listen", "tcp:127.0.0.1:0", "--domain", "lab.test"]);
    let address: SocketAddr = server.address("tcp").parse().unwrap();
    for (status, expected) in [("100 Trying", "PASS"), ("183 Session Progress", "FAIL")] {
        let front = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("tcp:{}", front.local_addr().unwrap());
        // The thread ends with the process of the test.
        std::thread::spawn(move || {
            while let Ok((tester, _)) = front.accept() {
                let towards = std::net::TcpStream::connect(address).unwrap();
                let (back, forth) = (tester.try_clone().unwrap(), towards.try_clone().unwrap());
                std::thread::spawn(move || pass(towards, back, None));
                std::thread::spawn(move || pass(tester, forth, Some(status)));
            }
        });
        let seen = verdict(&target, "proxy", "PRX-TRANS-13");
        assert_eq!(seen.0, expected, "{}", seen.1);
    }
    server.end();
}

/// Forwards bytes. If `provisional` is given, also answers each OPTIONS with this provisional response.
fn pass(mut from: std::net::TcpStream, mut to: std::net::TcpStream, provisional: Option<&str>) {
    use std::io::{Read as _, Write as _};
    let mut buffer = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if let Some(status) = provisional.filter(|_| text.starts_with("OPTIONS ")) {
            let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
            let lines = text.split("\r\n").filter(|line| kept.iter().any(|name| line.starts_with(name)));
            let lines: String = lines.map(|line| format!("{line}\r\n")).collect();
            let answer = format!("SIP/2.0 {status}\r\n{lines}Content-Length: 0\r\n\r\n");
            if from.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
        if to.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}
