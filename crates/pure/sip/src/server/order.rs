//! The configuration of a server: its role and its parameters.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use netrig_core::Seeds;

use super::authentication::UsedNonces;
use super::{
    AnsweringMachine, AnsweringPolicy, Authenticator, Domain, DomainUsers, Partition, Proxy, Redirect,
    Registrar, Registry, Server, StatelessProxy,
};
use crate::digest::Algorithm;
use crate::header::{NameAddr, Transport};
use crate::transaction::Timing;
use crate::{Host, SipUri, Uri};

/// Placeholder for the name of the user in a contact.
const USER: &str = "{user}";

/// The role of a server.
#[derive(Clone, Debug)]
pub enum Role {
    /// Accepts registrations.
    Registrar,
    /// Accepts registrations and forwards requests to users. It keeps transactions. A request for a user with several contacts is forked.
    Proxy {
        /// Stays on the path of dialogs by `Record-Route`.
        record_route: bool,
    },
    /// Forwards requests to users with configured contacts, without state.
    StatelessProxy,
    /// Accepts registrations, and redirects requests to the contacts of users.
    Redirect,
    /// Answers calls.
    UserAgent(AnsweringPolicy),
}

/// A user of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User part of the address-of-record.
    pub name: String,
    /// Password for digest authentication.
    pub password: String,
    /// A configured contact, which needs no registration.
    pub contact: Option<String>,
}

/// The parameters of a server.
#[derive(Clone, Debug)]
pub struct ServerOrder {
    /// The role.
    pub role: Role,
    /// The domains of the server, besides the addresses at which it listens.
    pub domains: Vec<Host>,
    /// The users; `None` accepts any user.
    pub users: Option<Vec<User>>,
    /// The contact of each user without a [`User::contact`]. `{user}` stands for the user's name.
    pub contact: Option<String>,
    /// Algorithm of digest authentication; `None` does not authenticate users.
    pub digest: Option<Algorithm>,
    /// Realm of the passwords; by default the first domain or address.
    pub realm: Option<String>,
    /// Most transactions at once. Over UDP a transaction is kept for half a minute after its last message.
    pub most_transactions: usize,
    /// Most users with a binding at once.
    pub most_users: usize,
    /// T1, T2 and T4.
    pub timing: Timing,
    /// Seeds of the random streams.
    pub seeds: Seeds,
}

/// A partition's share of a server.
pub(crate) struct PartitionShare<'a> {
    pub partition: Partition,
    /// Whether the partition has the bindings of a user of this name.
    pub owns: &'a dyn Fn(&str) -> bool,
    /// Nonces in use, which all partitions share.
    pub nonces: UsedNonces,
}

/// The reason why a [`ServerOrder`] gives no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// A contact is not a SIP URI.
    #[error("`{0}` is not a contact: expected a SIP URI such as `sip:{{user}}@192.0.2.1:5060`")]
    Contact(String),
    /// There are more users with contacts than allowed.
    #[error("there are more users with a contact than the limit of {0}")]
    Room(usize),
    /// Digest authentication without users.
    #[error("digest authentication needs users with passwords")]
    NoUsers,
}

impl ServerOrder {
    /// The server, which listens at these addresses.
    ///
    /// # Errors
    /// The parameters contradict each other or exceed a limit.
    pub fn server(&self, listens: &[(Transport, SocketAddr)]) -> Result<Box<dyn Server>, RoleError> {
        let share = PartitionShare {
            partition: Partition::default(),
            owns: &|_| true,
            nonces: UsedNonces::default(),
        };
        self.server_of(listens, &share)
    }

    /// The server of a partition, with its share of the limits.
    ///
    /// # Errors
    /// As [`ServerOrder::server`].
    pub(crate) fn server_of(
        &self,
        listens: &[(Transport, SocketAddr)],
        share: &PartitionShare<'_>,
    ) -> Result<Box<dyn Server>, RoleError> {
        let partition = share.partition;
        let domain = Domain { names: self.domains.clone(), listens: listens.to_vec() };
        let timing = self.timing;
        let most = partition.share(self.most_transactions);
        let registry = |domain| self.registry(domain, share);
        Ok(match &self.role {
            Role::UserAgent(manners) => {
                let random = partition.stream(&self.seeds, "sip/serve/uas");
                // The limit of an answering machine is a number of calls. A call has four transactions.
                let calls = partition.share(self.most_transactions / 4);
                Box::new(AnsweringMachine::new(domain, manners.clone(), calls, timing, random))
            }
            Role::Registrar => Box::new(Registrar::new(registry(domain)?, most, timing)),
            Role::Redirect => Box::new(Redirect::new(registry(domain)?, most, timing)),
            Role::Proxy { record_route } => {
                let random = self.seeds.stream("sip/serve/proxy");
                let whole = Proxy::new(registry(domain)?, *record_route, most, timing, random);
                Box::new(match partition.index {
                    0 if partition.count == 1 => whole,
                    _ => whole
                        .of_partition(partition, partition.stream(&self.seeds, "sip/serve/proxy/branches")),
                })
            }
            Role::StatelessProxy => {
                // All partitions compute the same branches.
                let random = self.seeds.stream("sip/serve/stateless-proxy");
                Box::new(StatelessProxy::new(registry(domain)?, random))
            }
        })
    }

    fn registry(&self, domain: Domain, share: &PartitionShare<'_>) -> Result<Registry, RoleError> {
        let partition = share.partition;
        let addresses = domain.listens.iter().map(|(_, address)| Host::Address(address.ip()));
        let hosts: BTreeSet<String> =
            domain.names.iter().cloned().chain(addresses).map(|host| host.to_string()).collect();
        let realm = self.realm.clone().unwrap_or_else(|| {
            let own = domain.names.first().map(ToString::to_string);
            own.or_else(|| hosts.first().cloned()).unwrap_or_default()
        });
        let users = self.users.as_deref().unwrap_or_default();
        let mut placed = Vec::new();
        for user in users {
            placed.extend(user.contact_or(self.contact.as_deref())?.map(|uri| (&user.name, uri)));
        }
        if placed.len() > self.most_users {
            return Err(RoleError::Room(self.most_users));
        }
        placed.retain(|(name, _)| (share.owns)(name));
        // Users with configured contacts may be unevenly distributed over the partitions.
        let most = partition.share(self.most_users).max(placed.len());
        // A user can be addressed by each name of the domain.
        let mut registry = Registry::new(domain, most.saturating_mul(hosts.len().max(1)));
        let forwards = matches!(self.role, Role::Proxy { .. } | Role::StatelessProxy);
        if forwards && partition.count > 1 {
            registry.bindings = registry.bindings.of_partition();
        }
        for (name, uri) in placed {
            for host in &hosts {
                let own = address_of(name, host).ok_or_else(|| RoleError::Contact(name.clone()))?;
                if !registry.bindings.place(&own, NameAddr::new(uri.clone())) {
                    return Err(RoleError::Room(self.most_users));
                }
            }
        }
        if self.users.is_some() {
            let known = users.iter().map(|user| (user.name.clone(), user.password.clone()));
            registry.users = DomainUsers::Known(known.collect());
        }
        if let Some(algorithm) = self.digest {
            if users.is_empty() {
                return Err(RoleError::NoUsers);
            }
            let mut random = self.seeds.stream("sip/serve/nonces");
            // All partitions have the same key.
            let authenticator = Authenticator::new(&realm, algorithm, &mut random);
            registry.authenticator = Some(authenticator.of_partition(partition, share.nonces.clone()));
        }
        Ok(registry)
    }
}

impl User {
    /// The user's contact, or else `common`. In both, `{user}` is replaced by the user's name.
    ///
    /// # Errors
    /// [`RoleError::Contact`].
    pub fn contact_or(&self, common: Option<&str>) -> Result<Option<Uri>, RoleError> {
        let contact = self.contact.as_deref().or(common).map(|contact| contact.replace(USER, &self.name));
        let read = |contact: String| match contact.parse::<Uri>() {
            Ok(uri) if uri.as_sip().is_some() => Ok(uri),
            _ => Err(RoleError::Contact(contact)),
        };
        contact.map(read).transpose()
    }
}

/// The address-of-record of a user.
fn address_of(user: &str, host: &str) -> Option<Uri> {
    let host: Uri = format!("sip:{host}").parse().ok()?;
    let SipUri { host, .. } = host.as_sip()?.clone();
    let mut uri = SipUri::new(host);
    uri.user = Some(user.to_owned());
    Some(Uri::Sip(uri))
}
