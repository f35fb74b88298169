//! `netrig speed serve`.

use std::fmt::Display;
use std::process::ExitCode;

use netrig_host::user_file;
use netrig_speed::protocol::Keyring;
use netrig_speed::serve::{Server, ServerError, ServerOrder};

use super::arguments::Serve;
use crate::failure::{Failure, print_report};
use crate::interruption::until_interrupted;

pub fn serve(arguments: &Serve) -> Result<ExitCode, Failure> {
    let cancel = until_interrupted()?;
    let order = ServerOrder {
        settings: arguments.server.settings.clone(),
        limits: arguments.limits.settings,
        connections: arguments.connections.settings,
        keys: keys(arguments)?,
    };
    let server = Server::open(order).map_err(failure)?;
    if let Some(shortage) = server.shortage() {
        eprintln!("warning: {shortage}");
    }
    for address in server.addresses() {
        eprintln!("measurements are expected at {address} (TCP and UDP); Ctrl-C ends it");
    }
    server.serve(&cancel).map_err(failure)?;
    let tally = server.tally();
    print_report(arguments.json, &tally.document(), || tally.text())?;
    Ok(ExitCode::SUCCESS)
}

/// The keys of the clients.
fn keys(arguments: &Serve) -> Result<Keyring, Failure> {
    let Some(file) = &arguments.keys else { return Ok(arguments.key.read()?.into()) };
    let refuse = |why: &dyn Display| Failure::request(format!("the keys {}: {why}", file.display()));
    let octets = user_file::read_secret(file).map_err(|error| refuse(&error))?;
    let text = String::from_utf8(octets).map_err(|error| refuse(&error))?;
    Keyring::read(&text).map_err(|error| refuse(&error))
}

fn failure(error: ServerError) -> Failure {
    match error {
        ServerError::Open(_) | ServerError::Iperf3(_) | ServerError::Tls(_) => Failure::request(error),
        ServerError::Listen { .. } | ServerError::Kernel { .. } => Failure::failed(error),
    }
}
