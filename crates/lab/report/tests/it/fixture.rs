//! Experiments with synthetic results: values come from a formula and named random streams, and are judged by the same
//! code as measured values.

use netrig_core::{Seeds, Stream};
use netrig_experiment::{
    AxisData, Experiment, FigureData, FigurePoint, Legend, Level, Panel, Paper, Point, PointRuns, Results,
    RunRecord, Series, StoppingRule,
};

pub const OUTAGE: &str = include_str!("outage.toml");
const PAPER: &str = include_str!("outage-paper.toml");
const PHONES: &str = include_str!("phones.toml");
const PHONES_PAPER: &str = include_str!("phones-paper.toml");
pub const QUEUE: &str = include_str!("queue.toml");
const BESIDE: &str = include_str!("beside.toml");

/// An experiment and its results.
pub struct Study {
    pub experiment: Experiment,
    pub text: String,
    pub results: Results,
}

impl Study {
    /// Reads `text` and creates `n` runs for every point. `formula` returns the responses with their names.
    pub fn new(
        text: &str,
        paper: Option<&str>,
        n: u32,
        formula: impl Fn(&Place<'_>) -> Vec<(&'static str, f64)>,
    ) -> Self {
        Self::on(&["sim"], text, paper, n, formula)
    }

    /// As `new`, but for these substrates.
    fn on(
        substrates: &[&str],
        text: &str,
        paper: Option<&str>,
        n: u32,
        formula: impl Fn(&Place<'_>) -> Vec<(&'static str, f64)>,
    ) -> Self {
        let paper = paper.map(|paper| Paper::parse(paper).expect("a paper"));
        let experiment =
            Experiment::read("example.toml", text, paper, None).unwrap_or_else(|e| panic!("{e}"));
        let plan = experiment.plan();
        let places = (0..plan.len()).flat_map(|i| substrates.iter().map(move |substrate| (i, *substrate)));
        let (replications, confidence) = (&experiment.design.replications, experiment.design.confidence);
        let rule = StoppingRule::new(replications, confidence).expect("a rule");
        let points: Vec<PointRuns> =
            places.map(|(i, substrate)| runs(substrate, plan.point(i), n, &rule, &formula)).collect();
        let results = Results::judge(&experiment.design, &points, "0.1.0+abc1234");
        Self { experiment, text: text.to_owned(), results }
    }
}

fn runs(
    substrate: &str,
    point: Point,
    n: u32,
    rule: &StoppingRule,
    formula: impl Fn(&Place<'_>) -> Vec<(&'static str, f64)>,
) -> PointRuns {
    let run = |replication| {
        let values = formula(&Place { substrate, point: &point, replication });
        RunRecord {
            replication,
            seed: u64::from(replication),
            responses: values.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect(),
            ..RunRecord::default()
        }
    };
    let runs: Vec<RunRecord> = (1..=n).map(run).collect();
    let last = rule.decide(&runs).last();
    PointRuns::new(substrate, point.clone(), runs, last)
}

/// The input of a formula: a point, a substrate and a replication.
pub struct Place<'a> {
    pub substrate: &'a str,
    pub point: &'a Point,
    pub replication: u32,
}

impl Place<'_> {
    pub fn level(&self, factor: &str) -> &str {
        self.point.level(factor).expect("the factor exists").text()
    }

    /// The level as a number in base units.
    pub fn number(&self, factor: &str) -> f64 {
        self.point.level(factor).and_then(|level| level.number()).expect("the level is a number")
    }

    /// The random stream of this run.
    pub fn luck(&self) -> Stream {
        Seeds::new(u64::from(self.replication)).stream(&self.point.to_string())
    }
}

/// Datagrams on two substrates, eight points with five runs each. Without overload neither substrate loses datagrams.
/// With overload `netns` loses more. At one point `netns` has only one run.
pub fn beside() -> Study {
    Study::on(&["sim", "netns"], BESIDE, None, 5, |place| {
        let (load, real) = (place.number("load"), place.substrate == "netns");
        let luck = place.luck().normal(0.0, if real { 0.02 } else { 0.01 });
        let extra = if real && load > 1.0 { 5.0 } else { 0.0 };
        let lost = if load < 1.0 { 0.0 } else { 4.0 + 100.0 * (load - 1.0) + extra + 100.0 * luck };
        let waited =
            if load < 0.9 { 1e-4 } else { 4e-3 } * (1.0 + 0.2 * luck) + if real { 1.5e-5 } else { 0.0 };
        let throughput = 121_000.0 * load.min(1.0) * (1.0 + luck / 10.0);
        match (real, load < 1.2 || place.level("service") == "ef") {
            (true, false) if place.replication > 1 => vec![("throughput", throughput)],
            _ => vec![
                ("loss", lost),
                ("throughput", throughput),
                ("waiting", waited),
                ("utilisation", load.min(1.0)),
            ],
        }
    })
}

/// Web traffic over a link that goes down: 48 points with 10 runs each.
pub fn outage() -> Study {
    Study::new(OUTAGE, Some(PAPER), 10, |place| {
        let (down, gap) = (place.number("down_for"), place.number("interarrival"));
        let stall = match place.level("transport") {
            "tcp" => down * 1.35,
            "sctp" => down * 1.3 + f64::from(down > 0.0),
            _ => 0.9 * f64::from(down > 0.0),
        };
        let luck = place.luck().normal(0.0, 1.0);
        let throughput = 61_200.0 * (1.0 - stall / 100.0) * (1.0 - 0.03 * gap) + 180.0 * luck;
        vec![
            ("throughput", throughput),
            ("goodput", 0.955 * throughput + 20.0 * luck),
            ("longest_stall", stall + 0.4 + 0.05 * luck.abs()),
        ]
    })
}

/// A queue with exponential gaps and sizes: 5 points with 10 to 20 runs each.
pub fn queue() -> Study {
    Study::new(QUEUE, None, 20, |place| {
        let load = 0.008 / place.number("interarrival");
        let spread = 0.04 / (1.0 - load);
        let factor = 1.0 + spread * place.luck().normal(0.0, 1.0);
        vec![("waiting_time", factor * load * 0.008 / (1.0 - load)), ("utilisation", load)]
    })
}

/// Files from twelve phones over a link that loses packets: 240 points with 4 runs each.
pub fn phones() -> Study {
    Study::new(PHONES, Some(PHONES_PAPER), 4, |place| {
        let (loss, delay) = (place.number("loss"), place.number("delay"));
        let phone = f64::from(place.level("phone").bytes().map(u32::from).sum::<u32>() % 17);
        let tcp = place.level("transport") == "tcp";
        let worth = if tcp { 121_600.0 } else { 121_000.0 };
        let harm = if tcp { 14.0 } else { 10.0 };
        let goodput = worth / (1.0 + (harm + phone) * loss * (1.0 + 10.0 * delay));
        let luck = place.luck().normal(0.0, 1.0);
        vec![("goodput", goodput + 300.0 * luck), ("resent", loss * (1.02 + 0.004 * luck))]
    })
}

/// Congestion windows over time, with 50 000 samples each. The link is down from 50 s to 60 s.
pub fn window() -> FigureData {
    windows(&[""])
}

/// As `window`, but with a panel for each of these transports. An empty name is a panel for all transports.
pub fn windows(panels: &[&str]) -> FigureData {
    let axis = |label: &str, unit: &str| AxisData {
        names: vec![label.into()],
        unit: unit.into(),
        log: false,
        categories: Vec::new(),
    };
    let series = |name: &str, period: f64, top: f64| Series {
        legend: Legend { levels: vec![("transport".into(), Level::new(name))], ..Legend::default() },
        substrate: "sim".into(),
        points: (0..50_000)
            .map(|n| f64::from(n) * 0.002)
            .map(|x| {
                let rises = (x % period) / period;
                let y = if (50.0..60.0).contains(&x) { 1500.0 } else { top * (0.5 + 0.5 * rises) };
                FigurePoint { x, y, low: None, high: None, n: 1 }
            })
            .collect(),
    };
    let all = [("tcp", 7.0, 67_500.0), ("sctp", 6.1, 66_000.0)];
    let panel = |transport: &&str| Panel {
        levels: match *transport {
            "" => Point::default(),
            own => [("transport".to_owned(), Level::new(own))].into_iter().collect(),
        },
        series: all
            .iter()
            .filter(|(name, ..)| transport.is_empty() || name == transport)
            .map(|(name, period, top)| series(name, *period, *top))
            .collect(),
        paper: Vec::new(),
        thresholds: Vec::new(),
        abscissas: Vec::new(),
        theory: Vec::new(),
        outage: Some((50.0, Some(60.0))),
    };
    FigureData {
        id: "window".into(),
        title: "Congestion window around the outage".into(),
        x: axis("time", "s"),
        y: axis("cwnd", "B"),
        panels: panels.iter().map(panel).collect(),
        grid: None,
    }
}
