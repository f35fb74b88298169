//! The report on a terminal.

use super::fixture::{self, Study};
use super::page::report;

/// The study with fixed reasons, p-values and intervals, so that only this crate is under test.
fn judged(mut study: Study) -> Study {
    for claim in &mut study.results.claims {
        claim.p_holm = Some(0.0123);
        claim.why =
            "at down_for = 20 s the interval is too wide to tell, and this takes two lines to say".into();
    }
    for cell in
        study.results.tables.iter_mut().flat_map(|table| &mut table.rows).flat_map(|row| &mut row.cells)
    {
        (cell.low, cell.high) = (cell.estimate.map(|v| v * 0.998), cell.estimate.map(|v| v * 1.002));
    }
    study
}

#[test]
fn few_points_are_shown_themselves() {
    let study = judged(fixture::queue());
    insta::assert_snapshot!(report(&study).terminal(80));
}

#[test]
fn many_points_give_way_to_the_tables() {
    let study = judged(fixture::outage());
    insta::assert_snapshot!(report(&study).terminal(100));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for study in [fixture::outage(), fixture::queue(), fixture::beside()] {
        for width in [40, 60, 80, 120, 200] {
            for line in report(&study).terminal(width).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn no_column_is_lost_on_a_narrow_terminal() {
    let study = fixture::outage();
    let text = report(&study).terminal(60);
    for column in ["throughput (KB/s)", "spread (KB/s)", "longest_stall (s)"] {
        assert!(text.contains(column), "{column} in\n{text}");
    }
}

#[test]
fn the_papers_values_stay_beside_ours() {
    let study = fixture::outage();
    for width in 64..140 {
        let text = report(&study).terminal(width);
        for column in ["throughput (KB/s)", "spread (KB/s)"] {
            let after = text.lines().find_map(|line| line.split_once(column)).expect("the column").1;
            assert!(after.trim_start().starts_with("paper (diff.)"), "{column} at {width}:\n{text}");
        }
    }
}

#[test]
fn a_mean_over_fewer_runs_than_its_neighbours_says_so() {
    let mut study = judged(fixture::queue());
    let point = &mut study.results.points[0];
    let most = point.responses.values().map(|response| response.n).max().expect("a response");
    assert!(most > 1 && point.responses.len() > 1, "{most}");
    point.responses.values_mut().next().expect("a response").n = 1;
    let text = report(&study).terminal(120);
    assert_eq!(text.matches("(n = 1)").count(), 1, "{text}");
    let table = report(&study).markdown();
    assert_eq!(table.matches("(n = 1)").count(), 1, "{table}");
}
