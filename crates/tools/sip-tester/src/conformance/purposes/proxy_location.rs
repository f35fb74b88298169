//! The next hop of a request whose Request-URI has a host name (RFC 3263). The names resolve to user agents of the
//! tester, which is the DNS server of the proxy.

use std::net::SocketAddr;

use netrig_core::Duration;
use netrig_sip::header::Transport;
use netrig_sip::location::Kind;
use netrig_sip::{Host, Method, Request, SipUri};

use super::super::case::{T1, TestCase};
use super::super::messages::{ForwardOutcome, Forwarded, branch_of, cancel_of, line_of};
use super::super::outcome::{
    PurposeOutcome, as_inconclusive, ensure, ensured, failure, inconclusive, require, required,
};
use super::super::purpose::purposes;
use super::super::target::{FIRST, SECOND, THIRD, TestAgent};

/// The two user agents to which the names resolve.
const BOTH: [TestAgent; 2] = [SECOND, THIRD];

/// The longest wait of a client transaction for a response: timers B and F of RFC 3261.
const TRANSACTION: Duration = T1.saturating_mul(64);

/// Number of retransmissions of the caller, with intervals of slightly more than T1. Together they take slightly less
/// than four times T1.
const REPETITIONS: u64 = 3;

/// Number of INVITEs with which a rule about the choice of a target is tested. After a single one, a server that chooses at
/// random could pass by chance.
const DRAWS: usize = 4;

purposes! {
    Proxy "PRX";
    "location" {
        "DNS-01" Must "RFC 3263 section 4.2" "A request for a host name without a port goes to the target and the port of the SRV record." => uses_the_srv_record, needs [Dns];
        "DNS-02" Must "RFC 3263 section 4.1" "If a host name has no NAPTR record, its SRV records are used." => uses_srv_without_naptr, needs [Dns];
        "DNS-03" Must "RFC 3263 section 4.2" "A request for a host name with a port goes to that port of the name's own address, regardless of its SRV records." => uses_the_port, needs [Dns];
        "DNS-04" Must "RFC 3263 section 4.2" "A numeric address causes no DNS question." => asks_nothing_for_an_address, needs [Dns];
        "DNS-05" Must "RFC 3263 section 4.2" "If a host name has no SRV record, the request goes to its own address at the default port, 5060." => uses_the_default_port, needs [Dns];
        "DNS-06" Should "RFC 3263 section 4.1" "With transport=tcp, the request goes over TCP, as the SRV record of _sip._tcp says." => uses_the_transport, needs [Dns];
        "DNS-07" Should "RFC 3263 section 4.1" "Without a transport and a port, the proxy asks for the NAPTR records of the host name." => asks_for_naptr, needs [Dns];
        "DNS-08" Must "RFC 3263 section 4.1" "Of two NAPTR records for one transport, the one with the lower order is used." => keeps_the_naptr_order, needs [Dns];
        "DNS-09" Must "RFC 3263 section 4.1" "Of NAPTR records for TCP and UDP, the one with the lower order decides the transport." => keeps_the_naptr_order_of_transports, needs [Dns];
        "DNS-10" Must "RFC 3263 section 4.1" "A NAPTR record for an unknown transport is discarded." => discards_unknown_services, needs [Dns];
        "DNS-11" Must "RFC 3263 section 4.2, RFC 2782" "Of two SRV records, the one with the lower priority value is tried first." => keeps_the_priority, needs [Dns];
        "DNS-12" Must "RFC 3261 section 16.6" "If the first target does not answer, the request goes to the next one." => |case| after_a_timeout(case).map(drop), needs [Dns];
        "DNS-13" Must "RFC 3261 section 16.6" "The request to the next target has its own branch." => draws_a_branch_for_each_target, needs [Dns];
        "DNS-14" Must "RFC 3261 section 16.6" "If the first target refuses the connection, the request goes to the next one." => goes_on_after_a_refusal, needs [Dns];
        "DNS-15" Should "RFC 3263 section 4.3" "If the first target answers 503, the request goes to the next one." => goes_on_after_503, needs [Dns];
        "DNS-16" Must "RFC 3263 section 4" "A retransmission goes to the same target." => repeats_to_the_same_target, needs [Dns];
        "DNS-17" Must "RFC 3263 section 4" "The ACK of a failure goes to the target that sent the failure." => acknowledges_to_the_same_target, needs [Dns];
        "DNS-18" Must "RFC 3263 section 4" "A CANCEL goes to the target that has the INVITE." => cancels_at_the_same_target, needs [Dns];
        "DNS-19" Must "RFC 3263 section 4.2, RFC 2782" "If the target of the only SRV record is the root, the request is refused and not sent." => takes_the_root_for_no_service, needs [Dns];
        "DNS-20" Must "RFC 3261 section 16.6" "An INVITE for a host name that does not exist gets a final response." => refuses_unknown_names, needs [Dns];
    }
}

/// Tests whether the proxy asks the tester for the address of a host name, and whether it sends a request to that address.
pub(in crate::conformance) fn asks_the_tester(case: &mut TestCase<'_>) -> PurposeOutcome {
    let names = case.names()?;
    let place = open(case, SECOND, Transport::Udp)?;
    let name = case.draw_name()?;
    case.add_records(&name, &address_record("@", place))?;
    let uri = named(&name).with_port(place.port());
    let outcome = invite(case, uri, &[SECOND], case.patience())?;
    let has_asked = !case.questions().is_empty();
    require!(
        has_asked,
        "a user was registered at a host of {}, and no question for that host came to {}: let the server ask that address, or its \
         resolver forward questions for {0} there",
        names.domain(),
        names.address()
    );
    match outcome {
        ForwardOutcome::Arrived(forwarded) => case.finish(&forwarded, 486),
        other => Err(inconclusive!(
            "an INVITE for a user at a host of the tester {}, although the proxy asked for the address",
            other.words()
        )),
    }
}

impl ForwardOutcome {
    /// The behaviour of the proxy, as the end of a sentence.
    fn words(&self) -> String {
        match self {
            Self::Arrived(forwarded) => format!("arrived over {}", transport_of(forwarded)),
            Self::Answered(response) => format!("was answered {} and not forwarded", line_of(response)),
            Self::Silence => "neither arrived nor had a final response in time".to_owned(),
        }
    }

    /// The INVITE as it arrived at the user agent `wanted`. Any other outcome is a failure.
    fn at(self, wanted: TestAgent, elsewhere: &str) -> PurposeOutcome<Forwarded> {
        match self {
            Self::Arrived(forwarded) if forwarded.at == wanted => Ok(*forwarded),
            Self::Arrived(_) => Err(failure!("the INVITE went {elsewhere}")),
            other => Err(failure!("the INVITE {}", other.words())),
        }
    }
}

/// Opens another socket of a user agent at the tester's own address.
fn open(case: &mut TestCase<'_>, agent: TestAgent, transport: Transport) -> PurposeOutcome<SocketAddr> {
    let host = case.target().address.local;
    case.open_place(agent, transport, host, 0)
}

/// Opens another socket of each of the two user agents, with these transports.
fn open_both(
    case: &mut TestCase<'_>,
    second: Transport,
    third: Transport,
) -> PurposeOutcome<[SocketAddr; 2]> {
    Ok([open(case, SECOND, second)?, open(case, THIRD, third)?])
}

/// The URI `sip:NAME`.
fn named(name: &str) -> SipUri {
    SipUri::new(Host::Name(name.to_owned()))
}

/// The zone file line with the address of a name.
fn address_record(name: &str, place: SocketAddr) -> String {
    let kind = if place.is_ipv4() { "A" } else { "AAAA" };
    format!("{name} {kind} {}\n", place.ip())
}

/// SRV records of a service, and the addresses of their targets. Each target has a priority and an address.
fn srv_records(service: &str, targets: &[(u16, SocketAddr)]) -> String {
    let record = |(number, (priority, place)): (usize, &(u16, SocketAddr))| {
        let target = format!("host{number}.{service}");
        format!("{service} SRV {priority} 1 {} {target}\n{}", place.port(), address_record(&target, *place))
    };
    targets.iter().enumerate().map(record).collect()
}

/// Registers the second user with this contact, and sends an INVITE for that user. Returns the outcome at the user
/// agents `at`.
fn invite(
    case: &mut TestCase<'_>,
    mut contact: SipUri,
    at: &[TestAgent],
    within: Duration,
) -> PurposeOutcome<ForwardOutcome> {
    let aor = case.address_of_record(SECOND);
    contact.user.clone_from(&aor.user);
    case.register_contacts(SECOND, &[format!("<{contact}>")])?;
    invite_again(case, at, within)
}

/// Sends another INVITE for the second user, whose registration stays.
fn invite_again(
    case: &mut TestCase<'_>,
    at: &[TestAgent],
    within: Duration,
) -> PurposeOutcome<ForwardOutcome> {
    let request = case.request_to(SECOND, Method::Invite)?;
    case.forward_to(FIRST, &request, at, within)
}

/// [`invite`] with these records of a host name. Inconclusive if the proxy asked no DNS question.
fn invite_by_name(
    case: &mut TestCase<'_>,
    name: &str,
    contact: SipUri,
    records: &str,
) -> PurposeOutcome<ForwardOutcome> {
    case.add_records(name, records)?;
    let outcome = invite(case, contact, &BOTH, case.patience())?;
    is_asked(case)?;
    Ok(outcome)
}

/// Ends the purpose as inconclusive if the proxy asked no question for a name of the case: its records then have no
/// effect.
fn is_asked(case: &TestCase<'_>) -> PurposeOutcome {
    let names = case.names()?;
    required!(
        !case.questions().is_empty(),
        "no question for the host of the contact came to {}: let the server ask that address, or its resolver forward questions for {} \
         there",
        names.address(),
        names.domain()
    )
}

/// Whether the proxy asked for records of this type.
fn has_asked_for(case: &TestCase<'_>, kind: Kind) -> bool {
    case.questions().iter().any(|asked| asked.question.kind == kind)
}

fn transport_of(forwarded: &Forwarded) -> &'static str {
    let via = forwarded.arrived.headers.top_via().ok().flatten();
    via.and_then(|via| via.transport.ok()).map_or("an unknown transport", Transport::name)
}

fn uses_the_srv_record(case: &mut TestCase<'_>) -> PurposeOutcome {
    let place = open(case, SECOND, Transport::Udp)?;
    let name = case.draw_name()?;
    let contact = named(&name).with_parameter("transport", Some("udp"));
    let outcome = invite_by_name(case, &name, contact, &srv_records("_sip._udp", &[(0, place)]))?;
    let forwarded = outcome.at(SECOND, "elsewhere")?;
    case.finish(&forwarded, 486)
}

fn uses_srv_without_naptr(case: &mut TestCase<'_>) -> PurposeOutcome {
    let place = open(case, SECOND, Transport::Udp)?;
    let name = case.draw_name()?;
    let outcome = invite_by_name(case, &name, named(&name), &srv_records("_sip._udp", &[(0, place)]))?;
    let forwarded = outcome.at(SECOND, "elsewhere")?;
    case.finish(&forwarded, 486)
}

fn uses_the_port(case: &mut TestCase<'_>) -> PurposeOutcome {
    let [place, decoy] = open_both(case, Transport::Udp, Transport::Udp)?;
    let name = case.draw_name()?;
    let records = address_record("@", place) + &srv_records("_sip._udp", &[(0, decoy)]);
    let outcome = invite_by_name(case, &name, named(&name).with_port(place.port()), &records)?;
    let forwarded = outcome.at(SECOND, "to the port of the SRV record")?;
    case.finish(&forwarded, 486)
}

fn asks_nothing_for_an_address(case: &mut TestCase<'_>) -> PurposeOutcome {
    // If the proxy used another DNS server, its questions would not be seen.
    asks_the_tester(case)?;
    let host = case.draw_host();
    let place = case.open_place(SECOND, Transport::Udp, host, 0)?;
    case.watch_questions_for(place.ip());
    let contact = SipUri::new(Host::Address(place.ip())).with_port(place.port());
    let outcome = invite(case, contact, &[SECOND], case.patience())?;
    let forwarded = outcome.at(SECOND, "elsewhere")?;
    case.finish(&forwarded, 486)?;
    let address = place.ip().to_string();
    let has_asked = case.questions().iter().any(|asked| asked.question.name.trim_end_matches('.') == address);
    ensured!(!has_asked, "the DNS was asked for {address}")
}

fn uses_the_default_port(case: &mut TestCase<'_>) -> PurposeOutcome {
    let host = case.draw_host();
    let place = case.open_place(SECOND, Transport::Udp, host, Transport::Udp.default_port())?;
    let name = case.draw_name()?;
    let contact = named(&name).with_parameter("transport", Some("udp"));
    let outcome = invite_by_name(case, &name, contact, &address_record("@", place))?;
    let forwarded = outcome.at(SECOND, "elsewhere")?;
    case.finish(&forwarded, 486)
}

fn uses_the_transport(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = over_tcp(case)?.at(SECOND, "over UDP")?;
    case.finish(&forwarded, 486)
}

/// Sends an INVITE for a user at a host name with `transport=tcp`. It arrives at the second user agent over TCP, or at the
/// third over UDP.
fn over_tcp(case: &mut TestCase<'_>) -> PurposeOutcome<ForwardOutcome> {
    let [tcp, udp] = open_both(case, Transport::Tcp, Transport::Udp)?;
    let name = case.draw_name()?;
    let contact = named(&name).with_parameter("transport", Some("tcp"));
    let records = srv_records("_sip._tcp", &[(0, tcp)]) + &srv_records("_sip._udp", &[(0, udp)]);
    invite_by_name(case, &name, contact, &records)
}

/// Ends the purpose as inconclusive if the proxy does not send over TCP.
fn sends_over_tcp(case: &mut TestCase<'_>) -> PurposeOutcome {
    match over_tcp(case)? {
        ForwardOutcome::Arrived(forwarded) => {
            case.finish(&forwarded, 486)?;
            required!(forwarded.at == SECOND, "an INVITE for a contact with transport=tcp went over UDP")
        }
        other => Err(inconclusive!("an INVITE for a contact with transport=tcp {}", other.words())),
    }
}

fn asks_for_naptr(case: &mut TestCase<'_>) -> PurposeOutcome {
    let place = open(case, SECOND, Transport::Udp)?;
    let name = case.draw_name()?;
    let records = naptr_record(10, "SIP+D2U", "_sip._udp") + &srv_records("_sip._udp", &[(0, place)]);
    if let ForwardOutcome::Arrived(forwarded) = invite_by_name(case, &name, named(&name), &records)? {
        case.finish(&forwarded, 486)?;
    }
    ensured!(has_asked_for(case, Kind::Naptr), "no NAPTR record was asked for")
}

/// The zone file line with a NAPTR record of the name itself.
fn naptr_record(order: u16, service: &str, replacement: &str) -> String {
    format!("@ NAPTR {order} 10 \"s\" \"{service}\" \"\" {replacement}\n")
}

/// Checks that an INVITE arrives at the second user agent if it is for a user at a host name that has these records.
/// Inconclusive if the proxy does not ask for NAPTR records.
fn is_led_by_naptr(case: &mut TestCase<'_>, name: &str, records: &str, elsewhere: &str) -> PurposeOutcome {
    let outcome = invite_by_name(case, name, named(name), records)?;
    if let ForwardOutcome::Arrived(forwarded) = &outcome {
        case.finish(forwarded, 486)?;
    }
    require!(
        has_asked_for(case, Kind::Naptr),
        "the proxy asks for no NAPTR record, which is only recommended (SHOULD)"
    );
    outcome.at(SECOND, elsewhere).map(drop)
}

fn keeps_the_naptr_order(case: &mut TestCase<'_>) -> PurposeOutcome {
    let [early, late] = open_both(case, Transport::Udp, Transport::Udp)?;
    let name = case.draw_name()?;
    let records = naptr_record(20, "SIP+D2U", "_sip._udp.late")
        + &naptr_record(10, "SIP+D2U", "_sip._udp.early")
        + &srv_records("_sip._udp.late", &[(0, late)])
        + &srv_records("_sip._udp.early", &[(0, early)]);
    is_led_by_naptr(
        case,
        &name,
        &records,
        "to the target of the NAPTR record of order 20, although one has order 10",
    )
}

fn keeps_the_naptr_order_of_transports(case: &mut TestCase<'_>) -> PurposeOutcome {
    sends_over_tcp(case)?;
    let [tcp, udp] = open_both(case, Transport::Tcp, Transport::Udp)?;
    let name = case.draw_name()?;
    let records = naptr_record(20, "SIP+D2U", "_sip._udp")
        + &naptr_record(10, "SIP+D2T", "_sip._tcp")
        + &srv_records("_sip._udp", &[(0, udp)])
        + &srv_records("_sip._tcp", &[(0, tcp)]);
    is_led_by_naptr(
        case,
        &name,
        &records,
        "over UDP, whose NAPTR record has order 20, although that for TCP has order 10",
    )
}

fn discards_unknown_services(case: &mut TestCase<'_>) -> PurposeOutcome {
    let [known, unknown] = open_both(case, Transport::Udp, Transport::Udp)?;
    let name = case.draw_name()?;
    // D2Q is not a transport.
    let records = naptr_record(10, "SIP+D2Q", "_sip._udp.other")
        + &naptr_record(20, "SIP+D2U", "_sip._udp")
        + &srv_records("_sip._udp.other", &[(0, unknown)])
        + &srv_records("_sip._udp", &[(0, known)]);
    is_led_by_naptr(case, &name, &records, "to the target of the NAPTR record of SIP+D2Q")
}

fn keeps_the_priority(case: &mut TestCase<'_>) -> PurposeOutcome {
    let [first, second] = open_both(case, Transport::Udp, Transport::Udp)?;
    for _ in 0..DRAWS {
        let name = case.draw_name()?;
        let contact = named(&name).with_parameter("transport", Some("udp"));
        let records = srv_records("_sip._udp", &[(20, second), (10, first)]);
        let outcome = invite_by_name(case, &name, contact, &records)?;
        if let ForwardOutcome::Arrived(forwarded) = &outcome {
            case.finish(forwarded, 486)?;
        }
        outcome.at(SECOND, "to the target of priority 20, although one has priority 10")?;
    }
    Ok(())
}

/// Sends an INVITE for a user at a host name with two targets. The records prefer the third user agent to the second one.
/// Returns the INVITE as it arrived at the third.
fn at_the_first_of_two(case: &mut TestCase<'_>) -> PurposeOutcome<Forwarded> {
    let [next, first] = open_both(case, Transport::Udp, Transport::Udp)?;
    let name = case.draw_name()?;
    let contact = named(&name).with_parameter("transport", Some("udp"));
    let records = srv_records("_sip._udp", &[(10, first), (20, next)]);
    match invite_by_name(case, &name, contact, &records)? {
        ForwardOutcome::Arrived(forwarded) if forwarded.at == THIRD => Ok(*forwarded),
        ForwardOutcome::Arrived(forwarded) => {
            case.finish(&forwarded, 486)?;
            Err(inconclusive!("the INVITE did not go to the target with the lowest priority value"))
        }
        other => Err(inconclusive!("the INVITE {}", other.words())),
    }
}

/// The INVITE as it arrives at the next target, which is the second user agent; `None` if it does not arrive in time.
fn at_the_next(
    case: &mut TestCase<'_>,
    first: &Forwarded,
    within: Duration,
) -> PurposeOutcome<Option<Forwarded>> {
    let arrived = case.arriving(SECOND, &Method::Invite, within)?;
    let forwarded =
        arrived.map(|(arrived, path)| Forwarded { sent: first.sent.clone(), arrived, path, at: SECOND });
    if let Some(forwarded) = &forwarded {
        case.finish(forwarded, 486)?;
    }
    Ok(forwarded)
}

/// The INVITE as it arrives at both targets. The first target does not answer it.
fn after_a_timeout(case: &mut TestCase<'_>) -> PurposeOutcome<[Forwarded; 2]> {
    let first = at_the_first_of_two(case)?;
    let within = TRANSACTION + case.patience();
    let next = at_the_next(case, &first, within)?;
    let next = next.ok_or_else(|| {
        failure!("the first target did not answer, but the next got no INVITE within {within}")
    })?;
    Ok([first, next])
}

fn draws_a_branch_for_each_target(case: &mut TestCase<'_>) -> PurposeOutcome {
    let both = after_a_timeout(case);
    // Another purpose tests that the proxy tries the next target.
    let [first, next] = both.map_err(as_inconclusive)?;
    let [first, next] = [&first, &next].map(|forwarded| branch_of(&forwarded.arrived.headers));
    ensured!(first != next, "the INVITE went to both targets with the branch {}", first.unwrap_or_default())
}

fn goes_on_after_a_refusal(case: &mut TestCase<'_>) -> PurposeOutcome {
    sends_over_tcp(case)?;
    let place = open(case, SECOND, Transport::Tcp)?;
    // The UDP socket replaces the TCP socket of the third user agent, whose port is closed from then on. It is very
    // unlikely that another program opens this port before the proxy connects to it.
    let closed = open(case, THIRD, Transport::Tcp)?;
    open(case, THIRD, Transport::Udp)?;
    let name = case.draw_name()?;
    case.add_records(&name, &srv_records("_sip._tcp", &[(10, closed), (20, place)]))?;
    let contact = named(&name).with_parameter("transport", Some("tcp"));
    let outcome = invite(case, contact, &[SECOND], TRANSACTION + case.patience())?;
    is_asked(case)?;
    let forwarded = outcome.at(SECOND, "elsewhere")?;
    case.finish(&forwarded, 486)
}

fn goes_on_after_503(case: &mut TestCase<'_>) -> PurposeOutcome {
    let first = at_the_first_of_two(case)?;
    case.answer(&first, 503)?;
    let next = at_the_next(case, &first, case.patience())?;
    if next.is_none() {
        let _ = case.final_of(&first);
    }
    ensured!(next.is_some(), "the first target answered 503, but the next got no INVITE")
}

/// Registers the second user at a host name with two targets of equal priority and weight, and sends an INVITE. If a
/// proxy selects the target anew for each message, it selects the other target in half of the cases.
fn register_at_equal_targets(case: &mut TestCase<'_>) -> PurposeOutcome<ForwardOutcome> {
    let [second, third] = open_both(case, Transport::Udp, Transport::Udp)?;
    let name = case.draw_name()?;
    let contact = named(&name).with_parameter("transport", Some("udp"));
    invite_by_name(case, &name, contact, &srv_records("_sip._udp", &[(10, second), (10, third)]))
}

/// Runs a step for several INVITEs, each of which arrives at one of two equal targets. The step also receives the
/// target at which the INVITE did not arrive.
fn for_equal_targets(
    case: &mut TestCase<'_>,
    step: impl Fn(&mut TestCase<'_>, &Forwarded, TestAgent) -> PurposeOutcome,
) -> PurposeOutcome {
    let mut outcome = register_at_equal_targets(case)?;
    for draw in 1.. {
        let ForwardOutcome::Arrived(forwarded) = outcome else {
            return Err(inconclusive!("the INVITE {}", outcome.words()));
        };
        let other = if forwarded.at == SECOND { THIRD } else { SECOND };
        step(case, &forwarded, other)?;
        if draw == DRAWS {
            break;
        }
        BOTH.into_iter().for_each(|agent| case.forget(agent));
        outcome = invite_again(case, &BOTH, case.patience())?;
    }
    Ok(())
}

/// Whether a request of this method in the transaction of an INVITE has arrived at a user agent.
fn has_arrived(case: &TestCase<'_>, agent: TestAgent, method: &Method, of: &Forwarded) -> bool {
    let transaction = branch_of(&of.arrived.headers);
    let is_it = |request: &Request| request.method == *method && branch_of(&request.headers) == transaction;
    case.count(agent, |arrival| arrival.request().is_some_and(is_it)) > 0
}

fn repeats_to_the_same_target(case: &mut TestCase<'_>) -> PurposeOutcome {
    let outcome = register_at_equal_targets(case)?;
    let ForwardOutcome::Arrived(forwarded) = outcome else {
        return Err(inconclusive!("the INVITE {}", outcome.words()));
    };
    let other = if forwarded.at == SECOND { THIRD } else { SECOND };
    for _ in 0..REPETITIONS {
        case.pause(T1 + Duration::from_millis(100))?;
        // A proxy with transactions ignores this retransmission and sends its own.
        case.send(&forwarded.sent)?;
    }
    case.pause(Duration::from_millis(50))?;
    let [at_same, at_other] =
        [forwarded.at, other].map(|agent| has_arrived(case, agent, &Method::Invite, &forwarded));
    case.finish(&forwarded, 486)?;
    ensure!(!at_other, "an unanswered INVITE was retransmitted to another target");
    required!(at_same, "an unanswered INVITE was not retransmitted")
}

fn acknowledges_to_the_same_target(case: &mut TestCase<'_>) -> PurposeOutcome {
    for_equal_targets(case, |case, forwarded, other| {
        case.finish(forwarded, 486)?;
        let end = case.now() + case.patience();
        while case.now() < end && !has_arrived(case, forwarded.at, &Method::Ack, forwarded) {
            ensure!(
                !has_arrived(case, other, &Method::Ack, forwarded),
                "the ACK of a 486 went to another target than its INVITE"
            );
            case.pause(Duration::from_millis(20))?;
        }
        required!(
            has_arrived(case, forwarded.at, &Method::Ack, forwarded),
            "a 486 got no ACK within {}",
            case.patience()
        )
    })
}

fn cancels_at_the_same_target(case: &mut TestCase<'_>) -> PurposeOutcome {
    for_equal_targets(case, |case, forwarded, other| {
        case.answer(forwarded, 180)?;
        let rings = case.response(FIRST, &forwarded.sent, case.patience())?;
        require!(rings.is_some(), "a 180 was not received");
        let cancel = cancel_of(&forwarded.sent);
        case.send(&cancel)?;
        let end = case.now() + case.patience();
        let mut at = None;
        while at.is_none() && case.now() < end {
            for agent in [forwarded.at, other] {
                if let Some((arrived, path)) =
                    case.arriving(agent, &Method::Cancel, Duration::from_millis(10))?
                {
                    let cancel = Forwarded { sent: cancel.clone(), arrived, path, at: agent };
                    case.answer(&cancel, 200)?;
                    at = Some(agent);
                }
            }
        }
        case.answer(forwarded, 487)?;
        let _ = case.final_of(forwarded);
        require!(at.is_some(), "the CANCEL did not arrive within {}", case.patience());
        ensured!(at == Some(forwarded.at), "the CANCEL went to another target than its INVITE")
    })
}

fn takes_the_root_for_no_service(case: &mut TestCase<'_>) -> PurposeOutcome {
    let host = case.draw_host();
    // Without the SRV record, the request would go to this address.
    let place = case.open_place(SECOND, Transport::Udp, host, Transport::Udp.default_port())?;
    let name = case.draw_name()?;
    case.add_records(&name, &format!("_sip._udp SRV 0 0 0 .\n{}", address_record("@", place)))?;
    let contact = named(&name).with_parameter("transport", Some("udp"));
    let outcome = invite(case, contact, &[SECOND], TRANSACTION)?;
    is_asked(case)?;
    is_refused(case, outcome)
}

fn refuses_unknown_names(case: &mut TestCase<'_>) -> PurposeOutcome {
    let name = case.draw_name()?;
    let outcome = invite(case, named(&name), &[SECOND], TRANSACTION)?;
    is_asked(case)?;
    is_refused(case, outcome)
}

/// The outcome of an INVITE without a reachable destination must be a failure response.
fn is_refused(case: &mut TestCase<'_>, outcome: ForwardOutcome) -> PurposeOutcome {
    if let ForwardOutcome::Arrived(forwarded) = &outcome {
        case.finish(forwarded, 486)?;
    }
    match outcome {
        ForwardOutcome::Answered(response) if response.status.code() >= 400 => Ok(()),
        other => Err(failure!("the INVITE {}", other.words())),
    }
}
