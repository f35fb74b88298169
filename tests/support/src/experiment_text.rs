//! A builder of experiment files.

/// The text of an experiment file. The entries of a table are given as `key = value`, separated by commas or line ends.
#[derive(Clone, Debug)]
pub struct ExperimentText(String);

impl ExperimentText {
    /// An experiment without tables.
    pub fn new(name: &str, duration: &str) -> Self {
        Self(format!("format = 1\nname = \"{name}\"\nduration = \"{duration}\"\n"))
    }

    /// A transfer over TCP between two hosts. `rates` are the levels of the factor `rate`, which is the rate of their
    /// link.
    pub fn two_hosts(rates: &str, replications: &str) -> Self {
        Self::new("two-hosts", "10 s")
            .table("factors", &format!("rate = {rates}"))
            .table("replications", replications)
            .nodes("a b")
            .fifo("ab", "a b", ("${rate}", "10 ms", 50), "")
            .table("transport.tcp", r#"kind = "tcp""#)
            .flow("file", "a b", r#"transport = "tcp", application = { kind = "bulk" }"#)
            .response("goodput", "flow.file", "goodput")
    }

    /// Adds entries at the top level. They must be added before all tables.
    #[must_use]
    pub fn with(mut self, entries: &str) -> Self {
        self.0 += &lines(entries);
        self
    }

    /// Adds a table. The name of an element of an array of tables is in brackets: `[event]`.
    #[must_use]
    pub fn table(mut self, name: &str, entries: &str) -> Self {
        self.0 += &format!("[{name}]\n");
        self.with(entries)
    }

    /// Adds nodes without settings. `names` are separated by spaces.
    #[must_use]
    pub fn nodes(self, names: &str) -> Self {
        names.split(' ').fold(self, |text, name| text.table(&format!("node.{name}"), ""))
    }

    /// Adds a link between the two nodes in `ends`.
    #[must_use]
    pub fn link(self, name: &str, ends: &str, entries: &str) -> Self {
        let (a, b) = two(ends);
        self.table(&format!("link.{name}"), &format!("between = [\"{a}\", \"{b}\"]\n{entries}"))
    }

    /// Adds a link with this rate, this delay, a FIFO queue for this number of packets, and further entries.
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

    /// Adds a flow from the first node in `ends` to the second.
    #[must_use]
    pub fn flow(self, name: &str, ends: &str, entries: &str) -> Self {
        let (from, to) = two(ends);
        self.table(&format!("flow.{name}"), &format!("from = \"{from}\"\nto = \"{to}\"\n{entries}"))
    }

    /// Adds a response.
    #[must_use]
    pub fn response(self, name: &str, of: &str, metric: &str) -> Self {
        self.table(&format!("response.{name}"), &format!("of = \"{of}\"\nmetric = \"{metric}\""))
    }

    /// Adds responses of one subject. Each has the name of its metric.
    #[must_use]
    pub fn responses(self, of: &str, metrics: &[&str]) -> Self {
        metrics.iter().fold(self, |text, metric| text.response(metric, of, metric))
    }

    /// Adds complete tables.
    #[must_use]
    pub fn text(mut self, tables: &str) -> Self {
        self.0 += tables;
        self.0 += "\n";
        self
    }

    /// The text of the file.
    pub fn build(self) -> String {
        self.0
    }
}

fn two(ends: &str) -> (&str, &str) {
    ends.split_once(' ').expect("two nodes")
}

/// The entries, one per line.
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
        // White space at the start of a line is dropped.
        let begins = lines.is_empty() || lines.ends_with('\n');
        if is_quoted || !(begins && letter.is_whitespace()) {
            lines.push(letter);
        }
    }
    if lines.is_empty() { lines } else { lines + "\n" }
}
