//! `netrig sip serve`.

mod arguments;
mod dns;

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;

use netrig_core::Seeds;
use netrig_host::tls::{self, Identity, Trust};
use netrig_sip::digest::Algorithm;
use netrig_sip::header::Transport;
use netrig_sip::partitioning::Partitioning;
use netrig_sip::sdp::DISCARD;
use netrig_sip::server::{self, Answer, AnsweringPolicy, ProgressResponse, RoleError, ServerOrder, User};
use netrig_sip::transaction::Timing;
use netrig_sip::{Host, Status};
use netrig_sip_net::ListeningPoint;
use netrig_sip_net::server::{Limits, Names, PartitionedSockets, ServeError, ServerDocument, SocketsOrder};
use netrig_sip_net::tap::MessageTaps as _;
use netrig_sip_net::users_of_server;
use netrig_sip_tester::keep::Keeper;
use sha2::{Digest as _, Sha256};

use crate::commands::sip::scenario;
use crate::failure::{Failure, print_report};
use crate::input;
use crate::interruption::until_interrupted;
use netrig_sip_tester::metrics::of_server;

pub use arguments::Serve;
use arguments::{
    Contact, Delay, Digest, Ending, Place, Proxy, Redirect, Registrar, Role, Server, StatelessProxy,
    Transactions, Uas, Users,
};

/// The most numbered users.
const MOST_USERS: u32 = 1_000_000;

/// What was typed, whichever server it is for.
struct Typed<'a> {
    /// As the server is called.
    name: &'static str,
    role: server::Role,
    listen: Vec<ListeningPoint>,
    place: &'a Place,
    ending: &'a Ending,
    users: Option<&'a Users>,
    digest: Option<&'a Digest>,
    contact: Option<&'a Contact>,
    delay: Option<&'a Delay>,
    transactions: Option<&'a Transactions>,
}

impl<'a> Typed<'a> {
    fn new(typed: &'a Role) -> Self {
        let (place, ending, users, digest, contact, delay, transactions) = match typed {
            Role::Registrar(Registrar { place, ending, users, digest, delay, transactions }) => {
                (place, ending, Some(users), Some(digest), None, Some(delay), Some(transactions))
            }
            Role::Proxy(Proxy { place, ending, users, digest, contact, transactions, .. }) => {
                (place, ending, Some(users), Some(digest), Some(contact), None, Some(transactions))
            }
            Role::StatelessProxy(StatelessProxy { place, ending, users, contact }) => {
                (place, ending, Some(users), None, Some(contact), None, None)
            }
            Role::Redirect(Redirect { place, ending, users, digest, contact, delay, transactions }) => {
                (place, ending, Some(users), Some(digest), Some(contact), Some(delay), Some(transactions))
            }
            Role::Uas(Uas { place, ending, delay, transactions, .. }) => {
                (place, ending, None, None, None, Some(delay), Some(transactions))
            }
        };
        // Over UDP and TCP, as every element of SIP does (RFC 3261 section 18).
        let listen = ListeningPoint::or_usual(&place.listen, 5060);
        let (name, role) = match typed {
            Role::Registrar(_) => ("registrar", server::Role::Registrar),
            Role::Proxy(typed) => ("proxy", server::Role::Proxy { record_route: typed.record_route }),
            Role::StatelessProxy(_) => ("stateless-proxy", server::Role::StatelessProxy),
            Role::Redirect(_) => ("redirect", server::Role::Redirect),
            Role::Uas(typed) => ("uas", server::Role::UserAgent(manners(typed, &listen))),
        };
        Self { name, role, listen, place, ending, users, digest, contact, delay, transactions }
    }

    fn algorithm(&self) -> Option<Algorithm> {
        self.digest?.digest
    }

    /// A server that is reached over a network knows whom it serves, or is told to serve anybody.
    fn check_openness(&self) -> Result<(), Failure> {
        match self.listen.iter().find(|point| point.is_open_to_network()) {
            Some(point) if !self.place.open && self.algorithm().is_none() => {
                let ask = if self.digest.is_some() {
                    "ask users who they are with --digest, or serve anybody with --open"
                } else {
                    "this server asks nobody who they are: serve anybody with --open"
                };
                Err(Failure::request(format!("{point} is reached over a network: {ask}")))
            }
            _ => Ok(()),
        }
    }

    fn order(&self, seeds: Seeds) -> Result<ServerOrder, Failure> {
        let domains = self.users.map_or(&[][..], |users| &users.domain);
        let domain = |name: &String| {
            let uri = format!("sip:{name}").parse::<netrig_sip::Uri>().ok();
            let host = uri.as_ref().and_then(|uri| uri.as_sip()).map(|uri| uri.host.clone());
            let host = host.filter(|host| host.to_string() == *name);
            host.ok_or_else(|| {
                Failure::request(format!("`{name}` is no domain: expected a name, as example.com"))
            })
        };
        let digest = self.algorithm();
        let password = self.digest.map(password).transpose()?.flatten();
        let password = password.as_deref();
        if digest.is_some() && password.is_none() && self.users.is_some_and(|users| users.users.is_some()) {
            return Err(Failure::request(
                "--digest asks for passwords: give that of all --users with --password-env",
            ));
        }
        let transactions = self.transactions;
        Ok(ServerOrder {
            role: self.role.clone(),
            domains: domains.iter().map(domain).collect::<Result<Vec<Host>, _>>()?,
            users: self.users.map(|typed| users(typed, password)).transpose()?.flatten(),
            contact: self.contact.and_then(|contact| contact.contact.clone()),
            digest,
            realm: self.digest.and_then(|digest| digest.realm.clone()),
            most_transactions: transactions.map_or(0, |typed| typed.max_transactions),
            most_users: self.users.map_or(0, |users| users.max_users),
            timing: Timing {
                t1: transactions.map_or(Timing::default().t1, |typed| typed.t1),
                ..Timing::default()
            },
            seeds,
        })
    }
}

/// Is a server until it is told to end.
pub fn serve(Serve { server }: &Serve) -> Result<ExitCode, Failure> {
    let role = match server {
        Server::Sip(role) => role,
        Server::Scenario(typed) => return scenario::serve(typed),
        Server::Dns(typed) => return dns::serve(typed),
    };
    let typed = Typed::new(role);
    typed.check_openness()?;
    let seeds = Seeds::new(typed.ending.seed.map_or_else(input::random_seed, Ok)?);
    let order = typed.order(seeds.clone())?;
    let place = typed.place;
    let (identity, is_own) = identity(place, &typed.listen, &order.domains)?;
    let shown = identity.as_ref().filter(|_| is_own).map(|own| fingerprint(own.certificate()));
    let authorities = |file: &Option<std::path::PathBuf>| file.as_deref().map(tls::authorities).transpose();
    let partitioning = Partitioning::new(&order.role, place.threads, &seeds);
    let sockets = SocketsOrder {
        listen: typed.listen,
        identity,
        clients: authorities(&place.client_authorities).map_err(Failure::request)?,
        trust: authorities(&place.authorities).map_err(Failure::request)?.map(Trust::Authorities),
        names: names(place),
        delay: typed.delay.and_then(|typed| typed.delay.clone()),
        limits: Limits {
            connections: place.max_connections,
            shared: true,
            per_address: place.slots.connections_per_address.map(NonZeroUsize::get),
            per_group: place.slots.connections_per_group.map(NonZeroUsize::get),
            idle: place.idle,
            ..Limits::default()
        },
        seeds,
    };
    let sockets = PartitionedSockets::open(sockets, &partitioning).map_err(failure)?;
    if let Some(shortage) = sockets.shortage() {
        eprintln!("warning: {shortage}");
    }
    let servers = partitioning.servers(&order, sockets.listens()).map_err(of_order)?;
    let points: Vec<String> = sockets.listens().iter().map(written).collect();
    let cancel = until_interrupted()?;
    let certificate =
        shown.map(|sha| format!("; a certificate of its own, SHA-256 {sha}")).unwrap_or_default();
    let mut at = String::new();
    let metrics = typed.ending.metrics.open(|place| at = format!("; {place}"))?.map(Arc::new);
    eprintln!("ready: {} at {}{certificate}{at}", typed.name, points.join(", "));
    let (name, watching) = (typed.name, metrics.clone());
    let sockets = match watching {
        Some(metrics) => sockets.watched(move |tally| metrics.show(of_server(name, tally))),
        None => sockets,
    };
    let keeper = typed.ending.keeping.begin_at_server()?;
    let sockets = match &keeper {
        Some(keeper) => sockets.tapped(|| keeper.tap()),
        None => sockets,
    };
    let tally = sockets.serve(servers, typed.ending.lasts, &cancel).map_err(failure)?;
    let kept = keeper.map(Keeper::finish);
    // The sockets are gone, and with them who watched them.
    if let Some(metrics) = metrics.and_then(Arc::into_inner) {
        metrics.show(of_server(name, &tally));
        typed.ending.metrics.write(&metrics.finish())?;
    }
    let document =
        ServerDocument { server: typed.name, listens: &points, tally: &tally, messages: kept.as_ref() };
    print_report(typed.ending.json, &document, || document.text())?;
    Ok(ExitCode::SUCCESS)
}

fn written((transport, address): &(Transport, std::net::SocketAddr)) -> String {
    ListeningPoint { transport: *transport, address: *address }.to_string()
}

/// How calls are answered.
fn manners(typed: &Uas, listen: &[ListeningPoint]) -> AnsweringPolicy {
    let first = listen.first().map(|point| (point.address.ip(), DISCARD).into());
    let media = typed.media.or(first).unwrap_or_else(|| ([127, 0, 0, 1], DISCARD).into());
    let own = AnsweringPolicy::new(media);
    let mut manners =
        AnsweringPolicy { hold: typed.talk, longest: typed.max_call, reliable: typed.reliable, ..own };
    if typed.early_media {
        manners.progress.push(ProgressResponse::early_media());
    }
    manners.answer = match typed.refuse.and_then(Status::new) {
        Some(status) => Answer::Refuse(typed.ring, status),
        None if typed.never => Answer::Never,
        None => Answer::Accept(typed.ring),
    };
    manners
}

/// As whom it speaks TLS, and whether it has made that up itself.
fn identity(
    place: &Place,
    listen: &[ListeningPoint],
    domains: &[Host],
) -> Result<(Option<Identity>, bool), Failure> {
    if !listen.iter().any(|point| point.transport == Transport::Tls) {
        return Ok((None, false));
    }
    if let (Some(certificate), Some(key)) = (&place.certificate, &place.private_key) {
        let read = Identity::read(certificate, key).map_err(Failure::request)?;
        return Ok((Some(read), false));
    }
    let addresses = listen.iter().map(|point| point.address.ip().to_string());
    let mut names: Vec<String> = domains.iter().map(ToString::to_string).chain(addresses).collect();
    names.push("localhost".to_owned());
    names.dedup();
    Identity::self_signed(names).map(|own| (Some(own), true)).map_err(Failure::request)
}

fn fingerprint(certificate: &[u8]) -> String {
    Sha256::digest(certificate).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn names(place: &Place) -> Names {
    let mut names = Names::default();
    place.hosts.iter().for_each(|host| names.add(&host.name, host.address));
    names
}

fn of_order(error: RoleError) -> Failure {
    match error {
        RoleError::NoUsers => {
            Failure::request("--digest asks for passwords: give --users and --password-env, or --users-file")
        }
        other => Failure::request(other),
    }
}

/// The password of all users, from the environment or as it was typed.
fn password(typed: &Digest) -> Result<Option<String>, Failure> {
    if typed.password.is_some() {
        eprintln!(
            "warning: other users of this machine can read --password in the list of processes; --password-env NAME takes it from \
             the environment"
        );
        return Ok(typed.password.clone());
    }
    typed.password_env.as_deref().map(input::password).transpose()
}

/// The users; `None` is whoever comes. Numbered users have this password.
fn users(typed: &Users, password: Option<&str>) -> Result<Option<Vec<User>>, Failure> {
    if let Some(count) = typed.users {
        if !(1..=MOST_USERS).contains(&count) {
            return Err(Failure::request(format!("--users {count}: expected 1 to {MOST_USERS}")));
        }
        let password = password.unwrap_or_default().to_owned();
        let named =
            |number| User { name: format!("user{number:06}"), password: password.clone(), contact: None };
        return Ok(Some((0..count).map(named).collect()));
    }
    typed.users_file.as_deref().map(users_of_server).transpose().map_err(Failure::request)
}

/// Sockets that cannot be had: the request's fault, or not.
fn failure(error: ServeError) -> Failure {
    match error {
        ServeError::Taken(_) | ServeError::Kernel { .. } => Failure::failed(error),
        ServeError::NotOurs(_)
        | ServeError::Refused { .. }
        | ServeError::Descriptors { .. }
        | ServeError::NoIdentity(_)
        | ServeError::Tls(_) => Failure::request(error),
    }
}
