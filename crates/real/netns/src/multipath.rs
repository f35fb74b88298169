//! Configures nodes for Multipath TCP, so that subflows take the paths of the experiment file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::path::Path;

use netrig_core::Dscp;
use netrig_experiment::{Carrier, Flow, Mptcp, Scenario, Unsupported};

use crate::error::{TestbedError, unsupported};
use crate::netlink::path_manager::{MptcpEndpoint, MptcpLimits, MptcpRole, PathManager};
use crate::sysctl::{self, agree};
use crate::testbed::Testbed;

/// The folder of the sysctls of Multipath TCP. A kernel without Multipath TCP does not have it.
const SETTINGS: &str = "/proc/sys/net/mptcp";
/// Maximum number of additional subflows and maximum number of addresses that a kernel allows (MPTCP_PM_ADDR_MAX of
/// Linux's net/mptcp/protocol.h).
const MOST: usize = 8;

/// Configuration of Multipath TCP in a node's kernel: its path manager and its sysctls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Multipath {
    pub(crate) endpoints: Vec<MptcpEndpoint>,
    pub(crate) limits: MptcpLimits,
    /// The sysctls with their full names, for example `net.mptcp.enabled`, and values.
    pub(crate) sysctls: Vec<(String, String)>,
}

/// The configuration of Multipath TCP for each node that needs it, by the index of the node.
///
/// # Errors
/// If the kernel has no Multipath TCP, or does not support the paths of the scenario.
pub(crate) fn multipath(scenario: &Scenario) -> Result<BTreeMap<usize, Multipath>, Unsupported> {
    multipath_by(Path::new(SETTINGS), scenario)
}

/// Like [`multipath`], for a kernel whose sysctls are in `folder`.
fn multipath_by(folder: &Path, scenario: &Scenario) -> Result<BTreeMap<usize, Multipath>, Unsupported> {
    let mut nodes: BTreeMap<usize, Multipath> = BTreeMap::new();
    for flow in &scenario.flows {
        let Carrier::Mptcp(settings) = &flow.carrier else { continue };
        let sysctls = sysctls(folder, flow, settings)?;
        for (node, mut wanted) in of_flow(scenario, flow, settings)? {
            let name = &scenario.nodes[node].name;
            match nodes.entry(node) {
                Entry::Vacant(first) => {
                    wanted.sysctls.clone_from(&sysctls);
                    first.insert(wanted);
                }
                Entry::Occupied(mut known) if known.get().has_paths_of(&wanted) => {
                    let known = &mut known.get_mut().sysctls;
                    sysctls.iter().try_for_each(|setting| agree(known, setting, name))?;
                }
                Entry::Occupied(_) => {
                    return unsupported(format!(
                        "flows of Multipath TCP at node `{name}` want different paths, and its kernel has one list of \
                         addresses for all"
                    ));
                }
            }
        }
    }
    for (place, wanted) in &mut nodes {
        let node = &scenario.nodes[*place];
        let mut of_host = node.host.sysctls.iter().filter(|(name, _)| name.starts_with("net.mptcp."));
        let own = |(name, value): (&String, &String)| (name.clone(), value.clone());
        of_host.try_for_each(|setting| agree(&mut wanted.sysctls, &own(setting), &node.name))?;
    }
    Ok(nodes)
}

impl Multipath {
    fn has_paths_of(&self, other: &Self) -> bool {
        (&self.endpoints, self.limits) == (&other.endpoints, other.limits)
    }
}

/// The addresses of the client and the server on each path.
pub(crate) fn addresses(scenario: &Scenario, flow: &Flow) -> Vec<(IpAddr, IpAddr)> {
    let ends = flow.paths.iter().filter_map(|path| {
        let near = scenario.address(flow.from, path.hops.first()?.link)?;
        Some((near, scenario.address(flow.to, path.hops.last()?.link)?))
    });
    ends.collect()
}

/// The configuration of both ends of a flow. For each additional path, there are two cases. If the path leads to the
/// server's first address, it starts at another address of the client, and the client opens a subflow from that
/// address. Otherwise it leads to another address of the server. The server announces this address, and the client
/// opens a subflow to it over the route to this address.
fn of_flow(
    scenario: &Scenario,
    flow: &Flow,
    settings: &Mptcp,
) -> Result<[(usize, Multipath); 2], Unsupported> {
    let paths = addresses(scenario, flow);
    if flow.code_points().iter().any(|point| *point != Dscp::BE)
        && paths.iter().any(|(near, _)| near.is_ipv6())
    {
        return unsupported(format!(
            "flow `{}` has a code point, but a kernel's Multipath TCP takes none over IPv6 (transport `{}`)",
            flow.name, flow.transport
        ));
    }
    let more = paths.len().saturating_sub(1);
    if more > MOST {
        return unsupported(format!(
            "flow `{}` has {} paths, but a kernel's Multipath TCP has at most {}",
            flow.name,
            paths.len(),
            MOST + 1
        ));
    }
    let [mut client, mut server] = [Multipath::default(), Multipath::default()];
    for (near, far) in paths.iter().skip(1) {
        let (end, address, role) = match *far == paths[0].1 {
            true => (&mut client, *near, MptcpRole::Subflow),
            false => (&mut server, *far, MptcpRole::Signal),
        };
        if !end.endpoints.iter().any(|endpoint| endpoint.address == address) {
            end.endpoints.push(MptcpEndpoint { address, role, backup: settings.backup });
        }
    }
    // The number is at most MOST.
    let accepted = server.endpoints.len() as u32;
    client.limits = MptcpLimits { subflows: more as u32, addresses_accepted: accepted };
    server.limits = MptcpLimits { subflows: more as u32, addresses_accepted: 0 };
    Ok([(flow.from, client), (flow.to, server)])
}

/// The sysctls of the kernels at both ends of a flow, with their full names.
///
/// # Errors
/// If this kernel lacks one of the sysctls.
fn sysctls(folder: &Path, flow: &Flow, settings: &Mptcp) -> Result<Vec<(String, String)>, Unsupported> {
    let Ok(there) = std::fs::read_dir(folder) else {
        return unsupported(format!(
            "this kernel has no Multipath TCP (it was built without CONFIG_MPTCP), and flow `{}` wants it (transport `{}`)",
            flow.name, flow.transport
        ));
    };
    let mut there: Vec<_> =
        there.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    there.sort();
    if let Some(missing) = settings.sysctls.keys().find(|name| !there.contains(name)) {
        return unsupported(format!(
            "this kernel has no setting net.mptcp.{missing} (transport `{}`); it has {}",
            flow.transport,
            there.join(", ")
        ));
    }
    let mut all = BTreeMap::from([("enabled".to_owned(), "1".to_owned())]);
    all.extend(settings.sysctls.clone());
    Ok(all.into_iter().map(|(name, value)| (format!("net.mptcp.{name}"), value)).collect())
}

/// Configures the kernels of `testbed`, and reads the configuration back.
///
/// # Errors
/// If a kernel refuses, or the configuration does not take effect.
pub(crate) fn manage(testbed: &Testbed, nodes: &BTreeMap<usize, Multipath>) -> Result<(), TestbedError> {
    for (node, wanted) in nodes {
        wanted
            .sysctls
            .iter()
            .try_for_each(|(name, value)| sysctl::set_named(testbed.node(*node)?, name, value))?;
        let configure = wanted.clone();
        let found = testbed.ask(
            *node,
            || "configure the path manager of Multipath TCP".into(),
            move || {
                let mut manager = PathManager::open()?;
                manager.set_limits(configure.limits)?;
                configure.endpoints.iter().try_for_each(|endpoint| manager.add(endpoint))?;
                let (endpoints, limits) = (manager.endpoints()?, manager.limits()?);
                Ok(Multipath { endpoints, limits, ..configure })
            },
        )?;
        if found != *wanted {
            return Err(TestbedError::NotTaken {
                setting: "the path manager of Multipath TCP".into(),
                place: testbed.namespace(*node)?.to_owned(),
                asked: format!("{wanted:?}"),
                found: format!("{found:?}"),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use netrig_experiment::Experiment;
    use netrig_test_support::ExperimentText;

    use super::*;

    /// An experiment with two hosts that have two links, and a detour to the server over another node.
    fn file() -> String {
        ExperimentText::new("two", "1 s")
            .nodes("client server other")
            .fifo("a", "client server", ("1 Mbit/s", "1 ms", 10), "")
            .fifo("b", "client server", ("1 Mbit/s", "1 ms", 10), "")
            .fifo("detour", "client other", ("1 Mbit/s", "1 ms", 10), "")
            .fifo("last", "other server", ("1 Mbit/s", "1 ms", 10), "")
            .table("transport.two", r#"kind = "mptcp", profile = "linux", paths = ["a", "b"]"#)
            .flow(
                "file",
                "client server",
                r#"transport = "two", application = { kind = "bulk", bytes = "1 KB" }"#,
            )
            .response("goodput", "flow.file", "goodput")
            .build()
    }

    fn scenario(text: &str) -> Scenario {
        let experiment = Experiment::parse("two", text).unwrap_or_else(|problems| panic!("{problems}"));
        let run = experiment.plan().run(0, 1).unwrap_or_else(|problems| panic!("{problems}"));
        Scenario::clone(&run.scenario)
    }

    /// The configuration of nodes for a kernel with Multipath TCP, even if the kernel of this machine does not have it.
    fn configure(scenario: &Scenario) -> Result<BTreeMap<usize, Multipath>, Unsupported> {
        let folder = tempfile::tempdir().unwrap();
        for name in ["enabled", "stale_loss_cnt"] {
            std::fs::write(folder.path().join(name), "1").unwrap();
        }
        multipath_by(folder.path(), scenario)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_second_end_tells_of_the_addresses_that_its_other_paths_lead_to() {
        let nodes = configure(&scenario(&file())).unwrap();
        assert_eq!(nodes[&0].endpoints, []);
        assert_eq!(nodes[&0].limits, MptcpLimits { subflows: 1, addresses_accepted: 1 });
        let signal = MptcpEndpoint { address: address("10.0.0.6"), role: MptcpRole::Signal, backup: false };
        let limits = MptcpLimits { subflows: 1, addresses_accepted: 0 };
        let sysctls = vec![("net.mptcp.enabled".to_owned(), "1".to_owned())];
        assert_eq!(nodes[&1], Multipath { endpoints: vec![signal], limits, sysctls });
        let backup = file().replace("kind = \"mptcp\"", "kind = \"mptcp\"\nbackup = true");
        assert_eq!(
            configure(&scenario(&backup)).unwrap()[&1].endpoints,
            [MptcpEndpoint { backup: true, ..signal }]
        );
    }

    #[test]
    fn the_first_end_opens_subflows_to_the_address_that_paths_share() {
        let text =
            file().replace("[\"a\", \"b\"]", "[[\"detour\", \"last\"], [\"near\", \"last\"]]").replace(
                "[link.b]\nbetween = [\"client\", \"server\"]",
                "[link.near]\nbetween = [\"client\", \"other\"]",
            );
        let nodes = configure(&scenario(&text)).unwrap();
        let subflow = MptcpEndpoint { address: address("10.0.0.5"), role: MptcpRole::Subflow, backup: false };
        assert_eq!(nodes[&0].endpoints, [subflow]);
        assert_eq!(nodes[&0].limits, MptcpLimits { subflows: 1, addresses_accepted: 0 });
        assert_eq!(nodes[&1].endpoints, []);
    }

    #[test]
    fn one_path_is_a_connection_of_one_subflow() {
        let nodes = configure(&scenario(&file().replace("[\"a\", \"b\"]", "[\"a\"]"))).unwrap();
        assert!(nodes.values().all(|node| node.has_paths_of(&Multipath::default())));
    }

    #[test]
    fn a_code_point_is_for_ipv4() {
        let marked = file().replace("from = \"client\"", "from = \"client\"\ndscp = \"af41\"");
        assert!(configure(&scenario(&marked)).is_ok());
        let why = configure(&scenario(&marked.replace("duration =", "ip = 6\nduration ="))).unwrap_err().0;
        assert!(why.contains("takes none over IPv6"), "{why}");
    }

    #[test]
    fn a_kernel_has_one_list_of_addresses() {
        let more = "[flow.other]\nfrom = \"client\"\nto = \"server\"\ntransport = \"two\"\npaths = [\"a\"]\n\
                    application = { kind = \"bulk\", bytes = \"1 KB\" }\n[response.goodput]";
        let why = configure(&scenario(&file().replace("[response.goodput]", more))).unwrap_err().0;
        assert!(why.contains("node `client` want different paths"), "{why}");
    }

    #[test]
    fn a_kernel_has_one_value_of_a_setting() {
        let more = |second: &str| {
            let file = file().replace("kind = \"mptcp\"", "kind = \"mptcp\"\nnet.mptcp.stale_loss_cnt = 2");
            let other = format!(
                "[transport.other]\nkind = \"mptcp\"\nprofile = \"linux\"\npaths = [\"a\", \"b\"]\n{second}\n\
                 [flow.other]\nfrom = \"client\"\nto = \"server\"\ntransport = \"other\"\n\
                 application = {{ kind = \"bulk\", bytes = \"1 KB\" }}\n[response.goodput]"
            );
            configure(&scenario(&file.replace("[response.goodput]", &other)))
        };
        let named = |name: &str, value: &str| (format!("net.mptcp.{name}"), value.to_owned());
        let nodes = more("").unwrap();
        assert_eq!(nodes[&0].sysctls, [named("enabled", "1"), named("stale_loss_cnt", "2")]);
        let why = more("net.mptcp.stale_loss_cnt = 3").unwrap_err().0;
        assert!(
            why.contains("node `client` and its flows want net.mptcp.stale_loss_cnt to be 2 and 3"),
            "{why}"
        );
    }

    #[test]
    fn what_the_kernel_lacks_is_named() {
        let scenario =
            scenario(&file().replace("kind = \"mptcp\"", "kind = \"mptcp\"\nnet.mptcp.nonesuch = 1"));
        let flow = &scenario.flows[0];
        let Carrier::Mptcp(settings) = &flow.carrier else { panic!("not MPTCP") };
        let folder = tempfile::tempdir().unwrap();
        let why = sysctls(&folder.path().join("mptcp"), flow, settings).unwrap_err().0;
        assert!(why.starts_with("this kernel has no Multipath TCP"), "{why}");
        std::fs::write(folder.path().join("enabled"), "1").unwrap();
        let why = sysctls(folder.path(), flow, settings).unwrap_err().0;
        assert!(why.contains("no setting net.mptcp.nonesuch (transport `two`); it has enabled"), "{why}");
        let settings =
            Mptcp { sysctls: BTreeMap::from([("enabled".into(), "0".into())]), ..settings.clone() };
        let kernel = sysctls(folder.path(), flow, &settings).unwrap();
        assert_eq!(kernel, [("net.mptcp.enabled".to_owned(), "0".to_owned())]);
    }

    /// This test needs root and a kernel with Multipath TCP. Otherwise it prints that it is skipped.
    #[test]
    fn what_a_path_manager_was_told_is_gone_with_its_namespace() {
        use std::io::Write;

        use crate::{Journals, TestbedId, Wiring, missing_requirements};

        if !missing_requirements().is_empty() || !Path::new(SETTINGS).is_dir() {
            let _ = writeln!(std::io::stderr(), "skipped: needs root and Multipath TCP");
            return;
        }
        let scenario = scenario(&file());
        let nodes = multipath(&scenario).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let ours = || PathManager::open().unwrap().endpoints().unwrap();
        let before = ours();
        // The second testbed has no configuration of the first.
        for _ in 0..2 {
            let wiring = Wiring::new(&scenario).unwrap();
            let testbed =
                Testbed::build(&Journals::at(folder.path()), &TestbedId::fresh().unwrap(), wiring).unwrap();
            manage(&testbed, &nodes).unwrap();
            assert_eq!(ours(), before, "the namespace of this process is as it was");
            assert!(manage(&testbed, &nodes).is_err(), "an address is added once");
            testbed.remove().unwrap();
        }
    }
}
