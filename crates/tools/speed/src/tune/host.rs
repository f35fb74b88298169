//! Findings on the processors, and on the connection table of the firewall.

use netrig_host::HostSettings;

use super::finding::{SettingFinding, SettingVerdict};
use super::path::TunedPath;
use super::sysctl::{number, sysctl};

/// Above this share, the connection table counts as full: new connections arrive in bursts.
const FULL: f64 = 0.9;

pub(super) fn findings(read: &HostSettings, path: &TunedPath) -> Vec<SettingFinding> {
    let mut findings = vec![governor(read, path)];
    findings.extend(steering(read, path));
    findings.extend(tracked(read));
    findings
}

/// The finding on the frequency governor of the processors.
fn governor(read: &HostSettings, path: &TunedPath) -> SettingFinding {
    let why = "a processor that is slow to speed up handles the first packets of each burst slowly";
    let finding = SettingFinding::new("frequency governor", read.governor.as_ref(), why);
    match (read.governor.as_deref(), path.is_fast()) {
        (None, _) => SettingFinding {
            why: "not reported: a virtual machine, or a single frequency".to_owned(),
            ..finding
        },
        (Some("performance"), _) | (Some(_), Some(false)) => finding.fits(),
        (Some(_), Some(true)) => finding
            .needs("performance")
            .mended(SettingVerdict::Unfit, "cpupower frequency-set -g performance"),
        (Some(_), None) => finding.needs("performance from 500 Mbit/s"),
    }
}

/// The finding on packet steering: whether more than one processor handles received packets.
fn steering(read: &HostSettings, path: &TunedPath) -> Option<SettingFinding> {
    let (outlet, processors) = (read.outlet.as_ref()?, read.processors?);
    let queues = outlet.steering.len();
    let spread = outlet.steering.iter().any(|mask| mask.chars().any(|digit| !matches!(digit, '0' | ',')));
    let interface = &outlet.interface.name;
    let now = format!(
        "{processors} processors, {queues} receive queues, {}",
        if spread { "handed on (RPS)" } else { "not handed on" }
    );
    let why = "one processor handles the packets of a receive queue, unless it passes them on";
    let finding = SettingFinding::new(format!("receive steering of {interface}"), Some(now), why);
    let helped = processors == 1 || queues > 1 || spread || interface == "lo";
    Some(match (helped, path.is_fast()) {
        (true, _) | (false, Some(false)) => finding.fits(),
        (false, None) => finding.needs("more than one processor from 500 Mbit/s"),
        (false, Some(true)) => {
            let mask = (1_u64 << processors.min(32)) - 1;
            finding.needs("more than one processor").mended(
                SettingVerdict::Unfit,
                format!("echo {mask:x} > /sys/class/net/{interface}/queues/rx-0/rps_cpus"),
            )
        }
    })
}

/// The finding on the connection table of a firewall, if there is one.
fn tracked(read: &HostSettings) -> Option<SettingFinding> {
    let name = "net.netfilter.nf_conntrack_max";
    let (count, most) = (number(read, "net.netfilter.nf_conntrack_count")?, number(read, name)?);
    let why = "if the firewall's table is full, packets of new connections are dropped";
    let finding = SettingFinding::new(name, Some(format!("{most}, {count} in use")), why);
    let finding = finding.needs(format!("more than {}", (count as f64 / FULL) as u64));
    Some(if (count as f64) < FULL * most as f64 {
        finding.fits()
    } else {
        finding.mended(SettingVerdict::TooSmall, sysctl(name, (2 * count).next_power_of_two()))
    })
}
