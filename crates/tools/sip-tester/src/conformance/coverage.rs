//! Coverage of the standardized test suite by the purposes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::purpose::TestedRole;
use super::report::ConformanceDocument;

/// A group of test purposes of ETSI TS 102 027-2, which ITU-T Q.3946.2 endorses. Single purposes are not mapped: both suites
/// divide the rules in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtsiGroup {
    /// Name of the group in ETSI TS 102 027-2.
    pub name: &'static str,
    /// Its subject.
    pub about: &'static str,
    /// The role of the server.
    pub role: TestedRole,
    /// The groups of netrig's purposes with the same subject.
    pub groups: &'static [&'static str],
}

/// The groups for registrars, proxies and redirect servers.
pub const ETSI_GROUPS: &[EtsiGroup] = &[
    EtsiGroup {
        name: "SIP_RG_RR",
        about: "registration",
        role: TestedRole::Registrar,
        groups: &["bindings", "removal", "expiration", "order", "contacts", "credentials"],
    },
    EtsiGroup {
        name: "SIP_MG_RR",
        about: "messages and transport",
        role: TestedRole::Registrar,
        groups: &["messages", "transport", "malformed", "torture"],
    },
    EtsiGroup {
        name: "SIP_CC_PR",
        about: "call control",
        role: TestedRole::Proxy,
        groups: &["forwarding", "responses", "transactions", "dialogs", "forking", "credentials"],
    },
    EtsiGroup {
        name: "SIP_QC_PR",
        about: "querying for capabilities",
        role: TestedRole::Proxy,
        groups: &["capabilities"],
    },
    EtsiGroup {
        name: "SIP_MG_PR",
        about: "messages and transport",
        role: TestedRole::Proxy,
        groups: &["messages", "transport", "torture"],
    },
    EtsiGroup {
        name: "SIP_CC_RD",
        about: "call control",
        role: TestedRole::Redirect,
        groups: &["redirection"],
    },
    EtsiGroup {
        name: "SIP_MG_RD",
        about: "messages and transport",
        role: TestedRole::Redirect,
        groups: &["messages", "transport", "torture"],
    },
];

/// The number of test purposes of ETSI TS 102 027-2 for a role, over all groups; `None` if it has none.
pub const fn etsi_purposes(role: TestedRole) -> Option<usize> {
    match role {
        TestedRole::Registrar => Some(48),
        TestedRole::Proxy => Some(234),
        TestedRole::Redirect => Some(35),
        TestedRole::Uas => None,
    }
}

/// The coverage of a group of the standardized test suite by a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoverageRow {
    /// Name of the group in ETSI TS 102 027-2.
    pub etsi_group: String,
    /// Its subject.
    pub about: String,
    /// Groups of netrig's purposes with the same subject.
    pub groups: Vec<String>,
    /// Purposes in these groups.
    pub purposes: usize,
    /// Purposes that were run.
    pub run: usize,
}

impl ConformanceDocument {
    /// The coverage of the standardized test suite for the role.
    pub fn coverage(&self) -> Vec<CoverageRow> {
        let of_role = ETSI_GROUPS.iter().filter(|group| group.role == self.role);
        let row = |group: &EtsiGroup| {
            let purposes = || self.purposes.iter().filter(|row| group.groups.contains(&row.group.as_str()));
            CoverageRow {
                etsi_group: group.name.to_owned(),
                about: group.about.to_owned(),
                groups: group.groups.iter().map(|name| (*name).to_owned()).collect(),
                purposes: purposes().count(),
                run: purposes().filter(|row| row.verdict.is_some()).count(),
            }
        };
        of_role.map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::conformance::catalogue;

    /// Groups without a counterpart in the standardized test suite.
    const OWN_GROUPS: [&str; 1] = ["location"];

    #[test]
    fn each_group_of_a_role_is_of_one_standardized_group() {
        for role in TestedRole::ALL.iter().copied().filter(|role| etsi_purposes(*role).is_some()) {
            let ours: BTreeSet<_> = catalogue()
                .filter(|purpose| purpose.role == role && !OWN_GROUPS.contains(&purpose.group))
                .map(|purpose| purpose.group)
                .collect();
            let theirs: Vec<_> = ETSI_GROUPS
                .iter()
                .filter(|group| group.role == role)
                .flat_map(|group| group.groups)
                .collect();
            assert_eq!(theirs.len(), ours.len(), "{role:?}: each once");
            assert_eq!(theirs.into_iter().copied().collect::<BTreeSet<_>>(), ours, "{role:?}");
        }
    }
}
