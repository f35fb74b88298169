//! Jitter, loss, duplication, reordering, corruption and the drop list, compared with closed forms.

use netrig_core::{DropReason, Duration, Fraction, InFlight, Instant, LinkEvent, Seeds, Waiting};
use netrig_link::{
    Bernoulli, Corruption, Framing, Jitter, LineSettings, Loss, Outage, Pareto, Reorder, Shift, Spread,
};

use crate::common::{Polling, Record, Step, at_ms, line, ms, plain, play};

fn share(value: f64) -> Fraction {
    Fraction::new(value).unwrap()
}

/// Sends `n` packets of 1000 B, one every 2 ms, over a line that needs 1 ms per packet and has a delay of 50 ms.
fn run(n: u64, change: impl Fn(&mut LineSettings)) -> Record {
    let mut settings = plain(ms(50), 50);
    change(&mut settings);
    let schedule: Vec<_> = (0..n).map(|i| (at_ms(2 * i), Step::Offer(1000))).collect();
    play(&settings, &schedule, Polling::WhenAsked).0
}

/// The delay of each packet minus 50 ms, in seconds, by packet number.
fn deviations(record: &Record) -> Vec<f64> {
    let mut delivered = record.delivered.clone();
    delivered.sort_by_key(|(_, id)| *id);
    delivered.iter().map(|(at, id)| at.as_secs_f64() - at_ms(2 * id + 51).as_secs_f64()).collect()
}

fn jittered(n: u64, spread: Spread, keep_order: bool) -> Record {
    run(n, |line| line.jitter = Some(Jitter { spread: spread.clone(), keep_order }))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / values.len() as f64).sqrt()
}

const N: u64 = 100_000;

/// Five standard errors of the mean of `N` values with this standard deviation.
fn five_errors(deviation: f64) -> f64 {
    5.0 * deviation / (N as f64).sqrt()
}

#[test]
fn uniform_jitter_is_even_and_bounded() {
    let d = deviations(&jittered(N, Spread::Uniform(ms(10)), false));
    assert!(!d.is_empty() && d.iter().all(|d| d.abs() <= 0.010));
    // The variance is (2·10 ms)²/12. The standard error of a sample deviation is ≈ σ·√((κ − 1)/4n), with kurtosis κ =
    // 1.8.
    let sigma = 0.020 / 12f64.sqrt();
    assert!(mean(&d).abs() < five_errors(sigma));
    assert!((deviation(&d) - sigma).abs() < five_errors(sigma * 0.2f64.sqrt()));
}

#[test]
fn normal_jitter_has_its_deviation() {
    let d = deviations(&jittered(N, Spread::Normal(ms(5)), false));
    assert!(mean(&d).abs() < five_errors(0.005));
    assert!((deviation(&d) - 0.005).abs() < five_errors(0.005 * 0.5f64.sqrt()));
    // A share of 2·(1 − Φ(2)) = 4.55 % is beyond two standard deviations.
    let beyond = d.iter().filter(|d| d.abs() > 0.010).count() as f64 / N as f64;
    assert!((beyond - 0.0455).abs() < five_errors((0.0455f64 * 0.9545).sqrt()));
}

#[test]
fn a_delay_never_falls_below_zero() {
    let d = deviations(&jittered(10_000, Spread::Normal(ms(50)), false));
    // Without the limit, a share Φ(−1) of all delays would be negative.
    let at_zero = d.iter().filter(|d| **d <= -0.05 + 1e-12).count() as f64 / 10_000.0;
    assert!(!d.is_empty() && d.iter().all(|d| *d >= -0.05 - 1e-12));
    assert!((at_zero - 0.1587).abs() < 5.0 * (0.1587f64 * 0.8413 / 10_000.0).sqrt());
}

#[test]
fn exponential_and_pareto_jitter_only_add() {
    let d = deviations(&jittered(N, Spread::Exponential(ms(4)), false));
    assert!(!d.is_empty() && d.iter().all(|d| *d >= -1e-12));
    assert!((mean(&d) - 0.004).abs() < five_errors(0.004));
    // Shape 3, mean 6 ms: minimum 4 ms, variance mean²/(shape·(shape − 2)) = mean²/3.
    let d = deviations(&jittered(N, Spread::Pareto(Pareto { mean: ms(6), shape: 3.0 }), false));
    assert!(d.iter().all(|d| *d >= 0.004 - 1e-9));
    assert!((mean(&d) - 0.006).abs() < five_errors(0.006 / 3f64.sqrt()));
    // P(X > 8 ms) = (4/8)³.
    let beyond = d.iter().filter(|d| **d > 0.008).count() as f64 / N as f64;
    assert!((beyond - 0.125).abs() < five_errors((0.125f64 * 0.875).sqrt()));
}

#[test]
fn jitter_keeps_order_only_if_asked() {
    let in_order = |record: &Record| record.delivered.is_sorted_by_key(|(_, id)| *id);
    let (kept, free) =
        (jittered(2000, Spread::Uniform(ms(10)), true), jittered(2000, Spread::Uniform(ms(10)), false));
    assert!(in_order(&kept) && !in_order(&free));
    // Both runs use the same random numbers. So a packet that keeps the order arrives at its own time or with the
    // latest packet before it, whichever is later.
    let mut sorted = free.delivered.clone();
    sorted.sort_by_key(|(_, id)| *id);
    let mut latest = Instant::ZERO;
    for (at, _) in &mut sorted {
        latest = latest.max(*at);
        *at = latest;
    }
    assert_eq!(kept.delivered, sorted);
}

#[test]
fn nobody_waits_behind_a_packet_that_was_lost() {
    // In each round one packet is lost in flight, and another packet follows. The next round is much later.
    let lose = Outage { queue: Waiting::Keep, in_flight: InFlight::Lose }.down();
    let round = |i: u64| {
        let steps = [
            (0, Step::Offer(1000)),
            (2, Step::Apply(lose)),
            (2, Step::Apply(LinkEvent::Up)),
            (2, Step::Offer(1000)),
        ];
        steps.map(|(at, step)| (at_ms(200 * i + at), step))
    };
    let schedule: Vec<_> = (0..100).flat_map(round).collect();
    let deliveries = |keep_order| {
        let jitter = Some(Jitter { spread: Spread::Uniform(ms(50)), keep_order });
        play(&LineSettings { jitter, ..plain(ms(55), 50) }, &schedule, Polling::AtTheEnd).0.delivered
    };
    assert_eq!(deliveries(true).len(), 100);
    assert_eq!(deliveries(true), deliveries(false));
}

#[test]
fn reordered_packets_are_shifted_and_the_others_are_not() {
    for (shift, by, expected) in
        [(Shift::Later, ms(7), 0.007), (Shift::Earlier, ms(7), -0.007), (Shift::Earlier, ms(70), -0.05)]
    {
        let record = run(10_000, |line| line.reorder = Some(Reorder { probability: share(0.1), by, shift }));
        let d = deviations(&record);
        let shifted = d.iter().filter(|d| (**d - expected).abs() < 1e-9).count() as f64;
        assert_eq!(shifted as usize + d.iter().filter(|d| d.abs() < 1e-9).count(), 10_000);
        assert!((shifted / 10_000.0 - 0.1).abs() < 5.0 * (0.09f64 / 10_000.0).sqrt());
        assert!(!record.delivered.is_sorted_by_key(|(_, id)| *id));
    }
}

#[test]
fn reordering_breaks_the_order_that_jitter_keeps() {
    let record = run(2000, |line| {
        line.jitter = Some(Jitter { spread: Spread::Uniform(ms(3)), keep_order: true });
        line.reorder = Some(Reorder { probability: share(0.05), by: ms(20), shift: Shift::Later });
    });
    // Reordering has its own random stream: it shifts the same packets as on a line without jitter.
    let alone = run(2000, |line| {
        line.reorder = Some(Reorder { probability: share(0.05), by: ms(20), shift: Shift::Later })
    });
    let shifted: Vec<u64> =
        (0..).zip(deviations(&alone)).filter(|(_, d)| *d > 0.01).map(|(id, _)| id).collect();
    assert!(!shifted.is_empty());
    let others: Vec<u64> =
        record.delivered.iter().map(|(_, id)| *id).filter(|id| !shifted.contains(id)).collect();
    assert!(others.is_sorted());
    assert!(!record.delivered.is_sorted_by_key(|(_, id)| *id));
}

#[test]
fn a_duplicate_arrives_right_behind_its_original() {
    let record = run(10_000, |line| line.duplicate = Some(share(0.03)));
    let copies = record.duplicated.len();
    assert!((copies as f64 / 10_000.0 - 0.03).abs() < 5.0 * (0.03f64 * 0.97 / 10_000.0).sqrt());
    assert_eq!(record.delivered.len(), 10_000 + copies);
    let twins = record.delivered.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!(twins, copies);
}

#[test]
fn a_corrupted_packet_uses_the_line_and_is_dropped_as_it_arrives() {
    let record = run(10_000, |line| line.corrupt = Some(Corruption::Packets(share(0.02))));
    assert!((record.dropped.len() as f64 / 10_000.0 - 0.02).abs() < 5.0 * (0.02f64 * 0.98 / 10_000.0).sqrt());
    assert!(
        record.dropped.iter().all(|(at, id, why)| *at == at_ms(2 * id + 51) && *why == DropReason::Corrupted)
    );
    assert_eq!(record.served.len(), 10_000);
}

#[test]
fn bit_errors_hit_long_packets_more_often() {
    // 1 − (1 − 1e-5)^(8·len): 7.69 % of packets of 1000 B, 0.3195 % of packets of 40 B.
    let settings = LineSettings { corrupt: Some(Corruption::Bits(share(1e-5))), ..plain(ms(1), 50) };
    for (ip_len, bits) in [(1000, 8000), (40, 320)] {
        let schedule: Vec<_> = (0..N).map(|i| (at_ms(2 * i), Step::Offer(ip_len))).collect();
        let (record, _) = play(&settings, &schedule, Polling::WhenAsked);
        // The closed form, computed by repeated multiplication.
        let intact = (0..bits).fold(1.0, |p, _| p * (1.0 - 1e-5));
        let expected: f64 = 1.0 - intact;
        let corrupted = record.dropped.len() as f64 / N as f64;
        assert!((corrupted - expected).abs() < five_errors((expected * intact).sqrt()));
    }
}

#[test]
fn the_drop_list_hits_exactly_its_ordinals() {
    let record = run(100, |line| line.drop = vec![17, 3, 100, 3, 250]);
    let listed: Vec<_> =
        [3, 17, 100].map(|ordinal| (at_ms(2 * (ordinal - 1)), ordinal - 1, DropReason::Listed)).into();
    assert_eq!(record.dropped, listed);
    assert_eq!(record.delivered.len(), 97);
}

#[test]
fn the_drop_list_counts_what_starts_onto_the_line() {
    // Ten packets arrive at the same time: one is on the line, two wait, and the others are dropped. Ordinals 2 and 3
    // are packets 1 and 2. The eleventh packet, which arrives later, has ordinal 4.
    let settings = LineSettings { drop: vec![2, 4], ..plain(ms(0), 2) };
    let mut schedule = vec![(Instant::ZERO, Step::Offer(1000)); 10];
    schedule.push((at_ms(20), Step::Offer(1000)));
    let (record, _) = play(&settings, &schedule, Polling::AtTheEnd);
    let listed: Vec<u64> = record.dropped.iter().filter(|d| d.2 == DropReason::Listed).map(|d| d.1).collect();
    assert_eq!(listed, [1, 10]);
    // A lost packet uses the line: packet 2 arrives at the same time as without the loss.
    assert_eq!(record.delivered, [(at_ms(1), 0), (at_ms(3), 2)]);
}

#[test]
fn periodic_loss_counts_what_starts_onto_the_line() {
    let record = run(1000, |line| {
        line.loss = Some(serde_json::from_str(r#"{ "periodic": { "every": 25 } }"#).unwrap())
    });
    let lost: Vec<u64> = record.dropped.iter().map(|(_, id, _)| id + 1).collect();
    assert_eq!(lost, (1..=40).map(|i| 25 * i).collect::<Vec<_>>());
}

/// The lost packets depend only on the loss process, not on other impairments or on other losses.
#[test]
fn each_impairment_has_its_own_luck() {
    let loss = |p: f64| Some(Loss::Bernoulli(Bernoulli { probability: share(p) }));
    let ids = |record: &Record, reason| -> Vec<u64> {
        record.dropped.iter().filter(|(.., why)| *why == reason).map(|(_, id, _)| *id).collect()
    };
    let alone = run(5000, |line| line.loss = loss(0.05));
    let everything = |line: &mut LineSettings| {
        line.jitter = Some(Jitter { spread: Spread::Normal(ms(5)), keep_order: false });
        line.reorder = Some(Reorder { probability: share(0.1), by: ms(5), shift: Shift::Later });
        line.duplicate = Some(share(0.1));
        line.corrupt = Some(Corruption::Packets(share(0.1)));
    };
    let among_others = run(5000, |line| {
        line.loss = loss(0.05);
        everything(line);
    });
    assert_eq!(ids(&alone, DropReason::Loss), ids(&among_others, DropReason::Loss));
    // Conversely, loss does not change the delays of other packets.
    let without_loss = run(5000, everything);
    let arrivals: std::collections::BTreeSet<_> = without_loss.delivered.iter().copied().collect();
    assert!(
        !among_others.delivered.is_empty()
            && among_others.delivered.iter().all(|arrival| arrivals.contains(arrival))
    );
    // At a higher loss, the same packets are lost, and others too.
    let more = run(5000, |line| line.loss = loss(0.1));
    let more = ids(&more, DropReason::Loss);
    assert!(
        ids(&alone, DropReason::Loss).iter().all(|id| more.contains(id)) && more.len() > alone.dropped.len()
    );
}

/// The names of the random streams are a contract: other substrates draw from the same streams.
#[test]
fn chances_come_from_the_named_streams() {
    let stream = |what: &str| Seeds::new(1).stream(&format!("link/test/forward/{what}"));
    let chances = |what: &str| {
        let mut luck = stream(what);
        (0..1000).filter(|_| luck.chance(0.1)).collect::<Vec<u64>>()
    };
    let dropped = |record: Record| record.dropped.iter().map(|(_, id, _)| *id).collect::<Vec<_>>();
    let p = share(0.1);
    let loss = run(1000, |line| line.loss = Some(Loss::Bernoulli(Bernoulli { probability: p })));
    assert_eq!(dropped(loss), chances("loss"));
    assert_eq!(dropped(run(1000, |line| line.corrupt = Some(Corruption::Packets(p)))), chances("corrupt"));
    let duplicated = run(1000, |line| line.duplicate = Some(p)).duplicated;
    assert_eq!(duplicated.iter().map(|(_, id)| *id).collect::<Vec<_>>(), chances("duplicate"));
    let reorder = Some(Reorder { probability: p, by: ms(7), shift: Shift::Later });
    let shifted = deviations(&run(1000, |line| line.reorder = reorder));
    let shifted: Vec<u64> = (0..).zip(shifted).filter(|(_, d)| *d > 0.001).map(|(id, _)| id).collect();
    assert_eq!(shifted, chances("reorder"));
    let mut luck = stream("jitter");
    for d in deviations(&jittered(1000, Spread::Uniform(ms(10)), false)) {
        assert!((d - 0.010 * (2.0 * luck.uniform() - 1.0)).abs() < 1e-8);
    }
}

#[test]
fn framing_takes_time_but_no_room() {
    // 500 B at 8 Mbit/s: 500 µs without framing. With LLC/SNAP 500 + 16 B fill 11 cells of 53 B, 583 B.
    let time = |framing| {
        let settings = LineSettings { framing, ..plain(Duration::ZERO, 1) };
        let (record, _) = play(&settings, &[(Instant::ZERO, Step::Offer(500))], Polling::WhenAsked);
        record.delivered[0].0.as_nanos() / 1000
    };
    assert_eq!(time(Framing::None), 500);
    assert_eq!(time(Framing::Ethernet), 538);
    assert_eq!(time(Framing::Ppp), 507);
    assert_eq!(time(Framing::AtmLlc), 583);
    let mut queue = plain(Duration::ZERO, 1);
    queue.framing = Framing::Ethernet;
    queue.queue = serde_json::from_str(r#"{ "fifo": { "bytes": "1 KB" } }"#).unwrap();
    let schedule = [(Instant::ZERO, Step::Offer(500)); 4];
    let (record, counters) = play(&queue, &schedule, Polling::AtTheEnd);
    // One packet is on the line, and two of 500 B are in a queue of 1000 B.
    assert_eq!(record.dropped, [(Instant::ZERO, 3, DropReason::QueueFull)]);
    assert_eq!(counters.delivered.bytes, 1500);
    assert_eq!(line(&queue).backlog().packets, 0);
}
