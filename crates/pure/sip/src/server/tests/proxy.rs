//! A proxy: its targets, forks, responses, routes and loops.

use super::*;

#[test]
fn who_speaks_for_a_user_of_here_proves_it() {
    let mut proxy = proxy();
    let users = ["bob", "carol"].map(|user| (user.to_owned(), "zanzibar".to_owned()));
    proxy.registry.users = DomainUsers::Known(users.into());
    let authenticator = Authenticator::new("biloxi.com", Algorithm::MD5, &mut Seeds::new(1).stream("nonces"));
    proxy.registry.authenticator = Some(authenticator);
    let mut ask = |number: u32, from: &str, more: &str| {
        let text = request("MESSAGE", "sip:bob@biloxi.com", ALICE, number, more).to_string();
        proxy.handle(at(1.0), message(&text.replace("caller@elsewhere.com", from)), source(ALICE));
        transmitted(&mut proxy).remove(0).1
    };
    assert!(ask(1, "dave@chicago.com", "").as_request().is_some(), "a user of another domain");
    let challenged = ask(2, "carol@biloxi.com", "");
    assert_eq!(challenged.as_response().unwrap().status, Status::PROXY_AUTHENTICATION_REQUIRED);
    let challenge = challenged.headers().challenges(&Name::ProxyAuthenticate).unwrap().remove(0);
    let mut session = DigestSession::new(DigestChallenge::read(&challenge).unwrap(), "carol", "zanzibar");
    let mut proof = || {
        let answer = session.answer(&Method::Message, "sip:bob@biloxi.com", b"", "0a4f113b").write();
        format!("Proxy-Authorization: {answer}\r\n")
    };
    assert!(ask(3, "carol@biloxi.com", &proof()).as_request().is_some());
    assert_eq!(ask(4, "bob@biloxi.com", &proof()).as_response().unwrap().status, Status::FORBIDDEN);
}

#[test]
fn a_proxy_forks_to_all_and_cancels_who_was_late() {
    let mut proxy = proxy();
    let copies = invite(&mut proxy);
    let first = copies[0].as_request().unwrap();
    assert_eq!(first.uri.to_string(), format!("sip:bob@{BOB}"));
    assert_eq!(first.headers.get(&Name::MaxForwards), Some("69"));
    let route = first.headers.get(&Name::RecordRoute).unwrap();
    assert!(route.starts_with("<sip:192.0.2.9:5060;lr;dialog="), "{route}");
    assert_eq!((first.headers.vias().unwrap().len(), copies[0].violations()), (2, vec![]));
    respond(&mut proxy, 1.1, &copies[0], 100, "x");
    assert_eq!(described(&transmitted(&mut proxy)), [""; 0], "100 goes no further");
    respond(&mut proxy, 1.2, &copies[0], 180, "x");
    respond(&mut proxy, 1.2, &copies[1], 183, "y");
    let all = transmitted(&mut proxy);
    assert_eq!(described(&all), ["180", "183"]);
    assert_eq!(all[0].1.headers().vias().unwrap().len(), 1);
    respond(&mut proxy, 2.0, &copies[0], 200, "x");
    assert_eq!(described(&transmitted(&mut proxy)), ["200", "CANCEL"]);
    // A retransmitted 2xx is forwarded again, and so is the 2xx of another branch.
    respond(&mut proxy, 2.5, &copies[0], 200, "x");
    respond(&mut proxy, 2.5, &copies[1], 200, "y");
    assert_eq!(described(&transmitted(&mut proxy)), ["200", "200"]);
    let ack = request("ACK", &format!("sip:bob@{BOB}"), ALICE, 8, "Route: <sip:192.0.2.9:5060;lr>\r\n");
    proxy.handle(at(2.6), ack, source(ALICE));
    let all = transmitted(&mut proxy);
    assert_eq!((described(&all), &all[0].0), (vec!["ACK".to_owned()], &Destination::Address(source(BOB))));
    assert!(all[0].1.headers().get(&Name::Route).is_none());
    while let Some(next) = proxy.poll_timeout().filter(|next| *next < at(100.0)) {
        proxy.handle_timeout(next);
    }
    assert_eq!((proxy.contexts.len(), proxy.owners.len(), proxy.due.len()), (0, 0, 0));
}

#[test]
fn the_best_of_the_refusals_is_forwarded() {
    for (codes, expected) in [
        ([486, 404], 486),
        ([503, 480], 480),
        ([503, 503], 500),
        ([302, 404], 302),
        ([404, 407], 407),
        ([603, 200], 200),
        ([500, 404], 404),
    ] {
        let mut proxy = proxy();
        let copies = invite(&mut proxy);
        respond(&mut proxy, 1.1, &copies[0], codes[0], "x");
        assert_eq!(described(&transmitted(&mut proxy)), ["ACK"], "the others are waited for");
        respond(&mut proxy, 1.2, &copies[1], codes[1], "y");
        let all = described(&transmitted(&mut proxy));
        assert!(all.contains(&expected.to_string()), "{codes:?}: {all:?}");
    }
}

#[test]
fn a_6xx_ends_all_branches() {
    let mut proxy = proxy();
    let copies = invite(&mut proxy);
    respond(&mut proxy, 1.1, &copies[1], 180, "y");
    transmitted(&mut proxy);
    respond(&mut proxy, 1.2, &copies[0], 603, "x");
    assert_eq!(described(&transmitted(&mut proxy)), ["ACK", "CANCEL"]);
    respond(&mut proxy, 1.3, &copies[1], 487, "y");
    assert_eq!(described(&transmitted(&mut proxy)), ["ACK", "603"]);
}

#[test]
fn a_cancel_goes_to_each_branch_that_has_answered() {
    let mut proxy = proxy();
    let copies = invite(&mut proxy);
    respond(&mut proxy, 1.1, &copies[0], 180, "x");
    transmitted(&mut proxy);
    proxy.handle(at(1.2), request("CANCEL", "sip:bob@biloxi.com", ALICE, 7, ""), source(ALICE));
    assert_eq!(described(&transmitted(&mut proxy)), ["CANCEL", "200"]);
    // The other branch has no response: its CANCEL waits for one.
    respond(&mut proxy, 1.3, &copies[1], 100, "y");
    assert_eq!(described(&transmitted(&mut proxy)), ["CANCEL"]);
    respond(&mut proxy, 1.4, &copies[0], 487, "x");
    respond(&mut proxy, 1.4, &copies[1], 487, "y");
    assert_eq!(described(&transmitted(&mut proxy)), ["ACK", "ACK", "487"]);
    proxy.handle(at(1.5), request("CANCEL", "sip:bob@biloxi.com", ALICE, 99, ""), source(ALICE));
    assert_eq!(described(&transmitted(&mut proxy)), ["481"]);
}

/// Timer B ends a silent branch, timer C a ringing one.
#[test]
fn a_proxy_does_not_wait_for_ever() {
    let until_end = |proxy: &mut Proxy| {
        let mut all = Vec::new();
        while let Some(next) = proxy.poll_timeout().filter(|next| *next < at(1000.0)) {
            proxy.handle_timeout(next);
            let seconds = next.as_nanos() / 1_000_000_000;
            all.extend(described(&transmitted(proxy)).into_iter().map(|word| (seconds, word)));
        }
        all.retain(|(_, word)| word != "INVITE");
        all
    };
    let mut silent = proxy();
    invite(&mut silent);
    let all = until_end(&mut silent);
    assert_eq!(all[..2], [(1, "100".into()), (33, "408".into())]);
    let mut ringing = proxy();
    let copies = invite(&mut ringing);
    respond(&mut ringing, 2.0, &copies[0], 180, "x");
    respond(&mut ringing, 2.0, &copies[1], 486, "y");
    transmitted(&mut ringing);
    let all = until_end(&mut ringing);
    assert_eq!(all[0], (183, "CANCEL".into()));
    assert!(all.contains(&(215, "486".into())), "{all:?}");
    assert_eq!((ringing.contexts.len(), ringing.owners.len(), ringing.due.len()), (0, 0, 0));
}

#[test]
fn a_network_that_refuses_is_503_and_that_500() {
    let mut proxy = proxy();
    let copies = invite(&mut proxy);
    for copy in &copies {
        proxy.handle_failure(at(1.1), copy);
    }
    assert_eq!(described(&transmitted(&mut proxy)), ["500"]);
}

/// RFC 3261 section 16.3, with the messages of RFC 4475 for this section.
#[test]
fn what_is_not_fit_is_not_forwarded() {
    let mut server = proxy();
    let mut refused = |message: Message| {
        server.handle(at(50.0), message, source(ALICE));
        described(&transmitted(&mut server)).remove(0)
    };
    let torture = |name| Message::parse(&torture::message(name).unwrap().bytes.into()).unwrap();
    assert_eq!(refused(torture("zeromf")), "483");
    assert_eq!(refused(torture("unkscm")), "416");
    assert_eq!(refused(torture("novelsc")), "416");
    assert_eq!(refused(torture("bext01")), "420");
    assert_eq!(refused(torture("multi01")), "400");
    assert_eq!(refused(torture("insuf")), "400");
    assert_eq!(refused(torture("mismatch01")), "400");
    assert_eq!(refused(request("INVITE", "sip:nobody@biloxi.com", ALICE, 3, "")), "480");
    assert_eq!(refused(request("OPTIONS", "sip:biloxi.com", ALICE, 3, "")), "200");
}

#[test]
fn a_loop_is_found_and_a_spiral_is_none() {
    let mut proxy = proxy();
    let ask = request("INVITE", "sip:dave@chicago.com", ALICE, 7, "");
    proxy.handle(at(1.0), ask, source(ALICE));
    let (to, forwarded) = transmitted(&mut proxy).remove(0);
    assert_eq!(
        to,
        Destination::Uri(Box::new(SipUri::new(Host::Name("chicago.com".into())).with_user("dave")))
    );
    // The request returns unchanged: a loop.
    proxy.handle(at(1.1), forwarded.clone(), source(CAROL));
    assert_eq!(described(&transmitted(&mut proxy)), ["482"]);
    // The request returns with another Request-URI: a spiral.
    let mut spiral = forwarded.as_request().unwrap().clone();
    spiral.uri = "sip:bob@biloxi.com".parse().unwrap();
    spiral.headers.push_front(Name::Via, "SIP/2.0/UDP chicago.com;branch=z9hG4bKother");
    proxy.handle(at(1.2), spiral.into(), source(CAROL));
    assert_eq!(described(&transmitted(&mut proxy)), ["INVITE", "INVITE"]);
}

/// RFC 3261 section 16.12.1.
#[test]
fn routes_are_taken_off_and_strict_routers_served() {
    let uri = |message: &Message| message.as_request().unwrap().uri.to_string();
    let routes =
        |message: &Message| message.headers().all(&Name::Route).map(str::to_owned).collect::<Vec<_>>();
    let mut proxy = proxy();
    let mut forwarded = |uri: &str, number: u32, more: &str| {
        proxy.handle(at(1.0), request("BYE", uri, ALICE, number, more), source(ALICE));
        transmitted(&mut proxy).remove(0)
    };
    // A strict router has put this proxy into the Request-URI.
    let strict = "Route: <sip:192.0.2.7;lr>, <sip:dave@192.0.2.3:5062>\r\n";
    let (to, message) = forwarded("sip:192.0.2.9:5060;lr", 1, strict);
    assert_eq!(
        (uri(&message), routes(&message)),
        ("sip:dave@192.0.2.3:5062".into(), vec!["<sip:192.0.2.7;lr>".into()])
    );
    assert_eq!(to, Destination::Address(source("192.0.2.7:5060")));
    // The next hop is a strict router.
    let (to, message) = forwarded("sip:dave@h", 2, "Route: <sip:192.0.2.9;lr>, <sip:192.0.2.7>\r\n");
    assert_eq!((uri(&message), routes(&message)), ("sip:192.0.2.7".into(), vec!["<sip:dave@h>".into()]));
    assert_eq!(to, Destination::Address(source("192.0.2.7:5060")));
}

/// RFC 3327: a request to a binding first visits the proxies on its path.
#[test]
fn a_path_is_followed() {
    let mut proxy = proxy();
    let path = "Supported: path\r\nPath: <sip:192.0.2.50;lr>\r\nContact: <sip:eve@192.0.2.51>\r\n";
    let listing = answer(&mut proxy, at(0.0), register("eve", "p", 1, path));
    assert_eq!(listing.headers.get(&Name::Path), Some("<sip:192.0.2.50;lr>"));
    proxy.handle(at(1.0), request("MESSAGE", "sip:eve@biloxi.com", ALICE, 9, ""), source(ALICE));
    let (to, message) = transmitted(&mut proxy).remove(0);
    assert_eq!(to, Destination::Address(source("192.0.2.50:5060")));
    assert_eq!(message.as_request().unwrap().uri.to_string(), "sip:eve@192.0.2.51");
    assert_eq!(message.headers().get(&Name::Route), Some("<sip:192.0.2.50;lr>"));
}

#[test]
fn a_stateless_proxy_does_the_same_again() {
    let mut proxy = StatelessProxy::new(registry(), Seeds::new(1).stream("proxy"));
    let bob: Uri = format!("sip:bob@{BOB}").parse().unwrap();
    let register = register("bob", "a", 1, &format!("Contact: <{bob}>\r\n"));
    assert_eq!(proxy.registry.register(at(0.0), register.as_request().unwrap()).status, Status::OK);
    let mut forwarded = |method: &str| {
        proxy.handle(at(1.0), request(method, "sip:bob@biloxi.com", ALICE, 7, ""), source(ALICE));
        transmitted(&mut proxy).remove(0)
    };
    let (to, first) = forwarded("INVITE");
    assert_eq!(to, Destination::Address(source(BOB)));
    assert_eq!(forwarded("INVITE").1, first);
    let branch =
        |message: &Message| message.headers().top_via().unwrap().unwrap().branch().unwrap().to_owned();
    for method in ["CANCEL", "ACK"] {
        assert_eq!(branch(&forwarded(method).1), branch(&first), "{method}");
    }
    let ringing = first.as_request().unwrap().response(Status::RINGING);
    proxy.handle(at(2.0), ringing.into(), source(BOB));
    let (to, back) = transmitted(&mut proxy).remove(0);
    assert_eq!((to, back.headers().vias().unwrap().len()), (Destination::Address(source(ALICE)), 1));
    // A response without this proxy's `Via` is dropped, and so is a response to a request that this proxy has not
    // forwarded.
    proxy.handle(at(2.0), back, source(BOB));
    assert_eq!(described(&transmitted(&mut proxy)), [""; 0]);
    let text = Message::from(first.as_request().unwrap().response(Status::RINGING)).to_string();
    for forged in [
        text.replacen(&branch(&first), "z9hG4bK0123456789abcdef", 1),
        text.replacen("SIP/2.0/UDP 192.0.2.1:5060", "SIP/2.0/UDP 192.0.2.99:5060", 1),
        text.replacen("SIP/2.0/UDP 192.0.2.1:5060", "SIP/2.0/TCP 192.0.2.1:5060", 1),
    ] {
        assert_ne!(forged, text);
        proxy.handle(at(2.0), message(&forged), source(BOB));
        assert_eq!(described(&transmitted(&mut proxy)), [""; 0], "{forged}");
    }
    proxy.handle(at(3.0), request("INVITE", "sip:nobody@biloxi.com", ALICE, 8, ""), source(ALICE));
    assert_eq!(described(&transmitted(&mut proxy)), ["480"]);
}

/// For each method, the proxy first validates the request, then removes its own routes, then answers the request itself
/// or selects the targets (RFC 3261 section 16).
#[test]
fn a_proxy_processes_each_method_in_one_order() {
    let mut proxy = Proxy::new(registry(), false, 10_000, Timing::default(), Seeds::new(1).stream("proxy"));
    let mut number = 0;
    let mut ask = |method: &str, uri: &str, more: &str| {
        number += 1;
        let text = request(method, uri, ALICE, number, more).to_string();
        let text = match more.split_once("Max-Forwards: 0") {
            Some(_) => text.replacen("Max-Forwards: 70\r\n", "", 1),
            None => text,
        };
        proxy.handle(at(f64::from(number)), message(&text), source(ALICE));
        described(&transmitted(&mut proxy))
    };
    let [domain, own] = ["sip:biloxi.com", "sip:192.0.2.9:5060"];
    for (method, uri, more, expected) in [
        // The proxy answers registrations and requests for itself without forwarding them: Max-Forwards may be 0.
        ("REGISTER", domain, "Max-Forwards: 0\r\n", "200"),
        ("OPTIONS", own, "Max-Forwards: 0\r\n", "200"),
        ("OPTIONS", own, "Route: <sip:192.0.2.9;lr>\r\n", "200"),
        ("OPTIONS", "sip:bob@biloxi.com", "Max-Forwards: 0\r\n", "483"),
        ("MESSAGE", "sip:bob@biloxi.com", "Max-Forwards: 0\r\n", "483"),
        // An unknown requirement is refused even if the proxy itself answers.
        ("REGISTER", domain, "Proxy-Require: foo\r\n", "420"),
        ("OPTIONS", own, "Proxy-Require: foo\r\n", "420"),
        ("MESSAGE", "sip:bob@biloxi.com", "Proxy-Require: foo\r\n", "420"),
        // Another proxy is on the route.
        ("REGISTER", domain, "Route: <sip:192.0.2.99;lr>\r\n", "403"),
        ("OPTIONS", own, "Route: <sip:192.0.2.99;lr>\r\n", "403"),
        ("REGISTER", "tel:1", "", "416"),
        ("OPTIONS", "tel:1", "", "416"),
    ] {
        assert_eq!(ask(method, uri, more), [expected], "{method} {uri} {more}");
    }
}

/// RFC 3261 section 16.3 leaves it to the proxy's policy: no open relay.
#[test]
fn a_proxy_sends_strangers_no_further_than_to_its_users() {
    let mut proxy = Proxy::new(registry(), true, 10_000, Timing::default(), Seeds::new(1).stream("proxy"));
    let contacts = format!("Contact: <sip:bob@{BOB}>, <sip:bob@{CAROL}>\r\n");
    proxy.handle(at(0.0), register("bob", "r", 1, &contacts), source(BOB));
    transmitted(&mut proxy);
    let users = ["bob", "carol"].map(|user| (user.to_owned(), "zanzibar".to_owned()));
    proxy.registry.users = DomainUsers::Known(users.into());
    let authenticator = Authenticator::new("biloxi.com", Algorithm::MD5, &mut Seeds::new(1).stream("nonces"));
    proxy.registry.authenticator = Some(authenticator);
    let over = |transport| Source { transport, address: ALICE.parse().unwrap() };
    let mut number = 10;
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut ask = |proxy: &mut Proxy, method: &str, uri: &str, from: &str, more: &str| {
            number += 1;
            let text =
                request(method, uri, ALICE, number, more).to_string().replace("caller@elsewhere.com", from);
            proxy.handle(at(1.0), message(&text), over(transport));
            transmitted(proxy)
        };
        let stranger = "x@evil.example";
        for method in ["MESSAGE", "INVITE", "OPTIONS", "BYE", "FOO"] {
            for (uri, more) in [
                ("sip:y@192.0.2.99", ""),
                ("sip:y@192.0.2.99:25;transport=tcp", ""),
                ("sip:y@elsewhere.example", ""),
                ("sip:bob@biloxi.com;maddr=192.0.2.99", ""),
                ("sip:bob@biloxi.com", "Route: <sip:192.0.2.99;lr>\r\n"),
                ("sip:bob@biloxi.com", "Route: <sip:192.0.2.9;lr>, <sip:192.0.2.99>\r\n"),
                ("sip:192.0.2.9:5060;lr", "Route: <sip:y@192.0.2.99>\r\n"),
                ("sip:y@192.0.2.99", "Route: <sip:192.0.2.9;lr;dialog=0123456789abcdef>\r\n"),
            ] {
                let answers = described(&ask(&mut proxy, method, uri, stranger, more));
                assert_eq!(answers, ["403"], "{method} {uri} {more}");
            }
            // Requests reach its users by address-of-record or contact.
            assert_eq!(described(&ask(&mut proxy, method, "sip:bob@biloxi.com", stranger, "")), [method; 2]);
            assert_eq!(
                described(&ask(&mut proxy, method, &format!("sip:bob@{BOB}"), stranger, "")),
                [method]
            );
        }
        assert!(
            ask(&mut proxy, "ACK", "sip:y@192.0.2.99", stranger, "").is_empty(),
            "and there is no response"
        );
        // An authenticated user may reach any target.
        let challenged = ask(&mut proxy, "MESSAGE", "sip:y@192.0.2.99", "carol@biloxi.com", "").remove(0).1;
        let challenge = challenged.headers().challenges(&Name::ProxyAuthenticate).unwrap().remove(0);
        let mut session = DigestSession::new(DigestChallenge::read(&challenge).unwrap(), "carol", "zanzibar");
        let proof = session.answer(&Method::Message, "sip:y@192.0.2.99", b"", "0a4f113b").write();
        let proof = format!("Proxy-Authorization: {proof}\r\n");
        let sent = ask(&mut proxy, "MESSAGE", "sip:y@192.0.2.99", "carol@biloxi.com", &proof);
        assert_eq!(described(&sent), ["MESSAGE"]);
    }
    // A dialog with a user continues in both directions, by the proxy's `Record-Route`.
    let number = &mut 600;
    let mut within = |proxy: &mut Proxy, method: &str, from: &str, edits: [(&str, &str); 4]| {
        *number += 1;
        let [(uri, route), (tag, call_id), replaced, replacing] = edits;
        let text = request(method, uri, from, *number, &format!("Route: {route}\r\n")).to_string();
        let text = text.replace(&format!("Call-ID: c{number}"), &format!("Call-ID: {call_id}"));
        let text = text.replace(&format!("To: <{uri}>"), &format!("To: <{uri}>;tag={tag}"));
        let text = text.replace(replaced.0, replaced.1).replace(replacing.0, replacing.1);
        proxy.handle(at(3.0), message(&text), source(from));
        described(&transmitted(proxy))
    };
    let same = ("", "");
    let foreign = "192.0.2.77:5060";
    proxy.handle(at(2.0), request("INVITE", "sip:bob@biloxi.com", ALICE, 500, ""), source(ALICE));
    let invite = transmitted(&mut proxy).remove(0).1;
    let route_of =
        |message: &Message| message.headers().get(&Name::RecordRoute).unwrap_or_default().to_owned();
    let (contact, route) = (format!("sip:caller@{ALICE}"), route_of(&invite));
    assert_eq!(within(&mut proxy, "BYE", BOB, [(&contact, &route), ("1", "c500"), same, same]), ["BYE"]);
    // The same route is invalid for another call, another target, or a sender outside of the dialog.
    let way_on = format!("{route}, <sip:192.0.2.99;lr>");
    for edits in [
        [(contact.as_str(), route.as_str()), ("1", "c502"), same, same],
        [("sip:y@192.0.2.99", &route), ("1", "c500"), same, same],
        [(&contact, &way_on), ("1", "c500"), same, same],
        [(&contact, &route), ("2", "c500"), same, same],
        [(&contact, &route), ("1", "c500"), (";tag=1\r\nCall-ID", "\r\nCall-ID"), same],
    ] {
        assert_eq!(within(&mut proxy, "MESSAGE", BOB, edits), ["403"], "{edits:?}");
    }
    // A user of the domain is challenged, and the credentials replace the token.
    let user = ("caller@elsewhere.com", "carol@biloxi.com");
    let edits = [(contact.as_str(), way_on.as_str()), ("1", "c500"), user, same];
    assert_eq!(within(&mut proxy, "MESSAGE", BOB, edits), ["407"]);
    // The caller does not get the callee's token. A response that makes no dialog has no token for the caller.
    let answered = |proxy: &mut Proxy, invite: &Message, code: u16| {
        let mut response = invite.as_request().unwrap().response(Status::new(code).unwrap());
        response.headers.set(Name::To, "<sip:bob@biloxi.com>;tag=b");
        response.headers.push(Name::RecordRoute, route_of(invite));
        response.headers.push(Name::Contact, format!("<sip:bob@{foreign}>"));
        proxy.handle(at(2.5), response.into(), source(BOB));
        let output = transmitted(proxy);
        let is_it = |message: &&Message| message.as_response().is_some_and(|own| own.status.code() == code);
        output.iter().map(|(_, message)| message).find(is_it).map(route_of)
    };
    let told_with_200 = answered(&mut proxy, &invite, 200).unwrap();
    assert!(told_with_200.contains(";dialog=") && told_with_200 != route, "{told_with_200}");
    let callee = format!("sip:bob@{foreign}");
    assert_eq!(
        within(&mut proxy, "BYE", ALICE, [(&callee, &told_with_200), ("b", "c500"), same, same]),
        ["BYE"]
    );
    for edits in [
        [("sip:y@192.0.2.99", told_with_200.as_str()), ("b", "c500"), same, same],
        [(&callee, &told_with_200), ("c", "c500"), same, same],
        [(&contact, &told_with_200), ("1", "c500"), same, same],
    ] {
        assert_eq!(within(&mut proxy, "MESSAGE", ALICE, edits), ["403"], "{edits:?}");
    }
    proxy.handle(at(4.0), request("INVITE", &format!("sip:bob@{BOB}"), ALICE, 501, ""), source(ALICE));
    let invite = transmitted(&mut proxy).remove(0).1;
    assert_eq!(answered(&mut proxy, &invite, 486).unwrap(), "<sip:192.0.2.9:5060;lr>");
}
