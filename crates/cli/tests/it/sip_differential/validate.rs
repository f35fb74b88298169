//! Runs all published scenarios in a folder with SIPp and with netrig, and counts those that netrig executes among
//! those that SIPp executes.
//!
//! `NETRIG_SCENARIOS` names the folder.

use std::fs;
use std::path::{Path, PathBuf};

use netrig_test_support::skip_unless;

use super::{DifferentialRun, Repetitions};
use crate::common::machine::has;

fn files_below(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, ending, files);
        } else if path.extension().is_some_and(|own| own == ending) {
            files.push(path);
        }
    }
}

#[test]
#[ignore = "needs scenarios that others have published, some minutes"]
fn published_scenarios_run_as_in_sipp() {
    let Some(folder) = std::env::var_os("NETRIG_SCENARIOS") else {
        eprintln!("skipped: NETRIG_SCENARIOS names no folder");
        return;
    };
    skip_unless!(has("sipp"));
    let mut files = Vec::new();
    files_below(Path::new(&folder), "xml", &mut files);
    files.sort();
    let (mut by_sipp, mut by_netrig, mut same) = (0, 0, 0);
    for file in &files {
        let name = file.strip_prefix(&folder).unwrap().display().to_string();
        let text = String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
        if !text.contains("<scenario") {
            continue;
        }
        let mut flags = Vec::new();
        if text.contains("[field") {
            let mut lists = Vec::new();
            files_below(file.parent().unwrap(), "csv", &mut lists);
            lists.sort();
            let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
            let fits = |list: &&PathBuf| {
                let list = list.file_stem().unwrap().to_string_lossy().into_owned();
                stem.split('_').any(|word| list.starts_with(word))
            };
            if let Some(list) = lists.iter().find(fits).or(lists.first()) {
                flags = vec!["-inf".to_owned(), list.to_str().unwrap().to_owned()];
            }
        }
        // Keywords that the projects of these scenarios set in their tests.
        for (word, value) in [("to", "16174000000"), ("from", "15083084809")] {
            if text.contains(&format!("[{word}]")) {
                flags.extend(["-key", word, value].map(str::to_owned));
            }
        }
        let Some(pair) = DifferentialRun::new(file, &flags, None, Repetitions::AsWritten) else {
            println!("{name}: has no other side");
            continue;
        };
        let (theirs, their_messages) = pair.in_sipp();
        let (ours, our_messages) = pair.in_netrig();
        let is_same = their_messages == our_messages;
        let told = |has: bool| if has { "succeeds" } else { "fails" };
        println!("{name}: SIPp {}, netrig {}", told(theirs.has_succeeded), told(ours.has_succeeded));
        if theirs.has_succeeded {
            by_sipp += 1;
            by_netrig += usize::from(ours.has_succeeded);
            same += usize::from(is_same && ours.has_succeeded);
            if !ours.has_succeeded {
                println!("  netrig: {}", ours.told.trim().replace('\n', "\n  "));
            } else if !is_same {
                let differs = their_messages.iter().zip(&our_messages).find(|(theirs, ours)| theirs != ours);
                println!("  differs ({} and {}): {differs:#?}", their_messages.len(), our_messages.len());
            }
        } else if std::env::var_os("NETRIG_SHOWS_SIPP").is_some() {
            println!("  SIPp: {}", theirs.told.trim().lines().take(6).collect::<Vec<_>>().join("\n  "));
        }
    }
    println!(
        "SIPp carries out {by_sipp} of {}; of them netrig {by_netrig}, with the same messages {same}",
        files.len()
    );
    assert!(by_sipp > 0 && by_netrig * 10 >= by_sipp * 9);
}
