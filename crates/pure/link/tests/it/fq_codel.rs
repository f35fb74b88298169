//! Flow queue CoDel compared with the rules of RFC 8290, computed by hand.

use netrig_core::{Dequeue, DropReason, Instant, QueueDiscipline, Rate, Seeds, Size};
use netrig_link::Framing;
use netrig_link::queue::QueueContext;
use netrig_link::queue::fq_codel::{FqCodel, FqCodelQueue};

use crate::common::{Packet, Record, at_ms, header, ms};

fn settings() -> FqCodel {
    serde_json::from_str("{}").unwrap()
}

fn queue(settings: &FqCodel) -> FqCodelQueue<Packet> {
    settings.check().unwrap();
    let seeds = Seeds::new(1);
    let rate = Rate::from_bits_per_s(8_000_000);
    FqCodelQueue::new(settings, &QueueContext::new(&seeds, "test/forward", rate, Framing::None))
}

/// A packet of the flow from this port.
fn packet(id: u64, port: u16, ip_len: u32) -> Packet {
    let mut header = header(ip_len);
    header.flow.src_port = port;
    Packet { header, id }
}

fn next(queue: &mut FqCodelQueue<Packet>, now: Instant) -> Option<u64> {
    match queue.dequeue(now, &mut ()) {
        Dequeue::Packet(packet, _) => Some(packet.id),
        _ => None,
    }
}

#[test]
fn the_constants_are_those_of_the_rfc() {
    // RFC 8290 section 5.2: interval 100 ms, target 5 ms, 10240 packets, quantum 1514 B, 1024 queues.
    let FqCodel { packets, flows, quantum, target, interval, ecn } = settings();
    assert_eq!((packets, flows, quantum.bytes(), target, interval), (10_240, 1024, 1514, ms(5), ms(100)));
    assert!(!ecn);
}

/// Section 4.2: a new flow is served before a flow that has used its quantum.
#[test]
fn a_sparse_conversation_goes_first() {
    let mut queue = queue(&settings());
    (0..10).for_each(|id| queue.enqueue(at_ms(0), packet(id, 1, 1000), &mut ()));
    // Two packets of the first flow exceed its quantum of 1514 B: it is an old flow from then on.
    assert_eq!([next(&mut queue, at_ms(1)), next(&mut queue, at_ms(2))], [Some(0), Some(1)]);
    queue.enqueue(at_ms(2), packet(100, 2, 200), &mut ());
    assert_eq!(next(&mut queue, at_ms(3)), Some(100));
    assert_eq!(next(&mut queue, at_ms(4)), Some(2));
}

/// Section 4.2: an empty new queue becomes an old queue, so that it gets no second turn before the other queues.
#[test]
fn a_conversation_does_not_stay_ahead_by_sending_little() {
    let mut queue = queue(&settings());
    (0..10).for_each(|id| queue.enqueue(at_ms(0), packet(id, 1, 1000), &mut ()));
    assert_eq!([next(&mut queue, at_ms(1)), next(&mut queue, at_ms(2))], [Some(0), Some(1)]);
    queue.enqueue(at_ms(3), packet(100, 2, 200), &mut ());
    assert_eq!(next(&mut queue, at_ms(3)), Some(100));
    // At this moment the queue of the second flow is found empty.
    assert_eq!(next(&mut queue, at_ms(4)), Some(2));
    queue.enqueue(at_ms(4), packet(101, 2, 200), &mut ());
    // The first flow has credits for another packet: 2 · 1514 − 3 · 1000 B are above zero.
    assert_eq!([next(&mut queue, at_ms(5)), next(&mut queue, at_ms(6))], [Some(3), Some(101)]);
}

/// Two backlogged flows, one with packets of 1500 B and one of 300 B, get a quantum in turn. The bytes that they have
/// sent differ by at most a quantum and the longest packet.
#[test]
fn conversations_share_by_bytes() {
    let mut queue = queue(&FqCodel { target: ms(100_000), interval: ms(200_000), ..settings() });
    (0..400).for_each(|id| queue.enqueue(at_ms(0), packet(id, 1, 1500), &mut ()));
    (400..2400).for_each(|id| queue.enqueue(at_ms(0), packet(id, 2, 300), &mut ()));
    let mut sent = [0i64; 2];
    for n in 0..2300 {
        let id = next(&mut queue, at_ms(n)).unwrap();
        sent[usize::from(id >= 400)] += if id < 400 { 1500 } else { 300 };
        if queue.backlog().packets > 0 && sent.iter().all(|bytes| *bytes < 590_000) {
            assert!((sent[0] - sent[1]).abs() <= 1514 + 1500, "{sent:?}");
        }
    }
}

/// Section 4.1: if the limit is exceeded, the packet at the head of the queue with the most bytes is dropped, not the
/// arriving packet.
#[test]
fn the_longest_queue_loses_its_oldest() {
    let mut queue = queue(&FqCodel { packets: 4, ..settings() });
    let mut record = Record::default();
    (0..3).for_each(|id| queue.enqueue(at_ms(0), packet(id, 1, 1000), &mut record));
    // These two flows have more packets than the first flow, but fewer bytes.
    (3..5).for_each(|id| queue.enqueue(at_ms(1), packet(id, 2, 100), &mut record));
    (5..7).for_each(|id| queue.enqueue(at_ms(2), packet(id, 3, 100), &mut record));
    let dropped: Vec<_> = record.dropped.iter().map(|(_, id, why)| (*id, *why)).collect();
    assert_eq!(dropped, [0, 1, 2].map(|id| (id, DropReason::QueueFull)));
    assert_eq!(queue.backlog().packets, 4);
}

/// CoDel controls the delay of each flow separately: the flow with waits above the target loses packets, the other flow
/// loses none.
#[test]
fn only_the_conversation_that_fills_its_queue_loses_packets() {
    let mut queue = queue(&settings());
    let mut record = Record::default();
    (0..2000).for_each(|id| queue.enqueue(at_ms(0), packet(id, 1, 1000), &mut record));
    for n in 0..1000 {
        if n % 10 == 0 {
            queue.enqueue(at_ms(n), packet(10_000 + n, 2, 100), &mut record);
        }
        queue.dequeue(at_ms(n), &mut record);
    }
    assert!(record.dropped.len() > 10);
    assert!(record.dropped.iter().all(|(_, id, why)| *id < 2000 && *why == DropReason::Early));
    // RFC 8289: the first drop is one interval after the wait reaches the target.
    assert!(
        record.dropped[0].0 >= at_ms(105) && record.dropped[0].0 <= at_ms(107),
        "{:?}",
        record.dropped[0]
    );
}

#[test]
fn impossible_settings_of_fq_codel_are_refused_by_field() {
    for (settings, field) in [
        (FqCodel { packets: 0, ..settings() }, "packets"),
        (FqCodel { flows: 0, ..settings() }, "flows"),
        (FqCodel { quantum: Size::default(), ..settings() }, "quantum"),
        (FqCodel { interval: ms(5), ..settings() }, "interval"),
    ] {
        assert_eq!(settings.check().unwrap_err().field, field);
    }
}
