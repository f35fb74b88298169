//! The text exposition format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

/// The content type of a page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page of metrics.
#[derive(Clone, Debug, Default)]
pub struct MetricsPage {
    text: String,
}

/// The kind of a family of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, until the program ends.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Buckets of values, their sum and their count.
    Histogram,
}

impl MetricsPage {
    /// The page as it is sent.
    pub fn into_text(self) -> String {
        self.text
    }

    /// Adds a family of values with their labels; nothing if there are no values.
    pub fn family<'a>(
        &mut self,
        family: (&str, &str, MetricKind),
        values: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, f64)>,
    ) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.heading(family);
        }
        for (labels, value) in values {
            self.line(family.0, &labels, value);
        }
    }

    /// Adds a family of one value without labels.
    pub fn value(&mut self, family: (&str, &str, MetricKind), value: f64) {
        self.family(family, [(Vec::new(), value)]);
    }

    /// Adds the name, the help text and the kind of a family, whose lines follow.
    pub fn heading(&mut self, (name, help, kind): (&str, &str, MetricKind)) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a line of a family.
    pub fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        let mut before = '{';
        for (label, of) in labels {
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
        let mut page = MetricsPage::default();
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
}
