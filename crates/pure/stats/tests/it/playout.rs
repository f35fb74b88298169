//! Play-out buffers and bursts of loss, by hand and compared with the two-state Markov chain of G.107.

use netrig_stats::StatsError;
use netrig_stats::path::LossPattern;
use netrig_stats::playout::{PlayoutBuffer, PlayoutPacket, played};
use proptest::prelude::*;

use crate::{Random, near};

/// Packets every 20 ms with these delays in ms. `None` is a lost packet. `begins` has the indices of the first packets
/// of talk spurts.
fn packets(delays: &[Option<f64>], begins: &[usize]) -> Vec<PlayoutPacket> {
    let packet = |(at, delay): (usize, &Option<f64>)| PlayoutPacket {
        sent_s: 0.02 * at as f64,
        delay_s: delay.map(|ms| ms / 1000.0),
        begins: begins.contains(&at),
    };
    delays.iter().enumerate().map(packet).collect()
}

/// The first packet has a delay of 30 ms and waits 40 ms, so all packets have a play-out delay of 70 ms.
#[test]
fn a_fixed_buffer_plays_what_comes_in_time() {
    let delays = [Some(30.0), Some(69.0), None, Some(71.0), Some(35.0)];
    let played = played(&packets(&delays, &[0]), PlayoutBuffer::Fixed(0.04)).unwrap();
    assert_eq!(played.missing, [false, false, true, true, false]);
    assert_eq!(played.late, 1);
    near(played.delay_s.unwrap(), 0.07, 1e-12);
}

/// An offset of the sender's clock adds the same amount to all delays and does not change the played packets.
#[test]
fn a_fixed_buffer_needs_no_common_clock() {
    let delays = [Some(30.0), Some(69.0), None, Some(71.0), Some(35.0)];
    let off = delays.map(|delay| delay.map(|ms| ms - 5000.0));
    let missing =
        |delays: &[Option<f64>]| played(&packets(delays, &[0]), PlayoutBuffer::Fixed(0.04)).unwrap().missing;
    assert_eq!(missing(&delays), missing(&off));
}

/// The delay steps from 20 to 100 ms. Packets are late in the talk spurt with the step, and in time in a later talk
/// spurt.
#[test]
fn an_adaptive_buffer_learns_between_talk_spurts() {
    let mut delays = vec![Some(20.0); 100];
    delays.extend(vec![Some(100.0); 4000]);
    let played = played(&packets(&delays, &[0, 100, 2000]), PlayoutBuffer::Adaptive).unwrap();
    assert!(played.missing[..100].iter().all(|missing| !missing), "two packets of 20 ms wait at first");
    assert!(
        played.missing[100..2000].iter().all(|missing| *missing),
        "20 ms and four deviations are below 100 ms"
    );
    assert!(played.missing[2000..].iter().all(|missing| !missing), "at the third it is known");
}

#[test]
fn nothing_and_what_is_no_number() {
    let nothing = played(&[], PlayoutBuffer::Adaptive).unwrap();
    assert_eq!((nothing.delay_s, nothing.late), (None, 0));
    let lost = played(&packets(&[None, None], &[0]), PlayoutBuffer::Fixed(0.0)).unwrap();
    assert_eq!((lost.delay_s, lost.missing), (None, vec![true, true]));
    let bad = played(&packets(&[Some(1.0), Some(f64::NAN)], &[0]), PlayoutBuffer::Fixed(0.0));
    assert_eq!(bad, Err(StatsError::NotFinite { index: 1 }));
}

/// G.107 section 7.5: a Markov chain with the transition probabilities p (to lost) and q (to received) has the burst
/// ratio 1 / (p + q).
#[test]
fn the_burst_ratio_of_a_markov_chain() {
    let mut random = Random(7);
    for (p, q) in [(0.05, 0.95), (0.02, 0.48), (0.05, 0.2)] {
        let mut lost = false;
        let missing: Vec<bool> = (0..400_000)
            .map(|_| {
                lost = if lost { random.uniform() >= q } else { random.uniform() < p };
                lost
            })
            .collect();
        let pattern = LossPattern::new(missing);
        near(pattern.share().unwrap(), p / (p + q), 0.005);
        near(pattern.burst_ratio().unwrap(), 1.0 / (p + q), 0.03 / (p + q));
    }
}

/// Two bursts, of 1 and of 3 packets, among ten packets: 2 · (1 - 0.4).
#[test]
fn a_pattern_by_hand() {
    let missing = [true, false, false, false, true, true, true, false, false, false];
    let pattern = LossPattern::new(missing);
    assert_eq!((pattern.sent(), pattern.lost(), pattern.periods()), (10, 4, [1, 3].as_slice()));
    near(pattern.burst_ratio().unwrap(), 1.2, 1e-12);
    assert_eq!(LossPattern::new([]).share(), None);
    assert_eq!(LossPattern::new([true, true]).burst_ratio(), None);
}

proptest! {
    /// A deeper buffer plays every packet that a shallower one plays. Each packet is either played, late or lost.
    #[test]
    fn a_deeper_buffer_plays_more(
        delays in proptest::collection::vec(proptest::option::weighted(0.9, 1.0..500.0), 1..200),
        depth in 0.0..0.3_f64,
        more in 0.0..0.3_f64,
    ) {
        let packets = packets(&delays, &[0]);
        let shallow = played(&packets, PlayoutBuffer::Fixed(depth)).unwrap();
        let deep = played(&packets, PlayoutBuffer::Fixed(depth + more)).unwrap();
        prop_assert!(deep.missing.iter().zip(&shallow.missing).all(|(deep, shallow)| *shallow || !deep));
        let lost = delays.iter().filter(|delay| delay.is_none()).count() as u64;
        prop_assert_eq!(LossPattern::new(shallow.missing).lost(), lost + shallow.late);
    }
}
