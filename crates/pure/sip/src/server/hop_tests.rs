//! Requests that are too long for a datagram.

use netrig_core::Seeds;

use super::tests::{ALICE, at, domain, message, request, source, transmitted};
use super::*;
use crate::header::{Transport, Via};
use crate::transaction::Timing;
use crate::{Message, Name, Status};

/// A callee outside of the domain.
const CALLEE: &str = "sip:bob@192.0.2.80:5070";
const SERVER: &str = "192.0.2.9:5062";

/// A proxy that listens over UDP, and over TCP too if `both`.
fn listening(both: bool) -> Proxy {
    let mut domain = domain();
    domain.listens.extend(both.then(|| (Transport::Tcp, SERVER.parse().unwrap())));
    let mut registry = Registry::new(domain, 10);
    registry.relays = true;
    Proxy::new(registry, false, 10, Timing::default(), Seeds::new(1).stream("proxy"))
}

fn long(number: u32) -> Message {
    request("INVITE", CALLEE, ALICE, number, &format!("Subject: {}\r\n", "x".repeat(1000)))
}

/// The INVITE among the messages of a proxy, with its transport and its `Via`.
fn forwarded(proxy: &mut Proxy) -> (Transport, Via, Message) {
    let all = transmitted(proxy).into_iter().filter(|(_, message)| message.as_request().is_some());
    let all: Vec<_> = all.collect();
    assert_eq!(all.len(), 1, "{all:?}");
    let (Destination::Address(to), message) = all[0].clone() else { panic!("{all:?}") };
    assert_eq!(to.address, "192.0.2.80:5070".parse().unwrap());
    (to.transport, message.headers().top_via().unwrap().unwrap(), message)
}

#[test]
fn lengths_are_those_of_the_wire() {
    let written = [long(1), request("MESSAGE", CALLEE, ALICE, 2, "Content-Length: 0\r\n")];
    let with_body = message(&format!(
        "{}Content-Length: 3\r\n\r\nabc",
        long(3).to_string().trim_end().to_owned() + "\r\n"
    ));
    for message in written.into_iter().chain([with_body]) {
        assert_eq!(message.as_request().unwrap().wire_len(), message.to_bytes().len());
    }
}

#[test]
fn a_request_above_1300_bytes_goes_over_tcp() {
    let mut proxy = listening(true);
    // "larger than 1300 bytes", the Via of the hop over UDP included.
    let longest = |proxy: &mut Proxy, more: usize, number: u32| {
        let subject = format!("Subject: {}\r\n", "x".repeat(more));
        proxy.handle(at(0.0), request("INVITE", CALLEE, ALICE, number, &subject), source(ALICE));
        forwarded(proxy)
    };
    let (transport, via, short) = longest(&mut proxy, 1, 1);
    assert_eq!((transport, &via.transport), (Transport::Udp, &Ok(Transport::Udp)));
    let room = LONGEST_OVER_UDP - short.to_bytes().len();
    let (transport, _, message) = longest(&mut proxy, 1 + room, 2);
    assert_eq!((transport, message.to_bytes().len()), (Transport::Udp, LONGEST_OVER_UDP));
    let (transport, via, _) = longest(&mut proxy, 2 + room, 3);
    // "the value in the top Via MUST be changed."
    assert_eq!((transport, &via.transport), (Transport::Tcp, &Ok(Transport::Tcp)));
    assert_eq!(via.port, Some(5062), "where it listens over TCP");
    // Over a stream there is no retransmission.
    proxy.handle_timeout(at(10.0));
    let again = transmitted(&mut proxy);
    assert!(again.iter().all(|(to, _)| to.transport() == Transport::Udp), "{again:?}");
}

#[test]
fn without_tcp_it_goes_as_it_may() {
    let mut proxy = listening(false);
    proxy.handle(at(0.0), long(1), source(ALICE));
    assert_eq!(forwarded(&mut proxy).0, Transport::Udp);
}

/// "the element SHOULD retry the request, using UDP": within the same transaction, which matches the response.
#[test]
fn where_nobody_takes_it_over_tcp_it_goes_over_udp() {
    let mut proxy = listening(true);
    proxy.handle(at(0.0), long(1), source(ALICE));
    let (_, before, refused) = forwarded(&mut proxy);
    proxy.handle_failure(at(0.1), &refused);
    let (transport, via, again) = forwarded(&mut proxy);
    assert_eq!(
        (transport, via.transport.clone(), via.port),
        (Transport::Udp, Ok(Transport::Udp), Some(5060))
    );
    assert_eq!(via.branch(), before.branch());
    assert_eq!(again.headers().all(&Name::Via).count(), 2);
    // Over UDP it is retransmitted.
    proxy.handle_timeout(at(0.6));
    assert_eq!(forwarded(&mut proxy).0, Transport::Udp);
    let ringing = again.as_request().unwrap().response(Status::RINGING);
    proxy.handle(at(0.7), ringing.into(), source("192.0.2.80:5070"));
    let answers = transmitted(&mut proxy);
    assert_eq!(answers[0].1.as_response().unwrap().status, Status::RINGING);
    // There is no third alternative.
    proxy.handle(at(1.0), long(2), source(ALICE));
    let (_, _, refused) = forwarded(&mut proxy);
    proxy.handle_failure(at(1.1), &refused);
    let (_, _, refused) = forwarded(&mut proxy);
    proxy.handle_failure(at(1.2), &refused);
    let answer = transmitted(&mut proxy).remove(0).1;
    assert_eq!(
        answer.as_response().unwrap().status,
        Status::SERVER_INTERNAL_ERROR,
        "503 is forwarded as 500"
    );
}
