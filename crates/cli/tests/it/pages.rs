//! Checks of the pages under `docs/extend`: their code must be in the source tree, and their output must be that of
//! netrig.
//!
//! A block that names a file (`rust file=crates/…`) must occur in that file word for word. A block `toml name=x.toml`
//! is saved under that name. A block `console` has commands and their output. With `NETRIG_UPDATE_PAGES=1` the tests
//! write the present output.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A fenced block of a page.
struct Block<'a> {
    /// The word after the fence.
    language: &'a str,
    /// The text after the language: `file=…`, `name=…`.
    about: &'a str,
    text: &'a str,
}

impl<'a> Block<'a> {
    /// The value of `key=`.
    fn value(&self, key: &str) -> Option<&'a str> {
        self.about.strip_prefix(key)?.strip_prefix('=')
    }
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let parts: Vec<&str> = page.split("```").collect();
    assert!(!parts.len().is_multiple_of(2), "a fence is not closed");
    let fenced = parts.iter().skip(1).step_by(2);
    fenced
        .filter_map(|part| part.split_once('\n'))
        .map(|(head, text)| {
            let (language, about) = head.split_once(' ').unwrap_or((head, ""));
            Block { language, about, text }
        })
        .collect()
}

/// The text of a block `console`: its commands, each followed by its present output.
fn printed(commands: &str, folder: &Path) -> String {
    let mut out = String::new();
    for command in commands.lines().filter_map(|line| line.strip_prefix("$ netrig ")) {
        let output = Command::new(env!("CARGO_BIN_EXE_netrig"))
            .args(command.split(' '))
            .current_dir(folder)
            .output()
            .expect("netrig starts");
        let (told, failed) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{command}: {failed}");
        out += &format!("$ netrig {command}\n{}\n", told.trim_end());
    }
    out
}

/// Checks a page. Returns it with the present output, and the number of checked blocks.
fn checked(page: &str) -> (String, usize) {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let (mut now, mut looked_at) = (page.to_owned(), 0);
    for block in blocks(page) {
        if let Some(file) = block.value("file") {
            assert!(
                read(&root().join(file)).contains(block.text),
                "{file} does not have this:\n{}",
                block.text
            );
        } else if let Some(name) = block.value("name") {
            std::fs::write(folder.path().join(name), block.text).expect("the folder can be written");
        } else if block.language == "console" {
            let fresh = printed(block.text, folder.path());
            now = now.replace(&format!("```console\n{}```", block.text), &format!("```console\n{fresh}```"));
        } else {
            continue;
        }
        looked_at += 1;
    }
    (now, looked_at)
}

fn check(name: &str) {
    let path = root().join("docs/extend").join(name);
    let page = read(&path);
    let (now, looked_at) = checked(&page);
    assert!(looked_at >= 5, "{name}: {looked_at} blocks");
    if std::env::var_os("NETRIG_UPDATE_PAGES").is_some() {
        std::fs::write(&path, now).expect("the page can be written");
    } else {
        let other = page.lines().zip(now.lines()).find(|(shown, printed)| shown != printed);
        assert_eq!(other, None, "{name} shows (left) something else than netrig prints (right)");
        assert_eq!(page.lines().count(), now.lines().count(), "{name} shows another number of lines");
    }
}

#[test]
fn the_congestion_control_of_the_page_is_the_one_in_the_tree() {
    check("congestion-control.md");
}

#[test]
fn the_application_of_the_page_is_the_one_in_the_tree() {
    check("application.md");
}

#[test]
fn the_queue_of_the_page_is_the_one_in_the_tree() {
    check("queue.md");
}
