//! Which processors receive packets for a node.
//!
//! A frame that somebody puts into a veth pair is received where that somebody runs: without more the router's processor
//! would do what a terminal's does. So the kernel is told to hand it on before anything is done with it (scaling.rst, Receive
//! Packet Steering).

use std::path::{Path, PathBuf};
use std::thread::Builder;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::error::{ErrorContext, TestbedError};
use crate::sys::unshare_mounts;
use crate::testbed::Testbed;

/// Where a kernel has its interfaces, once that of the namespace is mounted there.
const SYSTEM: &str = "/sys";
/// The processors of the only queue of an interface's received packets.
const STEERING: &str = "queues/rx-0/rps_cpus";

/// Whether this kernel can do it.
pub(crate) fn is_there() -> bool {
    Path::new(SYSTEM).join("class/net/lo").join(STEERING).exists()
}

/// Has what comes to the interfaces of a node be received on these processors.
///
/// # Errors
/// If the kernel refuses it, or has other processors then.
pub(crate) fn receive_on(testbed: &Testbed, node: usize, cpus: &[u32]) -> Result<(), TestbedError> {
    let wiring = testbed.wiring();
    let interfaces: Vec<String> = wiring.ends_of(node).map(|(_, end)| end.interface.clone()).collect();
    let (place, asked) = (testbed.namespace(node)?.to_owned(), mask(cpus));
    let wanted = asked.clone();
    // A thread of its own: what it mounts nobody else sees, and is gone with it.
    let thread = testbed.in_node(node, move || {
        Builder::new().name("steering".into()).spawn(move || steer(&interfaces, &wanted))
    })?;
    let thread = thread.context(&place, || "start a thread".into())?;
    let found = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    match found.context(&place, || format!("have packets received on processors {asked}"))? {
        None => Ok(()),
        Some((setting, found)) => Err(TestbedError::NotTaken { setting, place, asked, found }),
    }
}

/// Tells the kernel; the first interface that has other processors then, with these.
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

/// Processors as the kernel writes a set of them: hexadecimal digits, in groups of eight with commas, the highest first.
fn mask(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(0, |most| most / 32) + 1;
    let group =
        |n: u32| cpus.iter().filter(|cpu| **cpu / 32 == n).fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32));
    let groups: Vec<_> = (0..groups).rev().map(|n| format!("{:08x}", group(n))).collect();
    groups.join(",")
}

/// Such a text without what it may have or not.
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
