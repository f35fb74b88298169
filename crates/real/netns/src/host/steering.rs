//! Selects the processors that do the receive processing of a node.
//!
//! By default, a kernel receives a frame on the processor that puts it into a veth pair, so the router's processor
//! would do the receive processing of a node. With Receive Packet Steering, a processor of the node does it
//! (scaling.rst).

use std::path::{Path, PathBuf};
use std::thread::Builder;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::error::{ErrorContext, TestbedError};
use crate::sys::unshare_mounts;
use crate::testbed::Testbed;

/// The folder on which the sysfs of the node's namespace is mounted.
const SYSTEM: &str = "/sys";
/// The file with the processors for the only receive queue of an interface.
const STEERING: &str = "queues/rx-0/rps_cpus";

/// Whether this kernel has Receive Packet Steering.
pub(crate) fn is_there() -> bool {
    Path::new(SYSTEM).join("class/net/lo").join(STEERING).exists()
}

/// Steers frames that arrive at a node's interfaces to these processors.
///
/// # Errors
/// If the kernel refuses, or the setting does not take effect.
pub(crate) fn receive_on(testbed: &Testbed, node: usize, cpus: &[u32]) -> Result<(), TestbedError> {
    let wiring = testbed.wiring();
    let interfaces: Vec<String> = wiring.ends_of(node).map(|(_, end)| end.interface.clone()).collect();
    let (place, asked) = (testbed.namespace(node)?.to_owned(), mask(cpus));
    let wanted = asked.clone();
    // A separate thread is used, because its mounts are visible only to this thread and end with it.
    let thread = testbed.in_node(node, move || {
        Builder::new().name("steering".into()).spawn(move || steer(&interfaces, &wanted))
    })?;
    let thread = thread.context(&place, || "start a thread".into())?;
    let found = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    match found.context(&place, || format!("steer received packets to processors {asked}"))? {
        None => Ok(()),
        Some((setting, found)) => Err(TestbedError::NotTaken { setting, place, asked, found }),
    }
}

/// Writes the mask for each interface and reads it back. Returns the first setting whose value differs from the mask,
/// and this value.
fn steer(interfaces: &[String], mask: &str) -> std::io::Result<Option<(String, String)>> {
    unshare_mounts()?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("sysfs", SYSTEM, "sysfs", MountFlags::empty(), None)?;
    for interface in interfaces {
        let path: PathBuf = [SYSTEM, "class/net", interface, STEERING].iter().collect();
        std::fs::write(&path, mask)?;
        let found = std::fs::read_to_string(&path)?;
        if bare(&found) != bare(mask) {
            return Ok(Some((format!("{STEERING} of {interface}"), found.trim().to_owned())));
        }
    }
    Ok(None)
}

/// The mask of a set of processors in the kernel's format: hexadecimal digits in groups of eight, separated by commas,
/// with the highest group first.
fn mask(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(0, |most| most / 32) + 1;
    let group =
        |n: u32| cpus.iter().filter(|cpu| **cpu / 32 == n).fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32));
    let groups: Vec<_> = (0..groups).rev().map(|n| format!("{:08x}", group(n))).collect();
    groups.join(",")
}

/// A mask without commas and leading zeros, for comparison.
fn bare(mask: &str) -> String {
    let digits: String = mask.trim().chars().filter(|c| *c != ',').collect();
    digits.trim_start_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_written_in_groups_of_32() {
        assert_eq!(mask(&[0]), "00000001");
        assert_eq!(mask(&[1, 3]), "0000000a");
        assert_eq!(mask(&[0, 33]), "00000002,00000001");
        assert_eq!(bare("2\n"), bare(&mask(&[1])));
        assert_eq!(bare("2,00000001"), bare(&mask(&[33, 0])));
        assert_ne!(bare("3"), bare(&mask(&[1])));
    }
}
