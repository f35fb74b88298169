//! Replays the corpora of messages that far ends, routers and other servers send to probes.

use netrig_test_support::corpus::{corpus, replay};

use crate::it::any_ftp_reply;
use crate::it::any_http;
use crate::it::any_icmp_error;
use crate::it::any_stamp_packet;

#[test]
fn stamp_packets_are_survived() {
    replay("stamp_packet", 20, 2000, any_stamp_packet::check);
}

#[test]
fn messages_about_packets_are_survived() {
    replay("icmp_error", 20, 2000, any_icmp_error::check);
}

#[test]
fn http_is_survived() {
    replay("http_head", 20, 20_000, any_http::check);
}

#[test]
fn ftp_replies_are_survived() {
    replay("ftp_reply", 20, 200, any_ftp_reply::check);
    // Each of these files has the replies of a correct server, which fit one of the four sessions.
    for (name, bytes) in corpus("ftp_reply").iter().filter(|(name, _)| name.contains("load")) {
        assert_eq!(any_ftp_reply::sessions(bytes), 1, "{name}");
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        any_stamp_packet::check(&bytes);
        any_icmp_error::check(&bytes);
        any_http::check(&bytes);
    }
}
