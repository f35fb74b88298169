//! `netrig speed serve`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use netrig_agent::tls::Identity;
use netrig_speed::admission::Limits;
use netrig_speed::serve::{Server, ServerError, ServerOrder, Tally};
use serde_json::json;

use super::arguments::Serve;
use crate::commands::probe::read_key;
use crate::failure::{Failure, print};
use crate::interruption::until_interrupted;

pub fn serve(arguments: &Serve) -> Result<ExitCode, Failure> {
    let cancel = until_interrupted()?;
    let server = Server::open(order(arguments)?).map_err(failure)?;
    for address in server.addresses() {
        eprintln!("measurements are expected at {address} (TCP and UDP); Ctrl-C ends it");
    }
    server.serve(&cancel).map_err(failure)?;
    let tally = server.tally();
    if arguments.json {
        print(serde_json::to_string_pretty(&as_json(tally)).map_err(Failure::failed)?)?;
    } else {
        print(as_text(tally).trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn order(arguments: &Serve) -> Result<ServerOrder, Failure> {
    let listen = if arguments.listen.is_empty() { loopback() } else { arguments.listen.clone() };
    let identity = arguments.certificate.as_ref().zip(arguments.certificate_key.as_ref());
    let identity = identity.map(|(certificate, key)| Identity::read(certificate, key)).transpose();
    Ok(ServerOrder {
        listen: listen.into_iter().map(|address| SocketAddr::new(address, arguments.port)).collect(),
        key: read_key(&arguments.key)?,
        open: arguments.open,
        identity: identity.map_err(Failure::request)?,
        limits: Limits {
            sessions: arguments.sessions.max(1),
            queue: arguments.queue,
            per_household: arguments.per_address.max(1),
            rate: arguments.max_rate,
            lasts: arguments.max_time,
            bytes: arguments.max_size.bytes(),
            ..Limits::default()
        },
    })
}

/// The addresses of the loopback interface that this host has.
fn loopback() -> Vec<IpAddr> {
    let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let has_v6 = UdpSocket::bind((v6, 0)).is_ok();
    [Ipv4Addr::LOCALHOST.into()].into_iter().chain(has_v6.then_some(v6)).collect()
}

fn failure(error: ServerError) -> Failure {
    match error {
        ServerError::Open(_) | ServerError::Tls(_) => Failure::request(error),
        ServerError::Listen { .. } | ServerError::Kernel { .. } => Failure::failed(error),
    }
}

fn as_json(tally: &Tally) -> serde_json::Value {
    let [received, sent] = tally.bytes.each_ref().map(|bytes| bytes.load(Ordering::Relaxed));
    json!({
        "sessions": tally.sessions.load(Ordering::Relaxed), "phases": tally.phases.load(Ordering::Relaxed),
        "bytes_received": received, "bytes_sent": sent, "failures": tally.failures(),
    })
}

fn as_text(tally: &Tally) -> String {
    let mut text = format!(
        "{} sessions with {} phases were served\n",
        tally.sessions.load(Ordering::Relaxed),
        tally.phases.load(Ordering::Relaxed)
    );
    for (why, count) in tally.failures() {
        text += &format!("{count} connections turned away or broken off: {why}\n");
    }
    text
}
