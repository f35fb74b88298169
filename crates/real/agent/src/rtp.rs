//! Video over RTP. Each datagram equals a packet of the clip byte for byte, so that video players and packet analyzers
//! can decode it. The receiver identifies a datagram by its RTP header, because it has no stamp.

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

    /// The stamp that another application would have written into this datagram. `expected` is the number of the
    /// datagram that should arrive next. The send time in the stamp is the time at which the picture was due by its RTP
    /// time stamp. Returns `None` if any byte differs from the clip's packet.
    pub fn stamp(&self, datagram: &[u8], expected: u64) -> Option<DatagramStamp> {
        let number = self.clip.number_of(datagram, expected)?;
        let sent = self.start + self.clip.due(number);
        Some(DatagramStamp { flow: self.flow, number, sent, late: Duration::ZERO, rest: PayloadKind::Fill })
    }
}
