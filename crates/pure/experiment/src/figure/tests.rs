//! Series, panels, the paper's points and theory curves.

use crate::judge::fixture::Study;
use crate::{FigureData, Legend, Level, Point, TheoryLine};

const FACTORS: &[(&str, &[&str])] =
    &[("transport", &["tcp", "sctp"]), ("down_for", &["0 s", "5 s"]), ("gap", &["45 ms", "0.1 s", "200 ms"])];

fn figure(study: Study, text: &str) -> FigureData {
    let study = study.figure("f", text);
    let (id, spec) = &study.design.figures[0];
    spec.evaluate(id, &study.design, &study.judge())
}

fn study() -> Study {
    Study::new(FACTORS).run(3, |place| {
        let base = if place.level("transport") == "tcp" { 100.0 } else { 200.0 };
        base + 10.0 * place.number("down_for") + place.number("gap") + f64::from(place.replication)
    })
}

/// The distinguishing properties of a line as a text.
fn named(legend: &Legend) -> String {
    let levels = legend.levels.iter().map(|(_, level)| level.to_string());
    let all = legend.response.iter().cloned().chain(levels).chain(legend.substrate.clone());
    all.collect::<Vec<_>>().join(", ")
}

#[test]
fn series_and_panels() {
    let data =
        figure(study(), "x = 'gap'\ny = 'r'\nseries = 'transport'\npanels = ['down_for']\nlog = ['x']");
    assert_eq!((data.x.names[0].as_str(), data.x.unit.as_str(), data.x.log), ("gap", "ms", true));
    assert_eq!((data.y.names[0].as_str(), data.y.unit.as_str(), data.y.log), ("r", "B/s", false));
    let titles: Vec<String> = data.panels.iter().map(|panel| panel.levels.to_string()).collect();
    assert_eq!(titles, ["down_for = 0 s", "down_for = 5 s"]);
    let names: Vec<String> = data.panels[0].series.iter().map(|series| named(&series.legend)).collect();
    assert_eq!(names, ["tcp", "sctp"]);
    let points = &data.panels[1].series[0].points;
    assert_eq!(points.iter().map(|point| point.x).collect::<Vec<_>>(), [45.0, 100.0, 200.0]);
    // The value is 100 + 10 · 5 + 0.1 plus the mean of 1, 2, 3.
    assert!((points[1].y - 152.1).abs() < 1e-9);
    // With sd 1 and n = 3, the half-width is 4.30265 / √3.
    assert!((points[1].high.unwrap() - points[1].y - 2.484_14).abs() < 1e-4);
    assert_eq!(points[1].n, 3);
}

/// Not every study has all combinations of its levels. A level without a point makes no empty panel and does not
/// determine the unit of the axis.
#[test]
fn levels_that_no_point_has_take_no_room() {
    let mut study = study();
    study.points.retain(|point| {
        point.point.level("down_for").is_some_and(|level| level.text() == "5 s")
            && point.point.level("gap").is_some_and(|level| level.text() == "0.1 s")
    });
    let data = figure(study, "x = 'gap'\ny = 'r'\nseries = 'transport'\npanels = 'down_for'");
    assert_eq!(
        data.panels.iter().map(|panel| panel.levels.to_string()).collect::<Vec<_>>(),
        ["down_for = 5 s"]
    );
    assert_eq!(data.x.unit, "s");
    assert!((data.panels[0].series[0].points[0].x - 0.1).abs() < 1e-12);
}

#[test]
fn levels_that_are_no_numbers_are_categories() {
    let data = figure(study(), "x = 'transport'\ny = 'r'\nwhere = { down_for = '5 s', gap = '100 ms' }");
    assert_eq!(data.x.categories, ["tcp", "sctp"].map(Level::new));
    assert_eq!(data.panels.len(), 1);
    let points = &data.panels[0].series[0].points;
    assert_eq!((points[0].x, points[1].x), (0.0, 1.0));
    assert_eq!(named(&data.panels[0].series[0].legend), "r");
}

/// Each of two substrates has its own line. A point that was not measured leaves a gap.
#[test]
fn substrates_are_lines_of_their_own() {
    let mut study = Study::new(FACTORS).run_on("sim", 1, |_| Some(1.0)).run_on("vm", 1, |_| Some(2.0));
    study.points[0].runs[0].responses =
        [("r", crate::MeasuredValue::not("no data arrived"))].into_iter().collect();
    let data = figure(study, "x = 'gap'\ny = 'r'\nwhere = { down_for = '0 s', transport = 'tcp' }");
    let lines: Vec<(String, usize)> =
        data.panels[0].series.iter().map(|series| (named(&series.legend), series.points.len())).collect();
    assert_eq!(lines, [("r, sim".to_owned(), 2), ("r, vm".to_owned(), 3)]);
}

const PAPER: &str = "title = 'p'\n\
    [[value]]\ngroup = 'fig2'\nwhere = { transport = 'tcp', down_for = '5 s' }\nresponse = 'r'\nvalue = 0.054\nunit = 'KB/s'\n\
    approximate = true\nquote = 'q'\n\
    [[value]]\ngroup = 'fig2'\nwhere = { transport = 'sctp', down_for = '5 s', gap = '200 ms' }\nvalue = 59\nunit = 'B/s'\n\
    quote = 'q'\npage = 77\n";

#[test]
fn the_papers_points() {
    let text = "x = 'gap'\ny = 'r'\nseries = 'transport'\npanels = 'down_for'\npaper = 'fig2'";
    let data = figure(study().paper(PAPER), text);
    assert!(data.panels[0].paper.is_empty());
    let paper = &data.panels[1].paper;
    assert_eq!([named(&paper[0].legend), named(&paper[1].legend)], ["tcp", "sctp"]);
    // The paper gives about 54 B/s for any gap, a value without a position, and 59 B/s at 200 ms.
    assert_eq!(
        (paper[0].points[0].x, paper[0].points[0].y, paper[0].points[0].approximate),
        (None, 54.0, true)
    );
    assert_eq!((paper[1].points[0].x, paper[1].points[0].y), (Some(200.0), 59.0));
    assert_eq!(paper[1].points[0].source, "page 77");
}

/// If the paper gives a level of the factor on the x axis, the level is a position on that axis, in the panels to which
/// the value applies.
#[test]
fn the_papers_places_on_the_horizontal_axis() {
    let paper = "title = 'p'\n\
        [[value]]\ngroup = 'g'\nresponse = 'gap'\nvalue = 0.3\nunit = 's'\napproximate = true\nquote = 'q'\nsection = 'IV'\n\
        [[value]]\ngroup = 'g'\nwhere = { down_for = '5 s' }\nresponse = 'gap'\nvalue = 175\nunit = 'ms'\nquote = 'q'\n";
    let text = "x = 'gap'\ny = 'r'\nseries = 'transport'\npanels = 'down_for'\npaper = 'g'";
    let data = figure(study().paper(paper), text);
    let places = |n: usize| -> Vec<(f64, bool, &str)> {
        data.panels[n].abscissas.iter().map(|at| (at.x, at.approximate, at.source.as_str())).collect()
    };
    assert_eq!(places(0), [(300.0, true, "section IV")]);
    assert_eq!(places(1), [(300.0, true, "section IV"), (175.0, false, "")]);
    assert!(data.panels.iter().all(|panel| panel.paper.is_empty()), "they are no values of what it shows");
}

/// A bound that a paper sets is not a measured value. It applies to all lines and is drawn once.
#[test]
fn the_papers_thresholds_are_no_values_of_it() {
    let paper = "title = 'p'\n\
        [[value]]\ngroup = 'g'\nresponse = 'r'\nvalue = 1\nunit = 'KB/s'\nthreshold = true\nquote = 'q'\nsection = 'IV'\n\
        [[value]]\ngroup = 'g'\nwhere = { down_for = '5 s' }\nvalue = 54\nunit = 'B/s'\nthreshold = true\nquote = 'q'\n\
        [[value]]\ngroup = 'g'\nresponse = 'other'\nvalue = 2\nunit = 'KB/s'\nthreshold = true\nquote = 'q'\n\
        [[value]]\ngroup = 'g'\nwhere = { transport = 'tcp' }\nvalue = 59\nunit = 'B/s'\nquote = 'q'\n";
    let text = "x = 'gap'\ny = 'r'\nseries = 'transport'\npanels = 'down_for'\npaper = 'g'";
    let data = figure(study().paper(paper), text);
    let thresholds = |n: usize| -> Vec<(f64, &str)> {
        data.panels[n].thresholds.iter().map(|bound| (bound.y, bound.source.as_str())).collect()
    };
    assert_eq!(thresholds(0), [(1000.0, "section IV")]);
    assert_eq!(thresholds(1), [(1000.0, "section IV"), (54.0, "")]);
    let values: Vec<f64> =
        data.panels[0].paper.iter().flat_map(|line| &line.points).map(|point| point.y).collect();
    assert_eq!(values, [59.0]);
}

/// M/M/1: the time in the system is 1 / (μ − λ), here with μ = 10/s and λ = 1/gap. The queue is unstable for gaps below
/// 100 ms.
#[test]
fn a_theory_curve_in_the_units_of_the_axes() {
    let mut study = Study::new(&[("gap", &["200 ms", "0.5 s", "1000 ms"]), ("rate", &["10"])]);
    let response = toml::from_str("of = 'flow.web'\nmetric = 'one_way_delay'\nunit = 'ms'").unwrap();
    study.design.responses.push(("delay".into(), response));
    let text = "x = 'gap'\ny = 'delay'\ntheory = { curve = 'mm1', with = { arrivals_per_s = '1 / gap', service_per_s = 'rate' } }";
    let data = figure(study.run(2, |_| 1.0), text);
    let line = &data.panels[0].theory[0];
    assert_eq!((line.points.len(), data.x.unit.as_str()), (121, "ms"));
    let (first, last) = (line.points[0], line.points[120]);
    assert!((first.0 - 200.0).abs() < 1e-9 && (first.1 - 1000.0 / 5.0).abs() < 1e-6, "{first:?}");
    assert!((last.0 - 1000.0).abs() < 1e-9 && (last.1 - 1000.0 / 9.0).abs() < 1e-6, "{last:?}");
}

/// A theory that depends on measured values has a curve for each substrate, with one value at each position.
#[test]
fn a_theory_of_what_was_measured_is_drawn_for_each_substrate() {
    let mut study = Study::new(&[("gap", &["200 ms", "0.5 s", "1000 ms"])]);
    let response = toml::from_str("of = 'flow.web'\nmetric = 'one_way_delay'\nunit = 'ms'").unwrap();
    study.design.responses.push(("delay".into(), response));
    let study = study.run_on("sim", 2, |_| Some(1.0)).run_on("netns", 2, |_| Some(2.0));
    let text = "x = 'gap'\ny = 'delay'\ntheory = { curve = 'mm1', label = 'M/M/1', with = { arrivals_per_s = '1 / gap', service_per_s = '10 * r' } }";
    let lines = &figure(study, text).panels[0].theory;
    let of = |line: &TheoryLine| line.of.as_ref().and_then(|of| of.substrate.clone());
    assert_eq!(lines.iter().map(of).collect::<Vec<_>>(), [Some("sim".to_owned()), Some("netns".to_owned())]);
    for line in lines {
        let places: Vec<f64> = line.points.iter().map(|(x, _)| *x).collect();
        assert_eq!(places, [200.0, 500.0, 1000.0], "{line:?}");
    }
}

#[test]
fn where_a_queue_is_unstable_there_is_no_curve() {
    let mut study = Study::new(&[("load", &["5", "15"])]);
    let response = toml::from_str("of = 'flow.web'\nmetric = 'one_way_delay'").unwrap();
    study.design.responses.push(("delay".into(), response));
    let text = "x = 'load'\ny = 'delay'\ntheory = { curve = 'mm1', with = { service_per_s = 10 } }";
    let data = figure(study.run(2, |_| 1.0), text);
    let line = &data.panels[0].theory[0];
    assert!(line.points.iter().all(|(x, y)| *x < 10.0 && (y - 1.0 / (10.0 - x)).abs() < 1e-6));
    assert_eq!(line.points.len(), 60);
}

#[test]
fn faults_are_told_by_field() {
    let mut design = study().design;
    design
        .responses
        .push(("delay".into(), toml::from_str("of = 'flow.web'\nmetric = 'one_way_delay'").unwrap()));
    let errors = |text: &str| -> Vec<String> {
        let figure: crate::FigureSpec = toml::from_str(text).unwrap();
        figure.check(&design).iter().map(ToString::to_string).collect()
    };
    let loose = errors("x = 'gap'\ny = 'r'\nseries = 'transport'");
    assert_eq!(
        loose,
        ["`x`: factor `down_for` has 2 levels: name it in `series`, in `panels` or in `where`"]
    );
    let rest = "where = { transport = 'tcp', down_for = '5 s' }";
    assert_eq!(
        errors(&format!("x = 'gpa'\ny = 'r'\n{rest}"))[0],
        "`x`: there is no factor `gpa`; did you mean `gap`?"
    );
    let units = errors(&format!("x = 'gap'\ny = ['r', 'delay']\n{rest}"));
    assert_eq!(units, ["`y`: one axis cannot show both B/s and s"]);
    let curve = errors(&format!("x = 'gap'\ny = 'delay'\ntheory = 'mm2'\n{rest}"));
    assert!(curve[0].starts_with("`theory.curve`: there is no curve `mm2`"), "{curve:?}");
    let parameter = errors(&format!("x = 'gap'\ny = 'delay'\ntheory = 'mm1'\n{rest}"));
    assert!(parameter[0].contains("`mm1` needs `service_per_s`"), "{parameter:?}");
    assert!(errors(&format!("x = 'time'\ny = 'cwdn'\n{rest}"))[0].contains("did you mean `cwnd`?"));
    let paper = errors(&format!("x = 'gap'\ny = 'r'\npaper = 'fig2'\n{rest}"));
    assert_eq!(paper, ["`paper`: there is no `paper.toml` beside this file"]);
}

#[test]
fn a_grid_has_a_panel_for_each_pair_of_its_headings() {
    let data = figure(study(), "x = 'gap'\ny = 'r'\nrows = 'transport'\npanels = 'down_for'");
    let grid = data.grid.unwrap();
    let texts = |points: &[Point]| points.iter().map(Point::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&grid.rows), ["transport = tcp", "transport = sctp"]);
    assert_eq!(texts(&grid.columns), ["down_for = 0 s", "down_for = 5 s"]);
    let titles: Vec<String> = data.panels.iter().map(|panel| panel.levels.to_string()).collect();
    let pair = |outage: &str, transport: &str| format!("down_for = {outage}, transport = {transport}");
    assert_eq!(titles, [pair("0 s", "tcp"), pair("5 s", "tcp"), pair("0 s", "sctp"), pair("5 s", "sctp")]);
    assert!((data.panels[3].series[0].points[1].y - 252.1).abs() < 1e-9);
    // With `rows` but no `panels`, the panels form one column.
    let stack = figure(study(), "x = 'gap'\ny = 'r'\nrows = 'transport'\nseries = 'down_for'");
    assert_eq!((stack.grid.unwrap().columns, stack.panels.len()), (vec![Point::default()], 2));
}

#[test]
fn panels_that_nobody_can_compare_are_refused() {
    let levels: Vec<String> = (1..=13).map(|n| n.to_string()).collect();
    let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
    let design =
        Study::new(&[("phone", &levels), ("cell", &levels[..7]), ("gap", &["45 ms", "100 ms"])]).design;
    let errors = |text: &str| -> Vec<String> {
        let figure: crate::FigureSpec = toml::from_str(text).unwrap();
        figure.check(&design).iter().map(ToString::to_string).collect()
    };
    for field in ["panels", "rows"] {
        let many = errors(&format!("x = 'gap'\ny = 'r'\nseries = 'cell'\n{field} = 'phone'"));
        assert_eq!(
            many,
            [format!(
                "`{field}`: `phone` has 13 levels: more than 12 panels cannot be compared; choose some with `where`"
            )]
        );
    }
    let some = "where = { phone = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] }";
    assert_eq!(errors(&format!("x = 'gap'\ny = 'r'\nseries = 'cell'\npanels = 'phone'\n{some}")), [""; 0]);
    let wide = errors(&format!("x = 'gap'\ny = 'r'\nrows = 'phone'\npanels = 'cell'\n{some}"));
    assert_eq!(wide, ["`panels`: 7 columns: a grid has room for 6; what has more levels can be its `rows`"]);
    assert_eq!(errors(&format!("x = 'gap'\ny = 'r'\nrows = 'cell'\nseries = 'phone'\n{some}")), [""; 0]);
    let twice = [
        ("panels = 'gap'\nseries = ['phone', 'cell']", "panels", "gap"),
        ("panels = ['cell', 'cell']\nseries = 'phone'", "panels", "cell"),
        ("rows = 'phone'\nseries = ['phone', 'cell']", "rows", "phone"),
        ("rows = 'cell'\npanels = 'cell'\nseries = 'phone'", "rows", "cell"),
    ];
    for (text, field, factor) in twice {
        let found = errors(&format!("x = 'gap'\ny = 'r'\n{text}\n{some}"));
        assert!(
            found.contains(&format!("`{field}`: `{factor}` is shown in another way already")),
            "{found:?}"
        );
    }
    let unknown = errors(&format!("x = 'gap'\ny = 'r'\nseries = 'cell'\npanels = 'phones'\n{some}"));
    assert!(
        unknown[0].starts_with("`panels`: there is no factor `phones`; did you mean `phone`?"),
        "{unknown:?}"
    );
}
