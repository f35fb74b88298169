//! Messages that are prepared once and written many times.
//!
//! A [`Template`] is made of a strict [`Message`] with [`Hole::name`] wherever a call has its own value. Writing it
//! copies the fixed bytes between the holes and the [`HoleValues`]. Writing checks nothing: a message is correct if its
//! template and its values are correct.

use bytes::Bytes;
use netrig_core::named;

use crate::Message;
use crate::digits::Decimal;

named! {
    /// A variable part of a template. Its name is its placeholder in the message that a template is made of. No other text
    /// of a message contains it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Hole {
        /// `Call-ID`.
        CallId = "0hole-call-id0",
        /// The branch of the own `Via`.
        Branch = "0hole-branch0",
        /// The tag of this side.
        Tag = "0hole-tag0",
        /// The name of the sending user.
        User = "0hole-user0",
        /// The name of the called user.
        Peer = "0hole-peer0",
        /// The number of `CSeq`.
        CSeq = "0hole-cseq0",
        /// A Request-URI. The message has the URI `hole:target` in its place.
        Target = "hole:target",
        /// A whole value of `To` or `From`: that of the other side as it was received.
        Remote = "0hole-remote0",
        /// A whole value of `From`: that of this side.
        Local = "0hole-local0",
        /// The number in `Expires`, s.
        Expires = "0hole-expires0",
        /// The number in `RSeq`, or the value of `RAck`.
        Reliable = "0hole-reliable0",
        /// A part of the body: the version of a session description.
        Body = "0hole-body0",
        /// Header fields as whole lines: the `Route` fields of a dialog.
        Routes = "0hole-routes0",
        /// A header field as a whole line: `Authorization` or `Proxy-Authorization`.
        Authorization = "0hole-authorization0",
        /// Header fields as whole lines: those that a response copies from its request.
        Copied = "0hole-copied0",
        /// Header fields as whole lines: the session timer (RFC 4028).
        Session = "0hole-session0",
    }
}

impl Hole {
    /// Whether it is filled with whole lines, including their field names and line ends.
    const fn is_lines(self) -> bool {
        matches!(self, Self::Routes | Self::Authorization | Self::Copied | Self::Session)
    }
}

/// Values of the holes. A value that is not set is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct HoleValues<'a>([&'a [u8]; Hole::ALL.len()]);

impl<'a> HoleValues<'a> {
    /// Sets the value of a hole. Lines end with CR LF.
    #[must_use]
    pub const fn with(mut self, hole: Hole, value: &'a [u8]) -> Self {
        self.0[hole as usize] = value;
        self
    }

    const fn of(&self, hole: Hole) -> &'a [u8] {
        self.0[hole as usize]
    }
}

/// A part of a prepared message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TemplatePiece {
    /// Range of the fixed bytes.
    Fixed(u32, u32),
    Hole(Hole),
    /// The length of a body with holes.
    Length,
}

/// A message with holes.
#[derive(Clone, Debug)]
pub struct Template {
    fixed: Box<[u8]>,
    pieces: Box<[TemplatePiece]>,
    /// Number of fixed bytes in the body.
    body: usize,
    /// Holes in the body.
    in_body: Box<[Hole]>,
}

/// Why a message cannot be a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A hole for whole lines must be the whole value of a header field.
    #[error("`{0}` does not stand alone as the value of a header field")]
    NotALine(&'static str),
    /// A hole for whole lines cannot be in a body.
    #[error("`{0}` is in the body")]
    InTheBody(&'static str),
    /// The domain is not valid in a URI.
    #[error("the domain is not valid (RFC 3261 section 25.1, `host`)")]
    Domain,
}

impl Template {
    /// Prepares a message. `Content-Length` is computed for each written message.
    ///
    /// # Errors
    /// A hole is where it is not allowed.
    pub fn new(message: &Message) -> Result<Self, TemplateError> {
        Self::of_bytes(&message.to_bytes(), message.body().len())
    }

    fn of_bytes(message: &Bytes, body: usize) -> Result<Self, TemplateError> {
        let head = message.len() - body;
        let mut cutter = Cutter { message, fixed: Vec::new(), pieces: Vec::new() };
        let holes = cutter.holes(head)?;
        let in_body: Box<[Hole]> = holes.iter().filter(|(at, ..)| *at >= head).filter_map(hole_of).collect();
        let length = (!in_body.is_empty()).then(|| cutter.length(head, body)).flatten();
        let mut at = 0;
        for (start, end, piece) in merged(holes, length) {
            cutter.copy(at, start);
            cutter.pieces.push(piece);
            at = end;
        }
        cutter.copy(at, message.len());
        Ok(Self {
            fixed: cutter.fixed.into(),
            pieces: cutter.pieces.into(),
            body: body - in_body.iter().map(|hole| hole.name().len()).sum::<usize>(),
            in_body,
        })
    }

    /// Appends the message to `out`.
    pub fn write(&self, values: &HoleValues<'_>, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match *piece {
                TemplatePiece::Fixed(from, to) => {
                    out.extend_from_slice(&self.fixed[from as usize..to as usize])
                }
                TemplatePiece::Hole(hole) => out.extend_from_slice(values.of(hole)),
                TemplatePiece::Length => {
                    let filled: usize = self.in_body.iter().map(|hole| values.of(*hole).len()).sum();
                    let length = self.body + filled;
                    out.extend_from_slice(Decimal::new(length as u64).as_bytes());
                }
            }
        }
    }
}

type Cut = (usize, usize, TemplatePiece);

const fn hole_of((.., piece): &Cut) -> Option<Hole> {
    match piece {
        TemplatePiece::Hole(hole) => Some(*hole),
        TemplatePiece::Fixed(..) | TemplatePiece::Length => None,
    }
}

struct Cutter<'a> {
    message: &'a [u8],
    fixed: Vec<u8>,
    pieces: Vec<TemplatePiece>,
}

impl Cutter<'_> {
    fn copy(&mut self, from: usize, to: usize) {
        if from < to {
            let start = self.fixed.len() as u32;
            self.fixed.extend_from_slice(&self.message[from..to]);
            self.pieces.push(TemplatePiece::Fixed(start, self.fixed.len() as u32));
        }
    }

    /// All holes in their order, each with the range that it replaces.
    fn holes(&self, head: usize) -> Result<Vec<Cut>, TemplateError> {
        let mut found = Vec::new();
        for hole in Hole::ALL {
            for start in memchr::memmem::find_iter(self.message, hole.name()) {
                let end = start + hole.name().len();
                match hole {
                    _ if hole.is_lines() && start >= head => {
                        return Err(TemplateError::InTheBody(hole.name()));
                    }
                    _ if hole.is_lines() => found.push(self.lines(start, end, hole)?),
                    _ => found.push((start, end, TemplatePiece::Hole(hole))),
                }
            }
        }
        found.sort_unstable_by_key(|(start, ..)| *start);
        Ok(found)
    }

    /// The range of the whole line of a value.
    fn lines(&self, start: usize, end: usize, hole: Hole) -> Result<Cut, TemplateError> {
        let before = &self.message[..start];
        let line = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        // A message with a deliberate fault may have other line ends.
        let ends: [&[u8]; 2] = [b"\r\n", b"\n"];
        let line_end = ends.into_iter().find(|line_end| self.message[end..].starts_with(line_end));
        let is_alone =
            before.ends_with(b": ") && memchr::memchr(b':', &before[line..]) == Some(start - line - 2);
        match line_end {
            Some(line_end) if is_alone => Ok((line, end + line_end.len(), TemplatePiece::Hole(hole))),
            _ => Err(TemplateError::NotALine(hole.name())),
        }
    }

    /// The range of the number in `Content-Length`. A wrong number is kept.
    fn length(&self, head: usize, body: usize) -> Option<Cut> {
        let right = format!("Content-Length: {body}\r\n");
        let start = memchr::memmem::find(&self.message[..head], right.as_bytes())?;
        Some((start + "Content-Length: ".len(), start + right.len() - 2, TemplatePiece::Length))
    }
}

fn merged(mut holes: Vec<Cut>, length: Option<Cut>) -> Vec<Cut> {
    holes.extend(length);
    holes.sort_unstable_by_key(|(start, ..)| *start);
    holes
}
