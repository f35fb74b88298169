//! The greeting: it ensures that both ends have the same version and, if the server has a key, the same key.
//!
//! The server greets with a nonce, and the client answers with its own. If the server has a key, the client adds an HMAC over both
//! nonces and the channel binding of the TLS connection (RFC 5705, RFC 9266). A man in the middle with a certificate of its own
//! cannot forward the proofs. The server also proves that it has the key.

use std::io::{Read, Write};

use netrig_host::frames::{FrameError, read_frame_within, write_frame};
use netrig_host::shown_up_to;
use netrig_probe::stamp::HmacKey;

use super::words::{FromClient, FromServer};
use super::{Keyring, VERSION};

/// The channel binding of a TLS connection, exported with the label [`EXPORTER`].
pub type Binding = [u8; 32];

/// A random number that is used once.
pub type Nonce = [u8; 32];

/// The label of the exporter (RFC 9266 section 2).
pub const EXPORTER: &[u8] = b"EXPORTER-Channel-Binding";

/// The longest frame of a greeting, and of a client in its whole session, bytes. No message needs a tenth of it.
pub const LONGEST_WORD: usize = 4096;

/// Longest displayed reason of a server, characters.
const LONGEST_REASON: usize = 240;

/// Prefixes of the proofs, so that one cannot be used for the other.
const CLIENT: &[u8] = b"netrig speed client";
const SERVER: &[u8] = b"netrig speed server";

/// Why a greeting failed.
#[derive(Debug, thiserror::Error)]
pub enum GreetingError {
    /// The stream failed, or a frame is malformed.
    #[error(transparent)]
    Control(#[from] FrameError),
    /// The peer has another version.
    #[error("it speaks version {0} of the speed protocol, and this netrig version {VERSION}")]
    Version(u32),
    /// The server requires a key.
    #[error("it asks for a key")]
    KeyMissing,
    /// The server has no key.
    #[error("it has no key, and cannot prove who it is")]
    KeyUnknown,
    /// The keys differ, or there is a man in the middle.
    #[error("its key differs, or there is a man in the middle")]
    KeyWrong,
    /// The server refused.
    #[error("it refuses: {0}")]
    Refused(String),
    /// The peer sent another message.
    #[error("it does not speak the speed protocol")]
    Unexpected,
}

/// The server's side. Returns the name of the client's key, if the server has keys.
///
/// # Errors
/// If the stream fails, or the client has another version or none of the keys.
pub fn greet_client(
    stream: &mut (impl Read + Write),
    keys: &Keyring,
    nonce: Nonce,
    binding: &Binding,
) -> Result<Option<String>, GreetingError> {
    write_frame(stream, &FromServer::Hello { version: VERSION, nonce, keyed: !keys.is_empty() })?;
    let Some(FromClient::Hello { version, nonce: theirs, tag }) = read_frame_within(stream, LONGEST_WORD)?
    else {
        return Err(GreetingError::Unexpected);
    };
    if version != VERSION {
        return Err(GreetingError::Version(version));
    }
    let proof = tag.and_then(|tag| keys.whose(&[CLIENT, &nonce, &theirs, binding], &tag));
    if proof.is_none() && !keys.is_empty() {
        write_frame(stream, &FromServer::Failed { why: "the key is missing or wrong".into() })?;
        return Err(GreetingError::KeyWrong);
    }
    let tag = proof.map(|(_, key)| key.digest(&[SERVER, &nonce, &theirs, binding]));
    write_frame(stream, &FromServer::Welcome { tag })?;
    Ok(proof.map(|(name, _)| name.to_owned()))
}

/// The greeting of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerHello {
    nonce: Nonce,
    /// Whether the server has a key.
    keyed: bool,
}

/// The client's side.
///
/// # Errors
/// If the stream fails, or the server has another version or refuses.
pub fn greet_server(
    stream: &mut (impl Read + Write),
    key: Option<&HmacKey>,
    nonce: Nonce,
    binding: &Binding,
) -> Result<(), GreetingError> {
    let greeted = hear_server(stream)?;
    answer_server(stream, greeted, key, nonce, binding)
}

/// The first half of the client's side: receives the greeting, which the server sends after the TLS handshake.
///
/// # Errors
/// If the stream fails, or the server has another version.
pub fn hear_server(stream: &mut impl Read) -> Result<ServerHello, GreetingError> {
    match read_frame_within(stream, LONGEST_WORD)? {
        Some(FromServer::Hello { version, nonce, keyed }) if version == VERSION => {
            Ok(ServerHello { nonce, keyed })
        }
        Some(FromServer::Hello { version, .. }) => Err(GreetingError::Version(version)),
        Some(FromServer::Failed { why }) => Err(refused(&why)),
        _ => Err(GreetingError::Unexpected),
    }
}

/// Removes control characters from the text of an unknown server before it reaches a terminal.
fn refused(why: &str) -> GreetingError {
    GreetingError::Refused(shown_up_to(LONGEST_REASON, why))
}

/// The second half of the client's side: a request and its answer, which take one round trip.
///
/// # Errors
/// If the stream fails, or the server refuses.
pub fn answer_server(
    stream: &mut (impl Read + Write),
    ServerHello { nonce: theirs, keyed }: ServerHello,
    key: Option<&HmacKey>,
    nonce: Nonce,
    binding: &Binding,
) -> Result<(), GreetingError> {
    match (keyed, key) {
        (true, None) => return Err(GreetingError::KeyMissing),
        (false, Some(_)) => return Err(GreetingError::KeyUnknown),
        _ => {}
    }
    let tag = key.map(|key| key.digest(&[CLIENT, &theirs, &nonce, binding]));
    write_frame(stream, &FromClient::Hello { version: VERSION, nonce, tag })?;
    match read_frame_within(stream, LONGEST_WORD)? {
        Some(FromServer::Welcome { tag }) => {
            let proof =
                |key: &HmacKey| tag.is_some_and(|tag| key.verify(&[SERVER, &theirs, &nonce, binding], &tag));
            if key.is_none_or(proof) { Ok(()) } else { Err(GreetingError::KeyWrong) }
        }
        Some(FromServer::Failed { .. }) if keyed => Err(GreetingError::KeyWrong),
        Some(FromServer::Failed { why }) => Err(refused(&why)),
        _ => Err(GreetingError::Unexpected),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "two ends of a stream are what is greeted over")]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    const RIGHT: &[u8] = b"0123456789abcdef";
    const WRONG: &[u8] = b"0123456789abcdeF";

    type Greetings = (Result<Option<String>, GreetingError>, Result<(), GreetingError>);

    fn greet(server: Option<&[u8]>, client: Option<&[u8]>, bindings: [Binding; 2]) -> Greetings {
        let key = |octets: Option<&[u8]>| octets.map(|octets| HmacKey::new(octets).unwrap());
        let (server_key, client_key) = (key(server), key(client));
        let (mut near, mut far) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            let server =
                scope.spawn(move || greet_client(&mut far, &server_key.into(), [3; 32], &bindings[0]));
            let client = greet_server(&mut near, client_key.as_ref(), [4; 32], &bindings[1]);
            drop(near);
            (server.join().unwrap(), client)
        })
    }

    #[test]
    fn a_client_with_the_key_is_welcome() {
        for key in [None, Some(RIGHT)] {
            let (server, client) = greet(key, key, [[7; 32]; 2]);
            assert_eq!(server.unwrap().is_some(), key.is_some());
            client.unwrap();
        }
    }

    #[test]
    fn a_client_with_another_key_or_none_is_refused() {
        let same = [[7; 32]; 2];
        let (server, client) = greet(Some(RIGHT), Some(WRONG), same);
        assert!(matches!((server, client), (Err(GreetingError::KeyWrong), Err(GreetingError::KeyWrong))));
        let (server, client) = greet(Some(RIGHT), None, same);
        assert!(server.is_err() && matches!(client, Err(GreetingError::KeyMissing)));
        let (_, client) = greet(None, Some(RIGHT), same);
        assert!(matches!(client, Err(GreetingError::KeyUnknown)));
    }

    /// A man in the middle has two TLS connections with different channel bindings.
    #[test]
    fn who_stands_between_cannot_pass_the_proofs_on() {
        let (server, client) = greet(Some(RIGHT), Some(RIGHT), [[7; 32], [8; 32]]);
        assert!(matches!((server, client), (Err(GreetingError::KeyWrong), Err(GreetingError::KeyWrong))));
    }

    /// Before a client has proved a key, its messages cost little memory, and no text of it is kept.
    #[test]
    fn words_of_strangers_are_short() {
        let long = FromClient::Hello { version: u32::MAX, nonce: [255; 32], tag: Some([255; 32]) };
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &long).unwrap();
        assert!(bytes.len() < LONGEST_WORD);
        let word = format!("{{\"{}\":1}}", "\u{1b}x".repeat(1500));
        for (word, wanted) in
            [(word, "malformed frame"), ("x".repeat(5000), "a frame of 5000 B exceeds the maximum of 4096 B")]
        {
            let (mut near, mut far) = UnixStream::pair().unwrap();
            near.write_all(&(word.len() as u32).to_be_bytes()).unwrap();
            near.write_all(word.as_bytes()).unwrap();
            let told = greet_client(&mut far, &None.into(), [3; 32], &[0; 32]).unwrap_err().to_string();
            assert!(told.contains(wanted), "{told}");
            assert!(told.chars().count() < 400 && !told.contains('\u{1b}'), "{told}");
        }
    }

    #[test]
    fn what_a_server_refuses_with_moves_no_cursor() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        write_frame(&mut far, &FromServer::Failed { why: "\u{1b}[2Jgone".into() }).unwrap();
        let error = greet_server(&mut near, None, [4; 32], &[0; 32]).unwrap_err();
        assert_eq!(error.to_string(), "it refuses: \u{fffd}[2Jgone");
    }

    #[test]
    fn another_version_is_named() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        write_frame(&mut far, &FromServer::Hello { version: 9, nonce: [0; 32], keyed: false }).unwrap();
        let error = greet_server(&mut near, None, [4; 32], &[0; 32]).unwrap_err();
        assert_eq!(error.to_string(), "it speaks version 9 of the speed protocol, and this netrig version 2");
    }
}
