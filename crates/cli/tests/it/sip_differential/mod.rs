//! Scenarios executed by netrig and by SIPp: the same messages on the wire, and the same result.
//!
//! Each scenario runs twice, once in SIPp and once in netrig. The other side is a SIPp with the mirrored scenario
//! (`mirror`).
//!
//! The test that runs with every change has no retransmissions. The loopback interface loses no messages.
//! Retransmissions would only occur if a busy machine stopped a process for longer than `retrans`, and SIPp treats most
//! retransmissions as unexpected messages.

mod mirror;
mod validate;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netrig_test_support::skip_unless;
use regex::{Regex, bytes};

use self::mirror::mirrored;
use crate::common::free_port::{free_media_port, free_port};
use crate::common::machine::has;
use crate::common::text;

/// The time limit of a scenario.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether the scenario retransmits unanswered messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repetitions {
    AsWritten,
    None,
}

/// A scenario, and the parameters of its two runs.
struct DifferentialRun {
    folder: tempfile::TempDir,
    /// The scenario, in a folder with the files that it names.
    scenario: PathBuf,
    repetitions: Repetitions,
    /// SIPp's flags for the scenario.
    flags: Vec<String>,
    own: u16,
    other: u16,
    /// Whether the scenario starts the call.
    is_caller: bool,
}

/// The result of a run.
struct SideEnd {
    has_succeeded: bool,
    told: String,
}

impl DifferentialRun {
    /// `other_side` is the name of a built-in scenario of SIPp for the other side. Without it the other side is the
    /// mirrored scenario.
    fn new(
        file: &Path,
        flags: &[String],
        other_side: Option<&str>,
        repetitions: Repetitions,
    ) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (free_port(), free_port());
        let written = fs::read(file).unwrap();
        let mirror = match other_side {
            None => mirrored(&String::from_utf8_lossy(&written), &format!("127.0.0.1:{own}"))?,
            Some(name) => text(&Command::new("sipp").args(["-sd", name]).output().unwrap().stdout),
        };
        // If the other side receives first, the scenario starts the call.
        let is_caller =
            mirror.find("<recv").unwrap_or(usize::MAX) < mirror.find("<send").unwrap_or(usize::MAX);
        fs::write(folder.path().join("mirror.xml"), mirror).unwrap();
        let beside = folder.path().join("beside");
        fs::create_dir(&beside).unwrap();
        for entry in fs::read_dir(file.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()) {
            symlink(&entry, beside.join(entry.file_name().unwrap())).unwrap();
        }
        let scenario = beside.join(file.file_name().unwrap());
        if repetitions == Repetitions::None {
            let repeats = bytes::Regex::new(r#"\sretrans\s*=\s*("[^"]*"|'[^']*')"#).unwrap();
            fs::remove_file(&scenario).unwrap();
            fs::write(&scenario, repeats.replace_all(&written, &b""[..])).unwrap();
        }
        Some(Self { folder, scenario, repetitions, flags: flags.to_vec(), own, other, is_caller })
    }

    /// Starts SIPp with one call of a file, in the folder of the scenario. It writes its messages to `log`, and its
    /// errors to a file next to it.
    fn sipp(&self, file: &Path, flags: &[String], port: u16, target: Option<u16>, log: &str) -> Child {
        let mut command = Command::new("sipp");
        command.args(["-sf", file.to_str().unwrap(), "-i", "127.0.0.1", "-p", &port.to_string()]);
        target.into_iter().for_each(|target| _ = command.arg(format!("127.0.0.1:{target}")));
        command.args(flags).args(["-m", "1", "-nostdin", "-timeout", "15", "-timeout_error"]);
        command.args((self.repetitions == Repetitions::None).then_some("-nr"));
        let log = self.folder.path().join(log);
        command.args(["-trace_err", "-error_file"]).arg(log.with_extension("err"));
        command.args(["-trace_msg", "-message_file"]).arg(log);
        // Two SIPp processes on one host need different media ports.
        command.args(["-mp", &free_media_port().to_string()]).current_dir(self.scenario.parent().unwrap());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("sipp starts")
    }

    fn mirror(&self, log: &str) -> Child {
        let file = self.folder.path().join("mirror.xml");
        let child = self.sipp(&file, &[], self.other, (!self.is_caller).then_some(self.own), log);
        if self.is_caller {
            until_bound(self.other);
        }
        child
    }

    /// Runs the scenario in SIPp. Returns the result and the sent messages.
    fn in_sipp(&self) -> (SideEnd, Vec<String>) {
        let command = |target| self.sipp(&self.scenario, &self.flags, self.own, target, "sipp.msg");
        let (own, mirror) = if self.is_caller {
            let mirror = self.mirror("mirror-a.msg");
            (command(Some(self.other)), mirror)
        } else {
            let own = command(None);
            until_bound(self.own);
            (own, self.mirror("mirror-a.msg"))
        };
        let end = both_end(own, mirror, &self.folder.path().join("sipp.err"));
        (end, self.normal(sent_by_sipp(&self.folder.path().join("sipp.msg"))))
    }

    /// Runs the scenario in netrig. Returns the result and the sent messages.
    fn in_netrig(&self) -> (SideEnd, Vec<String>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
        let kept = self.folder.path().join("netrig");
        let file = self.scenario.to_str().unwrap();
        if self.is_caller {
            command.args(["sip", "load", &format!("udp:127.0.0.1:{}", self.other), "--scenario-file", file]);
            command.args(["--local-port", &self.own.to_string(), "--local", "127.0.0.1"]);
        } else {
            command.args([
                "sip",
                "serve",
                "scenario",
                file,
                "--listen",
                &format!("udp:127.0.0.1:{}", self.own),
            ]);
        }
        command.args([
            "--count",
            "1",
            "--keep",
            "all",
            "--keep-to",
            kept.to_str().unwrap(),
            "--message-timeout",
            "15s",
        ]);
        command.args(&self.flags).current_dir(self.scenario.parent().unwrap());
        let told = self.folder.path().join("netrig.err");
        let out = fs::File::create(&told).unwrap();
        let command = command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        let (own, mirror) = if self.is_caller {
            let mirror = self.mirror("mirror-b.msg");
            (command.spawn().unwrap(), mirror)
        } else {
            let own = command.spawn().unwrap();
            until_bound(self.own);
            (own, self.mirror("mirror-b.msg"))
        };
        let end = both_end(own, mirror, &told);
        (end, self.normal(sent_by_netrig(&kept.with_extension("log"), self.own)))
    }

    /// The messages in the form that is compared. If there may be retransmissions, repeated messages occur once.
    fn normal(&self, messages: Vec<String>) -> Vec<String> {
        let mut normal = normal(messages);
        if self.repetitions == Repetitions::AsWritten {
            normal.dedup();
        }
        normal
    }
}

/// Waits until a process has bound a UDP port.
fn until_bound(port: u16) {
    let line = format!(":{port:04X} ");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        if fs::read_to_string("/proc/net/udp").unwrap().contains(&line) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for the end of `own`, and ends the other side.
fn both_end(mut own: Child, mut mirror: Child, told: &Path) -> SideEnd {
    let began = Instant::now();
    let status = loop {
        match own.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if began.elapsed() > PATIENCE => {
                let _ = own.kill();
                let _ = own.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let _ = mirror.kill();
    let _ = mirror.wait();
    let told = fs::read(told).map(|bytes| text(&bytes)).unwrap_or_default();
    SideEnd { has_succeeded: status.is_some_and(|status| status.success()), told }
}

/// The messages that SIPp has sent, from its log.
fn sent_by_sipp(log: &Path) -> Vec<String> {
    let log = fs::read(log).map(|bytes| text(&bytes)).unwrap_or_default();
    let entries = log.split("----------------------------------------------- ").skip(1);
    let sent = entries.filter_map(|entry| {
        let (head, message) = entry.split_once("\n\n")?;
        head.contains("message sent").then(|| message.trim().to_owned())
    });
    sent.collect()
}

/// The messages that netrig has sent from this port, from its log.
fn sent_by_netrig(log: &Path, port: u16) -> Vec<String> {
    let bytes = fs::read(log).unwrap_or_default();
    let Ok(trace) = netrig_sip_tester::trace::SipTrace::read(&bytes) else { return Vec::new() };
    let own = trace.messages.iter().filter(|message| message.from.port() == port);
    own.map(|message| text(&message.bytes).trim().to_owned()).collect()
}

/// Messages without the values that differ in each run: numbers, tags, branches, Call-IDs and credentials.
fn normal(messages: Vec<String>) -> Vec<String> {
    let rules = [
        (r"(?i)(branch=)[^;\r\n >,]*", "${1}B"),
        (r"(?i)(tag=)[^;\r\n >,]*", "${1}T"),
        (r"(?im)^((?:Call-ID|i):).*$", "${1} I"),
        (r#"(?i)(cnonce|response|nc)=("[^"]*"|[^,\r\n]*)"#, "${1}=C"),
        (r"[0-9]+", "N"),
        (r"[ \t]+", " "),
    ];
    let rules = rules.map(|(pattern, with)| (Regex::new(pattern).unwrap(), with));
    let mut normal: Vec<String> = Vec::new();
    for message in messages {
        let mut message = message.replace("\r\n", "\n");
        for (rule, with) in &rules {
            message = rule.replace_all(&message, *with).into_owned();
        }
        let message: Vec<String> = message.lines().map(|line| credentials(line.trim_end())).collect();
        let message = message.join("\n").trim_end().to_owned();
        normal.push(message);
    }
    normal
}

/// Credentials with sorted parameters and without `uri`. netrig uses the Request-URI as RFC 3261 section 22.4 requires;
/// SIPp uses the address of the server.
fn credentials(line: &str) -> String {
    let Some((name, parameters)) =
        line.split_once(": Digest ").filter(|(name, _)| name.ends_with("Authorization"))
    else {
        return line.to_owned();
    };
    let parameters = parameters.split(',').map(|parameter| parameter.trim().replace('"', ""));
    let mut parameters: Vec<String> = parameters.filter(|parameter| !parameter.starts_with("uri=")).collect();
    parameters.sort();
    format!("{name}: Digest {}", parameters.join(", "))
}

fn own_scenarios() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/sip_differential/scenarios");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "xml"));
    files.sort();
    files
}

/// Checks that SIPp and netrig have the same result and send the same messages. Returns the number of messages.
fn compare(file: &Path, flags: &[String]) -> Result<usize, String> {
    let other = match file.file_stem().and_then(|name| name.to_str()) {
        Some("branchc") => Some("branchs"),
        Some("branchs") => Some("branchc"),
        _ => None,
    };
    let pair = DifferentialRun::new(file, flags, other, Repetitions::None).ok_or("it has no other side")?;
    let (theirs, their_messages) = pair.in_sipp();
    let (ours, our_messages) = pair.in_netrig();
    if !theirs.has_succeeded {
        let mirror = fs::read(pair.folder.path().join("mirror-a.msg.err"))
            .map(|bytes| text(&bytes))
            .unwrap_or_default();
        return Err(format!("SIPp itself fails: {}; its other side: {mirror}", theirs.told));
    }
    if !ours.has_succeeded {
        return Err(format!("netrig fails: {}", ours.told));
    }
    if their_messages != our_messages {
        let differs = their_messages.iter().zip(&our_messages).find(|(theirs, ours)| theirs != ours);
        let all = |messages: &[String]| messages.join("\n\n");
        let (theirs, ours) =
            differs.map_or((all(&their_messages), all(&our_messages)), |(a, b)| (a.clone(), b.clone()));
        return Err(format!("SIPp:\n{theirs}\n\nnetrig:\n{ours}"));
    }
    Ok(our_messages.len())
}

#[test]
fn netrig_sends_what_sipp_sends() {
    skip_unless!(has("sipp"));
    let folder = tempfile::tempdir().unwrap();
    let mut files = own_scenarios();
    for name in ["uac", "uas", "regexp", "branchc", "branchs"] {
        let printed = Command::new("sipp").args(["-sd", name]).output().unwrap();
        let file = folder.path().join(format!("{name}.xml"));
        fs::write(&file, &printed.stdout).unwrap();
        files.push(file);
    }
    let flags = |file: &Path| -> Vec<String> {
        let lines = file.with_extension("csv");
        if lines.exists() { vec!["-inf".to_owned(), lines.to_str().unwrap().to_owned()] } else { Vec::new() }
    };
    let compared: Vec<_> = files.iter().map(|file| (file, compare(file, &flags(file)))).collect();
    let wrong: Vec<_> = compared.iter().filter(|(_, compared)| compared.is_err()).collect();
    for (file, compared) in &compared {
        if let Err(why) = compared {
            eprintln!("{}: {why}\n", file.display());
        }
    }
    assert!(wrong.is_empty(), "{} scenarios differ", wrong.len());
    let messages: usize = compared.iter().filter_map(|(_, compared)| compared.as_ref().ok()).sum();
    assert!(compared.len() >= 10 && messages >= 40, "{} scenarios, {messages} messages", compared.len());
}
