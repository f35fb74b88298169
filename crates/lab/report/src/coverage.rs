//! The share of an experiment that an output file covers. It prevents that a file of a part replaces a file of the
//! whole.

use std::collections::BTreeSet;

use netrig_core::number::counted;
use netrig_experiment::{Experiment, Results, Substrate};
use netrig_store::ReplicationTable;
use serde_json::Value;

/// The prefix of a coverage stamp in a file.
const STAMP: &str = "netrig-coverage: ";

/// The share of an experiment that a file or table covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// The experiment's name. `None` if the file does not state it.
    experiment: Option<String>,
    /// Whether the coverage is less than the experiment's file asks for. `None` if the file does not state it.
    is_part: Option<bool>,
    /// Number of points, counted once for each of their substrates. `None` if the file does not state it.
    points: Option<u64>,
    runs: u64,
    substrates: BTreeSet<String>,
}

impl Coverage {
    /// The largest coverage that an experiment can have on these substrates. `is_part`: whether it is less than the
    /// experiment's file asks for.
    pub fn planned(experiment: &Experiment, substrates: &[&dyn Substrate], is_part: bool) -> Self {
        let (plan, count) = (experiment.plan(), substrates.len() as u64);
        Self {
            experiment: Some(encoded(&experiment.design.name)),
            is_part: Some(is_part),
            points: Some(plan.len() as u64 * count),
            runs: plan.most_runs() * count,
            substrates: substrates.iter().map(|substrate| substrate.name().to_owned()).collect(),
        }
    }

    /// The coverage of results.
    pub fn of(results: &Results, is_part: bool) -> Self {
        let runs = results.points.iter().map(|point| {
            (&point.substrate, point.responses.values().map(|response| response.runs.len() as u64).max())
        });
        let made: Vec<(&String, u64)> =
            runs.filter_map(|(on, runs)| Some((on, runs.filter(|n| *n > 0)?))).collect();
        Self {
            experiment: Some(encoded(&results.experiment)),
            is_part: Some(is_part),
            points: Some(made.len() as u64),
            runs: made.iter().map(|(_, runs)| runs).sum(),
            substrates: made.iter().map(|(on, _)| (*on).clone()).collect(),
        }
    }

    /// The coverage of a table of single runs.
    pub fn of_table(name: &str, is_part: bool, table: &ReplicationTable<'_>) -> Self {
        Self {
            experiment: Some(encoded(name)),
            is_part: Some(is_part),
            points: Some(table.points() as u64),
            runs: table.rows() as u64,
            substrates: table.substrates(),
        }
    }

    /// The coverage that the text of a JSON or CSV file states. `ending` is the extension of the file's name.
    pub fn of_file(text: &str, ending: &str) -> Option<Self> {
        match ending {
            "json" => Self::of_document(&serde_json::from_str(text).ok()?),
            "csv" => Self::of_csv(text),
            _ => None,
        }
    }

    /// The coverage stamp in the last bytes of a file. `None` without a stamp, `Some(None)` if the stamp is invalid.
    pub fn stamped(tail: &str) -> Option<Option<Self>> {
        tail.rsplit_once(STAMP).map(|(_, stamp)| Self::read(stamp))
    }

    /// A line for file formats that have space for it. A later netrig reads the coverage from this line.
    pub fn stamp(&self) -> String {
        let whole = if self.is_part == Some(false) { "whole" } else { "part" };
        let on: Vec<&str> = self.substrates.iter().map(String::as_str).collect();
        format!(
            "{STAMP}{whole} {} {} {} {};",
            self.points.unwrap_or(0),
            self.runs,
            if on.is_empty() { "-".to_owned() } else { on.join(",") },
            self.experiment.as_deref().unwrap_or("-"),
        )
    }

    /// The stamp as an XML, HTML and Markdown comment.
    pub fn comment(&self) -> String {
        format!("<!-- {} -->\n", self.stamp())
    }

    /// Whether results are lost if a file with this coverage is replaced by a file with the coverage `new`. For another
    /// experiment, only if `new` covers a part.
    pub fn is_lost_to(&self, new: &Self) -> bool {
        let is_another = self.experiment.is_some() && self.experiment != new.experiment;
        if is_another { new.is_part() } else { self.exceeds(new) }
    }

    /// Whether the coverage is known to be less than a whole experiment.
    pub fn is_part(&self) -> bool {
        self.is_part == Some(true)
    }

    /// Number of runs.
    pub const fn runs(&self) -> u64 {
        self.runs
    }

    /// Whether this covers something that `new` lacks, compared by the facts that both state.
    fn exceeds(&self, new: &Self) -> bool {
        let points = self.points.zip(new.points).is_some_and(|(there, new)| there > new);
        let whole = self.is_part == Some(false) && new.is_part == Some(true);
        points || whole || self.runs > new.runs
    }

    /// The coverage in words, such as `12 points and 120 runs on sim`.
    pub fn words(&self) -> String {
        let runs = counted(self.runs, "run", "runs");
        let made = match self.points {
            Some(points) => format!("{} and {runs}", counted(points, "point", "points")),
            None => runs,
        };
        match (self.is_part, self.substrates.is_empty()) {
            (Some(true), _) => format!("at most {made} of a part of the experiment"),
            (_, true) => made,
            (_, false) => {
                format!("{made} on {}", Vec::from_iter(self.substrates.iter().cloned()).join(" and "))
            }
        }
    }

    fn read(stamp: &str) -> Option<Self> {
        let (stamp, _) = stamp.split_once(';')?;
        let mut words = stamp.split(' ');
        let mut word = || words.next();
        let is_part = Some(word()? != "whole");
        let (points, runs) = (Some(word()?.parse().ok()?), word()?.parse().ok()?);
        let substrates = word()?.split(',').filter(|on| *on != "-").map(str::to_owned).collect();
        let experiment = Some(word()?.to_owned());
        Some(Self { experiment, is_part, points, runs, substrates })
    }

    /// The coverage of a JSON document of results.
    fn of_document(document: &Value) -> Option<Self> {
        let runs = |point: &Value| {
            let responses = point.get("responses")?.as_object()?.values();
            responses.filter_map(|response| Some(response.get("runs")?.as_array()?.len() as u64)).max()
        };
        let points = document.get("points")?.as_array()?.iter();
        let made: Vec<(&Value, u64)> =
            points.filter_map(|point| Some((point, runs(point).filter(|n| *n > 0)?))).collect();
        let on = |point: &Value| point.get("substrate").and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            experiment: Some(encoded(document.get("experiment")?.as_str()?)),
            is_part: None,
            points: Some(made.len() as u64),
            runs: made.iter().map(|(_, runs)| runs).sum(),
            substrates: made.iter().filter_map(|(point, _)| on(point)).collect(),
        })
    }

    /// The coverage of a table with one row per run (`export --format csv`), or with one row per response and point (a
    /// report).
    fn of_csv(text: &str) -> Option<Self> {
        let (heading, rows) = text.split_once('\n')?;
        let heading = heading.trim_end();
        let of_runs = heading.ends_with(",build,identity");
        if !heading.starts_with("substrate,")
            || !(of_runs || heading.ends_with(",response,unit,mean,low,high,n"))
        {
            return None;
        }
        let rows = rows.lines().filter(|row| !row.is_empty());
        // A level that contains a line break splits a row. The resulting lines have other endings.
        let (mut points, mut runs, mut substrates) = (None, 0, BTreeSet::new());
        let mut first: Option<&str> = None;
        for row in rows {
            let last = row.rsplit(',').next().unwrap_or_default();
            let on = row.split(',').next().unwrap_or_default();
            if of_runs {
                if last.len() == 64 && last.bytes().all(|b| b.is_ascii_hexdigit()) {
                    runs += 1;
                    substrates.insert(on.to_owned());
                }
                continue;
            }
            let (Ok(n), Some(response)) = (last.parse::<u64>(), row.rsplit(',').nth(5)) else { continue };
            if *first.get_or_insert(response) == response && n > 0 {
                *points.get_or_insert(0) += 1;
                runs += n;
                substrates.insert(on.to_owned());
            }
        }
        Some(Self { experiment: None, is_part: None, points, runs, substrates })
    }
}

/// A name without characters that could end a word, a comment or a stamp.
fn encoded(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '.');
    let mut out = String::new();
    for c in name.chars() {
        match c {
            c if plain(c) => out.push(c),
            '-' if !out.ends_with('-') => out.push('-'),
            c => out += &format!("%{:x}", u32::from(c)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coverage(is_part: bool, points: u64, runs: u64) -> Coverage {
        Coverage {
            experiment: Some("link-down/failover".to_owned()),
            is_part: Some(is_part),
            points: Some(points),
            runs,
            substrates: ["netns", "sim"].map(str::to_owned).into(),
        }
    }

    #[test]
    fn a_stamp_says_what_it_was_made_of() {
        for made in [coverage(false, 12, 120), coverage(true, 0, 0)] {
            assert_eq!(Coverage::read(made.stamp().strip_prefix(STAMP).expect("a stamp")), Some(made));
        }
        assert_eq!(encoded("a--b c;d"), "a-%2db%20c%3bd");
    }

    #[test]
    fn a_part_exceeds_no_whole() {
        let whole = coverage(false, 4, 12);
        assert!(whole.exceeds(&coverage(true, 6, 20)), "a part with other levels is still no whole");
        assert!(whole.exceeds(&coverage(false, 4, 8)) && whole.exceeds(&coverage(false, 3, 12)));
        assert!(!whole.exceeds(&whole) && !coverage(true, 2, 6).exceeds(&whole));
        let on_one = Coverage { substrates: ["sim".to_owned()].into(), ..coverage(false, 2, 6) };
        assert!(whole.exceeds(&on_one) && !on_one.exceeds(&whole));
        let on_the_other = Coverage { substrates: ["netns".to_owned()].into(), ..on_one.clone() };
        assert!(!on_one.exceeds(&on_the_other), "another substrate is no less");
    }

    #[test]
    fn a_table_says_by_its_rows_what_it_was_made_of() {
        let report = "substrate,rate,status,response,unit,mean,low,high,n\r\n\
                      sim,1 Mbit/s,ok,goodput,B/s,1,,,3\r\nsim,1 Mbit/s,ok,loss,1,1,,,3\r\nsim,2 Mbit/s,ok,goodput,B/s,1,,,3\r\n";
        let made = Coverage::of_csv(report).expect("a report");
        assert_eq!((made.points, made.runs), (Some(2), 6));
        let identity = "a".repeat(64);
        let runs = format!(
            "substrate,rate,replication,build,identity\r\nsim,1,1,x,{identity}\r\nsim,1,2,x,{identity}\r\n"
        );
        assert_eq!(Coverage::of_csv(&runs).expect("runs").runs, 2);
        assert_eq!(Coverage::of_csv("my,own,table\n1,2,3\n"), None);
    }
}
