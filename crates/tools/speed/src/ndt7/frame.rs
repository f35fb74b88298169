//! WebSocket frames (RFC 6455 section 5).

use super::LONGEST_MESSAGE;

/// Maximum length of an accepted text message, bytes. A measurement has a few hundred bytes.
pub const LONGEST_TEXT: usize = 64 * 1024;

/// Maximum payload of a control frame, bytes (section 5.5).
const LONGEST_CONTROL: u64 = 125;

/// Maximum length of the head of a frame, bytes: two bytes, a length of eight bytes and a masking key of four.
const LONGEST_HEAD: usize = 14;

/// The opcode of a frame (section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// Continuation of a message.
    Continuation = 0,
    /// Text.
    Text = 1,
    /// Binary data.
    Binary = 2,
    /// Close.
    Close = 8,
    /// Ping.
    Ping = 9,
    /// Pong.
    Pong = 10,
}

impl Opcode {
    fn from_bits(bits: u8) -> Option<Self> {
        use Opcode::{Binary, Close, Continuation, Ping, Pong, Text};
        [Continuation, Text, Binary, Close, Ping, Pong].into_iter().find(|opcode| *opcode as u8 == bits)
    }

    const fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// An item that is decoded from a stream of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameItem {
    /// A number of bytes of a binary message. The bytes themselves are not kept.
    Binary(u64),
    /// A text message.
    Text(String),
    /// A ping, with the payload that its answer must repeat.
    Ping(Vec<u8>),
    /// A pong.
    Pong(Vec<u8>),
    /// A close frame, with its status code if it has one.
    Close(Option<CloseCode>),
}

/// The status code of a close (section 7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseCode(pub u16);

impl CloseCode {
    /// Normal closure.
    pub const NORMAL: Self = Self(1000);
    /// Protocol error.
    pub const PROTOCOL: Self = Self(1002);
    /// Message of an unsupported type.
    pub const UNSUPPORTED: Self = Self(1003);
    /// Text that is not UTF-8.
    pub const NOT_UTF8: Self = Self(1007);
    /// Policy violation.
    pub const POLICY: Self = Self(1008);
    /// Message that is too long.
    pub const TOO_LONG: Self = Self(1009);

    /// Whether the code may be sent in a frame.
    const fn may_be_sent(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}

/// A protocol error in a stream of frames. The stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame has a reserved bit or opcode.
    #[error("a frame with reserved bits or an unknown opcode")]
    Reserved,
    /// A frame has wrong masking: a client must mask its frames, and a server must not (section 5.1).
    #[error("a frame with wrong masking")]
    Mask,
    /// A length is not encoded minimally, or exceeds 2⁶³ - 1.
    #[error("a frame whose length is not encoded as required")]
    Length,
    /// A control frame is fragmented or too long.
    #[error("a fragmented control frame, or one of more than {LONGEST_CONTROL} bytes")]
    Control,
    /// A continuation has no message, or a new message begins before the end of another.
    #[error("a continuation without a message, or a message within another")]
    Fragment,
    /// A message is too long.
    #[error("a message of more than {LONGEST_MESSAGE} bytes, or text of more than {LONGEST_TEXT}")]
    TooLong,
    /// A text message is not UTF-8.
    #[error("text that is no UTF-8")]
    NotUtf8,
    /// A close frame has an incomplete or a forbidden code.
    #[error("a close frame without a valid code")]
    CloseCode,
}

impl FrameError {
    /// The status code of the close frame that is sent to the peer.
    pub const fn code(self) -> CloseCode {
        match self {
            Self::TooLong => CloseCode::TOO_LONG,
            Self::NotUtf8 => CloseCode::NOT_UTF8,
            _ => CloseCode::PROTOCOL,
        }
    }
}

/// Reads the frames of a WebSocket. It stores at most one text message and one control frame.
#[derive(Debug)]
pub struct FrameReader {
    /// Whether the peer is a client, whose frames are masked.
    masked: bool,
    head: Vec<u8>,
    frame: Option<PartialFrame>,
    /// The unfinished message: its opcode, and the length of its frames that have arrived.
    message: Option<(Opcode, u64)>,
    text: Vec<u8>,
    control: Vec<u8>,
}

/// A frame whose head has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartialFrame {
    fin: bool,
    opcode: Opcode,
    key: [u8; 4],
    length: u64,
    read: u64,
}

impl FrameReader {
    /// A reader for a server, which reads the frames of a client.
    pub const fn of_server() -> Self {
        Self {
            masked: true,
            head: Vec::new(),
            frame: None,
            message: None,
            text: Vec::new(),
            control: Vec::new(),
        }
    }

    /// A reader for a client, which reads the frames of a server.
    pub const fn of_client() -> Self {
        Self::new(false)
    }

    const fn new(masked: bool) -> Self {
        Self { masked, head: Vec::new(), frame: None, message: None, text: Vec::new(), control: Vec::new() }
    }

    /// Reads an item from the start of `bytes` and removes the bytes that were read. `None` if more bytes are needed.
    ///
    /// # Errors
    /// If the peer violates the protocol. The reader must not be used any further.
    pub fn read(&mut self, bytes: &mut &[u8]) -> Result<Option<FrameItem>, FrameError> {
        loop {
            if self.frame.is_none() {
                let Some(frame) = self.read_head(bytes)? else { return Ok(None) };
                self.begin(frame)?;
            }
            let Some(frame) = &mut self.frame else { return Ok(None) };
            let take = (frame.length - frame.read).min(bytes.len() as u64);
            // `take` is at most the length of `bytes`.
            let (part, rest) = bytes.split_at(take as usize);
            *bytes = rest;
            let frame_before = *frame;
            frame.read += take;
            let ends = frame.read == frame.length;
            if ends {
                self.frame = None;
            }
            if let Some(item) = self.part(frame_before, part, ends)? {
                return Ok(Some(item));
            }
            if !ends {
                return Ok(None);
            }
        }
    }

    /// Reads the head of the next frame. `None` if it is not complete.
    fn read_head(&mut self, bytes: &mut &[u8]) -> Result<Option<PartialFrame>, FrameError> {
        while let Some(byte) = bytes.split_off_first() {
            self.head.push(*byte);
            if let Some(frame) = parse_head(&self.head, self.masked)? {
                self.head.clear();
                return Ok(Some(frame));
            }
            debug_assert!(self.head.len() < LONGEST_HEAD, "a head ends");
        }
        Ok(None)
    }

    /// Checks that a frame is allowed at this point.
    fn begin(&mut self, frame: PartialFrame) -> Result<(), FrameError> {
        if frame.opcode.is_control() {
            if !frame.fin || frame.length > LONGEST_CONTROL {
                return Err(FrameError::Control);
            }
        } else {
            let (kind, before) = match (frame.opcode, self.message) {
                (Opcode::Continuation, Some(message)) => message,
                (Opcode::Text | Opcode::Binary, None) => (frame.opcode, 0),
                _ => return Err(FrameError::Fragment),
            };
            let length = frame.length.saturating_add(before);
            let longest = if kind == Opcode::Text { LONGEST_TEXT as u64 } else { LONGEST_MESSAGE };
            if length > longest {
                return Err(FrameError::TooLong);
            }
            self.message = Some((kind, length));
        }
        self.frame = Some(frame);
        Ok(())
    }

    /// Handles a part of the payload of a frame, possibly the last.
    fn part(
        &mut self,
        frame: PartialFrame,
        part: &[u8],
        ends: bool,
    ) -> Result<Option<FrameItem>, FrameError> {
        let is_text = !frame.opcode.is_control() && matches!(self.message, Some((Opcode::Text, _)));
        let kept = if frame.opcode.is_control() { &mut self.control } else { &mut self.text };
        if frame.opcode.is_control() || is_text {
            // The index into the key is the index of the payload byte modulo 4 (section 5.3).
            kept.extend(part.iter().zip(frame.read..).map(|(byte, at)| byte ^ frame.key[(at % 4) as usize]));
        }
        if frame.opcode.is_control() {
            let payload = if ends { std::mem::take(&mut self.control) } else { return Ok(None) };
            return control(frame.opcode, payload).map(Some);
        }
        let last = ends && frame.fin;
        if last {
            self.message = None;
        }
        Ok(match (is_text, last) {
            (true, true) => {
                let text = std::mem::take(&mut self.text);
                Some(FrameItem::Text(String::from_utf8(text).map_err(|_| FrameError::NotUtf8)?))
            }
            (false, _) if !part.is_empty() => Some(FrameItem::Binary(part.len() as u64)),
            _ => None,
        })
    }
}

fn control(opcode: Opcode, payload: Vec<u8>) -> Result<FrameItem, FrameError> {
    match opcode {
        Opcode::Ping => Ok(FrameItem::Ping(payload)),
        Opcode::Pong => Ok(FrameItem::Pong(payload)),
        // Section 5.5.1: the payload is empty, or has a code of two bytes and a reason as text.
        _ if payload.is_empty() => Ok(FrameItem::Close(None)),
        _ => {
            let (code, reason) = payload.split_first_chunk().ok_or(FrameError::CloseCode)?;
            let code = CloseCode(u16::from_be_bytes(*code));
            std::str::from_utf8(reason).map_err(|_| FrameError::NotUtf8)?;
            if code.may_be_sent() { Ok(FrameItem::Close(Some(code))) } else { Err(FrameError::CloseCode) }
        }
    }
}

/// Decodes the head of a frame. `None` if it is incomplete.
fn parse_head(bytes: &[u8], masked: bool) -> Result<Option<PartialFrame>, FrameError> {
    let Some([first, second]) = bytes.first_chunk() else { return Ok(None) };
    let opcode = Opcode::from_bits(first & 0x0f).filter(|_| first & 0x70 == 0).ok_or(FrameError::Reserved)?;
    if (second & 0x80 != 0) != masked {
        return Err(FrameError::Mask);
    }
    let rest = &bytes[2..];
    let (length, rest) = match second & 0x7f {
        126 => match rest.split_first_chunk() {
            Some((length, rest)) => (u16::from_be_bytes(*length).into(), rest),
            None => return Ok(None),
        },
        127 => match rest.split_first_chunk() {
            Some((length, rest)) => (u64::from_be_bytes(*length), rest),
            None => return Ok(None),
        },
        short => (short.into(), rest),
    };
    let shortest = match second & 0x7f {
        126 => 126,
        127 => 1 << 16,
        _ => 0,
    };
    if length < shortest || length >> 63 != 0 {
        return Err(FrameError::Length);
    }
    let key = match (masked, rest.first_chunk()) {
        (false, _) => [0; 4],
        (true, Some(key)) => *key,
        (true, None) => return Ok(None),
    };
    Ok(Some(PartialFrame { fin: first & 0x80 != 0, opcode, key, length, read: 0 }))
}

/// Encodes the head of a frame that is a whole message. With a key, the caller must mask the payload.
pub fn head(opcode: Opcode, length: u64, key: Option<[u8; 4]>) -> Vec<u8> {
    let mut bytes = vec![0x80 | opcode as u8];
    let mask = if key.is_some() { 0x80 } else { 0 };
    match length {
        0..126 => bytes.push(mask | length as u8),
        126..0x1_0000 => {
            bytes.push(mask | 126);
            bytes.extend((length as u16).to_be_bytes());
        }
        _ => {
            bytes.push(mask | 127);
            bytes.extend(length.to_be_bytes());
        }
    }
    bytes.extend(key.iter().flatten());
    bytes
}

/// Encodes a whole message, masked if there is a key.
pub fn message(opcode: Opcode, payload: &[u8], key: Option<[u8; 4]>) -> Vec<u8> {
    let mut bytes = head(opcode, payload.len() as u64, key);
    let key = key.unwrap_or_default();
    bytes.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

/// Encodes a close frame with a reason of at most 123 bytes.
pub fn close(code: CloseCode, words: &str, key: Option<[u8; 4]>) -> Vec<u8> {
    debug_assert!(words.len() + 2 <= LONGEST_CONTROL as usize);
    message(Opcode::Close, &[&code.0.to_be_bytes(), words.as_bytes()].concat(), key)
}

#[cfg(test)]
mod tests;
