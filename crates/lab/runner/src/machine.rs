//! A description of this machine.

use std::collections::BTreeMap;
use std::fs;

use netrig_store::Provenance;

/// The provenance of the runs of this process. `build` is netrig's version and commit. `settings` lists the sysctls
/// that affect the substrates, such as `net.ipv4.tcp_congestion_control`. A sysctl that this machine does not have is
/// omitted. A fact that cannot be read has a default or is empty.
pub fn provenance(build: &str, settings: &[&str]) -> Provenance {
    let kept = settings.iter().filter_map(|name| Some(((*name).to_owned(), sysctl(name)?)));
    Provenance {
        build: build.to_owned(),
        os: os().unwrap_or_else(|| std::env::consts::OS.to_owned()),
        kernel: sysctl("kernel.osrelease").unwrap_or_default(),
        cpu: cpu().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cpus: std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        host: sysctl("kernel.hostname").unwrap_or_default(),
        settings: kept.collect::<BTreeMap<_, _>>(),
    }
}

/// The value of a sysctl. Each sequence of white space is replaced by one space.
fn sysctl(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The value of `PRETTY_NAME` in os-release(5).
fn os() -> Option<String> {
    field(&fs::read_to_string("/etc/os-release").ok()?, "PRETTY_NAME", '=')
}

fn cpu() -> Option<String> {
    field(&fs::read_to_string("/proc/cpuinfo").ok()?, "model name", ':')
}

/// The value of the first line `name = value`, without quotes around the value. `between` is the separator, such as
/// `=`.
fn field(text: &str, name: &str, between: char) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(between));
    let (_, value) = lines.find(|(found, _)| found.trim() == name)?;
    Some(value.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let os = "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
        assert_eq!(field(os, "PRETTY_NAME", '=').unwrap(), "Debian GNU/Linux 12 (bookworm)");
        let cpu = "model\t\t: 85\nmodel name\t: Some CPU @ 2.00GHz: fast\n";
        assert_eq!(field(cpu, "model name", ':').unwrap(), "Some CPU @ 2.00GHz: fast");
        assert_eq!(field(cpu, "stepping", ':'), None);
    }

    #[test]
    fn a_setting_that_the_machine_does_not_have_is_left_out() {
        let found = provenance("0.1.0+abc", &["net.no.such.thing", "kernel.ostype"]);
        assert!(!found.settings.contains_key("net.no.such.thing"));
        assert_eq!(found.settings.contains_key("kernel.ostype"), cfg!(target_os = "linux"));
        assert!(found.cpus >= 1 && found.build == "0.1.0+abc");
    }
}
