//! Agreement of substrates: the margins, the points that do not agree, and every comparison.

use netrig_experiment::{Agreement, AgreementVerdict, ClaimVerdict};

use super::elements::{details, headings, judged, rows, table, verdict_class};
use super::points::OPEN;
use crate::Report;
use crate::agreement::{AgreementNumbers, SubstratePair, accord_sign};
use crate::columns::PointColumns;
use crate::estimate;
use crate::wording::counted;
use netrig_core::xml::Markup;

pub(super) fn section(m: &mut Markup, report: &Report<'_>) {
    let sheet = PointColumns::new(report);
    let pairs = SubstratePair::all(report);
    for pair in &pairs {
        match pair.tally(report) {
            Some(tally) => {
                m.element("p", &[("class", "agreed")], tally + ".");
                explain(m, pair);
            }
            None => m.element("p", &[], format!("{}: the file sets no margins.", pair.name())),
        }
        let open: Vec<&Agreement> = pair.open().collect();
        if !open.is_empty() {
            let caption = format!("Points at which {} is not shown to agree", pair.name());
            comparisons(m, report, &sheet, pair, &open, &caption);
        }
        let all = counted(pair.entries.len(), "comparison");
        details(m, &all, pair.entries.len() <= OPEN, |m| {
            let caption = format!("Every comparison of {}", pair.name());
            comparisons(m, report, &sheet, pair, &pair.entries, &caption);
        });
    }
}

fn explain(m: &mut Markup, pair: &SubstratePair<'_>) {
    let [first, _] = pair.of;
    m.element(
        "p",
        &[("class", "muted")],
        format!(
            "A point agrees if the whole interval lies within the margin of the file, and differs if the whole interval \
             lies outside. Otherwise it is inconclusive. A margin in % is a share of the mean on {first} and applies to \
             the ratio; any other margin applies to the difference. If there are several margins, one is sufficient."
        ),
    );
}

fn comparisons(
    m: &mut Markup,
    report: &Report<'_>,
    sheet: &PointColumns<'_>,
    pair: &SubstratePair<'_>,
    entries: &[&Agreement],
    caption: &str,
) {
    let [first, second] = pair.of;
    table(m, "numbers sortable", caption, |m| {
        let (ratio, difference) = (format!("{second} / {first}"), format!("{second} − {first}"));
        headings(m, ["response", "at", first, second, &ratio, &difference, "within", "verdict"]);
        rows(m, entries, |m, entry| row(m, report, &pair.place(entry, sheet), entry));
    });
}

fn row(m: &mut Markup, report: &Report<'_>, place: &str, entry: &Agreement) {
    let AgreementNumbers { response, means, ratio, difference, within } = AgreementNumbers::of(report, entry);
    m.element("th", &[("scope", "row")], response);
    m.element("td", &[], place);
    let mut number = |text: String, value: Option<f64>| match value.map(|value| value.to_string()) {
        Some(value) => m.element("td", &[("class", "n"), ("data-v", &value)], text),
        None => m.element("td", &[("class", "n muted")], text),
    };
    let [first, second] = means;
    number(first, entry.means.map(|means| means[0]));
    number(second, entry.means.map(|means| means[1]));
    number(ratio, estimate::of_ratio(entry).map(|ratio| ratio.value));
    number(difference, estimate::of_difference(entry).map(|difference| difference.value));
    m.element("td", &[], within);
    match &entry.asked {
        Some(asked) => accord(m, asked.verdict),
        None => m.element("td", &[], ""),
    }
}

/// An agreement verdict as a symbol and a word, in the colour of the corresponding claim verdict.
fn accord(m: &mut Markup, accord: AgreementVerdict) {
    let as_good = match accord {
        AgreementVerdict::Agrees => ClaimVerdict::Supported,
        AgreementVerdict::Differs => ClaimVerdict::Refuted,
        AgreementVerdict::Inconclusive => ClaimVerdict::Inconclusive,
    };
    judged(m, "td", &verdict_class(as_good), accord_sign(accord), accord.name());
}
