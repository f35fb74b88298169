//! The SIP servers and the DNS servers of SIP flows.

use std::net::IpAddr;

use netrig_agent::NamesOrder;
use netrig_core::{Dscp, Instant};
use netrig_experiment::{Carrier, Flow, Scenario, Unsupported};
use netrig_sip::header::Transport;
use netrig_sip::settings::{LoadSettings, LocationSettings, NameService};

use crate::error::unsupported;
use crate::multipath;

/// Whether an agent runs the server of this flow. If not, a program of the node or the server of another flow serves
/// its users.
///
/// # Errors
/// If the flow has no server, two servers use the same port, or the flow has a DSCP.
pub(crate) fn has_server(
    scenario: &Scenario,
    number: u32,
    flow: &Flow,
    sip: &LoadSettings,
) -> Result<bool, Unsupported> {
    if flow.code_points() != [Dscp::BE; 2] {
        return unsupported(format!(
            "flow `{}` is SIP with a code point, which only the simulator can set",
            flow.name
        ));
    }
    let others = scenario.flows.iter().zip(0..).filter(|(_, other)| *other != number);
    let at_port = others.filter(|(other, _)| {
        let of = other.application.sip();
        other.to == flow.to && of.is_some_and(|of| of.port == sip.port && of.server.own().is_some())
    });
    let other = at_port.map(|(other, _)| &other.name).next();
    let node = &scenario.nodes[flow.to];
    match (sip.server.own(), other) {
        (Some(_), Some(other)) => unsupported(format!(
            "flows `{other}` and `{}` have servers of their own at port {} of node `{}`: one of them needs another `port`, or \
             `server = \"program\"` for the other's",
            flow.name, sip.port, node.name
        )),
        (Some(_), None) => Ok(true),
        (None, None) if node.programs.is_empty() => unsupported(format!(
            "flow `{}` has no server: node `{}` runs no program, and no other flow has a server at its port {}",
            flow.name, node.name, sip.port
        )),
        (None, _) => Ok(false),
    }
}

/// Checks that no other flow uses a server before its conformance test is over. The test registers users. It would
/// otherwise attribute effects of other flows to the server.
///
/// # Errors
/// If another flow tests the same server, registers users with it, or starts before the test ends.
pub(crate) fn check_tests(scenario: &Scenario) -> Result<(), Unsupported> {
    for (flow, number) in scenario.flows.iter().zip(0_usize..) {
        let Some(sip) = flow.application.sip().filter(|sip| sip.conform) else { continue };
        let others = scenario.flows.iter().zip(0_usize..).filter(|(_, other)| *other != number);
        for (other, _) in others {
            let of = other.application.sip().filter(|of| other.to == flow.to && of.port == sip.port);
            let Some(of) = of else { continue };
            let server =
                format!("the server at port {} of node `{}`", sip.port, scenario.nodes[flow.to].name);
            if of.conform {
                return unsupported(format!(
                    "flows `{}` and `{}` both test {server} (`conform`): one of them is enough",
                    flow.name, other.name
                ));
            }
            if of.prepares() {
                return unsupported(format!(
                    "flow `{}` registers users with {server} from the beginning of the run, while flow `{}` tests it (`conform`): leave \
                     `conform` out, or test the server in an experiment without the other flow",
                    other.name, flow.name
                ));
            }
            if other.start < flow.start {
                return unsupported(format!(
                    "flow `{}` uses {server} while flow `{}` tests it (`conform`), which is until {}: give flow `{}` no earlier `start`",
                    other.name,
                    flow.name,
                    flow.start.since(Instant::ZERO),
                    other.name
                ));
            }
        }
    }
    Ok(())
}

/// The DNS server that resolves the name of a flow's SIP server, and the index of its node. `None` if the flow does not
/// locate its server by name.
///
/// # Errors
/// If a record names a node without an address.
pub(crate) fn names(scenario: &Scenario, flow: &Flow) -> Result<Option<(usize, NamesOrder)>, Unsupported> {
    let Some((sip, location)) = located(flow) else { return Ok(None) };
    let Some((_, server)) = multipath::addresses(scenario, flow).first().copied() else { return Ok(None) };
    let transport = match (&flow.carrier, sip.secure) {
        (Carrier::Udp { .. }, _) => Transport::Udp,
        (_, true) => Transport::Tls,
        (_, false) => Transport::Tcp,
    };
    let place = |name: &str| scenario.nodes.iter().position(|node| node.name == name);
    let address_of = |name: &str| address(scenario, place(name)?);
    let records = location.table(transport, (server, sip.port).into(), address_of);
    let records = records.or_else(|error| unsupported(format!("flow `{}`: {error}", flow.name)))?;
    let (node, ip) = match &location.node {
        None => (flow.to, Some(server)),
        // The parser of the experiment file has checked that the node exists.
        Some(name) => place(name).map_or((flow.to, None), |node| (node, address(scenario, node))),
    };
    let Some(ip) = ip else {
        return unsupported(format!("the node of the DNS server of flow `{}` has no address", flow.name));
    };
    Ok(Some((node, NamesOrder { resolver: (ip, location.port).into(), records, serves: false })))
}

/// The DNS server that an agent runs for a flow, and the index of its node.
///
/// # Errors
/// If another flow has a DNS server at the same address and port, or if a program must serve there and the node has
/// none.
pub(crate) fn name_server(
    scenario: &Scenario,
    number: u32,
    flow: &Flow,
) -> Result<Option<(usize, NamesOrder)>, Unsupported> {
    let Some((node, names)) = names(scenario, flow)? else { return Ok(None) };
    let dns = located(flow).map_or(NameService::None, |(_, location)| location.dns);
    let name = &scenario.nodes[node].name;
    if dns == NameService::Program && scenario.nodes[node].programs.is_empty() {
        return unsupported(format!("flow `{}` has no DNS server: node `{name}` runs no program", flow.name));
    }
    if dns != NameService::Server {
        return Ok(None);
    }
    for (other, _) in scenario.flows.iter().zip(0..).filter(|(_, other)| *other != number) {
        let is_there = located(other).is_some_and(|(_, location)| location.dns == NameService::Server)
            && names_at(scenario, other)? == Some(names.resolver);
        if is_there {
            return unsupported(format!(
                "flows `{}` and `{}` have DNS servers of their own at port {} of node `{name}`: one of them needs another `port`",
                other.name,
                flow.name,
                names.resolver.port()
            ));
        }
    }
    Ok(Some((node, NamesOrder { serves: true, ..names })))
}

fn names_at(scenario: &Scenario, flow: &Flow) -> Result<Option<std::net::SocketAddr>, Unsupported> {
    Ok(names(scenario, flow)?.map(|(_, names)| names.resolver))
}

/// The settings of a SIP flow that locates its server by name.
fn located(flow: &Flow) -> Option<(&LoadSettings, &LocationSettings)> {
    let sip = flow.application.sip()?;
    Some((sip, sip.located_by()?))
}

/// The first address of a node.
fn address(scenario: &Scenario, node: usize) -> Option<IpAddr> {
    (0..scenario.links.len()).find_map(|link| scenario.address(node, link))
}

#[cfg(test)]
mod tests {
    use netrig_experiment::Experiment;

    use super::*;

    /// Checks a scenario with two flows. The first flow tests its server and starts at 4 s. The second flow has the
    /// keys `other` and no server of its own.
    fn beside(other: &str) -> Result<(), String> {
        let text = format!(
            "format = 1\nname = \"beside\"\nduration = \"6 s\"\n[node.a]\n[node.b]\n[link.l]\nbetween = [\"a\", \"b\"]\n\
             kind = \"direct\"\n[flow.tested]\nfrom = \"a\"\nto = \"b\"\nstart = \"4 s\"\n\
             application = {{ kind = \"sip\", scenario = \"options\", rate = 9, conform = true, server = {{ role = \"uas\" }} }}\n\
             [flow.other]\nfrom = \"a\"\nto = \"b\"\n{other}\n\
             [response.r]\nof = \"flow.tested\"\nmetric = \"attempts_begun\"\n"
        );
        let experiment =
            Experiment::parse("beside.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
        check_tests(&experiment.plan().run(0, 1).unwrap().scenario).map_err(|error| error.to_string())
    }

    #[test]
    fn a_server_that_is_tested_has_no_other_users_until_the_test_is_over() {
        let users = |start: &str, keys: &str| {
            beside(&format!(
                "start = \"{start}\"\napplication = {{ kind = \"sip\", scenario = \"options\", rate = 9, server = \"program\"{keys} }}"
            ))
        };
        users("4 s", "").unwrap();
        users("0 s", ", port = 5070").unwrap();
        let early = users("3 s", "").unwrap_err();
        assert!(
            early.contains("flow `other` uses the server at port 5060") && early.contains("until 4 s"),
            "{early}"
        );
        let registers = users("5 s", ", population = 10").unwrap_err();
        assert!(registers.contains("from the beginning of the run"), "{registers}");
        let both = users("5 s", ", conform = true").unwrap_err();
        assert!(both.contains("both test the server"), "{both}");
        // A flow without SIP does not use the server.
        beside("application = { kind = \"cbr\", interval = \"1 s\", size = \"100 B\" }").unwrap();
    }
}
