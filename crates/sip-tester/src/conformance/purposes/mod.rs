//! All purposes, a module for each role, and rules that hold for each server.

mod general;
mod malformed;
mod proxy;
mod proxy_capabilities;
mod proxy_location;
mod redirect;
mod registrar;
mod registrar_credentials;
mod torture;
mod uas;

pub(super) use self::proxy_location::asks_the_tester;
use super::TestPurpose;

/// The rules of each server, for the roles.
mod of_each {
    pub mod registrar {
        use crate::conformance::purposes::registrar::SUBJECT;
        crate::conformance::purposes::general::rules_of_each_server! { Registrar "REG", SUBJECT }
    }

    pub mod registrar_itself {
        use crate::conformance::purposes::registrar::SUBJECT;
        crate::conformance::purposes::general::rules_of_each_recipient! { Registrar "REG", SUBJECT }
    }

    pub mod proxy {
        use crate::conformance::purposes::proxy::SUBJECT;
        crate::conformance::purposes::general::rules_of_each_server! { Proxy "PRX", SUBJECT }
    }

    pub mod redirect {
        use crate::conformance::purposes::redirect::SUBJECT;
        crate::conformance::purposes::general::rules_of_each_server! { Redirect "RED", SUBJECT }
    }

    pub mod uas {
        use crate::conformance::purposes::uas::SUBJECT;
        crate::conformance::purposes::general::rules_of_each_server! { Uas "UAS", SUBJECT }
    }

    pub mod uas_itself {
        use crate::conformance::purposes::uas::SUBJECT;
        crate::conformance::purposes::general::rules_of_each_recipient! { Uas "UAS", SUBJECT }
    }
}

/// All purposes, by role and group.
pub fn catalogue() -> impl Iterator<Item = &'static TestPurpose> {
    let tables = [
        registrar::PURPOSES,
        registrar_credentials::PURPOSES,
        of_each::registrar::PURPOSES,
        of_each::registrar_itself::PURPOSES,
        torture::OF_REGISTRARS,
        proxy::PURPOSES,
        proxy_capabilities::PURPOSES,
        proxy_location::PURPOSES,
        of_each::proxy::PURPOSES,
        torture::OF_PROXIES,
        redirect::PURPOSES,
        of_each::redirect::PURPOSES,
        torture::OF_REDIRECT_SERVERS,
        uas::PURPOSES,
        of_each::uas::PURPOSES,
        of_each::uas_itself::PURPOSES,
        torture::OF_USER_AGENTS,
    ];
    tables.into_iter().flatten()
}
