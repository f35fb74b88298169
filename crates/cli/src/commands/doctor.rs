//! `netrig doctor`.

mod finding;
mod real_time;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use self::finding::{Finding, fine, found, proc};
use crate::arguments::Doctor;
use crate::build::BUILD;
use crate::failure::{Failure, print};

/// Prints what this machine can do, and what would spoil a measurement on it.
pub fn doctor(arguments: &Doctor) -> Result<ExitCode, Failure> {
    let findings = [
        build(),
        cores(),
        load(),
        governor(),
        clock(),
        memory(),
        disk(),
        root(),
        namespaces(),
        sctp(),
        netem(),
        qemu(),
    ];
    let findings: Vec<Finding> =
        findings.into_iter().chain(real_time::findings()).chain(left_behind()).collect();
    if arguments.json {
        let findings: Vec<Value> =
            findings.iter().map(|f| json!({ "what": f.what, "is": f.is, "mend": f.mend })).collect();
        print(serde_json::to_string_pretty(&findings).map_err(Failure::failed)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for Finding { what, is, mend } in &findings {
        print(format!("{what:<14} {is}"))?;
        if let Some(mend) = mend {
            print(format!("{:<14} -> {mend}", ""))?;
        }
    }
    print("\nsim needs none of this: it runs in virtual time. A slow machine only makes it take longer.")?;
    Ok(ExitCode::SUCCESS)
}

fn build() -> Finding {
    fine("netrig", BUILD.as_str())
}

fn cores() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    fine("processors", format!("{cores}; that many runs are made at the same time"))
}

fn load() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get) as f64;
    let load =
        proc("/proc/loadavg").and_then(|text| text.split(' ').next().and_then(|n| n.parse::<f64>().ok()));
    let Some(load) = load else { return fine("load", "not known on this system") };
    let mend = (load > 0.5 * cores).then(|| {
        "other programs are busy: a measurement in real time would measure them too; wait, or stop them"
            .to_owned()
    });
    Finding { what: "load", is: format!("{load:.2} over the last minute"), mend }
}

fn governor() -> Finding {
    match proc("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        None => fine("frequency", "not known (a virtual machine, or no governor)"),
        Some(governor) if governor == "performance" => fine("frequency", governor),
        Some(governor) => Finding {
            what: "frequency",
            is: format!("governor {governor}"),
            mend: Some("real time: cpupower frequency-set -g performance".into()),
        },
    }
}

fn clock() -> Finding {
    match proc("/sys/devices/system/clocksource/clocksource0/current_clocksource") {
        None => fine("clock", "not known on this system"),
        Some(source) if source == "tsc" || source == "kvm-clock" => fine("clock", source),
        Some(source) => Finding {
            what: "clock",
            is: format!("{source}: reading it is slow"),
            mend: Some(
                "real time: echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"
                    .into(),
            ),
        },
    }
}

fn memory() -> Finding {
    let available = proc("/proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:").map(str::to_owned))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    });
    let Some(kib) = available else { return fine("memory", "not known on this system") };
    let mend = (kib < 500_000).then(|| "less than 500 MB are free: large sweeps may be killed".to_owned());
    Finding { what: "memory", is: format!("{:.1} GiB available", kib as f64 / 1048576.0), mend }
}

fn disk() -> Finding {
    // Permissions are not enough: the file system may be mounted read-only.
    let probe = PathBuf::from(format!(".netrig-probe-{}", std::process::id()));
    match std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe)) {
        Ok(()) => fine("folder", "can be written; the store and the report go here"),
        Err(error) => Finding {
            what: "folder",
            is: format!("cannot be written: {error}"),
            mend: Some("run elsewhere, or name a store with --store".into()),
        },
    }
}

fn root() -> Finding {
    let uid = proc("/proc/self/status").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Uid:").map(str::to_owned))?;
        line.split_whitespace().next().map(str::to_owned)
    });
    match uid.as_deref() {
        Some("0") => fine("root", "yes"),
        _ => fine("root", "no; sim needs none"),
    }
}

#[cfg(not(target_os = "linux"))]
fn namespaces() -> Finding {
    fine("namespaces", "no: netns needs Linux; sim needs none")
}

#[cfg(not(target_os = "linux"))]
fn left_behind() -> Vec<Finding> {
    Vec::new()
}

#[cfg(target_os = "linux")]
fn namespaces() -> Finding {
    match netrig_netns::try_requirements().first() {
        None => fine("namespaces", "yes: netns can run here"),
        Some(lack) => Finding {
            what: "namespaces",
            is: format!("no: {lack}"),
            mend: Some("run as root; sim needs none of it".into()),
        },
    }
}

/// Removes what killed runs left in the kernel, and reports it. If one testbed cannot be removed, the others still are.
#[cfg(target_os = "linux")]
fn left_behind() -> Vec<Finding> {
    use netrig_netns::{left_behind, missing_requirements};

    use crate::request::journals;

    // Without the rights to make a testbed there is none to remove.
    if !missing_requirements().is_empty() {
        return Vec::new();
    }
    let journals = journals();
    match left_behind(&journals) {
        Ok(left) => left.into_iter().map(|left| removed(left, &journals)).collect(),
        Err(error) => vec![Finding {
            what: "left behind",
            is: format!("cannot be read: {error}"),
            mend: Some(format!("make sure that root can read {}", journals.folder().display())),
        }],
    }
}

/// Removes what one testbed left behind.
#[cfg(target_os = "linux")]
fn removed(left: netrig_netns::LeftBehind, journals: &netrig_netns::Journals) -> Finding {
    let of = left.owner().map_or_else(String::new, |pid| format!(" of process {pid}, which is gone"));
    let left_id = left.id().to_owned();
    let testbed = format!("testbed {left_id}{of}");
    let told = left.namespaces().and_then(|namespaces| Ok((namespaces, left.interfaces()?.len())));
    let processes = left.processes().len();
    let names: Vec<String> = told.iter().flat_map(|(namespaces, _)| namespaces.clone()).collect();
    match told.and_then(|told| left.remove().map(|()| told)) {
        Ok((namespaces, interfaces)) => fine(
            "left behind",
            format!(
                "{testbed}: {} namespaces ({}), {interfaces} interfaces, {processes} processes: removed",
                namespaces.len(),
                namespaces.join(", "),
            ),
        ),
        Err(error) => Finding {
            what: "left behind",
            is: format!("{testbed}: not removed: {error}"),
            mend: Some(by_hand(journals.folder(), &left_id, &names)),
        },
    }
}

/// The commands that remove a testbed by hand.
#[cfg(target_os = "linux")]
fn by_hand(journals: &Path, id: &str, namespaces: &[String]) -> String {
    let deletes: String = namespaces.iter().map(|name| format!("ip netns delete {name}; ")).collect();
    format!("{deletes}rm {}/{id}.journal", journals.display())
}

fn sctp() -> Finding {
    let has =
        proc("/proc/net/protocols").is_some_and(|text| text.lines().any(|line| line.starts_with("SCTP")));
    fine("kernel SCTP", if has { "yes" } else { "no; sim has its own" })
}

fn netem() -> Finding {
    let release = proc("/proc/sys/kernel/osrelease").unwrap_or_default();
    let has = Path::new("/sys/module/sch_netem").exists()
        || proc(&format!("/lib/modules/{release}/modules.builtin"))
            .is_some_and(|text| text.contains("sch_netem"))
        || proc(&format!("/lib/modules/{release}/modules.dep"))
            .is_some_and(|text| text.contains("sch_netem"));
    fine("kernel netem", if has { "yes" } else { "no; sim has its own impairments" })
}

fn qemu() -> Finding {
    match found("qemu-system-x86_64") {
        Some(file) => fine("qemu", file.display().to_string()),
        None => fine("qemu", "not installed"),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::path::Path;

    use super::by_hand;

    #[test]
    fn only_what_the_journal_names_is_to_be_deleted_by_hand() {
        let names = ["netrig-1a2b-client", "netrig-1a2b.router"].map(str::to_owned);
        assert_eq!(
            by_hand(Path::new("/run/netrig"), "1a2b", &names),
            "ip netns delete netrig-1a2b-client; ip netns delete netrig-1a2b.router; rm /run/netrig/1a2b.journal"
        );
        assert_eq!(by_hand(Path::new("/run/netrig"), "1a2b", &[]), "rm /run/netrig/1a2b.journal");
    }
}
