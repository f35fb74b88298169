//! The page is well-formed, complete without the script and independent of the network, and its tables have headings
//! and scopes.

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

/// The text of an element and its descendants.
pub fn text(node: Node<'_, '_>) -> String {
    node.descendants().filter(|n| n.is_text()).filter_map(|n| n.text()).collect()
}

fn pages() -> Vec<String> {
    let (outage, queue, phones) = (fixture::outage(), fixture::queue(), fixture::phones());
    let outage = report(&outage).with_figure(fixture::window()).with_readme("# About").html();
    vec![outage, report(&queue).html(), report(&phones).html(), report(&fixture::beside()).html()]
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
    for wanted in ["throughput (KB/s)", "longest stall (s)", "paper", "difference"] {
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

/// Each row has as many cells as its table has columns, including spans.
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
        report.terminal(100).contains(
            "warning: 1 of 5 points failed: mptcp runs on vm and netns (interarrival = 20 ms on sim)"
        )
    );
}

#[test]
fn what_stands_beside_the_figures_of_a_point_is_in_each_form_of_a_report() {
    let mut study = fixture::queue();
    let text_of = "flow `calls`: its server fails 1 of 28 test purposes as proxy: PRX-FWD-01";
    for (point, runs) in study.results.points.iter_mut().zip([3, 20]) {
        point.remarks = vec![netrig_experiment::PointRemark { text: text_of.to_owned(), runs }];
    }
    let report = report(&study);
    let page = report.html();
    let document = parsed(&page);
    let warnings =
        document.descendants().find(|n| n.attribute("id") == Some("warnings")).map(text).expect("warnings");
    assert!(warnings.contains(&format!("23 runs marked: {text_of}")), "{warnings}");
    let terminal = report.terminal(400);
    assert!(
        terminal.contains(&format!("warning: 23 runs marked: {text_of} (interarrival = 40 ms on sim; ")),
        "{terminal}"
    );
    assert!(report.markdown().contains("23 runs marked"));
    let json: serde_json::Value = serde_json::from_str(&report.json(true)).expect("JSON");
    assert_eq!(json["points"][0]["remarks"][0]["runs"], 3);
    // The values are still reported.
    assert!(json["points"][0]["responses"]["waiting_time"]["mean"].is_number());
    assert_eq!(json["points"][4].get("remarks"), None);
}

/// The elements with this class.
fn of_class<'a>(root: Node<'a, 'a>, class: &str) -> Vec<Node<'a, 'a>> {
    let has =
        |n: &Node<'_, '_>| n.attribute("class").is_some_and(|all| all.split(' ').any(|one| one == class));
    root.descendants().filter(has).collect()
}

#[test]
fn the_page_begins_with_every_claim_at_a_glance() {
    let mut study = fixture::outage();
    // One claim is refuted at one of its points.
    let claim = &mut study.results.claims[2];
    claim.verdict = netrig_experiment::ClaimVerdict::Refuted;
    claim.points[1].verdict = netrig_experiment::ClaimVerdict::Refuted;
    let failed = claim.points[1].factors["down_for"].to_string();
    let page = report(&study).html();
    let document = parsed(&page);
    let tally = of_class(document.root(), "tally");
    let counts: Vec<String> = tally[0].children().filter(Node::is_element).map(text).collect();
    assert_eq!(counts, ["Of 4 claims:", "3 ✓ supported", "1 ✗ refuted"]);

    let board = of_class(document.root(), "board")[0];
    let first = document.descendants().find(|n| n.has_tag_name("section")).expect("a section");
    assert!(board.ancestors().any(|n| n == first), "it comes first");
    let body = board.children().find(|n| n.has_tag_name("tbody")).expect("rows");
    let rows: Vec<Vec<String>> = body
        .children()
        .filter(Node::is_element)
        .map(|row| row.children().filter(Node::is_element).map(text).collect())
        .collect();
    assert_eq!(rows.len(), study.results.claims.len());
    for (row, claim) in rows.iter().zip(&study.results.claims) {
        assert!(row[0].ends_with(claim.verdict.name()) && row[1].starts_with(&claim.says), "{row:?}");
        assert_eq!((row[4].as_str(), row[6].as_str()), ("10", "by-interarrival"));
    }
    assert!(
        rows[0][2].starts_with("sctp-multihomed − tcp") && rows[0][2].ends_with(" KB/s"),
        "{:?}",
        rows[0]
    );
    assert!(
        rows[0][2].contains(" ± ") && rows[0][3] == "> 0" && rows[0][5].starts_with("p "),
        "{:?}",
        rows[0]
    );
    assert_eq!((rows[1][3].as_str(), rows[3][3].as_str()), ("0.99 to 1.01", "< 0.995"));
    assert!(rows[2][1].contains(&format!("fails at 1 of 3 places: down for {failed}")), "{:?}", rows[2]);
    let links: Vec<&str> = body.descendants().filter_map(|n| n.attribute("href")).collect();
    assert!(links.contains(&"#figure-1") && links.contains(&"#claim-4"), "{links:?}");
}

#[test]
fn what_was_not_compared_says_why_on_the_board() {
    let mut study = fixture::queue();
    let claim = &mut study.results.claims[0];
    (claim.points, claim.decided_by) = (Vec::new(), None);
    claim.verdict = netrig_experiment::ClaimVerdict::NotTested;
    claim.why = "nothing could be compared".into();
    let page = report(&study).html();
    let document = parsed(&page);
    assert!(text(of_class(document.root(), "board")[0]).contains("nothing could be compared"));
    assert!(report(&study).markdown().contains("| nothing could be compared |"));
}

/// Definitions of the responses are beside every figure and table.
#[test]
fn definitions_stand_beside_what_they_are_about() {
    let study = fixture::outage();
    let page = report(&study).with_figure(fixture::window()).html();
    let document = parsed(&page);
    let beside = |id: &str| {
        let block = document.descendants().find(|n| n.attribute("id") == Some(id)).expect(id);
        assert_eq!(block.attribute("class"), Some("beside"));
        text(block.children().find(|n| n.has_tag_name("aside")).expect("definitions"))
    };
    let definition = |name: &str| study.experiment.design.response(name).expect("a response").definition();
    assert!(beside("figure-1").contains(&definition("throughput")));
    assert!(!beside("figure-1").contains(&definition("longest_stall")));
    assert!(beside("figure-2").contains(&definition("longest_stall")));
    assert!(beside("figure-4").contains("cwnd"), "a trace: {}", beside("figure-4"));
    let table = beside("table-1");
    assert!(
        table.contains(&definition("longest_stall")) && table.contains("largest less smallest mean"),
        "{table}"
    );
}

#[test]
fn contents_lead_to_every_table_and_figure() {
    let study = fixture::phones();
    let page = report(&study).html();
    let document = parsed(&page);
    let contents = document.descendants().find(|n| n.has_tag_name("nav")).expect("contents");
    let links: Vec<(String, &str)> =
        contents.descendants().filter_map(|n| Some((text(n), n.attribute("href")?))).collect();
    for (title, place) in [
        ("Goodput of each phone", "#table-1"),
        ("Goodput of each phone against the loss on its WiFi", "#figure-1"),
        ("TCP beside the square-root formula", "#figure-5"),
    ] {
        assert!(links.contains(&(title.to_owned(), place)), "{title} in {links:?}");
    }
}

#[test]
fn a_note_stands_under_its_figure_and_its_table() {
    let study = fixture::phones();
    let report = report(&study);
    let page = report.html();
    let document = parsed(&page);
    let notes: Vec<String> = of_class(document.root(), "note").into_iter().map(text).collect();
    assert_eq!(notes.len(), 2);
    assert!(notes[0].contains("A phone sends 1460 bytes of every 1500"), "{notes:?}");
    assert!(notes[1].contains("TCP carries at most 1460 / 1500 = 97.3 % of the line"), "{notes:?}");
    let svg = report.figures_svg(Theme::Light).remove(0).1;
    assert!(svg.contains("Headers take 40 bytes of a TCP packet"), "the figure by itself has it too");
    assert!(report.terminal(200).contains("A phone sends 1460 bytes of every 1500: 1460 / 1500 = 97.3 %."));
    assert!(report.markdown().contains("A phone sends 1460 bytes of every 1500"));
}

/// The drawing for a narrow page has the same marks in the same order as the wide one, because the script finds their
/// texts by index.
#[test]
fn the_narrow_drawing_has_the_marks_of_the_wide_one() {
    for page in pages() {
        let document = parsed(&page);
        let marks = |drawing: Node<'_, '_>| -> Vec<String> {
            let series = drawing.descendants().filter(|n| n.attribute("class") == Some("series"));
            let paths = series.flat_map(|group| group.descendants().filter_map(|n| n.attribute("class")));
            paths
                .filter(|class| class.starts_with("mark") || class.starts_with("paper"))
                .map(str::to_owned)
                .collect()
        };
        for figure in document.descendants().filter(|n| n.has_tag_name("figure")) {
            let (wide, narrow) = (of_class(figure, "wide"), of_class(figure, "narrow"));
            let [wide, narrow] = [&wide, &narrow].map(|all| all.first().map(|n| marks(*n)));
            assert_eq!(wide, narrow);
            assert!(wide.is_some_and(|marks| !marks.is_empty()) || !of_class(figure, "span").is_empty());
        }
    }
}
