//! The access-speed study compared with the theory of windows, acknowledgements and packet lengths.

use std::collections::BTreeMap;

use netrig_stats::theory;
use netrig_tests::{Levels, simulate};

const EXPERIMENT: &str = include_str!("../../studies/access-speed/experiment.toml");
const WINDOW: &str = include_str!("../../studies/access-speed/window.toml");
const ASYMMETRIC: &str = include_str!("../../studies/access-speed/asymmetric.toml");

/// The number and the unit of a level.
fn amount(level: &str) -> (f64, &str) {
    let (number, unit) = level.split_once(' ').expect("a number and a unit");
    (number.parse().expect("a number"), unit)
}

/// The value of a response at each point that `here` selects. One run suffices, because nothing in these experiments is
/// random.
fn values(experiment: &str, response: &str, here: impl Fn(&Levels) -> bool) -> Vec<(Levels, f64)> {
    let runs = simulate(experiment, None, 1, here);
    runs.into_iter().map(|run| (run.levels.clone(), run.responses[response])).collect()
}

/// With a window of an even number of segments, at least four, one window is sent per round-trip time until the line is
/// the limit. The round-trip time includes the time that a segment waits for the next one, because only every second
/// segment is acknowledged.
#[test]
fn a_window_goes_once_in_a_round_trip() {
    let even = |levels: &Levels| (amount(&levels["window"]).0 / 2920.0).fract() == 0.0;
    let found = values(WINDOW, "down", |levels| even(levels) && levels["window"] != "2920 B");
    assert!(found.len() > 20, "{found:?}");
    for (levels, rate) in found {
        let ((window, _), (delay, unit)) = (amount(&levels["window"]), amount(&levels["delay"]));
        let delay = if unit == "ms" { delay / 1e3 } else { delay };
        let line = 10e6 * 1448.0 / 1500.0;
        let at = |rtt: f64| {
            let of = [("window_bytes", window * 1448.0 / 1460.0), ("rate_bit_per_s", line), ("rtt_s", rtt)];
            theory::curve("window_bound").unwrap().eval(&BTreeMap::from(of)).unwrap() / 1e6
        };
        // The round-trip time includes the transmission of a segment and its acknowledgement, and at most of another
        // segment. The tolerance is one window in the 2 s.
        let one = window * 8.0 / 2.0 / 1e6;
        let (least, most) = (at(2.0 * delay + 3052.0 * 8.0 / 10e6), at(2.0 * delay + 1552.0 * 8.0 / 10e6));
        assert!(rate > least - one && rate < most + one, "{levels:?}: {rate}, {least} to {most}");
    }
}

/// If acknowledgements fill the upstream, two segments arrive downstream for each acknowledgement (RFC 3449 section
/// 3.1), as long as none is lost.
#[test]
fn acknowledgements_limit_what_comes_down() {
    let lone = |levels: &Levels| levels["beside"] == "nothing";
    for (levels, rate) in values(ASYMMETRIC, "down", lone) {
        let (up, unit) = amount(&levels["up"]);
        let up = if unit == "Mbit/s" { up * 1e6 } else { up * 1e3 };
        let theory = (up / (52.0 * 8.0) * 2.0 * 1448.0 * 8.0).min(10e6 * 1448.0 / 1500.0) / 1e6;
        match up {
            up if up >= 200e3 => {
                assert!((rate / theory - 1.0).abs() < 0.03, "{levels:?}: {rate} of {theory}")
            }
            up if up >= 100e3 => {
                assert!((rate / theory - 1.0).abs() < 0.06, "{levels:?}: {rate} of {theory}")
            }
            // If an acknowledgement is lost, the next one acknowledges more segments.
            _ => assert!(rate > theory && rate < 2.0 * theory, "{levels:?}: {rate} of {theory}"),
        }
    }
}

/// Fig. 9 without fragmentation: the segment is the smaller MTU without headers, and the goodput is the share of the
/// segment in a frame. Above the MTU of the other host the goodput does not change.
#[test]
fn a_segment_is_what_the_smaller_mtu_leaves() {
    for way in ["mtu-down", "mtu-up"] {
        let found = values(EXPERIMENT, way, |levels| {
            levels["probe"] == way && levels["lengths"] == "negotiated" && levels["window"] == "6000 B"
        });
        assert_eq!(found.len(), 5);
        for (levels, rate) in found {
            let mtu = amount(&levels["mtu"]).0.min(1000.0);
            let theory = 10.0 * (mtu - 52.0) / (mtu + 38.0);
            assert!((rate / theory - 1.0).abs() < 0.03, "{levels:?}: {rate} of {theory}");
        }
    }
}
