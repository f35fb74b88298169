//! Objects that existed before a testbed are neither changed nor removed.

use netrig_netns::{Testbed, TestbedError, TestbedId, left_behind};
use netrig_test_support::{has, skip_unless};

use super::common::{Foreign, has_root, id, journals, namespaces, three_nodes, wiring};

#[test]
fn a_foreign_namespace_of_the_same_name_stays_and_is_named() {
    skip_unless!(has_root() && has("ip"));
    let (folder, journals) = journals();
    let id = id();
    let foreign = Foreign::make(format!("netrig-{}-server", id.as_str()));
    let refused = Testbed::build(&journals, &id, wiring(&three_nodes())).err();
    let Some(TestbedError::Collision(path)) = refused else { panic!("{refused:?}") };
    assert!(path.ends_with(foreign.name()), "{path:?}");
    assert_eq!(namespaces(id.as_str()), [foreign.name()]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_testbed_that_is_up_keeps_its_identity() {
    skip_unless!(has_root());
    let (_folder, journals) = journals();
    let id = id();
    let testbed = Testbed::build(&journals, &id, wiring(&three_nodes())).unwrap();
    let second = Testbed::build(&journals, &id, wiring(&three_nodes())).err();
    assert!(matches!(second, Some(TestbedError::Collision(_))), "{second:?}");
    assert_eq!(namespaces(id.as_str()).len(), 4, "the first is as it was");
    drop(testbed);
}

#[test]
fn an_identity_is_small_letters_and_digits() {
    for id in ["", "a/b", "..", "a b", "A", "abcdefghijklmnopq", "a.router"] {
        assert!(TestbedId::new(id).is_err(), "{id}");
    }
    assert!(TestbedId::new("lab1").is_ok());
}

/// Processes are killed and file systems are unmounted according to a journal, so an invalid journal is not used.
#[test]
fn a_journal_that_cannot_be_understood_is_told_and_kept() {
    skip_unless!(has_root());
    for text in [
        "something else\n",
        "netrig-testbed 1\nnamespace ../../etc/passwd 4 5\n",
        "netrig-testbed 1\nprocess -1 5\n",
        "netrig-testbed 1\nnonsense\n",
    ] {
        let (folder, journals) = journals();
        let file = folder.path().join("x.journal");
        std::fs::write(&file, text).unwrap();
        // A valid journal beside it is still removed.
        std::fs::write(folder.path().join("y.journal"), "netrig-testbed 1\n").unwrap();
        let left = left_behind(&journals).unwrap();
        assert_eq!(left.iter().map(|left| left.id()).collect::<Vec<_>>(), ["x", "y"]);
        let told: Vec<_> = left.into_iter().map(|left| left.remove()).collect();
        assert!(matches!(told[..], [Err(TestbedError::Journal { .. }), Ok(())]), "{text:?}: {told:?}");
        assert!(file.exists() && !folder.path().join("y.journal").exists());
    }
}

/// The journal identifies a process by its process ID and its start time. A later process with the same ID is not
/// killed.
#[test]
fn a_process_that_only_has_the_number_lives_on() {
    skip_unless!(has_root());
    let (folder, journals) = journals();
    let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let text = format!("netrig-testbed 1\nowner 1 1\nprocess {} 12345\n", other.id());
    std::fs::write(folder.path().join("gone.journal"), text).unwrap();
    let mut left = left_behind(&journals).unwrap();
    let left = left.remove(0);
    assert_eq!((left.id(), left.owner(), left.processes()), ("gone", Some(1), Vec::new()));
    left.remove().unwrap();
    let alive = other.try_wait().unwrap().is_none();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(alive);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
