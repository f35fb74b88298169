//! Two SCTP endpoints over a small network with known delays and losses.

mod any_packet;
mod corpus;
mod failover;
mod handshake;
mod hostile;
mod loss;
mod pair;
mod properties;
mod rules;
mod shutdown;
mod slow_reader;
mod table;
mod transfer;
mod wire;
