//! Connections over the loopback interface.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use netrig_sip::Framed;
use rustls::ClientConfig;
use rustls::ServerConfig;

use super::stream::{Bounds, SipStream, StreamError, server_name};
use netrig_host::tls::{Identity, Trust, client, server};

/// TLS configurations of the server and of the client.
type Secrets = (Arc<ServerConfig>, Arc<ClientConfig>);

const PATIENCE: Duration = Duration::from_secs(20);

fn pair(ip: impl Into<std::net::IpAddr>, tls: Option<&Secrets>, bounds: Bounds) -> (SipStream, SipStream) {
    let ip = ip.into();
    let listener = TcpListener::bind((ip, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let name = server_name(&netrig_sip::Host::Address(ip)).unwrap();
    let tls_near = tls.map(|(_, client)| (client, name));
    let near = SipStream::connect(SocketAddr::new(ip, 0), to, tls_near, bounds).unwrap();
    let (accepted, peer) = listener.accept().unwrap();
    accepted.set_nonblocking(true).unwrap();
    let far = SipStream::accepted(accepted.into(), peer, tls.map(|(server, _)| server), bounds).unwrap();
    assert_eq!(near.local().unwrap(), far.peer());
    (near, far)
}

fn secrets(client_is_known: bool) -> Secrets {
    let own = Identity::self_signed(vec!["127.0.0.1".into()]).unwrap();
    let known = client_is_known.then(|| Identity::self_signed(vec!["client".into()]).unwrap());
    let mut roots = rustls::RootCertStore::empty();
    if let Some(known) = &known {
        roots.add(known.certificate().to_vec().into()).unwrap();
    }
    let roots = known.is_some().then(|| Arc::new(roots));
    (server(&own, roots).unwrap(), client(&Trust::Anyone, None).unwrap())
}

fn message(number: usize, body: usize) -> Bytes {
    let body = "x".repeat(body);
    format!("OPTIONS sip:{number}@a SIP/2.0\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into()
}

/// Flushes and reads both ends alternately until `done` returns true or one end fails.
fn turns(
    (near, far): (&mut SipStream, &mut SipStream),
    mut done: impl FnMut(&[Bytes], &[Bytes]) -> bool,
) -> Result<(), StreamError> {
    let (mut at_near, mut at_far) = (Vec::new(), Vec::new());
    let until = Instant::now() + PATIENCE;
    while !done(&at_near, &at_far) {
        assert!(Instant::now() < until, "{} and {} messages came", at_near.len(), at_far.len());
        for (stream, into) in [(&mut *near, &mut at_near), (&mut *far, &mut at_far)] {
            stream.receive(true, |framed, _| {
                if let Framed::Message(bytes) = framed {
                    into.push(bytes);
                }
            })?;
            stream.flush()?;
        }
    }
    Ok(())
}

#[test]
fn messages_pass_both_ways_plain_and_in_tls() {
    let tls = secrets(false);
    for (ip, tls) in [
        (std::net::IpAddr::from(Ipv4Addr::LOCALHOST), None),
        (Ipv6Addr::LOCALHOST.into(), None),
        (Ipv4Addr::LOCALHOST.into(), Some(&tls)),
    ] {
        let (mut near, mut far) = pair(ip, tls, Bounds::default());
        // Messages of many lengths. All are queued before the first flush, and with TLS before the handshake.
        let sent: Vec<Bytes> = (0..200).map(|number| message(number, number * 7)).collect();
        for bytes in &sent {
            near.queue(bytes.clone()).unwrap();
        }
        let here: Vec<Bytes> = (0..50).map(|number| message(number, 5)).collect();
        for bytes in &here {
            far.queue(bytes.clone()).unwrap();
        }
        turns((&mut near, &mut far), |a, b| a.len() == here.len() && b.len() == sent.len()).unwrap();
        assert!(near.is_established() && far.is_established());
        assert_eq!((near.waiting(), far.waiting(), near.incomplete()), (0, 0, 0));
        drop(far);
        let until = Instant::now() + PATIENCE;
        let end = loop {
            match near.receive(true, |_, _| panic!("nothing is left")) {
                Ok(_) => assert!(Instant::now() < until),
                Err(end) => break end,
            }
        };
        assert!(matches!(end, StreamError::Closed), "{end}");
    }
}

#[test]
fn messages_are_what_was_sent() {
    let (mut near, mut far) = pair(Ipv4Addr::LOCALHOST, Some(&secrets(false)), Bounds::default());
    let sent: Vec<Bytes> = (0..20).map(|number| message(number, 3000)).collect();
    sent.iter().for_each(|bytes| near.queue(bytes.clone()).unwrap());
    turns((&mut near, &mut far), |_, came| {
        assert!(came.iter().zip(&sent).all(|(came, sent)| came == sent));
        came.len() == sent.len()
    })
    .unwrap();
}

#[test]
fn a_ping_is_answered() {
    let (mut near, mut far) = pair(Ipv4Addr::LOCALHOST, None, Bounds::default());
    near.queue(Bytes::from_static(b"\r\n\r\n")).unwrap();
    near.queue(message(1, 0)).unwrap();
    turns((&mut near, &mut far), |_, came| came.len() == 1).unwrap();
    // `far` sends this message after the pong, so the pong was read when it arrives, and was not passed on as a message.
    let last = message(2, 0);
    far.queue(last.clone()).unwrap();
    turns((&mut near, &mut far), |came, _| {
        assert!(came.iter().all(|message| *message == last));
        came.len() == 1
    })
    .unwrap();
}

#[test]
fn a_client_without_a_certificate_is_turned_away_where_one_is_needed() {
    let (mut near, mut far) = pair(Ipv4Addr::LOCALHOST, Some(&secrets(true)), Bounds::default());
    near.queue(message(1, 0)).unwrap();
    let error = turns((&mut near, &mut far), |_, came| !came.is_empty()).unwrap_err();
    assert!(matches!(error, StreamError::Tls(_)), "{error}");
    assert!(!far.is_established());
}

#[test]
fn whom_one_does_not_trust_one_does_not_talk_to() {
    let (server, _) = secrets(false);
    let nobody = Trust::Authorities(Arc::new(rustls::RootCertStore::empty()));
    let tls = (server, client(&nobody, None).unwrap());
    let (mut near, mut far) = pair(Ipv4Addr::LOCALHOST, Some(&tls), Bounds::default());
    near.queue(message(1, 0)).unwrap();
    let error = turns((&mut near, &mut far), |_, came| !came.is_empty()).unwrap_err();
    assert!(matches!(error, StreamError::Tls(_)), "{error}");
    assert_eq!(near.into_unsent().collect::<Vec<_>>(), [message(1, 0)], "what was not sent is known");
}

#[test]
fn what_is_no_sip_ends_it() {
    let (mut near, mut far) = pair(Ipv4Addr::LOCALHOST, None, Bounds { message: 500, unsent: 100_000 });
    near.queue(message(1, 0)).unwrap();
    near.queue(vec![b'x'; 1000].into()).unwrap();
    let mut whole = 0;
    let error = turns((&mut near, &mut far), |_, came| {
        whole = came.len();
        false
    })
    .unwrap_err();
    assert!(matches!(error, StreamError::Framing(_)), "{error}");
}

#[test]
fn who_does_not_take_what_is_sent_is_given_up() {
    let bounds = Bounds { message: 65_535, unsent: 100_000 };
    for tls in [None, Some(&secrets(false))] {
        let (mut near, mut far) = pair(Ipv4Addr::LOCALHOST, tls, bounds);
        near.queue(message(0, 0)).unwrap();
        turns((&mut near, &mut far), |_, came| came.len() == 1).unwrap();
        let error = (0..100_000)
            .find_map(|number| near.queue(message(number, 1000)).and_then(|()| near.flush()).err())
            .expect("the queue reaches its limit");
        assert!(matches!(error, StreamError::Full { most: 100_000, .. }), "{error}");
        assert!(near.waiting() <= bounds.unsent);
    }
}

#[test]
fn nobody_there_is_an_error() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut stream = match SipStream::connect(local, nobody, None, Bounds::default()) {
        Ok(stream) => stream,
        Err(error) => return assert!(matches!(error, StreamError::Io(_)), "{error}"),
    };
    stream.queue(message(7, 0)).unwrap();
    let until = Instant::now() + PATIENCE;
    let error = loop {
        assert!(Instant::now() < until);
        if let Err(error) = stream.flush() {
            break error;
        }
    };
    assert!(
        matches!(&error, StreamError::Io(io) if io.kind() == std::io::ErrorKind::ConnectionRefused),
        "{error}"
    );
    assert_eq!(stream.into_unsent().count(), 1);
}

/// One peer sends eight million pings, and reads nothing until the other has read them.
#[test]
fn pings_of_a_peer_that_reads_nothing_take_no_room() {
    let (mut near, mut far) = pair(Ipv4Addr::LOCALHOST, None, Bounds::default());
    let burst = Bytes::from(b"\r\n\r\n".repeat(16 * 1024));
    let (mut pings, until) = (0_u64, Instant::now() + PATIENCE);
    while pings < 8_000_000 {
        assert!(Instant::now() < until, "the pings are read");
        if near.waiting() == 0 {
            near.queue(burst.clone()).unwrap();
        }
        near.flush().unwrap();
        far.receive(true, |framed, _| pings += u64::from(framed == Framed::Ping)).unwrap();
        far.flush().unwrap();
        assert!(far.waiting() <= 512, "{} bytes wait for {pings} pings", far.waiting());
    }
    assert!(far.has_unsent());
    // A message is sent although pongs are waiting.
    far.queue(message(1, 0)).unwrap();
    let mut messages = 0;
    while messages == 0 {
        assert!(Instant::now() < until, "the message comes");
        near.flush().unwrap();
        far.receive(true, |_, _| ()).unwrap();
        far.flush().unwrap();
        near.receive(true, |framed, _| messages += u64::from(matches!(framed, Framed::Message(_)))).unwrap();
    }
}
