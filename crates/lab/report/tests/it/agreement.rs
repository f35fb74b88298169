//! Agreement of substrates, in every format of the report.

use netrig_report::Report;
use roxmltree::Node;

use super::fixture;
use super::page::{parsed, report, text};

#[test]
fn the_terminal_counts_and_names_what_does_not_agree() {
    let study = fixture::beside();
    let terminal = report(&study).terminal(100);
    let about = terminal.split_once("netns against sim").expect("the line").1;
    insta::assert_snapshot!(format!("netns against sim{about}"));
}

#[test]
fn markdown_has_every_comparison() {
    let study = fixture::beside();
    let markdown = report(&study).markdown();
    let section =
        markdown.split("\n## ").find(|section| section.starts_with("Agreement")).expect("the section");
    insta::assert_snapshot!(section);
}

#[test]
fn the_page_has_the_line_the_points_that_do_not_agree_and_all() {
    let study = fixture::beside();
    let page = report(&study).html();
    let document = parsed(&page);
    let section = document.descendants().find(|n| n.attribute("id") == Some("agreement")).expect("a section");
    let tally = section.descendants().find(|n| n.has_tag_name("p")).map(text).expect("the line");
    assert!(
        tally.starts_with("netns against sim: loss: ")
            && tally.contains("; throughput: 8 of 8 points agree within 5 %;")
    );
    let tables: Vec<Vec<Vec<String>>> = section
        .descendants()
        .filter(|n| n.has_tag_name("table"))
        .map(|table| {
            let rows = table.descendants().filter(|n| n.has_tag_name("tr"));
            rows.map(|row| row.children().filter(Node::is_element).map(text).collect()).collect()
        })
        .collect();
    let [open, all] = &tables[..] else { panic!("two tables") };
    let heads = ["response", "at", "sim", "netns", "netns / sim", "netns − sim", "within", "verdict"];
    assert_eq!((&open[0], &all[0]), (&heads.map(str::to_owned).to_vec(), &heads.map(str::to_owned).to_vec()));
    assert!(
        open.len() > 1 && open[1..].iter().all(|row| row[7] == "✗ differs" || row[7] == "? inconclusive")
    );
    // The table has four responses, each at eight points and over all points.
    assert_eq!(all.len(), 1 + 4 * 9);
    assert_eq!(
        all[1..].iter().filter(|row| row[7] == "✗ differs").count(),
        open.iter().filter(|row| row[7] == "✗ differs").count()
    );
    let row = |response: &str, at: &str| {
        all.iter()
            .find(|row| row[0] == response && row[1] == at)
            .map(|row| row[2..].join(" | "))
            .expect("the row")
    };
    // If a few runs have no losses, there is no ratio, and losses in other runs cannot be excluded.
    assert_eq!(row("loss (%)", "load = 0.5, service = be"), "0 | 0 | – | 0 pp | 3 pp | ? inconclusive");
    assert!(row("loss (%)", "load = 1.2, service = ef").ends_with(" pp | 3 pp | ✗ differs"));
    assert!(row("waiting (ms)", "load = 0.5, service = ef").ends_with("10 % or 20 us | ✓ agrees"));
    // A margin for all points together applies only to shares. Points that `where` excludes have no margin.
    assert!(row("throughput (KB/s)", "all points").ends_with("5 % | ✓ agrees"));
    assert!(row("loss (%)", "all points").ends_with(" pp |  | "));
    assert!(row("waiting (ms)", "load = 1, service = ef").ends_with(" ms |  | "));
}

/// A single pair of runs is inconclusive, whatever its values.
#[test]
fn a_point_with_one_run_cannot_be_told() {
    let study = fixture::beside();
    let verdict = |response: &str| {
        let entries = study.results.agreement.iter().filter(|entry| entry.response == response);
        let mut at = entries.filter(|entry| entry.factors.to_string() == "load = 1.2, service = be");
        at.next().and_then(|entry| Some((entry.pairs, entry.asked.as_ref()?.verdict.name())))
    };
    assert_eq!((verdict("loss"), verdict("throughput")), (Some((1, "inconclusive")), Some((5, "agrees"))));
}

#[test]
fn names_of_substrates_stay_text() {
    const NASTY: &str = "<script>alert(1)</script> | `code`\u{1b}[31m";
    let mut study = fixture::beside();
    for entry in &mut study.results.agreement {
        entry.of = ["sim".into(), NASTY.into()];
    }
    let report = Report::new(&study.experiment, &study.text, &study.results);
    let page = report.html();
    assert_eq!(parsed(&page).descendants().filter(|n| n.has_tag_name("script")).count(), 1);
    assert!(!report.terminal(80).contains('\u{1b}'));
    let markdown = report.markdown();
    assert!(!markdown.contains("<script"), "{markdown}");
    assert!(markdown.lines().filter(|line| line.starts_with('|')).all(|line| line.ends_with('|')));
}
