//! The data of a figure that shows single runs over time.

use netrig_core::{Duration, Instant, Quantity, QuantityKind, Subject};

use super::data::{FigureData, FigurePoint, Legend, Panel, Series};
use super::evaluate::{PanelKey, has};
use super::spec::FigureSpec;
use crate::judge::Design;
use crate::reduce::{Layout, Trace};
use crate::{Of, Point, Run, Scenario};

/// One traced run.
#[derive(Clone, Copy, Debug)]
pub struct TracedRun<'a> {
    /// The substrate.
    pub substrate: &'a str,
    /// The levels.
    pub point: &'a Point,
    /// The scenario at this point.
    pub scenario: &'a Scenario,
    /// Its samples.
    pub trace: &'a Trace,
    /// Length of the run: below the scenario's duration if the run ended with its flows.
    pub lasted: Duration,
}

/// One line of a figure over time: a subject and its samples.
struct Course<'a> {
    /// The name of the flow, link or node, if there are several, and the name of the path.
    member: Option<String>,
    path: Option<String>,
    quantity: &'static Quantity,
    samples: &'a [(Instant, f64)],
    /// The sampling interval, and the length of the run.
    every: Duration,
    lasted: Duration,
}

impl FigureSpec {
    /// The data of a figure over time. Gauges and observations are drawn as sampled, counts as rates per second, and
    /// marks at their times with their values.
    pub fn trace(&self, id: &str, design: &Design, runs: &[TracedRun<'_>]) -> FigureData {
        let picture = |key: &PanelKey| {
            let here: Vec<&TracedRun<'_>> =
                runs.iter().filter(|run| self.at.matches(run.point) && has(run.point, key)).collect();
            let seconds = |at: Instant| at.as_secs_f64();
            let outage = here.first().and_then(|run| Layout::of(run.scenario).outage);
            Panel {
                levels: key.clone().into(),
                series: self.courses(&here, design),
                outage: outage.map(|outage| (seconds(outage.start), outage.end.map(seconds))),
                ..Panel::default()
            }
        };
        let panels = self.panel_keys(design).iter().map(picture).collect();
        self.data(id, design, ["s", &self.traced_unit()], panels)
    }

    /// The subjects and quantities of a run that the figure draws. Empty if the figure does not show this run.
    pub fn draws(&self, run: &Run) -> Vec<(Subject, &'static Quantity)> {
        if !self.is_trace() || !self.at.matches(&run.point) {
            return Vec::new();
        }
        let layout = Layout::of(&run.scenario);
        let members = self.of.iter().flat_map(|of| of.members(&layout));
        let subjects: Vec<Subject> = members.flat_map(|member| with_paths(member, &layout)).collect();
        let quantities = self.y.0.iter().filter_map(|name| known(name));
        quantities.flat_map(|quantity| subjects.iter().map(move |subject| (*subject, quantity))).collect()
    }

    fn traced_unit(&self) -> String {
        match self.y.0.first().and_then(|name| known(name)) {
            Some(quantity) if quantity.kind == QuantityKind::Count => format!("{}/s", quantity.unit),
            Some(quantity) => quantity.unit.to_owned(),
            None => "1".to_owned(),
        }
    }

    fn courses(&self, here: &[&TracedRun<'_>], design: &Design) -> Vec<Series> {
        let several = here.iter().any(|run| run.substrate != here[0].substrate);
        let mut series = Vec::new();
        for run in here {
            let key = self.keys(&self.series.0, design).into_iter().find(|key| has(run.point, key));
            let key = key.unwrap_or_default();
            for name in &self.y.0 {
                for course in self.of.iter().flat_map(|of| courses_of(of, run, name)) {
                    let legend = self.legend(&key, name, several.then_some(run.substrate));
                    let points = course.points();
                    series.push(Series {
                        legend: Legend { member: course.member, path: course.path, ..legend },
                        substrate: run.substrate.to_owned(),
                        points,
                    });
                }
            }
        }
        series
    }
}

/// All quantities that a figure can trace.
pub fn quantities() -> impl Iterator<Item = &'static Quantity> {
    netrig_core::quantity::ALL.iter().copied().chain(netrig_sip::index::quantities())
}

/// The quantity with this name.
fn known(name: &str) -> Option<&'static Quantity> {
    quantities().find(|quantity| quantity.name == name)
}

/// The subject; for a flow, followed by its paths.
fn with_paths(subject: Subject, layout: &Layout) -> Vec<Subject> {
    let Subject::Flow(flow) = subject else { return vec![subject] };
    let paths = layout.flows.get(flow as usize).map_or(0, |flow| flow.paths);
    std::iter::once(subject).chain((0..paths).map(|path| Subject::Path(flow, path))).collect()
}

/// The samples of a quantity for all members of the subject, and for the paths of flows.
fn courses_of<'a>(of: &Of, run: &TracedRun<'a>, quantity: &str) -> Vec<Course<'a>> {
    let members = of.members(&Layout::of(run.scenario));
    let belongs = |subject: Subject| match subject {
        Subject::Path(flow, _) => members.contains(&Subject::Flow(flow)),
        other => members.contains(&other),
    };
    let traced = run.trace.all().filter(|(subject, known, _)| known.name == quantity && belongs(*subject));
    let course = |(subject, quantity, samples)| {
        let (member, path) = named(run.scenario, subject);
        Course {
            member: member.filter(|_| members.len() > 1),
            path,
            quantity,
            samples,
            every: run.scenario.sample_every,
            lasted: run.lasted,
        }
    };
    traced.map(course).collect()
}

/// The names of the flow, link or node of a subject, and of its path.
fn named(scenario: &Scenario, subject: Subject) -> (Option<String>, Option<String>) {
    let flow = |index: u32| scenario.flows.get(index as usize);
    let member = match subject {
        Subject::Path(flow_index, _) | Subject::Flow(flow_index) => flow(flow_index).map(|flow| &flow.name),
        Subject::Link(index, _) | Subject::Class(index, ..) | Subject::Rule(index, ..) => {
            scenario.links.get(index as usize).map(|link| &link.name)
        }
        Subject::Node(index) | Subject::Counter(index, _) => {
            scenario.nodes.get(index as usize).map(|node| &node.name)
        }
        Subject::Run => None,
    };
    let path = match subject {
        Subject::Path(index, path) => flow(index).and_then(|flow| flow.paths.get(usize::from(path))),
        _ => None,
    };
    (member.cloned(), path.map(|path| path.name.clone()).filter(|name| !name.is_empty()))
}

impl Course<'_> {
    /// Whether the samples are counts with the times of their events, not sums at the end of each sampling interval.
    fn is_of_moments(&self) -> bool {
        let is_tick = |at: Instant| at.as_nanos().is_multiple_of(self.every.as_nanos().max(1));
        let but_last = self.samples.split_last().map_or(&[][..], |(_, before)| before);
        self.quantity.kind == QuantityKind::Count && !but_last.iter().all(|(at, _)| is_tick(*at))
    }

    /// The rate in each sampling interval of the run, per second. An interval without events has the rate 0.
    fn by_interval(&self) -> Vec<FigurePoint> {
        let every = self.every.as_nanos().max(1);
        let count = usize::try_from(self.lasted.as_nanos().div_ceil(every)).unwrap_or(0);
        let mut sums = vec![0.0; count];
        for (at, value) in self.samples {
            let place = usize::try_from(at.as_nanos().saturating_sub(1) / every).unwrap_or(usize::MAX);
            if let Some(sum) = sums.get_mut(place) {
                *sum += value;
            }
        }
        let seconds = self.every.as_secs_f64();
        let point = |(place, sum): (u32, f64)| FigurePoint {
            x: f64::from(place) * seconds,
            y: sum / seconds,
            low: None,
            high: None,
            n: 1,
        };
        (1..).zip(sums).map(point).collect()
    }

    fn points(&self) -> Vec<FigurePoint> {
        if self.is_of_moments() {
            return self.by_interval();
        }
        let mut last = Instant::ZERO;
        let mut points = Vec::with_capacity(self.samples.len());
        for (at, value) in self.samples {
            let since = at.since(last);
            last = *at;
            let y = match self.quantity.kind {
                QuantityKind::Count if since == Duration::ZERO => continue,
                QuantityKind::Count => value / since.as_secs_f64(),
                _ => *value,
            };
            points.push(FigurePoint { x: at.as_secs_f64(), y, low: None, high: None, n: 1 });
        }
        points
    }
}
