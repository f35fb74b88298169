//! The two files of kept messages: the message log and the capture.
//!
//! The capture contains each datagram as an IP packet with the addresses and ports of sender and receiver. The segments
//! of a connection are unknown here, so its messages are exported PDUs (`LINKTYPE_WIRESHARK_UPPER_PDU`). For TLS, they
//! contain the decrypted text.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use etherparse::PacketBuilder;
use netrig_core::{Frame, Heading, Instant, pcapng};
use netrig_sip::header::Transport;
use netrig_sip_net::KeepOrder;
use netrig_sip_net::tap::KeptMessages;

use super::batch::MessageEvent;
use crate::trace::{LOG_HEADING, LogDirection, TracedMessage, export, write_entry};

/// Interface numbers in the capture.
const DATAGRAMS: u32 = 0;
const CONNECTIONS: u32 = 1;

/// Why the files of kept messages or records cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// A file with this name exists.
    #[error("{} exists and is not replaced: remove it, or select another file", .0.display())]
    Exists(PathBuf),
    /// A file cannot be created.
    #[error("cannot write {}: {error}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The system cannot start a thread.
    #[error("cannot start a thread that writes the messages: {0}")]
    NoThread(io::Error),
}

pub(super) struct KeepFiles {
    log: BufWriter<File>,
    capture: BufWriter<File>,
    kept: KeptMessages,
    most_bytes: u64,
    written: u64,
    /// One message in the format of each file. Reused, to avoid allocations.
    buffers: [Vec<u8>; 2],
}

impl KeepFiles {
    pub fn open(order: &KeepOrder) -> Result<Self, KeepError> {
        let [log, capture] = order.files();
        let most_bytes = order.most_bytes;
        // If one of the files exists, none is created.
        if let Some(there) = [&log, &capture].into_iter().find(|path| path.exists()) {
            return Err(KeepError::Exists(there.clone()));
        }
        let (open_log, open_capture) = (made(&log)?, made(&capture)?);
        let kept = KeptMessages { log, capture, ..KeptMessages::default() };
        let buffers = [Vec::new(), Vec::new()];
        let mut files = Self { log: open_log, capture: open_capture, kept, most_bytes, written: 0, buffers };
        files.buffers[0].extend_from_slice(LOG_HEADING.as_bytes());
        begin_capture(&mut files.buffers[1], "SIP messages of a load");
        files.put().map_err(|error| KeepError::File { path: files.kept.log.clone(), error })?;
        Ok(files)
    }

    /// Writes a message to both files. Returns false if the size limit or an error prevents it.
    pub fn write(&mut self, message: &MessageEvent, bytes: &[u8]) -> bool {
        if self.kept.fault.is_some() {
            return false;
        }
        let MessageEvent { at_ns, is_sent, local, peer, transport, .. } = *message;
        let (from, to) = if is_sent { (local, peer) } else { (peer, local) };
        let [log, capture] = &mut self.buffers;
        let direction = if is_sent { LogDirection::Sent } else { LogDirection::Received };
        let traced = TracedMessage { at_ns, from, to, transport, bytes: Bytes::copy_from_slice(bytes) };
        // Writing to memory does not fail.
        let _ = write_entry(log, direction, &traced);
        capture_message(capture, &traced, if is_sent { Heading::Outbound } else { Heading::Inbound });
        if self.written + self.buffers.iter().map(|buffer| buffer.len() as u64).sum::<u64>() > self.most_bytes
        {
            self.buffers.iter_mut().for_each(Vec::clear);
            return false;
        }
        match self.put() {
            Ok(()) => {
                self.kept.messages += 1;
                true
            }
            Err(error) => {
                self.kept.fault = Some(format!("writing ended: {error}"));
                false
            }
        }
    }

    /// Writes the buffers.
    fn put(&mut self) -> io::Result<()> {
        let [log, capture] = &mut self.buffers;
        self.written += (log.len() + capture.len()) as u64;
        let put = self.log.write_all(log).and_then(|()| self.capture.write_all(capture));
        [log, capture].into_iter().for_each(Vec::clear);
        put
    }

    /// Passes buffered bytes to the system.
    pub fn flush(&mut self) {
        let flushed = self.log.flush().and_then(|()| self.capture.flush());
        if let Err(error) = flushed {
            self.kept.fault.get_or_insert_with(|| format!("writing ended: {error}"));
        }
    }

    pub fn finish(mut self) -> KeptMessages {
        self.flush();
        self.kept
    }
}

fn begin_capture(capture: &mut Vec<u8>, title: &str) {
    pcapng::section(capture, "netrig", title);
    pcapng::interface(capture, pcapng::LinkType::RawIp, ("datagrams", "SIP over UDP"), 0);
    pcapng::interface(capture, pcapng::LinkType::ExportedPdu, ("connections", "SIP over TCP and TLS"), 0);
}

fn capture_message(capture: &mut Vec<u8>, message: &TracedMessage, heading: Heading) {
    let TracedMessage { at_ns, from, to, transport, ref bytes } = *message;
    let (interface, packet) = match transport {
        Transport::Udp => (DATAGRAMS, datagram(from, to, bytes)),
        _ => (CONNECTIONS, export([from, to], bytes)),
    };
    let at = Instant::from_nanos(at_ns);
    let original_len = packet.len() as u32;
    let frame = Frame { at, node: 0, link: 0, heading, bytes: &packet, original_len };
    pcapng::packet(capture, interface, 0, &frame);
}

/// A capture (pcapng) of these messages.
pub fn sip_capture<'a>(messages: impl IntoIterator<Item = &'a TracedMessage>) -> Vec<u8> {
    let mut capture = Vec::new();
    begin_capture(&mut capture, "SIP messages");
    for message in messages {
        capture_message(&mut capture, message, Heading::Outbound);
    }
    capture
}

pub(super) fn made(path: &Path) -> Result<BufWriter<File>, KeepError> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.map(BufWriter::new).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => KeepError::Exists(path.to_owned()),
        _ => KeepError::File { path: path.to_owned(), error },
    })
}

/// The IP packet of a datagram (RFC 791, RFC 8200, RFC 768).
fn datagram(from: SocketAddr, to: SocketAddr, data: &[u8]) -> Vec<u8> {
    const HOP_LIMIT: u8 = 64;
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let headers = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), HOP_LIMIT),
        (from, to) => PacketBuilder::ipv6(octets(from), octets(to), HOP_LIMIT),
    };
    let headers = headers.udp(from.port(), to.port());
    let mut packet = Vec::with_capacity(headers.size(data.len()));
    // The length of a datagram fits its length field, and writing to memory does not fail.
    let _ = headers.write(&mut packet, data);
    packet
}
