//! Users of SIP and who serves them.

use netrig_core::Dscp;
use netrig_experiment::{Flow, Scenario, Unsupported};
use netrig_sip::settings::LoadSettings;

use crate::orders::unsupported;

/// Whether an agent serves the users of this flow: if not, a program of the node does, or the server of another flow.
///
/// # Errors
/// If nobody does, two servers want one port, or the flow is to have a code point.
pub(crate) fn has_server(
    scenario: &Scenario,
    number: u32,
    flow: &Flow,
    sip: &LoadSettings,
) -> Result<bool, Unsupported> {
    if flow.code_points() != [Dscp::BE; 2] {
        return unsupported(format!(
            "flow `{}` is SIP, whose messages go unmarked here; the simulator marks them",
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
            "nobody serves the users of flow `{}`: node `{}` runs no program, and no other flow has a server at its port {}",
            flow.name, node.name, sip.port
        )),
        (None, _) => Ok(false),
    }
}
