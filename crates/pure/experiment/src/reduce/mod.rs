//! Reduces the samples of a run to its responses.

mod accumulator;
#[cfg(test)]
pub(crate) mod bench;
mod layout;
mod measured;
mod trace;
mod view;

use std::collections::BTreeMap;

use netrig_core::{Duration, Instant, Quantity, Sample, Sink, Subject};
use netrig_stats::{fairness, warmup};

use crate::response::metric::{Metric, Need};
use crate::{Per, ResponseSpec, RunOutcome, Scenario, WarmUp};

use accumulator::{Accumulator, MeasuringWindow};
pub use layout::Outage;
pub(crate) use layout::{Layout, SubjectPlace};
pub use measured::{Cut, MeasuredValue, MeasuredValues};
pub use trace::Trace;
use view::Held;
pub use view::View;

/// Takes the samples of one run and reduces them to the experiment's responses.
///
/// It stores only what the responses need: sums where they suffice, and eight bytes per observation for quantiles. It
/// declines quantities that no response needs ([`Sink::wants`]).
#[derive(Debug)]
pub struct Reduction {
    layout: Layout,
    tasks: Vec<Task>,
    accumulators: Vec<Accumulator>,
    routes: SampleRoutes,
    warm_up: WarmUp,
    /// The quantities that this run does not measure, with their subjects.
    uncounted: Vec<(Subject, &'static Quantity)>,
}

/// One response with its members.
#[derive(Debug)]
struct Task {
    name: String,
    spec: ResponseSpec,
    members: Vec<ResponseMember>,
}

/// One member of a response: its window, and the accumulators of its samples.
#[derive(Debug)]
struct ResponseMember {
    subject: Subject,
    window: MeasuringWindow,
    kept: Vec<(&'static Quantity, usize)>,
}

/// The accumulators that receive a sample, by index of its subject. The lookup is done for each sample, so it does not
/// use names.
#[derive(Debug, Default)]
struct SampleRoutes {
    run: Vec<SampleRoute>,
    nodes: Vec<Vec<SampleRoute>>,
    counters: Vec<Vec<Vec<SampleRoute>>>,
    flows: Vec<Vec<SampleRoute>>,
    paths: Vec<Vec<Vec<SampleRoute>>>,
    links: Vec<[Vec<SampleRoute>; 2]>,
    classes: Vec<[Vec<Vec<SampleRoute>>; 2]>,
    rules: Vec<[Vec<Vec<SampleRoute>>; 2]>,
    /// The distinct quantities of all routes.
    wanted: Vec<&'static Quantity>,
}

#[derive(Clone, Copy, Debug)]
struct SampleRoute {
    quantity: &'static Quantity,
    accumulator: usize,
}

/// Accumulators by subject and quantity. Two needs of the same kind and window share an accumulator.
type SharedAccumulators =
    BTreeMap<(Subject, &'static str), Vec<(std::mem::Discriminant<Need>, MeasuringWindow, usize)>>;

impl Reduction {
    /// A reduction for one run of `scenario`. `warm_up` applies to responses without `after`. If the subject of a
    /// response is not in the scenario, the response is not measured.
    pub fn new(responses: &[(String, ResponseSpec)], warm_up: WarmUp, scenario: &Scenario) -> Self {
        Self::over(responses, warm_up, Layout::of(scenario))
    }

    pub(crate) fn over(responses: &[(String, ResponseSpec)], warm_up: WarmUp, layout: Layout) -> Self {
        let routes = SampleRoutes::for_layout(&layout);
        let mut reduction = Self {
            layout,
            tasks: Vec::new(),
            accumulators: Vec::new(),
            routes,
            warm_up,
            uncounted: Vec::new(),
        };
        let mut shared = SharedAccumulators::new();
        for (name, spec) in responses {
            let members = match spec.metric() {
                Some(metric) => reduction.members(spec, metric, &mut shared),
                None => Vec::new(),
            };
            reduction.tasks.push(Task { name: name.clone(), spec: spec.clone(), members });
        }
        reduction
    }

    fn members(
        &mut self,
        spec: &ResponseSpec,
        metric: &'static Metric,
        shared: &mut SharedAccumulators,
    ) -> Vec<ResponseMember> {
        let mut members = Vec::new();
        let subjects: Vec<Subject> = spec.of.members(&self.layout);
        let start = self.common_start(spec.per.unwrap_or(metric.about().per), &subjects);
        for subject in subjects {
            let window = self.window(spec, start.unwrap_or_else(|| self.flow_start(subject)));
            let mut kept = Vec::new();
            for need in metric.needs(spec.statistic()) {
                let need = self.with_warm_up(need, spec, metric);
                let kind = std::mem::discriminant(&need);
                let alike = shared.entry((subject, need.quantity().name)).or_default();
                let known = alike.iter().find(|(of, over, _)| (*of, *over) == (kind, window));
                let accumulator = known.map(|(_, _, accumulator)| *accumulator).unwrap_or_else(|| {
                    self.accumulators.push(Accumulator::for_need(need, window));
                    let accumulator = self.accumulators.len() - 1;
                    self.routes.add(subject, need, accumulator);
                    alike.push((kind, window, accumulator));
                    accumulator
                });
                kept.push((need.quantity(), accumulator));
            }
            members.push(ResponseMember { subject, window, kept });
        }
        members
    }

    /// Start of the flow; for any other subject, the start of the run.
    fn flow_start(&self, subject: Subject) -> Instant {
        match subject {
            Subject::Flow(flow) => self.layout.flows[flow as usize].start,
            _ => Instant::ZERO,
        }
    }

    /// The common start of the windows of a group: the first start of a member if values are added up or pooled, and
    /// the last start if members are compared (Jain). `None` if each member has a window of its own.
    fn common_start(&self, per: Per, subjects: &[Subject]) -> Option<Instant> {
        let starts = subjects.iter().map(|subject| self.flow_start(*subject));
        match per {
            Per::Sum | Per::Pooled => starts.min(),
            Per::Jain => starts.max(),
            Per::Mean | Per::Max | Per::Min => None,
        }
    }

    /// The measuring window of a response from the file, but not before `flow_start`. If the file gives no start, the
    /// window starts after a fixed warm-up or at `flow_start`.
    fn window(&self, spec: &ResponseSpec, flow_start: Instant) -> MeasuringWindow {
        // Counts are sampled once per sampling interval, so a window consists of whole intervals.
        let whole = |span: Duration| Instant::ZERO + span.round_up(self.layout.sample_every);
        let after = match (spec.after, self.warm_up) {
            (Some(after), _) | (None, WarmUp::Fixed(after)) => whole(after),
            _ => Instant::ZERO,
        };
        let end = spec.until.map_or(Instant::NEVER, whole);
        MeasuringWindow { start: after.max(flow_start), end, is_whole: after <= flow_start }
    }

    fn seeks_warm_up(&self, spec: &ResponseSpec) -> bool {
        self.warm_up == WarmUp::Mser5 && spec.after.is_none()
    }

    /// The need of a response with its warm-up. MSER-5 needs the individual samples of a quantity that would otherwise
    /// be summed up.
    fn with_warm_up(&self, need: Need, spec: &ResponseSpec, metric: &Metric) -> Need {
        match need {
            _ if !self.seeks_warm_up(spec) => need,
            Need::Summary(quantity) => Need::Observations(quantity),
            Need::Total(quantity) | Need::Average(quantity) if metric.signal().is_some() => {
                Need::Series(quantity)
            }
            _ => need,
        }
    }

    /// Whether a response of this run depends on the times of packets in the network.
    pub fn asks_for_times(&self) -> bool {
        let hangs = |task: &&Task| task.spec.metric().is_some_and(|metric| metric.about().hangs_on_times());
        self.tasks.iter().filter(hangs).any(|task| !task.members.is_empty())
    }

    /// Computes the responses of the run, which ended at `end`.
    pub fn finish(self, outcome: &RunOutcome, end: Instant) -> BTreeMap<String, MeasuredValue> {
        let measured = |task: &Task| (task.name.clone(), self.measure(task, outcome, end));
        self.tasks.iter().map(measured).collect()
    }

    fn measure(&self, task: &Task, outcome: &RunOutcome, end: Instant) -> MeasuredValue {
        let Some(metric) = task.spec.metric() else {
            return MeasuredValue::not(format!("there is no metric `{}`", task.spec.metric));
        };
        if task.members.is_empty() {
            return MeasuredValue::not(format!("`{}` is not in this scenario", task.spec.of));
        }
        let mut views = Vec::new();
        let mut cut = None;
        for member in &task.members {
            if let Some(quantity) = self.uncounted_of(member) {
                let (name, of) = (quantity.name, &task.spec.of);
                return MeasuredValue::not(format!("this substrate does not count `{name}` of `{of}`"));
            }
            let mut view = self.view(task, member, outcome, end);
            if self.seeks_warm_up(&task.spec) {
                match find_warm_up(&mut view, metric) {
                    Ok(found) => cut = longer(cut, found),
                    Err(why) => return MeasuredValue::not(why),
                }
            }
            views.push(view);
        }
        match combine(&task.spec, metric, &views) {
            MeasuredValue::Value { value, .. } => MeasuredValue::Value { value, warm_up: cut },
            other => other,
        }
    }

    /// A quantity that a member needs and that this run does not measure.
    fn uncounted_of(&self, member: &ResponseMember) -> Option<&'static Quantity> {
        let is_untold = |quantity: &'static Quantity| {
            self.uncounted
                .iter()
                .any(|(subject, uncounted)| *subject == member.subject && std::ptr::eq(*uncounted, quantity))
        };
        member.kept.iter().map(|(quantity, _)| *quantity).find(|quantity| is_untold(quantity))
    }

    fn view<'a>(
        &'a self,
        task: &Task,
        member: &ResponseMember,
        outcome: &'a RunOutcome,
        end: Instant,
    ) -> View<'a> {
        let held = member
            .kept
            .iter()
            .map(|(quantity, accumulator)| Held::borrowed(quantity, &self.accumulators[*accumulator]));
        let flow = match member.subject {
            Subject::Flow(flow) => self.layout.flows.get(flow as usize),
            _ => None,
        };
        View {
            held: held.collect(),
            window: MeasuringWindow { end: member.window.end.min(end), ..member.window },
            statistic: task.spec.statistic(),
            within: task.spec.within,
            skip: 0,
            run_end: end,
            outcome,
            layout: &self.layout,
            flow,
        }
    }
}

impl Sink for Reduction {
    fn sample(&mut self, subject: Subject, sample: Sample) {
        for route in self.routes.of(subject) {
            if std::ptr::eq(route.quantity, sample.quantity) {
                self.accumulators[route.accumulator].take(subject, sample);
            }
        }
    }

    fn untold(&mut self, subject: Subject, quantity: &'static Quantity) {
        self.uncounted.push((subject, quantity));
    }

    fn kept_bytes(&self) -> u64 {
        self.accumulators.iter().map(|accumulator| accumulator.bytes() as u64).sum()
    }

    fn wants(&self, quantity: &'static Quantity) -> bool {
        self.routes.wanted.iter().any(|wanted| std::ptr::eq(*wanted, quantity))
    }
}

impl SampleRoutes {
    fn for_layout(layout: &Layout) -> Self {
        let paths = |flow: &layout::FlowPlace| vec![Vec::new(); usize::from(flow.paths)];
        let parts = |[forward, backward]: &[Vec<String>; 2]| {
            [vec![Vec::new(); forward.len()], vec![Vec::new(); backward.len()]]
        };
        Self {
            run: Vec::new(),
            nodes: vec![Vec::new(); layout.nodes.len()],
            counters: layout.counters.iter().map(|names| vec![Vec::new(); names.len()]).collect(),
            flows: vec![Vec::new(); layout.flows.len()],
            paths: layout.flows.iter().map(paths).collect(),
            links: vec![[Vec::new(), Vec::new()]; layout.links.len()],
            classes: layout.classes.iter().map(parts).collect(),
            rules: layout.rules.iter().map(parts).collect(),
            wanted: Vec::new(),
        }
    }

    fn add(&mut self, subject: Subject, need: Need, accumulator: usize) {
        let route = SampleRoute { quantity: need.quantity(), accumulator };
        if !self.wanted.iter().any(|wanted| std::ptr::eq(*wanted, route.quantity)) {
            self.wanted.push(route.quantity);
        }
        match (need, subject) {
            (Need::PathMarks(_), Subject::Flow(flow)) => {
                let paths = self.paths.get_mut(flow as usize).into_iter().flatten();
                paths.for_each(|path| path.push(route));
            }
            (_, Subject::Run) => self.run.push(route),
            (_, Subject::Node(node)) => self.nodes[node as usize].push(route),
            (_, Subject::Counter(node, place)) => {
                self.counters[node as usize][usize::from(place)].push(route);
            }
            (_, Subject::Flow(flow)) => self.flows[flow as usize].push(route),
            (_, Subject::Link(link, direction)) => self.links[link as usize][direction as usize].push(route),
            (_, Subject::Class(link, direction, class)) => {
                self.classes[link as usize][direction as usize][usize::from(class)].push(route);
            }
            (_, Subject::Rule(link, direction, rule)) => {
                self.rules[link as usize][direction as usize][usize::from(rule)].push(route);
            }
            (_, Subject::Path(flow, path)) => self.paths[flow as usize][usize::from(path)].push(route),
        }
    }

    fn of(&self, subject: Subject) -> &[SampleRoute] {
        let found = match subject {
            Subject::Run => Some(&self.run),
            Subject::Node(node) => self.nodes.get(node as usize),
            Subject::Counter(node, place) => {
                self.counters.get(node as usize).and_then(|node| node.get(usize::from(place)))
            }
            Subject::Flow(flow) => self.flows.get(flow as usize),
            Subject::Link(link, direction) => {
                self.links.get(link as usize).map(|both| &both[direction as usize])
            }
            Subject::Class(link, direction, class) => {
                let both = self.classes.get(link as usize);
                both.and_then(|both| both[direction as usize].get(usize::from(class)))
            }
            Subject::Rule(link, direction, rule) => {
                let both = self.rules.get(link as usize);
                both.and_then(|both| both[direction as usize].get(usize::from(rule)))
            }
            Subject::Path(flow, path) => {
                self.paths.get(flow as usize).and_then(|flow| flow.get(usize::from(path)))
            }
        };
        found.map_or(&[], Vec::as_slice)
    }
}

/// Finds the warm-up by MSER-5, and moves the start of the view to its end.
fn find_warm_up(view: &mut View<'_>, metric: &Metric) -> Result<Option<Cut>, String> {
    let by_time = metric.signal().map(|signal| view.intervals(signal));
    let series = match (&by_time, view.observations()) {
        (_, Some(observations)) => observations,
        (Some(intervals), None) => intervals,
        (None, None) => return Ok(None),
    };
    let by_count = by_time.is_none() || view.observations().is_some();
    let found = warmup::Warmup::mser5(series)
        .map_err(|error| format!("the warm-up cannot be found by MSER-5: {error}"))?;
    if by_count {
        view.skip = found.discard;
    } else {
        view.window.start += view.sample_every() * found.discard as u64;
        view.window.is_whole &= found.discard == 0;
    }
    Ok(Some(Cut { discarded: found.discard, too_short: found.verdict == warmup::WarmupVerdict::RunTooShort }))
}

/// The longer of the cuts of two members.
fn longer(one: Option<Cut>, other: Option<Cut>) -> Option<Cut> {
    match (one, other) {
        (Some(a), Some(b)) => {
            Some(Cut { discarded: a.discarded.max(b.discarded), too_short: a.too_short || b.too_short })
        }
        (a, b) => a.or(b),
    }
}

/// The value of the response over all members, in the unit of the response.
fn combine(spec: &ResponseSpec, metric: &Metric, views: &[View<'_>]) -> MeasuredValue {
    let per = spec.per.unwrap_or(metric.about().per);
    if let [only] = views
        && per != Per::Jain
    {
        return scaled(metric.reduce(only), spec);
    }
    if per == Per::Pooled {
        return scaled(metric.reduce(&View::pooled(views)), spec);
    }
    if per == Per::Sum
        && let Some(together) = metric.sum(views)
    {
        return scaled(together, spec);
    }
    let mut values = Vec::new();
    for view in views {
        match metric.reduce(view) {
            MeasuredValue::Value { value, .. } => values.push(value),
            MeasuredValue::NotMeasured(why) => {
                return MeasuredValue::not(format!("{}: {why}", view.member()));
            }
        }
    }
    let sum: f64 = values.iter().sum();
    match per {
        Per::Sum | Per::Pooled => scaled(sum.into(), spec),
        Per::Mean => scaled((sum / values.len() as f64).into(), spec),
        Per::Max => scaled(values.iter().copied().fold(f64::NEG_INFINITY, f64::max).into(), spec),
        Per::Min => scaled(values.iter().copied().fold(f64::INFINITY, f64::min).into(), spec),
        Per::Jain => match fairness::jain(&values) {
            Ok(index) => index.into(),
            Err(error) => MeasuredValue::not(format!("no fairness: {error}")),
        },
    }
}

fn scaled(measured: MeasuredValue, spec: &ResponseSpec) -> MeasuredValue {
    match measured {
        MeasuredValue::Value { value, .. } => (value * spec.scale()).into(),
        other => other,
    }
}

#[cfg(test)]
mod tests;
