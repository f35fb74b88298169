//! Outages and changes of a line at given times.

use std::collections::VecDeque;

use netrig_core::{
    Backlog, Delivery, Dequeue, DropReason, Dscp, Duration, InFlight, Instant, Lane, Link, LinkEvent,
    Observer, QueueDiscipline, Seeds, Waiting,
};
use netrig_link::{Line, LineSettings, Outage};

use crate::common::{END, Packet, Polling, Record, Step, at_ms, at_us, line, ms, packet, plain, play, us};

/// A line on which a packet takes 1 ms and the delay is 3 ms. Packets 0 to 5 arrive at 0 ms, packet 6 at 5 ms and
/// packet 7 at 11 ms. The line is down from 2.5 ms to 10 ms. When it goes down, packets 0 and 1 are on the line, packet
/// 2 is being sent, and packets 3 to 5 wait.
fn outage(queue: Waiting, in_flight: InFlight) -> Record {
    let offer = Step::Offer(1000);
    let mut schedule = vec![(Instant::ZERO, offer); 6];
    schedule.extend([
        (at_us(2500), Step::Apply(Outage { queue, in_flight }.down())),
        (at_ms(5), offer),
        (at_ms(10), Step::Apply(LinkEvent::Up)),
        (at_ms(11), offer),
    ]);
    let (record, _) = play(&plain(ms(3), 50), &schedule, Polling::AtTheEnd);
    assert_eq!(record.clone().sorted(), play(&plain(ms(3), 50), &schedule, Polling::WhenAsked).0.sorted());
    record
}

fn delivery(at: Instant, packet: Packet) -> Delivery<Packet> {
    Delivery { at, lane: Lane::ONLY, packet }
}

fn delivered(expected: &[(u64, u64)]) -> Vec<(Instant, u64)> {
    expected.iter().map(|(id, at)| (at_ms(*at), *id)).collect()
}

fn down(at: Instant, ids: &[u64]) -> Vec<(Instant, u64, DropReason)> {
    ids.iter().map(|id| (at, *id, DropReason::LinkDown)).collect()
}

#[test]
fn keep_and_deliver_only_holds_up_what_waits() {
    let record = outage(Waiting::Keep, InFlight::Deliver);
    assert_eq!(
        record.delivered,
        delivered(&[(0, 4), (1, 5), (2, 6), (3, 14), (4, 15), (5, 16), (6, 17), (7, 18)])
    );
    assert_eq!(record.dropped, []);
}

#[test]
fn keep_and_lose_loses_what_is_on_the_line() {
    let record = outage(Waiting::Keep, InFlight::Lose);
    assert_eq!(record.delivered, delivered(&[(3, 14), (4, 15), (5, 16), (6, 17), (7, 18)]));
    assert_eq!(record.dropped, down(at_us(2500), &[0, 1, 2]));
}

#[test]
fn drop_and_deliver_loses_what_waits_and_what_is_offered_meanwhile() {
    let record = outage(Waiting::Drop, InFlight::Deliver);
    assert_eq!(record.delivered, delivered(&[(0, 4), (1, 5), (2, 6), (7, 15)]));
    assert_eq!(record.dropped, [down(at_us(2500), &[3, 4, 5]), down(at_ms(5), &[6])].concat());
}

#[test]
fn drop_and_lose_loses_all() {
    let record = outage(Waiting::Drop, InFlight::Lose);
    assert_eq!(record.delivered, delivered(&[(7, 15)]));
    assert_eq!(record.dropped, [down(at_us(2500), &[3, 4, 5, 0, 1, 2]), down(at_ms(5), &[6])].concat());
}

#[test]
fn what_arrives_at_the_moment_of_the_outage_has_arrived() {
    let mut line = line(&plain(ms(3), 50));
    line.offer(Instant::ZERO, Lane::ONLY, packet(0, 1000), &mut ());
    line.apply(at_ms(4), Lane::ONLY, Outage::default().down(), &mut ());
    assert_eq!(line.poll_deliver(at_ms(9), &mut ()), Some(delivery(at_ms(4), packet(0, 1000))));
}

#[test]
fn a_packet_lost_half_sent_frees_the_line() {
    let mut line = line(&plain(Duration::ZERO, 50));
    let lose = Outage { queue: Waiting::Keep, in_flight: InFlight::Lose };
    line.offer(Instant::ZERO, Lane::ONLY, packet(0, 10_000), &mut ());
    line.apply(at_ms(1), Lane::ONLY, lose.down(), &mut ());
    line.apply(at_ms(2), Lane::ONLY, LinkEvent::Up, &mut ());
    line.offer(at_ms(3), Lane::ONLY, packet(1, 10_000), &mut ());
    assert_eq!(line.poll_timeout(), Some(at_ms(13)));
    // Busy time: 1 ms of the first packet, and the whole second packet (10 ms).
    assert_eq!(line.busy(at_ms(3)), ms(1));
    assert_eq!(line.busy(at_ms(8)), ms(6));
    assert_eq!(line.busy(at_ms(20)), ms(11));
}

#[test]
fn a_packet_that_is_still_being_sent_holds_up_the_line_after_the_outage() {
    let mut line = line(&plain(Duration::ZERO, 50));
    let deliver = Outage { queue: Waiting::Keep, in_flight: InFlight::Deliver };
    line.offer(Instant::ZERO, Lane::ONLY, packet(0, 10_000), &mut ());
    line.apply(at_ms(1), Lane::ONLY, deliver.down(), &mut ());
    line.apply(at_ms(2), Lane::ONLY, LinkEvent::Up, &mut ());
    line.offer(at_ms(3), Lane::ONLY, packet(1, 1_000), &mut ());
    let out: Vec<_> =
        std::iter::from_fn(|| line.poll_deliver(at_ms(99), &mut ())).map(|d| (d.at, d.packet.id)).collect();
    assert_eq!(out, [(at_ms(10), 0), (at_ms(11), 1)]);
}

#[test]
fn down_twice_is_down_and_the_last_one_says_how() {
    let keep = Outage { queue: Waiting::Keep, in_flight: InFlight::Deliver };
    let (mut line, mut record) = (line(&plain(Duration::ZERO, 50)), Record::default());
    line.apply(at_ms(1), Lane::ONLY, keep.down(), &mut record);
    line.offer(at_ms(2), Lane::ONLY, packet(0, 1000), &mut record);
    line.apply(at_ms(3), Lane::ONLY, Outage::default().down(), &mut record);
    line.offer(at_ms(4), Lane::ONLY, packet(1, 1000), &mut record);
    assert_eq!(record.dropped, [down(at_ms(3), &[0]), down(at_ms(4), &[1])].concat());
    line.apply(at_ms(5), Lane::ONLY, LinkEvent::Up, &mut record);
    line.apply(at_ms(6), Lane::ONLY, LinkEvent::Up, &mut record);
    line.offer(at_ms(7), Lane::ONLY, packet(2, 1000), &mut record);
    assert_eq!(line.poll_deliver(END, &mut record), Some(delivery(at_ms(8), packet(2, 1000))));
}

#[test]
fn a_queue_that_is_kept_still_has_its_limit() {
    let keep = Outage { queue: Waiting::Keep, in_flight: InFlight::Deliver };
    let mut schedule = vec![(Instant::ZERO, Step::Apply(keep.down()))];
    schedule.extend([(at_ms(1), Step::Offer(1000)); 4]);
    schedule.push((at_ms(2), Step::Apply(LinkEvent::Up)));
    let (record, _) = play(&plain(Duration::ZERO, 3), &schedule, Polling::AtTheEnd);
    assert_eq!(record.dropped, [(at_ms(1), 3, DropReason::QueueFull)]);
    assert_eq!(record.delivered, delivered(&[(0, 3), (1, 4), (2, 5)]));
}

#[test]
fn a_line_that_is_down_asks_for_nothing() {
    let keep = Outage { queue: Waiting::Keep, in_flight: InFlight::Deliver };
    let mut line = line(&plain(Duration::ZERO, 3));
    line.apply(Instant::ZERO, Lane::ONLY, keep.down(), &mut ());
    line.offer(at_ms(1), Lane::ONLY, packet(0, 1000), &mut ());
    assert_eq!((line.poll_timeout(), line.inside(Lane::ONLY)), (None, 1));
    assert_eq!(line.poll_deliver(Instant::NEVER, &mut ()), None);
}

#[test]
fn a_packet_on_the_line_keeps_its_rate_and_delay() {
    let offer = Step::Offer(1000);
    let slower = Step::Apply(LinkEvent::Rate { bits_per_s: 4_000_000 });
    let shorter = Step::Apply(LinkEvent::Delay(ms(1)));
    // Packet 0 is being sent when rate and delay change. Packet 1 starts at 1 ms, takes 2 ms, and overtakes packet 0.
    let schedule =
        [(Instant::ZERO, offer), (Instant::ZERO, offer), (at_us(500), slower), (at_us(500), shorter)];
    for polling in [Polling::AtTheEnd, Polling::WhenAsked] {
        let (record, _) = play(&plain(ms(9), 50), &schedule, polling);
        assert_eq!(record.delivered, [(at_ms(4), 1), (at_ms(10), 0)]);
    }
}

#[test]
fn packets_that_would_overtake_at_one_moment_arrive_in_the_order_of_sending() {
    let schedule = [
        (Instant::ZERO, Step::Offer(1000)),
        (at_ms(2), Step::Offer(1000)),
        (at_ms(5), Step::Apply(LinkEvent::Delay(ms(5)))),
        (at_ms(5), Step::Offer(1000)),
        (at_ms(9), Step::Apply(LinkEvent::Delay(ms(1)))),
        (at_ms(9), Step::Offer(1000)),
    ];
    let (record, _) = play(&plain(ms(10), 50), &schedule, Polling::WhenAsked);
    assert_eq!(record.delivered, delivered(&[(0, 11), (2, 11), (3, 11), (1, 13)]));
}

#[test]
fn random_loss_takes_the_place_of_other_random_loss() {
    let offer = Step::Offer(1000);
    let loss = |probability| Step::Apply(LinkEvent::Loss { probability });
    let mut settings = LineSettings { drop: vec![5], ..plain(Duration::ZERO, 50) };
    let schedule = [
        (0, offer),
        (1, loss(1.0)),
        (2, offer),
        (3, offer),
        (4, loss(0.0)),
        (5, offer),
        (6, offer),
        (7, offer),
    ]
    .map(|(at, step)| (at_ms(at), step));
    let (record, _) = play(&settings, &schedule, Polling::AtTheEnd);
    // The drop list still counts all packets that start onto the line, whether they are lost or not.
    let dropped =
        [(at_ms(2), 1, DropReason::Loss), (at_ms(3), 2, DropReason::Loss), (at_ms(6), 4, DropReason::Listed)];
    assert_eq!(record.dropped, dropped);
    settings.drop.clear();
    let (record, _) = play(&settings, &schedule, Polling::AtTheEnd);
    assert_eq!(record.dropped, dropped[..2]);
    settings.drop = vec![5];
    settings.loss = Some(serde_json::from_str(r#"{ "periodic": { "every": 1 } }"#).unwrap());
    let (record, _) = play(&settings, &schedule, Polling::AtTheEnd);
    assert_eq!(record.dropped, [&[(at_ms(0), 0, DropReason::Loss)][..], &dropped].concat());
}

/// A discipline with two classes: EF is served first. No other packet may leave before 11 ms.
struct Shaped(VecDeque<(Packet, Instant)>);

const EF: Dscp = Dscp(46);

impl QueueDiscipline<Packet> for Shaped {
    fn enqueue(&mut self, now: Instant, packet: Packet, _: &mut impl Observer<Packet>) {
        if packet.header.dscp == EF {
            self.0.push_front((packet, now))
        } else {
            self.0.push_back((packet, now))
        }
    }
    fn dequeue(&mut self, now: Instant, _: &mut impl Observer<Packet>) -> Dequeue<Packet> {
        if self.0.front().is_some_and(|(p, _)| p.header.dscp != EF) && now < at_ms(11) {
            return Dequeue::NotBefore(at_ms(11));
        }
        self.0.pop_front().map_or(Dequeue::Empty, |(packet, since)| Dequeue::Packet(packet, since))
    }
    fn clear(&mut self, _: Instant, _: DropReason, _: &mut impl Observer<Packet>) {
        self.0.clear();
    }
    fn backlog(&self) -> Backlog {
        Backlog { packets: self.0.len(), bytes: self.0.iter().map(|(p, _)| u64::from(p.header.ip_len)).sum() }
    }
}

#[test]
fn a_shaped_class_does_not_hold_up_the_line() {
    let mut line =
        Line::with_queue(Shaped(VecDeque::new()), &plain(us(0), 1), &Seeds::new(1), "test/forward").unwrap();
    let (rest, mut ef, mut record) = (packet(0, 1000), packet(1, 1000), Record::default());
    ef.header.dscp = EF;
    line.offer(Instant::ZERO, Lane::ONLY, rest, &mut record);
    assert_eq!(line.poll_timeout(), Some(at_ms(11)));
    line.offer(at_ms(3), Lane::ONLY, ef, &mut record);
    while line.poll_deliver(at_ms(99), &mut record).is_some() {}
    assert_eq!(record.delivered, [(at_ms(4), 1), (at_ms(12), 0)]);
    assert_eq!(record.served, [(at_ms(3), 1, ms(0)), (at_ms(11), 0, ms(11))]);
}
