//! Checks of this machine: which features it has, and which conditions would distort a measurement.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use rustix::thread::{CapabilitySet, capabilities};
use serde::Serialize;

use crate::settings::disciplines;
use crate::{proc, sysctl, wall_clock_is_synchronised};

/// The congestion controls that experiments use most.
const CONTROLS: [&str; 3] = ["reno", "cubic", "bbr"];

/// A property of this machine that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostFinding {
    /// The state of the property.
    pub is: String,
    /// The remedy, if the state would distort a measurement; `None` if the state is fine.
    pub mend: Option<String>,
    /// The name of the property.
    pub what: &'static str,
}

impl HostFinding {
    /// A property whose state does not distort measurements.
    pub fn fine(what: &'static str, is: impl Into<String>) -> Self {
        Self { what, is: is.into(), mend: None }
    }

    /// A property whose state distorts measurements, with the remedy.
    pub fn lacking(what: &'static str, is: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { what, is: is.into(), mend: Some(mend.into()) }
    }

    /// The property and its state in one line, and the remedy, if there is one, in a second line.
    pub fn text(&self) -> String {
        let Self { what, is, mend } = self;
        let mend = mend.as_ref().map(|mend| format!("\n{:<14} -> {mend}", ""));
        format!("{what:<14} {is}{}", mend.unwrap_or_default())
    }
}

/// Checks processors, memory, clock and permissions.
pub fn machine_findings() -> Vec<HostFinding> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let is_root = rustix::process::getuid().is_root();
    vec![
        HostFinding::fine("processors", format!("{cores}; that many runs are made at the same time")),
        load(cores),
        governor(),
        clock(),
        memory(),
        folder(),
        HostFinding::fine("root", if is_root { "yes" } else { "no; sim needs none" }),
    ]
}

/// Checks protocols and features of the kernel, and the programs that measurements use.
pub fn facility_findings() -> Vec<HostFinding> {
    let programs = [
        ("vsftpd", "flows of `ftp` on netns", "apt-get install vsftpd"),
        ("ffmpeg", "video: encodes clips and compares pictures", "apt-get install ffmpeg"),
    ];
    let qemu = program("qemu-system-x86_64");
    let kernel = [
        sctp(),
        netem(),
        HostFinding::fine("qemu", qemu.map_or("not installed".to_owned(), |file| file.display().to_string())),
        mptcp(),
        congestion(),
        wake_ups(),
        precedence(),
        wall_clock(),
    ];
    let programs = programs.map(|(name, purpose, mend)| match program(name) {
        Some(file) => HostFinding::fine(name, format!("{}; for {purpose}", file.display())),
        None => HostFinding::lacking(name, format!("not installed; for {purpose}"), mend),
    });
    kernel.into_iter().chain(programs).collect()
}

fn load(cores: usize) -> HostFinding {
    let load = file("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    let Some(load) = load else { return HostFinding::fine("load", "not known on this system") };
    let is = format!("{load:.2} over the last minute");
    if load > 0.5 * cores as f64 {
        let mend =
            "other programs are busy: a measurement in real time would measure them too; wait, or stop them";
        return HostFinding::lacking("load", is, mend);
    }
    HostFinding::fine("load", is)
}

fn governor() -> HostFinding {
    match file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        None => HostFinding::fine("frequency", "not known (a virtual machine, or no governor)"),
        Some(governor) if governor == "performance" => HostFinding::fine("frequency", governor),
        Some(governor) => HostFinding::lacking(
            "frequency",
            format!("governor {governor}"),
            "real time: cpupower frequency-set -g performance",
        ),
    }
}

fn clock() -> HostFinding {
    match file("/sys/devices/system/clocksource/clocksource0/current_clocksource") {
        None => HostFinding::fine("clock", "not known on this system"),
        Some(source) if source == "tsc" || source == "kvm-clock" => HostFinding::fine("clock", source),
        Some(source) => HostFinding::lacking(
            "clock",
            format!("{source}: reading it is slow"),
            "real time: echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
    }
}

fn memory() -> HostFinding {
    let Some(kib) = proc::number(&proc::text("/proc/meminfo"), "MemAvailable") else {
        return HostFinding::fine("memory", "not known on this system");
    };
    let is = format!("{:.1} GiB available", kib as f64 / 1048576.0);
    if kib < 500_000 {
        let mend = "less than 500 MB are free: large sweeps may be killed";
        return HostFinding::lacking("memory", is, mend);
    }
    HostFinding::fine("memory", is)
}

fn folder() -> HostFinding {
    // A file is written as a test, because permissions are not sufficient: the disk may be mounted read-only.
    let probe = PathBuf::from(format!(".netrig-probe-{}", std::process::id()));
    match std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe)) {
        Ok(()) => HostFinding::fine("folder", "can be written; the store and the report go here"),
        Err(error) => HostFinding::lacking(
            "folder",
            format!("cannot be written: {error}"),
            "run elsewhere, or name a store with --store",
        ),
    }
}

fn sctp() -> HostFinding {
    let has = proc::text("/proc/net/protocols").lines().any(|line| line.starts_with("SCTP"));
    HostFinding::fine("kernel SCTP", if has { "yes" } else { "no; sim has its own" })
}

fn netem() -> HostFinding {
    let is_listed = || disciplines().is_some_and(|names| names.iter().any(|name| name == "netem"));
    let has = Path::new("/sys/module/sch_netem").exists() || is_listed();
    HostFinding::fine("kernel netem", if has { "yes" } else { "no; sim has its own impairments" })
}

fn mptcp() -> HostFinding {
    match sysctl::get("net.mptcp.enabled").as_deref() {
        Ok("1") => HostFinding::fine("kernel MPTCP", "yes; transports of the kind `mptcp` on netns"),
        Ok(_) => HostFinding::lacking(
            "kernel MPTCP",
            "switched off; transports of the kind `mptcp` on netns need it",
            "sysctl -w net.mptcp.enabled=1",
        ),
        Err(_) => HostFinding::lacking(
            "kernel MPTCP",
            "no; transports of the kind `mptcp` on netns need it",
            "another kernel: apt-get install linux-image-amd64",
        ),
    }
}

fn congestion() -> HostFinding {
    let Ok(there) = sysctl::get("net.ipv4.tcp_available_congestion_control") else {
        return HostFinding::fine("congestion", "not known on this system; sim has its own");
    };
    let is = format!("{there}; for TCP on netns, sim has its own");
    match CONTROLS.into_iter().find(|name| !there.split_whitespace().any(|known| known == *name)) {
        None => HostFinding::fine("congestion", is),
        Some(absent) => HostFinding::lacking(
            "congestion",
            is,
            format!("modprobe tcp_{absent}, from the kernel's modules: apt-get install linux-image-amd64"),
        ),
    }
}

fn wake_ups() -> HostFinding {
    const LIMIT: &str = "/dev/cpu_dma_latency";
    match std::fs::OpenOptions::new().write(true).open(LIMIT) {
        Ok(_) => HostFinding::fine(
            "wake-ups",
            format!("{LIMIT} can be opened: idle processors stay awake during a run in real time"),
        ),
        Err(error) => HostFinding::lacking(
            "wake-ups",
            format!(
                "{LIMIT} cannot be opened ({error}): processors that halt wake up late, and delay runs in real time"
            ),
            "run as root, in a container with --device=/dev/cpu_dma_latency",
        ),
    }
}

fn precedence() -> HostFinding {
    match capabilities(None) {
        Ok(own) if own.effective.contains(CapabilitySet::SYS_NICE) => HostFinding::fine(
            "precedence",
            "CAP_SYS_NICE: the router and sources have priority over other programs",
        ),
        _ => HostFinding::lacking(
            "precedence",
            "no CAP_SYS_NICE: other programs delay the router and the sources of runs in real time",
            "run as root, in a container with --cap-add=SYS_NICE",
        ),
    }
}

fn wall_clock() -> HostFinding {
    if wall_clock_is_synchronised() {
        return HostFinding::fine(
            "wall clock",
            "synchronised by NTP or PTP; one-way delays between machines need it",
        );
    }
    HostFinding::lacking(
        "wall clock",
        "no NTP or PTP keeps it: one-way delays between machines have its error; netns needs only that it is not stepped",
        "apt-get install chrony",
    )
}

/// The trimmed text of a file of the kernel; `None` if it cannot be read.
fn file(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The path of a program. Programs of servers are also searched in folders that may be missing in `PATH`.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|folder| folder.join(name)).find(|file| file.is_file())
}
