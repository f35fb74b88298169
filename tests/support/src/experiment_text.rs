//! Experiment files, written table by table.

/// The text of an experiment file. The entries of a table are given as `key = value`, separated by commas or line ends.
#[derive(Clone, Debug)]
pub struct ExperimentText(String);

impl ExperimentText {
    /// An experiment without tables.
    pub fn new(name: &str, duration: &str) -> Self {
        Self(format!("format = 1\nname = \"{name}\"\nduration = \"{duration}\"\n"))
    }

    /// Further entries that belong to no table. They come before all tables.
    #[must_use]
    pub fn with(mut self, entries: &str) -> Self {
        self.0 += &lines(entries);
        self
    }

    /// A table. One of an array has its name in brackets: `[event]`.
    #[must_use]
    pub fn table(mut self, name: &str, entries: &str) -> Self {
        self.0 += &format!("[{name}]\n");
        self.with(entries)
    }

    /// Nodes without settings. Spaces separate their names.
    #[must_use]
    pub fn nodes(self, names: &str) -> Self {
        names.split(' ').fold(self, |text, name| text.table(&format!("node.{name}"), ""))
    }

    /// A link between the two nodes that `ends` names.
    #[must_use]
    pub fn link(self, name: &str, ends: &str, entries: &str) -> Self {
        let (a, b) = two(ends);
        self.table(&format!("link.{name}"), &format!("between = [\"{a}\", \"{b}\"]\n{entries}"))
    }

    /// A link of this rate and delay with a FIFO queue for this number of packets, and further entries.
    #[must_use]
    pub fn fifo(
        self,
        name: &str,
        ends: &str,
        (rate, delay, packets): (&str, &str, u32),
        entries: &str,
    ) -> Self {
        let line = format!("rate = \"{rate}\"\ndelay = \"{delay}\"");
        let queue = format!("queue = {{ kind = \"fifo\", packets = {packets} }}");
        self.link(name, ends, &format!("{line}\n{queue}\n{entries}"))
    }

    /// A flow from the first of two nodes to the second.
    #[must_use]
    pub fn flow(self, name: &str, ends: &str, entries: &str) -> Self {
        let (from, to) = two(ends);
        self.table(&format!("flow.{name}"), &format!("from = \"{from}\"\nto = \"{to}\"\n{entries}"))
    }

    /// A response.
    #[must_use]
    pub fn response(self, name: &str, of: &str, metric: &str) -> Self {
        self.table(&format!("response.{name}"), &format!("of = \"{of}\"\nmetric = \"{metric}\""))
    }

    /// Responses of one subject, each named as its metric.
    #[must_use]
    pub fn responses(self, of: &str, metrics: &[&str]) -> Self {
        metrics.iter().fold(self, |text, metric| text.response(metric, of, metric))
    }

    /// Whole tables.
    #[must_use]
    pub fn text(mut self, tables: &str) -> Self {
        self.0 += tables;
        self.0 += "\n";
        self
    }

    /// The file.
    pub fn build(self) -> String {
        self.0
    }
}

fn two(ends: &str) -> (&str, &str) {
    ends.split_once(' ').expect("two nodes")
}

/// The same entries with one on each line.
fn lines(entries: &str) -> String {
    let (mut depth, mut is_quoted, mut is_escaped) = (0, false, false);
    let mut lines = String::new();
    for letter in entries.trim().chars() {
        match letter {
            '"' if !is_escaped => is_quoted = !is_quoted,
            '{' | '[' if !is_quoted => depth += 1,
            '}' | ']' if !is_quoted => depth -= 1,
            _ => {}
        }
        is_escaped = letter == '\\' && !is_escaped;
        let letter = match letter {
            ',' if depth == 0 && !is_quoted => '\n',
            '\n' if depth > 0 && !is_quoted => ' ',
            other => other,
        };
        // No empty lines and no indentation.
        let begins = lines.is_empty() || lines.ends_with('\n');
        if is_quoted || !(begins && letter.is_whitespace()) {
            lines.push(letter);
        }
    }
    if lines.is_empty() { lines } else { lines + "\n" }
}
