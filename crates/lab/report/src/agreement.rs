//! Agreement of substrates, as text for every format of the report.

use netrig_experiment::{Agreement, AgreementVerdict};

use crate::Report;
use crate::columns::{PointColumns, response_unit};
use crate::estimate;
use crate::wording::counted;
use netrig_core::number::{Unit, plain};
use netrig_core::text::words;

/// Two substrates and their comparisons.
pub(crate) struct SubstratePair<'a> {
    pub of: &'a [String; 2],
    pub entries: Vec<&'a Agreement>,
    /// Whether an entry without factors stands for all points together. In a design without factors it stands for the
    /// only point.
    has_points: bool,
}

impl<'a> SubstratePair<'a> {
    /// All pairs of substrates in the results, in the order of the results.
    pub fn all(report: &'a Report<'_>) -> Vec<Self> {
        let has_points = !report.experiment.design.factors.is_empty();
        let mut pairs: Vec<Self> = Vec::new();
        for entry in &report.results.agreement {
            match pairs.iter_mut().find(|pair| *pair.of == entry.of) {
                Some(pair) => pair.entries.push(entry),
                None => pairs.push(Self { of: &entry.of, entries: vec![entry], has_points }),
            }
        }
        pairs
    }

    /// `netns against sim`.
    pub fn name(&self) -> String {
        format!("{} against {}", self.of[1], self.of[0])
    }

    /// Counts for each response: `netns against sim: loss: 38 of 44 points agree within 3 pp, 2 differ, 4 are
    /// inconclusive; throughput: …`. `None` if the file sets no margin.
    pub fn tally(&self, report: &Report<'_>) -> Option<String> {
        let responses = report.experiment.design.responses.iter();
        let counts: Vec<String> = responses.filter_map(|(name, _)| self.count(name)).collect();
        (!counts.is_empty()).then(|| format!("{}: {}", self.name(), counts.join("; ")))
    }

    /// The agreement of a response in words; `None` if the file sets no margin for it.
    fn count(&self, response: &str) -> Option<String> {
        let asked = || {
            let points = self.points().filter(|entry| entry.response == response);
            points.filter_map(|entry| Some((entry, entry.asked.as_ref()?)))
        };
        let (first, within) = asked().next().map(|(entry, asked)| (entry, &asked.within))?;
        let count = |verdict| asked().filter(|(_, asked)| asked.verdict == verdict).count();
        let (agree, differ, open) = (
            count(AgreementVerdict::Agrees),
            count(AgreementVerdict::Differs),
            count(AgreementVerdict::Inconclusive),
        );
        let verb = |count: usize, verb: &str| format!("{verb}{}", if count == 1 { "s" } else { "" });
        let mut text = format!(
            "{}: {agree} of {} {} within {}",
            words(response),
            counted(asked().count(), "point"),
            verb(agree, "agree"),
            within.written(&first.unit)
        );
        if differ > 0 {
            text += &format!(", {differ} {}", verb(differ, "differ"));
        }
        if open > 0 {
            text += &format!(", {open} {} inconclusive", if open == 1 { "is" } else { "are" });
        }
        Some(text)
    }

    /// The entries of single points.
    fn points(&self) -> impl Iterator<Item = &'a Agreement> {
        self.entries.iter().copied().filter(|entry| !self.is_of_all(entry))
    }

    fn is_of_all(&self, entry: &Agreement) -> bool {
        self.has_points && entry.factors.levels().is_empty()
    }

    /// The points that differ or are inconclusive.
    pub fn open(&self) -> impl Iterator<Item = &'a Agreement> {
        let agrees = |entry: &&Agreement| {
            entry.asked.as_ref().is_none_or(|asked| asked.verdict == AgreementVerdict::Agrees)
        };
        self.points().filter(move |entry| !agrees(entry))
    }

    /// The levels of the varied factors of an entry, such as `probe = udp, rate = 6 Mbit/s`, or `all points`.
    pub fn place(&self, entry: &Agreement, sheet: &PointColumns<'_>) -> String {
        if self.is_of_all(entry) {
            return "all points".to_owned();
        }
        let levels =
            sheet.varied.iter().filter_map(|name| Some(format!("{name} = {}", entry.factors.level(name)?)));
        levels.collect::<Vec<_>>().join(", ")
    }
}

/// The numbers of a comparison as text.
pub(crate) struct AgreementNumbers {
    /// The response with the unit of its means: `loss (%)`.
    pub response: String,
    /// The two means.
    pub means: [String; 2],
    /// The second mean divided by the first, with its interval.
    pub ratio: String,
    /// The second mean minus the first, with its interval and its unit.
    pub difference: String,
    /// The margin of the file, such as `3 pp`. Empty if the file sets none.
    pub within: String,
}

impl AgreementNumbers {
    pub fn of(report: &Report<'_>, entry: &Agreement) -> Self {
        let unit = response_unit(report, &entry.response);
        let nothing = || "–".to_owned();
        let mean = |n: usize| entry.means.map_or_else(nothing, |means| plain(unit.convert(means[n])));
        let means = [mean(0), mean(1)];
        let response = unit.heading(&words(&entry.response));
        let unit = unit.of_difference();
        let ratio = estimate::of_ratio(entry).map(|ratio| ratio.written(&Unit::fixed("1")).to_string());
        let difference = estimate::of_difference(entry)
            .map(|difference| unit.behind(&difference.written(&unit).to_string()));
        Self {
            response,
            means,
            ratio: ratio.unwrap_or_else(nothing),
            difference: difference.unwrap_or_else(nothing),
            within: entry.asked.as_ref().map_or_else(String::new, |asked| asked.within.written(&entry.unit)),
        }
    }
}

/// The symbol of an agreement verdict, so that the verdict is clear without colour.
pub(crate) const fn accord_sign(accord: AgreementVerdict) -> &'static str {
    match accord {
        AgreementVerdict::Agrees => "✓",
        AgreementVerdict::Differs => "✗",
        AgreementVerdict::Inconclusive => "?",
    }
}
