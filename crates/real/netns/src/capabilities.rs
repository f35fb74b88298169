//! Requirements of a testbed: capabilities of the user and features of the kernel.

use std::fmt;
use std::os::fd::AsFd;

use netrig_host::proc;

use crate::error::MissingRequirement;
use crate::namespace::NetworkNamespace;
use crate::netlink::Ethtool;
use crate::netlink::route::{Rtnetlink, VethEnd};

/// Required capabilities (`capabilities(7)`): number, name, and the consequence if the capability is missing.
const NEEDED: [(u32, &str, &str); 3] = [
    (12, "CAP_NET_ADMIN", "interfaces, addresses and routes cannot be made"),
    (13, "CAP_NET_RAW", "the router cannot receive frames from interfaces"),
    (21, "CAP_SYS_ADMIN", "network namespaces cannot be made"),
];

/// The missing requirements. Checks only requirements that can be checked without changing anything: the capabilities
/// of the calling thread, and write access to `/run`.
pub fn missing_requirements() -> Vec<MissingRequirement> {
    let mut missing_requirements = missing_capabilities(&proc::text("/proc/thread-self/status"));
    if let Err(error) = rustix::fs::access("/run", rustix::fs::Access::WRITE_OK) {
        missing_requirements.push(MissingRequirement {
            what: "/run is not writable".into(),
            why: format!("namespaces and the journal cannot be stored ({error})"),
        });
    }
    missing_requirements
}

/// The value of [`MissingRequirement::what`] if offloads of a veth pair cannot be switched off.
pub const OFFLOADS: &str = "offloads";

/// The missing requirements. To check them, makes a namespace with a veth pair, switches its offloads off, and removes
/// the namespace.
pub fn try_requirements() -> Vec<MissingRequirement> {
    let missing_requirements = missing_requirements();
    if !missing_requirements.is_empty() {
        return missing_requirements;
    }
    let lack = |what: &str, error: &dyn fmt::Display| {
        vec![MissingRequirement { what: what.into(), why: error.to_string() }]
    };
    let (one, other) =
        match (NetworkNamespace::unshare("netrig-trial"), NetworkNamespace::unshare("netrig-trial")) {
            (Ok(one), Ok(other)) => (one, other),
            (Err(error), _) | (_, Err(error)) => return lack("network namespaces", &error),
        };
    let end = |name| VethEnd { name, index: 1000, mtu: 1500, mac: None };
    let file = other.as_fd().try_clone_to_owned();
    let veth = one.ask(
        || "make a veth pair".into(),
        move || Rtnetlink::open()?.make_veth(&end("a"), &end("b"), file?.as_fd(), 1),
    );
    if let Err(error) = veth {
        return lack("veth", &error);
    }
    let left = one.ask(
        || "switch offloads off".into(),
        || {
            let mut ethtool = Ethtool::open()?;
            let on = ethtool.offloads("a")?;
            ethtool.switch_off("a", &on)?;
            ethtool.offloads("a")
        },
    );
    match left {
        Err(error) => lack("ethtool's netlink", &error),
        Ok(left) if left.is_empty() => Vec::new(),
        Ok(left) => lack(OFFLOADS, &format!("{} cannot be switched off", left.join(", "))),
    }
}

fn missing_capabilities(status: &str) -> Vec<MissingRequirement> {
    let effective = proc::field(status, "CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let effective = effective.unwrap_or_default();
    let missing = NEEDED.iter().filter(|(bit, ..)| effective & 1 << bit == 0);
    let lack = |what: &str, why: &str| MissingRequirement {
        what: format!("no {what}"),
        why: format!("{why} (run it as root)"),
    };
    missing.map(|(_, what, why)| lack(what, why)).collect()
}

#[cfg(test)]
mod tests {
    use super::missing_capabilities;

    #[test]
    fn each_missing_capability_has_its_sentence() {
        let named = |status: &str| -> Vec<String> {
            missing_capabilities(status).into_iter().map(|lack| lack.what).collect()
        };
        // The three values of CapEff are those of an ordinary user, of root, and of a container without NET_RAW (bit
        // 13).
        assert_eq!(
            named("CapEff:\t0000000000000000\n"),
            ["no CAP_NET_ADMIN", "no CAP_NET_RAW", "no CAP_SYS_ADMIN"]
        );
        assert!(named("Name:\tx\nCapEff:\t000001ffffffffff\n").is_empty());
        assert_eq!(named("CapEff:\t000001ffffffdfff\n"), ["no CAP_NET_RAW"]);
        assert_eq!(named("").len(), 3);
    }
}
