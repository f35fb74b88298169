//! Traces: the gaps and sizes of recorded datagrams.

use netrig_core::capture::{self, CaptureError};
use netrig_core::{Duration, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::UDP_IPV4_HEADERS;

/// A datagram of a trace: the gap after the previous datagram (or after the start of the flow), and the payload.
pub type TracedDatagram = (Duration, Size);

/// Reason why a capture cannot be used as a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// It cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// It contains no packet to send.
    #[error("it contains no IP packet")]
    Empty,
}

/// The datagrams of a trace, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The datagrams, each with the gap before it and its payload: `["1.5 ms", "512 B"]`.
    #[serde(default)]
    pub datagrams: Vec<TracedDatagram>,
    /// A capture file (pcap or pcapng) instead of `datagrams`, relative to the experiment file. Each IP packet in it
    /// becomes a datagram whose packet has the same length. When the experiment file is read, its datagrams replace the
    /// file name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<String>,
    /// Whether the trace is repeated; otherwise nothing is sent after its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat: bool,
}

impl Trace {
    /// The datagrams of a capture, one for each IP packet, in the order of time. The payload is the IP packet length
    /// minus the length of the UDP and IPv4 headers. The first datagram is sent without a gap.
    ///
    /// # Errors
    /// If the bytes are not a capture file, are damaged, or contain no IP packet.
    pub fn datagrams_of(capture: &[u8]) -> Result<Vec<TracedDatagram>, TraceError> {
        let mut packets = Vec::new();
        capture::read(capture, |packet| packets.extend(packet.ip_len().map(|len| (packet.at_ns, len))))?;
        packets.sort_by_key(|(at, _)| *at);
        let mut last = packets.first().ok_or(TraceError::Empty)?.0;
        Ok(packets
            .into_iter()
            .map(|(at, len)| {
                let gap = at - std::mem::replace(&mut last, at);
                let payload = len.saturating_sub(UDP_IPV4_HEADERS);
                (Duration::from_nanos(gap), Size::from_bytes(payload.into()))
            })
            .collect())
    }

    /// Time from the start of the trace to its last datagram.
    pub(crate) fn span(&self) -> Duration {
        self.datagrams.iter().fold(Duration::ZERO, |span, (gap, _)| span + *gap)
    }

    pub(crate) fn payload(&self) -> f64 {
        self.datagrams.iter().map(|(_, size)| size.bytes() as f64).sum()
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::{Frame, Heading, Instant, pcapng};

    use super::*;

    /// A capture file with IPv4 headers, each with a time in microseconds and an IP packet length.
    fn captured(packets: &[(u64, u16)]) -> Vec<u8> {
        let mut file = vec![];
        pcapng::section(&mut file, "netrig", "a trace");
        pcapng::interface(&mut file, pcapng::LinkType::RawIp, ("client", ""), 0);
        for (us, len) in packets {
            let [high, low] = len.to_be_bytes();
            let bytes = [0x45, 0, high, low];
            let at = Instant::ZERO + Duration::from_micros(*us);
            let original_len = u32::from(*len);
            let frame =
                Frame { at, node: 0, link: 0, heading: Heading::Inbound, bytes: &bytes, original_len };
            pcapng::packet(&mut file, 0, 0, &frame);
        }
        file
    }

    #[test]
    fn a_capture_gives_gaps_and_payloads() {
        let datagram = |us, bytes| (Duration::from_micros(us), Size::from_bytes(bytes));
        let datagrams = Trace::datagrams_of(&captured(&[(700, 528), (900, 20), (800, 1500)])).unwrap();
        assert_eq!(datagrams, [datagram(0, 500), datagram(100, 1472), datagram(100, 0)]);
    }

    #[test]
    fn what_is_no_capture_says_so() {
        assert_eq!(Trace::datagrams_of(&captured(&[])), Err(TraceError::Empty));
        assert_eq!(Trace::datagrams_of(b"text"), Err(CaptureError::Unknown.into()));
    }
}
