//! What runs in real time need of this machine besides namespaces.

use super::finding::{Finding, fine, found, proc};

/// CAP_SYS_NICE (capabilities(7)).
const SYS_NICE: u32 = 23;

/// The congestion controls that experiments use most.
const CONTROLS: [&str; 3] = ["reno", "cubic", "bbr"];

pub fn findings() -> impl Iterator<Item = Finding> {
    let programs = [
        ("vsftpd", "flows of `ftp` on netns", "apt-get install vsftpd"),
        ("ffmpeg", "video: encodes clips and compares pictures", "apt-get install ffmpeg"),
    ];
    [offloads(), mptcp(), congestion(), latency(), precedence(), synchronised()]
        .into_iter()
        .chain(programs.map(|(name, what_for, mend)| program(name, what_for, mend)))
}

fn lacking(what: &'static str, is: String, mend: &str) -> Finding {
    Finding { what, is, mend: Some(mend.to_owned()) }
}

#[cfg(not(target_os = "linux"))]
fn offloads() -> Finding {
    fine("offloads", "netns needs Linux")
}

#[cfg(target_os = "linux")]
fn offloads() -> Finding {
    let lacks = netrig_netns::try_requirements();
    match lacks.first() {
        None => fine("offloads", "can be switched off; netns needs frames as on a wire"),
        Some(lack) if lack.what == netrig_netns::OFFLOADS => lacking(
            "offloads",
            format!("{}; netns needs frames as on a wire", lack.why),
            "another kernel: apt-get install linux-image-amd64",
        ),
        Some(_) => fine("offloads", "not known without namespaces"),
    }
}

fn mptcp() -> Finding {
    match proc("/proc/sys/net/mptcp/enabled").as_deref() {
        Some("1") => fine("kernel MPTCP", "yes; transports of the kind `mptcp` on netns"),
        Some(_) => lacking(
            "kernel MPTCP",
            "switched off; transports of the kind `mptcp` on netns need it".into(),
            "sysctl -w net.mptcp.enabled=1",
        ),
        None => lacking(
            "kernel MPTCP",
            "no; transports of the kind `mptcp` on netns need it".into(),
            "another kernel: apt-get install linux-image-amd64",
        ),
    }
}

fn congestion() -> Finding {
    let Some(there) = proc("/proc/sys/net/ipv4/tcp_available_congestion_control") else {
        return fine("congestion", "not known on this system; sim has its own");
    };
    let absent: Vec<_> =
        CONTROLS.into_iter().filter(|name| !there.split_whitespace().any(|known| known == *name)).collect();
    let is = format!("{there}; for TCP on netns; sim has its own");
    match absent.first() {
        None => fine("congestion", is),
        Some(first) => lacking(
            "congestion",
            is,
            &format!("modprobe tcp_{first}, from the kernel's modules: apt-get install linux-image-amd64"),
        ),
    }
}

fn latency() -> Finding {
    const LIMIT: &str = "/dev/cpu_dma_latency";
    match std::fs::OpenOptions::new().write(true).open(LIMIT) {
        Ok(_) => fine(
            "wake-ups",
            format!("{LIMIT} can be opened: idle processors stay awake during a run in real time"),
        ),
        Err(error) => lacking(
            "wake-ups",
            format!(
                "{LIMIT} cannot be opened ({error}): processors that halt wake up late, and delay runs in real time"
            ),
            "run as root, in a container with --device=/dev/cpu_dma_latency",
        ),
    }
}

fn precedence() -> Finding {
    let effective = proc("/proc/thread-self/status").and_then(|status| {
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?.trim().to_owned();
        u64::from_str_radix(&mask, 16).ok()
    });
    match effective {
        Some(mask) if mask & 1 << SYS_NICE != 0 => {
            fine("precedence", "CAP_SYS_NICE: the router and sources have priority over other programs")
        }
        _ => lacking(
            "precedence",
            "no CAP_SYS_NICE: other programs delay the router and the sources of runs in real time".into(),
            "run as root, in a container with --cap-add=SYS_NICE",
        ),
    }
}

#[cfg(not(target_os = "linux"))]
fn synchronised() -> Finding {
    fine("wall clock", "not known on this system")
}

#[cfg(target_os = "linux")]
fn synchronised() -> Finding {
    if netrig_host::wall_clock_is_synchronised() {
        return fine("wall clock", "synchronised by NTP or PTP; one-way delays between machines need it");
    }
    lacking(
        "wall clock",
        "not known to be synchronised: one-way delays between machines have the error of this clock; netns needs only that \
         it is not stepped"
            .into(),
        "apt-get install chrony",
    )
}

fn program(name: &'static str, what_for: &str, mend: &str) -> Finding {
    match found(name) {
        Some(file) => fine(name, format!("{}; for {what_for}", file.display())),
        None => lacking(name, format!("not installed; for {what_for}"), mend),
    }
}
