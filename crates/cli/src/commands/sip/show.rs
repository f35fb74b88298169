//! `netrig sip show`: the calls of a capture or message log, and the ladder diagram of each.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use netrig_core::setting::Within;
use netrig_sip_tester::keep::sip_capture;
use netrig_sip_tester::ladder::{
    CallFilter, Ladder, LadderTimes, TraceDocument, TraceMask, calls, calls_text, difference, printable,
};
use netrig_sip_tester::trace::SipTrace;

use crate::failure::{Failure, print, print_json};
use crate::input::read_bytes;
use crate::output;
use crate::typed::{named, value, value_as};

/// The longest file that is read, bytes. The file is read into memory.
const LONGEST_FILE: u64 = 4 << 30;

/// `netrig sip show`.
#[derive(Debug, Args)]
pub struct Show {
    /// A capture (pcap, pcapng) or a message log
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only calls whose Call-ID contains this text; several calls are drawn in one ladder
    #[arg(value_name = "CALL-ID")]
    pub call_ids: Vec<String>,
    /// The call with this number in the list
    #[arg(long, value_name = "NUMBER", conflicts_with = "call_ids", value_parser = value::<usize>)]
    pub call: Vec<usize>,
    /// Only calls with this text in the user of From or To
    #[arg(long, value_name = "TEXT")]
    pub user: Option<String>,
    /// Only calls with a response of this status
    #[arg(long, value_name = "STATUS", value_parser = value_as::<Within<100, 699>, u16>)]
    pub status: Option<u16>,
    /// Only calls with this text in any message, case-insensitive (ASCII)
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
    /// Draw all found calls in one ladder
    #[arg(long)]
    pub together: bool,
    /// Hide the transactions of a method
    #[arg(long, value_name = "METHOD")]
    pub hide: Vec<String>,
    /// How times are shown
    #[arg(long, value_parser = named::<LadderTimes>(), default_value = "since-first")]
    pub times: LadderTimes,
    /// Print a whole message, by its number in the ladder
    #[arg(long, value_name = "NUMBER", value_parser = value::<usize>)]
    pub message: Option<usize>,
    /// Compare two messages by their numbers in the ladder
    #[arg(long, value_names = ["NUMBER", "NUMBER"], num_args = 2, conflicts_with = "message")]
    pub compare: Option<Vec<usize>>,
    /// Replace addresses, hosts and users by neutral names
    #[arg(long)]
    pub mask: bool,
    /// Write the ladder as a picture (SVG), or the messages as a capture for Wireshark (pcapng)
    #[arg(long, value_name = "FILE.svg|FILE.pcapng")]
    pub out: Option<PathBuf>,
    /// Print one JSON document: the calls and their messages
    #[arg(long)]
    pub json: bool,
}

/// Shows the calls of a file.
pub fn show(typed: &Show) -> Result<ExitCode, Failure> {
    let trace = read(typed)?;
    let all = calls(&trace);
    let filter = CallFilter {
        numbers: typed.call.clone(),
        call_ids: typed.call_ids.clone(),
        user: typed.user.clone(),
        status: typed.status,
        text: typed.text.clone(),
    };
    let chosen = filter.choose(&trace, &all).map_err(Failure::request)?;
    let is_one = chosen.len() == 1 || typed.together || !typed.call_ids.is_empty() || !typed.call.is_empty();
    // The ladder is made only when it is needed: that of many calls takes long, and a list needs none.
    let ladder = || Ladder::of(&trace, &chosen, &typed.hide);
    if typed.json {
        let document = TraceDocument::of(&trace, &chosen, &ladder());
        print_json(&document)?;
    } else if let Some(number) = typed.message {
        print(printable(ladder().message(&trace, number).map_err(Failure::request)?))?;
    } else if let Some([first, second]) = typed.compare.as_deref() {
        let ladder = ladder();
        let message = |number| ladder.message(&trace, number).map_err(Failure::request);
        let lines = difference(message(*first)?, message(*second)?);
        print(lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    } else if is_one {
        print(ladder().to_text(output::terminal_width(), typed.times).trim_end())?;
    } else {
        print(calls_text(&typed.file, &trace, &all, &chosen, output::terminal_width()).trim_end())?;
    }
    let is_capture = |out: &PathBuf| out.extension().is_some_and(|ending| ending == "pcapng");
    if let Some(out) = typed.out.as_ref().filter(|out| is_capture(out)) {
        let mut places: Vec<usize> = chosen.iter().flat_map(|call| call.messages.iter().copied()).collect();
        places.sort_unstable();
        let messages = places.iter().filter_map(|place| trace.messages.get(*place));
        output::replace(out, &sip_capture(messages))?;
    } else if let Some(out) = &typed.out {
        let title = format!("SIP messages of {}", typed.file.display());
        output::replace(out, ladder().to_svg(&title, typed.times).as_bytes())?;
    }
    for warning in trace.warnings() {
        eprintln!("warning: {warning}");
    }
    Ok(ExitCode::SUCCESS)
}

fn read(typed: &Show) -> Result<SipTrace, Failure> {
    let file = typed.file.display();
    let trace = SipTrace::read(&read_bytes(&typed.file, LONGEST_FILE)?)
        .map_err(|error| Failure::request(format!("{file}: {error}")))?;
    if trace.messages.is_empty() {
        return Err(Failure::request(format!(
            "{file} has no SIP message; netrig does not decrypt TLS, so SIP over TLS is not visible in a capture"
        )));
    }
    Ok(if typed.mask { TraceMask::default().trace(&trace) } else { trace })
}
