//! Tests with a thread that lacks capabilities, on a machine that supports testbeds.

use netrig_netns::{Testbed, TestbedError, left_behind, missing_requirements, try_requirements};
use netrig_test_support::skip_unless;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::common::{has_root, id, journals, namespaces, three_nodes, wiring};

/// If a capability is missing, it is reported before anything is made.
#[test]
fn whoever_lacks_a_capability_is_told_which_and_what_does_without() {
    skip_unless!(has_root());
    for (dropped, name) in [
        (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    ] {
        // A separate thread is used, because each thread has its own capabilities.
        let told = std::thread::spawn(move || {
            let own = capabilities(None).unwrap();
            set_capabilities(None, CapabilitySets { effective: own.effective - dropped, ..own }).unwrap();
            let (folder, journals) = journals();
            let id = id();
            let refused = Testbed::build(&journals, &id, wiring(&three_nodes())).err();
            assert_eq!(namespaces(id.as_str()), [""; 0]);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
            let Some(TestbedError::Incapable(missing_requirements)) = &refused else { panic!("{refused:?}") };
            assert_eq!(missing_requirements.len(), 1);
            refused.unwrap().to_string()
        });
        let told = told.join().unwrap();
        assert!(told.contains(name) && told.contains("--on sim"), "{told}");
    }
}

#[test]
fn a_machine_that_can_lacks_nothing_and_keeps_nothing_of_the_trial() {
    skip_unless!(has_root());
    assert_eq!((missing_requirements(), try_requirements()), (Vec::new(), Vec::new()));
    assert_eq!(namespaces("trial"), [""; 0]);
}

/// A search for remains creates no files, and needs no root rights if there are no remains.
#[test]
fn where_nothing_was_left_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("netrig");
    assert!(left_behind(&netrig_netns::Journals::at(&nowhere)).unwrap().is_empty());
    assert!(!nowhere.exists());
}
