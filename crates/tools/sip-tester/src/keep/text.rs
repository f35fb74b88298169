//! Summaries of kept messages and records, as text.

use netrig_core::number::counted;
use netrig_sip_net::tap::{KeptMessages, KeptRecords};

/// The kept messages in a line, and others for lost messages.
pub fn kept(kept: &KeptMessages) -> Vec<String> {
    let attempts = kept.attempts.map(|attempts| format!(" of {}", counted(attempts, "attempt", "attempts")));
    let (log, capture) = (kept.log.display(), kept.capture.display());
    let messages = format!(
        "kept: {}{} in {log} and {capture}; netrig sip show {log}",
        counted(kept.messages, "message", "messages"),
        attempts.unwrap_or_default()
    );
    [messages].into_iter().chain(not_kept(kept)).collect()
}

/// The messages that were not kept, with reasons, in lines.
pub fn not_kept(kept: &KeptMessages) -> Vec<String> {
    let lost = [
        (kept.dropped, "arrived faster than they could be written"),
        (kept.without_room, "had no room in memory or on the disk"),
    ];
    let lost = lost.into_iter().filter(|(count, _)| *count > 0);
    let lost =
        lost.map(|(count, why)| format!("not kept: {} that {why}", counted(count, "message", "messages")));
    lost.chain(kept.fault.clone().map(|fault| format!("not kept: {fault}"))).collect()
}

/// The written records in a line, and others for lost records.
pub fn written(records: &KeptRecords) -> Vec<String> {
    let KeptRecords { file, records, dropped, fault } = records;
    let mut lines =
        vec![format!("records: {} in {}", counted(*records, "attempt", "attempts"), file.display())];
    if *dropped > 0 {
        let attempts = counted(*dropped, "attempt", "attempts");
        lines.push(format!("not written: {attempts} that ended faster than they could be written"));
    }
    lines.extend(fault.as_ref().map(|fault| format!("not written: {fault}")));
    lines
}
