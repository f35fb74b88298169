//! A list of calls.

use std::fmt::Write as _;
use std::path::Path;

use netrig_core::number::counted;
use netrig_core::text::AlignedTable;

use super::TracedCall;
use crate::trace::SipTrace;

/// A table of the selected calls, with their numbers in the trace. Lines have at most `width` characters if the columns
/// fit.
pub fn calls_text(
    file: &Path,
    trace: &SipTrace,
    all: &[TracedCall],
    chosen: &[&TracedCall],
    width: usize,
) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", summary(file, chosen));
    let with_ids = table(all, chosen, true);
    let fits = with_ids.lines().all(|line| line.chars().count() <= width);
    text += &if fits { with_ids } else { table(all, chosen, false) };
    let shown: usize = chosen.iter().map(|call| call.messages.len()).sum();
    let others = trace.messages.len() - shown;
    if others > 0 && chosen.len() == all.len() {
        let _ = writeln!(text, "\n{} without a Call-ID", counted(others as u64, "message", "messages"));
    }
    let _ = writeln!(text, "\nnetrig sip show {} --call NUMBER draws one of them.", file.display());
    text
}

fn summary(file: &Path, chosen: &[&TracedCall]) -> String {
    let count = |of: &dyn Fn(&TracedCall) -> bool| chosen.iter().filter(|call| of(call)).count() as u64;
    let failed = count(&|call| call.status.is_some_and(|status| status >= 300));
    let open = count(&|call| call.status.is_none());
    let messages: usize = chosen.iter().map(|call| call.messages.len()).sum();
    let again: usize = chosen.iter().map(|call| call.retransmissions).sum();
    format!(
        "{} in {}: {failed} failed, {open} without a final response\n{}, {}",
        counted(chosen.len() as u64, "call", "calls"),
        file.display(),
        counted(messages as u64, "message", "messages"),
        counted(again as u64, "retransmission", "retransmissions"),
    )
}

fn table(all: &[TracedCall], chosen: &[&TracedCall], with_ids: bool) -> String {
    let mut table = match with_ids {
        true => AlignedTable::new([
            "", "begins", "lasts", "method", "from", "to", "status", "messages", "again", "Call-ID",
        ]),
        false => {
            AlignedTable::new(["", "begins", "lasts", "method", "from", "to", "status", "messages", "again"])
        }
    };
    let first = all.first().map_or(0, |call| call.begins_ns);
    // Both lists have the same order.
    let mut chosen = chosen.iter().peekable();
    for (call, number) in all.iter().zip(1..) {
        if chosen.next_if(|chosen| std::ptr::eq(**chosen, call)).is_none() {
            continue;
        }
        let seconds = |nanos: u64| format!("{:.3} s", nanos as f64 / 1e9);
        let cells = [
            format!("{number}"),
            seconds(call.begins_ns - first),
            seconds(call.lasts.as_nanos()),
            call.method.clone(),
            call.from.clone(),
            call.to.clone(),
            call.status.map_or_else(|| "–".to_owned(), |status| status.to_string()),
            call.messages.len().to_string(),
            call.retransmissions.to_string(),
        ];
        table.row(cells.into_iter().chain(with_ids.then(|| call.call_id.clone())));
    }
    let mut text = String::new();
    table.write(&mut text);
    text
}
