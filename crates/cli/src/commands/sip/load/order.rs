//! From what was typed to an order.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use netrig_agent::sip::load::{
    Arrivals, CalleeOrder, Carrier, Connecting, Gaps, LoadOrder, LoadTls, Pace, Work, is_public,
};
use netrig_agent::sip::server_name;
use netrig_agent::sip::tls::{self, Identity, Trust};
use netrig_core::Duration;
use netrig_sip::Host;
use netrig_sip::header::Transport;
use netrig_sip::index::{Statistic, Thresholds};
use netrig_sip::load::{Directory, Scenario};
use netrig_sip::transaction::Timing;
use netrig_traffic::SpanDistribution;

use super::arguments::{
    ArrivalArguments, CalleeName, Connections, ConnectionsName, Load, Population, ScenarioName, StatisticName,
};
use crate::commands::probe::{Target, resolve};
use crate::failure::Failure;

/// What is offered if nothing else is said, 1/s.
const RATE: f64 = 10.0;

/// Users where the scenario needs no number of them.
const USERS: u32 = 1000;

/// What was typed, as the agent takes it.
pub fn order(arguments: &Load) -> Result<LoadOrder, Failure> {
    let (transport, host) = target(&arguments.target)?;
    let named = Target { target: host.to_owned(), ipv4: false, ipv6: false };
    let address = resolve(&named, transport.default_port())?;
    let carrier = carrier(&arguments.connections, transport, host, address.ip())?;
    let may_test = match &arguments.tester.i_may_test {
        None => false,
        Some(named) if host == named || host.rsplit_once(':').is_some_and(|(host, _)| host == named) => true,
        Some(named) => {
            return Err(Failure::request(format!(
                "--i-may-test names `{named}`, and the target is `{host}`"
            )));
        }
    };
    if is_public(address.ip()) && !may_test {
        return Err(Failure::request(format!(
            "{} is a public address: if you may test it, say so with --i-may-test HOST",
            address.ip()
        )));
    }
    let work = work(arguments);
    let pace = pace(&arguments.arrivals)?;
    let lasts = arguments.arrivals.lasts;
    let (names, passwords, users) = users(arguments, work, &pace)?;
    let call = &arguments.call;
    let timing = Timing { t1: call.t1, ..Timing::default() };
    let own = LoadOrder::new(address, work, pace, lasts);
    let tester = &arguments.tester;
    Ok(LoadOrder {
        carrier,
        local: tester.local,
        local_port: tester.local_port,
        may_test,
        count: arguments.arrivals.count,
        warm_up: arguments.arrivals.warm_up,
        users,
        names,
        passwords,
        domain: arguments.population.domain.clone(),
        expires: u32::try_from(arguments.population.expires.as_secs_f64().ceil() as u64).unwrap_or(u32::MAX),
        callee: match call.callee {
            CalleeName::None => CalleeOrder::Foreign,
            CalleeName::Own => CalleeOrder::Own { ringing: call.ring },
        },
        description: usize::try_from(call.sdp.bytes()).unwrap_or(usize::MAX).min(60_000),
        timing: Timing { t2: timing.t2.max(timing.t1), ..timing },
        calls: tester.most_calls,
        shards: tester.cpus.unwrap_or(own.shards).min(u16::try_from(users).unwrap_or(u16::MAX)),
        seed: arguments.arrivals.seed,
        thresholds: thresholds(arguments),
        ..own
    })
}

fn work(arguments: &Load) -> Work {
    let (hold, patience) = (arguments.call.hold, arguments.call.patience);
    let scenario = match arguments.scenario {
        ScenarioName::Register => return Work::Register,
        ScenarioName::ReRegister => return Work::ReRegister,
        ScenarioName::Unregister => return Work::Unregister,
        ScenarioName::Call => Scenario::Call { hold },
        ScenarioName::Cancel => Scenario::Cancel { after: patience },
        ScenarioName::Busy => Scenario::Busy,
        ScenarioName::NoAnswer => Scenario::NoAnswer { patience },
        ScenarioName::Redirect => Scenario::Redirect,
        ScenarioName::Options => Scenario::Options,
        ScenarioName::Message => Scenario::Message,
    };
    Work::Call(scenario)
}

fn thresholds(arguments: &Load) -> Thresholds {
    let statistic = match arguments.judge.statistic {
        StatisticName::Mean => Statistic::Mean,
        StatisticName::P95 => Statistic::P95,
        StatisticName::Each => Statistic::Each,
    };
    Thresholds { statistic, success: arguments.judge.success.get(), ..Thresholds::default() }
}

/// `udp:HOST:PORT` as its transport and the rest.
fn target(text: &str) -> Result<(Transport, &str), Failure> {
    match text.split_once(':') {
        Some(("udp", host)) => Ok((Transport::Udp, host)),
        Some(("tcp", host)) => Ok((Transport::Tcp, host)),
        Some(("tls", host)) => Ok((Transport::Tls, host)),
        Some(("sctp", _)) => Err(Failure::request(
            "a load is carried over UDP, TCP or TLS: SCTP needs a kernel that has it".to_owned(),
        )),
        _ => Err(Failure::request(format!(
            "`{text}` is no server: expected its transport first, as udp:192.0.2.1:5060"
        ))),
    }
}

/// What the load is carried by.
fn carrier(
    typed: &Connections,
    transport: Transport,
    host: &str,
    address: IpAddr,
) -> Result<Carrier, Failure> {
    let refuse = |flag: &str, needs: &str| {
        Err(Failure::request(format!("--{flag} is of loads over {needs}, not over {}", transport.name())))
    };
    let in_tls = [("authorities", &typed.authorities), ("certificate", &typed.certificate)];
    if let Some((flag, _)) = in_tls.iter().find(|(_, file)| file.is_some() && transport != Transport::Tls) {
        return refuse(flag, "TLS");
    }
    let connecting = match typed.connections {
        Some(_) if transport == Transport::Udp => return refuse("connections", "TCP and TLS"),
        None | Some(ConnectionsName::One) => Connecting::One,
        Some(ConnectionsName::PerUser) => Connecting::PerUser,
        Some(ConnectionsName::PerAttempt) => Connecting::PerAttempt,
    };
    match transport {
        Transport::Udp => Ok(Carrier::Udp),
        Transport::Tls => Ok(Carrier::Tls(connecting, in_tls_with(typed, host, address)?)),
        _ => Ok(Carrier::Tcp(connecting)),
    }
}

fn in_tls_with(typed: &Connections, host: &str, address: IpAddr) -> Result<LoadTls, Failure> {
    let trust = match &typed.authorities {
        Some(file) => Trust::Authorities(tls::authorities(file).map_err(Failure::request)?),
        None => Trust::Anyone,
    };
    let identity = match (&typed.certificate, &typed.private_key) {
        (Some(certificate), Some(key)) => Some(Identity::read(certificate, key).map_err(Failure::request)?),
        _ => None,
    };
    let client = tls::client(&trust, identity.as_ref()).map_err(Failure::request)?;
    let name = name_of(host, address);
    let own = match identity {
        Some(own) => own,
        None => Identity::self_signed(vec!["localhost".to_owned()]).map_err(Failure::request)?,
    };
    Ok(LoadTls {
        client,
        name: server_name(&name)
            .ok_or_else(|| Failure::request(format!("no certificate can be for `{host}`")))?,
        server: Some(tls::server(&own, None).map_err(Failure::request)?),
    })
}

/// What a certificate has to be for: the name that was typed, or the address.
fn name_of(host: &str, address: IpAddr) -> Host {
    if host.starts_with('[') || host.parse::<IpAddr>().is_ok() || host.parse::<SocketAddr>().is_ok() {
        return Host::Address(address);
    }
    Host::Name(host.rsplit_once(':').map_or(host, |(name, _)| name).to_owned())
}

fn pace(typed: &ArrivalArguments) -> Result<Pace, Failure> {
    let gaps = typed.arrivals.0;
    if let Some(interval) = typed.interval {
        return match gaps {
            Gaps::Poisson => Ok(Pace::Closed(SpanDistribution::Exponential(interval))),
            Gaps::Constant => Ok(Pace::Closed(SpanDistribution::Constant(interval))),
            Gaps::Uniform => {
                Ok(Pace::Closed(SpanDistribution::Uniform { min: Duration::ZERO, max: interval * 2 }))
            }
            Gaps::Burst(_) => Err(Failure::request("the users of a closed loop do not come in bursts")),
        };
    }
    if let Some(path) = &typed.trace {
        return Ok(Pace::Open(Arrivals::Trace(trace(path)?)));
    }
    if !typed.stage.is_empty() {
        let stages = typed.stage.iter().map(|stage| stage.0).collect();
        return Ok(Pace::Open(Arrivals::Rate { gaps, stages }));
    }
    Ok(Pace::Open(Arrivals::at(typed.rate.map_or(RATE, |rate| rate.0), gaps)))
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::request(format!("cannot read {}: {error}", path.display())))
}

/// The moments of a trace: a time in seconds on each line, none before the one above it.
fn trace(path: &Path) -> Result<Vec<Duration>, Failure> {
    let mut moments: Vec<Duration> = Vec::new();
    for (line, text) in (1..).zip(read(path)?.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        let wrong = |why: &str| Failure::request(format!("{}:{line}: {why}", path.display()));
        let seconds: f64 = text.trim().parse().map_err(|_| wrong("expected a time in seconds"))?;
        if !seconds.is_finite() || seconds < 0.0 {
            return Err(wrong("expected a time of zero or more"));
        }
        let at = Duration::from_secs_f64(seconds);
        if moments.last().is_some_and(|last| *last > at) {
            return Err(wrong("it is before the one above it"));
        }
        moments.push(at);
    }
    Ok(moments)
}

/// Names and passwords, and how many users there are.
fn users(arguments: &Load, work: Work, pace: &Pace) -> Result<(Directory, Directory, u32), Failure> {
    let population = &arguments.population;
    let password = password(population)?;
    if let Some(path) = &population.users_from {
        return listed(path, password, arguments.call.callee == CalleeName::Own);
    }
    let names = pattern(&population.names)?;
    let users = population.users.unwrap_or_else(|| wanted(arguments, work, pace));
    Ok((names, Directory::Fixed(password.unwrap_or_default().into_bytes().into()), users))
}

/// As many as will be wanted, with a margin for chance.
fn wanted(arguments: &Load, work: Work, pace: &Pace) -> u32 {
    match pace {
        Pace::Open(arrivals) if work.is_once() => {
            let expected = arrivals.expected(arguments.arrivals.lasts);
            let count = arguments.arrivals.count.unwrap_or(u64::MAX) as f64;
            (expected + 5.0 * expected.sqrt()).ceil().min(count).max(1.0) as u32
        }
        _ => USERS,
    }
}

fn password(population: &Population) -> Result<Option<String>, Failure> {
    let Some(name) = &population.password_env else { return Ok(None) };
    let found = std::env::var(name);
    found.map(Some).map_err(|error| Failure::request(format!("the password in `{name}`: {error}")))
}

/// `user000000`: what comes before the zeros, and how many there are.
fn pattern(name: &str) -> Result<Directory, Failure> {
    let prefix = name.trim_end_matches('0');
    let digits = name.len() - prefix.len();
    if !(1..=10).contains(&digits) {
        return Err(Failure::request(format!(
            "`{name}` is no first name: expected one that ends with zeros, as user000000"
        )));
    }
    Ok(Directory::pattern(prefix, digits as u8))
}

/// Users line by line: a name and, behind a comma, a password.
fn listed(
    path: &Path,
    password: Option<String>,
    has_peers: bool,
) -> Result<(Directory, Directory, u32), Failure> {
    let text = read(path)?;
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let common = password.unwrap_or_default();
    let split = |line: &'_ &str| match line.split_once(',') {
        Some((name, password)) => (name.trim().to_owned(), password.trim().to_owned()),
        None => ((*line).to_owned(), common.clone()),
    };
    let all: Vec<(String, String)> = lines.iter().map(split).collect();
    let users = if has_peers { all.len() / 2 } else { all.len() };
    if users == 0 {
        return Err(Failure::request(format!("{} has no users", path.display())));
    }
    let names = Directory::list(all.iter().map(|(name, _)| name.as_str()));
    let passwords = Directory::list(all.iter().map(|(_, password)| password.as_str()));
    Ok((names, passwords, u32::try_from(users).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_name_ends_with_zeros() {
        let name = |typed: &str, user| {
            pattern(typed)
                .map(|names| String::from_utf8(names.of(user).as_bytes().into()).unwrap_or_default())
        };
        assert_eq!(name("user000000", 17).unwrap(), "user000017");
        assert_eq!(name("0", 17).unwrap(), "17");
        assert!(name("user", 0).is_err());
    }

    #[test]
    fn a_target_names_its_transport() {
        assert_eq!(target("udp:[::1]:5060").unwrap(), (Transport::Udp, "[::1]:5060"));
        assert_eq!(target("tls:example.com").unwrap(), (Transport::Tls, "example.com"));
        assert!(target("sctp:127.0.0.1").is_err() && target("127.0.0.1:5060").is_err());
    }

    #[test]
    fn a_certificate_is_for_what_was_typed() {
        let address = "192.0.2.1".parse().unwrap();
        for typed in ["192.0.2.1", "192.0.2.1:5061", "[::1]", "[::1]:5061"] {
            assert_eq!(name_of(typed, address), Host::Address(address), "{typed}");
        }
        for typed in ["example.com", "example.com:5061"] {
            assert_eq!(name_of(typed, address), Host::Name("example.com".to_owned()));
        }
    }
}
