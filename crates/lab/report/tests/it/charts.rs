//! Every figure of a report: texts, units, contrast, and labels that do not overlap.

use netrig_experiment::Amount;
use netrig_report::chart::{
    Axis, AxisKind, Chart, ChartMark, Layer, Marks, Panel, PanelGrid, Theme, contrast,
};
use netrig_test_support::ExperimentText;
use roxmltree::{Document, Node};

use super::fixture::{self, Study};
use super::page::{report, text};

const THEMES: [Theme; 2] = [Theme::Light, Theme::Dark];

/// All figures of all studies in one theme, with their names.
fn figures(theme: Theme) -> Vec<(String, String)> {
    let (outage, queue, phones) = (fixture::outage(), fixture::queue(), fixture::phones());
    let mut all = report(&outage).with_figure(fixture::window()).figures_svg(theme);
    all.extend(report(&queue).figures_svg(theme));
    all.extend(report(&phones).with_figure(fixture::windows(&["tcp", "sctp"])).figures_svg(theme));
    all
}

fn parsed(svg: &str) -> Document<'_> {
    Document::parse(svg).unwrap_or_else(|e| panic!("not well-formed: {e}"))
}

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name)
        .and_then(|v| v.parse().ok())
        .unwrap_or_else(|| panic!("no number {name} in {node:?}"))
}

fn words(document: &Document<'_>) -> Vec<String> {
    document.descendants().filter(|n| n.tag_name().name() == "text").map(text).collect()
}

/// A threshold of the paper is a line across the chart. The legend calls it a threshold, not a value of the paper.
#[test]
fn a_threshold_of_the_paper_is_not_its_value() {
    let mut phones = fixture::phones();
    let paper = phones.experiment.design.paper.as_mut().unwrap();
    paper.values.truncate(1);
    paper.values[0].threshold = true;
    let figures = report(&phones).figures_svg(Theme::Light);
    let (_, svg) = figures.iter().find(|(name, _)| name == "by-phone").unwrap();
    let words = words(&parsed(svg));
    assert!(words.iter().any(|word| word == "dashed: threshold, 105 KB/s (section IV)"), "{words:?}");
    assert!(!words.iter().any(|word| word.contains("the paper's value")), "{words:?}");
}

/// If a paper's result is on the horizontal axis, it is marked there. If it is beyond the axis, it is in the caption.
#[test]
fn a_level_that_the_paper_names_is_on_the_axis_or_in_the_caption() {
    for (level, is_on_axis) in [(150.0, true), (2000.0, false)] {
        let mut outage = fixture::outage();
        let paper = outage.experiment.design.paper.as_mut().unwrap();
        paper.values.truncate(1);
        paper.values[0].group = "by-interarrival".into();
        paper.values[0].response = "interarrival".into();
        paper.values[0].value = Amount::new(level, "ms").unwrap();
        let figures = report(&outage).figures_svg(Theme::Light);
        let (_, svg) = figures.iter().find(|(name, _)| name == "by-interarrival").unwrap();
        let document = parsed(svg);
        let says = format!("the paper has ≈ {level} ms (section IV.2)");
        let spans = document.descendants().filter(|node| node.attribute("class") == Some("span"));
        assert_eq!(spans.filter(|span| text(*span) == says).count(), usize::from(is_on_axis), "{level}");
        let is_told =
            words(&document).iter().any(|word| word.contains(&format!("{says}, which is off the axis")));
        assert_eq!(is_told, !is_on_axis, "{:?}", words(&document));
    }
}

#[test]
fn axes_have_titles_with_units_and_series_their_names() {
    let expected: [(&str, &[&str]); 11] = [
        (
            "by-interarrival",
            &[
                "interarrival (ms)",
                "throughput (KB/s)",
                "tcp",
                "sctp",
                "sctp-multihomed",
                "down for 5 s",
                "hollow: the paper's value",
            ],
        ),
        ("by-outage", &["down for (s)", "longest stall (s)", "tcp", "0", "5", "10", "20"]),
        (
            "by-transport",
            &["transport", "throughput (KB/s)", "down for 0 s", "down for 20 s", "tcp", "sctp-multihomed"],
        ),
        ("window", &["time (s)", "cwnd (KB)", "tcp", "sctp", "link down"]),
        ("waiting", &["interarrival (ms)", "waiting time (ms)", "measured", "dashed: M/M/1 waiting"]),
        (
            "by-phone",
            &["loss", "goodput (KB/s)", "oslo", "minsk", "tcp", "sctp", "hollow: the paper's value"],
        ),
        ("grid", &["loss", "goodput (KB/s)", "oslo", "tunis", "delay 10 ms", "delay 40 ms"]),
        ("bars", &["transport", "goodput (KB/s)", "oslo", "cairo", "delay 10 ms", "delay 40 ms", "tcp"]),
        ("rows", &["loss", "resent", "delay 10 ms", "delay 40 ms", "tcp", "sctp"]),
        ("bound", &["loss", "goodput (KB/s)", "oslo", "lima", "delay 40 ms", "dashed: Mathis et al."]),
        ("window", &["time (s)", "cwnd (KB)", "tcp", "sctp", "link down"]),
    ];
    let figures = figures(Theme::Light);
    let names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, expected.map(|(name, _)| name));
    for ((_, svg), (name, wanted)) in figures.iter().zip(expected) {
        let document = parsed(svg);
        let words = words(&document);
        for wanted in wanted {
            assert!(words.iter().any(|word| word == wanted), "{name}: {wanted} in {words:?}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
    }
}

#[test]
fn every_series_of_every_panel_is_drawn_with_its_intervals() {
    let figures = figures(Theme::Light);
    let document = parsed(&figures[0].1);
    let count = |class: &str| {
        let has = |n: &Node<'_, '_>| n.attribute("class").is_some_and(|c| c.split(' ').any(|c| c == class));
        document
            .descendants()
            .filter(|n| has(n) && n.ancestors().any(|a| a.attribute("class") == Some("panel")))
            .count()
    };
    // 4 outages, 3 transports, 4 intervals. The paper has one value for TCP and one for each of three outages.
    assert_eq!((count("panel"), count("mark"), count("interval"), count("paper")), (4, 48, 48, 4));
    let said: Vec<String> =
        document.descendants().filter(|n| n.tag_name().name() == "title").map(text).collect();
    assert_eq!(
        said.iter().filter(|title| title.contains(" ± ") && title.contains("KB/s, n = 10")).count(),
        48
    );
}

#[test]
fn everything_stands_out_from_the_background() {
    for theme in THEMES {
        let background = theme.palette().background;
        for (name, svg) in figures(theme) {
            let document = parsed(&svg);
            assert!(
                document
                    .descendants()
                    .any(|n| n.attribute("class") == Some("bg") && n.attribute("fill") == Some(background))
            );
            for node in document.descendants().filter(Node::is_element) {
                let class = node.attribute("class").unwrap_or_default();
                let meant_to_be_faint =
                    ["grid", "span", "bg"].iter().any(|faint| class.split(' ').any(|c| c == *faint));
                let wanted = if node.tag_name().name() == "text" { 4.5 } else { 3.0 };
                for colour in ["fill", "stroke"]
                    .iter()
                    .filter_map(|paint| node.attribute(*paint))
                    .filter(|c| *c != "none")
                {
                    let contrast = contrast(colour, background).expect("a colour");
                    assert!(
                        meant_to_be_faint || contrast >= wanted,
                        "{name} in {theme:?}: {node:?} has {contrast:.1}"
                    );
                }
            }
        }
    }
}

/// The advance width of a letter of DejaVu Sans, a wide font, in multiples of the font size. The values are from the
/// font's table. Letters of about the same width are grouped.
fn advance(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '\'' => 0.28,
        ' ' | '.' | ',' | '\u{202f}' => 0.32,
        'f' | ':' | ';' | '/' | '|' | '-' => 0.36,
        'r' | 't' | '(' | ')' => 0.41,
        's' | 'c' | 'z' => 0.54,
        'k' | 'v' | 'x' | 'y' => 0.59,
        'm' | '%' | 'W' => 0.97,
        'w' | 'M' | '=' | '<' | '±' | '−' | '≈' => 0.84,
        c if c.is_ascii_uppercase() => 0.7,
        _ => 0.635,
    }
}

/// The bounding box of a text that is not rotated.
fn outline(node: Node<'_, '_>) -> (f64, f64, f64, f64) {
    let (x, y, size) = (number(node, "x"), number(node, "y"), number(node, "font-size"));
    let bold = if node.attribute("font-weight").is_some() { 1.1 } else { 1.0 };
    let wide = text(node).chars().map(advance).sum::<f64>() * size * bold;
    let left = match node.attribute("text-anchor") {
        Some("middle") => x - wide / 2.0,
        Some("end") => x - wide,
        _ => x,
    };
    (left, y - 0.76 * size, left + wide, y + 0.2 * size)
}

fn assert_apart(name: &str, svg: &str) {
    let document = parsed(svg);
    let (width, height) =
        (number(document.root_element(), "width"), number(document.root_element(), "height"));
    let texts: Vec<_> = document.descendants().filter(|n| n.tag_name().name() == "text").collect();
    for (n, one) in texts.iter().enumerate() {
        let (left, top, right, bottom) = outline(*one);
        if one.attribute("transform").is_some() {
            continue;
        }
        assert!(
            left >= -1.0 && top >= -1.0 && right <= width + 1.0 && bottom <= height + 1.0,
            "{name}: {:?} leaves the picture",
            text(*one)
        );
        for other in texts[n + 1..].iter().filter(|other| other.attribute("transform").is_none()) {
            let (l, t, r, b) = outline(*other);
            let apart = r <= left || right <= l || b <= top || bottom <= t;
            assert!(apart, "{name}: {:?} lies on {:?}", text(*one), text(*other));
        }
    }
}

#[test]
fn no_word_lies_on_another_or_leaves_the_picture() {
    for (name, svg) in figures(Theme::Light) {
        assert_apart(&name, &svg);
    }
}

/// A chart with this number of panels and series, and with long names.
fn crowded(panels: usize, series: usize, x: AxisKind) -> Chart {
    let layer = |n: usize| Layer {
        series: Some(n),
        marks: Marks::Measured,
        points: (0..6)
            .map(|x| ChartMark {
                interval: Some((990.0, 1_010.0)),
                ..ChartMark::at(f64::from(x) + 1.0, 1000.0 + n as f64)
            })
            .collect(),
    };
    let panel = |n: usize| Panel {
        title: format!("down for {n} s, path max retrans 5, potentially failed: true"),
        layers: (0..series).map(layer).collect(),
        spans: vec![(2.0, 2.1, "link down".into()), (2.2, 2.3, "link down".into())],
    };
    Chart {
        title:
            "Throughput against the mean inter-arrival time of the objects at each of the sources of the flow"
                .into(),
        caption: String::new(),
        x: Axis { title: "x".into(), scale: x },
        y: Axis { title: "y (KB/s)".into(), scale: AxisKind::Linear { zero: false } },
        series: (0..series)
            .map(|n| format!("sctp-multihomed, down for {n} s, potentially failed: true"))
            .collect(),
        theory: Vec::new(),
        panels: (0..panels).map(panel).collect(),
        grid: None,
        note: String::new(),
    }
}

#[test]
fn crowded_charts_keep_their_words_apart() {
    let levels = AxisKind::Levels(vec![1.0, 1.02, 1.05, 2.0, 4.0, 6.0]);
    let words = AxisKind::Categories(
        ["tcp", "sctp", "sctp-multihomed", "mptcp-over-both-paths", "udp", "quic", "dccp"]
            .map(str::to_owned)
            .to_vec(),
    );
    for x in [levels, words, AxisKind::Log, AxisKind::Linear { zero: true }] {
        let sizes = [
            (1, 12, 500.0),
            (3, 3, 960.0),
            (7, 2, 960.0),
            (12, 2, 960.0),
            (28, 4, 760.0),
            (1, 3, 440.0),
            (3, 3, 440.0),
            (12, 2, 440.0),
        ];
        for (panels, series, width) in sizes {
            assert_apart(
                &format!("{panels} panels, {series} series, {width} wide, {x:?}"),
                &crowded(panels, series, x.clone()).svg(width, Theme::Light),
            );
        }
        for (rows, columns, width) in [(2, 6, 960.0), (12, 1, 960.0), (3, 2, 760.0), (2, 6, 440.0)] {
            let chart = grid_of(rows, columns, x.clone());
            assert_apart(
                &format!("{rows} x {columns}, {width} wide, {x:?}"),
                &chart.svg(width, Theme::Light),
            );
        }
    }
}

/// The text of a shaded span is as high as possible without covering other marks.
#[test]
fn the_words_of_a_span_do_not_lie_on_a_line() {
    let chart = |values: [f64; 2]| {
        let points = [1.0, 9.0].iter().zip(values).map(|(x, y)| ChartMark::at(*x, y)).collect();
        let layer = Layer { series: Some(0), marks: Marks::Measured, points };
        let axis = |title: &str| Axis { title: title.into(), scale: AxisKind::Linear { zero: true } };
        let spans = vec![(4.0, 6.0, "knee: 5".to_owned())];
        Chart {
            title: String::new(),
            caption: String::new(),
            x: axis("x"),
            y: axis("y"),
            series: vec!["tcp".to_owned()],
            theory: Vec::new(),
            panels: vec![Panel { title: String::new(), layers: vec![layer], spans }],
            grid: None,
            note: String::new(),
        }
    };
    // The distance below the upper edge of the span.
    let below = |values| {
        let svg = chart(values).svg(600.0, Theme::Light);
        let document = parsed(&svg);
        let word = document.descendants().find(|n| n.tag_name().name() == "text" && text(*n) == "knee: 5");
        let span = document.descendants().find(|n| n.attribute("class") == Some("span")).expect("a span");
        number(word.expect("its words"), "y") - number(span, "y")
    };
    let top = below([0.0, 0.0]);
    assert!(top < 20.0, "{top}");
    assert!(below([100.0, 100.0]) > top, "the line is along the upper edge");
    // A rising line leaves space above it. A line that falls from the upper edge leaves space below it.
    assert_eq!(below([0.0, 100.0]), top);
    assert_eq!(below([100.0, 0.0]), top);
    assert!(below([100.0, 90.0]) > below([100.0, 100.0]));
}

/// On a logarithmic axis, an interval that extends below zero is drawn down to the end of the axis.
#[test]
fn an_interval_beyond_a_logarithmic_axis_runs_down_to_the_frame() {
    let mark = |x, low| ChartMark { interval: Some((low, 20.0)), ..ChartMark::at(x, 10.0) };
    let layer =
        Layer { series: Some(0), marks: Marks::Measured, points: vec![mark(1.0, 5.0), mark(9.0, -5.0)] };
    let axis = |scale| Axis { title: "y".into(), scale };
    let chart = Chart {
        title: String::new(),
        caption: String::new(),
        x: axis(AxisKind::Linear { zero: true }),
        y: axis(AxisKind::Log),
        series: vec!["tcp".to_owned()],
        theory: Vec::new(),
        panels: vec![Panel { title: String::new(), layers: vec![layer], spans: Vec::new() }],
        grid: None,
        note: String::new(),
    };
    let svg = chart.svg(600.0, Theme::Light);
    let document = parsed(&svg);
    let intervals = document
        .descendants()
        .filter(|n| n.attribute("class").is_some_and(|class| class.starts_with("interval")));
    let drawn: Vec<_> = intervals.filter_map(|n| n.attribute("d")).collect();
    let begins =
        |d: &str| d.split_once(' ').and_then(|(_, y)| y.split_once('V')?.0.parse::<f64>().ok()).unwrap();
    // The first interval has a stem, a foot and a head. The second has no foot and starts at the end of the axis, at
    // the position of the first foot.
    assert_eq!(drawn.iter().map(|d| d.matches('H').count()).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(begins(drawn[1]), begins(drawn[0]), "{drawn:?}");
}

/// A crowded chart with a grid of panels.
fn grid_of(rows: usize, columns: usize, x: AxisKind) -> Chart {
    let titles = |n: usize, what: &str| (0..n).map(|n| format!("{what} {n}, path max retrans 5")).collect();
    let grid = PanelGrid { rows: titles(rows, "download"), columns: titles(columns, "phone") };
    Chart { grid: Some(grid), note: "A note of *some* length. ".repeat(9), ..crowded(rows * columns, 2, x) }
}

/// Left end, right end and vertical position of each panel's horizontal axis, which is drawn last.
fn frames(svg: &str) -> Vec<(f64, f64, f64)> {
    let document = parsed(svg);
    let panels = document.descendants().filter(|n| n.attribute("class") == Some("panel"));
    let axis = |panel: Node<'_, '_>| {
        let axes = panel.children().filter(|n| n.attribute("class") == Some("axis"));
        let d = axes.filter_map(|n| n.attribute("d")).rfind(|d| d.contains('H')).expect("an axis");
        let (from, right) = d[1..].split_once('H').expect("a line");
        let (left, y) = from.split_once(' ').expect("a place");
        let number = |text: &str| text.parse::<f64>().expect("a number");
        (number(left), number(right), number(y))
    };
    panels.map(axis).collect()
}

/// Panels are in rows and columns inside the drawing, with one title for each axis, and tick labels only at the outer
/// panels.
#[test]
fn small_multiples_share_their_axes() {
    let levels = AxisKind::Levels(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let wrapped = |panels, width| crowded(panels, 2, levels.clone()).svg(width, Theme::Dark);
    let cases = [
        (wrapped(12, 960.0), 960.0, 4, 3),
        (wrapped(12, 440.0), 440.0, 2, 6),
        (wrapped(7, 960.0), 960.0, 4, 2),
        (grid_of(2, 6, levels.clone()).svg(960.0, Theme::Dark), 960.0, 6, 2),
        (grid_of(3, 2, levels.clone()).svg(760.0, Theme::Dark), 760.0, 2, 3),
        // Six columns do not fit on a narrow page.
        (grid_of(2, 6, levels.clone()).svg(440.0, Theme::Dark), 440.0, 2, 6),
        (grid_of(3, 1, levels.clone()).svg(760.0, Theme::Dark), 760.0, 1, 3),
    ];
    for (svg, width, columns, rows) in cases {
        let frames = frames(&svg);
        let different = |of: fn(&(f64, f64, f64)) -> f64| {
            let mut all: Vec<i64> = frames.iter().map(|frame| of(frame).round() as i64).collect();
            all.sort_unstable();
            all.dedup();
            all.len()
        };
        assert_eq!((different(|f| f.0), different(|f| f.2)), (columns, rows), "{width}: {frames:?}");
        assert!(frames.iter().all(|(left, right, _)| *left > 0.0 && right > left && *right < width));
        let wide = frames[0].1 - frames[0].0;
        assert!(frames.iter().all(|(left, right, _)| (right - left - wide).abs() < 0.11), "{frames:?}");
        assert!(columns == 1 || wide >= 96.0, "{wide}");
        let document = parsed(&svg);
        let ticks: Vec<_> =
            document.descendants().filter(|n| n.attribute("class") == Some("muted tick")).collect();
        let titles = document
            .descendants()
            .filter(|n| n.attribute("class").is_some_and(|c| c.starts_with("axis-title")));
        assert_eq!(titles.count(), 2);
        let left = |n: &&Node<'_, '_>| number(**n, "x") < frames[0].0;
        let per_row = ticks.iter().filter(left).count() as f64 / rows as f64;
        assert!(per_row.fract() == 0.0 && per_row >= 2.0, "{per_row}");
        let lowest = frames.iter().fold(0.0, |low: f64, frame| low.max(frame.2));
        let labelled = ticks.iter().filter(|n| !left(n)).filter(|n| number(**n, "y") < lowest).count();
        assert_eq!(labelled > 0, !frames.len().is_multiple_of(columns), "only where nothing is below");
    }
}

/// In a grid, the heading of a row is drawn once beside the row, and the heading of a column once above the column.
#[test]
fn a_grid_has_headings_for_rows_and_columns() {
    let svg = grid_of(2, 3, AxisKind::Log).svg(960.0, Theme::Light);
    let document = parsed(&svg);
    let words = words(&document);
    for heading in ["download 0, path max", "download 1, path max", "phone 0, path max", "phone 2, path max"]
    {
        assert_eq!(
            words.iter().filter(|word| word.starts_with(heading)).count(),
            1,
            "{heading} in {words:?}"
        );
    }
}

#[test]
fn marks_of_one_level_stand_beside_each_other() {
    let svg = crowded(1, 3, AxisKind::Levels(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])).svg(900.0, Theme::Light);
    let document = parsed(&svg);
    let panel = document.descendants().find(|n| n.attribute("class") == Some("panel")).expect("a panel");
    let first = |series: &str| {
        let layer =
            panel.descendants().find(|n| n.attribute("data-series") == Some(series)).expect("a series");
        let interval = layer
            .descendants()
            .find(|n| n.attribute("class").is_some_and(|c| c.starts_with("interval")))
            .expect("an interval");
        let d = interval.attribute("d").expect("a path");
        d[1..].split(' ').next().and_then(|x| x.parse::<f64>().ok()).expect("a number")
    };
    let places = ["0", "1", "2"].map(first);
    assert!(places.windows(2).all(|pair| (2.0..20.0).contains(&(pair[1] - pair[0]))), "{places:?}");
}

#[test]
fn a_long_trace_stays_a_small_picture() {
    let figures = figures(Theme::Light);
    let (_, svg) = figures.iter().find(|(name, _)| name == "window").expect("the trace");
    // The trace has 100 000 samples. At four marks per pixel and series, these are at most 6000 positions of a dozen
    // characters.
    assert!(svg.len() < 100_000, "{} bytes", svg.len());
}

/// Two factors define the lines, and one factor has a level with a comma in its name.
fn comma() -> String {
    ExperimentText::new("comma", "2 s")
        .table(
            "factors",
            r#"delay = ["10 ms", "20 ms"], rate = ["1 Mbit/s", "2 Mbit/s"],
            variant = ["quick, clean (sim)", "a = b, c", "slow"]"#,
        )
        .table("replications", "count = 2")
        .nodes("a b")
        .fifo("line", "a b", ("${rate}", "${delay}", 50), "")
        .table("transport.tcp", r#"kind = "tcp""#)
        .flow(
            "x",
            "a b",
            r#"transport = "tcp", application = { kind = "bulk" },
            where = { variant = ["quick, clean (sim)", "a = b, c", "slow"] }"#,
        )
        .response("goodput", "flow.x", "goodput")
        .table("figure.f", r#"x = "rate", y = "goodput", series = ["delay", "variant"]"#)
        .table("figure.g", r#"x = "rate", y = "goodput", panels = ["delay", "variant"]"#)
        .table("figure.h", r#"x = "rate", y = "goodput", rows = ["delay"], panels = ["variant"]"#)
        .build()
}

#[test]
fn a_level_with_a_comma_is_one_level_in_legends_and_headings() {
    let study = Study::new(&comma(), None, 2, |place| vec![("goodput", place.number("rate") / 10.0)]);
    let drawn = report(&study).figures_svg(Theme::Light);
    let variants = ["quick, clean (sim)", "a = b, c", "slow"];
    for (name, svg) in &drawn {
        let (document, delays) = (parsed(svg), ["delay 10 ms", "delay 20 ms"]);
        let told = words(&document);
        let wanted: Vec<String> = match name.as_str() {
            "h" => delays.iter().chain(&variants).map(|&word| word.to_owned()).collect(),
            _ => delays
                .iter()
                .flat_map(|delay| variants.iter().map(move |variant| format!("{delay}, {variant}")))
                .collect(),
        };
        for wanted in wanted {
            let count = told.iter().filter(|told| **told == wanted).count();
            assert_eq!(count, 1, "{wanted:?} in {name}: {told:?}");
        }
    }
}
