//! `netrig speed tune`: compares the settings of this host with those that a path needs. It changes no settings.

use std::process::ExitCode;

use netrig_host::HostSettings;
use netrig_speed::measure::{measure_quickly, quick_round_trip};
use netrig_speed::protocol::PORT;
use netrig_speed::tune::{RateFrom, SYSCTLS, TunedPath, Tuning};

use super::arguments::Tune;
use super::measure::{call_order, failure};
use crate::failure::{Failure, print_report};
use crate::interruption::until_interrupted;

pub fn tune(arguments: &Tune) -> Result<ExitCode, Failure> {
    let target = arguments.target.as_deref();
    let server = target.map(|target| arguments.version.resolve(target, PORT)).transpose()?;
    let rate = arguments.rate.map(|rate| (rate, RateFrom::Told));
    let mut path =
        TunedPath { host: server.map(|server| server.ip()), round_trip: arguments.round_trip, rate };
    let mut unread = Vec::new();
    if let Some((target, server)) = target.zip(server) {
        if arguments.measure {
            let order = call_order(target, server, &arguments.key, None)?;
            let measured = measure_quickly(order, &*until_interrupted()?).map_err(failure)?;
            path.round_trip = path.round_trip.or(measured.round_trip);
            path.rate = path.rate.or(measured.rate.map(|rate| (rate, RateFrom::Measured)));
        }
        if path.round_trip.is_none() {
            match quick_round_trip(server) {
                Ok(round_trip) => path.round_trip = Some(round_trip),
                Err(why) => unread.push(format!("the round trip to {}: {why}", server.ip())),
            }
        }
    }
    let mut read = HostSettings::read(&SYSCTLS, path.host);
    read.unread.extend(unread);
    let tuning = Tuning::of(&read, path);
    print_report(arguments.json, &tuning, || tuning.text())?;
    Ok(ExitCode::SUCCESS)
}
