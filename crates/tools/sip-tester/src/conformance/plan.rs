//! What a run of conformance tests is to do: the selected purposes, the server, its users, and the background load.

use netrig_sip::settings::TESTED_USERS;

use super::capability::CapabilityClaims;
use super::purpose::{TestPurpose, TestedRole};
use super::purposes::catalogue;
use super::target::{ConformanceTarget, TestUser};

/// User agents of one case, each with a user of its own.
pub const USERS_OF_A_CASE: usize = TESTED_USERS as usize;

/// Which purposes of a role are asked for. Empty lists ask for all.
#[derive(Clone, Debug, Default)]
pub struct PurposeSelection {
    /// Ids, or what they begin with.
    pub ids: Vec<String>,
    /// Names of groups.
    pub groups: Vec<String>,
    /// Parts of the section, such as `RFC 3261 section 10`.
    pub sections: Vec<String>,
    /// Only those of the set `basic-call`.
    pub only_basic: bool,
    /// Ids, or what they begin with, that are left out.
    pub without: Vec<String>,
}

/// A selection that selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// An id is the beginning of none.
    #[error("no test purpose of this role has an id that begins with \"{0}\"")]
    Id(String),
    /// There is no such group.
    #[error("there is no group \"{0}\"; there are: {1}")]
    Group(String, String),
    /// No section has this in it.
    #[error("no test purpose of this role is of \"{0}\"")]
    Section(String),
    /// All that was asked for together.
    #[error("no test purpose of this role is as asked for")]
    Nothing,
}

impl PurposeSelection {
    /// The purposes of a role that it selects.
    ///
    /// # Errors
    /// A part of it fits no purpose.
    pub fn of(&self, role: TestedRole) -> Result<Vec<&'static TestPurpose>, SelectionError> {
        let all: Vec<_> = catalogue().filter(|purpose| purpose.role == role).collect();
        let begins = |purpose: &TestPurpose, id: &String| purpose.id.starts_with(&id.to_ascii_uppercase());
        for id in self.ids.iter().chain(&self.without) {
            if !all.iter().any(|purpose| begins(purpose, id)) {
                return Err(SelectionError::Id(id.clone()));
            }
        }
        for group in &self.groups {
            if !all.iter().any(|purpose| purpose.group == group) {
                let mut groups: Vec<_> = all.iter().map(|purpose| purpose.group).collect();
                groups.dedup();
                return Err(SelectionError::Group(group.clone(), groups.join(", ")));
            }
        }
        for section in &self.sections {
            if !all.iter().any(|purpose| is_of_section(purpose, section)) {
                return Err(SelectionError::Section(section.clone()));
            }
        }
        let is_asked = |purpose: &&'static TestPurpose| {
            let fits =
                |list: &[String], fits: &dyn Fn(&String) -> bool| list.is_empty() || list.iter().any(fits);
            fits(&self.ids, &|id| begins(purpose, id))
                && fits(&self.groups, &|group| purpose.group == group)
                && fits(&self.sections, &|section| is_of_section(purpose, section))
                && (!self.only_basic || purpose.is_basic)
                && !self.without.iter().any(|id| begins(purpose, id))
        };
        let chosen: Vec<_> = all.into_iter().filter(is_asked).collect();
        if chosen.is_empty() { Err(SelectionError::Nothing) } else { Ok(chosen) }
    }
}

/// Whether a purpose is of a section or of one within it: `RFC 3261 section 10` has 10.3 and not 101.
fn is_of_section(purpose: &TestPurpose, section: &str) -> bool {
    let of_one = |own: &str| {
        own.strip_prefix(section)
            .is_some_and(|rest| rest.is_empty() || !rest.starts_with(|sign: char| sign.is_ascii_digit()))
    };
    purpose.section.split(", ").any(of_one)
}

/// All that decides a run.
#[derive(Clone, Debug)]
pub struct ConformancePlan {
    /// The server.
    pub target: ConformanceTarget,
    /// Its role.
    pub role: TestedRole,
    /// The purposes.
    pub purposes: Vec<&'static TestPurpose>,
    /// Users of the server: three for each job, and behind them those of the background load.
    pub users: Vec<TestUser>,
    /// Cases at the same time.
    pub jobs: usize,
    /// Of all identifiers.
    pub seed: u64,
    /// What the server claims.
    pub claims: CapabilityClaims,
    /// The load that goes on meanwhile.
    pub background: Option<BackgroundLoad>,
}

/// The load: registrations for a registrar, calls through a proxy to user agents of the tester, calls for a redirect server, calls to a
/// user agent. Its users are those of the plan behind the users of the test cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundLoad {
    /// How many begin per second; the times between them are exponential.
    pub rate: f64,
    /// Users who register or call. Who calls has a peer, behind all who call.
    pub users: u32,
}

impl BackgroundLoad {
    /// Users that the plan needs for it behind those of the test cases.
    pub const fn users_needed(self, role: TestedRole) -> usize {
        let users = self.users as usize;
        match role {
            TestedRole::Registrar => users,
            _ => 2 * users,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_are_selected_by_id_group_and_section() {
        let of = |selection: &PurposeSelection| {
            let chosen = selection.of(TestedRole::Registrar).unwrap();
            chosen.into_iter().map(|purpose| purpose.id).collect::<Vec<_>>()
        };
        let all = of(&PurposeSelection::default());
        let ids = PurposeSelection { ids: vec!["reg-bind".into()], ..PurposeSelection::default() };
        assert!(of(&ids).len() < all.len() && of(&ids).iter().all(|id| id.starts_with("REG-BIND-")));
        let without = PurposeSelection { without: vec!["REG-BIND".into()], ..PurposeSelection::default() };
        assert_eq!(of(&ids).len() + of(&without).len(), all.len());
        let groups = PurposeSelection { groups: vec!["order".into()], ..PurposeSelection::default() };
        assert!(of(&groups).iter().all(|id| id.starts_with("REG-ORDER-")));
        let sections = PurposeSelection { sections: vec!["RFC 3581".into()], ..PurposeSelection::default() };
        assert_eq!(of(&sections), ["REG-WAY-02", "REG-WAY-03"]);
        let sections =
            PurposeSelection { sections: vec!["RFC 3261 section 1".into()], ..PurposeSelection::default() };
        let error = sections.of(TestedRole::Registrar).unwrap_err();
        assert_eq!(error, SelectionError::Section("RFC 3261 section 1".into()));
        let basic = PurposeSelection { only_basic: true, ..PurposeSelection::default() };
        assert!((10..30).contains(&of(&basic).len()));
        let unknown = PurposeSelection { groups: vec!["nonsense".into()], ..PurposeSelection::default() };
        let error = unknown.of(TestedRole::Registrar).unwrap_err().to_string();
        assert!(
            error.starts_with("there is no group \"nonsense\"; there are: bindings, removal, "),
            "{error}"
        );
    }

    #[test]
    fn each_purpose_has_an_id_of_its_own_and_names_a_section() {
        let mut ids: Vec<_> = catalogue().map(|purpose| purpose.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        for purpose in catalogue() {
            assert!(purpose.section.split(", ").all(|section| section.starts_with("RFC ")), "{}", purpose.id);
            assert!(purpose.requirement.ends_with('.'), "{}", purpose.id);
            assert!(purpose.needs.iter().all(|need| need.roles().contains(&purpose.role)), "{}", purpose.id);
        }
    }
}
