//! A property that must hold for any bytes that arrive on a WebSocket of ndt7, and for any request that opens one.
//! `fuzz/` searches for counterexamples, and the test `corpora` replays the corpus.

mod client;

use netrig_core::{Instant, Seeds};
use netrig_host::http::message::{HttpRequest, LONGEST_HEAD};
use netrig_speed::ndt7::frame::{FrameError, FrameItem, FrameReader, LONGEST_TEXT};
use netrig_speed::ndt7::{ConnectionInfo, Measurement, Ndt7Test, ServerSession, Upgrade};

pub use self::client::{ClientError, ClientEvent, ClientSession};

/// The bytes are parsed as a request, as an answer to a request, and as frames of either end. The result does not
/// depend on the pieces in which they arrive. The server's answer exceeds the received bytes by at most four bytes.
pub fn check(bytes: &[u8]) {
    if let Ok(Some((head, len))) = HttpRequest::read(bytes) {
        assert!(len <= bytes.len().min(LONGEST_HEAD));
        match Upgrade::read(&head) {
            Ok(upgrade) => assert_eq!(upgrade.response().status, 101),
            Err(error) => assert!((400..500).contains(&error.response().status)),
        }
    }
    for reader in [FrameReader::of_server, FrameReader::of_client] {
        assert_eq!(items(reader(), bytes, bytes.len().max(1)), items(reader(), bytes, 1));
    }
    for test in [Ndt7Test::Download, Ndt7Test::Upload] {
        assert_eq!(of_server(test, bytes, bytes.len().max(1)), of_server(test, bytes, 1));
        let mut client = ClientSession::new(Instant::ZERO, test, "host", Seeds::new(1).stream("client"));
        client.handle_bytes(Instant::ZERO, bytes);
    }
}

/// Number of frames, or parts of frames, that a server reads from the bytes.
pub fn frames(bytes: &[u8]) -> usize {
    items(FrameReader::of_server(), bytes, 1).map_or(0, |items| items.len())
}

/// The items that are read, with consecutive pieces of binary messages joined.
fn items(mut reader: FrameReader, bytes: &[u8], piece: usize) -> Result<Vec<FrameItem>, FrameError> {
    let mut items: Vec<FrameItem> = Vec::new();
    for mut bytes in bytes.chunks(piece) {
        while let Some(item) = reader.read(&mut bytes)? {
            if let FrameItem::Text(text) = &item {
                assert!(text.len() <= LONGEST_TEXT);
                let read = Measurement::read(text);
                assert_eq!(read.as_ref().and_then(|read| Measurement::read(&read.write())), read);
            }
            match (items.last_mut(), item) {
                (Some(FrameItem::Binary(before)), FrameItem::Binary(bytes)) => *before += bytes,
                (_, item) => items.push(item),
            }
        }
        assert!(bytes.is_empty(), "all is read before more is asked for");
    }
    Ok(items)
}

/// Passes these bytes of a client to a server. Returns its answer, its count of bytes and its events.
fn of_server(test: Ndt7Test, bytes: &[u8], piece: usize) -> (Option<Vec<u8>>, u64, Vec<String>) {
    let mut asks = ClientSession::new(Instant::ZERO, test, "host", Seeds::new(1).stream("client"));
    let request = asks.poll_transmit().expect("it asks first");
    let (head, _) = HttpRequest::read(&request).expect("it was written by us").expect("as a whole");
    let upgrade = Upgrade::read(&head).expect("it was written by us");
    let mut server = ServerSession::new(Instant::ZERO, &upgrade, ConnectionInfo::default());
    bytes.chunks(piece).for_each(|bytes| server.handle_bytes(bytes));
    let answer = server.poll_transmit();
    assert!(answer.as_ref().map_or(0, Vec::len) <= bytes.len() + 4);
    let events = std::iter::from_fn(|| server.poll_event()).map(|event| format!("{event:?}")).collect();
    (answer, server.bytes(), events)
}
