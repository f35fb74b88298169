//! Settings of a namespace's protocols, each read back.

use std::path::Path;

use netrig_experiment::Unsupported;
use netrig_host::sysctl::set_and_read_back;

use crate::error::{ErrorContext, TestbedError, unsupported};
use crate::namespace::NetworkNamespace;

/// For `all`, for `default` (interfaces to come) and for each interface. Nothing speaks, listens or moves unless the
/// experiment makes it: packets that nobody sent would be measured.
const IPV4: [(&str, &str); 3] = [
    // Replies may come over another link than the requests went (RFC 3704 would have them dropped).
    ("rp_filter", "0"),
    ("accept_redirects", "0"),
    ("send_redirects", "0"),
];
const IPV6: [(&str, &str); 9] = [
    ("disable_ipv6", "0"),
    ("accept_ra", "0"),
    ("autoconf", "0"),
    ("accept_redirects", "0"),
    // Addresses are unique by construction and usable at once (RFC 4862 section 5.4).
    ("accept_dad", "0"),
    ("dad_transmits", "0"),
    ("router_solicitations", "0"),
    // IN6_ADDR_GEN_MODE_NONE: without a link-local address nothing is said in its name.
    ("addr_gen_mode", "1"),
    // As those of IPv4 do, addresses stay at an interface that goes down: who is bound to one stays so.
    ("keep_addr_on_down", "1"),
];

/// Writes one setting, a path below `/proc/sys/net`, and reads it back.
fn set(namespace: &NetworkNamespace, key: &str, value: &str) -> Result<(), TestbedError> {
    let (path, text) = (Path::new("/proc/sys/net").join(key), value.to_owned());
    let found = namespace.run(move || set_and_read_back(&path, &text));
    let Some(found) = found.context(namespace.name(), || format!("set net/{key} to {value}"))? else {
        return Ok(());
    };
    Err(TestbedError::NotTaken {
        setting: format!("net/{key}"),
        place: namespace.name().to_owned(),
        asked: value.to_owned(),
        found,
    })
}

/// The same by the name that sysctl(8) has for it, `net.mptcp.enabled`: one of the network's.
pub(crate) fn set_named(namespace: &NetworkNamespace, name: &str, value: &str) -> Result<(), TestbedError> {
    set(namespace, &name.strip_prefix("net.").unwrap_or(name).replace('.', "/"), value)
}

/// Sets up a node before it has interfaces.
pub(crate) fn prepare_node(namespace: &NetworkNamespace, forwards: bool) -> Result<(), TestbedError> {
    // First: changing it resets the others of IPv4.
    set(namespace, "ipv4/ip_forward", switch(forwards))?;
    for interface in ["all", "default"] {
        prepare_interface(namespace, interface, true)?;
    }
    Ok(())
}

/// Lets a node forward IPv6 or not, once its interfaces are as they shall be: one that can still speak to groups would
/// announce that it listens as a router (RFC 4291 section 2.8: the all-routers addresses).
pub(crate) fn set_ipv6_forwarding(namespace: &NetworkNamespace, forwards: bool) -> Result<(), TestbedError> {
    set(namespace, "ipv6/conf/all/forwarding", switch(forwards))
}

fn switch(on: bool) -> &'static str {
    if on { "1" } else { "0" }
}

/// Sets up one interface of a node. One that is too narrow for IPv6 the kernel has no such settings of.
pub(crate) fn prepare_interface(
    namespace: &NetworkNamespace,
    interface: &str,
    has_ipv6: bool,
) -> Result<(), TestbedError> {
    let ipv6 = if has_ipv6 { IPV6.as_slice() } else { &[] };
    for (version, settings) in [("ipv4", IPV4.as_slice()), ("ipv6", ipv6)] {
        for (key, value) in settings {
            set(namespace, &format!("{version}/conf/{interface}/{key}"), value)?;
        }
    }
    Ok(())
}

/// Sets up the router's namespace: its kernel neither answers nor forwards, for netrig does.
pub(crate) fn prepare_router(namespace: &NetworkNamespace) -> Result<(), TestbedError> {
    set(namespace, "ipv4/ip_forward", "0")?;
    set(namespace, "ipv6/conf/all/disable_ipv6", "1")?;
    set(namespace, "ipv6/conf/default/disable_ipv6", "1")
}

/// Takes a setting of a node's kernel among those of all flows that end there.
///
/// # Errors
/// If another flow wants it otherwise.
pub(crate) fn agree(
    sysctls: &mut Vec<(String, String)>,
    (name, value): &(String, String),
    node: &str,
) -> Result<(), Unsupported> {
    match sysctls.iter().find(|(other, _)| other == name) {
        Some((_, other)) if other != value => unsupported(format!(
            "node `{node}` and its flows want {name} to be {other} and {value}, and its kernel has one"
        )),
        Some(_) => Ok(()),
        None => {
            sysctls.push((name.clone(), value.clone()));
            Ok(())
        }
    }
}
