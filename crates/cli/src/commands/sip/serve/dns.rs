//! `netrig sip serve dns`.

use std::process::ExitCode;
use std::sync::Arc;

use netrig_core::Seeds;
use netrig_sip::header::Transport;
use netrig_sip::location::Zone;
use netrig_sip_net::ListeningPoint;
use netrig_sip_net::dns::{NameServer, NameServerOrder};
use netrig_sip_net::server::ServerDocument;

use super::arguments::Dns;
use crate::failure::{Failure, print_report};
use crate::input::read;
use crate::interruption::until_interrupted;

/// Answers DNS queries from a table until the server is stopped.
pub fn serve(typed: &Dns) -> Result<ExitCode, Failure> {
    let listen = points(typed)?;
    let zone = Zone::parse(&read(&typed.zone)?);
    let zone = zone.map_err(|error| Failure::request(format!("{}: {error}", typed.zone.display())))?;
    let server = NameServer::open(NameServerOrder {
        listen,
        zone: Arc::new(zone.into()),
        proven: Vec::new(),
        delay: typed.delay.clone(),
        loss: typed.loss.get(),
        slots: typed.slots.settings.of(NameServerOrder::SLOTS),
        seeds: Seeds::new(typed.seed),
    });
    let server = server.map_err(Failure::failed)?;
    if let Some(shortage) = server.shortage() {
        eprintln!("warning: {shortage}");
    }
    let listens: Vec<String> = server.listens().iter().map(ToString::to_string).collect();
    let stop = until_interrupted()?;
    eprintln!("ready: dns at {}", listens.join(", "));
    let tally = server.serve(typed.lasts, &stop).map_err(Failure::failed)?;
    let document = ServerDocument { server: "dns", listens: &listens, tally: &tally, messages: None };
    print_report(typed.json, &document, || tally.text())?;
    Ok(ExitCode::SUCCESS)
}

/// The listening points. By default the server listens over UDP and TCP, as RFC 7766 requires of every DNS server.
fn points(typed: &Dns) -> Result<Vec<ListeningPoint>, Failure> {
    let listen = ListeningPoint::or_usual(&typed.listen, 5353);
    if let Some(point) =
        listen.iter().find(|point| !matches!(point.transport, Transport::Udp | Transport::Tcp))
    {
        return Err(Failure::request(format!("{point}: the DNS is answered over udp and tcp")));
    }
    match listen.iter().find(|point| point.is_open_to_network()) {
        Some(point) if !typed.open => {
            Err(Failure::request(format!("{point} is reached over a network: answer anybody with --open")))
        }
        _ => Ok(listen),
    }
}
