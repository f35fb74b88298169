//! Stores the samples of a run, for the page of one run and for figures over time.

use std::collections::BTreeMap;

use netrig_core::{Instant, Note, Quantity, QuantityKind, Sample, Sink, Subject};

/// A quantity with its samples in the order of time.
type SampleSeries = (&'static Quantity, Vec<(Instant, f64)>);

/// Keeps all counts, gauges, marks and notes of a run. Observations are not kept, because there may be millions: one
/// per object or packet.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The series, by subject and name of the quantity.
    series: BTreeMap<(Subject, &'static str), SampleSeries>,
    notes: Vec<Note>,
    /// Memory of all samples and notes, bytes.
    bytes: usize,
}

impl Trace {
    /// An empty trace.
    pub fn new() -> Self {
        Self::default()
    }

    /// The samples of one quantity of one subject, in the order of time; empty if there were none.
    pub fn series(&self, subject: Subject, quantity: &str) -> &[(Instant, f64)] {
        let found = self.series.iter().find(|((of, name), _)| *of == subject && *name == quantity);
        found.map_or(&[], |(_, (_, samples))| samples)
    }

    /// All series, by subject and quantity.
    pub fn all(&self) -> impl Iterator<Item = (Subject, &'static Quantity, &[(Instant, f64)])> {
        let series = self.series.iter();
        series.map(|((subject, _), (quantity, samples))| (*subject, *quantity, samples.as_slice()))
    }

    /// The notes, in the order of time.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

impl Sink for Trace {
    fn sample(&mut self, subject: Subject, sample: Sample) {
        if self.wants(sample.quantity) {
            let Sample { at, quantity, value } = sample;
            let (_, samples) =
                self.series.entry((subject, quantity.name)).or_insert_with(|| (quantity, Vec::new()));
            samples.push((at, value));
            self.bytes += size_of::<(Instant, f64)>();
        }
    }

    fn kept_bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn note(&mut self, note: Note) {
        self.bytes += size_of::<Note>() + note.text.len();
        self.notes.push(note);
    }

    fn wants(&self, quantity: &'static Quantity) -> bool {
        quantity.kind != QuantityKind::Value
    }

    fn wants_notes(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::quantity::{CWND, OBJECT_TIME};

    use super::*;

    fn sample(at: u64, quantity: &'static Quantity, value: f64) -> Sample {
        Sample { at: Instant::from_nanos(at), quantity, value }
    }

    #[test]
    fn keeps_gauges_and_notes_but_no_observations() {
        let path = Subject::Path(0, 1);
        let mut trace = Trace::new();
        trace.sample(path, sample(1, &CWND, 3000.0));
        trace.sample(path, sample(2, &CWND, 4500.0));
        trace.sample(Subject::Flow(0), sample(2, &OBJECT_TIME, 0.5));
        trace.note(Note { at: Instant::ZERO, subject: path, text: "T3-rtx".into() });
        let series = trace.series(path, "cwnd");
        assert_eq!(series, [(Instant::from_nanos(1), 3000.0), (Instant::from_nanos(2), 4500.0)]);
        assert_eq!(trace.series(Subject::Path(0, 0), "cwnd"), []);
        assert_eq!(trace.series(Subject::Flow(0), "object_time"), []);
        assert!(trace.wants(&CWND) && !trace.wants(&OBJECT_TIME) && trace.wants_notes());
        assert_eq!((trace.notes().len(), trace.all().count()), (1, 1));
        assert_eq!(
            trace.kept_bytes(),
            (2 * size_of::<(Instant, f64)>() + size_of::<Note>() + "T3-rtx".len()) as u64
        );
    }
}
