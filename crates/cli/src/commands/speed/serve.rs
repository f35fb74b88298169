//! `netrig speed serve`.

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use netrig_host::tls::Identity;
use netrig_host::{loopback_addresses, user_file};
use netrig_speed::admission::AdmissionLimits;
use netrig_speed::iperf3;
use netrig_speed::protocol::Keyring;
use netrig_speed::serve::{Server, ServerError, ServerOrder};

use super::arguments::Serve;
use crate::failure::{Failure, print_report};
use crate::interruption::until_interrupted;

pub fn serve(arguments: &Serve) -> Result<ExitCode, Failure> {
    let cancel = until_interrupted()?;
    let server = Server::open(order(arguments)?).map_err(failure)?;
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

fn order(arguments: &Serve) -> Result<ServerOrder, Failure> {
    let listen = if arguments.listen.is_empty() { loopback_addresses() } else { arguments.listen.clone() };
    let identity = arguments.certificate.as_ref().zip(arguments.certificate_key.as_ref());
    let identity = identity.map(|(certificate, key)| Identity::read(certificate, key)).transpose();
    let count = |limit: Option<NonZeroUsize>| limit.map(NonZeroUsize::get);
    let at = |port| listen.iter().map(|address| address.at(port)).collect();
    let iperf3_port = arguments.iperf3_port.or(arguments.open.then_some(iperf3::PORT));
    Ok(ServerOrder {
        listen: at(arguments.port),
        iperf3: iperf3_port.filter(|port| *port != arguments.port).map(at).unwrap_or_default(),
        keys: keys(arguments)?,
        open: arguments.open,
        origins: arguments.allow_origin.clone(),
        identity: identity.map_err(Failure::request)?,
        limits: AdmissionLimits {
            sessions: arguments.sessions,
            queue: arguments.queue,
            per_household: arguments.per_address,
            queue_per_household: arguments.queue_per_address,
            per_key: arguments.per_key,
            rate: arguments.max_rate,
            lasts: arguments.max_time,
            bytes: arguments.max_size.bytes(),
        },
        connections_per_address: count(arguments.connections.connections_per_address),
        connections_per_group: count(arguments.connections.connections_per_group),
    })
}

/// The keys that clients must have.
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
