//! Replays the packets of the fuzz corpus.

use netrig_test_support::corpus::replay;

use super::any_packet;

#[test]
fn every_sctp_packet_of_the_corpus_is_survived() {
    replay("sctp_packet", 100, 0, any_packet::check);
}
