//! Names that look like markup are shown as text.

use netrig_experiment::Level;
use netrig_report::Report;
use roxmltree::Node;

use super::fixture;
use super::page::{parsed, text};

const NASTY: &str = "</script><script>alert(1)</script> \"quoted\" 'single' <img src=x onerror=alert(1)> & ]]> --> \u{7}\u{1b}[31m | `code` *bold* \\";

#[test]
fn hostile_names_stay_text_everywhere() {
    let mut study = fixture::outage();
    study.results.experiment = NASTY.into();
    study.results.build = NASTY.into();
    study.experiment.question = NASTY.into();
    for claim in &mut study.results.claims {
        (claim.id, claim.says, claim.why, claim.substrate) =
            (NASTY.into(), NASTY.into(), NASTY.into(), NASTY.into());
    }
    for table in &mut study.results.tables {
        table.title = NASTY.into();
        table.columns[0].name = NASTY.into();
        table.rows[0].cells[0].why = Some(NASTY.into());
        table.rows[0].cells[1].estimate = None;
        table.rows[0].cells[1].why = Some(NASTY.into());
    }
    study.results.points[0].substrate = NASTY.into();
    let mut figure = fixture::window();
    (figure.title, figure.x.names) = (NASTY.into(), vec![NASTY.into()]);
    figure.panels[0].levels.set("panel", Level::new(NASTY));
    figure.panels[0].series[0].legend.member = Some(NASTY.into());
    let report = Report::new(&study.experiment, NASTY, &study.results).with_figure(figure).with_readme(NASTY);

    let page = report.html();
    let document = parsed(&page);
    let scripts: Vec<String> =
        document.descendants().filter(|n| n.has_tag_name("script")).map(text).collect();
    assert_eq!(scripts.len(), 1);
    assert!(!scripts[0].contains("alert"));
    assert!(document.descendants().all(|n| !n.has_tag_name("img")));
    let handlers = |n: &Node<'_, '_>| n.attributes().any(|a| a.name().starts_with("on"));
    assert!(!document.descendants().filter(Node::is_element).any(|n| handlers(&n)));
    let heading = document.descendants().find(|n| n.has_tag_name("h1")).map(text).expect("a heading");
    // XML does not allow control characters.
    assert_eq!(heading, NASTY.replace(['\u{7}', '\u{1b}'], "\u{fffd}"));
    // An HTML parser ends a script at the first closing tag.
    let after = page.split("<script>").nth(1).expect("a script");
    assert!(after.starts_with("/*<![CDATA[*/") && after.find("</script>") == after.rfind("</script>"));

    for (_, svg) in report.figures_svg(netrig_report::chart::Theme::Dark) {
        let document = roxmltree::Document::parse(&svg).expect("well-formed");
        assert!(document.descendants().all(|n| n.tag_name().name() != "script"));
    }
    let terminal = report.terminal(100);
    assert!(!terminal.contains(['\u{7}', '\u{1b}', '\r']), "{terminal:?}");
    let markdown = report.markdown();
    assert!(!markdown.contains("<script") && !markdown.contains("<img"), "{markdown}");
    assert!(markdown.lines().filter(|line| line.starts_with('|')).all(|line| line.ends_with('|')));
    let json: serde_json::Value = serde_json::from_str(&report.json(true)).expect("JSON");
    assert_eq!(json["experiment"], NASTY);
}
