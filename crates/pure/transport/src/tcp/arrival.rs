//! Processing of received segments (RFC 9293 section 3.10.7).

use netrig_core::{CloseReason, Data, Duration, Ecn, Instant};

use super::clock::ago;
use super::config::EcnMode;
use super::connection::{Connection, echoed};
use super::segment::{Flags, HEADER_LEN, Segment};
use super::sender::{Acknowledgement, Agreement};
use super::state::TcpState;
use crate::{Packet, Payload};

impl Connection {
    #[inline]
    pub(super) fn arrives(&mut self, now: Instant, segment: &mut Segment, ecn: Ecn) {
        match self.state {
            // The host handles segments for CLOSED (RFC 9293 section 3.10.7.1); see `refuse`.
            TcpState::Closed => {}
            TcpState::Listen => self.arrives_in_listen(segment),
            TcpState::SynSent => self.arrives_in_syn_sent(now, segment),
            _ => self.arrives_synchronised(now, segment, ecn),
        }
    }

    /// Handles a segment in state LISTEN (RFC 9293 section 3.10.7.2).
    fn arrives_in_listen(&mut self, segment: &Segment) {
        if segment.flags.contains(Flags::RST) {
            return;
        }
        if segment.flags.contains(Flags::ACK) {
            self.reset(segment);
        } else if segment.flags.contains(Flags::SYN) {
            self.take_syn(segment);
            self.state = TcpState::SynReceived;
            self.opening.due = true;
        }
    }

    /// Handles a segment in state SYN-SENT (RFC 9293 section 3.10.7.3).
    fn arrives_in_syn_sent(&mut self, now: Instant, segment: &Segment) {
        let acknowledges = segment.flags.contains(Flags::ACK);
        if acknowledges && segment.ack != self.iss.plus(1) {
            if !segment.flags.contains(Flags::RST) {
                self.reset(segment);
            }
            return;
        }
        if segment.flags.contains(Flags::RST) {
            if acknowledges {
                self.end(CloseReason::Refused);
            }
            return;
        }
        if !segment.flags.contains(Flags::SYN) {
            return;
        }
        self.take_syn(segment);
        if acknowledges {
            self.complete(now, segment);
            self.receiver.owe();
        } else {
            // RFC 9293 section 3.5, figure 8: simultaneous open.
            self.state = TcpState::SynReceived;
            self.opening.due = true;
        }
    }

    /// Takes the peer's initial sequence number, and the options that both ends offer.
    fn take_syn(&mut self, segment: &Segment) {
        let timestamp = segment.timestamps.map_or(0, |timestamps| timestamps.value);
        self.receiver.synchronise(segment.seq, timestamp);
        let answers = segment.flags.contains(Flags::ACK);
        // RFC 3168 section 6.1.1: ECE and CWR on a SYN request ECN. ECE alone on a SYN-ACK accepts it.
        self.options.ecn =
            match (answers, segment.flags.contains(Flags::ECE), segment.flags.contains(Flags::CWR)) {
                (false, true, true) => self.config.ecn != EcnMode::Off,
                (true, true, false) => self.config.ecn == EcnMode::Request,
                _ => false,
            };
        self.options.peer_mss = segment.mss;
        // RFC 7323 sections 2.2 and 3.2, RFC 2018 section 2: an option is used only if both ends offer it.
        self.options.scaling = self.config.window_scaling && segment.window_scale.is_some();
        if self.options.scaling {
            self.options.peer_shift = segment.window_scale.unwrap_or(0).min(14);
            self.options.shift = self.wanted_shift();
        }
        self.options.sack = self.config.sack && segment.sack_permitted;
        self.options.timestamps = self.config.timestamps && segment.timestamps.is_some();
    }

    /// Opens the connection: `segment` acknowledges this end's SYN.
    fn complete(&mut self, now: Instant, segment: &Segment) {
        let scaled = if segment.flags.contains(Flags::SYN) { 0 } else { self.options.peer_shift };
        let resent = self.opening.sent > 1;
        // RFC 6298 section 5.7: the round-trip time is not measured if the SYN was retransmitted, unless a timestamp
        // identifies the copy.
        let by_timestamp =
            segment.timestamps.filter(|_| self.options.timestamps).and_then(|t| echoed(now, t.echo));
        let (initial, measured) = match (resent, by_timestamp) {
            (false, _) => (self.config.rto_initial, Some(self.opening.sent_at)),
            (true, Some(rtt)) => (self.config.rto_initial, Some(ago(now, Duration::from_millis(rtt.into())))),
            (true, None) => (self.config.rto_after_syn_loss, None),
        };
        self.agree(u64::from(segment.window) << scaled, initial);
        if let Some(sent) = measured {
            self.sender.measured(sent, now);
        }
        self.establish();
    }

    /// Passes the negotiated options to the sending and the receiving half.
    pub(super) fn agree(&mut self, peer_window: u64, rto_initial: Duration) {
        self.receiver.agree(self.options.shift, self.options.sack);
        self.sender.agree(&Agreement {
            smss: self.effective_mss(),
            sack: self.options.sack,
            ecn: self.options.ecn,
            window: peer_window,
            rto_initial,
            cautious: self.opening.sent > 2,
        });
    }

    /// Handles a segment in SYN-RECEIVED or a synchronised state (RFC 9293 section 3.10.7.4).
    fn arrives_synchronised(&mut self, now: Instant, segment: &mut Segment, ecn: Ecn) {
        if self.is_predicted(segment) {
            if segment.ack == self.iss.plus(self.sender.una() as u32) {
                if self.accept_predicted_data(now, segment) {
                    return;
                }
            } else if self.accept_predicted_acknowledgement(now, segment) {
                return;
            }
        }
        let start = self.receiver.offset(segment.seq);
        if !self.passes_checks(now, segment, start) {
            return;
        }
        let flags = segment.flags;
        let number = i64::from(segment.ack.offset_from(self.iss.plus(self.sender.una() as u32)))
            + self.sender.una() as i64;
        if self.state == TcpState::SynReceived {
            // Fifth step, SYN-RECEIVED: the segment must acknowledge this end's SYN.
            if segment.ack != self.iss.plus(1) {
                self.reset(segment);
                return;
            }
            self.complete(now, segment);
        }
        if number > self.sender.highest_acknowledgeable() as i64 {
            self.receiver.owe();
            return;
        }
        if let Some(timestamps) = segment.timestamps.filter(|_| self.options.timestamps) {
            self.receiver.note_timestamp(start, timestamps.value);
        }
        if self.options.ecn {
            self.note_congestion(flags, ecn);
        }
        if number >= self.sender.una() as i64 {
            self.take_acknowledgement(now, segment, start, number as u64);
        }
        let carries = segment.carries_data() || flags.contains(Flags::FIN);
        if carries && self.state.may_receive() {
            let fin = flags.contains(Flags::FIN);
            let (events, counters) = (&mut self.events, &mut self.telemetry.counters);
            let data = std::mem::replace(&mut segment.data, Data::Fill(0));
            self.receiver.accept(now, start, data, fin, events, counters);
            if self.receiver.is_finished() {
                self.peer_finished(now);
            }
        } else if carries && self.state == TcpState::TimeWait {
            // Eighth step, TIME-WAIT: acknowledge the FIN again, and restart the timer.
            self.receiver.owe();
            self.wait(now);
        }
    }

    /// Whether the segment is a candidate for header prediction (Jacobson 1990; RFC 1323, appendix D).
    #[inline]
    fn is_predicted(&self, segment: &Segment) -> bool {
        let stamped = match segment.timestamps {
            Some(timestamps) => self.options.timestamps && !self.receiver.is_outdated(timestamps.value),
            None => !self.options.timestamps,
        };
        (segment.flags == Flags::ACK || segment.flags == Flags::ACK | Flags::PSH)
            && stamped
            && self.state == TcpState::Established
            && !self.options.ecn
            && segment.sack.is_empty()
            && segment.seq == self.receiver.next_number()
    }

    /// Accepts the next in-order data if this end has nothing outstanding. Returns false if the segment needs the full
    /// processing.
    #[inline]
    fn accept_predicted_data(&mut self, now: Instant, segment: &Segment) -> bool {
        let window = u64::from(segment.window) << self.options.peer_shift;
        if !self.receiver.is_next_in_order(&segment.data) || !self.sender.is_idle_with_window(window) {
            return false;
        }
        let start = self.receiver.next() as i64;
        self.note_predicted(start, segment);
        self.sender.confirm_window(start, self.sender.una());
        self.receiver.accept_in_order(
            now,
            segment.data.size(),
            &mut self.events,
            &mut self.telemetry.counters,
        );
        true
    }

    /// Accepts a segment without data that acknowledges new data, if there is no gap. Returns false if the segment
    /// needs the full processing.
    #[inline]
    fn accept_predicted_acknowledgement(&mut self, now: Instant, segment: &Segment) -> bool {
        if segment.data.size() > 0 {
            return false;
        }
        let una = self.sender.una();
        let advance = i64::from(segment.ack.offset_from(self.iss.plus(una as u32)));
        let number = una.wrapping_add_signed(advance);
        let window = u64::from(segment.window) << self.options.peer_shift;
        if advance <= 0 || number > self.sender.nxt() || !self.sender.may_acknowledge_fast(window) {
            return false;
        }
        let start = self.receiver.next() as i64;
        self.note_predicted(start, segment);
        let echo = segment.timestamps.and_then(|timestamps| echoed(now, timestamps.echo));
        self.sender.acknowledge_fast(now, start, number, echo, &mut self.telemetry);
        true
    }

    #[inline]
    fn note_predicted(&mut self, start: i64, segment: &Segment) {
        if let Some(timestamps) = segment.timestamps {
            self.receiver.note_timestamp(start, timestamps.value);
        }
    }

    /// Steps one to four: sequence number, RST and SYN. Security is not modelled. Returns false if the segment needs no
    /// further processing.
    fn passes_checks(&mut self, now: Instant, segment: &Segment, start: i64) -> bool {
        let flags = segment.flags;
        let special = flags.intersects(Flags::RST | Flags::SYN);
        // RFC 7323 section 3.2: a segment without the negotiated option is silently dropped.
        if self.options.timestamps && segment.timestamps.is_none() && !flags.contains(Flags::RST) {
            return false;
        }
        // PAWS (RFC 7323 section 5.3, R1).
        let outdated =
            self.options.timestamps && segment.timestamps.is_some_and(|t| self.receiver.is_outdated(t.value));
        if (outdated && !special) || !self.receiver.is_acceptable(start, segment.sequence_len()) {
            let repeated_syn =
                self.state == TcpState::SynReceived && flags.contains(Flags::SYN) && start == 0;
            if repeated_syn {
                // Either this end's SYN-ACK was lost, or both ends opened at the same time and the peer has received
                // this end's SYN.
                if flags.contains(Flags::ACK) && segment.ack == self.iss.plus(1) {
                    self.complete(now, segment);
                    self.receiver.owe();
                } else {
                    self.opening.due = true;
                }
            } else if !flags.contains(Flags::RST) {
                self.count_unacceptable(segment);
                self.receiver.owe_alone();
                if self.state == TcpState::TimeWait && flags.contains(Flags::FIN) {
                    self.wait(now);
                }
            }
            return false;
        }
        if flags.contains(Flags::RST) {
            // RFC 5961 section 3.2: a RST with exactly the next sequence number resets the connection. Any other RST in
            // the window causes a challenge ACK.
            if start == self.receiver.next() as i64 {
                match self.state {
                    TcpState::TimeWait => self.vanish(),
                    // RFC 9293 section 3.10.7.4. A passive end returns to LISTEN instead: the host drops this
                    // connection, and its listener remains.
                    TcpState::SynReceived if self.opened_actively => self.end(CloseReason::Refused),
                    _ => self.end(CloseReason::Aborted),
                }
            } else {
                self.receiver.owe_alone();
            }
            return false;
        }
        if flags.contains(Flags::SYN) {
            // RFC 5961 section 4.2: a SYN causes a challenge ACK.
            self.receiver.owe_alone();
            return false;
        }
        flags.contains(Flags::ACK)
    }

    /// Counts a segment whose data is entirely outside the window.
    fn count_unacceptable(&mut self, segment: &Segment) {
        let start = self.receiver.offset(segment.seq);
        let len = segment.data.size();
        if len > 0 {
            self.telemetry.counters.data_packets_received += 1;
            if start + len as i64 <= self.receiver.next() as i64 {
                self.telemetry.counters.bytes_duplicated += len;
                self.receiver.report_duplicate(start, len);
            }
        }
    }

    /// Handles the ECN bits of a received segment (RFC 3168 section 6.1.3).
    fn note_congestion(&mut self, flags: Flags, ecn: Ecn) {
        if flags.contains(Flags::CWR) {
            self.receiver.echo_congestion = false;
        }
        if ecn == Ecn::Ce {
            self.receiver.echo_congestion = true;
        }
    }

    fn take_acknowledgement(&mut self, now: Instant, segment: &Segment, start: i64, number: u64) {
        let timestamps = segment.timestamps.filter(|_| self.options.timestamps);
        let ack = Acknowledgement {
            number,
            window: u64::from(segment.window) << self.options.peer_shift,
            carrier: start,
            occupies: segment.carries_data() || segment.flags.contains(Flags::FIN),
            sack: &segment.sack,
            iss: self.iss,
            echoed: timestamps.and_then(|timestamps| echoed(now, timestamps.echo)),
            congestion: segment.flags.contains(Flags::ECE),
        };
        self.sender.on_acknowledgement(now, &ack, &mut self.telemetry);
        if self.sender.fin_acknowledged() {
            match self.state {
                TcpState::FinWait1 => self.state = TcpState::FinWait2,
                TcpState::Closing => self.enter_time_wait(now),
                TcpState::LastAck => self.end(CloseReason::Finished),
                _ => {}
            }
        }
    }

    /// Eighth step: handles the end of the peer's data. Its FIN and all data before it have arrived.
    fn peer_finished(&mut self, now: Instant) {
        self.peer_finished = true;
        self.report_end();
        match self.state {
            TcpState::Established => self.state = TcpState::CloseWait,
            TcpState::FinWait1 => self.state = TcpState::Closing,
            TcpState::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    fn enter_time_wait(&mut self, now: Instant) {
        self.state = TcpState::TimeWait;
        self.sender.stop();
        self.finish(CloseReason::Finished);
        self.wait(now);
    }

    fn wait(&mut self, now: Instant) {
        self.time_wait_until = now + self.config.time_wait;
    }

    /// Replies with a reset to a segment that cannot belong to this connection (RFC 9293 section 3.5.2, groups 1 and
    /// 2).
    fn reset(&mut self, segment: &Segment) {
        let header = netrig_core::Header {
            flow: self.flow.reversed(),
            ip_len: self.flow.ip_header_len() + HEADER_LEN,
            dscp: self.dscp,
            ecn: Ecn::NotEct,
        };
        let arrived = Packet { header, payload: Payload::Tcp(segment.clone()) };
        if let Some(reply) = super::connection::refuse(&arrived) {
            self.telemetry.counters.packets_sent += 1;
            self.replies.push_back(reply);
        }
    }
}
