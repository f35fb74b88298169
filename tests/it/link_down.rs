//! The link-down study compared with ns-2 2.29, which the paper used, in the same scenario.

use netrig_tests::simulate;

const EXPERIMENT: &str = include_str!("../../studies/link-down/experiment.toml");
const RUN_LENGTH: &str = include_str!("../../studies/link-down/run-length.toml");
const PAPER: &str = include_str!("../../studies/link-down/paper.toml");

/// Number of packets that ns-2 delivers in 100 s with outages of 0, 5, 10 and 20 s, and the time of the first packet,
/// s. Over two paths they are those of its web source, which this experiment also uses. With its bulk source, ns-2
/// delivers 3920.
const NS2: [(&str, [u32; 4], f64); 3] = [
    ("tcp", [4100, 3594, 3224, 2484], 0.62528),
    ("sctp", [4056, 3652, 3295, 2583], 1.02694),
    ("sctp-multihomed", [4056, 3955, 3955, 3955], 1.02694),
];

#[test]
fn throughput_is_ns2s_within_a_fifth_of_a_percent() {
    let corner = |levels: &std::collections::BTreeMap<String, String>| {
        levels["interarrival"] == "45 ms" && levels["shape"] == "1.5"
    };
    let runs = simulate(EXPERIMENT, Some(PAPER), 1, corner);
    assert_eq!(runs.len(), 12);
    for (transport, packets, first) in NS2 {
        for (down_for, n) in ["0 s", "5 s", "10 s", "20 s"].into_iter().zip(packets) {
            let here = |levels: &std::collections::BTreeMap<String, String>| {
                levels["transport"] == transport && levels["down_for"] == down_for
            };
            let run = runs.iter().find(|run| here(&run.levels)).expect("the point was run");
            let (ours, theirs) = (run.responses["throughput"], 1500.0 * f64::from(n) / (100.0 - first));
            let off = 100.0 * (ours / theirs - 1.0);
            assert!(
                off.abs() < 0.2,
                "{transport}, {down_for}: {ours:.0} B/s, ns-2 {theirs:.0} ({off:+.2} %)"
            );
            assert!(run.outcome.balance.holds(), "{transport}, {down_for}: {:?}", run.outcome.balance);
        }
    }
}

/// The values of the first experiment of the paper, for runs of 5, 100 and 500 s.
#[test]
fn the_first_experiment_is_within_two_percent() {
    let runs = simulate(RUN_LENGTH, Some(PAPER), 1, |_| true);
    for (transport, length, paper) in [
        ("tcp", "5 s", 46_778.0),
        ("sctp", "5 s", 33_000.0),
        ("tcp", "100 s", 61_000.0),
        ("sctp", "100 s", 61_000.0),
        ("tcp", "500 s", 62_000.0),
        ("sctp", "500 s", 62_000.0),
    ] {
        let run = runs
            .iter()
            .find(|run| run.levels["transport"] == transport && run.levels["run_length"] == length);
        let ours = run.expect("the point was run").responses["throughput"];
        assert!((ours / paper - 1.0).abs() < 0.02, "{transport}, {length}: {ours:.0} B/s, the paper {paper}");
    }
}
