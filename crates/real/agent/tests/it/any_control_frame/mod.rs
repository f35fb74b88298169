//! A property that any bytes that arrive over a control connection must have. The fuzzer in `fuzz/` searches for a
//! counterexample, and the test `corpora` replays the fuzzer's corpus.

use netrig_agent::control::{ControlReply, ControlRequest};
use netrig_host::frames::{FrameError, MAX_FRAME, read_frame, write_frame};
use netrig_probe::control::{FromFarEnd, FromProbe};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Each reader of frames parses the bytes or returns an error. The bytes are tried as a stream of frames and as the
/// body of one frame. A message that was read is unchanged after it is written and read again.
pub fn check(bytes: &[u8]) {
    let framed = [&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes()[..], bytes].concat();
    for stream in [bytes, &framed] {
        read_all::<ControlRequest>(stream, |_| {});
        read_all::<FromProbe>(stream, |_| {});
        read_all::<FromFarEnd>(stream, |_| {});
        read_all::<ControlReply>(stream, |reply| {
            if let ControlReply::Samples { columns } = reply {
                for column in columns {
                    if let Ok(samples) = column.samples() {
                        assert_eq!(samples.len(), column.values.len());
                    }
                }
            }
        });
    }
}

fn read_all<T>(mut stream: &[u8], mut each: impl FnMut(&T))
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let whole = stream.len();
    loop {
        let before = stream.len();
        match read_frame::<T>(&mut stream) {
            Ok(Some(message)) => {
                each(&message);
                assert!(before - stream.len() >= 4, "a frame has a length");
                again(&message);
            }
            Ok(None) => {
                assert!(stream.is_empty(), "all of {whole} B were read");
                return;
            }
            Err(FrameError::TooLong { len, .. }) => {
                assert!(len > MAX_FRAME);
                return;
            }
            Err(_) => return,
        }
    }
}

/// Checks that the message is unchanged after it is written and read again.
fn again<T>(message: &T)
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let mut bytes = Vec::new();
    match write_frame(&mut bytes, message) {
        Ok(()) => {}
        // The canonical form of the message may be longer than the form that was read.
        Err(FrameError::TooLong { .. }) => return,
        Err(error) => panic!("{error}: {message:?}"),
    }
    let read = read_frame::<T>(&mut &bytes[..]).expect("it was written by us");
    assert_eq!(read.as_ref(), Some(message));
}
