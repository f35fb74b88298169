use super::*;

fn write(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn entries_are_read_as_they_are_written() {
    let entries = [
        TestbedEntry::Owner(ProcessId { pid: 17, start: 4711 }),
        TestbedEntry::Namespace {
            name: "netrig-ab-client#3".into(),
            inode: NamespaceId { device: 4, number: 4_026_532_288 },
        },
        TestbedEntry::Interface { namespace: "netrig-ab.router".into(), name: "x234567890123~1".into() },
        TestbedEntry::Process(ProcessId { pid: 18, start: u64::MAX }),
        TestbedEntry::Folder("/tmp/of tests/netrig-ab".into()),
        TestbedEntry::Group("/sys/fs/cgroup/cpu/netrig-ab.client#3".into()),
    ];
    for entry in entries {
        assert_eq!(TestbedEntry::read(&entry.to_string()), Some(entry));
    }
}

/// A line is refused if its folder cannot be a program folder or a control group, so no other folder is removed.
#[test]
fn other_folders_are_never_named() {
    for path in ["/", "/tmp", "netrig-ab", "/tmp/../netrig-ab", "/tmp/netrig-ab/x"] {
        assert_eq!(TestbedEntry::read(&format!("folder {path}")), None, "{path}");
        assert_eq!(TestbedEntry::read(&format!("group {path}")), None, "{path}");
    }
}

/// An incomplete last line is ignored, because its object has not been made.
#[test]
fn a_line_without_an_end_says_nothing() {
    let (_folder, path) = write("ab.journal", "netrig-testbed 1\nowner 17 4711\nnamespace netrig-ab-serv");
    let journal = orphan(path).unwrap().unwrap();
    assert_eq!(journal.entries(), [TestbedEntry::Owner(ProcessId { pid: 17, start: 4711 })]);
    assert_eq!(journal.id(), "ab");
    // The owner was killed before the first line was complete.
    let (_folder, path) = write("ab.journal", "netrig-te");
    assert!(orphan(path).unwrap().unwrap().entries().is_empty());
}

#[test]
fn a_journal_is_of_one_who_lives_as_long_as_it_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let journals = Journals::at(folder.path().join("new/netrig"));
    let mut journal = journals.start("ab").unwrap();
    journal.record([TestbedEntry::Process(ProcessId { pid: 18, start: 5 })]).unwrap();
    assert!(journals.orphans().unwrap().is_empty());
    assert!(matches!(journals.start("ab"), Err(TestbedError::Collision(_))));
    drop(journal);
    let orphans = journals.orphans().unwrap();
    assert_eq!(orphans.len(), 1);
    assert_eq!(orphans[0].entries(), [TestbedEntry::Process(ProcessId { pid: 18, start: 5 })]);
    // The journal is now locked by the process that found it.
    assert!(journals.orphans().unwrap().is_empty());
    orphans[0].close().unwrap();
    drop(orphans);
    assert!(journals.orphans().unwrap().is_empty());
    assert!(journals.start("ab").is_ok());
}

#[test]
fn other_files_are_left_alone() {
    let (folder, path) = write("notes.txt", "mine");
    assert!(Journals::at(folder.path()).orphans().unwrap().is_empty());
    assert!(path.exists());
    assert!(Journals::at(folder.path().join("nowhere")).orphans().unwrap().is_empty());
}
