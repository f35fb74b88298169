//! Makes a conformance plan from the command line.

use std::net::IpAddr;
use std::sync::Arc;

use netrig_sip::{Host, Uri};
use netrig_sip_net::{EndAddress, listed_users};
use netrig_sip_tester::conformance::{
    BackgroundLoad, CapabilityClaims, ConformancePlan, ConformanceTarget, PurposeSelection, TestPurpose,
    TestUser, TestedRole, TesterNames, USERS_OF_A_CASE,
};
use netrig_sip_tester::request::TestedServer;

use super::arguments::{Conform, SetName};
use crate::failure::Failure;
use crate::input::{password, random_seed, read};

/// The requested test purposes.
pub fn purposes(typed: &Conform) -> Result<Vec<&'static TestPurpose>, Failure> {
    let selection = PurposeSelection {
        ids: typed.selection.only.clone(),
        groups: typed.selection.group.clone(),
        sections: typed.selection.section.clone(),
        only_basic: typed.selection.set == Some(SetName::BasicCall),
        without: typed.selection.without.clone(),
    };
    let chosen = selection.of(typed.role);
    chosen.map_err(|error| Failure::request(format!("{error}; --list shows them all")))
}

/// The target, as given on the command line.
pub fn typed_target(typed: &Conform) -> Result<&str, Failure> {
    typed.target.as_deref().ok_or_else(|| Failure::request("expected a server, as in udp:192.0.2.1:5060"))
}

/// The plan of these test purposes.
pub fn plan(typed: &Conform, purposes: Vec<&'static TestPurpose>) -> Result<ConformancePlan, Failure> {
    let TestedServer { transport, address: server, tls, .. } = typed.reach.server(typed_target(typed)?)?;
    if typed.patience.is_zero() || typed.silence.is_zero() {
        return Err(Failure::request("--patience and --silence must be above zero"));
    }
    let address = EndAddress::towards(server, transport, typed.reach.local(), tls);
    let address =
        address.map_err(|error| Failure::failed(format!("there is no way to {server}: {error}")))?;
    let (domain, domain_port) = match &typed.users.domain {
        None => (Host::Address(server.ip()), Some(server.port()).filter(|port| *port != 5060)),
        Some(name) => domain(name)?,
    };
    let jobs = usize::from(typed.jobs);
    let background = typed.beside.map(|rate| BackgroundLoad { rate: rate.0, users: typed.beside_users });
    let beside = background.map_or(0, |load| load.users_needed(typed.role));
    let claims = match &typed.capabilities {
        None => CapabilityClaims::default(),
        Some(file) => CapabilityClaims::parse(&read(file)?)
            .map_err(|error| Failure::request(format!("{}: {error}", file.display())))?,
    };
    let seed = typed.seed.map_or_else(random_seed, Ok)?;
    Ok(ConformancePlan {
        target: ConformanceTarget {
            address,
            domain,
            domain_port,
            callee: typed.callee.clone(),
            patience: typed.patience,
            silence: typed.silence,
            names: names(typed, server.ip())?,
        },
        role: typed.role,
        purposes,
        users: users(typed, jobs * USERS_OF_A_CASE + beside)?,
        jobs,
        seed,
        claims,
        background,
    })
}

/// The tester's DNS server, which the test purposes of RFC 3263 need; `None` without `--dns-listen`.
fn names(typed: &Conform, server: IpAddr) -> Result<Option<Arc<TesterNames>>, Failure> {
    let Some(listen) = typed.names.dns_listen else { return Ok(None) };
    if typed.role != TestedRole::Proxy {
        return Err(Failure::request("--dns-listen is of the role proxy"));
    }
    let name = &typed.names.dns_domain;
    if !matches!(domain(name), Ok((Host::Name(_), None))) {
        return Err(Failure::request(format!("--dns-domain `{name}` is no domain name")));
    }
    let names = TesterNames::open(listen, name, server);
    names.map(|names| Some(Arc::new(names))).map_err(Failure::failed)
}

/// The host and the port of a domain.
fn domain(name: &str) -> Result<(Host, Option<u16>), Failure> {
    let uri: Result<Uri, _> = format!("sip:{name}").parse();
    match uri.as_ref().map(Uri::as_sip) {
        Ok(Some(uri)) if uri.user.is_none() && uri.parameters.is_empty() => Ok((uri.host.clone(), uri.port)),
        _ => Err(Failure::request(format!(
            "--domain `{name}` is no domain: expected a host, and perhaps a port"
        ))),
    }
}

fn users(typed: &Conform, needed: usize) -> Result<Vec<TestUser>, Failure> {
    let common = typed.users.password_env.as_deref().map(password).transpose()?;
    if let Some(file) = &typed.users.users_from {
        let listed = listed_users(file).map_err(Failure::request)?.into_iter();
        let users: Vec<_> = listed
            .map(|user| TestUser { name: user.name, password: user.password.or_else(|| common.clone()) })
            .collect();
        if users.len() < needed {
            return Err(Failure::request(format!(
                "{} has {} users, and {needed} are needed: three for each job, and those of the load beside them",
                file.display(),
                users.len()
            )));
        }
        return Ok(users);
    }
    let names = &typed.users.names;
    let zeros = names.len() - names.trim_end_matches('0').len();
    let start = &names[..names.len() - zeros];
    if zeros == 0 || (needed - 1).to_string().len() > zeros {
        return Err(Failure::request(format!(
            "--names {names}: expected a name that ends with as many zeros as {needed} users need digits"
        )));
    }
    let named =
        |number: usize| TestUser { name: format!("{start}{number:0zeros$}"), password: common.clone() };
    Ok((0..needed).map(named).collect())
}
