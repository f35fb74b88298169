//! A host with a receive service time for each packet.

use std::collections::VecDeque;

use netrig_core::{Duration, Instant, Sample, Sink, Subject, Timeline, quantity};
use netrig_experiment::Balance;
use netrig_link::wire::words;

use crate::agenda::Appointment;
use crate::parcel::Parcel;

/// Serves the packets that arrive at a node one after the other, before the endpoints on the node receive them.
pub(crate) struct ReceivingHost {
    node: u32,
    name: String,
    /// Largest number of waiting packets, not counting the one in service.
    room: usize,
    /// Packets in the order of arrival, each with the end of its service. The first packet is in service.
    waiting: VecDeque<(Instant, Parcel)>,
    free_at: Instant,
    busy: Duration,
    arrived: u64,
    served: u64,
    dropped: u64,
    /// The values of `busy` and `dropped` at the last tick.
    before: (Duration, u64),
    ticked: Instant,
    pub appointment: Appointment,
}

impl ReceivingHost {
    /// An idle host with this node number and name.
    pub fn new(node: u32, name: &str, room: u32) -> Self {
        Self {
            node,
            name: name.to_owned(),
            room: room as usize,
            waiting: VecDeque::new(),
            free_at: Instant::ZERO,
            busy: Duration::ZERO,
            arrived: 0,
            served: 0,
            dropped: 0,
            before: (Duration::ZERO, 0),
            ticked: Instant::ZERO,
            appointment: Appointment::default(),
        }
    }

    pub fn is_node(&self, node: usize) -> bool {
        self.node as usize == node
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// A packet that needs the service time `takes` arrives.
    pub fn take(&mut self, now: Instant, takes: Duration, parcel: Parcel) {
        self.arrived += 1;
        // The first packet is in service, not waiting.
        if self.waiting.len() > self.room {
            self.dropped += 1;
            return;
        }
        self.free_at = self.free_at.max(now) + takes;
        self.busy += takes;
        self.waiting.push_back((self.free_at, parcel));
    }

    /// The next packet whose service has ended by `now`, and the end of its service.
    pub fn served(&mut self, now: Instant) -> Option<(Instant, Parcel)> {
        let first = self.waiting.pop_front_if(|(at, _)| *at <= now);
        self.served += u64::from(first.is_some());
        first
    }

    /// The time at which to call [`ReceivingHost::served`] next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.waiting.front().map(|(at, _)| *at)
    }

    /// The balance of the packets that have arrived.
    pub fn balance(&self) -> Balance {
        Balance {
            offered: self.arrived,
            duplicated: 0,
            delivered: self.served,
            dropped: self.dropped,
            inside: self.waiting.len() as u64,
        }
    }

    /// Reports the interval since the last tick.
    pub fn tick(&mut self, now: Instant, timeline: &Timeline, sink: &mut dyn Sink) {
        let (busy, dropped) = (self.busy.saturating_sub(self.free_at.since(now)), self.dropped);
        let spent = busy.saturating_sub(self.before.0).as_secs_f64();
        let (subject, lost) = (Subject::Node(self.node), dropped - self.before.1);
        for (quantity, value) in [(&quantity::HOST_BUSY, spent), (&quantity::HOST_DROPPED, lost as f64)] {
            sink.sample(subject, Sample { at: now, quantity, value });
        }
        if lost > 0 {
            let words = || words::drops(&self.name, lost, "no room to receive", self.ticked);
            timeline.note(now, subject, words, sink);
        }
        (self.before, self.ticked) = ((busy, dropped), now);
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::{Data, Dscp, Ecn, FiveTuple, Header};
    use netrig_transport::{Datagram, Packet, Payload};

    use super::*;
    use crate::parcel::Carriage;

    fn parcel(number: u64) -> Parcel {
        let address = [10, 0, 0, 1].into();
        let flow = FiveTuple { src: address, dst: address, src_port: 1, dst_port: 2, protocol: 17 };
        let header = Header { flow, ip_len: 1000, dscp: Dscp::default(), ecn: Ecn::NotEct };
        let payload =
            Payload::Udp(Datagram { number, sent: Instant::ZERO, answers: None, data: Data::Fill(972) });
        Parcel(Box::new(Carriage { packet: Packet { header, payload }, conn: None, number: 0, stop: 0 }))
    }

    /// Five packets arrive at once and need a millisecond each. There is room for three in addition to the one in
    /// service.
    #[test]
    fn packets_are_served_one_after_the_other_as_far_as_there_is_room() {
        let mut host = ReceivingHost::new(0, "server", 3);
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        (0..5).for_each(|number| host.take(at(10), Duration::from_millis(1), parcel(number)));
        let served: Vec<_> = std::iter::from_fn(|| host.served(at(100))).map(|(at, _)| at).collect();
        assert_eq!(served, [11, 12, 13, 14].map(at));
        assert_eq!(host.dropped, 1);
        let all = Balance { offered: 5, duplicated: 0, delivered: 4, dropped: 1, inside: 0 };
        assert_eq!(host.balance(), all);
        host.take(at(50), Duration::from_millis(1), parcel(6));
        assert_eq!(host.balance(), Balance { offered: 6, inside: 1, ..all });
        assert!(host.served(at(50)).is_none() && host.served(at(51)).is_some());
    }
}
