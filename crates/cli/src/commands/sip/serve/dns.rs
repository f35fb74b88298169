//! `netrig sip serve dns`.

use std::process::ExitCode;
use std::sync::Arc;

use netrig_core::Seeds;
use netrig_sip::header::Transport;
use netrig_sip::location::Zone;
use netrig_sip_net::ListeningPoint;
use netrig_sip_net::dns::{NameServer, NameServerOrder, NameTally};
use serde::Serialize;

use super::arguments::Dns;
use crate::failure::{Failure, print};
use crate::input::read;
use crate::interruption::until_interrupted;

/// The document of `--json`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    server: &'a str,
    listens: &'a [String],
    #[serde(flatten)]
    tally: NameTally,
}

/// Answers from a table until it is told to end.
pub fn serve(typed: &Dns) -> Result<ExitCode, Failure> {
    let listen = points(typed)?;
    let zone = Zone::parse(&read(&typed.zone)?);
    let zone = zone.map_err(|error| Failure::request(format!("{}: {error}", typed.zone.display())))?;
    let server = NameServer::open(NameServerOrder {
        listen,
        zone: Arc::new(zone.into()),
        proven: Vec::new(),
        delay: typed.delay.delay.clone(),
        loss: typed.loss.get(),
        slots: typed.slots.of(NameServerOrder::SLOTS),
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
    if typed.json {
        let document = Document { server: "dns", listens: &listens, tally };
        print(serde_json::to_string_pretty(&document).map_err(Failure::failed)?)?;
    } else {
        let NameTally { over_udp, over_tcp, answered, lost, ignored, refused } = tally;
        print(format!(
            "{over_udp} messages over UDP, {over_tcp} over TCP; {answered} answered, {lost} lost on purpose, {ignored} ignored; \
             connections refused: {refused}"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where to listen: over UDP and TCP, as every server of the DNS does (RFC 7766), if nothing was said.
fn points(typed: &Dns) -> Result<Vec<ListeningPoint>, Failure> {
    let usual = |text: &str| text.parse().map_err(Failure::request);
    let listen = match typed.listen.as_slice() {
        [] => {
            ["udp:127.0.0.1:5353", "tcp:127.0.0.1:5353"].into_iter().map(usual).collect::<Result<_, _>>()?
        }
        listen => listen.to_vec(),
    };
    if let Some(point) =
        listen.iter().find(|point| !matches!(point.transport, Transport::Udp | Transport::Tcp))
    {
        return Err(Failure::request(format!("{point}: the DNS is answered over udp and tcp")));
    }
    let outside = listen.iter().find(|point| !point.address.ip().is_loopback());
    match outside {
        Some(point) if !typed.open => {
            Err(Failure::request(format!("{point} is reached over a network: answer anybody with --open")))
        }
        _ => Ok(listen),
    }
}
