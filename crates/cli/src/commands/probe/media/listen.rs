//! `netrig probe listen`.

use std::process::ExitCode;

use netrig_agent::probe::receiver::Receiver;

use super::arguments::Listen;
use super::{failure, key};
use crate::failure::Failure;
use crate::interruption::until_interrupted;

pub fn listen(arguments: &Listen) -> Result<ExitCode, Failure> {
    let key = key(&arguments.key)?;
    if key.is_none() && !arguments.at.ip().is_loopback() {
        return Err(Failure::request(format!("{} can be reached by others: give --key", arguments.at)));
    }
    let receiver = Receiver::bind(arguments.at, key).map_err(failure)?;
    let stop = until_interrupted()?;
    eprintln!(
        "probes are expected at {} (TCP); Ctrl-C ends it",
        receiver.local_addr().map_err(Failure::failed)?
    );
    receiver.serve(&stop, &|peer, error| eprintln!("{peer}: {error}")).map_err(Failure::failed)?;
    Ok(ExitCode::SUCCESS)
}
