//! What reached a listener or a viewer: calls and video, judged by the datagrams that came in time.

mod video;
mod voice;

use std::collections::BTreeMap;

use netrig_stats::playout::PlayoutPacket;

pub use video::VideoQuality;
pub use voice::CallQuality;

/// A datagram of voice or video that arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heard {
    /// Its place among all that were sent, from 0.
    pub number: u64,
    /// When it was sent, s.
    pub sent_s: f64,
    /// Its delay, s.
    pub delay_s: f64,
}

/// All datagrams from number `first` on, `sent` of them, in the order of their sending, one each `spacing_s` unless its time
/// says otherwise. When a lost one was sent nobody knows: it takes the place after the one before. A talk spurt begins where
/// more time passed between two that arrived than their numbers account for.
fn in_order(
    first: u64,
    sent: u64,
    spacing_s: f64,
    heard: impl IntoIterator<Item = Heard>,
) -> Vec<PlayoutPacket> {
    let beyond = first.saturating_add(sent);
    let heard: BTreeMap<u64, Heard> = heard
        .into_iter()
        .filter(|heard| (first..beyond).contains(&heard.number))
        .map(|heard| (heard.number, heard))
        .collect();
    let mut before: Option<Heard> = None;
    let mut last_s =
        heard.values().next().map_or(0.0, |heard| heard.sent_s - (heard.number - first) as f64 * spacing_s);
    let mut packets = Vec::new();
    for number in first..beyond {
        let Some(this) = heard.get(&number) else {
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
