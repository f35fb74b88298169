//! Frames on a byte stream. Each frame contains a JSON document.
//!
//! A frame consists of the length of its document (four bytes in network byte order) and the document. The protocols of
//! agents, probes and meters consist of such frames.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::shown_up_to;

/// Maximum length of a frame's document, bytes. The longest document is the order to replay a trace. A datagram of the
/// trace takes at least 12 B in an experiment file, which has at most 1 MiB, and at most 38 B in a frame.
pub const MAX_FRAME: usize = 4 << 20;

/// Maximum number of characters of the JSON parser's message that an error repeats.
const LONGEST_COMPLAINT: usize = 240;

/// Why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream failed.
    #[error("the control connection failed: {0}")]
    Stream(#[from] io::Error),
    /// The document of a frame is too long.
    #[error("a frame of {len} B exceeds the maximum of {most} B")]
    TooLong {
        /// Announced length, bytes.
        len: usize,
        /// Maximum length here, bytes.
        most: usize,
    },
    /// The document cannot be parsed as the expected type.
    #[error("malformed frame: {0}")]
    Malformed(String),
}

/// Writes one frame and flushes the stream.
///
/// # Errors
/// If the stream fails or the document is too long.
pub fn write_frame(stream: &mut impl Write, words: &impl Serialize) -> Result<(), FrameError> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, words)?;
    let len = frame.len() - 4;
    if len > MAX_FRAME {
        return Err(FrameError::TooLong { len, most: MAX_FRAME });
    }
    // The length is at most MAX_FRAME, which fits in 32 bits.
    frame[..4].copy_from_slice(&(len as u32).to_be_bytes());
    stream.write_all(&frame)?;
    Ok(stream.flush()?)
}

impl From<serde_json::Error> for FrameError {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(shown_up_to(LONGEST_COMPLAINT, &error.to_string()))
    }
}

/// Reads one frame; `None` if the stream ends before the first byte of the frame. Memory is allocated as bytes arrive,
/// not according to the announced length.
///
/// # Errors
/// If the stream fails or ends within a frame, the document is too long, or the document cannot be parsed as `T`.
pub fn read_frame<T: DeserializeOwned>(stream: &mut impl Read) -> Result<Option<T>, FrameError> {
    read_frame_within(stream, MAX_FRAME)
}

/// Reads one frame with a document of at most `most` bytes, and never more than [`MAX_FRAME`]. This limits the memory
/// that an unauthenticated peer can occupy.
///
/// # Errors
/// Like [`read_frame`].
pub fn read_frame_within<T: DeserializeOwned>(
    stream: &mut impl Read,
    most: usize,
) -> Result<Option<T>, FrameError> {
    let mut len = Vec::with_capacity(4);
    stream.take(4).read_to_end(&mut len)?;
    let Some(len) = len.first_chunk::<4>().map(|len| u32::from_be_bytes(*len) as usize) else {
        return if len.is_empty() {
            Ok(None)
        } else {
            Err(FrameError::Stream(io::ErrorKind::UnexpectedEof.into()))
        };
    };
    if len > most.min(MAX_FRAME) {
        return Err(FrameError::TooLong { len, most });
    }
    let mut frame = Vec::new();
    stream.take(len as u64).read_to_end(&mut frame)?;
    if frame.len() < len {
        return Err(FrameError::Stream(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(Some(serde_json::from_slice(&frame)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_its_length_and_its_document() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &"stop").unwrap();
        assert_eq!(bytes, b"\0\0\0\x06\"stop\"");
    }

    #[test]
    fn an_announced_length_takes_no_memory() {
        let error = read_frame::<String>(&mut &u32::MAX.to_be_bytes()[..]).unwrap_err();
        assert!(matches!(error, FrameError::TooLong { len, .. } if len == u32::MAX as usize));
        let cut = [&(MAX_FRAME as u32).to_be_bytes()[..], b"\"st"].concat();
        let error = read_frame::<String>(&mut &cut[..]).unwrap_err();
        assert!(matches!(error, FrameError::Stream(_)), "{error}");
    }
}
