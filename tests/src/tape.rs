//! Everything that a run reports.

use netrig_core::{Instant, Note, Quantity, Sample, Sink, Subject};

/// Keeps all samples and the time line of a run.
#[derive(Default)]
pub struct Tape {
    samples: Vec<(Subject, Sample)>,
    notes: Vec<Note>,
}

impl Tape {
    /// The samples of one quantity of one subject, in the order of time.
    pub fn series(&self, subject: Subject, quantity: &'static Quantity) -> Vec<(Instant, f64)> {
        let wanted = |of: &Subject, sample: &Sample| *of == subject && sample.quantity.name == quantity.name;
        self.samples.iter().filter(|(of, s)| wanted(of, s)).map(|(_, s)| (s.at, s.value)).collect()
    }

    /// Only the values of [`series`](Self::series).
    pub fn values(&self, subject: Subject, quantity: &'static Quantity) -> Vec<f64> {
        self.series(subject, quantity).into_iter().map(|(_, value)| value).collect()
    }

    /// The time line.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

impl Sink for Tape {
    fn sample(&mut self, subject: Subject, sample: Sample) {
        self.samples.push((subject, sample));
    }

    fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    fn wants_notes(&self) -> bool {
        true
    }
}
