//! The report of RFC 7502.

use netrig_sip_tester::capacity::{CapacitySearch, CapacityVerdict, Rfc7502Form, SearchSettings};

use super::server::Server;

#[test]
fn it_shows_every_line_of_the_form_and_leaves_open_what_is_not_known() {
    let mut search = CapacitySearch::new(SearchSettings::rfc7502("calls", 100.0)).unwrap();
    let verdict = Server { buffer: 0.0, ..Server::of(460.0) }.drive(&mut search);
    let mut form = Rfc7502Form::of(&search.journal());
    form.transport = Some("UDP".to_owned());
    form.is_media_relay = Some(false);
    form.media_streams = Some(0);
    form.session_establishment_rate = Some(Rfc7502Form::measured(&verdict));
    let total = search.journal().calls();
    let text = form.to_string();
    let expected = format!(
        "Test Setup Report (RFC 7502, section 5.1)
  SIP Transport Protocol                          = UDP
  DUT receives requests on one connection         = -
  DUT sends requests on one connection            = -
  Session Attempt Rate (attempts/s, initial \"r\")  = 100
  Baseline of the tester (section 6.1, sessions/s) = -
  Session Duration (s)                            = -
  Total Sessions Attempted                        = {total}
  Media Streams per Session                       = 0
  Associated Media Protocol                       = -
  Codec                                           = -
  Media Packet Size (audio only, bytes)           = -
  Establishment Threshold time (s)                = -
  TLS ciphersuite used                            = -
  IPsec profile used                              = -

Device Benchmarks for Session Setup (section 5.2)
  Session Establishment Rate, \"R\" (sessions/s)    = 458
  Is DUT acting as a media relay?                 = no

Device Benchmarks for Registrations (section 5.3)
  Registration Rate (registrations/s)             = -
  Re-registration Rate (registrations/s)          = -
  Notes                                           = -
"
    );
    assert_eq!(text, expected);
}

#[test]
fn what_is_no_number_is_not_shown_as_one() {
    assert_eq!(Rfc7502Form::measured(&CapacityVerdict::MoreThan { rate: 1500.0 }), "more than 1500");
    let unsettled = CapacityVerdict::Unsettled { passed: Some(10.0), failed: None, steps: 3 };
    assert_eq!(Rfc7502Form::measured(&unsettled), "not found");
    let sequential = Rfc7502Form::of(&CapacitySearch::new(super::settings()).unwrap().journal());
    assert_eq!(sequential.notes.as_deref(), Some("the rate was not found by the algorithm of section 4.10"));
}
