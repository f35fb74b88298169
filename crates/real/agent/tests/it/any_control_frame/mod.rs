//! What holds for any bytes that come over a control connection: the property that `fuzz/` searches a counterexample of, and
//! that the test `corpora` replays.

use netrig_agent::control::{Reply, Request};
use netrig_host::frames::{FrameError, MAX_FRAME, read_frame, write_frame};
use netrig_probe::control::{FromFarEnd, FromProbe};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The bytes are frames or an error, for all who read frames, as the stream brings them; and, whatever length they promise, as
/// the words of one. What was understood is understood again as the same.
pub fn check(bytes: &[u8]) {
    let framed = [&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes()[..], bytes].concat();
    for stream in [bytes, &framed] {
        read_all::<Request>(stream, |_| {});
        read_all::<FromProbe>(stream, |_| {});
        read_all::<FromFarEnd>(stream, |_| {});
        read_all::<Reply>(stream, |reply| {
            if let Reply::Samples { columns } = reply {
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
            Ok(Some(words)) => {
                each(&words);
                assert!(before - stream.len() >= 4, "a frame has a length");
                again(&words);
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

/// Written and read again it is what it was.
fn again<T>(words: &T)
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let mut bytes = Vec::new();
    match write_frame(&mut bytes, words) {
        Ok(()) => {}
        // What was read may take more bytes to write.
        Err(FrameError::TooLong { .. }) => return,
        Err(error) => panic!("{error}: {words:?}"),
    }
    let read = read_frame::<T>(&mut &bytes[..]).expect("it was written by us");
    assert_eq!(read.as_ref(), Some(words));
}
