//! Settings of the protocols in a network namespace. Each setting is read back.

use std::path::Path;

use netrig_experiment::Unsupported;
use netrig_host::sysctl::set_and_read_back;

use crate::error::{ErrorContext, TestbedError, unsupported};
use crate::namespace::NetworkNamespace;

/// Settings for `all`, for `default` (future interfaces) and for each interface. They prevent protocols from
/// sending packets by themselves, because the measurement would include these packets.
const IPV4: [(&str, &str); 3] = [
    // A reply may take another link than its request. Filtering by RFC 3704 would drop it.
    ("rp_filter", "0"),
    ("accept_redirects", "0"),
    ("send_redirects", "0"),
];
const IPV6: [(&str, &str); 9] = [
    ("disable_ipv6", "0"),
    ("accept_ra", "0"),
    ("autoconf", "0"),
    ("accept_redirects", "0"),
    // Addresses are unique by construction. Without duplicate address detection, they are usable immediately (RFC
    // 4862 section 5.4).
    ("accept_dad", "0"),
    ("dad_transmits", "0"),
    ("router_solicitations", "0"),
    // IN6_ADDR_GEN_MODE_NONE: the interface has no link-local address from which the kernel could send packets.
    ("addr_gen_mode", "1"),
    // An interface that goes down keeps its addresses, as in IPv4. Sockets that are bound to these addresses stay
    // bound.
    ("keep_addr_on_down", "1"),
];

/// Writes a setting and reads it back. `key` is its path below `/proc/sys/net`.
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

/// Sets a network setting by its sysctl(8) name, for example `net.mptcp.enabled`.
pub(crate) fn set_named(namespace: &NetworkNamespace, name: &str, value: &str) -> Result<(), TestbedError> {
    set(namespace, &name.strip_prefix("net.").unwrap_or(name).replace('.', "/"), value)
}

/// Configures a node before it has interfaces.
pub(crate) fn prepare_node(namespace: &NetworkNamespace, forwards: bool) -> Result<(), TestbedError> {
    // This must be the first setting, because it resets the other settings of IPv4.
    set(namespace, "ipv4/ip_forward", switch(forwards))?;
    for interface in ["all", "default"] {
        prepare_interface(namespace, interface, true)?;
    }
    Ok(())
}

/// Switches the IPv6 forwarding of a node on or off. Call this after its interfaces are configured without
/// multicast. Otherwise a forwarding node would announce its membership in the all-routers groups (RFC 4291 section
/// 2.8).
pub(crate) fn set_ipv6_forwarding(namespace: &NetworkNamespace, forwards: bool) -> Result<(), TestbedError> {
    set(namespace, "ipv6/conf/all/forwarding", switch(forwards))
}

fn switch(on: bool) -> &'static str {
    if on { "1" } else { "0" }
}

/// Configures an interface of a node. If the MTU of the interface is below the minimum of IPv6, the kernel has no
/// IPv6 settings for it.
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

/// Configures the router's namespace. Its kernel must not forward or answer packets, because netrig's router
/// forwards the frames.
pub(crate) fn prepare_router(namespace: &NetworkNamespace) -> Result<(), TestbedError> {
    set(namespace, "ipv4/ip_forward", "0")?;
    set(namespace, "ipv6/conf/all/disable_ipv6", "1")?;
    set(namespace, "ipv6/conf/default/disable_ipv6", "1")
}

/// Adds a setting to the list of settings of a node's kernel.
///
/// # Errors
/// If the list already contains the setting with another value.
pub(crate) fn agree(
    sysctls: &mut Vec<(String, String)>,
    (name, value): &(String, String),
    node: &str,
) -> Result<(), Unsupported> {
    match sysctls.iter().find(|(other, _)| other == name) {
        Some((_, other)) if other != value => unsupported(format!(
            "node `{node}` and its flows want {name} to be {other} and {value}, but its kernel has one value"
        )),
        Some(_) => Ok(()),
        None => {
            sysctls.push((name.clone(), value.clone()));
            Ok(())
        }
    }
}
