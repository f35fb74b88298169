//! The diffserv study compared with the theory of its topology: cells, token buckets and finite queues.

use std::collections::BTreeMap;

use netrig_stats::theory;
use netrig_tests::{Levels, simulate};

const EXPERIMENT: &str = include_str!("../../studies/diffserv/experiment.toml");
const PAPER: &str = include_str!("../../studies/diffserv/paper.toml");

/// Number of replications of each point.
const RUNS: u32 = 10;

/// The payload rate of the line, Mbit/s: 512 B with 28 B of headers and 16 B of LLC/SNAP and trailer take twelve cells
/// of 53 B.
const LINE: f64 = 25.0 * 512.0 / 636.0;

fn mbit(level: &str) -> f64 {
    level.strip_suffix(" Mbit/s").and_then(|number| number.parse().ok()).expect("a rate in Mbit/s")
}

/// The mean of a response over the runs of each point with the levels `wanted`, by the level of the factor `x`.
fn curve(response: &str, x: &str, wanted: &[(&str, &str)]) -> Vec<(f64, f64)> {
    let here = |levels: &Levels| wanted.iter().all(|(factor, level)| levels[*factor] == *level);
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in simulate(EXPERIMENT, Some(PAPER), RUNS, here) {
        assert!(run.outcome.balance.holds(), "{:?}: {:?}", run.levels, run.outcome.balance);
        values.entry(run.levels[x].clone()).or_default().push(run.responses[response]);
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mut curve: Vec<(f64, f64)> =
        values.iter().map(|(level, values)| (mbit(level), mean(values))).collect();
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(curve.len() > 4, "{curve:?}");
    curve
}

/// The loss of M/D/1/K.
fn lost_share(arrivals: f64, service: f64, places: f64) -> f64 {
    let parameters = BTreeMap::from([("service_mean_s", service), ("places", places)]);
    let curve = theory::curve("mg1k_loss").expect("it is one of the curves");
    curve.at(arrivals, &parameters).expect("any load has a loss")
}

/// The loss, %, of the line with its 149 places at this offered payload rate, Mbit/s.
fn lost(payload: f64) -> f64 {
    100.0 * lost_share(payload * 1e6 / 4096.0, 636.0 * 8.0 / 25e6, 149.0)
}

/// Fig. 3: with 17 Mbit/s of background traffic, best effort loses the excess over the rate of the line, and premium
/// service loses nothing.
#[test]
fn loss_with_17_mbit_s_of_background() {
    let fig3 = [("probe", "udp"), ("background", "17 Mbit/s"), ("excess", "pass"), ("lasts", "3 s")];
    for (rate, loss) in curve("loss", "rate", &[&fig3[..], &[("service", "ef")]].concat()) {
        // Premium service has 18.75 Mbit/s of the line and 20 places. At 14 Mbit/s, a load of 0.93, the loss is that of
        // M/D/1/20, 0.43 %.
        let theory = 100.0 * lost_share(rate * 1e6 / 4096.0, 636.0 * 8.0 / 18.75e6, 20.0);
        assert!((loss - theory).abs() < 0.25, "{rate} Mbit/s: {loss:.3} %, M/D/1/20 {theory:.3} %");
    }
    for (rate, loss) in curve("loss", "rate", &[&fig3[..], &[("service", "be")]].concat()) {
        // The runs are so short that the queue is not always full when the measurement starts.
        let theory = lost(17.0 + rate);
        assert!((loss - theory).abs() < 1.2, "{rate} Mbit/s: {loss:.2} %, M/D/1/149 {theory:.2} %");
        let excess = (100.0 * (1.0 - LINE / (17.0 + rate))).max(0.0);
        assert!((loss - excess).abs() < 1.2, "{rate} Mbit/s: {loss:.2} %, beyond the line {excess:.2} %");
    }
}

/// Fig. 4, curve A: min(x, 9) Mbit/s. The token bucket of 100 packets rounds the bend.
#[test]
fn policing_at_9_mbit_s() {
    let wanted = [("probe", "udp"), ("service", "ef"), ("excess", "drop"), ("lasts", "3 s")];
    for (rate, throughput) in curve("throughput", "rate", &wanted) {
        let passed = theory::token_bucket::passed(rate, 9.0, 100).expect("a bucket and a rate");
        // Below the bend, the tolerance is five standard errors of the mean of ten runs with 2 s of Poisson packets;
        // above it, 1 % for the bucket.
        let offered = rate * 1e6 / 4096.0 * 2.0 * f64::from(RUNS);
        let within = if rate < 10.0 { 5.0 * rate / offered.sqrt() } else { 0.01 * 9.0 };
        assert!((throughput - passed).abs() < within, "{rate} Mbit/s: {throughput} passed, theory {passed}");
    }
}

/// Fig. 4, curve B: the excess gets less than its proportional share of the rate that premium traffic leaves. A packet
/// exceeds the profile just after a packet that conforms to it. The conforming packet is sent first, so that the
/// best-effort queue is full at this time. In a slot-by-slot computation with a full best-effort queue and a premium
/// queue, 0.343 to 0.351 of the excess and 0.63 to 0.53 of the background traffic pass.
#[test]
fn excess_without_its_mark() {
    let wanted = [("probe", "udp"), ("service", "ef"), ("excess", "be"), ("lasts", "3 s")];
    for (rate, throughput) in curve("throughput", "rate", &wanted).into_iter().filter(|(rate, _)| *rate > 9.0)
    {
        let passed = 9.0 + 0.347 * (rate - 9.0);
        assert!((throughput / passed - 1.0).abs() < 0.02, "{rate} Mbit/s: {throughput}, by steps {passed}");
        let fluid = 9.0 + (rate - 9.0) * (LINE - 9.0) / (rate - 9.0 + 17.0);
        assert!(throughput < fluid, "{rate} Mbit/s: {throughput}, fluid {fluid}");
    }
}

/// Fig. 5: the round-trip time rises where the line becomes full. Premium pings also wait for the 128 packets in the
/// ring buffer.
#[test]
fn round_trips_bend_at_20_mbit_s() {
    for (service, ahead) in [("ef", 128.0), ("be", 148.0)] {
        let wanted = [("probe", "ping"), ("service", service), ("lasts", "3 s")];
        let round_trips = curve("round_trip", "background", &wanted);
        let at = |rate: f64| round_trips.iter().find(|(x, _)| *x == rate).expect("it was measured").1;
        // The propagation delay is 1 ms in each direction, and the other lines have 100 Mbit/s and more.
        assert!((at(2.0) - 2.16).abs() < 0.02, "{service}: {round_trips:?}");
        assert!(at(18.0) < 4.0 && at(21.0) > 25.0, "{service}: {round_trips:?}");
        // A packet takes 203.5 µs. A ping has three cells of 17 µs each; 200 of about 6000 packets per second are
        // pings.
        let packet = (203.52 * 24e6 / 4096.0 + 50.88 * 200.0) / (24e6 / 4096.0 + 200.0) / 1e3;
        let full = 2.16 + ahead * packet;
        assert!((at(24.0) / full - 1.0).abs() < 0.03, "{service}: {} ms, full {full}", at(24.0));
    }
}

/// Fig. 6: no pings are lost below 20 Mbit/s. Above, the excess over the rate of the line is lost. Premium pings are
/// never lost.
#[test]
fn pings_are_lost_from_20_mbit_s_on() {
    let fig6 = [("probe", "ping"), ("lasts", "3 s")];
    let premium = curve("two_way_loss", "background", &[&fig6[..], &[("service", "ef")]].concat());
    assert!(premium.iter().all(|(_, loss)| *loss == 0.0), "{premium:?}");
    for (background, loss) in curve("two_way_loss", "background", &[&fig6[..], &[("service", "be")]].concat())
    {
        // The transmission time of a ping is a quarter of that of a packet.
        let theory = if background < 20.0 { 0.0 } else { lost(background + 0.2) };
        assert!((loss - theory).abs() < 3.0, "{background} Mbit/s: {loss:.2} %, theory {theory:.2} %");
        assert!(background >= 20.0 || loss == 0.0, "{background} Mbit/s: {loss:.2} %");
    }
}
