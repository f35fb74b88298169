//! For any input, no server panics, responds to a response, or exceeds its memory limits.

use bytes::Bytes;
use netrig_core::{Duration, Instant, Seeds};
use netrig_sip::header::Transport;
use netrig_sip::server::{
    Answer, AnsweringMachine, AnsweringPolicy, Domain, Proxy, Redirect, Registrar, Registry, Server, Source,
    StatelessProxy,
};
use netrig_sip::torture::MESSAGES;
use netrig_sip::transaction::Timing;
use netrig_sip::{Host, Message};
use proptest::prelude::*;

use super::torture::changed;

const MOST: usize = 8;

fn servers() -> Vec<Box<dyn Server>> {
    let registry = || {
        let domain = Domain {
            names: ["example.com", "chair-dnrc.example.com"].map(|name| Host::Name(name.into())).into(),
            listens: vec![(Transport::Udp, ([192, 0, 2, 9], 5060).into())],
        };
        Registry::new(domain, MOST)
    };
    let (timing, random) = (Timing::default(), |name: &str| Seeds::new(1).stream(name));
    let second = Duration::from_secs(1);
    let manners = AnsweringPolicy {
        answer: Answer::Accept(second),
        hold: Some(second),
        reliable: true,
        ..AnsweringPolicy::new(([192, 0, 2, 9], 4000).into())
    };
    vec![
        Box::new(Registrar::new(registry(), MOST, timing)),
        Box::new(Redirect::new(registry(), MOST, timing)),
        Box::new(StatelessProxy::new(registry(), Seeds::new(1).stream("proxy"))),
        Box::new(Proxy::new(registry(), true, MOST, timing, random("proxy"))),
        Box::new(AnsweringMachine::new(registry().domain, manners, MOST, timing, random("machine"))),
    ]
}

/// Passes each message to each server, returns some of its output to it, and lets time pass.
fn survive(messages: &[Message]) -> Result<(), TestCaseError> {
    let from = Source { transport: Transport::Udp, address: ([192, 0, 2, 1], 5060).into() };
    for mut server in servers() {
        let mut now = Instant::ZERO;
        for message in messages {
            server.handle(now, message.clone(), from);
            let said: Vec<Message> =
                std::iter::from_fn(|| server.poll_transmit()).map(|(_, message)| message).collect();
            prop_assert!(said.len() <= 8, "one message makes {}", said.len());
            for own in said {
                prop_assert!(Message::parse(&own.to_bytes()).is_ok(), "{own}");
                if own.as_request().is_some() {
                    server.handle_failure(now, &own);
                }
                server.handle(now, own, from);
            }
            while server.poll_transmit().is_some() {}
            now += Duration::from_millis(300);
            server.handle_timeout(now);
            while server.poll_transmit().is_some() {}
        }
        // Without further input, the server reaches a state without deadlines. Its limits end calls that would ring for
        // ever.
        for _ in 0..2000 {
            let Some(next) = server.poll_timeout() else { break };
            now = next.max(now);
            server.handle_timeout(now);
            while server.poll_transmit().is_some() {}
        }
        prop_assert!(server.poll_timeout().is_none(), "it never comes to rest");
    }
    Ok(())
}

proptest! {
    #[test]
    fn servers_survive_what_comes(
        choices in prop::collection::vec(
            (0..MESSAGES.len(), prop::collection::vec((any::<prop::sample::Index>(), 0..3u8, any::<u8>()), 0..4)),
            1..12,
        ),
    ) {
        let mut messages = Vec::new();
        for (place, changes) in choices {
            messages.extend(Message::parse(&Bytes::from(changed(place, changes))));
        }
        survive(&messages)?;
    }
}
