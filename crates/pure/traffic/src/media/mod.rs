//! Quality of voice and video for a listener or viewer, by the datagrams that arrived in time.

mod video;
mod voice;

use std::collections::BTreeMap;

use netrig_stats::playout::PlayoutPacket;

pub use video::VideoQuality;
pub use voice::CallQuality;

/// A received datagram of voice or video.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MediaArrival {
    /// Its index among all datagrams that were sent, from 0.
    pub number: u64,
    /// Time of sending, s.
    pub sent_s: f64,
    /// One-way delay, s.
    pub delay_s: f64,
}

/// The `sent` datagrams from number `first` on, in the order of sending, spaced by `spacing_s` unless their
/// time stamps say otherwise. The time of a lost datagram is unknown: it is assumed one spacing after its
/// predecessor. A talk spurt begins where more time passed between two received datagrams than their numbers
/// account for.
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
