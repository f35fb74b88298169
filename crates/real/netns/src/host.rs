//! Nodes as hosts: applies the limits and settings of an experiment to the kernel and reads them back.

pub(crate) mod group;
mod load;
mod steering;

use std::path::Path;

use netrig_experiment::{Fragmentation, Host, Node, Scenario, Unsupported};

pub(crate) use group::{ControlGroup, ControlGroupReader, NodeLimits};
pub(crate) use load::NodeLoads;

use crate::error::{TestbedError, unsupported};
use crate::processors::available;
use crate::sysctl;
use crate::testbed::Testbed;

/// Setting that gives new sockets IP_PMTUDISC_DONT: they send without DF and ignore path MTU discovery (ip-sysctl).
const NO_PMTU_DISCOVERY: (&str, &str) = ("net.ipv4.ip_no_pmtu_disc", "1");

/// Checks that this machine supports the limits and settings of all hosts of a scenario.
///
/// # Errors
/// If it does not support one of them.
pub(crate) fn check(scenario: &Scenario) -> Result<(), Unsupported> {
    for node in &scenario.nodes {
        let limits = NodeLimits::of(node);
        group::check(&limits).or_else(|why| unsupported(format!("node `{}`: {why}", node.name)))?;
        for name in node.host.sysctls.keys() {
            if !Path::new("/proc/sys").join(name.replace('.', "/")).exists() {
                return unsupported(format!("this kernel has no setting {name} (node `{}`)", node.name));
            }
        }
        if node.host.load.is_some() || node.host.quota.is_some() {
            check_others(node)?;
        }
    }
    Ok(())
}

/// Checks that a processor is left for the router and the other nodes.
fn check_others(node: &Node) -> Result<(), Unsupported> {
    if !steering::is_there() {
        return unsupported(format!(
            "this kernel cannot steer received packets to the processors of node `{}` (it was built without CONFIG_RPS)",
            node.name
        ));
    }
    let there = available().unwrap_or_default();
    if there.iter().all(|cpu| node.cpus.contains(cpu)) {
        return unsupported(format!(
            "node `{}` has all processors that netrig may run on, and its `load` or `quota` leaves none for the router and the \
             other nodes",
            node.name
        ));
    }
    Ok(())
}

/// The settings of a node's kernel, as pairs of sysctl name and value.
pub(crate) fn sysctls(host: &Host) -> impl Iterator<Item = (&str, &str)> {
    let uncut = (host.fragmentation == Fragmentation::Allowed).then_some(NO_PMTU_DISCOVERY);
    host.sysctls.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(uncut)
}

/// Configures the nodes of `testbed` as the hosts of `scenario`. Call this before any program starts. The loads of
/// hosts are started separately.
///
/// # Errors
/// If the kernel refuses, or a setting does not take effect.
pub(crate) fn prepare(testbed: &mut Testbed, scenario: &Scenario) -> Result<(), TestbedError> {
    for (place, node) in scenario.nodes.iter().enumerate() {
        for (name, value) in sysctls(&node.host) {
            sysctl::set_named(testbed.node(place)?, name, value)?;
        }
        let limits = NodeLimits::of(node);
        if !limits.is_none() {
            testbed.limit(place, &limits)?;
        }
        if node.host.load.is_some() || node.host.quota.is_some() {
            steering::receive_on(testbed, place, &node.cpus)?;
        }
    }
    Ok(())
}
