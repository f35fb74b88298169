//! Registrations: bindings, their bounds, and the credentials of users.

use super::*;

#[test]
fn bindings_are_added_refreshed_and_removed() {
    let mut server = registrar();
    let response =
        answer(&mut server, at(0.0), register("bob", "a", 1, "Contact: <sip:bob@h1>;expires=100;q=0.5\r\n"));
    assert_eq!(
        (response.status, contacts(&response)),
        (Status::OK, vec!["<sip:bob@h1>;q=0.5;expires=100".into()])
    );
    assert!(response.headers.to().unwrap().unwrap().tag().is_some());
    let response =
        answer(&mut server, at(10.0), register("bob", "b", 1, "Contact: <sip:bob@h2>\r\nExpires: 200\r\n"));
    assert_eq!(contacts(&response), ["<sip:bob@h2>;expires=200", "<sip:bob@h1>;q=0.5;expires=90"]);
    // Without a contact it is a query.
    assert_eq!(contacts(&answer(&mut server, at(20.5), register("bob", "q", 1, ""))).len(), 2);
    // A contact with an equivalent URI is the same binding.
    let response =
        answer(&mut server, at(30.0), register("bob", "a", 2, "Contact: <sip:bob@H1>\r\nExpires: 9000\r\n"));
    assert_eq!(contacts(&response), ["<sip:bob@h2>;expires=180", "<sip:bob@H1>;expires=3600"]);
    let response =
        answer(&mut server, at(40.0), register("bob", "b", 2, "Contact: <sip:bob@h2>;expires=0\r\n"));
    assert_eq!(contacts(&response).len(), 1);
    assert_eq!(
        contacts(&answer(&mut server, at(41.0), register("bob", "a", 3, "Contact: *\r\nExpires: 0\r\n")))
            .len(),
        0
    );
    assert!(server.registry().bindings.is_empty());
}

#[test]
fn a_registration_is_done_wholly_or_not_at_all() {
    let mut server = registrar();
    let two = "Contact: <sip:bob@h1>, <sip:bob@h2>\r\n";
    assert_eq!(code(&mut server, 0.0, register("bob", "a", 5, two)), 200);
    assert_eq!(
        code(&mut server, 1.0, register("bob", "a", 5, &format!("{two}X: 1\r\n"))),
        200,
        "a repetition"
    );
    for (number, more, expected) in [
        (4, "Contact: <sip:bob@h3>, <sip:bob@h1>\r\n", 500),
        (3, "Contact: *\r\nExpires: 0\r\n", 500),
        (6, "Contact: *\r\nExpires: 1\r\n", 400),
        (7, "Contact: *\r\n", 400),
        (8, "Contact: *\r\nContact: <sip:bob@h1>\r\nExpires: 0\r\n", 400),
        (9, "Contact: <sip:bob@h3>, <sip:bob@h1>;expires=10\r\n", 423),
        (10, "Contact: sip:bob@h?x=y\r\n", 400),
        (11, "Contact: <sip:bob@h3>\r\nRequire: x\r\n", 420),
    ] {
        // Each request has its own transaction.
        let found = answer(&mut server, at(60.0 + f64::from(number)), register("bob", "a", number, more));
        assert_eq!(found.status.code(), expected, "{more}");
        assert_eq!(found.headers.get(&Name::MinExpires), (expected == 423).then_some("60"));
    }
    assert_eq!(server.registry().bindings.of_record(at(100.0), "bob@biloxi.com").len(), 2);
    let many: String = (0..=MOST_BINDINGS).map(|n| format!("Contact: <sip:bob@m{n}>\r\n")).collect();
    assert_eq!(code(&mut server, 200.0, register("bob", "z", 1, &many)), 503);
}

#[test]
fn who_is_not_of_here_is_not_found() {
    let mut server = registrar();
    let elsewhere = |text: Message, from: &str, to: &str| message(&text.to_string().replace(from, to));
    let bob = |call_id: &str| register("bob", call_id, 1, "");
    assert_eq!(code(&mut server, 0.0, elsewhere(bob("x"), "sip:biloxi.com", "sip:chicago.com")), 404);
    assert_eq!(
        code(&mut server, 40.0, elsewhere(bob("y"), "To: <sip:bob@biloxi.com>", "To: <sip:bob@x.com>")),
        404
    );
    assert_eq!(code(&mut server, 80.0, request("INVITE", "sip:bob@biloxi.com", BOB, 3, "")), 405);
    assert_eq!(code(&mut server, 120.0, elsewhere(bob("z"), "CSeq: 1 REGISTER", "CSeq: 1 INVITE")), 400);
    server.registry.users = DomainUsers::Known([("carol".to_owned(), "x".to_owned())].into());
    assert_eq!(code(&mut server, 160.0, register("bob", "n", 2, "Contact: <sip:a@b>\r\n")), 404);
    assert_eq!(code(&mut server, 160.0, register("c%61rol", "n", 3, "Contact: <sip:a@b>\r\n")), 200);
}

#[test]
fn bindings_end_by_themselves() {
    let mut server = registrar();
    answer(
        &mut server,
        at(0.0),
        register("bob", "a", 1, "Contact: <sip:bob@h1>;expires=100, <sip:bob@h2>;expires=200\r\n"),
    );
    let bindings = &mut server.registry.bindings;
    assert_eq!(bindings.poll_timeout(), Some(at(100.0)));
    bindings.handle_timeout(at(100.0));
    assert_eq!((bindings.len(), bindings.poll_timeout()), (1, Some(at(200.0))));
    assert_eq!(bindings.of(at(150.0), &"sip:bob@BILOXI.com;user=phone".parse().unwrap()).len(), 1);
    bindings.handle_timeout(at(200.0));
    assert!(bindings.is_empty() && bindings.poll_timeout().is_none());
}

#[test]
fn so_many_users_and_transactions_and_no_more() {
    let mut server = Registrar::new(Registry::new(domain(), 2), 5, Timing::default());
    let statuses: Vec<u16> = (0..7)
        .map(|n| {
            code(&mut server, 0.0, register(&format!("u{n}"), &format!("c{n}"), 1, "Contact: <sip:a@b>\r\n"))
        })
        .collect();
    assert_eq!(statuses, [200, 200, 503, 503, 503, 503, 503]);
    assert_eq!(server.registry().bindings.len(), 2);
    server.handle_timeout(at(32.0));
    assert_eq!(code(&mut server, 32.0, register("u0", "c0", 2, "")), 200);
}

#[test]
fn a_user_proves_who_they_are() {
    let mut server = registrar();
    let users = ["bob", "carol"].map(|user| (user.to_owned(), "zanzibar".to_owned()));
    server.registry.users = DomainUsers::Known(users.into());
    let authenticator = Authenticator::new("biloxi.com", Algorithm::MD5, &mut Seeds::new(1).stream("nonces"));
    server.registry.authenticator = Some(authenticator);
    let challenged = answer(&mut server, at(0.0), register("bob", "a", 1, "Contact: <sip:a@b>\r\n"));
    assert_eq!(challenged.status, Status::UNAUTHORIZED);
    let challenge = challenged.headers.challenges(&Name::WwwAuthenticate).unwrap().remove(0);
    let mut session = DigestSession::new(DigestChallenge::read(&challenge).unwrap(), "bob", "zanzibar");
    let mut proof = || {
        let answer = session.answer(&Method::Register, "sip:biloxi.com", b"", "0a4f113b").write();
        format!("Authorization: {answer}\r\nContact: <sip:a@b>\r\n")
    };
    let first = proof();
    assert_eq!(code(&mut server, 0.1, register("bob", "a", 2, &first)), 200);
    let replayed = answer(&mut server, at(0.2), register("bob", "a", 3, &first));
    let challenge = replayed.headers.challenges(&Name::WwwAuthenticate).unwrap().remove(0);
    assert!(DigestChallenge::read(&challenge).unwrap().stale);
    assert_eq!(code(&mut server, 0.3, register("carol", "b", 1, &proof())), 403);
}

#[test]
fn a_user_may_have_an_address_that_does_not_end() {
    let mut registry = registry();
    let mut place = |own: &str| {
        let contact = NameAddr::new("sip:bob@192.0.2.7:5080".parse().unwrap());
        registry.bindings.place(&own.parse().unwrap(), contact)
    };
    assert!(place("sip:bob@biloxi.com"));
    assert!(!place("tel:+15551234"));
    let mut server = Redirect::new(registry, 10, Timing::default());
    let found = answer(&mut server, at(1e6), request("INVITE", "sip:bob@biloxi.com", BOB, 1, ""));
    assert_eq!(contacts(&found), ["<sip:bob@192.0.2.7:5080>;expires=4294967295"]);
}

#[test]
fn what_is_long_takes_the_room_of_several() {
    let mut server = Registrar::new(registry(), 3, Timing::default());
    let long = format!("X: {}\r\n", "x".repeat(8500));
    assert_eq!(code(&mut server, 0.0, register("bob", "a", 1, &long)), 200);
    assert_eq!(code(&mut server, 1.0, register("bob", "a", 2, "")), 503);
    server.handle_timeout(at(33.0));
    assert_eq!(code(&mut server, 33.0, register("bob", "a", 3, "")), 200);
    let contact = format!("Contact: <sip:{}@h>\r\n", "x".repeat(5000));
    assert_eq!(code(&mut server, 34.0, register("bob", "a", 4, &contact)), 413);
}

/// RFC 3261 section 10.3: the registrar chooses the interval and returns it in the response.
#[test]
fn no_binding_lasts_longer_than_its_most() {
    let mut server = registrar();
    for (number, expires) in
        (1..).zip(["3601", "4000000000", "4294967295", "4294967296", "99999999999999999999"])
    {
        for (user, more) in [
            ("bob", format!("Contact: <sip:bob@192.0.2.1>;expires={expires}\r\n")),
            ("carol", format!("Contact: <sip:carol@192.0.2.1>\r\nExpires: {expires}\r\n")),
        ] {
            let response = answer(&mut server, at(0.0), register(user, user, number, &more));
            assert_eq!(response.status.code(), 200);
            let listed = contacts(&response);
            assert!(listed.len() == 1 && listed[0].ends_with(";expires=3600"), "{listed:?} of {expires}");
        }
    }
    server.handle_timeout(at(3600.0));
    assert_eq!(server.registry().bindings.len(), 0);
}

/// The memory is bounded for bindings of any length and any number of users.
#[test]
fn bindings_take_no_more_bytes_than_they_may() {
    let mut bindings = Bindings::new(1000);
    let most = bindings.most_kept();
    assert_eq!(most, 1000 * 1024 + (1 << 20));
    let contact = |number: usize| -> NameAddr {
        let uri: Uri = format!("sip:{}{number}@192.0.2.1", "x".repeat(3800)).parse().unwrap();
        NameAddr::new(uri)
    };
    let user = |number: usize| -> Uri { format!("sip:user{number}@biloxi.com").parse().unwrap() };
    let (mut taken, mut refused) = (0, 0);
    for number in 0..1000 {
        for place in 0..2 {
            if bindings.place(&user(number), contact(place)) {
                taken += 1
            } else {
                refused += 1
            }
            assert!(bindings.kept() <= most, "{} of {most} bytes", bindings.kept());
        }
    }
    assert!(taken > 100 && refused > 1000, "{taken} taken, {refused} refused");
    // Freed memory is available again: ordinary users all find room in an empty table.
    let mut bindings = Bindings::new(1000);
    assert!((0..1000).all(|number| bindings.place(&user(number), NameAddr::new(user(number)))));
}
