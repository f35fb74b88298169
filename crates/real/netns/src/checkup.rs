//! Checks whether testbeds can be built on this machine, and removes the remains of killed runs.

use std::path::Path;

use netrig_host::HostFinding;

use crate::capabilities::{OFFLOADS, missing_requirements, try_requirements};
use crate::journal::Journals;
use crate::removal::{LeftBehind, left_behind};

/// Checks the requirements of testbeds on this machine.
pub fn testbed_findings() -> [HostFinding; 2] {
    let lacks = try_requirements();
    let Some(lack) = lacks.first() else {
        return [
            HostFinding::fine("namespaces", "yes: netns can run here"),
            HostFinding::fine("offloads", "can be switched off; netns needs unmerged frames, as on a wire"),
        ];
    };
    let offloads = if lack.what == OFFLOADS {
        HostFinding::lacking(
            "offloads",
            format!("{}; netns needs unmerged frames, as on a wire", lack.why),
            "another kernel: apt-get install linux-image-amd64",
        )
    } else {
        HostFinding::fine("offloads", "not known without namespaces")
    };
    [
        HostFinding::lacking("namespaces", format!("no: {lack}"), "run as root; sim needs no namespaces"),
        offloads,
    ]
}

/// Removes the remains of killed runs from the kernel.
pub fn remove_left_behind(journals: &Journals) -> Vec<HostFinding> {
    // A user who may not build testbeds has no remains, and may not remove those of another user.
    if !missing_requirements().is_empty() {
        return Vec::new();
    }
    match left_behind(journals) {
        Ok(left) => left.into_iter().map(|left| remove(left, journals.folder())).collect(),
        Err(error) => vec![HostFinding::lacking(
            "left behind",
            format!("the journals cannot be read: {error}"),
            format!("make sure that root can read {}", journals.folder().display()),
        )],
    }
}

/// Removes the remains of one testbed.
fn remove(left: LeftBehind, journals: &Path) -> HostFinding {
    let of = left.owner().map_or_else(String::new, |pid| format!(" of process {pid}, which is gone"));
    let id = left.id().to_owned();
    let testbed = format!("testbed {id}{of}");
    let named = left.namespaces().and_then(|namespaces| Ok((namespaces, left.interfaces()?.len())));
    let processes = left.processes().len();
    let names = named.as_ref().map_or_else(|_| Vec::new(), |(namespaces, _)| namespaces.clone());
    match named.and_then(|named| left.remove().map(|()| named)) {
        Ok((namespaces, interfaces)) => HostFinding::fine(
            "left behind",
            format!(
                "{testbed}: {} namespaces ({}), {interfaces} interfaces, {processes} processes: removed",
                namespaces.len(),
                namespaces.join(", "),
            ),
        ),
        Err(error) => HostFinding::lacking(
            "left behind",
            format!("{testbed}: not removed: {error}"),
            by_hand(journals, &id, &names),
        ),
    }
}

/// The commands with which a user can remove the namespaces and the journal manually.
fn by_hand(journals: &Path, id: &str, namespaces: &[String]) -> String {
    let deletes: String = namespaces.iter().map(|name| format!("ip netns delete {name}; ")).collect();
    format!("{deletes}rm {}/{id}.journal", journals.display())
}

#[cfg(test)]
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
