//! Quality of voice and video as a listener or viewer perceives it, computed from the datagrams that arrived in time.

mod video;
mod voice;

use std::collections::BTreeMap;

use netrig_stats::playout::PlayoutPacket;

pub use video::VideoQuality;
pub use voice::CallQuality;

/// A received datagram of voice or video.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MediaArrival {
    /// Its number among all datagrams that were sent, from 0.
    pub number: u64,
    /// Time of sending, s.
    pub sent_s: f64,
    /// One-way delay, s.
    pub delay_s: f64,
}

/// The `sent` datagrams that begin with number `first`, in the order of sending. The sending time of a lost datagram is
/// unknown; it is assumed to be `spacing_s` after that of its predecessor. A talk spurt begins at a datagram if the
/// time since the previous received datagram is longer than their numbers and `spacing_s` explain.
fn in_order(
    first: u64,
    sent: u64,
    spacing_s: f64,
    received: impl IntoIterator<Item = MediaArrival>,
) -> Vec<PlayoutPacket> {
    let beyond = first.saturating_add(sent);
    let received: BTreeMap<u64, MediaArrival> = received
        .into_iter()
        .filter(|received| (first..beyond).contains(&received.number))
        .map(|received| (received.number, received))
        .collect();
    let mut before: Option<MediaArrival> = None;
    let mut last_s = received
        .values()
        .next()
        .map_or(0.0, |received| received.sent_s - (received.number - first) as f64 * spacing_s);
    let mut packets = Vec::new();
    for number in first..beyond {
        let Some(this) = received.get(&number) else {
            last_s += spacing_s;
            packets.push(PlayoutPacket { sent_s: last_s, delay_s: None, begins: false });
            continue;
        };
        let begins = before.is_none_or(|before| {
            let accounted = (this.number - before.number) as f64 + 0.5;
            this.sent_s - before.sent_s > accounted * spacing_s
        });
        packets.push(PlayoutPacket { sent_s: this.sent_s, delay_s: Some(this.delay_s), begins });
        (before, last_s) = (Some(*this), this.sent_s);
    }
    packets
}
