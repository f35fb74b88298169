//! How far substrates agree: what was asked, where it does not hold, and every comparison.

use netrig_experiment::{Agreement, AgreementVerdict, ClaimVerdict};

use super::points::OPEN;
use super::{details, headings, judged, table, verdict_class};
use crate::Report;
use crate::agreement::{Couple, Numbers, accord_sign};
use crate::number::Estimate;
use crate::sheet::{Sheet, counted};
use netrig_core::xml::Markup;

pub(super) fn section(m: &mut Markup, report: &Report<'_>) {
    let sheet = Sheet::new(report);
    let couples = Couple::all(report);
    for couple in &couples {
        match couple.tally(report) {
            Some(tally) => {
                m.element("p", &[("class", "agreed")], tally + ".");
                explain(m, couple);
            }
            None => m.element(
                "p",
                &[],
                format!("{}: the file does not say how near they must be.", couple.name()),
            ),
        }
        let open: Vec<&Agreement> = couple.open().collect();
        if !open.is_empty() {
            let caption = format!("Where {} is not shown to agree", couple.name());
            comparisons(m, report, &sheet, couple, &open, &caption);
        }
        let all = counted(couple.entries.len(), "comparison");
        details(m, &all, couple.entries.len() <= OPEN, |m| {
            let caption = format!("Every comparison of {}", couple.name());
            comparisons(m, report, &sheet, couple, &couple.entries, &caption);
        });
    }
}

fn explain(m: &mut Markup, couple: &Couple<'_>) {
    let [first, _] = couple.of;
    m.element(
        "p",
        &[("class", "muted")],
        format!(
            "A point agrees if the whole interval lies within what the file asks, differs if it lies outside, and cannot \
             be told if it reaches across. What is asked in % is a share of the mean on {first}, and decided by the \
             ratio; all else is decided by the difference. Of several margins one suffices."
        ),
    );
}

fn comparisons(
    m: &mut Markup,
    report: &Report<'_>,
    sheet: &Sheet<'_>,
    couple: &Couple<'_>,
    entries: &[&Agreement],
    caption: &str,
) {
    let [first, second] = couple.of;
    table(m, "numbers sortable", caption, |m| {
        let names = ["response", "at", first, second].map(str::to_owned);
        let derived = [format!("{second} / {first}"), format!("{second} − {first}")];
        let asked = ["within", "verdict"].map(str::to_owned);
        headings(m, names.into_iter().chain(derived).chain(asked));
        m.inside("tbody", &[], |m| {
            for entry in entries {
                m.inside("tr", &[], |m| row(m, report, &couple.place(entry, sheet), entry));
            }
        });
    });
}

fn row(m: &mut Markup, report: &Report<'_>, place: &str, entry: &Agreement) {
    let Numbers { response, means, ratio, difference, within } = Numbers::of(report, entry);
    m.element("th", &[("scope", "row")], response);
    m.element("td", &[], place);
    let mut number = |text: String, value: Option<f64>| match value.map(|value| value.to_string()) {
        Some(value) => m.element("td", &[("class", "n"), ("data-v", &value)], text),
        None => m.element("td", &[("class", "n muted")], text),
    };
    let [first, second] = means;
    number(first, entry.means.map(|means| means[0]));
    number(second, entry.means.map(|means| means[1]));
    number(ratio, Estimate::of_ratio(entry).map(|ratio| ratio.value));
    number(difference, Estimate::of_difference(entry).map(|difference| difference.value));
    m.element("td", &[], within);
    match &entry.asked {
        Some(asked) => accord(m, asked.verdict),
        None => m.element("td", &[], ""),
    }
}

/// What was found as a sign and a word, in the colour of the verdict that is as good.
fn accord(m: &mut Markup, accord: AgreementVerdict) {
    let as_good = match accord {
        AgreementVerdict::Agrees => ClaimVerdict::Supported,
        AgreementVerdict::Differs => ClaimVerdict::Refuted,
        AgreementVerdict::Inconclusive => ClaimVerdict::Inconclusive,
    };
    judged(m, "td", &verdict_class(as_good), accord_sign(accord), accord.name());
}
