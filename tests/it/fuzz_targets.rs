//! Every fuzz target has all its parts.

use std::path::Path;

/// Each target has its code, a corpus, a dictionary, a line in `scripts/fuzz`, and a line in CONTRIBUTING.md.
#[test]
fn every_target_has_a_corpus_a_dictionary_and_its_lines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let (script, page) = (read("scripts/fuzz"), read("CONTRIBUTING.md"));
    let manifest = read("fuzz/Cargo.toml");
    let code =
        |line: &str| Some(line.strip_prefix("path = \"fuzz_targets/")?.strip_suffix(".rs\"")?.to_owned());
    let targets: Vec<String> = manifest.lines().filter_map(code).collect();
    assert_eq!(targets.len(), root.join("fuzz/fuzz_targets").read_dir().unwrap().count(), "{targets:?}");
    for target in targets {
        assert!(root.join(format!("fuzz/fuzz_targets/{target}.rs")).is_file(), "{target}");
        assert!(root.join(format!("fuzz/dictionaries/{target}.dict")).is_file(), "{target}");
        let inputs = root.join(format!("fuzz/corpus/{target}")).read_dir().unwrap().count();
        assert!(inputs >= 20, "{target}: {inputs} inputs");
        assert!(script.contains(&format!("\"{target} ")), "{target} in scripts/fuzz");
        assert!(page.contains(&format!("| `{target}` |")), "{target} in CONTRIBUTING.md");
    }
}
