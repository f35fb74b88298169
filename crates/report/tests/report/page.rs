//! The page: well-formed, complete without a script, without a network, with headings and scopes.

use std::collections::BTreeSet;

use netrig_report::Report;
use netrig_report::chart::{Theme, contrast};
use roxmltree::{Document, Node, ParsingOptions};

use super::fixture::{self, Study};

pub fn report(study: &Study) -> Report<'_> {
    Report::new(&study.experiment, &study.text, &study.results)
}

pub fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap_or_else(|e| panic!("not well-formed: {e}"))
}

/// The text of an element and all that is in it.
pub fn text(node: Node<'_, '_>) -> String {
    node.descendants().filter(|n| n.is_text()).filter_map(|n| n.text()).collect()
}

fn pages() -> Vec<String> {
    let (outage, queue, phones) = (fixture::outage(), fixture::queue(), fixture::phones());
    let outage = report(&outage).with_figure(fixture::window()).with_readme("# About").html();
    vec![outage, report(&queue).html(), report(&phones).html()]
}

#[test]
fn a_page_is_well_formed_and_its_links_lead_somewhere() {
    for page in pages() {
        let document = parsed(&page);
        let ids: Vec<&str> = document.descendants().filter_map(|n| n.attribute("id")).collect();
        let unique: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(unique.len(), ids.len(), "ids are unique");
        for node in document.descendants() {
            for name in ["href", "aria-labelledby"] {
                let target = node.attribute(name).map(|target| target.trim_start_matches('#'));
                assert!(target.is_none_or(|target| unique.contains(target)), "{name}={target:?}");
            }
        }
    }
}

#[test]
fn a_page_needs_no_network() {
    for page in pages() {
        let document = parsed(&page);
        for node in document.descendants().filter(Node::is_element) {
            for attribute in node.attributes() {
                let value = attribute.value();
                let loads = ["href", "src", "srcset", "action", "data", "poster", "style"]
                    .contains(&attribute.name());
                assert!(
                    !loads || value.starts_with('#'),
                    "<{} {}={value}>",
                    node.tag_name().name(),
                    attribute.name()
                );
            }
            assert!(!["link", "iframe", "object", "embed", "base", "img"].contains(&node.tag_name().name()));
        }
        let names_of_namespaces =
            page.replace("http://www.w3.org/1999/xhtml", "").replace("http://www.w3.org/2000/svg", "");
        for outside in
            ["http:", "https:", "url(", "@import", "import(", "fetch(", "XMLHttpRequest", "WebSocket"]
        {
            assert!(!names_of_namespaces.contains(outside), "{outside}");
        }
    }
}

#[test]
fn a_page_says_everything_without_its_script() {
    let study = fixture::outage();
    let page = report(&study).html();
    let document = parsed(&page);
    let body = document.descendants().find(|n| n.has_tag_name("body")).expect("a body");
    let said: String = body
        .descendants()
        .filter(|n| {
            n.is_text() && n.ancestors().all(|a| !a.has_tag_name("script") && a.attribute("hidden").is_none())
        })
        .filter_map(|n| n.text())
        .collect();
    for claim in &study.results.claims {
        assert!(said.contains(&claim.says) && said.contains(claim.verdict.name()), "{}", claim.id);
    }
    for (name, spec) in &study.experiment.design.responses {
        assert!(said.contains(&spec.definition()), "{name}");
    }
    for wanted in [
        "10 of each point",
        "1 to 10: ",
        "500 kbit/s",
        "fifo (packets 50)",
        "0.1.0+abc1234",
        "95 %",
        "format = 1",
        "Student's t",
    ] {
        assert!(said.contains(wanted), "{wanted}");
    }
    let rows = document
        .descendants()
        .find(|n| n.attribute("id") == Some("responses"))
        .expect("the section of responses");
    let rows = rows.descendants().filter(|n| n.has_tag_name("tr")).count();
    assert_eq!(rows, 1 + study.results.points.len());
}

#[test]
fn every_value_has_its_interval_and_unit_and_the_papers_value_beside_it() {
    let study = fixture::outage();
    let page = report(&study).html();
    let document = parsed(&page);
    let table = document.descendants().find(|n| n.attribute("id") == Some("table-1")).expect("a table");
    let heads: Vec<String> = table.descendants().filter(|n| n.has_tag_name("th")).map(text).collect();
    for wanted in ["throughput (KB/s)", "longest stall (s)", "paper", "ours is"] {
        assert!(heads.iter().any(|head| head == wanted), "{wanted} in {heads:?}");
    }
    let mut rows = table
        .descendants()
        .filter(|n| n.has_tag_name("tr"))
        .map(|row| row.children().filter(Node::is_element).map(text).collect::<Vec<String>>());
    let row =
        rows.find(|row| row[..2] == ["tcp".to_owned(), "5 s".to_owned()]).expect("the row of TCP at 5 s");
    assert!(row[2].contains(" ± "), "{row:?}");
    assert_eq!(row[3], "≈ 54");
    assert!(row[4].starts_with('+') && row[4].ends_with(" %"), "{row:?}");
}

#[test]
fn headings_descend_and_tables_have_scopes() {
    for page in pages() {
        let document = parsed(&page);
        let level = |n: Node<'_, '_>| match n.tag_name().name() {
            "h1" => Some(1),
            "h2" => Some(2),
            "h3" => Some(3),
            _ => None,
        };
        let levels: Vec<i32> = document.descendants().filter_map(level).collect();
        assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1);
        assert!(levels.windows(2).all(|pair| pair[1] - pair[0] <= 1), "{levels:?}");
        for head in document.descendants().filter(|n| n.has_tag_name("th")) {
            assert!(head.attribute("scope").is_some(), "{head:?}");
        }
        for table in document.descendants().filter(|n| n.has_tag_name("table")) {
            assert!(table.children().any(|n| n.has_tag_name("caption")));
        }
        for picture in document.descendants().filter(|n| n.tag_name().name() == "svg") {
            assert!(
                picture.attribute("aria-label").is_some() || picture.attribute("aria-hidden") == Some("true")
            );
        }
    }
}

/// A row has as many cells as its table has columns, spans counted.
#[test]
fn rows_are_complete() {
    for page in pages() {
        let document = parsed(&page);
        for table in document.descendants().filter(|n| n.has_tag_name("table")) {
            let span = |cell: Node<'_, '_>, name: &str| {
                cell.attribute(name).map_or(1, |v| v.parse::<usize>().expect("a number"))
            };
            let rows = || table.descendants().filter(|n| n.has_tag_name("tr"));
            let cells = |row: Node<'_, '_>| {
                row.children().filter(Node::is_element).map(|cell| span(cell, "colspan")).sum::<usize>()
            };
            let first = rows().next().map(cells).expect("a heading");
            for row in rows().filter(|row| row.parent().is_some_and(|p| p.has_tag_name("tbody"))) {
                assert_eq!(cells(row), first, "{}", text(row));
            }
        }
    }
}

#[test]
fn verdicts_are_told_by_word_and_sign_and_their_colours_stand_out() {
    let study = fixture::outage();
    let page = report(&study).html();
    let document = parsed(&page);
    let badges: Vec<String> =
        document.descendants().filter(|n| n.attribute("class") == Some("badge")).map(text).collect();
    let expected: Vec<String> = study
        .results
        .claims
        .iter()
        .map(|claim| {
            format!(
                "{} {}",
                match claim.verdict.name() {
                    "supported" => "✓",
                    "refuted" => "✗",
                    "inconclusive" => "?",
                    _ => "–",
                },
                claim.verdict.name()
            )
        })
        .collect();
    assert_eq!(badges, expected);
    for theme in [Theme::Light, Theme::Dark] {
        let palette = theme.palette();
        for colour in palette.verdicts {
            assert!(contrast(colour, palette.background).expect("colours") >= 4.5);
        }
    }
}

#[test]
fn a_page_of_failures_tells_them() {
    let mut study = fixture::queue();
    for (point, status) in study
        .results
        .points
        .iter_mut()
        .zip([netrig_experiment::Status::Unsupported, netrig_experiment::Status::Failed])
    {
        point.status = status;
        point.why = Some("mptcp runs on vm and netns".into());
        point.responses.clear();
    }
    for response in study.results.points[2].responses.values_mut() {
        for run in &mut response.runs[..2] {
            (run.valid, run.why) = (false, Some("the sender was late".into()));
        }
    }
    let report = report(&study);
    let page = report.html();
    let document = parsed(&page);
    let warnings =
        document.descendants().find(|n| n.attribute("id") == Some("warnings")).map(text).expect("warnings");
    for wanted in
        ["1 of 5 points unsupported: mptcp runs on vm and netns", "2 runs not counted: the sender was late"]
    {
        assert!(warnings.contains(wanted), "{wanted} in {warnings}");
    }
    assert!(
        report.terminal(80).contains("1 failed: interarrival = 20 ms on sim: mptcp runs on vm and netns")
    );
}
