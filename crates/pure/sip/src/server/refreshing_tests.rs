//! Session timers of an answering machine.

use netrig_core::Seeds;

use super::Server as _;
use super::answering::AnsweringMachine;
use super::answering_policy::AnsweringPolicy;
use super::tests::{ALICE, at, domain, request, source, transmitted};
use crate::dialog::Dialog;
use crate::transaction::Timing;
use crate::{Message, Method, Name, Request, Response, Status};

/// A call that was answered and acknowledged at 0 s, and its 2xx.
struct RefreshedCall {
    machine: AnsweringMachine,
    accepted: Response,
    dialog: Dialog,
}

fn talk(more: &str) -> RefreshedCall {
    let manners = AnsweringPolicy::new("192.0.2.9:4000".parse().unwrap());
    let random = Seeds::new(1).stream("machine");
    let mut machine = AnsweringMachine::new(domain(), manners, 10, Timing::default(), random);
    let call = request("INVITE", "sip:bob@biloxi.com", ALICE, 1, more);
    machine.handle(at(0.0), call.clone(), source(ALICE));
    let invite = call.as_request().unwrap().clone();
    let accepted = transmitted(&mut machine).pop().unwrap().1.as_response().unwrap().clone();
    assert_eq!(Message::from(accepted.clone()).violations(), []);
    let dialog = Dialog::caller(&invite, &accepted).unwrap();
    let mut ack = dialog.acknowledgement(&invite);
    ack.headers.push_front(Name::Via, format!("SIP/2.0/UDP {ALICE};branch=z9hG4bKa"));
    machine.handle(at(0.0), ack.into(), source(ALICE));
    RefreshedCall { machine, accepted, dialog }
}

impl RefreshedCall {
    /// Requests until `end` with their times, s.
    fn run(&mut self, end: f64) -> Vec<(u64, Request)> {
        let mut all = Vec::new();
        while let Some(next) = self.machine.poll_timeout().filter(|next| *next <= at(end)) {
            self.machine.handle_timeout(next);
            let sent =
                transmitted(&mut self.machine).into_iter().filter_map(|(_, one)| one.as_request().cloned());
            all.extend(sent.map(|request| (next.as_nanos() / 1_000_000_000, request)));
        }
        all.iter().for_each(|(_, one)| assert_eq!(Message::from(one.clone()).violations(), []));
        all
    }

    fn answer(&mut self, now: f64, request: &Request, status: Status, more: &[(Name, &str)]) -> Vec<Message> {
        let mut response = request.response(status);
        more.iter().for_each(|(name, value)| response.headers.push(name.clone(), value));
        self.machine.handle(at(now), response.into(), source(ALICE));
        transmitted(&mut self.machine).into_iter().map(|(_, message)| message).collect()
    }

    /// The response to a request of the caller.
    fn ask(&mut self, now: f64, method: Method, more: &[(Name, &str)]) -> Response {
        let mut request = self.dialog.request(method).unwrap();
        more.iter().for_each(|(name, value)| request.headers.push(name.clone(), value));
        request.headers.push_front(Name::Via, format!("SIP/2.0/UDP {ALICE};branch=z9hG4bKu{now}"));
        self.machine.handle(at(now), request.into(), source(ALICE));
        transmitted(&mut self.machine).pop().unwrap().1.as_response().unwrap().clone()
    }
}

/// If the callee is the refresher, it sends an UPDATE after half of the interval. If the caller does not answer, the callee
/// sends a BYE when a third of the interval is left.
#[test]
fn a_machine_refreshes_the_session_and_ends_it_when_nobody_answers() {
    let mut call =
        talk("Supported: timer\r\nSession-Expires: 90;refresher=uas\r\nAllow: INVITE, ACK, UPDATE\r\n");
    assert_eq!(call.accepted.headers.get(&Name::SessionExpires), Some("90;refresher=uas"));
    assert_eq!(call.accepted.headers.get(&Name::Require), Some("timer"));
    let sent = call.run(45.0);
    assert_eq!((sent.len(), sent[0].0, sent[0].1.method.clone()), (1, 45, Method::Update));
    assert_eq!(sent[0].1.headers.get(&Name::SessionExpires), Some("90;refresher=uac"));
    call.answer(45.5, &sent[0].1, Status::OK, &[(Name::SessionExpires, "90;refresher=uac")]);
    let sent = call.run(200.0);
    let bye = sent.iter().find(|(_, own)| own.method == Method::Bye).unwrap();
    assert_eq!((sent[0].0, bye.0), (90, 105));
    assert_eq!(call.machine.calls(), 0);
}

/// A caller that does not support UPDATE, or refuses it, gets an INVITE.
#[test]
fn a_machine_refreshes_by_invite_where_no_update_is_taken() {
    for allow in ["Allow: INVITE, ACK\r\n", "Allow: INVITE, ACK, UPDATE\r\n"] {
        let mut call = talk(&format!("Session-Expires: 90\r\n{allow}"));
        assert_eq!(call.accepted.headers.get(&Name::Require), None);
        let mut refresh = call.run(45.0).remove(0).1;
        if refresh.method == Method::Update {
            let output = call.answer(45.1, &refresh, Status::METHOD_NOT_ALLOWED, &[]);
            refresh = output[0].as_request().unwrap().clone();
        }
        assert_eq!((&refresh.method, &refresh.body), (&Method::Invite, &call.accepted.body));
        let output = call.answer(45.5, &refresh, Status::OK, &[(Name::SessionExpires, "90;refresher=uac")]);
        assert_eq!(output[0].as_request().unwrap().method, Method::Ack);
        let again = call.answer(46.0, &refresh, Status::OK, &[]);
        assert_eq!(again[0].as_request().unwrap().method, Method::Ack, "its ACK was lost");
        assert_eq!(call.run(91.0)[0].0, 90);
    }
}

/// The caller refreshes: the 2xx has `Session-Expires`, an interval that is too small is refused, and without a refresh the
/// machine hangs up.
#[test]
fn a_machine_answers_refreshes_and_ends_a_session_without_them() {
    let mut call = talk("Supported: timer\r\nSession-Expires: 90\r\n");
    let timer = (Name::Supported, "timer");
    let expires = (Name::SessionExpires, "100;refresher=uac");
    let refreshed = call.ask(45.0, Method::Update, &[timer.clone(), expires.clone()]);
    assert_eq!(refreshed.headers.get(&Name::SessionExpires), Some("100;refresher=uac"));
    assert_eq!(refreshed.headers.get(&Name::Require), Some("timer"));
    let brief = (Name::SessionExpires, "89");
    let refused = call.ask(50.0, Method::Update, &[timer.clone(), brief.clone()]);
    assert_eq!((refused.status, refused.headers.get(&Name::MinSe)), (Status::new(422).unwrap(), Some("90")));
    // The UPDATE at 45 s sets an interval of 100 s. The BYE follows 32 s before its end.
    let sent = call.run(200.0);
    assert_eq!((sent[0].0, sent[0].1.method.clone()), (113, Method::Bye));
    // An INVITE with too small an interval is refused.
    let more = request("INVITE", "sip:bob@biloxi.com", ALICE, 9, "Supported: timer\r\nx: 30\r\n");
    call.machine.handle(at(300.0), more, source(ALICE));
    let refused = transmitted(&mut call.machine).pop().unwrap().1;
    assert_eq!((refused.as_response().unwrap().status.code(), call.machine.calls()), (422, 0));
    // A refresh without `Session-Expires` ends the timer, not the session.
    let mut call = talk("Supported: timer\r\nSession-Expires: 90\r\n");
    let plain = call.ask(45.0, Method::Update, &[]);
    assert_eq!((plain.status, plain.headers.get(&Name::SessionExpires)), (Status::OK, None));
    assert!(call.run(500.0).is_empty());
}
