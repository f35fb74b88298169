//! `netrig doctor`.

use std::process::ExitCode;

use netrig_host::{HostFinding, facility_findings, machine_findings};

use crate::arguments::Doctor;
use crate::build::BUILD;
use crate::failure::{Failure, print_report};

/// Prints the capabilities of this machine, and conditions that would distort a measurement on it.
pub fn doctor(arguments: &Doctor) -> Result<ExitCode, Failure> {
    let mut findings = vec![HostFinding::fine("netrig", BUILD.as_str())];
    findings.extend(machine_findings());
    #[cfg(target_os = "linux")]
    findings.extend(netrig_netns::testbed_findings());
    findings.extend(facility_findings());
    #[cfg(target_os = "linux")]
    findings.extend(netrig_netns::remove_left_behind(&crate::request::journals()));
    let text = || {
        let lines = findings.iter().map(|finding| finding.text() + "\n");
        lines.collect::<String>()
            + "\nsim needs none of this: it runs in virtual time. A slow machine only makes it take longer."
    };
    print_report(arguments.json, &findings, text)?;
    Ok(ExitCode::SUCCESS)
}
