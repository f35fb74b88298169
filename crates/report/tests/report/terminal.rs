//! What stands on a terminal.

use super::fixture::{self, Study};
use super::page::report;

/// The study with a reason of our own, whatever words the judge has for it.
fn judged(mut study: Study) -> Study {
    for claim in &mut study.results.claims {
        claim.why = "at down_for = 20 s the interval is too wide to tell, and this goes on for so long that it takes two lines".into();
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
    for study in [fixture::outage(), fixture::queue()] {
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
