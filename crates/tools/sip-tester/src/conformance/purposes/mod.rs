//! All purposes: a module for each role, and rules for each server.

mod general;
mod malformed;
mod of_each;
mod proxy;
mod proxy_capabilities;
mod proxy_credentials;
mod proxy_dialogs;
mod proxy_forking;
mod proxy_location;
mod proxy_transactions;
mod redirect;
mod registrar;
mod registrar_credentials;
mod torture;
mod uas;
mod uas_changes;
mod uas_descriptions;
mod uas_extensions;

pub(super) use self::general::tried;
pub(super) use self::proxy::invited;
pub(super) use self::proxy_location::asks_the_tester;
pub(super) use self::redirect::redirected;
use super::TestPurpose;

/// All purposes, by role and group.
pub fn catalogue() -> impl Iterator<Item = &'static TestPurpose> {
    let tables = [
        registrar::PURPOSES,
        registrar_credentials::PURPOSES,
        of_each::registrar::PURPOSES,
        of_each::registrar_itself::PURPOSES,
        torture::OF_REGISTRARS,
        proxy::PURPOSES,
        proxy_transactions::PURPOSES,
        proxy_dialogs::PURPOSES,
        proxy_forking::PURPOSES,
        proxy_credentials::PURPOSES,
        proxy_capabilities::PURPOSES,
        proxy_location::PURPOSES,
        of_each::proxy::PURPOSES,
        torture::OF_PROXIES,
        redirect::PURPOSES,
        of_each::redirect::PURPOSES,
        torture::OF_REDIRECT_SERVERS,
        uas::PURPOSES,
        uas_descriptions::PURPOSES,
        uas_changes::PURPOSES,
        uas_extensions::PURPOSES,
        of_each::uas::PURPOSES,
        of_each::uas_itself::PURPOSES,
        torture::OF_USER_AGENTS,
    ];
    tables.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{PurposeCarrier, RequirementLevel};

    fn purpose(id: &str) -> &'static TestPurpose {
        catalogue().find(|purpose| purpose.id == id).unwrap_or_else(|| panic!("there is no {id}"))
    }

    #[test]
    fn what_rfcs_only_recommend_is_no_failure() {
        let recommended = [
            ("UAS-CALL-09", "RFC 3261 section 15.1.2"),
            ("UAS-CALL-10", "RFC 3261 section 15.1.2"),
            ("UAS-CALL-18", "RFC 3261 section 12.2.2"),
            ("UAS-CANCEL-02", "RFC 3261 section 9.2"),
            ("UAS-CANCEL-03", "RFC 3261 section 9.2"),
            ("UAS-CANCEL-04", "RFC 3261 section 9.2"),
            ("UAS-SDP-09", "RFC 3261 section 13.3.1.3"),
            ("UAS-WAY-11", "RFC 3261 section 18.3"),
            ("PRX-FORK-05", "RFC 3261 section 16.7"),
            ("RED-RED-12", "RFC 3261 section 8.3"),
            ("REG-AUTH-09", "RFC 3261 section 10.3"),
        ];
        for (id, section) in recommended {
            assert_eq!((purpose(id).level, purpose(id).section), (RequirementLevel::Should, section), "{id}");
        }
        let required = [
            ("UAS-CALL-11", "RFC 3261 section 12.2.2"),
            ("UAS-RING-03", "RFC 3261 section 8.2.6.2"),
            ("UAS-SDP-07", "RFC 3264 section 6"),
            ("PRX-TRANS-01", "RFC 3261 section 17.2.1"),
            ("PRX-RSP-08", "RFC 3261 section 16.7"),
            ("RED-RED-06", "RFC 3261 section 21.3.4"),
        ];
        for (id, section) in required {
            assert_eq!((purpose(id).level, purpose(id).section), (RequirementLevel::Must, section), "{id}");
        }
    }

    #[test]
    fn one_fault_of_a_request_has_one_level() {
        let twins = [
            ("BAD-01", "INSUF"),
            ("BAD-03", "INSUF"),
            ("BAD-04", "INSUF"),
            ("BAD-05", "MISMATCH01"),
            ("BAD-06", "SCALAR02"),
            ("BAD-07", "QUOTBAL"),
            ("BAD-08", "BADVERS"),
            ("WAY-11", "CLERR"),
        ];
        for role in ["UAS", "REG"] {
            for (id, message) in twins {
                let (own, torture) = (format!("{role}-{id}"), format!("{role}-TORTURE-{message}"));
                assert_eq!(purpose(&own).level, purpose(&torture).level, "{own}, {torture}");
            }
        }
        assert_eq!(purpose("UAS-CALL-15").level, purpose("UAS-TORTURE-INVUT").level);
        assert_eq!(purpose("UAS-BAD-10").level, purpose("UAS-TORTURE-BEXT01").level);
        assert_eq!(purpose("PRX-FWD-13").level, purpose("PRX-TORTURE-BEXT01").level);
        for other in ["REG-TORTURE-BEXT01", "RED-TORTURE-BEXT01"] {
            assert_eq!(purpose(other).level, RequirementLevel::Should, "{other}");
        }
    }

    /// RFC 3261 section 7.5 is about streams.
    #[test]
    fn empty_lines_before_a_request_are_of_connections() {
        for role in ["REG", "PRX", "RED", "UAS"] {
            assert_eq!(purpose(&format!("{role}-MSG-11")).carrier, PurposeCarrier::Connections);
        }
    }
}
