//! Executes one run: reduces the samples of the substrate to the data that the store keeps.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use netrig_core::{Note, Quantity, Sample, Sink, Subject, quantity};
use netrig_experiment::{Balance, Experiment, Reduction, Run, RunError, Scenario, Substrate, Trace};
use netrig_store::{NoteLine, RunEnd, StoredResponse, TimeSeries};

/// The result of a run.
#[derive(Debug)]
pub(crate) struct ExecutedRun {
    pub(crate) end: RunEnd,
    pub(crate) responses: BTreeMap<String, StoredResponse>,
    pub(crate) series: Vec<TimeSeries>,
    pub(crate) notes: Vec<NoteLine>,
    pub(crate) took: Duration,
}

/// Executes `run`. Returns `None` if it was cancelled.
pub(crate) fn execute(
    substrate: &dyn Substrate,
    experiment: &Experiment,
    run: &Run,
    traced: bool,
    cancel: &AtomicBool,
) -> Option<ExecutedRun> {
    let start = Instant::now();
    // Unwind safe, because the closure owns all state that a panic may leave inconsistent.
    let caught = catch_unwind(AssertUnwindSafe(|| attempt(substrate, experiment, run, traced, cancel)));
    let took = start.elapsed();
    let failed = |why| ExecutedRun {
        end: RunEnd::Failed(why),
        responses: BTreeMap::new(),
        series: Vec::new(),
        notes: Vec::new(),
        took,
    };
    match caught {
        Ok(Ok(executed)) => Some(ExecutedRun { took, ..executed }),
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
) -> Result<ExecutedRun, RunError> {
    let responses = &experiment.design.responses;
    let mut sink = RunSink {
        reduction: Reduction::new(responses, experiment.warm_up, &run.scenario),
        trace: Trace::new(),
        keeps: if traced {
            TraceSelection::All
        } else {
            TraceSelection::for_figures(substrate, experiment, run)
        },
    };
    let mut outcome = substrate.run(run, &mut sink, cancel)?;
    let RunSink { reduction, trace, .. } = sink;
    if reduction.asks_for_times() {
        outcome.invalid = outcome.invalid.or(outcome.moved.take());
    }
    if !outcome.balance.holds() {
        return Err(RunError::Failed(imbalance(&outcome.balance)));
    }
    let end = netrig_core::Instant::ZERO + outcome.lasted.unwrap_or(run.scenario.duration);
    let mut measured = reduction.finish(&outcome, end);
    let responses = responses.iter().filter_map(|(name, spec)| {
        Some((
            name.clone(),
            StoredResponse { unit: spec.unit().to_owned(), measured: measured.remove(name)? },
        ))
    });
    Ok(ExecutedRun {
        responses: responses.collect(),
        series: series(&trace, &run.scenario),
        notes: notes(&trace, &run.scenario),
        end: RunEnd::Finished(outcome),
        took: Duration::ZERO,
    })
}

/// The error text of a run that violates the contract of every substrate: each packet is accounted for.
fn imbalance(balance: &Balance) -> String {
    let Balance { offered, duplicated, delivered, dropped, inside } = balance;
    format!(
        "the packets do not add up: {offered} offered + {duplicated} duplicated, but {delivered} delivered + \
         {dropped} dropped + {inside} still inside"
    )
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("the panic has no message")
}

/// The sink of a run. It has the reduction, and the trace with the samples that are kept.
struct RunSink {
    reduction: Reduction,
    trace: Trace,
    keeps: TraceSelection,
}

/// The samples of a run that are kept in addition to its responses.
enum TraceSelection {
    /// All time series and notes, because a trace was requested.
    All,
    /// These quantities (by name) of these subjects.
    Some(BTreeSet<(Subject, &'static str)>),
}

impl TraceSelection {
    /// The samples that figures of a report need and that cannot be obtained later. Pictures of a video need the
    /// packets that arrived. A figure over time shows the run that was measured, and a run in real time cannot be
    /// repeated later.
    fn for_figures(substrate: &dyn Substrate, experiment: &Experiment, run: &Run) -> Self {
        let flows = (0..).zip(&run.scenario.flows).filter(|(_, flow)| flow.video().is_some());
        let of_videos =
            flows.flat_map(|(flow, _)| VIDEO.map(|quantity| (Subject::Flow(flow), quantity.name)));
        let figures = experiment.design.figures.iter().filter(|_| !substrate.repeats());
        let drawn = figures
            .flat_map(|(_, figure)| figure.draws(run))
            .map(|(subject, quantity)| (subject, quantity.name));
        Self::Some(of_videos.chain(drawn).collect())
    }

    /// Whether samples of the quantity are kept for at least one subject.
    fn wants(&self, quantity: &'static Quantity) -> bool {
        match self {
            Self::All => true,
            Self::Some(kept) => kept.iter().any(|(_, name)| *name == quantity.name),
        }
    }

    fn takes(&self, subject: Subject, quantity: &'static Quantity) -> bool {
        match self {
            Self::All => true,
            Self::Some(kept) => kept.contains(&(subject, quantity.name)),
        }
    }
}

/// The quantities that record which packets of a video arrived, and when.
static VIDEO: [&Quantity; 3] = [&quantity::DATAGRAMS_SENT, &quantity::MEDIA_NUMBER, &quantity::MEDIA_DELAY];

impl Sink for RunSink {
    fn sample(&mut self, subject: Subject, sample: Sample) {
        self.reduction.sample(subject, sample);
        if self.keeps.takes(subject, sample.quantity) {
            self.trace.sample(subject, sample);
        }
    }

    fn note(&mut self, note: Note) {
        // The output of other programs is always kept, because it is the only record of what they did.
        if self.wants_notes() || matches!(note.subject, Subject::Node(_)) {
            self.trace.note(note);
        }
    }

    fn untold(&mut self, subject: Subject, quantity: &'static Quantity) {
        self.reduction.untold(subject, quantity);
    }

    fn kept_bytes(&self) -> u64 {
        self.reduction.kept_bytes() + self.trace.kept_bytes()
    }

    fn wants(&self, quantity: &'static Quantity) -> bool {
        self.reduction.wants(quantity) || self.keeps.wants(quantity) && self.trace.wants(quantity)
    }

    fn wants_notes(&self) -> bool {
        matches!(self.keeps, TraceSelection::All)
    }
}

fn series(trace: &Trace, scenario: &Scenario) -> Vec<TimeSeries> {
    let one = |(subject, quantity, samples): (Subject, &'static Quantity, &[_])| TimeSeries {
        subject: scenario.name_of(subject),
        quantity: quantity.name.to_owned(),
        unit: quantity.unit.to_owned(),
        samples: samples.to_vec(),
    };
    trace.all().map(one).collect()
}

fn notes(trace: &Trace, scenario: &Scenario) -> Vec<NoteLine> {
    let one = |note: &Note| NoteLine {
        at: note.at,
        subject: scenario.name_of(note.subject),
        text: note.text.clone(),
    };
    let mut lines: Vec<_> = trace.notes().iter().map(one).collect();
    // In real time, the notes of several sources are not in the order of time.
    lines.sort_by_key(|line| line.at);
    lines
}
