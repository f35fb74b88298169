//! Video over RTP. Each datagram is a packet of the clip, byte for byte, so that players and captures can decode it. The
//! RTP header takes the role of the stamp of other datagrams.

use std::sync::Arc;

use netrig_core::{Duration, Instant};
use netrig_traffic::{Clip, Settings};

use crate::order::EndOrder;
use netrig_host::{DatagramStamp, PayloadKind};

/// The packets of a video flow.
pub(crate) struct RtpStream {
    clip: Arc<Clip>,
    flow: u32,
    start: Instant,
}

impl RtpStream {
    /// The stream of an order, if its application is video.
    pub fn of(order: &EndOrder) -> Option<Self> {
        let Settings::Video(video) = &order.application else { return None };
        Some(Self { clip: video.clip(), flow: order.flow, start: order.start() })
    }

    /// The stamp equivalent to a datagram that arrived when number `expected` was the next. The datagram counts as sent when
    /// its picture was due by RTP time. Returns nothing if any byte differs from the clip's packet.
    pub fn stamp(&self, datagram: &[u8], expected: u64) -> Option<DatagramStamp> {
        let number = self.clip.number_of(datagram, expected)?;
        let sent = self.start + self.clip.due(number);
        Some(DatagramStamp { flow: self.flow, number, sent, late: Duration::ZERO, rest: PayloadKind::Fill })
    }
}
