//! `netrig sip serve`.

mod arguments;
mod dns;
mod options;
mod roles;

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use netrig_core::Seeds;
use netrig_core::setting::TablePart;
use netrig_core::text::hex;
use netrig_host::tls::{self, Identity, Trust};
use netrig_sip::Host;
use netrig_sip::digest::Algorithm;
use netrig_sip::header::Transport;
use netrig_sip::partitioning::Partitioning;
use netrig_sip::server::{self, Answer, AnsweringPolicy, RoleError, ServerOrder, User};
use netrig_sip::settings::ServerSettings;
use netrig_sip::transaction::Timing;
use netrig_sip_net::ListeningPoint;
use netrig_sip_net::server::{Limits, Names, PartitionedSockets, ServeError, ServerDocument, SocketsOrder};
use netrig_sip_net::tap::MessageTaps as _;
use netrig_sip_net::users_of_server;
use netrig_sip_tester::keep::Keeper;
use sha2::{Digest as _, Sha256};

use crate::commands::sip::refusal::flagged;
use crate::commands::sip::scenario;
use crate::failure::{Failure, print_report};
use crate::input;
use crate::interruption::until_interrupted;
use netrig_sip_tester::metrics::of_server;

pub use arguments::Serve;
use arguments::{Ending, Role, Served, Server, SocketArguments};
use options::ServeOptions;

/// Maximum number of numbered users.
const MOST_USERS: u32 = 1_000_000;

/// The arguments of a server of any role.
struct TypedServer<'a> {
    listen: Vec<ListeningPoint>,
    sockets: &'a SocketArguments,
    ending: &'a Ending,
    settings: &'a ServerSettings,
    options: &'a ServeOptions,
}

impl<'a> TypedServer<'a> {
    fn new(role: &'a Role) -> Self {
        match role {
            Role::Registrar(typed) => Self::of(typed),
            Role::Proxy(typed) => Self::of(typed),
            Role::StatelessProxy(typed) => Self::of(typed),
            Role::Redirect(typed) => Self::of(typed),
            Role::Uas(typed) => Self::of(typed),
        }
    }

    fn of<P>(typed: &'a Served<P>) -> Self
    where
        P: TablePart<ServerSettings> + TablePart<ServeOptions> + Clone + Send + Sync,
    {
        let Served { server, options, sockets, ending } = typed;
        // By default the server listens over UDP and TCP, as RFC 3261 section 18 requires of every SIP element.
        let listen = ListeningPoint::or_usual(&sockets.listen, 5060);
        let (settings, options) = (&server.settings.table, &options.settings.table);
        Self { listen, sockets, ending, settings, options }
    }

    const fn name(&self) -> &'static str {
        self.settings.role.name()
    }

    /// The role. A user agent also has settings that no experiment file has.
    fn role(&self) -> server::Role {
        let first = self.listen.first().map_or(Ipv4Addr::LOCALHOST.into(), |point| point.address.ip());
        let ServeOptions { never, talk, max_call, media, .. } = *self.options;
        match self.settings.role(first) {
            server::Role::UserAgent(usual) => server::Role::UserAgent(AnsweringPolicy {
                media: media.map_or(usual.media, |media| media.0),
                answer: if never { Answer::Never } else { usual.answer },
                hold: talk,
                longest: max_call,
                ..usual
            }),
            other => other,
        }
    }

    /// Checks that a server that can be reached over a network authenticates its users, or has `--open`.
    fn check_openness(&self) -> Result<(), Failure> {
        match self.listen.iter().find(|point| point.is_open_to_network()) {
            Some(point) if !self.sockets.open && self.settings.digest.is_none() => {
                let ask = if self.settings.role.has("digest") {
                    "authenticate users with --digest, or serve any peer with --open"
                } else {
                    "this server does not authenticate users: serve any peer with --open"
                };
                Err(Failure::request(format!("{point} is reached over a network: {ask}")))
            }
            _ => Ok(()),
        }
    }

    fn order(&self, seeds: Seeds) -> Result<ServerOrder, Failure> {
        let Self { settings, options, .. } = self;
        settings.check().map_err(|error| Failure::request(flagged(&error.to_string())))?;
        let domain = |name: &String| {
            let uri = format!("sip:{name}").parse::<netrig_sip::Uri>().ok();
            let host = uri.as_ref().and_then(|uri| uri.as_sip()).map(|uri| uri.host.clone());
            let host = host.filter(|host| host.to_string() == *name);
            host.ok_or_else(|| {
                Failure::request(format!("`{name}` is no domain: expected a name, as example.com"))
            })
        };
        let password = password(options)?;
        if settings.digest.is_some() && password.is_none() && options.users.is_some() {
            return Err(Failure::request(
                "--digest asks for passwords: give that of all --users with --password-env",
            ));
        }
        Ok(ServerOrder {
            role: self.role(),
            domains: options.domain.iter().map(domain).collect::<Result<Vec<Host>, _>>()?,
            users: users(options, password.as_deref())?,
            contact: settings.contact.clone(),
            digest: settings.digest.map(Algorithm::from),
            realm: options.realm.clone(),
            most_transactions: settings.max_transactions as usize,
            most_users: options.max_users as usize,
            timing: Timing { t1: options.t1, ..Timing::default() },
            seeds,
        })
    }
}

/// Runs a server until it is stopped.
pub fn serve(Serve { server }: &Serve) -> Result<ExitCode, Failure> {
    let role = match server {
        Server::Sip(role) => role,
        Server::Scenario(typed) => return scenario::serve(typed),
        Server::Dns(typed) => return dns::serve(typed),
    };
    let typed = TypedServer::new(role);
    typed.check_openness()?;
    let seeds = Seeds::new(typed.ending.seed.map_or_else(input::random_seed, Ok)?);
    let order = typed.order(seeds.clone())?;
    let sockets = typed.sockets;
    let (identity, is_own) = identity(sockets, &typed.listen, &order.domains)?;
    let shown = identity.as_ref().filter(|_| is_own).map(|own| fingerprint(own.certificate()));
    let authorities = |file: &Option<std::path::PathBuf>| file.as_deref().map(tls::authorities).transpose();
    let partitioning = Partitioning::new(&order.role, sockets.threads, &seeds);
    let sockets = SocketsOrder {
        listen: typed.listen.clone(),
        identity,
        clients: authorities(&sockets.client_authorities).map_err(Failure::request)?,
        trust: authorities(&sockets.authorities).map_err(Failure::request)?.map(Trust::Authorities),
        names: names(sockets),
        delay: typed.settings.delay.clone().map(|delay| delay.0),
        limits: Limits {
            connections: sockets.max_connections,
            shared: true,
            per_address: sockets.slots.settings.connections_per_address,
            per_group: sockets.slots.settings.connections_per_group,
            idle: sockets.idle,
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
    eprintln!("ready: {} at {}{certificate}{at}", typed.name(), points.join(", "));
    let (name, watching) = (typed.name(), metrics.clone());
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
    // The only other reference to the metrics was that of the sockets' watcher, which has ended.
    if let Some(metrics) = metrics.and_then(Arc::into_inner) {
        metrics.show(of_server(name, &tally));
        typed.ending.metrics.write(&metrics.finish())?;
    }
    let document =
        ServerDocument { server: typed.name(), listens: &points, tally: &tally, messages: kept.as_ref() };
    print_report(typed.ending.json, &document, || document.text())?;
    Ok(ExitCode::SUCCESS)
}

fn written((transport, address): &(Transport, std::net::SocketAddr)) -> String {
    ListeningPoint { transport: *transport, address: *address }.to_string()
}

/// The TLS identity of the server, and whether the server generated it.
fn identity(
    sockets: &SocketArguments,
    listen: &[ListeningPoint],
    domains: &[Host],
) -> Result<(Option<Identity>, bool), Failure> {
    if !listen.iter().any(|point| point.transport == Transport::Tls) {
        return Ok((None, false));
    }
    if let (Some(certificate), Some(key)) = (&sockets.certificate, &sockets.private_key) {
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
    hex(&Sha256::digest(certificate))
}

fn names(sockets: &SocketArguments) -> Names {
    let mut names = Names::default();
    sockets.hosts.iter().for_each(|host| names.add(&host.name, host.address));
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

/// The password of all users, from the command line or the environment.
fn password(typed: &ServeOptions) -> Result<Option<String>, Failure> {
    if typed.password.is_some() {
        eprintln!(
            "warning: other users of this machine can read --password in the list of processes; --password-env NAME takes it from \
             the environment"
        );
        return Ok(typed.password.clone());
    }
    typed.password_env.as_deref().map(input::password).transpose()
}

/// The users; `None` if any user is accepted. Numbered users have this password.
fn users(typed: &ServeOptions, password: Option<&str>) -> Result<Option<Vec<User>>, Failure> {
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

/// The failure to open sockets or to serve them.
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
