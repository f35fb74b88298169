//! Video by RTP: datagrams that are the clip's packets from their first byte to their last, so that a player and a capture
//! see what they know. Their own header says what a stamp says of others.

use std::sync::Arc;

use netrig_core::{Duration, Instant};
use netrig_traffic::{Clip, Settings};

use crate::order::EndOrder;
use netrig_host::{DatagramStamp, PayloadKind};

/// The packets of a flow of video.
pub(crate) struct RtpStream {
    clip: Arc<Clip>,
    flow: u32,
    start: Instant,
}

impl RtpStream {
    /// Those of an order, if its application is video.
    pub fn of(order: &EndOrder) -> Option<Self> {
        let Settings::Video(video) = &order.application else { return None };
        Some(Self { clip: video.clip(), flow: order.flow, start: order.start() })
    }

    /// What a stamp would say of a datagram that arrived when number `expected` was the next. It counts as sent when its
    /// picture was due, as RTP's own time has it; nothing of one that differs from the clip's in any byte.
    pub fn stamp(&self, datagram: &[u8], expected: u64) -> Option<DatagramStamp> {
        let number = self.clip.number_of(datagram, expected)?;
        let sent = self.start + self.clip.due(number);
        Some(DatagramStamp { flow: self.flow, number, sent, late: Duration::ZERO, rest: PayloadKind::Fill })
    }
}
