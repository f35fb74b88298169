//! Shutdown of an association (RFC 9260 section 9).

use netrig_core::{CloseReason, Instant};

use super::{Association, AssociationState, PendingControl, Retry};
use crate::Serial;
use crate::sctp::packet::chunk::Abort;
use crate::sctp::packet::{Cause, Chunk};

impl Association {
    /// Takes the next step of the shutdown, if no unacknowledged data prevents it.
    pub(super) fn continue_shutdown(&mut self, now: Instant) {
        if self.state == AssociationState::Established && self.close_requested {
            self.state = AssociationState::ShutdownPending;
        }
        if self.queue.unsent() > 0 || !self.outstanding.is_empty() {
            return;
        }
        match self.state {
            // RFC 9260 section 9.2: SHUTDOWN is sent when all data has been acknowledged.
            AssociationState::ShutdownPending => {
                self.state = AssociationState::ShutdownSent;
                self.guard = now + self.config.rto_max.saturating_mul(5);
                self.retry = Retry { path: self.data_path, ..Retry::OFF };
                self.send_shutdown(now);
            }
            AssociationState::ShutdownReceived => {
                self.state = AssociationState::ShutdownAckSent;
                self.guard = now + self.config.rto_max.saturating_mul(5);
                self.retry = Retry { path: self.data_path, ..Retry::OFF };
                self.send_shutdown(now);
            }
            _ => {}
        }
    }

    /// Sends SHUTDOWN or SHUTDOWN ACK, depending on the state, and starts T2-shutdown.
    fn send_shutdown(&mut self, now: Instant) {
        let chunk = match self.state {
            AssociationState::ShutdownSent => Chunk::Shutdown(self.arrivals.cumulative()),
            _ => Chunk::ShutdownAck,
        };
        self.send_chunk(self.retry.path, chunk);
        self.set_retry(now, self.paths[self.retry.path].rto.rto());
    }

    /// T2-shutdown expired: retransmits the chunk, over another path if there is one (RFC 9260 section 9.2).
    pub(super) fn shutdown_expired(&mut self, now: Instant) {
        self.paths[self.retry.path].rto.back_off();
        self.errors += 1;
        if self.errors > self.config.association_max_retrans {
            self.finish(CloseReason::TimedOut);
            return;
        }
        self.report_control_timeout("T2-shutdown", self.errors, self.config.association_max_retrans);
        self.retry.path = self.alternate_of(self.retry.path);
        self.send_shutdown(now);
    }

    /// T5-shutdown-guard expired: the peer has not completed the shutdown (RFC 9260 section 9.2).
    pub(super) fn abandon_shutdown(&mut self) {
        self.guard = Instant::NEVER;
        self.abort_with(Cause::UserAbort(b"T5-shutdown-guard".to_vec()), CloseReason::TimedOut);
    }

    /// Handles a SHUTDOWN: the peer has no more data (RFC 9260 section 9.2).
    pub(super) fn handle_shutdown(&mut self, now: Instant, path: usize, cumulative: Serial) {
        match self.state {
            AssociationState::Established
            | AssociationState::ShutdownPending
            | AssociationState::ShutdownReceived => {
                self.state = AssociationState::ShutdownReceived;
                self.acknowledge_cumulative(now, cumulative);
                self.continue_shutdown(now);
            }
            // Both ends have sent SHUTDOWN. The peer's SHUTDOWN is answered immediately.
            AssociationState::ShutdownSent => {
                self.state = AssociationState::ShutdownAckSent;
                self.retry = Retry { path, ..Retry::OFF };
                self.send_shutdown(now);
            }
            _ => {}
        }
    }

    /// Handles a SHUTDOWN ACK in a packet with the tag `tag`.
    pub(super) fn handle_shutdown_ack(&mut self, path: usize, tag: u32) {
        match self.state {
            AssociationState::ShutdownSent | AssociationState::ShutdownAckSent => {
                self.answer(path, self.peer_tag, Chunk::ShutdownComplete { reflected: false });
                self.finish(CloseReason::Finished);
            }
            // RFC 9260 sections 8.4 (5) and 8.5.1 E: the chunk is out of the blue.
            AssociationState::CookieWait | AssociationState::CookieEchoed => {
                self.answer(path, tag, Chunk::ShutdownComplete { reflected: true });
            }
            _ => {}
        }
    }

    pub(super) fn handle_shutdown_complete(&mut self) {
        if self.state == AssociationState::ShutdownAckSent {
            self.finish(CloseReason::Finished);
        }
    }

    /// Handles DATA that arrives after SHUTDOWN was sent: "the SHUTDOWN chunk sender MUST immediately respond to each
    /// received packet containing one or more DATA chunks with a SHUTDOWN chunk and restart the T2-shutdown timer" (RFC
    /// 9260 section 9.2). It also clears the count of SHUTDOWN retransmissions.
    pub(super) fn repeat_shutdown(&mut self, now: Instant) {
        if self.state == AssociationState::ShutdownSent {
            self.errors = 0;
            self.send_shutdown(now);
        }
    }

    /// Sends an ABORT, and ends the association.
    pub(super) fn abort_with(&mut self, cause: Cause, reason: CloseReason) {
        match self.state {
            AssociationState::Closed => return,
            // No ABORT is sent, because the peer does not have the association, or its tag is unknown.
            AssociationState::New | AssociationState::CookieWait => {}
            _ => {
                let abort = Chunk::Abort(Abort { reflected: false, causes: vec![cause] });
                let packet = self.make_packet(self.data_path, self.peer_tag, [abort]);
                self.outgoing.clear();
                self.outgoing.push_back(PendingControl::Packet(packet));
            }
        }
        self.finish(reason);
    }
}
