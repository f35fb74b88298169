//! Media of scenarios: packets of captures, streams from files, digits (RFC 4733), and echo.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use netrig_core::{Duration, Instant, capture};
use netrig_host::user_file;
use netrig_traffic::rtp::Packet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::{MediaKind, ScriptMedia};
use super::script::{CallScript, MediaEnds};
use crate::trace::datagram_payload;

/// Largest media file, bytes.
const LONGEST_MEDIA: u64 = 64 << 20;

/// The largest number of streams at the same time.
const MOST_PLAYS: usize = 100_000;

/// The largest number of datagrams that are read from a socket before other sockets are read.
const ECHOED_AT_ONCE: usize = 256;

/// Time between two packets of a stream, or of a digit.
const FRAME: Duration = Duration::from_millis(20);

/// Time stamp units of [`FRAME`] at 8000 Hz.
const FRAME_UNITS: u32 = 160;

/// Number of packets of a digit with increasing duration, and number of its end packets (RFC 4733 section 2.5.1.4).
const DIGIT_PACKETS: u32 = 8;
const DIGIT_ENDS: u32 = 3;

/// Pause between two digits, in multiples of [`FRAME`].
const DIGIT_GAP: u32 = 5;

/// Sent and received media datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScriptMediaCounts {
    /// Sent.
    pub sent: u64,
    /// Datagrams that were sent back.
    pub echoed: u64,
    /// Received.
    pub received: u64,
    /// Datagrams that the kernel refused.
    pub unsent: u64,
    /// Datagrams that were more than 10 ms late.
    pub late: u64,
}

/// A datagram that is sent more than this time after it was due counts as late.
const LATE: Duration = Duration::from_millis(10);

/// A media file.
#[derive(Clone, Debug)]
enum MediaFile {
    /// UDP payloads with their times since the first.
    Capture(Arc<[(Duration, Bytes)]>),
    /// The bytes of a stream.
    Stream(Bytes),
}

/// The packets of a played stream.
#[derive(Debug)]
enum PlaySource {
    Packets { packets: Arc<[(Duration, Bytes)]>, next: usize },
    Stream(PlayedStream),
}

/// A played file whose bytes are the RTP payload.
#[derive(Debug)]
struct PlayedStream {
    file: Bytes,
    place: usize,
    /// Remaining repetitions of the file; `None` for endless.
    rounds: Option<u32>,
    payload_type: u8,
    /// Payload bytes per packet.
    size: usize,
    number: u32,
    source: u32,
}

#[derive(Debug)]
struct Play {
    call: u64,
    from: SocketAddr,
    to: SocketAddr,
    began: Instant,
    source: PlaySource,
    /// When the stream was paused; `None` if it is not paused.
    paused: Option<Instant>,
}

/// Plays the media of all calls.
#[derive(Debug, Default)]
pub(super) struct ScriptPlayer {
    files: BTreeMap<String, MediaFile>,
    sockets: BTreeMap<SocketAddr, UdpSocket>,
    plays: BTreeMap<u64, Play>,
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    next: u64,
    echoes: bool,
    /// Sent and received datagrams.
    pub counts: ScriptMediaCounts,
}

impl ScriptPlayer {
    /// Reads all media files of a script. A relative path that does not exist is relative to `folder`.
    ///
    /// # Errors
    /// If one of them cannot be read, in words.
    pub fn new(script: &CallScript, folder: &Path) -> Result<Self, String> {
        let mut player = Self::default();
        for (line, media) in script.media() {
            match media {
                ScriptMedia::Capture(_, file) if !player.files.contains_key(&file) => {
                    let bytes = read(&file, folder).map_err(|why| format!("line {line}: {why}"))?;
                    let packets = payloads(&bytes).map_err(|why| format!("line {line}: {file}: {why}"))?;
                    player.files.insert(file, MediaFile::Capture(packets));
                }
                ScriptMedia::Stream(words) => {
                    let (file, ..) = stream_of(&words).map_err(|why| format!("line {line}: {why}"))?;
                    let bytes = read(file, folder).map_err(|why| format!("line {line}: {why}"))?;
                    if bytes.is_empty() {
                        return Err(format!("line {line}: {file} is empty"));
                    }
                    player.files.insert(file.to_owned(), MediaFile::Stream(bytes));
                }
                ScriptMedia::Digits(digits) => {
                    if let Some(wrong) = digits.chars().find(|digit| event_of(*digit).is_none()) {
                        return Err(format!(
                            "line {line}: `{wrong}` is not a digit: expected 0-9, *, #, A-D"
                        ));
                    }
                }
                _ => {}
            }
        }
        Ok(player)
    }

    /// Plays media of a call.
    ///
    /// # Errors
    /// If the media have no destination, or no socket can be opened, in words.
    pub fn play(
        &mut self,
        now: Instant,
        call: u64,
        media: &ScriptMedia,
        ends: &MediaEnds,
    ) -> Result<(), String> {
        let kind = match media {
            ScriptMedia::Capture(kind, _) => *kind,
            _ => MediaKind::Audio,
        };
        let stream = source_of(self.next);
        let source = match media {
            ScriptMedia::Control(word) => {
                self.control(now, call, word);
                return Ok(());
            }
            ScriptMedia::Capture(_, file) => match self.files.get(file) {
                Some(MediaFile::Capture(packets)) => {
                    PlaySource::Packets { packets: Arc::clone(packets), next: 0 }
                }
                _ => return Err(format!("{file} was not read")),
            },
            ScriptMedia::Digits(digits) => {
                PlaySource::Packets { packets: digit_packets(digits, ends.event_type, stream), next: 0 }
            }
            ScriptMedia::Stream(words) => {
                let (name, rounds, payload_type) = stream_of(words)?;
                let Some(MediaFile::Stream(file)) = self.files.get(name) else {
                    return Err(format!("{name} was not read"));
                };
                PlaySource::Stream(PlayedStream {
                    file: file.clone(),
                    place: 0,
                    rounds,
                    payload_type,
                    size: size_of(payload_type),
                    number: 0,
                    source: stream,
                })
            }
        };
        let (from, to) = ends.of(kind);
        let to = to.ok_or("no session description of the other side has a media address")?;
        if self.plays.len() >= MOST_PLAYS {
            return Err(format!("{MOST_PLAYS} streams are played already"));
        }
        self.open(from)?;
        let number = self.next;
        self.next += 1;
        self.plays.insert(number, Play { call, from, to, began: now, source, paused: None });
        self.due.push(Reverse((now, number)));
        Ok(())
    }

    /// Turns the echo of received packets on or off, for all sockets. If on, also opens a socket at `local`.
    ///
    /// # Errors
    /// If no socket can be opened.
    pub fn echo(&mut self, is_on: bool, local: SocketAddr) -> Result<(), String> {
        self.echoes = is_on;
        if is_on { self.open(local) } else { Ok(()) }
    }

    fn open(&mut self, local: SocketAddr) -> Result<(), String> {
        if self.sockets.contains_key(&local) {
            return Ok(());
        }
        let fault = |error: io::Error| format!("no socket for media at {local}: {error}");
        let socket = UdpSocket::bind(local).map_err(fault)?;
        socket.set_nonblocking(true).map_err(fault)?;
        self.sockets.insert(local, socket);
        Ok(())
    }

    fn control(&mut self, now: Instant, call: u64, word: &str) {
        for (number, play) in self.plays.iter_mut().filter(|(_, play)| play.call == call) {
            match (word.starts_with("pause"), play.paused) {
                (true, None) => play.paused = Some(now),
                (false, Some(since)) => {
                    play.began += now.since(since);
                    play.paused = None;
                    self.due.push(Reverse((now, *number)));
                }
                _ => {}
            }
        }
    }

    /// Ends the media of a call.
    pub fn end(&mut self, call: u64) {
        self.plays.retain(|_, play| play.call != call);
    }

    /// When the next datagram is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((due, _))| *due)
    }

    /// Sends due datagrams.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(Reverse((due, number))) =
            self.due.peek().copied().filter(|Reverse((due, _))| *due <= now)
        {
            self.due.pop();
            // A stream that has ended or is paused sends no datagram.
            let Some(play) = self.plays.get_mut(&number).filter(|play| play.paused.is_none()) else {
                continue;
            };
            let (packet, next) = play.source.next();
            if let Some(bytes) = packet {
                self.counts.late += u64::from(now.since(due) > LATE);
                let sent = self.sockets.get(&play.from).map(|socket| socket.send_to(&bytes, play.to));
                match sent {
                    Some(Ok(_)) => self.counts.sent += 1,
                    _ => self.counts.unsent += 1,
                }
            }
            match next {
                Some(offset) => self.due.push(Reverse((play.began + offset, number))),
                None => _ = self.plays.remove(&number),
            }
        }
    }

    /// Receives the waiting packets, and sends them back if the echo is on.
    pub fn receive(&mut self) {
        let mut buffer = [0; 2048];
        for socket in self.sockets.values() {
            for _ in 0..ECHOED_AT_ONCE {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else { break };
                self.counts.received += 1;
                if self.echoes {
                    match socket.send_to(&buffer[..length], from) {
                        Ok(_) => {
                            self.counts.sent += 1;
                            self.counts.echoed += 1;
                        }
                        Err(_) => self.counts.unsent += 1,
                    }
                }
            }
        }
    }

    /// The descriptors to poll, each with whether to wait until it is writable.
    pub fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        self.sockets.values().map(|socket| (socket.as_fd(), false))
    }
}

impl PlaySource {
    /// The next datagram, and the time of the one after it since the start of the stream. `None` after the last one.
    fn next(&mut self) -> (Option<Bytes>, Option<Duration>) {
        match self {
            Self::Packets { packets, next } => {
                let packet = packets.get(*next).map(|(_, bytes)| bytes.clone());
                *next += 1;
                (packet, packets.get(*next).map(|(offset, _)| *offset))
            }
            Self::Stream(stream) => {
                let packet = stream.packet();
                (packet, stream.goes_on().then(|| FRAME.saturating_mul(u64::from(stream.number))))
            }
        }
    }
}

impl PlayedStream {
    fn goes_on(&self) -> bool {
        self.rounds != Some(0)
    }

    fn packet(&mut self) -> Option<Bytes> {
        if !self.goes_on() {
            return None;
        }
        let end = (self.place + self.size).min(self.file.len());
        let packet = Packet {
            marker: self.number == 0,
            payload_type: self.payload_type,
            sequence: self.number as u16,
            timestamp: self.number.wrapping_mul(FRAME_UNITS),
            source: self.source,
            payload: &self.file[self.place..end],
        };
        let packet = packet.encode();
        self.place = end;
        self.number += 1;
        if self.place == self.file.len() {
            self.place = 0;
            self.rounds = self.rounds.map(|rounds| rounds - 1);
        }
        Some(packet.into())
    }
}

/// The source (SSRC) of the played stream with this number. Each has its own source, so that sequence numbers of a
/// second stream are not taken for duplicates (RFC 3550 section 8).
const fn source_of(number: u64) -> u32 {
    // The multiplier of Fibonacci hashing spreads consecutive numbers over all sources.
    (number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// Size of 20 ms of payload for a payload type, bytes (RFC 3551 section 6).
const fn size_of(payload_type: u8) -> usize {
    match payload_type {
        3 => 33,
        18 => 20,
        _ => 160,
    }
}

/// Parses `file,rounds,type`: file name, number of rounds and payload type of a stream. For −1 rounds, the number is
/// `None` (endless).
fn stream_of(words: &str) -> Result<(&str, Option<u32>, u8), String> {
    let mut parts = words.split(',').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty()).ok_or("expected a file in rtp_stream")?;
    let rounds: i64 = match parts.next() {
        None | Some("") => 1,
        Some(text) => text.parse().map_err(|_| format!("rtp_stream: `{text}` is not a number of rounds"))?,
    };
    let payload_type = match parts.next() {
        // As in SIPp, the default is PCMA.
        None | Some("") => 8,
        Some(text) => text
            .parse()
            .ok()
            .filter(|number| *number < 128)
            .ok_or_else(|| format!("rtp_stream: `{text}` is not a payload type"))?,
    };
    let rounds = if rounds < 0 { None } else { Some(u32::try_from(rounds.max(1)).unwrap_or(u32::MAX)) };
    Ok((name, rounds, payload_type))
}

/// The event of a digit (RFC 4733 section 3.2).
fn event_of(digit: char) -> Option<u8> {
    match digit.to_ascii_uppercase() {
        '0'..='9' => digit.to_digit(10).map(|number| number as u8),
        '*' => Some(10),
        '#' => Some(11),
        letter @ 'A'..='D' => Some(12 + (letter as u8 - b'A')),
        _ => None,
    }
}

/// Packets of digits: 160 ms each, with three end packets (RFC 4733 section 2.5.1).
fn digit_packets(digits: &str, payload_type: u8, source: u32) -> Arc<[(Duration, Bytes)]> {
    const END: u8 = 0x80;
    const VOLUME: u8 = 10;
    let mut packets = Vec::new();
    let (mut number, mut frame) = (0, 0);
    for event in digits.chars().filter_map(event_of) {
        let begin = frame;
        for place in 0..DIGIT_PACKETS + DIGIT_ENDS {
            let is_end = place >= DIGIT_PACKETS;
            let lasted = ((place.min(DIGIT_PACKETS - 1) + 1) * FRAME_UNITS) as u16;
            let [high, low] = lasted.to_be_bytes();
            let packet = Packet {
                marker: place == 0,
                payload_type,
                sequence: number as u16,
                // All packets of a digit have the time stamp of its start.
                timestamp: begin * FRAME_UNITS,
                source,
                payload: &[event, VOLUME | if is_end { END } else { 0 }, high, low],
            };
            packets.push((FRAME.saturating_mul(u64::from(frame)), packet.encode().into()));
            number += 1;
            if !is_end {
                frame += 1;
            }
        }
        frame += DIGIT_GAP;
    }
    packets.into()
}

fn read(file: &str, folder: &Path) -> Result<Bytes, String> {
    let mut path = PathBuf::from(file);
    if path.is_relative() && !path.exists() {
        path = folder.join(file);
    }
    let bytes = user_file::read(&path, LONGEST_MEDIA);
    bytes.map(Bytes::from).map_err(|error| format!("cannot read {file}: {error}"))
}

/// The payloads of all UDP datagrams of a capture, with their times since the first.
fn payloads(bytes: &[u8]) -> Result<Arc<[(Duration, Bytes)]>, String> {
    let mut packets: Vec<(u64, Bytes)> = Vec::new();
    let read = capture::read(bytes, |packet| {
        if let Some(payload) = packet.ip().and_then(datagram_payload) {
            packets.push((packet.at_ns, Bytes::from(payload)));
        }
    });
    if let Err(error) = read
        && packets.is_empty()
    {
        return Err(error.to_string());
    }
    let first = packets.first().ok_or("no UDP datagram in it")?.0;
    packets.sort_by_key(|(at, _)| *at);
    Ok(packets
        .into_iter()
        .map(|(at, bytes)| (Duration::from_nanos(at.saturating_sub(first)), bytes))
        .collect())
}

impl CallScript {
    /// All media actions, with their lines.
    pub fn media(&self) -> impl Iterator<Item = (usize, ScriptMedia)> {
        self.steps
            .iter()
            .chain(&self.opening)
            .flat_map(|step| step.actions.iter().filter_map(|action| Some((step.line, action.media()?))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digit_has_the_packets_of_rfc_4733() {
        let packets = digit_packets("1#", 101, 7);
        assert_eq!(packets.len(), 22);
        let (at, last) = &packets[10];
        assert_eq!((at.as_nanos(), last[12], last[13]), (160_000_000, 1, 0x80 | 10));
        assert_eq!(
            u16::from_be_bytes([last[14], last[15]]),
            8 * 160,
            "160 ms in all three packets of the end"
        );
        assert_eq!(
            (packets[0].1[1], packets[1].1[1]),
            (0x80 | 101, 101),
            "the marker is of the first packet"
        );
        assert_eq!(packets[11].1[12], 11);
        assert_eq!(packets[11].0, Duration::from_millis(260));
    }

    #[test]
    fn a_stream_is_cut_into_packets_of_20_ms() {
        let file = Bytes::from(vec![7; 400]);
        let stream = |rounds| PlayedStream {
            file: file.clone(),
            place: 0,
            rounds,
            payload_type: 0,
            size: 160,
            number: 0,
            source: 1,
        };
        let mut source = PlaySource::Stream(stream(Some(2)));
        let mut lengths = Vec::new();
        loop {
            let (packet, next) = source.next();
            lengths.extend(packet.map(|packet| packet.len() - 12));
            if next.is_none() {
                break;
            }
        }
        assert_eq!(lengths, [160, 160, 80, 160, 160, 80]);
        let mut endless = stream(None);
        assert!((0..100).all(|_| endless.packet().is_some()));
        assert_eq!(stream_of("a.wav,-1,8"), Ok(("a.wav", None, 8)));
        assert_eq!(stream_of("a.wav"), Ok(("a.wav", Some(1), 8)));
        assert!(stream_of("a.wav,x").is_err() && stream_of(",1").is_err() && stream_of("a,1,200").is_err());
    }
}
