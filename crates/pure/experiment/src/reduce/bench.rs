//! A test bench, which reduces given samples to one response.

use netrig_core::{Direction, Duration, Instant, Quantity, Sample, Sink, Subject};
use netrig_traffic::Settings;

use super::layout::{FlowPlace, Layout, SubjectPlace};
use super::{MeasuredValue, Reduction};
use crate::{Balance, ResponseSpec, RunOutcome, WarmUp};

/// One run with a flow `web` of two paths and a link `primary`, sampled every 100 ms.
pub(crate) struct Bench {
    pub layout: Layout,
    pub outcome: RunOutcome,
    pub warm_up: WarmUp,
    end: Instant,
    samples: Vec<(Subject, Sample)>,
}

/// The flow.
pub(crate) fn flow() -> Subject {
    Subject::Flow(0)
}

/// One of the flow's paths.
pub(crate) fn path(path: u8) -> Subject {
    Subject::Path(0, path)
}

/// The link, in forward direction.
pub(crate) fn link() -> Subject {
    Subject::Link(0, Direction::Forward)
}

pub(crate) fn place(name: &str) -> SubjectPlace {
    SubjectPlace { name: name.to_owned(), group: name.split('#').next().unwrap().to_owned() }
}

/// An application for tests that do not depend on the application.
pub(crate) fn application() -> Settings {
    toml::from_str("[bulk]").unwrap()
}

impl Bench {
    /// A run of `seconds` seconds.
    pub fn new(seconds: u64) -> Self {
        let layout = Layout {
            flows: vec![FlowPlace {
                place: place("web"),
                start: Instant::ZERO,
                stop: Instant::NEVER,
                paths: 2,
                application: application(),
            }],
            links: vec![place("primary")],
            classes: vec![[vec!["premium".to_owned(), "rest".to_owned()], Vec::new()]],
            rules: vec![[vec!["1".to_owned(), "video".to_owned()], Vec::new()]],
            nodes: vec![place("client"), place("server")],
            counters: vec![Vec::new(), vec!["requests".to_owned(), "core.replies".to_owned()]],
            outage: None,
            sample_every: Duration::from_millis(100),
        };
        let outcome = RunOutcome {
            balance: Balance::default(),
            events: 0,
            lasted: None,
            lateness: Duration::ZERO,
            invalid: None,
            moved: None,
            remarks: Vec::new(),
            deterministic: false,
        };
        let end = Instant::ZERO + Duration::from_secs(seconds);
        Self { layout, outcome, warm_up: WarmUp::None, end, samples: Vec::new() }
    }

    /// The time `seconds` after the start of the run.
    pub fn at(seconds: f64) -> Instant {
        Instant::ZERO + Duration::from_secs_f64(seconds)
    }

    /// Adds samples, each with its time in seconds and its value.
    pub fn count(&mut self, subject: Subject, quantity: &'static Quantity, samples: &[(f64, f64)]) {
        let sample = |(at, value): &(f64, f64)| Sample { at: Self::at(*at), quantity, value: *value };
        self.samples.extend(samples.iter().map(|pair| (subject, sample(pair))));
    }

    /// Adds marks at these times in seconds.
    pub fn mark(&mut self, subject: Subject, quantity: &'static Quantity, seconds: &[f64]) {
        let marks: Vec<(f64, f64)> = seconds.iter().map(|at| (*at, 0.0)).collect();
        self.count(subject, quantity, &marks);
    }

    /// The value of the response that `spec` describes in TOML. The error is the reason why it was not measured.
    /// Samples must be added in the order of time.
    pub fn measure(&mut self, spec: &str) -> Result<f64, String> {
        match self.measured(spec) {
            MeasuredValue::Value { value, .. } => Ok(value),
            MeasuredValue::NotMeasured(why) => Err(why.into()),
        }
    }

    /// As [`measure`](Self::measure), with the warm-up that was removed.
    pub fn measured(&mut self, spec: &str) -> MeasuredValue {
        let spec: ResponseSpec = toml::from_str(spec).unwrap();
        let mut reduction = Reduction::over(&[("r".to_owned(), spec)], self.warm_up, self.layout.clone());
        self.samples.sort_by_key(|(_, sample)| sample.at);
        for (subject, sample) in &self.samples {
            if reduction.wants(sample.quantity) {
                reduction.sample(*subject, *sample);
            }
        }
        reduction.finish(&self.outcome, self.end).remove("r").unwrap()
    }
}
