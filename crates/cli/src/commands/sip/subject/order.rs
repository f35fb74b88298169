//! From what was typed to an order.

use std::net::SocketAddr;
use std::path::Path;

use netrig_core::Duration;
use netrig_host::{is_public, resolve_target};
use netrig_sip::header::Transport;
use netrig_sip::index::{DelayStatistic, Thresholds};
use netrig_sip::load::{CalleeOrder, Directory, OwnMessage, Pace, Plan, Portion, Work};
use netrig_sip::settings::{DrawnTime, ScenarioName, Spans};
use netrig_sip::transaction::Timing;
use netrig_sip_net::dns::{Found, Location};
use netrig_sip_net::listed_users;
use netrig_sip_net::load::{LoadOrder, Reconnecting};
use serde::Deserialize;

use super::arguments::{CalleeName, LargeRequestsName, Population, StatisticName, Subject};
use super::carrier::{carrier, may_test, target};
use super::location::{Looked, look};
use crate::failure::Failure;
use crate::input::read;

/// How long and how often users begin.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// So long.
    pub lasts: Duration,
    /// So often at most.
    pub count: Option<u64>,
    /// What begins in the first so much of it is not measured.
    pub warm_up: Duration,
    /// Of the arrivals.
    pub seed: u64,
    /// It is one of several at different rates: those who register are as many as its rate needs, and no more.
    pub is_step: bool,
}

/// What was typed, as the agent takes it: users begin at this pace.
pub fn order_of(subject: &Subject, pace: Pace, span: Span) -> Result<LoadOrder, Failure> {
    let Aim { transport, host, address, others, location, located, may_test } = aim(subject, span.seed)?;
    let carrier = carrier(&subject.connections, transport, &host, address.ip())?;
    if is_public(address.ip()) && !may_test {
        return Err(Failure::request(format!(
            "{} is a public address: if you may test it, say so with --i-may-test HOST",
            address.ip()
        )));
    }
    let work = work(subject);
    let (call, tester) = (&subject.call, &subject.tester);
    if call.t2.is_some_and(|t2| t2 < call.t1) {
        return Err(Failure::request("--t2 must not be below --t1"));
    }
    let mut plan = Plan {
        count: span.count,
        warm_up: span.warm_up,
        // Users are of the domain that is looked for.
        domain: subject.population.domain.clone().or_else(|| location.as_ref().map(|_| host.clone())),
        expires: expires(subject),
        mix: mix(subject),
        hold: DrawnTime(call.hold.clone()).drawn(),
        contacts: call.contacts,
        provisionals: call.provisionals,
        session_expires: call.session_expires.map(whole_seconds),
        callee: match call.callee {
            CalleeName::Server => CalleeOrder::Foreign,
            CalleeName::Own => CalleeOrder::Own { ringing: call.ring },
        },
        longest_ringing: call.longest_ringing,
        description: call.sdp.to_usize(),
        messages: call.messages.as_deref().map_or(Ok(Vec::new()), own_messages)?,
        follows_redirects: call.follow_redirects,
        retries: call.retries,
        sends_large_over_tcp: call.large_requests == LargeRequestsName::Tcp,
        timing: Timing::of(call.t1, call.t2, call.t4),
        calls: tester.most_calls,
        seed: span.seed,
        thresholds: thresholds(subject),
        ..Plan::new(work, pace, span.lasts)
    };
    populate(&mut plan, subject, span.is_step)?;
    let users = plan.users;
    let own = LoadOrder::new(address, plan);
    Ok(LoadOrder {
        carrier,
        local: tester.local,
        local_port: tester.local_port,
        may_test,
        others,
        location,
        located,
        reconnecting: subject.connections.reconnect.map_or_else(Reconnecting::default, |typed| typed.0),
        ends_without_server: subject.stop_on_loss_of_server,
        shards: tester.cpus.unwrap_or(own.shards).min(u16::try_from(users).unwrap_or(u16::MAX)),
        punctual: tester.punctual,
        ..own
    })
}

/// Where a load goes.
struct Aim {
    transport: Transport,
    /// What was typed of it, or the name that was looked for.
    host: String,
    address: SocketAddr,
    others: Vec<SocketAddr>,
    location: Option<Location>,
    located: Option<Found>,
    may_test: bool,
}

/// What was typed as the target, or what it was found to be.
fn aim(subject: &Subject, seed: u64) -> Result<Aim, Failure> {
    if let Some(Looked { location, found, may_test }) = look(subject, seed)?
        && let Some((first, servers)) = found.servers()
    {
        return Ok(Aim {
            transport: first.transport,
            host: location.uri.host.to_string(),
            address: first.address,
            others: servers.into_iter().skip(1).collect(),
            location: Some(location),
            located: Some(found),
            may_test,
        });
    }
    let (transport, host) = target(&subject.target)?;
    Ok(Aim {
        transport,
        host: host.to_owned(),
        address: address(host, transport)?,
        others: others(subject, transport)?,
        location: None,
        located: None,
        may_test: may_test(subject.tester.i_may_test.as_deref(), host)?,
    })
}

/// The servers that take over.
fn others(subject: &Subject, transport: Transport) -> Result<Vec<SocketAddr>, Failure> {
    let other = |typed: &String| {
        let (own, host) = target(typed)?;
        if own != transport {
            return Err(Failure::request(format!("`{typed}` is not of the transport of {}", subject.target)));
        }
        address(host, transport)
    };
    subject.fail_over.iter().map(other).collect()
}

/// The address of a host. A name that nobody knows says nothing of a server: the request is wrong.
pub fn address(host: &str, transport: Transport) -> Result<SocketAddr, Failure> {
    resolve_target(host, None, transport.default_port()).map_err(Failure::request)
}

/// The scenario, or the mix of them, as it was typed.
pub fn scenario(subject: &Subject) -> String {
    match &subject.mix {
        None => subject.scenario.to_string(),
        Some(mix) => {
            let part = |(scenario, share): &(ScenarioName, f64)| format!("{scenario}={}%", share * 100.0);
            mix.0.iter().map(part).collect::<Vec<_>>().join(",")
        }
    }
}

/// What all users do, or most of them.
pub fn work(subject: &Subject) -> Work {
    let most = subject.mix.iter().flat_map(|mix| &mix.0).max_by(|one, other| one.1.total_cmp(&other.1));
    work_of(most.map_or(subject.scenario, |(scenario, _)| *scenario), subject)
}

fn work_of(scenario: ScenarioName, subject: &Subject) -> Work {
    let (hold, patience) = (subject.call.hold.mean(), subject.call.patience);
    scenario.work(Spans { hold, patience, expires: expires(subject) })
}

/// For how long is registered and subscribed, s.
fn expires(subject: &Subject) -> u32 {
    whole_seconds(subject.population.expires)
}

fn whole_seconds(span: Duration) -> u32 {
    u32::try_from(span.as_secs_f64().ceil() as u64).unwrap_or(u32::MAX)
}

/// What users do where they do several things.
fn mix(subject: &Subject) -> Vec<Portion> {
    let portions = subject.mix.iter().flat_map(|mix| &mix.0);
    portions.map(|(scenario, share)| Portion { work: work_of(*scenario, subject), share: *share }).collect()
}

pub fn thresholds(subject: &Subject) -> Thresholds {
    let statistic = match subject.judge.statistic {
        StatisticName::Mean => DelayStatistic::Mean,
        StatisticName::P95 => DelayStatistic::P95,
        StatisticName::Each => DelayStatistic::Each,
    };
    Thresholds { statistic, success: subject.judge.success.get(), ..Thresholds::default() }
}

/// The messages of a file that are the user's own.
fn own_messages(path: &Path) -> Result<Vec<OwnMessage>, Failure> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct MessagesFile {
        #[serde(default)]
        messages: Vec<OwnMessage>,
    }
    let wrong = |why: String| Failure::request(format!("{}: {why}", path.display()));
    let file: MessagesFile = toml::from_str(&read(path)?).map_err(|error| wrong(error.to_string()))?;
    OwnMessage::check_all(&file.messages).map_err(wrong)?;
    if file.messages.is_empty() {
        return Err(wrong("it has no message: expected a `[[messages]]` with its `step`".to_owned()));
    }
    Ok(file.messages)
}

/// Gives a plan its users: their names and passwords, and how many there are.
fn populate(plan: &mut Plan, subject: &Subject, is_step: bool) -> Result<(), Failure> {
    let population = &subject.population;
    let password = password(population)?;
    if let Some(path) = &population.users_from {
        let is_own = subject.call.callee == CalleeName::Own;
        (plan.names, plan.passwords, plan.users) = listed(path, password, is_own)?;
        return Ok(());
    }
    plan.names = pattern(&population.names)?;
    plan.passwords = Directory::Fixed(password.unwrap_or_default().into_bytes().into());
    // A step of a search with registrations takes as many as its rate needs.
    let follows = is_step && plan.work.registers();
    plan.users = match population.users {
        Some(users) if follows => plan.wanted_users().map_err(Failure::request)?.min(users),
        Some(users) => users,
        None => plan.wanted_users().map_err(Failure::request)?,
    };
    Ok(())
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

/// Users of a file. Those without a password have the common one.
fn listed(
    path: &Path,
    password: Option<String>,
    has_peers: bool,
) -> Result<(Directory, Directory, u32), Failure> {
    let all = listed_users(path).map_err(Failure::request)?;
    let common = password.unwrap_or_default();
    let users = if has_peers { all.len() / 2 } else { all.len() };
    if users == 0 {
        return Err(Failure::request(format!(
            "{} has one user: a peer of `--callee own` is another one",
            path.display()
        )));
    }
    let names = Directory::list(all.iter().map(|user| user.name.as_str()));
    let passwords = Directory::list(all.iter().map(|user| user.password.as_deref().unwrap_or(&common)));
    Ok((names, passwords, u32::try_from(users).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use netrig_host::HostAddress;
    use netrig_sip::load::{Arrivals, Gaps};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        subject: Subject,
    }

    #[test]
    fn the_servers_of_a_load_and_its_own_address_keep_their_interfaces() {
        let typed = |words: &[&str]| Line::try_parse_from(std::iter::once(&"load").chain(words));
        let ordered = |words: &[&str]| {
            let pace = Pace::Open(Arrivals::at(1.0, Gaps::Constant));
            let lasts = Duration::from_secs(1);
            let span = Span { lasts, count: None, warm_up: Duration::ZERO, seed: 1, is_step: false };
            order_of(&typed(words).unwrap().subject, pace, span)
        };
        let at = |text: &str, port| text.parse::<HostAddress>().unwrap().at(port);
        let more = ["--fail-over", "udp:fe80::3%lo", "--local", "fe80::1%lo"];
        let order = ordered(&[&["udp:[fe80::2%lo]:5070"][..], &more].concat()).unwrap();
        assert_eq!((order.target, order.others), (at("fe80::2%lo", 5070), vec![at("fe80::3%lo", 5060)]));
        assert_eq!(order.local, Some("fe80::1%lo".parse().unwrap()));
        match ordered(&["tcp:[fe80::2]:5070"]) {
            Err(Failure::Request(why)) => assert!(why.contains("needs an interface"), "{why}"),
            other => panic!("{other:?}"),
        }
        let unscoped = typed(&["udp:127.0.0.1", "--local", "fe80::1"]).unwrap_err().to_string();
        assert!(unscoped.contains("needs an interface"), "{unscoped}");
    }

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
}
