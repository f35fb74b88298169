//! Names of interfaces. Linux takes up to 15 bytes; a link of an experiment may have 64.

/// IFNAMSIZ of Linux's `if.h` without the NUL byte.
const LONGEST: usize = 15;

/// Names that a kernel keeps for itself: the loopback interface, and the folders beside those of interfaces in
/// `/proc/sys/net/ipv4/conf`.
const TAKEN: [&str; 3] = ["lo", "all", "default"];

/// The name in a node's namespace of its interface to the `n`-th link.
pub(super) fn of_node(link: &str, n: usize) -> String {
    fit(link, n, LONGEST)
}

/// The name in the router's namespace of the interface to one end of the `n`-th link: `a` for the first.
pub(super) fn of_router(link: &str, n: usize, end: usize) -> String {
    format!("{}.{}", fit(link, n, LONGEST - 2), ["a", "b"][end])
}

/// The link's name, or if it is too long or taken as much of it as fits before `~` and the link's number. No name in an
/// experiment has a `~`, and no two links have the same number: so no two have the same name.
fn fit(link: &str, n: usize, longest: usize) -> String {
    if link.len() <= longest && !TAKEN.contains(&link) {
        return link.to_owned();
    }
    let number = format!("~{n}");
    // Names in an experiment are ASCII: letters, digits, `_`, `-`, and `#` before a number.
    let kept: String = link.chars().take(longest - number.len()).collect();
    kept + &number
}
