//! A property that must hold for any bytes that arrive on iperf3's control connection. `fuzz/` searches for
//! counterexamples, and the test `corpora` replays the corpus.

use netrig_core::Instant;
use netrig_speed::iperf3::{
    COOKIE_LEN, ClientEvent, ClientSession, Cookie, ServerEvent, ServerSession, StreamResult, TestLimits,
    TestParameters, TestResults, stream_id,
};

/// The bytes are parsed as parameters, results, and messages of a client and of a server. Each end of a test ends at
/// most once. The result does not depend on the pieces in which the bytes arrive. What was parsed can be encoded and
/// parsed again.
pub fn check(bytes: &[u8]) {
    if let Ok(asked) = TestParameters::read(bytes) {
        assert_eq!(TestParameters::read(&asked.write()).ok(), Some(asked));
    }
    for streams in [1, 2] {
        if let Ok(found) = TestResults::read(bytes, streams) {
            let again = TestResults::read(&found.write(), streams).expect("it was written by us");
            assert_eq!(again.streams.len(), found.streams.len());
        }
    }
    if let Some(cookie) = Cookie::read(bytes) {
        assert!(Cookie::may_begin(bytes));
        assert_eq!(cookie.bytes(), bytes[..COOKIE_LEN]);
    }
    ends(bytes);
    assert_eq!(unanswered(bytes, bytes.len().max(1)), unanswered(bytes, 1));
}

/// The bytes and events of a server that has received these bytes in pieces of `piece` bytes and does not admit the
/// test.
fn unanswered(bytes: &[u8], piece: usize) -> (Option<Vec<u8>>, Vec<String>) {
    let mut server = ServerSession::new(Instant::ZERO, TestLimits::default());
    bytes.chunks(piece).for_each(|bytes| server.handle_bytes(Instant::ZERO, bytes));
    (
        server.poll_transmit(),
        std::iter::from_fn(|| server.poll_event()).map(|event| format!("{event:?}")).collect(),
    )
}

/// Number of tests that end successfully, in which these bytes come from a client or from a server.
pub fn ends(bytes: &[u8]) -> usize {
    usize::from(server_ends(bytes)) + usize::from(client_ends(bytes))
}

fn found(streams: u32) -> TestResults {
    let stream = |nth| StreamResult { id: stream_id(nth), ..StreamResult::default() };
    TestResults { streams: (0..streams).map(stream).collect(), ..TestResults::default() }
}

/// Whether a server ends a test successfully, if a client sends these bytes. The server's owner answers each event
/// immediately.
fn server_ends(bytes: &[u8]) -> bool {
    let mut server = ServerSession::new(Instant::ZERO, TestLimits::default());
    let (mut streams, mut ends) = (1, Vec::new());
    for byte in bytes.chunks(1) {
        server.handle_bytes(Instant::ZERO, byte);
        while let Some(event) = server.poll_event() {
            match event {
                ServerEvent::Asked(asked) => {
                    streams = asked.streams();
                    server.admit(Instant::ZERO);
                    while server.open_stream(Instant::ZERO).is_some() {}
                }
                ServerEvent::Stop => server.results(Instant::ZERO, move |_| found(streams)),
                ServerEvent::Over(outcome) => ends.push(outcome.is_ok()),
                ServerEvent::Start | ServerEvent::Results(_) => {}
            }
        }
    }
    assert!(ends.len() <= 1, "a session ends once");
    ends == [true]
}

/// Whether a client ends a test successfully, if a server sends these bytes.
fn client_ends(bytes: &[u8]) -> bool {
    let cookie = Cookie::new([0; COOKIE_LEN - 1]);
    let mut client = ClientSession::new(Instant::ZERO, cookie, TestParameters::default());
    let mut ends = Vec::new();
    for byte in bytes.chunks(1) {
        client.handle_bytes(Instant::ZERO, byte);
        while let Some(event) = client.poll_event() {
            match event {
                ClientEvent::Start => client.stop(Instant::ZERO),
                ClientEvent::Stop => client.results(Instant::ZERO, &found(1)),
                ClientEvent::Over(outcome) => ends.push(outcome.is_ok()),
                ClientEvent::Open | ClientEvent::TimeUp | ClientEvent::Results(_) => {}
            }
        }
    }
    assert!(ends.len() <= 1, "a session ends once");
    ends == [true]
}
