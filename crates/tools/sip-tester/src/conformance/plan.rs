//! The plan of a conformance run: the selected purposes, the server, its users, and the background load.

use netrig_sip::settings::TESTED_USERS;

use super::capability::CapabilityClaims;
use super::purpose::{TestPurpose, TestedRole};
use super::purposes::catalogue;
use super::target::{ConformanceTarget, TestUser};

/// The number of user agents of a case, each with its own user.
pub const USERS_OF_A_CASE: usize = TESTED_USERS as usize;

/// The selection of purposes of a role. An empty list selects all.
#[derive(Clone, Debug, Default)]
pub struct PurposeSelection {
    /// Ids, or prefixes of ids.
    pub ids: Vec<String>,
    /// Names of groups.
    pub groups: Vec<String>,
    /// Parts of the section, such as `RFC 3261 section 10`.
    pub sections: Vec<String>,
    /// Select only the set `basic-call`.
    pub only_basic: bool,
    /// Excluded ids, or prefixes of ids.
    pub without: Vec<String>,
}

/// Why a selection cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// No id has this prefix.
    #[error("no test purpose of this role has an id with the prefix \"{0}\"")]
    Id(String),
    /// There is no such group.
    #[error("there is no group \"{0}\"; there are: {1}")]
    Group(String, String),
    /// No section contains this text.
    #[error("no test purpose of this role has the section \"{0}\"")]
    Section(String),
    /// No purpose meets all conditions.
    #[error("no test purpose of this role meets all conditions")]
    Nothing,
}

impl PurposeSelection {
    /// The selected purposes of a role.
    ///
    /// # Errors
    /// If a part of the selection fits no purpose.
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

/// Whether a purpose belongs to a section or to a subsection: `RFC 3261 section 10` includes 10.3, but not 101.
fn is_of_section(purpose: &TestPurpose, section: &str) -> bool {
    let of_one = |own: &str| {
        own.strip_prefix(section)
            .is_some_and(|rest| rest.is_empty() || !rest.starts_with(|sign: char| sign.is_ascii_digit()))
    };
    purpose.section.split(", ").any(of_one)
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct ConformancePlan {
    /// The server.
    pub target: ConformanceTarget,
    /// Its role.
    pub role: TestedRole,
    /// The purposes.
    pub purposes: Vec<&'static TestPurpose>,
    /// Users of the server: three for each job, then those of the background load.
    pub users: Vec<TestUser>,
    /// Number of cases at the same time.
    pub jobs: usize,
    /// Seed of all identifiers.
    pub seed: u64,
    /// The capabilities that the server claims.
    pub claims: CapabilityClaims,
    /// The load during the run.
    pub background: Option<BackgroundLoad>,
}

/// The background load: registrations for a registrar, calls through a proxy to user agents of the tester, calls for a redirect
/// server, or calls to a user agent. Its users follow those of the test cases in the plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundLoad {
    /// Mean number of starts per second, with exponential gaps.
    pub rate: f64,
    /// Number of users who register or call. In the plan, the peers of callers follow all callers.
    pub users: u32,
}

impl BackgroundLoad {
    /// The number of users that the plan needs for the load, in addition to those of the test cases.
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
