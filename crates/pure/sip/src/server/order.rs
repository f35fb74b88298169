//! Which server answers, as one orders it.

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

/// What stands in a contact for the name of its user.
const USER: &str = "{user}";

/// A kind of server.
#[derive(Clone, Debug)]
pub enum Role {
    /// It takes registrations.
    Registrar,
    /// It takes registrations, and forwards to the users; it remembers its transactions, and forks.
    Proxy {
        /// It stays in the way of the calls that begin here.
        record_route: bool,
    },
    /// It forwards to users whose addresses it is told, and remembers nothing.
    StatelessProxy,
    /// It takes registrations, and says where users are.
    Redirect,
    /// It answers calls.
    UserAgent(AnsweringPolicy),
}

/// A user of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Of its address-of-record.
    pub name: String,
    /// By which it proves who it is.
    pub password: String,
    /// Where it is without having registered.
    pub contact: Option<String>,
}

/// What a server is to be.
#[derive(Clone, Debug)]
pub struct ServerOrder {
    /// Which kind.
    pub role: Role,
    /// The names that it answers for, beside the addresses at which it listens.
    pub domains: Vec<Host>,
    /// Who there is; whoever comes if it is not said.
    pub users: Option<Vec<User>>,
    /// Where each of them is without having registered, with `{user}` for its name, unless it has a contact of its own.
    pub contact: Option<String>,
    /// Users prove who they are, by passwords that are hashed so.
    pub digest: Option<Algorithm>,
    /// For whom the passwords are; the first domain or address if it is not said.
    pub realm: Option<String>,
    /// At once: each is kept for half a minute, over UDP, after its last message.
    pub most_transactions: usize,
    /// With a registration, at once.
    pub most_users: usize,
    /// T1, T2 and T4.
    pub timing: Timing,
    /// Of what is drawn.
    pub seeds: Seeds,
}

/// What a partition has of a server.
pub(crate) struct PartitionShare<'a> {
    pub partition: Partition,
    /// Whether it has the addresses of a user with this name.
    pub owns: &'a dyn Fn(&str) -> bool,
    /// Shared by all partitions.
    pub nonces: UsedNonces,
}

/// Why there is no such server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// A contact is no URI.
    #[error("`{0}` is no contact: expected a URI, as `sip:{{user}}@192.0.2.1:5060`")]
    Contact(String),
    /// Users with contacts are more than may be.
    #[error("there is room for {0} users with an address, and there are more")]
    Room(usize),
    /// Nobody has a password.
    #[error("who proves who they are has a password: users are needed where there is digest authentication")]
    NoUsers,
}

impl ServerOrder {
    /// The server, which listens there.
    ///
    /// # Errors
    /// The order is none that can be carried out.
    pub fn server(&self, listens: &[(Transport, SocketAddr)]) -> Result<Box<dyn Server>, RoleError> {
        let share = PartitionShare {
            partition: Partition::default(),
            owns: &|_| true,
            nonces: UsedNonces::default(),
        };
        self.server_of(listens, &share)
    }

    /// The server of a partition. It takes its share of the bounds.
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
                // It counts calls, and takes four transactions for each.
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
        // The users whose addresses are known may be unevenly spread over the partitions.
        let most = partition.share(self.most_users).max(placed.len());
        // A user may be called by any of the domain's names.
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
    /// Its contact, or else the one that all users have in `common`, with its name for `{user}`.
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
