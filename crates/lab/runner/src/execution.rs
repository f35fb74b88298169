//! One run, from the samples that its substrate delivers to what the store keeps.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use netrig_core::{Note, Quantity, Sample, Sink, Subject, quantity};
use netrig_experiment::{Balance, Experiment, Reduction, Run, RunError, Scenario, Substrate, Trace};
use netrig_store::{NoteLine, RunEnd, StoredResponse, TimeSeries};

/// What became of a run.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) end: RunEnd,
    pub(crate) responses: BTreeMap<String, StoredResponse>,
    pub(crate) series: Vec<TimeSeries>,
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
        end: RunEnd::Failed(why),
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
        keeps: if traced { Keeps::All } else { Keeps::what_cannot_be_had_later(substrate, experiment, run) },
    };
    let mut outcome = substrate.run(run, &mut both, cancel)?;
    let Both { reduction, trace, .. } = both;
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
    Ok(Executed {
        responses: responses.collect(),
        series: series(&trace, &run.scenario),
        notes: notes(&trace, &run.scenario),
        end: RunEnd::Finished(outcome),
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
    /// These quantities of these subjects, by name.
    Some(BTreeSet<(Subject, &'static str)>),
}

impl Keeps {
    /// What pictures in a report are made of. Of a video they are those of the packets that came; a figure over time is drawn
    /// of the run that was measured, and a run in real time is not made again.
    fn what_cannot_be_had_later(substrate: &dyn Substrate, experiment: &Experiment, run: &Run) -> Self {
        let flows = (0..).zip(&run.scenario.flows).filter(|(_, flow)| flow.video().is_some());
        let of_videos =
            flows.flat_map(|(flow, _)| VIDEO.map(|quantity| (Subject::Flow(flow), quantity.name)));
        let figures = experiment.design.figures.iter().filter(|_| !substrate.repeats());
        let drawn = figures
            .flat_map(|(_, figure)| figure.draws(run))
            .map(|(subject, quantity)| (subject, quantity.name));
        Self::Some(of_videos.chain(drawn).collect())
    }

    /// Whether it may keep samples of the quantity.
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

    fn kept_bytes(&self) -> u64 {
        self.reduction.kept_bytes() + self.trace.kept_bytes()
    }

    fn wants(&self, quantity: &'static Quantity) -> bool {
        self.reduction.wants(quantity) || self.keeps.wants(quantity) && self.trace.wants(quantity)
    }

    fn wants_notes(&self) -> bool {
        matches!(self.keeps, Keeps::All)
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
    // In real time they come from several places.
    lines.sort_by_key(|line| line.at);
    lines
}
