//! Resuming an interrupted search.

use netrig_sip_tester::capacity::{
    CapacitySearch, Mode, ResumeError, Rfc7502, SearchJournal, SearchSettings, StepOutcome,
};

use super::server::Server;
use super::settings;

/// A server whose behaviour depends on the rate alone.
fn server() -> Server {
    Server::of(1000.0)
}

#[test]
fn it_goes_on_as_if_nothing_had_happened() {
    let mut rfc = SearchSettings::rfc7502("calls", 100.0);
    rfc.mode = Mode::Rfc7502(Rfc7502 { sessions: 200, increase: 0.2 });
    for all in [settings(), rfc] {
        let mut whole = CapacitySearch::new(all.clone()).unwrap();
        let tester = |_, step| if step == 2 { vec!["late".to_owned()] } else { Vec::new() };
        let verdict = Server { tester: Box::new(tester), ..server() }.drive(&mut whole);
        let journal = whole.journal();
        assert!(journal.steps().any(|step| step.decision.outcome == StepOutcome::Invalid));
        // The search is interrupted after each entry from the third on, including the one of the second attempt.
        for kept in 3..=journal.entries.len() {
            let mut part = journal.clone();
            part.entries.truncate(kept);
            let mut search = CapacitySearch::resume(all.clone(), part).unwrap();
            assert_eq!(server().drive(&mut search), verdict, "after {kept}");
            assert_eq!(search.journal().entries, journal.entries, "after {kept}");
        }
    }
}

#[test]
fn a_journal_is_text_and_back() {
    let mut search = CapacitySearch::new(settings()).unwrap();
    Server { refuses: Box::new(|rate| rate / 1e7), ..server() }.drive(&mut search);
    let journal = search.journal();
    let text = serde_json::to_string(&journal).unwrap();
    let read: SearchJournal = serde_json::from_str(&text).unwrap();
    assert_eq!(read.entries.len(), journal.entries.len());
    let mut search = CapacitySearch::resume(settings(), read).unwrap();
    let end = CapacitySearch::resume(settings(), journal).unwrap().next();
    assert_eq!(search.next(), end);
    search.drained();
    assert_eq!(search.next(), end, "nothing is left to be done");
}

#[test]
fn other_settings_or_other_steps_are_refused() {
    let mut search = CapacitySearch::new(settings()).unwrap();
    server().drive(&mut search);
    let journal = search.journal();
    let mut other = settings();
    other.start = 200.0;
    assert_eq!(
        CapacitySearch::resume(other.clone(), journal.clone()).unwrap_err(),
        ResumeError::OtherSettings
    );
    let mixed = SearchJournal { settings: other.clone(), entries: journal.entries };
    let error = CapacitySearch::resume(other, mixed).unwrap_err();
    assert_eq!(error, ResumeError::OtherOrder { entry: 1 });
    assert_eq!(error.to_string(), "entry 1 of the journal differs from the search's order");
}
