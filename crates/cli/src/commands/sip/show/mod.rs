//! `netrig sip show`: the calls of a capture or message log, and the ladder diagram of each.

mod list;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use netrig_host::user_file;
use netrig_sip_tester::keep::sip_capture;
use netrig_sip_tester::ladder::{
    CallFilter, DifferenceLine, Ladder, LadderTimes, TraceDocument, TraceMask, TracedCall, calls, difference,
    printable,
};
use netrig_sip_tester::trace::SipTrace;

use crate::failure::{Failure, print};
use crate::output;

/// The longest file that is read, bytes. It is held in memory.
const LONGEST_FILE: u64 = 4 << 30;

/// `netrig sip show`.
#[derive(Debug, Args)]
pub struct Show {
    /// A capture (pcap, pcapng) or a message log
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only calls with this Call-ID, or a part of it; several are drawn in one ladder
    #[arg(value_name = "CALL-ID")]
    pub call_ids: Vec<String>,
    /// The call with this number in the list
    #[arg(long, value_name = "NUMBER", conflicts_with = "call_ids")]
    pub call: Vec<usize>,
    /// Only calls with this text in the user of From or To
    #[arg(long, value_name = "TEXT")]
    pub user: Option<String>,
    /// Only calls with a response of this status
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(100..700))]
    pub status: Option<u16>,
    /// Only calls with this text in any message, in either case
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
    /// Draw all calls that were found in one ladder
    #[arg(long)]
    pub together: bool,
    /// Hide the transactions of a method
    #[arg(long, value_name = "METHOD")]
    pub hide: Vec<String>,
    /// How times are shown
    #[arg(long, value_enum, default_value_t = Times::SinceFirst)]
    pub times: Times,
    /// Print one message whole, by its number in the ladder
    #[arg(long, value_name = "NUMBER")]
    pub message: Option<usize>,
    /// Compare two messages by their numbers in the ladder
    #[arg(long, value_names = ["NUMBER", "NUMBER"], num_args = 2, conflicts_with = "message")]
    pub compare: Option<Vec<usize>>,
    /// Replace addresses, hosts and users by names that say nothing
    #[arg(long)]
    pub mask: bool,
    /// Write the ladder as a picture (SVG), or the messages as a capture for Wireshark (pcapng)
    #[arg(long, value_name = "FILE.svg|FILE.pcapng")]
    pub out: Option<PathBuf>,
    /// Print one JSON document: the calls and their messages
    #[arg(long)]
    pub json: bool,
}

/// How times are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Times {
    /// Since the first message
    SinceFirst,
    /// Since the message before
    SincePrevious,
    /// Time of day, UTC
    Absolute,
}

impl From<Times> for LadderTimes {
    fn from(typed: Times) -> Self {
        match typed {
            Times::SinceFirst => Self::SinceFirst,
            Times::SincePrevious => Self::SincePrevious,
            Times::Absolute => Self::Absolute,
        }
    }
}

/// Shows the calls of a file.
pub fn show(typed: &Show) -> Result<ExitCode, Failure> {
    let trace = read(typed)?;
    let all = calls(&trace);
    let chosen = choose(typed, &trace, &all)?;
    let is_one = chosen.len() == 1 || typed.together || !typed.call_ids.is_empty() || !typed.call.is_empty();
    // Of a file with many calls it takes long: a list needs none.
    let ladder = || Ladder::of(&trace, &chosen, &typed.hide);
    if typed.json {
        let document = TraceDocument::of(&trace, &chosen, &ladder());
        print(serde_json::to_string_pretty(&document).map_err(Failure::failed)?)?;
    } else if let Some(number) = typed.message {
        print(printable(message(&trace, &ladder(), number)?))?;
    } else if let Some([first, second]) = typed.compare.as_deref() {
        let ladder = ladder();
        print(compared(message(&trace, &ladder, *first)?, message(&trace, &ladder, *second)?))?;
    } else if is_one {
        print(ladder().to_text(output::terminal_width(), typed.times.into()).trim_end())?;
    } else {
        print(list::calls(&typed.file, &trace, &all, &chosen).trim_end())?;
    }
    let is_capture = |out: &PathBuf| out.extension().is_some_and(|ending| ending == "pcapng");
    if let Some(out) = typed.out.as_ref().filter(|out| is_capture(out)) {
        let mut places: Vec<usize> = chosen.iter().flat_map(|call| call.messages.iter().copied()).collect();
        places.sort_unstable();
        let messages = places.iter().filter_map(|place| trace.messages.get(*place));
        output::replace(out, &sip_capture(messages))?;
    } else if let Some(out) = &typed.out {
        let title = format!("SIP messages of {}", typed.file.display());
        output::replace(out, ladder().to_svg(&title, typed.times.into()).as_bytes())?;
    }
    for warning in warnings(&trace) {
        eprintln!("warning: {warning}");
    }
    Ok(ExitCode::SUCCESS)
}

fn read(typed: &Show) -> Result<SipTrace, Failure> {
    let file = typed.file.display();
    let bytes = user_file::read(&typed.file, LONGEST_FILE);
    let bytes = bytes.map_err(|error| Failure::request(format!("cannot read {file}: {error}")))?;
    let trace = SipTrace::read(&bytes).map_err(|error| Failure::request(format!("{file}: {error}")))?;
    if trace.messages.is_empty() {
        return Err(Failure::request(format!(
            "{file} has no SIP message: over TLS a capture has none without the keys, and netrig does not decrypt it"
        )));
    }
    Ok(if typed.mask { TraceMask::default().trace(&trace) } else { trace })
}

/// The calls that are asked for.
fn choose<'a>(typed: &Show, trace: &SipTrace, all: &'a [TracedCall]) -> Result<Vec<&'a TracedCall>, Failure> {
    if !typed.call.is_empty() {
        let by_number = |number: &usize| {
            number.checked_sub(1).and_then(|place| all.get(place)).ok_or_else(|| {
                Failure::request(format!("there is no call {number}: the file has calls 1 to {}", all.len()))
            })
        };
        return typed.call.iter().map(by_number).collect();
    }
    let filter = |call_id: Option<&String>| CallFilter {
        call_id: call_id.cloned(),
        user: typed.user.clone(),
        status: typed.status,
        text: typed.text.clone(),
    };
    let filters: Vec<CallFilter> = match typed.call_ids.as_slice() {
        [] => vec![filter(None)],
        call_ids => call_ids.iter().map(|call_id| filter(Some(call_id))).collect(),
    };
    let chosen: Vec<_> =
        all.iter().filter(|call| filters.iter().any(|filter| filter.fits(call, trace))).collect();
    if chosen.is_empty() {
        return Err(Failure::request(format!(
            "none of the {} calls in {} is as asked for; without a filter all are listed",
            all.len(),
            typed.file.display()
        )));
    }
    Ok(chosen)
}

fn message<'a>(trace: &'a SipTrace, ladder: &Ladder, number: usize) -> Result<&'a [u8], Failure> {
    let row = ladder.rows.iter().find(|row| row.number == number);
    let last = ladder.rows.last().map_or(0, |row| row.number);
    let missing =
        || Failure::request(format!("there is no message {number} in this ladder, which has 1 to {last}"));
    row.map(|row| &*trace.messages[row.message].bytes).ok_or_else(missing)
}

fn compared(first: &[u8], second: &[u8]) -> String {
    let lines = difference(first, second).into_iter().map(|line| match line {
        DifferenceLine::Both(line) => format!("  {line}"),
        DifferenceLine::OnlyFirst(line) => format!("- {line}"),
        DifferenceLine::OnlySecond(line) => format!("+ {line}"),
    });
    lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// What is missing from the file.
fn warnings(trace: &SipTrace) -> Vec<String> {
    let broken =
        trace.broken_off.as_ref().map(|error| format!("the messages before the damage are shown: {error}"));
    let skipped = (trace.skipped_bytes > 0).then(|| {
        format!(
            "{} B of TCP streams belong to no message: the capture lacks what was before them",
            trace.skipped_bytes
        )
    });
    broken.into_iter().chain(skipped).collect()
}
