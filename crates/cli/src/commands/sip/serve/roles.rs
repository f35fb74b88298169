//! Tables of settings without those that a server of a role has not.

use std::fmt::Debug;
use std::marker::PhantomData;

use netrig_core::setting::{Setting, SettingWordError, SettingsTable};
use netrig_sip::settings::{ServerRole, ServerSettings};

/// A role as a type, which selects rows of a table.
pub trait NamedRole: Clone + Debug + Send + Sync + 'static {
    /// The role.
    const ROLE: ServerRole;
}

macro_rules! roles {
    ($($name:ident = $role:ident;)+) => {$(
        #[doc = concat!("[`ServerRole::", stringify!($role), "`].")]
        #[derive(Clone, Debug)]
        pub struct $name;

        impl NamedRole for $name {
            const ROLE: ServerRole = ServerRole::$role;
        }
    )+};
}

roles! {
    RegistrarRole = Registrar;
    ProxyRole = Proxy;
    StatelessProxyRole = StatelessProxy;
    RedirectRole = Redirect;
    UasRole = Uas;
}

/// A table of settings that depend on the role.
pub trait TableOfRole {
    /// The defaults.
    fn of(role: ServerRole) -> Self;
    /// Whether servers of this role have the setting.
    fn has(role: ServerRole, key: &str) -> bool;
}

impl TableOfRole for ServerSettings {
    fn of(role: ServerRole) -> Self {
        Self::of(role)
    }

    fn has(role: ServerRole, key: &str) -> bool {
        role.has(key)
    }
}

/// A table with the settings of one role.
#[derive(Clone, Debug)]
pub struct OfRole<T, R> {
    /// All settings. Those that the role has not have their defaults.
    pub table: T,
    role: PhantomData<R>,
}

impl<T: TableOfRole, R: NamedRole> Default for OfRole<T, R> {
    fn default() -> Self {
        Self { table: T::of(R::ROLE), role: PhantomData }
    }
}

impl<T: TableOfRole + SettingsTable, R: NamedRole> SettingsTable for OfRole<T, R> {
    fn rows() -> Vec<Setting> {
        T::rows().into_iter().filter(|row| T::has(R::ROLE, row.key)).collect()
    }

    fn set(&mut self, key: &str, words: &[&str]) -> Result<(), SettingWordError> {
        self.table.set(key, words)
    }

    fn words(&self, key: &str) -> Vec<String> {
        self.table.words(key)
    }
}
