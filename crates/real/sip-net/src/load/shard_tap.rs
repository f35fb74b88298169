//! The tap of one thread of a load.

use std::net::SocketAddr;

use netrig_core::Instant;
use netrig_host::{Clock, RealtimeOffset};
use netrig_sip::header::Transport;

use crate::tap::{MessageTap, PassedMessage};

/// A tap with the state that it needs for each message.
pub(super) struct ShardTap {
    pub(super) tap: Box<dyn MessageTap>,
    pub(super) clock: Clock,
    pub(super) offset: RealtimeOffset,
}

impl ShardTap {
    /// Passes on a message that was sent or received at this time at a local address.
    pub(super) fn message(
        &mut self,
        (at, transport): (Instant, Transport),
        is_sent: bool,
        [local, peer]: [SocketAddr; 2],
        bytes: &[u8],
    ) {
        let at_ns = self.offset.realtime(self.clock.epoch_nanos() + at.as_nanos());
        self.tap.message(&PassedMessage {
            at_ns,
            is_sent,
            local,
            peer,
            transport,
            is_of_script: false,
            bytes,
        });
    }
}
