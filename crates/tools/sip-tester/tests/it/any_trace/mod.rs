//! Properties that hold for any bytes that are read as a trace. `fuzz/` searches for a counterexample, and the test of
//! the corpus replays its inputs.

use netrig_sip_tester::ladder::{Ladder, LadderTimes, TraceMask, calls, difference};
use netrig_sip_tester::trace::{LOG_HEADING, LogDirection, SipTrace, write_entry};

/// Reading the bytes gives a trace or an error. For a trace: each message is the same after writing and reading a log,
/// the ladder of its calls fits the width of a terminal, and masking keeps the number of messages.
pub fn check(bytes: &[u8]) {
    let Ok(trace) = SipTrace::read(bytes) else { return };
    let mut log = LOG_HEADING.as_bytes().to_vec();
    for message in &trace.messages {
        write_entry(&mut log, LogDirection::Received, message).expect("memory takes it");
    }
    assert_eq!(SipTrace::read(&log).expect("it was written as a log").messages, trace.messages);
    let found = calls(&trace);
    let all: Vec<_> = found.iter().collect();
    let ladder = Ladder::of(&trace, &all, &["OPTIONS".to_owned()]);
    assert!(ladder.rows.len() + ladder.hidden <= trace.messages.len());
    for times in [LadderTimes::SinceFirst, LadderTimes::SincePrevious, LadderTimes::Absolute] {
        let text = ladder.to_text(80, times);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    assert!(ladder.to_svg("any", LadderTimes::SinceFirst).ends_with("</svg>\n"));
    assert_eq!(TraceMask::default().trace(&trace).messages.len(), trace.messages.len());
    if let [first, second, ..] = trace.messages.as_slice() {
        difference(&first.bytes, &second.bytes);
    }
}
