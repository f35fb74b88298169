//! Messages of the flows of SIP of runs that are kept.

#[cfg(target_os = "linux")]
use netrig_sip_tester::counted;

use crate::arguments::RunKeep;
#[cfg(target_os = "linux")]
use crate::commands::sip::load::kept;
use crate::failure::Failure;
use crate::request::ExperimentRequest;

/// The substrate whose runs have messages to be kept.
const ON: &str = "netns";

/// Flows of which each is told by itself.
#[cfg(target_os = "linux")]
const MOST_TOLD: usize = 12;

/// Has the runs that follow keep what was asked for.
pub fn begin(typed: &RunKeep, request: &ExperimentRequest) -> Result<(), Failure> {
    let Some(policy) = typed.keep else { return Ok(()) };
    let others: Vec<_> =
        request.substrates.iter().map(|substrate| substrate.name()).filter(|name| *name != ON).collect();
    let why = format!(
        "--keep {policy}: messages are kept of runs on {ON}; of a run on sim, `netrig export --run ID --pcapng --out FILE` writes the \
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

/// Says in lines what was kept of the runs that were made.
#[cfg(target_os = "linux")]
pub fn lines(typed: &RunKeep, ran: u64) -> Vec<String> {
    if typed.keep.is_none() {
        return Vec::new();
    }
    lines_of(crate::request::namespaces().take_kept(), ran, &typed.keep_to)
}

#[cfg(target_os = "linux")]
fn lines_of(kept: netrig_netns::KeptOfRuns, ran: u64, folder: &std::path::Path) -> Vec<String> {
    let netrig_netns::KeptOfRuns { mut flows, ordered } = kept;
    if flows.is_empty() {
        let why = match (ran, ordered) {
            (0, 0) => "no run was made",
            (_, 0) => "no run that was made has a flow of SIP",
            _ => "each run failed before its users had a file",
        };
        return vec![format!("kept: no messages, for {why}")];
    }
    // Who looks for messages looks for those of a failure first.
    flows.sort_by_key(|flow| flow.messages.is_some());
    let told = flows.iter().take(MOST_TOLD);
    let mut lines: Vec<String> = told.flat_map(of_flow).collect();
    let rest: Vec<_> = flows.iter().skip(MOST_TOLD).collect();
    let whole: Vec<_> = rest.iter().filter_map(|flow| flow.messages.as_ref()).collect();
    if !whole.is_empty() {
        let messages = whole.iter().map(|kept| kept.messages).sum();
        let lost: u64 = whole.iter().map(|kept| kept.dropped + kept.without_room).sum();
        let lost = if lost > 0 { format!("; {lost} found no room or time") } else { String::new() };
        lines.push(format!(
            "kept: {} of {} in {}{lost}",
            counted(messages, "message", "messages"),
            counted(whole.len() as u64, "more flow", "more flows"),
            folder.display()
        ));
    }
    let of_failed = (rest.len() - whole.len()) as u64;
    if of_failed > 0 {
        lines.push(format!(
            "kept: messages of {} of runs that did not end well in {}",
            counted(of_failed, "more flow", "more flows"),
            folder.display()
        ));
    }
    lines
}

/// What was kept of a flow.
#[cfg(target_os = "linux")]
fn of_flow(flow: &netrig_netns::KeptFlow) -> Vec<String> {
    let netrig_netns::KeptFlow { log, capture, messages, .. } = flow;
    if let Some(messages) = messages {
        return kept(messages);
    }
    let (log, capture) = (log.display(), capture.display());
    vec![format!(
        "kept: messages of a run that did not end well in {log} and {capture}; netrig sip show {log}"
    )]
}

/// Nothing is kept where there is no such substrate.
#[cfg(not(target_os = "linux"))]
pub fn lines(_typed: &RunKeep, _ran: u64) -> Vec<String> {
    Vec::new()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use netrig_agent::sip::tap::KeptMessages;
    use netrig_netns::{KeptFlow, KeptOfRuns};

    use super::*;

    #[test]
    fn what_failed_runs_have_kept_is_told_first_and_none_is_left_out() {
        let told = |flows: Vec<KeptFlow>, ordered| {
            lines_of(KeptOfRuns { flows, ordered }, 1, std::path::Path::new("kept"))
        };
        let flow = |log: &str, messages: Option<u64>| KeptFlow {
            flow: "users".to_owned(),
            log: log.into(),
            capture: "c.pcapng".into(),
            messages: messages.map(|messages| KeptMessages {
                messages,
                log: log.into(),
                ..Default::default()
            }),
        };
        assert_eq!(told(Vec::new(), 0), ["kept: no messages, for no run that was made has a flow of SIP"]);
        assert_eq!(
            told(Vec::new(), 1),
            ["kept: no messages, for each run failed before its users had a file"]
        );
        let lines = told(vec![flow("a.log", Some(1)), flow("b.log", None)], 2);
        assert_eq!(
            lines[0],
            "kept: messages of a run that did not end well in b.log and c.pcapng; netrig sip show b.log"
        );
        assert!(lines[1].starts_with("kept: 1 message in a.log"), "{lines:?}");
        let many = std::iter::repeat_n(flow("a.log", Some(1)), MOST_TOLD + 1).collect();
        assert_eq!(told(many, 13).last().unwrap(), "kept: 1 message of 1 more flow in kept");
        let failed = std::iter::repeat_n(flow("a.log", None), MOST_TOLD + 2).collect();
        let failed = told(failed, 14);
        assert_eq!(
            failed.last().unwrap(),
            "kept: messages of 2 more flows of runs that did not end well in kept"
        );
    }
}
