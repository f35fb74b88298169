//! Layers of the modules of this crate: a module imports only modules of its own layer and of lower ones.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test of the source reads it")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The layers from bottom to top. Modules of one layer may import each other.
const LAYERS: [&[&str]; 15] = [
    &["digits", "deadline", "slab", "slab_index", "torture", "wheel"],
    &["error", "grammar", "host", "method", "status", "uri", "header", "message", "framer"],
    &["sdp"],
    &["multipart"],
    &["fault"],
    &["digest"],
    &["transaction"],
    &["dialog"],
    &["server"],
    &["location"],
    &["manual"],
    &["record"],
    &["index"],
    &["load", "settings"],
    &["user_list", "partitioning"],
];

fn layer(module: &str) -> usize {
    // Types at the root of the crate (`crate::Message`) belong to the layer of messages.
    let module = if module.starts_with(char::is_uppercase) { "message" } else { module };
    let found = LAYERS.iter().position(|layer| layer.contains(&module));
    found.unwrap_or_else(|| panic!("{module} has its layer"))
}

/// The source of a module as one text, without comments and without tests at the end of a file.
fn source(path: &Path) -> String {
    if path.is_dir() {
        let inside = fs::read_dir(path).unwrap().map(|entry| source(&entry.unwrap().path()));
        return inside.collect();
    }
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .fold(String::new(), |all, line| all + line + "\n")
}

/// The names of modules after `crate::`, also in braces.
fn imports(source: &str) -> BTreeSet<String> {
    let name = |path: &str| {
        path.split([':', ' ', ',', ';', '(', ')', '<', '>', '\n']).next().unwrap_or_default().to_owned()
    };
    let mut found = BTreeSet::new();
    for path in source.split("crate::").skip(1) {
        match path.strip_prefix('{') {
            Some(group) => {
                found.extend(group[..group.find('}').unwrap()].split(',').map(|path| name(path.trim())))
            }
            None => {
                found.insert(name(path));
            }
        }
    }
    found.remove("");
    found
}

#[test]
fn each_layer_stands_on_those_below() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if module == "lib" {
            continue;
        }
        for import in imports(&source(&path)) {
            if layer(&import) > layer(&module) {
                wrong.push(format!("{module} imports {import}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
