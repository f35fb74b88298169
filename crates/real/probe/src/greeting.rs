//! The greeting of a control connection. It ensures that both ends use the same version of a protocol and, if the
//! server has a key, the same key.
//!
//! The server greets with a nonce, and the client answers with another nonce. If the server has a key, the client adds
//! an HMAC over both nonces and the channel binding of the TLS connection (RFC 5705, RFC 9266). Because of the channel
//! binding, a man in the middle with a certificate of his own cannot forward the proofs. The server then proves that it
//! has the key too. Before the client has proved the key, the server does nothing else.

use std::fmt::Display;
use std::io::{Read, Write};

use netrig_host::frames::{FrameError, read_frame_within, write_frame};
use netrig_host::{random, shown_up_to};
use serde::{Deserialize, Serialize};

use super::keyring::Keyring;
use super::stamp::HmacKey;

/// Longest frame of a greeting, bytes. It is also the longest frame that a client may send in its whole session: no
/// message needs a tenth of it. The bound limits the memory that a connected peer can occupy.
pub const LONGEST_WORD: usize = 4096;

/// Longest displayed reason of a server, characters.
const LONGEST_REASON: usize = 240;

/// A random number that is used once.
type Nonce = [u8; 32];

/// A protocol whose control connections begin with a greeting.
#[derive(Debug)]
pub struct GreetedProtocol {
    /// Name of the protocol in messages to the user.
    pub name: &'static str,
    /// Version of the protocol. Both ends must have the same.
    pub version: u32,
    /// Prefixes of the proofs of the client and of the server. They differ so that a client's proof is not valid as a
    /// server's.
    pub prefixes: [&'static [u8]; 2],
    /// Builds the message with which a server refuses a client.
    pub refusal: fn(GreetingRefusal) -> ServerGreeting,
}

/// The client's message in a greeting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ClientGreeting {
    /// The answer to [`ServerGreeting::Hello`].
    Hello {
        /// The version of the sender.
        version: u32,
        /// A random number.
        nonce: Nonce,
        /// The proof that the client has the key of the server.
        tag: Option<[u8; 32]>,
    },
}

/// The server's messages in a greeting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ServerGreeting {
    /// The first message.
    Hello {
        /// The version of the sender.
        version: u32,
        /// A random number.
        nonce: Nonce,
        /// Whether the server has a key and requires a proof of it.
        keyed: bool,
    },
    /// The client is accepted.
    Welcome {
        /// The proof that the server has the key, if it has one.
        tag: Option<[u8; 32]>,
        /// Identifier of the current boot of the server's machine. Two ends with the same identifier read the same
        /// clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<String>,
    },
    /// The server is at its limit and cannot serve the client now.
    Busy(GreetingRefusal),
    /// The server refuses the client.
    Refused(GreetingRefusal),
    /// The same as [`Refused`](Self::Refused), for the speed protocol.
    Failed(GreetingRefusal),
}

/// Why a server does not serve a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GreetingRefusal {
    /// The reason, as text.
    pub why: String,
}

/// Why a greeting failed.
#[derive(Debug, thiserror::Error)]
pub enum GreetingError {
    /// The stream failed, or a frame is malformed.
    #[error(transparent)]
    Control(#[from] FrameError),
    /// The peer has another version of the protocol.
    #[error("it uses version {theirs} of the {} protocol, and this netrig uses version {}", ours.name, ours.version)]
    Version {
        /// Version of the peer.
        theirs: u32,
        /// The protocol of this end.
        ours: &'static GreetedProtocol,
    },
    /// The server requires a key.
    #[error("it requires a key")]
    KeyMissing,
    /// The server has no key.
    #[error("it has no key and cannot authenticate itself")]
    KeyUnknown,
    /// The keys differ, or a man in the middle changed the messages.
    #[error("its key is different, or there is a man in the middle")]
    KeyWrong,
    /// The server is at its limit.
    #[error("it is busy: {0}")]
    Busy(String),
    /// The server refused.
    #[error("it refuses: {0}")]
    Refused(String),
    /// The peer sent a message that does not belong at this point of the protocol.
    #[error("it does not use the {0} protocol")]
    Unexpected(&'static str),
}

/// The first message of a server, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerHello {
    nonce: Nonce,
    /// Whether the server has a key.
    keyed: bool,
}

impl GreetedProtocol {
    /// Runs the server's side, over a stream with time-outs. A client that has proved the key is accepted if `admit`
    /// succeeds. Returns the name of the client's key if the server has keys.
    ///
    /// # Errors
    /// If the stream fails, if the client has another version or none of the keys, or if `admit` fails.
    pub fn greet_client<E: Display>(
        &'static self,
        stream: &mut (impl Read + Write),
        (keys, binding): (&Keyring, &[u8]),
        boot: Option<String>,
        admit: impl FnOnce() -> Result<(), E>,
    ) -> Result<Option<String>, GreetingError> {
        let nonce: Nonce = random().map_err(FrameError::from)?;
        let keyed = !keys.is_empty();
        write_frame(stream, &ServerGreeting::Hello { version: self.version, nonce, keyed })?;
        let Some(ClientGreeting::Hello { version, nonce: theirs, tag }) =
            read_frame_within(stream, LONGEST_WORD)?
        else {
            return Err(self.unexpected());
        };
        self.check(version)?;
        let [client, server] = self.prefixes;
        let proof = tag.and_then(|tag| keys.whose(&[client, &nonce, &theirs, binding], &tag));
        if proof.is_none() && keyed {
            let why = "the key is missing or wrong".into();
            write_frame(stream, &(self.refusal)(GreetingRefusal { why }))?;
            return Err(GreetingError::KeyWrong);
        }
        if let Err(busy) = admit() {
            let why = busy.to_string();
            write_frame(stream, &ServerGreeting::Busy(GreetingRefusal { why: why.clone() }))?;
            return Err(GreetingError::Busy(why));
        }
        let tag = proof.map(|(_, key)| key.digest(&[server, &nonce, &theirs, binding]));
        write_frame(stream, &ServerGreeting::Welcome { tag, boot })?;
        Ok(proof.map(|(name, _)| name.to_owned()))
    }

    /// Runs the client's side. Returns the identifier of the server's boot, if the server sends it.
    ///
    /// # Errors
    /// If the stream fails, the server has another version, or the server refuses.
    pub fn greet_server(
        &'static self,
        stream: &mut (impl Read + Write),
        key: Option<&HmacKey>,
        binding: &[u8],
    ) -> Result<Option<String>, GreetingError> {
        let greeted = self.receive_hello(stream)?;
        self.answer_hello(stream, greeted, key, binding)
    }

    /// First half of the client's side: receives the server's greeting.
    ///
    /// # Errors
    /// If the stream fails or the server has another version.
    pub fn receive_hello(&'static self, stream: &mut impl Read) -> Result<ServerHello, GreetingError> {
        match read_frame_within(stream, LONGEST_WORD)? {
            Some(ServerGreeting::Hello { version, nonce, keyed }) => {
                self.check(version)?;
                Ok(ServerHello { nonce, keyed })
            }
            other => Err(self.refused(other)),
        }
    }

    /// Second half of the client's side: sends the answer and receives the decision of the server. It takes one round
    /// trip.
    ///
    /// # Errors
    /// If the stream fails or the server refuses.
    pub fn answer_hello(
        &'static self,
        stream: &mut (impl Read + Write),
        ServerHello { nonce: theirs, keyed }: ServerHello,
        key: Option<&HmacKey>,
        binding: &[u8],
    ) -> Result<Option<String>, GreetingError> {
        match (keyed, key) {
            (true, None) => return Err(GreetingError::KeyMissing),
            (false, Some(_)) => return Err(GreetingError::KeyUnknown),
            _ => {}
        }
        let nonce: Nonce = random().map_err(FrameError::from)?;
        let [client, server] = self.prefixes;
        let tag = key.map(|key| key.digest(&[client, &theirs, &nonce, binding]));
        write_frame(stream, &ClientGreeting::Hello { version: self.version, nonce, tag })?;
        match read_frame_within(stream, LONGEST_WORD)? {
            Some(ServerGreeting::Welcome { tag, boot }) => {
                let proof = |key: &HmacKey| {
                    tag.is_some_and(|tag| key.verify(&[server, &theirs, &nonce, binding], &tag))
                };
                if key.is_none_or(proof) { Ok(boot) } else { Err(GreetingError::KeyWrong) }
            }
            Some(ServerGreeting::Refused(_) | ServerGreeting::Failed(_)) if keyed => {
                Err(GreetingError::KeyWrong)
            }
            other => Err(self.refused(other)),
        }
    }

    const fn check(&'static self, theirs: u32) -> Result<(), GreetingError> {
        if theirs == self.version { Ok(()) } else { Err(GreetingError::Version { theirs, ours: self }) }
    }

    /// The error for a message of another protocol, or for one that does not belong at this point of this protocol.
    pub const fn unexpected(&self) -> GreetingError {
        GreetingError::Unexpected(self.name)
    }

    /// The error for a refusal. Control characters are removed, because the server is unknown and its text reaches a
    /// terminal.
    fn refused(&self, said: Option<ServerGreeting>) -> GreetingError {
        let shown = |refusal: GreetingRefusal| shown_up_to(LONGEST_REASON, &refusal.why);
        match said {
            Some(ServerGreeting::Busy(refusal)) => GreetingError::Busy(shown(refusal)),
            Some(ServerGreeting::Refused(refusal) | ServerGreeting::Failed(refusal)) => {
                GreetingError::Refused(shown(refusal))
            }
            _ => self.unexpected(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    const RIGHT: &[u8] = b"0123456789abcdef";
    const WRONG: &[u8] = b"0123456789abcdeF";

    type Binding = [u8; 32];
    type Greetings = (Result<Option<String>, GreetingError>, Result<Option<String>, GreetingError>);

    static SPOKEN: GreetedProtocol = GreetedProtocol {
        name: "speed",
        version: 2,
        prefixes: [b"client", b"server"],
        refusal: ServerGreeting::Failed,
    };

    fn admitted() -> Result<(), String> {
        Ok(())
    }

    fn greet(server: Option<&[u8]>, client: Option<&[u8]>, bindings: [Binding; 2]) -> Greetings {
        let key = |octets: Option<&[u8]>| octets.map(|octets| HmacKey::new(octets).unwrap());
        let (server_key, client_key) = (key(server), key(client));
        let (mut near, mut far) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            let server = scope.spawn(move || {
                SPOKEN.greet_client(
                    &mut far,
                    (&server_key.into(), &bindings[0]),
                    Some("boot".into()),
                    admitted,
                )
            });
            let client = SPOKEN.greet_server(&mut near, client_key.as_ref(), &bindings[1]);
            drop(near);
            (server.join().unwrap(), client)
        })
    }

    #[test]
    fn a_client_with_the_key_is_welcome() {
        for key in [None, Some(RIGHT)] {
            let (server, client) = greet(key, key, [[7; 32]; 2]);
            assert_eq!(server.unwrap().is_some(), key.is_some());
            assert_eq!(client.unwrap().as_deref(), Some("boot"));
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

    /// A man in the middle has two TLS connections, and their channel bindings differ.
    #[test]
    fn who_stands_between_cannot_pass_the_proofs_on() {
        let (server, client) = greet(Some(RIGHT), Some(RIGHT), [[7; 32], [8; 32]]);
        assert!(matches!((server, client), (Err(GreetingError::KeyWrong), Err(GreetingError::KeyWrong))));
    }

    /// Before a client has proved a key, its messages cost little memory, and none of its text is kept.
    #[test]
    fn words_of_strangers_are_short() {
        let long = ClientGreeting::Hello { version: u32::MAX, nonce: [255; 32], tag: Some([255; 32]) };
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
            let told =
                SPOKEN.greet_client(&mut far, (&None.into(), &[]), None, admitted).unwrap_err().to_string();
            assert!(told.contains(wanted), "{told}");
            assert!(told.chars().count() < 400 && !told.contains('\u{1b}'), "{told}");
        }
    }

    #[test]
    fn what_a_server_refuses_with_moves_no_cursor() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        write_frame(&mut far, &ServerGreeting::Failed(GreetingRefusal { why: "\u{1b}[2Jgone".into() }))
            .unwrap();
        let error = SPOKEN.greet_server(&mut near, None, &[]).unwrap_err();
        assert_eq!(error.to_string(), "it refuses: \u{fffd}[2Jgone");
    }

    #[test]
    fn another_version_is_named() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        write_frame(&mut far, &ServerGreeting::Hello { version: 9, nonce: [0; 32], keyed: false }).unwrap();
        let error = SPOKEN.greet_server(&mut near, None, &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it uses version 9 of the speed protocol, and this netrig uses version 2"
        );
    }

    #[test]
    fn a_far_end_that_does_not_know_the_key_cannot_pretend() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                write_frame(&mut far, &ServerGreeting::Hello { version: 2, nonce: [1; 32], keyed: true })
                    .unwrap();
                let answer = read_frame_within(&mut far, LONGEST_WORD).unwrap().unwrap();
                let ClientGreeting::Hello { tag, .. } = answer;
                // An impostor without the key can only echo the proof that it received.
                write_frame(&mut far, &ServerGreeting::Welcome { tag, boot: None }).unwrap();
            });
            let probe = SPOKEN.greet_server(&mut near, HmacKey::new(RIGHT).as_ref(), &[]);
            assert!(matches!(probe, Err(GreetingError::KeyWrong)), "{probe:?}");
        });
    }

    #[test]
    fn who_finds_no_room_is_told_so_and_not_that_the_key_is_wrong() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let key = || HmacKey::new(RIGHT).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                SPOKEN.greet_client(&mut far, (&Some(key()).into(), &[]), None, || Err("try again later"))
            });
            let probe = SPOKEN.greet_server(&mut near, Some(&key()), &[]);
            assert!(
                matches!(&probe, Err(GreetingError::Busy(why)) if why.contains("try again later")),
                "{probe:?}"
            );
        });
    }
}
