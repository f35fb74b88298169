//! Warnings about values that are valid separately but do not fit together.

use std::collections::{BTreeMap, BTreeSet};

use netrig_core::Direction;
use netrig_transport::sctp;

use super::definition::Definition;
use super::diagnostic::Diagnostic;
use crate::{Carrier, Flow, Scenario};

/// Examines points and reports values that do not fit together. A value that does not fit at some points is reported
/// for the first of them.
#[derive(Default)]
pub(super) struct Misfits {
    /// The misfits, by the position of the value in the file.
    found: BTreeMap<Vec<String>, Misfit>,
    /// Groups of flows, each with a requested number of streams that an association provides.
    opened: BTreeSet<(String, u16)>,
    /// Groups of flows, each with a requested number of streams that an association does not provide. The value is the
    /// transport and its number of streams.
    shared: BTreeMap<(String, u16), (String, u16)>,
}

struct Misfit {
    message: String,
    help: String,
}

impl Misfits {
    pub(super) fn look_at(&mut self, scenario: &Scenario) {
        for flow in &scenario.flows {
            if let Carrier::Sctp(config) = &flow.carrier {
                self.look_at_streams(flow, config);
                self.look_at_messages(flow, config);
                self.look_at_chunks(flow, config);
            }
        }
        for link in &scenario.links {
            for direction in [Direction::Forward, Direction::Backward] {
                let loss = link.towards(direction).loss();
                if loss.is_some_and(|loss| loss.mean_loss() >= 1.0) {
                    let end = usize::from(direction == Direction::Backward);
                    let from = &scenario.nodes[link.ends[end]].name;
                    self.found(
                        &["link", &link.group, "loss"],
                        format!("the link loses every packet from `{from}`: nothing arrives, and no connection opens"),
                        "a link that is down for a time is an [[event]] with `down_for`",
                    );
                }
            }
        }
    }

    /// A flow may use several transports. If one of them opens the number of streams that the application requests,
    /// others with fewer streams are not a fault.
    fn look_at_streams(&mut self, flow: &Flow, config: &sctp::Config) {
        let (requested, opens) = ((flow.group.clone(), flow.application.streams()), config.streams);
        if requested.1 <= opens {
            self.opened.insert(requested);
        } else {
            self.shared.entry(requested).or_insert_with(|| (flow.transport.clone(), opens));
        }
    }

    fn report_streams(&mut self) {
        let (shared, opened) = (std::mem::take(&mut self.shared), std::mem::take(&mut self.opened));
        for (requested, (name, opens)) in
            shared.into_iter().filter(|(requested, _)| !opened.contains(requested))
        {
            let (group, wanted) = requested;
            self.found(
                &["flow", &group, "application", "streams"],
                format!("{wanted} streams, but an association of transport `{name}` opens {opens}: they share these"),
                format!("`streams = {wanted}` in [transport.{name}] opens as many"),
            );
        }
    }

    fn look_at_messages(&mut self, flow: &Flow, config: &sctp::Config) {
        let (given, cut) = (flow.application.message(), config.message_size);
        let (message, path): (_, &[&str]) = match given {
            _ if config.join_sends && cut.bytes() > 0 => {
                (cut, &["transport", &flow.transport, "message_size"])
            }
            Some(given) if cut.bytes() == 0 || given <= cut => {
                (given, &["flow", &flow.group, "application", "message"])
            }
            _ => return,
        };
        let buffer = config.receive_buffer;
        if message > buffer {
            let name = &flow.transport;
            self.found(
                path,
                format!("a message of {message} does not fit the receive buffer of {buffer}: it is delivered in parts"),
                format!("it arrives whole if `receive_buffer` of [transport.{name}] is no smaller"),
            );
        }
    }

    fn look_at_chunks(&mut self, flow: &Flow, config: &sctp::Config) {
        let (limit, room) = (config.max_chunk, config.room_of_a_packet());
        // The largest possible size means that there is no limit.
        if limit > room && limit < sctp::LARGEST_CHUNK {
            self.found(
                &["transport", &flow.transport, "max_chunk"],
                format!(
                    "chunks of {} B do not fit a packet: an `mtu` of {} B leaves {} B, to which larger messages are cut",
                    limit.bytes(),
                    config.mtu.bytes(),
                    room.bytes()
                ),
                "without `max_chunk` a chunk takes what the MTU leaves",
            );
        }
    }

    fn found(&mut self, path: &[&str], message: String, help: impl Into<String>) {
        let path = path.iter().map(|&step| step.to_owned()).collect();
        self.found.entry(path).or_insert_with(|| Misfit { message, help: help.into() });
    }

    /// A warning for every misfit, at its position.
    pub(super) fn finish(mut self, definition: &Definition) -> impl Iterator<Item = Diagnostic> {
        self.report_streams();
        self.found.into_iter().map(|(path, Misfit { message, help })| {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            Diagnostic::warning(definition.root.at(&path).span.clone(), message).help(help)
        })
    }
}
