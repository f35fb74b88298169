//! Messages that are prepared once and written many times.
//!
//! A [`Template`] is made of a strict [`Message`] in which [`Hole::text`] stands wherever a call has its own words, and
//! is written by copying what stands between the holes and what [`HoleValues`] puts into them. What is prepared right is
//! written right as long as the values are: nothing is checked while it is written.

use bytes::Bytes;

use crate::Message;
use crate::digits::Decimal;
use crate::fault::Fault;

/// What differs between the messages of one template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hole {
    /// `Call-ID`.
    CallId,
    /// Of the own `Via`.
    Branch,
    /// The own tag.
    Tag,
    /// The user who sends.
    User,
    /// The user who is meant.
    Peer,
    /// The number of `CSeq`.
    CSeq,
    /// A Request-URI; written in the message as the URI `hole:target`.
    Target,
    /// A whole value of `To` or `From`: the other side as it has named itself.
    Remote,
    /// The same of this side.
    Local,
    /// A number of `Expires`, s.
    Expires,
    /// The number of `RSeq`, or what `RAck` says of it.
    Reliable,
    /// A part of the body of its own: the version of a session description.
    Body,
    /// Header fields as whole lines: the `Route`s of a dialog.
    Routes,
    /// A header field as a whole line: `Authorization` or `Proxy-Authorization`.
    Authorization,
    /// Header fields as whole lines: what a response repeats of its request.
    Copied,
    /// Header fields as whole lines: the session timer (RFC 4028).
    Session,
}

impl Hole {
    const ALL: [Self; 16] = [
        Self::CallId,
        Self::Branch,
        Self::Tag,
        Self::User,
        Self::Peer,
        Self::CSeq,
        Self::Target,
        Self::Remote,
        Self::Local,
        Self::Expires,
        Self::Reliable,
        Self::Body,
        Self::Routes,
        Self::Authorization,
        Self::Copied,
        Self::Session,
    ];

    /// What stands for it in the message that a template is made of: a token that no message has otherwise.
    pub const fn text(self) -> &'static str {
        match self {
            Self::CallId => "0hole-call-id0",
            Self::Branch => "0hole-branch0",
            Self::Tag => "0hole-tag0",
            Self::User => "0hole-user0",
            Self::Peer => "0hole-peer0",
            Self::CSeq => "0hole-cseq0",
            Self::Target => "hole:target",
            Self::Remote => "0hole-remote0",
            Self::Local => "0hole-local0",
            Self::Expires => "0hole-expires0",
            Self::Reliable => "0hole-reliable0",
            Self::Body => "0hole-body0",
            Self::Routes => "0hole-routes0",
            Self::Authorization => "0hole-authorization0",
            Self::Copied => "0hole-copied0",
            Self::Session => "0hole-session0",
        }
    }

    /// Whether it is filled with whole lines: its name and line end are the value's.
    const fn is_lines(self) -> bool {
        matches!(self, Self::Routes | Self::Authorization | Self::Copied | Self::Session)
    }
}

/// What is put into the holes. What is not set is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct HoleValues<'a>([&'a [u8]; Hole::ALL.len()]);

impl<'a> HoleValues<'a> {
    /// With `value` in each such hole. Lines end with CR LF.
    #[must_use]
    pub const fn with(mut self, hole: Hole, value: &'a [u8]) -> Self {
        self.0[hole as usize] = value;
        self
    }

    const fn of(&self, hole: Hole) -> &'a [u8] {
        self.0[hole as usize]
    }
}

/// A piece of a prepared message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TemplatePiece {
    /// Of the fixed bytes: from, to.
    Fixed(u32, u32),
    Hole(Hole),
    /// The length of the body, where the body has holes.
    Length,
}

/// A message with holes.
#[derive(Clone, Debug)]
pub struct Template {
    fixed: Box<[u8]>,
    pieces: Box<[TemplatePiece]>,
    /// Of the fixed bytes, how many are the body's.
    body: usize,
    /// The holes of the body.
    in_body: Box<[Hole]>,
}

/// Why a message is no template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A hole for whole lines must be all of a header field's value.
    #[error("`{0}` does not stand alone as the value of a header field")]
    NotALine(&'static str),
    /// A hole for whole lines cannot be in a body.
    #[error("`{0}` stands in the body")]
    InTheBody(&'static str),
    /// What the messages are made of follows no grammar.
    #[error("the domain is none (RFC 3261 section 25.1, `host`)")]
    Domain,
}

impl Template {
    /// Prepares a message. `Content-Length` is written as it comes out.
    ///
    /// # Errors
    /// A hole that cannot be where it stands.
    pub fn new(message: &Message) -> Result<Self, TemplateError> {
        Self::of_bytes(&message.to_bytes(), message.body().len())
    }

    /// Prepares a message that is wrong on purpose.
    ///
    /// # Errors
    /// A hole that cannot be where it stands.
    pub fn wrong(message: &Message, fault: Fault) -> Result<Self, TemplateError> {
        Self::of_bytes(&fault.spoil(message), message.body().len())
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
            body: body - in_body.iter().map(|hole| hole.text().len()).sum::<usize>(),
            in_body,
        })
    }

    /// Writes the message behind what `out` has.
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

    /// All holes in their order, each with what it takes the place of.
    fn holes(&self, head: usize) -> Result<Vec<Cut>, TemplateError> {
        let mut found = Vec::new();
        for hole in Hole::ALL {
            for start in memchr::memmem::find_iter(self.message, hole.text()) {
                let end = start + hole.text().len();
                match hole {
                    _ if hole.is_lines() && start >= head => {
                        return Err(TemplateError::InTheBody(hole.text()));
                    }
                    _ if hole.is_lines() => found.push(self.lines(start, end, hole)?),
                    _ => found.push((start, end, TemplatePiece::Hole(hole))),
                }
            }
        }
        found.sort_unstable_by_key(|(start, ..)| *start);
        Ok(found)
    }

    /// The whole line around a value.
    fn lines(&self, start: usize, end: usize, hole: Hole) -> Result<Cut, TemplateError> {
        let before = &self.message[..start];
        let line = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        // A message that is wrong on purpose may have another end of its lines.
        let ends: [&[u8]; 2] = [b"\r\n", b"\n"];
        let line_end = ends.into_iter().find(|line_end| self.message[end..].starts_with(line_end));
        let is_alone =
            before.ends_with(b": ") && memchr::memchr(b':', &before[line..]) == Some(start - line - 2);
        match line_end {
            Some(line_end) if is_alone => Ok((line, end + line_end.len(), TemplatePiece::Hole(hole))),
            _ => Err(TemplateError::NotALine(hole.text())),
        }
    }

    /// Where `Content-Length` says how long the body is. A wrong one is left as it is.
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
