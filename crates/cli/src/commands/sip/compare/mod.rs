//! `netrig sip compare`: two results of loads or of searches, index by index, or of conformance, purpose by purpose.

mod capacities;
mod conformance;
mod document;
mod loads;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use netrig_core::Fraction;
use netrig_stats::multiple::holm;
use serde::Serialize;

use self::document::Document;
use crate::failure::{FAILED, Failure, print};

/// Nothing can be said.
const UNSAID: u8 = 2;

/// `netrig sip compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// What it was before: a document of `netrig sip load`, `netrig sip capacity` or `netrig sip conform`, with --json
    #[arg(value_name = "BEFORE.json")]
    pub before: PathBuf,
    /// What it is now
    #[arg(value_name = "NOW.json")]
    pub now: PathBuf,
    /// How sure a difference has to be, over all indices together
    #[arg(long, value_name = "SHARE", default_value = "95%")]
    pub confidence: Fraction,
    /// By which share of what it was a delay may grow before that counts as worse
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub margin: Fraction,
    /// Also what is not comparable: other scenarios, transports or rates, or results that are invalid
    #[arg(long)]
    pub anyway: bool,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

/// What is said of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Worse, and not by chance.
    Worse,
    /// Better, and not by chance.
    Better,
    /// What there is may be chance, or within the margin.
    NoDifference,
    /// Nothing can be said.
    NotTested,
}

/// An index in both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Index {
    /// `success of call`, `connection, mean`.
    pub name: String,
    /// `us`, `1` of a share, `1/s`.
    pub unit: &'static str,
    /// As it was.
    pub before: Option<f64>,
    /// As it is.
    pub now: Option<f64>,
    /// By how much it is more than it was.
    pub difference: Option<f64>,
    /// The lower end of its interval.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// The probability of such a difference by chance.
    pub p: Option<f64>,
    /// The same for all indices together, after Holm.
    pub p_holm: Option<f64>,
    pub verdict: Verdict,
    /// What made it so, or why nothing can be said.
    pub how: String,
    /// Whether more of it is better.
    #[serde(skip)]
    pub more_is_better: bool,
}

impl Index {
    /// One of which nothing can be said.
    fn untested(name: String, unit: &'static str, values: [Option<f64>; 2], why: impl Into<String>) -> Self {
        let [before, now] = values;
        let difference = before.zip(now).map(|(before, now)| now - before);
        Self {
            name,
            unit,
            before,
            now,
            difference,
            low: None,
            high: None,
            p: None,
            p_holm: None,
            verdict: Verdict::NotTested,
            how: why.into(),
            more_is_better: false,
        }
    }

    /// Whether it is more than twice as bad as it was, beyond the margin, and cannot be tested: that is no pass.
    fn is_open(&self, settings: Settings) -> bool {
        let (Some(before), Some(now)) = (self.before, self.now) else { return false };
        let [less, more] = if self.more_is_better { [now, before] } else { [before, now] };
        self.verdict == Verdict::NotTested && more > (1.0 + settings.margin.max(1.0)) * less
    }

    /// Whether it differs for the worse, if it differs.
    fn direction(&self) -> Verdict {
        match self.difference {
            Some(difference) if (difference > 0.0) == self.more_is_better => Verdict::Better,
            _ => Verdict::Worse,
        }
    }
}

/// What the comparison says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What was tested before.
    pub before: String,
    /// What was tested now.
    pub now: String,
    pub confidence: f64,
    /// Whether any index is worse.
    pub worse: bool,
    /// What is more than twice as bad and cannot be tested.
    pub open: Vec<String>,
    pub indices: Vec<Index>,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

/// Compares two results.
pub fn compare(typed: &Compare) -> Result<ExitCode, Failure> {
    let [before, now] = [&typed.before, &typed.now].map(|file| document::read(file));
    let (before, now) = match (before?, now?) {
        (Document::Conformance(before), Document::Conformance(now)) => {
            return conformance::compare(&before, &now, typed.json);
        }
        other => other,
    };
    let mut notes = vec![
        "what varies within each run is in the intervals; what differs between two runs of the same server is not: \
         repeat them"
            .to_owned(),
    ];
    let differ = before.differences(&now);
    if !differ.is_empty() && !typed.anyway {
        return Err(Failure::Request(format!(
            "they cannot be compared (--anyway does it nevertheless):\n  {}",
            differ.join("\n  ")
        )));
    }
    notes.extend(differ);
    let settings = Settings { confidence: typed.confidence.get(), margin: typed.margin.get() };
    let mut indices = match (&before, &now) {
        (Document::Load(before), Document::Load(now)) => loads::indices(before, now, settings)?,
        (Document::Capacity(before), Document::Capacity(now)) => {
            vec![capacities::index(before, now)]
        }
        (before, now) => {
            return Err(Failure::request(format!(
                "one is of {}, the other of {}",
                before.kind(),
                now.kind()
            )));
        }
    };
    judge(&mut indices, settings)?;
    if indices.iter().all(|index| index.verdict == Verdict::NotTested) {
        let why: Vec<_> = indices.iter().map(|index| format!("{}: {}", index.name, index.how)).collect();
        return Err(Failure::Request(format!("nothing can be said:\n  {}", why.join("\n  "))));
    }
    let worse = indices.iter().any(|index| index.verdict == Verdict::Worse);
    let open = indices.iter().filter(|index| index.is_open(settings));
    let open: Vec<_> = open.map(|index| index.name.clone()).collect();
    let [before, now] = [before, now].map(|document| document.target().to_owned());
    let comparison = Comparison { before, now, confidence: settings.confidence, worse, open, indices, notes };
    if typed.json {
        print(serde_json::to_string_pretty(&comparison).map_err(Failure::failed)?)?;
    } else {
        print(show::table(&comparison).trim_end())?;
    }
    Ok(match (worse, comparison.open.is_empty()) {
        (true, _) => ExitCode::from(FAILED),
        (false, false) => ExitCode::from(UNSAID),
        (false, true) => ExitCode::SUCCESS,
    })
}

/// How sure, and beyond what.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    confidence: f64,
    margin: f64,
}

/// Judges all indices together: one of them errs with the risk that was allowed, however many there are.
fn judge(indices: &mut [Index], settings: Settings) -> Result<(), Failure> {
    let tested: Vec<f64> = indices.iter().filter_map(|index| index.p).collect();
    let mut adjusted = holm(&tested).map_err(Failure::failed)?.into_iter();
    for index in indices.iter_mut().filter(|index| index.p.is_some()) {
        index.p_holm = adjusted.next();
        let is_significant = index.p_holm.is_some_and(|p| p < 1.0 - settings.confidence);
        index.verdict = if is_significant { index.direction() } else { Verdict::NoDifference };
    }
    Ok(())
}
