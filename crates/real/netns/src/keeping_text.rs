//! Text for users about the kept messages of SIP flows.

use std::path::{Path, PathBuf};

use netrig_core::number::counted;
use netrig_sip_net::tap::KeptMessages;

use crate::keeping::{KeptFlow, KeptFlows};

/// Maximum number of flows of failed runs that get a line each.
const MOST_LISTED: usize = 12;

impl KeptFlows {
    /// Lines that describe the kept messages of `ran` runs. `folder` is the folder of the files as seen from the
    /// current folder.
    pub fn lines(self, ran: u64, folder: &Path) -> Vec<String> {
        let Self { flows, ordered } = self;
        if flows.is_empty() {
            let why = match (ran, ordered) {
                (0, 0) => "no run was made",
                (_, 0) => "none of the new runs has a SIP flow",
                _ => "each run failed before its users had a file",
            };
            return vec![format!("kept: no messages: {why}")];
        }
        // Failed runs are listed first, because users look for their messages first.
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
}

/// The path of `file` in `folder`, which is the same folder as seen from the current folder.
fn within(folder: &Path, file: &Path) -> PathBuf {
    file.file_name().map_or_else(|| file.to_owned(), |name| folder.join(name))
}

/// The line about the files of a flow of a run that failed or was cancelled.
fn of_failed(flow: &KeptFlow, folder: &Path) -> String {
    let [log, capture] = [&flow.log, &flow.capture].map(|file| within(folder, file));
    let (log, capture) = (log.display(), capture.display());
    format!("kept: messages of a failed run in {log} and {capture}; netrig sip show {log}")
}

/// The lines about the files of the flows of all other runs.
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
        return own.lines();
    }
    let line = format!(
        "kept: {} of {} in {}; netrig sip show {}",
        counted(own.messages, "message", "messages"),
        counted(flows.len() as u64, "flow", "flows"),
        folder.display(),
        own.log.display()
    );
    std::iter::once(line).chain(own.losses()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_runs_have_kept_is_told_first_and_none_is_left_out() {
        let listed = |flows: Vec<KeptFlow>, ordered| KeptFlows { flows, ordered }.lines(1, Path::new("kept"));
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
