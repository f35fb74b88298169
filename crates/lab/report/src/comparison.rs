//! The comparison of the results of two stores, as text.

use netrig_core::number::Unit;
use netrig_core::text::AlignedTable;
use netrig_experiment::Agreement;
use netrig_store::{OriginChange, OriginFact, RunOrigin};

use crate::estimate;

/// Text about the origins of two runs: the facts that differ, and the facts that are the same.
pub fn differences(first: &RunOrigin, second: &RunOrigin) -> String {
    let changes = first.changes(second);
    let mut out = String::new();
    if changes.is_empty() {
        out += "nothing was different when they were made";
    } else {
        out += "what was different when they were made:";
        let written =
            |fact: &Option<OriginFact>| fact.as_ref().map_or_else(|| "–".to_owned(), OriginFact::to_string);
        let mut table = AlignedTable::list("lll");
        for OriginChange { what, first, second } in &changes {
            table.row([format!("  {what}"), written(first), written(second)]);
        }
        out.push('\n');
        table.write(&mut out);
        out.pop();
    }
    let common = first.common(second);
    if common.is_empty() { out } else { format!("{out}\nthe same: {}", common.join("; ")) }
}

/// One line about a comparison.
pub fn agreement_line(agreement: &Agreement) -> String {
    let at = if agreement.factors.levels().is_empty() {
        "all points".to_owned()
    } else {
        agreement.factors.to_string()
    };
    let ratio = agreement.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.4}"));
    let interval = match (agreement.low, agreement.high) {
        (Some(low), Some(high)) => format!("[{low:.4}, {high:.4}]"),
        _ => "[no interval]".to_owned(),
    };
    let (accord, within) = match &agreement.asked {
        Some(asked) => (asked.verdict.name(), asked.within.written(&agreement.unit)),
        None => ("", "nothing asked".to_owned()),
    };
    let Agreement { response, unit, n: [first, second], pairs, .. } = agreement;
    let difference = estimate::of_difference(agreement).map_or_else(
        || "–".to_owned(),
        |difference| {
            let unit = Unit::fitting(unit, [difference.value]).of_difference();
            unit.behind(&difference.written(&unit).to_string())
        },
    );
    format!(
        "{response:<20} {ratio} {interval}  {accord:<12}  n = {first} and {second}, {pairs} pairs  {at}  \
         (second − first = {difference}; {within})"
    )
}
