//! `netrig doctor`.

use std::process::ExitCode;

use netrig_host::{HostFinding, facility_findings, machine_findings};

use crate::arguments::Doctor;
use crate::build::BUILD;
use crate::failure::{Failure, print};

/// Says what this machine can do, and what would spoil a measurement on it.
pub fn doctor(arguments: &Doctor) -> Result<ExitCode, Failure> {
    let mut findings = vec![HostFinding::fine("netrig", BUILD.as_str())];
    findings.extend(machine_findings());
    #[cfg(target_os = "linux")]
    findings.extend(netrig_netns::testbed_findings());
    findings.extend(facility_findings());
    #[cfg(target_os = "linux")]
    findings.extend(netrig_netns::remove_left_behind(&crate::request::journals()));
    if arguments.json {
        print(serde_json::to_string_pretty(&findings).map_err(Failure::failed)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    findings.iter().try_for_each(|finding| print(finding.text()))?;
    print(
        "\nsim needs none of this: it runs in virtual time. What only takes longer on a slow machine is no fault.",
    )?;
    Ok(ExitCode::SUCCESS)
}
