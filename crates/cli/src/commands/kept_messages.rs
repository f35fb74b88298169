//! Messages of the SIP flows of runs that are kept.

#[cfg(target_os = "linux")]
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use netrig_core::number::counted;
#[cfg(target_os = "linux")]
use netrig_netns::{KeptFlow, KeptFlows};
#[cfg(target_os = "linux")]
use netrig_sip_net::tap::KeptMessages;

use crate::arguments::RunKeep;
use crate::failure::Failure;
use crate::request::ExperimentRequest;
#[cfg(target_os = "linux")]
use netrig_sip_tester::keep::{kept, not_kept};

/// The substrate whose runs can keep messages.
const ON: &str = "netns";

/// The number of flows of failed runs that get a line each.
#[cfg(target_os = "linux")]
const MOST_LISTED: usize = 12;

/// Orders that the following runs keep their messages.
pub fn begin(typed: &RunKeep, request: &ExperimentRequest) -> Result<(), Failure> {
    let Some(policy) = typed.keep else { return Ok(()) };
    let others: Vec<_> =
        request.substrates.iter().map(|substrate| substrate.name()).filter(|name| *name != ON).collect();
    let why = format!(
        "--keep {policy}: only runs on {ON} keep messages; for a run on sim, `netrig export --run ID --pcapng --out FILE` writes the \
         packets, and `netrig sip show FILE` reads them"
    );
    if others.len() == request.substrates.len() {
        return Err(Failure::request(why));
    }
    if !others.is_empty() {
        eprintln!("{why}");
    }
    #[cfg(target_os = "linux")]
    {
        let folder = std::path::absolute(&typed.keep_to)
            .map_err(|error| Failure::request(format!("--keep-to {}: {error}", typed.keep_to.display())))?;
        let stem = request.experiment.design.name.clone();
        let most_bytes = typed.keep_most.bytes();
        crate::request::namespaces().keep(netrig_netns::KeepRequest { policy, folder, stem, most_bytes });
    }
    Ok(())
}

/// One line per fact about the kept messages.
#[cfg(target_os = "linux")]
pub fn lines(typed: &RunKeep, ran: u64) -> Vec<String> {
    if typed.keep.is_none() {
        return Vec::new();
    }
    lines_of(crate::request::namespaces().take_kept(), ran, &typed.keep_to)
}

#[cfg(target_os = "linux")]
fn lines_of(kept: KeptFlows, ran: u64, folder: &Path) -> Vec<String> {
    let KeptFlows { flows, ordered } = kept;
    if flows.is_empty() {
        let why = match (ran, ordered) {
            (0, 0) => "no run was made",
            (_, 0) => "none of the new runs has a SIP flow",
            _ => "each run failed before its users had a file",
        };
        return vec![format!("kept: no messages: {why}")];
    }
    // After a failure its messages are what the user looks for.
    let (whole, failed): (Vec<_>, Vec<_>) = flows.into_iter().partition(|flow| flow.messages.is_some());
    let mut lines: Vec<String> =
        failed.iter().take(MOST_LISTED).map(|flow| of_failed(flow, folder)).collect();
    let more = failed.len().saturating_sub(MOST_LISTED) as u64;
    if more > 0 {
        lines.push(format!(
            "kept: messages of {} of failed runs in {}",
            counted(more, "more flow", "more flows"),
            folder.display()
        ));
    }
    lines.extend(of_whole(&whole, folder));
    lines
}

/// The path of a file from the current folder.
#[cfg(target_os = "linux")]
fn within(folder: &Path, file: &Path) -> PathBuf {
    file.file_name().map_or_else(|| file.to_owned(), |name| folder.join(name))
}

/// The line for a flow of a run that failed or was stopped.
#[cfg(target_os = "linux")]
fn of_failed(flow: &KeptFlow, folder: &Path) -> String {
    let [log, capture] = [&flow.log, &flow.capture].map(|file| within(folder, file));
    let (log, capture) = (log.display(), capture.display());
    format!("kept: messages of a failed run in {log} and {capture}; netrig sip show {log}")
}

/// The lines for the flows of all other runs.
#[cfg(target_os = "linux")]
fn of_whole(flows: &[KeptFlow], folder: &Path) -> Vec<String> {
    let all = || flows.iter().filter_map(|flow| flow.messages.as_ref());
    let Some(first) = all().next() else { return Vec::new() };
    let own = KeptMessages {
        log: within(folder, &first.log),
        capture: within(folder, &first.capture),
        messages: all().map(|kept| kept.messages).sum(),
        attempts: first.attempts.filter(|_| flows.len() == 1),
        dropped: all().map(|kept| kept.dropped).sum(),
        without_room: all().map(|kept| kept.without_room).sum(),
        fault: all().find_map(|kept| kept.fault.clone()),
    };
    if flows.len() == 1 {
        return kept(&own);
    }
    let line = format!(
        "kept: {} of {} in {}; netrig sip show {}",
        counted(own.messages, "message", "messages"),
        counted(flows.len() as u64, "flow", "flows"),
        folder.display(),
        own.log.display()
    );
    std::iter::once(line).chain(not_kept(&own)).collect()
}

/// Only Linux has the substrate that keeps messages.
#[cfg(not(target_os = "linux"))]
pub fn lines(_typed: &RunKeep, _ran: u64) -> Vec<String> {
    Vec::new()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_failed_runs_have_kept_is_told_first_and_none_is_left_out() {
        let listed =
            |flows: Vec<KeptFlow>, ordered| lines_of(KeptFlows { flows, ordered }, 1, Path::new("kept"));
        let flow = |log: &str, messages: Option<u64>| KeptFlow {
            flow: "users".to_owned(),
            log: log.into(),
            capture: "c.pcapng".into(),
            messages: messages.map(|messages| KeptMessages {
                messages,
                log: log.into(),
                capture: "c.pcapng".into(),
                ..Default::default()
            }),
        };
        assert_eq!(listed(Vec::new(), 0), ["kept: no messages: none of the new runs has a SIP flow"]);
        assert_eq!(listed(Vec::new(), 1), ["kept: no messages: each run failed before its users had a file"]);
        let lines = listed(vec![flow("/x/a.log", Some(1)), flow("/x/b.log", None)], 2);
        assert_eq!(
            lines,
            [
                "kept: messages of a failed run in kept/b.log and kept/c.pcapng; netrig sip show kept/b.log",
                "kept: 1 message in kept/a.log and kept/c.pcapng; netrig sip show kept/a.log"
            ]
        );
        let mut late = flow("b.log", Some(3));
        late.messages = late.messages.map(|messages| KeptMessages { dropped: 2, ..messages });
        assert_eq!(
            listed(vec![flow("a.log", Some(1)), late], 2),
            [
                "kept: 4 messages of 2 flows in kept; netrig sip show kept/a.log",
                "not kept: 2 messages that arrived faster than they could be written"
            ]
        );
        let failed = std::iter::repeat_n(flow("a.log", None), MOST_LISTED + 2).collect();
        let failed = listed(failed, 14);
        assert_eq!(failed.last().unwrap(), "kept: messages of 2 more flows of failed runs in kept");
    }
}
