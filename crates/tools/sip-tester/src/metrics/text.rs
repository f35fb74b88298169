//! The text exposition format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

use netrig_core::Duration;
use netrig_sip::index::Histogram;

/// Upper ends of the buckets of durations, s: 1, 2 and 5 of each decade, and the thresholds between them.
const ENDS: [f64; 20] = [
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 5.0, 10.0,
    20.0, 50.0, 100.0,
];

/// A page of metrics.
#[derive(Clone, Debug, Default)]
pub struct Page {
    text: String,
}

/// The type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows within a load.
    Counter,
    /// Rises and falls.
    Gauge,
}

/// Names and values of labels.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    /// The page as sent.
    pub fn into_text(self) -> String {
        self.text
    }

    /// A family of values; left out if there are none.
    pub fn family<'a>(
        &mut self,
        (name, help, kind): (&str, &str, MetricKind),
        values: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, f64)>,
    ) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return;
        }
        self.head(name, help, if kind == MetricKind::Counter { "counter" } else { "gauge" });
        for (labels, value) in values {
            self.line(name, &labels, None, value);
        }
    }

    /// One value without labels.
    pub fn value(&mut self, family: (&str, &str, MetricKind), value: f64) {
        self.family(family, [(Vec::new(), value)]);
    }

    /// Histograms of durations, s; empty ones are left out.
    pub fn histograms<'a>(
        &mut self,
        (name, help): (&str, &str),
        all: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, &'a Histogram)>,
    ) {
        let mut all = all.into_iter().filter(|(_, spans)| spans.count() > 0).peekable();
        if all.peek().is_none() {
            return;
        }
        self.head(name, help, "histogram");
        for (labels, spans) in all {
            let bucket = format!("{name}_bucket");
            for end in ENDS {
                let within = spans.count() - spans.above(Duration::from_secs_f64(end));
                self.line(&bucket, &labels, Some(&end.to_string()), within as f64);
            }
            self.line(&bucket, &labels, Some("+Inf"), spans.count() as f64);
            self.line(&format!("{name}_sum"), &labels, None, spans.sum());
            self.line(&format!("{name}_count"), &labels, None, spans.count() as f64);
        }
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: Labels<'_>, end: Option<&str>, value: f64) {
        self.text.push_str(name);
        let all = labels.iter().copied().chain(end.map(|end| ("le", end)));
        let mut before = '{';
        for (label, of) in all {
            let of = of.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{before}{label}=\"{of}\"");
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_help_its_type_and_its_values() {
        let mut page = Page::default();
        let labels = vec![("why", "said \"no\"\\\n")];
        page.family(("x_total", "a\nb\\", MetricKind::Counter), [(labels, 3.0), (vec![], 0.5)]);
        page.family(("nothing", "of it", MetricKind::Gauge), []);
        page.value(("y", "one", MetricKind::Gauge), 1e-7);
        assert_eq!(
            page.into_text(),
            "# HELP x_total a\\nb\\\\\n# TYPE x_total counter\n\
             x_total{why=\"said \\\"no\\\"\\\\\\n\"} 3\nx_total 0.5\n\
             # HELP y one\n# TYPE y gauge\ny 0.0000001\n"
        );
    }

    #[test]
    fn buckets_count_all_that_is_no_longer() {
        let mut spans = Histogram::default();
        [1, 3, 700, 200_000].into_iter().for_each(|ms| spans.record(Duration::from_millis(ms)));
        let mut page = Page::default();
        page.histograms(("d_seconds", "spans"), [(vec![("of", "x")], &spans)]);
        page.histograms(("e_seconds", "none"), [(vec![], &Histogram::default())]);
        let text = page.into_text();
        for line in [
            "# TYPE d_seconds histogram",
            "d_seconds_bucket{of=\"x\",le=\"0.0005\"} 0",
            "d_seconds_bucket{of=\"x\",le=\"0.002\"} 1",
            "d_seconds_bucket{of=\"x\",le=\"0.5\"} 2",
            "d_seconds_bucket{of=\"x\",le=\"1\"} 3",
            "d_seconds_bucket{of=\"x\",le=\"100\"} 3",
            "d_seconds_bucket{of=\"x\",le=\"+Inf\"} 4",
            "d_seconds_sum{of=\"x\"} 200.704",
            "d_seconds_count{of=\"x\"} 4",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        assert!(!text.contains("e_seconds"));
    }
}
