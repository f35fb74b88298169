//! `netrig speed tune`: compares the settings of this host with what a path needs. It changes none.

mod path;
mod show;

use std::process::ExitCode;

use netrig_host::HostSettings;
use netrig_speed::protocol::PORT;
use netrig_speed::tune::{RateFrom, SYSCTLS, TunedPath, Tuning};

use super::arguments::Tune;
use crate::commands::probe::{Target, resolve};
use crate::failure::{Failure, print};

pub fn tune(arguments: &Tune) -> Result<ExitCode, Failure> {
    let (ipv4, ipv6) = (arguments.ipv4, arguments.ipv6);
    let target = arguments.target.as_ref().map(|host| Target { target: host.clone(), ipv4, ipv6 });
    let server = target.as_ref().map(|target| resolve(target, PORT)).transpose()?;
    let rate = arguments.rate.map(|rate| (rate, RateFrom::Told));
    let mut path =
        TunedPath { host: server.map(|server| server.ip()), round_trip: arguments.round_trip, rate };
    let mut unread = Vec::new();
    if let Some((target, server)) = target.zip(server) {
        if arguments.measure {
            let measured = path::measure(&target.target, server, arguments)?;
            path.round_trip = path.round_trip.or(measured.round_trip);
            path.rate = path.rate.or(measured.rate.map(|rate| (rate, RateFrom::Measured)));
        }
        if path.round_trip.is_none() {
            match path::round_trip(server) {
                Ok(round_trip) => path.round_trip = Some(round_trip),
                Err(why) => unread.push(format!("the round trip to {}: {why}", server.ip())),
            }
        }
    }
    let mut read = HostSettings::read(&SYSCTLS, path.host);
    read.unread.extend(unread);
    let tuning = Tuning::of(&read, path);
    if arguments.json {
        print(serde_json::to_string_pretty(&tuning).map_err(Failure::failed)?)?;
    } else {
        print(show::table(&tuning).trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}
