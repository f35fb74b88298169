//! The settings of a server that apply to its role.

use netrig_core::setting::TablePart;
use netrig_sip::settings::{ServerRole, ServerSettings};

use super::options::ServeOptions;

macro_rules! roles {
    ($($name:ident = $role:ident;)+) => {$(
        #[doc = concat!("The settings of a [`ServerRole::", stringify!($role), "`].")]
        #[derive(Clone, Debug)]
        pub struct $name;

        impl TablePart<ServerSettings> for $name {
            fn has(key: &str) -> bool {
                ServerRole::$role.has(key)
            }

            fn usual() -> ServerSettings {
                ServerSettings::of(ServerRole::$role)
            }
        }

        impl TablePart<ServeOptions> for $name {
            fn has(key: &str) -> bool {
                ServeOptions::are_of(ServerRole::$role, key)
            }

            fn usual() -> ServeOptions {
                ServeOptions::default()
            }
        }
    )+};
}

roles! {
    RegistrarPart = Registrar;
    ProxyPart = Proxy;
    StatelessProxyPart = StatelessProxy;
    RedirectPart = Redirect;
    UasPart = Uas;
}
