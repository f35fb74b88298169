//! A property that must hold for any bytes that a server of the meter receives, before and in a session. `fuzz/`
//! searches for counterexamples, and the test `corpora` replays the corpus.

use netrig_host::frames::{FrameError, MAX_FRAME, read_frame, write_frame};
use netrig_probe::greeting::{ClientGreeting, ServerGreeting};
use netrig_speed::protocol::{
    ConnectionOpening, ECHO_LEN, EchoDatagram, FromClient, FromServer, PREAMBLE_LEN, Preamble, SessionAction,
    SpeedSession,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The bytes are parsed as an opening, a preamble, an echo, and as messages of a client, of a server and of a greeting.
/// What can be parsed can be encoded and gives the same value again. A session ends at a violation and never starts a
/// phase that was not prepared.
pub fn check(bytes: &[u8]) {
    for end in 0..=bytes.len().min(PREAMBLE_LEN + 1) {
        let _ = ConnectionOpening::of(&bytes[..end]);
    }
    if let Some(preamble) = Preamble::decode(bytes) {
        assert_eq!(preamble.encode(), bytes[..PREAMBLE_LEN]);
    }
    if let Some(echo) = EchoDatagram::decode(bytes) {
        assert_eq!(echo.encode(), bytes[..ECHO_LEN]);
    }
    let framed = [&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes()[..], bytes].concat();
    for stream in [bytes, &framed] {
        of_client(words(stream));
        let _: Vec<FromServer> = words(stream);
        let _: Vec<ClientGreeting> = words(stream);
        let _: Vec<ServerGreeting> = words(stream);
    }
}

/// Number of messages of a client in the bytes.
pub fn said(bytes: &[u8]) -> usize {
    words::<FromClient>(bytes).len()
}

/// Passes these messages to a session, which is admitted as soon as it requests admission.
fn of_client(words: Vec<FromClient>) {
    let mut session = SpeedSession::new();
    let (mut promised, mut last) = (None, None);
    for word in words {
        match session.receive(word) {
            Ok(Some(SessionAction::Admit(rate))) => {
                promised = rate;
                session.admitted();
            }
            Ok(Some(SessionAction::Prepare(phase))) => {
                assert!(phase.check().is_ok() && last.is_none_or(|last| phase.number > last), "{phase:?}");
                last = Some(phase.number);
            }
            Ok(Some(SessionAction::Pace(rate))) => {
                assert!(promised.is_none_or(|most| rate <= most), "{rate}")
            }
            Ok(Some(SessionAction::Begin | SessionAction::End { .. })) => assert!(last.is_some()),
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

/// Parses the messages in the bytes, up to the first that is invalid. Checks that each can be encoded again.
fn words<T>(mut stream: &[u8]) -> Vec<T>
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let mut words = Vec::new();
    loop {
        match read_frame::<T>(&mut stream) {
            Ok(Some(word)) => {
                let mut written = Vec::new();
                match write_frame(&mut written, &word) {
                    Ok(()) => assert_eq!(read_frame::<T>(&mut &written[..]).unwrap().as_ref(), Some(&word)),
                    // The encoding of a parsed message may be longer than the received bytes.
                    Err(FrameError::TooLong { .. }) => {}
                    Err(error) => panic!("{error}: {word:?}"),
                }
                words.push(word);
            }
            Ok(None) => return words,
            Err(FrameError::TooLong { len, .. }) => {
                assert!(len > MAX_FRAME);
                return words;
            }
            Err(_) => return words,
        }
    }
}
