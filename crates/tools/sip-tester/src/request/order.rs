//! Builds the order of a load from the settings of the load and of the tester.

use std::net::SocketAddr;
use std::path::Path;

use netrig_core::setting::{AboveZero, SettingsTable as _};
use netrig_core::{Duration, settings};
use netrig_sip::header::Transport;
use netrig_sip::index::Thresholds;
use netrig_sip::load::{ArrivalRate, Arrivals, Directory, OwnMessage, PACE, Pace, Plan, moments_of};
use netrig_sip::settings::{Called, LoadSettings, ScenarioName, SettingError};
use netrig_sip_net::dns::{Found, Location};
use netrig_sip_net::listed_users;
use netrig_sip_net::load::LoadOrder;
use serde::Deserialize;

use super::carrier::carrier;
use super::error::RequestError;
use super::location::{LocatedServer, look_up, read_text};
use super::server_text::{check_consent, server_address, split_server};
use super::tester::TesterSettings;

/// The rate of a load whose settings have no pace, per second.
const RATE: ArrivalRate = ArrivalRate(10.0);

/// The duration of a load whose settings have none, and whose arrivals have no end.
const LASTS: Duration = Duration::from_secs(10);

settings! {
    /// When the attempts of a load start, and which are measured.
    #[derive(Clone, Debug, Default)]
    pub struct LoadPeriod {
        /// Attempts of each user in an hour (busy hour call attempts), instead of a rate for all users.
        bhca: Option<f64> as AboveZero { heading: ARRIVALS, group: "pace" };
        /// How long attempts start. Started attempts are completed. By default as long as the stages or the trace last,
        /// or 10 s.
        lasts: Option<Duration> as AboveZero { flag: "for", heading: ARRIVALS };
        /// Attempts that start in this first part of the time are not measured.
        warm_up: Duration { heading: ARRIVALS };
    }
}

/// The heading of a help text.
const ARRIVALS: &str = "Arrivals";

/// A load on a server.
#[derive(Clone, Debug)]
pub struct LoadRequest {
    /// The settings of a load in an experiment file.
    pub load: LoadSettings,
    /// The settings that experiment files do not have.
    pub tester: TesterSettings,
}

impl LoadRequest {
    /// The scenario, or the mix of scenarios, as text: `call`, `call=70 %,busy=30 %`.
    pub fn scenario(&self) -> String {
        ["scenario", "mix"].map(|key| self.load.words(key).concat()).concat()
    }

    /// When attempts start. If the settings have no pace, 10 attempts start per second.
    ///
    /// # Errors
    /// If the settings contradict each other, or the file of a trace cannot be read.
    pub fn pace(&self) -> Result<Pace, RequestError> {
        Ok(self.paced()?.draft(LASTS)?.pace)
    }

    /// The order of the load.
    ///
    /// # Errors
    /// If a setting is invalid, a file cannot be read, or the server is not found or must not be tested.
    pub fn order(&self, period: &LoadPeriod) -> Result<LoadOrder, RequestError> {
        let load = match period.bhca {
            // The rate follows from the number of users.
            Some(_) => LoadSettings { rate: Some(RATE), ..self.load.clone() },
            None => self.paced()?,
        };
        let own = match load.draft(LASTS)?.pace {
            Pace::Open(arrivals) => arrivals.lasts(),
            Pace::Closed(_) => None,
        };
        let lasts = period.lasts.or(own).unwrap_or(LASTS);
        let mut order = self.order_of(&load, (lasts, period.warm_up), false)?;
        if let Some(attempts) = period.bhca {
            let rate = attempts * f64::from(order.plan.users) / 3600.0;
            order.plan.pace = Pace::Open(Arrivals::at(rate, load.arrivals));
            order.plan.check().map_err(|error| {
                refused(if error.field == PACE { "bhca" } else { error.field }, error.why)
            })?;
        }
        Ok(order)
    }

    /// The order of a step of a capacity search. Attempts start at this rate (1/s) for this time (s); at most `most`
    /// attempts start. If users register, the number of users is limited to the number that the rate needs.
    ///
    /// # Errors
    /// The errors of [`LoadRequest::order`].
    pub fn step(&self, rate: f64, lasts_s: f64, most: Option<u64>) -> Result<LoadOrder, RequestError> {
        let load = LoadSettings { rate: Some(ArrivalRate(rate)), count: most, ..self.load.clone() };
        self.order_of(&load, (Duration::from_secs_f64(lasts_s), Duration::ZERO), true)
    }

    /// The settings of the load, with a pace: a trace file is read, and without any pace the default rate is used.
    fn paced(&self) -> Result<LoadSettings, RequestError> {
        let mut load = self.load.clone();
        if let Some(file) = load.trace.take() {
            let file = Path::new(&file);
            load.moments = moments_of(&read_text(file)?)
                .map_err(|error| RequestError::File { file: file.to_owned(), why: format!(": {error}") })?;
        }
        if !load.has_pace() {
            load.rate = Some(RATE);
        }
        load.check_load()?;
        Ok(load)
    }

    fn order_of(
        &self,
        load: &LoadSettings,
        (lasts, warm_up): (Duration, Duration),
        is_step: bool,
    ) -> Result<LoadOrder, RequestError> {
        let tester = &self.tester;
        let Aim { transport, host, address, others, location, located, may_test } = self.aim(load)?;
        let carrier = carrier(tester, load.connections, transport, (&host, address.ip()))?;
        let mut plan = load.draft(lasts)?;
        plan.warm_up = warm_up;
        plan.seed = tester.seed;
        plan.longest_ringing = tester.longest_ringing;
        // If a name was looked up, it is the default domain of the users.
        plan.domain = plan.domain.or_else(|| location.as_ref().map(|_| host.clone()));
        plan.thresholds = Thresholds {
            statistic: tester.statistic,
            success: tester.success.get(),
            ..Thresholds::default()
        };
        if let Some(file) = &tester.messages {
            plan.options.messages = own_messages(file)?;
        }
        self.populate(&mut plan, load, is_step)?;
        load.check_plan(&plan)?;
        let users = plan.users;
        let own = LoadOrder::new(address, plan);
        Ok(LoadOrder {
            carrier,
            local: tester.local,
            local_port: tester.local_port.unwrap_or(0),
            may_test,
            others,
            location,
            located,
            reconnecting: tester.reconnect.unwrap_or_default(),
            ends_without_server: tester.stop_on_loss_of_server,
            shards: tester.cpus.unwrap_or(own.shards).min(u16::try_from(users).unwrap_or(u16::MAX)),
            punctual: tester.punctual,
            ..own
        })
    }

    /// The servers of the load: the target and its fail-over servers, or the servers to which the name of the target
    /// resolves.
    fn aim(&self, load: &LoadSettings) -> Result<Aim, RequestError> {
        let tester = &self.tester;
        if let Some(LocatedServer { location, found, may_test }) = look_up(tester)?
            && let Some((first, servers)) = found.servers()
        {
            if !may_test {
                check_consent(first.address, &location.uri.host.to_string(), None)?;
            }
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
        let (transport, host) = split_server(&tester.target)?;
        let address = server_address(host, transport)?;
        let other = |text: &String| {
            let (own, host) = split_server(text)?;
            if own != transport {
                let target = tester.target.clone();
                return Err(RequestError::OtherTransport { other: text.clone(), target });
            }
            server_address(host, transport)
        };
        Ok(Aim {
            transport,
            host: host.to_owned(),
            address,
            others: load.fail_over.iter().map(other).collect::<Result<_, _>>()?,
            location: None,
            located: None,
            may_test: check_consent(address, host, tester.i_may_test.as_deref())?,
        })
    }

    /// Sets the number, names and passwords of the users of a plan.
    fn populate(&self, plan: &mut Plan, load: &LoadSettings, is_step: bool) -> Result<(), RequestError> {
        let tester = &self.tester;
        let password = match &tester.password_env {
            Some(name) => {
                std::env::var(name).map_err(|error| RequestError::Password { name: name.clone(), error })?
            }
            None => String::new(),
        };
        if let Some(file) = &tester.users_from {
            let has_peers = load.callee == Called::Own;
            (plan.names, plan.passwords, plan.users) = listed(file, &password, has_peers)?;
            return Ok(());
        }
        plan.names = pattern(&tester.names)?;
        plan.passwords = Directory::Fixed(password.into_bytes().into());
        let wanted = || plan.wanted_users().map_err(SettingError::from);
        plan.users = match load.users {
            Some(users) if is_step && plan.work.registers() => wanted()?.min(users),
            Some(users) => users,
            None => wanted()?,
        };
        Ok(())
    }
}

/// The transport and the servers of a load.
struct Aim {
    transport: Transport,
    /// The host as the user wrote it, or the name that was looked up.
    host: String,
    address: SocketAddr,
    others: Vec<SocketAddr>,
    location: Option<Location>,
    located: Option<Found>,
    may_test: bool,
}

fn refused(field: &'static str, why: impl Into<String>) -> RequestError {
    SettingError { field, why: why.into() }.into()
}

/// These settings. If they have no scenario or mix, the scenario is plain calls.
pub fn with_scenario(load: LoadSettings) -> LoadSettings {
    let usual = load.mix.is_empty().then_some(ScenarioName::Call);
    LoadSettings { scenario: load.scenario.or(usual), ..load }
}

/// The changed messages in a file.
fn own_messages(file: &Path) -> Result<Vec<OwnMessage>, RequestError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct MessagesFile {
        #[serde(default)]
        messages: Vec<OwnMessage>,
    }
    let wrong = |why: String| RequestError::File { file: file.to_owned(), why: format!(": {why}") };
    let MessagesFile { messages } =
        toml::from_str(&read_text(file)?).map_err(|error| wrong(error.to_string()))?;
    OwnMessage::check_all(&messages).map_err(wrong)?;
    if messages.is_empty() {
        return Err(wrong("it has no message: expected a `[[messages]]` with its `step`".to_owned()));
    }
    Ok(messages)
}

/// The names of all users, counted from a first name that ends with zeros, such as `user000000`.
fn pattern(name: &str) -> Result<Directory, RequestError> {
    let prefix = name.trim_end_matches('0');
    let digits = name.len() - prefix.len();
    if !(1..=10).contains(&digits) {
        let why = format!("`{name}` is no first name: expected one that ends with zeros, as user000000");
        return Err(refused("names", why));
    }
    Ok(Directory::pattern(prefix, digits as u8))
}

/// The names and passwords of the users in a file, and the number of users without peers. Users without a password have
/// the common one.
fn listed(file: &Path, common: &str, has_peers: bool) -> Result<(Directory, Directory, u32), RequestError> {
    let all = listed_users(file)?;
    let users = if has_peers { all.len() / 2 } else { all.len() };
    if users == 0 {
        let why = " has one user: the peer of a caller is another one".to_owned();
        return Err(RequestError::File { file: file.to_owned(), why });
    }
    let names = Directory::list(all.iter().map(|user| user.name.as_str()));
    let passwords = Directory::list(all.iter().map(|user| user.password.as_deref().unwrap_or(common)));
    Ok((names, passwords, u32::try_from(users).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use netrig_host::HostAddress;

    use super::*;

    fn request(words: &[(&str, &str)]) -> LoadRequest {
        let mut request = LoadRequest { load: LoadSettings::default(), tester: TesterSettings::default() };
        for (key, word) in words {
            request.load.set(key, &[word]).unwrap();
            request.tester.set(key, &[word]).unwrap();
        }
        request.load = with_scenario(request.load);
        request
    }

    #[test]
    fn the_servers_of_a_load_and_its_own_address_keep_their_interfaces() {
        let at = |text: &str, port| text.parse::<HostAddress>().unwrap().at(port);
        let order = request(&[
            ("target", "udp:[fe80::2%lo]:5070"),
            ("fail_over", "udp:fe80::3%lo"),
            ("local", "fe80::1%lo"),
        ]);
        let order = order.order(&LoadPeriod::default()).unwrap();
        assert_eq!((order.target, order.others), (at("fe80::2%lo", 5070), vec![at("fe80::3%lo", 5060)]));
        assert_eq!(order.local, Some("fe80::1%lo".parse().unwrap()));
        let unscoped = request(&[("target", "tcp:[fe80::2]:5070")]).order(&LoadPeriod::default());
        assert!(unscoped.unwrap_err().to_string().contains("needs an interface"));
        let unscoped = TesterSettings::default().set("local", &["fe80::1"]).unwrap_err().to_string();
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
