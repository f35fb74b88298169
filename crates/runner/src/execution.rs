//! One run, from the samples that its substrate delivers to what the store keeps.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use netrig_core::{Note, Quantity, Sample, Sink, Subject, quantity};
use netrig_experiment::{Balance, Experiment, Reduction, Run, RunError, Scenario, Substrate, Trace};
use netrig_store::{End, NoteLine, Response, Series};

/// What became of a run.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) end: End,
    pub(crate) responses: BTreeMap<String, Response>,
    pub(crate) series: Vec<Series>,
    pub(crate) notes: Vec<NoteLine>,
    pub(crate) took: Duration,
}

/// Carries `run` out; nothing comes of one that was cancelled.
pub(crate) fn execute(
    substrate: &dyn Substrate,
    experiment: &Experiment,
    run: &Run,
    traced: bool,
    cancel: &AtomicBool,
) -> Option<Executed> {
    let start = Instant::now();
    // Unwind safe: all that the closure can leave half done is its own, and is dropped with it.
    let caught = catch_unwind(AssertUnwindSafe(|| attempt(substrate, experiment, run, traced, cancel)));
    let took = start.elapsed();
    let failed = |why| Executed {
        end: End::Failed(why),
        responses: BTreeMap::new(),
        series: Vec::new(),
        notes: Vec::new(),
        took,
    };
    match caught {
        Ok(Ok(executed)) => Some(Executed { took, ..executed }),
        Ok(Err(RunError::Cancelled)) => None,
        Ok(Err(error)) => Some(failed(error.to_string())),
        Err(panic) => Some(failed(format!("a bug in netrig stopped the run: {}", message(&*panic)))),
    }
}

fn attempt(
    substrate: &dyn Substrate,
    experiment: &Experiment,
    run: &Run,
    traced: bool,
    cancel: &AtomicBool,
) -> Result<Executed, RunError> {
    let responses = &experiment.design.responses;
    let mut both = Both {
        reduction: Reduction::new(responses, experiment.warm_up, &run.scenario),
        trace: Trace::new(),
        keeps: if traced { Keeps::All } else { Keeps::video_of(&run.scenario) },
    };
    let outcome = substrate.run(run, &mut both, cancel)?;
    let Both { reduction, trace, .. } = both;
    if !outcome.balance.holds() {
        return Err(RunError::Failed(imbalance(&outcome.balance)));
    }
    let end = netrig_core::Instant::ZERO + outcome.lasted.unwrap_or(run.scenario.duration);
    let mut measured = reduction.finish(&outcome, end);
    let responses = responses.iter().filter_map(|(name, spec)| {
        Some((name.clone(), Response { unit: spec.unit().to_owned(), measured: measured.remove(name)? }))
    });
    Ok(Executed {
        responses: responses.collect(),
        series: series(&trace, &run.scenario),
        notes: notes(&trace, &run.scenario),
        end: End::Finished(outcome),
        took: Duration::ZERO,
    })
}

/// Contract of every substrate: no packet is lost unseen.
fn imbalance(balance: &Balance) -> String {
    let Balance { offered, duplicated, delivered, dropped, inside } = balance;
    format!(
        "the packets do not add up: {offered} offered + {duplicated} duplicated, but {delivered} delivered + \
         {dropped} dropped + {inside} still inside"
    )
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it did not say why")
}

/// The reduction, and the trace of what is kept.
struct Both {
    reduction: Reduction,
    trace: Trace,
    keeps: Keeps,
}

/// What of a run is kept beside its responses.
enum Keeps {
    /// Time series and time line, for that was asked for.
    All,
    /// Of these flows of video which packets came and when: the pictures in a report are made of it, and a run in real
    /// time is not made again.
    Video(BTreeSet<u32>),
}

impl Keeps {
    fn video_of(scenario: &Scenario) -> Self {
        let flows = (0..).zip(&scenario.flows);
        let video = flows.filter(|(_, flow)| flow.video().is_some());
        Self::Video(video.map(|(place, _)| place).collect())
    }

    /// Whether it may keep samples of the quantity.
    fn wants(&self, quantity: &'static Quantity) -> bool {
        match self {
            Self::All => true,
            Self::Video(flows) => {
                !flows.is_empty() && VIDEO.iter().any(|wanted| std::ptr::eq(*wanted, quantity))
            }
        }
    }

    fn takes(&self, subject: Subject, quantity: &'static Quantity) -> bool {
        let of_it = match (self, subject) {
            (Self::All, _) => true,
            (Self::Video(flows), Subject::Flow(flow)) => flows.contains(&flow),
            (Self::Video(_), _) => false,
        };
        of_it && self.wants(quantity)
    }
}

/// What tells which packets of a video came, and when.
static VIDEO: [&Quantity; 3] = [&quantity::DATAGRAMS_SENT, &quantity::MEDIA_NUMBER, &quantity::MEDIA_DELAY];

impl Sink for Both {
    fn sample(&mut self, subject: Subject, sample: Sample) {
        self.reduction.sample(subject, sample);
        if self.keeps.takes(subject, sample.quantity) {
            self.trace.sample(subject, sample);
        }
    }

    fn note(&mut self, note: Note) {
        // What programs of others wrote is told without being asked for, and is all that is left of them.
        if self.wants_notes() || matches!(note.subject, Subject::Node(_)) {
            self.trace.note(note);
        }
    }

    fn untold(&mut self, subject: Subject, quantity: &'static Quantity) {
        self.reduction.untold(subject, quantity);
    }

    fn wants(&self, quantity: &'static Quantity) -> bool {
        self.reduction.wants(quantity) || self.keeps.wants(quantity) && self.trace.wants(quantity)
    }

    fn wants_notes(&self) -> bool {
        matches!(self.keeps, Keeps::All)
    }
}

fn series(trace: &Trace, scenario: &Scenario) -> Vec<Series> {
    let one = |(subject, quantity, samples): (Subject, &'static Quantity, &[_])| Series {
        subject: name(subject, scenario),
        quantity: quantity.name.to_owned(),
        unit: quantity.unit.to_owned(),
        samples: samples.to_vec(),
    };
    trace.all().map(one).collect()
}

fn notes(trace: &Trace, scenario: &Scenario) -> Vec<NoteLine> {
    let one = |note: &Note| NoteLine {
        at: note.at,
        subject: name(note.subject, scenario),
        text: note.text.clone(),
    };
    let mut lines: Vec<_> = trace.notes().iter().map(one).collect();
    // In real time they come from several places.
    lines.sort_by_key(|line| line.at);
    lines
}

/// A subject by the names of the file, as it stands in the store: `flow/web`, `flow/web/path/primary`,
/// `link/primary/forward`, `link/primary/forward/class/premium`, `link/primary/forward/rule/1`, `node/client`,
/// `node/client/counter/requests`, `run`. One that the scenario does not have keeps its number.
fn name(subject: Subject, scenario: &Scenario) -> String {
    let or_number = |name: Option<&str>, number: u32| name.map_or(number.to_string(), str::to_owned);
    let flow = |number: u32| scenario.flows.get(number as usize);
    match subject {
        Subject::Run => "run".to_owned(),
        Subject::Flow(f) => format!("flow/{}", or_number(flow(f).map(|flow| flow.name.as_str()), f)),
        Subject::Path(f, p) => {
            let path = flow(f).and_then(|flow| flow.paths.get(usize::from(p)));
            let path = or_number(path.map(|path| path.name.as_str()), u32::from(p));
            format!("{}/path/{path}", name(Subject::Flow(f), scenario))
        }
        Subject::Link(l, direction) => {
            let link = or_number(scenario.links.get(l as usize).map(|link| link.name.as_str()), l);
            format!("link/{link}/{direction}")
        }
        Subject::Class(l, direction, c) => {
            let link = scenario.links.get(l as usize);
            let class = link.and_then(|link| link.towards(direction).classes().get(usize::from(c)));
            let class = or_number(class.map(|class| class.name()), c.into());
            format!("{}/class/{class}", name(Subject::Link(l, direction), scenario))
        }
        Subject::Rule(l, direction, r) => {
            let link = scenario.links.get(l as usize);
            let rule = link.and_then(|link| link.towards(direction).conditions().get(usize::from(r)));
            let rule = or_number(rule.map(|rule| rule.name(r.into())).as_deref(), r.into());
            format!("{}/rule/{rule}", name(Subject::Link(l, direction), scenario))
        }
        Subject::Node(n) => {
            format!("node/{}", or_number(scenario.nodes.get(n as usize).map(|node| node.name.as_str()), n))
        }
        Subject::Counter(n, place) => {
            let counter = scenario.nodes.get(n as usize).and_then(|node| node.counters().nth(place.into()));
            let counter = or_number(counter, place.into());
            format!("{}/counter/{counter}", name(Subject::Node(n), scenario))
        }
    }
}
